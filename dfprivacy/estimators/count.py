"""The count: a sum of noisy coordinates divided by what one row adds to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.estimators.estimator import Draw, HalfWidths, to_floats
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.noise.additive import NoisyVector


@dataclass(frozen=True)
class CountEstimator:
    """Unbiased count, rounded to the nearest integer; it may be negative."""

    weights: CountWeights

    def value(self, vector: NoisyVector) -> npt.NDArray[np.int64]:
        """Return the count of each group."""
        return _rounded(vector.total(self.weights.indices), self.weights.divisor)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the exact law of the noise."""
        terms = len(self.weights.indices)
        half = vector.noise.quantile(1 - level, terms) / self.weights.divisor
        middle = to_floats(vector.total(self.weights.indices)) / self.weights.divisor
        return np.ceil(middle - half - _EDGE), np.floor(middle + half + _EDGE)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise."""
        terms = len(self.weights.indices)
        error = math.sqrt(terms * vector.noise.variance) / self.weights.divisor
        return np.full(vector.coordinates.shape[1], error)

    def half_widths(self, draw: Draw, rows: Floats) -> HalfWidths:
        """Return the half-width of the exact law, the same for all sizes."""
        outermost = draw.noise.quantile(1 - draw.level, len(self.weights.indices))
        half = np.full_like(rows, math.floor(outermost / self.weights.divisor + 0.5))
        return HalfWidths(half, half)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale in rows."""
        return spread / self.weights.divisor, unit


_EDGE = 1e-9  # a true count at the very end of an interval stays inside despite float division


def _rounded(total: npt.NDArray[Any], divisor: int) -> npt.NDArray[np.int64]:
    """Return total/divisor rounded half up, within the range of an int64."""
    if total.dtype == object:
        limit = 2**63 - 1
        exact = [(2 * int(t) + divisor) // (2 * divisor) for t in total]
        return np.array([min(max(n, -limit), limit) for n in exact], dtype=np.int64)
    whole, rest = np.divmod(total, divisor)
    return np.asarray(whole + (2 * rest >= divisor), dtype=np.int64)
