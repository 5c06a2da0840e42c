"""Group the statistics of a release into mechanisms, and share the loss among them.

Answers about the population that rows were drawn from have noise and sampling in one interval.
Sampling errors follow from the noisy Bernstein sums of a column; units are drawn with all their
rows, at most `cluster` in a group. docs/explanation/intervals.md has the formulas and figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.grid import Grid
from dfprivacy.measurement.linear import ROWS, Linear
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.release.estimator import CountEstimator, Ends, ProportionEstimator, RatioEstimator
from dfprivacy.release.terms import Unit
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.count import ChosenUnits, Count, NUnique, Share
from dfprivacy.statistics.linear import LinearPart, LinearStatistic, Read, Vectors, plan_vectors
from dfprivacy.statistics.mean import Mean, Sum, SumEstimator
from dfprivacy.statistics.octaves import OctavePart, ProductPart
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.quantile import QuantilePart
from dfprivacy.statistics.variance import (
    StandardDeviation,
    StandardDeviationEstimator,
    UnitVariance,
    Variance,
    VarianceEstimator,
    mean_of_bernstein,
    sum_of_bernstein,
)


def split(
    questions: Mapping[str, Statistic],
    *,
    grouped: bool,
    sampled: bool = False,
    unit: Unit | None = None,
    searching: bool = False,
) -> tuple[Part, ...]:
    """Return the parts of a release; by group, one of them can count.

    Intervals are of the population where it is `sampled`. Units are counted by themselves, at one
    row each; where limits are found, so are rows, the sum and the mean of each column, which need
    other limits.

    Questions within bounds share one pass; those about one column whose bounds are found share an
    octave table, with the counts of that column; quantiles of one column share a table of its
    values, and are answered in order; every other question is measured by itself.
    """
    if not questions:
        raise InvalidQuestionError(
            "no question was asked", hint='ask at least one, e.g. agg(dfp.mean("x"), dfp.count())'
        )
    linear: dict[Hashable, dict[str, LinearStatistic]] = {}
    octaves: dict[Hashable, dict[str, LinearStatistic]] = {}
    ranks: dict[Hashable, QuantilePart] = {}
    single: list[Part] = []
    products: dict[Hashable, dict[str, Any]] = {}
    for question in questions.values():
        question.check()
        if question.finds_bounds and len(question.columns) == 1:
            octaves[question.column] = {}
    for name, question in questions.items():
        if question.finds_bounds and len(question.columns) > 1 and not sampled:
            searched: Any = question
            columns = frozenset(question.columns), frozenset(searched.searched)
            products.setdefault(columns, {})[name] = question
            continue
        if len(question.columns) < 2 and (
            question.finds_bounds or (isinstance(question, Count) and question.column in octaves)
        ):
            octaves[question.column][name] = question  # type: ignore[assignment]
            continue
        if isinstance(question, LinearStatistic):
            mechanism = _mechanism(question, unit, searching=searching)
            linear.setdefault(mechanism, {})[name] = question
            continue
        if sampled and question.tells_interval:
            raise not_sampled_error(question)
        part = question.part(name, grouped=grouped)
        if isinstance(part, QuantilePart):
            first = ranks.setdefault(part.answer_key, part)
            if first is not part:
                also = (*first.also, *part.questions.items())
                ranks[part.answer_key] = replace(first, also=also)
        else:
            single.append(part)
    read = population_vectors if sampled else None
    counting = [*linear.values(), *products.values()]
    sharing = sum(any(question.clipped for question in group.values()) for group in counting)
    parts: list[Part] = [
        LinearPart(of_mechanism, grouped, count_units, units=True, counts_units=True)
        if mechanism == "units"
        else LinearPart(
            of_mechanism,
            grouped,
            read,
            units=unit is not None,
            cluster=int(sampled),
            sharing=max(sharing, 1),
        )
        for mechanism, of_mechanism in linear.items()
    ]
    parts += [
        OctavePart(column, column_questions, grouped, read, cluster=int(sampled))
        for column, column_questions in octaves.items()
    ]
    parts += [
        ProductPart(
            named,
            next(iter(named.values())).searched,
            grouped,
            units=unit is not None,
            sharing=max(sharing, 1),
        )
        for named in products.values()
    ]
    all_parts: tuple[Part, ...] = (*parts, *ranks.values(), *single)
    assert all(part.weight for part in all_parts)  # noqa: S101 plans each part: bounds are looked at
    if grouped and not any(part.counts for part in all_parts):
        raise InvalidQuestionError(
            "none of these questions can count groups", hint="ask for dfp.count() as well"
        )
    return all_parts


def _mechanism(question: Statistic, unit: Unit | None, *, searching: bool) -> Hashable:
    """Return a key that questions share if one limit of the rows of a unit suits them."""
    if isinstance(question, NUnique) and question.counts_units(unit):
        return "units"
    if not searching or isinstance(question, Count | Share | NUnique):
        return "rows"
    return ("sum" if isinstance(question, Sum) else "mean", *question.columns)


def count_units(questions: Mapping[str, LinearStatistic], *, grouped: bool) -> Vectors:
    """Return vectors that count all units or chosen ones, which have one row each in a group."""
    places: dict[Linear, int] = {}
    answers = []
    for name, question in questions.items():
        linear = question.linear(grouped=grouped) if isinstance(question, ChosenUnits) else ROWS
        assert linear.count is not None  # noqa: S101 it counts
        index = places.setdefault(linear, len(places))
        answers.append(Read(name, index, CountEstimator(linear.count)))
    return Vectors(tuple(places), tuple(answers))


def shares(parts: Sequence[Part]) -> list[Fraction]:
    """Return each part's share of the loss; they add up to 1."""
    total = sum((part.weight for part in parts), start=Fraction(0))
    return [part.weight / total for part in parts]


KINDS = (Count, Share, Mean, Sum, Variance, StandardDeviation)
"""The statistics that have an interval of the population."""


def population_vectors(
    questions: Mapping[str, LinearStatistic], *, grouped: bool, cluster: int
) -> Vectors:
    """Return the vectors off which answers and their sampling errors are read."""
    replaced: dict[str, LinearStatistic] = {}
    for name, question in questions.items():
        if not isinstance(question, KINDS):
            raise not_sampled_error(question)
        replaced[name] = question
        if isinstance(question, Mean | Sum):
            replaced[name] = Variance(question.column, question.bounds)
    vectors = plan_vectors(replaced, grouped=grouped)
    return Vectors(
        vectors.linears,
        tuple(
            Read(
                answer.name,
                answer.vector,
                _with_sampling_error(questions[answer.name], answer.estimator, cluster),
            )
            for answer in vectors.answers
        ),
    )


def not_sampled_error(question: Statistic) -> InvalidQuestionError:
    """Return the error for a question whose interval can't be of the population."""
    return InvalidQuestionError(
        f"{question.text} has no interval of the population",
        hint=f"ask one of {', '.join(kind.kind for kind in KINDS)}, or leave population out",
    )


def _with_sampling_error(question: LinearStatistic, estimator: Any, cluster: int) -> Any:
    """Return the estimator of a question with its sampling error."""
    if isinstance(question, Mean | Sum):
        of_bernstein = mean_of_bernstein if isinstance(question, Mean) else sum_of_bernstein
        estimator = of_bernstein(estimator.grid)
    kinds: dict[type, type] = {
        RatioEstimator: SampledMean,
        SumEstimator: SampledSum,
        CountEstimator: SampledCount,
        ProportionEstimator: SampledShare,
        VarianceEstimator: SampledVariance,
        StandardDeviationEstimator: SampledDeviation,
    }
    attributes = {
        attribute.name: getattr(estimator, attribute.name) for attribute in fields(estimator)
    }
    return kinds[type(estimator)](**attributes, cluster=cluster)


def _with_sampling(value: Floats, ends: Ends, variance: Floats, level: float) -> Ends:
    """Return ends whose squared distances have room for a normal error of this variance."""
    half = statistics.NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variance)
    low, high = ends
    return value - np.hypot(value - low, half), value + np.hypot(high - value, half)


def _spread(grid: Grid, vector: NoisyVector) -> tuple[Floats, Floats, Floats]:
    """Return rows, mean and variance on [0, 1]; the variance is one standard error larger."""
    unit = UnitVariance(grid)
    rows = np.maximum(vector.total((0, 1, 2)).astype(np.float64) / grid.last, 1.0)
    mean = RatioEstimator((0, 1, 2), (2, 2, 2), 0.0, 1.0, 1.0, grid).theta(vector)
    return rows, mean, np.minimum(unit.value(vector) + unit.standard_error(vector), 0.25)


@dataclass(frozen=True)
class SampledCount(CountEstimator):
    """A count of units that come as by Poisson: its variance is the count."""

    cluster: int = 1

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of noise and sampling."""
        value = self.value(vector).astype(np.float64)
        variance = self.cluster * np.maximum(value, 0.0)
        low, high = _with_sampling(value, super().interval(vector, level), variance, level)
        return np.floor(low), np.ceil(high)


@dataclass(frozen=True)
class SampledShare(ProportionEstimator):
    """A share of values, with the binomial's variance at each share of the interval (Wilson)."""

    cluster: int = 1

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of noise and sampling, within 0 and 1 as the share is."""
        value, (low, high) = self.value(vector), super().interval(vector, level)
        rows = np.maximum(vector.total(tuple(range(self.size))).astype(np.float64) / self.k, 1.0)
        added = statistics.NormalDist().inv_cdf((1 + level) / 2) ** 2 * self.cluster / rows
        noise = np.maximum(value - low, high - value)
        middle = value + added / 2
        root = np.sqrt(np.maximum(middle**2 - (1 + added) * (value**2 - noise**2), 0.0))
        low, high = (middle - root) / (1 + added), (middle + root) / (1 + added)
        return np.maximum(low, 0.0), np.minimum(high, 1.0)


@dataclass(frozen=True)
class SampledMean(RatioEstimator):
    """A mean, with the variance of values over the rows."""

    cluster: int = 1

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of noise and sampling, within the bounds."""
        rows, _, spread = _spread(self.grid, vector)
        variance = self.cluster * spread * self.unit**2 / rows
        ends = super().interval(vector, level)
        low, high = _with_sampling(self.value(vector), ends, variance, level)
        return np.maximum(low, self.grid.lower), np.minimum(high, self.grid.upper)


@dataclass(frozen=True)
class SampledSum(SumEstimator):
    """A sum off Bernstein sums: its variance is the sum of squares."""

    cluster: int = 1

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of noise and sampling."""
        rows, mean, spread = _spread(self.grid, vector)
        width = self.grid.last * self.grid.step
        middle = self.grid.anchor + mean * width
        variance = self.cluster * rows * (middle**2 + spread * width**2)
        ends = super().interval(vector, level)
        return _with_sampling(self.value(vector), ends, variance, level)


@dataclass(frozen=True)
class SampledVariance(VarianceEstimator):
    """A variance, with the most that the fourth moment within the bounds can be."""

    cluster: int = 1

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of noise and sampling, within what a variance can be."""
        width = self.grid.last * self.grid.step
        rows, mean, spread = _spread(self.grid, vector)
        fourth_moment_limit = np.maximum(mean, 1 - mean) ** 2
        unit = np.asarray(
            self.cluster * spread * np.maximum(fourth_moment_limit - spread, spread) / rows
        )
        variance = unit * width**4
        ends = super().interval(vector, level)
        low, high = _with_sampling(self.value(vector), ends, variance, level)
        return np.maximum(low, 0.0), np.minimum(high, width**2 / 4)


@dataclass(frozen=True)
class SampledDeviation(StandardDeviationEstimator):
    """A standard deviation: the root of a sampled variance."""

    cluster: int = 1

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the roots of the variance's interval."""
        low, high = SampledVariance(self.grid, self.cluster).interval(vector, level)
        return np.sqrt(low), np.sqrt(high)
