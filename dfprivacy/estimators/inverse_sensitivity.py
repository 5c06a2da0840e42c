"""Lengths: how many rows have to be added or removed until a property has a given value.

The length of a candidate moves by at most 1 with a row, so that a small one can be selected
privately: inverse sensitivity, Dick et al., Algorithm 5 (`monotone.py`). Everything here is in
integers, values and candidates on the public grid lowest, ..., highest. Derivations and the
errata of the paper: docs/monotone.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.exact import decimal_number, describe, exact_number
from dfprivacy.statistics.binning import Integers

PULL_BITS = 29
"""Pulls are integers up to 2**29: sums over fewer than 2**33 rows fit into an int64."""

_LARGEST_DENOMINATOR = 2**20
_LARGEST_POWER = 64
_CELLS = 2**20


class MonotoneProperty(Protocol):
    """A property of a data set, by the lengths of its possible values.

    Raising a row's value must not lower the property (Algorithm 4 needs it for its accuracy), and
    adding or removing a row must move each length by at most 1 (the privacy proof needs it).
    """

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return how many rows have to come or go until the property is each candidate.

        Parameters
        ----------
        values : numpy.ndarray
            int64, ascending, distinct, each one of the candidates; none for an empty data set.
        rows : numpy.ndarray
            int64, how many rows have each value, at least 1; fewer than 2**33 in total.
        candidates : numpy.ndarray
            int64, every integer from the lowest to the highest of the public grid, ascending.

        Returns
        -------
        numpy.ndarray
            int64, one a candidate, from 0 to 2**53 - 1.
        """


def counts_around(
    values: Integers, rows: Integers, candidates: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return how many rows are below, at and above each candidate."""
    counted = np.append(np.zeros(1, np.int64), np.cumsum(rows))
    below = counted[np.searchsorted(values, candidates, side="left")]
    upto = counted[np.searchsorted(values, candidates, side="right")]
    return below, upto - below, counted[-1] - upto


@dataclass(frozen=True)
class MedianLength:
    """The lower median: the smallest v with at least half of the rows up to v.

    >>> grid = np.arange(10)
    >>> MedianLength().lengths(np.array([2, 7]), np.array([5, 3]), grid).tolist()
    [8, 8, 0, 3, 3, 3, 3, 3, 9, 9]
    """

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return max(0, a - b - e + 1, b - a - e): a rows below, e at, b above a candidate."""
        below, equal, above = counts_around(values, rows, candidates)
        too_high, too_low = below - above - equal + 1, above - below - equal
        return np.asarray(np.maximum(np.maximum(too_high, too_low), 0))


@dataclass(frozen=True)
class QuantileLength:
    """The smallest v with at least a share q of the rows up to v.

    Parameters
    ----------
    q : Fraction or float
        Strictly between 0 and 1; a float counts as the decimal that it prints, with at most six
        places (a fraction with a denominator up to 2**20).

    Raises
    ------
    InvalidQuestionError
        When q is not such a number.
    """

    q: Fraction | float

    def __post_init__(self) -> None:
        """Keep q as an exact fraction."""
        q = decimal_number(self.q)
        if q is None or not 0 < q < 1 or q.denominator > _LARGEST_DENOMINATOR:
            raise InvalidQuestionError(
                f"q must be between 0 and 1, with at most six places, not {describe(self.q)}",
                hint="Use q=Fraction(1, 4).",
            )
        object.__setattr__(self, "q", q)

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return the lengths; everything in units of 1 / denominator."""
        below, equal, above = counts_around(values, rows, candidates)
        part, unit = Fraction(self.q).as_integer_ratio()
        goal = part * (below + equal + above)
        high = _too_high(unit * below - goal, equal, part, unit - part)
        low = _too_low(goal - unit * (below + equal), equal, part, unit - part)
        return np.where(unit * below >= goal, high, np.where(low > 0, low, 0))


def _too_high(gap: Integers, equal: Integers, q: int, rest: int) -> Integers:
    """Return the lengths where a share q lies below: add at or above, or remove below."""
    if q > rest:
        return gap // q + 1
    first = np.where(gap >= q, (gap - q) // rest + 1, 0) + 1
    return np.where(equal > 0, gap // rest + 1, first)


def _too_low(gap: Integers, equal: Integers, q: int, rest: int) -> Integers:
    """Return the lengths where less than q lies up to here: remove above, or add at or below."""
    if q <= rest:
        return -(-gap // rest)
    first = np.where(gap > rest, -(-(gap - rest) // q), 0) + 1
    return np.where(gap <= 0, 0, np.where(equal > 0, -(-gap // q), first))


@dataclass(frozen=True)
class MeanLength:
    """The mean, where a length asks for means on both sides of a candidate, or on it.

    >>> grid = np.arange(5)
    >>> MeanLength().lengths(np.array([0, 4]), np.array([5, 3]), grid).tolist()
    [3, 2, 2, 4, 5]
    """

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return the lengths of the centre of p = 2, by sums over suffixes."""
        pulls = np.arange(int(candidates[-1] - candidates[0]) + 1)
        ends = int(candidates[0]), int(candidates[-1])
        return _centre_lengths(_linear, _Pulled(values, rows, candidates, ends, pulls))


@dataclass(frozen=True)
class CentreLength:
    """The point t with the least sum of ``|x - t|`` to the power p, p > 1, on the grid.

    Its equation is that the pulls of all rows, sign(x - t) times ``|x - t|`` to the power p - 1,
    add up to 0. They are rounded down to 2**-29 of the largest, from a public table.

    Parameters
    ----------
    p : float
        Above 1, at most 64; 2 is the mean.

    Raises
    ------
    InvalidQuestionError
        When p is not such a number.
    """

    p: float

    def __post_init__(self) -> None:
        """Refuse what has no strictly convex distance."""
        exact = exact_number(self.p)
        if exact is None or not 1 < exact <= _LARGEST_POWER:
            raise InvalidQuestionError(
                f"p must be above 1 and at most 64, not {describe(self.p)}", hint="Use p=1.5."
            )

    def pulls(self, span: int) -> Integers:
        """Return the pull of each distance 0, ..., span: public, ascending, 0 at 0 alone."""
        distances = np.arange(span + 1)
        scaled = (distances / max(span, 1)) ** (float(self.p) - 1) * 2.0**PULL_BITS
        whole = np.maximum(np.floor(scaled).astype(np.int64), distances > 0)
        return np.asarray(np.maximum.accumulate(whole), np.int64)

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return the lengths; a block of candidates at a time against all values."""
        ends = int(candidates[0]), int(candidates[-1])
        pulls = self.pulls(ends[1] - ends[0])
        blocks = np.array_split(candidates, len(candidates) * len(values) // _CELLS + 1)
        return np.concatenate(
            [
                _centre_lengths(_tabled, _Pulled(values, rows, block, ends, pulls))
                for block in blocks
            ]
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Pulled:
    """Rows at values that pull at candidates between two ends; `pulls` by distance. Secret."""

    values: Integers
    rows: Integers
    candidates: Integers
    ends: tuple[int, int]
    pulls: Integers

    def mirrored(self) -> _Pulled:
        """Return the mirror image, where what pulled down pulls up."""
        both = sum(self.ends)
        values, candidates = both - self.values[::-1], both - self.candidates
        return _Pulled(values, self.rows[::-1], candidates, self.ends, self.pulls)


Suffix = Callable[[Integers], Integers]
"""From one index j a candidate to the pull of all values from the j-th on, one a candidate."""


def _linear(data: _Pulled) -> Suffix:
    """Return the pulls of suffixes where a row pulls by its distance."""
    counts, sums = _suffix_sums(data.rows), _suffix_sums(data.rows * data.values)
    return lambda j: np.asarray(sums[j] - data.candidates * counts[j])


def _tabled(data: _Pulled) -> Suffix:
    """Return the pulls of suffixes by the table, from all candidates times all values."""
    distances = data.values - data.candidates[:, None]
    sums = _suffix_sums(np.sign(distances) * data.pulls[np.abs(distances)] * data.rows)
    return lambda j: np.asarray(sums[np.arange(len(data.candidates)), j])


def _centre_lengths(suffixes: Callable[[_Pulled], Suffix], data: _Pulled) -> Integers:
    """Return the larger of two distances: to data whose pull is not up, and not down."""
    if not len(data.values):
        return np.ones_like(data.candidates)
    image = data.mirrored()
    return np.maximum(_until_not_up(data, suffixes(data)), _until_not_up(image, suffixes(image)))


def _until_not_up(data: _Pulled, suffix: Suffix) -> Integers:
    """Return the fewest rows to remove or add until the pull is not up and a row is left.

    A row added at the lowest end takes `added` off the pull; a row removed takes off its own. The
    best come first: all rows that pull more than `added`, from the top, then rows added.
    """
    counts = _suffix_sums(data.rows)
    pull = suffix(np.zeros_like(data.candidates))
    added = data.pulls[data.candidates - data.ends[0]]
    reach = np.searchsorted(data.pulls, added, side="right") - 1
    start = np.searchsorted(data.values, data.candidates + reach, side="right")
    rest = pull - suffix(start)
    adding = counts[start] - (-rest // np.maximum(added, 1))
    removing = _removals(data, suffix, start)
    removing += removing == counts[0]
    return np.where(pull <= 0, 0, np.where(rest > 0, adding, removing))


def _removals(data: _Pulled, suffix: Suffix, start: Integers) -> Integers:
    """Return the fewest rows to remove from the top, where all from `start` on are enough."""
    counts, values = _suffix_sums(data.rows), data.values
    pull = suffix(np.zeros_like(data.candidates))
    low, high = start, np.full_like(start, len(values))
    for _ in range(len(values).bit_length()):
        middle = (low + high) // 2
        enough = suffix(middle) >= pull
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    last = np.minimum(low, len(values) - 1)
    distance = np.clip(values[last] - data.candidates, 0, len(data.pulls) - 1)
    missing = pull - suffix(last + 1)
    return np.asarray(counts[last + 1] - (-missing // np.maximum(data.pulls[distance], 1)))


def _suffix_sums(terms: Integers) -> Integers:
    """Return the sums of all terms from the j-th on along the last axis; 0 after the last."""
    sums = np.zeros((*terms.shape[:-1], terms.shape[-1] + 1), np.int64)
    np.cumsum(terms[..., ::-1], axis=-1, out=sums[..., -2::-1])
    return sums
