"""Whatever one row holds, a statement ends in the same way, with the same columns and types."""

from __future__ import annotations

import functools
from contextlib import nullcontext

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.statements import catalog, jobs

ROWS = [
    (i, f"{i % 9}", float(i % 7), pd.Timestamp("2024-01-01") + pd.Timedelta(days=i))
    for i in range(3000)
]
POISON = (2**62, "Alice Secret", float("nan"), pd.Timestamp("2262-01-01"))
SCHEMA = pa.schema(
    [("i", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("d", pa.timestamp("us"))]
)

FAILING = [
    "CAST(s AS INTEGER)",
    "CAST(s AS INTEGER) + CAST(s AS INTEGER)",
    "CAST(s AS INTEGER) * 2 + CAST(s AS INTEGER) * 2",
    "s::DATE IS NULL",
    "i * 4",
    "(i * 4) + (i * 4)",
    "i::TINYINT",
    "100 // (i - 4611686018427387904)",
    "i % (4611686018427387904 - i)",
    "CASE WHEN i > 5 THEN CAST(s AS INTEGER) ELSE CAST(s AS INTEGER) END",
    "coalesce(CAST(s AS INTEGER), 1)",
    "strptime(s, '%d')",
    "date_trunc(s, d)",
    "make_date(i, 13, 45)",
    "ln(x - x - 1)",
    "sqrt(-x)",
    "x::INTEGER",
    "CAST(x AS DECIMAL(2, 1))",
    "d + INTERVAL '300000' YEAR",
    "if(i > 4611686018427387903, s, 'true')",
    "time_bucket(INTERVAL '7' DAY, d, TIMESTAMP '2024-01-01')",
    "s LIKE '1!%' ESCAPE '!'",
    "[1, 2, 3][1] + CAST(s AS INTEGER)",
    "regexp_matches('a', s || '(')",
    f"CAST(s AS INTEGER) IN ({', '.join(map(str, range(40)))})",
    f"s IN ({', '.join(map(str, range(40)))})",
]
QUERIES = [
    query
    for e in FAILING
    for query in (
        f"SELECT dp_count({e}) AS n, dp_count(coalesce({e} IS NULL, false)) AS m FROM t",
        f"SELECT dp_count(*) AS n FROM t WHERE {e} IS NOT NULL AND x > 1",
        f"SELECT dp_count(*) AS n FROM t WHERE {e}",
        f"SELECT {e} AS k, dp_count({e}) AS n FROM t GROUP BY k",
    )
]  # fmt: skip


def in_duckdb(table):
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return {"con": connection}


PLACES = {
    "duckdb": in_duckdb,
    "pandas": lambda table: {"t": table.to_pandas()},
    "polars": lambda table: {"t": pl.DataFrame(table)},
    "arrow": lambda table: {"t": table},
}


def outcome(terms, query):
    """Return how a statement ends, and with what columns and types."""
    try:
        released = dfp.sql(query, **terms, delta=1e-3)
    except dfp.DPError as error:
        return type(error).__name__, str(error)
    if isinstance(released, duckdb.DuckDBPyRelation):
        return released.columns, list(map(str, released.types))
    kinds = released.dtypes if hasattr(released, "dtypes") else released.schema.types
    names = released.columns if hasattr(released, "dtypes") else released.column_names
    return list(names), list(map(str, kinds))


@functools.cache
def neighbours(place):
    """Make a table, the same with one row more that makes expressions fail, and no rows at all."""
    table = [pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)
             for rows in (ROWS, [*ROWS, POISON], [])]  # fmt: skip
    return [PLACES[place](own) for own in table]


FRAMES = ["pandas", "polars", "arrow"]
"""They meet the same engine, so that each is asked every third query."""


@pytest.mark.parametrize(
    ("place", "query"),
    [(place, q) for i, q in enumerate(QUERIES) for place in ("duckdb", FRAMES[i % 3])],
)
def test_a_row_that_fails(place, query):
    """A row on which an expression fails changes neither outcome nor message nor types."""
    one, other, none = (outcome(terms, query) for terms in neighbours(place))
    assert one == other == none


def test_conditions_are_cast_row_by_row():
    """A condition that is no boolean is one where it can be, in WHERE, in a view and in HAVING."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT ['true', 'false', 'odd', NULL][1 + i % 4] AS s, i "
                "FROM range(400) AS r(i); CREATE VIEW v AS SELECT i FROM t WHERE s")  # fmt: skip
    for query in ("SELECT dp_count(*) FROM t WHERE s", "SELECT dp_count(*) FROM v",
                  "SELECT dp_count(*) FROM t WHERE i % 4 = 0 OR (s AND s)"):  # fmt: skip
        assert dfp.sql(query, con=con, epsilon=1e13).fetchall() == [(100,)]
    query = "SELECT s, dp_count(*) FROM t GROUP BY s HAVING dp_keep(1e-6) AND s"
    assert dfp.sql(query, con=con, epsilon=1e13).fetchall() == [("true", 100)]


def test_the_fence_is_needed(monkeypatch):
    """With DuckDB's optimiser on, one row makes a statement fail: the fence must not go."""
    table = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, r, strict=True)) for r in [*ROWS, POISON]], SCHEMA
    )
    query = "SELECT dp_count(CAST(s AS INTEGER) + CAST(s AS INTEGER)) FROM t"
    assert dfp.sql(query, t=table).num_rows == 1
    monkeypatch.setattr(jobs, "fence", lambda _: None)
    with pytest.raises(dfp.EngineError):
        dfp.sql(query, t=table)


def test_the_fence_is_needed_on_a_connection(monkeypatch):
    """The same on a connection, whose optimiser is off for the time of a statement."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 'x' AS s UNION ALL SELECT range::VARCHAR FROM range(99)")
    query = "SELECT dp_count(CAST(s AS INTEGER) + CAST(s AS INTEGER)) AS n FROM t"
    assert dfp.sql(query, con=con, epsilon=1e13).fetchall() == [(99,)]
    monkeypatch.setattr(catalog, "fenced", lambda _: nullcontext())
    with pytest.raises(dfp.EngineError):
        dfp.sql(query, con=con)


def test_the_optimiser_is_on_again(shared):
    """A connection's optimiser is on after a statement, whether it succeeds or fails."""
    dfp.sql("SELECT dp_count(*) FROM visits", con=shared)
    with pytest.raises(dfp.DPError):
        dfp.sql("SELECT dp_mean(note, 0, 1) FROM visits", con=shared)
    plan = shared.execute("EXPLAIN SELECT 1 FROM visits WHERE 1 = 2").fetchall()
    assert "EMPTY" in str(plan).upper().replace(" ", "_")


def test_failures_of_an_engine_are_withheld(shared, monkeypatch):
    """An engine that fails while rows are read says nothing of them, and nothing is charged."""

    def broken(*_, **__):
        raise duckdb.ConversionException("Could not convert string 'Alice Secret' to INT32")

    monkeypatch.setattr(jobs, "release_answers", lambda *_, **__: jobs.guarded(broken))
    with pytest.raises(dfp.EngineError) as caught:
        dfp.sql("SELECT dp_count(*) FROM visits", con=shared)
    assert "Alice" not in str(caught.value)
