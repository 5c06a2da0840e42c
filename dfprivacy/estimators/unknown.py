"""What is said of a group in which too few rows were found to say anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.noise.additive import NoisyVector


@dataclass(frozen=True)
class UnknownEstimator:
    """Not a number, anywhere between minus and plus infinity."""

    def value(self, vector: NoisyVector) -> Floats:
        """Return NaN for each group."""
        return self._all(vector, np.nan)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:  # noqa: ARG002 one interface
        """Return the whole line."""
        return self._all(vector, -np.inf), self._all(vector, np.inf)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return infinity."""
        return self._all(vector, np.inf)

    @staticmethod
    def _all(vector: NoisyVector, value: float) -> Floats:
        return np.full(vector.coordinates.shape[1], value)
