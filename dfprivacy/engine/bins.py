"""The pass that counts by group and bin: one GROUP BY, run once by the frame's own engine.

A row's bin is a function of its own value: three float operations that round it, the same bits in
every engine (`dfprivacy.statistics.binning`). NULL and NaN have no bin.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import check_number_column, key_expression
from dfprivacy.engine.grid import clipped_value
from dfprivacy.engine.group_numbers import number_groups
from dfprivacy.engine.run import collect, guarded
from dfprivacy.statistics.bin_table import BinTable, bin_table
from dfprivacy.statistics.binning import (
    LARGEST_VALUE,
    OCTAVE_FACTOR,
    SQUARE_BITS,
    VALUE_BITS,
    Binning,
    Edges,
    SignificantBits,
    splitter,
)
from dfprivacy.statistics.statistics import key_name

_VALUE, _LABEL, _ROWS, _FIRST, _SECOND = "value", "label", "rows", "first", "second"


def run_bins(
    adopted: Adopted,
    labels: Sequence[Hashable],
    column: Hashable,
    binning: Binning,
    moments: int = 0,
    *,
    public: bool = False,
) -> BinTable:
    """Count the rows of each group by bin, and add up `moments` powers of their values.

    With `public` keys exactly the listed groups come out, otherwise all groups of the frame.

    Raises
    ------
    UnsupportedDtypeError
        When a column's declared dtype does not allow it.
    InvalidKeysError
        When a public key does not fit its column.
    EngineError
        When the engine fails; the message says nothing of the data.
    TooManyRowsError
        When a bin reaches the public limit of rows.
    """
    lazy = guarded(lambda: _build(adopted, labels, column, binning, moments))
    table = guarded(lambda: collect(lazy))
    names = [key_name(index) for index in range(len(labels))]
    return _tabulated(table, names, adopted.listed if public else None, binning, moments)


def _build(
    adopted: Adopted,
    labels: Sequence[Hashable],
    column: Hashable,
    binning: Binning,
    moments: int,
) -> nw.LazyFrame[Any]:
    names = [key_name(index) for index in range(len(labels))]
    frame = _values(adopted, labels, column)
    if isinstance(binning, Edges):
        frame = frame.select(*names, _edge_label(binning).alias(_LABEL))
    elif isinstance(binning, SignificantBits):
        frame = frame.select(*names, _rounded(nw.col(_VALUE), binning.bits).alias(_LABEL))
    else:
        value = _rounded(nw.col(_VALUE), VALUE_BITS)
        frame = frame.select(*names, value.alias(_VALUE))
        octave = _rounded(nw.col(_VALUE) * OCTAVE_FACTOR, 1)
        frame = frame.select(*names, _VALUE, octave.alias(_LABEL))
    return frame.group_by(*names, _LABEL).agg(*_sums(moments))


def _sums(moments: int) -> list[nw.Expr]:
    value = nw.col(_VALUE)
    sums = [nw.len().cast(nw.Int64).alias(_ROWS)]
    if moments >= 1:
        sums.append(value.sum().alias(_FIRST))
    if moments == 2:
        sums.append(_rounded(value * value, SQUARE_BITS).sum().alias(_SECOND))
    return sums


def _values(adopted: Adopted, labels: Sequence[Hashable], column: Hashable) -> nw.LazyFrame[Any]:
    """Return the keys and the values, NULL for no number, of size at most 2**126."""
    schema = adopted.lazy.collect_schema()
    engine = adopted.lazy.implementation
    keys = [
        key_expression(name, label, schema[name], engine).alias(key_name(index))
        for index, (label, name) in enumerate(zip(labels, adopted.keys, strict=True))
    ]
    name = adopted.values[column]
    check_number_column(column, schema[name])
    value = clipped_value(name, LARGEST_VALUE, floating=schema[name].is_float(), engine=engine)
    return adopted.lazy.select(*keys, value.alias(_VALUE))


def _rounded(value: nw.Expr, bits: int) -> nw.Expr:
    """Return a value rounded to so many significant bits, by Veltkamp's splitting."""
    product = value * splitter(bits)
    return product - (product - value)


def _edge_label(binning: Edges) -> nw.Expr:
    """Return the number of edges that a value reaches: NULL stays NULL."""
    value = nw.col(_VALUE)
    *others, last = binning.edges
    reached = [value >= edge for edge in others] + [value > last]
    return nw.when(~value.is_null()).then(_number_reached(reached, 0, len(reached)))


def _number_reached(reached: Sequence[nw.Expr], least: int, most: int) -> nw.Expr:
    """Return how many of the ascending edges are reached, by halves: engines nest little."""
    if least == most:
        return nw.lit(float(least), nw.Float64)
    middle = (least + most) // 2
    above = _number_reached(reached, middle + 1, most)
    return nw.when(reached[middle]).then(above).otherwise(_number_reached(reached, least, middle))


def _tabulated(
    table: pa.Table,
    names: Sequence[str],
    listed: Sequence[Sequence[object]] | None,
    binning: Binning,
    moments: int,
) -> BinTable:
    numbered = number_groups(table, names, listed)
    entries = numbered.entries
    columns = [_LABEL, _ROWS, _FIRST, _SECOND][: 2 + moments]
    label, rows, *sums = (_numpy(entries.column(name)) for name in columns)
    return bin_table(
        numbered.keys,
        numbered.groups,
        binning,
        numbered.group,
        label,
        rows=rows.astype(np.int64),
        moments=sums,
    )


def _numpy(column: pa.ChunkedArray) -> Any:
    return column.to_numpy() if not column.null_count else column.fill_null(math.nan).to_numpy()
