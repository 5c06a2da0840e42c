"""What a connection has of its own: where it looks for names, and functions that hide DuckDB's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb

from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.files import quoted
from dfprivacy.errors import EngineError
from dfprivacy.statements.functions import ROW_FUNCTIONS
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Refusal

TEMPORARY = ("temp", "main")
DEFAULT_EPSILON = "dp_epsilon"
"""The macro that sql_udfs.register makes: what a call spends that names no epsilon."""

_NAME = r'"(?:[^"]|"")*"|[^".,]+'
_ENTRY = re.compile(rf"(?:({_NAME})\.)?({_NAME})(?:,|\Z)")
_SCALAR = re.compile(r"col[0-9]+\Z")
_FUNCTIONS = """
    SELECT function_name, internal, parameters, parameter_types
    FROM system.main.duckdb_functions()
"""
_REGISTERED = (
    "SELECT DISTINCT function_name FROM system.main.duckdb_functions() "
    "WHERE database_name = 'temp' AND function_name = ?"
)
_CALENDAR = "SELECT value FROM system.main.duckdb_settings() WHERE name = 'Calendar'"
_LOOKS_IN = (
    "SELECT current_database(), current_schema(), current_setting('search_path'), "
    "current_schemas(false)"
)


def looked_up(
    connection: duckdb.DuckDBPyConnection, query: str, given: Sequence[str] = ()
) -> list[Any]:
    """Return what the catalog says; its errors speak of no row."""
    try:
        return connection.execute(query, list(given)).fetchall()
    except duckdb.Error as error:
        raise unusable(error) from None


def unusable(error: duckdb.Error) -> EngineError:
    """Return the error for a catalog that can't be read; it speaks of no row."""
    return EngineError(
        f"the connection can't be used: {str(error).splitlines()[0]}",
        hint="fetch what it still holds, or pass a connection of its own",
    )


def search_path(connection: duckdb.DuckDBPyConnection) -> tuple[str, list[tuple[str, str]]]:
    """Return the current database, and the databases and schemas in which plain names are.

    Raises
    ------
    RefusedStatementError
        When the setting can't be read.
    """
    ((database, schema, text, schemas),) = looked_up(connection, _LOOKS_IN)
    if not schemas:
        return database, [(database, schema)]
    places = [(_plain(one) or database, _plain(two)) for one, two in _ENTRY.findall(text)]
    if [place[1] for place in places] != list(schemas):
        raise Refusal(
            "a search_path with such names", "it must be plain which table is meant", "USE main"
        ).error()
    return database, places


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def check_calendar(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse another calendar than the usual one: DuckDB 2.0 gives up at dates that some lack.

    Raises
    ------
    RefusedStatementError
        By the setting alone.
    """
    if any(name != "gregorian" for (name,) in looked_up(connection, _CALENDAR)):
        raise Refusal(
            "a connection with a calendar of its own",
            "some have no place for every date, and one of these would end the query",
            "SET Calendar = 'gregorian'",
        ).error()


def check_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a connection on which a name of DuckDB's functions means another one, too.

    Raises
    ------
    RefusedStatementError
        Names compare as DuckDB compares them. What Python adds to a function of DuckDB's counts as
        DuckDB's own there; its parameters are called col0, col1, ...
    """
    known = looked_up(connection, _FUNCTIONS)
    built_in = {*(folded(row[0]) for row in known if row[1])} | ROW_FUNCTIONS
    hiding = sorted({row[0] for row in known if not row[1] and folded(row[0]) in built_in})
    if hiding:
        raise Refusal(
            f"the macro {hiding[0]!r} of this connection",
            "it hides a function of DuckDB's that rows are read with",
            f"DROP MACRO {quoted(hiding[0])}, and give it another name",
        ).error()
    added = sorted({row[0] for row in known if row[1] and _is_from_python(row)})
    if added:
        raise Refusal(
            f"the Python function {added[0]!r} of this connection",
            "it goes by the name of a function of DuckDB's that rows are read with",
            f"con.remove_function({added[0]!r}), and give it another name",
        ).error()


def registered_epsilon(connection: duckdb.DuckDBPyConnection) -> float | None:
    """Return what a dp_ call spends on a connection that names no epsilon; None without them."""
    for (name,) in looked_up(connection, _REGISTERED, [DEFAULT_EPSILON]):
        return float(looked_up(connection, f"SELECT temp.main.{name}()")[0][0])
    return None


def _is_from_python(row: tuple[Any, ...]) -> bool:
    """Tell whether DuckDB has a function of that name, but not with these arguments."""
    name, _, parameters, kinds = row
    own = _own_functions().get(name)
    return own is not None and all(map(_SCALAR.match, parameters or [])) and str(kinds) not in own


@cache
def _own_functions() -> Mapping[str, set[str]]:
    """Return the arguments of the functions that DuckDB brings along, by name."""
    found: dict[str, set[str]] = {}
    with embedded() as engine:
        for name, _, _, kinds in looked_up(engine, _FUNCTIONS):
            found.setdefault(name, set()).add(str(kinds))
    return found
