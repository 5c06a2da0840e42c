"""What every estimator offers: a value, an interval for the noise, a standard error, by group."""

from __future__ import annotations

import math
import statistics
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dfprivacy.mechanisms.additive import NoisyVector
from dfprivacy.mechanisms.noise import DiscreteLaplace, Noise
from dfprivacy.statistics.binning import Floats


class Estimator(Protocol):
    """A pure function of a noisy vector and public facts, vectorised over groups."""

    def value(self, vector: NoisyVector) -> npt.NDArray[Any]:
        """Return the estimate of each group."""

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends between which the noise-free answer lies with probability `level`."""

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise in each estimate."""


def to_floats(values: npt.NDArray[Any]) -> Floats:
    """Return integers, of any size, as floats."""
    return values.astype(np.float64)


def half_width_factor(noise: Noise, outside: float) -> float:
    """Return how many standard deviations a weighted sum of draws may be off.

    The sum is larger, in absolute value, with probability at most `outside`. For Gaussian noise
    the answer is the normal quantile. For Laplace noise a sum lies between one Laplace variable
    and a normal one, and the larger of the two quantiles covers both
    (tests/statistical/test_half_width.py checks it over all weights by the closed form).
    """
    normal = statistics.NormalDist().inv_cdf(1 - outside / 2)
    if isinstance(noise, DiscreteLaplace):
        return max(normal, math.log(1 / outside) / math.sqrt(2))
    return normal
