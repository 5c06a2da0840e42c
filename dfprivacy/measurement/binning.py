"""Find the bin of every value, by its own bits alone.

A binning maps each value to one bin of a public, ordered list, so that counting rows by bin adds
one to exactly one count a row. Bins are numbered in the order of their values; 0 holds zero. Both
grids here span every magnitude: sizes below 2**-126 are zero, sizes above 2**126 are 2**126.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LEAST_EXPONENT = -126
MOST_EXPONENT = 126
LARGEST_VALUE = 2.0**MOST_EXPONENT

VALUE_BITS = 22
"""Values keep so many significant bits: float sums of one octave are exact below 2**31 rows."""

SQUARE_BITS = VALUE_BITS - 1
"""Squares keep so many: those of one octave span two, and their sums are exact below 2**31 too."""

OCTAVE_FACTOR = 0.75 * (1 - 2.0**-25)
"""A value times this rounds, to one bit, to the largest power of two below the value."""


def splitter(bits: int) -> float:
    """Return Veltkamp's factor c: with t = x * c, t - (t - x) is x rounded to so many bits."""
    return 2.0 ** (53 - bits) + 1.0


def round_values(values: Floats, bits: int) -> Floats:
    """Return values rounded to so many significant bits: the law that the engines follow."""
    product = values * splitter(bits)
    return np.asarray(product - (product - values))


def clip_values(values: Floats) -> Floats:
    """Return values of size at most 2**126; NaN stays what it is."""
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)


@dataclass(frozen=True)
class Octaves:
    """Octaves (2**e, 2**(e + 1)] in 2**(bits - 1) equal bins, their mirror images, and zero.

    A bin has its larger end, in size; its label is the other one. Sums are of what values exceed a
    base by: the center where `counts_from_center`, otherwise the label, which leaves few bits. With
    a `center`, octaves are those of the distances from it, which are rounded as values are.

    >>> fine = Octaves(5)
    >>> numbers = fine.numbers(fine.labels(np.array([1.0, 1.01, 1.25, 1.26, -1.26])))
    >>> fine.bases(numbers).tolist(), fine.upper(numbers).tolist()
    ([0.96875, 1.0, 1.1875, 1.25, -1.25], [1.0, 1.0625, 1.25, 1.3125, -1.25])
    >>> about = Octaves(3, center=50.0)
    >>> numbers = about.numbers(about.labels(np.array([47.5, 50.0, 53.0])))
    >>> about.lower(numbers).tolist(), about.upper(numbers).tolist()
    ([47.5, 50.0, 52.5], [48.0, 50.0, 53.0])
    """

    bits: int = 1
    center: float = 0.0

    @property
    def counts_from_center(self) -> bool:
        """True where sums are of distances from the center: bins are a quarter octave or more."""
        return self.bits <= 3

    @property
    def last(self) -> int:
        """The number of the uppermost bin; the lowest is its negative."""
        return (MOST_EXPONENT - LEAST_EXPONENT + 1) << (self.bits - 1)

    @property
    def inwards(self) -> float:
        """Half a bin and a little more, in units of its octave's lower end."""
        return 2.0**-self.bits + 2.0 ** -(VALUE_BITS + 1)

    @property
    def shift(self) -> float:
        """Doubles so many times as large as an octave's lower end are as far apart as its bins."""
        return 1.5 * 2.0 ** (53 - self.bits)

    def labels(self, values: Floats) -> Floats:
        """Return the labels that engines group by: the end of the bin nearer to zero."""
        values = self.distances(values)
        octave = round_values(values * OCTAVE_FACTOR, 1)
        if self.bits == 1:
            return octave
        shifted = octave * self.shift
        return np.asarray((values - octave * self.inwards + shifted) - shifted)

    def distances(self, values: Floats) -> Floats:
        """Return how far values lie above the center, rounded."""
        values = round_values(clip_values(values), VALUE_BITS)
        return round_values(values - self.center, VALUE_BITS) if self.center else values

    def codes(self, distances: Floats) -> npt.NDArray[np.uint32]:
        """Return the code of the bin of each distance: the first bits of twice its label.

        In single precision twice a distance is exact and normal. Its neighbor towards zero has the
        same first bits as twice the label. The code of zero is that of no number.
        """
        twice = (distances + distances).astype(np.float32).view(np.uint32)
        return (twice - np.uint32(1)) >> np.uint32(24 - self.bits)

    def labels_of_codes(self, codes: npt.NDArray[np.uint32]) -> Floats:
        """Return the labels of bins from their codes."""
        twice = (codes << np.uint32(24 - self.bits)).view(np.float32)
        return np.where(np.isfinite(twice), twice, 0.0).astype(np.float64) / 2.0

    def numbers(self, labels: Floats) -> Integers:
        """Return the numbers of bins from their labels."""
        sizes = np.abs(np.asarray(labels, dtype=np.float64)).view(np.int64) >> (53 - self.bits)
        ranks = np.clip(sizes - self._offset, 0, self.last)
        return np.asarray(np.where(labels < 0, -ranks, ranks), dtype=np.int64)

    def bases(self, numbers: Integers) -> Floats:
        """Return the base of each bin, which sums are relative to: its label, or the center."""
        if self.counts_from_center:
            return np.full(len(numbers), self.center)
        return np.where(numbers == 0, 0.0, np.sign(numbers) * self._ends(np.abs(numbers)))

    def upper(self, numbers: Integers) -> Floats:
        """Return the largest value of each bin."""
        return self.center - self._lower(-numbers)

    def lower(self, numbers: Integers) -> Floats:
        """Return the end that no value of a bin is below."""
        return self.center + self._lower(numbers)

    def _lower(self, numbers: Integers) -> Floats:
        inner = np.where(numbers > 1, self._ends(numbers), 0.0)  # nothing is nearer to zero
        return np.where(numbers < 0, -self._ends(1 - numbers), inner)

    def _ends(self, ranks: Integers) -> Floats:
        ends = (np.clip(ranks, 0, self.last + 1) + self._offset) << (53 - self.bits)
        return np.asarray(ends, dtype=np.int64).view(np.float64)

    @property
    def _offset(self) -> int:
        smallest = int(np.float64(2.0 ** (LEAST_EXPONENT - 1)).view(np.int64))
        return (smallest >> (53 - self.bits)) - 1


@dataclass(frozen=True)
class SignificantBits:
    """The values of `bits` significant bits, each the bin of what rounds to it.

    >>> grid = SignificantBits(8)
    >>> grid.values(grid.numbers(grid.labels(np.array([0.1, -1000.3, 0.0])))).tolist()
    [0.10009765625, -1000.0, 0.0]
    """

    bits: int

    @property
    def last(self) -> int:
        """The number of the largest value, 2**126; the least has its negative."""
        return (MOST_EXPONENT - LEAST_EXPONENT) * (1 << (self.bits - 1)) + 1

    def labels(self, values: Floats) -> Floats:
        """Return the labels that engines group by: the rounded values."""
        return round_values(clip_values(values), self.bits)

    def numbers(self, labels: Floats) -> Integers:
        """Return the numbers of rounded values: their bits, read as integers, count upwards."""
        sizes = np.abs(np.asarray(labels, dtype=np.float64)).view(np.int64) >> (53 - self.bits)
        ranks = np.clip(sizes - self._offset, 0, self.last)
        return np.asarray(np.where(labels < 0, -ranks, ranks), dtype=np.int64)

    def values(self, numbers: Integers) -> Floats:
        """Return the values of bins."""
        sizes = (np.abs(numbers) + self._offset) << (53 - self.bits)
        floats = np.asarray(sizes, dtype=np.int64).view(np.float64)
        return np.where(numbers == 0, 0.0, np.where(numbers < 0, -floats, floats))

    @property
    def _offset(self) -> int:
        smallest = np.float64(2.0**LEAST_EXPONENT).view(np.int64)
        return int(int(smallest) >> (53 - self.bits)) - 1


@dataclass(frozen=True)
class Edges:
    """Bins between ascending edges, each with its lower edge, the last with both."""

    edges: tuple[float, ...]

    @property
    def last(self) -> int:
        """The number of the uppermost bin between edges."""
        return len(self.edges) - 1

    def labels(self, values: Floats) -> Floats:
        """Return the labels that engines group by: how many edges a value reaches."""
        inner = np.searchsorted(self.edges[:-1], values, side="right")
        counted = (inner + (values > self.edges[-1])).astype(np.float64)
        return np.where(np.isnan(values), np.nan, counted)

    def numbers(self, labels: Floats) -> Integers:
        """Return the numbers of bins from their labels."""
        return np.asarray(labels, dtype=np.int64)


Binning = Octaves | SignificantBits | Edges
