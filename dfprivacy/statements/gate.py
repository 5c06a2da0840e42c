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
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from enum import EnumMeta
from functools import cache, cached_property, partial, singledispatch
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.columns import duckdb_duration
from dfprivacy.engine.connections import (
    TELLS,
    find_hiding_function,
    require_plain_connection,
)
from dfprivacy.engine.embedded import UTC, in_time_zone, open_embedded, set_time_zone
from dfprivacy.engine.files import (
    DataFiles,
    RowCondition,
    declare_file,
    find_durations,
    list_data_files,
    quote,
    read_file,
    require_same_durations,
)
from dfprivacy.engine.objects import plain
from dfprivacy.engine.pandas import NULLABLE, require_known
from dfprivacy.engine.returning import list_values
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.snapshots import Snapshot, require_no_table
from dfprivacy.engine.text_files import TextFile
from dfprivacy.errors import (
    DPError,
    EngineError,
    MissingColumnError,
    OutputError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.release.terms import Unit
from dfprivacy.statements.expressions import write_field
from dfprivacy.statements.nodes import Target, fold_name
from dfprivacy.statements.rules import nearly, refuse, refuse_part, words
from dfprivacy.statements.schema import Schema

Names = tuple[str, ...]
NO_COLUMN = 'true AS "row"'
"""Projection for a statement that names no column."""
TEXT = "text of a file"
"""The type of a column of a file that declares no types: its text can stand for a number."""
RANKED = "ENUM"
"""The type of categories of a frame that have an order: they are read as texts."""


@dataclass(frozen=True)
class Source:
    """A relation's rows, the same columns without rows, and what makes released rows a frame.

    `columns` are all its names in order. `kinds` are types as a catalog declares them, `RANKED` for
    categories of a frame that have an order, or `TEXT` where a file declares none. `rows` may
    leave out rows for which one of the conditions that follow its arguments is not true.
    """

    columns: Names
    rows: Callable[..., duckdb.DuckDBPyRelation]
    twin: Callable[[Names, duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]
    wrap: Callable[[pa.Table], Any] = lambda table: table
    kinds: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    """The path of files, where they are read."""
    collated: Names = ()
    """Texts that a catalog declares with a collation: a statement compares them without."""


_PLAIN = words(
    "boolean,tinyint,smallint,integer,bigint,hugeint,utinyint,usmallint,uinteger,ubigint,uhugeint,"
    "float,double,decimal,varchar,blob,bit,uuid,enum,interval,date,time,time with time zone,"
    "timestamp,timestamp_s,timestamp_ms,timestamp_ns,timestamp with time zone,timestamptz_ns,"
    "list,array,struct,map,sqlnull,null",
    ",",
)
"""Types whose values, as the gate reads them, end no query. A BIGNUM that is too long does."""
_NESTED = words("list array struct map")


def _within_digits(sql: str, kind: Any) -> str:
    digits, scale = (size for _, size in kind.children)
    highest = f"{'9' * (digits - scale)}.{'9' * scale}"
    lowest, highest = (f"CAST('{sign}{highest}' AS {kind})" for sign in ("-", ""))
    return f"CASE WHEN {sql} BETWEEN {lowest} AND {highest} THEN {sql} END"


_READ: Mapping[str, Callable[[str, Any], str]] = {
    **dict.fromkeys(
        ("timestamp", "timestamp_s", "timestamp_ms"),
        lambda sql, kind: f"TRY(CAST(CAST({sql} AS TIMESTAMP) + INTERVAL '0' DAY AS {kind}))",
    ),
    "time": lambda sql, _: (
        f"CASE WHEN {sql} BETWEEN TIME '00:00:00' AND TIME '24:00:00' THEN {sql} END"
    ),
    "decimal": _within_digits,
}
"""How values are read whose type can hold numbers that are none of its values."""


def gate_rows(
    relation: duckdb.DuckDBPyRelation, plain_columns: Collection[str] = ()
) -> duckdb.DuckDBPyRelation:
    """Return a relation whose values are those of its declared types; nothing is read.

    It is the relation itself where all its values can be read as they are. `plain_columns` have
    such values.
    """
    read = reads(relation.columns, relation.types)
    read |= {name: quote(name) for name in read if name in plain_columns}
    if all(sql == quote(name) for name, sql in read.items()):
        return relation
    return relation.project(", ".join(f"{sql} AS {quote(name)}" for name, sql in read.items()))


def reads(columns: Sequence[str], kinds: Sequence[Any]) -> dict[str, str]:
    """Return how columns of some types are read, each by its name."""
    pairs = zip(columns, kinds, strict=True)
    return {name: _read(quote(name), kind, name) for name, kind in pairs}


def _read(sql: str, kind: Any, column: str, depth: int = 0) -> str:
    """Return how a value of a type is read; the same text where it can be read as it is."""
    if kind.id not in _PLAIN:
        raise UnsupportedDtypeError(
            f"column {column!r} is of type {str(kind.id).upper()}, and one row of it could end the "
            "query",
            hint=f"give it a plain type: ALTER TABLE t ALTER {quote(column)} TYPE VARCHAR",
        )
    if kind.id in _READ:
        return _READ[kind.id](sql, kind)
    if kind.id not in _NESTED:
        return sql
    inner = [child for child in kind.children if child[0] != "size"]
    if kind.id == "struct":
        fields = [write_field(sql, name) for name, _ in inner]
        read = [_read(f, child, column, depth) for f, (_, child) in zip(fields, inner, strict=True)]
        if read == fields:
            return sql
        named = zip(inner, read, strict=True)
        packed = ", ".join(f"{quote(name)} := {field}" for (name, _), field in named)
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


def build_twin(
    names: Sequence[str], kinds: Sequence[object], engine: duckdb.DuckDBPyConnection
) -> duckdb.DuckDBPyRelation:
    """Return columns of these types without rows, on an engine that holds nothing else."""
    pairs = zip(names, kinds, strict=True)
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in pairs)
    with suppress(duckdb.Error):  # raised below, without DuckDB's words
        return engine.sql(f"SELECT {columns or NO_COLUMN} WHERE false")
    raise UnsupportedDtypeError(
        f"one of the columns {', '.join(map(repr, names))} is of a type that is not plain",
        hint="cast it first: CREATE TABLE prepared AS SELECT CAST(x AS VARCHAR) AS x FROM t",
    )


def fit_values(table: pa.Table, names: Names) -> pa.Table:
    """Return a table of Arrow types whose values have a place in DuckDB; others are NULL."""
    if not names:
        return pa.table({"row": pa.nulls(table.num_rows, pa.bool_())})
    columns = [_decode_column(table.column(name), name) for name in names]
    return pa.table(columns, names=list(names))


def _decode_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        column = pa.chunked_array(
            [pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type
        )
        return _decode_column(column, name)
    if _is_scaled(kind):
        numbers, largest = column.cast(pa.int64()), _MOST // _PER_UNIT[kind.unit]  # too many
        is_within = pc.and_(pc.greater_equal(numbers, -largest), pc.less_equal(numbers, largest))
        column = pc.if_else(is_within, column, pa.scalar(None, kind))
        unit = pa.duration("us") if pa.types.is_duration(kind) else pa.timestamp("us", kind.tz)
        return column.cast(unit)
    plain = _remove_dictionaries(kind, name)
    with suppress(pa.ArrowNotImplementedError):  # by the types alone
        return column if plain == kind else column.cast(plain)
    raise no_type(kind, name)


_PER_UNIT = {"s": 10**6, "ms": 10**3}
_MOST = 2**63 - 1


def _remove_dictionaries(kind: pa.DataType, name: str) -> pa.DataType:
    """Return a type without dictionaries, whose entries would be part of it, at any depth."""
    if pa.types.is_dictionary(kind):
        return _remove_dictionaries(kind.value_type, name)
    if pa.types.is_decimal256(kind):
        raise no_type(kind, name)
    if not pa.types.is_nested(kind):
        return pa.float32() if pa.types.is_float16(kind) else kind

    def inside(inner: pa.DataType) -> pa.DataType:
        if _is_scaled(inner) or pa.types.is_run_end_encoded(inner):
            raise no_type(inner, name)
        return _remove_dictionaries(inner, name)

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

    def read(self, names: Names, engine: duckdb.DuckDBPyConnection, *_: object) -> Any:
        """Return some columns on an engine."""
        return engine.from_arrow(fit_values(self.table, names))


@dataclass(frozen=True)
class Reader:
    """The settings of one reading: where tables are, and an embedded engine that parses.

    `unit` has the limits of the unit; without a schema its column is one of a lone table.
    `intervals` says whether each answer is followed by the ends of its interval. `planned` makes
    the table of a script without rows, and `givens` are those that releases take of others.
    `computed` makes that of public tables alone.
    """

    source: Place
    engine: duckdb.DuckDBPyConnection
    schema: Schema | None = None
    unit: Unit | None = None
    intervals: bool = False
    has_public_keys: bool = False
    planned: Callable[[Any], pa.Table] | None = None
    computed: Callable[[Any, pa.Schema], pa.Table] | None = None
    givens: dict[str, Given] = field(default_factory=dict)


_BY_NAME = "dfp.sql('SELECT dp_count(*) FROM t', t=frame)"
_TEMPORARY = ("temp", "main")

_NAME = r'"(?:[^"]|"")*"|[^".,]+'
_ENTRY = re.compile(rf"(?:({_NAME})\.)?({_NAME})(?:,|\Z)")
_WORD = r'(?:"(?:[^"]|"")*"|\w+)'
_FILE_VIEW = re.compile(
    rf"CREATE (?:TEMP )?VIEW (?:{_WORD}\.){{0,2}}{_WORD} AS SELECT \* FROM "  # noqa: S608 a pattern
    r"(?:\"(?P<name>[^\"\n]+\.parquet)\"|(?:read_parquet|parquet_scan)\('(?P<file>(?:[^']|'')+)'\));"
)
"""The text that DuckDB keeps of a view of all columns of Parquet files."""
_MEANINGS = {
    "default_collation": ("",),
    "default_null_order": ("NULLS_LAST",),
    "default_order": ("ASC", "ASCENDING"),
    "disable_timestamptz_casts": ("false",),
    "integer_division": ("false",),
}
"""Settings that may give texts, orders, times or quotients another meaning; values that do not."""
_SETTINGS = (
    "SELECT current_setting('Calendar'), current_setting('lock_configuration') AND "
    f"current_setting('enable_optimizer'), {TELLS}, "
    + ", ".join(f"CAST(current_setting('{name}') AS VARCHAR)" for name in _MEANINGS)
)
_LOOKS_IN = (
    "SELECT current_database(), current_schema(), current_setting('search_path'), "
    "current_schemas(false)"
)
_RELATIONS = """
    SELECT database_name, schema_name, table_name, false,
        CASE WHEN sql LIKE '% COLLATE %' THEN sql ELSE '' END FROM duckdb_tables()
    UNION ALL SELECT database_name, schema_name, view_name, true, ''
    FROM duckdb_views() WHERE NOT internal
"""
"""All tables and views, with the text of tables that have a collation.

What else is known of one is asked of that one alone, which is faster.
"""
SYSTEMS = "SELECT database_name, type FROM duckdb_databases()"
_DEFINITION = """
    SELECT coalesce(sql, '') FROM duckdb_views() WHERE database_name COLLATE "binary" = ?
    AND schema_name COLLATE "binary" = ? AND view_name COLLATE "binary" = ?
"""
_COLUMNS = """
    SELECT column_name, data_type, is_generated FROM duckdb_columns()
    WHERE database_name COLLATE "binary" = ? AND schema_name COLLATE "binary" = ?
    AND table_name COLLATE "binary" = ? ORDER BY column_index
"""
_FILES = "FROM glob(?) WHERE current_setting('file_search_path') = '' ORDER BY file"
"""The files that DuckDB reads for a path, but none where paths begin in other folders as well."""
_REFERRED_TO = """
    SELECT count(*) FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'
    AND database_name = ? AND schema_name = ? AND referenced_table = ? AND table_name != ?
"""


class _Entry(NamedTuple):
    """A table or view of a catalog. A table with a collation has its text."""

    database: str
    schema: str
    name: str
    is_view: bool
    text: str

    @property
    def path(self) -> Names:
        """The names by which it is found."""
        return self[:3]


def look_up(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[str] = ()
) -> list[Any]:
    """Return the rows of a query of the catalog."""
    with suppress(duckdb.Error):
        return connection.execute(query, list(parameters)).fetchall()
    raise EngineError(
        "the connection can't be used: it is closed, busy, or in a transaction that has failed",
        hint="fetch what it still holds, con.rollback(), or pass a connection of its own",
    )


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


@dataclass(frozen=True)
class Place:
    """Where the relations are that a statement names, and where a table is made of its answers.

    This one has frames by name. A release reads them with our own engine.
    """

    frames: Mapping[str, object] = field(default_factory=dict)
    seen: dict[Any, Any] = field(default_factory=dict)
    """Relations and sources that have been looked up: one statement sees the same."""

    def find(self, parts: Names, view: Relation | None = None) -> Relation:  # noqa: ARG002 no views
        """Return the relation of a name, as seen from a view if it stands in one."""
        names = {fold_name(name): name for name in self.frames}
        name = names.get(fold_name(parts[0])) if len(parts) == 1 else None
        if name is None:
            names_of_frames = ", ".join(map(repr, self.frames))
            raise refuse("no frame", name=".".join(parts), known=names_of_frames)
        source = self.seen.setdefault(name, open_frame_source(self.frames[name]))
        if len({fold_name(column) for column in source.columns}) < len(source.columns):
            raise MissingColumnError(
                "two columns of the frame have names that are one to SQL",
                hint="rename them: SQL does not tell x from X",
            )
        return Relation((name,), source.columns, None, source)

    def names(self) -> list[Names]:
        """Return the names of all relations."""
        return [(name,) for name in self.frames]

    def fence(self) -> AbstractContextManager[None]:
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
        return result, quote(name)

    def lend(
        self, table: pa.Table, engine: duckdb.DuckDBPyConnection
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return a table that has been released, and the name by which `query` reads it."""
        name = f"released_{uuid4().hex}"
        engine.register(name, table)
        return engine.view(name), quote(name)

    def take_back(self) -> None:
        """Take back what was lent."""

    def in_time_zone(self, name: str | None) -> AbstractContextManager[None]:
        """Return a block in the named zone, in the one that all times declare, or in UTC."""
        zones = set[str]()
        for frame in self.frames.values():
            kinds: Iterable[Any] = ()
            if isinstance(frame, pd.DataFrame):
                kinds = [getattr(kind, "pyarrow_dtype", kind) for kind in frame.dtypes]
            elif isinstance(frame, pl.DataFrame | pl.LazyFrame):
                kinds = frame.lazy().collect_schema().values()
            elif isinstance(frame, pa.Table | pa.RecordBatchReader):
                kinds = frame.schema.types
            declared = (getattr(k, "tz", None) or getattr(k, "time_zone", None) for k in kinds)
            zones |= {str(zone) for zone in declared if zone}
        zones = {zone for zone in zones if not {":", "("} & {*zone}}  # no offsets such as +01:00
        if name is None:
            name = zones.pop() if len(zones) == 1 else UTC
        return in_time_zone(name)

    def query(self, sql: str, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """Return a query of ours over tables under the names that `stored` gives them."""
        return engine.sql(sql)

    def check(self, target: Target, protected: Relation, empty: pa.Table) -> None:  # noqa: ARG002 none is made
        """Refuse a target that could not be made of released rows: without a connection, any."""
        raise refuse("CREATE without con")

    def make(self, target: Target, table: pa.Table) -> None:
        """Make a fresh table of released rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class ConnectionSource(Place):
    """The tables and views of a connection."""

    connection: duckdb.DuckDBPyConnection = field(kw_only=True)
    lent: list[str] = field(default_factory=list)
    has_snapshot: bool = False
    """True if the transaction of the connection is the statement's own."""

    def find(self, parts: Names, view: Relation | None = None) -> Relation:
        """Return the table or view of a name, in the order in which DuckDB looks for it."""
        matches = self._find_relations(parts[-1], parts[:-1], view)
        if not matches and ("." in parts[-1] or "/" in parts[-1]):
            raise refuse("file as a table", name=".".join(parts))
        if not matches:
            close = nearly(parts[-1], [entry.name for entry in self._relations])
            raise refuse("no such table", name=".".join(parts), near=close)
        if view is not None and len(parts) == 2 and len(matches) > 1:
            raise refuse("tables of one name", name=".".join(parts))
        if self._systems.get(matches[0].database) != "duckdb":
            raise refuse("another system", name=".".join(parts))
        if matches[0] not in self.seen:
            self.seen[matches[0]] = self._relation(matches[0])
        relation: Relation = self.seen[matches[0]]
        return relation

    def names(self) -> list[Names]:
        """Return the names of all tables and views."""
        return [entry.path for entry in self._relations]

    def _relation(self, entry: _Entry) -> Relation:
        """Return a table or view."""
        path = entry.path
        columns = look_up(self.connection, _COLUMNS, path)
        kinds = {name: kind for name, kind, _ in columns}
        if entry.is_view:
            ((definition,),) = look_up(self.connection, _DEFINITION, path)
            view = Relation(path, tuple(kinds), definition)
            files = self._find_files(view, definition, kinds)
            return view if files is None else Relation(path, files.columns, None, files)
        computed = {name for name, _, is_generated in columns if is_generated}

        def twin(names: Names, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
            for column in computed.intersection(names):
                raise refuse("GENERATED", own=column)
            return build_twin(names, [kinds[column] for column in names], engine)

        def rows(names: Names, _: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
            chosen = ", ".join(map(quote, names)) or NO_COLUMN
            return self.connection.sql(f"SELECT {chosen} FROM {'.'.join(map(quote, path))}")  # noqa: S608 names are quoted

        names = tuple(kinds)
        spellings = {name: f"[( ]{re.escape(name)}|{re.escape(quote(name))}" for name in names}
        collated = tuple(
            n for n in names if re.search(f"({spellings[n]}) VARCHAR COLLATE ", entry.text)
        )
        source = Source(names, rows, twin, kinds=kinds, collated=collated)
        return Relation(path, names, None, source)

    def _find_files(
        self, view: Relation, definition: str, kinds: Mapping[str, str]
    ) -> Source | None:
        """Return the Parquet files that a view shows with all their columns; None for other views.

        The files are those that the connection finds for it. Views with options are other views. So
        are those whose columns have other types: the reader takes keys of directories as texts.
        """
        match = _FILE_VIEW.fullmatch(definition)
        if match is None:
            return None
        file = match["name"] or match["file"].replace("''", "'")
        if "://" in file or self._find_relations(file, (), view):
            return None
        with suppress(DPError):  # of files that are not there: the view is refused where it is read
            files = [Path(name) for (name,) in look_up(self.connection, _FILES, (file,))]
            if not files:
                return None
            require_no_table(files)
            source = open_frame_source(DataFiles(Path(file), files))
            types = source.twin(source.columns, self.connection).types
            if [*zip(source.columns, map(str, types), strict=True)] == [*kinds.items()]:
                return source
        return None

    def stored(
        self,
        relation: Relation,
        names: Names,
        engine: duckdb.DuckDBPyConnection,
        conditions: Sequence[RowCondition] = (),
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return columns of a table, and its name: files have one until it is taken back."""
        if relation.table.path is None:
            return relation.table.rows(names, engine), ".".join(map(quote, relation.path))
        rows = relation.table.rows(names, self.connection, conditions)
        return rows, self._register(f"dfprivacy_rows_{next(_NUMBERS)}", rows)

    def _register(self, name: str, rows: object) -> str:
        """Give rows a name on the connection until it is taken back."""
        self.connection.register(name, rows)
        self.lent.append(name)
        return f"temp.main.{quote(name)}"

    def lend(
        self, table: pa.Table, engine: duckdb.DuckDBPyConnection
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return a released table, and its name on the connection, until it is taken back."""
        return engine.from_arrow(table), self._register(f"released_{uuid4().hex}", table)

    def take_back(self) -> None:
        """Take back what was lent."""
        while self.lent:
            self._unregister(self.lent.pop())

    def _unregister(self, name: str) -> None:
        with suppress(duckdb.Error):  # of a transaction that has failed: the table ends with it
            self.connection.unregister(name)

    def _end_failed_snapshot(self) -> None:
        """End the statement's own transaction after an error: it may be one that has failed."""
        if self.has_snapshot:
            with suppress(duckdb.Error):  # it has ended before
                self.connection.commit()

    @contextmanager
    def in_time_zone(self, name: str | None) -> Iterator[None]:
        """Use the connection's own time zone within a block, or set the named one meanwhile."""
        ((before,),) = look_up(self.connection, "SELECT current_setting('TimeZone')")
        if name is not None:
            set_time_zone(self.connection, name)
        try:
            with in_time_zone(before if name is None else name):
                yield
        except BaseException:
            self._end_failed_snapshot()
            raise
        finally:
            if name is not None:
                with suppress(DPError):  # of a connection that is lost
                    set_time_zone(self.connection, before)

    def query(self, sql: str, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:  # noqa: ARG002 it runs here
        """Return a query of ours over the connection's tables."""
        return self.connection.sql(sql)

    @cached_property
    def _relations(self) -> list[_Entry]:
        """The tables and views that there are, as one statement sees them."""
        return [_Entry(*row) for row in look_up(self.connection, _RELATIONS)]

    @cached_property
    def _systems(self) -> dict[str, str]:
        """The kinds of database systems by the names of attached databases."""
        return dict(look_up(self.connection, SYSTEMS))

    @cached_property
    def _looked_in(self) -> tuple[str, list[tuple[str, str]]]:
        """The current database, and the databases and schemas in which plain names are.

        A database that the search path does not name is "": names in it don't find that schema.
        """
        ((database, schema, text, schemas),) = look_up(self.connection, _LOOKS_IN)
        if not schemas:
            return database, [(database, schema)]
        places = [(_plain(base), _plain(two)) for base, two in _ENTRY.findall(text)]
        if [entry[1] for entry in places] != list(schemas):
            raise refuse_part("a search_path with such names")
        return database, places

    def _find_relations(self, name: str, qualifier: Names, view: Relation | None) -> list[_Entry]:
        """Return relations of a name, those first that DuckDB would find first."""
        inside, places, database = [] if view is None else [view.path[:2]], [qualifier], ""
        if not qualifier:
            database, looked_in = self._looked_in
            places = [_TEMPORARY, *inside, *looked_in, (database, "main")]
        elif len(qualifier) == 1:
            database, looked_in = self._looked_in
            (outer,) = qualifier
            around = (_TEMPORARY, *looked_in)
            places = [path for path in around if fold_name(outer) in map(fold_name, path)]
            places += [(database_name, outer) for database_name, _ in inside]
            places += [(database, outer), (outer, "main"), ("temp", outer)]
        places = [(base or database, *others) for base, *others in places]
        named = [entry for entry in self._relations if fold_name(entry.name) == fold_name(name)]
        in_order = dict.fromkeys(tuple(map(fold_name, path)) for path in places)
        return [e for at in in_order for e in named if at == tuple(map(fold_name, e.path[:2]))]

    @contextmanager
    def fence(self) -> Iterator[None]:
        """Switch the optimizer of the connection off for a block: rows are read as written."""
        query = "SELECT current_setting('enable_optimizer')"
        ((was_on,),) = self.connection.execute(query).fetchall()
        if was_on:
            self.connection.execute("PRAGMA disable_optimizer")
        try:
            yield
        except BaseException:
            self._end_failed_snapshot()
            raise
        finally:
            with suppress(duckdb.Error):  # of one that is lost: its text could speak of a row
                if was_on:
                    self.connection.execute("PRAGMA enable_optimizer")

    def check(self, target: Target, protected: Relation, empty: pa.Table) -> None:
        """Refuse a target that could not be made of the released rows, before anything is spent."""
        matches = self._find_relations(target.path[-1], target.path[:-1], None)
        if any(entry.path == protected.path for entry in matches):
            raise refuse("protected target")
        # tables in other schemas do not matter
        candidates = matches if target.temporary else matches[:1]
        existing = next((e for e in candidates if (e.database == "temp") == target.temporary), None)
        if existing is not None:
            if existing.is_view or not target.replaces:
                shown = "a view" if existing.is_view else "one"
                raise refuse("taken target", name=target.name, one=shown)
            if look_up(self.connection, _REFERRED_TO, (*existing.path, existing.name)) != [(0,)]:
                raise refuse("foreign key", name=target.name)
        with suppress(duckdb.Error):
            self._create(target, empty, "EXPLAIN ")
            return
        raise refuse("no target", name=target.name)

    def _create(self, target: Target, table: pa.Table, explain: str = "") -> None:
        """Make a table of released rows, or only explain how."""
        name = f"released_{uuid4().hex}"
        start = f"CREATE {'OR REPLACE ' * target.replaces}{'TEMP ' * target.temporary}TABLE"
        path, source = ".".join(map(quote, target.path)), f"temp.main.{quote(name)}"
        self.connection.register(name, table)
        try:
            self.connection.execute(f"{explain}{start} {path} AS SELECT * FROM {source}")  # noqa: S608 names are quoted
        finally:
            self._unregister(name)

    def make(self, target: Target, table: pa.Table) -> None:
        """Make a fresh table of released rows; an error hands them over, as they are paid for."""
        with suppress(EngineError):
            run_guarded(lambda: self._create(target, table))
            if self.has_snapshot:
                run_guarded(self.connection.commit)
            return
        raise OutputError(
            f"CREATE TABLE {target.name}: what else is under way in the database does not allow it",
            hint="the rows are released and charged: they are the error's own `released`",
            released=table,
        )


@contextmanager
def open_place(connection: object, frames: Mapping[str, object]) -> Iterator[Place]:
    """Lend the tables of a connection to a block, or frames by name where there is none.

    The connection is one thread's alone in the block, and another one's statement waits: each would
    take what the other has looked up for its own, and switch settings among its rows. What is
    looked up and what is read are of one moment, that of a transaction: the caller's, or else one
    of the block.
    """
    if connection is None:
        yield Place(frames)
        return
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        raise UnsupportedFrameError(
            f"con= is no DuckDB connection, but an object of type {type(connection).__name__}",
            hint=f"pass con=duckdb.connect('file.db'), or frames by name: {_BY_NAME}",
        )
    with _TURNS.setdefault(connection, RLock()):
        first, second = (look_up(connection, _TRANSACTION) for _ in range(2))
        if is_own := first != second:
            connection.begin()
        try:
            yield connection_source(connection, has_snapshot=is_own)
        finally:
            if is_own:
                with suppress(duckdb.Error):  # it has ended before
                    connection.commit()


_TURNS: WeakKeyDictionary[duckdb.DuckDBPyConnection, RLock] = WeakKeyDictionary()
_TRANSACTION = "SELECT system.main.txid_current()"
"""The number of the transaction that a statement belongs to. Without one each has its own."""


def connection_source(
    connection: duckdb.DuckDBPyConnection, *, has_snapshot: bool = False
) -> ConnectionSource:
    """Return a connection as a source."""
    rule, name = find_hiding_function(partial(look_up, connection))
    if rule:
        raise refuse(rule, name=name, quoted=quote(name))
    ((calendar, locked, telling, *values),) = look_up(connection, _SETTINGS)
    if calendar != "gregorian":
        raise refuse("calendar")
    if locked:
        raise refuse("locked")
    if telling:
        raise refuse("profiling")
    for (name, usual), value in zip(_MEANINGS.items(), values, strict=True):
        if value not in usual:
            raise refuse("setting", name=name, value=value)
    return ConnectionSource(connection=connection, has_snapshot=has_snapshot)


@singledispatch
def open_frame_source(frame: object) -> Source:
    """Return a frame as a source."""
    raise UnsupportedFrameError(
        f"an object of type {type(frame).__name__} is not a frame that can be read",
        hint="pass a pandas or polars frame, an Arrow table, a DuckDB relation, or the path of a "
        "CSV or Parquet file",
    )


def _source(
    columns: Names,
    table: Callable[[Names, bool], pa.Table],
    wrap: Callable[[pa.Table], Any] = lambda table: table,
    ranked: Iterable[str] = (),
) -> Source:
    """Return a source that hands named columns over as a table, with or without rows."""
    return Source(
        columns,
        lambda names, engine, *_: engine.from_arrow(fit_values(table(names, True), names)),  # noqa: FBT003 rows
        lambda names, engine: engine.from_arrow(fit_values(table(names, False), names)),  # noqa: FBT003 none
        wrap,
        dict.fromkeys(ranked, RANKED),
    )


@open_frame_source.register
def _(frame: pd.DataFrame) -> Source:
    return _source(
        tuple(str(name) for name in frame.columns if isinstance(name, str)),
        lambda names, rows: arrow_columns(frame if rows else frame.iloc[:0], names),
        type_frame,
        (str(name) for name, kind in frame.dtypes.items() if getattr(kind, "ordered", False)),
    )


@open_frame_source.register(pl.LazyFrame)
@open_frame_source.register(pl.DataFrame)
def _(frame: pl.LazyFrame | pl.DataFrame) -> Source:
    lazy, schema = frame.lazy(), frame.lazy().collect_schema()
    refused = (pl.Object, pl.Int128, pl.UInt128)
    plain = [name for name, kind in schema.items() if kind not in refused]

    def table(names: Names, rows: bool) -> pa.Table:  # noqa: FBT001 as above
        for name in names:
            if name not in plain:
                raise UnsupportedDtypeError(
                    f"column {name!r} is declared {schema[name]}, which SQL does not read",
                    hint=f"cast it first, e.g. pl.col({name!r}).cast(pl.String)",
                )
        read = lazy if rows else pl.LazyFrame(schema=schema)
        return read.select([*names] or plain[:1]).collect(engine="streaming").to_arrow()

    def wrap(released: pa.Table) -> pl.LazyFrame | pl.DataFrame:
        polars_frame = pl.DataFrame(released)
        return polars_frame if isinstance(frame, pl.DataFrame) else polars_frame.lazy()

    return _source(tuple(schema), table, wrap, (n for n in schema if schema[n] == pl.Enum))


@open_frame_source.register(pa.Table)
@open_frame_source.register(pa.RecordBatchReader)
def _(frame: pa.Table | pa.RecordBatchReader) -> Source:
    schema = frame.schema

    @cache  # a reader gives its rows once
    def read_rows() -> pa.Table:
        return frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame

    def table(names: Names, rows: bool) -> pa.Table:  # noqa: FBT001 as above
        result = read_rows() if rows else schema.empty_table()
        return result.select([*names] or schema.names[:1])

    return _source(tuple(schema.names), table)


@open_frame_source.register(Path)
@open_frame_source.register(TextFile)
@open_frame_source.register(Snapshot)
@open_frame_source.register(DataFiles)
def _(path: Path | TextFile | Snapshot | DataFiles) -> Source:
    source = list_data_files(path)
    with open_embedded() as engine:
        relation = declare_file(engine, source)
        kinds: dict[str, Any] = dict(zip(relation.columns, relation.types, strict=True))
    kinds |= dict.fromkeys(find_durations(source, kinds), "INTERVAL")

    def rows(
        names: Names, engine: duckdb.DuckDBPyConnection, conditions: Sequence[RowCondition] = ()
    ) -> duckdb.DuckDBPyRelation:
        chosen = source.select(names) if isinstance(source, Snapshot) else source
        relation = replace_columns(
            read_file(engine, chosen, names, conditions), write_durations(source, names)
        )
        return _chosen(relation, names)

    is_text = isinstance(source, DataFiles) and source.is_text
    return Source(
        tuple(kinds),
        rows,
        lambda names, engine: build_twin(names, [kinds[name] for name in names], engine),
        kinds=dict.fromkeys(kinds, TEXT) if is_text else {},
        path=source.path if isinstance(source, DataFiles) else None,
    )


@open_frame_source.register
def _(frame: duckdb.DuckDBPyRelation) -> Source:
    require_plain_connection(frame)
    kinds = dict(zip(frame.columns, frame.types, strict=True))

    def twin(names: Names, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        table = gate_rows(
            build_twin(names, [kinds[name] for name in names], engine)
        ).to_arrow_table()
        return engine.from_arrow(fit_values(table, names))

    return Source(
        tuple(kinds),
        lambda names, engine, *_: engine.from_arrow(
            fit_values(gate_rows(_chosen(frame, names)).to_arrow_table(), names)
        ),
        twin,
        lambda released: adopt(frame, Columns()).wrap(released),
        {name: RANKED for name, kind in kinds.items() if kind.id == "enum"},
    )


def write_durations(source: object, names: Names) -> dict[str, str]:
    """Return the SQL of the durations among columns of Parquet files, as intervals."""
    durations = find_durations(source, names)
    require_same_durations(source, durations)
    return {name: duckdb_duration(quote(name), kind.unit) for name, kind in durations.items()}


def replace_columns(
    relation: duckdb.DuckDBPyRelation, columns: Mapping[str, str]
) -> duckdb.DuckDBPyRelation:
    """Return a relation with SQL in place of some of its columns."""
    replaced = ", ".join(f"{sql} AS {quote(name)}" for name, sql in columns.items())
    return relation.project(f"* REPLACE ({replaced})") if replaced else relation


def _chosen(relation: duckdb.DuckDBPyRelation, names: Names) -> duckdb.DuckDBPyRelation:
    return relation.project(", ".join(map(quote, names)) or NO_COLUMN)


def arrow_columns(frame: pd.DataFrame, names: Names) -> pa.Table:
    """Return some columns of a frame as Arrow: missing is NULL, an object is its own text."""
    if not names:
        return pa.table({"row": pa.nulls(len(frame), pa.bool_())})
    columns = {}
    for name in names:
        series = frame[name]
        if not isinstance(series, pd.Series):
            raise MissingColumnError(
                f"the frame has several columns {name!r}", hint="rename them so that one is meant"
            )
        columns[name] = _arrow(name, series)
    return pa.table(columns)


def _arrow(name: str, series: pd.Series[Any]) -> Any:
    dtype = series.dtype
    require_known(name, dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        values = _arrow(name, pd.Series(dtype.categories))
        codes = series.cat.codes.to_numpy()
        return values.take(pa.array(codes.astype(np.int64), mask=codes < 0))
    if not pd.api.types.is_object_dtype(dtype):
        if isinstance(dtype, np.dtype) and dtype.kind in "biufMm":
            is_other = dtype.kind == "f" and dtype.itemsize not in (4, 8)
            series = series.astype(np.float64 if is_other else dtype.newbyteorder("="))
        elif not (
            isinstance(dtype, pd.DatetimeTZDtype | pd.StringDtype | pd.ArrowDtype)
            or hasattr(dtype, "numpy_dtype")
        ):
            raise no_type(dtype, name)
        with suppress(UnicodeError):  # text without a UTF-8 form
            return pa.array(series, from_pandas=True)
    return pa.array([_format_object(value) for value in series], type=pa.string())


def _format_object(value: object) -> str | None:
    """Return the text of one object; None for what is missing or has no plain form."""
    plain_value = None if type(value) is tuple or type(value) is pd.Interval else plain(value)
    if plain_value is None:
        return None
    text = plain_value.shown
    if isinstance(type(text), EnumMeta):  # a member's own text is its class's code
        text = plain_value.mark[1]
    with suppress(ValueError):  # an integer of thousands of digits
        return str(text).encode("utf-8", "replace").decode()
    return None


def type_frame(table: pa.Table) -> pd.DataFrame:
    """Return released rows as a pandas frame whose dtypes depend on declared types alone."""
    with suppress(ValueError):  # dates are objects, and some have no place in Python
        frame = table.to_pandas(types_mapper=NULLABLE.get)
        assert isinstance(frame, pd.DataFrame)  # noqa: S101 a table never becomes a Series
        return frame
    if table.num_columns > 1:
        alone = [type_frame(table.select([name])) for name in table.column_names]
        return pd.concat(alone, axis=1)
    return pd.DataFrame({table.column_names[0]: pd.Series(list_values(table[0]), dtype=object)})
