"""The mean: the transformed noise of Kulesza, Suresh and Wang (2023), and the papers' other forms.

Within bounds `method` is "transformed" (Algorithm 3), "shifted" (Algorithm 2) or "independent"
(Algorithm 1). Without, bounds are found privately: at octave edges ("transformed"), or by rank
("subset", and "dick" in the form of Dick et al. 2023, Algorithm 3: `mean_by_rank.py`); "inverse"
finds them at octave edges too, and selects the mean within them by inverse sensitivity
(Algorithm 5: `inverse.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.estimator import CountEstimator, Foreseen, RatioEstimator
from dfprivacy.measurement.grid import Grid, grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import CountWeights, Linear, OnGrid, Source
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import LinearStatistic
from dfprivacy.terms import Bounds, BoundsLike

BOUNDED_METHODS = ("transformed", "shifted", "independent")
UNBOUNDED_METHODS = ("transformed", "subset", "dick", "inverse")
MEAN_METHODS = tuple(dict.fromkeys((*BOUNDED_METHODS, *UNBOUNDED_METHODS)))


@dataclass(frozen=True)
class Mean(LinearStatistic):
    """The mean of a column, each value clipped to the bounds (units of the column).

    The number of rows stays secret. Source: Kulesza, Suresh and Wang 2023, Algorithm 3
    (`method="transformed"`), 2 (`"shifted"`) or 1 (`"independent"`). Without bounds, bounds are
    found privately: at powers of two, or by rank (`"subset"`; `"dick"`, Dick et al. 2023,
    Algorithm 3); `"inverse"` selects the mean within them (their Algorithm 5).
    """

    kind: ClassVar[str] = "mean"
    aliases: ClassVar[tuple[str, ...]] = ("average", "avg")
    sql_aliases: ClassVar[tuple[str, ...]] = ("avg",)
    title: ClassVar[str] = "the mean"
    example: ClassVar[str] = 'df.dp.mean("x", (0, 100), epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)
    method: str = argument(
        "transformed (most accurate), shifted or independent with bounds; transformed, subset, "
        "dick or inverse (no interval) without.",
        choices=MEAN_METHODS,
    )

    def check(self) -> None:
        """Check that bounds and method go together.

        Raises
        ------
        MissingBoundsError
            When the method needs bounds and there are none.
        InvalidQuestionError
            When the method finds bounds and there are some.
        """
        if self.bounds is None and self.method not in UNBOUNDED_METHODS:
            self.required_bounds()
        if self.bounds is not None and self.method not in BOUNDED_METHODS:
            raise InvalidQuestionError(
                f"the method {self.method!r} finds its own bounds", hint="leave bounds out"
            )

    def completed(self, bounds: Bounds | None) -> Mean:
        """Take the bounds that the terms of a frame know, unless the method finds its own."""
        return super().completed(bounds) if self.method in BOUNDED_METHODS else self

    @property
    def finds_bounds(self) -> bool:
        """Tell whether octaves give it bounds."""
        return self.bounds is None and self.method == "transformed"

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return two sums whose ratio is the mean: for "transformed", of q and of K - q."""
        bounds = self.required_bounds()
        if self.method == "independent":  # the sum of x, and W times the rows
            q = OnGrid(self.column, grid_from_zero(bounds))
            w = q.grid.largest
            source, weights = Source(q.columns, (q,)), CountWeights((1,), w)
            return Linear(source, ((0, 1), (w, 0)), 2 * w, 2 * w * w, weights)
        q = OnGrid(self.column, grid_from_lower(bounds))
        k = q.grid.last
        if self.method == "shifted":  # the sum of 2q - K, and K times the rows
            source, weights = Source(q.columns, (q,)), CountWeights((1,), k)
            return Linear(source, ((-k, 2), (k, 0)), 2 * k, 2 * k * k, weights)
        return Linear.unity((q,), ((0, 1), (k, -1)), k)

    def estimator(self, linear: Linear) -> RatioEstimator:
        """Return the ratio of the two sums."""
        (q,) = linear.source.terms
        assert isinstance(q, OnGrid)  # noqa: S101 `linear` has made it
        return _ratio(self.method, q.grid)

    def carried(self, other: Statistic, linear: Linear) -> Foreseen | None:
        """Return the count of the column, which comes with the transformed noise."""
        if self.method != "transformed" or other != Count(self.column) or linear.count is None:
            return None
        return CountEstimator(linear.count)

    @property
    def halve(self) -> tuple[str, ...]:
        """Narrower bounds, or more rows."""
        narrower = () if self.bounds is None else ("halve the width of the bounds",)
        return (*narrower, "double the number of rows")

    def part(self, name: str, *, grouped: bool) -> Any:
        """Return how it is measured alone: by rank and by inverse sensitivity in other files."""
        if self.method in {"subset", "dick"}:
            from dfprivacy.statistics.mean_by_rank import SubsetPart  # noqa: PLC0415 it reads this

            return SubsetPart(name, self, grouped)
        if self.method == "inverse":
            from dfprivacy.statistics.inverse import MonotonePart  # noqa: PLC0415 it reads this

            return MonotonePart(name, self, grouped)
        return super().part(name, grouped=grouped)


def _ratio(method: str, grid: Grid) -> RatioEstimator:
    width = grid.last * grid.step
    if method == "transformed":
        return RatioEstimator((1, 0), (1, 1), 0.0, 1.0, width, grid)
    if method == "shifted":
        return RatioEstimator((1, 0), (0, 1), -1.0, 1.0, width / 2, grid, offset=width / 2)
    largest = grid.largest
    least, most = grid.first / largest, grid.last / largest
    return RatioEstimator((1, 0), (0, 1), least, most, largest * grid.step, grid)
