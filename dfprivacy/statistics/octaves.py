"""Answer sums, means and variances without bounds: one octave table, bounds, then the answers.

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
from dfprivacy.engine.keys import bins_of_groups
from dfprivacy.engine.packed import Asked
from dfprivacy.engine.passes import run_bins
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
from dfprivacy.noise.exceedances import count_of
from dfprivacy.noise.laws import KeyRule, Noise
from dfprivacy.release.answers import (
    NO_COUNT,
    UNKNOWN,
    Counted,
    CountPiece,
    Estimated,
    Piece,
)
from dfprivacy.release.estimator import Clipped, CountEstimator, Estimator, Moved
from dfprivacy.release.pipeline import Answered
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.estimators.octave_bounds import CORE, SHARE, Mask, Tails
from dfprivacy.statistics.estimators.zoom import (
    AGAIN,
    EVERYTHING,
    FIRST,
    GLANCE,
    OWN,
    PARTS,
    POOLED,
    Zoomed,
    group_bounds,
    zoomed_bounds,
)
from dfprivacy.statistics.forecast import Circumstances, Forecast, Reach, reaching
from dfprivacy.statistics.linear import LinearStatistic, Vectors, forecast_of, vectors_of
from dfprivacy.statistics.part import ROOM, Bins, Grouping, MeasuredTable, Part

_ANY = Bounds(-1, 1)
"""Stands for bounds where only the form of a plan matters, and where none were found."""


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
        """Return the vectors that answer the questions within bounds."""
        asked = {name: question.within(bounds) for name, question in self.questions.items()}
        vectors = (self.read or vectors_of)(asked, grouped=self.grouped)
        if not all(fits_octaves(linear) or not linear.source.terms for linear in vectors.linears):
            next(iter(asked.values())).required_bounds()
            raise InvalidQuestionError(
                "bounds can't be found for this question", hint="pass bounds=(0, 100)"
            )
        return replace(vectors, linears=tuple(with_slack(linear) for linear in vectors.linears))

    def about(self, vectors: Vectors, middle: float, doubt: float) -> Vectors:
        """Return what answers about a known middle, where only one answer is asked, and it can.

        The mean is within `doubt` of the middle, about. Both are NaN where they are not known.
        """
        if self.grouped or self.read is not None or math.isnan(middle) or len(self.questions) > 1:
            return vectors
        (question,), (linear,), (read,) = self.questions.values(), vectors.linears, vectors.answers
        made = question.about_middle(linear, middle, doubt)
        if made is None:
            return vectors
        return replace(vectors, linears=made[:1], answers=(replace(read, estimator=made[1]),))

    @cached_property
    def _form(self) -> Vectors:
        return self.vectors(_ANY)

    @cached_property
    def alike(self) -> Hashable:
        """What it asks, whichever its column is called."""
        asked = tuple(
            own.about(*range(len(own.columns))) if own.columns else own
            for own in self.questions.values()
        )
        return asked, self.read, self.fine, self.groups

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
        """Tell whether a vector can count groups."""
        return self._form.counts

    @property
    def answers_count(self) -> bool:
        """Tell whether one of the answers is the count that groups are selected by."""
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
            return Fraction(PARTS - POOLED - OWN, PARTS)
        return Fraction(PARTS - GLANCE - FIRST - AGAIN, PARTS)

    @property
    def tables(self) -> tuple[Bins, ...]:
        """How its table can count: by group in octaves too."""
        able = (FINE, Octaves()) if self.grouped else (FINE,)
        return tuple((binning, self.moments) for binning in able)

    def measured(self, table: BinTable) -> MeasuredOctaves:
        """Return what it would have measured, from its table."""
        return MeasuredOctaves(self, table)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors(Bounds(0, 1)).count_noise(loss.share(self.left))

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return all questions: bounds and answers are paid for together."""
        return [(tuple(self.questions), Fraction(1))]

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of each answer, in widths of the bounds that are found first."""
        found = bounds_reach(loss.share(SHARE).noise(1, 1))
        remarks: tuple[str, ...] = (
            "sizes count the rows of one octave, in which the bounds are found",
        )
        if self.grouped:
            groups = 1 if known.unit is None else known.unit.max_groups or 1
            together = bounds_reach(
                loss.share(Fraction(EVERYTHING, PARTS)).pooled(groups).noise(1, 1)
            )
            remarks = (
                f"all groups together find bounds {together} in one octave",
                "each group's own octaves narrow them where groups differ in size",
            )
        made = []
        for name, question in self.questions.items():
            vectors = self.vectors(question.stand_in)
            answer = next(own for own in vectors.answers if own.name == name)
            noise = vectors.noises(loss.share(self.left))[answer.vector]
            linear, unit = vectors.linears[answer.vector], question.unit(found=True)
            own = forecast_of(answer, (linear, noise), asked[name], known, unit=unit)
            law = f"{own.mechanism} within bounds from a noisy histogram of octaves"
            reach = None if self.grouped else found
            made.append(replace(own.noted(*remarks), answered=reach, mechanism=law))
        return made

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredOctaves:
        """Run the pass: one GROUP BY the keys and the octave."""
        return next(measured_together([self], adopted, grouping))


def measured_together(
    parts: Sequence[OctavePart], adopted: Adopted, grouping: Grouping
) -> Iterator[MeasuredOctaves]:
    """Run the pass of several columns: one reading of the frame where the engine can."""
    asked = [Asked(own.column, own.binning, own.moments) for own in parts]
    tables = run_bins(adopted, grouping.by, asked, public=grouping.public)
    return map(MeasuredOctaves, parts, tables)


def in_fine_bins(parts: Sequence[Part]) -> list[Part]:
    """Return parts that count in fine bins at once: their rows can't be read again."""
    return [replace(own, fine=True) if isinstance(own, OctavePart) else own for own in parts]


def bounds_reach(noise: Noise) -> Reach:
    """Return how many rows one octave needs for bounds around it."""
    return reaching(count_of(CORE, noise), noise)


@dataclass(frozen=True, repr=False)
class MeasuredOctaves(MeasuredTable):
    """An octave table. Secret."""

    part: OctavePart
    table: BinTable
    finer: Callable[[], BinTable] | None = None
    """Counts again in finer bins, the groups that there are then."""

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the counts of exactly the groups with these keys, in finer bins too."""
        made, finer = super().of_groups(keys), self.finer
        if finer is None:
            return made
        return replace(made, finer=lambda: bins_of_groups(finer(), keys))

    def answer(
        self,
        loss: Epsilon | Rho,
        rule: KeyRule | None,  # noqa: ARG002 one interface
    ) -> Answered:
        """Find bounds, of all groups together first where there are groups; answer within them."""
        return self.answer_together([self], loss)[0]

    @property
    def alike(self) -> Hashable:
        """What is the same of columns that are answered together."""
        return self.part.alike, self.table.groups, self.table.binning, self._finer is None

    @property
    def _finer(self) -> Callable[[], BinTable] | None:
        return (lambda: self.table) if self.table.binning == FINE else self.finer

    def answer_together(
        self, several: Sequence[MeasuredOctaves], loss: Epsilon | Rho
    ) -> list[Answered]:
        """Answer about several columns alike: this loss is that of each, which has its own noise.

        All go one step after another together, or as many as have room. Groups are those of the
        first column, in finer bins where it is counted in these: a frame can have other rows then.
        """
        if not self.part.grouped:
            return [_answered([own], zoomed_bounds(own.table, loss), loss)[0] for own in several]
        made: dict[int, Answered] = {}
        room = max(ROOM // max(self.table.groups, 1), 1)
        keys, finer = self.keys, [one._finer for one in several if one._finer is not None]  # noqa: SLF001 its own kind

        def counted_again(column: int) -> BinTable:
            nonlocal keys
            table = finer[column]()
            if column == 0:
                keys = table.keys
            return bins_of_groups(table, keys)

        for first in range(0, len(several), room):
            own = several[first : first + room]
            again = [partial(counted_again, first + place) for place in range(len(own))]
            pooled = loss.pooled(self.part.groups)
            found = group_bounds(
                [bins_of_groups(one.table, keys) for one in own], loss, pooled,
                again if finer else (), of_groups=lambda table: bins_of_groups(table, keys),
            )  # fmt: skip
            for columns, zoomed in found:
                some = [own[column].of_groups(keys) for column in columns.tolist()]
                made |= zip((columns + first).tolist(), _answered(some, zoomed, loss), strict=True)
        return [made[column] for column in range(len(several))]

    def answer_apart(self, loss: Epsilon | Rho, *, ends: bool = True) -> Answered:
        """Find bounds, answer within them; a group without bounds has no answer, or 0 for zeros.

        What is said of a group depends on its own rows alone, whichever others there are. Without
        `ends` nobody asks for intervals, and what is clipped is not looked at.
        """
        zoomed = zoomed_bounds(self.table, loss)
        return _answered([self], zoomed, loss, without=zoomed.found.zeros, ends=ends)[0]


def _answered(
    several: Sequence[MeasuredOctaves],
    zoomed: Zoomed,
    loss: Epsilon | Rho,
    without: Mask | None = None,
    *,
    ends: bool = True,
) -> list[Answered]:
    """Answer within bounds, and for groups `without` any: for all of these if it is None.

    Groups are those of each column in turn.
    """
    part, found = several[0].part, zoomed.found.found
    cells = [
        _cell(part, own, groups, loss, zoomed, ends=ends) for own, groups in bounds_classes(zoomed)
    ]
    missing = np.flatnonzero(~found if without is None else without)
    if len(missing):
        cells.append(_cell(part, None, missing, loss, zoomed))
    groups = zoomed.table.groups // len(several)
    return [
        _answered_of(own, [cell.of(column * groups, groups) for cell in cells])
        for column, own in enumerate(several)
    ]


def _answered_of(measured: MeasuredOctaves, cells: Sequence[Cell]) -> Answered:
    """Return the answers of one column off its own cells."""
    part, groups = measured.part, measured.table.groups
    cells = [cell for cell in cells if len(cell.groups)]
    answers = {
        name: (
            Estimated(
                name,
                groups,
                tuple(cell.pieces[place] for cell in cells),
                NO_COUNT if isinstance(question, Count) else UNKNOWN,
                has_notes=question.has_note,
            ),
        )
        for place, (name, question) in enumerate(part.questions.items())
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
        vectors = part.about(vectors, *(float(own[groups[0]]) for own in zoomed.middle))
    sources = tuple(dict.fromkeys(linear.source for linear in vectors.linears))
    exact = octave_statistics(zoomed.table, groups, sources)
    left = loss.share(Fraction(zoomed.left(groups), PARTS))
    noisy = add_noise(exact, vectors.linears, vectors.noises(left))
    count, rows = None, np.ones(len(groups))
    if part.counts:
        vector, weights = vectors.counting()
        count = CountPiece(groups, noisy.vectors[vector], weights)
        rows = CountEstimator(weights).value(noisy.vectors[vector]).astype(np.float64)
    read = {own.name: own for own in vectors.answers}
    answers = [read[name] for name in part.questions]
    estimators: list[Estimator] = [own.estimator for own in answers]
    notes = None
    if ends or bounds is None:
        reads, notes = _reading(zoomed, bounds, groups, rows)
        estimators = list(map(reads, estimators))
    pieces = [
        Piece(groups, estimator, noisy.vectors[own.vector], notes)
        for own, estimator in zip(answers, estimators, strict=True)
    ]
    return Cell(groups, pieces, count)


@dataclass(frozen=True)
class Cell:
    """The answers of groups with the same bounds, one a question, and their count. Public."""

    groups: Integers
    pieces: Sequence[Piece]
    count: CountPiece | None
    read: dict[Any, Any] = field(default_factory=dict)
    """What has been read of all groups."""

    def of(self, first: int, size: int) -> Cell:
        """Return the answers of so many groups in a row, numbered from the first on."""
        start, stop = np.searchsorted(self.groups, [first, first + size]).tolist()
        groups, some, count = self.groups[start:stop] - first, slice(start, stop), self.count
        if start == stop:
            return Cell(groups, (), None)
        vectors = [own.vector for own in self.pieces] + ([count.vector] if count else [])
        cut = {id(own): NoisyVector(own.coordinates[:, some], own.noise) for own in vectors}
        pieces = []
        for place, own in enumerate(self.pieces):
            estimator, notes = own.estimator, own.notes and own.notes[some]
            if isinstance(estimator, (Unclipped, UnknownEstimator)) and len(groups) < len(
                self.groups
            ):
                estimator = Among(estimator, own.vector, some, self.read, place)
            pieces.append(Piece(groups, estimator, cut[id(own.vector)], notes))
        if count is not None:
            count = CountPiece(groups, cut[id(count.vector)], count.weights)
        return Cell(groups, pieces, count)


@dataclass(frozen=True, eq=False)
class Among:
    """Read the answers of some groups of a cell: those of all are `read` once, whoever asks."""

    estimator: Estimator
    vector: NoisyVector
    some: slice
    read: dict[Any, Any]
    place: int

    @property
    def reads(self) -> tuple[int, ...] | None:
        """The coordinates that are read, None for all."""
        return getattr(self.estimator, "reads", None)

    def _once(self, name: str, *terms: float) -> Any:
        key = (self.place, name, *terms)
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
    """Return how answers of groups within these bounds are read, and a note for each group.

    `rows` are the noisy rows of these groups.
    """
    zeros = zoomed.found.zeros[groups]
    if bounds is None:
        unknown = UnknownEstimator(np.where(zeros, 0.0, np.nan))
        both = np.array(["too few rows for bounds", "only zeros stand out"], dtype=object)
        notes = both[zeros.astype(np.int64)].tolist()
        return lambda known: known if isinstance(known, CountEstimator) else unknown, notes
    beyond = zoomed.tails(bounds, groups, rows)
    return (
        lambda known: Unclipped(known, beyond) if isinstance(known, Clipped) else known,
        beyond.notes(),
    )


def bounds_classes(zoomed: Zoomed) -> Iterator[tuple[Bounds, Integers]]:
    """Yield each pair of bounds with the groups that have it, from one histogram and centre."""
    found, groups = zoomed.found, np.flatnonzero(zoomed.found.found)
    ends = [(own[groups] + 0.0).view(np.int64) for own in (found.lower, found.upper)]
    middle = (own[groups].view(np.int64) for own in zoomed.middle)
    every = [*ends, zoomed.histogram[groups], zoomed.centre[groups], *middle]
    columns = [own for own in every if (own != own[:1]).any()] or every[:1]
    order = np.lexsort(columns)  # stable: groups that are the same ascend
    for run in run_slices(*(column[order] for column in columns)):
        same = groups[order[run]]
        first = same[0]
        yield Bounds(float(found.lower[first]), float(found.upper[first])), same


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
class Unclipped:
    """An estimator of clipped values whose interval makes room for what the bounds have clipped."""

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
