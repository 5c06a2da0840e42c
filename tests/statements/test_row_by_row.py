"""What an expression says of a row is said by that row alone, whatever fails on its neighbours."""

from __future__ import annotations

import random
from contextlib import nullcontext

import duckdb
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.release.terms import Terms
from dfprivacy.statements import catalog, jobs
from dfprivacy.statements.functions import AGGREGATES, CHANGING, OUTSIDE, ROW_FUNCTIONS
from dfprivacy.statements.gate import fence

ATOMS = [
    "CAST(s AS BOOLEAN)", "CAST(t AS BOOLEAN)", "(CAST(s AS INTEGER) > 0)", "(i = 0)",
    "(CAST(t AS INTEGER) = i)", "(i IS NULL)", "(1 // (i - 1) > 0)", "(s::DATE IS NULL)", "true",
    "(s = 'true')",
]  # fmt: skip
FORMS = [
    "({} AND {})", "({} OR {})", "coalesce({}, {})", "CASE WHEN {} THEN {} ELSE {} END", "(NOT {})",
    "nullif({}, {})", "if({}, {}, {})", "({} IN ({}, {}))", "greatest({}, {})", "({} IS NULL)",
    "({} IS NOT DISTINCT FROM {})", "({} BETWEEN {} AND {})",
]  # fmt: skip
TEXTS = ["true", "false", "odd", None, "1", "0", "7", "2024-01-01"]


def expression(choose, depth):
    """Return a condition that fails on some rows, nested so deeply."""
    if depth == 0:
        return choose.choice(ATOMS)
    form = choose.choice(FORMS)
    return form.format(*(expression(choose, depth - 1) for _ in range(form.count("{}"))))


@pytest.fixture(scope="module")
def orders():
    """Make the same rows twice, in opposite orders."""
    choose, con = random.Random(3), duckdb.connect()
    fence(con)
    columns = {"s": TEXTS, "t": TEXTS, "i": [0, 1, 2, None]}
    rows = [{"id": n} | {k: choose.choice(v) for k, v in columns.items()} for n in range(500)]
    con.register("given", pa.Table.from_pylist(rows))
    con.execute(
        "CREATE TABLE forth AS FROM given; CREATE TABLE back AS FROM given ORDER BY id DESC"
    )
    return con


def differing(con, expressions):
    """Return the expressions with another value in the other order."""
    query = (
        "SELECT count(*) FROM (SELECT id, TRY({0}) AS v FROM forth) AS a "
        "JOIN (SELECT id, TRY({0}) AS v FROM back) AS b USING (id) WHERE a.v IS DISTINCT FROM b.v"
    )
    return [e for e in expressions if con.execute(query.format(e)).fetchall() != [(0,)]]


def test_neighbours_change_no_value(orders):
    """TRY is NULL for the row that fails and leaves the others alone."""
    choose = random.Random(4)
    assert not differing(orders, [expression(choose, 1 + n % 3) for n in range(150)])


@pytest.mark.slow
def test_neighbours_change_no_value_at_length(orders):
    """The same for thousands of expressions."""
    choose = random.Random(5)
    assert not differing(orders, [expression(choose, 1 + n % 4) for n in range(4000)])


KINDS = {
    "us": pa.timestamp("us"), "s": pa.timestamp("s"), "ms": pa.timestamp("ms"),
    "zone": pa.timestamp("us", "UTC"), "fine": pa.timestamp("ns"), "clock": pa.time64("us"),
}  # fmt: skip
FAR = [-(2**63), 1 - 2**63, 2**63 - 1, 2**63 - 2, 2**62, -9223372022400000001, -1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", FAR)
def test_numbers_that_are_no_times(kind, far):
    """What a column of times holds ends no query, as a text or beside times of a zone."""
    query = (
        "SELECT dp_count(x::VARCHAR) AS n, dp_count(x || 'a') AS m, dp_count(concat(x)) AS c, "
        "dp_count(TRY_CAST(x AS TIMESTAMPTZ)) AS z FROM t"
    )
    if kind == "clock":
        query = "SELECT dp_count(x::VARCHAR) AS n, dp_count(x || 'a') AS m FROM t"
    for numbers in ([0, 1], [0, 1, far]):
        column = pa.array(numbers, pa.int64()).cast(KINDS[kind])
        found = dfp.sql(query, t=pa.table({"x": column}), epsilon=1e13)
        assert set(found.to_pylist()[0].values()) <= {2, len(numbers)}


def test_times_keep_value_and_type():
    """A time that is one is read as it is, with its type."""
    con = duckdb.connect()
    kinds = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIME")
    for kind in kinds:
        value = "24:00:00" if kind == "TIME" else "2024-02-29 23:59:59"
        made = f"SELECT CAST('{value}' AS {kind}) AS k FROM range(100)"
        con.execute(f"CREATE OR REPLACE TABLE t AS {made}")
        found = dfp.sql("SELECT k, dp_count(*) FROM t GROUP BY k", con=con, epsilon=60, delta=1e-6)
        assert str(found.types[0]) == kind
        same = "SELECT DISTINCT k = (SELECT k FROM found) FROM t"
        assert con.execute(same).fetchall() == [(True,)]


def test_types_that_end_queries_are_refused():
    """By the declared type, on its own or inside another one."""
    con = duckdb.connect()
    for kind in ("VARIANT", "BIGNUM", "BIGNUM[]", "TIME_NS", "STRUCT(a VARIANT)"):
        con.execute(f"CREATE OR REPLACE TABLE t(x {kind})")
        with pytest.raises(dfp.UnsupportedDtypeError, match="could end the query"):
            dfp.sql("SELECT dp_count(x) FROM t", con=con)


def test_functions_of_one_row_have_no_memory():
    """Every function on the list is one of DuckDB's, scalar, and the same at every evaluation."""
    rows = duckdb.execute(
        "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE internal"
    ).fetchall()
    kinds = {}
    for name, kind, stability in rows:
        kinds.setdefault(name, set()).add((kind, stability))
    syntax = {"coalesce", "ifnull", "if"}
    for name in ROW_FUNCTIONS - syntax:
        assert kinds[name] <= {("scalar", "CONSISTENT"), ("macro", None)}, name
    for name in ROW_FUNCTIONS:
        arguments = {"pi": ""}.get(name)
        if arguments is not None:
            assert duckdb.execute(f"SELECT {name}({arguments})").fetchall()


def test_the_lists_of_functions_are_apart():
    """No function is both of one row and something else, and no aggregate of DuckDB's is of one."""
    assert not ROW_FUNCTIONS & (AGGREGATES | CHANGING | OUTSIDE)
    rows = duckdb.execute(
        "SELECT function_name FROM duckdb_functions() "
        "WHERE function_type IN ('aggregate', 'table', 'table_macro') OR stability = 'VOLATILE'"
    ).fetchall()
    assert not ROW_FUNCTIONS & {name for (name,) in rows}


def test_the_fence_is_needed(monkeypatch):
    """With DuckDB's optimiser on, one row makes a statement fail: the fence must not go."""
    table = pa.table({"s": [*map(str, range(99)), "x"]})
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


PLAIN = [
    "SELECT s, dp_count(*) AS n, dp_mean(x, 0, 9) AS m FROM t GROUP BY s",
    "SELECT dp_sum(x, 0, 1) FROM t",
]
COMPUTING = [
    "SELECT dp_mean(x + 1, 0, 9) AS m FROM t",
    "SELECT dp_count(*) AS n FROM t WHERE x > 1",
    "SELECT lower(s) AS k, dp_count(*) AS n FROM t GROUP BY k",
    "SELECT dp_count(d) AS n FROM t",
]


def rows():
    return pa.table(
        {
            "s": ["a", "b"] * 2000,
            "x": [float("nan"), 1.0, 2.0, -(10.0**300)] * 1000,
            "d": pa.array([0, 1] * 2000, pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("query", [*PLAIN, *COMPUTING])
def test_the_optimiser_is_off_where_rows_could_fail(query, monkeypatch):
    """It stays on where columns are read as they are, and off where anything is computed of them.

    Times and decimals are computed: what is no time is taken out.
    """
    states, release = [], jobs.release_answers
    con = duckdb.connect()
    con.register("given", rows())
    con.execute("CREATE TABLE t AS FROM given")

    def watched(found, request):
        for own in (con, job.engine):
            states.extend(own.execute("SELECT current_setting('enable_optimizer')").fetchall())
        return release(found, request)

    monkeypatch.setattr(jobs, "release_answers", watched)
    terms = Terms(epsilon=1e9, delta=1e-6)
    for place in ({"con": con, "frames": {}}, {"con": None, "frames": {"t": rows()}}):
        with jobs.job_of(query, **place, terms=terms, keys=None) as job:
            job.run()
    on_connection, _, _, on_engine = states
    assert {on_connection, on_engine} == {(query in PLAIN,)}
    assert con.execute("SELECT current_setting('enable_optimizer')").fetchone() == (True,)


@pytest.mark.parametrize("query", [*PLAIN, *COMPUTING])
def test_an_optimiser_that_is_off_stays_off(query):
    """A statement leaves the connection as it was, and answers the same without the optimiser."""
    con = duckdb.connect()
    con.register("given", rows())
    con.execute("CREATE TABLE t AS FROM given")
    on = dfp.sql(query, con=con, epsilon=1e12, delta=1e-6).fetchall()
    con.execute("PRAGMA disable_optimizer")
    off = dfp.sql(query, con=con, epsilon=1e12, delta=1e-6).fetchall()
    assert [row[:-1] for row in on] == [row[:-1] for row in off]
    assert [row[-1] for row in on] == pytest.approx([row[-1] for row in off])
    assert con.execute("SELECT current_setting('enable_optimizer')").fetchone() == (False,)
