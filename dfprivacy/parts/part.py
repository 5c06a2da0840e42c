"""What every part of a release offers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Answer, Counted
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.engine.stored_bins import run_stored_bins
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.binning import SignificantBits
from dfprivacy.statistics.stored_bins import StoredBins


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
        """The one answer."""
        return {self.name: {self.name: self.has_interval}}

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
