"""Groups without bounds: each answers for itself, draws its own noise, and keeps its order."""

import functools
import math
import os

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sql_udfs
from tests.numbered_bytes import NumberedBytes

HUGE = 1e12
MOMENTS = ["dp_sum", "dp_mean", "dp_avg", "dp_var", "dp_stddev"]


@functools.cache
def connect(epsilon=1.0):
    """Return the connection of all tests whose functions spend epsilon."""
    connection = duckdb.connect()
    sql_udfs.register(connection, epsilon=epsilon, max_epsilon=1e12)
    connection.execute(
        "CREATE TABLE t AS SELECT i % 10 AS g, (i % 100 + 1)::DOUBLE AS x FROM range(50000) r(i)"
    )
    return connection


def ask(connection, query):
    return connection.execute(query, [0.5] * query.count("?")).fetchall()


def test_quantiles_come_in_the_order_asked_and_never_cross():
    """A higher level has no lower answer; all are NaN where rows are too few for the epsilon."""
    query = "SELECT y[1], y[2], y[3] FROM (SELECT dp_quantiles(x, [0.9, 0.1, 0.5], {}) AS y FROM t"
    for epsilon in (1e-3, 0.1, 10):
        for high, low, middle in ask(connect(), f"{query.format(epsilon)} GROUP BY g)"):
            assert low <= middle <= high or all(map(math.isnan, (low, middle, high)))
    [(high, low, middle)] = ask(connect(HUGE), query.format(HUGE) + ")")
    assert (low, middle, high) == pytest.approx((10.5, 50.5, 90.5), abs=0.51)


def test_a_group_without_bounds_borrows_none(monkeypatch):
    """Nine groups with clear bounds tell nothing of a tenth that has too few rows.

    One row is 13.9 scales of the noise (3/8 of 37, all of 13.9), and 15 would make bounds. Noise
    of 1 comes once in a million draws, of which there are eleven: it is the same in every run.
    """
    monkeypatch.setattr(os, "urandom", NumberedBytes())
    connect().execute(
        "CREATE OR REPLACE TABLE few AS SELECT * FROM t WHERE g < 9 OR x = 100 LIMIT 45001"
    )
    connect().execute("INSERT INTO few SELECT 10, 7.0")
    for function in MOMENTS:
        query = f"SELECT g, {function}(x, 37), {function}_interval(x, 37) FROM few GROUP BY g"
        for g, value, parts in ask(connect(), query):
            assert math.isnan(value) == (g == 10)
            assert math.isinf(parts["low"]) == math.isinf(parts["high"]) == (g == 10)
    ends = dict(ask(connect(), "SELECT g, dp_bounds(x, 13.9) FROM few GROUP BY g"))
    assert ends[10] == {"lower": None, "upper": None}
    assert None not in ends[3].values()


@pytest.mark.parametrize("function", ["dp_sum", "dp_mean", "dp_stddev", "dp_bounds"])
def test_a_group_answers_as_it_does_alone(function):
    """Next to other groups a group has the bounds, the interval and the value that it has alone.

    But for which of the rows in the middle is the center: any may be, and sets the grid.
    """
    rng = np.random.default_rng(3)
    rows = [rng.laplace(10.0**k, 1, 200).tolist() for k in range(-3, 5)] + [[], [None], [math.inf]]
    pairs = [(g, value) for g, group_rows in enumerate(rows) for value in group_rows]
    connect(HUGE).register(
        "mixed", pa.table({"g": [g for g, _ in pairs], "x": [x for _, x in pairs]})
    )
    more = "" if function == "dp_bounds" else f", {function}_interval(x)"
    query = f"SELECT {function}(x){more} FROM mixed"
    all_groups = ask(connect(HUGE), query.replace("SELECT ", "SELECT g, ") + " GROUP BY g")
    assert len(all_groups) == 10
    for g, *answers in all_groups:
        alone = ask(connect(HUGE), f"{query} WHERE g = {g}")
        both = (
            [x for part in row for x in (part.values() if isinstance(part, dict) else [part])]
            for row in (answers, *alone)
        )
        for grouped_value, single_value in zip(*both, strict=True):
            assert grouped_value == single_value or grouped_value == pytest.approx(
                single_value, rel=1e-6, nan_ok=True
            )
