"""Average vectors clipped to a private length: around a center, or scaled by private deviations.

`RecenteredMean` clips, moves the center to the noisy mean, and clips again. `ClippedMean` and
`ShiftedMean`, around rotated medians, are those of Huang, Liang and Yi 2021, Sections 3.1 to 3.3;
`PlanMean` and `PlanItems`, for the error in l_p, that of Aumueller et al. 2023, Algorithm 1 with
the scaling of Appendix C. docs/how-to/vectors.md says what each draw costs, where their add-remove
forms and the caller's own coordinates differ from the papers, and has the proofs.

Private medians of many coordinates are searched by noisy counts: PrivQuant of Huang, Liang and Yi
2021 (Section 3.2, with the noisy counts of their Theorem 1). A bin scores by the rows up to it and
all rows: negative below the median, positive above. A threshold of norms, one number, is selected
by the exponential mechanism of Smith 2011, which seldom strays among empty bins.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Rho
from dfprivacy.measurement.vectors import (
    BucketSpreads,
    ClippedSums,
    CoordinateCounts,
    Distances,
    Floats,
    Integers,
    ItemCounts,
    NormCounts,
    PairDistances,
    Rotation,
    Shifted,
    VectorGrid,
    VectorTable,
    Windows,
    distance_bins,
    find_bin_middle,
    find_squared_limit,
    pad_size,
)
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism, random_labels, random_signs


@dataclass(frozen=True)
class NoisyRows:
    """The number of rows, as known after a release: with its noise, or public. Public."""

    value: int
    noise: DiscreteGaussian | None

    @property
    def minimum(self) -> int:
        """The number by which a sum is divided: at least 1."""
        return max(self.value, 1)

    def interval(self, outside: float) -> tuple[int, int]:
        """Return numbers between which the rows lie, up to a probability."""
        half = 0 if self.noise is None else self.noise.quantile(outside)
        return max(self.value - half, 0), self.value + half


Halvings = tuple[int, ...]


@dataclass(frozen=True)
class Relation:
    """A neighbor relation on tables of vectors, and the searches whose sensitivity it decides.

    A sum of vectors of norm at most C moves by at most `sum_factor` times C in L2 norm, and twice
    the rows up to a bin, less all rows, by `median_moves`. Rows that are no whole vectors count as
    zeros if it `keeps_incomplete`, else not at all. Where it has `secret_rows` their number is paid
    for.
    """

    sum_factor: int
    median_moves: int
    keeps_incomplete: bool
    secret_rows: bool

    def count_rows(
        self, rows: NoisyRows | None, exact: int, rho: Fraction
    ) -> tuple[NoisyRows, Fraction]:
        """Return the number of rows, free where it is public, else for `rho` (sensitivity 1)."""
        if rows is not None:
            return rows, Fraction(0)
        if not self.secret_rows:
            return NoisyRows(exact, None), Fraction(0)
        noise = Rho(rho).noise(1, 1)
        noisy = add_to(np.array([exact], np.int64), noise)
        return NoisyRows(int(noisy[0]), noise), rho

    def search(
        self, counts: Integers, values: int, rho: Fraction, *, is_public: bool = False
    ) -> Integers:
        """Return the bin of the median of each coordinate, by a binary search over noisy counts.

        A row of `counts` has the rows below, in each of 2**T bins, and above. Secret. Each of T
        steps costs rho / T for all coordinates together. If the number of `values` `is_public`, a
        neighbor has one value in another place.
        """
        times, half, moves = (1, values // 2, 1) if is_public else (2, values, self.median_moves)
        size, width = counts.shape[0], counts.shape[1] - 2
        upto = np.cumsum(counts, axis=1)
        low, every = np.zeros(size, np.int64), np.arange(size)
        if width == 1:
            return low
        step = Rho(rho).share(Fraction(1, size * (width.bit_length() - 1)))
        noise = step.noise(moves, moves**2)
        while width > 1:
            width //= 2
            scores = times * upto[every, low + width] - half  # up to bin low + width - 1
            low += np.where(add_to(scores, noise) <= 0, width, 0)
        return low

    def find_medians(
        self,
        size: int,
        bits: int,
        halvings: Halvings,
        rho: Fraction,
        rotation: Rotation | None = None,
    ) -> Generator[VectorTable, None, tuple[Floats, int]]:
        """Return the median of each coordinate, and the exact number of rows of the first pass.

        Coordinates lie between -2**bits and 2**bits. Each pass splits the bin chosen by the one
        before into 2**h bins, h in `halvings`, and costs h parts of rho. The number of rows is
        secret.
        """
        windows = Windows(np.full(size, -math.ldexp(1.0, bits)), bits + 1, 1)
        chosen, rows = np.zeros(size, np.int64), 0
        for halvings_of_pass in halvings:
            windows = windows.within(chosen, 1 << halvings_of_pass)
            table = CoordinateCounts(windows, rotation)
            yield table
            rows = rows or table.rows
            part = rho * Fraction(halvings_of_pass, sum(halvings))
            chosen = self.search(table.counts, table.rows, part)
        return windows.middles(chosen), rows

    def threshold(self, counts: Integers, rank: int, rho: Fraction) -> int:
        """Return a bin, beyond which about `rank` rows lie: the exponential mechanism over bins.

        The loss of a bin is by how many rows it misses: those beyond it that are more than `rank`,
        or those from it on that are fewer. A row moves either by 1 at most.
        """
        rows_beyond = counts.sum() - np.cumsum(counts)
        losses = np.maximum(np.maximum(rows_beyond - rank, rank - rows_beyond - counts), 0)
        candidates = np.arange(len(counts))
        runs = Runs(np.array([0]), candidates, np.ones_like(candidates), losses)
        return int(ExponentialMechanism.for_rho(rho, 1).select(runs)[0])


RELATIONS = {
    "add-remove": Relation(1, 1, keeps_incomplete=False, secret_rows=True),
    "replace": Relation(2, 2, keeps_incomplete=True, secret_rows=False),
}


SURE = 16
"""Of 2**10 bins, those whose loss times half of epsilon is beyond this are chosen together with a
probability below 2**10 exp(-16), one in 8,000."""


def margin(rho: Fraction) -> float:
    """Return by how many ranks a threshold that costs `rho` is hardly ever off."""
    return 2 * SURE / math.sqrt(8 * rho)


def rows_for_medians(size: int, halvings: int, rho: Fraction, relation: Relation) -> int:
    """Return the number of rows below which medians of `size` coordinates are mostly noise.

    Half of that number is five standard deviations of the noise in ranks. A search asks thousands
    of counts, and a single wrong turn spoils the center.
    """
    return math.ceil(5 * relation.median_moves * math.sqrt(size * halvings / (2 * rho)))


@dataclass(frozen=True)
class NoisyMean:
    """The released parts of a mean of vectors. Public.

    A coordinate is (center + sums / rows / scale) * step, where sums / rows is first brought to a
    norm of at most `threshold`. `sums` holds integers, with `noise` on each of them. Below `needed`
    rows center and threshold may be anything, for all that is known.
    """

    center: Floats
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
        mean = self.sums.astype(np.float64) / self.rows.minimum
        norm = float(np.sqrt(np.sum(mean * mean)))
        if norm > self.threshold:
            mean *= self.threshold / norm
        return self._unscale(mean)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return ends for each coordinate that cover what the noise has done to it.

        Each coordinate lies between its ends with probability `level`, as far as clipping goes: the
        ends are those of the clipped mean, and hold its estimate. No end is further from the center
        than the threshold, unless there may be fewer rows than `needed`: then the ends are those of
        the universe.
        """
        share = 1 - level if self.rows.noise is None else (1 - level) / 2
        smallest, largest = (max(rows, 1) for rows in self.rows.interval(share))
        if smallest < self.needed:
            size = len(self.sums)
            return np.full(size, self.lowest), np.full(size, self.highest)
        half = float(self.noise.quantile(share))
        sums = self.sums.astype(np.float64)
        low = np.minimum((sums - half) / smallest, (sums - half) / largest)
        high = np.maximum((sums + half) / smallest, (sums + half) / largest)
        ends = (np.clip(end, -self.threshold, self.threshold) for end in (low, high))
        below, above = (self._unscale(end) for end in ends)
        value = self.value()  # may lie beyond, brought to the threshold by its norm
        return np.minimum(below, value), np.maximum(above, value)

    def standard_error(self) -> Floats:
        """Return the standard deviation of the noise in each coordinate, to first order.

        It is infinite where there is a `note`, as the error may be anything.
        """
        deviation = math.sqrt(self.noise.variance) / self.rows.minimum
        deviations = np.asarray(deviation / self.scale * self.step)
        return np.full_like(deviations, math.inf) if self.note() else deviations

    def note(self) -> str | None:
        """Return a reason to doubt the mean: too few rows, or a grid coarser than the noise."""
        if self.rows.interval(_DOUBT)[0] < self.needed:
            return f"fewer rows than the {self.needed:,} that center and threshold need"
        deviation = math.sqrt(self.noise.variance) / self.rows.minimum
        if deviation / float(np.max(self.scale)) < 0.5:
            return "values are rounded to a grid coarser than the noise: name a smaller radius"
        return None

    def _unscale(self, mean: Floats) -> Floats:
        moved = (self.center + mean / self.scale) * self.step
        return np.asarray(np.clip(moved, self.lowest, self.highest))


_DOUBT = 0.05  # outside probability of the noisy count of rows that a note goes by

Passes = Generator[VectorTable, None, NoisyMean]
"""An estimator as a coroutine: it asks for a table, and goes on when a pass has filled it."""

MOST_CLIPPED = Fraction(2, 5)  # largest fraction of the rows that the threshold is to clip

COUNT_SHARE = Fraction(1, 100)
"""Fraction of rho that counts the rows under add-remove, where they are near their center."""


@dataclass(frozen=True)
class Round:
    """The cost of a clipped sum: rho for its threshold, and for the sum."""

    threshold: Fraction
    sum: Fraction


@dataclass(frozen=True)
class Clipping:
    """A clipped sum to compute: its cost and its integers.

    About `rank` rows, and what the choice may be off by, are longer than the threshold. A
    coordinate of the mean is that of `NoisyMean`; where there may be fewer rows than `needed` it
    tells nothing.
    """

    shifted: Shifted
    cost: Round
    rank: float
    step: float
    lowest: float
    highest: float
    needed: int = 0


def average_clipped(
    norms: npt.NDArray[np.int64], clipping: Clipping, rows: NoisyRows, relation: Relation
) -> Passes:
    """Choose a threshold off the counts of norms, ask for the sum, and return the mean."""
    off = margin(clipping.cost.threshold)
    rank = min(math.ceil(clipping.rank + off), int(rows.minimum * MOST_CLIPPED))
    limit = find_squared_limit(relation.threshold(norms, rank, clipping.cost.threshold))
    sums = ClippedSums(clipping.shifted, limit)
    yield sums
    factor = relation.sum_factor
    noise = DiscreteGaussian(factor**2 * Fraction(limit) / (2 * clipping.cost.sum))
    noisy = add_to(sums.counts, noise)
    center, scale = clipping.shifted.center, clipping.shifted.scale
    return NoisyMean(
        center,
        np.ones_like(center) if scale is None else scale,
        clipping.step,
        math.sqrt(limit),
        noisy,
        noise,
        rows,
        max(clipping.needed, math.ceil(off / MOST_CLIPPED)),
        clipping.lowest,
        clipping.highest,
    )


def dense_clipping(
    grid: VectorGrid, shifted: Shifted, cost: Round, relation: Relation, needed: int = 0
) -> Clipping:
    """Return the clipped sum of rows of a grid.

    So many rows are clipped that one more would cost more than its noise: the derivative of noise
    plus clipping vanishes at sqrt(d / (2 rho)) rows under add-remove, twice as many under replace.
    """
    rank = relation.sum_factor * math.sqrt(grid.dimension / (2 * cost.sum))
    return Clipping(
        shifted,
        cost,
        rank,
        grid.step,
        -grid.radius,
        grid.radius,
        needed,
    )


PILOTS = (Fraction(6, 100), Fraction(12, 100))  # the most that the sums of the first rounds cost

THRESHOLD_SHARE = Fraction(1, 20)
NEAR = Fraction(3, 100)
"""The first sums pay no more than for noise of this part of their threshold, in norm."""


@dataclass(frozen=True)
class RecenteredMean:
    """The mean of vectors in three rounds: clip around the center, and go on from that mean.

    Under add-remove a hundredth of rho counts the rows; the rounds share the rest. Privacy:
    rho-zCDP for the relation of `relation`.
    """

    grid: VectorGrid
    rho: Fraction
    relation: Relation

    count_share: ClassVar[Fraction] = COUNT_SHARE

    moved: ClassVar[int] = 1
    """Rows less a center have coordinates of so many bits more."""

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for norms and sums, in every round; return the mean."""
        grid, relation = self.grid, self.relation
        shifted = Shifted(np.zeros(grid.dimension), grid.bits + self.moved)
        norms = NormCounts(shifted)
        yield norms
        rows, cost = relation.count_rows(rows, norms.rows, self.rho * self.count_share)
        *pilots, last = self.rounds(self.rho - cost, rows.minimum)
        needed = 0
        for pilot in pilots:
            clipping = dense_clipping(grid, shifted, pilot, relation, needed)
            mean = yield from average_clipped(norms.counts, clipping, rows, relation)
            needed = mean.needed
            shifted = Shifted(np.rint(mean.value() / grid.step), grid.bits + 1)
            norms = NormCounts(shifted)
            yield norms
        clipping = dense_clipping(grid, shifted, last, relation, needed)
        return (yield from average_clipped(norms.counts, clipping, rows, relation))

    def last(self, counted: Fraction, rows: int) -> Round:
        """Return the cost of the last round, after `counted` for the number of rows."""
        return self.rounds(self.rho - counted, rows)[-1]

    def rounds(self, rho: Fraction, rows: int) -> list[Round]:
        """Share rho between rounds, by the noisy number of rows; the last one has what is left.

        The first rounds need no more than a threshold that is off by a quarter of the rows, and a
        sum whose noise has `NEAR` of the threshold as its norm.
        """
        threshold = min(rho * THRESHOLD_SHARE, Fraction(8 * SURE**2, rows**2))
        factor = self.relation.sum_factor
        enough = factor**2 * Fraction(self.grid.dimension, 2 * rows**2) / NEAR**2
        pilots = [Round(threshold, min(rho * limit, enough)) for limit in PILOTS]
        left = rho - sum(pilot.threshold + pilot.sum for pilot in pilots)
        return [*pilots, Round(left * THRESHOLD_SHARE, left * (1 - THRESHOLD_SHARE))]


@dataclass(frozen=True)
class ClippedMean(RecenteredMean):
    """The mean of vectors, each shortened to a private threshold, in one round.

    A quarter of rho finds the threshold, the rest pays for the sum; of that, under add-remove, a
    tenth for the number of rows. Privacy: rho-zCDP for the relation of `relation`.
    """

    count_share: ClassVar[Fraction] = Fraction(3, 40)
    """More than elsewhere: far from 0 the mean is as far off as the number of rows."""

    moved: ClassVar[int] = 0

    def rounds(self, rho: Fraction, rows: int) -> list[Round]:  # noqa: ARG002 one interface
        """Return the only round."""
        return [Round(self.rho / 4, rho - self.rho / 4)]


MEDIAN_HALVINGS = (8, 8)
REACH = 4


@dataclass(frozen=True)
class ShiftedMean:
    """The mean of vectors, each shortened to a private distance from a private center.

    Medians cost rho/4, the threshold 3 rho/16, the sum 9 rho/16; of the last, under add-remove, a
    hundredth of rho pays for the number of rows. Rotated coordinates are looked for within `reach`
    times radius / sqrt(d): a rotated vector of norm `radius` has such coordinates with high
    probability, and others count as the ends. Privacy: rho-zCDP for the relation of `relation`.
    """

    grid: VectorGrid
    rho: Fraction
    relation: Relation
    median_halvings: Halvings = MEDIAN_HALVINGS
    reach: int = REACH

    count_share: ClassVar[Fraction] = COUNT_SHARE

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for rotated counts, norms and sums; return the mean."""
        size = pad_size(self.grid.dimension)
        rotation = Rotation(random_signs(size), self.grid.dimension)
        turned, _ = yield from self.relation.find_medians(
            size,
            self.grid.bits + self.reach.bit_length() - 1,
            self.median_halvings,
            self.rho / 4,
            rotation,
        )
        center = np.clip(np.rint(rotation.undo(turned)), -self.grid.largest, self.grid.largest)
        shifted = Shifted(center, self.grid.bits + 1)
        norms = NormCounts(shifted)
        yield norms
        rows, cost = self.relation.count_rows(rows, norms.rows, self.rho * self.count_share)
        needed = rows_for_medians(size, sum(self.median_halvings), self.rho / 4, self.relation)
        last = self.last(cost, rows.minimum)
        clipping = dense_clipping(self.grid, shifted, last, self.relation, needed)
        return (yield from average_clipped(norms.counts, clipping, rows, self.relation))

    def last(self, counted: Fraction, rows: int) -> Round:  # noqa: ARG002 one interface
        """Return the cost of the mean, after `counted` for the number of rows."""
        return Round(self.rho * Fraction(3, 16), self.rho * Fraction(9, 16) - counted)


NORMAL_MEDIAN = statistics.NormalDist().inv_cdf(0.75)
"""The median of |x| for a standard normal x, 0.6745."""

PAIRS = 2  # pairs of rows behind one value of the generic estimator: the constant k of the paper

ROWS_A_BUCKET = 4
MOST_BUCKETS = 4096
MOST_SUMS = 2**24  # buckets times dimension: a quarter of a GiB of sums and squares


PLAN_HALVINGS = (10, 10)
BETA = 0.1


@dataclass(frozen=True)
class PlanMean:
    """The mean of vectors, scaled by private standard deviations before it is clipped.

    Of rho, 1/16 goes to the center, 3/16 to standard deviations, 1/32 to the threshold and 23/32 to
    the sum; of the last, under add-remove, a hundredth of rho pays for the number of rows. Privacy:
    rho-zCDP for the relation of `relation`.
    """

    grid: VectorGrid
    rho: Fraction
    relation: Relation
    p: Fraction = Fraction(2)
    deviations: str = "gaussian"

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for medians, spreads, norms and sums; return the mean."""
        center, exact = yield from self.relation.find_medians(
            self.grid.dimension, self.grid.bits, PLAN_HALVINGS, self.rho / 16
        )
        rows, paid = self.relation.count_rows(rows, exact, self.rho * COUNT_SHARE)
        deviation = yield from self._find_deviations(center, rows)
        shifted = self._shift_rows(center, deviation)
        norms = NormCounts(shifted)
        yield norms
        cost = Round(self.rho / 32, self.rho * Fraction(23, 32) - paid)
        clipping = replace(
            dense_clipping(self.grid, shifted, cost, self.relation, self._count_needed_rows()),
            rank=math.sqrt(rows.minimum),
        )
        return (yield from average_clipped(norms.counts, clipping, rows, self.relation))

    def _find_deviations(
        self, center: Floats, rows: NoisyRows
    ) -> Generator[VectorTable, None, Floats]:
        """Return sigma_j by the median of |x_j - center_j|, or of |x_j - x'_j| over pairs.

        In generic data with a bounded fourth moment it is the median over groups of the sample
        deviation of a few rows, up to a constant factor; no factor corrects it for a law. Under
        add-remove each row draws its bucket, independently of all others, and the number of buckets
        follows from the noisy number of rows; under replace groups are consecutive rows.
        """
        size, bits, rho = self.grid.dimension, self.grid.bits + 2, self.rho * Fraction(3, 16)
        is_generic = self.deviations == "generic"
        factor = 1.0 if is_generic else NORMAL_MEDIAN
        if rows.noise is None:
            pairs = PairDistances(size, bits, PAIRS if is_generic else 1)
            yield pairs
            chosen = self.relation.search(pairs.counts, pairs.groups, rho, is_public=True)
            return find_bin_middle(chosen) / 2**0.5 / factor
        if not is_generic:
            distances = Distances(center, bits)
            yield distances
            chosen = self.relation.search(distances.counts, distances.rows, rho)
            return find_bin_middle(chosen) / factor
        bucket_limit = min(MOST_BUCKETS, max(MOST_SUMS // size, 1))
        buckets = min(max(rows.value // ROWS_A_BUCKET, 1), bucket_limit)
        spreads = BucketSpreads(center, buckets, bits, lambda many: random_labels(many, buckets))
        yield spreads
        chosen = self.relation.search(spreads.distances(), buckets, rho, is_public=True)
        return find_bin_middle(chosen)

    def _shift_rows(self, center: Floats, deviation: Floats) -> Shifted:
        """Return rows scaled to the universe of their norms; everything in it is public by now.

        The universe is twice the paper's bound on scaled norms: how finely norms are told apart.
        """
        regular = 2 * deviation + max(float(np.mean(2 * deviation)), 1.0)
        top = self.grid.bits + 1
        logs, p = max(math.log(len(regular)), 1.0) * math.log(1 / BETA), float(self.p)
        universe = 2 * math.sqrt(logs * float(np.sum(regular ** (2 * p / (p + 2)))))
        return Shifted(center, top, regular ** (-2 / (p + 2)) * (math.ldexp(1.0, top) / universe))

    def _count_needed_rows(self) -> int:
        relation, size = self.relation, self.grid.dimension
        medians = rows_for_medians(size, sum(PLAN_HALVINGS), self.rho / 16, relation)
        halvings = distance_bins(self.grid.bits + 2).bit_length() - 1
        spreads = rows_for_medians(size, halvings, self.rho * Fraction(3, 16), relation)
        return max(medians, spreads * (ROWS_A_BUCKET if self.deviations == "generic" else 1))


TOP = 26  # scaled norms are below 2**26: squares of them are exact in float64


@dataclass(frozen=True)
class PlanItems:
    """The part of the sets that holds each item, with less noise where that is near 0 or 1.

    Of rho, a tenth pays for first means, whose deviations set the scale, 4% for the threshold,
    under add-remove 1% for the number of sets, the rest for the sum. Without `p` all items weigh
    the same, and nothing is spent on means: the clipped mean. Privacy: rho-zCDP for the relation
    of `relation`.
    """

    universe: int
    rho: Fraction
    relation: Relation
    p: Fraction | None = Fraction(1)

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for counts, norms and sums; return the mean."""
        counts = ItemCounts(self.universe)
        yield counts
        rows, cost = self.relation.count_rows(rows, counts.rows, self.rho * COUNT_SHARE)
        left, weights = self.rho - cost, np.ones(self.universe)
        if self.p is not None:
            means = self._first_means(counts, rows, self.rho / 10)
            weights = (means * (1 - means)) ** (-1 / (float(self.p) + 2))
            left -= self.rho / 10
        scale = np.floor(weights * (2.0**TOP / math.sqrt(float(np.sum(weights**2)))))
        scaled = Shifted(np.zeros(self.universe), TOP, scale)
        norms = NormCounts(scaled)
        yield norms
        threshold = self.rho / 25
        clipping = Clipping(
            scaled,
            Round(threshold, left - threshold),
            math.sqrt(rows.minimum),
            1.0,
            0.0,
            1.0,
        )
        return (yield from average_clipped(norms.counts, clipping, rows, self.relation))

    def _first_means(self, counts: ItemCounts, rows: NoisyRows, rho: Fraction) -> Floats:
        """Return private means, away from 0 and 1. A set moves the counts by sqrt(d) at most."""
        noise = Rho(rho).noise(self.universe, self.universe)
        noisy = add_to(counts.counts, noise).astype(np.float64)
        margin = min(self.universe**-0.4, 0.5)
        return np.clip(noisy / rows.minimum, margin, 1 - margin)
