"""The noise of SQL has the law of the frame API; dp_keep keeps its delta."""

import functools
import math

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp
import sql_udfs

GROUPS = 20_000
FALSE_ALARM = 1e-7
# Dvoretzky-Kiefer-Wolfowitz, Massart's constant, for each of the two samples
DISTANCE = 2 * math.sqrt(math.log(4 / FALSE_ALARM) / (2 * GROUPS))

frame = pl.DataFrame({"g": np.arange(3 * GROUPS) % GROUPS, "x": np.tile([0.1, 0.5, 0.9], GROUPS)})


@functools.cache
def con():
    """Return the connection of all tests."""
    connection = duckdb.connect()
    sql_udfs.register(connection, epsilon=0.5, max_epsilon=1e12)
    connection.register("t", frame.to_arrow())
    return connection


def distance(first, second):
    return stats.ks_2samp(first, second).statistic


def by_group(call):
    return np.array([y for (y,) in con().execute(f"SELECT {call} FROM t GROUP BY g").fetchall()])


@pytest.mark.parametrize(
    ("call", "question"),
    [
        ("dp_count()", dfp.count()),
        ("dp_mean(x, -1, 1)", dfp.mean("x", (-1, 1))),
        ("dp_var(x, -1, 1)", dfp.var("x", (-1, 1))),
        ("dp_stddev(x, -1, 1)", dfp.std("x", (-1, 1))),
    ],
)
def test_answers_have_the_law_of_the_frame(call, question):
    """20,000 groups from SQL and from polars differ by less than chance allows (alarm: 1e-7)."""
    released = frame.dp.group_by("g", keys=list(range(GROUPS))).agg(y=question, epsilon=0.5)
    assert distance(by_group(call), released["y"].to_numpy()) <= DISTANCE


def test_sums_have_laplace_noise():
    """A sum carries one draw of scale max(|lo|, |hi|)/epsilon (alarm: 1e-7).

    A step of the grid, by which the discrete law differs, is a hundred-millionth of the scale.
    """
    law = stats.laplace(1.5, 2 / 0.5)
    assert stats.kstest(by_group("dp_sum(x, -2, 1)"), law.cdf).statistic <= DISTANCE / 2


def test_intervals_cover_at_their_level():
    """At least 95 % of the sums' intervals hold the true sum (Clopper-Pearson, alarm: 1e-7)."""
    query = "SELECT s.low, s.high FROM (SELECT dp_sum_interval(x, -2, 1) AS s FROM t GROUP BY g)"
    inside = sum(low <= 1.5 <= high for low, high in con().execute(query).fetchall())
    assert stats.binomtest(inside, GROUPS).proportion_ci(1 - FALSE_ALARM, "exact").high >= 0.95


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_dp_keep_shows_single_rows_at_most_delta_of_the_time(epsilon):
    """Of 100,000 groups of one row at most delta come out, and not far fewer (alarm: 1e-7)."""
    delta = 1e-3
    query = f"SELECT g FROM range(100000) r(g) GROUP BY g HAVING dp_keep({delta}, {epsilon})"
    shown = len(con().execute(query).fetchall())
    limits = stats.binomtest(shown, 100_000).proportion_ci(1 - FALSE_ALARM, "exact")
    assert limits.low <= delta
    assert limits.high >= delta / math.e


def test_dp_keep_shows_large_groups():
    """A group of 1000 rows at epsilon 0.5 comes out but with probability below e**-450."""
    query = "SELECT i % 50 AS g FROM range(50000) r(i) GROUP BY g HAVING dp_keep(1e-6)"
    assert len(con().execute(query).fetchall()) == 50
