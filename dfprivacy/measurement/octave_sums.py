"""From an octave table to the sums of grid integers, for bounds at octave edges chosen afterwards.

A row lies in one octave, and an octave lies wholly between the bounds or wholly beyond one of
them. Between, the sum of values is exact, and so is its floor in units of the grid's step: a row
moves it by floor(x / step) or that plus 1, an integer between those of the bounds. Beyond, a row
counts as the bound itself. So one row adds an integer of [first, last] whatever it holds, as it
does on the grid of given bounds: the partition of unity of docs/partition-of-unity.md holds
unchanged (docs/octaves.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.measurement.grid import Grid
from dfprivacy.measurement.linear import Linear, OnGrid, Product, Source, Term
from dfprivacy.measurement.sums import Statistics, sum_name

SQUARES_SLACK = 2**16
"""More than a row can move the Bernstein sums of an octave table beyond K: squares are rounded to
21 bits, and the sum of an octave three times in floating point (docs/octaves.md, section 6)."""


def fits_octaves(linear: Linear) -> bool:
    """Tell whether octave sums can answer a vector: one column, its values and their squares."""
    return len(linear.source.columns) == 1 and all(
        isinstance(term, OnGrid)
        or (isinstance(term, Product) and term.left == term.right and isinstance(term.left, OnGrid))
        for term in linear.source.terms
    )


def powers_needed(linear: Linear) -> int:
    """Return how many powers of the values an octave table must add up for a vector."""
    squared = any(isinstance(term, Product) for term in linear.source.terms)
    return 2 if squared else min(len(linear.source.terms), 1)


def with_slack(linear: Linear) -> Linear:
    """Return the vector as it is answered from an octave table: second moments are less exact.

    The slack is that of the Bernstein sums, where a square counts four times in all coordinates.
    """
    squares = [
        sum(abs(row[place]) for row in linear.matrix)
        for place, term in enumerate(linear.source.terms, start=1)
        if isinstance(term, Product)
    ]
    if not squares:
        return linear
    l1 = linear.l1 + SQUARES_SLACK * max(1, math.ceil(sum(squares) / 4))
    return replace(linear, l1=l1, l2_squared=l1 * l1)


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
        for place, values in enumerate(_sums(table, entries, source)):
            columns[sum_name(index, place)] = pa.array(_by_group(values, starts))
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
    rows, bins = table.rows[entries], table.bins[entries]
    powers = [power[entries] for power in table.moments]
    return [rows, *(_term_sums(term, rows, bins, powers) for term in source.terms)]


def _term_sums(term: Term, rows: Integers, bins: Integers, powers: list[Floats]) -> Integers:
    """Return the sums of a term by entry, in which a row beyond a bound counts as the bound."""
    value = term.left if isinstance(term, Product) else term
    assert isinstance(value, OnGrid)  # noqa: S101 `fits_octaves` has looked
    grid = value.grid
    beyond = _beyond(bins, grid)
    between = [np.where(beyond == 0, power, 0.0) for power in powers]
    if not isinstance(term, Product):
        sums = np.floor(between[0] * grid.inverse_step).astype(np.int64)
        sums -= rows * round(grid.anchor * grid.inverse_step)
        return _or_bound(sums, beyond, rows * grid.first, rows * grid.last)
    sums = _squares(grid, term.divisor, rows.astype(np.float64), between)
    ends = (rows * (end * end // term.divisor) for end in (grid.first, grid.last))
    return _or_bound(sums, beyond, *ends)


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


def _squares(grid: Grid, divisor: int, rows: Floats, powers: list[Floats]) -> Integers:
    """Return the sums of (x - anchor)^2 / (step^2 divisor), each between 0 and its most."""
    anchor, width = grid.anchor, divisor * grid.step
    total = powers[1] - 2 * anchor * powers[0] + anchor * anchor * rows
    scaled = np.floor(total / width * grid.inverse_step)
    most = grid.largest * grid.largest // divisor
    return np.clip(scaled, 0, rows * most).astype(np.int64)
