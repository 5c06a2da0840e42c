"""The shifted clipped mean: a private centre by rotated medians, then the clipped mean around it.

Source: Huang, Liang and Yi 2021, Section 3.3 (Theorem 3) and its statistical wrapper. As noise of
the same variance on all coordinates does not see rotations, norms and sums are taken in the
caller's own coordinates, around the centre turned back: the law is that of the paper, without its
padding. Proof of the add-remove form: docs/vectors.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.estimators.clipped_mean import NORM_HALVINGS, Clipping, Passes, clipped_around
from dfprivacy.estimators.private_quantiles import (
    Halvings,
    Mechanics,
    coordinate_medians,
    rows_for_medians,
)
from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.measurement.rotation import Rotation, padded_size
from dfprivacy.measurement.vector_grid import VectorGrid
from dfprivacy.measurement.vector_tables import CoordinateCounts, Shifted, Windows
from dfprivacy.noise.coins import random_signs

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
