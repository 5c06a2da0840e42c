"""The local model in SQL: two databases that exchange reports and protocols only."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs

USERS = 20_000


@pytest.fixture
def owner():
    """Return the owners' database: minutes, some of them missing, and who they belong to."""
    connection = duckdb.connect()
    sql_udfs.register_local(connection)
    minutes = np.random.default_rng(3).normal(150.0, 20.0, USERS)
    connection.register("drawn", {"x": minutes, "who": np.arange(USERS)})
    connection.execute(
        "CREATE TABLE own AS SELECT CASE WHEN who % 50 > 0 THEN x END AS x, who, "
        "'user ' || who AS name FROM drawn"
    )
    return connection


@pytest.fixture
def analyst():
    """Return the analyst's database."""
    connection = duckdb.connect()
    sql_udfs.register(connection)
    return connection


def made(owner, query, text):
    """Return the reports of a query as Arrow data."""
    return owner.sql(query, params={"p": text}).to_arrow_table()


def answered(owner, analyst, protocol, user, query):
    """Send reports from one database to the other, and ask there."""
    text = protocol.to_json()
    reports = f"(SELECT dp_local_report(x, {user}, $p) AS report FROM own)"
    sent = made(owner, f"SELECT report FROM {reports} WHERE report IS NOT NULL", text)
    analyst.register("sent", sent)
    return len(sent), analyst.execute(f"SELECT {query} FROM sent", {"p": text}).fetchall()[0][0]


@pytest.mark.parametrize("named", [False, True])
def test_a_survey_in_sql(owner, analyst, named):
    """Two rounds in SQL end near the mean; every user reports in one of them."""
    user = "name" if named else "who"
    protocol = dfp.local.gaussian_mean(users=USERS, epsilon=3, sigma=20.0, limit=1000, named=named)
    first, text = answered(owner, analyst, protocol, user, "dp_local_next(report, $p)")
    second = dfp.local.Protocol.from_json(text)
    assert second.round == 2
    rest, found = answered(owner, analyst, second, user, "dp_local_mean_interval(report, $p)")
    assert first + rest == USERS
    assert 140 < found["low"] < found["value"] < found["high"] < 160
    _, value = answered(owner, analyst, second, user, "dp_local_mean(report, $p)")
    assert 140 < value < 160


def test_reports_by_group(owner, analyst):
    """Aggregates work by group: each group has the estimate of its own reports."""
    protocol = dfp.local.gaussian_mean(users=USERS, epsilon=3, sigma=20.0, limit=1000, rounds=1)
    text = protocol.to_json()
    sent = made(owner, "SELECT who % 2 AS g, dp_local_report(x, who, $p) AS report FROM own", text)
    analyst.register("sent", sent)
    query = "SELECT g, dp_local_mean(report, $p) FROM sent GROUP BY g ORDER BY g"
    rows = analyst.execute(query, {"p": text}).fetchall()
    structs = sent.column("report").combine_chunks()
    for g, mean in rows:
        own = np.flatnonzero(sent.column("g").to_numpy() == g)
        table = pa.Table.from_struct_array(structs.take(own))
        assert mean == float(protocol.aggregate(table).estimate())


def test_two_calls_draw_twice(owner):
    """Reports are drawn anew for every call and every row."""
    protocol = dfp.local.gaussian_mean(users=USERS, epsilon=1, sigma=20.0, limit=1000, rounds=1)
    query = "SELECT a.value != b.value FROM (SELECT dp_local_report(0, who, $p) AS a, "
    query += "dp_local_report(0, who, $p) AS b FROM own)"
    differ = sum(row[0] for row in owner.execute(query, {"p": protocol.to_json()}).fetchall())
    assert 5_000 < differ < 17_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("dp_local_report(x, who, 'x')", "no protocol"),
        ("dp_local_report(x, who, NULL)", "one constant text"),
        ("dp_local_report(x, who, name)", "constant"),
        ("dp_local_report(x, -1, $p)", "indexes from 0"),
        ("dp_local_report(x, NULL, $p)", "indexes from 0"),
        ("dp_local_report(x, name, $p)", "indexes from 0"),
        ("dp_local_mean(dp_local_report(x, who, $p), $p)", "round 1 of 2"),
    ],
)
def test_mistakes_are_refused(owner, call, message):
    """What is no protocol, no user or not the last round is an error that says so."""
    protocol = dfp.local.gaussian_mean(users=USERS, epsilon=1, sigma=20.0, limit=1000)
    given = {"p": protocol.to_json()} if "$p" in call else {}
    with pytest.raises(duckdb.Error, match=message):
        owner.execute(f"SELECT {call} FROM own", given).fetchall()
