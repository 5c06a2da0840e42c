"""Assign queries to users in a round, and turn values into inputs of an exact randomizer.

A query is plain data: any function of one owner's value to an integer, and the randomizer that
makes it private. NaN is mapped to the input that carries nothing. Who answers follows from a public
hash of the user, an index or a name: that a user reports in round 2, in group 5, tells nobody
anything.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidLossError
from dfprivacy.local.published import Record
from dfprivacy.local.randomizers import (
    MISSING,
    BallGaussian,
    Floats,
    GridLaplace,
    HaarTree,
    Integers,
    Law,
    Mask,
    RandomizedResponse,
    Words,
    campaign_salt,
    check_epsilon,
    hash_numbers,
    rotate,
)
from dfprivacy.measurement.vectors import pad_size

STEPS = 2**20
"""Steps of the grid on which numbers are reported."""

RADIUS = 2**20
"""The clipped length, in steps of the grid on which vectors are reported."""

NOBODY = -1
"""The group of a user who is not asked in this round."""

_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


@dataclass(frozen=True)
class Query(Record, abc.ABC):
    """The query to the users of one part. `part` counts the protocol's parts from 0."""

    part: int

    @property
    def width(self) -> int:
        """How many numbers a value has, where it is a vector. 0 for a plain number."""
        return 0

    @property
    def reported_width(self) -> int:
        """How many numbers a report has, where it is a vector. 0 for a plain number."""
        return 0

    @property
    @abc.abstractmethod
    def groups(self) -> int:
        """Into how many groups the users of this part fall."""

    def law(self, loss: Epsilon | Rho) -> Law:
        """Return the randomizer of every report: response over two categories unless said."""
        return RandomizedResponse(2, loss.pure())

    @abc.abstractmethod
    def encode(self, values: Floats, groups: Integers) -> Integers:
        """Return the randomizer's input for each value. NaN is a value that is missing."""


@dataclass(frozen=True)
class Digit(Query):
    """Base-4 digits: group g reports floor(x / 2**levels[g]) mod 4 by randomized response."""

    kind = "digit"
    levels: tuple[int, ...]

    @property
    def groups(self) -> int:
        """One group a level."""
        return len(self.levels)

    def law(self, loss: Epsilon | Rho) -> RandomizedResponse:
        """Return randomized response over four categories."""
        return RandomizedResponse(4, loss.pure())

    def encode(self, values: Floats, groups: Integers) -> Integers:
        """Return the digit of each value at its group's level."""
        units = np.ldexp(1.0, -np.array(self.levels))
        return _present(values, np.floor(values * units[groups]).astype(np.int64) & 3)


@dataclass(frozen=True)
class Side(Query):
    """Sides: group g reports whether x lies above the nearest point of its lattice.

    The lattice of group g is points[g] + spacing * (all integers), or points[g] alone where
    spacing is 0.
    """

    kind = "side"
    points: tuple[float, ...]
    spacing: float = 0.0

    @property
    def groups(self) -> int:
        """One group a lattice."""
        return len(self.points)

    def encode(self, values: Floats, groups: Integers) -> Integers:
        """Return 1 for values at or above the nearest point, 0 for those below."""
        away = values - np.array(self.points)[groups]
        if self.spacing:
            away /= self.spacing
            away -= np.rint(away)
        return _present(values, (away >= 0).astype(np.int64))


@dataclass(frozen=True)
class Distance(Query):
    """Numbers: group g reports x, less the nearest point of its lattice, with Laplace noise.

    Reports hold the distance on a grid of `steps` steps over widths[g], the middle of the
    grid being the point: with one point and no lattice, values are clipped to widths[g] around it.
    """

    kind = "distance"
    points: tuple[float, ...]
    widths: tuple[float, ...]
    lattice: bool = False
    steps: int = STEPS

    @property
    def groups(self) -> int:
        """One group a point."""
        return len(self.points)

    def law(self, loss: Epsilon | Rho) -> GridLaplace:
        """Return discrete Laplace noise over the grid."""
        return GridLaplace(self.steps, loss.pure())

    def encode(self, values: Floats, groups: Integers) -> Integers:
        """Return the grid integer of each value."""
        away = (values - np.array(self.points)[groups]) / np.array(self.widths)[groups]
        if self.lattice:
            away -= np.rint(away)
        np.clip(away, -0.5, 0.5, out=away)
        away[np.isnan(away)] = 0.0
        return np.asarray(np.rint((away + 0.5) * self.steps), dtype=np.int64)


@dataclass(frozen=True)
class VectorQuery(Query):
    """A question about the vector after the public rotation of the campaign."""

    campaign: str
    dimensions: int

    @property
    def width(self) -> int:
        """How many numbers a value has."""
        return self.dimensions


@dataclass(frozen=True)
class Coordinate(VectorQuery):
    """One bit about one coordinate of the rotated vector, between -reach and reach."""

    kind = "coordinate"
    reach: float
    height: int

    @property
    def groups(self) -> int:
        """One tree a coordinate."""
        return pad_size(self.dimensions) * HaarTree(self.height).groups

    def encode(self, values: Floats, groups: Integers) -> Integers:
        """Return each owner's bit."""
        tree = HaarTree(self.height)
        coordinate = rotate(values, self.campaign)[np.arange(len(values)), groups // tree.groups]
        parts = (coordinate + self.reach) / (self.reach + self.reach)
        return _present(values, tree.sides(parts, groups % tree.groups))


@dataclass(frozen=True)
class Length(VectorQuery):
    """One bit about the distance of the rotated vector from a center, from 0 to reach."""

    kind = "length"
    center: tuple[float, ...]
    reach: float
    height: int

    @property
    def groups(self) -> int:
        """One tree."""
        return HaarTree(self.height).groups

    def encode(self, values: Floats, groups: Integers) -> Integers:
        """Return each owner's bit."""
        lengths = np.linalg.norm(rotate(values, self.campaign) - np.array(self.center), axis=1)
        return _present(values, HaarTree(self.height).sides(lengths / self.reach, groups))


@dataclass(frozen=True)
class Whole(VectorQuery):
    """The rotated vector less the center, clipped to a length, with Gaussian noise.

    On the grid the length is at most `RADIUS` steps: coordinates are rounded towards zero, and a
    row that is longer all the same, in exact integers, is dropped by the randomizer.
    """

    kind = "whole"
    center: tuple[float, ...]
    clip: float

    @property
    def groups(self) -> int:
        """Everybody is asked the same."""
        return 1

    @property
    def reported_width(self) -> int:
        """How many numbers a report has."""
        return pad_size(self.dimensions)

    def law(self, loss: Epsilon | Rho) -> BallGaussian:
        """Return discrete Gaussian noise for vectors of the ball."""
        if not isinstance(loss, Rho):
            raise InvalidLossError(
                "vectors are reported with Gaussian noise, which costs rho, not epsilon",
                hint="pass rho=0.5",
            )
        check_epsilon(loss.pure())  # as in the rounds before
        return BallGaussian(RADIUS, loss.value)

    def encode(self, values: Floats, groups: Integers) -> Integers:  # noqa: ARG002 one interface
        """Return each owner's vector on the grid. A missing one is the center."""
        away = rotate(values, self.campaign) - np.array(self.center)
        away[np.isnan(values).any(axis=1)] = 0.0
        lengths = np.linalg.norm(away, axis=1, keepdims=True)
        away *= self.clip / np.maximum(lengths, self.clip) * (1 - 2.0**-30)
        return np.asarray(np.trunc(away * (RADIUS / self.clip)), dtype=np.int64)


def _present(values: Floats, inputs: Integers) -> Integers:
    """Return the input of each value, `MISSING` for NaN and vectors with one."""
    absent = np.isnan(values)
    inputs[absent if values.ndim == 1 else absent.any(axis=1)] = MISSING
    return inputs


@dataclass(frozen=True)
class Part:
    """The users whose hash, from 0 to 2**32, lies in a part. Groups are numbered from `first`."""

    query: Query
    law: Law
    low: int
    high: int
    first: int

    def holds(self, groups: npt.NDArray[Any]) -> Mask:
        """Return a mask of groups of this part."""
        return (groups >= self.first) & (groups < self.first + self.query.groups)


@dataclass(frozen=True)
class Assignment:
    """The queries to all users in a round. `limit` clips values on both sides of 0."""

    campaign: str
    fingerprint: int
    users: int
    named: bool
    limit: float
    parts: tuple[Part, ...]

    @cached_property
    def _salt(self) -> np.uint64:
        return campaign_salt(self.campaign)

    @cached_property
    def everyone(self) -> bool:
        """True if one part contains all users."""
        return len(self.parts) == 1 and (self.parts[0].low, self.parts[0].high) == (0, 2**32)

    @property
    def width(self) -> int:
        """How many numbers a value has: see `Query`, of which all parts agree."""
        return self.parts[0].query.width

    @property
    def reported_width(self) -> int:
        """How many numbers a report has."""
        return self.parts[0].query.reported_width

    def find_number(self, name: str | bytes) -> int:
        """Return the 63-bit number under which a named user reports in this campaign."""
        text, salt = name.encode() if isinstance(name, str) else name, int(self._salt)
        key = salt.to_bytes(8, "big")
        digest = hashlib.blake2b(text, digest_size=8, key=key, person=b"dfp.user").digest()
        return int.from_bytes(digest, "big") >> 1

    def is_user(self, users: Integers) -> Mask:
        """Return a mask of numbers that belong to users."""
        return users >= 0 if self.named else (users >= 0) & (users < self.users)

    def groups(self, users: Integers) -> Integers:
        """Return each user's group in this round, or `NOBODY`. Groups of a part are even."""
        words = hash_numbers(users, self._salt)
        if self.everyone:
            return _group_numbers(words, self.parts[0].query.groups)
        groups, top = np.full(len(words), NOBODY, np.int64), words >> _HALF
        for part in self.parts:
            part_groups = _group_numbers(words, part.query.groups)
            part_groups += part.first
            within = (top >= np.uint64(part.low)) & (top < np.uint64(part.high))
            np.copyto(groups, part_groups, where=within)
        return groups


def _group_numbers(words: Words, groups: int) -> Integers:
    """Return each word's group, from 0 to groups - 1, equally likely up to 2**-32."""
    return (((words & _LOW) * np.uint64(groups)) >> _HALF).view(np.int64)


def list_parts(
    queries: Sequence[Query], shares: Sequence[Fraction], loss: Epsilon | Rho
) -> tuple[Part, ...]:
    """Return the parts that a round asks. Shares of all parts lie side by side up to 2**32."""
    edges = [int(sum(shares[:index], Fraction(0)) * 2**32) for index in range(len(shares) + 1)]
    parts, first = [], 0
    for query in queries:
        low, high = edges[query.part], edges[query.part + 1]
        parts.append(Part(query, query.law(loss), low, high, first))
        first += query.groups
    return tuple(parts)
