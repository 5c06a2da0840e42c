"""Counts, sums, means and variances as methods."""

from __future__ import annotations

from collections.abc import Hashable

from dfprivacy.asking import Asking, Many, One
from dfprivacy.questions import Count, Mean, StandardDeviation, Sum, Variance
from dfprivacy.terms import EPSILON, INTERVAL


class MomentMethods(Asking[One, Many]):
    """Questions that noisy sums answer, each with an interval."""

    def count(
        self,
        column: Hashable = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> One:
        """Count rows, or the values of `column` that are neither NULL nor NaN.

        Sensitivity 1; unbiased; may be negative.

        >>> import dfprivacy as dfp, polars as pl
        >>> pl.DataFrame({"x": range(1000)}).dp.count(epsilon=1).interval(0.999)[0] > 900
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        return self._ask(Count(column), terms)

    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> One:
        """Sum the values of `column`, each clipped to `bounds` (units of the column).

        Sensitivity max(abs(lower), abs(upper)); unbiased for the clipped values.

        >>> import dfprivacy as dfp, polars as pl
        >>> total = pl.DataFrame({"x": range(1000)}).dp.sum("x", (0, 999), epsilon=10)
        >>> total.low <= total <= total.high
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        return self._ask(Sum(column, self._bounds(column, bounds)), terms)

    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        method: str = "transformed",
    ) -> One:
        """Average the values of `column`, each clipped to `bounds` (units of the column).

        The number of rows stays secret. Source: Kulesza, Suresh and Wang 2023, Algorithm 3
        (`method="transformed"`), 2 (`"shifted"`) or 1 (`"independent"`).

        >>> import dfprivacy as dfp, polars as pl
        >>> mean = pl.DataFrame({"x": range(1000)}).dp.mean("x", bounds=(0, 1000), epsilon=1)
        >>> 300 < mean < 700
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        return self._ask(Mean(column, self._bounds(column, bounds), method), terms)

    def var(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> One:
        """Return the population variance of `column`, each value clipped to `bounds`.

        From noisy sums of the Bernstein basis, without splitting epsilon (see
        docs/partition-of-unity.md).

        >>> import dfprivacy as dfp, polars as pl
        >>> variance = pl.DataFrame({"x": range(1000)}).dp.var("x", bounds=(0, 1000), epsilon=10)
        >>> 60_000 < variance < 110_000
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        return self._ask(Variance(column, self._bounds(column, bounds)), terms)

    def std(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> One:
        """Return the population standard deviation of `column`: the root of `var`.

        >>> import dfprivacy as dfp, polars as pl
        >>> deviation = pl.DataFrame({"x": range(1000)}).dp.std("x", bounds=(0, 1000), epsilon=10)
        >>> 240 < deviation < 340
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        return self._ask(StandardDeviation(column, self._bounds(column, bounds)), terms)
