"""Hand the questions of a frame, whole or by group, on to their release; name the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from dfprivacy.engine.columns import Declared
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frames.explanation import Explanation
from dfprivacy.frames.forecasting import explain_vector, explained
from dfprivacy.frames.lookup import check_terms
from dfprivacy.frames.releasing import histogram_request, release_parts, request_of
from dfprivacy.frames.tables import Origin, frame_names, released_table
from dfprivacy.frames.vector_release import release_vector, release_vector_frame
from dfprivacy.release.answers import arrow
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.release.terms import EPSILON, INTERVAL, PublicKeys, Terms
from dfprivacy.statistics import Statistic, question_text
from dfprivacy.statistics.base import Question
from dfprivacy.statistics.histogram import Histogram, bins_table, histogram_names
from dfprivacy.statistics.mean_vector import MeanVector
from dfprivacy.statistics.regression import Regression

Many = TypeVar("Many")
By = Sequence[Hashable]


@dataclass(frozen=True)
class Asked:
    """What a release asks of a frame, whole or by group; it reads `columns` beside the groups'.

    `release` takes the frame, its terms, the groups and their keys. `explanation` takes all but the
    frame, the sizes of groups and what columns are declared to hold; nothing is read.
    """

    columns: By
    release: Callable[[object, Terms, By, PublicKeys | None], Any]
    explanation: Callable[..., Explanation]


@dataclass(frozen=True)
class AskedTable:
    """A release whose answers are one table in the caller's own frame type.

    `request` is the release to be made, `names` are the columns of its table, `table` holds the
    answers, and `origin` is what a frame remembers of them. `shape` makes what a method returns,
    where that is no such table.
    """

    columns: By
    request: Callable[[Terms, By, PublicKeys | None], Request]
    names: Callable[[Request], Sequence[str]]
    table: Callable[[Answers, Request, Sequence[str]], pa.Table] = released_table
    origin: Callable[[Request], Origin] = Origin.of
    shape: Callable[[Any, Request], Any] | None = None
    noted: str = ""

    def release(self, frame: object, terms: Terms, by: By, keys: PublicKeys | None) -> Any:
        """Release the answers about a frame."""
        request = self.request(terms, by, keys)
        names, origin = self.names(request), self.origin(request)
        made = release_parts(frame, request, names, self.table, origin)
        return made if self.shape is None else self.shape(made, request)

    def explanation(
        self,
        terms: Terms,
        by: By,
        keys: PublicKeys | None,
        sizes: tuple[int, ...],
        declared: Declared | None = None,
    ) -> Explanation:
        """Return what a release costs and how wrong it is; `noted` tells of groups in bins."""
        request = self.request(terms, by, keys)
        self.names(request)
        made = explained(request, declared, sizes=sizes)
        if made.shown is None or not self.noted:
            return made
        return replace(made, answers=tuple(own.noted(self.noted) for own in made.answers))


def together(questions: Mapping[str, Statistic], form: str = "frame") -> AskedTable:
    """Return questions that share one release, by group."""
    columns = [column for own in questions.values() for column in own.columns]
    return AskedTable(
        columns,
        partial(request_of, questions, form=form),
        lambda own: frame_names(own.parts, questions, list(map(str, own.by))) if own.by else [],
    )


Release = tuple[Asked | AskedTable, By, PublicKeys | None]
"""What is released, and the groups that it is released by."""


@singledispatch
def asked_of(
    question: Any, frame: object, terms: Terms, by: By, keys: PublicKeys | None
) -> Release:
    """Return the release of a question that is no statistic; the file of each registers its own."""
    raise NotImplementedError


@asked_of.register
def _(question: Histogram, _: object, __: Terms, by: By, keys: PublicKeys | None) -> Release:
    return bin_counts(question), by, keys


def bin_counts(question: Histogram) -> AskedTable:
    """Return a histogram, whole or by group."""
    return AskedTable(
        question.columns,
        partial(histogram_request, question),
        lambda own: histogram_names(own.by),
        bins_table,
        partial(Origin.of, about=question.column),
        noted="a group is shown by its fullest bin",
    )


@asked_of.register
def _(question: Regression, _: object, __: Terms, by: By, keys: PublicKeys | None) -> Release:
    return together(question.questions) if by else line(question), by, keys


def line(asked: Regression) -> AskedTable:
    """Return a regression about all rows: one row a coefficient, with the ends of its interval."""

    def request(terms: Terms, *_: object) -> Request:
        made = request_of(asked.questions, terms, form="regression")
        rest = made.charge.question.removeprefix(question_text(asked.questions))
        return replace(made, charge=replace(made.charge, question=asked.text + rest))

    def coefficients(made: Answers, request: Request, names: Sequence[str]) -> pa.Table:
        found = [own.columns(request.level) for (own,) in made.answers.values()]
        values = [arrow(np.concatenate(own)) for own in zip(*found, strict=True)]
        return pa.table([pa.array(list(made.answers), pa.string()), *values], names=list(names))

    return AskedTable(
        asked.columns,
        request,
        lambda _: ("term", "coefficient", "low", "high"),
        coefficients,
        lambda request: replace(Origin.of(request), keys=("term",)),
    )


@asked_of.register
def _(question: MeanVector, _: object, __: Terms, by: By, keys: PublicKeys | None) -> Release:
    release = release_vector_frame if by else release_vector
    made = Asked(question.labels, partial(release, question), partial(explain_vector, question))
    return made, by, keys


class Asking(ABC, Generic[Many]):
    """The questions that a frame, or a frame by group, can be asked.

    Privacy, for every method: neighbours differ by adding or removing one row. The whole call
    spends `epsilon` (pure, discrete Laplace noise) or `rho` (zero-concentrated, discrete Gaussian
    noise), whatever it asks for; secret group keys add `delta`. Replacing a row costs twice as
    much. Errors come before anything is drawn and never depend on a row.
    """

    _frame: Any
    _terms: Terms
    _by: tuple[Hashable, ...] = ()
    _keys: PublicKeys | None = None

    @abstractmethod
    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Many:
        """Release the answers to named questions."""

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
        return self._answer(questions_by_name(questions, named, terms), terms)

    def _release(
        self, asked: Asked | AskedTable, terms: Terms, by: By, keys: PublicKeys | None
    ) -> Any:
        """Release what is asked, in its shape."""
        return asked.release(self._frame, terms, by, keys)

    def _several(self, question: Statistic, answers: Many) -> Any:  # noqa: ARG002 most hold all
        """Return the answers to the one question of a release."""
        return answers

    def _ask(self, statistic: Question, terms: Mapping[str, Any]) -> Any:
        """Release one statistic: the arguments and keyword arguments of its method."""
        check_terms(statistic, terms)
        question = statistic.completed(self._terms.bounds)
        updated = self._terms.updated(**terms)
        if isinstance(question, Statistic):
            return self._several(question, self._answer({question.name: question}, updated))
        release, by, keys = asked_of(question, self._frame, updated, self._by, self._keys)
        return self._release(release, updated, by, keys)


def questions_by_name(
    questions: Sequence[Statistic], named: Mapping[str, Statistic], terms: Terms
) -> dict[str, Statistic]:
    """Return questions by name, with bounds that the terms know where they have none.

    A question is called as its column, with the kind where it is asked twice.
    """
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
    completed = (question.completed(terms.bounds) for question in everything)
    return dict(zip([*names, *named], completed, strict=True))
