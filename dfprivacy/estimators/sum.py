"""The sum: one noisy coordinate in units of the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dfprivacy.estimators.estimator import to_floats
from dfprivacy.mechanisms.additive import NoisyVector
from dfprivacy.statistics.binning import Floats
from dfprivacy.statistics.grid import Grid


@dataclass(frozen=True)
class SumEstimator:
    """Unbiased sum; `unit` is the step of the grid, negative where the query counts downwards."""

    unit: float
    grid: Grid

    def value(self, vector: NoisyVector) -> Floats:
        """Return the sum of each group, in units of the column; at most the largest float."""
        return _finite(self.unit, to_floats(vector.coordinates[0]))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the exact law of the noise."""
        half = float(vector.noise.quantile(1 - level))
        middle = to_floats(vector.coordinates[0])
        ends = _finite(self.unit, middle - half), _finite(self.unit, middle + half)
        return np.minimum(*ends), np.maximum(*ends)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise, in units of the column."""
        error = np.full(vector.coordinates.shape[1], math.sqrt(vector.noise.variance))
        return _finite(abs(self.unit), error)


def _finite(unit: float, integers: Floats) -> Floats:
    """Return unit * integers, the largest float where that overflows."""
    with np.errstate(over="ignore"):
        product = unit * integers
    largest = np.finfo(np.float64).max
    return np.clip(product, -largest, largest)
