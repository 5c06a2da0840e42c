"""What owners of vectors are asked: a bit about one coordinate, about the length, or all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidLossError
from dfprivacy.local.asks import Ask, Floats
from dfprivacy.local.grid_noise import BallGaussian
from dfprivacy.local.haar import HaarTree
from dfprivacy.local.response import MISSING, RandomisedResponse, checked_epsilon
from dfprivacy.local.rotation import padded, rotated
from dfprivacy.local.users import Integers, Words

RADIUS = 2**20
"""The clipped length, in steps of the grid on which vectors are reported."""


@dataclass(frozen=True)
class VectorAsk(Ask):
    """A question about the vector after the public rotation of the campaign."""

    campaign: str
    dimensions: int

    @property
    def width(self) -> int:
        """How many numbers a value has."""
        return self.dimensions


@dataclass(frozen=True)
class Coordinate(VectorAsk):
    """One bit about one coordinate of the rotated vector, between -reach and reach."""

    kind: ClassVar[str] = "coordinate"
    reach: float
    height: int

    @property
    def groups(self) -> int:
        """One tree a coordinate."""
        return padded(self.dimensions) * HaarTree(self.height).groups

    def law(self, loss: Epsilon | Rho) -> RandomisedResponse:
        """Return randomised response over two categories."""
        return RandomisedResponse(2, loss.pure())

    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:  # noqa: ARG002 one interface
        """Return each owner's bit."""
        tree = HaarTree(self.height)
        turned = rotated(np.nan_to_num(values), self.campaign)
        own = turned[np.arange(len(turned)), groups // tree.groups]
        bits = tree.sides(tree.leaves(own, -self.reach, self.reach), groups % tree.groups)
        return np.where(np.isnan(values).any(axis=1), MISSING, bits)


@dataclass(frozen=True)
class Length(VectorAsk):
    """One bit about the distance of the rotated vector from a centre, from 0 to reach."""

    kind: ClassVar[str] = "length"
    centre: tuple[float, ...]
    reach: float
    height: int

    @property
    def groups(self) -> int:
        """One tree."""
        return HaarTree(self.height).groups

    def law(self, loss: Epsilon | Rho) -> RandomisedResponse:
        """Return randomised response over two categories."""
        return RandomisedResponse(2, loss.pure())

    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:  # noqa: ARG002 one interface
        """Return each owner's bit."""
        tree = HaarTree(self.height)
        away = rotated(np.nan_to_num(values), self.campaign) - np.array(self.centre)
        bits = tree.sides(tree.leaves(np.linalg.norm(away, axis=1), 0.0, self.reach), groups)
        return np.where(np.isnan(values).any(axis=1), MISSING, bits)


@dataclass(frozen=True)
class Whole(VectorAsk):
    """The rotated vector less the centre, clipped to a length, with Gaussian noise.

    On the grid the length is at most `RADIUS` steps: coordinates are rounded towards zero, and a
    row that is longer all the same, in exact integers, is dropped by the randomiser.
    """

    kind: ClassVar[str] = "whole"
    centre: tuple[float, ...]
    clip: float

    @property
    def groups(self) -> int:
        """Everybody is asked the same."""
        return 1

    @property
    def reported_width(self) -> int:
        """How many numbers a report has."""
        return padded(self.dimensions)

    def law(self, loss: Epsilon | Rho) -> BallGaussian:
        """Return discrete Gaussian noise for vectors of the ball."""
        if not isinstance(loss, Rho):
            raise InvalidLossError(
                "vectors are reported with Gaussian noise, which costs rho, not epsilon",
                hint="pass rho=0.5",
            )
        checked_epsilon(loss.pure())  # as in the rounds before
        return BallGaussian(RADIUS, loss.value)

    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:  # noqa: ARG002 one interface
        """Return each owner's vector on the grid; a missing one is the centre."""
        away = rotated(np.nan_to_num(values), self.campaign) - np.array(self.centre)
        away[np.isnan(values).any(axis=1)] = 0.0
        lengths = np.linalg.norm(away, axis=1, keepdims=True)
        away *= self.clip / np.maximum(lengths, self.clip) * (1 - 2.0**-30)
        return np.asarray(np.trunc(away * (RADIUS / self.clip)), dtype=np.int64)
