"""Average vectors clipped to a private length: around a centre, or scaled by private deviations.

`ClippedMean` and its add-remove form: Huang, Liang and Yi 2021, Sections 3.1 and 3.2. `ShiftedMean`
finds a centre by rotated medians: Section 3.3 (Theorem 3) and its statistical wrapper. As noise of
the same variance on all coordinates does not see rotations, norms and sums are taken in the
caller's own coordinates, around the centre turned back: the law is that of the paper, without its
padding.

`PlanMean`, less noise where coordinates vary less, for the error in l_p: Aumueller et al. 2023,
Algorithm 1 with the scaling of Appendix C, and its trimmed clipping universe. Standard deviations
are private (Section 7.1 and Appendix D, Algorithm 2): for Gaussian data, and for any with four
moments. Their groups of rows break when a row is added, as all later rows move on; the add-remove
forms here are distances to the centre (Gaussian) and buckets drawn at random (generic). Item sets
are 0/1 vectors over a public universe, never made dense: the binary instance, with deviations from
private means and no centre. Charged as in docs/vectors.md, where the public code of the paper
spends more than it says; proofs there.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Rho
from dfprivacy.measurement.vectors import (
    BucketSpreads,
    ClippedSums,
    CoordinateCounts,
    Distances,
    Floats,
    ItemClippedSums,
    ItemCounts,
    ItemNormCounts,
    NormCounts,
    PairDistances,
    Rotation,
    Shifted,
    VectorGrid,
    VectorTable,
    Windows,
    distance_bins,
    distance_of,
    padded_size,
)
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.noise.selection import random_labels, random_signs
from dfprivacy.statistics.estimators.private_quantiles import (
    MEDIAN,
    Halvings,
    Mechanics,
    NoisyRows,
    PublicTotal,
    RowsAbove,
    coordinate_medians,
    rows_for_medians,
)


@dataclass(frozen=True)
class NoisyMean:
    """What a release of a mean of vectors has drawn. Public.

    A coordinate is (centre + sums / rows / scale) * step, where sums / rows is first brought to a
    norm of at most `threshold`. `sums` holds integers, with `noise` on each of them. Below `needed`
    rows centre and threshold may be anything, for all that is known.
    """

    centre: Floats
    scale: Floats
    step: float
    threshold: float
    sums: npt.NDArray[Any]
    noise: DiscreteGaussian
    rows: NoisyRows
    needed: int
    lowest: float
    highest: float

    def value(self) -> Floats:
        """Return the mean, in units of the columns."""
        mean = self.sums.astype(np.float64) / self.rows.least
        norm = float(np.sqrt(np.sum(mean * mean)))
        if norm > self.threshold:
            mean *= self.threshold / norm
        return self._unscaled(mean)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return ends for each coordinate that cover what the noise has done to it.

        Each coordinate lies between its ends with probability `level`, as far as clipping goes: the
        ends are those of the clipped mean, and hold its estimate. No end is further from the centre
        than the threshold, unless there may be fewer rows than `needed`: then the ends are those of
        the universe.
        """
        share = 1 - level if self.rows.noise is None else (1 - level) / 2
        fewest, most = (max(rows, 1) for rows in self.rows.interval(share))
        if fewest < self.needed:
            size = len(self.sums)
            return np.full(size, self.lowest), np.full(size, self.highest)
        half = float(self.noise.quantile(share))
        sums = self.sums.astype(np.float64)
        low = np.minimum((sums - half) / fewest, (sums - half) / most)
        high = np.maximum((sums + half) / fewest, (sums + half) / most)
        ends = (np.clip(end, -self.threshold, self.threshold) for end in (low, high))
        below, above = (self._unscaled(end) for end in ends)
        value = self.value()  # may lie beyond, brought to the threshold by its norm
        return np.minimum(below, value), np.maximum(above, value)

    def standard_error(self) -> Floats:
        """Return the standard deviation of the noise in each coordinate, to first order."""
        deviation = math.sqrt(self.noise.variance) / self.rows.least
        return np.asarray(deviation / self.scale * self.step)

    def _unscaled(self, mean: Floats) -> Floats:
        moved = (self.centre + mean / self.scale) * self.step
        return np.asarray(np.clip(moved, self.lowest, self.highest))


Passes = Generator[VectorTable, None, NoisyMean]
"""An estimator as a coroutine: it asks for a table, and goes on when a pass has filled it."""

NORM_HALVINGS = 16
LARGEST_RANK = 2**40


@dataclass(frozen=True)
class Clipping:
    """What the clipped sum of shifted rows costs and where its threshold is looked for.

    Norms are searched in [0, 2**top) with 2**halvings bins; `rank` rows may be longer than the
    threshold (None: as many as balance noise and clipping). The centre needs `needed` rows.
    """

    shifted: Shifted
    top: int
    threshold_rho: Fraction
    sum_rho: Fraction
    rank: int | None = None
    halvings: int = NORM_HALVINGS
    needed: int = 0


def best_rank(dimension: int, clipping: Clipping, mechanics: Mechanics) -> int:
    """Return the number of rows to clip: where one more would cost more than its noise.

    The derivative of noise plus clipping vanishes at sqrt(d / (2 rho)) rows under add-remove, twice
    as many under replace; what the search may be off by is added, as in the authors' own runs.
    """
    noise = mechanics.relation.sum_factor * math.sqrt(dimension / (2 * clipping.sum_rho))
    margin = mechanics.choose.margin(clipping.halvings, clipping.threshold_rho)
    margin *= mechanics.relation.margins
    return min(math.floor(noise + margin), LARGEST_RANK)


def clipped_around(
    grid: VectorGrid, clipping: Clipping, rows: NoisyRows | None, mechanics: Mechanics
) -> Passes:
    """Ask for norms and for sums, and return the mean around the centre of `clipping`.

    Where the number of rows is not known yet, a part of the sum's loss pays for it.
    """
    relation, shifted = mechanics.relation, clipping.shifted
    norms = NormCounts(shifted, clipping.top, 1 << clipping.halvings)
    yield norms
    sum_rho = clipping.sum_rho
    if rows is None:
        cost = sum_rho * relation.count_share
        rows, sum_rho = relation.noisy_rows(norms.rows, cost, mechanics.entropy), sum_rho - cost
    rank = clipping.rank or best_rank(grid.dimension, clipping, mechanics)
    if rows.noise is None:
        rank = max(min(rank, rows.value - 1), 0)
    chosen = mechanics.bins(norms.counts, norms.rows, RowsAbove(rank), clipping.threshold_rho)
    threshold = Fraction(int(chosen[0]) + 1) * Fraction(2) ** (clipping.top - clipping.halvings)
    sums = ClippedSums(shifted, float(threshold))
    yield sums
    noise = DiscreteGaussian((relation.sum_factor * threshold) ** 2 / (2 * sum_rho))
    noisy = add_to(sums.counts, noise, mechanics.entropy)
    scale = np.ones(grid.dimension) if shifted.scale is None else shifted.scale
    return NoisyMean(
        shifted.centre, scale, grid.step, float(threshold), noisy, noise, rows,
        max(clipping.needed, 2 * rank), -grid.radius, grid.radius,
    )  # fmt: skip


@dataclass(frozen=True)
class ClippedMean:
    """The mean of vectors, each shortened to a private threshold.

    A quarter of rho finds the threshold, the rest pays for the sum; of that, under add-remove, a
    tenth for the number of rows. Privacy: rho-zCDP for the relation of `mechanics`.
    """

    grid: VectorGrid
    rho: Fraction
    mechanics: Mechanics
    norm_halvings: int = NORM_HALVINGS

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for norms and sums; return the mean."""
        shifted = Shifted(np.zeros(self.grid.dimension), self.grid.bits + 1)
        clipping = Clipping(
            shifted, self.grid.bits, self.rho / 4, self.rho * Fraction(3, 4),
            halvings=self.norm_halvings,
        )  # fmt: skip
        return (yield from clipped_around(self.grid, clipping, rows, self.mechanics))


MEDIAN_HALVINGS = (8, 8)
REACH = 4


@dataclass(frozen=True)
class ShiftedMean:
    """The mean of vectors, each shortened to a private distance from a private centre.

    Medians cost rho/4, the threshold 3 rho/16, the sum 9 rho/16; of the last, under add-remove, a
    tenth pays for the number of rows. Rotated coordinates are looked for within `reach` times
    radius / sqrt(d): a rotated vector of norm `radius` has such coordinates with high probability,
    and others count as the ends. Privacy: rho-zCDP for the relation of `mechanics`.
    """

    grid: VectorGrid
    rho: Fraction
    mechanics: Mechanics
    median_halvings: Halvings = MEDIAN_HALVINGS
    norm_halvings: int = NORM_HALVINGS
    reach: int = REACH

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for rotated counts, norms and sums; return the mean."""
        size = padded_size(self.grid.dimension)
        rotation = Rotation(random_signs(size, self.mechanics.entropy), self.grid.dimension)
        turned, _ = yield from coordinate_medians(
            self._windows(size),
            lambda windows: CoordinateCounts(windows, rotation),
            self.median_halvings,
            self.rho / 4,
            self.mechanics,
        )
        centre = np.clip(np.rint(rotation.undo(turned)), -self.grid.largest, self.grid.largest)
        clipping = Clipping(
            Shifted(centre, self.grid.bits + 1), self.grid.bits + 1,
            self.rho * Fraction(3, 16), self.rho * Fraction(9, 16),
            halvings=self.norm_halvings,
            needed=rows_for_medians(
                size, sum(self.median_halvings), self.rho / 4, self.mechanics.relation
            ),
        )  # fmt: skip
        return (yield from clipped_around(self.grid, clipping, rows, self.mechanics))

    def _windows(self, size: int) -> Windows:
        """Return 2**h bins that cover -reach * 2**bits to reach * 2**bits, both powers of two."""
        reach = self.grid.bits + (self.reach.bit_length() - 1)
        first = np.full(size, -math.ldexp(1.0, reach))
        return Windows(first, reach + 1 - self.median_halvings[0], 1 << self.median_halvings[0])


Deviations = Generator[VectorTable, None, Floats]

NORMAL_MEDIAN = statistics.NormalDist().inv_cdf(0.75)
"""The median of |x| for a standard normal x, 0.6745."""

PAIRS = 2
"""Pairs of rows behind one value of the generic estimator: the constant k of the paper."""

ROWS_A_BUCKET = 4
MOST_BUCKETS = 4096
MOST_SUMS = 2**24
"""Buckets times dimension: a quarter of a GiB of sums and squares."""


@dataclass(frozen=True)
class Spread:
    """Where spreads are measured: the grid, the private centre, and the number of rows so far."""

    grid: VectorGrid
    centre: Floats
    rows: NoisyRows

    @property
    def bits(self) -> int:
        """Distances are below 2**bits."""
        return self.grid.bits + 2


def gaussian_deviations(spread: Spread, rho: Fraction, mechanics: Mechanics) -> Deviations:
    """Return sigma_j by the median of |x_j - centre_j|: 0.6745 sigma_j for normal data.

    Under the replace relation, by the median of |x_j - x'_j| over pairs of rows, as in the paper.
    """
    if spread.rows.noise is None:
        pairs = PairDistances(spread.grid.dimension, spread.bits, 1)
        yield pairs
        chosen = mechanics.bins(pairs.counts, pairs.groups, PublicTotal(pairs.groups), rho)
        return distance_of(chosen) / (2**0.5 * NORMAL_MEDIAN)
    table = Distances(spread.centre, spread.bits)
    yield table
    return distance_of(mechanics.bins(table.counts, table.rows, MEDIAN, rho)) / NORMAL_MEDIAN


def generic_deviations(spread: Spread, rho: Fraction, mechanics: Mechanics) -> Deviations:
    """Return sigma_j up to a constant factor, for any data with a bounded fourth moment.

    The median over groups of the sample deviation of a few rows; no factor corrects it for a law.
    Under add-remove each row draws its bucket, independently of all others, and the number of
    buckets follows from the noisy number of rows; under replace groups are consecutive rows.
    """
    if spread.rows.noise is None:
        pairs = PairDistances(spread.grid.dimension, spread.bits, PAIRS)
        yield pairs
        return (
            distance_of(mechanics.bins(pairs.counts, pairs.groups, PublicTotal(pairs.groups), rho))
            / 2**0.5
        )
    most = min(MOST_BUCKETS, max(MOST_SUMS // spread.grid.dimension, 1))
    buckets = min(max(spread.rows.value // ROWS_A_BUCKET, 1), most)
    table = BucketSpreads(
        spread.centre, buckets, spread.bits,
        lambda size: random_labels(size, buckets, mechanics.entropy),
    )  # fmt: skip
    yield table
    return distance_of(mechanics.bins(table.distances(), buckets, PublicTotal(buckets), rho))


PLAN_HALVINGS = (10, 10)
BETA = 0.1

ROWS_A_VALUE = {"gaussian": 1, "generic": ROWS_A_BUCKET}

DEVIATIONS: dict[str, Callable[[Spread, Fraction, Mechanics], Deviations]] = {
    "gaussian": gaussian_deviations,
    "generic": generic_deviations,
}


@dataclass(frozen=True)
class PlanMean:
    """The mean of vectors, scaled by private standard deviations before it is clipped.

    Of rho, 1/16 goes to the centre, 3/16 to standard deviations, 3/16 to the threshold and 9/16 to
    the sum; of the last, under add-remove, a tenth pays for the number of rows. Privacy: rho-zCDP
    for the relation of `mechanics`.
    """

    grid: VectorGrid
    rho: Fraction
    mechanics: Mechanics
    p: Fraction = Fraction(2)
    deviations: str = "gaussian"
    median_halvings: Halvings = PLAN_HALVINGS
    norm_halvings: int = NORM_HALVINGS

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for medians, spreads, norms and sums; return the mean."""
        centre, exact = yield from coordinate_medians(
            self._windows(), CoordinateCounts, self.median_halvings, self.rho / 16, self.mechanics
        )
        sum_rho = self.rho * Fraction(9, 16)
        if rows is None:
            relation, cost = self.mechanics.relation, sum_rho * self.mechanics.relation.count_share
            rows = relation.noisy_rows(exact, cost, self.mechanics.entropy)
            sum_rho -= cost
        spread = Spread(self.grid, centre, rows)
        deviation = yield from DEVIATIONS[self.deviations](
            spread, self.rho * Fraction(3, 16), self.mechanics
        )
        clipping = self._clipping(spread, deviation, sum_rho)
        return (yield from clipped_around(self.grid, clipping, rows, self.mechanics))

    def _windows(self) -> Windows:
        bits = self.grid.bits
        first = np.full(self.grid.dimension, -math.ldexp(1.0, bits))
        return Windows(first, bits + 1 - self.median_halvings[0], 1 << self.median_halvings[0])

    def _clipping(self, spread: Spread, deviation: Floats, sum_rho: Fraction) -> Clipping:
        """Return scales, universe and rank; everything in it is public by now."""
        threshold_rho = self.rho * Fraction(3, 16)
        regular = 2 * deviation + max(float(np.mean(2 * deviation)), 1.0)
        universe = clipping_universe(regular, float(self.p))
        top = self.grid.bits + 1
        scale = regular ** (-2 / (float(self.p) + 2)) * (math.ldexp(1.0, top) / universe)
        halvings = self.norm_halvings
        margin = math.sqrt(math.log(halvings / BETA)) * self.mechanics.choose.margin(
            halvings, threshold_rho
        )
        rank = min(math.ceil(math.sqrt(spread.rows.least) + margin), LARGEST_RANK)
        shifted = Shifted(spread.centre, top, scale)
        return Clipping(shifted, top, threshold_rho, sum_rho, rank, halvings, self._needed())

    def _needed(self) -> int:
        relation, size = self.mechanics.relation, self.grid.dimension
        medians = rows_for_medians(size, sum(self.median_halvings), self.rho / 16, relation)
        halvings = distance_bins(self.grid.bits + 2).bit_length() - 1
        spreads = rows_for_medians(size, halvings, self.rho * Fraction(3, 16), relation)
        return max(medians, spreads * ROWS_A_VALUE[self.deviations])


def clipping_universe(regular: Floats, p: float) -> float:
    """Return a bound on scaled norms: 2 sqrt(log d log(1 / beta) sum of their squares).

    The paper's universe, twice; it matters only to how finely norms are told apart.
    """
    logs = max(math.log(len(regular)), 1.0) * math.log(1 / BETA)
    return 2 * math.sqrt(logs * float(np.sum(regular ** (2 * p / (p + 2)))))


TOP = 26
"""Scaled norms are below 2**26: squares of them are exact in float64."""


@dataclass(frozen=True)
class ItemBudget:
    """What each part of rho pays for; they add up to one."""

    means: Fraction
    rows: Fraction
    threshold: Fraction

    @property
    def sums(self) -> Fraction:
        """What is left, for the sum."""
        return 1 - self.means - self.rows - self.threshold


def item_budget(universe: int, relation_pays_rows: Fraction) -> ItemBudget:
    """Return the paper's shares under replace; under add-remove n and the threshold get more."""
    if not relation_pays_rows:
        return ItemBudget(Fraction(1, 10), Fraction(0), Fraction(9, 10) / (universe + 1))
    return ItemBudget(Fraction(1, 10), Fraction(1, 100), Fraction(4, 100))


@dataclass(frozen=True)
class PlanItems:
    """The part of the sets that holds each item, with less noise where that is near 0 or 1.

    Of rho, a tenth pays for first means, whose deviations set the scale; under add-remove 1% for
    the number of sets, 4% for the threshold, and the rest for the sum. Without `p` all items weigh
    the same, and nothing is spent on means: the clipped mean. Privacy: rho-zCDP for the relation
    of `mechanics`.
    """

    universe: int
    rho: Fraction
    mechanics: Mechanics
    p: Fraction | None = Fraction(1)
    norm_halvings: int = NORM_HALVINGS

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for counts, norms and sums; return the mean."""
        budget = item_budget(self.universe, self.mechanics.relation.count_share)
        counts = ItemCounts(self.universe)
        yield counts
        sum_rho = self.rho * budget.sums
        if rows is None:
            cost = self.rho * budget.rows
            rows = self.mechanics.relation.noisy_rows(counts.rows, cost, self.mechanics.entropy)
        else:
            sum_rho += self.rho * budget.rows
        weights = np.ones(self.universe)
        if self.p is None:
            sum_rho += self.rho * budget.means
        else:
            means = self._first_means(counts, rows, self.rho * budget.means)
            weights = (means * (1 - means)) ** (-1 / (float(self.p) + 2))
        scale = np.floor(weights * (2.0**TOP / math.sqrt(float(np.sum(weights**2)))))
        return (yield from self._clipped(scale, rows, self.rho * budget.threshold, sum_rho))

    def _first_means(self, counts: ItemCounts, rows: NoisyRows, rho: Fraction) -> Floats:
        """Return private means, away from 0 and 1. A set moves the counts by sqrt(d) at most."""
        noise = Rho(rho).noise(self.universe, self.universe)
        noisy = add_to(counts.counts, noise, self.mechanics.entropy).astype(np.float64)
        least = min(self.universe**-0.4, 0.5)
        return np.clip(noisy / rows.least, least, 1 - least)

    def _clipped(
        self, scale: Floats, rows: NoisyRows, threshold_rho: Fraction, sum_rho: Fraction
    ) -> Generator[VectorTable, None, NoisyMean]:
        mechanics, halvings = self.mechanics, self.norm_halvings
        norms = ItemNormCounts(scale, TOP, 1 << halvings)
        yield norms
        margin = math.sqrt(math.log(halvings)) * mechanics.choose.margin(halvings, threshold_rho)
        rank = min(math.ceil(math.sqrt(rows.least) + margin), LARGEST_RANK)
        if rows.noise is None:
            rank = max(min(rank, rows.value - 1), 0)
        chosen = mechanics.bins(norms.counts, norms.rows, RowsAbove(rank), threshold_rho)
        threshold = Fraction(int(chosen[0]) + 1) * Fraction(2) ** (TOP - halvings)
        sums = ItemClippedSums(scale, float(threshold))
        yield sums
        noise = DiscreteGaussian((mechanics.relation.sum_factor * threshold) ** 2 / (2 * sum_rho))
        noisy = add_to(sums.counts, noise, mechanics.entropy)
        return NoisyMean(
            np.zeros(self.universe),
            scale,
            1.0,
            float(threshold),
            noisy,
            noise,
            rows,
            2 * rank,
            0.0,
            1.0,
        )
