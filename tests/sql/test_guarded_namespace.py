"""On a guarded connection, the relations and functions that are vetted are those that run."""

from __future__ import annotations

import duckdb
import pytest

import dfprivacy as dfp
import sql_udfs


@pytest.fixture
def ledger(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=1000)


@pytest.fixture
def con(ledger):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT i::DOUBLE AS x FROM range(3000) r(i); "
        "CREATE VIEW v AS SELECT * FROM t; CREATE SCHEMA s; CREATE SCHEMA b; "
        "CREATE TABLE s.t AS SELECT range AS x FROM range(10); CREATE TABLE b.t AS FROM range(7); "
        "CREATE VIEW s.many AS SELECT a.* FROM main.t a, range(1000)"
    )
    sql_udfs.register(connection, ledger=ledger, dataset="d", epsilon=20)
    return connection


MANY = "AS SELECT a.* FROM memory.main.t a, range(1000)"
SHADOWS = {
    f"CREATE TEMP VIEW t {MANY}": "SELECT dp_count() FROM t",
    f"CREATE TEMP VIEW T  {MANY}": "SELECT dp_count() FROM v",
    f"CREATE TEMP TABLE t {MANY}": "SELECT dp_count() FROM main.t",
    f"BEGIN; CREATE OR REPLACE TABLE t {MANY}": "SELECT dp_count() FROM t",
    "BEGIN; ALTER TABLE t ALTER x TYPE INTEGER": "SELECT dp_count() FROM t",
    f"BEGIN; DROP VIEW v; CREATE VIEW v {MANY}": "SELECT dp_count() FROM v",
    "CREATE TEMP TABLE mine AS FROM t": "SELECT dp_count() FROM mine",
    "BEGIN; CREATE SCHEMA q; USE q": "SELECT dp_count() FROM main.t",
    "SET search_path = 'b,s'": "SELECT dp_count() FROM t",
    "USE s": "SELECT dp_count() FROM many",
    "CREATE TEMP MACRO upper(z) AS (SELECT sum(x) FROM memory.main.t)": (
        "SELECT dp_mean(upper(x), 0, 1e9) FROM t"
    ),
    "CREATE TEMP MACRO Round(x, n) AS [x, x, x]": "SELECT round(dp_count(), 1) FROM t",
    "CREATE MACRO current_query() AS 'SELECT dp_count() FROM t'": "SELECT dp_count() FROM t",
}


@pytest.mark.parametrize("change", SHADOWS)
def test_what_only_the_running_connection_sees_is_refused(con, ledger, change):
    """A name that means something else where the statement runs is refused, for nothing."""
    con.execute(change)
    with pytest.raises(duckdb.Error, match="RefusedStatementError") as caught:
        con.execute(SHADOWS[change]).fetchall()
    assert "Hint: " in str(caught.value)
    assert ledger.datasets() == []


def test_letters_beyond_ascii_are_not_folded(con, ledger):
    """A name is vetted as DuckDB finds it: the Kelvin sign is no k, and a view of it is a view."""
    con.execute(f'CREATE TABLE k AS FROM t; CREATE VIEW "\N{KELVIN SIGN}" {MANY}')
    with pytest.raises(duckdb.Error, match=r"RefusedStatementError: in the view .*: a join"):
        con.execute('SELECT dp_count() FROM "\N{KELVIN SIGN}"').fetchall()
    con.execute('CREATE MACRO "dp_\N{KELVIN SIGN}eep"(x) AS true')
    with pytest.raises(duckdb.Error, match="there is no such function"):
        con.execute(
            "SELECT x, dp_count() FROM t GROUP BY x HAVING dp_\N{KELVIN SIGN}eep(1e-9)"
        ).fetchall()
    assert ledger.datasets() == []


UNHARMED = {
    "USE s": 10,
    "USE b; USE memory.main": 3000,
    "CREATE TEMP TABLE other AS FROM t": 3000,
    "CREATE TEMP MACRO mine(z) AS z + 1": 3000,
    "BEGIN; INSERT INTO t FROM t": 6000,
    "BEGIN; CREATE TABLE another AS FROM t": 3000,
}


@pytest.mark.parametrize("change", UNHARMED)
def test_names_mean_what_they_mean_where_the_statement_runs(con, change):
    """Changes that leave a statement's own names alone do not matter, and USE is followed."""
    con.execute(change)
    (count,) = con.execute("SELECT dp_count() FROM t").fetchone()
    assert abs(count - UNHARMED[change]) < 5  # scale 1/20
