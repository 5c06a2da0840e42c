"""Keep failures where they belong: an expression that fails is NULL for its own row.

TRY(x) turns an expression that fails into NULL, for the row that it fails on. The optimiser of
DuckDB may compute what two expressions have in common before them, outside of TRY: then one row
makes the whole query fail, and that it failed tells something about a row. Without the optimiser
every TRY is evaluated as it stands.

Arrow, Parquet and arithmetic can leave numbers in a column of times that are no time at all. As a
text, or compared with a time of a zone, one of them makes DuckDB end the query in spite of TRY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import duckdb

from dfprivacy.engine.quoting import quoted
from dfprivacy.errors import UnsupportedDtypeError


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


_MOMENT = "TRY(CAST(CAST({0} AS TIMESTAMP) + INTERVAL '0' DAY AS {1}))"
_READ: Mapping[str, str] = {
    "TIMESTAMP": _MOMENT,
    "TIMESTAMP_S": _MOMENT,
    "TIMESTAMP_MS": _MOMENT,
    "TIME": "CASE WHEN {0} BETWEEN TIME '00:00:00' AND TIME '24:00:00' THEN {0} END",
}
"""How columns of a type are read, by their name and type; others as they are."""

_ENDING = {"BIGNUM": "DOUBLE", "VARIANT": "VARCHAR", "TIME_NS": "TIME"}
"""Types that are refused, and what to declare instead."""


def stored_values(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return a relation whose values are those of its declared types; nothing is read.

    Raises
    ------
    UnsupportedDtypeError
        For a column of a type whose values can end a query in spite of TRY, or that holds some:
        DuckDB 2.0 fails where it casts a BIGNUM that is too long, and gives up the whole database.
    """
    kinds = list(zip(relation.columns, map(str, relation.types), strict=True))
    for name, kind in kinds:
        ending = next((own for own in _ENDING if own in kind), None)
        if ending is not None:
            change = f"ALTER {quoted(name)} TYPE {_ENDING[ending]}"
            raise UnsupportedDtypeError(
                f"column {name!r} is of type {ending}, and one row of it could end the query",
                hint=f"give it another type: ALTER TABLE t {change}",
            )
    if not any(kind in _READ for _, kind in kinds):
        return relation
    read = (_READ.get(kind, "{0}").format(quoted(name), kind) for name, kind in kinds)
    named = (f"{sql} AS {quoted(name)}" for sql, (name, _) in zip(read, kinds, strict=True))
    return relation.project(", ".join(named))
