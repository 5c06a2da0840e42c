"""DuckDB's optimiser off, while expressions must fail row by row.

TRY(x) turns an expression that fails into NULL, for the row that it fails on. The optimiser of
DuckDB may compute what two expressions have in common before them, outside of TRY: then one row
makes the whole query fail, and that it failed tells something about a row. Without the optimiser
every TRY is evaluated as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb


def fence(engine: duckdb.DuckDBPyConnection) -> None:
    """Switch the optimiser of a connection off for good."""
    engine.execute("PRAGMA disable_optimizer")


@contextmanager
def fenced(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Switch the optimiser of a connection off, and on again if it was on."""
    ((was_on,),) = connection.execute("SELECT current_setting('enable_optimizer')").fetchall()
    fence(connection)
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # of a connection that is lost: its text could speak of a row
            if was_on:
                connection.execute("PRAGMA enable_optimizer")
