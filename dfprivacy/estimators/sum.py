"""The sum: one noisy coordinate in units of the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dfprivacy.estimators.estimator import Floats, to_floats
from dfprivacy.mechanisms.additive import NoisyVector


@dataclass(frozen=True)
class SumEstimator:
    """Unbiased sum; `unit` is the step of the grid, negative where the query counts downwards."""

    unit: float

    def value(self, vector: NoisyVector) -> Floats:
        """Return the sum of each group, in units of the column."""
        return self.unit * to_floats(vector.coordinates[0])

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the exact law of the noise."""
        half = abs(self.unit) * vector.noise.quantile(1 - level)
        middle = self.value(vector)
        return middle - half, middle + half

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise, in units of the column."""
        error = abs(self.unit) * math.sqrt(vector.noise.variance)
        return np.full(vector.coordinates.shape[1], error)
