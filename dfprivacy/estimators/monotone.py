"""Private selection of any monotone property: median, quantile, mean, centre, or the caller's own.

`select_monotone` is Algorithm 5 of Dick et al. on public bounds, `monotone_estimate` their
Algorithm 4, which finds bounds first. Both with the corrections of docs/monotone.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.centre import CentreLength
from dfprivacy.estimators.inverse_sensitivity import (
    MedianLength,
    MonotoneProperty,
    QuantileLength,
)
from dfprivacy.estimators.threshold import (
    LARGEST_RANK,
    SIDES,
    known_rows,
    select_thresholds,
)
from dfprivacy.measurement.bin_table import BinTable, bin_table
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.runs import Runs
from dfprivacy.noise.selection import ExponentialMechanism
from dfprivacy.terms import Bounds

INTERVALS = 2**12
"""A public domain is cut into so many equal intervals; candidates are their ends."""

BITS = 16
"""The private bounds of `monotone_estimate` are values with so many significant bits."""

FAILURE = 1e-6
"""Probability that a private bound's rank is further off than a seventh of it."""

_MOST_INTERVALS = 2**20


def select_monotone(
    functional: MonotoneProperty,
    values: Floats,
    rows: Integers,
    domain: tuple[float, float],
    loss: Epsilon | Rho,
    *,
    entropy: EntropySource = system_entropy,
    intervals: int = INTERVALS,
) -> float:
    """Return a point t of the domain with probability proportional to exp(-epsilon/2 * length).

    Dick et al., Algorithm 5, with the epsilon that its print lacks. Under rho, epsilon is
    sqrt(8 rho). With probability at least 1 - zeta the length of the result, the number of rows
    between the data and data that have this property, is at most
    (2 / epsilon) * log((intervals + 1) / zeta) above the least, zeta from e**-45 on.

    It costs `loss`; neighbours: one row added or removed.

    Parameters
    ----------
    functional : MonotoneProperty
        What is asked for: `MedianLength()`, `QuantileLength(q)`, `CentreLength(p)`, whose p = 2
        is the mean, or an object of the caller whose lengths one row moves by at most 1.
    values : numpy.ndarray
        float64, in units of the column; NaN holds no value. Others are clipped to the domain and
        rounded to its grid.
    rows : numpy.ndarray
        int64, how many rows have each value; there may be none.
    domain : tuple of float
        Public lowest and highest result, in units of the column.
    loss : Epsilon or Rho
        What the choice costs.
    entropy : callable
        Source of random bytes.
    intervals : int
        A power of two from 2 to 2**20: how finely the domain is cut.

    Raises
    ------
    InvalidBoundsError, InvalidQuestionError
        When domain or intervals are not of this form, or lengths are not those of a property.
    TooManyRowsError
        From 2**33 rows on.

    Examples
    --------
    >>> from dfprivacy.estimators.inverse_sensitivity import MedianLength
    >>> values, rows = np.array([3.0, 5.0, 9.0]), np.array([500, 500, 400])
    >>> 4.9 < select_monotone(MedianLength(), values, rows, (0, 10), Epsilon(Fraction(1))) < 5.1
    True
    """
    bounds, last = Bounds(*domain), checked_intervals(intervals)
    integers, counts = on_grid(*known_rows(values, rows), bounds, last)
    mechanism = mechanism_for(loss)
    runs = length_runs(functional, integers, counts, last, far(mechanism, last + 1))
    chosen = int(mechanism.select(runs, entropy)[0])
    return min(bounds.lower + chosen * (bounds.width / last), bounds.upper)


def monotone_estimate(
    functional: MonotoneProperty,
    values: Floats,
    rows: Integers,
    loss: Epsilon | Rho,
    *,
    entropy: EntropySource = system_entropy,
    intervals: int = INTERVALS,
) -> float:
    """Return a private value of the property without any bounds: Dick et al., Algorithm 4.

    A quarter of the loss buys each of two bounds, of a public rank that only data of several
    thousand rows (over epsilon) leave room for. Rows beyond them are dropped, about as many on
    either side, and the property is that of the rest; the half of the loss that is left selects
    between the bounds as `select_monotone` does. Step 5 of the print is left out: it
    breaks privacy (docs/monotone.md).

    It costs `loss`; neighbours: one row added or removed.

    Parameters
    ----------
    functional, values, rows, loss, entropy, intervals :
        As for `select_monotone`; values are clipped to 2**126 in size.

    Raises
    ------
    InvalidQuestionError, TooManyRowsError
        As for `select_monotone`; and from 2**31 rows with the same 16 significant bits on.

    Examples
    --------
    >>> values, rows = np.arange(1000.0), np.full(1000, 20)
    >>> 470 < monotone_estimate(CentreLength(2), values, rows, Epsilon(Fraction(2))) < 530
    True
    """
    last = checked_intervals(intervals)
    known, counts = known_rows(values, rows)
    grid, quarter = SignificantBits(BITS), loss.share(Fraction(1, 4))
    table = _one_group(grid, known, counts)
    rank = trimmed_rank(quarter, 2 * grid.last + 1)
    ends = [
        int(select_thresholds(table, rank, quarter, side, entropy=entropy)[0]) for side in SIDES
    ]
    low, high = _apart(min(ends), max(ends), grid.last)
    inside = (numbers := grid.numbers(grid.labels(known))) >= low
    inside &= numbers <= high
    lower, upper = grid.values(np.array([low, high])).tolist()
    half = loss.share(Fraction(1, 2))
    return select_monotone(
        functional,
        known[inside],
        counts[inside],
        (lower, upper),
        half,
        entropy=entropy,
        intervals=last,
    )


def select_order_statistic(
    functional: MedianLength | QuantileLength,
    numbers: Integers,
    rows: Integers,
    last: int,
    loss: Epsilon | Rho,
    *,
    entropy: EntropySource = system_entropy,
) -> int:
    """Return a private median or quantile among the integers -last, ..., last, without bounds.

    Algorithm 5 on all of the public grid: lengths are those of `select_monotone`, and the same for
    all candidates between two neighbouring values, so that a candidate of each stretch stands for
    it. It costs `loss`; neighbours: one row added or removed.

    Parameters
    ----------
    functional : MedianLength or QuantileLength
        What is asked for.
    numbers, rows : numpy.ndarray
        int64, ascending distinct integers of the grid, and how many rows have each; maybe none.
    last : int
        The largest integer of the grid.
    loss : Epsilon or Rho
        What the choice costs.
    entropy : callable
        Source of random bytes.

    Examples
    --------
    >>> numbers, rows = np.array([-3, 4]), np.array([900, 200])
    >>> select_order_statistic(MedianLength(), numbers, rows, 100, Epsilon(Fraction(1)))
    -3
    """
    ends = np.concatenate([[-last - 1], numbers, [last + 1]])
    first = np.stack([ends, ends + 1], axis=1).reshape(-1)[1:-2]
    length = np.stack([np.ones_like(ends), np.diff(ends, append=last + 2) - 1], axis=1)
    length = length.reshape(-1)[1:-2]
    kept = np.flatnonzero(length > 0)
    lengths = functional.lengths(numbers, rows, first[kept])
    runs = Runs(np.zeros(1, np.int64), first[kept], length[kept], lengths)
    return int(mechanism_for(loss).select(runs, entropy)[0])


def mechanism_for(loss: Epsilon | Rho) -> ExponentialMechanism:
    """Return the exponential mechanism of this loss, for lengths."""
    if isinstance(loss, Rho):
        return ExponentialMechanism.for_rho(loss.value, sensitivity=1)
    return ExponentialMechanism.for_epsilon(loss.value, sensitivity=1)


def trimmed_rank(quarter: Epsilon | Rho, candidates: int) -> int:
    """Return 7/4 of r = (8 / epsilon) * log(candidates / 1e-6), from public numbers alone.

    With a threshold of epsilon (a quarter of the whole, so that r is the paper's 32 log / epsilon)
    its rank errs by at most r / 4: it lies in [3 r / 2, 2 r], the band that the paper's proof asks
    for. The printed r / 4 as a target can't give it.
    """
    epsilon = quarter.selection(sensitivity=1).epsilon(sensitivity=1)
    rank = 14 * Fraction(math.log(candidates / FAILURE)) / epsilon
    return min(math.ceil(rank), LARGEST_RANK)


def on_grid(values: Floats, rows: Integers, bounds: Bounds, last: int) -> tuple[Integers, Integers]:
    """Return the distinct grid points 0, ..., last of values, with their rows. Secret."""
    shares = (np.clip(values, bounds.lower, bounds.upper) - bounds.lower) / bounds.width
    counts = np.zeros(last + 1, np.int64)
    np.add.at(counts, np.clip(np.rint(shares * last), 0, last).astype(np.int64), rows)
    integers = np.flatnonzero(counts)
    return integers, counts[integers]


def far(mechanism: ExponentialMechanism, candidates: int) -> int:
    """Return a length above the least from which on lengths may be taken for equal. Public.

    All candidates so far away are chosen with probability below e**-45 together.
    """
    return math.ceil((45 + Fraction(math.log(candidates))) / mechanism.rate)


def length_runs(
    functional: MonotoneProperty, integers: Integers, rows: Integers, last: int, reach: int
) -> Runs:
    """Return the candidates 0, ..., last as runs of equal length. Secret.

    Lengths of a centre end `reach` above the least, which moves them no more with a row.
    """
    candidates = np.arange(last + 1)
    if isinstance(functional, CentreLength):
        lengths = functional.lengths_near(integers, rows, last, reach)
    else:
        lengths = np.asarray(functional.lengths(integers, rows, candidates))
    if lengths.shape != candidates.shape or lengths.dtype != np.int64:
        raise InvalidQuestionError(
            "lengths must be one int64 a candidate",
            hint="Look at dfprivacy.estimators.inverse_sensitivity.MonotoneProperty.",
        )
    first = np.flatnonzero(np.append(True, lengths[1:] != lengths[:-1]))
    width = np.diff(first, append=last + 1)
    return Runs(np.zeros(1, np.int64), first, width, lengths[first])


def checked_intervals(intervals: object) -> int:
    """Return a power of two, so that halves and quarters of a domain are candidates."""
    allowed = range(2, _MOST_INTERVALS + 1)
    if isinstance(intervals, int) and intervals in allowed and intervals.bit_count() == 1:
        return intervals
    raise InvalidQuestionError(
        "intervals must be a power of two from 2 to 2**20", hint=f"Use intervals={INTERVALS}."
    )


def _one_group(grid: SignificantBits, values: Floats, rows: Integers) -> BinTable:
    group = np.zeros(len(values), np.int64)
    return bin_table(pa.table({}), 1, grid, group, grid.labels(values), rows=rows)


def _apart(low: int, high: int, last: int) -> tuple[int, int]:
    return (low, high) if low < high else (max(low - 1, -last), min(high + 1, last))
