"""Adopt Ibis tables: those on DuckDB as its relations, others for a pass that Ibis compiles.

What backends disagree on is settled here, before the pass: NaN is NULL, text is compared byte by
byte, and columns go by their place. What a backend lacks is refused by its name or its own
declaration. docs/how-to/ibis.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import duckdb
import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import narwhals as nw
from ibis.common.exceptions import IbisError

from dfprivacy.engine import postgres
from dfprivacy.engine.adopt import Adopted, Columns, adopt, adopt_by_place
from dfprivacy.engine.columns import no_numbers, require_columns
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import UnsupportedDtypeError, UnsupportedFrameError

_BACKENDS = frozenset({"duckdb", "polars", "postgres"})
"""Backends that are tested to answer alike whatever a row holds.

On others one row can decide how others are shown, or make a query fail.
"""


def adopt_frame(frame: Any, columns: Columns) -> Adopted | None:
    """Adopt an Ibis table; return None for any other object of the library."""
    if not isinstance(frame, ir.Table):
        return None
    try:
        backend = frame.get_backend()
    except IbisError:
        backend = None
    if backend is None:  # raised here, without Ibis' own message
        raise UnsupportedFrameError(
            "this Ibis table belongs to no backend, or to several",
            hint="take it from a connection: con.table(name), con.read_parquet(path)",
        )
    if backend.name not in _BACKENDS:
        raise UnsupportedFrameError(
            f"on the Ibis backend {backend.name} one row may change the types of a result, or make "
            "a query fail",
            hint="read the table with DuckDB, ibis.duckdb.connect().read_sqlite(path, "
            "table_name=name) for SQLite, or from a Parquet file",
        )
    require_columns(columns.names(), list(frame.columns))
    if backend.name == "duckdb":
        return replace(adopt(duckdb_relation(frame, backend), columns), wrap=ibis.memtable)
    return adopt_through_ibis(frame, columns, backend)


def duckdb_relation(frame: Any, backend: Any) -> duckdb.DuckDBPyRelation:
    """Return an Ibis table on DuckDB as a relation of the same connection, with no row read."""
    _register_memory(frame)
    relation: duckdb.DuckDBPyRelation = backend.con.sql(backend.compile(frame))
    return relation


def _register_memory(frame: Any) -> None:
    """Let Ibis register what lives in memory, as it does when a query runs."""
    if frame.op().find((ops.InMemoryTable, ops.ScalarUDF)):
        frame.limit(0).count().to_pyarrow()


def adopt_through_ibis(frame: Any, columns: Columns, backend: Any) -> Adopted:
    """Adopt a table of a tested backend; refuse one that lacks what limits of a unit need."""
    if columns.unit is not None:
        lacking = [
            name
            for name, operation in (("hash", ops.Hash), ("window", ops.WindowFunction))
            if not backend.has_operation(operation)
        ]
        if lacking:
            raise UnsupportedFrameError(
                f"the Ibis backend {backend.name} has no {' and no '.join(lacking)} functions, "
                "which limits of a unit need",
                hint="hand over the table itself, dfp.frame(table.to_pyarrow()), or leave out "
                "unit=",
            )
    adopted, grouped = adopt_by_place(columns, ibis.memtable)  # which every backend reads
    if backend.name == "postgres":
        return run_guarded(lambda: _adopt_postgres(frame, adopted, columns, grouped))
    chosen = {name: _plain(frame, label, backend) for label, name in adopted.values.items()}
    for name, label in grouped.items():
        chosen[name] = _key(frame, label, backend, hashed=columns.unit is not None)
    return replace(adopted, lazy=nw.from_native(frame.select(**chosen or {"row": ibis.literal(1)})))


def _adopt_postgres(
    frame: Any, adopted: Adopted, columns: Columns, grouped: Mapping[str, Hashable]
) -> Adopted:
    """Return an Ibis table on PostgreSQL with its columns in forms that fail for no row."""
    backend = frame.get_backend()
    postgres.check_server(backend)
    _register_memory(frame)
    labels = list(dict.fromkeys(columns.names()))
    frame = frame.select(*labels or [ibis.literal(1).name("row")])
    for label, kind in frame.schema().items():
        if kind.is_geospatial():  # which Ibis hands over by functions that not all servers have
            raise no_numbers(label, kind)
    declared = postgres.find_declared_types(frame)
    forms = {
        adopted.values[label]: postgres.find_value_form(
            label, declared[label], frame.schema()[label], numbers=numbers
        )
        for label, numbers in columns.values.items()
    }
    for name, label in grouped.items():
        forms[name] = postgres.find_key_form(label, declared[label])
    forms = forms or {"row": postgres.Form("1", "int64")}
    chosen = ", ".join(f"{form.sql} AS {name}" for name, form in forms.items())
    query = f"SELECT {chosen} FROM ({backend.compile(frame)}) AS t"  # noqa: S608 ours
    table = backend.sql(query, schema={name: form.kind for name, form in forms.items()})
    return replace(adopted, lazy=nw.from_native(table))


def _plain(frame: Any, label: Hashable, backend: Any) -> Any:
    """Return a column with NULL for NaN, so that no backend has to compare with it."""
    column = frame[label]
    if column.type().is_floating() and backend.has_operation(ops.IsNan):
        return column.isnan().ifelse(ibis.null(column.type()), column)
    return column


def _key(frame: Any, label: Hashable, backend: Any, *, hashed: bool) -> Any:
    """Return a column to group by, by its bytes and not by a collation."""
    column = _plain(frame, label, backend)
    kind = column.type()
    if kind.is_interval() or (hashed and kind.is_binary()):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which can't be told apart on the backend "
            f"{backend.name}",
            hint="group by text, numbers, dates or times",
        )
    return column.concat("") if kind.is_string() else column  # no column's collation
