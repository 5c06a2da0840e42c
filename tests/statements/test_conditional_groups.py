"""Groups are selected by a count of rows, whatever order conditional calls are written in."""

import itertools

import duckdb
import pytest

import dfprivacy as dfp

CALLS = {
    "FILTER": [
        "count(*) FILTER (WHERE state = 'new') AS new",
        "count(*) FILTER (WHERE state = 'old') AS old",
    ],
    "CASE": [
        "dp_count(CASE WHEN state = 'new' THEN 1 END) AS new",
        "dp_count(CASE WHEN state = 'old' THEN 1 END) AS old",
    ],
    "means": [
        "dp_mean(x, 0, 9) FILTER (WHERE state = 'new') AS new",
        "dp_mean(x, 0, 9) FILTER (WHERE state = 'old') AS old",
    ],
    "without bounds": [
        "dp_mean(x) FILTER (WHERE state = 'new') AS new",
        "dp_mean(x) FILTER (WHERE state = 'old') AS old",
    ],
    "different values": [
        "dp_nunique(x) FILTER (WHERE state = 'new') AS new",
        "dp_nunique(x) FILTER (WHERE state = 'old') AS old",
    ],
    "units": [
        "count(DISTINCT id) FILTER (WHERE state = 'new') AS new",
        "count(DISTINCT CASE WHEN state = 'old' THEN id END) AS old",
    ],
    "rows and units": [
        "count(DISTINCT IF(state = 'new', id, NULL)) AS new",
        "count(*) AS n",
    ],
    "one of two": [
        "dp_mean(x, 0, 9) AS mean",
        "count(*) FILTER (WHERE state = 'new') AS new",
    ],
    "three": [
        "count(*) FILTER (WHERE state = 'new') AS new",
        "count_if(state = 'old') AS old",
        "median(x) FILTER (WHERE x < 5) AS low",
    ],
}
TERMS = {"unit": "id", "max_rows": 1, "max_groups": 1, "epsilon": 1e5, "delta": 1e-6}


@pytest.fixture(scope="module")
def con():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE orders AS SELECT i AS id, i % 4 AS g, i % 9 AS x, "
        "CASE WHEN i % 4 = 0 THEN 'new' ELSE 'old' END AS state FROM range(4000) r(i)"
    )
    return connection


@pytest.mark.parametrize("name", CALLS)
def test_groups_do_not_depend_on_the_order_of_calls(con, name):
    """Every group of many rows is shown, in each order of conditional calls."""
    for calls in itertools.permutations(CALLS[name]):
        query = f"SELECT g, {', '.join(calls)} FROM orders GROUP BY g"
        released = dfp.sql(query, con=con, **TERMS).fetchall()
        assert [row[0] for row in released] == [0, 1, 2, 3], query


def test_the_count_of_rows_shares_the_loss(con):
    """The added count takes one share of the loss, and the whole costs what was named."""
    query = f"SELECT g, {', '.join(CALLS['FILTER'])} FROM orders GROUP BY g"
    plan = dfp.explain(query, con=con, **{**TERMS, "epsilon": 3})
    assert plan.epsilon == 3
    assert [draw.epsilon for draw in plan.draws] == [1, 1, 1]
    assert "count(*), which selects the groups" in str(plan)


@pytest.mark.parametrize(
    "calls",
    ["count(*) FILTER (WHERE state = 'new') AS new", "dp_mean(x, 0, 9) AS m, count(*) AS n"],
)
def test_no_count_is_added_without_need(con, calls):
    """One condition, or a count of rows that is asked, selects the groups by itself."""
    plan = dfp.explain(f"SELECT g, {calls} FROM orders GROUP BY g", con=con, **TERMS)
    assert "selects the groups" not in str(plan)


def test_public_keys_need_no_count(con):
    """With public keys nothing selects groups, and conditional calls share the whole loss."""
    query = f"SELECT g, {', '.join(CALLS['FILTER'])} FROM orders GROUP BY g"
    terms = {**TERMS, "epsilon": 2, "delta": None, "keys": [0, 1]}
    assert [draw.epsilon for draw in dfp.explain(query, con=con, **terms).draws] == [1, 1]


def test_units_select_the_groups_where_chosen_ones_are_counted(con):
    """The added count is that of units, with the noise of one row of each."""
    query = f"SELECT g, {', '.join(CALLS['units'])} FROM orders GROUP BY g"
    terms = {**TERMS, "max_rows": 50, "epsilon": 3}
    for text in (query, f"{query} HAVING dp_keep(1e-6, 1)"):
        plan = dfp.explain(text, con=con, **{**terms, "delta": None if text != query else 1e-6})
        assert {answer.scale for answer in plan.answers} <= {1, 2 / 3}
    assert "count(DISTINCT id), which selects the groups" in str(
        dfp.explain(query, con=con, **terms)
    )
