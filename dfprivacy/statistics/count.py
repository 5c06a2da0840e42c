"""The count: rows, or values of a column. Sensitivity 1."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dfprivacy.measurement.linear import CountWeights, Linear, Source
from dfprivacy.release.estimator import CountEstimator
from dfprivacy.statistics.base import argument
from dfprivacy.statistics.linear import LinearStatistic


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

    def whole(self, rows: int) -> float:
        """Return the rows."""
        return float(rows)
