"""Bin tables in files: counts by group and bin that need not fit into memory. Secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Binning, Integers


@dataclass(frozen=True, eq=False, repr=False)
class StoredBins:
    """What a `BinTable` of counts holds, a file for some whole groups each. Secret, files too.

    Parameters
    ----------
    keys : pyarrow.Table
        One row a group, in the order of the release.
    binning : Binning
        What the numbers of bins mean.
    rows : numpy.ndarray
        int64, the rows of each group.
    files : tuple of Path
        Arrays of three rows: group, counted from the first of its file, bin, and rows.
    sizes : tuple of int
        How many groups each file has.
    """

    keys: pa.Table = field(repr=False)
    binning: Binning
    rows: Integers
    files: tuple[Path, ...]
    sizes: tuple[int, ...]

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return f"StoredBins(secret; {self.binning})"

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.rows)

    def totals(self) -> Integers:
        """Return the rows of each group."""
        return self.rows

    def blocks(self) -> Iterator[BinTable]:
        """Yield tables of some whole groups each, all groups in their order."""
        first = 0
        for file, size in zip(self.files, self.sizes, strict=True):
            group, bins, rows = np.load(file)
            yield BinTable(self.keys.slice(first, size), size, self.binning, group, bins, rows)
            first += size

    def whole(self) -> BinTable:
        """Return one table of all groups, in memory."""
        firsts = np.cumsum([0, *self.sizes[:-1]])
        parts = [
            (block.group + first, block.bins, block.rows)
            for first, block in zip(firsts, self.blocks(), strict=True)
        ]
        group, bins, rows = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return BinTable(self.keys, self.groups, self.binning, group, bins, rows)
