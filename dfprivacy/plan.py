"""From questions to queries: what is measured, how epsilon is shared, who answers what.

Questions about one column with the same bounds are answered by one vector: the variance brings
the mean and the count with it, the mean brings the count. What is left shares epsilon evenly.
Nothing here looks at data.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.count import CountEstimator
from dfprivacy.estimators.estimator import Estimator
from dfprivacy.estimators.ratio import RatioEstimator
from dfprivacy.estimators.sum import SumEstimator
from dfprivacy.estimators.variance import (
    StandardDeviationEstimator,
    VarianceEstimator,
    mean_of_bernstein,
)
from dfprivacy.mechanisms.noise import Noise
from dfprivacy.questions import Count, Mean, MomentQuestion, StandardDeviation, Sum, Variance
from dfprivacy.statistics.grid import Grid
from dfprivacy.statistics.linear_query import (
    CountWeights,
    LinearQuery,
    count_query,
    mean_query,
    sum_and_count_query,
    sum_query,
    variance_query,
)
from dfprivacy.terms import Bounds


@dataclass(frozen=True)
class Answer:
    """One answer of a release: its name, the query it reads and the estimator that reads it."""

    name: str
    query: int
    estimator: Estimator


@dataclass(frozen=True)
class Plan:
    """The queries of a release and the answers read off them."""

    queries: tuple[LinearQuery, ...]
    answers: tuple[Answer, ...]

    def noises(self, loss: Epsilon | Rho) -> list[Noise]:
        """Return each query's noise when all of them share the loss evenly."""
        share = loss.share(Fraction(1, len(self.queries)))
        return [share.noise(query.l1, query.l2_squared) for query in self.queries]

    def counting(self) -> tuple[int, CountWeights]:
        """Return the query that counts groups: a plain count, else the first that can."""
        able = [(i, q.count) for i, q in enumerate(self.queries) if q.count is not None]
        plain = [(i, weights) for i, weights in able if self.queries[i].source.grid is None]
        return (plain or able)[0]


def plan_release(questions: Mapping[str, MomentQuestion], *, grouped: bool) -> Plan:
    """Return the plan of a release that answers the questions, in their order.

    Raises
    ------
    MissingBoundsError
        When a question needs bounds and has none.
    """
    shared = _shared_moments(questions.values())
    queries: list[LinearQuery] = []
    answers = []
    for name, question in questions.items():
        query = _query(question, shared, grouped=grouped)
        if query not in queries:
            queries.append(query)
        answers.append(Answer(name, queries.index(query), _estimator(question, query)))
    return Plan(tuple(queries), tuple(answers))


_Column = tuple[Hashable, Bounds]


def _shared_moments(questions: Iterable[MomentQuestion]) -> dict[_Column, int]:
    """Return, for each column and bounds, how many moments one vector must carry."""
    moments: dict[_Column, int] = {}
    for question in questions:
        if isinstance(question, Mean) and question.method == "transformed":
            key = (question.column, question.required_bounds())
            moments[key] = max(moments.get(key, 0), 1)
        elif isinstance(question, Variance | StandardDeviation):
            moments[(question.column, question.required_bounds())] = 2
    return moments


def _query(question: MomentQuestion, shared: dict[_Column, int], *, grouped: bool) -> LinearQuery:
    if isinstance(question, Count):
        return _count(question, shared)
    if isinstance(question, Sum):
        make = sum_and_count_query if grouped else sum_query
        return make(question.column, question.required_bounds())
    if isinstance(question, Mean) and question.method != "transformed":
        return mean_query(question)
    return _moments(question.column, question.required_bounds(), shared)


def _count(question: Count, shared: dict[_Column, int]) -> LinearQuery:
    """Return the vector that counts the column for free, or a count of its own."""
    for column, bounds in shared:
        if question.column is not None and column == question.column:
            return _moments(column, bounds, shared)
    return count_query(question.column)


def _moments(column: Hashable, bounds: Bounds, shared: dict[_Column, int]) -> LinearQuery:
    if shared[(column, bounds)] == 2:
        return variance_query(column, bounds)
    return mean_query(Mean(column, bounds))


def _estimator(question: MomentQuestion, query: LinearQuery) -> Estimator:
    if isinstance(question, Count):
        assert query.count is not None  # noqa: S101 every counting query has weights
        return CountEstimator(query.count)
    grid = query.source.grid
    assert grid is not None  # noqa: S101 only counts go without a grid
    if isinstance(question, Sum):
        return SumEstimator(grid.step * query.matrix[0][1], grid)
    if isinstance(question, Variance):
        return VarianceEstimator(grid)
    if isinstance(question, StandardDeviation):
        return StandardDeviationEstimator(grid)
    return _mean_estimator(question, query, grid)


def _mean_estimator(question: Mean, query: LinearQuery, grid: Grid) -> RatioEstimator:
    if query.source.moments == 2:
        return mean_of_bernstein(grid)
    return mean_estimator(question.method, grid)


def mean_estimator(method: str, grid: Grid) -> RatioEstimator:
    """Return the estimator of a mean by its method (Kulesza et al. 2023, Algorithms 1 to 3)."""
    width = grid.last * grid.step
    if method == "transformed":
        return RatioEstimator((1, 0), (1, 1), 0.0, 1.0, width, grid)
    if method == "shifted":
        return RatioEstimator((1, 0), (0, 1), -1.0, 1.0, width / 2, grid, offset=width / 2)
    largest = grid.largest
    least, most = grid.first / largest, grid.last / largest
    return RatioEstimator((1, 0), (0, 1), least, most, largest * grid.step, grid)
