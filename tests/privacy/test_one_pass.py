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


def test_a_table_of_the_caller_is_never_the_result():
    """A table of the caller that happens to be called like our result is not shown for it."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE released AS SELECT 'secret' AS row_of_the_caller")
    relation = connection.sql("SELECT range % 2 AS g FROM range(100)")
    result = dfp.frame(relation).group_by("g").count(epsilon=1e12, delta=0.5)
    assert result.columns == ["g", "count", "low", "high"]


def test_a_result_needs_no_replacement_scan():
    """A connection without replacement scans gets its result like any other."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 2 AS g FROM range(100)")
    connection.execute("SET python_enable_replacements = false")
    result = dfp.frame(connection.table("t")).group_by("g").count(epsilon=1e12, delta=0.5)
    assert [row[:2] for row in result.fetchall()] == [(0, 50), (1, 50)]


def test_the_callers_catalog_is_left_as_it_was():
    """A release leaves no table and no view behind in the caller's database."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 2 AS g FROM range(100)")
    catalog = (
        "SELECT view_name FROM duckdb_views() WHERE NOT internal "
        "UNION ALL SELECT table_name FROM duckdb_tables()"
    )
    before = connection.sql(catalog).fetchall()
    result = dfp.frame(connection.table("t")).group_by("g").count(epsilon=1e12, delta=0.5)
    assert len(result.fetchall()) == 2
    assert connection.sql(catalog).fetchall() == before
