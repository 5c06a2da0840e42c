"""Groups of a pass over vectors: how many rows each has, and which rows are theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.public_keys import align
from dfprivacy.engine.vector_rows import prepared
from dfprivacy.engine.vector_source import VectorSource
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.linear import ROWS
from dfprivacy.measurement.sums import Statistics, key_name, merge, sum_name
from dfprivacy.vector_passes import grid_of
from dfprivacy.vector_question import MeanVector

Integers = npt.NDArray[np.int64]

_MERGED = 64


def group_rows(
    source: VectorSource, question: MeanVector, columns: int, *, public: bool
) -> Statistics:
    """Return the number of whole vectors of each group, sorted by key. Secret.

    With public keys exactly these are the groups, whatever the rows are.
    """
    names = [key_name(index) for index in range(columns)]
    parts: list[Statistics] = []
    grid = None if question.binary else grid_of(question, source.dimension)
    buffers = Buffers()
    for block in source.read():
        ready = prepared(block, grid, buffers, keeps_incomplete=False)
        parts.append(_counted(block.keys, ready.kept, names))
        if len(parts) == _MERGED:
            parts = [merge(parts)]
    parts = parts or [_counted(source.keys.empty_table(), None, names)]
    together = merge(parts).checked()
    return align(together, source.listed) if public else together


def _counted(keys: pa.Table, kept: npt.NDArray[np.bool_] | None, names: list[str]) -> Statistics:
    rows = keys if kept is None else keys.filter(pa.array(kept))
    ones = rows.append_column(sum_name(0), pa.array(np.ones(rows.num_rows, np.int64)))
    counted = ones.group_by(names).aggregate([(sum_name(0), "sum")])
    return Statistics(counted.rename_columns([*names, sum_name(0)]), len(names), (ROWS.source,))


def labels_among(keys: pa.Table) -> Callable[[pa.Table], Integers]:
    """Return a function that finds the group of each row: its place in `keys`, or -1.

    Keys are numbered column by column, and numbers stay below those of `keys` times a column's.
    """
    numbering, codes = [], np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        values = pc.unique(column)
        found, codes = np.unique(_joined(codes, column, values), return_inverse=True)
        numbering.append((values, found))
    place = np.full(keys.num_rows, -1, np.int64)
    place[codes] = np.arange(keys.num_rows)

    def labelled(rows: pa.Table) -> Integers:
        own = np.zeros(rows.num_rows, np.int64)
        for column, (values, found) in zip(rows.columns, numbering, strict=True):
            own = _rank(_joined(own, column, values), found)
        return np.where(own >= 0, place[own], -1) if len(place) else own

    return labelled


def _joined(codes: Integers, column: pa.ChunkedArray, values: pa.Array) -> Integers:
    """Return a number for each code and value together; -1 where one of them is not known."""
    index = pc.index_in(column, value_set=values).fill_null(-1).to_numpy().astype(np.int64)
    return np.where((codes < 0) | (index < 0), -1, codes * len(values) + index)


def _rank(codes: Integers, found: Integers) -> Integers:
    """Return the place of each code among those found, ascending; -1 for others."""
    if not len(found):
        return np.full(len(codes), -1, np.int64)
    place = np.minimum(np.searchsorted(found, codes), len(found) - 1)
    return np.where(found[place] == codes, place, -1)
