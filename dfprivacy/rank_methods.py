"""Quantiles, centres, bounds and histograms as methods. None of them needs bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from dfprivacy.asking import Asking, Many, One
from dfprivacy.histogram import Histogram, release_histogram
from dfprivacy.rank_questions import Center, Median, PrivateBounds, Quantile, Quantiles
from dfprivacy.terms import EPSILON, INTERVAL, Terms


class RankMethods(Asking[One, Many]):
    """Questions that a private selection or a noisy histogram answers."""

    def median(
        self,
        column: Hashable,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        method: str = "selection",
    ) -> One:
        """Return the median of `column`: its quantile 1/2 (see `quantile`).

        >>> import dfprivacy as dfp, polars as pl
        >>> 300 < pl.DataFrame({"x": range(1000)}).dp.median("x", epsilon=1) < 700
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta)
        return self._ask(Median(column, method=method), terms)

    def quantile(
        self,
        column: Hashable,
        q: float,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        method: str = "selection",
    ) -> One:
        """Return the quantile `q`, from 0 to 1, of `column` (units of the column).

        A selection on a public grid of 16 significant bits (8 for floats by group), whose score has
        sensitivity max(q, 1 - q), or 1 outside [1/4, 3/4]; no bounds are needed. Below about
        50/epsilon rows (100/epsilon outside the middle half) the answer is not a number. A
        selection has no interval. Source: Kaplan, Schnapp and Stemmer 2022, base case
        (`method="selection"`), or Dick et al. 2023, Algorithm 5 on all of a grid of 16 significant
        bits, 12 by group (`"inverse"`; it needs more rows, docs/monotone.md).

        >>> import dfprivacy as dfp, polars as pl
        >>> 800 < pl.DataFrame({"x": range(1000)}).dp.quantile("x", 0.9, epsilon=5) < 1000
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta)
        return self._ask(Quantile(column, q, method), terms)

    def quantiles(
        self,
        column: Hashable,
        qs: Sequence[float],
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
    ) -> Any:
        """Return several quantiles of `column` under one loss, in the order asked: a list.

        By group, a frame with one column a quantile. Source: Kaplan, Schnapp and Stemmer 2022,
        with noisy counts at the splits so that ties do no harm (docs/quantiles.md).

        >>> import dfprivacy as dfp, polars as pl
        >>> frame = pl.DataFrame({"x": range(10000)})
        >>> low, middle, high = frame.dp.quantiles("x", [0.25, 0.5, 0.75], epsilon=1)
        >>> low <= middle <= high
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta)
        question = Quantiles(column, qs)  # type: ignore[arg-type]
        return self._several(question, terms)

    def center(
        self,
        column: Hashable,
        p: float,
        bounds: tuple[float, float] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        method: str = "octaves",
    ) -> One:
        """Return the l_p centre of `column`, p > 1: the c with the least sum of abs(x - c)**p.

        Source: Dick et al. 2023, Algorithm 5 within `bounds`, or within bounds found privately:
        octaves (`method="octaves"`) or thresholds (`"dick"`, their Algorithm 4).

        >>> import dfprivacy as dfp, polars as pl
        >>> frame = pl.DataFrame({"x": list(range(1000)) * 5})
        >>> 300 < frame.dp.center("x", 1.5, bounds=(0, 1000), epsilon=1) < 700
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta)
        known = None if method == "dick" and bounds is None else self._bounds(column, bounds)
        return self._ask(Center(column, p, known, method), terms)

    def bounds(
        self,
        column: Hashable,
        rank: int | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
    ) -> Any:
        """Return private bounds (lower, upper) that hold nearly all values of `column`.

        Powers of two and zero, off a noisy histogram of octaves; NaN where there are too few rows.
        With `rank`, the values that have about so many rows beyond them at either end (Dick et al.
        2023, Corollary 3.8); a rank that a selection can't tell from 0 is raised.

        >>> import dfprivacy as dfp, polars as pl
        >>> low, high = pl.DataFrame({"x": [3.0, 90.0] * 1000}).dp.bounds("x", epsilon=1)
        >>> low <= 2 and high >= 128  # mostly 2 and 128
        True
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta)
        return self._several(PrivateBounds(column, rank), terms)

    def histogram(
        self,
        column: Hashable,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> Any:
        """Count the values of `column` between ascending edges, or in equal bins within bounds.

        A frame with one row a bin: lower, upper, count, low, high. A bin includes its lower edge,
        the last one both. With a number of `bins` and no `bounds`, bounds are found privately for
        all groups together. All counts together have sensitivity 1.

        >>> import dfprivacy as dfp, polars as pl
        >>> frame = pl.DataFrame({"x": range(1000)})
        >>> frame.dp.histogram("x", [0, 250, 500, 1000], epsilon=1)["lower"].to_list()
        [0.0, 250.0, 500.0]
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        question = Histogram.of(
            column, bins, self._bounds(column, bounds), given=bounds is not None
        )
        return self._histogram(question, terms)

    def _histogram(self, question: Histogram, terms: Terms) -> Any:
        by, keys = self._grouping()
        return release_histogram(self._frame, by, keys, question, terms)
