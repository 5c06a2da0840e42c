"""Answer questions about tables, never about rows: a DuckDB database that holds none.

Clients list tables through `pg_catalog` and `information_schema`. DuckDB has most of both. Macros
and subqueries add the rest. A second database has mock rows, made from names and types alone.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.files import quoted
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.nodes import (
    Distinct,
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

Tables = Mapping[str, Sequence[tuple[str, str]]]
"""Names and DuckDB types of the columns of each table."""

_MACROS = (
    "pg_get_userbyid(a) AS 'owner'",
    "pg_encoding_to_char(a) AS 'UTF8'",
    "pg_char_to_encoding(a) AS 6",
    "quote_ident(a) AS a",
    "pg_get_partkeydef(a) AS NULL",
    "pg_is_in_recovery() AS false",
    "to_regtype(a) AS NULL",
    "pg_size_pretty(a) AS NULL",
    "pg_table_size(a) AS NULL",
    "array_upper(a, b) AS len(a)",
    "array_lower(a, b) AS 1",
    "pg_backend_pid() AS 1",
    "pg_get_indexdef(a, b, c) AS NULL",
    "pg_get_expr(a, b) AS NULL, (a, b, c) AS NULL",
    "pg_advisory_unlock_all() AS NULL",
)
_VIEWS = {  # of Postgres, and missing in DuckDB
    "pg_inherits": (
        "SELECT 0 AS inhrelid, 0 AS inhparent, 0 AS inhseqno, false AS inhdetachpending WHERE false"
    ),
    "pg_roles": "SELECT 10 AS oid, 'owner' AS rolname, true AS rolsuper",
    "pg_database": (
        "SELECT *, NULL AS datacl, 0 AS dattablespace FROM pg_catalog.pg_database "
        "WHERE datname = current_database()"
    ),
    "pg_extension": (
        "SELECT 0 AS oid, '' AS extname, '' AS extversion, 0 AS extnamespace WHERE false"
    ),
}
_REWRITES = (
    (r"\bpg_catalog\.", ""),  # names are found in Postgres's catalog where there is no other
    (r"OPERATOR\((\S+?)\)", r"\1"),
    (
        r"(\$\d+|'\w+')::regclass(?:::oid)?(?!\w)",
        r"(SELECT max(oid) FROM pg_class WHERE relname = trim(\1, '\"'))",
    ),
    (r'\s+COLLATE\s+"?\w+"?', ""),
    (r'::(regclass|regtype|regproc|oid|name|"char")(?!\w)(\[\])?', ""),
    (r"\bANY\((\$\d+)\)", r"ANY(regexp_extract_all(\1, '[^{}\",]+'))"),
    (r"array_to_string\(c\.reloptions \|\| array\(.*?\), ', '\)", "''"),
    (r"c\.relforcerowsecurity", "false AS relforcerowsecurity"),
    (r"\bd\.datcollate\b|\bd\.datctype\b|\bd\.daticulocale\b|\bd\.datlocale\b", "''"),
    (r"\bd\.datlocprovider\b", "'c'"),
)
_RECEIVERS = (  # ADBC asks which function reads a type
    "SELECT oid, typname, typreceive, 0 AS typbasetype, 0 AS typrelid, typarray "
    "FROM (VALUES (16, 'bool', 'boolrecv', 1000), (17, 'bytea', 'bytearecv', 1001), "
    "(20, 'int8', 'int8recv', 1016), (21, 'int2', 'int2recv', 1005), "
    "(23, 'int4', 'int4recv', 1007), (25, 'text', 'textrecv', 1009), "
    "(700, 'float4', 'float4recv', 1021), (701, 'float8', 'float8recv', 1022), "
    "(1043, 'varchar', 'varcharrecv', 1015), (1082, 'date', 'date_recv', 1182), "
    "(1083, 'time', 'time_recv', 1183), (1114, 'timestamp', 'timestamp_recv', 1115), "
    "(1184, 'timestamptz', 'timestamptz_recv', 1185), (1186, 'interval', 'interval_recv', 1187), "
    "(1700, 'numeric', 'numeric_recv', 1231)) types(oid, typname, typreceive, typarray)"
)
_CONSTANTS = (
    ("pg_auth_members", "SELECT NULL WHERE false"),
    ("pg_get_function_result", "SELECT NULL WHERE false"),
    ("pg_policy", "SELECT NULL WHERE false"),
    ("pg_publication", "SELECT NULL WHERE false"),
    ("pg_statistic_ext", "SELECT NULL WHERE false"),
    ("max_index_keys", "SELECT 32 AS setting"),
    ("typreceive", _RECEIVERS),
    (
        "_pg_expandarray",
        (
            "SELECT NULL AS TABLE_CAT, NULL AS TABLE_SCHEM, NULL AS TABLE_NAME, "
            "NULL AS COLUMN_NAME, 0 AS KEY_SEQ, NULL AS PK_NAME WHERE false"
        ),
    ),
)
_MOCK_VALUES = ("example", "2000-01-01 12:00:00", "12:00:00", "1")  # the first that a type holds
_MOCK_ROWS = 5
_LONGEST_SECONDS = 10  # of a statement about the catalog, which has little to look at


MADE_UP = b"dfprivacy.made_up"
"""The mark in the schema of made-up rows."""


class Catalog:
    """The tables of a dataset without their rows."""

    def __init__(self, name: str, tables: Tables) -> None:
        self.tables = {table.lower() for table in tables}
        self._empty = make_database(tables, name)
        self._mock = make_database(tables, name, _MOCK_ROWS)
        for macro in _MACROS:
            self._empty.execute(f"CREATE MACRO {macro}")
        self._empty.execute(
            "CREATE MACRO version() AS 'PostgreSQL 15.0 (dfprivacy)'; "
            "CREATE MACRO current_schema() AS 'main'"
        )
        for database in (self._empty, self._mock):
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")

    def _parse_tree(self, statement: str) -> tuple[Any, ...]:
        cursor = self._empty.cursor()
        for text in (statement, rewrite_for_duckdb(statement)):
            row = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
            parsed: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
            if not parsed["error"]:
                return tuple(read_node(entry["node"]) for entry in parsed["statements"])
        raise RefusedStatementError(
            f"the statement can't be parsed: {parsed.get('error_message', 'unknown')}",
            hint="this server answers SELECT statements of DuckDB's SQL",
        )

    def answer(self, statement: str, parameters: Sequence[Any]) -> pa.Table | None:
        """Answer a statement without data, or return None if it asks for a release.

        A preview of a table is answered from made-up rows, and its schema says `MADE_UP`. Columns
        of no rows (`WHERE 0 = 1`) are answered from the tables without rows.
        """
        tree = self._parse_tree(statement)
        parts = [node.json for node in walk(tree)]
        reads_table = any(
            node.get("type") == "BASE_TABLE"
            and node.get("schema_name", "") in {"", "main"}
            and node["table_name"].lower() in self.tables
            for node in parts
        )
        calls = [node["function_name"].lower() for node in parts if "function_name" in node]
        if reads_table and _is_preview(tree):
            preview = _run(self._mock, statement, parameters)
            return preview.replace_schema_metadata({MADE_UP: b""})
        asks_release = reads_table or any(name.startswith("dp_") for name in calls)
        if asks_release and not _has_no_rows(tree):
            return None
        return _run(self._empty, rewrite_for_duckdb(statement), parameters)


def make_database(tables: Tables, name: str = "memory", rows: int = 0) -> duckdb.DuckDBPyConnection:
    """Make an in-memory database with the declared tables, and made-up rows if any."""
    connection = duckdb.connect(config={"threads": 1, "memory_limit": "256MB"})
    if name != "memory":
        database = quoted(name)
        connection.execute(f"ATTACH ':memory:' AS {database}; USE {database}; DETACH memory")
    for table, columns in tables.items():
        declared = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
        connection.execute(f"CREATE TABLE {quoted(table)} ({declared})")
        if rows:
            values = [
                ", ".join(f"TRY_CAST('{text}' AS {kind})" for text in _MOCK_VALUES)
                for _, kind in columns
            ]
            connection.execute(
                f"INSERT INTO {quoted(table)} "  # noqa: S608 quoted
                f"SELECT coalesce({'), coalesce('.join(values)}) FROM range({rows})"
            )
    return connection


def _run(
    database: duckdb.DuckDBPyConnection, statement: str, parameters: Sequence[Any]
) -> pa.Table:
    cursor = database.cursor()
    timer = threading.Timer(_LONGEST_SECONDS, cursor.interrupt)
    timer.start()
    try:
        return cursor.sql(statement, params=list(parameters)).to_arrow_table()
    except duckdb.Error as error:  # it speaks of names and types, as the database has no rows
        raise RefusedStatementError(
            str(error).splitlines()[0], hint="the catalog has tables and columns, and no rows"
        ) from None
    finally:
        timer.cancel()


def rewrite_for_duckdb(statement: str) -> str:
    """Rewrite what clients ask of Postgres's catalogs for those of DuckDB."""
    if "pg_" not in statement and "information_schema" not in statement:
        return statement
    for mark, answer in _CONSTANTS:
        if mark in statement:
            return answer
    for pattern, replacement in _REWRITES:
        statement = re.sub(pattern, replacement, statement, flags=re.IGNORECASE)
    views = [f"{name} AS ({query})" for name, query in _VIEWS.items() if name in statement]
    if not views:
        return statement
    rest = re.sub(r"^\s*WITH\s", ", ", statement, flags=re.IGNORECASE)
    return f"WITH {', '.join(views)} {rest}"


def _is_preview(tree: Any) -> bool:
    """Check whether a statement is columns or * of one table, with a LIMIT."""
    return _lists_columns(tree) and (
        isinstance(tree[0].source, Table)
        and any(isinstance(part, Limit) for part in tree[0].modifiers)
    )


def _has_no_rows(tree: Any) -> bool:
    """Check whether a statement is columns or *, with a condition that is false by its constants.

    Clients ask so for names and types.
    """
    if not _lists_columns(tree):
        return False
    match tree[0].where:
        case Operator(sort="COMPARE_EQUAL", operands=sides):
            return set(map(literal, sides)) == {("INTEGER", "0"), ("INTEGER", "1")}
    return literal(tree[0].where) == ("BOOLEAN", "false")


def _lists_columns(tree: Any) -> bool:
    """Check whether a statement is columns or * of tables, and no aggregate of them."""
    match tree:
        case (Select(keys=()) as node,):
            has_distinct = any(isinstance(part, Distinct) for part in node.modifiers)
            return not has_distinct and all(isinstance(item, Star | Name) for item in node.items)
    return False
