"""A public random rotation: signs, then the Hadamard matrix over the root of its size."""

from __future__ import annotations

import numpy as np

from dfprivacy.local.asks import Floats
from dfprivacy.local.users import hashed, salt_of


def padded(dimensions: int) -> int:
    """Return the least power of two that is not smaller.

    >>> padded(3), padded(8)
    (4, 8)
    """
    return 1 << (dimensions - 1).bit_length()


def signs_of(campaign: str, dimensions: int) -> Floats:
    """Return public random signs, the same for everybody in a campaign."""
    words = hashed(np.arange(dimensions), salt_of("signs of " + campaign))
    return 1.0 - 2.0 * (words >> np.uint64(63)).astype(np.float64)


def rotated(vectors: Floats, campaign: str) -> Floats:
    """Return each row with signs changed, zero-padded and transformed; lengths are kept."""
    rows, dimensions = vectors.shape
    size = padded(dimensions)
    wide = np.zeros((rows, size))
    wide[:, :dimensions] = vectors
    wide *= signs_of(campaign, size)
    return np.asarray(hadamard(wide) / np.sqrt(size))


def unrotated(vector: Floats, campaign: str, dimensions: int) -> Floats:
    """Return the vector that `rotated` has turned into this one."""
    size = len(vector)
    back = hadamard(vector[np.newaxis].copy())[0] / np.sqrt(size)
    back *= signs_of(campaign, size)
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
