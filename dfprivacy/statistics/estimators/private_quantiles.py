"""Find private quantiles of many coordinates at once, and thresholds of norms, from counts in bins.

Coordinates are searched by noisy counts: PrivQuant of Huang, Liang and Yi 2021 (Section 3.2, with
the noisy counts of their Theorem 1). A target scores a bin by the rows up to it and all rows:
negative below the quantile, positive above. A threshold, one number, is selected by the exponential
mechanism of Smith 2011, which seldom strays among empty bins. A `Relation` says what neighbouring
sets of vectors are, and what follows for sensitivities. Proofs: docs/vectors.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from dfprivacy.accounting.loss import Rho
from dfprivacy.measurement.vectors import Floats, Integers, VectorTable, Windows
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism


@dataclass(frozen=True)
class NoisyRows:
    """The number of rows, as known after a release: with its noise, or public. Public."""

    value: int
    noise: DiscreteGaussian | None

    @property
    def least(self) -> int:
        """The number by which a sum is divided: at least 1."""
        return max(self.value, 1)

    def interval(self, outside: float) -> tuple[int, int]:
        """Return numbers between which the rows lie, up to a probability."""
        half = 0 if self.noise is None else self.noise.quantile(outside)
        return max(self.value - half, 0), self.value + half


class Relation(ABC):
    """A neighbour relation on tables of vectors."""

    sum_factor: ClassVar[int]
    """A sum of vectors of norm at most C moves by at most so many times C in L2 norm."""

    keeps_incomplete: ClassVar[bool]
    """Whether rows that are no whole vectors count as zeros, or not at all."""

    secret_rows: ClassVar[bool]
    """Whether the number of rows is secret, and paid for."""

    @abstractmethod
    def fraction_sensitivity(self, numerator: int, denominator: int) -> int:
        """Return how much denominator * F - numerator * n moves, F a count of rows."""


class AddRemove(Relation):
    """A row more or less. The number of rows is secret, and paid for."""

    sum_factor = 1
    keeps_incomplete = False
    secret_rows = True

    def fraction_sensitivity(self, numerator: int, denominator: int) -> int:
        """Return max(a, b - a): a row moves b F by b or 0, and a n by a."""
        return max(numerator, denominator - numerator)


class Replace(Relation):
    """A row instead of another one, in its place. The number of rows is public."""

    sum_factor = 2
    keeps_incomplete = True
    secret_rows = False

    def fraction_sensitivity(self, numerator: int, denominator: int) -> int:  # noqa: ARG002 one interface
        """Return b: n stays, and a row moves F by at most 1."""
        return denominator


RELATIONS: dict[str, Relation] = {"add-remove": AddRemove(), "replace": Replace()}


class Target(Protocol):
    """Which quantile is looked for."""

    def score(self, upto: Integers, rows: int) -> Integers:
        """Return an integer that grows with the rows up to a bin: positive beyond the target."""

    def sensitivity(self, relation: Relation) -> int:
        """Return how much a score moves between neighbours, at most."""


@dataclass(frozen=True)
class FractionBelow:
    """The value that numerator/denominator of the rows do not exceed: b F - a n."""

    numerator: int
    denominator: int

    def score(self, upto: Integers, rows: int) -> Integers:
        """Return b F - a n."""
        return self.denominator * upto - self.numerator * rows

    def sensitivity(self, relation: Relation) -> int:
        """Return what the relation says."""
        return relation.fraction_sensitivity(self.numerator, self.denominator)


MEDIAN = FractionBelow(1, 2)


@dataclass(frozen=True)
class PublicTotal:
    """The median of values of which everybody knows how many there are."""

    total: int

    def score(self, upto: Integers, rows: int) -> Integers:  # noqa: ARG002 one interface
        """Return the values up to a bin, less half of all, rounded down."""
        return upto - self.total // 2

    def sensitivity(self, relation: Relation) -> int:  # noqa: ARG002 one interface
        """Return 1: a neighbour has one value in another place."""
        return 1


@dataclass(frozen=True)
class Mechanics:
    """How a release draws: the neighbour relation, the random source."""

    relation: Relation
    entropy: EntropySource

    def counted(
        self, rows: NoisyRows | None, exact: int, rho: Fraction
    ) -> tuple[NoisyRows, Fraction]:
        """Return the number of rows, and what it costs: nothing where it is known or public.

        Else `rho` pays for noise: sensitivity 1.
        """
        if rows is not None:
            return rows, Fraction(0)
        if not self.relation.secret_rows:
            return NoisyRows(exact, None), Fraction(0)
        noise = Rho(rho).noise(1, 1)
        noisy = add_to(np.array([exact], np.int64), noise, self.entropy)
        return NoisyRows(int(noisy[0]), noise), rho

    def search(self, counts: Integers, rows: int, target: Target, rho: Fraction) -> Integers:
        """Return a bin for each coordinate, from 0, by a binary search over noisy counts.

        A row of `counts` has the rows below, in each of 2**T bins, and above; `rows` are all.
        Secret. Each of T steps costs rho / T for all coordinates together.
        """
        size, width = counts.shape[0], counts.shape[1] - 2
        upto = np.cumsum(counts, axis=1)
        low, every = np.zeros(size, np.int64), np.arange(size)
        if width == 1:
            return low
        step = Rho(rho).share(Fraction(1, size * (width.bit_length() - 1)))
        sensitivity = target.sensitivity(self.relation)
        noise = step.noise(sensitivity, sensitivity**2)
        while width > 1:
            width //= 2
            scores = target.score(upto[every, low + width], rows)  # up to bin low + width - 1
            low += np.where(add_to(scores, noise, self.entropy) <= 0, width, 0)
        return low

    def threshold(self, counts: Integers, rank: int, rho: Fraction) -> int:
        """Return a bin, beyond which about `rank` rows lie: the exponential mechanism over bins.

        The loss of a bin is by how many rows it misses: those beyond it that are more than `rank`,
        or those from it on that are fewer. A row moves either by 1 at most.
        """
        beyond = counts.sum() - np.cumsum(counts)
        losses = np.maximum(np.maximum(beyond - rank, rank - beyond - counts), 0)
        candidates = np.arange(len(counts))
        runs = Runs(np.array([0]), candidates, np.ones_like(candidates), losses)
        return int(ExponentialMechanism.for_rho(rho, 1).select(runs, self.entropy)[0])


SURE = 16
"""Of 2**10 bins, those whose loss times half of epsilon is beyond this are chosen together with a
probability below 2**10 exp(-16), one in 8,000."""


def margin(rho: Fraction) -> float:
    """Return by how many ranks a threshold that costs `rho` is hardly ever off."""
    return 2 * SURE / math.sqrt(8 * rho)


Halvings = tuple[int, ...]


def rows_for_medians(size: int, halvings: int, rho: Fraction, relation: Relation) -> int:
    """Return the number of rows below which medians of `size` coordinates are mostly noise.

    Five standard deviations of the noise, in ranks, reach half of so many rows: a search asks
    thousands of counts, and one that runs off spoils the centre.
    """
    sensitivity = MEDIAN.sensitivity(relation)
    return math.ceil(5 * sensitivity * math.sqrt(size * halvings / (2 * rho)))


def coordinate_medians(
    windows: Windows,
    make: Callable[[Windows], VectorTable],
    halvings: Halvings,
    rho: Fraction,
    mechanics: Mechanics,
) -> Generator[VectorTable, None, tuple[Floats, int]]:
    """Return the median of each coordinate, and the exact number of rows of the first pass.

    Each pass splits the bin chosen by the one before into 2**h bins, h in `halvings`, and costs h
    parts of rho. The number of rows is secret.
    """
    total, rows = sum(halvings), 0
    for index, own in enumerate(halvings):
        table = make(windows)
        yield table
        rows = rows or table.rows
        chosen = mechanics.search(table.counts, table.rows, MEDIAN, rho * Fraction(own, total))
        if index + 1 < len(halvings):
            windows = windows.within(chosen, 1 << halvings[index + 1])
    return windows.middles(chosen), rows
