"""Answer questions about tables, never about rows: a DuckDB database that holds none.

Clients list tables through `pg_catalog` and `information_schema`. DuckDB has most of both. Macros
and subqueries add the rest. A second database has mock rows, made from names and types alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.accounting.memory import read_released_table, release_bytes
from dfprivacy.engine.files import quote
from dfprivacy.errors import RefusedStatementError
from dfprivacy.server.encoding import DATE, TYPES
from dfprivacy.statements.nodes import (
    Constant,
    Distinct,
    Empty,
    Limit,
    Name,
    Operator,
    Select,
    Star,
    Table,
    literal,
    read_node,
    walk,
)

SETTINGS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "transaction_isolation": "read committed",
    "search_path": "main",
    "max_index_keys": "32",
    "password_encryption": "scram-sha-256",
}
"""Parameters of the server, which SHOW and `pg_settings` show."""
_MACROS = """
    pg_get_userbyid(a) AS 'owner'; pg_encoding_to_char(a) AS 'UTF8'; pg_char_to_encoding(a) AS 6;
    quote_ident(a) AS a; array_upper(a, b) AS len(a); array_lower(a, b) AS 1;
    pg_is_in_recovery() AS false; pg_backend_pid() AS 1; _pg_expandarray(a) AS {'n': 0, 'x': 0};
    current_setting(a) AS (SELECT setting FROM settings() WHERE lower(name) = lower(a));
    version() AS 'PostgreSQL 15.0 (dfprivacy)'; current_schema() AS 'main'; array_remove(a, b) AS a;
    pg_get_expr(a, b) AS NULL, (a, b, c) AS NULL; pg_get_viewdef(a) AS NULL, (a, b) AS NULL;
    pg_get_indexdef(a) AS NULL, (a, b, c) AS NULL; to_regtype(a) AS NULL
"""
_FORMAL_NAMES = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "varchar": "character varying",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
}
"""Names of types in Postgres, by those that `format_type` of DuckDB returns."""
_WITHOUT_VALUE = "() AS NULL, (a) AS NULL, (a, b) AS NULL, (a, b, c) AS NULL"
"""The definition of a function of Postgres that DuckDB lacks, for any number of arguments."""
_TYPES = ", ".join(
    f"({kind.oid}, '{kind.name}', '{kind.name}{'_' * (kind.oid >= DATE)}recv', {kind.array_oid})"
    for kind in TYPES
)
_RELATIONS = {  # of Postgres, where DuckDB has another content
    "pg_database": (
        "SELECT *, 0 AS dattablespace, 'c' AS datlocprovider FROM pg_catalog.pg_database "
        "WHERE datname = current_database()"
    ),
    "pg_proc": "FROM pg_catalog.pg_proc WHERE false",
    "pg_roles": "SELECT 10 AS oid, 'owner' AS rolname, true AS rolsuper, -1 AS rolconnlimit",
    "pg_settings": "SELECT *, 'override' AS source, 'user' AS context FROM settings()",
    "pg_type": (
        "SELECT * EXCLUDE (receiver, arrays) REPLACE (receiver AS typreceive, "  # noqa: S608
        "arrays AS typarray, coalesce(typtype, 'b') AS typtype, 0 AS typbasetype, 0 AS typrelid) "
        f"FROM pg_catalog.pg_type FULL JOIN (VALUES {_TYPES}) "
        "types(oid, typname, receiver, arrays) USING (oid, typname)"
    ),
}
_REWRITES = (
    (r"\b(pg_catalog|information_schema(?=\._pg))\.", ""),  # names are found there without it
    (r"OPERATOR\((\S+?)\)", r"\1"),
    (r"\bCAST\((\$\d+(?:::VARCHAR)?|'[\w.]+') AS REGCLASS\)", r"\1::regclass"),
    (
        r"(\$\d+(?:::VARCHAR)?|'[\w.]+')::regclass(?:::oid)?(?!\w)",
        r"(SELECT max(oid) FROM pg_class WHERE relname = split(trim(\1, '\"'), '.')[-1])",
    ),
    (r'\s+COLLATE\s+"?\w+"?', ""),
    (r'::(regclass|regtype|regproc|regnamespace|oid|name|"char")(?!\w)(\[\])?', ""),
    (r"\bANY\((\$\d+)\)", r"ANY(regexp_extract_all(\1, '[^{}\",]+'))"),
    (r"array_to_string\(c\.reloptions \|\| array\(.*?\), ', '\)", "''"),
    (r"\bjson_build_object\(", "json_object("),
    (r"\bunnest\(evttags\)", "unnest([''])"),
    (r"\btyp(receive|send) != 0", "true"),
)
_POSTGRES_TYPES = ("regclass", "regtype", "regproc", "regnamespace")  # names, where DuckDB has none
_MOCK_VALUES = ("example", "2000-01-01 12:00:00", "12:00:00", "1")  # the first that a type holds
_MOCK_ROWS = 5
_READ_STATEMENTS = 64  # that are kept, so that their next run parses nothing
LONGEST_SECONDS = 10  # of a statement about the catalog, which has little to look at
_LARGEST_ANSWER = 2**24  # bytes
_LONGEST_CONSTANTS = 100  # characters of a statement that a session remembers


@dataclass(frozen=True)
class Answer:
    """The rows that answer a statement, or None, with a notice and the price in epsilon."""

    table: pa.Table
    notice: str = ""
    price: float = 0.0
    is_constant: bool = False
    """True for a few constants, which the same statement has as its answer for ever."""
    tag: str = "SELECT"
    """The command that is complete, as Postgres names it."""

    def __reduce__(self) -> tuple[object, ...]:
        """Cross processes as the bytes of these rows alone: slices of tables hold all others."""
        stream = release_bytes(self.table)
        return _read_answer, (stream, self.notice, self.price, self.is_constant)


def _read_answer(stream: bytes, *terms: Any) -> Answer:
    return Answer(read_released_table(stream), *terms)


class CatalogReader:
    """The catalogs of all datasets. A monitor, who has no dataset, asks an empty one."""

    def __init__(self, columns: Mapping[str, pa.Table]) -> None:
        self._catalogs = {name: Catalog(name or "postgres", columns[name]) for name in columns}

    def answer(self, dataset: str, statement: str, parameters: Sequence[Any]) -> Answer | None:
        """Answer a statement without data, or return None if it asks for a release."""
        answer = self._catalogs[dataset].answer(statement, parameters)
        if answer is not None and answer.table.nbytes > _LARGEST_ANSWER:
            raise RefusedStatementError(
                f"an answer about the catalog of more than {_LARGEST_ANSWER:,} bytes",
                hint="name fewer columns, or LIMIT the rows",
            )
        return answer


class Catalog:
    """The tables of a dataset without their rows."""

    def __init__(self, name: str, columns: pa.Table) -> None:
        self._read = lru_cache(_READ_STATEMENTS)(self._read_anew)
        self.tables = {str(name).lower() for name in columns["table_name"].to_pylist()}
        self._empty = make_database(columns, name)
        self._mock = make_database(columns, name, _MOCK_ROWS)
        settings = ", ".join(map(str, SETTINGS.items()))
        table = f"settings() AS TABLE FROM (VALUES {settings}) settings(name, setting)"
        name = "pg_catalog.format_type(a, b)"
        form = f"format_type(a, b) AS coalesce(MAP {_FORMAL_NAMES}[{name}], {name})"
        for macro in (table, form, *_MACROS.split(";")):
            self._empty.execute(f"CREATE MACRO {macro}")
        functions = self._empty.execute("SELECT function_name FROM duckdb_functions()").fetchall()
        self._functions = {name for (name,) in functions}
        views = self._empty.execute(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = 'pg_catalog'"
        ).fetchall()
        self._relations = {name: f"FROM pg_catalog.{name}" for (name,) in views} | _RELATIONS
        self._columns = {
            name: {*self._empty.sql(query).columns} for name, query in self._relations.items()
        }
        for database in (self._empty, self._mock):
            for kind in _POSTGRES_TYPES:
                database.execute(f"CREATE TYPE {kind} AS VARCHAR")
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")

    def _parse_tree(self, statement: str) -> tuple[Any, ...]:
        serialize = "SELECT json_serialize_sql(?::VARCHAR)"
        ((text,),) = self._empty.cursor().execute(serialize, [statement]).fetchall()
        parsed = json.loads(text)
        if parsed["error"]:
            reason = parsed["error_message"]
            if "serialize" in reason:
                reason = "it is no SELECT"
            raise RefusedStatementError(
                f"the statement can't be parsed: {reason}",
                hint="this server answers SELECT statements of DuckDB's SQL",
            )
        return tuple(read_node(entry["node"]) for entry in parsed["statements"])

    def answer(self, statement: str, parameters: Sequence[Any]) -> Answer | None:
        """Answer a statement without data, or return None if it asks for a release.

        A listing of a table is answered from made-up rows, and a notice says so.
        """
        if (question := self._read(statement)) is None:
            return None
        text, is_listing, lacking, is_constant = question
        cursor = (self._mock if is_listing else self._empty).cursor()
        for function in lacking:
            cursor.execute(f"CREATE TEMP MACRO {quote(function)}{_WITHOUT_VALUE}")
        try:
            table = cursor.sql(text, params=list(parameters)).to_arrow_table()
        except duckdb.Error as error:  # it speaks of names and types, as the database has no rows
            raise RefusedStatementError(
                str(error).splitlines()[0],
                hint="the catalog has no rows; information_schema.columns lists its columns",
            ) from None
        notice = ""
        if is_listing and table.num_rows:
            notice = "these rows are made up from the declared types: they hold no data"
        return Answer(table, notice, is_constant=is_constant)

    def _read_anew(self, statement: str) -> tuple[str, bool, list[str], bool] | None:
        """Return a statement for DuckDB, if it lists a table, functions to define, if constant.

        It is None if the statement asks for a release.
        """
        text, asks_catalog = statement, "pg_" in statement or "information_schema" in statement
        if asks_catalog:
            for pattern, replacement in _REWRITES:
                text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
        tree = self._parse_tree(text)
        nodes = list(walk(tree))
        parts = [node.json for node in nodes]
        reads_table = any(
            part.get("type") == "BASE_TABLE"
            and part.get("schema_name", "") in {"", "main"}
            and part["table_name"].lower() in self.tables
            for part in parts
        )
        if reads_table and _is_listing(tree):
            return statement, True, [], False
        calls = [part["function_name"].lower() for part in parts if "function_name" in part]
        if reads_table or any(name.startswith("dp_") for name in calls):
            return None
        if asks_catalog:
            text = self._define_relations(text, parts)
        lacking = {name for name in calls if name.startswith("pg_")} - self._functions
        is_constant = all(isinstance(node, Select | Constant | Empty) for node in nodes)
        return text, False, sorted(lacking), is_constant and len(text) < _LONGEST_CONSTANTS

    def _define_relations(self, text: str, parts: Sequence[Mapping[str, Any]]) -> str:
        """Put Postgres's relations before a statement as common tables.

        Columns that DuckDB lacks are NULL, and relations that it lacks have no rows.
        """
        names = {
            part["alias"] or part["table_name"]: part["table_name"].lower()
            for part in parts
            if part.get("type") == "BASE_TABLE" and part["table_name"].lower().startswith("pg_")
        }
        missing = [name for name in names.values() if name not in self._columns]
        present = set[str]().union(*(self._columns.get(name, ()) for name in names.values()))
        needed: dict[str, set[str]] = {name: set() for name in names.values()}
        unqualified = set()
        for part in parts:
            match part.get("column_names", []):
                case [column]:
                    unqualified.add(column.lower())
                case [*_, alias, column] if alias in names:
                    needed[names[alias]].add(column.lower())
        for name in missing[:1]:
            needed[name] |= unqualified.difference(present, *needed.values())
        views = []
        for name, columns in needed.items():
            nulls = sorted(columns - self._columns.get(name, {"oid"}))
            items = ["*", *(f"NULL AS {quote(column)}" for column in nulls)]
            source = self._relations.get(name, "SELECT NULL AS oid WHERE false")
            views.append(f"{quote(name)} AS (SELECT {', '.join(items)} FROM ({source}))")  # noqa: S608 quoted
        if not views:
            return text
        rest = re.sub(r"^\s*WITH\s", ", ", text, flags=re.IGNORECASE)
        return f"WITH {', '.join(views)} {rest}"


def make_database(
    columns: pa.Table, name: str = "memory", rows: int = 0
) -> duckdb.DuckDBPyConnection:
    """Make an in-memory database with columns of tables, and made-up rows if any."""
    connection = duckdb.connect(
        config={"threads": 1, "memory_limit": "256MB", "temp_directory": ""}  # it fills no disk
    )
    if name != "memory":
        database = quote(name)
        connection.execute(f"ATTACH ':memory:' AS {database}; USE {database}; DETACH memory")
    for table, group in groupby(columns.to_pylist(), itemgetter("table_name")):
        kinds = {column["column_name"]: column["data_type"] for column in group}
        declared = ", ".join(f"{quote(column)} {kind}" for column, kind in kinds.items())
        values = [
            ", ".join(f"TRY_CAST('{text}' AS {kind})" for text in _MOCK_VALUES)
            for kind in kinds.values()
        ]
        connection.execute(f"CREATE TABLE {quote(table)} ({declared})")
        connection.execute(
            f"INSERT INTO {quote(table)} "  # noqa: S608 quoted
            f"SELECT coalesce({'), coalesce('.join(values)}) FROM range({rows})"
        )
    return connection


def _is_listing(tree: Any) -> bool:
    """Check whether a statement is columns or *, of a table with LIMIT or of no rows.

    Clients ask WHERE 0 = 1 for names and types.
    """
    if len(tree) != 1 or not isinstance(tree[0], Select) or tree[0].keys:
        return False
    (node,) = tree
    modifiers = {type(part) for part in node.modifiers}
    match node.where:
        case Operator(sort="COMPARE_EQUAL", operands=sides):
            has_no_rows = set(map(literal, sides)) == {("INTEGER", "0"), ("INTEGER", "1")}
        case where:
            has_no_rows = literal(where) == ("BOOLEAN", "false")
    is_preview = isinstance(node.source, Table) and Limit in modifiers
    is_plain = all(isinstance(item, Star | Name) for item in node.items)
    return is_plain and Distinct not in modifiers and (is_preview or has_no_rows)
