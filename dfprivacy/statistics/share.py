"""Answer which share of the values of a column is true, or is a public constant."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from dfprivacy.measurement.linear import WHOLE, Equal, Linear
from dfprivacy.release.estimator import CountEstimator, ForecastableEstimator, ProportionEstimator
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import LinearStatistic


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
