"""Histograms as a method."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from dfprivacy.frames.asking import Asking, Many, One
from dfprivacy.frames.releasing import release_histogram
from dfprivacy.release.terms import EPSILON, INTERVAL, Terms
from dfprivacy.statistics.histogram import Histogram


class HistogramMethods(Asking[One, Many]):
    """Questions that a noisy histogram answers."""

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
