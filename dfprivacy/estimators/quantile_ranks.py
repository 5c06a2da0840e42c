"""Ranks of candidates in cells of a bin table: the losses that quantiles are selected by. Secret.

A cell holds rows strictly between two public ends, each an earlier answer or an end of the grid.
At first a group is one cell; every answer splits its cell in two. docs/quantiles.md has the proofs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.entropy import EntropySource
from dfprivacy.noise.runs import LARGEST_LOSS, Runs
from dfprivacy.noise.selection import Selection

FARTHEST = 64
"""Losses end at 64 / rate: 2**30 candidates there win with a probability below 1e-18."""

CHUNK = 2**17
"""Points a selection handles at once, unless one cell has more: bounds its memory."""


@dataclass(frozen=True, eq=False, repr=False)
class RankedRows:
    """The entries of a bin table with the rows before them. Secret.

    Parameters
    ----------
    edge : int
        One beyond the last bin of the grid. Public.
    bins : numpy.ndarray
        int64, one an entry, sorted by group and bin; then `edge`, so that it is never empty.
    before : numpy.ndarray
        int64: the rows of all entries before each, and of all entries at the end.
    keys : numpy.ndarray
        int64, one an entry, ascending: `key` of its group and bin.
    """

    edge: int
    bins: Integers
    before: Integers
    keys: Integers

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "RankedRows(secret)"


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Cells of the rows of groups. Secret but for their ends.

    Parameters
    ----------
    held : RankedRows
        All rows.
    group, low, high : numpy.ndarray
        int64, one a cell: its group and its ends, low <= high. Public. An end of size `held.edge`
        is no candidate; any other is an earlier answer, and a candidate still.
    first, stop : numpy.ndarray
        int64, one a cell: the slice of its entries, with low < bin < high. Secret.
    """

    held: RankedRows
    group: Integers
    low: Integers
    high: Integers
    first: Integers
    stop: Integers

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "Cells(secret)"

    def totals(self) -> Integers:
        """Return the rows of each cell."""
        return self._rows(self.first, self.stop)

    def counts(self, answers: Integers) -> Integers:
        """Return rows at or below each cell's answer, and above: one row of data moves one by 1."""
        cut = self._cut(answers, "right")
        return np.stack([self._rows(self.first, cut), self._rows(cut, self.stop)])

    def split(self, answers: Integers, children: Integers) -> Cells:
        """Return the rows strictly below and above the answers as new cells; see `inherit`."""
        below = (self.group, self.low, answers, self.first, self._cut(answers, "left"))
        above = (self.group, answers, self.high, self._cut(answers, "right"), self.stop)
        sides = zip(below, above, strict=True)
        return Cells(self.held, *(inherit(*pair, children) for pair in sides))

    def part(self, cells: slice) -> Cells:
        """Return some of the cells."""
        columns = (self.group, self.low, self.high, self.first, self.stop)
        return Cells(self.held, *(column[cells] for column in columns))

    def _rows(self, first: Integers, stop: Integers) -> Integers:
        return np.asarray(self.held.before[stop] - self.held.before[first], dtype=np.int64)

    def _cut(self, answers: Integers, side: str) -> Integers:
        """Return the first entry at or above ("left"), or above ("right"), each answer."""
        keys = key(self.group, answers, self.held.edge)
        found = np.searchsorted(self.held.keys, keys, side=side)  # type: ignore[call-overload]
        return np.asarray(np.clip(found, self.first, self.stop), dtype=np.int64)


def key(group: Integers, bins: Integers, edge: int) -> Integers:
    """Return one integer for a group and a bin, in their order."""
    return np.asarray(group * (2 * edge + 1) + (bins + edge), dtype=np.int64)


def cells_of(table: BinTable) -> Cells:
    """Return the groups of a table, one cell each, between the ends of the grid."""
    edge = table.binning.last + 1
    before = np.concatenate([[0], np.cumsum(table.rows)]).astype(np.int64)
    held = RankedRows(edge, np.append(table.bins, edge), before, key(table.group, table.bins, edge))
    ends, starts = np.full(table.groups, edge, np.int64), table.starts()
    group = np.arange(table.groups, dtype=np.int64)
    return Cells(held, group, -ends, ends, starts[:-1], starts[1:])


def inherit(below: Integers, above: Integers, children: Integers) -> Integers:
    """Return what each new cell has from the old one: `below` or `above`, by its side.

    Cells are ordered by group, then by the node of the tree they belong to. `children` holds, for
    every node (columns), its halves below and above (rows) as nodes of the next layer, or -1.
    """
    nodes, wanted = children.shape[1], int(children.max()) + 1
    new = np.empty((len(below) // nodes, wanted), np.int64)
    for side, values in enumerate((below, above)):
        kept = np.flatnonzero(children[side] >= 0)
        new[:, children[side, kept]] = values.reshape(-1, nodes)[:, kept]
    return new.reshape(-1)


def select_rank(
    cells: Cells, scale: int, targets: Integers, law: Selection, entropy: EntropySource
) -> Integers:
    """Return a candidate of each cell, selected by the losses of `rank_runs`."""
    cap = largest_loss(law)
    near = cells_near(cells, scale, targets, cap)
    answers = np.empty(len(cells.low), np.int64)
    for chunk in _chunks(near[1] - near[0]):
        runs = rank_runs(cells.part(chunk), scale, targets[chunk], cap)
        answers[chunk] = law.select(runs, entropy)
    return answers


def largest_loss(law: Selection) -> int:
    """Return where losses end. Public; the lesser of a loss and a constant moves no more."""
    return min(LARGEST_LOSS - 1, -(-FARTHEST // law.rate))


def rank_runs(cells: Cells, scale: int, targets: Integers, cap: int) -> Runs:
    """Return the candidates of cells with their losses: how far a target is from scale * ranks.

    A candidate c between the ends has max(0, scale #{x < c} - target, target - scale #{x <= c}),
    at most `cap`, counting rows of its cell. At an answer below, #{x < c} is minus infinity,
    as the rows there are not the cell's; at an answer above, #{x <= c} is infinity.
    """
    values, below, upto, starts = _points(cells, *cells_near(cells, scale, targets, cap))
    tails = np.append(starts[1:], len(values)) - 1
    aims = np.repeat(targets, tails + 1 - starts)
    loss = np.empty((len(values), 2), np.int64)  # of each point, and of the gap behind it
    np.maximum(scale * below - aims, aims - scale * upto, out=loss[:, 0])
    np.abs(scale * upto - aims, out=loss[:, 1])
    loss[starts, 0] = targets
    loss[tails, 0] = scale * cells.totals() - targets
    return _runs(cells, values, starts, tails, np.clip(loss, 0, cap))


def cells_near(cells: Cells, scale: int, targets: Integers, cap: int) -> tuple[Integers, Integers]:
    """Return the slice of each cell's entries whose losses are below `cap`; all others are at it.

    Entry i has a loss below it if scale #{x <= i} > target - cap and scale #{x < i} < target + cap.
    """
    base, before = cells.held.before[cells.first], cells.held.before
    least = base + (targets - cap) // scale + 1
    most = base - (-targets - cap) // scale
    first = np.searchsorted(before, least) - 1
    stop = np.searchsorted(before, most)
    return np.clip(first, cells.first, cells.stop), np.clip(stop, cells.first, cells.stop)


def _points(
    cells: Cells, first: Integers, stop: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return low end, entries and high end of each cell; rows below and up to them; starts."""
    sizes = stop - first + 2
    starts = np.cumsum(sizes) - sizes
    entry = np.arange(sizes.sum()) + np.repeat(first - starts - 1, sizes)
    values = cells.held.bins.take(entry, mode="clip")
    tails = starts + sizes - 1
    values[starts], values[tails] = cells.low, cells.high
    before, base = cells.held.before, np.repeat(cells.held.before[cells.first], sizes)
    below, upto = before.take(entry, mode="clip") - base, before.take(entry + 1, mode="clip") - base
    upto[tails] = below[tails]
    return values, below, upto, starts


def _runs(
    cells: Cells, values: Integers, starts: Integers, tails: Integers, loss: Integers
) -> Runs:
    """Return each point, and each gap behind it, that has candidates."""
    edge = cells.held.edge
    length = np.ones_like(loss)
    length[:-1, 1] = values[1:] - values[:-1] - 1
    length[tails, 1] = 0
    length[starts, 0] = cells.low > -edge
    length[tails, 0] = (cells.high < edge) & (cells.high > cells.low)
    kept = np.flatnonzero(length > 0)
    first = np.stack([values, values + 1], axis=1)
    heads = np.searchsorted(kept, 2 * starts).astype(np.int64)
    return Runs(heads, first.reshape(-1)[kept], length.reshape(-1)[kept], loss.reshape(-1)[kept])


def _chunks(sizes: Integers) -> Iterator[slice]:
    points = np.cumsum(sizes + 2)
    total = int(points[-1]) if len(points) else 0
    cuts = np.unique(np.searchsorted(points, np.arange(0, total, CHUNK), side="right")).tolist()
    for low, high in itertools.pairwise([*cuts, len(sizes)]):
        yield slice(low, high)
