"""Lengths: how many rows have to be added or removed until a property has a given value.

The length of a candidate moves by at most 1 with a row, so that a small one can be selected
privately: inverse sensitivity, Dick et al., Algorithm 5 (`monotone.py`). Everything here is in
integers, values and candidates on the public grid lowest, ..., highest. Derivations and the
errata of the paper: docs/monotone.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.exact import decimal_number, describe
from dfprivacy.measurement.binning import Integers

_LARGEST_DENOMINATOR = 2**20


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
