"""Who answers when: each user's part and group follow from a public hash of the user.

A user is an index from 0 to n - 1, or a name. Nothing here is secret, and nothing here depends on
a value: that a user reports in round 2, in group 5, tells nobody anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MOST_USERS = 2**33

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def salt_of(campaign: str) -> np.uint64:
    """Return the number that makes the groups of one campaign unlike those of another."""
    digest = hashlib.blake2b(campaign.encode(), digest_size=8, person=b"dfp.local").digest()
    return np.uint64(int.from_bytes(digest, "big"))


def number_of_name(name: str | bytes, campaign: str) -> int:
    """Return the 63-bit number under which a named user reports in a campaign."""
    text = name.encode() if isinstance(name, str) else name
    salt = int(salt_of(campaign)).to_bytes(8, "big")
    digest = hashlib.blake2b(text, digest_size=8, key=salt, person=b"dfp.user").digest()
    return int.from_bytes(digest, "big") >> 1


def hashed(users: Integers, salt: np.uint64) -> Words:
    """Return a well-mixed word for each user number; different users get different words.

    Multiplication by an odd number and the finaliser of SplitMix64 (Steele, Lea and Flood 2014)
    are bijections of 64-bit words.
    """
    words = users.view(np.uint64) * _GOLDEN
    words += salt
    spare = np.right_shift(words, np.uint64(30))
    for factor, shift in ((_FIRST, 27), (_SECOND, 31)):
        words ^= spare
        words *= factor
        np.right_shift(words, np.uint64(shift), out=spare)
    words ^= spare
    return words


def part_edges(shares: Sequence[Fraction]) -> list[int]:
    """Return where each part ends on the scale from 0 to 2**32; the last part ends it."""
    ends, total = [], Fraction(0)
    for share in shares:
        total += share
        ends.append(int(total * 2**32))
    return ends


def within(words: Words, low: int, high: int) -> npt.NDArray[np.bool_]:
    """Tell whose word falls into the part from `low` to `high`."""
    top = words >> _HALF
    return (top >= np.uint64(low)) & (top < np.uint64(high))


def group_numbers(words: Words, groups: int) -> Integers:
    """Return each word's group, from 0 to groups - 1, equally likely up to 2**-32."""
    return (((words & _LOW) * np.uint64(groups)) >> _HALF).view(np.int64)
