"""Select the l_p center of values within bounds privately.

The length of a candidate says how many rows have to be added or removed until it is the center:
inverse sensitivity, Dick et al. Everything is in integers on the public grid lowest, ..., highest;
a center is where the pulls of rows, integers from a public table, cancel. `select_monotone` is
their Algorithm 5 on public bounds. Derivations, and the errata of the paper:
docs/explanation/monotone.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.exact import center_power
from dfprivacy.measurement.runs import run_starts
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism
from dfprivacy.statistics.estimators.quantile import find_known_rows

PULL_BITS = 29  # pulls are integers up to 2**29: sums over fewer than 2**33 rows fit into an int64
_LARGEST_LENGTH = 2**34  # more than all rows there may be

_CELLS = 2**20
_STEP = 64


@dataclass(frozen=True)
class CentreLength:
    """The point t with the least sum of ``|x - t|`` to the power p, p > 1, on the grid.

    Its equation is that the pulls of all rows, sign(x - t) times ``|x - t|`` to the power p - 1,
    add up to 0. They are rounded down to 2**-29 of the largest, from a public table. A length asks
    for centers on both sides of a candidate, or on it.

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
        """Return the larger of two distances: to data whose pull is not up, and not down.

        All int64: `values` ascend, each one of the candidates, with their `rows`, fewer than 2**33
        in all; `candidates` are all integers of the public grid. Adding or removing a row moves
        each length by at most 1.
        """
        if not len(values):
            return np.ones_like(candidates)
        data = self._pull_rows(values, rows, int(candidates[0]), int(candidates[-1]))
        return data.lengths(candidates)

    def lengths_near(self, values: Integers, rows: Integers, last: int, reach: int) -> Integers:
        """Return the lengths of the candidates 0, ..., last, none beyond the least plus `reach`.

        Away from the center lengths never fall, so that few candidates and the outermost rows
        have to be looked at (docs/explanation/monotone.md).
        """
        if not len(values):
            return np.ones(last + 1, np.int64)
        data = self._pull_rows(values, rows, 0, last)
        turn = data.turn()
        smallest = int(data.lengths(np.arange(max(turn - 1, 0), turn + 1)).min())
        cutoff = smallest + min(reach, _LARGEST_LENGTH)
        right = data.mirror().rising(last + 1 - turn, cutoff)
        return np.append(data.rising(turn, cutoff), right[::-1])

    def _pull_rows(self, values: Integers, rows: Integers, low: int, high: int) -> _Pulled:
        span = high - low
        linear = self.p == 2 and span > 0 and (1 << PULL_BITS) % span == 0
        unit = (1 << PULL_BITS) // span if linear else 0
        return _Pulled(values, rows, low, high, self.pulls(span), unit)


@lru_cache(maxsize=4)  # public arguments only
def _pulls(p: float, span: int) -> Integers:
    distances = np.arange(span + 1)
    scaled = (distances / max(span, 1)) ** (p - 1) * 2.0**PULL_BITS
    integers = np.where(distances > 0, np.maximum(np.floor(scaled).astype(np.int64), 1), 0)
    table = np.asarray(np.maximum.accumulate(integers), np.int64)
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

    def mirror(self) -> _Pulled:
        """Return the mirror image, where what pulled down pulls up."""
        values = self.low + self.high - self.values[::-1]
        return replace(self, values=values, rows=self.rows[::-1])

    def lengths(self, candidates: Integers) -> Integers:
        """Return the larger of two distances: to data whose pull is not up, and not down."""
        other_side = self.mirror().until_not_up(self.low + self.high - candidates)
        return np.maximum(self.until_not_up(candidates), other_side)

    def turn(self) -> int:
        """Return the first candidate at which the pull is not up, `low` being 0."""
        coarse = np.arange(0, self.high + 1, _STEP)
        first = max(int(np.sum(self.pull(coarse) > 0)) - 1, 0) * _STEP
        fine = np.arange(first, min(first + _STEP, self.high) + 1)
        return first + int(np.sum(self.pull(fine) > 0))

    def rising(self, stop: int, cutoff: int) -> Integers:
        """Return how far the pull at 0, ..., stop - 1 is from not being up, or `cutoff` if further.

        The pull at all of these is up, and they come nearer and nearer.
        """
        lengths = np.full(stop, cutoff, np.int64)
        coarse = np.arange(0, stop, _STEP)
        far_steps = int(np.sum(self.until_not_up(coarse, cutoff) >= cutoff))
        indexes = np.arange(max(far_steps - 1, 0) * _STEP, stop)
        lengths[indexes] = np.minimum(self.until_not_up(indexes, cutoff), cutoff)
        return lengths

    def pull(self, candidates: Integers) -> Integers:
        """Return the pull of all rows at each candidate; it never grows."""
        if self.unit:
            total = int(self.rows @ self.values) - candidates * int(self.rows.sum())
            return np.asarray(self.unit * total)
        return self._by_block(
            candidates, lambda block: self._pulls_at(block, self.values) @ self.rows
        )

    def until_not_up(self, candidates: Integers, cutoff: int = _LARGEST_LENGTH) -> Integers:
        """Return the fewest rows to remove or add until the pull is not up and a row is left.

        A number of `cutoff` or more may come out as another such number. A row added at the lowest
        end takes `added` off the pull; a row removed takes off its own. The best come first: all
        rows that pull more than `added`, from the top, then rows added.
        """
        return self._by_block(candidates, lambda block: self._until_not_up(block, cutoff))

    def _until_not_up(self, candidates: Integers, cutoff: int) -> Integers:
        size = int(np.searchsorted(np.cumsum(self.rows[::-1]), cutoff)) + 1
        top = replace(self, values=self.values[-size:], rows=self.rows[-size:])
        pull, added = self.pull(candidates), self.pulls[candidates - self.low]
        reach = np.searchsorted(self.pulls, added, side="right") - 1
        start = np.searchsorted(top.values, candidates + reach, side="right")
        suffix, counts = top.suffixes(candidates), _suffix_sums(top.rows)
        rest = pull - suffix(start)
        adding = counts[start] - (-rest // np.maximum(added, 1))
        removing = top.removals(candidates, pull, start, suffix)
        removing += removing == self.rows.sum()
        return np.where(pull <= 0, 0, np.where(rest > 0, adding, removing))

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
        """Return the results of `work` for all candidates, in blocks."""
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


INTERVALS = 2**12  # number of equal intervals of a public domain; candidates are their ends


def select_monotone(
    functional: CentreLength,
    values: Floats,
    rows: Integers,
    domain: tuple[float, float],
    loss: Epsilon | Rho,
) -> float:
    """Return a point t of the domain with probability proportional to exp(-epsilon/2 * length).

    Dick et al., Algorithm 5, with the epsilon that its print lacks. Under rho, epsilon is
    sqrt(8 rho). With probability at least 1 - zeta the length of the result, the number of rows
    between the data and data that have this property, is at most
    (2 / epsilon) * log((INTERVALS + 1) / zeta) above the least, zeta from e**-45 on.

    It costs `loss`; neighbors: one row added or removed.

    Examples
    --------
    >>> values, rows = np.array([3.0, 5.0, 9.0]), np.array([900, 900, 900])
    >>> 5 < select_monotone(CentreLength(2), values, rows, (0, 10), Epsilon(Fraction(1))) < 6.3
    True
    """
    bounds, last, mechanism = Bounds(*domain), INTERVALS, mechanism_for(loss)
    integers, counts = on_grid(*find_known_rows(values, rows), bounds, last)
    reach = length_beyond(mechanism, last + 1)
    lengths = functional.lengths_near(integers, counts, last, reach)
    first = run_starts(lengths)
    runs = Runs(np.zeros(1, np.int64), first, np.diff(first, append=last + 1), lengths[first])
    chosen = int(mechanism.select(runs)[0])
    return min(bounds.lower + chosen * (bounds.width / last), bounds.upper)


def mechanism_for(loss: Epsilon | Rho) -> ExponentialMechanism:
    """Return the exponential mechanism of this loss, for lengths."""
    if isinstance(loss, Rho):
        return ExponentialMechanism.for_rho(loss.value, sensitivity=1)
    return ExponentialMechanism.for_epsilon(loss.value, sensitivity=1)


def on_grid(values: Floats, rows: Integers, bounds: Bounds, last: int) -> tuple[Integers, Integers]:
    """Return the distinct grid points 0, ..., last of values, with their rows. Secret."""
    shares = (np.clip(values, bounds.lower, bounds.upper) - bounds.lower) / bounds.width
    counts = np.zeros(last + 1, np.int64)
    np.add.at(counts, np.clip(np.rint(shares * last), 0, last).astype(np.int64), rows)
    integers = np.flatnonzero(counts)
    return integers, counts[integers]


def length_beyond(mechanism: ExponentialMechanism, candidates: int) -> int:
    """Return a length above the least from which on candidates are as good as never chosen."""
    return math.ceil((45 + Fraction(math.log(candidates))) / mechanism.rate)
