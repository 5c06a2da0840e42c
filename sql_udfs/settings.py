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
from dfprivacy.mechanisms.noise import Noise
from dfprivacy.parts.octaves import OctavePart
from dfprivacy.plan import Plan, plan_release
from dfprivacy.questions import Count, Mean, StandardDeviation, Sum, Variance
from dfprivacy.rank_questions import Quantiles
from dfprivacy.statistics.grid import Grid
from dfprivacy.statistics.linear_query import LinearQuery
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

    query: LinearQuery
    estimator: Estimator
    noise: Noise


@lru_cache(maxsize=1024)
def bounded_plan(function: str, lower: float, upper: float) -> Plan:
    """Return the plan of a function with bounds.

    Raises
    ------
    InvalidBoundsError
        When the bounds are not two finite numbers, lower < upper.
    """
    return plan_release({function: MOMENTS[function]("x", Bounds(lower, upper))}, grouped=False)


def grid_of(function: str, lower: float, upper: float) -> Grid:
    """Return the grid whose integers a function with bounds adds up."""
    grid = bounded_plan(function, lower, upper).queries[0].source.grid
    assert grid is not None  # noqa: S101 only counts go without a grid
    return grid


def moments_of(function: str) -> int:
    """Return up to which moment a function with bounds adds up the grid integers."""
    return bounded_plan(function, 0.0, 1.0).queries[0].source.moments


@lru_cache(maxsize=1024)
def bounded_setting(function: str, lower: float, upper: float, epsilon: float) -> Setting:
    """Return the setting of a function with bounds.

    Raises
    ------
    InvalidBoundsError, InvalidLossError
        When the constants are not bounds and an epsilon.
    """
    return setting_of(bounded_plan(function, lower, upper), epsilon)


@lru_cache(maxsize=1024)
def count_setting(epsilon: float) -> Setting:
    """Return the setting of a count.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    """
    return setting_of(plan_release({"dp_count": Count()}, grouped=False), epsilon)


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


def setting_of(plan: Plan, epsilon: object) -> Setting:
    """Return the setting of a plan that answers one question."""
    (noise,) = plan.noises(loss_of(epsilon))
    return Setting(plan.queries[0], plan.answers[0].estimator, noise)


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
