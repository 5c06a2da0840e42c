"""Exact tables of how far coordinates spread: distances to a centre, between rows, in buckets.

Distances are counted in bins of 1/16 octave: whole numbers from 1 on have the sixteen bins of
their power of two, 0 has a bin of its own. Such a grid spans every magnitude in some 500 bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.vector_grid import Floats
from dfprivacy.measurement.vector_tables import Integers, VectorTable

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


def distance_of(bins: Integers) -> Floats:
    """Return the middle of each bin; 0 for the bin of 0."""
    octave, part = np.divmod(bins - 1, _PER_OCTAVE)
    middle = np.ldexp(1.0 + (part + 0.5) / _PER_OCTAVE, octave.astype(np.int32))
    return np.where(bins == 0, 0.0, middle)


class Distances(VectorTable):
    """How many rows lie in each bin of |x_j - centre_j|, for each coordinate j.

    The form of `CoordinateCounts`: a row a coordinate, bins + 2 slots, nothing below.
    """

    def __init__(self, centre: Floats, bits: int) -> None:
        super().__init__()
        self._centre = centre
        self.bins = distance_bins(bits)
        self.counts = np.zeros((len(centre), self.bins + 2), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:
        distances = buffers.floats("distances", rows.shape)
        np.subtract(rows, self._centre, out=distances)
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
        super().__init__()
        self._size = 2 * pairs
        self._waiting = np.empty((0, dimension))
        self.groups = 0
        self.bins = distance_bins(bits)
        self.counts = np.zeros((dimension, self.bins + 2), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:  # noqa: ARG002 one interface
        together = np.concatenate([self._waiting, rows])
        groups = len(together) // self._size
        whole = together[: groups * self._size].reshape(groups, self._size, together.shape[1])
        self._waiting = together[groups * self._size :].copy()
        self.groups += groups
        squares = np.zeros((groups, together.shape[1]))
        for first in range(0, self._size, 2):
            squares += (whole[:, first] - whole[:, first + 1]) ** 2
        _count(np.sqrt(squares / (self._size // 2)), self.counts)

    def merge(self, other: VectorTable) -> None:  # noqa: ARG002 one interface
        """Refuse: a group may lie across two parts."""
        message = "pairs of consecutive rows can't be merged"
        raise TypeError(message)


class BucketSpreads(VectorTable):
    """Sums and sums of squares of rows by bucket; `labels` draws the bucket of each row.

    Buckets are drawn independently of everything, so that a row more or less changes one bucket,
    and no other row's. Squares are added up modulo 2**64: a bucket of very many rows may read
    wrong, and moves no other bucket.
    """

    def __init__(
        self, centre: Floats, buckets: int, bits: int, labels: Callable[[int], Integers]
    ) -> None:
        super().__init__()
        self._centre, self._labels = centre, labels
        self._bits = bits
        self.counts = np.zeros(buckets, np.int64)
        self.sums = np.zeros((buckets, len(centre)), np.int64)
        self.squares = np.zeros((buckets, len(centre)), np.int64)

    def _add(self, rows: Floats, buffers: Buffers) -> None:  # noqa: ARG002 one interface
        labels = self._labels(len(rows))
        order = np.argsort(labels, kind="stable")
        found, starts, own = np.unique(labels[order], return_index=True, return_counts=True)
        values = (rows[order] - self._centre).astype(np.int64)
        self.counts[found] += own
        self.sums[found] += np.add.reduceat(values, starts, axis=0)
        self.squares[found] += np.add.reduceat(values * values, starts, axis=0)

    def merge(self, other: VectorTable) -> None:
        """Add the buckets of other rows."""
        assert isinstance(other, BucketSpreads)  # noqa: S101 tables of one pass are of one kind
        super().merge(other)
        self.sums += other.sums
        self.squares += other.squares

    def distances(self) -> Integers:
        """Return one standard deviation a bucket and coordinate, counted in bins of distances.

        The form of `CoordinateCounts`, and always as many values as buckets: of those with fewer
        than two rows every other one counts as 0 and the rest as beyond the last bin.
        """
        rows = self.counts.astype(np.float64)[:, np.newaxis]
        few = self.counts < 2
        centred = self.squares - self.sums / np.maximum(rows, 1) * self.sums
        deviation = np.sqrt(np.maximum(centred, 0) / np.maximum(rows - 1, 1))
        deviation[few] = np.where(np.arange(len(rows)) % 2, 0.0, math.inf)[few, np.newaxis]
        counts = np.zeros((self.sums.shape[1], distance_bins(self._bits) + 2), np.int64)
        _count(np.ascontiguousarray(deviation), counts)
        return counts
