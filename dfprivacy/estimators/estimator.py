"""What every estimator offers: a value, an interval for the noise, a standard error, by group."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.linear import Linear
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import DiscreteLaplace, Noise


@dataclass(frozen=True)
class HalfWidths:
    """How far noise moves an answer, for groups of several sizes, in units of the answer.

    P(abs(answer - exact) > distance) is at most 1 - level, where `exact` is the answer without
    noise. `certain` holds wherever the data lie within the bounds; `ordinary` holds for data in the
    middle of the bounds (means) or spread evenly over them (variances). Proofs: docs/explain.md.
    """

    certain: Floats
    ordinary: Floats


@dataclass(frozen=True)
class Draw:
    """What an answer is read off: a vector, its noise, and the level that a distance holds at."""

    linear: Linear
    noise: Noise
    level: float

    def spread(self, share: float = 1.0) -> float:
        """Return what a draw of unit length stays below, for `share` of the outside probability."""
        factor = half_width_factor(self.noise, share * (1 - self.level))
        return factor * math.sqrt(self.noise.variance) + 1


class Estimator(Protocol):
    """A pure function of a noisy vector and public facts, vectorised over groups."""

    def value(self, vector: NoisyVector) -> npt.NDArray[Any]:
        """Return the estimate of each group."""

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends between which the noise-free answer lies with probability `level`."""

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise in each estimate."""


class Foreseen(Estimator, Protocol):
    """An estimator whose error is known before there is data."""

    def half_widths(self, draw: Draw, rows: Floats) -> HalfWidths:
        """Return how far noise moves an estimate of groups of so many rows, before there is one."""

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale of the noise on the sums behind an estimate, and its unit in words."""


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
