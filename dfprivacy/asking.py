"""What can be done with any frame or frame by group: hand questions on, and name the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.labels import label_of
from dfprivacy.questions import BoundedQuestion, Question
from dfprivacy.rank_questions import Center
from dfprivacy.terms import EPSILON, INTERVAL, PublicKeys, Terms, bounds_of

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

    @abstractmethod
    def _grouping(self) -> tuple[tuple[Hashable, ...], PublicKeys | None]:
        """Return the group columns and their public keys, if any."""

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

    @abstractmethod
    def _several(self, question: Question, terms: Terms) -> Any:
        """Release one question that has several answers."""

    def _ask(self, question: Question, terms: Terms) -> One:
        return self._only(self._answer({_name(question): question}, terms))

    def _bounds(self, column: Hashable, given: object) -> Any:
        return bounds_of(self._terms.bounds.get(label_of(column)) if given is None else given)

    def _complete(self, question: Question) -> Question:
        """Fill in the bounds that the terms know."""
        if not isinstance(question, BoundedQuestion | Center) or question.bounds is not None:
            return question
        return replace(question, bounds=self._bounds(question.column, None))


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
