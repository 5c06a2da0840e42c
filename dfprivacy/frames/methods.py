"""Methods that ask the statistics of this package. Written by .ci/methods.py."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from dfprivacy.frames.crosstabs import Crosstab, Pivot
from dfprivacy.frames.describing import Describe
from dfprivacy.frames.frequencies import Mode, Top, ValueCounts
from dfprivacy.frames.lookup import Registered, of_column, several_of_column
from dfprivacy.statistics.bounds import Center, PrivateBounds
from dfprivacy.statistics.count import Count, NUnique, Share
from dfprivacy.statistics.covariance import (
    Correlation,
    Covariance,
    Intercept,
    RatioOfSums,
    RSquared,
    Slope,
)
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.mean import Mean, Sum
from dfprivacy.statistics.mean_vector import MeanVector
from dfprivacy.statistics.quantile import Max, Median, Min, Quantile, Quantiles
from dfprivacy.statistics.regression import Regression
from dfprivacy.statistics.variance import StandardDeviation, Variance

Answer = TypeVar("Answer")


class Terms(TypedDict, total=False):
    """Keyword arguments of most methods."""

    epsilon: float
    rho: float | None
    delta: float | None
    interval: float
    population: bool


class SelectionTerms(TypedDict, total=False):
    """Keyword arguments of methods without intervals."""

    epsilon: float
    rho: float | None
    delta: float | None


class GaussianTerms(TypedDict, total=False):
    """Keyword arguments of methods with Gaussian noise only."""

    rho: float | None
    delta: float | None
    interval: float


class GroupMethods(Registered[Answer]):
    """Statistics of a frame by group."""

    _scope = "group"

    def count(self, column: Hashable = None, **terms: Unpack[Terms]) -> Answer:
        """The number of rows, or of values of a column that are neither NULL nor NaN."""
        return self._ask(Count(column), terms)

    def nunique(self, column: Hashable, **terms: Unpack[Terms]) -> Answer:
        """The number of different values of a column of any type."""
        return self._ask(NUnique(column), terms)

    def share(self, column: Hashable, value: Any = True, **terms: Unpack[Terms]) -> Answer:
        """The share of the values of a column that are `value`, from 0 to 1."""
        return self._ask(Share(column, value), terms)

    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The sum of a column, each value clipped to the bounds."""
        return self._ask(Sum(column, bounds, clipping), terms)

    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The mean of a column, each value clipped to the bounds (units of the column)."""
        return self._ask(Mean(column, bounds, clipping), terms)

    def var(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The population variance of a column, each value clipped to the bounds."""
        return self._ask(Variance(column, bounds, clipping), terms)

    def std(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The population standard deviation of a column: the root of `var`."""
        return self._ask(StandardDeviation(column, bounds, clipping), terms)

    def median(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        step: float | None = None,
        *,
        ends: bool = False,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The median of a column: its quantile 1/2 (see `quantile`)."""
        return self._ask(Median(column, bounds, step, ends), terms)

    def quantile(
        self,
        column: Hashable,
        q: float,
        bounds: tuple[float, float] | None = None,
        step: float | None = None,
        *,
        ends: bool = False,
        **terms: Unpack[Terms],
    ) -> Answer:
        """A quantile of a column: the least value that a part `q` of the rows do not exceed."""
        return self._ask(Quantile(column, q, bounds, step, ends), terms)

    def quantiles(
        self,
        column: Hashable,
        qs: Sequence[float],
        bounds: tuple[float, float] | None = None,
        step: float | None = None,
        **terms: Unpack[SelectionTerms],
    ) -> Any:
        """Several quantiles of a column under one loss, in the order asked."""
        return self._ask(Quantiles(column, qs, bounds, step), terms)

    def min(self, column: Hashable, **terms: Unpack[SelectionTerms]) -> Answer:
        """A value that about 38 / epsilon rows are below."""
        return self._ask(Min(column), terms)

    def max(self, column: Hashable, **terms: Unpack[SelectionTerms]) -> Answer:
        """A value that about 38 / epsilon rows are above."""
        return self._ask(Max(column), terms)

    def center(
        self,
        column: Hashable,
        p: float,
        bounds: tuple[float, float] | None = None,
        **terms: Unpack[SelectionTerms],
    ) -> Answer:
        """The l_p center of a column, p > 1: the c that minimizes the sum of abs(x - c)**p."""
        return self._ask(Center(column, p, bounds), terms)

    def bounds(
        self, column: Hashable, rank: int | None = None, **terms: Unpack[SelectionTerms]
    ) -> Any:
        """Private bounds (lower, upper) that hold nearly all values of a column."""
        return self._ask(PrivateBounds(column, rank), terms)

    def cov(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = None,
        y_bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The population covariance of two columns, each value clipped to its bounds."""
        return self._ask(Covariance(x, y, x_bounds, y_bounds, clipping), terms)

    def corr(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = None,
        y_bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """Pearson's correlation of two columns, each value clipped to its bounds."""
        return self._ask(Correlation(x, y, x_bounds, y_bounds, clipping), terms)

    def ratio(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = None,
        y_bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The sum of one column over the sum of another, each value clipped to its bounds."""
        return self._ask(RatioOfSums(x, y, x_bounds, y_bounds, clipping), terms)

    def slope(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = None,
        x_bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The slope of the line of least squares of y on x, each value clipped to its bounds."""
        return self._ask(Slope(y, x, y_bounds, x_bounds, clipping), terms)

    def intercept(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = None,
        x_bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """Where the line of least squares of y on x is at x = 0, each value clipped to its bounds."""
        return self._ask(Intercept(y, x, y_bounds, x_bounds, clipping), terms)

    def r_squared(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = None,
        x_bounds: tuple[float, float] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Answer:
        """The part of the variance of y that a line through x explains, from 0 to 1."""
        return self._ask(RSquared(y, x, y_bounds, x_bounds, clipping), terms)

    def histogram(
        self,
        column: Hashable,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = None,
        **terms: Unpack[Terms],
    ) -> Any:
        """Count the values of a column between ascending edges, or in equal bins within bounds."""
        return self._ask(Histogram(column, bins, bounds), terms)

    def regression(
        self,
        y: Hashable,
        xs: Sequence[Hashable],
        bounds: Mapping[Hashable, tuple[float, float]] | None = None,
        *,
        clipping: bool = True,
        **terms: Unpack[Terms],
    ) -> Any:
        """Explain a column by several others: the line of least squares, one row a coefficient."""
        return self._ask(Regression(y, xs, bounds, clipping), terms)

    def mean_vector(
        self,
        columns: Sequence[Hashable] | Hashable,
        radius: float | None = None,
        p: float = 2,
        dimension: int | None = None,
        universe: int | None = None,
        *,
        method: str = "auto",
        neighbors: str = "add-remove",
        deviations: str = "gaussian",
        skewed: bool = False,
        **terms: Unpack[GaussianTerms],
    ) -> Any:
        """Average vectors: several numeric columns, or one column of arrays, lists or item sets."""
        return self._ask(
            MeanVector(
                columns, radius, method, neighbors, p, dimension, universe, deviations, skewed
            ),
            terms,
        )

    def value_counts(
        self, column: Hashable, keys: Any = None, *, other: bool = False, **terms: Unpack[Terms]
    ) -> Any:
        """Count how often each value of a column is there: one row a value, the largest first."""
        return self._ask(ValueCounts(column, other, keys), terms)

    def top(self, column: Hashable, k: int = 10, keys: Any = None, **terms: Unpack[Terms]) -> Any:
        """Return the `k` values of a column with the largest noisy counts, by group in each group."""
        return self._ask(Top(column, k, keys), terms)

    def mode(self, column: Hashable, keys: Any = None, **terms: Unpack[Terms]) -> Any:
        """Return the most frequent value of a column, by group that of each group: `top` with k=1."""
        return self._ask(Mode(column, keys), terms)


class FrameMethods(GroupMethods[Answer]):
    """Statistics of a whole frame."""

    _scope = "frame"

    def crosstab(
        self,
        index: Hashable,
        columns: Hashable,
        values: Any = None,
        aggregate: str | None = None,
        bounds: tuple[float, float] | None = None,
        keys: Any = None,
        rounded: str | None = None,
        *,
        margins: bool = False,
        nonnegative: bool = False,
        **terms: Unpack[Terms],
    ) -> Any:
        """Return a table: one row a value of `index`, one column a value of `columns`."""
        return self._ask(
            Crosstab(
                index, columns, values, aggregate, bounds, keys, margins, rounded, nonnegative
            ),
            terms,
        )

    def pivot(
        self,
        index: Hashable,
        columns: Hashable,
        values: Any,
        aggregate: str | None = "mean",
        bounds: tuple[float, float] | None = None,
        keys: Any = None,
        rounded: str | None = None,
        *,
        margins: bool = False,
        nonnegative: bool = False,
        **terms: Unpack[Terms],
    ) -> Any:
        """Return a table of a statistic of `values`, the mean unless you name another."""
        return self._ask(
            Pivot(index, columns, values, aggregate, bounds, keys, margins, rounded, nonnegative),
            terms,
        )

    def describe(
        self,
        columns: Sequence[Hashable] | None = None,
        exclude: Sequence[Hashable] = (),
        quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
        top: int = 3,
        numbers: Sequence[Hashable] = (),
        **terms: Unpack[Terms],
    ) -> Any:
        """Describe every column by its declared type: one row a column, for one price."""
        return self._ask(Describe(columns, exclude, quantiles, top, numbers), terms)


class ColumnMethods(Registered[Answer]):
    """Statistics of one column: those of its frame, about the column."""

    _scope = "column"

    count = of_column(GroupMethods.count)
    nunique = of_column(GroupMethods.nunique)
    share = of_column(GroupMethods.share)
    sum = of_column(GroupMethods.sum)
    mean = of_column(GroupMethods.mean)
    var = of_column(GroupMethods.var)
    std = of_column(GroupMethods.std)
    median = of_column(GroupMethods.median)
    quantile = of_column(GroupMethods.quantile)
    quantiles = several_of_column(GroupMethods.quantiles)
    min = of_column(GroupMethods.min)
    max = of_column(GroupMethods.max)
    center = of_column(GroupMethods.center)
    bounds = several_of_column(GroupMethods.bounds)
    cov = of_column(GroupMethods.cov)
    corr = of_column(GroupMethods.corr)
    ratio = of_column(GroupMethods.ratio)
    slope = of_column(GroupMethods.slope)
    intercept = of_column(GroupMethods.intercept)
    r_squared = of_column(GroupMethods.r_squared)
    histogram = several_of_column(GroupMethods.histogram)
    value_counts = several_of_column(GroupMethods.value_counts)
    top = several_of_column(GroupMethods.top)
    mode = several_of_column(GroupMethods.mode)
