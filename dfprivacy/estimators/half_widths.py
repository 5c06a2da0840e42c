"""How far noise moves an answer, before there is one: half-widths from public facts alone.

For a group of n rows each function returns a distance W with P(abs(answer - exact) > W) at most
1 - level, where `exact` is the answer without noise. `certain` holds wherever the data lie within
the bounds; `ordinary` holds for data in the middle of the bounds (means) or spread evenly over them
(variances). Proofs: docs/explain.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from dfprivacy.estimators.count import CountEstimator
from dfprivacy.estimators.estimator import Estimator, half_width_factor
from dfprivacy.estimators.ratio import RatioEstimator
from dfprivacy.estimators.sum import SumEstimator
from dfprivacy.estimators.variance import StandardDeviationEstimator, VarianceEstimator
from dfprivacy.mechanisms.noise import Noise
from dfprivacy.statistics.binning import Floats
from dfprivacy.statistics.grid import Grid
from dfprivacy.statistics.linear_query import LinearQuery

EVEN = 1 / 12
"""The variance of values that are spread evenly over [0, 1]."""

_MOST = 0.25  # the largest variance on [0, 1]


@dataclass(frozen=True)
class HalfWidths:
    """Distances for groups of several sizes, in units of the answer."""

    certain: Floats
    ordinary: Floats


@dataclass(frozen=True)
class Draw:
    """What an answer is read off: a query, its noise, and the level that a distance holds at."""

    query: LinearQuery
    noise: Noise
    level: float

    def spread(self, share: float = 1.0) -> float:
        """Return what a draw of unit length stays below, for `share` of the outside probability."""
        factor = half_width_factor(self.noise, share * (1 - self.level))
        return factor * math.sqrt(self.noise.variance) + 1


@singledispatch
def half_widths(estimator: Estimator, draw: Draw, rows: Floats) -> HalfWidths:  # noqa: ARG001 by estimator
    """Return the half-widths of an estimate of groups of so many rows.

    Parameters
    ----------
    estimator : Estimator
        Of a count, sum, mean, variance or standard deviation.
    draw : Draw
        The query that it reads and the noise on it.
    rows : numpy.ndarray
        float64, positive: sizes of groups, in rows as they count.

    Returns
    -------
    HalfWidths
        One distance a size, in units of the answer.

    Raises
    ------
    TypeError
        For another estimator.
    """
    raise TypeError(type(estimator).__name__)


@half_widths.register
def _(estimator: CountEstimator, draw: Draw, rows: Floats) -> HalfWidths:
    weights = estimator.weights
    outermost = draw.noise.quantile(1 - draw.level, len(weights.indices))
    half = np.full_like(rows, math.floor(outermost / weights.divisor + 0.5))
    return HalfWidths(half, half)


@half_widths.register
def _(estimator: SumEstimator, draw: Draw, rows: Floats) -> HalfWidths:
    half = abs(estimator.unit) * (draw.noise.quantile(1 - draw.level) + rows / 2)
    return HalfWidths(half, half)


@half_widths.register
def _(estimator: RatioEstimator, draw: Draw, rows: Floats) -> HalfWidths:
    u, v = np.array(estimator.numerator, float), np.array(estimator.denominator, float)
    constants = np.array([row[0] for row in draw.query.matrix], float)
    below, spread = rows * float(v @ constants), draw.spread()
    reach = estimator.most - estimator.least
    longest = max(float(np.linalg.norm(u - end * v)) for end in (estimator.least, estimator.most))
    certain = np.minimum(spread * longest / below, reach)
    middle = u - (estimator.least + estimator.most) / 2 * v
    ordinary = np.minimum(_fieller(middle, v, spread, below), reach / 2)
    slack = estimator.grid.step / 2
    return HalfWidths(*(estimator.unit * half + slack for half in (certain, ordinary)))


@half_widths.register
def _(estimator: VarianceEstimator, draw: Draw, rows: Floats) -> HalfWidths:
    half, square = _variance(draw, rows), _width(estimator.grid) ** 2
    return HalfWidths(half.certain * square, half.ordinary * square)


@half_widths.register
def _(estimator: StandardDeviationEstimator, draw: Draw, rows: Floats) -> HalfWidths:
    half, width = _variance(draw, rows), _width(estimator.grid)
    low = math.sqrt(EVEN) - np.sqrt(np.maximum(EVEN - half.ordinary, 0))
    high = np.sqrt(EVEN + half.ordinary) - math.sqrt(EVEN)
    return HalfWidths(np.sqrt(half.certain) * width, np.maximum(low, high) * width)


def _variance(draw: Draw, rows: Floats) -> HalfWidths:
    """Return half-widths of a variance on [0, 1]: nine tenths for w.Z, one tenth for the mean."""
    grid = draw.query.source.grid
    assert grid is not None  # noqa: S101 a variance has bounds
    spread, of_mean = draw.spread(0.9) / grid.last, draw.spread(0.1) / grid.last
    certain = spread / rows + _distance(5 / 4, 3.0, of_mean, rows) ** 2
    ordinary = _distance(1 / 6, 0.0, spread, rows) + _distance(1 / 2, 0.0, of_mean, rows) ** 2
    rounding = 2 / grid.last
    return HalfWidths(
        np.minimum(certain + rounding, _MOST), np.minimum(ordinary + rounding, _MOST - EVEN)
    )


def _distance(constant: float, linear: float, spread: float, rows: Floats) -> Floats:
    """Return the d with d n = spread * sqrt(constant + linear d + 3 d^2); infinity where none."""
    a = rows**2 - 3 * spread**2
    half_b = linear * spread**2 / 2
    root = np.sqrt(half_b**2 + np.maximum(a, 0) * constant * spread**2)
    return np.divide(half_b + root, a, out=np.full_like(rows, np.inf), where=a > 0)


def _fieller(x: Floats, v: Floats, spread: float, below: Floats) -> Floats:
    """Return the larger W with W below = spread * norm(x - W v), or norm(x + W v)."""
    square = spread**2
    a = below**2 - square * float(v @ v)
    half_b = abs(float(x @ v)) * square
    root = np.sqrt(half_b**2 + np.maximum(a, 0) * square * float(x @ x))
    return np.divide(half_b + root, a, out=np.full_like(below, np.inf), where=a > 0)


def _width(grid: Grid) -> float:
    return grid.last * grid.step
