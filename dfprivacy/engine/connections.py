"""Check a caller's DuckDB connection: its functions are DuckDB's own, and it keeps no values."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import duckdb

from dfprivacy.engine.embedded import open_embedded
from dfprivacy.errors import UnsupportedFrameError

Run = Callable[[str], list[Any]]
"""Runs a query on a connection, and returns its rows."""

TELLS = (
    "(system.main.current_setting('enable_profiling') IS NOT NULL "
    "OR system.main.current_setting('enable_logging'))"
)
"""True if a connection keeps or prints values that its queries meet, whatever macros are called."""
_OPTIMIZERS = """
    SELECT system.main.current_setting('disabled_optimizers'), EXISTS (
        SELECT 1 FROM system.main.duckdb_optimizers() WHERE name = 'type_pushdown'
    )
"""
_SCALAR = re.compile(r"col[0-9]+\Z")
_FUNCTIONS = """
    SELECT function_name, parameters, parameter_types FROM system.main.duckdb_functions()
    WHERE internal
"""
_MARKS = """
    SELECT system.main.count_star() FILTER (internal),
        system.main.sum(system.main.hash(function_name, parameters, parameter_types))
            FILTER (internal),
        system.main.list(function_name) FILTER (NOT internal)
    FROM system.main.duckdb_functions()
"""
"""Query that lists functions that are not DuckDB's own, as one row: a row for each of
thousands of functions would take longer to fetch. No macro hides what names its schema."""


def find_hiding_function(run: Run) -> tuple[str, str]:
    """Return the sort and the name of a function that hides one of DuckDB's; "" for none."""
    # Names compare as DuckDB compares them. A function that Python adds to one of DuckDB's counts
    # as DuckDB's own there; its parameters are called col0, col1, ...
    own_names, arguments, seen = _list_builtin_functions()
    ((*mark, others),) = run(_MARKS)
    names, added = seen.get(tuple(mark)), []
    if names is None:
        rows = run(_FUNCTIONS)
        names = own_names.union(name.lower() for name, *_ in rows)
        added = [
            name
            for name, parameters, types in rows
            if str(types) not in arguments.get(name, {str(types)})
            and all(map(_SCALAR.match, parameters or []))
        ]
    hiding = sorted(name for name in others or [] if name.lower() in names)
    if hiding:
        return "macro", hiding[0]
    if added:
        return "Python function", min(added)
    seen[tuple(mark)] = names
    return "", ""


@cache
def _list_builtin_functions() -> tuple[
    frozenset[str], dict[str, set[str]], dict[tuple[object, ...], frozenset[str]]
]:
    """Return the functions that DuckDB brings along: small names, and the arguments of each name.

    Last are the small names of the functions that no SQL text makes, by what marks them: of
    DuckDB alone, and of connections with functions of Python that were looked through before.
    """
    arguments: dict[str, set[str]] = {}
    with open_embedded() as engine:
        ((*mark, _),) = engine.execute(_MARKS).fetchall()
        for name, _, kinds in engine.execute(_FUNCTIONS).fetchall():
            arguments.setdefault(name, set()).add(str(kinds))
    names = frozenset(map(str.lower, arguments)) | {"coalesce", "ifnull"}  # which are not listed
    return names, arguments, {tuple(mark): names}


def disable_cast_pushdown(run: Run) -> None:
    """Switch off the optimizer that moves casts into the CSV reader.

    The reader fails on a cell that TRY_CAST makes NULL, and quotes its line. With `ignore_errors`
    it leaves out the whole row. DuckDB has this setting for a database, not for a connection.
    """
    ((disabled, is_known),) = run(_OPTIMIZERS)
    names = [name for name in disabled.split(",") if name]
    if is_known and "type_pushdown" not in names:
        run(f"SET disabled_optimizers = '{','.join([*names, 'type_pushdown'])}'")


def require_plain_connection(frame: duckdb.DuckDBPyRelation) -> None:
    """Refuse a caller's relation that can't be planned, or on a connection that is not plain.

    That is one that profiles its queries or logs them, or where a function hides one of DuckDB's.
    Casts in its plan stay where they are, unless the configuration is locked. No row is read.

    Raises
    ------
    UnsupportedFrameError
        The same on any rows.
    """
    run = partial(_query, frame)
    failure: type[Exception] | None = None
    try:
        frame.explain()
    except duckdb.Error as error:
        failure = type(error)
    if failure and failure.__name__ != "ResourceInUseException":  # which has an error of its own
        raise UnsupportedFrameError(
            "the relation can't be run: its tables have changed since it was made, or its "
            "connection is closed or in a transaction that has failed",
            hint="make it again: con.table('flights'), after con.rollback() if need be",
        )
    with suppress(duckdb.InvalidInputException):  # a locked configuration
        disable_cast_pushdown(run)
    if run(f"SELECT {TELLS}") != [(False,)]:
        raise UnsupportedFrameError(
            "the relation's connection profiles its queries or logs them, and that tells how many "
            "rows and groups there are",
            hint="PRAGMA disable_profiling; CALL disable_logging()",
        )
    sort, name = find_hiding_function(run)
    if sort:
        raise UnsupportedFrameError(
            f"the {sort} {name!r} of the relation's connection hides a function of DuckDB's that "
            "rows are read with",
            hint="drop it, and give it another name",
        )


def _query(frame: duckdb.DuckDBPyRelation, sql: str) -> list[Any]:
    """Return the rows of a query on the connection of a relation."""
    relation = frame.query("dfprivacy_caller", sql)
    return [] if relation is None else relation.fetchall()
