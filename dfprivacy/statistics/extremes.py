"""The least and the largest value as values near the ends: about so many rows lie beyond them.

The extreme row itself can't be shown: another one can stand in its place. What is selected has rank
(2 / epsilon) ln(10 N) from its end, N candidates: the least rank that a selection tells from 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.release.answers import Chosen
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.estimators.quantile import outer_rows
from dfprivacy.statistics.estimators.threshold import Side, select_thresholds
from dfprivacy.statistics.forecast import Circumstances, Forecast, halving
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    NO_INTERVAL,
    Answered,
    Grouping,
    MeasuredTable,
    blanked,
    noisy_rows,
    rows_reach,
)
from dfprivacy.statistics.quantile import RANKS, RankPart, law_of, told


@dataclass(frozen=True)
class _Extreme(Statistic):
    """A value near one end of a column."""

    side: ClassVar[Side]

    column: Hashable = argument("The column of numbers.")

    def part(self, name: str, *, grouped: bool) -> ExtremePart:
        """Return what selects it."""
        return ExtremePart(name, self, grouped)


@dataclass(frozen=True)
class Min(_Extreme):
    """A value that few rows lie below: about (2 / epsilon) ln(10 N), never the least row itself.

    N is the size of the public grid of 16 significant bits (8 for floats by group), and epsilon
    five sixths of what is spent: 45 rows at epsilon 1. With probability 90 % at least one row and
    at most twice as many lie below or at it. A whole number where the column is declared to hold
    those; not a number where there are too few rows. A sixth counts rows. Source: Dick et al. 2023,
    Corollary 3.8.
    """

    kind: ClassVar[str] = "min"
    aliases: ClassVar[tuple[str, ...]] = ("minimum",)
    sql_names: ClassVar[tuple[str, ...]] = ("min",)
    title: ClassVar[str] = "a value that few rows lie below"
    example: ClassVar[str] = 'df.dp.min("x", epsilon=1)'
    side: ClassVar[Side] = "lower"


@dataclass(frozen=True)
class Max(_Extreme):
    """A value that few rows lie above: about (2 / epsilon) ln(10 N), never the largest row itself.

    As `min`, from the other end.
    """

    kind: ClassVar[str] = "max"
    aliases: ClassVar[tuple[str, ...]] = ("maximum",)
    sql_names: ClassVar[tuple[str, ...]] = ("max",)
    title: ClassVar[str] = "a value that few rows lie above"
    example: ClassVar[str] = 'df.dp.max("x", epsilon=1)'
    side: ClassVar[Side] = "upper"


@dataclass(frozen=True)
class ExtremePart(RankPart):
    """A question about a value near one end."""

    question: _Extreme
    integers: bool = False

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredTable:
        """Run the pass, and note whether the column is declared to hold integers."""
        whole = replace(self, integers=adopted.holds_integers(self.question.column))
        return MeasuredTable(whole, super().measure(adopted, grouping).table)

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of the rows beyond: how far their number is off its target."""
        law = loss.share(1 - COUNT_SHARE).selection(1)
        candidates = self.candidates(integers=self.question.column in known.integers)
        outer = max(1, outer_rows(law, candidates))
        answered, outside = rows_reach(loss, 2 * outer), 1 - known.level
        error, near = (
            np.full_like(known.each_size, math.log(ahead / outside) / float(law.rate))
            for ahead in (candidates, 1)
        )
        beyond = f"about {outer:,} rows lie beyond the answer: it is never the extreme row itself"
        return [
            Forecast(
                self.name, asked[self.name].text, f"{law_of(law)} of a value by its rank",
                unit=RANKS, certain=told(error, answered, known),
                ordinary=told(near, answered, known),
                answered=answered, halve=halving(self.question, known),
                remarks=(NO_INTERVAL, beyond),
            )
        ]  # fmt: skip

    def answered(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Count, then select; where too few rows are there is no answer."""
        table, rest = measured.table, loss.share(1 - COUNT_SHARE)
        grid: Any = table.binning
        assert isinstance(grid, SignificantBits)  # noqa: S101 the part has chosen it
        counted = noisy_rows(table, loss.share(COUNT_SHARE))
        outer = max(1, outer_rows(rest.selection(1), 2 * grid.last + 1))
        chosen = [
            select_thresholds(block, outer, rest, self.question.side) for block in table.blocks()
        ]
        found = grid.values(np.concatenate(chosen))
        if self.integers:  # outwards: as many rows lie at the whole number or beyond
            found = np.floor(found) if self.question.side == "lower" else np.ceil(found)
        values = blanked(found, counted, 2 * outer)
        return Answered(measured.keys, {self.name: (Chosen(self.name, values),)}, counted)
