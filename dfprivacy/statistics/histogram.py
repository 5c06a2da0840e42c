"""Count values between edges, given or found privately: a frame with one row a bin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.histograms import HistogramQuery, count_bins
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable, in_one, rebin
from dfprivacy.measurement.binning import LARGEST_VALUE, Edges, Integers, Octaves, SignificantBits
from dfprivacy.measurement.bounds import Bounds, BoundsLike, read_bounds
from dfprivacy.measurement.exact import describe, exact_number
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.laws import KeyRule, Noise, find_scale, name_law
from dfprivacy.release.answers import Answer, Answered, Answers, Column, Counted, Threshold
from dfprivacy.release.plan import PartLimits, Plan
from dfprivacy.statistics.base import Question, argument
from dfprivacy.statistics.estimators.bounds_search import LOOK_SHARE, find_dyadic_bounds
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.statistics.part import Circumstances, Forecast, MeasuredTable, Part

MOST_BINS = 10_000
CELLS = 2**20
"""The counts of groups by bins that are in memory at a time: public, whatever the groups are."""

_FINE = SignificantBits(16)
_UNKNOWN = Bounds(-1, 1)


@dataclass(frozen=True)
class Histogram(Question):
    """Count the values of a column between ascending edges, or in equal bins within bounds.

    A bin includes its lower edge, the last one both; values outside are not counted. With a number
    of `bins` and no `bounds`, bounds are found privately for all groups together. All counts
    together have sensitivity 1.

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"x": range(1000)})
    >>> frame.dp.histogram("x", [0, 250, 500, 1000], epsilon=1)["lower"].to_list()
    [0.0, 250.0, 500.0]
    """

    kind: ClassVar[str] = "histogram"
    returns: ClassVar[str] = "The caller's own frame type: lower, upper, count, low, high of a bin."

    column: Hashable = argument("The column of numbers.")
    bins: int | Sequence[float] = argument(
        "The number of equal bins, or the edges of bins.", form="int | Sequence[float]"
    )
    bounds: BoundsLike | None = argument(
        "Where the first of a number of bins begins and the last one ends; values beyond are not "
        "counted. Estimated privately when left out.",
        None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        count = exact_number(self.bins)
        if count is None:
            object.__setattr__(self, "bins", _edges(self.bins))
            if self.bounds is not None:
                raise InvalidQuestionError(
                    "a histogram with edges takes no bounds", hint="leave bounds out"
                )
        elif count.denominator != 1 or not 1 <= count <= MOST_BINS:
            raise _refuse_histogram(f"the number of bins must be from 1 to {MOST_BINS:,}")
        _ = self.edges

    def complete(self, bounds_by_column: Mapping[Hashable, object]) -> Self:
        """Take the bounds that the terms of a frame know, unless it has edges."""
        return self if isinstance(self.bins, Sequence) else super().complete(bounds_by_column)

    @property
    def columns(self) -> tuple[Hashable]:
        """The column that is counted."""
        return (self.column,)

    @property
    def edges(self) -> tuple[float, ...] | None:
        """The edges of the bins; None where they are found."""
        if isinstance(self.bins, Sequence):
            return tuple(self.bins)
        bounds = read_bounds(self.bounds)
        return None if bounds is None else _equal(bounds, self.count)

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.bins) - 1 if isinstance(self.bins, Sequence) else int(self.bins)

    @property
    def text(self) -> str:
        """The question as it was asked."""
        edges = self.edges
        return f"histogram({self.column!r}, {self.count if edges is None else list(edges)!r})"


def _edges(edges_given: object) -> tuple[float, ...]:
    if isinstance(edges_given, str | bytes) or not isinstance(edges_given, Sequence | np.ndarray):
        raise _refuse_histogram(f"the edges must be a list of numbers, not {describe(edges_given)}")
    exact = [exact_number(edge) for edge in edges_given]
    if len(exact) < 2 or any(edge is None or abs(edge) > LARGEST_VALUE for edge in exact):
        raise _refuse_histogram(
            "a histogram needs two edges or more, finite numbers of size up to 2**126"
        )
    edges = tuple(float(edge) for edge in exact if edge is not None)
    if any(b <= a for a, b in itertools.pairwise(edges)):
        raise _refuse_histogram("the edges of a histogram must ascend")
    if len(edges) > MOST_BINS + 1:
        raise _refuse_histogram(f"a histogram has at most {MOST_BINS:,} bins")
    return edges


def _refuse_histogram(message: str) -> InvalidQuestionError:
    return InvalidQuestionError(
        message, hint="pass edges such as [0, 10, 100], or bins=10 with bounds=(0, 100)"
    )


def _equal(bounds: Bounds, bins: int) -> tuple[float, ...]:
    edges = np.linspace(bounds.lower, bounds.upper, bins + 1)
    return _edges(edges.tolist())


@dataclass(frozen=True)
class HistogramPart(Part):
    """A histogram: one pass that counts by value or bin, then noise on every count.

    Adding or removing a row changes one count by 1: noise of scale 1/epsilon on every count. A
    unit of several rows changes counts by as many as it may have in all. A secret group is shown
    if one of its counts shows it. `finding` is what is left for one row to find bounds with, all
    groups together; None where edges are given.
    """

    question: Histogram
    finding: Epsilon | Rho | None = None

    name: ClassVar[str] = "count"
    answers_count = True

    def within_limits(self, limits: PartLimits) -> HistogramPart:
        """Return the part for the limits of a unit: bounds to be found take their share."""
        if self.question.edges is not None:
            return self
        look = limits.loss.share(LOOK_SHARE)
        return HistogramPart(self.question, limits.contribution.pool().row_loss(look))

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The column that is counted."""
        return {self.question.column: True}

    @property
    def questions(self) -> Mapping[str, Histogram]:
        """The question, called as its counts."""
        return {self.name: self.question}

    def count_loss(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return the privacy loss that is left for the counts."""
        return loss if self.finding is None else loss.share(1 - LOOK_SHARE)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of each count, any of which can show a group."""
        return self.count_loss(loss).noise(1, 1), 1, 1

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the draw of all counts, after that of bounds that are found."""
        if self.finding is None:
            return super().draws()
        return [(("the bounds of the bins",), LOOK_SHARE), ((self.name,), 1 - LOOK_SHARE)]

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each count."""
        noise, _, _ = self.count_noise(loss)
        half = (float(noise.quantile(1 - circumstances.level)),) * len(circumstances.sizes)
        how_found = (
            "" if self.finding is None else " within bounds from a noisy histogram of octaves"
        )
        forecast = Forecast(
            self.name,
            f"{name_law(noise)}{how_found}",
            scale=find_scale(noise),
            scale_unit="rows",
            unit="rows, in each bin",
            typical=half,
        )
        if self.finding is not None:
            reach = bounds_reach(self.finding)
            forecast = forecast.add_remarks(
                f"edges are found by rows in one octave, in all groups: {reach}"
            )
        return [forecast]

    def measure(self, adopted: Adopted) -> MeasuredHistogram:
        """Run the pass."""
        edges, column = self.question.edges, self.question.column
        query = HistogramQuery(column, _FINE if edges is None else Edges(edges))
        (table,) = count_bins(adopted, [query])
        return MeasuredHistogram(self, table)


@dataclass(frozen=True, repr=False)
class MeasuredHistogram(MeasuredTable):
    """Rows by group, and by bin or value. Secret."""

    part: HistogramPart

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Find edges where none are given, and count between them; forget what is not shown."""
        edges, table = self._within_edges()
        noise = self.part.count_loss(loss).noise(1, 1)
        threshold = None if rule is None else rule.threshold(noise, 1, 1)
        bins, chunks = len(edges) - 1, []
        for groups in table.parts(max(1, CELLS // bins)):
            noisy = add_to(_dense(table, bins, groups), noise)
            large = noisy >= threshold if threshold is not None else np.ones((len(groups), 1), bool)
            passing = np.flatnonzero(large.any(axis=1))
            chunks.append((groups.start + passing, noisy[passing]))
        shown, counts = (np.concatenate(columns) for columns in zip(*chunks, strict=True))
        noisy_bins = NoisyBins(self.table.groups, (), edges, shown, counts, noise, threshold)
        return Answered(self.keys, {self.part.name: (noisy_bins,)}, noisy_bins)

    def _within_edges(self) -> tuple[tuple[float, ...], BinTable]:
        """Return the edges, NaN where none were found, and the table counted by them."""
        question, finding = self.part.question, self.part.finding
        if question.edges is not None:
            return question.edges, self.table
        assert finding is not None  # noqa: S101 what has no edges finds them
        pooled = in_one(rebin(self.table, Octaves()))
        octave_bounds = find_dyadic_bounds(pooled, finding)
        is_known = bool(octave_bounds.is_found[0])
        bounds = (
            Bounds(float(octave_bounds.lower[0]), float(octave_bounds.upper[0]))
            if is_known
            else _UNKNOWN
        )
        edges = _equal(bounds, question.count)
        counts = rebin(self.table, Edges(edges))
        return edges if is_known or octave_bounds.zeros[0] else (math.nan,) * len(edges), counts


def _dense(table: BinTable, bins: int, groups: range) -> Any:
    """Return the counts of some groups between the edges, a row a group."""
    counts = np.zeros((len(groups), bins), dtype=np.int64)
    rows_of_groups = slice(*np.searchsorted(table.group, (groups.start, groups.stop)))
    group, bins_of_rows, rows = (
        table.group[rows_of_groups] - groups.start,
        table.bins[rows_of_groups],
        table.rows[rows_of_groups],
    )
    inside = (bins_of_rows >= 1) & (bins_of_rows <= bins)
    counts[group[inside], bins_of_rows[inside] - 1] = rows[inside]
    return counts


@dataclass(frozen=True)
class NoisyBins(Counted, Answer):
    """The noisy counts between the edges of the groups that are shown, a row a group. Public."""

    edges: tuple[float, ...]
    shown: Integers
    noisy: Column
    noise: Noise
    minimum: int | None = None

    name = HistogramPart.name

    def select_groups(self, rule: KeyRule) -> Integers:  # noqa: ARG002 they were kept by this rule
        """Return the groups that are shown."""
        return self.shown

    def about_shown(self, shown: Integers, counted: Counted, rule: KeyRule | None) -> NoisyBins:  # noqa: ARG002 as above
        """Return the answer, which is about these groups."""
        return self

    def columns(self, level: float) -> list[Column]:
        """Return count, low and high of each bin of each group that is shown."""
        half = self.noise.quantile(1 - level)
        low, high = ((self.noisy + offset).astype(np.float64) for offset in (-half, half))
        return [self.noisy, low if self.minimum is None else self._lower(low, level), high]

    def _lower(self, low: Column, level: float) -> Column:
        """Return lower ends that hold for the one count by which alone a group is shown."""
        threshold = Threshold(CountWeights((0,), 1), self.minimum or 0)
        large = self.noisy >= threshold.minimum
        vector = NoisyVector(self.noisy.reshape(1, -1), self.noise)
        lowest = threshold.lowest(vector, level).reshape(low.shape)
        alone = large & (large.sum(axis=1, keepdims=True) == 1)
        return np.where(alone, np.minimum(low, lowest), low)


def histogram_names(by: Sequence[Hashable]) -> list[str]:
    """Return the columns of a released histogram."""
    names = [*map(str, by), "lower", "upper", "count", "low", "high"]
    if len(set(names)) < len(names):
        raise InvalidQuestionError(
            "a group column has the name of a column of the result",
            hint="rename it; a histogram has the columns lower, upper, count, low, high",
        )
    return names


NO_EDGES = "too few rows to find the edges: name bounds=(0, 100) or the edges"
"""The note on a histogram whose counts are about no bins."""


@dataclass(frozen=True)
class HistogramPlan(Plan):
    """The plan of a histogram, whose table has one row for each bin of each group."""

    remark: ClassVar[str] = "a group is shown by its fullest bin"

    @property
    def subject(self) -> str:
        """The column whose values are counted."""
        (question,) = self.questions.values()
        return str(question.column)

    def list_doubts(self, table: pa.Table) -> tuple[str, ...]:
        """Return a note where no edges were found."""
        edges = table[len(self.by)].to_numpy()
        return (NO_EDGES,) if np.isnan(edges).any() else ()

    def tabulate(self, answers: Answers) -> pa.Table:
        """Return one row for each bin of each group that is shown."""
        ((bins,),) = answers.answers.values()
        assert isinstance(bins, NoisyBins)  # noqa: S101 the part answers so
        edges, shown = bins.edges, bins.shown
        groups = pa.array(np.repeat(np.arange(len(shown)), len(edges) - 1))
        columns = list(answers.keys.take(groups).columns) if answers.keys.num_columns else []
        columns += [pa.array(np.tile(ends, len(shown))) for ends in (edges[:-1], edges[1:])]
        counts, low, high = (column.reshape(-1) for column in bins.columns(self.level))
        largest = 2**63 - 1
        if counts.dtype == object:
            limited = [min(max(int(count), -largest), largest) for count in counts]
            counts = np.array(limited, np.int64)
        columns += [pa.array(counts), pa.array(low), pa.array(high)]
        return pa.table(columns, names=list(self.names))
