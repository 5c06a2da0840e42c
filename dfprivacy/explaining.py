"""`.dp.explain`: every question of `.dp`, and what it would cost and how wrong it would be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from dfprivacy.engine.declared import integer_columns
from dfprivacy.forecast.explaining import explained
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.histograms import explain_histogram
from dfprivacy.forecast.vectors import explain_vector
from dfprivacy.histogram_methods import HistogramMethods
from dfprivacy.release.frames import frame_names
from dfprivacy.releasing import request_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.terms import EPSILON, INTERVAL, PublicKeys, Terms
from dfprivacy.unit import Unit
from dfprivacy.vector_methods import VectorMethods
from dfprivacy.vectors.question import MeanVector


class Explaining(
    HistogramMethods[Explanation, Explanation],
    VectorMethods[Explanation, Explanation],
):
    """The questions of a frame, or of a frame by group, explained instead of answered.

    Every method takes the arguments of the method of `.dp` by its name, refuses what that refuses
    before it looks at data, and returns an `Explanation`: what would be charged and how it is
    shared, the noise, half-widths by size of group, which groups would be shown, and what halves
    the error. To call it is to explain `agg`.

    Privacy: it reads no data (of a frame in memory, a lazy frame, a table or a relation it looks at
    the declared names and types of columns, of others not even that), draws nothing and charges
    nothing. What it returns is a function of the arguments, those types and what a ledger has left.
    docs/explain.md has the figures' proofs.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.LazyFrame({"carrier": ["AA"], "delay": [1.0]})
    >>> plan = flights.dp.explain.mean("delay", bounds=(0, 60), epsilon=1)
    >>> plan.epsilon, plan["delay"].rows[2], round(plan["delay"].certain[2], 2)
    (1.0, 1000, 0.18)
    """

    def __init__(
        self,
        frame: Any,
        terms: Terms,
        by: tuple[Hashable, ...] = (),
        keys: PublicKeys | None = None,
    ) -> None:
        self._frame, self._terms, self._by, self._keys = frame, terms, by, keys

    def __call__(
        self,
        *questions: Statistic,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        **named: Statistic,
    ) -> Explanation:
        """Explain what `agg` would do with these questions.

        Parameters
        ----------
        *questions, **named : Statistic
            As in `agg`: `dfp.mean("x", bounds=(0, 100))`, `dfp.count()` and so on.
        epsilon, rho, delta, interval
            As in `agg`.

        Returns
        -------
        Explanation
            It prints as a page; `answers`, `draws`, `shown` and `table` hold its figures.

        Raises
        ------
        DPError
            What `agg` would raise before it looks at data, but for a budget that is too small.

        Examples
        --------
        >>> import dfprivacy as dfp, pandas as pd
        >>> flights = pd.DataFrame({"carrier": ["AA", "UA"], "delay": [1.0, 9.0]})
        >>> by_carrier = flights.dp.group_by("carrier")
        >>> plan = by_carrier.explain(dfp.mean("delay", (0, 60)), epsilon=1, delta=1e-6)
        >>> plan.shown
        Reach(rarely=14, half=17, mostly=20)
        """
        return self.agg(
            *questions, epsilon=epsilon, rho=rho, delta=delta, interval=interval, **named
        )

    def __repr__(self) -> str:
        """Say what it does with questions."""
        by = f" by {', '.join(map(repr, self._by))}" if self._by else ""
        return f"Explaining(questions{by}; no data is read, nothing is spent)"

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Explanation:
        request = request_of(
            questions, terms, self._by, self._keys, form="frame" if self._by else "numbers"
        )
        if self._by:
            frame_names(request.parts, questions, [str(label) for label in self._by])
        needed = [name for part in request.parts for name in part.columns]
        return explained(request, self._integers(needed, request.unit))

    def _several(self, question: Statistic, answers: Explanation) -> Explanation:  # noqa: ARG002 it holds all
        return answers

    def _histogram(self, question: Histogram, terms: Terms) -> Explanation:
        self._integers([question.column], terms.unit)
        return explain_histogram(self._by, self._keys, question, terms)

    def _vector(self, question: MeanVector, terms: Terms) -> Explanation:
        self._integers(list(question.labels), None)
        return explain_vector(self._by, self._keys, question, terms)

    def _grouping(self) -> tuple[tuple[Hashable, ...], PublicKeys | None]:
        return self._by, self._keys

    def _integers(self, columns: list[Hashable], unit: Unit | None) -> frozenset[object]:
        """Return columns of declared integers, once all that are needed are known to be there."""
        units = [] if unit is None else [unit.column]
        return integer_columns(self._frame, [*self._by, *columns, *units])
