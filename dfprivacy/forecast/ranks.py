"""Forecasts of what private selections answer: errors are known in ranks, never in values.

A selection of rate r from N candidates is more than k ranks off with probability at most
N exp(-r k), r counted a rank; among values that are spread evenly with exp(-r k) at most.
docs/explain.md has both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.octave_bounds import GROWTH, LEAST, SHARE
from dfprivacy.estimators.quantile import (
    COUNT_SHARE,
    INNER,
    far_rows,
    outer_rows,
    rankable_rows,
    relative_score,
)
from dfprivacy.forecast.advice import Circumstances, halving
from dfprivacy.forecast.forecast import SIZES, Forecast, HalfWidths, by_size
from dfprivacy.forecast.reaching import Reach, reaching
from dfprivacy.forecast.sums import bounds_reach
from dfprivacy.mechanisms.selection import PermuteAndFlip, Selection
from dfprivacy.parts.monotone import MonotonePart
from dfprivacy.parts.ranks import BoundsPart, QuantilePart, value_grid
from dfprivacy.parts.table_count import COUNT_SHARE as ROWS_SHARE
from dfprivacy.questions import Question
from dfprivacy.rank_questions import Center, Quantile
from dfprivacy.statistics.binning import Floats, SignificantBits

_SIZES = np.array(SIZES, dtype=np.float64)
_RANKS = "ranks of rows"
_NO_INTERVAL = "a selection: no interval is known before there is data, nor after"


def quantile_forecasts(
    part: QuantilePart, loss: Epsilon | Rho, asked: Mapping[str, Question], known: Circumstances
) -> list[Forecast]:
    """Return the forecast of each quantile, in ranks; `loss` is that of one row."""
    coarse = part.grouped and part.question.column not in known.integers
    candidates = 2 * value_grid(coarse=coarse).last + 1
    rest, qs = loss.share(1 - ROWS_SHARE), part.question.fractions
    least = rankable_rows(qs, rest, candidates)
    answered = rows_reach(loss, least)
    question = asked[part.name]
    made = []
    for name, q in zip(part.names[part.name], qs, strict=True):
        ranks = _ranks(qs, q, rest, candidates, known.level)
        own = Forecast(
            name, question.text, f"{law_of(ranks.law)} of a bin by its ranks", unit=_RANKS,
            certain=_told(ranks.certain, answered), ordinary=_told(ranks.ordinary, answered),
            answered=answered, halve=halving(question, known), remarks=(_NO_INTERVAL,),
        )  # fmt: skip
        made.append(own.noted(*_levels_near(own, float(q))))
    return made


def _levels_near(forecast: Forecast, q: float) -> list[str]:
    """Say between which levels an answer lies, for a size of which that says something."""
    both = zip(forecast.certain, forecast.ordinary, strict=True)
    widths = (certain if ordinary is None else ordinary for certain, ordinary in both)
    for size, ranks in zip(forecast.rows, widths, strict=True):
        if ranks is not None and ranks < size / 4:
            low, high = max(q - ranks / size, 0), min(q + ranks / size, 1)
            return [f"of {size:,} rows, {ranks:.0f} are from the quantile {low:.3g} to {high:.3g}"]
    return []


def law_of(law: Selection) -> str:
    """Return the name of a selection."""
    return "permute-and-flip" if isinstance(law, PermuteAndFlip) else "the exponential mechanism"


def rows_reach(loss: Epsilon | Rho, least: int) -> Reach:
    """Return the sizes whose noisy count, a sixth of the loss, reaches what an answer needs."""
    return reaching(least, loss.share(ROWS_SHARE).noise(1, 1))


def _told(ranks: Floats, answered: Reach) -> HalfWidths:
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
    pay = loss.share(Fraction(1, layers)).share(1 - COUNT_SHARE)
    law, each = pay.selection(2), outside / (2 * levels)
    selected = math.log(candidates / each) / (2 * float(law.rate))
    noise = loss.share(Fraction(1, layers)).share(COUNT_SHARE).noise(1, 1)
    counted = 2 * (layers + 1) * noise.quantile(outside / (4 * levels))
    moved = _moved(q, outer_rows(law, 2, candidates))
    return _Ranks(law, selected + counted + moved + 1, np.full_like(_SIZES, np.nan))


def bounds_forecasts(
    part: BoundsPart, loss: Epsilon | Rho, asked: Mapping[str, Question], known: Circumstances
) -> list[Forecast]:
    """Return the forecast of private bounds: at octave edges, or by rank."""
    rest, text = loss.share(1 - ROWS_SHARE), asked[part.name].text
    halve = halving(asked[part.name], known)
    if part.question.rank is None:
        return [_octave_bounds(part, rest, text, halve)]
    coarse = part.grouped and part.question.column not in known.integers
    law = rest.share(Fraction(1, 2)).selection(1)
    candidates = 2 * value_grid(coarse=coarse).last + 1
    outer = outer_rows(law, 1, candidates)
    rank, answered = max(int(part.question.rank), outer), rows_reach(loss, 2 * outer)
    error = np.full_like(_SIZES, math.log(2 * candidates / (1 - known.level)) / float(law.rate))
    near = np.full_like(_SIZES, math.log(2 / (1 - known.level)) / float(law.rate))
    how = f"two selections by {law_of(law)}, {rank:,} rows from either end"
    return [
        Forecast(
            part.name, text, how, unit=f"{_RANKS}, at both ends", certain=_told(error, answered),
            ordinary=_told(near, answered), answered=answered, halve=halve,
            remarks=(_NO_INTERVAL,),
        )
    ]  # fmt: skip


def _octave_bounds(
    part: BoundsPart, rest: Epsilon | Rho, text: str, halve: tuple[str, ...]
) -> Forecast:
    epsilon = rest.pure()
    plain, doubling = math.ceil(LEAST / epsilon), math.ceil((LEAST + GROWTH) / epsilon)
    joins = f"from about {plain:,} rows on, {doubling:,} where it doubles the bounds"
    return Forecast(
        part.name, text, "a noisy histogram of octaves (discrete Laplace)",
        scale=float(1 / epsilon), scale_unit="rows, on each octave",
        answered=bounds_reach(epsilon), halve=halve,
        remarks=(
            "the sizes are rows in one octave, from a power of two to the next",
            f"an octave joins {joins}, more for each further doubling",
        ),
    )  # fmt: skip


def monotone_forecasts(
    part: MonotonePart, loss: Epsilon | Rho, asked: Mapping[str, Question], known: Circumstances
) -> list[Forecast]:
    """Return the forecast of a selection by inverse sensitivity: from which sizes on it answers."""
    rest, question = loss.share(1 - ROWS_SHARE), part.question
    made = Forecast(
        part.name, asked[part.name].text, "a selection by inverse sensitivity",
        halve=halving(asked[part.name], known), remarks=(_NO_INTERVAL,),
    )  # fmt: skip
    if isinstance(question, Quantile):
        grid = SignificantBits(12 if part.grouped else 16)
        off = outer_rows(rest.selection(1), 1, 2 * grid.last + 1)
        least = far_rows(question.fractions[0], off)
        return [replace(made, answered=rows_reach(loss, least))]
    if isinstance(question, Center) and (question.bounds or question.method == "dick"):
        return [made]
    found = bounds_reach(rest.share(SHARE).pure())
    return [replace(made, answered=found).noted("the sizes are rows in one octave")]
