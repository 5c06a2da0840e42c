"""Count rows, values and different values, and the share of one value: a row moves a count by 1."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from dfprivacy.measurement.linear import WHOLE, CountWeights, Distinct, Equal, Linear, Source
from dfprivacy.release.estimator import CountEstimator, ForecastableEstimator, ProportionEstimator
from dfprivacy.release.terms import Unit
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.linear import LinearStatistic
from dfprivacy.statistics.part import Circumstances


@dataclass(frozen=True)
class Count(LinearStatistic):
    """The number of rows, or of values of a column that are neither NULL nor NaN.

    Sensitivity 1; unbiased; may be negative.
    """

    kind: ClassVar[str] = "count"
    aliases: ClassVar[tuple[str, ...]] = ("len", "size")
    sql_names: ClassVar[tuple[str, ...]] = ("count",)
    is_whole: ClassVar[bool] = True
    title: ClassVar[str] = "the number of rows, or of values of a column"
    units: ClassVar[str] = "rows"
    example: ClassVar[str] = "df.dp.count(epsilon=1)"

    column: Hashable = argument(
        "The column whose values are counted; rows, if it is left out.", None
    )

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 it counts
        """Return one coordinate that a row moves by 1."""
        columns = () if self.column is None else (self.column,)
        return Linear(Source(columns), ((1,),), 1, 1, CountWeights((0,), 1))

    def estimator(self, linear: Linear) -> CountEstimator:
        """Return the count that the vector carries."""
        assert linear.count is not None  # noqa: S101 a count counts
        return CountEstimator(linear.count)

    percent_base = Statistic.percent_base  # the rows


WEIGHT = 5
"""By group the rows are counted too, with a sixth of the loss: values weigh five times as much."""


@dataclass(frozen=True)
class NUnique(LinearStatistic):
    """The number of different values of a column of any type; NULL and NaN are none.

    Sensitivity 1: a row more adds its value, or one that is there already. By group the rows are
    counted as well, with a sixth of the loss. With a unit of several rows, at most `max_rows`
    different values of a unit count in a group, and the answer is about the values that count; of
    the unit's own column it is the number of units, which one unit moves by 1 whatever its rows
    are. Unbiased for what counts, but never below 0. docs/how-to/frequencies.md has the proofs.
    """

    kind: ClassVar[str] = "nunique"
    aliases: ClassVar[tuple[str, ...]] = ("n_unique", "count_distinct", "approx_n_unique")
    sql_names: ClassVar[tuple[str, ...]] = ("count_distinct", "approx_count_distinct")
    is_whole: ClassVar[bool] = True
    adds_up: ClassVar[bool] = False
    title: ClassVar[str] = "the number of distinct values"
    units: ClassVar[str] = "distinct values"
    example: ClassVar[str] = 'df.dp.nunique("x", epsilon=1)'

    column: Hashable = argument("The column whose distinct values are counted.")

    def linear(self, *, grouped: bool) -> Linear:
        """Return the values, each once; by group the rows beside them, which a row moves by 1."""
        values = Source((self.column,), (Distinct(self.column),))
        if not grouped:
            return Linear(values, ((0, 1),), 1, 1)
        moves = (WEIGHT + 1, WEIGHT**2 + 1)
        return Linear(values, ((0, WEIGHT), (1, 0)), *moves, CountWeights((1,), 1))

    def estimator(self, linear: Linear) -> CountEstimator:
        """Return the number of values."""
        return CountEstimator(CountWeights((0,), linear.matrix[0][1]), nonnegative=True)

    def counts_units(self, unit: Unit | None) -> bool:
        """Check whether the values are the privacy units themselves."""
        return unit is not None and unit.column == self.column

    def add_remarks(self, circumstances: Circumstances) -> tuple[str, ...]:
        """Return remarks on rows that belong to units."""
        if circumstances.unit is None:
            return ()
        if self.counts_units(circumstances.unit):
            return (f"this is the number of units: each value of {self.column!r} is one",)
        return (
            f"of each unit at most max_rows={circumstances.unit.max_rows} values count in a group",
        )

    percent_base = Statistic.percent_base  # the rows


@dataclass(frozen=True)
class ChosenUnits(NUnique):
    """The number of units that have a value in a column: each is the unit itself, or NULL.

    With one row of a unit in a group it is the number of values: a unit moves it by 1.
    """

    def linear(self, *, grouped: bool) -> Linear:
        """Return one coordinate that a row with a value moves by 1."""
        return Count(self.column).linear(grouped=grouped)

    def counts_units(self, unit: Unit | None) -> bool:
        """Check whether there are units."""
        return unit is not None


@dataclass(frozen=True)
class Share(LinearStatistic):
    """The share of the values of a column that are `value`, from 0 to 1; printed as a percentage.

    Of booleans it is the share that is true. Rows without a value are left out: it is a share of
    the values. A row adds (1, 0) where it holds the value and (0, 1) where it holds
    another: it moves these sums by 1, and they count the values as well. The interval is Fieller's.
    """

    kind: ClassVar[str] = "share"
    aliases: ClassVar[tuple[str, ...]] = ("proportion", "fraction", "rate", "percentage")
    title: ClassVar[str] = "the share of values that are true, or equal a constant"
    units: ClassVar[str] = "parts of the values"
    example: ClassVar[str] = 'df.dp.share("city", "Rome", epsilon=1)'

    column: Hashable = argument("The column, of any type that can be grouped by.")
    value: Any = argument("The constant that is counted, of the column's own type.", True)  # noqa: FBT003 a constant

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the values that are the constant, and the others."""
        equal = Equal(self.column, self.value, type(self.value).__name__)
        return Linear.unity((equal,), ((0, 1), (WHOLE, -1)), WHOLE)

    def estimator(self, linear: Linear) -> ProportionEstimator:  # noqa: ARG002 nothing to look up
        """Return the first sum as a part of both."""
        return ProportionEstimator(2, 0, WHOLE)

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:
        """Return the count of the column."""
        if other != Count(self.column) or linear.count is None:
            return None
        return CountEstimator(linear.count)
