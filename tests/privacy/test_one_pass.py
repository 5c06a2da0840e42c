"""A release runs the caller's plan once, draws once, and leaves the caller's database as it was."""

import duckdb
import polars as pl

import dfprivacy as dfp


def test_one_pass_and_one_draw_for_a_release(entropy_calls):
    """A release runs the caller's plan once and draws noise once; reading it draws no more."""
    passes = []

    def count_pass(frame):
        passes.append(1)
        return frame

    lazy = pl.LazyFrame({"g": ["a"] * 9, "x": range(9)}).map_batches(
        count_pass, schema={"g": pl.String, "x": pl.Int64}
    )
    released = lazy.dp.group_by("g").agg(
        dfp.mean("x", (0, 9)), dfp.var("x", (0, 9)), n=dfp.count(), epsilon=9, delta=0.1
    )
    before = len(entropy_calls)
    first, second = released.collect(), released.collect()
    assert first.equals(second)
    assert (len(passes), len(entropy_calls)) == (1, before)
    assert before > 0


def test_a_release_uses_nothing_of_the_callers_database_but_the_rows():
    """It leaves no name behind, takes no table for its result, and needs no replacement scan."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 2 AS g FROM range(100)")
    connection.execute("CREATE TABLE released AS SELECT 'secret' AS row_of_the_caller")
    connection.execute("SET python_enable_replacements = false")
    catalog = (
        "SELECT view_name FROM duckdb_views() WHERE NOT internal "
        "UNION ALL SELECT table_name FROM duckdb_tables()"
    )
    before = connection.sql(catalog).fetchall()
    for relation in (connection.table("t"), connection.sql("FROM t")):
        result = dfp.frame(relation).group_by("g").count(epsilon=1e12, delta=0.5)
        assert result.columns == ["g", "count", "low", "high"]
        assert [row[:2] for row in result.fetchall()] == [(0, 50), (1, 50)]
    assert connection.sql(catalog).fetchall() == before
