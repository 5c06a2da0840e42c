"""Find bounds of a column privately: at octave edges, or of a given rank from either end."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.binning import Octaves, SignificantBits
from dfprivacy.measurement.exact import whole_number
from dfprivacy.noise.laws import find_scale, name_law
from dfprivacy.release.answers import Answered, Chosen
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.estimators.bounds_search import POLICY, find_dyadic_bounds
from dfprivacy.statistics.estimators.quantile import SIDES, outer_rows, select_thresholds
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    NO_INTERVAL,
    Circumstances,
    ColumnPart,
    Forecast,
    MeasuredTable,
    blank_small_groups,
    noisy_rows,
    rows_reach,
)
from dfprivacy.statistics.quantile import RANKS, name_selection, rank_half_widths


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
