"""Quantiles, means and centres by inverse sensitivity: Dick et al. 2023, Algorithms 4 and 5.

Quantiles are selected on all of the grid, means and centres within bounds: given ones, or octave
bounds found with a part of the loss, which hold from far fewer rows on than those of Algorithm 4
(`center(method="dick")`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.estimators.monotone import (
    CentreLength,
    QuantileLength,
    monotone_estimate,
    select_monotone,
    select_order_statistic,
)
from dfprivacy.estimators.octave_bounds import SHARE, find_bounds
from dfprivacy.estimators.quantile import far_rows, outer_rows
from dfprivacy.estimators.threshold import values_grid
from dfprivacy.forecast.forecast import Circumstances, Forecast, halving
from dfprivacy.measurement.bin_table import BinTable, rebinned
from dfprivacy.measurement.binning import Binning, Octaves, SignificantBits
from dfprivacy.noise.keys import KeyRule
from dfprivacy.release.answers import Chosen, Column
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.center import Center
from dfprivacy.statistics.mean import Mean
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    Answered,
    Bins,
    ColumnPart,
    Grouping,
    MeasuredTable,
    blanked,
    noisy_rows,
)
from dfprivacy.statistics.quantile import NO_INTERVAL, Median, Quantile, rows_reach
from dfprivacy.terms import Bounds, bounds_of

WHOLE_BITS = 16
GROUP_BITS = 12


@dataclass(frozen=True)
class MonotonePart(ColumnPart):
    """One question about a monotone property; its answer has no interval."""

    question: Any

    @property
    def grid(self) -> SignificantBits:
        """The public grid that values are rounded to: coarser by group."""
        return SignificantBits(GROUP_BITS if self.grouped else WHOLE_BITS)

    @property
    def tables(self) -> tuple[Bins, ...]:
        """The one way its table counts."""
        return ((self.grid, 0),)

    def measured(self, table: BinTable) -> MeasuredProperty:
        """Return what it would have measured, from its table."""
        return MeasuredProperty(self, table)

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredProperty:
        """Count the rows of each group by value."""
        return MeasuredProperty(self, self.value_table(adopted, grouping, self.grid))

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast: from which sizes on there is an answer."""
        rest, question = loss.share(1 - COUNT_SHARE), self.question
        made = Forecast(
            self.name, asked[self.name].text, "a selection by inverse sensitivity",
            halve=halving(asked[self.name], known), remarks=(NO_INTERVAL,),
        )  # fmt: skip
        if isinstance(question, Median | Quantile):
            grid = self.grid
            off = outer_rows(rest.selection(1), 1, 2 * grid.last + 1)
            least = far_rows(question.fractions[0], off)
            return [replace(made, answered=rows_reach(loss, least))]
        if isinstance(question, Center) and (question.bounds or question.method == "dick"):
            return [made]
        found = bounds_reach(rest.share(SHARE).pure())
        return [replace(made, answered=found).noted("sizes count the rows of one octave")]


@dataclass(frozen=True, repr=False)
class MeasuredProperty(MeasuredTable):
    """A value-count table, in memory or in files. Secret."""

    part: MonotonePart

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Count, then select the property's value for each group."""
        counted = noisy_rows(self.table, loss.share(COUNT_SHARE))
        rest, question = loss.share(1 - COUNT_SHARE), self.part.question
        values = np.concatenate([_chosen(block, question, rest) for block in self.table.blocks()])
        if isinstance(question, Median | Quantile):
            values = blanked(values, counted, _rows_for(question, self.table.binning, rest))
        answer = Chosen(self.part.name, values)
        return Answered(self.keys, {answer.name: (answer,)}, counted)


def _chosen(table: BinTable, question: Statistic, loss: Epsilon | Rho) -> Column:
    """Select the property's value for each group of a table; their losses are parallel."""
    if isinstance(question, Median | Quantile):
        return _order_statistics(table, QuantileLength(question.fractions[0]), loss)
    assert isinstance(question, Mean | Center)  # noqa: S101 nothing else is left
    assert isinstance(question, Mean | Center)  # noqa: S101 nothing else is left
    centre = CentreLength(2 if isinstance(question, Mean) else question.p)
    if isinstance(question, Center) and question.method == "dick":
        values = (monotone_estimate(centre, *held, loss) for held in table.held())
        return np.fromiter(values, np.float64, table.groups)
    bounds = bounds_of(question.bounds) if isinstance(question, Center) else None
    return _within_bounds(table, centre, bounds, loss)


def _order_statistics(table: BinTable, law: QuantileLength, loss: Epsilon | Rho) -> Column:
    """Select quantiles on all of the grid."""
    grid = values_grid(table)
    numbers = [
        select_order_statistic(law, table.bins[own], table.rows[own], grid.last, loss)
        for own in table.slices()
    ]
    return grid.values(np.array(numbers, dtype=np.int64))


def _rows_for(question: Median | Quantile, binning: Binning, loss: Epsilon | Rho) -> int:
    """Return the number of rows below which a quantile is mostly noise."""
    assert isinstance(binning, SignificantBits)  # noqa: S101 the part has chosen it
    off = outer_rows(loss.selection(1), 1, 2 * binning.last + 1)
    return far_rows(question.fractions[0], off)


def _within_bounds(
    table: BinTable, centre: CentreLength, bounds: Bounds | None, loss: Epsilon | Rho
) -> Column:
    """Select within given bounds, or within octave bounds found first; NaN without any."""
    ends: Iterable[tuple[float, float]]
    if bounds is not None:
        ends = itertools.repeat((bounds.lower, bounds.upper), table.groups)
    else:
        found = find_bounds(rebinned(table, Octaves()), loss.share(SHARE).pure())
        ends = zip(found.lower.tolist(), found.upper.tolist(), strict=True)
        loss = loss.share(1 - SHARE)
    values = (
        math.nan if math.isnan(domain[0]) else select_monotone(centre, *held, domain, loss)
        for held, domain in zip(table.held(), ends, strict=True)
    )
    return np.fromiter(values, np.float64, table.groups)
