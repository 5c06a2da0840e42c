"""A guarded connection vets and charges every statement before anything is drawn."""

from __future__ import annotations

import threading

import duckdb
import numpy as np
import pytest

import dfprivacy as dfp
import sql_udfs
from sql_udfs import finalize, unbounded


@pytest.fixture
def ledger(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=50, delta=0.9999, timeout=60)


@pytest.fixture
def con(ledger):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT i % 5 AS city, (i % 100)::DOUBLE AS x, i % 1000 AS u, "
        "'name ' || i AS name FROM range(20000) r(i)"
    )
    connection.execute("CREATE VIEW plain AS SELECT city, x * 2 AS y FROM t WHERE x > 3")
    sql_udfs.register(connection, ledger=ledger, dataset="d")
    connection.execute("CREATE VIEW drawn AS SELECT dp_count() AS n FROM t")
    return connection


KEEP = "GROUP BY city HAVING dp_keep(1e-6)"
ALLOWED = {
    "SELECT dp_count() FROM t": (1, 0),
    "SELECT dp_count(*), dp_mean(x, 0, 100) AS a, dp_mean(x, 0, 100) AS b FROM t": (3, 0),
    "SELECT dp_mean(x, 0, 9, 0.25), dp_median(x, 0.5) FROM t WHERE city IN (1, 2)": (0.75, 0),
    f"SELECT city, dp_sum(x, 0, 100) AS s FROM t {KEEP} ORDER BY s DESC, city LIMIT 2": (2, 1e-6),
    "SELECT city + 1, dp_mean(x) / 2 FROM t GROUP BY ALL HAVING dp_keep(1e-7, 0.5) ORDER BY 1": (
        1.5, 1e-7
    ),
    "SELECT city, round(dp_sum(x), 1) FROM t GROUP BY 1 HAVING dp_keep(1e-7) ORDER BY 1": (2, 1e-7),
    "WITH c AS (SELECT x + 1 AS z FROM t WHERE x > 1) SELECT dp_var(z, 0, 9) FROM c": (1, 0),
    "SELECT dp_quantiles(y, [0.1, 0.9]) FROM plain": (1, 0),
    "SELECT dp_mean_interval(x, 0, 100) AS m FROM (SELECT * FROM t WHERE u > 3) AS s": (1, 0),
    "SELECT dp_bounds(x) FROM t": (1, 0),
    "CREATE TABLE made AS SELECT dp_count() AS n FROM t": (1, 0),
    "SELECT dp_count() > 5 AND dp_count() < 7 FROM t": (2, 0),
}  # fmt: skip


def spies(monkeypatch):
    """Count the vectors that noise is drawn for, a chunk of groups each."""
    drawn = []

    def watch(module, name):
        true = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: (drawn.append(name), true(*a, **k))[1])

    watch(finalize, "add_to")
    watch(unbounded, "quantile_values")
    watch(unbounded, "octave_answer")
    watch(unbounded, "find_bounds")
    return drawn


@pytest.mark.parametrize("query", ALLOWED)
def test_what_is_drawn_is_charged(con, ledger, monkeypatch, query):
    """A statement costs what its calls say, and draws no more often than they are written."""
    drawn = spies(monkeypatch)
    con.execute(query).fetchall()
    spent, (epsilon, delta) = ledger.spent("d"), ALLOWED[query]
    assert (spent.epsilon, spent.delta) == (epsilon, delta)
    assert 1 <= len(drawn) <= query.count("dp_")
    assert ledger.history()["question"].tolist() == [" ".join(query.split())]


REFUSED = {
    "SELECT city, dp_count() FROM t GROUP BY city": "secret",
    "SELECT * FROM drawn": "in the view",
    "SELECT n, n FROM drawn": "in the view",
    "SELECT dp_count() FROM t UNION ALL SELECT dp_count() FROM t": "UNION",
    "WITH c AS NOT MATERIALIZED (SELECT * FROM t) SELECT dp_count() FROM c": "MATERIALIZED",
    "SELECT dp_count() FROM t a JOIN t b USING (u)": "join",
    "SELECT dp_count() FROM t, range(3)": "join",
    "SELECT dp_count() FROM (SELECT * FROM t UNION ALL SELECT * FROM t)": "UNION",
    "SELECT dp_mean(x - (SELECT avg(x) FROM t), 0, 1) FROM t": "a subquery",
    "SELECT dp_mean(x, 0, 100) FROM t WHERE x > (SELECT avg(x) FROM t)": "a subquery",
    "SELECT dp_count() FROM (SELECT row_number() OVER () AS n FROM t) WHERE n < 9": "a window",
    "SELECT dp_count() FROM (SELECT DISTINCT x FROM t)": "DISTINCT",
    "SELECT dp_count() FROM (SELECT x FROM t LIMIT 3)": "LIMIT",
    "SELECT dp_count() FROM t TABLESAMPLE 10%": "SAMPLE",
    "SELECT city, dp_count() FROM t GROUP BY ROLLUP (city) HAVING dp_keep(1e-6)": "ROLLUP",
    "SELECT city, dp_count() FROM t GROUP BY CUBE (city) HAVING dp_keep(1e-6)": "CUBE",
    "SELECT dp_count(), max(x) FROM t": "max(...)",
    "SELECT dp_count(), count(*) FROM t": "count(...)",
    "SELECT * FROM (SELECT dp_count() AS n FROM t) WHERE n > 0": "dp_count(...) here",
    "SELECT nullif(dp_count(), 3) FROM t": "evaluate several times",
    "SELECT dp_count() IN (1, 2, 3) FROM t": "evaluate several times",
    "SELECT CASE dp_count() WHEN 1 THEN 2 WHEN 3 THEN 4 END FROM t": "evaluate several times",
    "EXPLAIN ANALYZE SELECT dp_count() FROM t": "EXPLAIN",
    "EXECUTE prepared": "EXECUTE",
    "COPY (SELECT dp_count() FROM t) TO '/dev/null'": "COPY",
    "SELECT dp_count() FROM range(10)": "a table function",
    "SELECT dp_mean(random(), 0, 1) FROM t": "random(...)",
    "SELECT (SELECT dp_count() FROM t) FROM t": "a subquery",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_can_not_be_bounded_fails_as_a_whole(con, ledger, monkeypatch, query):
    """A shape that can't be bounded fails from inside: nothing is drawn, charged or shown."""
    con.execute("PREPARE prepared AS SELECT dp_count() FROM t")
    drawn = spies(monkeypatch)
    with pytest.raises(duckdb.Error, match="Error: ") as caught:
        con.execute(query).fetchall()
    said = str(caught.value)
    assert REFUSED[query].lower() in said.lower()
    assert "Hint: " in said
    assert "name 1" not in said
    assert drawn == []
    assert ledger.datasets() == []


def test_a_statement_that_the_budget_does_not_cover_shows_nothing(con, ledger, monkeypatch):
    """Nothing is drawn for a statement that costs more than is left."""
    drawn = spies(monkeypatch)
    with pytest.raises(duckdb.Error, match="BudgetExceededError"):
        con.execute("SELECT dp_count(x, 51) FROM t").fetchall()
    assert drawn == []
    assert ledger.datasets() == []


def test_every_run_is_charged(con, ledger):
    """The same text run again is another statement; a shown relation is one too."""
    for _ in range(3):
        con.execute("SELECT dp_count() FROM t").fetchall()
    relation = con.sql("SELECT dp_count() AS n FROM t")
    assert "n" in str(relation)
    assert ledger.spent("d").epsilon >= 4
    before = ledger.spent("d").epsilon
    relation.fetchall()
    assert ledger.spent("d").epsilon >= before


def test_many_groups_in_many_chunks_are_one_charge(con, ledger):
    """A statement that is answered in several chunks, by several threads, is charged once."""
    con.execute("CREATE TABLE many AS SELECT i % 10000 AS g, 1.0 AS x FROM range(200000) r(i)")
    query = "SELECT g, dp_sum(x, 0, 1) FROM many GROUP BY g HAVING dp_keep(0.1) ORDER BY g"
    assert len(con.execute(query).fetchall()) > 5000
    assert ledger.spent("d") == dfp.Budget(epsilon=2.0, delta=0.1)


def test_threads_with_their_own_cursors_are_charged_each(ledger):
    """Statements that run at the same time are charged one by one."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS x FROM range(1000) r(i)")
    cursors = [connection.cursor() for _ in range(4)]
    for cursor in cursors:
        sql_udfs.register(cursor, ledger=ledger, dataset="d")
    jobs = [
        threading.Thread(target=lambda c=c: c.execute("SELECT dp_count() FROM t").fetchall())
        for c in cursors
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert ledger.spent("d").epsilon == 4


@pytest.fixture
def units(ledger):
    """Return a connection on which one user has half of the table, and 100 have ten rows each."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE visits AS SELECT 1 AS user, 0 AS shop, 100.0 AS x FROM range(1000) UNION ALL "
        "SELECT 2 + i % 100, 1 + i % 10, 1.0 FROM range(1000) r(i) UNION ALL SELECT NULL, 1, 1.0"
    )
    sql_udfs.register(
        connection, ledger=ledger, dataset="v", unit="user", max_rows=2, max_groups=2, epsilon=1e6
    )
    return connection


def test_users_are_bounded_before_they_are_added_up(units):
    """dp_users keeps max_rows * max_groups rows of a user, and none without a user."""
    ledgerless = "SELECT dp_count(*, 20) FROM dp_users('visits')"
    (count,) = units.execute(ledgerless.replace("*, 20", "x, 20")).fetchone()
    assert abs(count - 4 * 101) < 30
    kept = units.execute("SELECT user, count(*) FROM dp_users('visits') GROUP BY user").fetchall()
    assert dict(kept) == dict.fromkeys(range(1, 102), 4)


def test_rows_of_one_user_stay_the_same(units):
    """Which rows of a user stay does not depend on other users."""
    rows = "SELECT * FROM dp_users('{}') WHERE user = 7 ORDER BY ALL"
    units.execute("CREATE TABLE alone AS SELECT * FROM visits WHERE user = 7")
    assert units.execute(rows.format("visits")).fetchall() == units.execute(
        rows.format("alone")
    ).fetchall()  # fmt: skip


def test_rows_of_a_user_stay_whatever_the_columns_are_called(ledger):
    """Rows are chosen by all of their columns, whatever these are called, not by one named r."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT 0 AS r, i % 5 AS relation, i AS v FROM range(100) s(i); "
        "CREATE TABLE turned AS FROM t WHERE relation = 1 ORDER BY v DESC"
    )
    sql_udfs.register(connection, ledger=ledger, dataset="t", unit="relation", max_rows=3)
    rows = "SELECT * FROM dp_users('{}') WHERE relation = 1 ORDER BY ALL"
    kept = [connection.execute(rows.format(name)).fetchall() for name in ("t", "turned")]
    assert kept[0] == kept[1]
    assert [row[2] for row in kept[0]] != [1, 6, 11]


def test_equal_rows_that_look_different_stay_by_their_text(ledger):
    """Rows of equal hashes, such as a month and thirty days, are chosen by their text."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t(u INTEGER, i INTERVAL); CREATE TABLE turned AS FROM t")
    for table, spans in (("t", "['1 month', '30 days']"), ("turned", "['30 days', '1 month']")):
        connection.execute(f"INSERT INTO {table} SELECT 1, unnest({spans})::INTERVAL")
    sql_udfs.register(connection, ledger=ledger, dataset="t", unit="u", max_rows=1)
    text = "SELECT CAST(i AS VARCHAR) FROM dp_users('{}')"
    kept = [connection.execute(text.format(name)).fetchall() for name in ("t", "turned")]
    assert kept[0] == kept[1]


UNBOUNDED = [
    "FROM visits",
    "FROM dp_users('visits') a JOIN dp_users('visits') b USING (x)",
    "FROM (SELECT 1)",
    "FROM visits AS dp_users('user')",
    "FROM visits WHERE x IS DISTINCT FROM dp_users('1')",
    "FROM dp_users('visits z')",
    "FROM dp_users('\"visits\"')",
]


@pytest.mark.parametrize("source", UNBOUNDED)
def test_a_unit_needs_bounded_rows(units, ledger, source):
    """With a unit declared, rows are read FROM dp_users('table'), once, and from that table."""
    units.execute('CREATE VIEW "visits z" AS SELECT row_number() OVER () AS user, x FROM visits')
    units.execute("CREATE TEMP MACRO dp_users(z) AS z")
    with pytest.raises(duckdb.Error, match=r"dp_users|a window"):
        units.execute(f"SELECT dp_count() {source}").fetchall()
    assert ledger.datasets() == []


@pytest.mark.parametrize("name", ["c", "visits"])
def test_users_are_not_bounded_in_a_cte(units, ledger, name):
    """A CTE of the name in dp_users('name') would choose its own unit: it is refused."""
    renamed = "SELECT x AS user FROM memory.main.visits"
    with pytest.raises(duckdb.Error, match="over a CTE"):
        units.execute(f"WITH {name} AS ({renamed}) SELECT dp_count() FROM dp_users('{name}')")
    assert ledger.datasets() == []
    bounded = "WITH c AS (SELECT * FROM dp_users('main.visits') WHERE x > 0)"
    (count,) = units.execute(f"{bounded} SELECT dp_count(x, 20) FROM c").fetchone()
    assert abs(count - 4 * 101) < 30


def test_without_a_unit_dp_users_is_any_table_function(con, ledger):
    """Where no unit is declared, a table macro of that name is a table function, and refused."""
    con.execute("CREATE MACRO dp_users(z) AS TABLE SELECT a.* FROM query_table(z) a, range(50)")
    with pytest.raises(duckdb.Error, match="a table function"):
        con.execute("SELECT dp_count() FROM dp_users('t')").fetchall()
    assert ledger.datasets() == []


def test_noise_covers_all_rows_of_a_user(units):
    """The noise of a count is as wide as all rows that one user can have, four here."""
    units.execute("CREATE TABLE groups AS SELECT range AS user, range AS g FROM range(20000)")
    shown = "GROUP BY g HAVING dp_keep(0.9, 0.05) ORDER BY g"
    query = f"SELECT dp_count(g, 1) FROM dp_users('groups') {shown}"
    counts = np.array([n for (n,) in units.execute(query).fetchall()])
    assert len(counts) > 2000
    assert 3.3 < np.abs(counts - 1).mean() < 4.7  # scale 4, standard deviation below 0.1


def test_a_group_of_one_user_alone_is_rarely_shown(units):
    """A user who has all rows of a group makes it appear with probability delta at most."""
    units.execute(
        "CREATE TABLE alone AS SELECT range // 4 AS user, range // 4 AS g FROM range(80000)"
    )
    kept = "GROUP BY g HAVING dp_keep(0.01, 1) ORDER BY g"
    query = f"SELECT g, dp_count(g, 1) FROM dp_users('alone') {kept}"
    shown = len(units.execute(query).fetchall())
    assert shown <= 20000 * 0.01 + 6.2 * (20000 * 0.01) ** 0.5


def test_limits_and_accounts_are_checked_when_registering(ledger):
    """A lonely limit, a unit without one, and a ledger without a dataset are refused."""
    connection = duckdb.connect()
    for terms in ({"max_rows": 3}, {"unit": "u"}, {"unit": "u", "max_rows": 0}):
        with pytest.raises(dfp.InvalidUnitError):
            sql_udfs.register(connection, **terms)
    with pytest.raises(dfp.InvalidLedgerError):
        sql_udfs.register(connection, ledger=ledger)
