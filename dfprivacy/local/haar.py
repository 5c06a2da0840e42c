"""Range counts from single bits: the Haar form of Cormode, Kulkarni and Srivastava (2019).

A histogram over 2**height leaves is known by its Haar coefficients: for every inner node, the share
of owners in its left half less the share in its right half. An owner is asked about one level, by a
public hash, where the coefficients are zero but for one +1 or -1; of that vector's Hadamard
transform the owner reports one sign, at a row that the hash names too, by randomised response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.local.asks import Floats
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.rotation import hadamard
from dfprivacy.local.users import Integers


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

    def leaves(self, values: Floats, low: float, high: float) -> Integers:
        """Return the leaf of each value between `low` and `high`; NaN is somewhere."""
        part = np.nan_to_num((values - low) / (high - low))
        last = 2**self.height - 1
        return np.asarray(np.clip(np.floor(part * (last + 1)), 0, last), dtype=np.int64)

    def sides(self, leaves: Integers, groups: Integers) -> Integers:
        """Return 0 or 1 for the sign that each owner's group asks for: + or -."""
        level = groups // self.rows
        nodes = leaves >> (level + 1)
        rows = (groups % self.rows) & ((self.rows >> level) - 1)
        odd = np.bitwise_count(nodes & rows).astype(np.int64) & 1
        return np.asarray(odd ^ ((leaves >> level) & 1))

    def shares(self, counts: npt.NDArray[Any], law: RandomisedResponse) -> Floats:
        """Return the estimated share of each leaf; `counts` has one row a group, by report."""
        by_level = counts.reshape(self.height, self.rows, 2)
        shares = np.ones(1)
        for level in range(self.height - 1, -1, -1):
            halves = (shares + self._coefficients(by_level[level], level, law)) / 2
            shares = np.stack([halves, shares - halves], axis=1).reshape(-1)
        return shares

    def _coefficients(
        self, counts: npt.NDArray[Any], level: int, law: RandomisedResponse
    ) -> Floats:
        """Return left less right share of every node of a level."""
        nodes = self.rows >> level
        plus, minus = law.unbiased(counts.reshape(-1, nodes, 2).sum(axis=0)).T
        owners = max(float(counts.sum()), 1.0)
        transformed: Floats = hadamard((plus - minus)[np.newaxis].copy())[0] / owners
        return transformed

    def error(self, owners: float, law: RandomisedResponse) -> float:
        """Return about the standard deviation of the share of owners below a leaf.

        A coefficient of a level with owners / height reports counts with a weight from 0 to 1/2 in
        such a share, 1/12 in the mean square.
        """
        gap = float(law.truth - law.other)
        return self.height / gap / math.sqrt(12 * max(owners, 1.0))


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
