"""Find a value of about a given rank privately, from below or from above; bounds of both.

The rank is public and the loss of a candidate is its distance to that rank. Two forms of Dick et
al.: bins of a value-count table, for many groups at once (Corollary 3.8; `subset_bounds`, with
public constants), and a window around each candidate of a uniform grid, for one group (Algorithm 2;
`dick_bounds`, Algorithm 3 with constants that follow a noisy count). Proofs:
docs/explanation/subset-optimal.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho, positive_number
from dfprivacy.errors import InvalidQuestionError, TooManyRowsError
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import PermuteAndFlip
from dfprivacy.statistics.estimators.quantile import build_runs, points, ranked_rows

Side = Literal["lower", "upper"]
SIDES: tuple[Side, Side] = ("lower", "upper")

LARGEST_RANK = 2**52

_FLOAT_BITS = 53
_LEAST_EXPONENT = -1074


def select_thresholds(
    table: BinTable,
    rank: int,
    loss: Epsilon | Rho,
    side: Side = "lower",
    *,
    entropy: EntropySource = system_entropy,
) -> Integers:
    """Return the number of a bin of about this rank for each group.

    With F(c) the rows of a group up to bin c and F<(c) those below it, the loss of c is
    max(0, F<(c) - rank, rank - F(c)); from above, the same of the mirrored table. With
    probability at least 1 - zeta a group's loss is at most (2 / epsilon) * log(m / zeta), m the
    number of candidates. Dick et al., Corollary 3.8, in its discrete form. The choices of all
    groups together cost `loss`; neighbors: one row added or removed.
    """
    runs = threshold_runs(table, rank, side)
    return loss.selection(sensitivity=1).select(runs, entropy)


def threshold_runs(table: BinTable, rank: int, side: Side) -> Runs:
    """Return all bins of the grid as candidates of each group, ranks from either end. Secret."""
    values_grid(table)
    ranked = ranked_rows(table)
    values, below, upto, starts = points(ranked, ranked.first, ranked.stop)
    tails = np.append(starts, len(values))[1:] - 1
    aims = ranked.totals() - rank if side == "upper" else np.full(table.groups, rank)
    aims_of_points = np.repeat(aims, tails + 1 - starts)
    losses = [rank_losses(below, upto, aims_of_points), rank_losses(upto, upto, aims_of_points)]
    return build_runs(values, starts, tails, np.stack(losses, axis=1))


def rank_losses(below: Integers, upto: Integers, rank: int | Integers) -> Integers:
    """Return how far a rank is from (below, upto]; one row moves it by at most 1."""
    return np.asarray(np.maximum(0, np.maximum(below - rank, rank - upto)), np.int64)


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
    lower: float,
    upper: float,
    alpha: float,
    epsilon: Epsilon | Fraction | float,
    side: Side = "lower",
    entropy: EntropySource = system_entropy,
) -> float:
    """Return a value within alpha of which there is one of about this rank: Dick et al., Alg. 2.

    The loss of t is max(0, F<(t - alpha) - rank, rank - F(t + alpha)), t a multiple of a power of
    two up to alpha / 4. With probability at least 1 - zeta some value within alpha of the result
    has a rank within (2 / epsilon) * log(8 (upper - lower) / (alpha * zeta)) + 1 of it.

    It is epsilon-DP by permute-and-flip; neighbors: one row added or removed.

    Examples
    --------
    >>> values, rows = np.array([0.0, 1.0, 50.0]), np.array([900, 900, 40])
    >>> terms = {"lower": -100, "upper": 100, "alpha": 0.5, "epsilon": 10}
    >>> 49 < window_threshold(values, rows, 20, **terms, side="upper") < 51
    True
    """
    bounds = Bounds(lower, upper)
    sign = -1 if side == "upper" else 1
    ends = sorted((sign * bounds.lower, sign * bounds.upper))
    grid = window_grid(Bounds(*ends), alpha)
    mechanism = PermuteAndFlip.for_epsilon(_check_epsilon(epsilon).value, sensitivity=1)
    not_missing, counts = known_rows(values, rows)
    runs = window_runs(grid, grid.integers(sign * not_missing), counts, rank)
    chosen = sign * grid.value(int(mechanism.select(runs, entropy)[0]))
    return min(max(chosen, bounds.lower), bounds.upper)


def window_runs(grid: WindowGrid, integers: Integers, rows: Integers, rank: int) -> Runs:
    """Return the candidates of a grid with their window losses, as runs. Secret."""
    order = np.argsort(integers)
    sorted_integers, counted = integers[order], np.append(0, np.cumsum(rows[order]))
    edges = np.append(integers - grid.window, integers + grid.window + 1)
    inner = edges[(edges > grid.first) & (edges <= grid.last)]
    first = np.unique(np.append(grid.first, inner))
    below = counted[np.searchsorted(sorted_integers, first - grid.window, side="left")]
    upto = counted[np.searchsorted(sorted_integers, first + grid.window, side="right")]
    length = np.diff(first, append=grid.last + 1)
    return Runs(np.zeros(1, np.int64), first, length, rank_losses(below, upto, rank))


def known_rows(values: Floats, rows: Integers) -> tuple[Floats, Integers]:
    """Return the values that are no NaN, with their rows."""
    not_missing = ~np.isnan(values)
    if np.sum(rows, dtype=np.float64) >= ROW_LIMIT:
        raise TooManyRowsError("2**33 rows, the public limit", hint="Split the data into parts.")
    return np.asarray(values[not_missing], np.float64), np.asarray(rows[not_missing], np.int64)


def values_grid(table: BinTable) -> SignificantBits:
    """Return the binning of a table whose bins are values."""
    if isinstance(table.binning, SignificantBits):
        return table.binning
    raise InvalidQuestionError("thresholds need a table of values", hint="Use SignificantBits(16).")


SIZE_SHARE = Fraction(1, 10)
"""The part of epsilon that `dick_bounds` spends on the noisy count; three equal parts remain."""

FAILURE = 1e-6
"""Probability that a threshold, or the lower limit of a count, is further off than stated."""

_LEAST_WIDTH = 2.0**-1000


@dataclass(frozen=True)
class DickBounds:
    """Two private thresholds, lower < upper, with the epsilon `spent` and `left`. Public."""

    lower: float
    upper: float
    spent: Epsilon
    left: Epsilon


def dick_bounds(
    values: Floats,
    rows: Integers,
    *,
    epsilon: Epsilon | Fraction | float,
    radius: float,
    gamma: float,
    entropy: EntropySource = system_entropy,
) -> DickBounds:
    """Return the thresholds of Dick et al., Algorithm 3, with a private number of rows.

    A tenth of epsilon buys a count that exceeds the number of rows with probability below 1e-6
    only, and stands for it in the printed constants; each threshold costs 3/10 and as much is
    left. Where the count is too small for the ranks, the bounds are (-radius, radius) and 9/10 are
    left. All of it with a mean is epsilon-DP; neighbors: one row added or removed.

    Examples
    --------
    >>> values, rows = np.array([3.0, 5.0, 9e5]), np.array([4000, 4000, 1])
    >>> bounds = dick_bounds(values, rows, epsilon=2, radius=1e6, gamma=0.01)
    >>> 2.9 < bounds.lower < 3.1 and 4.9 < bounds.upper < 5.1
    True
    >>> bounds.spent, bounds.left
    (Epsilon(value=Fraction(7, 5)), Epsilon(value=Fraction(3, 5)))
    """
    loss, public = _check_epsilon(epsilon), Bounds(-radius, radius)
    not_missing, counts = known_rows(values, rows)
    rows_at_least = least_rows(int(counts.sum()), loss.share(SIZE_SHARE), entropy)
    step = loss.share((1 - SIZE_SHARE) / 3)
    rank = printed_rank(step, public.upper, gamma, rows_at_least)
    if 2 * rank > rows_at_least:
        left = loss.share(1 - SIZE_SHARE)
        return DickBounds(public.lower, public.upper, loss.share(SIZE_SHARE), left)
    alpha = max(gamma / rows_at_least, _LEAST_WIDTH)
    ends = [
        window_threshold(
            not_missing,
            counts,
            rank,
            lower=public.lower,
            upper=public.upper,
            alpha=alpha,
            epsilon=step,
            side=side,
            entropy=entropy,
        )
        for side in SIDES
    ]
    lower, upper = _widen(min(ends), max(ends), alpha)
    return DickBounds(lower, upper, loss.share(1 - (1 - SIZE_SHARE) / 3), step)


def _check_epsilon(epsilon: Epsilon | Fraction | float) -> Epsilon:
    """Return a checked argument; the part of a loss that is paid for has no least size."""
    return epsilon if isinstance(epsilon, Epsilon) else Epsilon(positive_number("epsilon", epsilon))


def least_rows(rows: int, loss: Epsilon, entropy: EntropySource = system_entropy) -> int:
    """Return a noisy count, at least 1, that exceeds the rows with probability below 1e-6."""
    noise = DiscreteLaplace(1 / loss.value)
    noisy = int(add_to(np.array([rows], np.int64), noise, entropy)[0])
    return max(1, noisy - noise.quantile(2 * FAILURE))


def printed_rank(loss: Epsilon, radius: float, gamma: float, rows: int) -> int:
    """Return Algorithm 3's t = 1/epsilon + beta, rounded up, from public or noisy numbers.

    With alpha = gamma / rows and zeta = alpha / (radius * rows * epsilon), beta is
    (2 / epsilon) * log(2 * radius / (alpha * zeta)).
    """
    epsilon = float(loss.value)
    logarithm = math.log(2 * epsilon) + 3 * math.log(rows)
    logarithm += 2 * (math.log(radius) - math.log(gamma))
    return _rank(loss.value, max(logarithm, 0.0))


def subset_bounds(
    table: BinTable, loss: Epsilon | Rho, entropy: EntropySource = system_entropy
) -> tuple[Floats, Floats]:
    """Return thresholds below and above all but few rows of each group, lower < upper.

    Algorithm 3 of Dick et al. with public constants alone: each threshold costs half of the loss
    and has the rank t = ceil(1/epsilon + (2/epsilon) * log(m / 1e-6)), epsilon that of one
    threshold, m the number of bins. A threshold's rank is between 1/epsilon and 2 t, except with
    probability 1e-6, in a group of t rows or more. Where both coincide they move apart by one bin.

    All groups together cost `loss`; neighbors: one row added or removed.
    """
    grid, half = values_grid(table), loss.share(Fraction(1, 2))
    rank = public_rank(half, 2 * grid.last + 1)
    low, high = (select_thresholds(table, rank, half, side, entropy=entropy) for side in SIDES)
    low, high = np.minimum(low, high), np.maximum(low, high)
    equal = low == high
    low, high = np.maximum(low - equal, -grid.last), np.minimum(high + equal, grid.last)
    return grid.values(low), grid.values(high)


def public_rank(loss: Epsilon | Rho, candidates: int) -> int:
    """Return the rank that a selection of this loss can tell from 1/epsilon: `subset_bounds`."""
    return _rank(
        loss.selection(sensitivity=1).epsilon(sensitivity=1), math.log(candidates / FAILURE)
    )


def _rank(epsilon: Fraction, logarithm: float) -> int:
    return min(math.ceil((1 + 2 * Fraction(logarithm)) / epsilon), LARGEST_RANK)


def _widen(lower: float, upper: float, margin: float) -> tuple[float, float]:
    if upper - lower >= _LEAST_WIDTH:
        return lower, upper
    return lower - max(margin, math.ulp(lower)), upper + max(margin, math.ulp(upper))
