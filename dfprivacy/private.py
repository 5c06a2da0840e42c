"""What `.dp` returns: questions as methods, on a whole frame or by group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import account_of
from dfprivacy.conductor import release_frame, release_numbers
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.questions import (
    Count,
    Mean,
    Question,
    StandardDeviation,
    Sum,
    Variance,
    label_of,
)
from dfprivacy.release import Estimate
from dfprivacy.terms import EPSILON, INTERVAL, Terms, bounds_of

One = TypeVar("One")
Many = TypeVar("Many")


class Asking(ABC, Generic[One, Many]):
    """The questions that a frame, or a frame by group, can be asked.

    Privacy, for every method: neighbours differ by adding or removing one row. The whole call
    spends `epsilon` (pure, discrete Laplace noise) or `rho` (zero-concentrated, discrete Gaussian
    noise), whatever it asks for; secret group keys add `delta`. Replacing a row costs twice as
    much. Errors come before anything is drawn and never depend on a row.
    """

    _frame: Any
    _terms: Terms

    @abstractmethod
    def _answer(self, questions: Mapping[str, Question], terms: Terms) -> Many:
        """Release the answers to named questions."""

    @abstractmethod
    def _only(self, answers: Many) -> One:
        """Return the answer of a release that asked one question."""

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

    def agg(
        self,
        *questions: Question,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        **named: Question,
    ) -> Many:
        """Answer several questions under one epsilon.

        Questions about one column with the same bounds share one noisy vector and cost what the
        strongest of them costs; what is left shares epsilon evenly.

        >>> import dfprivacy as dfp, polars as pl
        >>> frame = pl.DataFrame({"x": range(1000)})
        >>> sorted(frame.dp.agg(dfp.mean("x", (0, 1000)), rows=dfp.count(), epsilon=1))
        ['rows', 'x']
        """
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        asked = _named(questions, named)
        return self._answer({name: self._complete(q) for name, q in asked.items()}, terms)

    def _ask(self, question: Question, terms: Terms) -> One:
        return self._only(self._answer({_name(question): question}, terms))

    def _bounds(self, column: Hashable, given: object) -> Any:
        return bounds_of(self._terms.bounds.get(label_of(column)) if given is None else given)

    def _complete(self, question: Question) -> Question:
        """Fill in the bounds that the terms know."""
        if isinstance(question, Count) or question.bounds is not None:
            return question
        known = self._bounds(question.column, None)
        if isinstance(question, Mean):
            return Mean(question.column, known, question.method)
        return type(question)(question.column, known)


class Private(Asking[Estimate, dict[str, Estimate]]):
    """A frame that answers privately.

    Calling it sets terms for the questions that follow:

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"delay": [1.0, 5.0, 30.0] * 1000})
    >>> private = flights.dp(epsilon=0.5, bounds={"delay": (0, 60)})
    >>> private.mean("delay").epsilon
    0.5
    """

    def __init__(self, frame: Any, terms: Terms | None = None) -> None:
        self._frame = frame
        self._terms = Terms() if terms is None else terms

    def __call__(
        self,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        bounds: Mapping[Hashable, tuple[float, float]] | None = None,
        keys: Mapping[Hashable, Any] | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        note: str | None = None,
    ) -> Private:
        """Return the same frame with terms for the questions that follow.

        `bounds` maps columns to (lower, upper), `keys` maps group columns to their public values.
        Every release is charged to the account of `dataset` in `ledger`, with `note` in its
        history.
        """
        _require_mapping("bounds", bounds)
        _require_mapping("keys", keys)
        terms = self._terms.updated(
            epsilon=epsilon, rho=rho, delta=delta, interval=interval, bounds=bounds, keys=keys,
            ledger=ledger, dataset=dataset, note=note,
        )  # fmt: skip
        account_of(terms.ledger, terms.dataset, terms.note)
        return Private(self._frame, terms)

    def group_by(self, *by: Hashable, keys: Any = None) -> PrivateGroupBy:
        """Group by one or several columns.

        With `keys` (a list of public values, or of tuples for several columns) exactly these
        groups are released. Without, keys are secret: a group comes out only if its noisy count
        shows, up to `delta`, that it can't have been made by one row alone.
        """
        return PrivateGroupBy(self._frame, self._terms, by, keys)

    def __repr__(self) -> str:
        """Show the kind of frame, never what is in it."""
        return f"Private({type(self._frame).__module__.split('.')[0]} {type(self._frame).__name__})"

    def _answer(self, questions: Mapping[str, Question], terms: Terms) -> dict[str, Estimate]:
        return release_numbers(self._frame, questions, terms)

    def _only(self, answers: dict[str, Estimate]) -> Estimate:
        return next(iter(answers.values()))


class PrivateGroupBy(Asking[Any, Any]):
    """A frame by group; every question returns the caller's own frame type.

    One row a group, sorted by key: the key columns, the answer, `low` and `high` of its interval,
    and `count`, the noisy number of values behind it. NULL and NaN keys are one group, the last.
    """

    def __init__(self, frame: Any, terms: Terms, by: tuple[Hashable, ...], keys: object) -> None:
        if not by or len({label_of(label) for label in by}) < len(by):
            raise InvalidQuestionError(
                "group_by needs one or several different columns",
                hint='name them, e.g. group_by("carrier", "month")',
            )
        self._frame, self._terms, self._by = frame, terms, by
        self._keys = terms.keys_for(by, keys)

    def __repr__(self) -> str:
        """Show the group columns."""
        keys = "secret keys" if self._keys is None else f"{len(self._keys.rows)} public keys"
        return f"PrivateGroupBy({', '.join(map(repr, self._by))}; {keys})"

    def _answer(self, questions: Mapping[str, Question], terms: Terms) -> Any:
        return release_frame(self._frame, self._by, self._keys, questions, terms)

    def _only(self, answers: Any) -> Any:
        return answers


def _require_mapping(name: str, value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidQuestionError(
            f"{name} of several columns come as a mapping from column to {name}",
            hint=f'pass {name}={{"column": ...}}',
        )


def _name(question: Question) -> str:
    return question.kind if question.column is None else str(question.column)


def _named(questions: tuple[Question, ...], named: Mapping[str, Question]) -> dict[str, Question]:
    """Return questions by name: a column's own name, with the kind where it is asked twice."""
    everything = [*questions, *named.values()]
    if any(not isinstance(question, Question) for question in everything):
        raise InvalidQuestionError(
            "agg takes questions", hint='ask e.g. agg(dfp.mean("x", bounds=(0, 100)), dfp.count())'
        )
    plain = [_name(question) for question in questions]
    names = [
        f"{name}_{question.kind}" if plain.count(name) > 1 and question.column is not None else name
        for name, question in zip(plain, questions, strict=True)
    ]
    if len({*names, *named}) < len(names) + len(named):
        raise InvalidQuestionError(
            "two answers would have the same name", hint="name one: agg(first=dfp.mean(...))"
        )
    return dict(zip([*names, *named], everything, strict=True))
