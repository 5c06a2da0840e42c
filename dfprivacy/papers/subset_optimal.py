"""Means within bounds by rank: Dick, Kulesza, Sun and Suresh 2023, Algorithms 1 to 3.

`subset_bounds` has public constants and answers many groups at once. `dick_bounds` has the printed
constants, with a noisy count in place of the secret number of rows, and answers one group. Proofs:
docs/explanation/subset-optimal.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.runs import list_distinct
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_noise, add_to
from dfprivacy.noise.laws import DiscreteLaplace, Noise
from dfprivacy.noise.race import Runs
from dfprivacy.papers.kulesza2023 import ShiftedMean
from dfprivacy.release.answers import Answered, Counted, CountPiece, Estimated, Piece
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.estimators.quantile import (
    LARGEST_RANK,
    SIDES,
    Side,
    find_known_rows,
    rank_losses,
    select_thresholds,
)
from dfprivacy.statistics.linear import Vectors, build_forecast, plan_vectors
from dfprivacy.statistics.mean import Mean
from dfprivacy.statistics.part import Circumstances, ColumnPart, Forecast, MeasuredTable

RADIUS = 1e9
GAMMA = 1e-3
"""Assumptions of `DickMean`, in units of the column: sizes are at most RADIUS, and an error of
GAMMA / (epsilon * rows) is of no interest."""

CLIPPED_BY_RANK = "clipped by rank: how far the outermost rows lie is not known"
"""The note of a mean whose bounds are ranks: its interval is of the clipped values."""


@dataclass(frozen=True)
class SubsetMean(Statistic):
    """The mean within bounds of a private rank, for half of the loss.

    Source: Dick et al. 2023, Algorithm 3 with public constants, and the mean of Kulesza et al.
    2023, Algorithm 3.
    """

    kind: ClassVar[str] = "subset_mean"
    title: ClassVar[str] = "the mean within bounds by rank"
    example: ClassVar[str] = 'df.dp.subset_mean("x", epsilon=1)'
    has_interval: ClassVar[bool] = True
    has_note = True  # clipped rows are not counted
    remarks: ClassVar[tuple[str, ...]] = ()
    """Remarks of its forecast."""
    mean: ClassVar[type[Mean | ShiftedMean]] = Mean
    """The statistic that is asked within the bounds."""

    column: Hashable = argument("The column of numbers.")

    def percent_base(self, rows: int) -> float:  # noqa: ARG002 the same for all sizes
        """Return one width of the bounds that are found."""
        return 1.0

    def mean_loss(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return the loss of the mean within the bounds."""
        return loss.share(Fraction(1, 2))

    def find_bounds(
        self, table: BinTable, loss: Epsilon | Rho
    ) -> Iterator[tuple[Bounds, Epsilon | Rho]]:
        """Yield the bounds of each group, and the loss that its mean costs."""
        half = self.mean_loss(loss)
        for lower, upper in zip(*subset_bounds(table, half), strict=True):
            yield Bounds(float(lower), float(upper)), half

    def part(self, name: str, *, grouped: bool) -> RankedMeanPart:
        """Return the mechanism that finds bounds, then averages."""
        return RankedMeanPart(name, self, grouped)


@dataclass(frozen=True)
class DickMean(SubsetMean):
    """The mean within bounds of a rank that a noisy count decides.

    Sizes are taken to be at most 1e9, and errors of 1e-3 / (epsilon * rows) to matter to nobody.
    Source: Dick et al. 2023, Algorithm 3 as printed.
    """

    kind: ClassVar[str] = "dick_mean"
    title: ClassVar[str] = "the subset-optimal mean"
    example: ClassVar[str] = 'df.dp.dick_mean("x", epsilon=1)'
    remarks: ClassVar[tuple[str, ...]] = (
        f"values are taken to be within {RADIUS:g}, errors below {GAMMA:g}/(epsilon n) are ignored",
        "groups too small to find bounds in are averaged within that whole range",
    )
    mean: ClassVar[type[Mean | ShiftedMean]] = ShiftedMean

    def mean_loss(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return the loss of the mean in groups that have bounds."""
        return Epsilon(loss.pure() * Fraction(3, 10))

    def find_bounds(
        self, table: BinTable, loss: Epsilon | Rho
    ) -> Iterator[tuple[Bounds, Epsilon | Rho]]:
        """Yield the bounds of each group, and the loss that is left for its mean."""
        epsilon = Epsilon(loss.pure())
        for values, rows in table.values_by_group():
            yield dick_bounds(values, rows, epsilon)


@dataclass(frozen=True)
class RankedMeanPart(ColumnPart):
    """A mean whose bounds are found by rank."""

    question: SubsetMean

    whole_bits: ClassVar[int] = 22

    def vectors(self, bounds: Bounds) -> Vectors:
        """Return the query of the mean within bounds."""
        question = self.question.mean(self.question.column, bounds)
        return plan_vectors({self.name: question}, grouped=True)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors(Bounds(0, 1)).count_noise(self.question.mean_loss(loss))

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of a mean within bounds by rank, in widths of them."""
        vectors = self.vectors(Bounds(0, 1))
        (noise,) = vectors.noises(self.question.mean_loss(loss))
        forecast = build_forecast(
            vectors.answers[0],
            (vectors.linears[0], noise),
            self.question,
            circumstances,
            unit="widths of the bounds found",
        )
        law = f"{forecast.mechanism} within bounds from private selections"
        return [replace(forecast, mechanism=law).add_remarks(*self.question.remarks)]

    def draw_answer(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Find bounds, then average within them, group by group."""
        pieces: list[Piece] = []
        counts: list[CountPiece] = []
        table = measured.table
        bounds_and_losses = self.question.find_bounds(table, loss)
        for values_and_counts, (bounds, left) in zip(
            table.values_by_group(), bounds_and_losses, strict=True
        ):
            vectors = self.vectors(bounds)
            exact = _sum_values(*values_and_counts, vectors.linears[0].source)
            noisy = add_noise(exact, vectors.linears, vectors.noises(left))[0]
            groups, weights = np.array([len(pieces)]), vectors.linears[0].count
            assert weights is not None  # noqa: S101 both coordinates of a mean count
            pieces.append(Piece(groups, vectors.answers[0].estimator, noisy, [CLIPPED_BY_RANK]))
            counts.append(CountPiece(groups, noisy, weights))
        answer = Estimated(self.name, table.groups, tuple(pieces), has_notes=True)
        counted = Counted(table.groups, tuple(counts))
        return Answered(measured.keys, {self.name: (answer,)}, counted)


def _sum_values(values: Floats, rows: Integers, source: Source) -> Statistics:
    """Return rows and the sum of grid integers, as a pass with these bounds would have them."""
    (q,) = source.terms
    first = int((q.of(dict.fromkeys(q.columns, values)) * rows).sum())
    sums = {sum_name(0): [int(rows.sum())], sum_name(0, 1): [first]}
    return Statistics(pa.table(sums), 0, (source,)).check_rows()


_FLOAT_BITS = 53
_LEAST_EXPONENT = -1074


@dataclass(frozen=True)
class WindowGrid:
    """Multiples of 2**exponent from first to last; a window reaches `window` of them. Public."""

    exponent: int
    first: int
    last: int
    window: int

    def integers(self, values: Floats) -> Integers:
        """Return the nearest multiple of each value, or the outermost one."""
        span = np.ldexp(np.array([self.first, self.last], np.float64), self.exponent)
        nearest = np.rint(np.ldexp(np.clip(values, *span), -self.exponent))
        return np.clip(nearest.astype(np.int64), self.first, self.last)

    def value(self, integer: int) -> float:
        """Return a multiple as a float, exactly."""
        return math.ldexp(integer, self.exponent)


def window_grid(bounds: Bounds, alpha: float) -> WindowGrid:
    """Return the grid of the largest power of two up to alpha / 4 whose multiples are floats.

    The window and the rounding of a value together stay below alpha. Where floats of the size of
    the bounds are not as fine as that, the step is theirs and the window may be 0.
    """
    alpha = min(alpha, bounds.width / 2)
    size = math.frexp(max(abs(bounds.lower), abs(bounds.upper)))[1]
    exponent = max(math.frexp(alpha)[1] - 3, size - _FLOAT_BITS, _LEAST_EXPONENT)
    lower, upper = (math.ldexp(end, -exponent) for end in (bounds.lower, bounds.upper))
    window = max(int(math.ldexp(alpha, -exponent)) - 1, 0)
    return WindowGrid(exponent, math.ceil(lower), math.floor(upper), window)


def window_threshold(
    values: Floats,
    rows: Integers,
    rank: int,
    *,
    bounds: Bounds,
    alpha: float,
    loss: Epsilon,
    side: Side = "lower",
) -> float:
    """Return a value at most alpha from a row of about this rank: Dick et al., Algorithm 2.

    The loss of t is max(0, F<(t - alpha) - rank, rank - F(t + alpha)), t a multiple of a power of
    two up to alpha / 4. With probability at least 1 - zeta some value within alpha of the result
    has a rank within (2 / epsilon) * log(8 width / (alpha * zeta)) + 1 of it.

    It costs `loss`, by permute-and-flip; neighbors: one row added or removed.

    Examples
    --------
    >>> values, rows = np.array([0.0, 1.0, 50.0]), np.array([900, 900, 40])
    >>> terms = {"bounds": Bounds(-100, 100), "alpha": 0.5, "loss": Epsilon(Fraction(10))}
    >>> 49 < window_threshold(values, rows, 20, **terms, side="upper") < 51
    True
    """
    sign = -1 if side == "upper" else 1
    ends = sorted((sign * bounds.lower, sign * bounds.upper))
    grid = window_grid(Bounds(*ends), alpha)
    not_missing, counts = find_known_rows(values, rows)
    runs = window_runs(grid, grid.integers(sign * not_missing), counts, rank)
    chosen = sign * grid.value(int(loss.selection(sensitivity=1).select(runs)[0]))
    return min(max(chosen, bounds.lower), bounds.upper)


def window_runs(grid: WindowGrid, integers: Integers, rows: Integers, rank: int) -> Runs:
    """Return the candidates of a grid with their window losses, as runs. Secret."""
    order = np.argsort(integers)
    sorted_integers, counted = integers[order], np.append(0, np.cumsum(rows[order]))
    edges = np.append(integers - grid.window, integers + grid.window + 1)
    inner = edges[(edges > grid.first) & (edges <= grid.last)]
    first = list_distinct(np.append(grid.first, inner))
    below = counted[np.searchsorted(sorted_integers, first - grid.window, side="left")]
    upto = counted[np.searchsorted(sorted_integers, first + grid.window, side="right")]
    length = np.diff(first, append=grid.last + 1)
    return Runs(np.zeros(1, np.int64), first, length, rank_losses(below, upto, rank))


SIZE_SHARE = Fraction(1, 10)
"""Part of epsilon that `dick_bounds` spends on the noisy count; three equal parts remain."""

FAILURE = 1e-6
"""Probability that a threshold, or the lower limit of a count, is further off than stated."""

_LEAST_WIDTH = 2.0**-1000


def dick_bounds(
    values: Floats,
    rows: Integers,
    loss: Epsilon,
    *,
    radius: float = RADIUS,
    gamma: float = GAMMA,
) -> tuple[Bounds, Epsilon]:
    """Return the thresholds of Dick et al., Algorithm 3, and the loss that is left for a mean.

    A tenth of epsilon buys a count that exceeds the number of rows with probability below 1e-6
    only, and stands for it in the printed constants; each threshold costs 3/10 and as much is
    left. Where the count is too small for the ranks, the bounds are (-radius, radius) and 9/10 are
    left. All of it with a mean costs `loss`; neighbors: one row added or removed.

    Examples
    --------
    >>> values, rows = np.array([3.0, 5.0, 9e5]), np.array([4000, 4000, 1])
    >>> bounds, left = dick_bounds(values, rows, Epsilon(Fraction(2)), radius=1e6, gamma=0.01)
    >>> 2.9 < bounds.lower < 3.1 and 4.9 < bounds.upper < 5.1
    True
    >>> left
    Epsilon(value=Fraction(3, 5))
    """
    public = Bounds(-radius, radius)
    not_missing, counts = find_known_rows(values, rows)
    rows_at_least = least_rows(int(counts.sum()), loss.share(SIZE_SHARE))
    step = loss.share((1 - SIZE_SHARE) / 3)
    rank = find_printed_rank(step, public.upper, gamma, rows_at_least)
    if 2 * rank > rows_at_least:
        return public, loss.share(1 - SIZE_SHARE)
    alpha = max(gamma / rows_at_least, _LEAST_WIDTH)
    terms: Any = {"bounds": public, "alpha": alpha, "loss": step}
    lower, upper = sorted(
        window_threshold(not_missing, counts, rank, **terms, side=side) for side in SIDES
    )
    if upper - lower < _LEAST_WIDTH:
        lower -= max(alpha, math.ulp(lower))
        upper += max(alpha, math.ulp(upper))
    return Bounds(lower, upper), step


def least_rows(rows: int, loss: Epsilon) -> int:
    """Return a noisy count, at least 1, that exceeds the rows with probability below 1e-6."""
    noise = DiscreteLaplace(1 / loss.value)
    noisy = int(add_to(np.array([rows], np.int64), noise)[0])
    return max(1, noisy - noise.quantile(2 * FAILURE))


def find_printed_rank(loss: Epsilon, radius: float, gamma: float, rows: int) -> int:
    """Return Algorithm 3's t = 1/epsilon + beta, rounded up, from public or noisy numbers.

    With alpha = gamma / rows and zeta = alpha / (radius * rows * epsilon), beta is
    (2 / epsilon) * log(2 * radius / (alpha * zeta)).
    """
    epsilon = float(loss.value)
    logarithm = math.log(2 * epsilon) + 3 * math.log(rows)
    logarithm += 2 * (math.log(radius) - math.log(gamma))
    return _rank(loss.value, max(logarithm, 0.0))


def subset_bounds(table: BinTable, loss: Epsilon | Rho) -> tuple[Floats, Floats]:
    """Return thresholds below and above all but few rows of each group, lower < upper.

    Algorithm 3 of Dick et al. with public constants alone: each threshold costs half of the loss
    and has the rank t = ceil(1/epsilon + (2/epsilon) * log(m / 1e-6)), epsilon that of one
    threshold, m the number of bins. A threshold's rank is between 1/epsilon and 2 t, except with
    probability 1e-6, in a group of t rows or more. Where both coincide they move apart by one bin.

    All groups together cost `loss`; neighbors: one row added or removed.
    """
    grid: Any = table.binning
    half = loss.share(Fraction(1, 2))
    rank = public_rank(half, 2 * grid.last + 1)
    low, high = outer_bins(table, rank, half)
    return grid.values(low), grid.values(high)


def outer_bins(table: BinTable, rank: int, loss: Epsilon | Rho) -> tuple[Integers, Integers]:
    """Return two bins of this rank from either end, low < high. Each costs `loss`."""
    last = table.binning.last
    ends = [select_thresholds(table, rank, loss, side) for side in SIDES]
    low, high = np.sort(ends, axis=0)
    equal = low == high
    return np.maximum(low - equal, -last), np.minimum(high + equal, last)


def public_rank(loss: Epsilon | Rho, candidates: int) -> int:
    """Return the rank that a selection of this loss can tell from 1/epsilon: `subset_bounds`."""
    return _rank(
        loss.selection(sensitivity=1).epsilon(sensitivity=1), math.log(candidates / FAILURE)
    )


def _rank(epsilon: Fraction, logarithm: float) -> int:
    return min(math.ceil((1 + 2 * Fraction(logarithm)) / epsilon), LARGEST_RANK)
