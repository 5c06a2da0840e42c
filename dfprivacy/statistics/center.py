"""Select the l_p center of a column by inverse sensitivity: Dick et al. 2023, Algorithm 5.

It lies within bounds: given ones, or octave bounds that a part of the loss finds first.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, rebin
from dfprivacy.measurement.binning import Octaves
from dfprivacy.measurement.bounds import BoundsLike, read_bounds
from dfprivacy.measurement.exact import center_power
from dfprivacy.release.answers import Answered, Chosen, Column, Counted
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.estimators.bounds_search import LOOK_SHARE, find_dyadic_bounds
from dfprivacy.statistics.estimators.monotone import CentreLength, select_monotone
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    NO_INTERVAL,
    Circumstances,
    ColumnPart,
    Forecast,
    MeasuredTable,
    Reach,
    noisy_rows,
)


class Selected(Statistic):
    """A statistic of one column whose value inverse sensitivity selects."""

    remarks: Any = (NO_INTERVAL,)
    """Remarks of its forecast."""

    @abstractmethod
    def select(self, table: BinTable, counted: Counted, loss: Epsilon | Rho) -> Column:
        """Select the value of each group; the losses of groups are parallel."""

    def reach(self, loss: Epsilon | Rho) -> Reach | None:  # noqa: ARG002 most have an answer
        """Return the sizes from which on there is an answer; None if there always is."""
        return None

    def part(self, name: str, *, grouped: bool) -> SelectedPart:
        """Return the mechanism that selects the value."""
        return SelectedPart(name, self, grouped)


@dataclass(frozen=True)
class SelectedPart(ColumnPart):
    """A value of each group that inverse sensitivity selects, and a count."""

    question: Selected

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:  # noqa: ARG002
        """Return the forecast: from which sizes on there is an answer."""
        forecast = Forecast(
            self.name,
            "a selection by inverse sensitivity",
            answered=self.question.reach(loss),
            remarks=self.question.remarks,
        )
        return [forecast]

    def draw_answer(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Count, then select."""
        counted = noisy_rows(measured.table, loss.share(COUNT_SHARE))
        values = self.question.select(measured.table, counted, loss.share(1 - COUNT_SHARE))
        return Answered(measured.keys, {self.name: (Chosen(self.name, values),)}, counted)


POWER_DOC = "The power, above 1. 2 is the mean; nearer to 1, outliers move it less."


@dataclass(frozen=True)
class Center(Selected):
    """The l_p center of a column, p > 1: the c that minimizes the sum of abs(x - c)**p.

    p = 2 is the mean; values beyond `bounds`, where there are some, are clipped to them. Without,
    bounds are found at octave edges. The center within them is selected by inverse sensitivity
    (Dick et al. 2023, Algorithm 5).
    """

    kind: ClassVar[str] = "center"
    title: ClassVar[str] = "the l_p center"
    example: ClassVar[str] = 'df.dp.center("x", 1.5, epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    p: float = argument(POWER_DOC, sample=2)
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)

    def __post_init__(self) -> None:
        center_power(self.p)
        super().__post_init__()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks of its forecast."""
        return (NO_INTERVAL, *([] if self.bounds else ["sizes count the rows of one octave"]))

    def reach(self, loss: Epsilon | Rho) -> Reach | None:
        """Return the sizes from which on octave bounds are found."""
        return None if self.bounds else bounds_reach(loss.share((1 - COUNT_SHARE) * LOOK_SHARE))

    def select(
        self,
        table: BinTable,
        counted: Counted,  # noqa: ARG002 one interface
        loss: Epsilon | Rho,
    ) -> Column:
        """Select within given bounds, or within octave bounds found first; NaN without any."""
        ends: Iterable[tuple[float, float]]
        bounds = read_bounds(self.bounds)
        if bounds is not None:
            ends = itertools.repeat((bounds.lower, bounds.upper), table.groups)
        else:
            octave_bounds = find_dyadic_bounds(rebin(table, Octaves()), loss.share(LOOK_SHARE))
            ends = zip(octave_bounds.lower.tolist(), octave_bounds.upper.tolist(), strict=True)
            loss = loss.share(1 - LOOK_SHARE)
        law = CentreLength(self.p)
        values = [
            math.nan
            if math.isnan(domain[0])
            else select_monotone(law, *values_and_counts, domain, loss)
            for values_and_counts, domain in zip(table.values_by_group(), ends, strict=True)
        ]
        return np.array(values, dtype=np.float64)
