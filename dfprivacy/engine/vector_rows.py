"""Blocks of a pass become rows that tables take: whole numbers, complete, group by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.engine.vector_batches import Entries
from dfprivacy.engine.vector_blocks import Block
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.item_tables import ItemRows
from dfprivacy.measurement.vector_grid import VectorGrid, incomplete

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class PreparedRows:
    """Rows for a table, and which rows of their block they are (None: all of them). Secret."""

    rows: Any
    kept: npt.NDArray[np.bool_] | None

    def labels(self, labels: Integers) -> Integers:
        """Return the labels of these rows, given those of the block."""
        return labels if self.kept is None else labels[self.kept]


def prepared(
    block: Block, grid: VectorGrid | None, buffers: Buffers, *, keeps_incomplete: bool
) -> PreparedRows:
    """Return a block's rows on the grid; incomplete ones are zero, or left out."""
    if block.matrix is None:
        assert block.entries is not None  # noqa: S101 a block is one or the other
        return _prepared_items(block.rows, block.entries, keeps_incomplete=keeps_incomplete)
    assert grid is not None  # noqa: S101 matrices come with a grid
    whole = grid.integers(block.matrix, buffers.floats("integers", block.matrix.shape))
    bad = incomplete(whole)
    if not bad.any():
        return PreparedRows(whole, None)
    if keeps_incomplete:
        whole[bad] = 0.0
        return PreparedRows(whole, None)
    return PreparedRows(whole[~bad], ~bad)


def _prepared_items(rows: int, entries: Entries, *, keeps_incomplete: bool) -> PreparedRows:
    row, item, missing = entries
    if keeps_incomplete or not missing.any():
        return PreparedRows(ItemRows(rows, row, item), None)
    places = np.cumsum(~missing) - 1
    return PreparedRows(ItemRows(int(rows - missing.sum()), places[row], item), ~missing)


def by_group(rows: Any, labels: Integers) -> Iterator[tuple[int, Any]]:
    """Yield each label of a block with its rows; -1 labels nothing."""
    order = np.argsort(labels, kind="stable")
    found, starts = np.unique(labels[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for label, start, end in zip(found.tolist(), starts, ends, strict=True):
        if label >= 0:
            yield label, _taken(rows, order[start:end])


def _taken(rows: Any, chosen: Integers) -> Any:
    if not isinstance(rows, ItemRows):
        return rows[chosen]
    place = np.full(rows.rows, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    own = place[rows.row]
    return ItemRows(len(chosen), own[own >= 0], rows.item[own >= 0])
