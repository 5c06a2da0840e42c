"""Bin tables: exact counts by group and bin, with the sums of what the bins hold. Secret.

A bin table with counts alone is a value-count table; with the sums of its octaves it is an octave
table. Each row of data adds one to one count: a partition of unity for any number of bins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from dfprivacy.errors import TooManyRowsError
from dfprivacy.measurement.binning import Binning, Floats, Integers, SignificantBits

Held = tuple[Floats, Integers]
"""The values of a group, and how many rows have each."""

BIN_ROW_LIMIT = 2**31
"""Float sums of one octave of values with 22 significant bits are exact below it."""


@dataclass(frozen=True, eq=False, repr=False)
class BinTable:
    """Non-empty bins of each group, sorted by group and bin. Secret: only noise may read it.

    Parameters
    ----------
    keys : pyarrow.Table
        One row a group, in the order of the release; no columns, one group, for a whole frame.
    groups : int
        How many groups there are; a group may be empty.
    binning : Binning
        What the numbers of bins mean.
    group, bins, rows : numpy.ndarray
        int64, one entry a non-empty bin: the index of its group, the number of the bin, its rows.
    moments : tuple of numpy.ndarray
        float64, exact: the sum of rounded values of each bin, then that of their squares.
    """

    keys: pa.Table = field(repr=False)
    groups: int
    binning: Binning
    group: Integers
    bins: Integers
    rows: Integers
    moments: tuple[Floats, ...] = ()

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return f"BinTable(secret; {self.binning})"

    def starts(self) -> Integers:
        """Return where each group's entries begin, and the total at the end."""
        return self._starts

    def totals(self) -> Integers:
        """Return the rows of each group."""
        before = np.concatenate([[0], np.cumsum(self.rows)])
        return np.asarray(np.diff(before[self._starts]), dtype=np.int64)

    def blocks(self) -> Iterator[BinTable]:
        """Yield tables of some whole groups each, all groups in their order: this one."""
        yield self

    def whole(self) -> BinTable:
        """Return one table of all groups: this one."""
        return self

    def values(self) -> Floats:
        """Return the value of each entry, in units of the column, of a value-count table.

        Raises
        ------
        ValueError
            When bins are octaves or lie between edges: they hold many values.
        """
        if isinstance(self.binning, SignificantBits):
            return self.binning.values(self.bins)
        message = "only the bins of significant bits are values"
        raise ValueError(message)

    def slices(self) -> Iterator[slice]:
        """Yield where the entries of each group are."""
        return (slice(first, stop) for first, stop in itertools.pairwise(self._starts.tolist()))

    def held(self) -> Iterator[Held]:
        """Yield the values of each group, with their rows: see `values`."""
        values = self.values()
        return ((values[own], self.rows[own]) for own in self.slices())

    @cached_property
    def _starts(self) -> Integers:
        starts = np.zeros(self.groups + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.group, minlength=self.groups), out=starts[1:])
        return starts

    def checked(self) -> BinTable:
        """Return this table if no bin reached the public limit of rows.

        Raises
        ------
        TooManyRowsError
            When some group has 2**31 rows or more in one bin.
        """
        if len(self.rows) and int(self.rows.max()) >= BIN_ROW_LIMIT:
            raise TooManyRowsError(
                "a group reaches 2**31 rows, the public limit of a release without bounds",
                hint="split the data into parts and release each, or give bounds",
            )
        return self


def bin_table(
    keys: pa.Table,
    groups: int,
    binning: Binning,
    group: Integers,
    labels: Floats,
    *,
    rows: Integers,
    moments: Sequence[Floats] = (),
) -> BinTable:
    """Return a table from an engine's entries in any order; equal bins of a group are added up.

    `labels` are what the binning's `labels` gives; NaN labels hold no value and are left out.
    """
    known = ~np.isnan(labels)
    if not known.all():
        group, labels, rows = group[known], labels[known], rows[known]
        moments = [moment[known] for moment in moments]
    numbers = binning.numbers(labels)
    moments = [np.where(numbers == 0, 0.0, moment) for moment in moments]
    return _added(BinTable(keys, groups, binning, group, numbers, rows, tuple(moments)))


def _added(table: BinTable) -> BinTable:
    """Return a table in order, with equal bins of a group added up."""
    group, bins, order = _ordered(table.group, table.bins, table.binning)
    new = np.ones(len(group), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (bins[1:] != bins[:-1])
    rows, moments = table.rows[order], [moment[order] for moment in table.moments]
    if not new.all():
        starts = np.flatnonzero(new)
        group, bins = group[starts], bins[starts]
        rows = np.add.reduceat(rows, starts)
        moments = [np.add.reduceat(moment, starts) for moment in moments]
    held = BinTable(table.keys, table.groups, table.binning, group, bins, rows, tuple(moments))
    return held.checked()


def _ordered(
    group: Integers, bins: Integers, binning: Binning
) -> tuple[Integers, Integers, Integers]:
    """Return groups and bins in order, and the order; entries of one bin stay in theirs.

    Group, bin and place fit into one integer: sorting these is much faster than sorting places.
    """
    bits = (2 * binning.last + 2).bit_length()
    places = max(len(bins) - 1, 1).bit_length()
    if int(group.max(initial=0)).bit_length() + bits + places > 63:
        order = np.lexsort((bins, group)).astype(np.int64)
        return group[order], bins[order], order
    packed = (group << bits) + (bins + binning.last + 1)
    packed <<= places
    packed += np.arange(len(bins))
    packed.sort()
    order = packed & (2**places - 1)
    packed >>= places
    return packed >> bits, (packed & (2**bits - 1)) - (binning.last + 1), order


def rebinned(
    table: BinTable,
    binning: Binning,
    *,
    pooled: bool = False,
) -> BinTable:
    """Return the counts of a value-count table by another binning; of all groups if `pooled`.

    Raises
    ------
    ValueError
        When the bins of the table are no values.
    """
    group = np.zeros_like(table.group) if pooled else table.group
    labels = binning.labels(table.values())
    groups, keys = (1, pa.table({})) if pooled else (table.groups, table.keys)
    return bin_table(keys, groups, binning, group, labels, rows=table.rows)


def merge_tables(parts: Sequence[BinTable]) -> BinTable:
    """Add up tables of disjoint parts of a data set with the same groups, bin by bin.

    Raises
    ------
    ValueError
        When the parts have other bins or other groups.
    """
    first = parts[0]
    if any(part.binning != first.binning or not part.keys.equals(first.keys) for part in parts):
        message = "bin tables of different groups or bins can't be merged"
        raise ValueError(message)
    group, bins, rows = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("group", "bins", "rows")
    )
    moments = zip(*(part.moments for part in parts), strict=True)
    sums = tuple(np.concatenate(columns) for columns in moments)
    return _added(BinTable(first.keys, first.groups, first.binning, group, bins, rows, sums))
