"""Quantiles, means and centres by inverse sensitivity: Dick et al. 2023, Algorithms 4 and 5.

Quantiles are selected on all of the grid, means and centres within bounds: given ones, or octave
bounds found with a part of the loss, which hold from far fewer rows on than those of Algorithm 4
(`center(method="dick")`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Chosen, Column, Counted
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.estimators.inverse_sensitivity import (
    CentreLength,
    MeanLength,
    MonotoneProperty,
    QuantileLength,
)
from dfprivacy.estimators.monotone import (
    monotone_estimate,
    select_monotone,
    select_order_statistic,
)
from dfprivacy.estimators.octave_bounds import SHARE, find_bounds
from dfprivacy.estimators.quantile import far_rows, outer_rows
from dfprivacy.estimators.threshold import values_grid
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.parts.part import Answered, ColumnPart, Grouping, MeasuredTable
from dfprivacy.parts.table_count import COUNT_SHARE, blanked, noisy_rows
from dfprivacy.questions import Mean
from dfprivacy.rank_questions import Center, Quantile
from dfprivacy.statistics.bin_table import BinTable, rebinned
from dfprivacy.statistics.binning import Floats, Integers, Octaves, SignificantBits

WHOLE_BITS = 16
GROUP_BITS = 12


def property_of(question: Quantile | Mean | Center) -> MonotoneProperty:
    """Return the property that a question asks for."""
    if isinstance(question, Quantile):
        return QuantileLength(question.fractions[0])
    return MeanLength() if isinstance(question, Mean) else CentreLength(question.p)


@dataclass(frozen=True)
class MonotonePart(ColumnPart):
    """One question about a monotone property; its answer has no interval."""

    question: Quantile | Mean | Center

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredProperty:
        """Run the pass: one GROUP BY the keys and the rounded value."""
        grid = SignificantBits(GROUP_BITS if self.grouped else WHOLE_BITS)
        column = self.question.column
        table = run_bins(adopted, grouping.by, column, grid, public=grouping.public)
        return MeasuredProperty(self, table)


@dataclass(frozen=True, repr=False)
class MeasuredProperty(MeasuredTable):
    """A value-count table. Secret."""

    part: MonotonePart
    table: BinTable

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Count, then select the property's value for each group."""
        counted = noisy_rows(self.table, loss.share(COUNT_SHARE))
        rest = loss.share(1 - COUNT_SHARE)
        question = self.part.question
        if isinstance(question, Quantile):
            values = self._order_statistics(question, rest, counted)
        elif isinstance(question, Center) and question.method == "dick":
            values = self._by_group(
                lambda values, rows: monotone_estimate(self._property, values, rows, rest)
            )
        else:
            values = self._within_bounds(rest)
        answer = Chosen(self.part.name, values)
        return Answered(self.keys, {answer.name: (answer,)}, counted)

    @property
    def grid(self) -> SignificantBits:
        """The grid of the values."""
        return values_grid(self.table)

    @property
    def _property(self) -> MonotoneProperty:
        return property_of(self.part.question)

    def _order_statistics(
        self, question: Quantile, loss: Epsilon | Rho, counted: Counted
    ) -> Column:
        """Select quantiles on all of the grid."""
        law = QuantileLength(question.fractions[0])
        numbers = [
            select_order_statistic(law, self.table.bins[own], self.table.rows[own], last, loss)
            for own, last in ((own, self.grid.last) for own in self._slices())
        ]
        off = outer_rows(loss.selection(1), 1, 2 * self.grid.last + 1)
        least = far_rows(question.fractions[0], off)
        return blanked(self.grid.values(np.array(numbers, dtype=np.int64)), counted, least)

    def _within_bounds(self, loss: Epsilon | Rho) -> Column:
        """Select within given bounds, or within octave bounds found first; NaN without any."""
        question = self.part.question
        if isinstance(question, Center) and question.bounds is not None:
            size = self.table.groups
            lower = np.full(size, question.bounds.lower)
            upper = np.full(size, question.bounds.upper)
        else:
            found = find_bounds(rebinned(self.table, Octaves()), loss.share(SHARE).pure())
            lower, upper, loss = found.lower, found.upper, loss.share(1 - SHARE)
        ends = iter(zip(lower.tolist(), upper.tolist(), strict=True))
        return self._by_group(lambda *held: _selected(self._property, held, next(ends), loss))

    def _by_group(self, value: Callable[[Floats, Integers], float]) -> Column:
        return np.array(
            [
                value(self.grid.values(self.table.bins[own]), self.table.rows[own])
                for own in self._slices()
            ],
            dtype=np.float64,
        )

    def _slices(self) -> Iterator[slice]:
        starts = self.table.starts().tolist()
        return (slice(first, stop) for first, stop in itertools.pairwise(starts))


def _selected(
    functional: MonotoneProperty,
    held: tuple[Floats, Integers],
    domain: tuple[float, float],
    loss: Epsilon | Rho,
) -> float:
    if math.isnan(domain[0]):
        return math.nan
    return select_monotone(functional, *held, domain, loss)
