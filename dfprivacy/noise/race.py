"""The race that selects: every candidate has a random time, times exp(rate * loss); the least wins.

With exponential times this is the exponential mechanism, with uniform times permute-and-flip
(docs/selection.md has both proofs). The candidates of a run have equal losses, so that only the
first of them can win; its time follows from one uniform U and the run's length w through
x = -ln(U) / w, and the race is between runs. Keys ln(time) + rate * loss are enclosed in floating
point for whole blocks of groups; where the enclosures of a group leave more than one run, these
few race again in `exact_race` with the same uniforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.exact_race import (
    ArrivalTimes,
    Entrant,
    exponential_times,
    first,
    uniform_times,
)
from dfprivacy.noise.logarithm import BITS, Workspace, certified, negative_log
from dfprivacy.noise.uniform import LazyUniform

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

    `log_ratio` returns ln(time / x) for 0 < x < 64, or NaN, off by at most `error`; `exact`
    encloses the time itself. Both times grow with x, and ln(time) at most as fast as ln(x).
    """

    log_ratio: Callable[[Floats], Floats]
    error: float
    exact: ArrivalTimes


def _no_ratio(x: Floats) -> Floats:
    return np.zeros_like(x)


def log_uniform_ratio(x: Floats) -> Floats:
    """Return ln((1 - exp(-x)) / x) for 0 < x < 64 within 2**-40, by IEEE arithmetic and numpy.log.

    With g(y) = (1 - exp(-y)) / y: a Taylor polynomial, alternating, for g(x / 64) with
    x / 64 < 0.69; then g(2 y) = g(y) * (1 - y * g(y) / 2) six times, which never enlarges a
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

EXPONENTIAL = Times(_no_ratio, _LEAST_LOSS_ERROR, exponential_times)
UNIFORM = Times(log_uniform_ratio, _UNIFORM_TIMES_ERROR, uniform_times)


class Race:
    """Races of one law for one call, at most `size` runs at a time."""

    def __init__(self, times: Times, rate: Fraction, size: int, entropy: EntropySource) -> None:
        self._times = times
        self._rate = rate
        self._entropy = entropy
        self._work = Workspace.of(size)
        self._certified = certified()

    def winners(self, starts: Integers, lengths: Integers, losses: Integers) -> Integers:
        """Return the index of the winning run of each group; one random word for each run."""
        words = random_words(len(lengths), self._entropy)
        return self.decided((words >> np.uint64(1)).view(np.int64), starts, lengths, losses)

    def decided(
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
    least = np.minimum.reduceat(losses, starts)
    return np.asarray(losses - np.repeat(least, group_sizes(starts, len(losses))))


def group_sizes(starts: Integers, total: int) -> Integers:
    """Return the number of runs of each group."""
    return np.diff(starts, append=total)


def certain_rivals(starts: Integers, work: Workspace) -> Integers:
    """Return the runs that can win their group, ascending: one a group where that is certain.

    A run is out if the lower end of its key is above the upper end of another. Where the cell of
    U says nothing (m = 0, or next to U = 1), an end is infinite or not a number: the run stays.
    """
    value, error, spare = work.value, work.error, work.spare
    np.add(value, error, out=spare)
    latest = np.repeat(np.fmin.reduceat(spare, starts), group_sizes(starts, len(spare)))
    np.subtract(value, error, out=spare)
    np.greater(spare, latest, out=work.agrees)
    return np.flatnonzero(~work.agrees)


def certain_keys(
    mantissas: Integers, lengths: Integers, levels: Floats, times: Times, work: Workspace
) -> None:
    """Enclose ln(time) + level, up to a constant, for any U in [m, m + 1] / 2**63.

    Afterwards the key, plus 62 ln 2 - 6 ln 2, is within work.error of work.value; the error is
    infinite, or one of both is not a number, where that can't be said.

    With E = -ln U, off by a relative r <= 1/2: ln E moves by at most 2 r, and so does ln(time / x).
    All logarithms are of floats in [2**-63, 1], where numpy.log has been tested.
    Call it under ``numpy.errstate(all="ignore")`` and only while `certified` holds.
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
