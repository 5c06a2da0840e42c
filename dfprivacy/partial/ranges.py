"""What exact tables can't hold, whatever the data: such a file is damaged or was tampered with.

No pass over any rows writes what is refused here, so that a file that a pass has written is never
refused, and no refusal tells one data set from its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfprivacy.partial.exact_tables import ExactTables
from dfprivacy.statistics.bin_table import BIN_ROW_LIMIT, BinTable
from dfprivacy.statistics.binning import Floats, Integers, Octaves
from dfprivacy.statistics.grid import ROW_LIMIT
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import first_name, rows_name, second_name


def is_possible(tables: ExactTables, sources: Sequence[Source]) -> bool:
    """Tell whether some rows could have given these tables."""
    sums = all(_sums_possible(tables.sums, index, own) for index, own in enumerate(sources))
    return sums and all(_bins_possible(table) for table in tables.bins)


def _sums_possible(sums: dict[str, Integers], index: int, source: Source) -> bool:
    rows = sums[rows_name(index)]
    if bool((rows < 0).any()) or bool((rows >= ROW_LIMIT).any()):
        return False
    if source.grid is None:
        return True
    first, grid = sums[first_name(index)], source.grid
    if bool((first < rows * grid.first).any()) or bool((first > rows * grid.last).any()):
        return False
    return source.moments < 2 or _squares_possible(
        first, sums[second_name(index)], rows * grid.last
    )


def _squares_possible(first: Integers, second: Integers, most: Integers) -> bool:
    """Tell whether no sum of the Bernstein basis is negative; nothing here exceeds 2**63."""
    least = np.maximum(first - (most - first), 0)
    return bool(((second >= least) & (second <= first)).all())


def _bins_possible(table: BinTable) -> bool:
    """Tell whether entries are in order, in a group and a bin, and hold what the bin can hold."""
    group, bins, rows = table.group, table.bins, table.rows
    last = table.binning.last
    if not len(group):
        return True
    after = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (bins[1:] > bins[:-1]))
    inside = (group >= 0) & (group < table.groups) & (bins >= -last) & (bins <= last)
    counted = (rows >= 1) & (rows < BIN_ROW_LIMIT)
    return bool(after.all() and inside.all() and counted.all()) and _moments_possible(table)


def _moments_possible(table: BinTable) -> bool:
    if not table.moments:
        return True
    assert isinstance(table.binning, Octaves)  # noqa: S101 no other bins have moments
    rows = table.rows.astype(np.float64)
    ends = [table.binning.lower(table.bins), table.binning.upper(table.bins)]
    lower, upper = np.minimum(*np.abs(ends)), np.maximum(*np.abs(ends))
    sizes = [np.where(table.bins < 0, -1, 1) * table.moments[0], *table.moments[1:]]
    powers = ((own, lower**k, upper**k) for k, own in enumerate(sizes, start=1))
    return all(_between(own, rows * low, rows * high) for own, low, high in powers)


def _between(values: Floats, low: Floats, high: Floats) -> bool:
    return bool(((values >= low) & (values <= high)).all())
