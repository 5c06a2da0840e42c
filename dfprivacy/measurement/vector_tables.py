"""Exact tables of vectors: secret, mergeable by addition, filled block by block in any order.

A table takes blocks of rows of whole numbers (`VectorGrid.integers`). Each row adds integers that
depend on that row and on public numbers alone, and no table grows with the number of rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import TooManyRowsError
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.rotation import Rotation
from dfprivacy.measurement.vector_grid import Floats

Integers = npt.NDArray[np.int64]


class VectorTable(ABC):
    """What one pass over vectors adds up. Secret: only noise and selections may read it."""

    def __init__(self) -> None:
        self.rows = 0
        self.counts: Integers = np.zeros(0, np.int64)

    def add(self, rows: Floats, buffers: Buffers) -> None:
        """Add a block of whole numbers, one row a vector.

        Raises
        ------
        TooManyRowsError
            From 2**33 rows on, the public limit.
        """
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

    def merge(self, other: Self) -> None:
        """Add the table of other rows: the same, bit for bit, as one pass over all of them."""
        self.rows += other.rows
        self.counts += other.counts

    def __repr__(self) -> str:
        """Show nothing of what was added up."""
        return f"{type(self).__name__}(secret)"


class RowCount(VectorTable):
    """How many rows there are."""

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        pass


@dataclass(frozen=True)
class Windows:
    """`bins` bins of width 2**shift for each coordinate, from `starts` on: public whole numbers."""

    starts: Floats
    shift: int
    bins: int

    def within(self, chosen: Integers, bins: int) -> Windows:
        """Return the windows that split one chosen bin of each coordinate into `bins`."""
        return Windows(self.lower_edges(chosen), self.shift - (bins.bit_length() - 1), bins)

    def lower_edges(self, chosen: Integers) -> Floats:
        """Return where the chosen bins begin."""
        return self.starts + chosen * math.ldexp(1.0, self.shift)

    def middles(self, chosen: Integers) -> Floats:
        """Return the middle of the chosen bins, rounded down to a whole number."""
        return np.floor(self.starts + (chosen + 0.5) * math.ldexp(1.0, self.shift))


class CoordinateCounts(VectorTable):
    """How many rows lie in each bin of each coordinate; the first and the last slot are outside.

    `counts` has one row a coordinate and bins + 2 columns.
    """

    def __init__(self, windows: Windows, rotation: Rotation | None = None) -> None:
        super().__init__()
        self._rotation = rotation
        slots = windows.bins + 2
        self._scale = math.ldexp(1.0, -windows.shift)
        self._first = np.arange(len(windows.starts)) * float(slots)
        self._last = self._first + (slots - 1)
        self._offset = self._first + 1 - windows.starts * self._scale
        self.counts = np.zeros((len(windows.starts), slots), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        slots = self._scaled(rows, buffers)
        np.add(slots, self._offset, out=slots)
        np.maximum(slots, self._first, out=slots)
        np.minimum(slots, self._last, out=slots)
        whole = buffers.integers("slot numbers", slots.shape)
        np.copyto(whole, slots, casting="unsafe")  # towards zero, and no slot is negative
        self.counts += np.bincount(whole.reshape(-1), minlength=self.counts.size).reshape(
            self.counts.shape
        )

    def _scaled(self, rows: Floats, buffers: Buffers) -> Floats:
        if self._rotation is not None:
            return self._rotation.apply(rows, self._scale, buffers)
        scaled = buffers.floats("scaled", rows.shape)
        return np.multiply(rows, self._scale, out=scaled)


@dataclass(frozen=True)
class Shifted:
    """Rows less a public centre, optionally scaled by coordinate and rounded again.

    Results are whole numbers of absolute value up to 2**bits, where d * 4**bits <= 2**53: squared
    norms are exact.
    """

    centre: Floats
    bits: int
    scale: Floats | None = None

    def apply(self, rows: Floats, buffers: Buffers) -> Floats:
        """Return the shifted rows in a buffer."""
        out = buffers.floats("shifted", rows.shape)
        np.subtract(rows, self.centre, out=out)
        if self.scale is not None:
            np.multiply(out, self.scale, out=out)
            np.rint(out, out=out)
            limit = math.ldexp(1.0, self.bits)
            np.clip(out, -limit, limit, out=out)
        return out


def squared_norms(rows: Floats) -> Floats:
    """Return the squared norm of each row of whole numbers, exactly."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


class NormCounts(VectorTable):
    """How many shifted rows have a norm in each of `bins` equal bins of [0, 2**top).

    One row of bins + 2 columns, the form of `CoordinateCounts`; nothing is below, and what is
    longer than the last bin stands in the last slot.
    """

    def __init__(self, shifted: Shifted, top: int, bins: int) -> None:
        super().__init__()
        self._shifted = shifted
        self._scale = bins * math.ldexp(1.0, -top)
        self.counts = np.zeros((1, bins + 2), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        squared = squared_norms(self._shifted.apply(rows, buffers))
        np.add.at(self.counts[0], norm_slots(squared, self._scale, self.counts.shape[1]), 1)


def norm_slots(squared: Floats, scale: float, slots: int) -> Integers:
    """Return the slot of each squared norm: one root, one product, both correctly rounded."""
    numbers = np.minimum(np.sqrt(squared) * scale, slots - 2)
    return np.asarray(numbers.astype(np.int64) + 1)


class ClippedSums(VectorTable):
    """The sum of shifted rows, each shortened to `threshold` where it is longer.

    A shortened row is rounded towards zero after a factor that is a little too small, so that its
    norm is at most `threshold`, whatever floats do: that is the L2 sensitivity of the sum.
    """

    def __init__(self, shifted: Shifted, threshold: float) -> None:
        super().__init__()
        self._shifted = shifted
        self._threshold = threshold
        self.counts = np.zeros(len(shifted.centre), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        values = self._shifted.apply(rows, buffers)
        squared = squared_norms(values)
        long = np.flatnonzero(squared > self._threshold**2)
        if len(long):
            values[long] = np.trunc(values[long] * shrinking(squared[long], self._threshold))
        self.counts += values.sum(axis=0).astype(np.int64)


def shrinking(squared: Floats, threshold: float) -> Floats:
    """Return factors, one a row, that bring these norms to the threshold or a little below."""
    return np.asarray(threshold / np.sqrt(squared) * (1 - 2.0**-48))[:, np.newaxis]
