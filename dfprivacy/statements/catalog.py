"""A DuckDB connection as a source of protected rows, and as a place for released ones.

Where it looks for names, and functions of its own that hide DuckDB's, are looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.quoting import quoted
from dfprivacy.engine.run import guarded
from dfprivacy.errors import EngineError, RefusedStatementError, UnsupportedFrameError
from dfprivacy.statements.functions import ROW_FUNCTIONS
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Refusal
from dfprivacy.statements.row_by_row import fenced
from dfprivacy.statements.rows import Relation
from dfprivacy.statements.tree import Target

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


_BY_NAME = "dfp.sql('SELECT dp_count(*) FROM t', "
_RELATIONS = """
    SELECT database_name, schema_name, table_name, NULL FROM duckdb_tables()
    UNION ALL SELECT database_name, schema_name, view_name, coalesce(sql, '') FROM duckdb_views()
    WHERE NOT internal
"""


@dataclass(frozen=True)
class ConnectionSource:
    """The tables and views of a connection; Python variables are none of them."""

    connection: duckdb.DuckDBPyConnection

    def find(self, parts: tuple[str, ...], near: Relation | None = None) -> Relation:
        """Return the table or view of a name, in the order in which DuckDB looks for it.

        Raises
        ------
        RefusedStatementError
            When there is none.
        """
        found = self._found(parts[-1], parts[:-1], near)
        if not found:
            raise _no_such(parts)
        if near is not None and len(parts) == 2 and len(found) > 1:
            raise Refusal(
                f"{'.'.join(parts)} in a view",
                "there are several tables of that name, and versions of DuckDB differ in which "
                "of them a view reads",
                "name the database too: CREATE OR REPLACE VIEW v AS SELECT * FROM memory.main.t",
            ).error()
        database, schema, name, definition = found[0]
        path = (database, schema, name)
        return Relation(path, self._columns(path), definition)

    def _columns(self, path: tuple[str, ...]) -> tuple[str, ...]:
        try:
            found = self.connection.sql(f"SELECT * FROM {'.'.join(map(quoted, path))}")  # noqa: S608 names are quoted
            return tuple(found.columns)
        except duckdb.Error as error:
            raise unusable(error) from None

    def _found(
        self, name: str, qualifier: tuple[str, ...], near: Relation | None
    ) -> list[tuple[str, str, str, str | None]]:
        """Return relations of a name, those first that DuckDB would find first."""
        known = looked_up(self.connection, _RELATIONS)
        known = [row for row in known if folded(row[2]) == folded(name)]
        places = [(folded(one), folded(two)) for one, two in self._places(qualifier, near)]
        return sorted(
            (row for row in known if (folded(row[0]), folded(row[1])) in places),
            key=lambda row: places.index((folded(row[0]), folded(row[1]))),
        )

    def _places(self, qualifier: tuple[str, ...], near: Relation | None) -> list[tuple[str, str]]:
        """Return databases and schemas in which a name may be, in DuckDB's order."""
        if len(qualifier) == 2:
            return [(qualifier[0], qualifier[1])]
        database, looked_in = search_path(self.connection)
        if not qualifier:
            inside = [] if near is None else [(near.path[0], near.path[1])]
            return [TEMPORARY, *inside, *looked_in, (database, "main")]
        (outer,) = qualifier
        around = [TEMPORARY, *looked_in]
        given = [place for place in around if folded(outer) in map(folded, place)]
        inside = [] if near is None else [(near.path[0], outer)]
        return [*given, *inside, (database, outer), (outer, "main"), ("temp", outer)]

    def relation(
        self,
        found: Relation,
        names: tuple[str, ...],
        engine: duckdb.DuckDBPyConnection,  # noqa: ARG002 one signature for all sources
    ) -> duckdb.DuckDBPyRelation:
        """Return the named columns of a table, unread."""
        chosen = ", ".join(map(quoted, names)) or 'true AS "row"'
        table = ".".join(map(quoted, found.path))
        return self.connection.sql(f"SELECT {chosen} FROM {table}")  # noqa: S608 names are quoted

    def empty(
        self, found: Relation, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection
    ) -> duckdb.DuckDBPyRelation:
        """Return a table whose rows are not looked at, for its types."""
        return self.relation(found, names, engine).limit(0)

    def fenced(self) -> AbstractContextManager[None]:
        """Return a block in which the connection plans row queries as they are written."""
        return fenced(self.connection)

    def check(self, target: Target | None, protected: Relation, empty: pa.Table) -> None:
        """Refuse a target that could not take the released rows, before anything is spent.

        Raises
        ------
        RefusedStatementError
            When it is the protected table, is there and may not be replaced, or does not fit.
        """
        if target is None:
            return
        found = self._found(target.path[-1], target.path[:-1], None)
        if any(row[:3] == protected.path for row in found):
            raise Refusal(
                "the protected table as the target",
                "released rows would mix with those that they protect",
                "CREATE TABLE released AS SELECT ...",
            ).error()
        if target.creates and not target.replaces and self._taken(target, found):
            raise Refusal(
                f"CREATE TABLE {target.name}",
                "there is one of that name",
                f"CREATE OR REPLACE TABLE {target.name} AS SELECT ..., or INSERT INTO it",
            ).error()
        if not target.creates:
            self._fits(target, empty)

    def _resolved(self, target: Target) -> Target:
        """Return the table that rows are added to, by its full name."""
        found = self._found(target.path[-1], target.path[:-1], None)
        return replace(target, path=found[0][:3]) if found else target

    def _taken(self, target: Target, found: list[tuple[str, str, str, str | None]]) -> bool:
        """Tell whether a new table's own place is taken: tables in other schemas do not matter."""
        if target.temporary:
            return any(row[0] == "temp" for row in found)
        return any(row[0] != "temp" for row in found[:1])

    def _fits(self, target: Target, empty: pa.Table) -> None:
        """Refuse rows that the target can't take: too many columns, or text for something else."""
        try:
            resolved = self._resolved(target)
            self._sent(f"EXPLAIN {_insertion(resolved)}", empty)
            kinds = [kind for _, kind in self._kept(resolved)]
        except duckdb.Error as error:
            problem = str(error).splitlines()[0]
        else:
            texts = [pa.types.is_string(kind) for kind in empty.schema.types]
            pairs = zip(empty.column_names, texts, kinds, strict=False)
            wrong = next((name for name, text, kind in pairs if text and kind != "VARCHAR"), None)
            if wrong is None:
                return
            problem = f"{wrong!r} is text"
        raise RefusedStatementError(
            f"the released rows don't fit into {target.name!r}: {problem}",
            hint="cast them, name its columns, or use CREATE TABLE ... AS SELECT",
        )

    def _kept(self, target: Target) -> list[tuple[str, str]]:
        """Return names and types of the columns that rows are inserted into."""
        path = ".".join(map(quoted, target.path))
        described = self.connection.execute(f"DESCRIBE {path}").fetchall()
        kinds = {folded(row[0]): row[1] for row in described}
        names = target.columns or tuple(row[0] for row in described)
        return [(name, kinds[folded(name)]) for name in names]

    def _sent(self, sql: str, table: pa.Table) -> None:
        """Run a statement that reads a table under the name in braces."""
        name = f"released_{uuid4().hex}"
        self.connection.register(name, table)
        try:
            self.connection.execute(sql.format(source=f"temp.main.{quoted(name)}"))
        finally:
            self.connection.unregister(name)

    def give(self, table: pa.Table, found: Relation, target: Target | None) -> object:  # noqa: ARG002 one signature for all sources
        """Return released rows as a relation, or put them where they go and return None."""
        if target is None:
            return self.connection.from_arrow(table)
        sql = _creation(target) if target.creates else _insertion(self._resolved(target))
        guarded(lambda: self._sent(sql, table))
        return None


def _braced(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")


def _path(target: Target) -> str:
    return _braced(".".join(map(quoted, target.path)))


def _insertion(target: Target) -> str:
    columns = f" ({_braced(', '.join(map(quoted, target.columns)))})" if target.columns else ""
    return f"INSERT INTO {_path(target)}{columns} SELECT * FROM {{source}}"  # noqa: S608 names are quoted


def _creation(target: Target) -> str:
    start = "CREATE OR REPLACE" if target.replaces else "CREATE"
    kind = "TEMP TABLE" if target.temporary else "TABLE"
    return f"{start} {kind} {_path(target)} AS SELECT * FROM {{source}}"  # noqa: S608 the same


def connection_source(connection: object) -> ConnectionSource:
    """Return a connection as a source.

    Raises
    ------
    UnsupportedFrameError
        When it is no DuckDB connection.
    RefusedStatementError
        When a function of its own hides one of DuckDB's, or its calendar is not the usual one.
    """
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        raise UnsupportedFrameError(
            f"con= is no DuckDB connection, but an object of type {type(connection).__name__}",
            hint="pass con=duckdb.connect('file.db'), or frames by name: "
            "dfp.sql('SELECT dp_count(*) FROM t', t=frame)",
        )
    check_functions(connection)
    check_calendar(connection)
    return ConnectionSource(connection)


def _no_such(parts: tuple[str, ...]) -> RefusedStatementError:
    name = ".".join(parts)
    hint = f"name a table or view of con, or pass a frame or a file by name: {_BY_NAME}t=frame)"
    if "." in parts[-1] or "/" in parts[-1]:
        hint = f"pass the file by a name: {_BY_NAME}t={name!r})"
    return RefusedStatementError(f"there is no table or view {name!r}", hint=hint)
