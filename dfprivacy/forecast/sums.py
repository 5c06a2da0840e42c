"""Forecasts of what noisy sums answer: counts, sums, means, variances, with or without bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.count import CountEstimator
from dfprivacy.estimators.half_widths import Draw, half_widths
from dfprivacy.estimators.octave_bounds import CORE, SHARE
from dfprivacy.estimators.ratio import RatioEstimator
from dfprivacy.estimators.sum import SumEstimator
from dfprivacy.estimators.variance import StandardDeviationEstimator, VarianceEstimator
from dfprivacy.forecast.advice import Circumstances, halving
from dfprivacy.forecast.forecast import SIZES, Forecast, by_size
from dfprivacy.forecast.reaching import Reach, reaching
from dfprivacy.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Noise
from dfprivacy.parts.linear import LinearPart
from dfprivacy.parts.octaves import OctavePart
from dfprivacy.parts.subset import GAMMA, RADIUS, SubsetPart
from dfprivacy.plan import Answer, Plan, plan_release
from dfprivacy.questions import Count, Mean, Question, StandardDeviation, Variance
from dfprivacy.statistics.linear_query import LinearQuery
from dfprivacy.terms import Bounds

UNIT_BOUNDS = Bounds(0, 1)
"""Stands for bounds that are found: half-widths come out in widths of them."""

SIGNED_BOUNDS = Bounds(-1, 1)
"""The same for a sum, whose noise goes by the larger end: by the more noisy form of its query."""

_SIZES = np.array(SIZES, dtype=np.float64)


def linear_forecasts(
    part: LinearPart, loss: Epsilon | Rho, asked: Mapping[str, Question], known: Circumstances
) -> list[Forecast]:
    """Return the forecast of each answer within given bounds; `loss` is that of one row."""
    noises = part.plan.noises(loss)
    made = []
    for answer in part.plan.answers:
        question = asked[answer.name]
        label = "rows" if isinstance(question, Count) else f"units of {question.column!r}"
        if isinstance(question, Variance):
            label = f"squared {label}"
        query = part.plan.queries[answer.query]
        made.append(_estimated(answer, query, noises[answer.query], (question, label), known))
    return made


def octave_forecasts(
    part: OctavePart, loss: Epsilon | Rho, asked: Mapping[str, Question], known: Circumstances
) -> list[Forecast]:
    """Return the forecast of each answer within bounds that are found first, in widths of them."""
    found = bounds_reach(loss.share(SHARE).pure())
    remarks: tuple[str, ...] = (
        "the sizes that get a number are rows in one octave, by which bounds are found",
    )
    if part.grouped:
        lend = "other groups borrow the middle of the bounds that are found"
        remarks = (f"bounds are found by rows in one octave: {found}", lend)
    made = []
    for name, question in part.questions.items():
        summed = question.kind == "sum"
        plan = part.plan(SIGNED_BOUNDS if summed else UNIT_BOUNDS)
        answer = next(own for own in plan.answers if own.name == name)
        noise = plan.noises(loss.share(1 - SHARE))[answer.query]
        query, label = plan.queries[answer.query], _found_unit(question)
        made.append(_estimated(answer, query, noise, (asked[name], label), known).noted(*remarks))
    return [
        replace(own, answered=None if part.grouped else found, mechanism=_found(own.mechanism))
        for own in made
    ]


def _found(law: str) -> str:
    return f"{law} within bounds from a noisy histogram of octaves"


def _found_unit(question: Question) -> str:
    if isinstance(question, Count):
        return "rows"
    if question.kind == "sum":
        return "the larger end of the bounds found"
    width = "widths of the bounds found"
    return f"squared {width}" if isinstance(question, Variance) else width


def bounds_reach(epsilon: Fraction) -> Reach:
    """Return how many rows one octave needs for bounds around it."""
    noise = DiscreteLaplace(1 / epsilon)
    return reaching(math.ceil(CORE * noise.scale), noise)


def subset_forecasts(
    part: SubsetPart, loss: Epsilon | Rho, asked: Mapping[str, Question], known: Circumstances
) -> list[Forecast]:
    """Return the forecast of a mean within bounds by rank, in widths of them."""
    plan, left = subset_plan(part, loss)
    answer = replace(plan.answers[0], name=part.name)
    labels = (asked[part.name], "widths of the bounds found")
    made = _estimated(answer, plan.queries[0], plan.noises(left)[0], labels, known)
    made = replace(made, mechanism=f"{made.mechanism} within bounds from private selections")
    if part.question.method != "dick":
        return [made]
    taken = f"sizes are taken to be at most {RADIUS:g}, errors below {GAMMA:g}/(epsilon n) not seen"
    return [made.noted(taken, "groups too small for bounds are averaged within all of that")]


def subset_plan(part: SubsetPart, loss: Epsilon | Rho) -> tuple[Plan, Epsilon | Rho]:
    """Return the plan of the mean within bounds as if they were 0 and 1, and what is left for it.

    The method "dick" has 3/10 of a pure epsilon left where it finds bounds.
    """
    dick = part.question.method == "dick"
    left = Epsilon(loss.pure() * Fraction(3, 10)) if dick else loss.share(Fraction(1, 2))
    question = Mean(part.question.column, UNIT_BOUNDS, "shifted" if dick else "transformed")
    return plan_release({part.name: question}, grouped=True), left


def _estimated(
    answer: Answer,
    query: LinearQuery,
    noise: Noise,
    labels: tuple[Question, str],
    known: Circumstances,
) -> Forecast:
    question, label = labels
    widths = half_widths(answer.estimator, Draw(query, noise, known.level), _SIZES)
    scale, of = _scale(answer, noise, label)
    return Forecast(
        name=answer.name,
        question=question.text,
        mechanism=law_of(noise),
        scale=scale,
        scale_unit=of,
        unit=label,
        certain=by_size(widths.certain),
        ordinary=by_size(widths.ordinary),
        halve=halving(question, known),
        remarks=_remarks(question),
    )


def _remarks(question: Question) -> tuple[str, ...]:
    if isinstance(question, StandardDeviation):
        return ("at most: where the true deviation is near 0",)
    return ()


def law_of(noise: Noise) -> str:
    """Return the name of a law."""
    return "discrete Laplace" if isinstance(noise, DiscreteLaplace) else "discrete Gaussian"


def spread_of(noise: Noise) -> float:
    """Return the scale of Laplace noise, or the standard deviation of Gaussian noise."""
    if isinstance(noise, DiscreteLaplace):
        return float(noise.scale)
    assert isinstance(noise, DiscreteGaussian)  # noqa: S101 there are two laws
    return math.sqrt(noise.sigma_squared)


def _scale(answer: Answer, noise: Noise, label: str) -> tuple[float, str]:
    """Return the scale of the noise on the sums behind an answer, and its unit."""
    spread, estimator = spread_of(noise), answer.estimator
    if isinstance(estimator, CountEstimator):
        return spread / estimator.weights.divisor, label
    if isinstance(estimator, SumEstimator):
        return spread * abs(estimator.unit), label
    if isinstance(estimator, RatioEstimator):
        return spread * estimator.unit / estimator.grid.largest, f"{label}, on the sums"
    assert isinstance(estimator, VarianceEstimator | StandardDeviationEstimator)  # noqa: S101 no others
    grid = estimator.grid
    squared = label if isinstance(estimator, VarianceEstimator) else f"squared {label}"
    return spread * grid.step * grid.last * grid.step, f"{squared}, on the sums"
