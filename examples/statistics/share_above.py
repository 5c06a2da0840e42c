"""The share of the values above a public threshold, as a statistic of one's own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dfprivacy.statistics import Above, Linear, LinearStatistic, ProportionEstimator, argument


@dataclass(frozen=True)
class ShareAbove(LinearStatistic):
    """The share of the values of a column that exceed a public threshold, from 0 to 1.

    A row adds (1, 0) above the threshold and (0, 1) up to it: one row moves the sums by 1.
    """

    kind: ClassVar[str] = "share_above"
    title: ClassVar[str] = "the share of values above a threshold"
    example: ClassVar[str] = 'df.dp.share_above("x", 60, epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    threshold: float = argument("What values have to exceed, in units of the column.", sample=60)

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the rows above, and the others."""
        above = Above(self.column, float(self.threshold))
        return Linear.unity((above,), ((0, 1), (1, -1)), 1)

    def estimator(self, linear: Linear) -> ProportionEstimator:  # noqa: ARG002 nothing to look up
        """Return the rows above as a part of all rows."""
        return ProportionEstimator(2, 0, 1)

    def unit(self, *, found_bounds: bool = False) -> str:  # noqa: ARG002 nothing is found
        """Return the unit in which a share is measured."""
        return "parts of the rows"
