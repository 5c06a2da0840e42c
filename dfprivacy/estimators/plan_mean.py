"""PLAN: noise that is smaller where coordinates vary less, for the error in l_p.

Source: Aumueller et al. 2023, Algorithm 1 with the scaling of Appendix C, the Gaussian instance of
Section 7.1 and its trimmed clipping universe. Charged as in docs/vectors.md, where the public code
of the paper spends more than it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.estimators.clipped_mean import (
    LARGEST_RANK,
    NORM_HALVINGS,
    Clipping,
    Passes,
    clipped_around,
)
from dfprivacy.estimators.deviations import (
    ROWS_A_BUCKET,
    Deviations,
    Spread,
    gaussian_deviations,
    generic_deviations,
)
from dfprivacy.estimators.private_quantiles import (
    Halvings,
    Mechanics,
    coordinate_medians,
    rows_for_medians,
)
from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.measurement.spread_tables import distance_bins
from dfprivacy.measurement.vector_grid import Floats, VectorGrid
from dfprivacy.measurement.vector_tables import CoordinateCounts, Shifted, Windows

MEDIAN_HALVINGS = (10, 10)
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
    median_halvings: Halvings = MEDIAN_HALVINGS
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
