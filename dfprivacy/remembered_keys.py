"""Group keys of remembered releases on their way back to pandas: in the caller's own dtypes.

A ledger keeps the keys themselves, as Arrow values; the frame that is asked about is looked at for
its dtypes only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from dfprivacy.engine.pandas import key_column, mark_of


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
