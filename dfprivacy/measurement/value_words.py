"""Hold the rows of a column in memory, to count the values near some ranks exactly. Secret.

The ranks that a selection asks about hold few rows of a large group. So the values of sorted rows
are read near these ranks alone, with the same counts there (docs/explanation/quantiles.md, 7).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.measurement.bin_table import BinTable, Magnitudes, Steps, add_up_bins
from dfprivacy.measurement.binning import LARGEST_VALUE, Floats, Integers, SignificantBits
from dfprivacy.measurement.runs import bisect_slices, list_distinct, mark_starts, run_starts

FLOAT_BITS = 32
"""Bits of a word below the number of its group, where values are floats: those of a value in their
order."""
SIGN = 2**31
"""The sign bit of a float in single precision."""

_LEAST_GROUP = 2**9
"""Rows of an average group from which on reading near ranks costs less than counting all values."""
_CHUNK = 2**18  # rows whose words stay in the cache

Bits = npt.NDArray[np.uint32]


def decode_bits(bits: Bits) -> Floats:
    """Return the values behind bits in their order: those of twice each, in single precision."""
    single = np.where(bits < SIGN, ~bits, bits ^ np.uint32(SIGN)).view(np.float32)
    return single.astype(np.float64) / 2


def bits_of_values(limit: int | None) -> int:
    """Return how many bits hold a whole number up to `limit`, or without it a float."""
    return FLOAT_BITS if limit is None else limit.bit_length()


def encode_bits(values: Floats) -> Bits:
    """Return the bits of values of at most 22 significant bits, in the order of the values."""
    bits = (2 * values).astype(np.float32).view(np.uint32)
    return np.asarray(np.where(bits < SIGN, bits ^ np.uint32(SIGN), ~bits))


_LIMITS = encode_bits(np.array([-LARGEST_VALUE, LARGEST_VALUE])).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class ValueWords:
    """A word for each row with a value: the number of its group above the bits of the value.

    `keys` has a row for each group, as those of a `BinTable`. Values are whole numbers from 0 to
    `limit`, or without it floats. Secret.
    """

    keys: pa.Table = field(repr=False)
    groups: int
    binning: SignificantBits
    words: Integers
    limit: int | None = None

    def __repr__(self) -> str:
        """Show nothing of the rows."""
        return f"ValueWords(secret; {self.binning})"

    @property
    def value_bits(self) -> int:
        """How many bits of a word are those of its value."""
        return bits_of_values(self.limit)

    def decode(self, codes: Integers) -> Floats:
        """Return the values of some words without their groups."""
        if self.limit is not None:
            return codes.astype(np.float64)
        return decode_bits(np.clip(codes, *_LIMITS).astype(np.uint32))

    @property
    def has_large_groups(self) -> bool:
        """True if reading near ranks costs less than counting all values."""
        return 0 < _LEAST_GROUP * self.groups <= len(self.words)

    @cached_property
    def in_order(self) -> Integers:
        """The words by group and value."""
        return np.sort(self.words)

    @cached_property
    def starts(self) -> Integers:
        """Where the rows of each group begin among the words in order, and the total at the end."""
        return np.searchsorted(self.in_order, np.arange(self.groups + 1) << self.value_bits)

    def totals(self) -> Integers:
        """Return the rows of each group."""
        return np.diff(self.starts)

    def renumber(self, keys: pa.Table, groups: int, places: Integers) -> ValueWords:
        """Return the rows by other numbers of their groups, without those of a group at -1."""
        if groups == self.groups and (places == np.arange(groups)).all():
            return replace(self, keys=keys)
        group, bits = places[self.words >> self.value_bits], self.value_bits
        words = (group << bits) + (self.words & (2**bits - 1))
        if places.min(initial=0) < 0:
            words = words[group >= 0]
        return ValueWords(keys, groups, self.binning, words, self.limit)

    def table(self) -> BinTable:
        """Return the rows of each group and value."""
        starts = run_starts(self.in_order)
        words = self.in_order[starts]
        bins = self.binning.numbers(self.decode(words & (2**self.value_bits - 1)))
        group, rows = words >> self.value_bits, np.diff(starts, append=len(self.words))
        return add_up_bins(BinTable(self.keys, self.groups, self.binning, group, bins, rows))

    def count_octaves(self, low: float, high: float) -> Integers:
        """Return the rows of all groups by octave, with and without decimals; 0 is in none.

        The values are floats, and count as the nearest between `low` and `high`.
        """
        counts = np.zeros(2 * 256, np.int64)
        ends = encode_bits(np.array([low, high]))
        for first in range(0, len(self.words), _CHUNK):
            bits = np.clip(self.words[first : first + _CHUNK].astype(np.uint32), *ends)
            sizes = np.where(bits < SIGN, np.uint32(SIGN - 1) - bits, bits ^ np.uint32(SIGN))
            single = sizes.view(np.float32) * np.float32(0.5)
            exponents = (sizes >> 23).astype(np.int64)
            exponents += 256 * (single == np.floor(single))
            counts += np.bincount(exponents, minlength=len(counts))
        return counts.reshape(2, 256)[:, 2:255]  # the exponent of 2 * 2**-126 is 2


def build_value_table(values: BinTable | ValueWords) -> BinTable:
    """Return the rows of each group and value."""
    return values.table() if isinstance(values, ValueWords) else values


class NearCounts:
    """Counts of the candidates of a grid by group, exact where they have been asked for. Secret.

    Rows in order are cut into entries where another group or candidate begins. Rows between the
    places that have been asked for are one entry, with the candidate of the last of them.
    """

    def __init__(self, values: ValueWords, grid: Steps | Magnitudes) -> None:
        self._values, self._grid = values, grid
        self._cuts = list_distinct(values.starts[:-1])

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "NearCounts(secret)"

    def _numbers(self, places: Integers) -> Integers:
        """Return the candidates of the rows at some places in order."""
        words = self._values.in_order.take(places, mode="clip")
        return self._grid.numbers(self._values.decode(words & (2**self._values.value_bits - 1)))

    def _find(self, group: Integers, numbers: Integers) -> Integers:
        """Return the place of the first row of a group with at least this candidate."""
        starts = self._values.starts
        return bisect_slices(self._numbers, numbers, starts[group], starts[group + 1])

    def table(self, *cuts: Integers) -> BinTable:
        """Return the table of the entries, which begin at these places as well."""
        values, words = self._values, self._values.in_order
        places = list_distinct(np.concatenate([self._cuts, *cuts]))
        self._cuts = places[places < len(words)]
        stops = np.append(self._cuts[1:], len(words))
        group, bins = words[self._cuts] >> values.value_bits, self._numbers(stops - 1)
        grid: Any = self._grid  # numbered as bins are
        return BinTable(values.keys, values.groups, grid, group, bins, stops - self._cuts)

    def read_rows(self, first: Integers, stop: Integers) -> BinTable:
        """Return a table that is exact in some slices of the rows in order."""
        is_filled = first < stop
        first, sizes = first[is_filled], (stop - first)[is_filled]
        heads = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(first - heads, sizes)
        numbers = self._numbers(places)
        group = self._values.in_order[first] >> self._values.value_bits
        before = self._find(group, numbers[heads])
        after = self._find(group, numbers[heads + sizes - 1] + 1)
        is_start = mark_starts(numbers)
        is_start[heads] = False  # a candidate may begin before the slice
        return self.table(places[is_start], before, after)

    def read_candidates(self, group: Integers, numbers: Integers) -> BinTable:
        """Return a table that is exact at some candidates, and in the rows below them."""
        return self.table(self._find(group, numbers), self._find(group, numbers + 1))
