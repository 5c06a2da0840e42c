"""Select quantiles, means and centers by inverse sensitivity: Dick et al. 2023, Algorithms 4 and 5.

Quantiles are selected on all of the grid, means and centers
within bounds: given ones, or octave bounds found with a part of the loss, which hold from far fewer
rows on than those of Algorithm 4 (`center(method="dick")`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, rebinned
from dfprivacy.measurement.binning import Octaves
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.release.answers import Answered, Chosen, Column
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.estimators.bounds_search import LOOK_SHARE, find_dyadic_bounds
from dfprivacy.statistics.estimators.monotone import (
    CentreLength,
    QuantileLength,
    monotone_estimate,
    select_monotone,
    select_order_statistic,
)
from dfprivacy.statistics.estimators.quantile import far_rows, outer_rows
from dfprivacy.statistics.estimators.threshold import values_grid
from dfprivacy.statistics.forecast import Circumstances, Forecast
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    NO_INTERVAL,
    ColumnPart,
    MeasuredTable,
    blank_small_groups,
    noisy_rows,
    rows_reach,
)


@dataclass(frozen=True)
class MonotonePart(ColumnPart):
    """A property selected by inverse sensitivity: a quantile, or a center within bounds."""

    law: QuantileLength | CentreLength
    bounds: Bounds | None = None
    by_rank: bool = False

    def forecasts(
        self,
        loss: Epsilon | Rho,
        statistics: Mapping[str, Statistic],
        circumstances: Circumstances,  # noqa: ARG002
    ) -> list[Forecast]:
        """Return the forecast: from which sizes on there is an answer."""
        rest = loss.share(1 - COUNT_SHARE)
        forecast = Forecast(
            self.name,
            statistics[self.name].text,
            "a selection by inverse sensitivity",
            remarks=(NO_INTERVAL,),
        )
        if isinstance(self.law, QuantileLength):
            return [replace(forecast, answered=rows_reach(loss, self._rows_for(self.law, rest)))]
        if self.bounds or self.by_rank:
            return [forecast]
        smallest = bounds_reach(rest.share(LOOK_SHARE))
        return [replace(forecast, answered=smallest).noted("sizes count the rows of one octave")]

    def answered(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Count, then select the property's value for each group."""
        counted, rest = (
            noisy_rows(measured.table, loss.share(COUNT_SHARE)),
            loss.share(1 - COUNT_SHARE),
        )
        values = self._chosen(measured.table, rest)
        if isinstance(self.law, QuantileLength):
            values = blank_small_groups(values, counted, self._rows_for(self.law, rest))
        return Answered(measured.keys, {self.name: (Chosen(self.name, values),)}, counted)

    def _rows_for(self, law: QuantileLength, loss: Epsilon | Rho) -> int:
        """Return the number of rows below which a quantile is mostly noise."""
        return far_rows(Fraction(law.q), outer_rows(loss.selection(1), self.candidates()))

    def _chosen(self, table: BinTable, loss: Epsilon | Rho) -> Column:
        """Select the property's value for each group of a table; their losses are parallel."""
        law, values = self.law, []
        if isinstance(law, QuantileLength):
            grid = values_grid(table)
            numbers = [
                select_order_statistic(law, table.bins[rows], table.rows[rows], grid.last, loss)
                for rows in table.slices()
            ]
            return grid.values(np.array(numbers, dtype=np.int64))
        if self.by_rank:
            values = [
                monotone_estimate(law, *values_and_counts, loss)
                for values_and_counts in table.held()
            ]
        else:
            values = self._within_bounds(law, table, loss)
        return np.array(values, dtype=np.float64)

    def _within_bounds(
        self, law: CentreLength, table: BinTable, loss: Epsilon | Rho
    ) -> list[float]:
        """Select within given bounds, or within octave bounds found first; NaN without any."""
        ends: Iterable[tuple[float, float]]
        if self.bounds is not None:
            ends = itertools.repeat((self.bounds.lower, self.bounds.upper), table.groups)
        else:
            octave_bounds = find_dyadic_bounds(rebinned(table, Octaves()), loss.share(LOOK_SHARE))
            ends = zip(octave_bounds.lower.tolist(), octave_bounds.upper.tolist(), strict=True)
            loss = loss.share(1 - LOOK_SHARE)
        return [
            math.nan
            if math.isnan(domain[0])
            else select_monotone(law, *values_and_counts, domain, loss)
            for values_and_counts, domain in zip(table.held(), ends, strict=True)
        ]
