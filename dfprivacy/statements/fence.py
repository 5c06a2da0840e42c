"""DuckDB's optimiser off, while expressions must fail row by row.

TRY(x) turns an expression that fails into NULL, for the row that it fails on. The optimiser of
DuckDB 1.4 and 2.0 may compute what two expressions have in common before them, outside of TRY: then
one row makes the whole query fail, and that it failed tells something about a row. Without the
optimiser every TRY is evaluated as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


def fence(engine: duckdb.DuckDBPyConnection) -> None:
    """Switch the optimiser of a connection off for good."""
    engine.execute("PRAGMA disable_optimizer")


@contextmanager
def fenced(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Switch the optimiser of a connection off, and on again if it was on.

    DuckDB 1.4 does not tell whether it was on; there it is on afterwards.
    """
    was_on = _is_on(connection)
    fence(connection)
    try:
        yield
    finally:
        if was_on:
            connection.execute("PRAGMA enable_optimizer")


def _is_on(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        state = connection.execute("SELECT current_setting('enable_optimizer')").fetchall()
    except duckdb.CatalogException:
        return True
    return state != [(False,)]
