"""What a dp_* function measures, the noise it adds and how its answer is read off.

Public facts only, kept for the next chunk of groups. Everything comes from the questions and
plans of the frame API, so that SQL and frames give the same answers under the same noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dfprivacy.accounting.contribution import Contribution
from dfprivacy.accounting.loss import Epsilon, delta_of, positive_number
from dfprivacy.errors import MissingDeltaError
from dfprivacy.estimators.estimator import Estimator
from dfprivacy.measurement.grid import Grid
from dfprivacy.measurement.linear import Linear, OnGrid
from dfprivacy.noise.laws import Noise
from dfprivacy.statistics import Count, Mean, Quantiles, StandardDeviation, Sum, Variance
from dfprivacy.statistics.linear import Vectors, vectors_of
from dfprivacy.statistics.octaves import OctavePart
from dfprivacy.terms import Bounds

MOMENTS = {
    "dp_sum": Sum,
    "dp_mean": Mean,
    "dp_avg": Mean,
    "dp_var": Variance,
    "dp_stddev": StandardDeviation,
}
"""The functions that take bounds or find their own, and the questions they ask."""


@dataclass(frozen=True)
class Setting:
    """One query with its noise and the estimator that answers from it."""

    linear: Linear
    estimator: Estimator
    noise: Noise


@lru_cache(maxsize=1024)
def bounded_vectors(function: str, lower: float, upper: float) -> Vectors:
    """Return the vector of a function with bounds.

    Raises
    ------
    InvalidBoundsError
        When the bounds are not two finite numbers, lower < upper.
    """
    return vectors_of({function: MOMENTS[function]("x", Bounds(lower, upper))}, grouped=False)


def grid_of(function: str, lower: float, upper: float) -> Grid:
    """Return the grid whose integers a function with bounds adds up."""
    q = bounded_vectors(function, lower, upper).linears[0].source.terms[0]
    assert isinstance(q, OnGrid)  # noqa: S101 functions with bounds have a grid
    return q.grid


def moments_of(function: str) -> int:
    """Return up to which moment a function with bounds adds up the grid integers."""
    return len(bounded_vectors(function, 0.0, 1.0).linears[0].source.terms)


@lru_cache(maxsize=1024)
def bounded_setting(function: str, lower: float, upper: float, epsilon: float) -> Setting:
    """Return the setting of a function with bounds.

    Raises
    ------
    InvalidBoundsError, InvalidLossError
        When the constants are not bounds and an epsilon.
    """
    return setting_of(bounded_vectors(function, lower, upper), epsilon)


@lru_cache(maxsize=1024)
def count_setting(epsilon: float) -> Setting:
    """Return the setting of a count.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    """
    return setting_of(vectors_of({"dp_count": Count()}, grouped=False), epsilon)


def loss_of(epsilon: object) -> Epsilon:
    """Return what a call spends.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    """
    return Epsilon(positive_number("epsilon", epsilon))


@lru_cache(maxsize=16)
def octave_part(function: str) -> tuple[OctavePart, int]:
    """Return what a function without bounds asks of octaves, and the moments that it needs."""
    question = MOMENTS[function]("x")
    return OctavePart("x", {function: question}, grouped=False), moments_of(function)


def quantiles_of(levels: Any) -> Quantiles:
    """Return the question for a list of quantiles.

    Raises
    ------
    InvalidQuestionError
        When it is no list, is empty, names one twice or one that is no number from 0 to 1.
    """
    return Quantiles("x", levels)


def setting_of(vectors: Vectors, epsilon: object) -> Setting:
    """Return the setting of vectors that answers one question."""
    (noise,) = vectors.noises(loss_of(epsilon))
    return Setting(vectors.linears[0], vectors.answers[0].estimator, noise)


@lru_cache(maxsize=1024)
def least_rows(delta: float, epsilon: float, rows: int = 1) -> int:
    """Return the noisy number of rows from which on dp_keep is true.

    A unit has `rows` rows at most, in as many groups at most; `epsilon` is what one of them may
    spend. Any group that it alone has made reaches the number with probability at most delta.

    Raises
    ------
    InvalidLossError
        When delta or epsilon is out of range.
    """
    exact = delta_of(delta)
    if exact is None:
        raise MissingDeltaError("dp_keep needs a delta", hint="call dp_keep(1e-6)")
    return Contribution(rows, rows).key_rule(exact).least(count_setting(epsilon).noise, 1, 1)
