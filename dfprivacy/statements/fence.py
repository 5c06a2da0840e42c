"""DuckDB's optimiser off, while expressions must fail row by row.

TRY(x) turns an expression that fails into NULL, for the row that it fails on. The optimiser of
DuckDB may compute what two expressions have in common before them, outside of TRY: then one row
makes the whole query fail, and that it failed tells something about a row. Without the optimiser
every TRY is evaluated as it stands. Before 2.0 even that gave other rows of the block other values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb

from dfprivacy.errors import EngineError


def check_version(version: str) -> None:
    """Refuse a DuckDB whose TRY does not answer row by row.

    Raises
    ------
    EngineError
        For any before 2.0: a row that fails in AND, OR or coalesce changes the value of others.
    """
    if int(version.split(".", maxsplit=1)[0]) < 2:
        raise EngineError(
            f"statements need DuckDB 2.0 or later, and this is {version}: in older ones a row on "
            "which an expression fails changes what other rows add",
            hint="pip install 'duckdb>=2'; frames and groups work with this one: "
            "dfp.frame(con.table('t')).group_by('city').count()",
        )


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
