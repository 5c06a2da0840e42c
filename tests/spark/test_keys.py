"""Groups of Spark frames are those of other engines, in the same order, of the declared types."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import dfprivacy as dfp

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

DAY = dt.date(2026, 11, 1)
MOMENT = dt.datetime.fromisoformat("2026-11-01T05:30:00.000001")  # in New York's doubled hour
OLD = dt.datetime.fromisoformat("1900-01-01")
ZONED = pa.timestamp("us", "UTC")
KEYS = {
    "float": pa.array([0.0, -0.0, math.nan, None, -1.5, math.inf, -math.inf, math.nan]),
    "single": pa.array([0.0, -0.0, math.nan, None, 0.1, math.inf, 1e-45, 0.1], pa.float32()),
    "bool": pa.array([True, False, None, True, False, None, True, True]),
    "decimal": pa.array([*map(Decimal, ["1.50", "-2.25", "0.00", "1.50"]), *[None] * 4]),
    "text": pa.array(["b", "a", "\u00e9", "Z", "", None, "\U0001f600", "\uffff"]),
    "spaces": pa.array(["a", "a ", "A", " a", "a\x00", "a\u0301", "\u00e1", None]),
    "dates": pa.array([DAY, dt.date(1600, 1, 1), None, DAY, *[dt.date(9999, 12, 31)] * 4]),
    "times": pa.array([MOMENT, None, OLD, MOMENT, *[MOMENT] * 4]),
    "zoned": pa.array([MOMENT, None, OLD, MOMENT, *[MOMENT] * 4]).cast(ZONED),
    "bytes": pa.array([b"\xff", b"a", b"", None, b"\x00", b"\x00\x00", b"a", b"\xff"]),
    "byte": pa.array([-128, 127, None, 0, 0, 1, -1, 1], pa.int8()),
    "short": pa.array([-(2**15), 2**15 - 1, None, 0, 0, 1, -1, 1], pa.int16()),
    "int": pa.array([-(2**31), 2**31 - 1, None, 0, 0, 1, -1, 1], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1, None, 0, 0, 1, -1, 1], pa.int64()),
}
TABLE = pa.table({**KEYS, "x": pa.array([1.0, 2, 3, 4, 5, 6, 7, 8])})


@pytest.fixture(scope="module")
def keyed(frame):
    return frame(TABLE)


def in_utc(rows):
    zone = dt.UTC
    return [[v.astimezone(zone) if isinstance(v, dt.datetime) and v.tzinfo else v for v in r]
            for r in rows]  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_groups_are_those_of_duckdb(kind, keyed, relation, replayed):
    """With the same random bytes a release by any kind of key is the same, to the last bit.

    NULL and NaN are one group, the last; -0.0 is 0.0. The key's type is that of the frame.
    """
    loss = {"epsilon": 9, "delta": 0.5}
    ours = replayed(lambda: dfp.frame(keyed).group_by(kind).mean("x", (0, 9), **loss))
    theirs = replayed(lambda: dfp.frame(relation(TABLE)).group_by(kind).mean("x", (0, 9), **loss))
    expected = theirs.to_arrow_table()
    shown = [list(row.values()) for row in ours.toArrow().to_pylist()]
    assert in_utc(shown) == in_utc([list(row.values()) for row in expected.to_pylist()])
    assert len(shown) > 0
    assert ours.columns == [kind, "x", "low", "high", "note", "count"]
    assert ours.schema[kind].dataType == keyed.schema[kind].dataType


@pytest.mark.parametrize("kind", ["float", "decimal", "times", "zoned", "bytes"])
def test_public_keys_are_found(kind, keyed, relation, replayed, setting):
    """Exactly the listed keys come out, absent ones too; with units, rows of others are left out.

    The session's time zone does not move a key.
    """
    keys = list(dict.fromkeys([*KEYS[kind].to_pylist()[:4], None]))
    keys = [key for key in keys if key == key]
    with setting("spark.sql.session.timeZone", "America/New_York"):
        for unit in ({}, {"unit": "long", "max_rows": 9}):
            ours = replayed(
                lambda unit=unit: (
                    dfp.frame(keyed)(**unit).group_by(kind, keys=keys).count(epsilon=9)
                )
            )
            theirs = replayed(
                lambda unit=unit: dfp.frame(relation(TABLE))(**unit).group_by(kind, keys=keys)
                .count(epsilon=9)
            )  # fmt: skip
            expected = theirs.to_arrow_table().to_pylist()
            shown = [list(row.values()) for row in ours.toArrow().to_pylist()]
            assert in_utc(shown) == in_utc([list(row.values()) for row in expected])


def test_texts_that_a_collation_takes_for_equal_stay_apart(spark):
    """Texts that look different are different: no row chooses how a group of others is written."""
    rows = spark.createDataFrame([("a",)] * 30 + [("A",)] * 20, "g string")
    for name in ("UTF8_LCASE", "UNICODE_CI"):
        collated = rows.selectExpr(f"g COLLATE {name} AS g")
        assert collated.groupBy("g").count().count() == 1
        groups = dfp.frame(collated).group_by("g").count(epsilon=1e9, delta=0.5).collect()
        assert [(row.g, row["count"]) for row in groups] == [("A", 20), ("a", 30)]
    units = collated.selectExpr("g AS u", "1 AS x")
    assert dfp.frame(units)(unit="u", max_rows=1).count(epsilon=1e9) == 2


def test_text_of_declared_length_is_text(spark, setting):
    """CHAR and VARCHAR columns are grouped by as Spark shows them."""
    with setting("spark.sql.preserveCharVarcharTypeInfo", "true"):
        texts = spark.range(9).selectExpr("CAST('ab' AS CHAR(5)) c", "CAST('ab' AS VARCHAR(5)) v")
        assert [kind for _, kind in texts.dtypes] == ["char(5)", "varchar(5)"]
        for name, text in (("c", "ab   "), ("v", "ab")):
            released = dfp.frame(texts).group_by(name).count(epsilon=1e9, delta=0.9)
            assert [row[name] for row in released.collect()] == [text]


REFUSED = [
    "array(1)",
    "map(1, 2)",
    "named_struct('a', 1)",
    "INTERVAL '1' DAY",
    "INTERVAL '1' MONTH",
    "make_interval(0, 1, 0, 3)",
    "NULL",
    "parse_json('1')",
]


@pytest.mark.parametrize("expression", REFUSED)
def test_other_types_are_refused_as_declared(expression, spark):
    """Lists, maps, structs, intervals, variants and untyped columns hold no numbers and no keys."""
    column = spark.range(9).selectExpr(f"{expression} AS x")
    with pytest.raises(dfp.UnsupportedDtypeError):
        dfp.frame(column).mean("x", (0, 1))
    with pytest.raises(dfp.UnsupportedDtypeError):
        dfp.frame(column).group_by("x").count(delta=0.1)
    assert round(dfp.frame(column).count("x", epsilon=1e9)) == (0 if expression == "NULL" else 9)


def test_names_are_taken_as_they_are_written(spark):
    """Dots, backticks, quotes and capital letters are part of a name; x is not X."""
    names = ["a.b", "back`tick", "X", "x", "sp ace", "count(1)", "\u00e9", "key_0", "unit", "row"]
    values = ", ".join(f"{10.0 * (index + 1)}D" for index in range(len(names)))
    odd = spark.range(50).selectExpr(f"inline(array(struct({values})))").toDF(*names)
    for index, name in enumerate(names):
        mean = dfp.frame(odd).mean(name, (0, 1000), epsilon=1e9)
        assert mean == pytest.approx(10.0 * (index + 1), abs=1e-3)
    two = (
        dfp.frame(odd)
        .group_by("a.b", "X")
        .agg(**{"m.n": dfp.mean("x", (0, 99))}, epsilon=9, delta=0.5)
    )
    assert two.columns[:3] == ["a.b", "X", "m.n"]
    limited = dfp.frame(odd)(unit="unit", max_rows=50, max_groups=1).group_by("key_0")
    by_row = limited.mean("row", (0, 200), epsilon=9, delta=0.5)
    assert by_row.columns[0] == "key_0"


def test_missing_and_doubled_names_are_refused(spark):
    """A name that is not there, in these letters, or is there twice is refused by name."""
    rows = spark.range(5).selectExpr("id AS x", "id AS y", "id AS y")
    for name in ("X", "z", "y", "x.y", "`x`"):
        with pytest.raises(dfp.MissingColumnError):
            dfp.frame(rows).count(name)
    assert dfp.frame(rows).count("x", epsilon=1e9) == 5
