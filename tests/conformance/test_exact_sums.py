"""Sums in DuckDB are the same integers, whether it adds floats or integers."""

import duckdb
import pytest

import dfprivacy as dfp
from dfprivacy.engine import sums as engine_sums
from dfprivacy.errors import EngineError

QUESTIONS = {
    "mean": dfp.mean("x", (-60, 240)),
    "total": dfp.sum("x", (-60, 240)),
    "spread": dfp.var("x", (-60, 240)),
    "rows": dfp.count(),
}


def made(rows):
    """Return groups of a table whose values fill the grid to its last bit."""
    value = f"240 - 300 * sqrt(range / {rows})"
    return stored(f"SELECT range % 3 AS g, {value} AS x FROM range({rows})")


def stored(query):
    """Return the rows of a query as a table of a connection of its own."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS {query}")
    return connection.table("t")


@pytest.fixture
def passes(monkeypatch):
    """Record as what numbers each pass adds."""
    seen, build = [], engine_sums.build_pass

    def watched(adopted, labels, sources, numbers):
        seen.append(str(numbers))
        return build(adopted, labels, sources, numbers)

    monkeypatch.setattr(engine_sums, "build_pass", watched)
    return seen


def test_small_groups_are_added_as_floats_once(exact, passes):
    """One pass of floats is enough, and gives the integers of polars."""
    frame = made(30_000)
    sums = exact(frame, QUESTIONS, ["g"])
    assert passes == ["Float64"]
    assert sums.table.equals(exact(frame.pl(), QUESTIONS, ["g"]).table)


def test_large_groups_are_added_again_as_integers(exact, passes, monkeypatch):
    """Where floats could round, the pass is made again with integers."""
    frame = made(30_000)
    monkeypatch.setattr(engine_sums, "_WHOLE_FLOATS", 2**30)
    sums = exact(frame, QUESTIONS, ["g"])
    assert passes == ["Float64", "Int64"]
    assert sums.table.equals(exact(frame.pl(), QUESTIONS, ["g"]).table)


@pytest.mark.slow
def test_groups_beyond_the_exact_floats(exact, passes):
    """A group of more than 2**23 values is exact too; floats alone would not be."""
    frame = stored(
        "SELECT 1 AS g, 239.9999999 - 0.0000003 * (range % 2) AS x FROM range(40_000_000)"
    )
    sums = exact(frame, {"mean": dfp.mean("x", (-60, 240))}, ["g"])
    assert passes == ["Float64", "Int64"]
    whole = exact(frame, {"mean": dfp.mean("x", (-60, 240))})
    assert sums.table.column("sum_0_1").to_pylist() == whole.table.column("sum_0_1").to_pylist()
    assert sums.table.column("sum_0_1").to_pylist()[0] > 2**53


def test_a_reader_is_read_once(exact, passes):
    """What runs dry is added as integers from the start."""
    table = made(3_000).to_arrow_table()
    sums = exact(table.to_reader(), QUESTIONS, ["g"])
    assert passes == ["Int64"]
    assert sums.table.equals(exact(table, QUESTIONS, ["g"]).table)


@pytest.mark.parametrize("by", [[], ["g"]])
def test_whole_frames_and_other_engines_add_integers(exact, passes, by):
    """Floats are added by group and in DuckDB only."""
    exact(made(300) if not by else made(300).pl(), QUESTIONS, by)
    assert passes == ["Int64"]


def test_relations_that_may_run_dry_are_read_once(exact, passes):
    """A view or query can stand on a reader: it is added as integers from the start."""
    table = made(3_000).to_arrow_table()
    sums = exact(duckdb.connect().from_arrow(table.to_reader()), QUESTIONS, ["g"])
    assert passes == ["Int64"]
    assert sums.table.equals(exact(table, QUESTIONS, ["g"]).table)


def test_a_table_that_changes_between_two_passes_is_refused(exact, monkeypatch):
    """The second pass must count what the first counted."""
    monkeypatch.setattr(engine_sums, "_WHOLE_FLOATS", 2**30)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 3 AS g, 200.0 AS x FROM range(3_000)")
    build = engine_sums.build_pass

    def meddling(adopted, labels, sources, numbers):
        connection.execute("INSERT INTO t VALUES (1, 7)")
        return build(adopted, labels, sources, numbers)

    monkeypatch.setattr(engine_sums, "build_pass", meddling)
    with pytest.raises(EngineError, match="changed while it was read"):
        exact(connection.table("t"), {"mean": dfp.mean("x", (-60, 240))}, ["g"])
