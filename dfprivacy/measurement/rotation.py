"""The random rotation of vectors: signs, then the Walsh-Hadamard transform, on whole numbers."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dfprivacy.measurement.vector_grid import Buffers, Floats

_LARGEST_FACTOR = 5


@dataclass(frozen=True)
class Rotation:
    """z = H D x: D has `signs` on its diagonal, H is the Hadamard matrix of the padded size.

    H is not normalised, so that whole numbers stay whole: z is sqrt(size) times as long as x. With
    |x_j| <= 2**bits of a `VectorGrid`, every partial sum is a whole number below 2**53: exact.
    """

    signs: Floats
    dimension: int

    @property
    def size(self) -> int:
        """The padded dimension, a power of two."""
        return len(self.signs)

    def apply(self, rows: Floats, scale: float, buffers: Buffers) -> Floats:
        """Return z * scale, a power of two, for each row: O(d log d) a row, in two buffers."""
        padded = buffers.floats("rotated", (len(rows), self.size))
        padded[:, self.dimension :] = 0.0
        signs = self.signs[: self.dimension] * scale
        np.multiply(rows, signs, out=padded[:, : self.dimension])
        return transformed(padded, buffers)

    def undo(self, centre: Floats) -> Floats:
        """Return the x nearest to a rotated vector: its padding is dropped."""
        back = transformed(centre.reshape(1, -1).copy(), Buffers())[0]
        return np.asarray(back * self.signs / self.size)[: self.dimension]


def padded_size(dimension: int) -> int:
    """Return the smallest power of two from the dimension on."""
    return 1 << (dimension - 1).bit_length()


def transformed(rows: Floats, buffers: Buffers) -> Floats:
    """Return the Walsh-Hadamard transform of each row; `rows` is overwritten.

    H of size 2**k is a Kronecker product of Hadamard matrices of size up to 32: one small matrix
    product an axis, instead of k passes of additions. Products stay small, so that they run in the
    processor's cache and on one thread.
    """
    count, size = rows.shape
    current, other = rows, buffers.floats("transformed", (count, size))
    done = 1
    for bits in _factors(size):
        factor = hadamard(1 << bits)
        after = size // done // len(factor)
        if after == 1:
            shape: tuple[int, ...] = (count, done, len(factor))
            np.matmul(current.reshape(shape), factor, out=other.reshape(shape))
        else:
            shape = (count * done, len(factor), after)
            np.matmul(factor, current.reshape(shape), out=other.reshape(shape))
        current, other, done = other, current, done * len(factor)
    return current


@functools.cache
def hadamard(size: int) -> Floats:
    """Return the Hadamard matrix of a power of two, entries 1 and -1."""
    matrix = np.ones((1, 1))
    for _ in range(round(math.log2(size))):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix.flags.writeable = False
    return matrix


def _factors(size: int) -> list[int]:
    """Return exponents of about equal size, up to 5, that add up to log2(size)."""
    bits = size.bit_length() - 1
    parts = max(1, -(-bits // _LARGEST_FACTOR))
    return [bits // parts + (index < bits % parts) for index in range(parts)]
