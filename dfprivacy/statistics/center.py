"""Select the l_p center of a column by inverse sensitivity (`inverse.py`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bounds import BoundsLike, bounds_of
from dfprivacy.measurement.exact import center_power
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.estimators.monotone import CentreLength
from dfprivacy.statistics.inverse import MonotonePart

CENTER_METHODS = ("octaves", "dick")


@dataclass(frozen=True)
class Center(Statistic):
    """The l_p center of a column, p > 1: the c that minimizes the sum of abs(x - c)**p.

    p = 2 is the mean; values beyond `bounds`, where there are some, are clipped to them. Without,
    bounds are found at octave edges (`method="octaves"`) or by rank, as in Dick et al. 2023,
    Algorithm 4 (`"dick"`). The center within them is selected by their Algorithm 5.
    """

    kind: ClassVar[str] = "center"
    title: ClassVar[str] = "the l_p center"
    example: ClassVar[str] = 'df.dp.center("x", 1.5, epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    p: float = argument(
        "The power, above 1. 2 is the mean; nearer to 1, outliers move it less.", sample=2
    )
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)
    method: str = argument(
        "How bounds are found when left out: at powers of two (octaves) or by rank (dick).",
        choices=CENTER_METHODS,
    )

    def __post_init__(self) -> None:
        center_power(self.p)
        super().__post_init__()
        if self.bounds and self.method != "octaves":
            raise InvalidQuestionError(
                "a center has no such method",
                hint="leave method out; method='dick' finds bounds by rank, and takes none",
            )

    def completed(self, bounds_by_column: Mapping[Hashable, object]) -> Center:
        """Take the bounds that the terms of a frame know, unless it finds its own."""
        return self if self.method == "dick" else super().completed(bounds_by_column)

    def part(self, name: str, *, grouped: bool) -> MonotonePart:
        """Return the mechanism that selects the center."""
        law, by_rank = CentreLength(self.p), self.method == "dick"
        return MonotonePart(name, self, grouped, law, bounds_of(self.bounds), by_rank=by_rank)
