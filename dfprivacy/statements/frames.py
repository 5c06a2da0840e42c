"""Frames that a caller passes by name, as sources of protected rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.embedded import embedded, is_text, read_file
from dfprivacy.engine.pandas_keys import NULLABLE
from dfprivacy.engine.pandas_objects import is_missing
from dfprivacy.engine.quoting import quoted
from dfprivacy.errors import (
    MissingColumnError,
    RefusedStatementError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Refusal
from dfprivacy.statements.rows import Relation
from dfprivacy.statements.tree import Target

_BY_NAME = "dfp.sql('SELECT dp_count(*) FROM t', t=frame)"
Names = tuple[str, ...]
Opened = Callable[[Names, duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]


@dataclass(frozen=True)
class Source:
    """A frame: its columns, its rows as a relation, the same without rows, and its own type."""

    columns: Names
    rows: Opened
    empty: Opened
    wrap: Callable[[pa.Table], Any]
    texts: bool = False


@dataclass(frozen=True)
class FrameSource:
    """Frames by name; the statement reads one of them."""

    frames: Mapping[str, object]
    known: dict[str, Source] = field(default_factory=dict)

    def _source(self, name: str) -> Source:
        if name not in self.known:
            self.known[name] = source_of(self.frames[name])
        return self.known[name]

    def find(self, parts: tuple[str, ...], near: Relation | None = None) -> Relation:  # noqa: ARG002 one signature for all sources
        """Return what stands for a frame.

        Raises
        ------
        RefusedStatementError
            When no frame has that name.
        MissingColumnError
            When two columns differ in capital letters alone.
        """
        names = {folded(name): name for name in self.frames}
        name = names.get(folded(parts[0])) if len(parts) == 1 else None
        if name is None:
            raise RefusedStatementError(
                f"no frame was passed under the name {'.'.join(parts)!r}",
                hint=f"the frames are {', '.join(map(repr, self.frames))}; pass it: {_BY_NAME}",
            )
        source = self._source(name)
        if len({folded(column) for column in source.columns}) < len(source.columns):
            raise MissingColumnError(
                "two columns of the frame have names that are one to SQL",
                hint="rename them: SQL does not tell x from X",
            )
        return Relation((name,), source.columns, texts=source.texts)

    def relation(
        self, found: Relation, names: Names, engine: duckdb.DuckDBPyConnection
    ) -> duckdb.DuckDBPyRelation:
        """Return a frame's columns as a relation."""
        return self._source(found.path[0]).rows(names, engine)

    def empty(
        self, found: Relation, names: Names, engine: duckdb.DuckDBPyConnection
    ) -> duckdb.DuckDBPyRelation:
        """Return a frame's columns without rows, for their types."""
        return self._source(found.path[0]).empty(names, engine)

    def fenced(self) -> AbstractContextManager[None]:
        """Return a block that changes nothing: frames are read by the engine of the call."""
        return nullcontext()

    def check(self, target: Target | None, protected: Relation, empty: pa.Table) -> None:  # noqa: ARG002 one signature for all sources
        """Refuse a target: there is no connection to make a table on.

        Raises
        ------
        RefusedStatementError
            When there is one.
        """
        if target is not None:
            raise Refusal(
                "CREATE TABLE and INSERT without con=",
                "there is no database to write to",
                "take the result: released = dfp.sql('SELECT dp_count(*) AS n FROM t', t=frame)",
            ).error()

    def give(self, table: pa.Table, found: Relation, target: Target | None) -> object:  # noqa: ARG002 one signature for all sources
        """Return released rows as a frame of the type of the protected one."""
        return self._source(found.path[0]).wrap(table)


@singledispatch
def source_of(frame: object) -> Source:
    """Return a frame as a source.

    Raises
    ------
    UnsupportedFrameError
        When it is none that can be read.
    """
    raise UnsupportedFrameError(
        f"an object of type {type(frame).__name__} is not a frame that can be read",
        hint="pass a pandas or polars frame, an Arrow table, a DuckDB relation, or the path of a "
        "CSV or Parquet file",
    )


def _table_source(
    columns: Names,
    table: Callable[[Names], pa.Table],
    empty: Callable[[Names], pa.Table],
    wrap: Callable[[pa.Table], Any],
) -> Source:
    return Source(
        columns,
        lambda names, engine: engine.from_arrow(_decoded(table(names))),
        lambda names, engine: engine.from_arrow(_decoded(empty(names))),
        wrap,
    )


def _decoded(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries, whose entries would be part of their type."""
    for index, own in enumerate(table.schema):
        if pa.types.is_dictionary(own.type):
            plain = table.column(index).cast(own.type.value_type)
            table = table.set_column(index, own.name, plain)
    if not table.num_columns:
        return pa.table({"row": pa.nulls(table.num_rows, pa.bool_())})
    return table


@source_of.register
def _(frame: pd.DataFrame) -> Source:
    return _table_source(
        tuple(str(name) for name in frame.columns if isinstance(name, str)),
        partial(arrow_columns, frame),
        partial(arrow_columns, frame.iloc[:0]),
        typed_frame,
    )


@source_of.register
def _(frame: pl.LazyFrame) -> Source:
    schema = frame.collect_schema()
    refused = [name for name, kind in schema.items() if kind == pl.Object]
    plain = [name for name in schema if name not in refused]

    def table(names: Names, rows: pl.LazyFrame = frame) -> pa.Table:
        if any(name in refused for name in names):
            raise UnsupportedDtypeError(
                "a column of Python objects has no type that SQL knows",
                hint="cast it first, e.g. to pl.String",
            )
        chosen = rows.select([*names] or plain[:1])
        return chosen.collect(engine="streaming").to_arrow()

    return _table_source(
        tuple(schema),
        table,
        lambda names: table(names, pl.LazyFrame(schema=schema)),
        lambda released: _polars(released).lazy(),
    )


@source_of.register
def _(frame: pl.DataFrame) -> Source:
    lazy = source_of(frame.lazy())
    return Source(lazy.columns, lazy.rows, lazy.empty, _polars)


def _polars(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
    return frame


@source_of.register(pa.Table)
def _(frame: pa.Table) -> Source:
    empty = frame.schema.empty_table()
    return _table_source(
        tuple(frame.schema.names),
        lambda names: frame.select([*names] or frame.schema.names[:1]),
        lambda names: empty.select([*names] or frame.schema.names[:1]),
        _itself,
    )


@source_of.register(pa.RecordBatchReader)
def _(frame: pa.RecordBatchReader) -> Source:
    empty = source_of(frame.schema.empty_table())
    return Source(
        empty.columns,
        lambda names, engine: source_of(frame.read_all()).rows(names, engine),
        empty.empty,
        _itself,
    )


@source_of.register(str)
@source_of.register(Path)
def _(frame: str | Path) -> Source:
    path = Path(frame)

    def opened(names: Names, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:  # noqa: ARG001 one signature for all sources
        return read_file(engine, path)

    with embedded() as engine:
        columns = tuple(read_file(engine, path).columns)
    return Source(
        columns,
        opened,
        lambda names, engine: opened(names, engine).limit(0),
        _itself,
        is_text(path),
    )


@source_of.register
def _(frame: duckdb.DuckDBPyRelation) -> Source:
    def table(names: Names, rows: duckdb.DuckDBPyRelation = frame) -> pa.Table:
        chosen = ", ".join(map(quoted, names)) or 'true AS "row"'
        return rows.project(chosen).to_arrow_table()

    return _table_source(
        tuple(frame.columns),
        table,
        lambda names: table(names, frame.limit(0)),
        lambda released: adopt(frame, Columns((), {}, [])).wrap(released),
    )


def _itself(table: pa.Table) -> pa.Table:
    return table


def arrow_columns(frame: pd.DataFrame, names: tuple[str, ...]) -> pa.Table:
    """Return some columns of a frame as Arrow.

    Missing values, NaN among them, are NULL, as in DuckDB's own view of a frame. A column of
    objects is text: each object as its own text, whatever the others are.

    Raises
    ------
    UnsupportedDtypeError
        For a dtype that SQL has no type for.
    MissingColumnError
        When a name stands for several columns.
    """
    if not names:
        return pa.table({"row": pa.nulls(len(frame), pa.bool_())})
    return pa.table({name: _arrow(name, _series(frame, name)) for name in names})


def _series(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    found = frame[name]
    if not isinstance(found, pd.Series):
        raise MissingColumnError(
            f"the frame has several columns {name!r}", hint="rename them so that one is meant"
        )
    return found


def _arrow(name: str, series: pd.Series[Any]) -> Any:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        values = _arrow(name, pd.Series(dtype.categories))
        codes = series.cat.codes.to_numpy()
        return values.take(pa.array(codes.astype(np.int64), mask=codes < 0))
    if pd.api.types.is_object_dtype(dtype):
        return _texts(series)
    if _goes_as_it_is(dtype):
        try:
            return _plain(series)
        except UnicodeError:  # text without a UTF-8 form
            return _texts(series)
    raise UnsupportedDtypeError(
        f"column {name!r} is declared {dtype}, which SQL has no type for",
        hint=f"convert it first, e.g. df[{name!r}].astype(str)",
    )


def _goes_as_it_is(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufMm"
    known = isinstance(dtype, pd.DatetimeTZDtype | pd.StringDtype | pd.ArrowDtype)
    return known or hasattr(dtype, "numpy_dtype")


def _plain(series: pd.Series[Any]) -> Any:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize not in (4, 8):
        series = series.astype(np.float64)
    return pa.array(series, from_pandas=True)


def _texts(series: pd.Series[Any]) -> pa.Array:
    return pa.array([_text(value) for value in series], type=pa.string())


def _text(value: object) -> str | None:
    """Return the text of one object, or None for what is missing or has none."""
    if not isinstance(value, str) and is_missing(value):
        return None
    try:
        text = str.__str__(value) if isinstance(value, str) else str(value)
    except Exception:  # noqa: BLE001 an object may raise what it likes
        return None
    return text.encode("utf-8", "replace").decode("utf-8")


def typed_frame(table: pa.Table) -> pd.DataFrame:
    """Return released rows as a pandas frame whose dtypes depend on declared types alone."""
    frame = table.to_pandas(types_mapper=NULLABLE.get)
    assert isinstance(frame, pd.DataFrame)  # noqa: S101 a table never becomes a Series
    return frame
