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
from dfprivacy.estimators.octave_bounds import find_bounds
from dfprivacy.estimators.quantile import (
    outer_rows,
    rankable_rows,
    select_quantiles,
)
from dfprivacy.estimators.threshold import SIDES, select_thresholds
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.parts.part import Answered, ColumnPart, Grouping, MeasuredTable
from dfprivacy.parts.table_count import COUNT_SHARE, blanked, noisy_rows
from dfprivacy.rank_questions import PrivateBounds, Quantile, Quantiles
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
        """Count the rows of each group by value."""
        grid = grid_for(adopted, self.question.column, grouped=self.grouped)
        return MeasuredRanks(self, self.value_table(adopted, grouping, grid))


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
        if self.question.rank is None:
            table = run_bins(adopted, grouping.by, column, Octaves(), public=grouping.public)
            return MeasuredBounds(self, table)
        grid = grid_for(adopted, column, grouped=self.grouped)
        return MeasuredBounds(self, self.value_table(adopted, grouping, grid))


@dataclass(frozen=True, repr=False)
class MeasuredBounds(MeasuredTable):
    """An octave table, or a value-count table in memory or in files. Secret."""

    part: BoundsPart

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Count, then find both ends; where too few rows are there is no answer."""
        counted = noisy_rows(self.table, loss.share(COUNT_SHARE))
        find = self._by_octaves if self.part.question.rank is None else self._by_rank
        lower, upper = find(loss.share(1 - COUNT_SHARE), counted)
        ends = (Chosen("lower", lower), Chosen("upper", upper))
        return Answered(self.keys, {self.part.name: ends}, counted)

    def _by_octaves(self, loss: Epsilon | Rho, _: Counted) -> Column:
        """Return both ends at octave edges, a row each."""
        found = [find_bounds(block, loss.pure()) for block in self.table.blocks()]
        return np.concatenate([(own.lower, own.upper) for own in found], axis=1)

    def _by_rank(self, loss: Epsilon | Rho, counted: Counted) -> Column:
        """Return both ends by rank, a row each: at a rank that a selection can tell from 0."""
        grid, rank = self.table.binning, self.part.question.rank
        assert isinstance(grid, SignificantBits)  # noqa: S101 the part has chosen it
        assert rank is not None  # noqa: S101 the caller has looked
        half = loss.share(Fraction(1, 2))
        outer = outer_rows(half.selection(1), 1, 2 * grid.last + 1)
        chosen = [
            [select_thresholds(block, max(int(rank), outer), half, side) for side in SIDES]
            for block in self.table.blocks()
        ]
        ends = grid.values(np.sort(np.concatenate(chosen, axis=1), axis=0))
        return blanked(ends, counted, 2 * outer)
