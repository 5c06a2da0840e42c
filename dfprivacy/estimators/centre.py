"""Means and l_p centres: how many rows have to come or go until a candidate lies between two.

Rows pull at a candidate from both sides, by integers from a public table, and a centre is where
the pulls cancel. Lengths and what they are good for: `inverse_sensitivity.py`; proofs:
docs/monotone.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dfprivacy.exact import center_power
from dfprivacy.measurement.binning import Integers

PULL_BITS = 29
"""Pulls are integers up to 2**29: sums over fewer than 2**33 rows fit into an int64."""

_LARGEST_LENGTH = 2**34
"""More than all rows there may be."""

_CELLS = 2**20
_STEP = 64


@dataclass(frozen=True)
class CentreLength:
    """The point t with the least sum of ``|x - t|`` to the power p, p > 1, on the grid.

    Its equation is that the pulls of all rows, sign(x - t) times ``|x - t|`` to the power p - 1,
    add up to 0. They are rounded down to 2**-29 of the largest, from a public table. A length asks
    for centres on both sides of a candidate, or on it.

    Parameters
    ----------
    p : float
        Above 1, at most 64; 2 is the mean.

    Raises
    ------
    InvalidQuestionError
        When p is not such a number.

    Examples
    --------
    >>> grid = np.arange(5)
    >>> CentreLength(2).lengths(np.array([0, 4]), np.array([5, 3]), grid).tolist()
    [3, 2, 2, 4, 5]
    """

    p: float

    def __post_init__(self) -> None:
        """Refuse what has no strictly convex distance."""
        center_power(self.p)

    def pulls(self, span: int) -> Integers:
        """Return the pull of each distance 0, ..., span: public, ascending, 0 at 0 alone."""
        return _pulls(center_power(self.p), span)

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return the larger of two distances: to data whose pull is not up, and not down."""
        if not len(values):
            return np.ones_like(candidates)
        data = self._pulled(values, rows, int(candidates[0]), int(candidates[-1]))
        return data.lengths(candidates)

    def lengths_near(self, values: Integers, rows: Integers, last: int, reach: int) -> Integers:
        """Return the lengths of the candidates 0, ..., last, none beyond the least plus `reach`.

        Away from the centre lengths never fall, so that few candidates and the outermost rows
        have to be looked at (docs/monotone.md).
        """
        if not len(values):
            return np.ones(last + 1, np.int64)
        data = self._pulled(values, rows, 0, last)
        turn = data.turn()
        least = int(data.lengths(np.arange(max(turn - 1, 0), turn + 1)).min())
        most = least + min(reach, _LARGEST_LENGTH)
        right = data.mirrored().rising(last + 1 - turn, most)
        return np.append(data.rising(turn, most), right[::-1])

    def _pulled(self, values: Integers, rows: Integers, low: int, high: int) -> _Pulled:
        span = high - low
        linear = self.p == 2 and span > 0 and (1 << PULL_BITS) % span == 0
        unit = (1 << PULL_BITS) // span if linear else 0
        return _Pulled(values, rows, low, high, self.pulls(span), unit)


@lru_cache(maxsize=4)  # public arguments only
def _pulls(p: float, span: int) -> Integers:
    distances = np.arange(span + 1)
    scaled = (distances / max(span, 1)) ** (p - 1) * 2.0**PULL_BITS
    whole = np.where(distances > 0, np.maximum(np.floor(scaled).astype(np.int64), 1), 0)
    table = np.asarray(np.maximum.accumulate(whole), np.int64)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, eq=False, repr=False)
class _Pulled:
    """Rows at values that pull at candidates between two ends. Secret.

    `pulls` has the pull of each distance; where `unit` is not 0, it is that many times the
    distance.
    """

    values: Integers
    rows: Integers
    low: int
    high: int
    pulls: Integers
    unit: int

    def mirrored(self) -> _Pulled:
        """Return the mirror image, where what pulled down pulls up."""
        values = self.low + self.high - self.values[::-1]
        return replace(self, values=values, rows=self.rows[::-1])

    def lengths(self, candidates: Integers) -> Integers:
        """Return the larger of two distances: to data whose pull is not up, and not down."""
        other_side = self.mirrored().until_not_up(self.low + self.high - candidates)
        return np.maximum(self.until_not_up(candidates), other_side)

    def turn(self) -> int:
        """Return the first candidate at which the pull is not up, `low` being 0."""
        coarse = np.arange(0, self.high + 1, _STEP)
        first = max(int(np.sum(self.pull(coarse) > 0)) - 1, 0) * _STEP
        fine = np.arange(first, min(first + _STEP, self.high) + 1)
        return first + int(np.sum(self.pull(fine) > 0))

    def rising(self, stop: int, most: int) -> Integers:
        """Return how far the pull at 0, ..., stop - 1 is from not being up, or `most` if further.

        The pull at all of these is up, and they come nearer and nearer.
        """
        lengths = np.full(stop, most, np.int64)
        coarse = np.arange(0, stop, _STEP)
        far = int(np.sum(self.until_not_up(coarse, most) >= most))
        near = np.arange(max(far - 1, 0) * _STEP, stop)
        lengths[near] = np.minimum(self.until_not_up(near, most), most)
        return lengths

    def pull(self, candidates: Integers) -> Integers:
        """Return the pull of all rows at each candidate; it never grows."""
        if self.unit:
            total = int(self.rows @ self.values) - candidates * int(self.rows.sum())
            return np.asarray(self.unit * total)
        return self._by_block(candidates, lambda own: self._pulls_at(own, self.values) @ self.rows)

    def until_not_up(self, candidates: Integers, most: int = _LARGEST_LENGTH) -> Integers:
        """Return the fewest rows to remove or add until the pull is not up and a row is left.

        A number of `most` or more may come out as another such number. A row added at the lowest
        end takes `added` off the pull; a row removed takes off its own. The best come first: all
        rows that pull more than `added`, from the top, then rows added.
        """
        return self._by_block(candidates, lambda own: self._until_not_up(own, most))

    def _until_not_up(self, candidates: Integers, most: int) -> Integers:
        top = self._outermost(most)
        pull, added = self.pull(candidates), self.pulls[candidates - self.low]
        reach = np.searchsorted(self.pulls, added, side="right") - 1
        start = np.searchsorted(top.values, candidates + reach, side="right")
        suffix, counts = top.suffixes(candidates), _suffix_sums(top.rows)
        rest = pull - suffix(start)
        adding = counts[start] - (-rest // np.maximum(added, 1))
        removing = top.removals(candidates, pull, start, suffix)
        removing += removing == self.rows.sum()
        return np.where(pull <= 0, 0, np.where(rest > 0, adding, removing))

    def _outermost(self, most: int) -> _Pulled:
        """Return the highest values alone, with `most` rows or more, or all."""
        kept = int(np.searchsorted(np.cumsum(self.rows[::-1]), most)) + 1
        return replace(self, values=self.values[-kept:], rows=self.rows[-kept:])

    def suffixes(self, candidates: Integers) -> Suffix:
        """Return the pulls of suffixes at each candidate."""
        if self.unit:
            counts, sums = _suffix_sums(self.rows), _suffix_sums(self.rows * self.values)
            return lambda j: np.asarray(self.unit * (sums[j] - candidates * counts[j]))
        sums = _suffix_sums(self._pulls_at(candidates, self.values) * self.rows)
        every = np.arange(len(candidates))
        return lambda j: np.asarray(sums[every, j])

    def removals(
        self, candidates: Integers, pull: Integers, start: Integers, suffix: Suffix
    ) -> Integers:
        """Return the fewest rows to remove from the top, where all from `start` on are enough."""
        counts, values = _suffix_sums(self.rows), self.values
        low, high = start, np.full_like(start, len(values))
        for _ in range(len(values).bit_length()):
            middle = (low + high) // 2
            enough = suffix(middle) >= pull
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        last = np.minimum(low, len(values) - 1)
        distance = np.clip(values[last] - candidates, 0, len(self.pulls) - 1)
        missing = pull - suffix(last + 1)
        return np.asarray(counts[last + 1] - (-missing // np.maximum(self.pulls[distance], 1)))

    def _pulls_at(self, candidates: Integers, values: Integers) -> Integers:
        """Return the pull of a row at each value, one line a candidate."""
        signed = np.concatenate([-self.pulls[:0:-1], self.pulls])
        return np.asarray(signed[values + (len(self.pulls) - 1) - candidates[:, None]])

    def _by_block(self, candidates: Integers, work: Callable[[Integers], Integers]) -> Integers:
        """Return what `work` returns for all candidates, some of them at a time."""
        cells = len(candidates) * (1 if self.unit else len(self.values))
        blocks = np.array_split(candidates, cells // _CELLS + 1)
        return np.concatenate([work(block) for block in blocks])


Suffix = Callable[[Integers], Integers]
"""From one index j a candidate to the pull of all values from the j-th on, one a candidate."""


def _suffix_sums(terms: Integers) -> Integers:
    """Return the sums of all terms from the j-th on along the last axis; 0 after the last."""
    sums = np.zeros((*terms.shape[:-1], terms.shape[-1] + 1), np.int64)
    np.cumsum(terms[..., ::-1], axis=-1, out=sums[..., -2::-1])
    return sums
