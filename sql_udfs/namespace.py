"""What names mean to the connection that runs a statement, which is not the one that vets it.

The running connection is busy while it asks to be admitted. It says itself which relations and
macros it sees, through subqueries in the macros; what it alone sees has not been vetted.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import duckdb

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.session import check_macros

_SETTINGS = (
    "[system.main.current_setting('search_path'), system.main.current_setting('default_collation')]"
)
_RELATIONS = (
    "SELECT list([place, scheme, name, number, definition]) FROM ("
    "SELECT database_name AS place, schema_name AS scheme, table_name AS name, "
    "CAST(table_oid AS VARCHAR) AS number, sql AS definition FROM system.main.duckdb_tables() "
    "UNION ALL SELECT database_name, schema_name, view_name, CAST(view_oid AS VARCHAR), sql "
    "FROM system.main.duckdb_views() WHERE NOT internal)"
)
_FUNCTIONS = "SELECT list(DISTINCT function_name) FROM system.main.duckdb_functions() WHERE {}"

NAMESPACE_SQL = f"{_SETTINGS}, ({_RELATIONS}), ({_FUNCTIONS.format('NOT internal')})"
"""What a running statement tells about its connection, as three arguments."""
NAMESPACE_TYPES = ("VARCHAR[]", "VARCHAR[][]", "VARCHAR[]")


@dataclass(frozen=True)
class Namespace:
    """What a running statement's connection sees, uncommitted changes among it.

    `relations` are database, schema, name, number and definition of tables and views.
    """

    search_path: str
    collation: str
    relations: frozenset[tuple[str | None, ...]]
    macros: frozenset[str]

    def check_macros(self, catalog: duckdb.DuckDBPyConnection) -> None:
        """Refuse a macro that hides a function which the vetting takes for DuckDB's own.

        Raises
        ------
        RefusedStatementError
            By the names of the connection's macros.
        """
        ((internal,),) = catalog.execute(_FUNCTIONS.format("internal")).fetchall()
        check_macros(self.macros, internal)

    def enter(self, catalog: duckdb.DuckDBPyConnection) -> None:
        """Let the vetting connection look for names where the running one does.

        Raises
        ------
        RefusedStatementError
            When that is in several schemas, whose order is not vetted.
        """
        try:
            if "," not in self.search_path:
                literal = self.search_path.replace("'", "''")
                catalog.execute(f"SET search_path = '{literal}'")
                return
        except duckdb.Error:  # a schema that only this connection sees
            pass
        raise Refusal(
            f"the search path {self.search_path!r}",
            "which of its tables a name means is not vetted",
            "USE one committed schema, and name others in full: SELECT dp_count() FROM main.t",
        ).error()

    def check_relations(self, catalog: duckdb.DuckDBPyConnection, names: AbstractSet[str]) -> None:
        """Refuse a name that means something else to the running connection.

        Raises
        ------
        RefusedStatementError
            By the two catalogs alone.
        """
        vetted = _named(_rows(catalog.execute(_RELATIONS).fetchall()[0][0]), names)
        other = sorted({str(row[2]) for row in vetted ^ _named(self.relations, names)})
        if other:
            raise RefusedStatementError(
                f"{other[0]!r} is a temporary relation of this connection, or changed in its open "
                "transaction: it can't be vetted on another connection to the same database",
                hint="DROP the temporary one, or COMMIT first; dfp.sql('SELECT ...', con=con) "
                "reads what its own connection sees",
            )


def namespace_of(
    settings: list[str],
    relations: list[list[str | None]] | None,
    macros: list[str] | None,
) -> Namespace:
    """Return the namespace that a running statement has told."""
    search_path, collation = settings
    return Namespace(search_path, collation, _rows(relations), frozenset(macros or ()))


def _rows(relations: list[list[str | None]] | None) -> frozenset[tuple[str | None, ...]]:
    return frozenset(map(tuple, relations or ()))


def _named(
    relations: Iterable[tuple[str | None, ...]], names: AbstractSet[str]
) -> frozenset[tuple[str | None, ...]]:
    return frozenset(row for row in relations if folded(str(row[2])) in names)
