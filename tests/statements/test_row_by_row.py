"""What an expression says of a row is said by that row alone, whatever fails on its neighbours."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.statements.row_by_row import fence

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
    assert not differing(orders, [expression(choose, 1 + n % 3) for n in range(300)])


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
