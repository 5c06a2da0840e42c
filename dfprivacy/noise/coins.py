"""Public coins: random signs and labels that do not look at data. They cost nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.selection import uniform_below


def random_signs(size: int, entropy: EntropySource) -> npt.NDArray[np.float64]:
    """Return independent signs, 1.0 or -1.0 with equal probability."""
    words = random_words(-(-size // 64), entropy)
    bits = np.unpackbits(words.view(np.uint8))[:size]
    return 1.0 - 2.0 * bits.astype(np.float64)


def random_labels(size: int, below: int, entropy: EntropySource) -> Integers:
    """Return independent, uniform labels from 0 to below - 1."""
    return uniform_below(np.full(size, below, np.int64), entropy)
