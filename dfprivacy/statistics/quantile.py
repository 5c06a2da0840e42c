"""Quantiles: one value-count table, then private selections from it, by rank.

Forecasts know errors in ranks, never in values: a selection of rate r from N candidates is more
than k ranks off with probability at most N exp(-r k), r counted a rank; among values that are
spread evenly with exp(-r k) at most (docs/explain.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.quantile import (
    COUNT_SHARE as SPLIT_SHARE,
)
from dfprivacy.estimators.quantile import (
    INNER,
    outer_rows,
    rankable_rows,
    relative_score,
    select_quantiles,
)
from dfprivacy.exact import quantile_fraction
from dfprivacy.forecast.forecast import (
    SIZES,
    Circumstances,
    Forecast,
    HalfWidths,
    Reach,
    by_size,
    halving,
    reaching,
)
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, SignificantBits
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.selection import PermuteAndFlip, Selection
from dfprivacy.release.answers import Chosen
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    Answered,
    Bins,
    ColumnPart,
    Grouping,
    MeasuredTable,
    blanked,
    noisy_rows,
)

QUANTILE_METHODS = ("selection", "inverse")


class _Ranked(Statistic):
    """What is selected by the ranks of the values."""

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The quantiles, exactly."""
        raise NotImplementedError

    @property
    def halve(self) -> tuple[str, ...]:
        """More rows."""
        return ("double the number of rows (for the error as a share of the rows)",)

    def part(self, name: str, *, grouped: bool) -> Any:
        """Return what selects it: by ranks, or by inverse sensitivity (`inverse.py`)."""
        if getattr(self, "method", "selection") == "inverse":
            from dfprivacy.statistics.inverse import MonotonePart  # noqa: PLC0415 it reads this

            return MonotonePart(name, self, grouped)
        return QuantilePart(name, self, grouped)


@dataclass(frozen=True)
class Median(_Ranked):
    """The median of a column: its quantile 1/2 (see `quantile`)."""

    kind: ClassVar[str] = "median"
    title: ClassVar[str] = "the median"
    example: ClassVar[str] = 'df.dp.median("x", epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    method: str = argument(
        "By ranks (selection) or by inverse sensitivity (inverse).", choices=QUANTILE_METHODS
    )

    q: ClassVar[float] = 0.5

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """One half."""
        return (Fraction(1, 2),)


@dataclass(frozen=True)
class Quantile(_Ranked):
    """A quantile of a column: the smallest value that at least a part `q` of the rows reach.

    A selection on a public grid of 16 significant bits (8 for floats by group), whose score has
    sensitivity max(q, 1 - q), or 1 outside [1/4, 3/4]; no bounds are needed. Below about 50/epsilon
    rows (100/epsilon outside the middle half) the answer is not a number. A selection has no
    interval. Source: Kaplan, Schnapp and Stemmer 2022, base case (`method="selection"`), or Dick
    et al. 2023, Algorithm 5 on all of a grid of 16 significant bits, 12 by group (`"inverse"`; it
    needs more rows, docs/monotone.md).
    """

    kind: ClassVar[str] = "quantile"
    aliases: ClassVar[tuple[str, ...]] = ("percentile",)
    title: ClassVar[str] = "a quantile"
    example: ClassVar[str] = 'df.dp.quantile("x", 0.9, epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    q: float = argument(
        "Which quantile, from 0 to 1: 0.9 is what one value in ten exceeds.", sample=0.9
    )
    method: str = argument(
        "By ranks (selection) or by inverse sensitivity (inverse).", choices=QUANTILE_METHODS
    )

    def __post_init__(self) -> None:
        """Check label, q and method."""
        quantile_fraction(self.q)
        super().__post_init__()
        if self.method == "inverse" and not 0 < self.fractions[0] < 1:
            raise InvalidQuestionError(
                "inverse sensitivity ranks quantiles strictly between 0 and 1",
                hint='leave method out, or ask for bounds("x", rank=...)',
            )

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The one quantile, exactly."""
        return (quantile_fraction(self.q),)


@dataclass(frozen=True)
class Quantiles(_Ranked):
    """Several quantiles of a column under one loss, in the order asked.

    Source: Kaplan, Schnapp and Stemmer 2022, with noisy counts at the splits so that ties do no
    harm (docs/quantiles.md).
    """

    kind: ClassVar[str] = "quantiles"
    answers_one: ClassVar[bool] = False
    title: ClassVar[str] = "several quantiles"
    example: ClassVar[str] = 'df.dp.quantiles("x", [0.25, 0.5, 0.75], epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    qs: Sequence[float] = argument("Quantiles, from 0 to 1.", sample=(0.25, 0.5, 0.75))

    def __post_init__(self) -> None:
        """Check label and list, and keep the list as a tuple."""
        if isinstance(self.qs, str) or not isinstance(self.qs, Sequence) or not len(self.qs):
            raise InvalidQuestionError(
                "quantiles come as a list of at least one number from 0 to 1",
                hint="pass e.g. [0.25, 0.5, 0.75]",
            )
        object.__setattr__(self, "qs", tuple(self.qs))
        super().__post_init__()
        if len(set(self.fractions)) < len(self.qs):
            raise InvalidQuestionError(
                "a quantile is asked for twice", hint="list each number once"
            )

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The quantiles, exactly."""
        return tuple(quantile_fraction(q) for q in self.qs)

    def titles(self, name: str) -> tuple[str, ...]:
        """Return a title for each quantile."""
        return tuple(f"{name}_{q}" for q in self.qs)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Their places in the list."""
        return tuple(f"_{place}" for place in range(len(self.qs)))

    def gathered(self, numbers: Sequence[Any]) -> list[Any]:
        """Return a list."""
        return list(numbers)


WHOLE_BITS = 16
GROUP_BITS = 8
"""Significant bits of values: fewer for floats by group, so that the table stays small."""


def value_grid(*, coarse: bool) -> SignificantBits:
    """Return the public grid that values are rounded to before they are ranked."""
    return SignificantBits(GROUP_BITS if coarse else WHOLE_BITS)


def grid_for(adopted: Adopted, column: Hashable, *, grouped: bool) -> SignificantBits:
    """Return the grid for a column, by its declared dtype: integers by group are kept apart."""
    return value_grid(coarse=grouped and not adopted.holds_integers(column))


def rank_tables(*, grouped: bool) -> tuple[Bins, ...]:
    """Return how a table of ranks can count: integers by group are kept apart."""
    both = (False, True) if grouped else (False,)
    return tuple((value_grid(coarse=coarse), 0) for coarse in both)


def candidates_of(part: ColumnPart, known: Circumstances) -> int:
    """Return from how many values a part selects, by the declared type of its column."""
    coarse = part.grouped and part.question.column not in known.integers
    return 2 * value_grid(coarse=coarse).last + 1


@dataclass(frozen=True)
class QuantilePart(ColumnPart):
    """One question about quantiles; none has an interval."""

    question: _Ranked

    @property
    def tables(self) -> tuple[Bins, ...]:
        """How its table can count."""
        return rank_tables(grouped=self.grouped)

    def measured(self, table: BinTable) -> MeasuredRanks:
        """Return what it would have measured, from its table."""
        return MeasuredRanks(self, table)

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredRanks:
        """Count the rows of each group by value."""
        grid = grid_for(adopted, self.question.column, grouped=self.grouped)
        return MeasuredRanks(self, self.value_table(adopted, grouping, grid))

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of each quantile, in ranks; `loss` is that of one row."""
        candidates = candidates_of(self, known)
        rest, qs = loss.share(1 - COUNT_SHARE), self.question.fractions
        least = rankable_rows(qs, rest, candidates)
        answered = rows_reach(loss, least)
        question = asked[self.name]
        made = []
        for name, q in zip(self.names[self.name], qs, strict=True):
            ranks = _ranks(qs, q, rest, candidates, known.level)
            own = Forecast(
                name, question.text, f"{law_of(ranks.law)} of a bin by its ranks", unit=RANKS,
                certain=told(ranks.certain, answered), ordinary=told(ranks.ordinary, answered),
                answered=answered, halve=halving(question, known), remarks=(NO_INTERVAL,),
            )  # fmt: skip
            made.append(own.noted(*_levels_near(own, float(q))))
        return made


@dataclass(frozen=True, repr=False)
class MeasuredRanks(MeasuredTable):
    """A value-count table, in memory or in files. Secret."""

    part: QuantilePart

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Count, then select every quantile; where the count is too small there is no answer."""
        grid, qs = self.table.binning, self.part.question.fractions
        assert isinstance(grid, SignificantBits)  # noqa: S101 the part has chosen it
        counted = noisy_rows(self.table, loss.share(COUNT_SHARE))
        rest = loss.share(1 - COUNT_SHARE)
        least = rankable_rows(qs, rest, 2 * grid.last + 1)
        chosen = [select_quantiles(block, qs, rest) for block in self.table.blocks()]
        numbers = np.concatenate(chosen, axis=1)
        answers = tuple(
            Chosen(name, blanked(grid.values(own), counted, least))
            for name, own in zip(self.part.names[self.part.name], numbers, strict=True)
        )
        return Answered(self.keys, {self.part.name: answers}, counted)


_SIZES = np.array(SIZES, dtype=np.float64)
RANKS = "ranks of rows"
NO_INTERVAL = "the answer is selected and has no interval"


def _levels_near(forecast: Forecast, q: float) -> list[str]:
    """Say between which levels an answer lies, for a size of which that says something."""
    both = zip(forecast.certain, forecast.ordinary, strict=True)
    widths = (certain if ordinary is None else ordinary for certain, ordinary in both)
    for size, ranks in zip(forecast.rows, widths, strict=True):
        if ranks is not None and ranks < size / 4:
            low, high = max(q - ranks / size, 0), min(q + ranks / size, 1)
            return [f"in {size:,} rows, the half-width spans the quantiles {low:.3g} to {high:.3g}"]
    return []


def law_of(law: Selection) -> str:
    """Return the name of a selection."""
    return "permute-and-flip" if isinstance(law, PermuteAndFlip) else "the exponential mechanism"


def rows_reach(loss: Epsilon | Rho, least: int) -> Reach:
    """Return the sizes whose noisy count, a sixth of the loss, reaches what an answer needs."""
    return reaching(least, loss.share(COUNT_SHARE).noise(1, 1))


def told(ranks: Floats, answered: Reach) -> HalfWidths:
    """Return errors in ranks for sizes that mostly get an answer; nothing is that far off."""
    return by_size(np.where(answered.half <= _SIZES, np.minimum(ranks, _SIZES), np.nan))


@dataclass(frozen=True)
class _Ranks:
    law: Selection
    certain: Floats
    ordinary: Floats


def _ranks(
    qs: Sequence[Fraction], q: Fraction, loss: Epsilon | Rho, candidates: int, level: float
) -> _Ranks:
    if len(set(qs)) == 1:
        return _one(q, loss, candidates, 1 - level)
    return _several(len(set(qs)), q, loss, (candidates, 1 - level))


def _one(q: Fraction, loss: Epsilon | Rho, candidates: int, outside: float) -> _Ranks:
    """Return the error of one quantile: what a target is moved, and what its selection errs."""
    law, _ = relative_score(q, np.zeros(1, np.int64), loss, candidates)
    rate = float(law.rate) * q.denominator
    inner = INNER[0] <= q <= INNER[1]
    moved = (
        np.zeros_like(_SIZES) if inner else _moved(q, outer_rows(law, q.denominator, candidates))
    )
    certain = math.log(candidates / outside) / rate
    return _Ranks(law, certain + moved, math.log(1 / outside) / rate + moved)


def _moved(q: Fraction, outer: int) -> Floats:
    """Return how far targets of this level are moved inwards, with a row for rounding."""
    targets, half = float(q) * _SIZES, _SIZES / 2
    moved = np.clip(targets, np.minimum(outer, half), np.maximum(_SIZES - outer, half))
    return np.asarray(np.where(moved == targets, 0.0, np.abs(moved - targets) + 1))


def _several(levels: int, q: Fraction, loss: Epsilon | Rho, limits: tuple[int, float]) -> _Ranks:
    """Return a bound for one of several quantiles: its layer's selection and all counts before it.

    Half of the outside probability goes to the selections, half to the counts.
    """
    candidates, outside = limits
    layers = levels.bit_length()
    pay = loss.share(Fraction(1, layers)).share(1 - SPLIT_SHARE)
    law, each = pay.selection(2), outside / (2 * levels)
    selected = math.log(candidates / each) / (2 * float(law.rate))
    noise = loss.share(Fraction(1, layers)).share(SPLIT_SHARE).noise(1, 1)
    counted = 2 * (layers + 1) * noise.quantile(outside / (4 * levels))
    moved = _moved(q, outer_rows(law, 2, candidates))
    return _Ranks(law, selected + counted + moved + 1, np.full_like(_SIZES, np.nan))
