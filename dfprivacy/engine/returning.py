"""Turn released tables into frames of the caller's type, and frames into tables a ledger keeps.

The way back is proved before a release is paid for. Group keys come back in the caller's own
dtypes: the frame that is asked about is looked at for these only.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import singledispatch
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.pandas_keys import key_column
from dfprivacy.engine.pandas_objects import mark_of


@singledispatch
def frame_table(frame: Any) -> pa.Table:
    """Return a released frame as an Arrow table; an Arrow table is one already."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "toArrow"):  # Spark
        return frame.toArrow()
    held = _held(frame)
    return frame_table(frame.to_pyarrow() if held is frame else held)  # Ibis


@frame_table.register
def _(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


@frame_table.register
def _(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow()


@frame_table.register
def _(frame: pl.LazyFrame) -> pa.Table:
    return frame.collect().to_arrow()


@frame_table.register
def _(frame: duckdb.DuckDBPyRelation) -> pa.Table:
    return frame.to_arrow_table()


def _held(frame: Any) -> Any:
    """Return what a Dask frame holds; any other frame itself."""
    return frame.compute() if hasattr(frame, "compute") else frame


def kept_table(released: Any, frame: object, by: Sequence[Hashable]) -> pa.Table | None:
    """Return a released frame as the table to keep; None if it would come back as another frame.

    Arrow has no type for some objects of pandas, and gives others back as what they are not: a
    tuple as a list, a `Timestamp` as a `datetime`. That is a matter of the released keys.
    """
    held = _held(released)
    table = frame_table(held)
    if isinstance(held, pd.DataFrame) and not same_frames(held, _held(frame_of(frame, table, by))):
        return None
    return table


@singledispatch
def frame_of(frame: object, table: pa.Table, by: Sequence[Hashable]) -> Any:
    """Return a remembered table, by group, in the frame type of the data; no row is read."""
    if hasattr(frame, "compute"):
        return _dask_frame(frame, table, by)
    adopted = adopt(frame, Columns((), {}, ()))
    try:
        return adopted.wrap(table)
    finally:
        adopted.close()


@frame_of.register
def _(frame: pd.DataFrame, table: pa.Table, by: Sequence[Hashable]) -> pd.DataFrame:
    return pandas_frame(frame, table, by)


def _dask_frame(frame: object, table: pa.Table, by: Sequence[Hashable]) -> Any:
    """Return a remembered table as a Dask frame of one partition, with the declared dtypes."""
    dask, frames = importlib.import_module("dask"), importlib.import_module("dask.dataframe")
    declared = frames.utils.make_meta(frame)
    with dask.config.set({"dataframe.convert-string": False}):
        return frames.from_pandas(pandas_frame(declared, table, by), npartitions=1, sort=False)


def pandas_frame(declared: pd.DataFrame, table: pa.Table, by: Sequence[Hashable]) -> pd.DataFrame:
    """Return a remembered table, whose first columns are keys, with the dtypes of a frame.

    Keys that the frame's column can't hold, and those of a column that is not there, are pandas
    columns of their own Arrow type.
    """
    keys = [_keys(declared, label, table.column(index)) for index, label in enumerate(by)]
    plain = [table.column(index).to_pandas() for index in range(len(by), table.num_columns)]
    return pd.DataFrame(dict(zip(table.column_names, [*keys, *plain], strict=True)))


def same_frames(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Tell whether two frames look the same: names, dtypes, values, and the kinds of objects."""
    if list(one.columns) != list(other.columns):
        return False
    return all(_same(one[name], other[name]) for name in one.columns)


def _same(one: pd.Series[Any], other: pd.Series[Any]) -> bool:
    if one.dtype != other.dtype or not pd.api.types.is_object_dtype(one.dtype):
        return one.equals(other)
    return [mark_of(value) for value in one] == [mark_of(value) for value in other]


def _keys(declared: pd.DataFrame, label: Hashable, column: pa.ChunkedArray) -> pd.Series[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    with suppress(Exception):  # a dtype may raise what it likes
        restored = _restored(declared[label].iloc[:0], column)
        if pd.api.types.is_object_dtype(restored.dtype) or _as_arrow(restored, column) == column:
            return restored
    return _plain(column)


def _restored(empty: pd.Series[Any], column: pa.ChunkedArray) -> pd.Series[Any]:
    """Return keys in the dtype that a release of this column has."""
    key = replace(key_column(empty, []), objects=None)
    if pd.api.types.is_object_dtype(key.dtype):
        return pd.Series(column.to_pylist(), dtype=object)
    if isinstance(column.type, pa.BaseExtensionType):
        return _plain(column).astype(key.dtype)
    return key.restore(column)


def _plain(column: pa.ChunkedArray) -> pd.Series[Any]:
    """Return keys in the pandas dtype of their Arrow type; periods and intervals bring theirs."""
    own = isinstance(column.type, pa.BaseExtensionType)
    return pd.Series(column.to_pandas(types_mapper=None if own else pd.ArrowDtype))


def _as_arrow(series: pd.Series[Any], column: pa.ChunkedArray) -> pa.ChunkedArray:
    schema = pa.schema({"key": column.type})
    frame = pd.DataFrame({"key": series})
    return pa.Table.from_pandas(frame, schema, preserve_index=False).column(0)
