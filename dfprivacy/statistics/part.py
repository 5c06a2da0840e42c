"""What every part of a release offers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins, run_stored_bins
from dfprivacy.forecast.forecast import Circumstances, Forecast
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Octaves, SignificantBits
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.measurement.stored_bins import StoredBins
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import Answer, Column, Counted, CountPiece, everyone
from dfprivacy.statistics.base import Statistic


@dataclass(frozen=True)
class Grouping:
    """How a release groups: its columns, and whether their keys are public."""

    by: Sequence[Hashable] = ()
    public: bool = False


@dataclass(frozen=True)
class Answered:
    """What a part has answered about which groups, and the count that can select them. Public.

    `answers` has those of each question, in their order.
    """

    keys: pa.Table
    answers: Mapping[str, tuple[Answer, ...]]
    counted: Counted | None = None


class Measured(Protocol):
    """What a part has measured: exact and secret, one entry a group."""

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted."""

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Draw the noise that pays for the loss of one row, and answer.

        `rule` says which groups of secret keys are shown; a part needs it only where a group's
        answer depends on which others are shown.
        """


class Part(Protocol):
    """Some questions of a release, answered from one pass."""

    @property
    def weight(self) -> Fraction:
        """Its share of the loss, relative to other parts."""

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The answers to each question: their names, and whether each has an interval."""

    @property
    def counts(self) -> bool:
        """Tell whether it can count groups."""

    @property
    def answers_count(self) -> bool:
        """Tell whether one of its answers is the count that it selects groups by."""

    def measure(self, adopted: Adopted, grouping: Grouping) -> Measured:
        """Run the pass."""

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the questions that each draw answers, and its part of the part's loss."""

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of each answer; `loss` is that of one row."""


@runtime_checkable
class TablePart(Part, Protocol):
    """A part that counts rows by bin, from a table that can be kept in a file and added up."""

    @property
    def tables(self) -> tuple[Bins, ...]:
        """How its table can count: by the declared type of its column, one way or two."""

    def measured(self, table: BinTable) -> Measured:
        """Return what it would have measured, from its table."""


Bins = tuple[Octaves | SignificantBits, int]
"""A binning, and how many powers of the values each bin adds up."""


@dataclass(frozen=True)
class ColumnPart:
    """One question about the values of one column, answered from a table of bins."""

    name: str
    question: Any
    grouped: bool

    weight: ClassVar[Fraction] = Fraction(1)
    counts: ClassVar[bool] = True
    answers_count: ClassVar[bool] = False
    has_interval: ClassVar[bool] = False

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The column that the question is about."""
        return {self.question.column: True}

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The answers of its question."""
        return {self.name: dict.fromkeys(self.question.titles(self.name), self.has_interval)}

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the one draw."""
        return [((self.name,), Fraction(1))]

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that a part of the loss pays for."""
        return loss.share(COUNT_SHARE).noise(1, 1), 1, 1

    def value_table(
        self, adopted: Adopted, grouping: Grouping, grid: SignificantBits
    ) -> BinTable | StoredBins:
        """Run the pass that counts each group's rows by value: one GROUP BY.

        By secret groups of files the table is far larger than memory perhaps: it lies in files.
        """
        column = self.question.column
        if adopted.from_files and self.grouped and not grouping.public:
            return run_stored_bins(adopted, grouping.by, column, grid)
        return run_bins(adopted, grouping.by, column, grid, public=grouping.public)


@dataclass(frozen=True, repr=False)
class MeasuredTable:
    """A table of bins by group, in memory or in files. Secret."""

    part: Any
    table: BinTable | StoredBins

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted."""
        return self.table.keys


COUNT_SHARE = Fraction(1, 6)
"""The part of a loss that counts the rows of each group: it selects groups, and tells too few."""


def noisy_rows(table: BinTable | StoredBins, loss: Epsilon | Rho) -> Counted:
    """Return the noisy number of rows of each group: sensitivity 1."""
    noise = loss.noise(1, 1)
    vector = NoisyVector(add_to(table.totals()[None, :], noise), noise)
    piece = CountPiece(everyone(table.groups), vector, CountWeights((0,), 1))
    return Counted(table.groups, (piece,))


def blanked(values: Column, counted: Counted, least: int) -> Column:
    """Return values, not a number where a group's noisy count is below `least`."""
    return np.where(counted.column() < least, np.nan, values)
