"""The integer grid of vectors: rows become vectors of whole numbers, each by itself.

The integers are held in float64, where sums of them are exact as long as they stay below 2**53;
`bits` is chosen so that every sum a row takes part in does: its transform, and the square of its
norm after a shift. Exact sums have no order: the same bits come out of every engine, batch and
thread.
"""

from __future__ import annotations

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
