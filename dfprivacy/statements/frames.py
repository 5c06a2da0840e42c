"""Frames that a caller passes by name, read through the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import EnumMeta
from functools import cache, singledispatch
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.adopt import Columns, adopt, require_unprofiled
from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.files import is_text, quoted, read_file
from dfprivacy.engine.objects import plain
from dfprivacy.engine.pandas import NULLABLE, require_known
from dfprivacy.engine.returning import values_of
from dfprivacy.errors import (
    MissingColumnError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.statements.gate import NO_COLUMN, Names, Source, gated, held, no_type, twin_of
from dfprivacy.statements.refusals import refuse
from dfprivacy.statements.rows import Place, Relation
from dfprivacy.statements.tree import folded

_BY_NAME = "dfp.sql('SELECT dp_count(*) FROM t', t=frame)"


@dataclass(frozen=True)
class FrameSource(Place):
    """Frames by name; each release of the statement reads one of them."""

    frames: Mapping[str, object]
    known: dict[str, Source] = field(default_factory=dict)

    def find(self, parts: Names, near: Relation | None = None) -> Relation:  # noqa: ARG002 no views
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
            known = ", ".join(map(repr, self.frames))
            raise refuse("no frame", name=".".join(parts), known=known)
        source = self.known.setdefault(name, source_of(self.frames[name]))
        if len({folded(column) for column in source.columns}) < len(source.columns):
            raise MissingColumnError(
                "two columns of the frame have names that are one to SQL",
                hint="rename them: SQL does not tell x from X",
            )
        return Relation((name,), source.columns, None, source)


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


def _source(
    columns: Names,
    table: Callable[[Names, bool], pa.Table],
    wrap: Callable[[pa.Table], Any] = lambda table: table,
) -> Source:
    """Return a source that hands named columns over as a table, with or without rows."""
    return Source(
        columns,
        lambda names, engine: engine.from_arrow(held(table(names, True), names)),  # noqa: FBT003 rows
        lambda names, engine: engine.from_arrow(held(table(names, False), names)),  # noqa: FBT003 none
        wrap,
    )


@source_of.register
def _(frame: pd.DataFrame) -> Source:
    return _source(
        tuple(str(name) for name in frame.columns if isinstance(name, str)),
        lambda names, rows: arrow_columns(frame if rows else frame.iloc[:0], names),
        typed_frame,
    )


@source_of.register(pl.LazyFrame)
@source_of.register(pl.DataFrame)
def _(frame: pl.LazyFrame | pl.DataFrame) -> Source:
    lazy, schema = frame.lazy(), frame.lazy().collect_schema()
    plain = [name for name, kind in schema.items() if kind != pl.Object]

    def table(names: Names, rows: bool) -> pa.Table:  # noqa: FBT001 as above
        if not all(name in plain for name in names):
            raise UnsupportedDtypeError(
                "a column of Python objects has no type that SQL knows",
                hint="cast it first, e.g. to pl.String",
            )
        read = lazy if rows else pl.LazyFrame(schema=schema)
        return read.select([*names] or plain[:1]).collect(engine="streaming").to_arrow()

    def wrap(released: pa.Table) -> pl.LazyFrame | pl.DataFrame:
        made = pl.DataFrame(released)
        return made if isinstance(frame, pl.DataFrame) else made.lazy()

    return _source(tuple(schema), table, wrap)


@source_of.register(pa.Table)
@source_of.register(pa.RecordBatchReader)
def _(frame: pa.Table | pa.RecordBatchReader) -> Source:
    schema = frame.schema

    @cache  # a reader gives its rows once
    def whole() -> pa.Table:
        return frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame

    def table(names: Names, rows: bool) -> pa.Table:  # noqa: FBT001 as above
        held_ = whole() if rows else schema.empty_table()
        return held_.select([*names] or schema.names[:1])

    return _source(tuple(schema.names), table)


@source_of.register(str)
@source_of.register(Path)
def _(frame: str | Path) -> Source:
    path = Path(frame)
    with embedded() as engine:
        found = read_file(engine, path)
        kinds = dict(zip(found.columns, found.types, strict=True))
    return Source(
        tuple(kinds),
        lambda names, engine: _chosen(read_file(engine, path), names),
        lambda names, engine: twin_of(names, [kinds[name] for name in names], engine),
        lambda table: table,
        is_text(path),
    )


@source_of.register
def _(frame: duckdb.DuckDBPyRelation) -> Source:
    require_unprofiled(frame)
    kinds = dict(zip(frame.columns, frame.types, strict=True))

    def twin(names: Names, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        made = gated(twin_of(names, [kinds[name] for name in names], engine)).to_arrow_table()
        return engine.from_arrow(held(made, names))

    return Source(
        tuple(kinds),
        lambda names, engine: engine.from_arrow(
            held(gated(_chosen(frame, names)).to_arrow_table(), names)
        ),
        twin,
        lambda released: adopt(frame, Columns((), {}, [])).wrap(released),
    )


def _chosen(relation: duckdb.DuckDBPyRelation, names: Names) -> duckdb.DuckDBPyRelation:
    return relation.project(", ".join(map(quoted, names)) or NO_COLUMN)


def arrow_columns(frame: pd.DataFrame, names: Names) -> pa.Table:
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
    require_known(name, dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        values = _arrow(name, pd.Series(dtype.categories))
        codes = series.cat.codes.to_numpy()
        return values.take(pa.array(codes.astype(np.int64), mask=codes < 0))
    if pd.api.types.is_object_dtype(dtype):
        return _texts(series)
    if not _goes_as_it_is(dtype):
        raise no_type(dtype, name)
    if isinstance(dtype, np.dtype):
        is_other = dtype.kind == "f" and dtype.itemsize not in (4, 8)
        series = series.astype(np.float64 if is_other else dtype.newbyteorder("="))
    try:
        return pa.array(series, from_pandas=True)
    except UnicodeError:  # text without a UTF-8 form
        return _texts(series)


def _goes_as_it_is(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufMm"
    known = isinstance(dtype, pd.DatetimeTZDtype | pd.StringDtype | pd.ArrowDtype)
    return known or hasattr(dtype, "numpy_dtype")


def _texts(series: pd.Series[Any]) -> pa.Array:
    return pa.array([_text_of(value) for value in series], type=pa.string())


def _text_of(value: object) -> str | None:
    """Return the text of one object; None for what is missing or has no plain form."""
    known = None if type(value) is tuple or type(value) is pd.Interval else plain(value)
    if known is None:
        return None
    named = isinstance(type(known.shown), EnumMeta)  # a member's own text is its class's code
    try:
        return str(known.mark[1] if named else known.shown).encode("utf-8", "replace").decode()
    except ValueError:  # an integer of thousands of digits
        return None


def typed_frame(table: pa.Table) -> pd.DataFrame:
    """Return released rows as a pandas frame whose dtypes depend on declared types alone."""
    with suppress(ValueError):  # dates are objects, and some have no place in Python
        frame = table.to_pandas(types_mapper=NULLABLE.get)
        assert isinstance(frame, pd.DataFrame)  # noqa: S101 a table never becomes a Series
        return frame
    if table.num_columns > 1:
        alone = [typed_frame(table.select([name])) for name in table.column_names]
        return pd.concat(alone, axis=1)
    return pd.DataFrame({table.column_names[0]: pd.Series(values_of(table[0]), dtype=object)})
