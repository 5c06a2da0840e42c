"""Read protected rows through one gate: plain declared types, each value converted by itself.

A value that does not fit its declared type is NULL. What has no plain type is refused by its
declaration. Statements are planned over an empty twin that is made from the declared types: until
the release nothing meets the rows. Rows are read with DuckDB's optimizer off, unless nothing is
computed of them that could fail or be left out, so that no row changes what failing ones are worth
(docs/how-to/dfp-sql.md, docs/how-to/owned-rows.md). Arrow,
Parquet and arithmetic leave numbers in columns of times and decimals that are none; as a text, one
of them ends a query in spite of TRY, so that the gate takes them out.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.embedded import UTC, in_time_zone
from dfprivacy.engine.files import RowCondition, quoted
from dfprivacy.errors import UnsupportedDtypeError
from dfprivacy.statements.expressions import field_of
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.schema import Schema
from dfprivacy.statements.tree import Target

Names = tuple[str, ...]
NO_COLUMN = 'true AS "row"'
"""Projection for a statement that names no column."""


@dataclass(frozen=True)
class Source:
    """A relation's rows, the same columns without rows, and what makes released rows a frame.

    `columns` are all its names in order; those of a file that declares no types are `texts`.
    `kinds` are types as a catalog declares them. `rows` may leave out rows for which one of the
    conditions that follow its arguments is not true.
    """

    columns: Names
    rows: Callable[..., duckdb.DuckDBPyRelation]
    twin: Callable[[Names, duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]
    wrap: Callable[[pa.Table], Any] = lambda table: table
    texts: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    """The path of Parquet files, where they are read."""


_PLAIN = frozenset(
    (
        "boolean",
        "tinyint",
        "smallint",
        "integer",
        "bigint",
        "hugeint",
        "utinyint",
        "usmallint",
        "uinteger",
        "ubigint",
        "uhugeint",
        "float",
        "double",
        "decimal",
        "varchar",
        "blob",
        "bit",
        "uuid",
        "enum",
        "interval",
        "date",
        "time",
        "time with time zone",
        "timestamp",
        "timestamp_s",
        "timestamp_ms",
        "timestamp_ns",
        "timestamp with time zone",
        "timestamptz_ns",
        "list",
        "array",
        "struct",
        "map",
        "sqlnull",
        "null",
    )
)
"""Types whose values, as the gate reads them, end no query. A BIGNUM that is too long does."""
_NESTED = frozenset(("list", "array", "struct", "map"))


def _within_digits(sql: str, kind: Any) -> str:
    digits, scale = (size for _, size in kind.children)
    highest = f"{'9' * (digits - scale)}.{'9' * scale}"
    lowest, highest = (f"CAST('{sign}{highest}' AS {kind})" for sign in ("-", ""))
    return f"CASE WHEN {sql} BETWEEN {lowest} AND {highest} THEN {sql} END"


_MOMENT = "TRY(CAST(CAST({0} AS TIMESTAMP) + INTERVAL '0' DAY AS {1}))"
_READ: Mapping[str, Callable[[str, Any], str]] = {
    "timestamp": lambda sql, _: _MOMENT.format(sql, "TIMESTAMP"),
    "timestamp_s": lambda sql, _: _MOMENT.format(sql, "TIMESTAMP_S"),
    "timestamp_ms": lambda sql, _: _MOMENT.format(sql, "TIMESTAMP_MS"),
    "time": lambda sql, _: (
        f"CASE WHEN {sql} BETWEEN TIME '00:00:00' AND TIME '24:00:00' THEN {sql} END"
    ),
    "decimal": _within_digits,
}
"""How values are read whose type can hold numbers that are none of its values."""


def gated(
    relation: duckdb.DuckDBPyRelation, plain_columns: frozenset[str] = frozenset()
) -> duckdb.DuckDBPyRelation:
    """Return a relation whose values are those of its declared types; nothing is read.

    It is the relation itself where all its values can be read as they are. `plain_columns` have
    such values.
    """
    names, read = map(quoted, relation.columns), reads(relation.columns, relation.types)
    pairs = [
        (name if column in plain_columns else sql, name)
        for sql, name, column in zip(read, names, relation.columns, strict=True)
    ]
    if all(sql == name for sql, name in pairs):
        return relation
    return relation.project(", ".join(f"{sql} AS {name}" for sql, name in pairs))


def reads(columns: Sequence[str], kinds: Sequence[Any]) -> list[str]:
    """Return how columns of some types are read, one by one."""
    return [_read(quoted(name), kind, name) for name, kind in zip(columns, kinds, strict=True)]


def _read(sql: str, kind: Any, column: str, depth: int = 0) -> str:
    """Return how a value of a type is read; the same text where it can be read as it is."""
    if kind.id not in _PLAIN:
        raise UnsupportedDtypeError(
            f"column {column!r} is of type {str(kind.id).upper()}, and one row of it could end the "
            "query",
            hint=f"give it a plain type: ALTER TABLE t ALTER {quoted(column)} TYPE VARCHAR",
        )
    if kind.id in _READ:
        return _READ[kind.id](sql, kind)
    if kind.id not in _NESTED:
        return sql
    inner = [child for child in kind.children if child[0] != "size"]
    if kind.id == "struct":
        fields = [(name, field_of(sql, name), child) for name, child in inner]
        read = [(name, was, _read(was, child, column, depth)) for name, was, child in fields]
        if all(was == now for _, was, now in read):
            return sql
        packed = ", ".join(f"{quoted(name)} := {now}" for name, _, now in read)
        return f"CASE WHEN {sql} IS NOT NULL THEN struct_pack({packed}) END"
    element = f"each_{depth}"
    read_each = [_read(element, child, column, depth + 1) for _, child in inner]
    if read_each == [element] * len(inner):
        return sql
    if kind.id == "map":
        raise UnsupportedDtypeError(
            f"column {column!r} is a map that holds times or decimals",
            hint="take them out of it first: CREATE TABLE prepared AS SELECT ...",
        )
    return f"CAST(list_transform({sql}, lambda {element}: {read_each[0]}) AS {kind})"


def twin_of(
    names: Sequence[str], kinds: Sequence[object], engine: duckdb.DuckDBPyConnection
) -> duckdb.DuckDBPyRelation:
    """Return columns of these types without rows, on an engine that holds nothing else."""
    pairs = zip(names, kinds, strict=True)
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in pairs)
    with suppress(duckdb.Error):  # raised below, without DuckDB's words
        return engine.sql(f"SELECT {columns or NO_COLUMN} WHERE false")
    raise UnsupportedDtypeError(
        f"one of the columns {', '.join(map(repr, names))} is of a type that is not plain",
        hint="cast it first: CREATE TABLE prepared AS SELECT CAST(x AS VARCHAR) AS x FROM t",
    )


@contextmanager
def fenced(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Switch the optimizer of a caller's connection off for a block."""
    ((was_on,),) = connection.execute("SELECT current_setting('enable_optimizer')").fetchall()
    if was_on:
        connection.execute("PRAGMA disable_optimizer")
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # of one that is lost: its text could speak of a row
            if was_on:
                connection.execute("PRAGMA enable_optimizer")


def held(table: pa.Table, names: Names) -> pa.Table:
    """Return a table of Arrow types whose values have a place in DuckDB; others are NULL."""
    if not names:
        return pa.table({"row": pa.nulls(table.num_rows, pa.bool_())})
    columns = [_held(table.column(name), name) for name in names]
    return pa.table(columns, names=list(names))


def _held(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        column = pa.chunked_array(
            [pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type
        )
        return _held(column, name)
    if _is_scaled(kind):
        numbers, largest = column.cast(pa.int64()), _MOST // _PER_UNIT[kind.unit]  # too many
        is_within = pc.and_(pc.greater_equal(numbers, -largest), pc.less_equal(numbers, largest))
        column = pc.if_else(is_within, column, pa.scalar(None, kind))
        unit = pa.duration("us") if pa.types.is_duration(kind) else pa.timestamp("us", kind.tz)
        return column.cast(unit)
    plain = _decoded(kind, name)
    return column if plain == kind else column.cast(plain)


_PER_UNIT = {"s": 10**6, "ms": 10**3}
_MOST = 2**63 - 1


def _decoded(kind: pa.DataType, name: str) -> pa.DataType:
    """Return a type without dictionaries, whose entries would be part of it, at any depth."""
    if pa.types.is_dictionary(kind):
        return _decoded(kind.value_type, name)
    if pa.types.is_decimal256(kind):
        raise no_type(kind, name)
    if not pa.types.is_nested(kind):
        return pa.float32() if pa.types.is_float16(kind) else kind

    def inside(inner: pa.DataType) -> pa.DataType:
        if _is_scaled(inner) or pa.types.is_run_end_encoded(inner):
            raise no_type(inner, name)
        return _decoded(inner, name)

    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(inside(field.type)) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(inside(kind.key_type), inside(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make_list = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make_list(inside(kind.value_type))
    raise no_type(kind, name)


def _is_scaled(kind: pa.DataType) -> bool:
    """Return True for times that DuckDB turns into microseconds, where a far one overflows."""
    times = pa.types.is_timestamp(kind) and kind.tz is not None
    return (times or pa.types.is_duration(kind)) and kind.unit in _PER_UNIT


def no_type(dtype: object, name: str) -> UnsupportedDtypeError:
    """Return the error for a declared type that SQL has no plain type for."""
    return UnsupportedDtypeError(
        f"column {name!r} is declared {dtype}, or holds it, which SQL has no type for",
        hint=f"convert it first, e.g. df[{name!r}].astype(str)",
    )


_NUMBERS = itertools.count()  # of tables that are read: nothing random is drawn before a charge


@dataclass(frozen=True)
class Relation:
    """A named table or frame with a `source`, or a view with a `definition`."""

    path: tuple[str, ...]
    columns: tuple[str, ...]
    definition: str | None = None
    source: Source | None = None

    @property
    def name(self) -> str:
        """The name as a statement would write it."""
        return ".".join(self.path)

    @property
    def table(self) -> Source:
        """The source of a table or frame: views have been taken apart where rows are read."""
        assert self.source is not None  # noqa: S101 the caller knows that it is no view
        return self.source


class Place(ABC):
    """Where the relations are that a statement names, and where a table is made of its answers."""

    @abstractmethod
    def find(self, parts: tuple[str, ...], view: Relation | None = None) -> Relation:
        """Return the relation of a name, as seen from a view if it stands in one."""

    @abstractmethod
    def names(self) -> list[tuple[str, ...]]:
        """Return the names of all relations."""

    def fenced(self) -> AbstractContextManager[None]:
        """Return a block in which rows are read as the query is written: by our own engine."""
        return nullcontext()

    def stored(
        self,
        relation: Relation,
        names: tuple[str, ...],
        engine: duckdb.DuckDBPyConnection,
        conditions: Sequence[RowCondition] = (),
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return columns of a table, and the name by which `query` reads them.

        Rows for which a condition is not true may be missing.
        """
        result = relation.table.rows(names, engine, conditions)
        name = f"rows_read_{next(_NUMBERS)}"
        engine.register(name, result)  # a temporary view: it goes with the engine of the call
        return result, quoted(name)

    def lend(
        self, table: pa.Table, engine: duckdb.DuckDBPyConnection
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return a table that has been released, and the name by which `query` reads it."""
        name = f"released_{uuid4().hex}"
        engine.register(name, table)
        return engine.view(name), quoted(name)

    def take_back(self) -> None:  # noqa: B027 our own engine goes with the call
        """Take back what was lent."""

    def in_time_zone(self, name: str | None) -> AbstractContextManager[None]:
        """Return a block in which times of a zone are those of a named zone, or of UTC."""
        return in_time_zone(UTC if name is None else name)

    def check_texts(self) -> None:  # noqa: B027 there are no settings elsewhere
        """Refuse settings by which texts that differ are one."""

    def query(self, sql: str, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """Return a query of ours over tables under the names that `stored` gives them."""
        return engine.sql(sql)

    def check(self, target: Target, protected: Relation, empty: pa.Table) -> None:  # noqa: ARG002 none is made
        """Refuse a target that could not be made of released rows: without a connection, any."""
        raise refuse("CREATE without con")

    def make(self, target: Target, table: pa.Table) -> None:
        """Make a fresh table of released rows."""
        raise NotImplementedError


@dataclass
class Given:
    """A table of answers of earlier releases that a release reads, made by a `script`.

    The table has no rows until the answers are drawn; then everybody may know it. `single` says
    that it is one value. No two rows have the `unique` columns in common; None is for unknown.
    """

    name: str
    script: Any
    table: pa.Table
    single: bool
    unique: frozenset[str] | None = None
    compute: Callable[[], pa.Table] | None = None
    """Make the table of public tables alone, which everybody may know before any release."""

    @property
    def relation(self) -> Relation:
        """The table as a relation."""
        names = tuple(self.table.column_names)
        return Relation((self.name,), names, None, Source(names, self.read, self.read))

    def read(self, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection, *_: object) -> Any:
        """Return some columns on an engine."""
        return engine.from_arrow(self.columns(names))

    def columns(self, names: tuple[str, ...]) -> pa.Table:
        """Return some columns."""
        if not names:
            return pa.table({"row": pa.nulls(self.table.num_rows, pa.bool_())})
        return self.table.select(list(names))


@dataclass(frozen=True)
class Reader:
    """The settings of one reading: where tables are, and an embedded engine that parses.

    `unit` is the column that names the unit of a lone table, without a schema. `intervals` says
    whether each answer is followed by the ends of its interval. `planned` makes the table of a
    script without rows, and `givens` are those that releases take of others. `computed` makes that
    of public tables alone.
    """

    place: Place
    engine: duckdb.DuckDBPyConnection
    schema: Schema | None = None
    unit: str | None = None
    intervals: bool = False
    has_public_keys: bool = False
    planned: Callable[[Any], pa.Table] | None = None
    computed: Callable[[Any, pa.Schema], pa.Table] | None = None
    givens: dict[str, Given] = field(default_factory=dict)
