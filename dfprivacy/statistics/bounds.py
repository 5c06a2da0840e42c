"""Select the l_p center of a column, or bounds that hold nearly all of its values.

The center is selected by inverse sensitivity (Dick et al. 2023, Algorithm 5) within bounds: given
ones, or octave bounds that a part of the loss finds first. Bounds lie at octave edges, or have a
given rank from either end.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable, rebin
from dfprivacy.measurement.binning import Octaves, SignificantBits
from dfprivacy.measurement.bounds import BoundsLike, read_bounds
from dfprivacy.measurement.exact import center_power, whole_number
from dfprivacy.noise.laws import find_scale, name_law
from dfprivacy.release.answers import Answered, Chosen, Column, Counted
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.estimators.bounds_search import LOOK_SHARE, POLICY, find_dyadic_bounds
from dfprivacy.statistics.estimators.monotone import CentreLength, select_monotone
from dfprivacy.statistics.estimators.quantile import SIDES, outer_rows, select_thresholds
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    NO_INTERVAL,
    Circumstances,
    ColumnPart,
    Forecast,
    MeasuredTable,
    Reach,
    blank_small_groups,
    noisy_rows,
    rows_reach,
)
from dfprivacy.statistics.quantile import RANKS, name_selection, rank_half_widths


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


@dataclass(frozen=True)
class PrivateBounds(Statistic):
    """Private bounds (lower, upper) that hold nearly all values of a column.

    Powers of two and zero, off a noisy histogram of octaves; NaN where there are too few rows. With
    `rank`, the values that have about so many rows beyond them at either end (Dick et al. 2023,
    Corollary 3.8); a rank that a selection can't tell from 0 is raised.
    """

    kind: ClassVar[str] = "bounds"
    answers_one: ClassVar[bool] = False
    title: ClassVar[str] = "bounds that hold nearly all values"
    example: ClassVar[str] = 'df.dp.bounds("x", epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    rank: int | None = argument(
        "The number of rows beyond each end, about. Nearly none when left out.", None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank is not None:
            what = "a rank must be a whole number of rows, from 1 on"
            hint = "pass e.g. rank=100, chosen without looking at the data"
            whole_number(self.rank, 1, 2**31 - 1, InvalidQuestionError, what, hint=hint)

    def titles(self, name: str) -> tuple[str, ...]:  # noqa: ARG002 the ends have names of their own
        """Return the titles of the two ends."""
        return ("lower", "upper")

    suffixes = ("_lower", "_upper")

    def gather(self, numbers: Sequence[Any]) -> tuple[Any, ...]:
        """Return both ends."""
        return tuple(numbers)

    def part(self, name: str, *, grouped: bool) -> BoundsPart:
        """Return the mechanism that finds both ends."""
        return BoundsPart(name, self, grouped)


@dataclass(frozen=True)
class BoundsPart(ColumnPart):
    """A question about private bounds: at octave edges, or of a given rank from either end."""

    question: PrivateBounds

    def binning(self) -> Octaves | SignificantBits:
        """Return octaves, or the values that are ranked."""
        return Octaves() if self.question.rank is None else super().binning()

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of both ends: at octave edges, or by rank."""
        rest = loss.share(1 - COUNT_SHARE)
        if self.question.rank is None:
            noise = rest.noise(1, 1)
            heights = POLICY.join, POLICY.join + POLICY.doubling
            plain, doubling = (math.ceil(height * find_scale(noise)) for height in heights)
            joins = f"from about {plain:,} rows on, {doubling:,} where it doubles the bounds"
            return [
                Forecast(
                    self.name,
                    f"a noisy histogram of octaves ({name_law(noise)})",
                    scale=find_scale(noise),
                    scale_unit="rows, on each octave",
                    answered=bounds_reach(rest),
                    remarks=(
                        "sizes count the rows of one octave, from a power of two to the next",
                        f"an octave is included {joins}, and more for each further doubling",
                    ),
                )
            ]
        law = rest.share(Fraction(1, 2)).selection(1)
        outer = outer_rows(law, self.candidates())
        rank, answered = max(int(self.question.rank), outer), rows_reach(loss, 2 * outer)
        error = np.full_like(
            circumstances.each_size, math.log(2 / (1 - circumstances.level)) / float(law.rate)
        )
        how = f"two selections by {name_selection(law)}, {rank:,} rows from either end"
        return [
            Forecast(
                self.name,
                how,
                unit=f"{RANKS}, at both ends",
                typical=rank_half_widths(error, answered, circumstances),
                answered=answered,
                remarks=(NO_INTERVAL,),
            )
        ]

    def draw_answer(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Count, then find both ends; where too few rows are there is no answer."""
        counted = noisy_rows(measured.table, loss.share(COUNT_SHARE))
        rest = loss.share(1 - COUNT_SHARE)
        if self.question.rank is None:
            found_bounds = find_dyadic_bounds(measured.table, rest)
            lower, upper = found_bounds.lower, found_bounds.upper
        else:
            half, grid = rest.share(Fraction(1, 2)), SignificantBits(self.whole_bits)
            outer = outer_rows(half.selection(1), self.candidates())
            rank = max(int(self.question.rank), outer)  # one that a selection can tell from 0
            chosen = [select_thresholds(measured.table, rank, half, side) for side in SIDES]
            numbers = grid.values(np.sort(np.stack(chosen), axis=0))
            lower, upper = blank_small_groups(numbers, counted, 2 * outer)
        ends = (Chosen("lower", lower), Chosen("upper", upper))
        return Answered(measured.keys, {self.name: ends}, counted)
