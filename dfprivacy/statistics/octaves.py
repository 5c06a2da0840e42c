"""Answer sums, means and variances without bounds: count dyadic bins, find bounds, answer.

A part of the loss pays for a noisy histogram of octaves, off which each group's bounds are read;
the rest pays for the answers within these bounds, from the same table. Proof:
docs/explanation/octaves.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.histograms import HistogramQuery, count_bins
from dfprivacy.engine.keys import bins_of_groups
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import (
    FINE,
    BinTable,
    fits_octaves,
    octave_statistics,
    powers_needed,
    with_slack,
)
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import Grid
from dfprivacy.measurement.runs import run_slices
from dfprivacy.noise.additive import NoisyVector, add_noise
from dfprivacy.noise.exceedances import count_at_height
from dfprivacy.noise.laws import KeyRule, Noise
from dfprivacy.release.answers import (
    NO_COUNT,
    UNKNOWN,
    Answered,
    Counted,
    CountPiece,
    Estimated,
    Piece,
)
from dfprivacy.release.estimator import Clipped, CountEstimator, Estimator, Moved
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.estimators.octave_bounds import CORE, SHARE, Mask, Tails
from dfprivacy.statistics.estimators.zoom import (
    FIRST_PARTS,
    GLANCE_PARTS,
    GROUP_PARTS,
    PARTS,
    POOLED_PARTS,
    POOLED_RETRY_PARTS,
    RETRY_PARTS,
    Zoomed,
    group_bounds,
    zoomed_bounds,
)
from dfprivacy.statistics.forecast import Circumstances, Forecast, Reach, reaching
from dfprivacy.statistics.linear import LinearStatistic, Vectors, build_forecast, plan_vectors
from dfprivacy.statistics.part import ROOM, Bins, Grouping, MeasuredTable, Part

_ANY = Bounds(-1, 1)
"""Bounds for queries of which only the form matters."""


@dataclass(frozen=True)
class OctavePart:
    """Questions about one column, whose bounds are found first.

    By group a table has octaves, and finer bins are counted where these show data far from zero;
    or at once, in a `fine` one. A unit is in at most so many `groups`.
    """

    column: Hashable
    questions: Mapping[str, LinearStatistic]
    grouped: bool
    read: Callable[..., Vectors] | None = None
    fine: bool = False
    groups: int = 1

    def vectors(self, bounds: Bounds) -> Vectors:
        """Return the queries that answer the questions within bounds."""
        bounded = {name: question.within(bounds) for name, question in self.questions.items()}
        vectors = (self.read or plan_vectors)(bounded, grouped=self.grouped)
        if not all(fits_octaves(linear) or not linear.source.terms for linear in vectors.linears):
            next(iter(bounded.values())).required_bounds()
            raise InvalidQuestionError(
                "bounds can't be found for this question", hint="pass bounds=(0, 100)"
            )
        return replace(vectors, linears=tuple(with_slack(linear) for linear in vectors.linears))

    def about(self, vectors: Vectors, middle: float, doubt: float) -> Vectors:
        """Return queries with less noise about a known middle, if the only question has them.

        The mean is within `doubt` of the middle, about. Both are NaN where they are not known.
        """
        if self.grouped or self.read is not None or math.isnan(middle) or len(self.questions) > 1:
            return vectors
        (question,), (linear,), (read,) = self.questions.values(), vectors.linears, vectors.answers
        replacement = question.about_middle(linear, middle, doubt)
        if replacement is None:
            return vectors
        return replace(
            vectors, linears=replacement[:1], answers=(replace(read, estimator=replacement[1]),)
        )

    @cached_property
    def _form(self) -> Vectors:
        return self.vectors(_ANY)

    @cached_property
    def alike(self) -> Hashable:
        """Key by which columns are answered in one batch."""
        questions = tuple(
            question.about(*range(len(question.columns))) if question.columns else question
            for question in self.questions.values()
        )
        return questions, self.read, self.fine, self.groups

    @property
    def weight(self) -> Fraction:
        """One for each vector that answers."""
        return Fraction(len(self._form.linears))

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""
        return {self.column: True}

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """One answer a question; each has an interval."""
        return {name: {name: True} for name in self.questions}

    @property
    def counts(self) -> bool:
        """True if a query can count groups."""
        return self._form.counts

    @property
    def answers_count(self) -> bool:
        """True if one of the answers is the count that selects groups."""
        return any(isinstance(question, Count) for question in self.questions.values())

    @property
    def moments(self) -> int:
        """How many powers of the values it adds up."""
        return max([1, *map(powers_needed, self._form.linears)])

    @property
    def binning(self) -> Octaves:
        """How its table counts: by group in octaves, which are few."""
        return Octaves() if self.grouped and not self.fine else FINE

    @property
    def left(self) -> Fraction:
        """The share of the loss that answers, at least, of data that are not far from zero."""
        if self.grouped:
            return Fraction(PARTS - POOLED_PARTS - GROUP_PARTS, PARTS)
        return Fraction(PARTS - GLANCE_PARTS - FIRST_PARTS - RETRY_PARTS, PARTS)

    @property
    def tables(self) -> tuple[Bins, ...]:
        """How its table can count: by group in octaves too."""
        able = (FINE, Octaves()) if self.grouped else (FINE,)
        return tuple((binning, self.moments) for binning in able)

    def measured(self, table: BinTable) -> MeasuredOctaves:
        """Return the measurement that this table is."""
        return MeasuredOctaves(self, table)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors(Bounds(0, 1)).count_noise(loss.share(self.left))

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return all questions: bounds and answers are paid for together."""
        return [(tuple(self.questions), Fraction(1))]

    def forecasts(
        self, loss: Epsilon | Rho, questions: Mapping[str, Statistic], circumstances: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of each answer, in widths of the bounds that are found first."""
        column_reach = bounds_reach(loss.share(SHARE).noise(1, 1))
        remarks: tuple[str, ...] = (
            "sizes count the rows of one octave, in which the bounds are found",
        )
        if self.grouped:
            groups = 1 if circumstances.unit is None else circumstances.unit.max_groups or 1
            pooled_reach = bounds_reach(
                loss.share(Fraction(POOLED_RETRY_PARTS, PARTS)).pooled(groups).noise(1, 1)
            )
            remarks = (
                f"all groups together find bounds {pooled_reach} in one octave",
                "each group's own octaves narrow them where groups differ in size",
            )
        forecasts = []
        for name, question in self.questions.items():
            vectors = self.vectors(question.stand_in)
            answer = next(answer_ for answer_ in vectors.answers if answer_.name == name)
            noise = vectors.noises(loss.share(self.left))[answer.vector]
            linear, unit = vectors.linears[answer.vector], question.unit(found=True)
            forecast = build_forecast(
                answer, (linear, noise), questions[name], circumstances, unit=unit
            )
            law = f"{forecast.mechanism} within bounds from a noisy histogram of octaves"
            reach = None if self.grouped else column_reach
            forecasts.append(replace(forecast.noted(*remarks), answered=reach, mechanism=law))
        return forecasts

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredOctaves:
        """Run the pass: one GROUP BY the keys and the octave."""
        return next(measured_together([self], adopted, grouping))


def measured_together(
    parts: Sequence[OctavePart], adopted: Adopted, grouping: Grouping
) -> Iterator[MeasuredOctaves]:
    """Run the pass of several columns: one reading of the frame where the engine can."""
    queries = [HistogramQuery(part.column, part.binning, part.moments) for part in parts]
    tables = count_bins(adopted, grouping.by, queries, public=grouping.public)
    return map(MeasuredOctaves, parts, tables)


def in_fine_bins(parts: Sequence[Part]) -> list[Part]:
    """Return parts that count in fine bins at once, for rows that can't be read twice."""
    return [replace(part, fine=True) if isinstance(part, OctavePart) else part for part in parts]


def bounds_reach(noise: Noise) -> Reach:
    """Return how many rows one octave needs for bounds around it."""
    return reaching(count_at_height(CORE, noise), noise)


@dataclass(frozen=True, repr=False)
class MeasuredOctaves(MeasuredTable):
    """An octave table. Secret."""

    part: OctavePart
    table: BinTable
    finer: Callable[[], BinTable] | None = None
    """Function that counts again in finer bins, with the groups of that moment."""

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the counts of exactly the groups with these keys, in finer bins too."""
        measured, finer = super().of_groups(keys), self.finer
        if finer is None:
            return measured
        return replace(measured, finer=lambda: bins_of_groups(finer(), keys))

    def answer(
        self,
        loss: Epsilon | Rho,
        rule: KeyRule | None,  # noqa: ARG002 one interface
    ) -> Answered:
        """Find bounds, of all groups together first where there are groups; answer within them."""
        return self.answer_together([self], loss)[0]

    @property
    def alike(self) -> Hashable:
        """Key by which columns are answered in one batch."""
        return self.part.alike, self.table.groups, self.table.binning, self._finer is None

    @property
    def _finer(self) -> Callable[[], BinTable] | None:
        return (lambda: self.table) if self.table.binning == FINE else self.finer

    def answer_together(
        self, measured: Sequence[MeasuredOctaves], loss: Epsilon | Rho
    ) -> list[Answered]:
        """Answer about several columns in one batch; `loss` is that of each column.

        All go one step after another together, or as many as have room. Groups are those of the
        first column, in finer bins where it is counted in these: a frame can have other rows then.
        """
        if not self.part.grouped:
            return [
                _answered([column], zoomed_bounds(column.table, loss), loss)[0]
                for column in measured
            ]
        answers: dict[int, Answered] = {}
        room = max(ROOM // max(self.table.groups, 1), 1)
        keys, finer = self.keys, [column._finer for column in measured if column._finer is not None]  # noqa: SLF001 its own kind

        def counted_again(column: int) -> BinTable:
            nonlocal keys
            table = finer[column]()
            if column == 0:
                keys = table.keys
            return bins_of_groups(table, keys)

        for first in range(0, len(measured), room):
            batch = measured[first : first + room]
            again = [partial(counted_again, first + index) for index in range(len(batch))]
            pooled = loss.pooled(self.part.groups)
            parts_of_batch = group_bounds(
                [bins_of_groups(measured_column.table, keys) for measured_column in batch],
                loss,
                pooled,
                again if finer else (),
                of_groups=lambda table: bins_of_groups(table, keys),
            )
            for columns, zoomed in parts_of_batch:
                chosen = [batch[column].of_groups(keys) for column in columns.tolist()]
                answers |= zip(
                    (columns + first).tolist(), _answered(chosen, zoomed, loss), strict=True
                )
        return [answers[column] for column in range(len(measured))]

    def answer_apart(self, loss: Epsilon | Rho, *, ends: bool = True) -> Answered:
        """Find bounds, answer within them; a group without bounds has no answer, or 0 for zeros.

        What is said of a group depends on its own rows alone, whichever others there are. Without
        `ends` nobody asks for intervals, and what is clipped is not looked at.
        """
        zoomed = zoomed_bounds(self.table, loss)
        return _answered([self], zoomed, loss, without=zoomed.found.zeros, ends=ends)[0]


def _answered(
    columns: Sequence[MeasuredOctaves],
    zoomed: Zoomed,
    loss: Epsilon | Rho,
    without: Mask | None = None,
    *,
    ends: bool = True,
) -> list[Answered]:
    """Answer within bounds, and for groups `without` any: for all of these if it is None.

    Groups are those of each column in turn.
    """
    part, has_bounds = columns[0].part, zoomed.found.found
    cells = [
        _cell(part, bounds, groups, loss, zoomed, ends=ends)
        for bounds, groups in bounds_classes(zoomed)
    ]
    missing = np.flatnonzero(~has_bounds if without is None else without)
    if len(missing):
        cells.append(_cell(part, None, missing, loss, zoomed))
    groups = zoomed.table.groups // len(columns)
    return [
        _collect_answers(column_measured, [cell.of(column * groups, groups) for cell in cells])
        for column, column_measured in enumerate(columns)
    ]


def _collect_answers(measured: MeasuredOctaves, cells: Sequence[Cell]) -> Answered:
    """Return the answers of one column off its own cells."""
    part, groups = measured.part, measured.table.groups
    cells = [cell for cell in cells if len(cell.groups)]
    answers = {
        name: (
            Estimated(
                name,
                groups,
                tuple(cell.pieces[index] for cell in cells),
                NO_COUNT if isinstance(question, Count) else UNKNOWN,
                has_notes=question.has_note,
            ),
        )
        for index, (name, question) in enumerate(part.questions.items())
    }
    counts = tuple(cell.count for cell in cells if cell.count is not None)
    return Answered(measured.keys, answers, Counted(groups, counts) if part.counts else None)


def _cell(
    part: OctavePart,
    bounds: Bounds | None,
    groups: Integers,
    loss: Epsilon | Rho,
    zoomed: Zoomed,
    *,
    ends: bool = True,
) -> Cell:
    """Answer for groups with the same bounds and share; None where there are no bounds."""
    vectors = part.vectors(_ANY if bounds is None else bounds)
    if bounds is not None:
        vectors = part.about(vectors, *(float(middles[groups[0]]) for middles in zoomed.middle))
    sources = tuple(dict.fromkeys(linear.source for linear in vectors.linears))
    exact = octave_statistics(zoomed.table, groups, sources)
    left = loss.share(Fraction(zoomed.left(groups), PARTS))
    noisy = add_noise(exact, vectors.linears, vectors.noises(left))
    count, rows = None, np.ones(len(groups))
    if part.counts:
        vector, weights = vectors.counting()
        count = CountPiece(groups, noisy.vectors[vector], weights)
        rows = CountEstimator(weights).value(noisy.vectors[vector]).astype(np.float64)
    read = {answer.name: answer for answer in vectors.answers}
    answers = [read[name] for name in part.questions]
    estimators: list[Estimator] = [answer.estimator for answer in answers]
    notes = None
    if ends or bounds is None:
        reads, notes = _reading(zoomed, bounds, groups, rows)
        estimators = list(map(reads, estimators))
    pieces = [
        Piece(groups, estimator, noisy.vectors[answer.vector], notes)
        for answer, estimator in zip(answers, estimators, strict=True)
    ]
    return Cell(groups, pieces, count)


@dataclass(frozen=True)
class Cell:
    """The answers of groups with the same bounds, one a question, and their count. Public."""

    groups: Integers
    pieces: Sequence[Piece]
    count: CountPiece | None
    read: dict[Any, Any] = field(default_factory=dict)
    """Estimates of all groups that have been computed."""

    def of(self, first: int, size: int) -> Cell:
        """Return the answers of `size` consecutive groups from the first on."""
        start, stop = np.searchsorted(self.groups, [first, first + size]).tolist()
        groups, selected, count = self.groups[start:stop] - first, slice(start, stop), self.count
        if start == stop:
            return Cell(groups, (), None)
        vectors = [piece.vector for piece in self.pieces] + ([count.vector] if count else [])
        cut = {
            id(vector): NoisyVector(vector.coordinates[:, selected], vector.noise)
            for vector in vectors
        }
        pieces = []
        for index, piece in enumerate(self.pieces):
            estimator, notes = piece.estimator, piece.notes and piece.notes[selected]
            if isinstance(estimator, (BiasAwareEstimator, UnknownEstimator)) and len(groups) < len(
                self.groups
            ):
                estimator = GroupSlice(estimator, piece.vector, selected, self.read, index)
            pieces.append(Piece(groups, estimator, cut[id(piece.vector)], notes))
        if count is not None:
            count = CountPiece(groups, cut[id(count.vector)], count.weights)
        return Cell(groups, pieces, count)


@dataclass(frozen=True, eq=False)
class GroupSlice:
    """Estimates of a slice of groups; those of all groups are cached in `read`."""

    estimator: Estimator
    vector: NoisyVector
    some: slice
    read: dict[Any, Any]
    index: int

    @property
    def reads(self) -> tuple[int, ...] | None:
        """The coordinates that are read, None for all."""
        return getattr(self.estimator, "reads", None)

    def _once(self, name: str, *terms: float) -> Any:
        key = (self.index, name, *terms)
        if key not in self.read:
            self.read[key] = getattr(self.estimator, name)(self.vector, *terms)
        return self.read[key]

    def value(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return the estimate of each group."""
        return np.asarray(self._once("value")[self.some])

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:  # noqa: ARG002 one interface
        """Return the ends of the interval of each group."""
        low, high = self._once("interval", level)
        return low[self.some], high[self.some]

    def standard_error(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return the standard deviation of the noise."""
        return np.asarray(self._once("standard_error")[self.some])


def _reading(
    zoomed: Zoomed, bounds: Bounds | None, groups: Integers, rows: Floats
) -> tuple[Callable[[Any], Estimator], list[str | None]]:
    """Return the function that adapts estimators to these bounds, and a note for each group.

    `rows` are the noisy rows of these groups.
    """
    zeros = zoomed.found.zeros[groups]
    if bounds is None:
        unknown = UnknownEstimator(np.where(zeros, 0.0, np.nan))
        both = np.array(["too few rows for bounds", "only zeros stand out"], dtype=object)
        notes = both[zeros.astype(np.int64)].tolist()
        return (
            lambda estimator: estimator if isinstance(estimator, CountEstimator) else unknown,
            notes,
        )
    tails = zoomed.tails(bounds, groups, rows)
    return (
        lambda estimator: (
            BiasAwareEstimator(estimator, tails) if isinstance(estimator, Clipped) else estimator
        ),
        tails.notes(),
    )


def bounds_classes(zoomed: Zoomed) -> Iterator[tuple[Bounds, Integers]]:
    """Yield each pair of bounds with the groups that have it, from one histogram and centre."""
    bounds, groups = zoomed.found, np.flatnonzero(zoomed.found.found)
    ends = [(column[groups] + 0.0).view(np.int64) for column in (bounds.lower, bounds.upper)]
    middle = (column[groups].view(np.int64) for column in zoomed.middle)
    every = [*ends, zoomed.histogram[groups], zoomed.centre[groups], *middle]
    columns = [column for column in every if (column != column[:1]).any()] or every[:1]
    order = np.lexsort(columns)  # stable: groups that are the same ascend
    for run in run_slices(*(column[order] for column in columns)):
        same = groups[order[run]]
        first = same[0]
        yield Bounds(float(bounds.lower[first]), float(bounds.upper[first])), same


@dataclass(frozen=True)
class UnknownEstimator:
    """Anywhere between minus and plus infinity: 0 where only zeros stand out, else not a number."""

    values: Floats

    def value(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return 0 or NaN for each group."""
        return self.values

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:  # noqa: ARG002 one interface
        """Return the whole line."""
        return np.full_like(self.values, -np.inf), np.full_like(self.values, np.inf)

    def standard_error(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return infinity."""
        return np.full_like(self.values, np.inf)


@dataclass(frozen=True)
class BiasAwareEstimator:
    """Estimator of clipped values whose interval covers the rows outside the bounds."""

    clipped: Clipped
    tails: Tails

    @property
    def grid(self) -> Grid:
        """The grid of the clipped values."""
        return self.clipped.grid

    @property
    def reads(self) -> tuple[int, ...] | None:
        """The coordinates that it reads, None for all."""
        return getattr(self.clipped, "reads", None)

    def value(self, vector: NoisyVector) -> Floats:
        """Return the estimate of each group, of the clipped values."""
        return self.clipped.value(vector)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return an interval of the values as they are (docs/explanation/intervals.md)."""
        moved = Moved(*self.tails.below.moved(level), *self.tails.above.moved(level))
        return self.clipped.widened(vector, self.clipped.interval(vector, level), moved)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise."""
        return self.clipped.standard_error(vector)
