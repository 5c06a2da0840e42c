"""Race for a selection: each candidate has a random time, times exp(rate * loss). The least wins.

With exponential times this is the exponential mechanism, with uniform times permute-and-flip
(docs/explanation/selection.md has both proofs). The candidates of a run have equal losses, so that
only the first of them can win. Its time follows from one uniform U and the run's length w through
x = -ln(U) / w, and the race is between runs. Keys ln(time) + rate * loss are enclosed in floating
point for whole blocks of groups. Where the enclosures of a group leave more than one run, these
few race again with the same uniforms, enclosed to any precision.

In that exact race the first candidate of a run arrives at x (`exponential_times`) or at 1 - exp(-x)
(`uniform_times`), and the run whose ln(arrival) + level is least wins. Every number is a pair of
decimals, a lower and an upper end, each rounded away from the other. Digits of U are appended until
one run is left. None is redrawn.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.runs import list_distinct
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.samplers import stuck
from dfprivacy.noise.tails import isolate_context
from dfprivacy.noise.uniform import BITS, LazyUniform, Workspace, is_certified, negative_log

Ends = tuple[decimal.Decimal, decimal.Decimal]

_MOST_BITS = 2048
"""Two runs that so many digits can't tell apart, of probability below 2**-1000, mean a broken
source."""

_SPARE_DIGITS = 60
"""Beyond the digits of U: 1 - exp(-x) is rounded at 10**-60 cells, x moves by 10**-19 and more."""

_ONE = decimal.Decimal(1)


@dataclass(frozen=True)
class Rounding:
    """Decimal arithmetic of one precision that rounds down, or up, as the caller chooses."""

    down: decimal.Context
    up: decimal.Context

    @classmethod
    def to(cls, digits: int) -> Rounding:
        """Return arithmetic of so many digits, independent of the caller's decimal context."""
        return cls(
            isolate_context(digits, decimal.ROUND_FLOOR),
            isolate_context(digits, decimal.ROUND_CEILING),
        )

    def quotient(self, low: int, high: int, divisor: int) -> Ends:
        """Enclose [low, high] / divisor."""
        exact = decimal.Decimal(divisor)
        return (
            self.down.divide(decimal.Decimal(low), exact),
            self.up.divide(decimal.Decimal(high), exact),
        )

    def log(self, ends: Ends) -> Ends:
        """Enclose ln: decimal's is correctly rounded, so that its neighbors enclose it."""
        return (self.down.next_minus(self.down.ln(ends[0])), self.up.next_plus(self.up.ln(ends[1])))


ArrivalTimes = Callable[[Ends, Rounding], Ends]


def exponential_times(ends: Ends, rounding: Rounding) -> Ends:  # noqa: ARG001 one signature for both
    """Return x itself: the first of w exponential times is -ln(U) / w."""
    return ends


def uniform_times(ends: Ends, rounding: Rounding) -> Ends:
    """Enclose 1 - exp(-x): the first of w uniform times is 1 - U**(1 / w)."""
    down, up = rounding.down, rounding.up
    low = down.next_minus(down.exp(ends[1].copy_negate()))  # of exp(-x), which falls with x
    high = up.next_plus(up.exp(ends[0].copy_negate()))
    return down.subtract(_ONE, high), up.subtract(_ONE, low)


@dataclass(frozen=True)
class Entrant:
    """One run in the race: its uniform, its number of candidates, and rate * loss."""

    uniform: LazyUniform
    length: int
    level: Fraction

    def key(self, times: ArrivalTimes) -> Ends:
        """Enclose ln(arrival) + level by the digits of U that are known."""
        low, high, unit = self.uniform.negative_log()
        while low == 0:
            self.extend()
            low, high, unit = self.uniform.negative_log()
        rounding = Rounding.to(self.uniform.bits * 302 // 1000 + _SPARE_DIGITS)
        arrival = times(rounding.quotient(low, high, unit * self.length), rounding)
        log = rounding.log(arrival)
        numerator, denominator = self.level.as_integer_ratio()
        level = rounding.quotient(numerator, numerator, denominator)
        return rounding.down.add(log[0], level[0]), rounding.up.add(log[1], level[1])

    def extend(self) -> None:
        """Append 64 digits to the uniform, which 2,048 decide unless the source is broken."""
        if self.uniform.bits >= _MOST_BITS:
            raise stuck()
        self.uniform.extend()


def first(entrants: Sequence[Entrant], times: ArrivalTimes) -> int:
    """Return the index of the entrant with the least key, exactly."""
    rivals = list(range(len(entrants)))
    while len(rivals) > 1:
        keys = [entrants[index].key(times) for index in rivals]
        latest = min(high for _, high in keys)
        rivals = [index for index, (low, _) in zip(rivals, keys, strict=True) if low <= latest]
        if len(rivals) > 1:
            for index in rivals:
                entrants[index].extend()
    return rivals[0]


LARGEST_LENGTH = 2**62
"""Lengths are below it, so that length / 2**62 is where numpy.log has been tested."""

_LEAST_LOSS_ERROR = 2.0**-50
_UNIFORM_TIMES_ERROR = 2.0**-40
_RELATIVE = 2.0**-45  # twice the 64 units in the last place that numpy.log may be off
_SLACK = 1.0 + 2.0**-20  # covers the rounding of the error terms themselves
_HALVINGS = 6
_TERMS = 13


@dataclass(frozen=True)
class Times:
    """When the first candidate of a run arrives, given x = -ln(U) / length.

    `log_ratio` returns ln(time / x) for 0 < x < 64, or NaN, off by at most `error`. `exact`
    encloses the time itself. Both times grow with x, and ln(time) at most as fast as ln(x).
    """

    log_ratio: Callable[[Floats], Floats]
    error: float
    exact: ArrivalTimes


def log_uniform_ratio(x: Floats) -> Floats:
    """Return ln((1 - exp(-x)) / x) for 0 < x < 64 within 2**-40, by IEEE arithmetic and numpy.log.

    With g(y) = (1 - exp(-y)) / y: a Taylor polynomial, alternating, for g(x / 64) with
    x / 64 < 0.69. Then g(2 y) = g(y) * (1 - y * g(y) / 2) six times, which never enlarges a
    relative error.
    """
    y = x * 2.0**-_HALVINGS
    ratio = np.full_like(x, _TAYLOR[-1])
    for coefficient in _TAYLOR[-2::-1]:
        np.multiply(ratio, y, out=ratio)
        np.add(ratio, coefficient, out=ratio)
    factor = np.empty_like(x)
    np.multiply(y, -0.5, out=y)
    for _ in range(_HALVINGS):
        np.multiply(ratio, y, out=factor)
        np.add(factor, 1.0, out=factor)
        np.multiply(ratio, factor, out=ratio)
        np.multiply(y, 2.0, out=y)
    np.minimum(ratio, 1.0, out=ratio)
    return np.log(ratio, out=ratio)


_TAYLOR = [(-1) ** k / math.factorial(k + 1) for k in range(_TERMS)]

EXPONENTIAL = Times(np.zeros_like, _LEAST_LOSS_ERROR, exponential_times)
UNIFORM = Times(log_uniform_ratio, _UNIFORM_TIMES_ERROR, uniform_times)


class Race:
    """Races of one law for one call, at most `size` runs at a time."""

    def __init__(self, times: Times, rate: Fraction, size: int, entropy: EntropySource) -> None:
        self._times = times
        self._rate = rate
        self._entropy = entropy
        self._work = Workspace.of(size)
        self._certified = is_certified()

    def winners(self, starts: Integers, lengths: Integers, losses: Integers) -> Integers:
        """Return the index of the winning run of each group. One random word for each run."""
        words = random_words(len(lengths), self._entropy)
        return self.decide((words >> np.uint64(1)).view(np.int64), starts, lengths, losses)

    def decide(
        self, mantissas: Integers, starts: Integers, lengths: Integers, losses: Integers
    ) -> Integers:
        """Return the winners with the uniform cells [m, m + 1] / 2**63."""
        gaps = excess_losses(losses, starts)
        if self._certified:
            work = self._work.first(len(lengths))
            with np.errstate(all="ignore"):
                levels = np.asarray(gaps * float(self._rate), dtype=np.float64)
                certain_keys(mantissas, lengths, levels, self._times, work)
                rivals = certain_rivals(starts, work)
        else:
            rivals = np.arange(len(lengths))
        heads = np.searchsorted(rivals, starts)
        winners = rivals[heads]
        tails = np.append(heads[1:], len(rivals))
        for group in np.flatnonzero(tails - heads > 1).tolist():
            runs = rivals[heads[group] : tails[group]].tolist()
            entrants = [
                Entrant(
                    LazyUniform(int(mantissas[run]), BITS, self._entropy),
                    int(lengths[run]),
                    self._rate * int(gaps[run]),
                )
                for run in runs
            ]
            winners[group] = runs[first(entrants, self._times.exact)]
        return winners


def excess_losses(losses: Integers, starts: Integers) -> Integers:
    """Return each loss less the least loss of its group: a shift of all keys of the group."""
    smallest = np.minimum.reduceat(losses, starts)
    return np.asarray(losses - np.repeat(smallest, np.diff(starts, append=len(losses))))


def certain_rivals(starts: Integers, work: Workspace) -> Integers:
    """Return the runs that can win their group, ascending: one a group where that is certain.

    A run is out if the lower end of its key is above the upper end of another. Where the cell of
    U says nothing (m = 0, or next to U = 1), an end is infinite or not a number: the run stays.
    """
    value, error, spare = work.value, work.error, work.spare
    np.add(value, error, out=spare)
    latest = np.repeat(np.fmin.reduceat(spare, starts), np.diff(starts, append=len(spare)))
    np.subtract(value, error, out=spare)
    np.greater(spare, latest, out=work.agrees)
    return np.flatnonzero(~work.agrees)


def certain_keys(
    mantissas: Integers, lengths: Integers, levels: Floats, times: Times, work: Workspace
) -> None:
    """Enclose ln(time) + level, up to a constant, for any U in [m, m + 1] / 2**63.

    Afterwards the key, plus 62 ln 2 - 6 ln 2, is within work.error of work.value. The error is
    infinite, or one of both is not a number, where that can't be said.

    With E = -ln U, off by a relative r <= 1/2: ln E moves by at most 2 r, and so does ln(time / x).
    All logarithms are of floats in [2**-63, 1], where numpy.log has been tested.
    Call it under ``numpy.errstate(all="ignore")`` and only while `is_certified` holds.
    """
    negative_log(mantissas, work)
    value, error, spare = work.value, work.error, work.spare
    np.abs(value, out=value)  # -ln 1 is -0.0
    np.divide(error, value, out=error)
    np.copyto(error, np.inf, where=~(error <= 0.5))
    np.multiply(error, 4.0, out=error)
    np.copyto(spare, lengths)
    ratio = times.log_ratio(value / spare)
    np.multiply(value, 2.0**-_HALVINGS, out=value)
    np.log(value, out=value)
    np.multiply(spare, 1.0 / LARGEST_LENGTH, out=spare)
    np.log(spare, out=spare)
    size = levels - value
    np.subtract(size, spare, out=size)
    np.subtract(size, ratio, out=size)
    np.subtract(value, spare, out=value)
    np.add(value, ratio, out=value)
    np.add(value, levels, out=value)
    np.multiply(size, _RELATIVE, out=size)
    np.add(error, size, out=error)
    np.add(error, times.error, out=error)
    np.multiply(error, _SLACK, out=error)


LARGEST_LOSS = 2**53
"""Losses are below it, so that float64 holds their differences."""

BLOCK = 2**14
"""Runs a block, unless one group has more: its buffers stay in the processor's cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Runs:
    """The candidates of many groups, as runs of neighbors with equal loss. Secret.

    The candidates of a group, the union of its runs, have to be public and the same on
    neighboring data. Where its runs begin and end, and their losses, may depend on the data.
    All are int64 arrays: `group_starts` has where the runs of a group begin in the other three,
    ascending from 0, so that every group has a run. `first` is a run's first candidate, `length`
    how many it has, from 1 to 2**62 - 1, `loss` that of each of them, from 0 to 2**53 - 1.

    >>> import numpy as np
    >>> Runs(np.array([0]), np.array([0, 10]), np.array([10, 5]), np.array([3, 0]))
    Runs(secret)
    """

    group_starts: Integers
    first: Integers
    length: Integers
    loss: Integers

    def __post_init__(self) -> None:
        """Refuse arrays that are not runs, without a word about their values."""
        if not _are_runs(self.group_starts, self.first, self.length, self.loss):
            raise InvalidQuestionError(
                "these arrays are not runs of candidates",
                hint="Pass four int64 arrays as the docstring of Runs describes them.",
            )

    def __repr__(self) -> str:
        """Show nothing: even the number of runs is secret."""
        return "Runs(secret)"


def blocks(starts: Integers, total: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of whole groups, as slices of the groups and of their runs."""
    if not total:
        return
    targets = np.arange(0, total, BLOCK)
    cuts = list_distinct(np.searchsorted(starts, targets, side="right") - 1).tolist()
    edges = starts[cuts].tolist()
    for low, high, left, right in zip(
        cuts, [*cuts[1:], len(starts)], edges, [*edges[1:], total], strict=True
    ):
        yield slice(low, high), slice(left, right)


def _are_runs(starts: Integers, first: Integers, length: Integers, loss: Integers) -> bool:
    arrays = (starts, first, length, loss)
    if not all(isinstance(array, np.ndarray) and array.dtype == np.int64 for array in arrays):
        return False
    if any(array.ndim != 1 for array in arrays) or not len(first) == len(length) == len(loss):
        return False
    if not (len(starts) and len(first)):
        return len(starts) == len(first)
    return bool(
        starts[0] == 0
        and np.diff(starts, append=len(first)).min() > 0
        and length.min() >= 1
        and length.max() < LARGEST_LENGTH
        and loss.min() >= 0
        and loss.max() < LARGEST_LOSS
        and (first <= np.iinfo(np.int64).max - (length - 1)).all()
    )
