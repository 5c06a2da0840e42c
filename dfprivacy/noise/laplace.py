"""The discrete Laplace law, P(x) = (1 - a) / (1 + a) * a**|x| with a = exp(-1 / scale), exactly.

A sign bit and a geometric magnitude (Canonne, Kamath and Steinke 2020, Algorithm 2): the pair
(-, 0) is dropped and drawn anew, since zero would count twice otherwise. One 64-bit word gives the
sign and 63 digits of the uniform behind the magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.geometric import (
    ATTEMPTS,
    LARGEST_INT64_SCALE,
    Geometric,
    exact_geometric,
    stuck,
)

BLOCK = 2**14
"""Words a block: its buffers stay in the processor's cache."""


_LEAST_SCALE = Fraction(1, 2**10)
"""Below it one sign in two gives (-, 0), as at it."""


def sample_laplace(scale: Fraction, size: int, entropy: EntropySource) -> npt.NDArray[Any]:
    """Return `size` independent draws: int64, or Python integers for scales above 2**51."""
    if scale > LARGEST_INT64_SCALE:
        draws = np.empty(size, dtype=object)
        draws[:] = [exact_laplace(scale, entropy) for _ in range(size)]
        return draws
    odds = _odds_of_refusal(scale)
    blocks = LaplaceBlocks(scale, _words_for(size, odds), entropy)
    return collected(blocks.draw, size, lambda missing: _words_for(missing, odds))


def _odds_of_refusal(scale: Fraction) -> float:
    """Return how many words give (-, 0) for one that does not, on average."""
    refused = -math.expm1(-1 / float(max(scale, _LEAST_SCALE))) / 2
    return refused / (1 - refused)


def _words_for(missing: int, odds: float) -> int:
    """Return so many words that they probably give all that is missing, at most a block."""
    refused = missing * odds
    return min(BLOCK, missing + int(refused + 4 * math.sqrt(refused)))


def exact_laplace(scale: Fraction, entropy: EntropySource) -> int:
    """Return one draw by integer arithmetic alone."""
    for _ in range(ATTEMPTS):
        word = int(random_words(1, entropy)[0])
        magnitude = exact_geometric(word >> 1, scale, entropy)
        if word % 2 == 0:
            return magnitude
        if magnitude != 0:
            return -magnitude
    raise stuck()


class LaplaceBlocks:
    """Blocks of draws of one scale for one call."""

    def __init__(self, scale: Fraction, block: int, entropy: EntropySource) -> None:
        self._entropy = entropy
        self._geometric = Geometric(scale, block, entropy)

    def draw(self, size: int) -> Integers:
        """Return at most `size` draws: the words that gave (-, 0) are left out."""
        return self.signed(random_words(size, self._entropy))

    def signed(self, words: npt.NDArray[np.uint64]) -> Integers:
        """Return the draw of each word, without those that gave (-, 0)."""
        magnitudes = self._geometric.draw((words >> np.uint64(1)).view(np.int64))
        signs = (words & np.uint64(1)).view(np.int64)
        np.negative(signs, out=signs)
        draws = np.bitwise_xor(magnitudes, signs)  # two's complement: -m = (m ^ -1) + 1
        np.subtract(draws, signs, out=draws)
        twice = (draws == 0) & (signs != 0)
        return draws[~twice] if twice.any() else draws


def collected(draw: Callable[[int], Integers], size: int, block: Callable[[int], int]) -> Integers:
    """Return the first `size` draws of successive blocks; `block` sizes one by what is missing.

    Raises
    ------
    EntropyError
        When 4,096 words in a row give no draw, of probability below 2**-1000.
    """
    draws = np.empty(size, np.int64)
    filled = fruitless = 0
    while filled < size:
        asked = block(size - filled)
        found = draw(asked)[: size - filled]
        draws[filled : filled + len(found)] = found
        filled += len(found)
        fruitless = 0 if len(found) else fruitless + asked
        if fruitless >= ATTEMPTS:
            raise stuck()
    return draws
