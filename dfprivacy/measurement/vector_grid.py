"""The integer grid of vectors, and their random rotation: whole numbers, each row by itself.

The integers are held in float64, where sums of them are exact as long as they stay below 2**53;
`bits` is chosen so that every sum a row takes part in does: its transform, and the square of its
norm after a shift. Exact sums have no order: the same bits come out of every engine, batch and
thread.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_EXACT_BITS = 53


@dataclass(frozen=True)
class VectorGrid:
    """Integers of absolute value up to `largest` for coordinates in [-radius, radius].

    `step` is 2**exponent, in units of the columns. Twice such an integer, squared and added up
    over all coordinates, stays below 2**53.
    """

    dimension: int
    radius: float
    exponent: int
    bits: int

    @property
    def step(self) -> float:
        """The distance between neighbouring grid points."""
        return math.ldexp(1.0, self.exponent)

    @property
    def largest(self) -> int:
        """The largest integer; at most 2**bits."""
        return round(math.ldexp(self.radius, -self.exponent))

    def integers(self, rows: Floats, out: Floats) -> Floats:
        """Write each coordinate's integer; NaN stays NaN, infinities become the largest.

        Values are clipped first, so that nothing overflows. Multiplication by a power of two is
        exact and rounding is one rule of IEEE arithmetic: the result of a row depends on that row
        alone, and is the same on every machine.
        """
        np.clip(rows, -self.radius, self.radius, out=out)
        np.multiply(out, math.ldexp(1.0, -self.exponent), out=out)
        return np.rint(out, out=out)


def vector_grid(dimension: int, radius: float) -> VectorGrid:
    """Return the finest grid on which sums over coordinates are exact.

    >>> vector_grid(784, 100.0).bits
    20
    """
    bits = (_EXACT_BITS - (dimension - 1).bit_length()) // 2 - 1
    mantissa, exponent = math.frexp(radius)
    ceiling = exponent - 1 if mantissa == 0.5 else exponent
    return VectorGrid(dimension, radius, ceiling - bits, bits)


def incomplete(integers: Floats) -> npt.NDArray[np.bool_]:
    """Tell which rows lack a number in some coordinate."""
    return np.asarray(np.isnan(integers.sum(axis=1)))


class Buffers:
    """Arrays by name, made once and cut to the size asked for."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def floats(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return an array of float64 with anything in it."""
        return self._array(name, shape, np.float64)

    def integers(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Return an array of int64 with anything in it."""
        return self._array(name, shape, np.int64)

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = np.empty(size, dtype)
            self._held[name] = held
        return held[:size].reshape(shape)


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
