"""Hold the rows of a column in memory, to count the values near some ranks exactly. Secret.

The ranks that a selection asks about hold few rows of a large group. So rows are counted in cells
first, a few hundred for all groups, and by value only in the cells that matter: no sorting of all
rows, and the same counts there (docs/explanation/quantiles.md, 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.measurement.bin_table import BinTable, Magnitudes, Steps, add_up_bins, list_codes
from dfprivacy.measurement.binning import LARGEST_VALUE, Floats, Integers, SignificantBits
from dfprivacy.measurement.runs import run_starts

FLOAT_BITS = 32
"""Bits of a word below the number of its group, where values are floats: those of a value in their
order."""
SIGN = 2**31
"""The sign bit of a float in single precision."""

ROWS_OF_CELL = 32
"""Rows of a group that a cell holds on average: fewer cost more cells, more cost more sorting."""
_MOST_CELLS = 2**12
_LEAST_GROUP = 2**9
"""Rows of an average group from which on counting in cells first costs less than sorting."""
_TOP_BITS = 16
_CHUNK = 2**18  # rows whose words stay in the cache

Bits = npt.NDArray[np.uint32]


def decode_bits(bits: Bits) -> Floats:
    """Return the values behind bits in their order: those of twice each, in single precision."""
    single = np.where(bits < SIGN, ~bits, bits ^ np.uint32(SIGN)).view(np.float32)
    return single.astype(np.float64) / 2


def bits_of_values(limit: int | None) -> int:
    """Return how many bits hold a whole number up to `limit`, or without it a float."""
    return FLOAT_BITS if limit is None else max(limit.bit_length(), _TOP_BITS)


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
        """True if counting in cells first costs less than sorting all rows."""
        return 0 < _LEAST_GROUP * self.groups <= len(self.words)

    @cached_property
    def cells(self) -> Cells:
        """The rows of each group in each cell."""
        return count_cells(self)

    def totals(self) -> Integers:
        """Return the rows of each group."""
        if self.has_large_groups:
            rows = self.cells.rows.reshape(self.groups, self.cells.count)
            return np.asarray(rows.sum(axis=1))
        return np.bincount(self.words >> self.value_bits, minlength=self.groups).astype(np.int64)

    def renumber(self, keys: pa.Table, groups: int, places: Integers) -> ValueWords:
        """Return the rows by other numbers of their groups, without those of a group at -1."""
        if groups == self.groups and (places == np.arange(groups)).all():
            return replace(self, keys=keys)
        group, bits = places[self.words >> self.value_bits], self.value_bits
        words = (group << bits) + (self.words & (2**bits - 1))
        if places.min(initial=0) < 0:
            words = words[group >= 0]
        return ValueWords(keys, groups, self.binning, words, self.limit)

    def sort(self, words: Integers) -> tuple[Integers, Floats, Integers]:
        """Return the group, the value and the rows of each different word."""
        words = np.sort(words)
        starts = run_starts(words)
        different = words[starts]
        values = self.decode(different & (2**self.value_bits - 1))
        return different >> self.value_bits, values, np.diff(starts, append=len(words))

    def table(self) -> BinTable:
        """Return the rows of each group and value."""
        group, values, rows = self.sort(self.words)
        bins = self.binning.numbers(values)
        return add_up_bins(BinTable(self.keys, self.groups, self.binning, group, bins, rows))

    def count_octaves(self, low: float, high: float) -> Integers:
        """Return the rows of all groups by octave, with and without decimals; 0 is in none.

        The values are floats, and count as the nearest between `low` and `high`.
        """
        counts = np.zeros(2 * 256, np.int64)
        ends = encode_bits(np.array([low, high]))
        for words in self.chunks():
            bits = np.clip(words.astype(np.uint32), *ends)
            sizes = np.where(bits < SIGN, np.uint32(SIGN - 1) - bits, bits ^ np.uint32(SIGN))
            single = sizes.view(np.float32) * np.float32(0.5)
            exponents = (sizes >> 23).astype(np.int64)
            exponents += 256 * (single == np.floor(single))
            counts += np.bincount(exponents, minlength=len(counts))
        return counts.reshape(2, 256)[:, 2:255]  # the exponent of 2 * 2**-126 is 2

    def chunks(self) -> Iterator[Integers]:
        """Yield some words at a time."""
        firsts = range(0, len(self.words), _CHUNK)
        return (self.words[first : first + _CHUNK] for first in firsts)


def build_value_table(values: BinTable | ValueWords) -> BinTable:
    """Return the rows of each group and value."""
    return values.table() if isinstance(values, ValueWords) else values


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Intervals of values, the same for all groups, and the rows of each group in each. Secret.

    Cell i of all has the values from `edges[i]` up to, without, the next of these. `cell_of_row`
    has the number of the group times the number of cells, and the cell.
    """

    edges: Integers
    cell_of_row: npt.NDArray[np.int32]
    rows: Integers

    @property
    def count(self) -> int:
        """How many there are for a group."""
        return len(self.edges) - 1


def count_cells(values: ValueWords) -> Cells:
    """Count rows in cells with about as many rows each, all groups taken together."""
    count = min(max(len(values.words) // values.groups // ROWS_OF_CELL, 1), _MOST_CELLS)
    inner_bits = values.value_bits - _TOP_BITS
    tops = np.concatenate(  # without the group
        [np.empty(0, np.uint16)]
        + [(words >> inner_bits).astype(np.uint16) for words in values.chunks()]
    )
    rows_of_top = np.bincount(tops, minlength=2**_TOP_BITS)
    size = max(len(values.words) // count, 1)
    wanted_bits = np.ceil(np.log2(np.maximum(rows_of_top / size, 1))).astype(np.int64)
    parts = np.minimum(wanted_bits, inner_bits)  # bits that number the cells of a top
    is_split, number_before = parts > 0, (np.cumsum(rows_of_top) - rows_of_top) // size
    is_first = np.append(True, (np.diff(number_before) > 0) | is_split[1:] | is_split[:-1])
    width = np.where(is_split, 1 << parts, is_first)
    ends = np.cumsum(width)
    first_cell = np.where(is_split, ends - width, ends - 1).astype(np.int32)
    shift = inner_bits - parts
    first_of_top = np.arange(2**_TOP_BITS) << inner_bits
    inner = np.arange(ends[-1]) - np.repeat(ends - width, width)
    edges = np.repeat(first_of_top, width) + (inner << np.repeat(shift, width))
    number = len(edges)
    cell_of_row = np.empty(len(values.words), np.int32)
    for first in range(0, len(cell_of_row), _CHUNK):
        rows = slice(first, first + _CHUNK)
        words, top = values.words[rows], tops[rows]
        cells = first_cell[top] + (words >> values.value_bits) * number
        if is_split.any():
            cells += (words & (2**inner_bits - 1)) >> shift[top]
        cell_of_row[rows] = cells
    counts = np.bincount(cell_of_row, minlength=values.groups * number).astype(np.int64)
    return Cells(np.append(edges, 2**values.value_bits), cell_of_row, counts)


class NearCounts:
    """Counts of the candidates of a grid by group, exact where they have been asked for. Secret.

    All rows are in cells; those of the cells that matter are counted by candidate. A cell whose
    values are all one candidate is exact as it is.
    """

    def __init__(self, values: ValueWords, grid: Steps | Magnitudes) -> None:
        cells = values.cells
        self._values, self._grid = values, grid
        filled = np.flatnonzero(cells.rows)
        group, cell = np.divmod(filled, cells.count)
        low, high = (
            grid.numbers(values.decode(ends)) for ends in (cells.edges[:-1], cells.edges[1:] - 1)
        )
        self._cells, self._high = filled, high[cell]
        self.cells = self._of_grid(group, low[cell], cells.rows[filled])
        self._is_open = low[cell] < high[cell]
        self._is_counted = np.zeros(len(filled), bool)
        self._table: BinTable | None = None

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "NearCounts(secret)"

    def _of_grid(self, group: Integers, bins: Integers, rows: Integers) -> BinTable:
        """Return a table of candidates, each numbered as a bin is."""
        values, grid = self._values, self._grid
        return BinTable(values.keys, values.groups, grid, group, bins, rows)  # type: ignore[arg-type]

    def read_slices(self, first: Integers, stop: Integers) -> BinTable:
        """Return a table that is exact in some slices of the cells."""
        cells = self.cells
        inside = mark_slices(first, stop, len(cells.rows))
        group, ends = cells.group[inside], (cells.bins[inside], self._high[inside])
        for numbers in ends:  # their neighbors may hold the same candidates
            inside |= self._mark_candidates(group, numbers)
        return self._read(inside)

    def read_candidates(self, group: Integers, numbers: Integers) -> BinTable:
        """Return a table that is exact at some candidates, and in the rows below them."""
        return self._read(self._mark_candidates(group, numbers))

    def _mark_candidates(self, group: Integers, numbers: Integers) -> npt.NDArray[np.bool_]:
        """Mark the cells that can hold rows of some candidates."""
        last = self._grid.last
        codes, high = (
            list_codes(group, numbers, last),
            list_codes(self.cells.group, self._high, last),
        )
        first = np.searchsorted(high, codes, "left")
        return mark_slices(first, np.searchsorted(self.cells.codes, codes, "right"), len(high))

    def _read(self, cells: npt.NDArray[np.bool_]) -> BinTable:
        """Return a table in which these cells too are counted by candidate."""
        counted = self._is_counted | (cells & self._is_open)
        if self._table is None or (counted & ~self._is_counted).any():
            values, other = self._values, self.cells
            is_read = np.zeros(len(values.cells.rows), bool)
            is_read[self._cells[counted]] = True
            group, sizes, rows = values.sort(values.words[is_read[values.cells.cell_of_row]])
            self._is_counted, columns = counted, (group, self._grid.numbers(sizes), rows)
            rest = (other.group[~counted], other.bins[~counted], other.rows[~counted])
            self._table = add_up_bins(
                self._of_grid(*map(np.concatenate, zip(columns, rest, strict=True)))
            )
        return self._table


def mark_slices(first: Integers, stop: Integers, length: int) -> npt.NDArray[np.bool_]:
    """Mark what is in any of some slices."""
    opened = np.bincount(first, minlength=length + 1) - np.bincount(stop, minlength=length + 1)
    return np.asarray(np.cumsum(opened)[:-1] > 0)
