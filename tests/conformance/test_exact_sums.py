"""Sums in DuckDB are the same integers, whether it adds floats or integers."""

import threading

import duckdb
import pytest

import dfprivacy as dfp

QUESTIONS = {
    "mean": dfp.mean("x", (-60, 240)),
    "total": dfp.sum("x", (-60, 240)),
    "spread": dfp.var("x", (-60, 240)),
    "rows": dfp.count(),
}


def fill_grid(rows):
    """Return groups of a table whose values fill the grid to its last bit."""
    value = f"240 - 300 * sqrt(range / {rows})"
    return stored(f"SELECT range % 3 AS g, {value} AS x FROM range({rows})")


def stored(query):
    """Return the rows of a query as a table of a connection of its own."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS {query}")
    return connection.table("t")


def test_large_groups_are_exact(exact):
    """A group of nine million values is added as integers: its sum is exact beyond 2**53."""
    frame = stored("SELECT 1 AS g, 256 - 9 * sqrt(range / 9e6) AS x FROM range(9_000_000)")
    statistics = {"mean": dfp.mean("x", (0, 256), clipping=False), "rows": dfp.count()}
    ((_, rows, total, everything),) = exact.sums(frame, statistics, ["g"])
    assert [[rows, total, everything]] == exact.sums(frame, statistics)
    assert total > 2**53


@pytest.mark.slow
def test_groups_beyond_the_exact_floats(exact):
    """A group of more than 2**23 values is exact too; floats alone would not be."""
    frame = stored(
        "SELECT 1 AS g, 239.9999999 - 0.0000003 * (range % 2) AS x FROM range(40_000_000)"
    )
    sums = exact.sums(frame, {"mean": dfp.mean("x", (-60, 240))}, ["g"])
    ungrouped = exact.sums(frame, {"mean": dfp.mean("x", (-60, 240))})
    assert sums[0][1:] == ungrouped[0]
    assert ungrouped[0][1] > 2**53


@pytest.mark.parametrize("by", [[], ["g"], ["g", "h"]])
def test_many_columns_are_exact(exact, by):
    """Sums of many columns, which DuckDB adds up in several passes, are those of polars."""
    columns = [
        f"CASE WHEN (range + {i}) % 7 = 0 THEN NULL WHEN (range + {i}) % 11 = 0 "
        f"THEN 'nan'::DOUBLE ELSE 300 * sin(range * {i + 1}) END AS x{i}"
        for i in range(21)
    ]
    keys = "range % 3 AS g, nullif(range % 2, 0)::VARCHAR AS h"
    frame = stored(f"SELECT {keys}, {', '.join(columns)} FROM range(3000)")
    statistics = {f"m{i}": dfp.mean(f"x{i}", (-60, 240)) for i in range(21)}
    statistics |= {"v": dfp.var("x3", (-60, 240)), "rows": dfp.count(), "some": dfp.count("x2")}
    expected = exact.sums(frame.pl(), statistics, by)
    assert exact.sums(frame, statistics, by) == expected
    table = frame.to_arrow_table()
    for other in (table, table.to_reader(), table.to_pandas().astype({"h": "string"})):
        assert exact.sums(other, statistics, by) == expected


def test_a_group_that_comes_between_passes_is_left_out(exact):
    """All passes over many columns are of the groups of one."""
    connection, coming = duckdb.connect(), []
    other = connection.cursor()

    def comes(group: int) -> int:
        """Add the row of another group to the table, while the first pass reads it."""
        while coming:
            other.execute(f"INSERT INTO t VALUES ({coming.pop()})")
        return group

    connection.create_function("comes", comes)
    columns = ", ".join(f"x{i} BIGINT AS (comes(g) + {i})" for i in range(21))
    connection.execute(f"CREATE TABLE t (g BIGINT, {columns})")
    connection.execute("INSERT INTO t SELECT range % 3 FROM range(100)")
    frame = connection.table("t")
    statistics = {f"m{i}": dfp.mean(f"x{i}", (0, 9)) for i in range(21)}
    assert len(exact.sums(frame, statistics, ["g"])) == 3
    coming.append(7)
    assert len(exact.sums(frame, statistics, ["g"])) == 3
    assert len(exact.sums(frame, statistics, ["g"])) == 4


def test_what_can_be_read_once_is_read_once(exact):
    """A reader, and a relation that stands on one, give the sums of their table."""
    table = fill_grid(3_000).to_arrow_table()
    expected = exact.sums(table, QUESTIONS, ["g"])
    assert exact.sums(table.to_reader(), QUESTIONS, ["g"]) == expected
    relation = duckdb.connect().from_arrow(table.to_reader())
    assert exact.sums(relation, QUESTIONS, ["g"]) == expected


def test_a_table_that_changes_between_two_passes_is_counted_by_one(exact):
    """The second pass, which large groups need, is not compared with the first."""
    connection, ended = duckdb.connect(), threading.Event()
    connection.execute("CREATE TABLE t AS SELECT 1 AS g, 239.0 AS x FROM range(9_000_000)")
    other = connection.cursor()

    def meddling():
        while not ended.wait(0.001):
            other.execute("INSERT INTO t VALUES (1, 7)")

    thread = threading.Thread(target=meddling)
    thread.start()
    try:
        for _ in range(3):
            exact.sums(connection.table("t"), {"mean": dfp.mean("x", (0, 256))}, ["g"])
    finally:
        ended.set()
        thread.join()
