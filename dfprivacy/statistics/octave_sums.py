"""From an octave table to the sums of grid integers, for bounds at octave edges chosen afterwards.

A row lies in one octave, and an octave lies wholly between the bounds or wholly beyond one of
them. Between, the sum of values is exact, and so is its floor in units of the grid's step: a row
moves it by floor(x / step) or that plus 1, an integer between those of the bounds. Beyond, a row
counts as the bound itself. So one row adds an integer of [first, last] whatever it holds, as it
does on the grid of given bounds: the partition of unity of docs/partition-of-unity.md holds
unchanged (docs/octaves.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.binning import Floats, Integers, Octaves
from dfprivacy.statistics.grid import Grid
from dfprivacy.statistics.linear_query import LinearQuery, Source
from dfprivacy.statistics.statistics import Statistics, first_name, rows_name, second_name

SQUARES_SLACK = 2**16
"""More than a row can move the Bernstein sums of an octave table beyond K: squares are rounded to
21 bits, and the sum of an octave three times in floating point (docs/octaves.md, section 6)."""


def with_slack(query: LinearQuery) -> LinearQuery:
    """Return the query as it is answered from an octave table: second moments are less exact."""
    if query.source.moments < 2:
        return query
    l1 = query.l1 + SQUARES_SLACK
    return replace(query, l1=l1, l2_squared=l1 * l1)


def octave_statistics(
    table: BinTable, keys: pa.Table, groups: Integers, sources: tuple[Source, ...]
) -> Statistics:
    """Return the exact statistics of some groups, as a pass with these bounds would have them.

    `keys` and `groups` are the keys and the numbers, ascending, of the groups wanted; the bounds
    of every source are octave edges.
    """
    entries, starts = _entries(table, groups)
    columns = {name: keys.column(name) for name in keys.column_names}
    for index, source in enumerate(sources):
        sums = _sums(table, entries, source)
        names = (rows_name(index), first_name(index), second_name(index))
        for name, values in zip(names, sums, strict=False):
            columns[name] = pa.array(_by_group(values, starts))
    return Statistics(pa.table(columns), keys.num_columns, sources).checked()


def _entries(table: BinTable, groups: Integers) -> tuple[slice | Integers, Integers]:
    """Return the entries of the groups, and where each group begins among them, and the end."""
    if len(groups) == table.groups:
        return slice(None), table.starts()
    first, stop = table.starts()[groups], table.starts()[groups + 1]
    starts = np.concatenate([[0], np.cumsum(stop - first)])
    return np.arange(starts[-1]) + np.repeat(first - starts[:-1], stop - first), starts


def _by_group(values: Integers, starts: Integers) -> Integers:
    """Add up integers by group exactly; the entries are in the order of their groups."""
    total = np.zeros(len(starts) - 1, dtype=np.int64)
    held = np.flatnonzero(starts[1:] > starts[:-1])
    if len(held):
        total[held] = np.add.reduceat(values, starts[held])
    return total


def _sums(table: BinTable, entries: slice | Integers, source: Source) -> list[Integers]:
    rows, grid = table.rows[entries], source.grid
    if grid is None:
        return [rows]
    beyond = _beyond(table.bins[entries], grid)
    moments = [np.where(beyond == 0, moment[entries], 0.0) for moment in table.moments]
    first = np.floor(moments[0] * grid.inverse_step).astype(np.int64)
    first -= rows * round(grid.anchor * grid.inverse_step)
    sums = [rows, _or_bound(first, beyond, rows * grid.first, rows * grid.last)]
    if source.moments == 2:
        second = _squares(grid, rows.astype(np.float64), moments)
        sums.append(_or_bound(second, beyond, np.zeros_like(rows), rows * grid.last))
    return sums


def _beyond(bins: Integers, grid: Grid) -> Integers:
    """Return -1 for bins below the bounds, 1 for bins above, 0 for those between."""
    octaves = Octaves()
    every = np.arange(-octaves.last, octaves.last + 1)
    side = np.zeros(len(every), dtype=np.int64)
    side[octaves.upper(every) <= grid.lower] = -1
    side[octaves.lower(every) >= grid.upper] = 1
    return side[bins + octaves.last]


def _or_bound(sums: Integers, beyond: Integers, lower: Integers, upper: Integers) -> Integers:
    """Return sums in which a row beyond a bound counts as the bound."""
    if not beyond.any():
        return sums
    return np.where(beyond == 0, sums, np.where(beyond < 0, lower, upper))


def _squares(grid: Grid, rows: Floats, moments: list[Floats]) -> Integers:
    """Return the sums of (x - lower)^2 / (step^2 K), each between 0 and K times the rows."""
    lower, width = grid.anchor, grid.last * grid.step
    total = moments[1] - 2 * lower * moments[0] + lower * lower * rows
    scaled = np.floor(total / width * grid.inverse_step)
    return np.clip(scaled, 0, rows * grid.last).astype(np.int64)
