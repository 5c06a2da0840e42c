"""What neighbouring sets of vectors are, and what follows: sensitivities, and who knows n."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dfprivacy.accounting.loss import Rho
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource
from dfprivacy.noise.laws import DiscreteGaussian


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
