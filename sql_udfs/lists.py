"""From the lists of values that DuckDB collects by group to bin tables: the frame API's own bins.

The engines of the frame API round and count row by row; here numpy does, a block of values at a
time, by the same law (`dfprivacy.measurement.binning`). Nothing is said of one group but from its
own list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import (
    SQUARE_BITS,
    VALUE_BITS,
    Floats,
    Integers,
    Octaves,
    SignificantBits,
    clipped,
    rounded,
)
from sql_udfs.function import Column

_BLOCK = 2**14  # values that stay in the processor's cache while they are counted
_OCTAVES = Octaves()
_WIDTH = 2 * _OCTAVES.last + 1


class Block(NamedTuple):
    """Some values, clipped and never NaN, and the groups that they belong to, ascending."""

    values: Floats
    group: Integers


def table_of(lists: Column, binning: Octaves | SignificantBits, moments: int) -> BinTable:
    """Return the bins of each list, as a part of the frame API would have them.

    `lists` and the errors are those of `octave_table`.
    """
    if isinstance(binning, SignificantBits):
        return value_table(lists, binning)
    return octave_table(lists, moments)


def octave_table(lists: Column, moments: int) -> BinTable:
    """Return the octaves of each list with the sums of so many powers of their values.

    Parameters
    ----------
    lists : column
        One list of floats a group; a group without rows is NULL. NULL and NaN are no values.
    moments : int
        0, 1, or 2 for the squares as well.

    Raises
    ------
    TooManyRowsError
        When an octave of a group reaches the public limit of rows.
    """
    sizes = _sizes(lists)
    totals = [np.zeros(len(sizes) * _WIDTH, kind) for kind in (np.int64, *[np.float64] * moments)]
    for block in _blocks(lists, sizes):
        _add_octaves(totals, block)
    occupied = np.flatnonzero(totals[0])
    group, place = np.divmod(occupied, _WIDTH)
    bins = place - _OCTAVES.last
    sums = tuple(np.where(bins == 0, 0.0, total[occupied]) for total in totals[1:])
    rows = totals[0][occupied]
    return BinTable(pa.table({}), len(sizes), _OCTAVES, group, bins, rows, sums).checked()


def value_table(lists: Column, grid: SignificantBits) -> BinTable:
    """Return how often each list holds each value of the grid.

    `lists` are those of `octave_table`, and so are the errors.
    """
    sizes, width = _sizes(lists), 2 * grid.last + 1
    codes = [
        block.group * width + (grid.numbers(grid.labels(block.values)) + grid.last)
        for block in _blocks(lists, sizes)
    ]
    sorted_ = np.sort(np.concatenate([np.zeros(0, np.int64), *codes]))
    starts = np.flatnonzero(np.concatenate([[True], sorted_[1:] != sorted_[:-1]])[: len(sorted_)])
    group, place = np.divmod(sorted_[starts], width)
    rows = np.diff(starts, append=len(sorted_))
    return BinTable(pa.table({}), len(sizes), grid, group, place - grid.last, rows).checked()


def _sizes(lists: Column) -> Integers:
    sizes = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(sizes.to_numpy(), dtype=np.int64)


def _blocks(lists: Column, sizes: Integers) -> Iterator[Block]:
    """Yield the values of all lists in order, without NULL and NaN."""
    values = lists.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes)
    for start in range(0, len(values), _BLOCK):
        own = clipped(values[start : start + _BLOCK])
        group = _groups(ends, start, start + len(own))
        missing = np.isnan(own)
        if missing.any():
            own, group = own[~missing], group[~missing]
        if len(own):
            yield Block(own, group)


def _groups(ends: Integers, start: int, stop: int) -> Integers:
    """Return the group of each value from `start` to `stop`."""
    first, last = np.searchsorted(ends, [start, stop - 1], side="right")
    inner = np.clip(ends[first : last + 1], None, stop)
    return np.repeat(np.arange(first, last + 1), np.diff(inner, prepend=start))


def _add_octaves(totals: list[npt.NDArray[Any]], block: Block) -> None:
    """Add rows and powers of a block to the totals by group and octave; every sum is exact."""
    value = rounded(block.values, VALUE_BITS)
    numbers = _OCTAVES.numbers(_OCTAVES.labels_of_rounded(value))
    origin = block.group[0] * _WIDTH
    cells = block.group * _WIDTH + (_OCTAVES.last - origin) + numbers
    span = slice(origin, (block.group[-1] + 1) * _WIDTH)
    for total, weight in zip(totals, _powers(value), strict=False):
        np.add(total[span], np.bincount(cells, weight, span.stop - span.start), out=total[span])


def _powers(value: Floats) -> Iterator[Floats | None]:
    """Yield what rows, first and second moments add up."""
    yield None
    yield value
    yield rounded(value * value, SQUARE_BITS)
