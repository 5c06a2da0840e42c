"""Hash users, turn vectors by a public rotation, and estimate a histogram from single bits.

The bits are the Haar form of Cormode, Kulkarni and Srivastava (2019). A histogram over 2**height
leaves is known by its Haar coefficients: for every inner node, the share of owners in its left half
less the share in its right half. An owner is asked about one level, by a public hash, where the
coefficients are zero but for one +1 or -1; of that vector's Hadamard transform the owner reports
one sign, at a row that the hash names too, by randomised response.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.local.randomisers import Floats, Integers, RandomisedResponse, Words
from dfprivacy.measurement.vectors import padded_size

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def salt_of(campaign: str) -> np.uint64:
    """Return the number that makes the groups of one campaign unlike those of another."""
    digest = hashlib.blake2b(campaign.encode(), digest_size=8, person=b"dfp.local").digest()
    return np.uint64(int.from_bytes(digest, "big"))


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


def _signs(campaign: str, dimensions: int) -> Floats:
    """Return public random signs, the same for everybody in a campaign."""
    words = hashed(np.arange(dimensions), salt_of("signs of " + campaign))
    return 1.0 - 2.0 * (words >> np.uint64(63)).astype(np.float64)


def rotated(vectors: Floats, campaign: str) -> Floats:
    """Return each row with signs changed, zero-padded and transformed; lengths are kept.

    Missing numbers count as 0.
    """
    rows, dimensions = vectors.shape
    size = padded_size(dimensions)
    wide = np.zeros((rows, size))
    wide[:, :dimensions] = np.nan_to_num(vectors)
    wide *= _signs(campaign, size)
    return np.asarray(hadamard(wide) / np.sqrt(size))


def unrotated(vector: Floats, campaign: str, dimensions: int) -> Floats:
    """Return the vector that `rotated` has turned into this one."""
    size = len(vector)
    back = hadamard(vector[np.newaxis].copy())[0] / np.sqrt(size)
    back *= _signs(campaign, size)
    return np.asarray(back[:dimensions])


def hadamard(rows: Floats) -> Floats:
    """Transform each row by the Walsh-Hadamard matrix, in place, in n log n steps.

    >>> hadamard(np.array([[1.0, 2.0, 3.0, 4.0]])).tolist()
    [[10.0, -2.0, -4.0, 0.0]]
    """
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        first = pairs[:, :, 0].copy()
        pairs[:, :, 0] += pairs[:, :, 1]
        np.subtract(first, pairs[:, :, 1], out=pairs[:, :, 1])
        half *= 2
    return rows


@dataclass(frozen=True)
class HaarTree:
    """Which levels and rows there are; groups run over level and row, lowest level first."""

    height: int

    @property
    def rows(self) -> int:
        """Rows of the largest Hadamard matrix, that of the lowest level."""
        return 1 << (self.height - 1)

    @property
    def groups(self) -> int:
        """How many groups there are: each level has `rows` of them."""
        return self.height * self.rows

    def sides(self, parts: Floats, groups: Integers) -> Integers:
        """Return 0 or 1 for the sign that each owner's group asks for: + or -.

        `parts` says where between 0 and 1 each owner's value lies; NaN is somewhere.
        """
        last = 2**self.height - 1
        clipped = np.clip(np.floor(np.nan_to_num(parts) * (last + 1)), 0, last)
        leaves = np.asarray(clipped, dtype=np.int64)
        level = groups // self.rows
        rows = (groups % self.rows) & ((self.rows >> level) - 1)
        odd = np.bitwise_count((leaves >> (level + 1)) & rows).astype(np.int64) & 1
        return np.asarray(odd ^ ((leaves >> level) & 1))

    def shares(self, counts: npt.NDArray[Any], law: RandomisedResponse) -> Floats:
        """Return the estimated share of each leaf; `counts` has one row a group, by report."""
        by_level = counts.reshape(self.height, self.rows, 2)
        shares = np.ones(1)
        for level in range(self.height - 1, -1, -1):
            own = by_level[level]
            plus, minus = law.unbiased(own.reshape(-1, self.rows >> level, 2).sum(axis=0)).T
            lefts = hadamard((plus - minus)[np.newaxis].copy())[0] / max(float(own.sum()), 1.0)
            halves = (shares + lefts) / 2  # `lefts` is left less right share of every node
            shares = np.stack([halves, shares - halves], axis=1).reshape(-1)
        return shares

    def error(self, owners: float, law: RandomisedResponse) -> float:
        """Return about the standard deviation of the share of owners below a leaf.

        A coefficient of a level with owners / height reports counts with a weight from 0 to 1/2 in
        such a share, 1/12 in the mean square.
        """
        return self.height / law.gap / math.sqrt(12 * max(owners, 1.0))


def quantile_of(shares: Floats, q: float) -> float:
    """Return where between 0 and 1 a share q of the owners lies below.

    Cumulated shares are noisy; the non-decreasing numbers nearest to them are used instead.
    """
    below = np.clip(increasing(np.cumsum(shares)), 0.0, 1.0)
    leaf = min(int(np.searchsorted(below, q)), len(below) - 1)
    start = float(below[leaf - 1]) if leaf else 0.0
    step = float(below[leaf]) - start
    inside = min(max((q - start) / step, 0.0), 1.0) if step > 0 else 0.5
    return (leaf + inside) / len(below)


def increasing(values: Floats) -> Floats:
    """Return the non-decreasing numbers nearest to some in squares: pool adjacent violators.

    >>> increasing(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            last, many = means.pop(), sizes.pop()
            mean, size = (mean * size + last * many) / (size + many), size + many
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)
