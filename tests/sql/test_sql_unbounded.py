"""Without bounds: the frame API's own bins, answers and noise, and no group knows of another."""

import math
from types import SimpleNamespace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfprivacy as dfp
import sql_udfs
from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.noise import entropy
from dfprivacy.statistics import Mean, Median, StandardDeviation, Variance
from dfprivacy.statistics.octaves import OctavePart
from dfprivacy.statistics.part import Grouping
from dfprivacy.statistics.quantile import QuantilePart, value_grid
from sql_udfs import lists as made_of_lists
from tests.numbered_bytes import NumberedBytes

HUGE = 1e12
QUESTIONS = {"dp_sum": "sum", "dp_mean": "mean", "dp_avg": "mean", "dp_var": "var"}
QUESTIONS["dp_stddev"] = "std"

con = duckdb.connect()
sql_udfs.register(con, epsilon=HUGE)

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
    con.register("t", pa.table(columns))
    return pl.from_arrow(pa.table(columns))


def ask(query):
    return con.execute(query).fetchall()


def lists_of(query):
    return pa.chunked_array([pa.array([x for (x,) in ask(query)], pa.list_(pa.float64()))])


def tables_of(query):
    """Run a query; return its answers and the bin tables that they were drawn from."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("octave_table", "value_table"):
            made = getattr(made_of_lists, name)
            patch.setattr(
                made_of_lists, name, lambda *a, made=made: seen.append(made(*a)) or seen[-1]
            )
        return ask(query), seen


def frame_table(part, frame, by=()):
    adopted = adopt(frame, Columns(by, {"x": True}, [[] for _ in by]))
    return part.measure(adopted, Grouping(by)).table


def assert_same(table, expected):
    assert table.binning == expected.binning
    assert table.groups == expected.groups
    for name in ("group", "bins", "rows"):
        assert getattr(table, name).tolist() == getattr(expected, name).tolist()
    for own, other in zip(table.moments, expected.moments, strict=True):
        assert np.array_equal(own, other)


@given(ROWS, st.sampled_from(["dp_mean", "dp_stddev"]))
@settings(max_examples=40, deadline=None)
def test_octave_tables_are_those_of_the_frame(rows, function):
    """Rows, sums and squares by octave have the bits that polars gives, for any floats."""
    frame = given_rows(rows)
    part = OctavePart(
        "x", {"y": {"dp_mean": Mean, "dp_stddev": StandardDeviation}[function]("x")}, grouped=False
    )
    _, [table] = tables_of(f"SELECT {function}(x) FROM t")
    assert_same(table, frame_table(part, frame))
    lists = lists_of("SELECT list(x) FROM t GROUP BY g ORDER BY g")
    own = made_of_lists.octave_table(lists, len(table.moments))
    assert_same(own, frame_table(part, frame, ["g"]))


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_value_tables_are_those_of_the_frame(rows):
    """How often each value of the grid of 16 bits occurs is what polars counts."""
    frame = given_rows(rows)
    _, [table] = tables_of("SELECT dp_median(x) FROM t")
    assert_same(table, frame_table(QuantilePart("y", Median("x"), grouped=False), frame))


def test_long_lists_are_counted_block_by_block():
    """Groups that begin and end anywhere among 100,000 values have the frame's tables."""
    rng = np.random.default_rng(5)
    sizes = [1, 40_000, 3, 16_384, 1, 30_000, 7]
    x = rng.laplace(20, 50, sum(sizes))
    x[rng.random(len(x)) < 0.01] = np.nan
    frame = pl.DataFrame({"g": np.repeat(np.arange(7), sizes), "x": x})
    con.register("t", frame.to_arrow())
    lists = lists_of("SELECT list(x) FROM t GROUP BY g ORDER BY g")
    part = OctavePart("x", {"y": Variance("x")}, grouped=False)
    assert_same(made_of_lists.octave_table(lists, 2), frame_table(part, frame, ["g"]))
    grid = value_grid(coarse=False)
    table = made_of_lists.value_table(lists, grid)
    each = [frame_table(QuantilePart("y", Median("x"), grouped=False), part_)
            for part_ in frame.partition_by("g", maintain_order=True)]  # fmt: skip
    assert table.bins.tolist() == [number for own in each for number in own.bins.tolist()]
    assert table.rows.tolist() == [count for own in each for count in own.rows.tolist()]


@given(ROWS)
@settings(max_examples=30, deadline=None)
def test_answers_are_those_of_the_frame(rows):
    """At a huge epsilon every moment and its interval equal the frame's, NaN for NaN."""
    frame = given_rows(rows).dp
    for function, question in QUESTIONS.items():
        expected = getattr(frame, question)("x", epsilon=HUGE)
        query = f"SELECT {function}(x), {function}_interval(x) FROM t"
        [(value, parts)] = ask(query)
        assert np.array_equal(value, float(expected), equal_nan=True)
        ends = [parts[name] for name in ("value", "low", "high")]
        assert np.array_equal(ends, [value, expected.low, expected.high], equal_nan=True)
    [(ends,)] = ask("SELECT dp_bounds(x) FROM t")
    found = frame.bounds("x", epsilon=HUGE)
    assert tuple(ends.values()) == tuple(None if math.isnan(end) else end for end in found)


TYPES = ["TINYINT", "UBIGINT", "HUGEINT", "FLOAT", "DECIMAL(9,2)", "DECIMAL(38,10)", "BOOLEAN"]


@pytest.mark.parametrize("declared", TYPES)
def test_every_number_type_agrees_with_the_relation(declared):
    """A column of any type of numbers gives what the frame API reads off the same relation."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE typed AS"
        f" SELECT v::{declared} AS x FROM (VALUES (NULL), (0.37), (1), (3), (50), (120)) w(v)"
    )
    frame = dfp.frame(con.table("typed"))
    expected = [float(frame.mean("x", epsilon=HUGE)), float(frame.median("x", epsilon=HUGE))]
    [answers] = ask("SELECT dp_mean(x), dp_median(x) FROM typed")
    assert answers == pytest.approx(expected)


@pytest.mark.parametrize("values", [[], [None] * 5, [math.nan] * 5])
def test_without_values_nothing_is_known(values, monkeypatch):
    """Over no values a moment is NaN on the whole line, bounds are NULL, quantiles are NaN.

    Noise alone is enough for a median once in 3,600 calls: here it is the same in every run.
    """
    monkeypatch.setattr(entropy, "os", SimpleNamespace(urandom=NumberedBytes()))
    given_rows([(0, value) for value in values])
    for function in QUESTIONS:
        [(answer, parts)] = ask(f"SELECT {function}(x), {function}_interval(x) FROM t")
        assert math.isnan(answer)
        assert math.isnan(parts["value"])
        assert (parts["low"], parts["high"]) == (-math.inf, math.inf)
    assert ask("SELECT dp_bounds(x) FROM t") == [({"lower": None, "upper": None},)]
    [(median, several)] = ask("SELECT dp_median(x, 1), dp_quantiles(x, [0.2, 0.7], 1) FROM t")
    assert all(map(math.isnan, [median, *several]))


def test_without_the_optimiser_the_answers_are_the_same():
    """Constants that are not folded, and checks that stay, change nothing."""
    given_rows([(i % 3, float(i)) for i in range(999)])
    calls = "dp_mean(x), dp_stddev(x, 1e12), dp_bounds(x), dp_median(x), dp_quantiles(x, [0.5])"
    query = f"SELECT g, {calls} FROM t GROUP BY g ORDER BY g"
    before = ask(query)
    con.execute("PRAGMA disable_optimizer")
    after = ask(query)
    con.execute("PRAGMA enable_optimizer")
    assert before == after


@pytest.mark.parametrize("name", ["x", "q", "qs", "epsilon", "g", "value", "lower", "checked"])
def test_columns_may_be_called_like_parameters(name):
    """A column that has the name of a macro's parameter is still that column."""
    con.register("t", pa.table({"other": [0.0] * 3, name: [30.0] * 3}))
    query = f"SELECT dp_mean({name}), dp_median({name}), dp_quantile({name}, 0.5) FROM t"
    assert ask(query) == [(30.0, 30.0, 30.0)]
