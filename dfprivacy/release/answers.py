"""Answers by group before they become a table. Public: noise is in them already."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.grid import Clock, type_moments
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import KeyRule, bound_outside_selected, exact_height, reach_down
from dfprivacy.release.estimator import BiasedEstimator, CountEstimator, Ends, Estimator

Column = npt.NDArray[Any]


class AnnotatedFloat(float):
    """A number that knows public facts about itself; a copy or a pickle keeps them too."""

    def __new__(cls, value: float, **facts: Any) -> Self:
        """Keep a value and its facts; what a computation makes, without facts, is a plain float."""
        if not facts:
            return float(value)  # type: ignore[return-value]
        number = super().__new__(cls, value)
        vars(number).update(facts)
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), float(self), **vars(self)), ()

    __str__ = float.__repr__


class Answer(ABC):
    """One named answer for every group; `declared` is the Arrow type of dates and times."""

    name: Any
    declared: pa.DataType | None = None

    @abstractmethod
    def columns(self, level: float) -> list[Column]:
        """Return the value, and low, high and note where there are some, of each group."""

    def within_limits(self, below: float, above: float, note: str | None) -> Answer:  # noqa: ARG002 read off counts of rows
        """Return the answer with room for the bias of limits, and a note about them."""
        return self

    @abstractmethod
    def about_shown(self, shown: Integers, counted: Counted, rule: KeyRule | None) -> Answer:
        """Return the answer about the groups that are shown alone."""


@dataclass(frozen=True)
class Threshold:
    """The public threshold of noisy totals of shown groups (docs/explanation/intervals.md)."""

    weights: CountWeights
    minimum: int

    def interval(self, estimator: Estimator, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of each group, given that it is shown."""
        indices, reads = self.weights.indices, estimator.reads
        low, high = estimator.interval(vector, level)
        if reads is not None and not {*reads} & {*indices}:
            return low, high
        if type(estimator) is CountEstimator and estimator.weights == self.weights:
            return np.minimum(low, self.lowest(vector, level)), high
        excess = vector.excess(indices, self.minimum)
        limit, *misses = bound_outside_selected(vector.noise, len(indices), self.minimum, 1 - level)
        marginal, clear = (estimator.interval(vector, 1 - miss) for miss in misses)
        if isinstance(estimator, CountEstimator):  # its upper end holds anyway
            marginal, clear = (marginal[0], high), (clear[0], high)
        low, high = (np.where(excess < limit, *ends) for ends in zip(marginal, clear, strict=True))
        return low, high

    def lowest(self, vector: NoisyVector, level: float) -> Floats:
        """Return the lower end of the interval of each count, given that it is shown."""
        noise, terms = vector.noise, len(self.weights.indices)
        total = vector.total(self.weights.indices)
        step = max(math.isqrt(int(noise.variance)) // 8, 1)
        excess = vector.excess(self.weights.indices, self.minimum)
        steps = np.clip(excess // step, 0, _STEPS).astype(np.int64)
        distinct, index = np.unique(steps, return_inverse=True)
        reaches = [
            reach_down(noise, terms, self.minimum, int(count) * step, 1 - level)
            for count in distinct
        ]
        reach = np.array([math.inf if limit is None else limit for limit in reaches])[index]
        lowest = (total.astype(np.float64) - reach) / self.weights.divisor
        return np.asarray(np.maximum(np.ceil(lowest - _EDGE), 0.0))


_STEPS = 160
"""Eighths of a standard deviation above the threshold, beyond which its effect is the same."""

_EDGE = 1e-9  # a true count at the very end of an interval stays inside despite float division


@dataclass(frozen=True)
class Piece:
    """The estimates of some groups, their numbers, the noisy vector behind, and notes if any."""

    groups: Integers
    estimator: Estimator
    vector: NoisyVector
    notes: Sequence[str | None] | None = None
    threshold: Threshold | None = None


UNKNOWN = (np.nan, -np.inf, np.inf)
"""Value, low and high where there is no answer."""

NO_COUNT = (np.int64(0), -np.inf, np.inf)
"""The same for a count, which is an integer."""

TOO_FEW = "too few rows for this loss"
"""The note on answers that noise alone may have made."""

FAR_ROWS = "some groups have rows far beyond their bounds"
"""The note on answers of groups that together have more far rows than noise makes."""


@dataclass(frozen=True, eq=False)
class OuterCounts:
    """Noisy counts of each group in bins far beyond the bounds of all, in units of their noise."""

    heights: npt.NDArray[np.float32]
    laplace: bool

    def are_rows(self, groups: Integers) -> bool:
        """Check the sums over some groups, which noise alone passes 1 time in 100."""
        chance = 0.01 / max(self.heights.shape[1], 1)
        sums = np.cumsum(self.heights[groups].sum(axis=0, dtype=np.float64)[::-1])
        return any(
            total > exact_height(bins * len(groups), chance, laplace=self.laplace)
            for bins, total in enumerate(sums.tolist(), start=1)
            if len(groups)
        )


@dataclass(frozen=True)
class Estimated(Answer):
    """An answer read off noisy sums, `blank` in groups of no piece, perhaps with notes."""

    name: str
    groups: int
    pieces: tuple[Piece, ...]
    blank: tuple[Any, Any, Any] = UNKNOWN
    has_notes: bool = False
    outer: OuterCounts | None = None
    shown: Integers | None = None
    """The groups that it is about, all if it is None."""
    bounds: tuple[Floats, ...] = ()
    """The bounds that were found, by column: lower and upper ends by group, NaN without any."""

    def columns(self, level: float) -> list[Column]:
        """Return value, low and high of each group, and its note where it has notes.

        Intervals are those given that a group is shown. One that holds every possible answer has a
        note of its own.
        """
        parts = []
        for piece in self.pieces:
            if len(piece.groups) or not self.groups:
                estimator, vector, threshold = piece.estimator, piece.vector, piece.threshold
                low, high = (
                    estimator.interval(vector, level)
                    if threshold is None
                    else threshold.interval(estimator, vector, level)
                )
                parts.append((piece.groups, (estimator.value(vector), low, high)))
        is_complete = len(parts) == 1 and len(parts[0][0]) == self.groups
        columns: list[Column] = []
        for index in range(3):
            column = parts[0][1][index] if is_complete else np.full(self.groups, self.blank[index])
            for groups, ends in () if is_complete else parts:
                column[groups] = ends[index]
            columns.append(column)
        if self.has_notes:  # None for most groups
            notes = np.full(self.groups, None, dtype=object)
            for piece in self.pieces:
                if piece.notes is not None:
                    notes[piece.groups] = piece.notes
                smallest, largest = piece.estimator.limits
                low, high = (column[piece.groups] for column in columns[1:])
                for group in piece.groups[(low <= smallest) & (high >= largest)].tolist():
                    notes[group] = notes[group] or TOO_FEW
            columns.append(notes)
        return columns if self.shown is None else [column[self.shown] for column in columns]

    def within_limits(self, below: float, above: float, note: str | None) -> Estimated:
        """Return the answer with room for the bias of limits, and a note about them."""
        pieces = []
        for piece in self.pieces:
            estimator = piece.estimator
            if below or above:
                estimator = BiasedEstimator(estimator, below, above)
            notes = append_note(piece.notes or [None] * len(piece.groups), note)
            pieces.append(replace(piece, estimator=estimator, notes=notes))
        return replace(self, pieces=tuple(pieces), has_notes=True)

    def about_shown(self, shown: Integers, counted: Counted, rule: KeyRule | None) -> Estimated:
        """Return the answer about the groups that are shown alone.

        A `rule` selects them by their noisy counts: where the answer is read off other vectors than
        these, its noise knows nothing of that. Of several pieces those stay that have a group to
        show. Only counts of rows far outside of groups that are shown are read, since which groups
        there are is secret. These counts end here.
        """
        pieces = self.pieces
        if rule is not None:
            thresholds = {id(piece.vector): piece.threshold(rule) for piece in counted.pieces}
            is_shown = np.zeros(self.groups, dtype=bool)
            is_shown[shown] = True
            pieces = tuple(
                replace(piece, threshold=thresholds.get(id(piece.vector)))
                for piece in pieces
                if len(pieces) == 1 or is_shown[piece.groups].any()
            )
        if self.outer is not None and self.outer.are_rows(shown):
            pieces = tuple(
                replace(piece, notes=piece.notes and [text or FAR_ROWS for text in piece.notes])
                for piece in pieces
            )
        bounds = tuple(ends[:, shown] for ends in self.bounds)
        return replace(self, pieces=pieces, outer=None, shown=shown, bounds=bounds)

    def list_bounds(self) -> list[tuple[float, float]]:
        """Return the widest bounds that were found for a group, by column; none without any."""
        bounds = [ends[:, np.isfinite(ends[0])] for ends in self.bounds]
        return [(float(lower.min()), float(upper.max())) for lower, upper in bounds if len(lower)]


@dataclass(frozen=True)
class Chosen(Answer):
    """An answer that a selection has chosen: it has no interval."""

    name: str
    values: Column
    notes: Sequence[str | None] | None = None

    def columns(self, level: float) -> list[Column]:  # noqa: ARG002 one interface for all answers
        """Return the value of each group, and its note where it has notes."""
        return [self.values, *([] if self.notes is None else [np.array(self.notes, object)])]

    def within_limits(self, below: float, above: float, note: str | None) -> Chosen:  # noqa: ARG002 no interval
        """Return the answer with a note about limits."""
        return replace(self, notes=append_note(self.notes or [None] * len(self.values), note))

    def about_shown(self, shown: Integers, counted: Counted, rule: KeyRule | None) -> Chosen:  # noqa: ARG002 no interval
        """Return the answer about the groups that are shown alone."""
        notes = None if self.notes is None else [self.notes[index] for index in shown]
        return replace(self, values=self.values[shown], notes=notes)


@dataclass(frozen=True)
class Dated(Answer):
    """An answer in dates or times of a declared type; what is not finite is missing."""

    number: Chosen | Estimated
    clock: Clock
    declared: pa.DataType

    @property
    def name(self) -> str:
        """The name of the answer."""
        return self.number.name

    def columns(self, level: float) -> list[Column]:
        """Return the value of each group, and the ends of its interval where it has one."""
        columns = self.number.columns(level)
        return [c if c.dtype == object else self.clock.moments(c) for c in columns]  # or a note

    def within_limits(self, below: float, above: float, note: str | None) -> Dated:
        """Return the answer with a note about limits."""
        return replace(self, number=self.number.within_limits(below, above, note))

    def about_shown(self, shown: Integers, counted: Counted, rule: KeyRule | None) -> Dated:
        """Return the answer about the groups that are shown alone."""
        return replace(self, number=self.number.about_shown(shown, counted, rule))


def join_notes(texts: Iterable[str | None]) -> str | None:
    """Return several notes as one; None if there are none."""
    return "; ".join(filter(None, texts)) or None


def append_note(notes: Sequence[str | None], note: str | None) -> list[str | None]:
    """Return the notes of groups, each followed by a note that is about all of them."""
    return [join_notes((text, note)) for text in notes]


def arrow(column: Column, declared: pa.DataType | None = None) -> pa.Array:
    """Return a column of answers or notes, in a type that follows from question and column."""
    if column.dtype == object:
        return pa.array(column, pa.string())
    return pa.array(column) if declared is None else type_moments(column, declared)


@dataclass(frozen=True)
class CountPiece:
    """The noisy counts of some groups."""

    groups: Integers
    vector: NoisyVector
    weights: CountWeights

    def threshold(self, rule: KeyRule) -> Threshold:
        """Return the total that a noisy count has to reach."""
        terms = len(self.weights.indices)
        return Threshold(
            self.weights, rule.threshold(self.vector.noise, self.weights.divisor, terms)
        )


@dataclass(frozen=True)
class Counted:
    """The noisy count of every group, which decides what a release with secret keys shows."""

    groups: int
    pieces: tuple[CountPiece, ...]

    def select_groups(self, rule: KeyRule) -> Integers:
        """Return the groups whose noisy count shows that more than one unit may be behind them.

        They ascend. A group that one unit alone has made stays with probability at most delta, by
        the exact tail of the noise (docs/explanation/keys.md).
        """
        groups = []
        for piece in self.pieces:
            total, threshold = piece.vector.total(piece.weights.indices), piece.threshold(rule)
            groups.append(piece.groups[total >= threshold.minimum])
        return np.sort(np.concatenate(groups)) if groups else np.zeros(0, dtype=np.int64)

    def column(self) -> Column:
        """Return the count of each group; 0 for a group that was not counted."""
        column = np.zeros(self.groups, dtype=np.int64)
        for piece in self.pieces:
            column[piece.groups] = CountEstimator(piece.weights).value(piece.vector)
        return column


@dataclass(frozen=True)
class Answered:
    """The answers of a part, the keys of their groups, and the count that selects them. Public."""

    keys: pa.Table
    answers: Mapping[str, tuple[Answer, ...]]
    counted: Counted = Counted(1, ())


class Measured(ABC):
    """The measurement of a part of a plan: exact and secret, one entry a group."""

    keys: Any
    """The keys of the groups, sorted, or as listed."""

    @abstractmethod
    def of_groups(self, keys: pa.Table) -> Self:
        """Return the same of exactly the groups with these keys: one that is not there is empty."""

    @abstractmethod
    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Draw the noise that pays for the loss of one row, and answer.

        `rule` says which groups of secret keys are shown: a part may forget the others.
        """

    @classmethod
    def answer_together(
        cls, measured: Sequence[Any], losses: Sequence[Epsilon | Rho]
    ) -> list[Answered]:
        """Answer about all groups by measurements of this class, which may share work."""
        pairs = zip(measured, losses, strict=True)
        return [measurement.answer(loss, None) for measurement, loss in pairs]


@dataclass(frozen=True)
class Answers:
    """The answers of all parts about the groups that are shown, in the order of questions. Public.

    `counted` has the counts of more groups: `groups_shown` are the numbers of those shown.
    """

    keys: pa.Table
    answers: Mapping[str, tuple[Answer, ...]]
    counted: Counted
    groups_shown: Integers

    def list_bounds(self) -> dict[str, list[tuple[float, float]]]:
        """Return the bounds that were found for questions, by column."""
        bounds_by_name = {
            name: answer.list_bounds()
            for name, answers in self.answers.items()
            for answer in answers
            if isinstance(answer, Estimated)
        }
        return {name: bounds for name, bounds in bounds_by_name.items() if bounds}
