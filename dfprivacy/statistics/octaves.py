"""Answer questions without bounds: find bounds privately, then answer within them.

A part of the loss pays for the search (`estimators/bounds_search.py`); the rest pays for the
answers within these bounds. Questions about one column (`OctavePart`) are answered from the table
that was searched. Questions about several (`ProductPart`) have one search a column, over all groups
together, and a second pass that adds up products. Proof: docs/explanation/octaves.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.histograms import HistogramQuery, count_bins
from dfprivacy.engine.keys import align
from dfprivacy.engine.passes import exact_sums
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
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.runs import run_slices
from dfprivacy.noise.additive import NoisyVector, add_noise
from dfprivacy.noise.laws import KeyRule, Noise
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
from dfprivacy.release.estimator import ClippingBias, CountEstimator, Estimator, WrappedEstimator
from dfprivacy.release.plan import PartLimits
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.estimators.bounds_search import (
    LEAST_LEFT,
    LEAST_ZOOMED,
    OCTAVES_OF_ROWS,
    POLICY,
    UNITS,
    FoundBounds,
    find_bounds,
    find_column_bounds,
    rows_for_bounds,
)
from dfprivacy.statistics.estimators.group_bounds import (
    LEAST_LEFT_BY_GROUP,
    MOST_LEFT_BY_GROUP,
    find_group_bounds,
)
from dfprivacy.statistics.linear import (
    LinearPart,
    LinearStatistic,
    MeasuredSums,
    Vectors,
    VectorsPart,
    build_forecast,
    plan_vectors,
)
from dfprivacy.statistics.part import Bins, Circumstances, Forecast, MeasuredTable, Reach, reaching

_ANY = Bounds(-1, 1)  # stands in for bounds that are found later: queries need none


@dataclass(frozen=True)
class OctavePart(VectorsPart):
    """Questions about one column, whose bounds are found first.

    By group a table has octaves, unless other `bins` are given. In a `pooled` table the rows of
    all groups are one group. A unit has rows in at most `groups` groups.
    """

    column: Hashable
    questions: Mapping[str, LinearStatistic]
    grouped: bool
    read: Callable[..., Vectors] | None = None
    bins: Octaves | None = None
    pooled: bool = False
    groups: int = 1
    cluster: int = 0

    def within_limits(self, limits: PartLimits) -> Self:
        """Return the part for the limits of a unit."""
        cluster = limits.contribution.rows if self.cluster else 0
        return replace(self, groups=limits.contribution.groups, cluster=cluster)

    def vectors_within(self, bounds: Bounds) -> Vectors:
        """Return the queries that answer the questions within bounds."""
        bounded = {name: question.within(bounds) for name, question in self.questions.items()}
        read: Callable[..., Vectors] = self.read or plan_vectors
        terms = {"cluster": self.cluster} if self.cluster else {}
        vectors = read(bounded, grouped=self.grouped, **terms)
        if not all(fits_octaves(linear) or not linear.source.terms for linear in vectors.linears):
            next(iter(bounded.values())).require_bounds()
            raise InvalidQuestionError(
                "bounds can't be found for this question", hint="pass bounds=(0, 100)"
            )
        return replace(vectors, linears=tuple(with_slack(linear) for linear in vectors.linears))

    @cached_property
    def vectors(self) -> Vectors:
        """The queries within any bounds."""
        return self.vectors_within(_ANY)

    @property
    def moments(self) -> int:
        """How many powers of the values it adds up: of all groups together none."""
        return 0 if self.pooled else max([1, *map(powers_needed, self.vectors.linears)])

    @property
    def binning(self) -> Octaves:
        """How its table counts: by group in octaves, which are few."""
        return self.bins or (Octaves() if self.grouped else FINE)

    @property
    def answer_share(self) -> Fraction:
        """The share of the loss that answers, at least, of data that are not far from zero."""
        return LEAST_LEFT_BY_GROUP if self.grouped else LEAST_LEFT

    @property
    def tables(self) -> tuple[Bins, ...]:
        """How its table can count: by group in octaves too."""
        able = (FINE, Octaves()) if self.grouped else (FINE,)
        return tuple((binning, self.moments) for binning in able)

    def read_measurement(self, table: BinTable) -> MeasuredOctaves:
        """Return the measurement that this table is."""
        return MeasuredOctaves(self, table)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors_within(Bounds(0, 1)).count_noise(loss.share(self.answer_share))

    def least_count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the least noise of that count: the search for bounds can leave more loss."""
        return self.vectors_within(Bounds(0, 1)).count_noise(loss.share(MOST_LEFT_BY_GROUP))

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each answer, in widths of the bounds that are found first."""
        column_reach = bounds_reach(loss.share(POLICY.looks[-1]))
        bounds_from = OCTAVES_OF_ROWS * column_reach.mostly
        remarks: tuple[str, ...] = (
            "sizes count the rows of one octave, in which the bounds are found",
        )
        if self.grouped:
            groups = 1 if circumstances.unit is None else circumstances.unit.max_groups or 1
            pooled_reach = bounds_reach(loss.share(POLICY.pool * POLICY.looks[-1]).pool(groups))
            bounds_from = OCTAVES_OF_ROWS * pooled_reach.mostly
            remarks = (
                f"all groups together find bounds {pooled_reach} in one octave",
                "each group's own counts narrow them where groups differ in size",
            )
        forecasts = []
        for name, question in self.questions.items():
            vectors = self.vectors_within(question.stand_in)
            answer = next(answer_ for answer_ in vectors.answers if answer_.name == name)
            noise = vectors.noises(loss.share(self.answer_share))[answer.vector]
            linear, unit = vectors.linears[answer.vector], question.unit(found_bounds=True)
            forecast = build_forecast(answer, (linear, noise), question, circumstances, unit=unit)
            law = f"{forecast.mechanism} within bounds from a noisy histogram of octaves"
            reach = None if self.grouped else column_reach
            forecast = replace(forecast.add_remarks(*remarks), answered=reach, mechanism=law)
            forecasts.append(replace(forecast, bounds_from=bounds_from))
        return forecasts

    @property
    def reads_again(self) -> bool:
        """True if other bins of the groups may be counted later."""
        return self.grouped and not self.bins

    def in_one_pass(self) -> OctavePart:
        """Return the part that counts in fine bins at once."""
        return replace(self, bins=FINE)

    @property
    def query(self) -> HistogramQuery:
        """How an engine counts its values."""
        return HistogramQuery(self.column, self.binning, self.moments, self.pooled)


def bounds_reach(look: Epsilon | Rho) -> Reach:
    """Return how many rows one octave needs for bounds around it, by the loss of the look."""
    noise = look.noise(1, 1)
    return reaching(rows_for_bounds(noise), noise)


@dataclass(frozen=True, repr=False)
class MeasuredOctaves(MeasuredTable):
    """An octave table. Secret."""

    part: OctavePart
    again: Callable[[OctavePart], MeasuredOctaves] | None = None
    """Function that counts again for a part in other bins, with the groups of that moment."""

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the counts of exactly the groups with these keys, in other bins too."""
        measured, again = super().of_groups(keys), self.again
        if again is None:
            return measured

        def of_groups_again(part: OctavePart) -> MeasuredOctaves:
            return again(part) if part.pooled else again(part).of_groups(keys)

        return replace(measured, again=of_groups_again)

    def recount(self, bins: Octaves, pooled: bool) -> BinTable:  # noqa: FBT001 one interface
        """Count the groups again in other bins, or the rows of all groups together."""
        assert self.again is not None  # noqa: S101 the caller has looked
        return self.again(replace(self.part, bins=bins, pooled=pooled)).table

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Find bounds, of the pooled rows first where there are groups; answer within them."""
        shown_from = None
        if rule is not None:
            noise, divisor, terms = self.part.count_noise(loss)
            shown_from = rule.threshold(noise, divisor, terms) // divisor
        return self.answer_together([self], [loss], shown_from)[0]

    @classmethod
    def answer_together(
        cls,
        measured: Sequence[MeasuredOctaves],
        losses: Sequence[Epsilon | Rho],
        shown_from: int | None = None,
    ) -> list[Answered]:
        """Find bounds of columns with equal losses at once; answer about each within its own.

        All groups have public keys, or are shown, unless they are `shown_from` a noisy count on.
        """
        classes: dict[Any, list[int]] = {}
        for index, (column, loss) in enumerate(zip(measured, losses, strict=True)):
            part, table, is_read_once = column.part, column.table, column.again is None
            form = part.grouped, part.groups, is_read_once, table.binning, len(table.moments)
            classes.setdefault((loss, *form), []).append(index)
        answers: dict[int, Answered] = {}
        for (loss, grouped, groups, *_), indices in classes.items():
            columns = [measured[index] for index in indices]
            tables = [column.table for column in columns]
            if grouped:
                recounts = [column.recount for column in columns if column.again]
                pooled_loss = loss.pool(groups)
                bounds = find_group_bounds(
                    tables, loss, pooled_loss, recounts, shown_from=shown_from
                )
            else:
                bounds = find_column_bounds(tables, loss)
            for index, column, of_column in zip(indices, columns, bounds, strict=True):
                answers[index] = column.answer_within(of_column, loss)
        return [answers[index] for index in range(len(measured))]

    def answer_apart(self, loss: Epsilon | Rho, *, ends: bool = True) -> Answered:
        """Find bounds of each group by itself, answer within them; 0 for a group of zeros.

        Without `ends` nobody asks for intervals.
        """
        bounds = find_bounds(self.table, loss)
        return self.answer_within(bounds, loss, without=bounds.zeros, ends=ends)

    def answer_within(
        self,
        bounds: FoundBounds,
        loss: Epsilon | Rho,
        without: Any = None,
        *,
        ends: bool = True,
    ) -> Answered:
        """Answer within bounds, and for groups `without` any: for all of these if it is None."""
        part, groups = self.part, bounds.table.groups
        missing = np.flatnonzero(~bounds.is_found if without is None else without)
        classes = [*bounds_classes(bounds), *([(None, missing)] if len(missing) else [])]
        pieces: dict[str, list[Piece]] = {name: [] for name in part.questions}
        counts = []
        for ends_of_class, members in classes:
            vectors = part.vectors_within(ends_of_class or _ANY)
            sources = tuple(dict.fromkeys(linear.source for linear in vectors.linears))
            exact = octave_statistics(bounds.table, members, sources)
            left = loss.share(Fraction(int(bounds.left[members[0]]), UNITS))
            noisy = add_noise(exact, vectors.linears, vectors.noises(left))
            if vectors.counting is not None:
                vector, weights = vectors.counting
                counts.append(CountPiece(members, noisy[vector], weights))
            notes = bounds.list_notes(members) if ends else None
            if ends_of_class is None:
                texts = np.array(["too few rows for bounds", "only zeros stand out"], object)
                notes = list(texts[bounds.zeros[members].astype(int)])
            for answer in vectors.answers:
                estimator: Estimator = answer.estimator
                is_count = isinstance(estimator, CountEstimator)
                if ends_of_class is None and not is_count:
                    estimator = UnknownEstimator(np.where(bounds.zeros[members], 0.0, np.nan))
                elif ends and not is_count:
                    estimator = BiasAwareEstimator(estimator, bounds.bias[:, members])
                piece = Piece(members, estimator, noisy[answer.vector], notes)
                pieces[answer.name].append(piece)
        ends_of_groups = np.stack([bounds.lower, bounds.upper])
        answers = {
            name: (
                Estimated(
                    name,
                    groups,
                    tuple(pieces[name]),
                    NO_COUNT if isinstance(question, Count) else UNKNOWN,
                    has_notes=question.has_note,
                    outer=None if isinstance(question, Count) else bounds.outer,
                    bounds=() if isinstance(question, Count) else (ends_of_groups,),
                ),
            )
            for name, question in part.questions.items()
        }
        counted = Counted(groups if part.counts else 1, tuple(counts))
        return Answered(bounds.table.keys, answers, counted)


def bounds_classes(bounds: FoundBounds) -> Iterator[tuple[Bounds, Integers]]:
    """Yield each pair of bounds with the groups that have it and an equal share of the loss."""
    groups = np.flatnonzero(bounds.is_found)
    ends = [(end[groups] + 0.0).view(np.int64) for end in (bounds.lower, bounds.upper)]
    columns = [*ends, bounds.left[groups]]
    columns = [column for column in columns if (column != column[:1]).any()] or columns[:1]
    order = np.lexsort(columns)  # stable: groups of one class ascend
    for run in run_slices(*(column[order] for column in columns)):
        members = groups[order[run]]
        first = members[0]
        yield Bounds(float(bounds.lower[first]), float(bounds.upper[first])), members


@dataclass(frozen=True)
class UnknownEstimator(Estimator):
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
class BiasAwareEstimator(WrappedEstimator):
    """Estimator of clipped values whose interval covers the rows outside the bounds."""

    bias: Floats
    """The sums of distances and of squares below and above, of each group, at a level of 95 %."""

    @property
    def reads(self) -> tuple[int, ...] | None:
        """The coordinates that it reads, None for all."""
        return self.estimator.reads

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return an interval of the values as they are (docs/explanation/intervals.md)."""
        moved, clipped = self.bias * (math.log(1 - level) / math.log(0.05)), self.estimator
        return clipped.widen(vector, clipped.interval(vector, level), ClippingBias(*moved))


SEARCH = Fraction(7, 10)
"""Fraction of the loss that the searches of all columns may use together; they return the rest."""

PRODUCTS = replace(POLICY, zoom=0.6, doubt=0.0)
"""The policy of these searches: rows outside may move a covariance by more than noise does."""

TOO_FEW = "too few rows for bounds"


@dataclass(frozen=True)
class ProductPart(VectorsPart):
    """Statistics of the same columns. The bounds of the `searched` columns are found first.

    So many parts as `sharing` says share the level of notes on what given bounds clip.
    """

    questions: Mapping[str, Any]
    searched: tuple[Hashable, ...]
    grouped: bool
    units: bool = False
    sharing: int = 1
    limits: PartLimits | None = None

    reads_again = True

    answer_share: ClassVar[Fraction] = 1 - SEARCH * (1 - LEAST_ZOOMED)
    """The share of the loss that is left for the answers, at least."""

    def within_limits(self, limits: PartLimits) -> Self:
        """Return the part for the limits of a unit."""
        return replace(self, limits=limits)

    def within(self, bounds: Mapping[Hashable, Bounds]) -> LinearPart:
        """Return the part that answers within bounds of the columns without."""
        questions = {name: question.complete(bounds) for name, question in self.questions.items()}
        part = LinearPart(
            questions,
            self.grouped,
            units=self.units,
            sharing=self.sharing,
            searched=self.searched,
        )
        return part if self.limits is None else part.within_limits(self.limits)

    @cached_property
    def linear(self) -> LinearPart:
        """The part within made-up bounds, which have no effect on the number of its answers."""
        return self.within(dict.fromkeys(self.searched, Bounds(0, 1)))

    @property
    def vectors(self) -> Vectors:
        """The vectors within made-up bounds."""
        return self.linear.vectors

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.linear.count_noise(loss.share(self.answer_share))

    def pool(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return the loss of the search in one column: all groups of a unit count together."""
        groups = 1 if self.limits is None else self.limits.contribution.groups
        return loss.pool(groups).share(SEARCH / len(self.searched))

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each answer, in widths of the bounds that are found first."""
        reach = bounds_reach(self.pool(loss).share(LEAST_ZOOMED))
        remark = f"each column finds bounds {reach} in one octave, of all groups together"
        forecasts = self.linear.forecasts(loss.share(self.answer_share), circumstances)
        units = [self.questions[forecast.name].unit(found_bounds=True) for forecast in forecasts]
        return [
            replace(
                forecast.add_remarks(remark), unit=unit, bounds_from=OCTAVES_OF_ROWS * reach.mostly
            )
            for forecast, unit in zip(forecasts, units, strict=True)
        ]

    def measure(self, adopted: Adopted) -> MeasuredProducts:
        """Count the values of each column in all groups by bin; the frame adds the second pass."""
        queries = [HistogramQuery(column, FINE, pooled=True) for column in self.searched]
        tables = tuple(count_bins(adopted, queries))
        if not adopted.keys:
            return MeasuredProducts(self, tables, pa.table({}))
        rows = exact_sums(adopted, (Source(),))
        groups = rows if adopted.listed_keys is None else align(rows, adopted.listed_keys)
        return MeasuredProducts(self, tables, groups.key_table())


@dataclass(frozen=True, repr=False)
class MeasuredProducts(Measured):
    """Bins of each column, and the second pass that adds up products within bounds. Secret."""

    part: ProductPart
    tables: tuple[BinTable, ...]
    keys: pa.Table
    again: Callable[[LinearPart], MeasuredSums] | None = None
    """Function that runs the second pass, with the groups of that moment."""

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the measurement with sums of exactly the groups with these keys."""
        again = self.again
        assert again is not None  # noqa: S101 every frame has a second pass
        return replace(self, keys=keys, again=lambda part: again(part).of_groups(keys))

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Find bounds of each column, then answer within them with the loss that is left."""
        assert self.again is not None  # noqa: S101 every frame has a second pass
        searched, pooled = self.part.searched, self.part.pool(loss)
        bounds_of_columns = find_column_bounds(self.tables, pooled, PRODUCTS)
        results = dict(zip(searched, bounds_of_columns, strict=True))
        used = sum(1 - Fraction(int(result.left[0]), UNITS) for result in results.values())
        left = loss.share(1 - used * SEARCH / len(searched))
        is_found = all(result.is_found[0] for result in results.values())
        bounds = {
            column: Bounds(float(result.lower[0]), float(result.upper[0]))
            if is_found
            else Bounds(0, 1)
            for column, result in results.items()
        }
        answered = self.again(self.part.within(bounds)).answer(left, rule)
        answers = {
            name: tuple(self._state_doubt(answer, results, is_found=is_found) for answer in named)
            for name, named in answered.answers.items()
        }
        return replace(answered, answers=answers)

    def _state_doubt(
        self, answer: Any, results: Mapping[Hashable, FoundBounds], *, is_found: bool
    ) -> Estimated:
        """Return the answer with room for rows outside the bounds, and with the notes on them.

        A group has its part of them, and as many more as chance may give it.
        """
        axes = self.part.questions[answer.name].axes
        biases = np.stack(
            [results[column].bias[:, 0] if column in results else np.zeros(4) for column in axes],
            axis=1,
        )
        texts = [
            f"{column}: {text}"
            for column, result in results.items()
            for text in result.list_notes(np.zeros(1, np.int64))
            if text
        ]
        note = ("; ".join(texts) or None) if is_found else TOO_FEW
        pieces = []
        for piece in answer.pieces:
            estimator: Any = BiasAwareEstimator(piece.estimator, share_biases(biases, piece.vector))
            if not is_found:
                estimator = UnknownEstimator(np.full(len(piece.groups), np.nan))
            notes = [note] * len(piece.groups)
            if is_found and piece.notes:  # on what given bounds clip
                notes = [join_notes((text, note)) for text in piece.notes]
            pieces.append(replace(piece, estimator=estimator, notes=notes))
        ends = (np.stack([result.lower, result.upper]) for result in results.values())
        bounds = tuple(np.repeat(of_column, answer.groups, axis=1) for of_column in ends)
        noted: Estimated = replace(
            answer, pieces=tuple(pieces), has_notes=True, bounds=bounds if is_found else ()
        )
        return noted


def share_biases(biases: Floats, vector: NoisyVector) -> Floats:
    """Return the biases of each group: 4 sums, by column and group.

    Rows outside are in a group as often as other rows are, up to two deviations.
    """
    rows = np.maximum(vector.coordinates.astype(np.float64).sum(axis=0), 1.0)
    part = rows / rows.sum()
    doubt = 2 * np.sqrt(part * (1 - part))
    squares = biases[[1, 1, 3, 3], :, None]
    roots = np.stack([np.sqrt(squares[0]), squares[1], np.sqrt(squares[2]), squares[3]])
    return np.asarray(biases[:, :, None] * part + doubt * roots)
