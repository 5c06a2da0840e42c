"""What can be done with any frame or frame by group: hand questions on, and name the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frames.methods import Methods
from dfprivacy.release.labels import label_of
from dfprivacy.release.terms import EPSILON, INTERVAL, PublicKeys, Terms, bounds_of
from dfprivacy.statistics import Statistic

One = TypeVar("One")
Many = TypeVar("Many")


class Asking(Methods[One], ABC, Generic[One, Many]):
    """The questions that a frame, or a frame by group, can be asked.

    Privacy, for every method: neighbours differ by adding or removing one row. The whole call
    spends `epsilon` (pure, discrete Laplace noise) or `rho` (zero-concentrated, discrete Gaussian
    noise), whatever it asks for; secret group keys add `delta`. Replacing a row costs twice as
    much. Errors come before anything is drawn and never depend on a row.
    """

    _frame: Any
    _terms: Terms

    @abstractmethod
    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Many:
        """Release the answers to named questions."""

    @abstractmethod
    def _grouping(self) -> tuple[tuple[Hashable, ...], PublicKeys | None]:
        """Return the group columns and their public keys, if any."""

    def agg(
        self,
        *questions: Statistic,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float | str = INTERVAL,
        **named: Statistic,
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
    def _several(self, question: Statistic, answers: Many) -> Any:
        """Return the answers to the one question of a release."""

    def _ask(
        self, statistic: type[Statistic], asked: Mapping[str, Any], terms: Mapping[str, Any]
    ) -> Any:
        """Release one question, as a method has been called."""
        question = self._complete(statistic(**asked))
        answers = self._answer({question.name: question}, self._terms.updated(**terms))
        return self._several(question, answers)

    def _bounds(self, column: Hashable, given: object) -> Any:
        return bounds_of(self._terms.bounds.get(label_of(column)) if given is None else given)

    def _complete(self, question: Statistic) -> Statistic:
        """Fill in the bounds that the terms know."""
        return question.completed(self._terms.bounds)


def _named(
    questions: tuple[Statistic, ...], named: Mapping[str, Statistic]
) -> dict[str, Statistic]:
    """Return questions by name: a column's own name, with the kind where it is asked twice."""
    everything = [*questions, *named.values()]
    if any(not isinstance(question, Statistic) for question in everything):
        raise InvalidQuestionError(
            "agg takes questions", hint='ask e.g. agg(dfp.mean("x", bounds=(0, 100)), dfp.count())'
        )
    plain = [question.name for question in questions]
    names = [
        question.full_name if plain.count(question.name) > 1 else question.name
        for question in questions
    ]
    if len({*names, *named}) < len(names) + len(named):
        raise InvalidQuestionError(
            "two answers would have the same name", hint="name one: agg(first=dfp.mean(...))"
        )
    return dict(zip([*names, *named], everything, strict=True))
