"""Histograms: noisy counts between edges, given or found privately; a frame with one row a bin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Contribution, Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.octave_bounds import SHARE, find_bounds
from dfprivacy.exact import describe, exact_number
from dfprivacy.labels import label_of
from dfprivacy.measurement.bin_table import BinTable, rebinned
from dfprivacy.measurement.binning import LARGEST_VALUE, Edges, Integers, Octaves, SignificantBits
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import Column, Counted
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.statistics.part import Answered, Grouping
from dfprivacy.terms import Bounds

MOST_BINS = 10_000
_FINE = SignificantBits(16)
_UNKNOWN = Bounds(-1, 1)


@dataclass(frozen=True)
class Histogram:
    """Counts of a column between `edges`, or in `bins` equal bins within bounds to be found."""

    column: Hashable
    edges: tuple[float, ...] | None
    bins: int

    @classmethod
    def of(
        cls, column: Hashable, bins: object, bounds: Bounds | None, *, given: bool = False
    ) -> Histogram:
        """Return the question for a list of edges, or for a number of bins.

        `given` says that the caller named the bounds in this very question.

        Raises
        ------
        InvalidQuestionError
            When `bins` is neither a number of bins nor a list of ascending, finite edges.
        """
        label_of(column)
        count = exact_number(bins)
        if count is None:
            edges = _edges(bins)
            if given:
                raise InvalidQuestionError(
                    "a histogram with edges takes no bounds", hint="leave bounds out"
                )
            return cls(column, edges, len(edges) - 1)
        if count.denominator != 1 or not 1 <= count <= MOST_BINS:
            raise _refused(f"the number of bins must be from 1 to {MOST_BINS:,}")
        return cls(column, None if bounds is None else _equal(bounds, int(count)), int(count))

    @property
    def text(self) -> str:
        """The question as it was asked."""
        bins = self.bins if self.edges is None else list(self.edges)
        return f"histogram({self.column!r}, {bins!r})"


def _edges(given: object) -> tuple[float, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        raise _refused(f"the edges must be a list of numbers, not {describe(given)}")
    exact = [exact_number(edge) for edge in given]
    if len(exact) < 2 or any(edge is None or abs(edge) > LARGEST_VALUE for edge in exact):
        raise _refused("a histogram needs two edges or more, finite numbers of size up to 2**126")
    edges = tuple(float(edge) for edge in exact if edge is not None)
    if any(b <= a for a, b in itertools.pairwise(edges)):
        raise _refused("the edges of a histogram must ascend")
    if len(edges) > MOST_BINS + 1:
        raise _refused(f"a histogram has at most {MOST_BINS:,} bins")
    return edges


def _refused(message: str) -> InvalidQuestionError:
    return InvalidQuestionError(
        message, hint="pass edges such as [0, 10, 100], or bins=10 with bounds=(0, 100)"
    )


def _equal(bounds: Bounds, bins: int) -> tuple[float, ...]:
    edges = np.linspace(bounds.lower, bounds.upper, bins + 1)
    return _edges(edges.tolist())


@dataclass(frozen=True)
class HistogramPart:
    """A histogram: one pass that counts by value or bin, then noise on every count.

    Adding or removing a row changes one count by 1: noise of scale 1/epsilon on every count. A
    unit of several rows changes counts by as many as it may have in all. A secret group is shown
    if one of its counts shows it. `finding` is what is left for one row to find bounds with, all
    groups together; None where edges are given.
    """

    question: Histogram
    finding: Epsilon | Rho | None = None

    name: ClassVar[str] = "histogram"
    weight: ClassVar[Fraction] = Fraction(1)
    counts: ClassVar[bool] = True
    answers_count: ClassVar[bool] = True

    @classmethod
    def of(
        cls, question: Histogram, loss: Epsilon | Rho, contribution: Contribution
    ) -> HistogramPart:
        """Return the part of a question that spends a loss; bounds to be found take their share."""
        if question.edges is not None:
            return cls(question)
        return cls(question, contribution.pooled().row_loss(loss.share(SHARE)))

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The column that is counted."""
        return {self.question.column: True}

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The counts; each has an interval."""
        return {self.name: {self.name: True}}

    def left(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return what the counts can spend of a loss."""
        return loss if self.finding is None else loss.share(1 - SHARE)

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredHistogram:
        """Run the pass."""
        edges, column = self.question.edges, self.question.column
        binning = _FINE if edges is None else Edges(edges)
        table = run_bins(adopted, grouping.by, column, binning, public=grouping.public)
        return MeasuredHistogram(self, table)


@dataclass(frozen=True, repr=False)
class MeasuredHistogram:
    """Rows by group, and by bin or value. Secret."""

    part: HistogramPart
    table: BinTable

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted."""
        return self.table.keys

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Find edges where none are given, and count between them."""
        edges, table = self._within_edges()
        noise = self.part.left(loss).noise(1, 1)
        noisy = add_to(_dense(table, len(edges) - 1), noise)
        made = NoisyBins(self.table.groups, (), edges, noisy, noise)
        return Answered(self.keys, {self.part.name: (made,)}, made)

    def _within_edges(self) -> tuple[tuple[float, ...], BinTable]:
        """Return the edges, NaN where none were found, and the table counted by them."""
        question, finding = self.part.question, self.part.finding
        if question.edges is not None:
            return question.edges, self.table
        assert finding is not None  # noqa: S101 what has no edges finds them
        found = find_bounds(rebinned(self.table, Octaves(), pooled=True), finding.pure())
        known = bool(found.found[0])
        bounds = Bounds(float(found.lower[0]), float(found.upper[0])) if known else _UNKNOWN
        edges = _equal(bounds, question.bins)
        counts = rebinned(self.table, Edges(edges))
        return edges if known else (math.nan,) * len(edges), counts


def _dense(table: BinTable, bins: int) -> Any:
    """Return the counts of each group between the edges, a row a group."""
    counts = np.zeros((table.groups, bins), dtype=np.int64)
    inside = (table.bins >= 1) & (table.bins <= bins)
    counts[table.group[inside], table.bins[inside] - 1] = table.rows[inside]
    return counts


@dataclass(frozen=True)
class NoisyBins(Counted):
    """The noisy counts of all groups between the edges, a row a group. Public."""

    edges: tuple[float, ...]
    noisy: Column
    noise: Noise

    name: ClassVar[str] = HistogramPart.name

    def kept(self, rule: KeyRule) -> Integers:
        """Return the groups of which one count is too large for a single unit to have made it."""
        return np.flatnonzero((self.noisy >= rule.least(self.noise, 1, 1)).any(axis=1))

    def columns(self, level: float) -> list[Column]:
        """Return count, low and high of each bin of each group."""
        half = self.noise.quantile(1 - level)
        return [
            self.noisy,
            (self.noisy - half).astype(np.float64),
            (self.noisy + half).astype(np.float64),
        ]


def histogram_names(by: Sequence[Hashable]) -> list[str]:
    """Return the columns of a released histogram.

    Raises
    ------
    InvalidQuestionError
        When a group column has the name of another.
    """
    names = [*map(str, by), "lower", "upper", "count", "low", "high"]
    if len(set(names)) < len(names):
        raise InvalidQuestionError(
            "a group column has the name of a column of the result",
            hint="rename it; a histogram has the columns lower, upper, count, low, high",
        )
    return names


def bins_table(made: Answers, request: Request, names: Sequence[str]) -> pa.Table:
    """Return one row for each bin of each kept group."""
    ((bins,),) = made.answers.values()
    assert isinstance(bins, NoisyBins)  # noqa: S101 the part answers so
    edges, groups = bins.edges, pa.array(np.repeat(made.kept, len(bins.edges) - 1))
    columns = list(made.keys.take(groups).columns) if made.keys.num_columns else []
    columns += [pa.array(np.tile(ends, len(made.kept))) for ends in (edges[:-1], edges[1:])]
    counts, low, high = (column[made.kept].reshape(-1) for column in bins.columns(request.level))
    largest = 2**63 - 1
    values = [min(max(int(count), -largest), largest) for count in counts]
    columns += [pa.array(values, pa.int64()), pa.array(low), pa.array(high)]
    return pa.table(columns, names=list(names))
