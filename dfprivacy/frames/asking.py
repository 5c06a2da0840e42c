"""What can be done with any frame or frame by group: hand questions on, and name the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa

from dfprivacy.engine.columns import Declared
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frames.explanation import Explanation
from dfprivacy.frames.forecasting import explained
from dfprivacy.frames.methods import Methods
from dfprivacy.frames.releasing import histogram_request, release_parts, request_of
from dfprivacy.frames.tables import Origin, frame_names, released_table
from dfprivacy.frames.vector_release import release_vector, release_vector_frame
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.release.terms import EPSILON, INTERVAL, PublicKeys, Terms, bounds_of, label_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram, bins_table, histogram_names
from dfprivacy.statistics.mean_vector import MeanVector, mean_vector_question

One = TypeVar("One")
Many = TypeVar("Many")
By = Sequence[Hashable]


@dataclass(frozen=True)
class Asked:
    """What a release asks, whose answers are one table in the caller's own frame type.

    It reads `columns` beside those of the groups. `request` is the release to be made, `names` are
    the columns of its table, `table` holds the answers, and `origin` is what a frame remembers of
    them. `shape` makes what a method returns, where that is no such table.
    """

    columns: By
    request: Callable[[Terms, By, PublicKeys | None], Request]
    names: Callable[[Request], Sequence[str]]
    table: Callable[[Answers, Request, Sequence[str]], pa.Table] = released_table
    origin: Callable[[Request], Origin] = Origin.of
    shape: Callable[[Any, Request], Any] | None = None
    noted: str = ""

    def release(
        self, frame: object, terms: Terms, by: By, keys: PublicKeys | None, *, shaped: bool = True
    ) -> Any:
        """Release the answers about a frame."""
        request = self.request(terms, by, keys)
        names, origin = self.names(request), self.origin(request)
        made = release_parts(frame, request, names, self.table, origin)
        return self.shape(made, request) if shaped and self.shape is not None else made

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


def together(questions: Mapping[str, Statistic], form: str = "frame") -> Asked:
    """Return questions that share one release, by group."""
    columns = [column for own in questions.values() for column in own.columns]
    return Asked(
        columns,
        partial(request_of, questions, form=form),
        lambda own: frame_names(own.parts, questions, list(map(str, own.by))) if own.by else [],
    )


def bin_counts(question: Histogram) -> Asked:
    """Return a histogram, whole or by group."""
    return Asked(
        [question.column],
        partial(histogram_request, question),
        lambda own: histogram_names(own.by),
        bins_table,
        partial(Origin.of, about=question.column),
        noted="a group is shown by its fullest bin",
    )


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
        return self._release(bin_counts(question), terms, *self._grouping())

    def _release(
        self, asked: Asked, terms: Terms, by: By = (), keys: PublicKeys | None = None
    ) -> Any:
        """Release what is asked, in its shape."""
        return asked.release(self._frame, terms, by, keys)

    def mean_vector(
        self,
        columns: Sequence[Hashable] | Hashable,
        *,
        rho: float | None = None,
        delta: float | None = None,
        radius: float | None = None,
        method: str = "auto",
        neighbours: str = "add-remove",
        p: float = 2,
        dimension: int | None = None,
        universe: int | None = None,
        deviations: str = "gaussian",
        skewed: bool = False,
        interval: float = INTERVAL,
    ) -> Any:
        """Average vectors: several numeric columns, or one column of arrays, lists or item sets.

        Privacy: rho-zCDP, whatever the dimension, when one row is added or removed; the number of
        rows is secret. `neighbours="replace"` makes it public, protects against one row taking
        another one's place, and runs the papers' own form. Secret group keys add `delta`.

        Parameters
        ----------
        columns : list of labels, or a label
            The coordinates, or a column of vectors: Array, FixedSizeList or List.
        rho : float
            What the whole call spends.
        delta : float, optional
            By group with secret keys: what showing them spends.
        radius : float
            A public bound on Euclidean norms, in units of the columns. Larger vectors are cut; a
            radius a thousand times too large costs little.
        method : {"auto", "recentred", "clipped", "shifted", "plan"}
            Norms cut at a private threshold around noisy means, three times; once around 0; around
            private medians (both Huang, Liang and Yi 2021); noise by private standard deviations
            (Aumueller et al. 2023). "auto" decides by public facts: "plan" for item sets, p != 2 or
            `skewed`, else "recentred".
        neighbours : {"add-remove", "replace"}
            The neighbour relation.
        p : float
            Which l_p error "plan" keeps small.
        dimension : int, optional
            The length of lists, which a List column does not declare.
        universe : int, optional
            The column holds sets of items 0, ..., universe - 1.
        deviations : {"gaussian", "generic", "binary"}
            How "plan" finds standard deviations: for data that is about normal, for any with four
            moments, or for coordinates 0 and 1.
        skewed : bool
            Declare that standard deviations differ much between coordinates.
        interval : float
            Level of the intervals.

        Returns
        -------
        VectorEstimate
            A sequence of floats that knows its noise. By group, the caller's own frame type: the
            keys, a column a coordinate (or a list column with `low` and `high`), and `count`.

        Raises
        ------
        InvalidLossError, InvalidBoundsError, InvalidQuestionError, MissingColumnError,
        UnsupportedDtypeError, UnsupportedFrameError
            Before anything is drawn, and never for what is in a row. A row that is no whole vector
            counts for nothing (zeros under "replace").

        Examples
        --------
        >>> import dfprivacy as dfp, numpy as np, pandas as pd
        >>> frame = pd.DataFrame(np.arange(20_000).reshape(5_000, 4) % 7.0, columns=list("abcd"))
        >>> mean = frame.dp.mean_vector(["a", "b", "c", "d"], rho=0.5, radius=100)
        >>> bool(abs(mean.values - 3).max() < 0.3), mean.method
        (True, 'recentred')
        """
        question = mean_vector_question(
            columns, radius=radius, method=method, neighbours=neighbours, p=p,
            dimension=dimension, universe=universe, deviations=deviations, skewed=skewed,
        )  # fmt: skip
        return self._vector(question, self._terms.updated(rho=rho, delta=delta, interval=interval))

    def _vector(self, question: MeanVector, terms: Terms) -> Any:
        by, keys = self._grouping()
        if by:
            return release_vector_frame(self._frame, by, keys, question, terms)
        return release_vector(self._frame, question, terms)

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
