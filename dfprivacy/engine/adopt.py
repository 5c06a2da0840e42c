"""Any frame becomes one lazy narwhals frame, with a way back to the caller's own frame type."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.embedded import (
    close_connection,
    embedded_connection,
    is_text,
    opening,
    read_file,
)
from dfprivacy.engine.pandas_columns import presence_column, value_column
from dfprivacy.engine.pandas_keys import key_column
from dfprivacy.engine.quoting import quoted
from dfprivacy.engine.readable import (
    require_columns,
    require_held_times,
    require_plain_names,
)
from dfprivacy.engine.units import UNIT, UnitColumn, mark_name, unit_column
from dfprivacy.errors import UnsupportedFrameError
from dfprivacy.unit import Unit

Wrap = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class Columns:
    """The columns a release needs.

    `values` maps each aggregated column to whether its numbers are needed, or only its presence.
    `listed` has the public keys, one list a group column; empty lists where keys are secret. `unit`
    is the privacy unit, None for single rows.
    """

    keys: Sequence[Hashable]
    values: Mapping[Hashable, bool]
    listed: Sequence[Sequence[object]]
    unit: Unit | None = None

    def names(self) -> list[Hashable]:
        """Return every column named."""
        units = [] if self.unit is None else [self.unit.column]
        return [*self.keys, *self.values, *units]


@dataclass(frozen=True)
class Adopted:
    """A frame as the engine pass sees it.

    `lazy` has the group keys under `keys`, each value column under `values` and the privacy units
    under the name in `unit`. `listed` has the public keys as the engine sees them. `wrap` turns a
    released Arrow table, whose first columns are the keys, into the caller's own frame type.
    `connection` is the embedded one, if any: it lives as long as the pass. A frame that
    `reads_once` may run dry in its first pass; one `from_files` may be larger than memory.
    """

    lazy: nw.LazyFrame[Any]
    keys: Sequence[str]
    values: Mapping[Hashable, str]
    listed: Sequence[Sequence[object]]
    wrap: Wrap
    unit: UnitColumn | None = None
    connection: duckdb.DuckDBPyConnection | None = None
    reads_once: bool = False
    from_files: bool = False

    def holds_integers(self, column: Hashable) -> bool:
        """Tell whether a column is declared to hold integers or booleans."""
        dtype = self.lazy.collect_schema()[self.values[column]]
        return dtype.is_integer() or dtype == nw.Boolean

    def rows(self) -> nw.LazyFrame[Any]:
        """Return the frame as one that hands over its rows, not sums of them.

        Raises
        ------
        UnsupportedFrameError
            When the frame lies on a cluster, whose rows stay where they are.
        """
        if self.lazy.implementation.is_spark_like():
            raise UnsupportedFrameError(
                "this needs the rows themselves, and those of a Spark frame stay on its cluster",
                hint="ask about a file of the columns: frame.select(...).write.parquet(path)",
            )
        return self.lazy

    def close(self) -> None:
        """Give up the embedded connection; what the caller brought stays open."""
        if self.connection is not None:
            close_connection(self.connection)


_ENGINES_APART = {
    "ibis": "dfprivacy.engine.ibis_frames",
    "pyspark": "dfprivacy.engine.spark_frames",
}
"""Where the frames of libraries that need not be installed are adopted, registered on import."""


@singledispatch
def adopt(frame: object, columns: Columns) -> Adopted:
    """Return `frame` as a lazy narwhals frame of the columns named.

    Raises
    ------
    UnsupportedFrameError
        When the object is not a frame, relation or file that can be read.
    MissingColumnError
        When a column does not exist.
    """
    library = type(frame).__module__.partition(".")[0]
    apart = _ENGINES_APART.get(library)
    if apart is not None:
        importlib.import_module(apart)
        if adopt.dispatch(type(frame)) is not adopt.dispatch(object):
            return adopt(frame, columns)
    hint = "pass a pandas or polars frame, an Arrow table, a DuckDB relation, or the path of a "
    hint += "CSV or Parquet file"
    if library == "dask":
        hint = "make it a pandas frame, frame[columns].compute(), or write it to Parquet"
    raise UnsupportedFrameError(
        f"an object of type {type(frame).__name__} is not a frame that can be read", hint=hint
    )


def rereadable(frame: object) -> object:
    """Return a frame that several passes can read: a reader, which runs dry, becomes a table."""
    return frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame


def _named(
    lazy: nw.LazyFrame[Any],
    columns: Columns,
    wrap: Wrap,
    connection: duckdb.DuckDBPyConnection | None = None,
    names: Sequence[str] | None = None,
) -> Adopted:
    """Adopt a lazy frame, whose columns have these `names` in their order, unless its own."""
    own = lazy.collect_schema().names()
    require_columns(columns.names(), names or own)
    named = dict(zip(names or own, own, strict=True))
    values = {label: named[str(label)] for label in columns.values}
    keys = [named[str(key)] for key in columns.keys]
    unit = unit_column(columns.unit, named.get(str(columns.unit and columns.unit.column), ""))
    return Adopted(lazy, keys, values, columns.listed, wrap, unit, connection)


@adopt.register
def _(frame: pl.LazyFrame, columns: Columns) -> Adopted:
    require_plain_names(columns.names())
    return _named(nw.from_native(frame), columns, lambda table: _polars_frame(table).lazy())


@adopt.register
def _(frame: pl.DataFrame, columns: Columns) -> Adopted:
    require_plain_names(columns.names())
    return _named(nw.from_native(frame.lazy()), columns, _polars_frame)


def _polars_frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
    return frame


@adopt.register
def _(frame: duckdb.DuckDBPyRelation, columns: Columns) -> Adopted:
    adopted = _named(nw.from_native(frame), columns, partial(_duckdb_relation, frame))
    adopted = replace(adopted, reads_once=frame.type != "TABLE_RELATION")  # views can hold readers
    schema = adopted.lazy.collect_schema()
    units = [] if adopted.unit is None else [adopted.unit.name]
    named = dict.fromkeys([*adopted.keys, *units])
    texts = [name for name in named if schema[name] in (nw.String, nw.Enum, nw.Categorical)]
    if not texts:
        return adopted
    binary = (f"{quoted(name)}::VARCHAR COLLATE C AS {quoted(name)}" for name in texts)
    plain = frame.project(f"* REPLACE ({', '.join(binary)})")  # what looks different is different
    return replace(adopted, lazy=nw.from_native(plain))


def _duckdb_relation(caller: duckdb.DuckDBPyRelation, released: pa.Table) -> Any:
    """Return a released table as a relation on the caller's connection.

    The connection is reached through the relation only, which reads Python variables: the table
    stands under a name that nobody else can have while the relation is made. Where the caller has
    switched that off, the relation belongs to an embedded connection.
    """
    name = f"released_{uuid.uuid4().hex}"
    globals()[name] = released
    try:
        return caller.query("dfprivacy_caller", f"SELECT * FROM {name}")  # noqa: S608 ours
    except duckdb.CatalogException:
        return embedded_connection().from_arrow(released)
    finally:
        del globals()[name]


@adopt.register(pa.Table)
@adopt.register(pa.RecordBatchReader)
def _(frame: Any, columns: Columns) -> Adopted:
    names = frame.schema.names
    require_columns(columns.names(), names)
    require_held_times(frame.schema, columns.names())
    with opening() as connection:
        read = nw.from_native(connection.from_arrow(frame))
        adopted = _named(read, columns, _identity, connection, names)
        return replace(adopted, reads_once=isinstance(frame, pa.RecordBatchReader))


@adopt.register(str)
@adopt.register(Path)
def _(frame: str | Path, columns: Columns) -> Adopted:
    with opening() as connection:
        lazy = nw.from_native(read_file(connection, Path(frame)))
        adopted = replace(_named(lazy, columns, _identity, connection), from_files=True)
        return _with_numbers(adopted, columns) if is_text(Path(frame)) else adopted


def _with_numbers(adopted: Adopted, columns: Columns) -> Adopted:
    """Read text columns as numbers where numbers are needed; text that is none becomes NULL."""
    relation: Any = adopted.lazy.to_native()
    names, chosen = dict(adopted.values), ["*"]
    for index, (label, numbers) in enumerate(columns.values.items()):
        if numbers:
            names[label] = f"{label} as number {index}"
            number = f"TRY_CAST({quoted(str(label))} AS DOUBLE)"
            chosen.append(f"{number} AS {quoted(names[label])}")
    numbered = nw.from_native(relation.project(", ".join(chosen)))
    return replace(adopted, lazy=numbered, values=names)


def _identity(table: pa.Table) -> pa.Table:
    return table


@adopt.register
def _(frame: pd.DataFrame, columns: Columns) -> Adopted:
    require_columns(columns.names(), list(frame.columns))
    pairs = zip(columns.keys, columns.listed, strict=True)
    keys = {f"key_{index}": key_column(frame[k], li) for index, (k, li) in enumerate(pairs)}
    values = {label: f"value_{index}" for index, label in enumerate(columns.values)}
    arrow = {name: key.column for name, key in keys.items()}
    for label, numbers in columns.values.items():
        series = frame[label]
        arrow[values[label]] = value_column(label, series) if numbers else presence_column(series)
    coded = [index for index, key in enumerate(keys.values()) if key.objects is not None]
    if columns.unit is not None:
        arrow[UNIT] = key_column(frame[columns.unit.column], []).marks()
        arrow |= {mark_name(index): keys[f"key_{index}"].marks() for index in coded}
    if not arrow:
        arrow["row"] = pa.nulls(len(frame), pa.bool_())
    listed = [key.listed for key in keys.values()]

    def wrap(released: pa.Table) -> pd.DataFrame:
        names = released.column_names
        restored = [key.restore(released.column(index)) for index, key in enumerate(keys.values())]
        plain = [released.column(index).to_pandas() for index in range(len(keys), len(names))]
        return pd.DataFrame(dict(zip(names, [*restored, *plain], strict=True)))

    unit = unit_column(columns.unit, UNIT, coded)
    with opening() as connection:
        relation = nw.from_native(connection.from_arrow(pa.table(arrow)))
        return Adopted(relation, list(keys), values, listed, wrap, unit, connection)
