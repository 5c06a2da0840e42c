"""The clipped mean with a private threshold, around a public centre.

Source: Huang, Liang and Yi 2021, Sections 3.1 and 3.2. Proof of the add-remove form:
docs/vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.estimators.noisy_mean import NoisyMean
from dfprivacy.estimators.private_quantiles import Mechanics, RowsAbove
from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.measurement.vector_grid import VectorGrid
from dfprivacy.measurement.vector_tables import ClippedSums, NormCounts, Shifted, VectorTable
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteGaussian

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
