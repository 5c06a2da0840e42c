"""Partitions of a Dask frame as Arrow tables of the declared types.

A partition can have other dtypes than its frame declares: one missing integer turns its column
into floats. Types are those of the declaration, and a value that has no place in its type is NULL,
each by itself, so that no row decides about the type, or the failure, of others.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

import duckdb
import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.embedded import embedded_connection
from dfprivacy.engine.pandas_columns import presence_column, value_column
from dfprivacy.engine.pandas_keys import key_column
from dfprivacy.engine.pandas_objects import (
    Mark,
    distinct_objects,
    is_missing,
    mark_bytes,
    mark_of,
)
from dfprivacy.engine.public_keys import typed_keys
from dfprivacy.engine.units import UNIT, mark_name, unit_column
from dfprivacy.errors import EngineError, InvalidKeysError
from dfprivacy.unit import Unit

BUCKET = "bucket"
_BUCKETS = 2**31


@dataclass(frozen=True)
class KeyLayout:
    """A group column: its declared Arrow type, or the ranks of its objects, ascending.

    With `learned` ranks all objects of the frame are known, and another one shows that it changed;
    declared categories are all there can be, and another object is NULL. `dtype` is the declared
    one of the objects.
    """

    label: Hashable
    declared: pa.DataType
    ranks: Mapping[Mark, int] | None = None
    learned: bool = False
    dtype: Any = None


@dataclass(frozen=True)
class ValueLayout:
    """A value column: its declared Arrow type, or None where only its presence is needed."""

    label: Hashable
    declared: pa.DataType | None


@dataclass(frozen=True)
class Layout:
    """The columns of a partition as the pass sees them, named by their place.

    `unit_type` is the declared Arrow type of the units, None where they are objects of the
    declared `unit_dtype`.
    """

    keys: Sequence[KeyLayout]
    values: Sequence[ValueLayout]
    listed: Sequence[Sequence[object]]
    unit: Unit | None = None
    unit_type: pa.DataType | None = None
    unit_dtype: Any = None


def typed_rows(part: pd.DataFrame, layout: Layout) -> pa.Table:
    """Return a partition as an Arrow table of the declared types."""
    columns: dict[str, Any] = {}
    for index, key in enumerate(layout.keys):
        own = columns[f"key_{index}"] = _keys(part[key.label], key)
        if layout.unit is not None and key.ranks is not None:
            columns[mark_name(index)] = _bytes_of(key.ranks).take(own)
    for index, value in enumerate(layout.values):
        columns[f"value_{index}"] = _values(part[value.label], value)
    if layout.unit is not None:
        columns[UNIT] = _units(part[layout.unit.column], layout)
    if not columns:
        columns["row"] = pa.nulls(len(part), pa.bool_())
    return pa.table(columns)


def adopted_rows(rows: pa.Table, layout: Layout) -> Adopted:
    """Adopt a partition's table on the engine of this process."""
    connection = _engine(os.getpid()).cursor()
    connection.execute("SET enable_progress_bar = false")
    lazy = nw.from_native(connection.from_arrow(rows))
    keys = [f"key_{index}" for index in range(len(layout.keys))]
    values = {value.label: f"value_{index}" for index, value in enumerate(layout.values)}
    coded = [index for index, key in enumerate(layout.keys) if key.ranks is not None]
    unit = unit_column(layout.unit, UNIT, coded)
    return Adopted(lazy, keys, values, layout.listed, _identity, unit, connection)


@lru_cache(maxsize=1)
def _engine(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 a fork needs its own
    """Return an embedded engine of one thread a query: Dask runs partitions side by side.

    Partitions are handed to it and never stored in it.
    """
    connection = embedded_connection()
    connection.execute("SET threads = 1")
    return connection


def rows_with_buckets(part: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Return a partition's rows that have a unit, with a number that follows from the unit alone.

    Units that the pass takes for the same one have the same number in every partition.
    """
    rows = typed_rows(part, layout)
    rows = rows.filter(pc.is_valid(rows.column(UNIT)))
    for index, value in enumerate(layout.values):
        if value.declared is not None and not pa.types.is_decimal(value.declared):
            place = rows.column_names.index(f"value_{index}")
            floats = rows.column(place).cast(pa.float64(), safe=False)
            rows = rows.set_column(place, f"value_{index}", floats)
    columns: dict[str, Any] = {name: _arrow_series(rows.column(name)) for name in rows.column_names}
    return pd.DataFrame(columns | {BUCKET: _buckets(rows.column(UNIT))})


def rows_of_frame(part: pd.DataFrame) -> pa.Table:
    """Return what `rows_with_buckets` has made as an Arrow table again."""
    return pa.table({name: pa.array(part[name]) for name in part.columns if name != BUCKET})


def _keys(series: pd.Series[Any], key: KeyLayout) -> pa.Array | pa.ChunkedArray:
    if key.ranks is None:
        return _declared(series, key.declared)
    codes, objects = distinct_objects(series.astype(object))
    marks = [declared_mark(value, key.dtype) for value in objects]
    if key.learned and any(mark is not None and mark not in key.ranks for mark in marks):
        raise EngineError(
            "the frame changed while it was read", hint="ask again, on a copy: frame.persist()"
        )
    ranks = [-1 if mark is None else key.ranks.get(mark, -1) for mark in marks]
    own = np.array([*ranks, -1], dtype=np.int64)[codes]
    return pa.array(own, mask=own < 0)


def declared_object(value: object, dtype: Any) -> object | None:
    """Return an object as its declared dtype has it, whatever dtype its partition has.

    What has no place in a dtype of differences or periods is None. A category is no float that an
    integer can stand for, and its times are those of pandas: partitions hold the others when one
    row makes pandas choose another dtype.
    """
    try:
        if not isinstance(dtype, pd.CategoricalDtype):
            plain = isinstance(value, timedelta | pd.Period)
            return cast("object", pd.array([value], dtype=dtype)[0]) if plain else None
        if isinstance(value, timedelta):
            return pd.Timedelta(value)
        if isinstance(value, datetime):
            return pd.Timestamp(value)
        whole = isinstance(value, float | np.floating) and float(value).is_integer()
        return int(cast("float", value)) if whole else value
    except Exception:  # noqa: BLE001 what has no place in the dtype, for whatever reason
        return None


def declared_mark(value: object, dtype: Any) -> Mark | None:
    """Return the mark of an object as its declared dtype has it, None where it has no place."""
    own = declared_object(value, dtype)
    return None if is_missing(own) else mark_of(own)


def _declared(series: pd.Series[Any], declared: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return a column in its declared type; what has no place in it is NULL."""
    found = key_column(series, [])
    if found.objects is None:
        if found.column.type == declared:
            return found.column
        if _is_text(found.column.type) and _is_text(declared):
            return found.column.cast(declared)
    codes, objects = distinct_objects(series.astype(object))
    typed = pa.concat_arrays([*(_typed(value, declared) for value in objects), _none(declared)])
    return typed.take(pa.array(np.where(codes < 0, len(objects), codes)))


def _typed(value: object, declared: pa.DataType) -> pa.Array:
    try:
        return typed_keys([value], declared)
    except InvalidKeysError:
        return _none(declared)


def _none(declared: pa.DataType) -> pa.Array:
    return pa.nulls(1, declared)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _values(series: pd.Series[Any], value: ValueLayout) -> pa.Array | pa.ChunkedArray:
    if value.declared is None:
        return presence_column(series)
    real = pd.api.types.is_numeric_dtype(series.dtype) and series.dtype.kind != "c"
    if real and not pa.types.is_decimal(value.declared):
        return value_column(value.label, series)
    return _declared(series, value.declared)


def _units(series: pd.Series[Any], layout: Layout) -> pa.Array | pa.ChunkedArray:
    """Return units in their declared type, floats without -0.0 and NaN; objects as their marks."""
    declared = layout.unit_type
    if declared is None:
        codes, objects = distinct_objects(series.astype(object))
        marks = [declared_mark(value, layout.unit_dtype) for value in objects]
        own = _bytes_of([*marks, None])
        return own.take(pa.array(np.where(codes < 0, len(objects), codes)))
    units = _declared(series, declared)
    if not pa.types.is_floating(declared):
        return units
    whole = pc.add(units, pa.scalar(0.0, declared))
    return pc.if_else(pc.is_nan(whole), pa.scalar(None, declared), whole)


def _bytes_of(marks: Iterable[Mark | None]) -> pa.Array:
    return pa.array([None if mark is None else mark_bytes(mark) for mark in marks], pa.binary())


def _buckets(units: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a number for each unit, by a hash that is the same in every process."""
    hashed: Any = pd.util.hash_array(_hashable(units))
    return np.asarray(hashed % np.uint64(_BUCKETS), dtype=np.int64)


def _hashable(units: pa.ChunkedArray) -> npt.NDArray[Any]:
    kind = units.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(units.to_numpy())
    if pa.types.is_timestamp(kind):
        return np.asarray(units.cast(pa.int64()).to_numpy())
    plain = units if pa.types.is_binary(kind) else units.cast(pa.string())
    return np.array(plain.to_pylist(), dtype=object)


def _arrow_series(column: pa.ChunkedArray) -> pd.Series[Any]:
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


def _identity(table: pa.Table) -> pa.Table:
    return table
