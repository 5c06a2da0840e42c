"""Find private quantiles of many coordinates at once, from counts in bins: search or select.

Both are one function of the same form, so that an estimator takes either. A target scores a bin by
the rows up to it and all rows: negative below the quantile, positive above. The noisy binary search
is PrivQuant of Huang, Liang and Yi 2021 (Section 3.2, with the noisy counts of their Theorem 1);
the selection is the exponential mechanism of Smith 2011 on a grid. A `Relation` says what
neighbouring sets of vectors are, and what follows for sensitivities. Proofs: docs/vectors.md.
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

    margins: ClassVar[int]
    """How many margins of a search are added to the rows that are clipped: the authors take one,
    which for few coordinates lets a search run off into empty bins one time in ten."""

    count_share: ClassVar[Fraction]
    """The part of a sum's loss that pays for the number of rows."""

    @abstractmethod
    def fraction_sensitivity(self, numerator: int, denominator: int) -> int:
        """Return how much denominator * F - numerator * n moves, F a count of rows."""

    @abstractmethod
    def noisy_rows(self, rows: int, rho: Fraction, entropy: EntropySource) -> NoisyRows:
        """Return the number of rows for a loss of `rho`."""


class AddRemove(Relation):
    """A row more or less. The number of rows is secret, and paid for."""

    sum_factor = 1
    keeps_incomplete = False
    margins = 3
    count_share = Fraction(1, 10)

    def fraction_sensitivity(self, numerator: int, denominator: int) -> int:
        """Return max(a, b - a): a row moves b F by b or 0, and a n by a."""
        return max(numerator, denominator - numerator)

    def noisy_rows(self, rows: int, rho: Fraction, entropy: EntropySource) -> NoisyRows:
        """Add noise: sensitivity 1."""
        noise = Rho(rho).noise(1, 1)
        noisy = add_to(np.array([rows], np.int64), noise, entropy)
        return NoisyRows(int(noisy[0]), noise)


class Replace(Relation):
    """A row instead of another one, in its place. The number of rows is public."""

    sum_factor = 2
    keeps_incomplete = True
    margins = 1
    count_share = Fraction(0)

    def fraction_sensitivity(self, numerator: int, denominator: int) -> int:  # noqa: ARG002 one interface
        """Return b: n stays, and a row moves F by at most 1."""
        return denominator

    def noisy_rows(self, rows: int, rho: Fraction, entropy: EntropySource) -> NoisyRows:  # noqa: ARG002 one interface
        """Return the number itself: neighbours have the same."""
        return NoisyRows(rows, None)


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
class RowsAbove:
    """The value that `rank` rows exceed, a public number: rank - (n - F)."""

    rank: int

    def score(self, upto: Integers, rows: int) -> Integers:
        """Return the rank less the rows above."""
        return self.rank - (rows - upto)

    def sensitivity(self, relation: Relation) -> int:  # noqa: ARG002 one interface
        """Return 1: a row is above, or it is not."""
        return 1


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
class Score:
    """How far the rows up to a bin are beyond a target, and how much a neighbour moves it."""

    of: Callable[[Integers], Integers]
    sensitivity: int


class Chooser(Protocol):
    """A private quantile of many coordinates: a bin for each of them."""

    def bins(self, counts: Integers, score: Score, rho: Rho, entropy: EntropySource) -> Integers:
        """Return a bin for each coordinate, from 0; `rho` pays for all of them together.

        A row of `counts` has the rows below, in each of 2**T bins, and above. Secret.
        """

    def margin(self, halvings: int, rho: Fraction) -> float:
        """Return by how many ranks a choice of sensitivity 1 among 2**halvings bins may be off."""


class NoisySearch:
    """A binary search over noisy counts; each of its T steps costs rho / T for all coordinates."""

    def bins(self, counts: Integers, score: Score, rho: Rho, entropy: EntropySource) -> Integers:
        """Return a bin for each coordinate: see `Chooser.bins`."""
        size, width = counts.shape[0], counts.shape[1] - 2
        upto = np.cumsum(counts, axis=1)
        low, every = np.zeros(size, np.int64), np.arange(size)
        if width == 1:
            return low
        step = rho.share(Fraction(1, size * (width.bit_length() - 1)))
        noise = step.noise(score.sensitivity, score.sensitivity**2)
        while width > 1:
            width //= 2
            scores = score.of(upto[every, low + width])  # up to bin low + width - 1
            low += np.where(add_to(scores, noise, entropy) <= 0, width, 0)
        return low

    def margin(self, halvings: int, rho: Fraction) -> float:
        """Return one standard deviation of a count, as the authors do."""
        return math.sqrt(halvings / (2 * rho))


class GridSelection:
    """The exponential mechanism over bins, at rho / d a coordinate.

    The loss of a bin is how far its scores, before and after it, lie beyond the target: it moves
    by at most their sensitivity.
    """

    def bins(self, counts: Integers, score: Score, rho: Rho, entropy: EntropySource) -> Integers:
        """Return a bin for each coordinate: see `Chooser.bins`."""
        size, bins = counts.shape[0], counts.shape[1] - 2
        upto = np.cumsum(counts, axis=1)
        before, after = score.of(upto[:, :-2]), score.of(upto[:, 1:-1])
        losses = np.maximum(np.maximum(before, -after), 0).reshape(-1)
        candidates = np.tile(np.arange(bins), size)
        runs = Runs(np.arange(size) * bins, candidates, np.ones_like(candidates), losses)
        law = ExponentialMechanism.for_rho(rho.value / size, score.sensitivity)
        return law.select(runs, entropy)

    def margin(self, halvings: int, rho: Fraction) -> float:
        """Return (2 / epsilon) log(10 * 2**halvings): a rank that all empty bins rarely reach."""
        return 2 * (halvings * math.log(2) + math.log(10)) / math.sqrt(8 * rho)


CHOOSERS: dict[str, Chooser] = {"search": NoisySearch(), "selection": GridSelection()}


@dataclass(frozen=True)
class Mechanics:
    """How a release draws: the neighbour relation, the quantiles, the random source."""

    relation: Relation
    choose: Chooser
    entropy: EntropySource

    def bins(self, counts: Integers, rows: int, target: Target, rho: Fraction) -> Integers:
        """Return the chosen bin of each coordinate, off its counts and the number of all rows."""
        score = Score(lambda upto: target.score(upto, rows), target.sensitivity(self.relation))
        return self.choose.bins(counts, score, Rho(rho), self.entropy)


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
        chosen = mechanics.bins(table.counts, table.rows, MEDIAN, rho * Fraction(own, total))
        if index + 1 < len(halvings):
            windows = windows.within(chosen, 1 << halvings[index + 1])
    return windows.middles(chosen), rows
