"""Select a candidate of small loss: by the exponential mechanism, or by permute-and-flip.

Candidates are integers on a public grid and come as runs of equal loss, so that a grid of 2**60
points costs as much as the distinct values of the data. One call selects for many groups. The
laws are exact: docs/explanation/selection.md proves it.

Public random signs and labels (`random_signs`, `random_labels`) look at no data and cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import InvalidLossError
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.exact import root_below
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laws import exact_parameter
from dfprivacy.noise.race import EXPONENTIAL, UNIFORM, Race, Runs, Times, blocks
from dfprivacy.noise.recording import recordable
from dfprivacy.noise.samplers import ATTEMPTS, stuck


@dataclass(frozen=True)
class Selection:
    """A mechanism that chooses a candidate of small loss. `rate` is its exact parameter.

    If one unit (added or removed) moves the loss of every candidate of its group by at most
    `sensitivity`, and is in no other group, all choices together are epsilon-differentially
    private with epsilon = 2 * rate * sensitivity.
    """

    rate: Fraction

    _times: ClassVar[Times]
    _divisor: ClassVar[int]
    """A choice that is epsilon-DP is epsilon**2 / _divisor-zCDP."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", exact_parameter("rate", self.rate, 500))

    @classmethod
    def for_epsilon(cls, epsilon: Fraction | int, sensitivity: int) -> Self:
        """Return the mechanism that is epsilon-DP for losses of this sensitivity."""
        return cls(exact_parameter("epsilon", epsilon, 1000) / (2 * _positive_integer(sensitivity)))

    @classmethod
    def for_rho(cls, rho: Fraction | int, sensitivity: int) -> Self:
        """Return a mechanism that is rho-zCDP for losses of this sensitivity.

        Its epsilon is rounded down, by less than 2**-320, so that the charge covers the loss.
        """
        return cls.for_epsilon(
            root_below(cls._divisor * exact_parameter("rho", rho, 1000)), sensitivity
        )

    def epsilon(self, sensitivity: int) -> Fraction:
        """Return the epsilon of pure DP at which a choice is charged: 2 * rate * sensitivity."""
        return 2 * self.rate * _positive_integer(sensitivity)

    def rho(self, sensitivity: int) -> Fraction:
        """Return the rho of zCDP at which a choice is charged."""
        return self.epsilon(sensitivity) ** 2 / self._divisor

    @recordable
    def select(self, runs: Runs, entropy: EntropySource = system_entropy) -> Integers:
        """Return the chosen candidate of each group, independently of each other.

        When the random source fails or returns too little (EntropyError), nothing was chosen.
        """
        chosen = np.empty(len(runs.group_starts), np.int64)
        cut = list(blocks(runs.group_starts, len(runs.first)))
        largest = max((block.stop - block.start for _, block in cut), default=0)
        race = Race(self._times, self.rate, largest, entropy)
        for groups, block in cut:
            starts = runs.group_starts[groups] - block.start
            lengths = runs.length[block]
            winners = race.winners(starts, lengths, runs.loss[block])
            offsets = uniform_below(lengths[winners], entropy)
            np.add(runs.first[block][winners], offsets, out=chosen[groups])
        return chosen


class ExponentialMechanism(Selection):
    """P(candidate) proportional to exp(-rate * loss): McSherry and Talwar 2007.

    With epsilon = 2 * rate * sensitivity a choice is epsilon-DP and, as its privacy loss has a
    range of at most epsilon, epsilon**2 / 8-zCDP (Cesar and Rogers 2021). Sampled by an
    exponential race between runs (docs/explanation/selection.md).

    A median of 0, 0, 7 on the grid 0, ..., 9: the loss is the distance of #{x <= c} and #{x > c}.

    >>> from fractions import Fraction
    >>> import numpy as np
    >>> runs = Runs(np.array([0]), np.array([0, 7]), np.array([7, 3]), np.array([1, 3]))
    >>> mechanism = ExponentialMechanism.for_epsilon(Fraction(20), sensitivity=1)
    >>> mechanism
    ExponentialMechanism(rate=Fraction(10, 1))
    >>> int(mechanism.select(runs)[0]) in range(7)
    True
    >>> mechanism.epsilon(sensitivity=1), mechanism.rho(sensitivity=1)
    (Fraction(20, 1), Fraction(50, 1))
    """

    _times: ClassVar[Times] = EXPONENTIAL
    _divisor: ClassVar[int] = 8


class PermuteAndFlip(Selection):
    """Visit the candidates in random order. Accept each with probability exp(-rate * excess).

    The excess is the loss above the least loss of the group. McKenna and Sheldon 2020, Algorithm
    1: its expected loss is never above that of the exponential mechanism of the same rate.

    With epsilon = 2 * rate * sensitivity a choice is epsilon-DP, hence epsilon**2 / 2-zCDP (Bun and
    Steinke 2016), and for small epsilon no smaller constant than 1/2 will do: its privacy loss has
    a range of up to 2 * epsilon, so that epsilon**2 / 8 would be four times too little. Sampled as
    the first of uniform arrivals (docs/explanation/selection.md), which is report-noisy-max with
    exponential noise (Ding et al. 2021).

    >>> from fractions import Fraction
    >>> mechanism = PermuteAndFlip.for_rho(Fraction(200), sensitivity=1)
    >>> mechanism, mechanism.epsilon(sensitivity=1), mechanism.rho(sensitivity=1)
    (PermuteAndFlip(rate=Fraction(10, 1)), Fraction(20, 1), Fraction(200, 1))
    """

    _times: ClassVar[Times] = UNIFORM
    _divisor: ClassVar[int] = 2


def uniform_below(lengths: Integers, entropy: EntropySource) -> Integers:
    """Return a uniform integer in [0, length) for each length below 2**63.

    A 63-bit number below the largest multiple of the length, taken modulo the length. Others, of
    probability below 1/2, are refused, but no 4,096 in a row (EntropyError).
    """
    chosen = np.empty(len(lengths), np.int64)
    missing = np.arange(len(lengths))
    for _ in range(ATTEMPTS):
        words = random_words(len(missing), entropy) >> np.uint64(1)
        sizes = lengths[missing].view(np.uint64)
        chosen[missing] = words % sizes
        missing = missing[words >= _TOP - _TOP % sizes]
        if not len(missing):
            return chosen
    raise stuck()


_TOP = np.uint64(2**63)


def _positive_integer(sensitivity: object) -> int:
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or sensitivity < 1:
        raise InvalidLossError(
            "the sensitivity must be a positive integer", hint="Use sensitivity=1."
        )
    return sensitivity


@recordable
def random_signs(size: int, entropy: EntropySource = system_entropy) -> npt.NDArray[np.float64]:
    """Return independent signs, 1.0 or -1.0 with equal probability."""
    words = random_words(-(-size // 64), entropy)
    bits = np.unpackbits(words.view(np.uint8))[:size]
    return 1.0 - 2.0 * bits.astype(np.float64)


@recordable
def random_labels(size: int, below: int, entropy: EntropySource = system_entropy) -> Integers:
    """Return independent, uniform labels from 0 to below - 1."""
    return uniform_below(np.full(size, below, np.int64), entropy)
