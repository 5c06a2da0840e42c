"""Answer means: by the transformed noise of Kulesza, Suresh and Wang (2023), and other forms.

Within bounds `method` is "transformed" (Algorithm 3), "shifted" (2) or "independent" (1). Without,
bounds are found at octave edges ("transformed"; "inverse", which selects the mean within them:
`inverse.py`) or by rank ("subset"; "dick", as printed by Dick et al. 2023:
docs/explanation/subset-optimal.md).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable, Held
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.bounds import Bounds, BoundsLike
from dfprivacy.measurement.grid import grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import CountWeights, Linear, OnGrid, Source
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_noise
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import Answered, Counted, CountPiece, Estimated, Piece
from dfprivacy.release.estimator import CountEstimator, ForecastableEstimator, RatioEstimator
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.estimators.monotone import CentreLength
from dfprivacy.statistics.estimators.threshold import dick_bounds, subset_bounds
from dfprivacy.statistics.forecast import Circumstances, Forecast
from dfprivacy.statistics.inverse import MonotonePart
from dfprivacy.statistics.linear import (
    CLIPPING_DOC,
    LinearStatistic,
    Vectors,
    build_forecast,
    plan_vectors,
)
from dfprivacy.statistics.part import ColumnPart, MeasuredTable
from dfprivacy.statistics.sum import Sum, SumEstimator

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
    sql_names: ClassVar[tuple[str, ...]] = ("avg", "mean")
    title: ClassVar[str] = "the mean"
    example: ClassVar[str] = 'df.dp.mean("x", (0, 100), epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)
    method: str = argument(
        "transformed (most accurate), shifted or independent with bounds; transformed, subset, "
        "dick or inverse (no interval) without.",
        choices=MEAN_METHODS,
    )
    clipping: bool = argument(CLIPPING_DOC, True)  # noqa: FBT003 a default

    def check(self) -> None:
        """Check that bounds and method go together."""
        if self.bounds is None and self.method not in UNBOUNDED_METHODS:
            self.required_bounds()
        if self.bounds is not None and self.method not in BOUNDED_METHODS:
            raise InvalidQuestionError(
                f"the method {self.method!r} finds its own bounds", hint="leave bounds out"
            )

    def completed(self, bounds_by_column: Mapping[Hashable, object]) -> Mean:
        """Take the bounds that the terms of a frame know, unless the method finds its own."""
        return super().completed(bounds_by_column) if self.method in BOUNDED_METHODS else self

    @property
    def finds_bounds(self) -> bool:
        """True if the bounds are found from dyadic bins."""
        return self.bounds is None and self.method == "transformed"

    @property
    def clipping_bounds(self) -> Bounds | None:
        """Bounds whose clipping is reported; None for the methods as printed in the papers."""
        return super().clipping_bounds if self.method == "transformed" else None

    @property
    def has_note(self) -> bool:
        """True if the bounds are found or their clipping is reported."""
        return super().has_note or (self.bounds is None and self.method != "inverse")

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
        grid, width = q.grid, q.grid.last * q.grid.step
        if self.method == "transformed":
            return RatioEstimator((1, 0), (1, 1), 0.0, 1.0, width, grid)
        if self.method == "shifted":
            return RatioEstimator((1, 0), (0, 1), -1.0, 1.0, width / 2, grid, offset=width / 2)
        ends = grid.first / grid.largest, grid.last / grid.largest
        return RatioEstimator((1, 0), (0, 1), *ends, grid.largest * grid.step, grid)

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:
        """Return the count or the sum of the column, which come with the transformed noise."""
        if self.method != "transformed":
            return None
        if isinstance(other, Sum) and replace(other, clipping=True) == Sum(
            self.column, self.bounds
        ):
            grid = grid_from_lower(self.required_bounds())
            ends = grid.anchor + grid.last * grid.step, grid.anchor
            return SumEstimator.of_unity(ends, grid.last, grid)
        assert linear.count is not None  # noqa: S101 both coordinates count
        return CountEstimator(linear.count) if other == Count(self.column) else None

    def part(self, name: str, *, grouped: bool) -> Any:
        """Return how it is measured alone."""
        if self.method in {"subset", "dick"}:
            return SubsetPart(name, self, grouped)
        if self.method == "inverse":
            return MonotonePart(name, self, grouped, CentreLength(2))
        return super().part(name, grouped=grouped)


RADIUS = 1e9
GAMMA = 1e-3
"""Assumptions of `method="dick"`, in units of the column: sizes are at most RADIUS, and an
error of GAMMA / (epsilon * rows) is of no interest."""


CLIPPED_BY_RANK = "clipped by rank: how far the outermost rows lie is not known"
"""The note of a mean whose bounds are ranks: its interval is of the clipped values."""


Found = tuple[Bounds, Epsilon | Rho, str]
"""The bounds of a group, the loss that is left for its mean, and the method of that."""


@dataclass(frozen=True)
class SubsetPart(ColumnPart):
    """A mean whose bounds are found by rank."""

    question: Mean

    has_interval: ClassVar[bool] = True
    whole_bits: ClassVar[int] = 22

    def vectors(self, loss: Epsilon | Rho) -> tuple[Vectors, Epsilon | Rho]:
        """Return the vector of the mean within 0 and 1, and the loss that is left for it."""
        dick = self.question.method == "dick"
        left = Epsilon(loss.pure() * Fraction(3, 10)) if dick else loss.share(Fraction(1, 2))
        mean = Mean(self.question.column, Bounds(0, 1), "shifted" if dick else "transformed")
        return plan_vectors({self.name: mean}, grouped=True), left

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        vectors, left = self.vectors(loss)
        return vectors.count_noise(left)

    def forecasts(
        self, loss: Epsilon | Rho, questions: Mapping[str, Statistic], circumstances: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of a mean within bounds by rank, in widths of them."""
        vectors, left = self.vectors(loss)
        (answer,), (linear,), (noise,) = vectors.answers, vectors.linears, vectors.noises(left)
        unit = "widths of the bounds found"
        forecast = build_forecast(
            answer, (linear, noise), questions[self.name], circumstances, unit=unit
        )
        forecast = replace(
            forecast, mechanism=f"{forecast.mechanism} within bounds from private selections"
        )
        if self.question.method != "dick":
            return [forecast]
        assumption = (
            f"absolute values are taken to be at most {RADIUS:g}, and errors below "
            f"{GAMMA:g}/(epsilon n) are ignored"
        )
        small = "groups too small to find bounds in are averaged within that whole range"
        return [forecast.noted(assumption, small)]

    def answered(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Find bounds, then average within them, group by group."""
        find = _dick if self.question.method == "dick" else _subset
        pieces: list[Piece] = []
        counts: list[CountPiece] = []
        table = measured.table
        for values, bounds in zip(table.held(), find(table, loss), strict=True):
            piece, count = self._mean(len(pieces), values, bounds)
            pieces.append(piece)
            counts.append(count)
        answer = Estimated(self.name, measured.table.groups, tuple(pieces), has_notes=True)
        counted = Counted(measured.table.groups, tuple(counts))
        return Answered(measured.keys, {self.name: (answer,)}, counted)

    def _mean(
        self, group: int, values_and_counts: Held, group_bounds: Found
    ) -> tuple[Piece, CountPiece]:
        bounds, loss, method = group_bounds
        groups, question = np.array([group]), Mean(self.question.column, bounds, method)
        vectors = plan_vectors({self.name: question}, grouped=True)
        exact = _sums(*values_and_counts, vectors.linears[0].source)
        noisy = add_noise(exact, vectors.linears, vectors.noises(loss)).vectors[0]
        _, weights = vectors.counting()
        piece = Piece(groups, vectors.answers[0].estimator, noisy, [CLIPPED_BY_RANK])
        return piece, CountPiece(groups, noisy, weights)


def _subset(table: BinTable, loss: Epsilon | Rho) -> Iterator[Found]:
    half = loss.share(Fraction(1, 2))
    for lower, upper in zip(*subset_bounds(table, half), strict=True):
        yield Bounds(float(lower), float(upper)), half, "transformed"


def _dick(table: BinTable, loss: Epsilon | Rho) -> Iterator[Found]:
    for values, rows in table.held():
        epsilon = Epsilon(loss.pure())
        dick = dick_bounds(values, rows, epsilon=epsilon, radius=RADIUS, gamma=GAMMA)
        yield Bounds(dick.lower, dick.upper), dick.left, "shifted"


def _sums(values: Floats, rows: Integers, source: Source) -> Statistics:
    """Return rows and the sum of grid integers, as a pass with these bounds would have them."""
    (q,) = source.terms
    first = int((q.of(dict.fromkeys(q.columns, values)) * rows).sum())
    sums = {sum_name(0): [int(rows.sum())], sum_name(0, 1): [first]}
    return Statistics(pa.table(sums), 0, (source,)).checked()
