"""Write vectors as whole numbers, rotated at random, and add them up in exact tables. Secret.

The integers are held in float64, where sums of them are exact as long as they stay below 2**53;
`bits` is chosen so that every sum a row takes part in does.

A table takes blocks of rows of whole numbers (`VectorGrid.integers`), or of item sets: 0/1 vectors
over a public universe, by their ones alone. Each row adds integers that depend on that row and on
public numbers alone, and no table grows with the number of rows. Blocks come in any order.

Distances are counted in bins of 1/16 octave: whole numbers from 1 on have the sixteen bins of their
power of two, 0 has a bin of its own. Such a grid spans every magnitude in some 500 bins.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import TooManyRowsError
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.runs import run_starts

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
        """The distance between neighboring grid points."""
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
    """Return a mask of rows that lack a number in some coordinate."""
    return np.asarray(np.isnan(integers.sum(axis=1)))


class Buffers:
    """Arrays by name, made once and cut to the size asked for."""

    def __init__(self) -> None:
        self._held: dict[str, Floats] = {}

    def floats(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Return an array with anything in it."""
        size = math.prod(shape)
        buffer = self._held.get(name)
        if buffer is None or len(buffer) < size:
            buffer = np.empty(size)
            self._held[name] = buffer
        return buffer[:size].reshape(shape)


_LARGEST_FACTOR = 5


@dataclass(frozen=True)
class Rotation:
    """z = H D x: D has `signs` on its diagonal, H is the Hadamard matrix of the padded size.

    H is not normalized, so that whole numbers stay whole: z is sqrt(size) times as long as x. With
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
        return transform(padded, buffers)

    def undo(self, center: Floats) -> Floats:
        """Return the x nearest to a rotated vector: its padding is dropped."""
        back = transform(center.reshape(1, -1).copy(), Buffers())[0]
        return np.asarray(back * self.signs / self.size)[: self.dimension]


def pad_size(dimension: int) -> int:
    """Return the smallest power of two from the dimension on."""
    return 1 << (dimension - 1).bit_length()


def transform(rows: Floats, buffers: Buffers) -> Floats:
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


Integers = npt.NDArray[np.int64]


class VectorTable(ABC):
    """The sums of one pass over vectors. Secret: only noise and selections may read it."""

    def __init__(self, *shape: int) -> None:
        self.rows = 0
        self.counts: Integers = np.zeros(shape, np.int64)

    def add(self, rows: Floats, buffers: Buffers) -> None:
        """Add a block of whole numbers, one row a vector."""
        if len(rows):
            self.rows += len(rows)
            if self.rows >= ROW_LIMIT:
                raise TooManyRowsError(
                    "there are 2**33 rows or more, the public limit of one release",
                    hint="split the data into parts and release each",
                )
            self._add(rows, buffers)

    @abstractmethod
    def _add(self, rows: Floats, buffers: Buffers) -> None:
        """Add a block that is not empty."""

    def __repr__(self) -> str:
        """Show nothing of what was added up."""
        return f"{type(self).__name__}(secret)"


@dataclass(frozen=True)
class Windows:
    """`bins` bins of width 2**shift for each coordinate, from `starts` on: public whole numbers."""

    starts: Floats
    shift: int
    bins: int

    def within(self, chosen: Integers, bins: int) -> Windows:
        """Return the windows that split one chosen bin of each coordinate into `bins`."""
        starts = self.starts + chosen * math.ldexp(1.0, self.shift)
        return Windows(starts, self.shift - (bins.bit_length() - 1), bins)

    def middles(self, chosen: Integers) -> Floats:
        """Return the middle of the chosen bins, rounded down to a whole number."""
        return np.floor(self.starts + (chosen + 0.5) * math.ldexp(1.0, self.shift))


class CoordinateCounts(VectorTable):
    """How many rows lie in each bin of each coordinate, with a slot outside either end."""

    def __init__(self, windows: Windows, rotation: Rotation | None = None) -> None:
        slots = windows.bins + 2
        super().__init__(len(windows.starts), slots)
        self._rotation = rotation
        self._scale = math.ldexp(1.0, -windows.shift)
        self._first = np.arange(len(windows.starts)) * float(slots)
        self._last = self._first + (slots - 1)
        self._offset = self._first + 1 - windows.starts * self._scale

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        if self._rotation is not None:
            slots = self._rotation.apply(rows, self._scale, buffers)
        else:
            slots = np.multiply(rows, self._scale, out=buffers.floats("scaled", rows.shape))
        np.add(slots, self._offset, out=slots)
        np.maximum(slots, self._first, out=slots)
        np.minimum(slots, self._last, out=slots)
        slot_numbers = buffers.floats("slot numbers", slots.shape).view(np.int64)
        np.copyto(slot_numbers, slots, casting="unsafe")  # towards zero, and no slot is negative
        self.counts += np.bincount(slot_numbers.reshape(-1), minlength=self.counts.size).reshape(
            self.counts.shape
        )


@dataclass(frozen=True)
class Shifted:
    """Rows less a public center, perhaps scaled, as whole numbers whose squared norms are exact."""

    center: Floats
    bits: int
    scale: Floats | None = None

    def apply(self, rows: Floats, buffers: Buffers) -> Floats:
        """Return the shifted rows in a buffer."""
        out = buffers.floats("shifted", rows.shape)
        np.subtract(rows, self.center, out=out)
        if self.scale is not None:
            np.multiply(out, self.scale, out=out)
            np.rint(out, out=out)
            limit = math.ldexp(1.0, self.bits)
            np.clip(out, -limit, limit, out=out)
        return out

    def square(self, rows: Any, buffers: Buffers) -> tuple[Floats, Floats]:
        """Return shifted rows, or the values of items in sets, and the squared norm of each row."""
        if not isinstance(rows, ItemRows):
            values = self.apply(rows, buffers)
            return values, np.asarray(np.einsum("ij,ij->i", values, values))
        values = np.ones(len(rows.item)) if self.scale is None else self.scale[rows.item]
        return values, add_up_values(rows.row, values**2, rows.rows)


def add_up_values(places: Integers, values: Floats, size: int) -> Floats:
    """Return the sum of whole numbers at each place; float64 even where there are none."""
    return np.bincount(places, values, minlength=size).astype(np.float64, copy=False)


@dataclass(frozen=True, repr=False)
class ItemRows:
    """A block of item sets: `item` of each entry and the `row` it is in, no pair twice. Secret."""

    rows: int
    row: Integers
    item: Integers

    def __len__(self) -> int:
        return self.rows


class NormCounts(VectorTable):
    """How many shifted rows, or scaled sets, have a squared norm in each bin, of 1/32 octave."""

    def __init__(self, shifted: Shifted) -> None:
        super().__init__(2 * shifted.bits * _PER_OCTAVE + 1)
        self._shifted = shifted

    def _add(self, rows: Any, buffers: Buffers) -> None:
        _, squared = self._shifted.square(rows, buffers)
        slots = distance_slots(squared, len(self.counts) + 1) - 1
        self.counts += np.bincount(slots, minlength=len(self.counts))


def find_squared_limit(chosen: int) -> float:
    """Return where a bin of squared norms ends, exactly; 1 for the bin of 0."""
    octave, part = divmod(chosen - 1, _PER_OCTAVE)
    return math.ldexp(1 + (part + 1) / _PER_OCTAVE, octave) if chosen else 1.0


class ClippedSums(VectorTable):
    """The sum of shifted rows, or scaled sets, each shortened to a squared norm up to `limit`.

    A shortened row is rounded towards zero after a factor that is a little too small, so that its
    squared norm is at most `limit`, whatever floats do: the root is the L2 sensitivity of the sum.
    """

    def __init__(self, shifted: Shifted, limit: float) -> None:
        super().__init__(len(shifted.center))
        self._shifted, self._limit = shifted, limit

    def _add(self, rows: Any, buffers: Buffers) -> None:
        values, squared = self._shifted.square(rows, buffers)
        long = np.flatnonzero(squared > self._limit)
        # to the limit or a little below
        shrinks = np.sqrt(self._limit / squared[long])[:, np.newaxis] * (1 - 2.0**-48)
        if isinstance(rows, ItemRows):
            factors = np.ones(rows.rows)
            factors[long] = shrinks[:, 0]
            values = np.trunc(values * factors[rows.row])
            self.counts += add_up_values(rows.item, values, len(self.counts)).astype(np.int64)
            return
        if len(long):
            values[long] = np.trunc(values[long] * shrinks)
        self.counts += values.sum(axis=0).astype(np.int64)


_FRACTION_BITS = 4
_SHIFT = 52 - _FRACTION_BITS
_ONE = int(np.float64(1.0).view(np.int64)) >> _SHIFT
_PER_OCTAVE = 1 << _FRACTION_BITS


def distance_bins(bits: int) -> int:
    """Return a power of two of bins that hold 0 and all numbers from 1 to below 2**bits."""
    return 1 << (bits * _PER_OCTAVE).bit_length()


def distance_slots(distances: Floats, slots: int) -> Integers:
    """Return the slot of each distance: read off the bits of the float, so monotone and exact."""
    numbers = (distances.view(np.int64) >> _SHIFT) - (_ONE - 2)
    np.maximum(numbers, 1, out=numbers)
    return np.asarray(np.minimum(numbers, slots - 1, out=numbers))


def find_bin_middle(bins: Integers) -> Floats:
    """Return the middle of each bin; 0 for the bin of 0."""
    octave, part = np.divmod(bins - 1, _PER_OCTAVE)
    middle = np.ldexp(1.0 + (part + 0.5) / _PER_OCTAVE, octave.astype(np.int32))
    return np.where(bins == 0, 0.0, middle)


class Distances(VectorTable):
    """How many rows lie in each bin of |x_j - center_j|, for each j, as in `CoordinateCounts`."""

    def __init__(self, center: Floats, bits: int) -> None:
        super().__init__(len(center), distance_bins(bits) + 2)
        self._center = center

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        distances = buffers.floats("distances", rows.shape)
        np.subtract(rows, self._center, out=distances)
        np.abs(distances, out=distances)
        _count(distances, self.counts)


def _count(distances: Floats, counts: Integers) -> None:
    slots = distance_slots(distances, counts.shape[1])
    slots += np.arange(counts.shape[0]) * counts.shape[1]
    counts += np.bincount(slots.reshape(-1), minlength=counts.size).reshape(counts.shape)


class PairDistances(VectorTable):
    """Root mean squares of `pairs` differences of consecutive rows, by coordinate, in bins.

    Replacing a row changes the one value of its group: for the replace relation only, where rows
    keep their places. Rows that do not fill a group are left out. `groups` says how many there are.
    """

    def __init__(self, dimension: int, bits: int, pairs: int) -> None:
        super().__init__(dimension, distance_bins(bits) + 2)
        self._size, self.groups = 2 * pairs, 0
        self._waiting = np.empty((0, dimension))

    def _add(self, rows: Floats, buffers: Buffers) -> None:  # noqa: ARG002 one interface
        all_rows = np.concatenate([self._waiting, rows])
        groups = len(all_rows) // self._size
        complete = all_rows[: groups * self._size].reshape(groups, self._size, all_rows.shape[1])
        self._waiting = all_rows[groups * self._size :].copy()
        self.groups += groups
        squares = np.zeros((groups, all_rows.shape[1]))
        for first in range(0, self._size, 2):
            squares += (complete[:, first] - complete[:, first + 1]) ** 2
        _count(np.sqrt(squares / (self._size // 2)), self.counts)


class BucketSpreads(VectorTable):
    """Sums and sums of squares of rows by bucket; `labels` draws the bucket of each row.

    Buckets are drawn independently of everything, so that a row more or less changes one bucket,
    and no other row's. Squares are added up modulo 2**64: a bucket of very many rows may read
    wrong, and moves no other bucket.
    """

    def __init__(
        self, center: Floats, buckets: int, bits: int, labels: Callable[[int], Integers]
    ) -> None:
        super().__init__(buckets)
        self._center, self._labels, self._bits = center, labels, bits
        self.sums, self.squares = np.zeros((2, buckets, len(center)), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:  # noqa: ARG002 one interface
        labels = self._labels(len(rows))
        order = np.argsort(labels, kind="stable")
        labels = labels[order]
        starts = run_starts(labels)
        buckets = labels[starts]
        values = (rows[order] - self._center).astype(np.int64)
        self.counts[buckets] += np.diff(starts, append=len(labels))
        self.sums[buckets] += np.add.reduceat(values, starts, axis=0)
        self.squares[buckets] += np.add.reduceat(values * values, starts, axis=0)

    def distances(self) -> Integers:
        """Return one standard deviation a bucket and coordinate, counted in bins of distances.

        The form of `CoordinateCounts`, and always as many values as buckets: of those with fewer
        than two rows every other one counts as 0 and the rest as beyond the last bin.
        """
        rows = self.counts.astype(np.float64)[:, np.newaxis]
        has_few_rows = self.counts < 2
        centered = self.squares - self.sums / np.maximum(rows, 1) * self.sums
        deviation = np.sqrt(np.maximum(centered, 0) / np.maximum(rows - 1, 1))
        deviation[has_few_rows] = np.where(np.arange(len(rows)) % 2, 0.0, math.inf)[
            has_few_rows, np.newaxis
        ]
        counts = np.zeros((self.sums.shape[1], distance_bins(self._bits) + 2), np.int64)
        _count(np.ascontiguousarray(deviation), counts)
        return counts


class ItemCounts(VectorTable):
    """How many sets hold each of so many items."""

    def _add(self, rows: Any, buffers: Buffers) -> None:  # noqa: ARG002 one interface
        self.counts += np.bincount(rows.item, minlength=len(self.counts))
