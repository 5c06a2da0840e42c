"""What DuckDB itself would betray of the rows when it runs a vetted statement as it is written.

`dfp.sql` reads every value once, spells every key apart and sorts the groups. DuckDB, left to
itself, shows the first spelling of a key, gives groups in the order in which it met them, and
computes a generated column each time that it is named. Each is refused by the statement's text
and the declared types alone.
"""

from __future__ import annotations

import duckdb
from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB

from dfprivacy.engine.quoting import quoted
from dfprivacy.errors import EngineError
from dfprivacy.statements.names import shown
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.released import key_column, qualified
from dfprivacy.statements.statement import Key, Statement

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_ONE_SPELLING = {
    *_WHOLE, *(f"U{name}" for name in _WHOLE), "DECIMAL", "BOOLEAN", "VARCHAR", "JSON", "BLOB",
    "UUID", "ENUM", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
"""Types whose equal values look equal: 0.0 is not -0.0, and a month may be thirty days."""
_PROBE = "temp.main.dfprivacy_keys"
_DEFINITION = (
    "SELECT sql FROM system.main.duckdb_tables() "
    "WHERE database_name = ? AND schema_name = ? AND table_name = ?"
)


def check_engine_rows(
    statement: Statement, catalog: duckdb.DuckDBPyConnection, collation: str
) -> None:
    """Refuse what DuckDB's own evaluation would make depend on rows beyond the noise.

    Raises
    ------
    RefusedStatementError
        For a table with generated columns, keys that have several spellings, and groups that are
        not sorted by all their keys.
    """
    _check_generated(statement, catalog)
    if statement.keys:
        _check_spellings(statement, catalog, collation)
        _check_order(statement)


def _check_generated(statement: Statement, catalog: duckdb.DuckDBPyConnection) -> None:
    """Refuse a table with a generated column, whose values may change between two looks."""
    base = statement.rows.base
    found = catalog.execute(_DEFINITION, list(base.path)).fetchall()
    if any("GENERATED" in _words(sql or "") for (sql,) in found):  # NULL for other databases
        raise Refusal(
            f"the generated columns of {base.name!r}",
            "DuckDB computes them anew each time that they are named, and random() is new then",
            "CREATE TABLE prepared AS SELECT * FROM that table, and ask about it; or use dfp.sql",
        ).error()


def _words(sql: str) -> set[str]:
    """Return the words of a definition that are neither quoted nor in a text."""
    quoted_kinds = (TokenType.IDENTIFIER, TokenType.STRING)
    tokens = DuckDB().tokenize(sql)
    return {token.text.upper() for token in tokens if token.token_type not in quoted_kinds}


def _check_spellings(
    statement: Statement, catalog: duckdb.DuckDBPyConnection, collation: str
) -> None:
    """Refuse keys that are equal in two spellings: DuckDB shows that which comes first."""
    kinds, definition = _declared(statement, catalog)
    for key, kind in zip(statement.keys, kinds, strict=True):
        if kind.split("(")[0] not in _ONE_SPELLING:
            raise _spelled(key, f"of type {kind.split('(')[0]}")
    if collation or "COLLATE" in _words(definition):
        raise _spelled(statement.keys[0], "with a collation")


def _spelled(key: Key, what: str) -> Exception:
    return Refusal(
        f"GROUP BY {key.name}, {what}",
        "keys that are equal may be spelled apart, and one row can choose what is shown",
        "group by a type whose equal values look equal: CAST(x AS VARCHAR) or CAST(x AS DECIMAL), "
        "and text without a collation",
    ).error()


def _declared(statement: Statement, catalog: duckdb.DuckDBPyConnection) -> tuple[list[str], str]:
    """Return the declared types of the keys, and the definition of a table that holds them."""
    keys = ", ".join(f"{key.sql} AS key_{index}" for index, key in enumerate(statement.keys))
    base = ".".join(map(quoted, statement.rows.base.path))
    try:
        catalog.execute(
            f"CREATE OR REPLACE TEMP TABLE {_PROBE} AS SELECT {keys} FROM {base} LIMIT 0"  # noqa: S608 written by rules
        )
        kinds = [row[1] for row in catalog.execute(f"DESCRIBE {_PROBE}").fetchall()]
        ((definition,),) = catalog.execute(_DEFINITION, _PROBE.split(".")).fetchall()
        catalog.execute(f"DROP TABLE {_PROBE}")
    except duckdb.Error as error:
        problem = str(error).splitlines()[0]
    else:
        return kinds, definition
    raise EngineError(
        f"the types of the keys can't be found out: {problem}",
        hint="check names and types; CAST(x AS VARCHAR) turns a key into text",
    )


def _check_order(statement: Statement) -> None:
    """Refuse groups that are not sorted by every key: their order would be that of the rows."""
    sorted_by = {text.rsplit(" ", 3)[0] for text in statement.released.order}
    missing = [
        key.name
        for index, key in enumerate(statement.keys)
        if qualified(key_column(index)) not in sorted_by
    ]
    if missing:
        names = ", ".join(shown(name) if name.isidentifier() else name for name in missing)
        raise Refusal(
            f"groups without {names} in ORDER BY",
            "DuckDB gives them in an order, or breaks ties in one, that depends on rows",
            f"end the statement with ORDER BY {names}, or add this to its ORDER BY",
        ).error()
