"""Average vectors clipped to a private length, around a public centre or one found first.

`ClippedMean` and its add-remove form: Huang, Liang and Yi 2021, Sections 3.1 and 3.2. `ShiftedMean`
finds a centre by rotated medians: Section 3.3 (Theorem 3) and its statistical wrapper. As noise of
the same variance on all coordinates does not see rotations, norms and sums are taken in the
caller's own coordinates, around the centre turned back: the law is that of the paper, without its
padding. Proofs: docs/vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.estimators.private_quantiles import (
    Halvings,
    Mechanics,
    NoisyRows,
    RowsAbove,
    coordinate_medians,
    rows_for_medians,
)
from dfprivacy.measurement.rotation import Rotation, padded_size
from dfprivacy.measurement.vector_grid import Floats, VectorGrid
from dfprivacy.measurement.vector_tables import (
    ClippedSums,
    CoordinateCounts,
    NormCounts,
    Shifted,
    VectorTable,
    Windows,
)
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.noise.selection import random_signs


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
    chosen = mechanics.bins(norms, RowsAbove(rank), clipping.threshold_rho)
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


def gaussian_radius(
    radius: float, deviation: float, dimension: int, rows: int, beta: float = 1e-6
) -> float:
    """Return a radius that holds all of `rows` Gaussian vectors, but for probability beta.

    For vectors of mean at most `radius` in norm and standard deviation at most `deviation` in every
    direction: radius + deviation * (sqrt(d) + sqrt(2 log(rows / beta))). All arguments are public;
    an upper bound on the number of rows will do.

    >>> round(gaussian_radius(100, 1, 128, 10_000), 1)
    118.1
    """
    tail = math.sqrt(2 * math.log(rows / beta))
    return radius + deviation * (math.sqrt(dimension) + tail)
