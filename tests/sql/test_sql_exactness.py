"""At a huge epsilon the noise is zero, and SQL gives the very numbers of the frame API."""

import functools
from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfprivacy as dfp
import sql_udfs
from tests.wrapped import Wrapped

HUGE = 1e12  # noise of scale 2**30/1e12: not zero with probability below 1e-400
QUESTIONS = {"dp_sum": "sum", "dp_mean": "mean", "dp_avg": "mean", "dp_var": "var"}
QUESTIONS["dp_stddev"] = "std"


@functools.cache
def con():
    """Return the connection of all tests."""
    connection = duckdb.connect()
    sql_udfs.register(connection, epsilon=HUGE)
    return connection


BOUNDS = st.sampled_from(
    [
        *[(0, 1), (-60, 240), (100, 101), (-5.5, 3.3), (-0.1, 0.7), (-1e100, 1e100), (0, 1e-99)],
        *[(-7, -3), (1e-9, 3e9), (-(2.0**-30), 2.0**40), (0.1, 0.30000000000000004)],
    ]
)
EDGES = st.sampled_from([0.0, -0.0, 1.0, 240.0, -60.0, 3.3, 0.7, 1e300, -1e300, 5e-324])
BROKEN = st.sampled_from([None, float("nan"), float("inf"), float("-inf")])
FLOATS = st.lists(st.one_of(EDGES, BROKEN, st.floats(-1e3, 1e3), st.floats()), max_size=30)


def sql(function, arguments, column="x"):
    return con().execute(f"SELECT {function}({column}, {arguments}) FROM t").fetchall()[0][0]


def numbers(bounds):
    return ", ".join(f"'{float(end)!r}'::DOUBLE" for end in bounds)


def assert_equal_to(frame, bounds):
    calls = ", ".join(f"{function}(x, {numbers(bounds)})" for function in QUESTIONS)
    expected = [getattr(frame, name)("x", bounds, epsilon=HUGE) for name in QUESTIONS.values()]
    assert con().execute(f"SELECT {calls} FROM t").fetchall() == [tuple(map(float, expected))]
    rows = con().execute("SELECT dp_count(), dp_count(x) FROM t").fetchall()[0]
    assert rows == (frame.count(epsilon=HUGE), frame.count("x", epsilon=HUGE))


@given(FLOATS, BOUNDS)
def test_floats_give_the_same_bits_as_polars(values, bounds):
    """NULL and NaN are dropped, infinities are the ends, every float has polars' grid integer."""
    table = pa.table({"x": pa.array(values, pa.float64(), from_pandas=False)})
    con().register("t", table)
    assert_equal_to(pl.from_arrow(table).dp, bounds)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300))))
@settings(max_examples=5)
def test_integers_give_the_same_bits_as_polars(values):
    """A BIGINT column has the same integers in SQL and in polars, to the ends of its range."""
    table = pa.table({"x": pa.array(values, pa.int64())})
    con().register("t", table)
    for bounds in [(-60, 240), (-5.5, 3.25), (-(2**53), 2**53)]:
        assert_equal_to(pl.from_arrow(table).dp, bounds)


TYPES = ["TINYINT", "USMALLINT", "INTEGER", "HUGEINT", "UHUGEINT", "FLOAT", "DECIMAL(9,2)"]


@pytest.mark.parametrize("declared", [*TYPES, "DECIMAL(38,10)", "UBIGINT", "BOOLEAN"])
def test_every_number_type_agrees_with_the_relation(declared):
    """A column of any type of numbers gives what the frame API reads off the same relation.

    So it does within bounds and without.
    """
    values = [None, Decimal("0.37"), 1, 2, 3, 7, 50, 120]
    con().register("raw", pa.table({"v": pa.array(values, pa.decimal128(9, 2))}))
    con().execute(f"CREATE OR REPLACE TEMP TABLE typed AS SELECT v::{declared} AS x FROM raw")
    con().execute("CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM typed")
    if declared == "UHUGEINT":  # no frame library has it
        assert sql("dp_sum", "0, 100") == 163
    else:
        frame = dfp.frame(con().table("typed"))
        assert_equal_to(frame, (-0.5, 100))
        expected = [float(frame.mean("x", epsilon=HUGE)), float(frame.median("x", epsilon=HUGE))]
        (answers,) = con().execute("SELECT dp_mean(x), dp_median(x) FROM typed").fetchall()
        assert answers == pytest.approx(expected)
    con().execute("DROP VIEW t")


def test_answers_do_not_depend_on_order_or_threads():
    """Any order of rows and any number of threads give the same bits, group by group."""
    rng = np.random.default_rng(7)
    values = np.where(rng.random(400_000) < 0.01, np.nan, rng.normal(20, 100, 400_000))
    table = pa.table({"g": np.arange(400_000) % 7, "x": values})
    calls = ", ".join(f"{function}(x, -60, 240)" for function in QUESTIONS)
    seen = set()
    with duckdb.connect() as connection:
        sql_udfs.register(connection, epsilon=HUGE)
        connection.register("arrow", table)
        for threads, order in [(1, "g"), (2, "x"), (3, "hash(x)"), (4, "g, x DESC")]:
            connection.execute(f"SET threads = {threads}")
            connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT * FROM arrow ORDER BY {order}")
            query = f"SELECT g, {calls}, dp_count(x) FROM t GROUP BY g ORDER BY g"
            seen.add(tuple(connection.execute(query).fetchall()))
    assert len(seen) == 1


def test_groups_agree_with_polars_beyond_one_chunk():
    """With more groups than DuckDB hands over at once, each group gets its own answer."""
    table = pa.table({"g": np.arange(30_000) % 5_000, "x": np.arange(30_000) % 997 / 10})
    con().register("t", table)
    query = "SELECT g, dp_mean(x, 0, 60), dp_stddev(x, 0, 60), dp_count() FROM t GROUP BY g"
    keys = list(range(5_000))
    grouped = pl.from_arrow(table).dp.group_by("g", keys=keys)
    released = grouped.agg(
        dfp.mean("x", (0, 60)), s=dfp.std("x", (0, 60)), n=dfp.count(), epsilon=HUGE
    )
    expected = released.select("g", "x", "s", "n").rows()
    answers = sorted(con().execute(query).fetchall())
    assert [(g, n) for g, _, _, n in answers] == [(g, n) for g, _, _, n in expected]
    assert np.allclose([row[1:3] for row in answers], [row[1:3] for row in expected], atol=1e-6)


@pytest.mark.parametrize("bounds", [(-1e300, 1e300), (0, 1e-300), (-8e307, 8e307)])
def test_bounds_of_any_size_agree_with_polars(bounds):
    """Bounds near the ends of the floats give the frame's sum, mean and deviation."""
    table = pa.table({"x": [None, -1e308, 0.0, 1e-301, 7e-301, 3e299, 2e300, float("inf")]})
    con().register("t", table)
    for function in ("dp_sum", "dp_mean", "dp_stddev"):
        expected = getattr(pl.from_arrow(table).dp, QUESTIONS[function])("x", bounds, epsilon=HUGE)
        assert sql(function, numbers(bounds)) == float(expected)


def test_without_the_optimiser_the_answers_are_the_same():
    """Constants that are not folded are looked up chunk by chunk, to the same effect."""
    con().register("t", pa.table({"x": np.linspace(-100, 300, 5_000)}))
    before = [sql(function, "-60, 240") for function in QUESTIONS]
    con().execute("PRAGMA disable_optimizer")
    after = [sql(function, "-60, 240") for function in QUESTIONS]
    con().execute("PRAGMA enable_optimizer")
    assert before == after


class Reserved(Wrapped):
    """A connection to a DuckDB that keeps its sums of 64 bits to itself."""

    def execute(self, query, *parameters):
        if "sum_no_overflow" in query:
            raise duckdb.BinderException("sum_no_overflow is for internal use only!")
        return self.connection.execute(query, *parameters)


def test_sums_of_128_bits_give_the_same_answers():
    """A DuckDB that adds up in 128 bits alone gives the same bits."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range * 0.37 - 50 AS x FROM range(5000)")
    query = "SELECT dp_mean(x, -3, 7.5), dp_sum(x, 5, 90), dp_var(x, -60, 240) FROM t"
    answers = []
    for target in (connection, Reserved(connection)):
        sql_udfs.register(target, epsilon=HUGE)
        answers.append(connection.execute(query).fetchall())
    assert answers[0] == answers[1]


NAMES = ["x", "lo", "hi", "epsilon", "delta", "value", "g", "q", "qs", "lower", "checked"]


@pytest.mark.parametrize("name", NAMES)
def test_columns_may_be_called_like_parameters(name):
    """A column that has the name of a macro's parameter is still that column."""
    con().register("t", pa.table({"other": [0.0] * 3, name: [30.0] * 3}))
    calls = "dp_mean({0}, 0, 100), dp_mean({0}), dp_median({0}), dp_quantile({0}, 0.5)"
    query = f"SELECT {calls.format(name)}, dp_count({name}) FROM t"
    assert con().execute(query).fetchall() == [(30.0, 30.0, 30.0, 30.0, 3)]
