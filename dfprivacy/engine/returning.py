"""Turn released tables into frames of the caller's type, and frames into tables a ledger keeps.

The way back is proved before a release is paid for. Group keys come back in the caller's own
dtypes: the frame that is asked about is looked at for these only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import IO, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.adopt import Columns, Wrap, adopt
from dfprivacy.engine.files import quote
from dfprivacy.engine.objects import mark_value
from dfprivacy.engine.pandas import answer_column, find_categories, key_column
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import EngineError, UnsupportedDtypeError


@singledispatch
def frame_table(frame: Any) -> pa.Table:
    """Return a released frame as an Arrow table; an Arrow table is one already."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "toArrow"):  # Spark
        return frame.toArrow()
    return frame.to_pyarrow()  # Ibis


@frame_table.register
def _(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for index, kind in enumerate(table.schema.types):
        if isinstance(getattr(kind, "value_type", None), pa.BaseExtensionType):  # no file has these
            column = _without_dictionary(table.column(index))
            table = table.set_column(index, table.column_names[index], column)
    return table


@frame_table.register
def _(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow()


@frame_table.register
def _(frame: pl.LazyFrame) -> pa.Table:
    return frame.collect().to_arrow()


@frame_table.register
def _(frame: duckdb.DuckDBPyRelation) -> pa.Table:
    return frame.to_arrow_table()


def read_released_rows(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return released rows as Arrow has them, intervals as durations: no frame holds months.

    A month has 30 days, as where DuckDB compares; what microseconds can't count is NULL.
    """
    columns = zip(relation.columns, relation.types, strict=True)
    projections = [(_lasting(quote(name), kind), quote(name)) for name, kind in columns]
    if all(text == name for text, name in projections):
        return relation.to_arrow_table()
    table = relation.project(
        ", ".join(f"{text} AS {name}" for text, name in projections)
    ).to_arrow_table()
    kinds = [
        _declare_field(field, kind)
        for field, kind in zip(table.schema, relation.types, strict=True)
    ]
    return table.cast(pa.schema(kinds))


def _lasting(value: str, kind: Any) -> str:
    """Return a value as SQL with the microseconds of each interval in it, or as it is."""
    if kind.id == "interval":
        return f"TRY(epoch_us({value}))"
    if kind.id == "list":
        inner = _lasting("own", kind.children[0][1])
        return value if inner == "own" else f"list_transform({value}, lambda own: {inner})"
    if kind.id == "struct":
        fields = {quote(name): child for name, child in kind.children}
        texts = {name: _lasting(f"{value}.{name}", child) for name, child in fields.items()}
        if any(child != f"{value}.{name}" for name, child in texts.items()):
            packed = ", ".join(f"{name} := {child}" for name, child in texts.items())
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
    return value


def _declare_field(field: pa.Field, kind: Any) -> pa.Field:
    """Return the field of a value of `_lasting`: microseconds are durations."""
    if kind.id == "interval":
        return field.with_type(pa.duration("us"))
    if kind.id == "list":
        return field.with_type(
            pa.list_(_declare_field(field.type.value_field, kind.children[0][1]))
        )
    if kind.id == "struct":
        pairs = zip(field.type, kind.children, strict=True)
        return field.with_type(
            pa.struct([_declare_field(child, child_kind) for child, (_, child_kind) in pairs])
        )
    return field


def list_values(column: pa.ChunkedArray | pd.Series[Any]) -> list[Any]:
    """Return the values of a released column; dates and times that Python lacks are NumPy's.

    A release by them is paid for all the same.
    """
    try:
        return list(column if isinstance(column, pd.Series) else column.to_pylist())
    except (ValueError, OverflowError):
        return list(map(_read_value, pa.array(column) if isinstance(column, pd.Series) else column))


def printable(table: pa.Table) -> pa.Table:
    """Return a released table whose values Python and polars can show: texts where they can't."""
    for index, column in enumerate(table.columns):
        with suppress(Exception):
            column.to_pylist()
            continue
        texts = pa.array([None if value is None else str(value) for value in list_values(column)])
        table = table.set_column(index, table.column_names[index], texts)
    return table


def write_csv(table: pa.Table, file: Path | IO[bytes] | IO[str]) -> None:
    """Write one line a group under a line of names."""
    frame = pl.from_arrow(write_texts(table))
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
    frame.write_csv(file)


def write_texts(table: pa.Table) -> pa.Table:
    """Return a table with texts for values that CSV has no form for; lists and structs are JSON."""
    for index, column in enumerate(table.schema):
        if pa.types.is_nested(column.type):
            write: Callable[[Any], str] = partial(json.dumps, default=str)
        elif pa.types.is_duration(column.type) or "binary" in str(column.type):
            write = str
        else:
            continue
        values = list_values(table[index])
        texts = [None if value is None else write(value) for value in values]
        table = table.set_column(index, column.name, pa.array(texts, pa.string()))
    return table


def _read_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        match scalar:
            case pa.MapScalar():
                return [tuple(map(_read_value, entry.values())) for entry in scalar.values]
            case pa.ListScalar():
                return list(map(_read_value, scalar.values))
            case pa.StructScalar():
                return {name: _read_value(part) for name, part in scalar.items()}
        return np.datetime64(scalar.value, getattr(scalar.type, "unit", "D"))


def build_kept_table(released: Any, frame: object, by: Sequence[Hashable]) -> pa.Table | None:
    """Return a released frame as the table to keep; None if it would come back as another frame.

    Arrow has no type for some objects of pandas, and gives others back as what they are not: a
    tuple as a list, a `Timestamp` as a `datetime`. That is a matter of the released keys.
    """
    table = frame_table(released)
    if isinstance(released, pd.DataFrame):
        other = build_frame(frame, table, by)
        if list(released.columns) != list(other.columns):
            return None
        if not all(_are_equal(released[name], other[name]) for name in released.columns):
            return None
    return table


_TYPED_BY_ENGINES = {"pyspark", "duckdb", "_duckdb", "ibis"}
"""Libraries whose frames come from a query of an engine, which has typed the keys itself."""


def check_schema(
    frame: object, wrap: Wrap, keys: pa.Table, names: Sequence[str], *, public: bool
) -> None:
    """Refuse keys and names of columns that a frame of the caller's type can't hold.

    Secret keys may be NULL; numbers stand for the columns of answers.
    """
    if type(frame).__module__.partition(".")[0] in _TYPED_BY_ENGINES:
        return
    has_nulls = not public or any(column.null_count for column in keys.columns)
    kinds = [*keys.schema.types, *[pa.float64()] * (len(names) - keys.num_columns)]
    try:
        for rows in range(1 + has_nulls):
            columns = [pa.nulls(rows, kind) for kind in kinds]
            run_guarded(lambda: wrap(pa.table(columns, names=list(names))))  # noqa: B023 at once
    except EngineError:
        raise UnsupportedDtypeError(
            "group keys of this type can't be handed back in a frame like the caller's own",
            hint="make the group columns plain text, numbers or dates first",
        ) from None


def build_frame(frame: object, table: pa.Table, by: Sequence[Hashable]) -> Any:
    """Return a remembered table, by group, in the frame type of the data; no row is read.

    In pandas the first columns, the keys, get the dtypes of the frame's. Keys that these can't
    hold, and those of a column that is not there, are pandas columns of their own Arrow type.
    """
    if isinstance(frame, pd.DataFrame):
        keys = [_keys(frame, label, table.column(index)) for index, label in enumerate(by)]
        plain = [
            answer_column(table.column(position)) for position in range(len(by), table.num_columns)
        ]
        return pd.DataFrame(dict(zip(table.column_names, [*keys, *plain], strict=True)))
    adopted = adopt(frame, Columns())
    try:
        return adopted.wrap(table)
    finally:
        adopted.close()


def _are_equal(first: pd.Series[Any], other: pd.Series[Any]) -> bool:
    if isinstance(first.dtype, pd.CategoricalDtype) and isinstance(
        other.dtype, pd.CategoricalDtype
    ):
        same_order = first.dtype.ordered == other.dtype.ordered
        return (
            same_order
            and _are_equal(*(pd.Series(series.cat.categories) for series in (first, other)))
            and (_are_equal(first.astype(object), other.astype(object)))
        )
    if first.dtype != other.dtype or not pd.api.types.is_object_dtype(first.dtype):
        return first.equals(other)
    return [mark_value(value) for value in first] == [mark_value(value) for value in other]


def _keys(declared: pd.DataFrame, label: Hashable, column: pa.ChunkedArray) -> pd.Series[Any]:
    dtype = declared[label].dtype if label in declared else None
    column = _without_dictionary(column)
    if isinstance(dtype, pd.CategoricalDtype):
        empty, there = pd.DataFrame({label: pd.Series(dtype.categories[:0])}), column.is_valid()
        shown = iter(_keys(empty, label, column.filter(there)))
        return find_categories(
            [next(shown) if is_shown else None for is_shown in there.to_pylist()], dtype
        )
    with suppress(Exception):  # a dtype may raise what it likes
        key = replace(key_column(declared[label].iloc[:0], []), objects=None)
        if pd.api.types.is_object_dtype(key.dtype):
            restored = pd.Series(column.to_pylist(), dtype=object)
        elif isinstance(column.type, pa.BaseExtensionType):
            restored = _plain(column).astype(key.dtype)
        else:
            restored = key.restore(column)
        if pd.api.types.is_object_dtype(restored.dtype):
            return restored
        frame, schema = pd.DataFrame({"key": restored}), pa.schema({"key": column.type})
        if pa.Table.from_pandas(frame, schema, preserve_index=False).column(0) == column:
            return restored
    return _plain(column)


def _without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    array = column.combine_chunks()
    return pa.chunked_array([array.dictionary.take(array.indices)])


def _plain(column: pa.ChunkedArray) -> pd.Series[Any]:
    """Return keys in the pandas dtype of their Arrow type; periods and intervals bring theirs."""
    is_extension = isinstance(column.type, pa.BaseExtensionType)
    return pd.Series(column.to_pandas(types_mapper=None if is_extension else pd.ArrowDtype))
