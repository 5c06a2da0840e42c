"""Spark counts and adds up the same integers as every other engine."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

BOUNDS = [(0, 100), (-60.0, 61.5), (100, 101), (-7, -3), (0.1, 0.3), (-1e-300, 1e-299), (-1e9, 2)]
WIDE = [(-8e307, 0.0), (-4e307, 4e307)]
FLOATS = [
    *[None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, -1e300, 1.7976931348623157e308],
    *[
        -1.7976931348623157e308,
        5e-324,
        -5e-324,
        2.2e-308,
        100.0,
        101.0,
        61.5,
        -60.0,
        -7.0,
        0.1,
        0.3,
    ],
]
INTEGERS = [None, 0, 1, -9, 100, 101, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
TEXTS = [None, "", "a", "b", "A", "b ", "\u00e9", "NaN", "null", "\U0001f600", "\uffff", "a\x00"]
SIZE = 1200


@pytest.fixture(scope="module")
def hostile():
    """Return a table in which every odd value meets every odd key."""
    generator = np.random.default_rng(5)
    x = [*FLOATS, *generator.normal(20, 60, 60), *(generator.normal(0, 1, 60) * 1e-300)]
    x += list(generator.normal(0, 1, 200) * 2.0 ** generator.integers(-1000, 1000, 200))
    magnitudes = 2.0 ** generator.integers(-3, 3, 300)
    x += list(magnitudes * (1 + generator.integers(-4, 5, 300) * 2.0**-23))
    i = [*INTEGERS, *map(int, generator.integers(-120, 120, 40))]
    i += list(map(int, generator.integers(-(2**62), 2**62, 20)))
    return pa.table(
        {
            "g": pa.array([TEXTS[k % len(TEXTS)] for k in range(SIZE)], pa.string()),
            "h": pa.array([[None, -1, 0, 1, 2**62][k % 5] for k in range(SIZE)], pa.int64()),
            "x": pa.array([x[(7 * k + k // 11) % len(x)] for k in range(SIZE)], pa.float64()),
            "i": pa.array([i[(5 * k + k // 7) % len(i)] for k in range(SIZE)], pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def odd(frame, hostile):
    return frame(hostile)


def questions():
    statistics = {"rows": dfp.count(), "texts": dfp.count("g"), "numbers": dfp.count("x")}
    statistics |= {f"wide_{low}": dfp.mean("x", (low, high)) for low, high in WIDE}
    for index, bounds in enumerate(BOUNDS):
        statistics |= {
            f"variance_{index}": dfp.std("x", bounds),
            f"total_{index}": dfp.sum("x", bounds),
        }
    for index, bounds in enumerate(BOUNDS):
        statistics |= {f"whole_{index}": dfp.std("i", bounds), f"sum_{index}": dfp.sum("i", bounds)}
    return statistics


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("by", [[], ["g"], ["h", "g"]])
def test_sums_are_those_of_duckdb(by, ansi, hostile, odd, relation, exact, setting):
    """Every sum of every source has the same bits, groups in the same order, ANSI mode or not."""
    with setting("spark.sql.ansi.enabled", ansi):
        sums = exact.sums(odd, questions(), by)
    assert sums == exact.sums(relation(hostile), questions(), by)


@pytest.mark.parametrize("statistic", [dfp.std, dfp.median])
def test_bins_are_those_of_duckdb(statistic, hostile, odd, relation, exact):
    """Counts and moments of every bin have the same bits, next to edges and at all magnitudes."""
    expected = exact.bins(relation(hostile), statistic("x"), "g")
    assert exact.bins(odd, statistic("x"), "g") == expected


EDGES = [[-50.0, -0.5, 0.0, 1e-9, 50.0, 100.0], [0.0, 100.0], [k / 8 for k in range(-256, 257)]]


@pytest.mark.parametrize("edges", EDGES, ids=len)
def test_bins_between_edges_are_those_of_duckdb(edges, hostile, odd, relation):
    """With next to no noise a histogram has the counts of DuckDB's."""
    ours, theirs = (
        dfp.frame(f).histogram("x", edges, epsilon=2**60) for f in (odd, relation(hostile))
    )
    rows = [[row["count"] for row in table.to_pylist()] for table in map(as_table, (ours, theirs))]
    assert rows[0] == rows[1]


def as_table(released):
    """Return a released frame of any kind as an Arrow table."""
    for name in ("toArrow", "to_arrow_table"):
        if hasattr(released, name):
            return getattr(released, name)()
    return pa.table(released)


@pytest.mark.parametrize("statistic", [dfp.std, dfp.median])
def test_bins_without_ansi_mode(statistic, hostile, odd, relation, setting, exact):
    """Spark fills the same bins without ANSI mode, over a whole frame and with public keys."""
    with setting("spark.sql.ansi.enabled", "false"):
        for column, by, keys in (
            ("i", "g", None), ("x", "", None), ("x", "g", ["b", "a", "zz", None])
        ):  # fmt: skip
            expected = exact.bins(relation(hostile), statistic(column), by, keys=keys)
            assert exact.bins(odd, statistic(column), by, keys=keys) == expected


KINDS = {
    "byte": pa.array([0, 1, 100, 127, -128, None], pa.int8()),
    "short": pa.array([0, 1, 32767, -32768, 99, None], pa.int16()),
    "int": pa.array([0, 2**31 - 1, -(2**31), 77, None, 1], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1, 2**53 + 1, 3, None, 50], pa.int64()),
    "float": pa.array([0.1, 99.9, math.inf, math.nan, 1e-45, None], pa.float32()),
    "double": pa.array([0.1, 1e300, 5e-324, math.nan, -0.0, None], pa.float64()),
    "bool": pa.array([True, False, True, None, None, True]),
    "decimal": pa.array([*map(Decimal, ["1.25", "-2", "99.99", "3", "0"]), None]).cast(
        pa.decimal128(18, 2)
    ),
    "long_decimal": pa.array([*map(Decimal, ["0.1", "0.3", "-7", "50", "1"]), None]).cast(
        pa.decimal128(38, 18)
    ),
}


def test_every_numeric_type_gives_the_same_integers(frame, relation, exact):
    """Integers of every width, floats, decimals and booleans are the 64-bit float nearest."""
    table = pa.table(KINDS)
    statistics = {f"{name}_{low}": dfp.var(name, (low, 100)) for name in KINDS for low in (0, -1)}
    statistics |= {f"{name}_count": dfp.count(name) for name in KINDS}
    assert exact.sums(frame(table), statistics) == exact.sums(relation(table), statistics)
    for name in ("byte", "float", "decimal", "bool"):
        expected = exact.bins(relation(table), dfp.std(name))
        assert exact.bins(frame(table), dfp.std(name)) == expected


def test_nan_in_parquet_is_no_value(spark, tmp_path, exact):
    """NaN contributes nothing, whatever the smallest and the largest value of a file are."""
    for bounds, other in (((0, 100), 1.0), ((100, 101), 1.0), ((-7, -3), -5.0)):
        path = str(tmp_path / f"{other}{bounds[0]}")
        spark.createDataFrame([(math.nan,)] * 3 + [(other,)], "x double").write.parquet(path)
        sums = exact.sums(spark.read.parquet(path), {"v": dfp.var("x", bounds)})
        assert sums[0][0] == 1


SETTINGS = [
    ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.shuffle.partitions", "7"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.caseSensitive", "true"),
    ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ("spark.sql.session.timeZone", "America/New_York"),
    ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_settings_of_the_session_do_not_matter(name, value, hostile, odd, relation, exact, setting):
    """A setting of the caller's session changes no exact statistic and no key."""
    statistics = {"v": dfp.var("x", (-60, 61.5)), "i": dfp.sum("i", (-9, 9)), "n": dfp.count()}
    expected = exact.sums(relation(hostile), statistics, ["g"])
    with setting(name, value):
        assert exact.sums(odd, statistics, ["g"]) == expected


def test_a_column_that_changes_as_it_is_read_stays_on_the_grid(spark, exact):
    """Random values, drawn anew wherever the column is named, are integers on the grid."""
    random = spark.range(20_000).selectExpr("rand() * 300 - 100 AS x", "id % 3 AS g")
    statistics = {"v": dfp.var("x", (0, 100)), "s": dfp.sum("x", (-5, 100))}
    assert sum(row[1] for row in exact.sums(random, statistics, ["g"])) == 20_000
