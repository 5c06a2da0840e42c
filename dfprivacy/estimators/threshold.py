"""Private thresholds: a value of about a given rank, from below or from above.

The rank is public and the loss of a candidate is its distance to that rank, so that the number of
rows stays secret. Two forms of Dick et al.: candidates that are bins of a value-count table, for
many groups at once (Corollary 3.8), and a window around each candidate of a uniform grid, for one
group (Algorithm 2). Proofs: docs/subset-optimal.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho, positive_number
from dfprivacy.errors import InvalidQuestionError, TooManyRowsError
from dfprivacy.exact import exact_number
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import PermuteAndFlip
from dfprivacy.terms import Bounds

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
    groups together cost `loss`; neighbours: one row added or removed.

    Parameters
    ----------
    table : BinTable
        Rows by group and bin; its binning has to be `SignificantBits`. Groups may be empty.
    rank : int
        Public, in rows, from 0 to 2**52: 1 is the first row from that side.
    loss : Epsilon or Rho
        What the choices may cost.
    side : {"lower", "upper"}
        Which end ranks are counted from.
    entropy : callable
        Source of random bytes; the operating system, unless a test hands in its own.

    Returns
    -------
    numpy.ndarray
        int64, one a group; `table.binning.values` turns it into units of the column.

    Raises
    ------
    InvalidQuestionError
        When rank, side or table are not of this form.
    EntropyError
        When the random source fails. Nothing was chosen then.
    """
    runs = threshold_runs(table, checked_rank(rank), checked_side(side))
    return loss.selection(sensitivity=1).select(runs, entropy)


def threshold_runs(table: BinTable, rank: int, side: Side) -> Runs:
    """Return all bins of the grid as candidates of each group, with their losses. Secret.

    Stretches without rows and bins with rows alternate; an empty stretch is left out. Up to a
    stretch there are as many rows as up to the bin before it.
    """
    last, group, numbers = values_grid(table).last, table.group, table.bins
    running = np.append(0, np.cumsum(table.rows))
    counted = running[1:] - running[table.starts()[group]]
    groups = np.arange(table.groups)
    heads = 2 * np.searchsorted(group, groups) + groups
    tails = np.append(heads[1:], 2 * len(group) + table.groups)[: table.groups] - 1
    bins = 2 * np.arange(len(group)) + group + 1
    first = np.empty(2 * len(group) + table.groups, np.int64)
    first[heads], first[bins], first[bins + 1] = -last, numbers, numbers + 1
    after = np.append(first[1:], last + 1)[: len(first)]
    after[tails] = last + 1
    upto = np.zeros_like(first)
    upto[bins] = upto[bins + 1] = counted
    below = np.append(0, upto[:-1])[: len(first)]
    below[heads] = 0
    if side == "upper":
        total = np.repeat(upto[tails], tails - heads + 1)
        below, upto = total - upto, total - below
    kept = after > first
    starts = np.asarray((np.cumsum(kept) - kept)[heads], np.int64)
    return Runs(starts, first[kept], (after - first)[kept], rank_losses(below, upto, rank)[kept])


def rank_losses(below: Integers, upto: Integers, rank: int) -> Integers:
    """Return how far a rank is from (below, upto]; one row moves it by at most 1."""
    return np.maximum(0, np.maximum(below - rank, rank - upto))


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
    epsilon: Fraction | float,
    side: Side = "lower",
    entropy: EntropySource = system_entropy,
) -> float:
    """Return a value within alpha of which there is one of about this rank: Dick et al., Alg. 2.

    The loss of t is max(0, F<(t - alpha) - rank, rank - F(t + alpha)), t a multiple of a power of
    two up to alpha / 4. With probability at least 1 - zeta some value within alpha of the result
    has a rank within (2 / epsilon) * log(8 (upper - lower) / (alpha * zeta)) + 1 of it.

    It is epsilon-DP by permute-and-flip; neighbours: one row added or removed.

    Parameters
    ----------
    values : numpy.ndarray
        float64, in units of the column, any order; NaN holds no value, others are clipped.
    rows : numpy.ndarray
        int64, how many rows have each value.
    rank : int
        Public, in rows, from 0 to 2**52.
    lower, upper : float
        The public range, in units of the column.
    alpha : float
        Public half width of the window, in units of the column; at most half of the range counts.
    epsilon : Fraction or float
        What the choice costs.
    side : {"lower", "upper"}
        Which end ranks are counted from.

    Returns
    -------
    float
        In units of the column, within [lower, upper].

    Raises
    ------
    InvalidBoundsError, InvalidLossError, InvalidQuestionError
        When an argument is not of this form.
    TooManyRowsError
        From 2**33 rows on.

    Examples
    --------
    >>> values, rows = np.array([0.0, 1.0, 50.0]), np.array([900, 900, 40])
    >>> terms = {"lower": -100, "upper": 100, "alpha": 0.5, "epsilon": 10}
    >>> 49 < window_threshold(values, rows, 20, **terms, side="upper") < 51
    True
    """
    bounds = Bounds(lower, upper)
    sign = -1 if checked_side(side) == "upper" else 1
    ends = sorted((sign * bounds.lower, sign * bounds.upper))
    grid = window_grid(Bounds(*ends), positive_float("alpha", alpha))
    mechanism = PermuteAndFlip.for_epsilon(positive_number("epsilon", epsilon), sensitivity=1)
    known, counts = known_rows(values, rows)
    runs = window_runs(grid, grid.integers(sign * known), counts, checked_rank(rank))
    chosen = sign * grid.value(int(mechanism.select(runs, entropy)[0]))
    return min(max(chosen, bounds.lower), bounds.upper)


def window_runs(grid: WindowGrid, integers: Integers, rows: Integers, rank: int) -> Runs:
    """Return the candidates of a grid with their window losses, as runs. Secret.

    The rows below t - window change at v + window + 1, those up to t + window at v - window.
    """
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
    """Return the values that are no NaN, with their rows.

    Raises
    ------
    TooManyRowsError
        From 2**33 rows on, the public limit.
    """
    known = ~np.isnan(values)
    if np.sum(rows, dtype=np.float64) >= ROW_LIMIT:
        raise TooManyRowsError("2**33 rows, the public limit", hint="Split the data into parts.")
    return np.asarray(values[known], np.float64), np.asarray(rows[known], np.int64)


def checked_rank(rank: object) -> int:
    """Return a public rank in rows."""
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank <= LARGEST_RANK:
        raise InvalidQuestionError("a rank must be an int from 0 to 2**52", hint="Use rank=50.")
    return rank


def checked_side(side: object) -> Side:
    """Return the end that ranks are counted from."""
    if side == "lower" or side == "upper":  # noqa: PLR1714 mypy narrows this form
        return side
    raise InvalidQuestionError("side must be 'lower' or 'upper'", hint="Use side='lower'.")


def positive_float(name: str, value: object) -> float:
    """Return a public length in units of the column."""
    exact = exact_number(value)
    if exact is None or not Fraction(1, 2**1000) <= exact <= 2**1000:
        raise InvalidQuestionError(f"{name} must be positive, finite", hint=f"Use {name}=0.01.")
    return float(exact)


def values_grid(table: BinTable) -> SignificantBits:
    """Return the binning of a table whose bins are values."""
    if isinstance(table.binning, SignificantBits):
        return table.binning
    raise InvalidQuestionError("thresholds need a table of values", hint="Use SignificantBits(16).")
