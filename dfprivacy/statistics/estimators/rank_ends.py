"""Intervals of quantiles: ends are selected at public distances in rank, then counted.

What a selection errs depends on the data, and is not relied on: a noisy count of the rows below and
up to each end says whether the quantile of the rows lies within. An end that the count does not
show to be on its side is infinite, or a bound where there are some. docs/quantiles.md has the
proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, codes_of
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.laws import Noise, half_width_factor
from dfprivacy.noise.selection import Selection
from dfprivacy.release.estimator import to_floats
from dfprivacy.statistics.estimators.quantile import ranked_rows, select_rank

USUAL = 0.95
"""The level whose intervals the distances of ends are made for; others have the same ends."""

ORDINARY = 0.05
"""A selection among values that are spread evenly is further off than is allowed for this rarely,
and one near an end of the rows beyond all of them."""


@dataclass(frozen=True)
class EndsLaw:
    """How the ends about `levels` quantiles are selected from `candidates`, and counted. Public.

    `loss` is what one end pays; `counted` is the noise of the number of rows m that the ranks
    follow from, `noise` that of the count of rows between all ends.
    """

    loss: Epsilon | Rho
    noise: Noise
    counted: Noise
    candidates: int
    levels: int

    @cached_property
    def selection(self) -> Selection:
        """The selection of one end: a row moves its losses by at most 1."""
        return self.loss.selection(1)

    @property
    def reach(self) -> int:
        """How far from the ends of the rows a rank must be, for answers among the rows."""
        return math.ceil(math.log(self.candidates / ORDINARY) / self._rate)

    @property
    def _rate(self) -> float:
        return 2 * float(self.selection.rate)

    def apart(self, q: Fraction, place: int, side: int) -> int:
        """Return how many ranks from q m an end is aimed at: -1 is the lower side, 1 the upper one.

        Twice what the noise of the count may hide, and what a selection ordinarily errs; `place` is
        that of the level among all. The noise of m moves ranks as far as q is from 1/2.
        """
        hidden = reach_of(self.noise, USUAL) * norm_of(2 * place + (3 + side) // 2, self.levels, q)
        moved = abs(float(q) - 0.5) * self.counted.quantile(2 * ORDINARY)
        return math.ceil(2 * hidden + math.log(1 / ORDINARY) / self._rate + moved)


def reach_of(noise: Noise, level: float) -> float:
    """Return what a weighted sum of draws, of weights of unit length, stays below."""
    return half_width_factor(noise, 1 - level) * math.sqrt(noise.variance) + 1


def norm_of(below: int, levels: int, q: Fraction) -> float:
    """Return the length of the weights of F - q n, F the rows of so many of the 2 k + 1 parts."""
    return math.sqrt(below * (1 - q) ** 2 + (2 * levels + 1 - below) * q**2)


@dataclass(frozen=True, eq=False)
class RankEnds:
    """The ends of one level of each group: bins, and what counts the rows below or up to them.

    `below` is how many parts of the count the lower end has below it, `upto` how many lie up to the
    upper one; `far` tells where an end is no answer, as it is aimed too near an end of the rows.
    Public.
    """

    low: Integers
    high: Integers
    below: Integers
    upto: Integers
    far: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]


def select_ends(
    table: BinTable,
    levels: Sequence[Fraction],
    rows: Integers,
    law: EndsLaw,
    entropy: EntropySource = system_entropy,
) -> tuple[list[RankEnds], NoisyVector]:
    """Return the ends of each level, ascending, by group; then the noisy rows between all ends.

    `rows` is the noisy number of rows m of each group. The rank of an end is q m, moved by
    `EndsLaw.apart`; it is selected as a quantile is. Each row lies in one of the parts between
    the selected ends, which are public by then: the count has sensitivity 1.
    """
    held, known = ranked_rows(table), np.clip(rows, 0, 2**40).astype(np.int64)
    extra = held.totals() - known
    ends, far = [], []
    for place, q in enumerate(levels):
        for side in (-1, 1):
            rank = known * q.numerator // q.denominator + side * law.apart(q, place, side)
            aims = 2 * np.clip(rank, 0, known)
            ends.append(select_rank(held, aims + extra, law.selection, entropy))
            inside = rank if side < 0 else known - rank
            far.append(inside < law.reach)
    cuts = np.stack(ends) - np.tile([1, 0], len(levels))[:, None]
    order = np.argsort(cuts, axis=0, kind="stable")
    parts = rows_between(table, np.take_along_axis(cuts, order, axis=0))
    noisy = NoisyVector(add_to(parts, law.noise, entropy), law.noise)
    places = np.argsort(order, axis=0) + 1
    made = [
        RankEnds(ends[i], ends[i + 1], places[i], places[i + 1], (far[i], far[i + 1]))
        for i in range(0, len(ends), 2)
    ]
    return made, noisy


def rows_between(table: BinTable, cuts: Integers) -> Integers:
    """Return the rows of each group between its cuts, which ascend and end a part each. Secret.

    Each row of a group is in one of the parts, whatever the cuts are.
    """
    before = np.concatenate([[0], np.cumsum(table.rows)])
    codes = codes_of(np.arange(table.groups), cuts, table.binning.last)
    starts = before[table.starts()[:-1]]
    upto = before[np.searchsorted(table.codes, codes, side="right")] - starts
    parts = np.diff(upto, axis=0, prepend=0, append=table.totals()[None, :])
    return np.asarray(parts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class QuantileEstimator:
    """A selected quantile of each group, between ends that a noisy count certifies.

    The count is of the parts between all ends of a release, in their order. `open_ends` are what
    an end is that is not certified.
    """

    q: Fraction
    values: Floats
    low: Floats
    high: Floats
    ends: RankEnds
    open_ends: tuple[float, float] = (-math.inf, math.inf)

    def value(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return the selected value of each group."""
        return self.values

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends between which the quantile of the rows lies with probability `level`.

        The lower end is on its side where #{x < low} is below q n, the upper one where #{x <= high}
        is at least that: shown where the noise does not explain it, with half of the rest each.
        """
        upto = np.cumsum(to_floats(vector.coordinates), axis=0)
        wanted, many = float(self.q) * upto[-1], len(upto)
        off = reach_of(vector.noise, level)
        found = []
        for side, parts, end, far, beyond in (
            (-1, self.ends.below, self.low, self.ends.far[0], self.open_ends[0]),
            (1, self.ends.upto, self.high, self.ends.far[1], self.open_ends[1]),
        ):
            rows = np.take_along_axis(upto, parts[None, :] - 1, axis=0)[0]
            q = float(self.q)
            length = np.sqrt(parts * (1 - q) ** 2 + (many - parts) * q**2)
            certain = (side * (rows - wanted) >= off * length) & ~far & ~np.isnan(self.values)
            outwards = np.fmin(end, self.values) if side < 0 else np.fmax(end, self.values)
            found.append(np.where(certain, outwards, beyond))
        return found[0], found[1]

    def standard_error(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return that it is not known: the law of a selection depends on the data."""
        return np.full_like(self.values, np.nan)
