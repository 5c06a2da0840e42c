"""Measure counts, and sums, means and variances within bounds: noisy vectors that questions share.

Questions about one column with the same bounds are answered by one vector: the variance brings
the mean and the count with it, the mean brings the count. What is left shares the loss evenly.

An interval of clipped values says nothing of what was clipped. So a small part of the loss of an
answer within given bounds pays for three noisy counts, to which each value adds 1 once; where they
show that something was clipped, the answer has a note (docs/explanation/intervals.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.keys import align
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.bounds import Bounds, read_bounds
from dfprivacy.measurement.grid import grid_from_lower
from dfprivacy.measurement.linear import WHOLE, Above, CountWeights, Linear, Source
from dfprivacy.measurement.sums import Statistics
from dfprivacy.noise.additive import NoisyVector, add_noise, add_up_columns
from dfprivacy.noise.laws import KeyRule, Noise, Summed, find_scale, name_law
from dfprivacy.release.answers import (
    NO_COUNT,
    UNKNOWN,
    Answered,
    Counted,
    CountPiece,
    Estimated,
    Measured,
    Piece,
    join_notes,
)
from dfprivacy.release.estimator import (
    CountEstimator,
    Estimator,
    ForecastableEstimator,
    ProportionEstimator,
)
from dfprivacy.release.plan import PartLimits
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.part import Circumstances, Forecast, Part, by_size

CLIPPING_DOC = "Spend a twentieth of the loss on a note about the values that given bounds clip."

SHARE = Fraction(1, 20)  # fraction of the privacy loss of a sum query that counts clipped rows

REMARK = "a twentieth of the loss counts what the bounds clip (clipping=False saves it)"
"""Remark of forecasts on the cost of this count."""

TOTALS = (
    "each unit's own total in a group is clipped to what max_rows rows can add: for the noise of "
    "clipped rows, and never further from the total than these"
)
"""Remark of forecasts on sums that protect units."""

_ALONE = 0.02  # probability that a release that clips nothing has a note
_LEVEL = 0.95
_UNCLEAR = 50.0  # percentage points from which the width of an interval says nothing of a share
_UNKNOWN = "an unknown share"


def with_clip_counts(linear: Linear, clipped: Mapping[Hashable, Bounds]) -> list[Linear]:
    """Return a vector of columns within bounds and the counts of each column, over one source.

    These are of the values below, within and above the bounds: a row moves them by `WHOLE` in all.
    A value that lies beyond a bound by less than a step of the grid is rounded, not clipped.
    """
    terms = list(linear.source.terms)
    for column, bounds in clipped.items():
        step = grid_from_lower(bounds).step
        below = min(bounds.lower - step, math.nextafter(bounds.lower, -math.inf))
        above = max(bounds.upper + step, bounds.upper)
        terms += [Above(column, below, WHOLE), Above(column, above, WHOLE)]
    source = replace(linear.source, terms=tuple(terms))
    matrices = [linear.matrix]
    for index in range(len(linear.source.terms), len(terms), 2):
        zeros = (0,) * index
        matrices.append(((WHOLE, *zeros, -1, 0), (0, *zeros, 1, -1), (0, *zeros, 0, 1)))
    wide = [
        tuple((*row, *(0,) * (1 + len(terms) - len(row))) for row in matrix) for matrix in matrices
    ]
    counts = [Linear(source, matrix, WHOLE, WHOLE * WHOLE) for matrix in wide[1:]]
    return [replace(linear, source=source, matrix=wide[0]), *counts]


def note_clipping(
    noisy: NoisyVector, rooms: Sequence[Floats], bounds: Bounds, outside: float, *, grouped: bool
) -> list[str | None]:
    """Return the note of each group on rows that bounds clip, None where noise may be all of them.

    Where nothing is clipped there is a note with probability at most `outside`. `rooms` are the
    most rows below and above that the answers leave possible: groups whose room noise alone can
    fill are not tested. Groups share one line, which also counts the rows of the others together;
    without `grouped` each group is a release by itself.
    """
    noise, groups = noisy.noise, noisy.coordinates.shape[1]
    is_pooled = grouped and groups > 1
    outside /= 1 + is_pooled
    notes, lines = np.full(groups, None, object), list[str]()
    noted = np.zeros(groups, bool)
    sides = f"below {bounds.lower:g}", f"above {bounds.upper:g}"
    for index, room, side in zip((0, 2), rooms, sides, strict=True):
        able = room > noise.quantile(outside)
        error = outside / max(int(able.sum()), 1)
        is_clipped = able & (noisy.coordinates[index] > noise.quantile(error))
        clipped, others = np.flatnonzero(is_clipped), np.flatnonzero(~is_clipped)
        if not is_pooled:
            shares = read_percents(noisy.of_groups(clipped), index, _LEVEL)
            for group, *share in zip(clipped.tolist(), *shares, strict=True):
                start = f"{notes[group]}, " if notes[group] else "clipped: "
                notes[group] = f"{start}{_share_text(*share)} {side}"
            continue
        if len(clipped):  # all their shares are likely to be within this range
            _, low, high = read_percents(noisy.of_groups(clipped), index, 1 - error)
            clear = high - low <= _UNCLEAR
            if clear.any():
                shown = f"{min(low[clear]):.3g} % to {max(high[clear]):.3g} % {side}"
                lines.append(f"{shown} in {clear.sum()} of {groups} groups")
            if not clear.all():
                lines.append(f"{_UNKNOWN} {side} in {(~clear).sum()} of {groups} groups")
            noted |= is_clipped
        if many := len(others):
            rest = add_up_columns(noisy.coordinates[:, others], np.zeros(many, np.int64), 1)
            total = NoisyVector(rest, Summed(noise, many * noise.variance, many))
            if rest[index, 0] > total.noise.quantile(outside):
                (value,), (low,), (high,) = read_percents(total, index, _LEVEL)
                where = "the others" if len(clipped) else "all groups"
                shown = _share_text(value, low, high)
                lines.append(f"{shown} {side} in {where} together")
                noted[:] = True
    notes[noted] = f"clipped: {', '.join(lines)}"
    texts: list[str | None] = notes.tolist()
    return texts


def _share_text(value: float, low: float, high: float) -> str:
    """Return a percentage with its interval, unless that is too wide to say anything."""
    if not high - low <= _UNCLEAR:
        return _UNKNOWN
    return f"{value:.3g} % [{low:.3g}, {high:.3g}]"


def read_percents(counts: NoisyVector, index: int, level: float) -> list[Floats]:
    """Return one of three counts of each group as a percentage of all, and its interval."""
    share = ProportionEstimator(3, index, WHOLE)
    return [100 * column for column in (share.value(counts), *share.interval(counts, level))]


class LinearStatistic(Statistic):
    """A statistic that is read off one noisy vector of exact sums."""

    has_interval: ClassVar[bool] = True
    stand_in: ClassVar[Bounds] = Bounds(0, 1)
    """Bounds in whose place those that are found come, for forecasts in widths of them."""
    totals: ClassVar[bool] = False
    """True if a unit's total in a group is clipped, instead of its rows scaled down."""

    @abstractmethod
    def linear(self, *, grouped: bool) -> Linear:
        """Return the sum query: the terms that a row adds and their sensitivity."""

    @abstractmethod
    def estimator(self, linear: Linear) -> ForecastableEstimator:
        """Return the estimator that reads the answer from the noisy sums."""

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:  # noqa: ARG002 none by default
        """Return the estimator of another statistic on the sums of this one, or None."""
        return None

    units: ClassVar[str] = ""
    """Unit of the answer as a format of the column names; the unit of its column if empty.
    """

    def unit(self, *, found_bounds: bool = False) -> str:
        """Return the unit of the answer; `found` if its bounds are found first."""
        if self.units and not (found_bounds and "{" in self.units):
            return self.units.format(**{name: getattr(self, name) for name in self.places()})
        return "widths of the bounds found" if found_bounds else f"units of {self.column!r}"

    def percent_base(self, rows: int) -> float | None:  # noqa: ARG002 most have no need of them
        """Return the distance between the bounds; 1 in widths of those that are found."""
        bounds = getattr(self, "bounds", None)
        return 1.0 if bounds is None else float(bounds.width)

    @property
    def finds_bounds(self) -> bool:
        """True if the bounds are missing and have to be found first."""
        return getattr(self, "bounds", self) is None

    @property
    def clipped(self) -> dict[Hashable, Bounds]:
        """The bounds of columns whose clipping is counted; none if it isn't."""
        if not getattr(self, "clipping", False):
            return {}
        return {
            getattr(self, name): bounds
            for name, argument in self.bounds_arguments().items()
            if (bounds := read_bounds(getattr(self, argument.name))) is not None
        }

    @property
    def has_note(self) -> bool:
        """True if the bounds are found first or their clipping is counted."""
        return self.finds_bounds or bool(self.clipped)

    def add_remarks(self, circumstances: Circumstances) -> tuple[str, ...]:  # noqa: ARG002 most have nothing to say
        """Return remarks on the half-widths."""
        return ()

    def part(self, name: str, *, grouped: bool) -> LinearPart:
        """Return the part that answers this question alone."""
        return LinearPart({name: self}, grouped)


@dataclass(frozen=True)
class Read:
    """One answer: its name, the vector that it is read off and the estimator that reads it."""

    name: str
    vector: int
    estimator: ForecastableEstimator


@dataclass(frozen=True)
class Vectors:
    """The vectors of some questions, the answers, and the counts of what bounds clip."""

    linears: tuple[Linear, ...]
    answers: tuple[Read, ...]
    counts_clipped: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def answering(self) -> int:
        """How many vectors answer; those that count what is clipped come after them."""
        counting = {index for counts in self.counts_clipped.values() for index in counts}
        return len(self.linears) - len(counting)

    def noises(self, loss: Epsilon | Rho) -> list[Noise]:
        """Return each vector's noise for its share of the loss.

        Shares are even, minus the counts of clipped rows.
        """
        even = Fraction(1, self.answering)
        fractions = [even] * self.answering + [Fraction(0)] * (len(self.linears) - self.answering)
        for vector, counts in self.counts_clipped.items():
            fractions[vector] -= even * SHARE
            for index in counts:
                fractions[index] += even * SHARE / len(counts)
        pairs = zip(self.linears, fractions, strict=True)
        return [loss.share(share).noise(linear.l1, linear.l2_squared) for linear, share in pairs]

    @cached_property
    def counting(self) -> tuple[int, CountWeights] | None:
        """The vector that counts groups: of rows, else of values, else the first that can."""
        able = [
            ((bool(linear.source.terms), bool(linear.source.columns), index), linear.count)
            for index, linear in enumerate(self.linears)
            if linear.count is not None
        ]
        if not able:
            return None
        (*_, vector), weights = min(able, key=itemgetter(0))
        return vector, weights

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        assert self.counting is not None  # noqa: S101 a part that counts is asked
        vector, weights = self.counting
        return self.noises(loss)[vector], weights.divisor, len(weights.indices)


def plan_vectors(
    questions: Mapping[str, LinearStatistic], *, grouped: bool, units: bool = False
) -> Vectors:
    """Return the vectors that answer the questions, in their order.

    Of `units` what clips a unit's total has a vector of its own.
    """
    linears = {name: question.linear(grouped=grouped) for name, question in questions.items()}
    places: dict[Linear, int] = {}
    questions_by_column: dict[Hashable, dict[str, LinearStatistic]] = {}
    for name, question in questions.items():
        for column in question.columns:
            questions_by_column.setdefault(column, {})[name] = question
    answers = []
    for name, question in questions.items():
        candidates = questions_by_column[question.columns[0]] if question.columns else questions
        if units:
            candidates = {
                candidate: other
                for candidate, other in candidates.items()
                if other.totals == question.totals
            }
        carrier = _carrier(name, candidates, linears)
        linear, estimator = linears[carrier], None
        if carrier != name:
            estimator = questions[carrier].estimator_for(question, linear)
        index = places.setdefault(linear, len(places))
        answers.append(Read(name, index, estimator or question.estimator(linear)))
    return Vectors(tuple(places), tuple(answers))


def _carrier(
    name: str, questions: Mapping[str, LinearStatistic], linears: Mapping[str, Linear]
) -> str:
    """Return the name of the question whose sums answer this one too; its own if there is none."""
    for other, carrying in questions.items():
        differs = other != name and linears[other] != linears[name]
        if differs and carrying.estimator_for(questions[name], linears[other]) is not None:
            return _carrier(other, questions, linears)
    return name


class VectorsPart(Part):
    """Some questions that are answered by linear vectors."""

    vectors: Any
    """Its vectors, within any bounds if these are found first."""

    @property
    def weight(self) -> Fraction:
        """One for each vector that answers."""
        return Fraction(self.vectors.answering)

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""
        numbers: dict[Hashable, bool] = {}
        for linear in self.vectors.linears:
            for column in linear.source.columns:
                as_number = numbers.get(column, False)
                numbers[column] = as_number or column in linear.source.numbers
        return numbers

    @property
    def counts(self) -> bool:
        """True if a query can count groups."""
        return self.vectors.counting is not None

    @property
    def answers_count(self) -> bool:
        """True if one of the answers is the count that selects groups."""
        return any(
            isinstance(answer.estimator, CountEstimator)
            and self.vectors.counting == (answer.vector, answer.estimator.weights)
            for answer in self.vectors.answers
        )


@dataclass(frozen=True)
class LinearPart(VectorsPart):
    """Some questions that are answered by linear vectors: one pass, one noise a vector."""

    questions: Mapping[str, LinearStatistic]
    grouped: bool
    read: Callable[..., Vectors] | None = None
    """Function that returns the queries, if it isn't `plan_vectors`."""
    units: bool = False
    """True if units of several rows are protected."""
    counts_units: bool = False
    """True if units are counted, whatever their rows."""
    rows: int = 0
    """Limit of the rows of a unit in a group, 0 for that of the release."""
    cluster: int = 0
    """Most rows of a unit in a group where `read` is about the population, else 0."""
    sharing: int = 1
    """Number of parts that share the level of notes about clipped rows."""
    searched: tuple[Hashable, ...] = ()
    """Columns whose bounds were found: what these clip is not counted."""

    def find_clipped(self, question: LinearStatistic) -> dict[Hashable, Bounds]:
        """Return the bounds of a question whose clipping is counted, by column."""
        bounds_by_column = question.clipped.items()
        return {column: ends for column, ends in bounds_by_column if column not in self.searched}

    def within_limits(self, limits: PartLimits) -> Self:
        """Return the part for the limits of a unit."""
        rows = limits.contribution.rows
        cluster = rows if self.cluster else 0
        return replace(self, rows=0 if rows == limits.shared else rows, cluster=cluster)

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors that the questions share, and those that count what bounds clip."""
        if self.read is not None:
            terms = {"cluster": self.cluster} if self.cluster else {}
            vectors = self.read(self.questions, grouped=self.grouped, **terms)
        else:
            vectors = plan_vectors(self.questions, grouped=self.grouped, units=self.units)
        if self.units:
            linears = []
            for index, linear in enumerate(vectors.linears):
                names = [answer.name for answer in vectors.answers if answer.vector == index]
                totals = self.read is None and all(self.questions[name].totals for name in names)
                source = replace(linear.source, totals=totals, rows=self.rows)
                linears.append(replace(linear, source=source))
            vectors = replace(vectors, linears=tuple(linears))
        linears, counts = list(vectors.linears), {}
        places: dict[tuple[object, ...], tuple[int, ...]] = {}  # one for each column and bounds
        for answer in vectors.answers:
            clipped = self.find_clipped(self.questions[answer.name])
            if not clipped or answer.vector in counts:
                continue
            about = tuple(clipped.items())
            if about not in places:
                first = len(linears)
                linears[answer.vector], *others = with_clip_counts(linears[answer.vector], clipped)
                linears += others
                places[about] = tuple(range(first, len(linears)))
            counts[answer.vector] = places[about]
        return Vectors(tuple(linears), vectors.answers, counts)

    @property
    def counts_chosen(self) -> bool:
        """True if it counts no rows but those that have a value."""
        assert self.vectors.counting is not None  # noqa: S101 units are counted
        return bool(self.vectors.linears[self.vectors.counting[0]].source.columns)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The sums that an engine adds up."""
        return tuple(dict.fromkeys(linear.source for linear in self.vectors.linears))

    def read_measurement(self, statistics: Statistics, adopted: Adopted) -> MeasuredSums:
        """Return the measurement that sums of a pass are, of the public keys if there are any."""
        if adopted.listed_keys is not None:
            statistics = align(statistics, adopted.listed_keys)
        return MeasuredSums(self, statistics)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors.count_noise(loss)

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the questions that each noisy vector answers, and its part of the loss."""
        vectors = self.vectors
        even = Fraction(1, vectors.answering)
        return [
            (tuple(answer.name for answer in vectors.answers if answer.vector == index), even)
            for index in range(vectors.answering)
        ]

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each answer; `loss` is that of one row."""
        vectors = self.vectors
        noises = vectors.noises(loss)
        forecasts = []
        for answer in vectors.answers:
            question, linear = self.questions[answer.name], vectors.linears[answer.vector]
            forecast = build_forecast(
                answer,
                (linear, noises[answer.vector]),
                question,
                circumstances,
                unit=question.unit(),
            )
            remarks = [REMARK] if self.find_clipped(question) else []
            remarks += [TOTALS] if linear.source.totals else []
            forecasts.append(forecast.add_remarks(*remarks))
        return forecasts


def build_forecast(
    answer: Read,
    query: tuple[Linear, Noise],
    question: Statistic,
    circumstances: Circumstances,
    *,
    unit: str,
) -> Forecast:
    """Return the forecast of an answer that is read from noisy sums."""
    linear, noise = query
    expected = NoisyVector(linear.expect(circumstances.each_size), noise)
    widths = answer.estimator.half_widths(expected, circumstances.level)
    scale, of = answer.estimator.scale(find_scale(noise), unit)
    return Forecast(
        name=answer.name,
        mechanism=name_law(noise),
        scale=scale,
        scale_unit=of,
        unit=unit,
        typical=by_size(widths),
        remarks=question.add_remarks(circumstances)
        if isinstance(question, LinearStatistic)
        else (),
    )


@dataclass(frozen=True)
class MeasuredSums(Measured):
    """Exact sums by group. Secret."""

    part: LinearPart
    statistics: Statistics

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted, or as listed."""
        return self.statistics.key_table()

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the sums of exactly the groups with these keys."""
        if self.keys.equals(keys):
            return self
        return replace(self, statistics=align(self.statistics, keys))

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Add noise to every vector; each answer reads one, for the groups that a count shows."""
        vectors = self.part.vectors
        noisy_vectors = add_noise(self.statistics, vectors.linears, vectors.noises(loss))
        groups = noisy_vectors[0].coordinates.shape[1]
        shown = np.arange(groups)
        index, weights = vectors.counting or (0, None)
        if rule is not None and weights is not None:
            count = CountPiece(shown, noisy_vectors[index], weights)
            shown = Counted(groups, (count,)).select_groups(rule)
            noisy_vectors = [vector.of_groups(shown) for vector in noisy_vectors]
        notes: dict[tuple[int, ...], list[str | None]] = {}
        answers = {}
        for answer in vectors.answers:
            question = self.part.questions[answer.name]
            estimator: Estimator = answer.estimator
            texts = None
            if self.part.find_clipped(question):
                counts = vectors.counts_clipped[answer.vector]
                if counts not in notes:
                    notes[counts] = self._note_clipping(answer.vector, question, noisy_vectors)
                texts = notes[counts]
                estimator = estimator.add_counts(noisy_vectors[counts[0]])
            vector = noisy_vectors[answer.vector]
            piece = Piece(shown, estimator, vector, texts)
            is_integer = answer.estimator.value(vector.of_groups(shown[:0])).dtype.kind == "i"
            blank = NO_COUNT if is_integer else UNKNOWN
            answers[answer.name] = (
                Estimated(answer.name, groups, (piece,), blank, has_notes=question.has_note),
            )
        if weights is None:
            return Answered(self.keys, answers)
        count = CountPiece(shown, noisy_vectors[index], weights)
        return Answered(self.keys, answers, Counted(groups, (count,)))

    def _note_clipping(
        self, index: int, question: LinearStatistic, noisy: Sequence[NoisyVector]
    ) -> list[str | None]:
        """Return the note of each group on what bounds clip, by column where there are several.

        In a partition of unity a row at a bound adds all of its `l1` to one coordinate, and no row
        adds less than 0: that limits the rows at each bound. Other sums leave room for any number.
        """
        vectors, linear = self.part.vectors, self.part.vectors.linears[index]
        is_unity = linear.count == CountWeights(tuple(range(len(linear.matrix))), linear.l1)
        is_limited = is_unity and not linear.source.totals and len(linear.source.columns) == 1
        sums = noisy[index].coordinates
        counting = len(vectors.linears) - vectors.answering
        outside = _ALONE / (self.part.sharing * counting)
        lines = {}
        clipped = self.part.find_clipped(question)
        pairs = zip(clipped.items(), vectors.counts_clipped[index], strict=True)
        for (column, bounds), counts in pairs:
            rooms = [np.full(sums.shape[1], np.inf)] * 2
            if is_limited:
                terms = linear.source.terms  # none falls where the value rises
                ends = [term.minimum for term in terms], [term.maximum for term in terms]
                matrix = np.array(linear.matrix)
                full = [sums[(matrix @ (1, *end)).argmax()] for end in ends]
                rooms = [total.astype(float) * (WHOLE / linear.l1) for total in full]
            lines[column] = note_clipping(
                noisy[counts], rooms, bounds, outside, grouped=self.part.grouped
            )
        if len(question.clipped) == 1:
            return lines.popitem()[1]
        named = (
            [note and f"{column}: {note}" for note in notes] for column, notes in lines.items()
        )
        return list(map(join_notes, zip(*named, strict=True)))
