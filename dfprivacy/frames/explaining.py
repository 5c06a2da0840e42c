"""`.dp.explain`: every question of `.dp`, and what it would cost and how wrong it would be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dfprivacy.engine.columns import integer_columns
from dfprivacy.errors import InvalidLossError, InvalidQuestionError, boundary
from dfprivacy.frames.crosstabs import Crosstab, CrosstabMethods
from dfprivacy.frames.describing import DescribeMethods, Description, explain_description
from dfprivacy.frames.explanation import Explanation
from dfprivacy.frames.forecasting import explain_histogram, explain_vector, explained
from dfprivacy.frames.frequencies import Frequencies, FrequencyMethods
from dfprivacy.frames.releasing import request_of
from dfprivacy.frames.tables import frame_names
from dfprivacy.frames.targets import SIZE, Target, reached, target_of
from dfprivacy.release.terms import EPSILON, INTERVAL, Default, PublicKeys, Terms
from dfprivacy.release.unit import Unit
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.mean_vector import MeanVector


@boundary
class Explaining(
    DescribeMethods[Explanation, Explanation],
    CrosstabMethods[Explanation, Explanation],
    FrequencyMethods[Explanation, Explanation],
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
    (1.0, 1000, 0.19)
    """

    def __init__(
        self,
        frame: Any,
        terms: Terms,
        by: tuple[Hashable, ...] = (),
        keys: PublicKeys | None = None,
        target: Target | None = None,
    ) -> None:
        self._frame, self._terms, self._by, self._keys = frame, terms, by, keys
        self._target = target

    def __call__(
        self,
        *questions: Statistic,
        within: object = None,
        size: int = SIZE,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float | str = INTERVAL,
        **named: Statistic,
    ) -> Explanation:
        """Explain what `agg` would do with these questions.

        Parameters
        ----------
        *questions, **named : Statistic
            As in `agg`: `dfp.mean("x", bounds=(0, 100))`, `dfp.count()` and so on.
        within : float, str or mapping, optional
            The half-width to reach, instead of `epsilon`: the least epsilon of three digits is
            found that brings every answer within it, or rho where the terms of the frame name rho.
            2.0 is in the unit of the answer. "2%" is a part of what is 100 %: the rows for counts
            and ranks, the distance between the bounds for means and deviations (its square for
            variances), the largest possible sum, 1 for shares. A mapping names some answers alone.
            It is the half-width "at most", for all data within the bounds, where that can be
            reached, else the "ordinary" one; the explanation says which.
        size : int
            The rows of the group, or of the table, that `within` is for.
        epsilon, rho, delta, interval
            As in `agg`.

        Returns
        -------
        Explanation
            It prints as a page; `answers`, `draws`, `shown` and `table` hold its figures.

        Raises
        ------
        DPError
            What `agg` would raise before it looks at data, but for a budget that is too small;
            an `InvalidLossError` when no epsilon up to 999 reaches the target.

        Examples
        --------
        >>> import dfprivacy as dfp, pandas as pd
        >>> flights = pd.DataFrame({"carrier": ["AA", "UA"], "delay": [1.0, 9.0]})
        >>> by_carrier = flights.dp.group_by("carrier")
        >>> plan = by_carrier.explain(dfp.mean("delay", (0, 60)), epsilon=1, delta=1e-6)
        >>> plan.shown
        Reach(rarely=14, half=18, mostly=21)
        >>> flights.dp.explain(dfp.mean("delay", (0, 60)), within=2.0, size=1000).epsilon
        0.0947
        """
        if within is None:
            return self.agg(
                *questions, epsilon=epsilon, rho=rho, delta=delta, interval=interval, **named
            )
        if rho is not None or not isinstance(epsilon, Default):
            raise InvalidLossError(
                "within and a loss were both given: one says what the other is to be",
                hint="leave epsilon out; df.dp(rho=1).explain(..., within=2.0) looks for a rho",
            )
        return self.within(within, size=size).agg(
            *questions, epsilon=EPSILON, rho=None, delta=delta, interval=interval, **named
        )

    def within(self, half_width: object, *, size: int = SIZE) -> Explaining:
        """Explain questions with the least epsilon that reaches a half-width.

        `half_width` and `size` are those of a call with `within`, for every method: the loss that
        a method names is set aside, but for whether it is epsilon or rho.

        >>> import dfprivacy as dfp, polars as pl
        >>> flights = pl.LazyFrame({"carrier": ["AA"], "delay": [1.0]})
        >>> flights.dp.explain.within("5%", size=200).histogram("delay", [0, 15, 60]).epsilon
        0.285
        """
        target = target_of(half_width, size)
        return Explaining(self._frame, self._terms, self._by, self._keys, target)

    def __repr__(self) -> str:
        """Say what it does with questions."""
        by = f" by {', '.join(map(repr, self._by))}" if self._by else ""
        return f"Explaining(questions{by}; no data is read, nothing is spent)"

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Explanation:
        form = "frame" if self._by else "numbers"
        request = request_of(questions, terms, self._by, self._keys, form=form)
        if self._by:
            frame_names(request.parts, questions, [str(label) for label in self._by])
        needed = [name for part in request.parts for name in part.columns]
        integers = self._integers(needed, request.unit)

        def make(terms: Terms, sizes: tuple[int, ...]) -> Explanation:
            again = request_of(questions, terms, self._by, self._keys, form=form)
            return explained(again, integers, sizes=sizes)

        return reached(self._target, terms, make)

    def _several(self, question: Statistic, answers: Explanation) -> Explanation:  # noqa: ARG002 it holds all
        return answers

    def _describe(self, description: Description) -> Explanation:
        if self._by:
            raise InvalidQuestionError(
                "a description is of a whole frame", hint="ask frame.dp.explain.describe(...)"
            )
        integers = self._integers(list(description.columns), description.terms.unit)

        def make(terms: Terms, sizes: tuple[int, ...]) -> Explanation:
            return explain_description(replace(description, terms=terms), integers, sizes)

        return reached(self._target, description.terms, make)

    def _table(self, asked: Crosstab, terms: Terms, keys: PublicKeys | None) -> Explanation:
        integers = self._integers([*asked.by, *asked.question.columns], terms.unit)

        def make(terms: Terms, sizes: tuple[int, ...]) -> Explanation:
            request = asked.request(terms, keys)
            frame_names(request.parts, request.questions, [str(label) for label in asked.by])
            return explained(request, integers, sizes=sizes)

        return reached(self._target, terms, make)

    def _frequencies(self, asked: Frequencies, given: object, terms: Terms) -> Any:
        integers = self._integers([asked.column], terms.unit)

        def make(terms: Terms, sizes: tuple[int, ...]) -> Explanation:
            by, keys = self._by_value(asked.column, given, terms)
            return explained(asked.request(terms, by, keys), integers, sizes=sizes)

        return reached(self._target, terms, make)

    def _histogram(self, question: Histogram, terms: Terms) -> Explanation:
        self._integers([question.column], terms.unit)
        make = partial(explain_histogram, self._by, self._keys, question)
        return reached(self._target, terms, make)

    def _vector(self, question: MeanVector, terms: Terms) -> Explanation:
        self._integers(list(question.labels), None)
        return reached(self._target, terms, partial(explain_vector, self._by, self._keys, question))

    def _grouping(self) -> tuple[tuple[Hashable, ...], PublicKeys | None]:
        return self._by, self._keys

    def _integers(self, columns: list[Hashable], unit: Unit | None) -> frozenset[object]:
        """Return columns of declared integers, once all that are needed are known to be there."""
        units = [] if unit is None else [unit.column]
        return integer_columns(self._frame, [*self._by, *columns, *units])
