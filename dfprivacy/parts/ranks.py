"""Quantiles and bounds by rank: one value-count table, then private selections from it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Chosen, Column, Counted
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.engine.stored_bins import run_stored_bins
from dfprivacy.estimators.octave_bounds import find_bounds
from dfprivacy.estimators.quantile import (
    outer_rows,
    rankable_rows,
    select_quantiles,
)
from dfprivacy.estimators.threshold import select_thresholds
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.parts.part import Answered, ColumnPart, Grouping, MeasuredTable
from dfprivacy.parts.table_count import COUNT_SHARE, blanked, noisy_rows
from dfprivacy.rank_questions import PrivateBounds, Quantile, Quantiles
from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.binning import Octaves, SignificantBits

WHOLE_BITS = 16
GROUP_BITS = 8
"""Significant bits of values: fewer for floats by group, so that the table stays small."""


def value_grid(*, coarse: bool) -> SignificantBits:
    """Return the public grid that values are rounded to before they are ranked."""
    return SignificantBits(GROUP_BITS if coarse else WHOLE_BITS)


def grid_for(adopted: Adopted, column: Hashable, *, grouped: bool) -> SignificantBits:
    """Return the grid for a column, by its declared dtype: integers by group are kept apart."""
    return value_grid(coarse=grouped and not adopted.holds_integers(column))


@dataclass(frozen=True)
class QuantilePart(ColumnPart):
    """One question about quantiles; none has an interval."""

    question: Quantile | Quantiles

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """One answer, or one for each of several quantiles."""
        if isinstance(self.question, Quantile):
            return super().names
        return {self.name: {f"{self.name}_{q}": False for q in self.question.qs}}

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredRanks:
        """Run the pass: one GROUP BY the keys and the rounded value."""
        column = self.question.column
        grid = grid_for(adopted, column, grouped=self.grouped)
        if adopted.from_files and self.grouped and not grouping.public:
            return MeasuredRanks(self, run_stored_bins(adopted, grouping.by, column, grid))
        table = run_bins(adopted, grouping.by, column, grid, public=grouping.public)
        return MeasuredRanks(self, table)


@dataclass(frozen=True, repr=False)
class MeasuredRanks(MeasuredTable):
    """A value-count table, in memory or in files. Secret."""

    part: QuantilePart

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Count, then select every quantile; where the count is too small there is no answer."""
        grid, qs = self.table.binning, self.part.question.fractions
        assert isinstance(grid, SignificantBits)  # noqa: S101 the part has chosen it
        counted = noisy_rows(self.table, loss.share(COUNT_SHARE))
        rest = loss.share(1 - COUNT_SHARE)
        least = rankable_rows(qs, rest, 2 * grid.last + 1)
        chosen = [select_quantiles(block, qs, rest) for block in self.table.blocks()]
        numbers = np.concatenate(chosen, axis=1)
        answers = tuple(
            Chosen(name, blanked(grid.values(own), counted, least))
            for name, own in zip(self.part.names[self.part.name], numbers, strict=True)
        )
        return Answered(self.keys, {self.part.name: answers}, counted)


@dataclass(frozen=True)
class BoundsPart(ColumnPart):
    """A question about private bounds: at octave edges, or of a given rank from either end."""

    question: PrivateBounds

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The two ends; they have no interval."""
        return {self.name: {"lower": False, "upper": False}}

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredBounds:
        """Run the pass over octaves or values."""
        column = self.question.column
        ranked = self.question.rank is not None
        binning = grid_for(adopted, column, grouped=self.grouped) if ranked else Octaves()
        table = run_bins(adopted, grouping.by, column, binning, public=grouping.public)
        return MeasuredBounds(self, table)


@dataclass(frozen=True, repr=False)
class MeasuredBounds(MeasuredTable):
    """An octave table or a value-count table. Secret."""

    part: BoundsPart
    table: BinTable

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Count, then find both ends; where too few rows are there is no answer."""
        counted = noisy_rows(self.table, loss.share(COUNT_SHARE))
        lower, upper = self._ends(loss.share(1 - COUNT_SHARE), counted)
        ends = (Chosen("lower", lower), Chosen("upper", upper))
        return Answered(self.keys, {self.part.name: ends}, counted)

    def _ends(self, loss: Epsilon | Rho, counted: Counted) -> tuple[Column, Column]:
        """Return both ends by octaves, or by rank: at a rank that a selection can tell from 0."""
        rank, binning = self.part.question.rank, self.table.binning
        if rank is None:
            found = find_bounds(self.table, loss.pure())
            return found.lower, found.upper
        assert isinstance(binning, SignificantBits)  # noqa: S101 the part has chosen it
        half = loss.share(Fraction(1, 2))
        outer = outer_rows(half.selection(1), 1, 2 * binning.last + 1)
        ends = [
            binning.values(select_thresholds(self.table, max(int(rank), outer), half, side))
            for side in ("lower", "upper")
        ]
        lower, upper = np.minimum(*ends), np.maximum(*ends)
        least = 2 * outer
        return blanked(lower, counted, least), blanked(upper, counted, least)
