"""What one round asks of whom, ready for use on the owner's and on the analyst's side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dfprivacy.local.asks import Ask, Law
from dfprivacy.local.users import Integers, Words, group_numbers, hashed, salt_of, within

NOBODY = -1
"""The group of a user who is not asked in this round."""


@dataclass(frozen=True)
class Part:
    """One part of the users with what it is asked; its groups are numbered from `first` on.

    A user belongs to it whose hash, on the scale from 0 to 2**32, lies from `low` to `high`.
    """

    ask: Ask
    law: Law
    low: int
    high: int
    first: int

    @property
    def last(self) -> int:
        """The number after the last group."""
        return self.first + self.ask.groups


@dataclass(frozen=True)
class Sheet:
    """One round: who is asked what. `limit` is where values are clipped, on both sides of 0."""

    campaign: str
    fingerprint: int
    users: int
    named: bool
    limit: float
    parts: tuple[Part, ...]

    @cached_property
    def salt(self) -> np.uint64:
        """The number that makes this campaign's groups its own."""
        return salt_of(self.campaign)

    @cached_property
    def everyone(self) -> bool:
        """Whether one part asks all users."""
        return len(self.parts) == 1 and (self.parts[0].low, self.parts[0].high) == (0, 2**32)

    @property
    def width(self) -> int:
        """How many numbers a value has, where it is a vector; 0 for a plain number."""
        return self.parts[0].ask.width

    @property
    def reported_width(self) -> int:
        """How many numbers a report has, where it is a vector; 0 for a plain number."""
        return self.parts[0].ask.reported_width

    def words(self, users: Integers) -> Words:
        """Return the hash of each user number."""
        return hashed(users, self.salt)

    def groups(self, words: Words) -> Integers:
        """Return each user's group in this round, or `NOBODY`."""
        if self.everyone:
            return group_numbers(words, self.parts[0].ask.groups)
        groups = np.full(len(words), NOBODY, np.int64)
        for part in self.parts:
            own = group_numbers(words, part.ask.groups)
            own += part.first
            np.copyto(groups, own, where=within(words, part.low, part.high))
        return groups
