"""Without bounds: the frame API's own bins, answers and noise, and no group knows of another."""

import functools
import math
import os

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sql_udfs
from benchmarks.releases import replayed
from tests.numbered_bytes import NumberedBytes

HUGE = 1e12
QUESTIONS = {"dp_sum": "sum", "dp_mean": "mean", "dp_avg": "mean", "dp_var": "var"}
QUESTIONS["dp_stddev"] = "std"


@functools.cache
def con():
    """Return the connection of all tests, whose functions draw next to no noise."""
    connection = duckdb.connect()
    sql_udfs.register(connection, epsilon=HUGE, max_epsilon=1e12)
    return connection


HOSTILE = [0.0, -0.0, 1.0, -1.0, 3.3, 5e-324, -1e-310, 2.0**-126, 2.0**-127, -(2.0**-126)]
HOSTILE += [1e300, -1e300, 2.0**126, -(2.0**127), 2.0**-126 * (1 - 2.0**-53), 4.0, 1 + 2.0**-22]
HOSTILE += [math.nextafter(2.0**k, side) for k in (-126, 0, 3, 126) for side in (0, math.inf)]
BROKEN = [None, math.nan, math.inf, -math.inf]
VALUES = st.one_of(st.sampled_from(HOSTILE + BROKEN), st.floats(-1e3, 1e3), st.floats())
ROWS = st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=40)


def given_rows(rows):
    columns = {
        "g": pa.array([g for g, _ in rows], pa.int64()),
        "x": pa.array([x for _, x in rows], pa.float64(), from_pandas=False),
    }
    con().register("t", pa.table(columns))
    return pl.from_arrow(pa.table(columns))


def ask(query):
    return con().execute(query).fetchall()


@given(ROWS)
@settings(max_examples=15)
def test_quantiles_are_those_of_the_frame(rows):
    """With the same random bytes quantiles of any floats are the frame's, NaN for NaN."""
    frame, answers = given_rows(rows * 20).dp, []
    with replayed("quantiles") as stream:
        for call in ("dp_median(x, 1)", "dp_quantiles(x, [0.2, 0.7], 1)"):
            answers += ask(f"SELECT {call} FROM t")[0]
            stream.restart()
        theirs = [float(frame.median("x", epsilon=1))]
        stream.restart()
        theirs.extend(map(float, frame.quantiles("x", [0.2, 0.7], epsilon=1)))
    assert np.array_equal([answers[0], *answers[1]], theirs, equal_nan=True)


def test_long_lists_are_counted_block_by_block():
    """Groups that begin and end anywhere among 100,000 values are answered as each alone."""
    rng = np.random.default_rng(5)
    sizes = [1, 40_000, 3, 16_384, 1, 30_000, 7]
    x = rng.laplace(20, 50, sum(sizes))
    x[rng.random(len(x)) < 0.01] = np.nan
    frame = pl.DataFrame({"g": np.repeat(np.arange(7), sizes), "x": x})
    con().register("t", frame.to_arrow())
    parts = [part.dp for part in frame.partition_by("g", maintain_order=True)]
    ours = ask("SELECT dp_var(x), dp_mean(x), dp_median(x) FROM t GROUP BY g ORDER BY g")
    for (var, mean, median), part in zip(ours, parts, strict=True):
        expected = [float(getattr(part, name)("x", epsilon=HUGE)) for name in ("var", "mean")]
        assert np.array_equal([var, mean], expected, equal_nan=True)
        assert median == pytest.approx(float(part.median("x", epsilon=HUGE)), abs=90, nan_ok=True)


def test_groups_with_more_values_than_are_answered_at_once():
    """Whatever parts their lists are answered in, groups have their own answers, in their order."""
    sizes, connection = [2**20 + 5, 3, 2**20 - 1, 2**21 + 1, 40, 2**20], duckdb.connect()
    sql_udfs.register(connection, epsilon=HUGE, max_epsilon=1e12)
    group = np.repeat(np.arange(len(sizes)), sizes)
    values = 100.0 * (1 + group) + np.tile([-1.0, 1.0], len(group))[: len(group)]
    connection.register("t", pa.table({"g": group, "x": values}))
    calls = "dp_mean(x), dp_median(x), dp_mean_interval(x).value, avg(x)"
    rows = connection.execute(f"SELECT g, {calls} FROM t GROUP BY g ORDER BY g").fetchall()
    for key, *answers in rows:
        exact = answers.pop()
        assert np.allclose(answers, [exact, 100.0 * (1 + key), exact], rtol=0.02), key


@given(ROWS)
@settings(max_examples=5)
def test_answers_are_those_of_the_frame(rows):
    """At a huge epsilon every moment and its interval are nearly the frame's, NaN for NaN.

    Either value may be the center of an even number of rows, and noisy counts say how much of the
    noise a count of rows has: bounds differ by little, and so do steps of the grid and intervals.
    """
    frame = given_rows(rows).dp
    size = max((abs(x) for _, x in rows if x is not None and math.isfinite(x)), default=0.0)
    for function, question in QUESTIONS.items():
        expected = getattr(frame, question)("x", epsilon=HUGE)
        query = f"SELECT {function}(x), {function}_interval(x) FROM t"
        [(value, parts)] = ask(query)
        tolerance = min(size * {"var": 1e-6 * size, "std": 1e-3}.get(question, 1e-6), 1e308)
        ours = [value, *(parts[name] for name in ("value", "low", "high"))]
        theirs = [expected, expected, expected.low, expected.high]
        assert np.allclose(ours, np.array(theirs, float), 1e-6, tolerance, equal_nan=True)
    [(ends,)] = ask("SELECT dp_bounds(x) FROM t")
    bounds = frame.bounds("x", epsilon=HUGE)
    assert tuple(ends.values()) == tuple(None if math.isnan(end) else end for end in bounds)


@pytest.mark.parametrize("values", [[], [None] * 5, [math.nan] * 5])
def test_without_values_nothing_is_known(values, monkeypatch):
    """Over no values a moment is NaN on the whole line, bounds are NULL, quantiles are NaN.

    Noise alone is enough for a median once in 3,600 calls: here it is the same in every run.
    """
    monkeypatch.setattr(os, "urandom", NumberedBytes())
    given_rows([(0, value) for value in values])
    for function in QUESTIONS:
        [(answer, parts)] = ask(f"SELECT {function}(x), {function}_interval(x) FROM t")
        assert math.isnan(answer)
        assert math.isnan(parts["value"])
        assert (parts["low"], parts["high"]) == (-math.inf, math.inf)
    assert ask("SELECT dp_bounds(x) FROM t") == [({"lower": None, "upper": None},)]
    [(median, quantiles)] = ask("SELECT dp_median(x, 1), dp_quantiles(x, [0.2, 0.7], 1) FROM t")
    assert all(map(math.isnan, [median, *quantiles]))


def test_without_the_optimiser_the_answers_are_the_same():
    """Constants that are not folded, and checks that stay, change nothing."""
    given_rows([(i % 3, float(i)) for i in range(999)])
    calls = "dp_mean(x), dp_stddev(x, 1e12), dp_bounds(x), dp_median(x), dp_quantiles(x, [0.5])"
    query = f"SELECT g, {calls} FROM t GROUP BY g ORDER BY g"
    before = ask(query)
    con().execute("PRAGMA disable_optimizer")
    after = ask(query)
    con().execute("PRAGMA enable_optimizer")
    assert before == after
