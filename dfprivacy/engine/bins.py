"""The pass that counts by group and bin: one GROUP BY, run once by the frame's own engine.

A row's bin is a function of its own value: three float operations that round it, the same bits in
every engine (`dfprivacy.measurement.binning`). NULL and NaN have no bin.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import check_number_column, key_expressions
from dfprivacy.engine.grid import clipped_value
from dfprivacy.engine.group_numbers import number_groups
from dfprivacy.engine.public_keys import known_units
from dfprivacy.engine.run import exact_table
from dfprivacy.engine.spark_terms import with_edges_reached
from dfprivacy.engine.units import thinned, within_groups
from dfprivacy.measurement.bin_table import BinTable, bin_table
from dfprivacy.measurement.binning import (
    LARGEST_VALUE,
    OCTAVE_FACTOR,
    SQUARE_BITS,
    VALUE_BITS,
    Binning,
    Edges,
    Octaves,
    SignificantBits,
    splitter,
)
from dfprivacy.measurement.sums import key_name

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
    names = [key_name(index) for index in range(len(labels))]
    build = partial(bins_query, labels=labels, column=column, binning=binning, moments=moments)
    table = exact_table(adopted, build, [*names, _LABEL])
    return tabulated(table, names, adopted.listed if public else None, binning, moments)


def bins_query(
    adopted: Adopted,
    labels: Sequence[Hashable],
    column: Hashable,
    binning: Binning,
    moments: int,
) -> nw.LazyFrame[Any]:
    """Return the query of `run_bins`: keys, label, rows and sums of each group and bin."""
    names = [key_name(index) for index in range(len(labels))]
    frame = _values(adopted, labels, column, binning)
    if adopted.unit is None:
        return _labelled(frame, binning).group_by(*names, _LABEL).agg(*_sums(moments))
    entries = _by_unit(frame, adopted, names)
    return _labelled(entries, binning).group_by(*names, _LABEL).agg(*_entry_sums(moments))


def _by_unit(frame: nw.LazyFrame[Any], adopted: Adopted, names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return how many rows of each unit, group and value count, within the unit's limits."""
    assert adopted.unit is not None  # noqa: S101 the caller has looked
    counted = nw.len().cast(nw.Int64).alias(_ROWS)
    of_units = known_units(frame, adopted)
    entries = of_units.group_by(*adopted.unit.entries(names), _VALUE).agg(counted)
    kept = within_groups(entries, names, adopted.unit, _VALUE)
    return thinned(kept, names, _VALUE, _ROWS, adopted.unit)


def _labelled(frame: nw.LazyFrame[Any], binning: Binning) -> nw.LazyFrame[Any]:
    """Add what rows are grouped by: the octave of a value, or the value that is its own label."""
    if not isinstance(binning, Octaves):
        return frame.rename({_VALUE: _LABEL})
    octave = _rounded(nw.col(_VALUE) * OCTAVE_FACTOR, 1)
    return frame.with_columns(octave.alias(_LABEL))


def _sums(moments: int) -> list[nw.Expr]:
    rows = nw.len().cast(nw.Int64).alias(_ROWS)
    return [rows, *(power.sum().alias(name) for name, power in _powers(moments))]


def _entry_sums(moments: int) -> list[nw.Expr]:
    """Return the same sums of entries that stand for several rows of one value each."""
    rows = nw.col(_ROWS)
    times = rows.cast(nw.Float64)
    sums = [rows.sum().cast(nw.Int64).alias(_ROWS)]
    return [*sums, *((power * times).sum().alias(name) for name, power in _powers(moments))]


def _powers(moments: int) -> list[tuple[str, nw.Expr]]:
    value = nw.col(_VALUE)
    powers = [(_FIRST, value), (_SECOND, _rounded(value * value, SQUARE_BITS))]
    return powers[:moments]


def _values(
    adopted: Adopted, labels: Sequence[Hashable], column: Hashable, binning: Binning
) -> nw.LazyFrame[Any]:
    """Return the keys and the values as far as they count, NULL for no number."""
    dtype = adopted.lazy.collect_schema()[adopted.values[column]]
    check_number_column(column, dtype)
    value = clipped_value(
        adopted.values[column],
        LARGEST_VALUE,
        floating=dtype.is_float(),
        engine=adopted.lazy.implementation,
    )
    keys = key_expressions(adopted, labels)
    frame = adopted.lazy.select(*keys, value.alias(_VALUE))
    if isinstance(binning, Edges) and frame.implementation.is_spark_like():
        native = with_edges_reached(frame.to_native(), _VALUE, binning.edges)
        labelled: nw.LazyFrame[Any] = nw.from_native(native)
        return labelled
    return frame.with_columns(_counted_value(binning).alias(_VALUE))


def _counted_value(binning: Binning) -> nw.Expr:
    """Return a value as the binning sees it: rounded, or the number of edges that it reaches."""
    if isinstance(binning, Edges):
        return _edge_label(binning)
    bits = binning.bits if isinstance(binning, SignificantBits) else VALUE_BITS
    return _rounded(nw.col(_VALUE), bits)


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


def tabulated(
    table: pa.Table,
    names: Sequence[str],
    listed: Sequence[Sequence[object]] | None,
    binning: Binning,
    moments: int,
) -> BinTable:
    """Return the table of what a query gave, in any order; see `run_bins` for `listed` keys."""
    numbered = number_groups(table, names, listed)
    keys, groups, group, table = numbered.keys, numbered.groups, numbered.group, numbered.entries
    del numbered  # with millions of entries, what is not needed any more makes room
    columns = [_LABEL, _ROWS, _FIRST, _SECOND][: 2 + moments]
    label, rows, *sums = (_numpy(table.column(name)) for name in columns)
    del table
    rows = rows.astype(np.int64, copy=False)
    return bin_table(keys, groups, binning, group, label, rows=rows, moments=sums)


def _numpy(column: pa.ChunkedArray) -> Any:
    return column.to_numpy() if not column.null_count else column.fill_null(math.nan).to_numpy()
