"""The kind of outcome (a result's schema, or an error's message) is the same for any rows."""

import datetime as dt
import decimal
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

DAY = dt.date(2020, 1, 1)
NOON = pd.Timestamp("2020-01-01 12:00")
ARROW = pd.ArrowDtype


def outcome(work):
    """Return the schema of what `work` returns, or the type and the text of what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = work()
        except Exception as error:
            return type(error).__name__, str(error)
    if isinstance(result, pd.DataFrame):
        kinds = {  # categories are the released keys, which may differ; their dtype may not
            name: (kind.categories.dtype, kind.ordered)
            if isinstance(kind, pd.CategoricalDtype)
            else kind
            for name, kind in result.dtypes.items()
        }
        return str(kinds), type(result.index).__name__
    if hasattr(result, "to_arrow_table"):
        return str(result.types), str(result.columns)
    if isinstance(result, float):
        return type(result).__name__
    shown = dict(result.schema)
    return str({name: pl.Enum if kind == pl.Enum else kind for name, kind in shown.items()})


KEYS = {
    "bool": ([True, False], "bool"),
    "int8": ([1, 2], "int8"),
    "int64": ([1, 2], "int64"),
    "uint64": ([2**64 - 1, 2], "uint64"),
    "float32": ([0.5, 1.5], "float32"),
    "float64": ([0.5, -0.0], "float64"),
    "float16": ([0.5, 1.5], "float16"),
    "complex128": ([1j, 2], "complex128"),
    "datetime64[ns]": ([NOON], "datetime64[ns]"),
    "datetime64[s]": ([NOON], "datetime64[s]"),
    "datetime64[ns, UTC]": ([NOON.tz_localize("UTC")], "datetime64[ns, UTC]"),
    "timedelta64[ns]": ([pd.Timedelta(1, "s")], "timedelta64[ns]"),
    "str": (["a", "b"], "str"),
    "string": (["a", "b"], "string"),
    "string[python]": (["a", "b"], "string[python]"),
    "surrogates": (["a", "\ud800"], "string[python]"),
    "Int64": ([2**60 + 1, 2], "Int64"),
    "Float64": ([0.5, 1.5], "Float64"),
    "boolean": ([True, False], "boolean"),
    "category of texts": (["a", "b"], pd.CategoricalDtype(["a", "b"])),
    "category of integers": ([1, 2], pd.CategoricalDtype([1, 2])),
    "category of booleans": ([True, False], pd.CategoricalDtype([True, False])),
    "category of times": ([NOON], pd.CategoricalDtype([NOON])),
    "period": ([pd.Period("2020-01")], "period[M]"),
    "interval": ([pd.Interval(0, 1)], "interval[int64, right]"),
    "sparse": ([1, 2], "Sparse[int64]"),
    "arrow int64": ([2**60 + 1], ARROW(pa.int64())),
    "arrow bool": ([True, False], ARROW(pa.bool_())),
    "arrow decimal": ([decimal.Decimal("1.5")], ARROW(pa.decimal128(10, 2))),
    "arrow date": ([DAY], ARROW(pa.date32())),
    "arrow time": ([dt.time(1)], ARROW(pa.time64("us"))),
    "arrow duration": ([dt.timedelta(1)], ARROW(pa.duration("us"))),
    "arrow binary": ([b"x"], ARROW(pa.binary())),
    "arrow dictionary": (["a"], ARROW(pa.dictionary(pa.int32(), pa.string()))),
    "arrow list": ([[1]], ARROW(pa.list_(pa.int64()))),
    "arrow large string": (["a"], ARROW(pa.large_string())),
    "objects": ([1, 1.0, True, "1", (1, 2), DAY, b"x", 10**400, "\ud800"], object),
    "unhashable objects": ([[1], {}, {1}, (1, [2])], object),
    "arrays": ([np.array([1, 2]), pd.Series([1])], object),
    "strange numbers": (
        [decimal.Decimal("sNaN"), decimal.Decimal("NaN"), complex("nan"), np.float64("nan")],
        object,
    ),
}


def column(values, dtype):
    if dtype is not object:
        return pd.Series(values, dtype=dtype)
    series = pd.Series([None] * len(values), dtype=object)
    for row, value in enumerate(values):
        series.iat[row] = value
    return series


def variants(values, dtype):
    """Return the same declared column: without rows, with one, with many, with missing values."""
    nullable = str(dtype) not in {
        "bool",
        "int8",
        "int64",
        "uint64",
        "Sparse[int64]",
        "interval[int64, right]",
    }
    lists = [[], values[:1], values, values * 30]
    lists += [[None], [*values, None] * 30] if nullable else []
    return [column(v, dtype) for v in lists]


@pytest.mark.parametrize("kind", KEYS)
def test_a_pandas_key_column_has_one_outcome(kind):
    """Grouping a pandas frame by a column ends the same way whatever the column holds."""
    found = set()
    for keys in variants(*KEYS[kind]):
        frame = pd.DataFrame({"g": keys, "x": np.arange(len(keys), dtype=float)})
        grouped = frame.dp.group_by("g")
        found.add(outcome(lambda g=grouped: g.mean("x", (0, 9), epsilon=1e12, delta=0.5)))
    assert len(found) == 1


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("ask", ["mean", "count"])
def test_a_pandas_value_column_has_one_outcome(kind, ask):
    """Asking about a pandas column ends the same way whatever the column holds."""
    found = set()
    for values in variants(*KEYS[kind]):
        private = pd.DataFrame({"x": values}).dp
        bounds = () if ask == "count" else ((0, 9),)
        found.add(outcome(lambda p=private, b=bounds: getattr(p, ask)("x", *b)))
    assert len(found) == 1


POLARS = {
    "Boolean": ([True, False], pl.Boolean),
    "Int8": ([1, -1], pl.Int8),
    "Int64": ([2**60 + 1], pl.Int64),
    "UInt64": ([2**64 - 1], pl.UInt64),
    "Int128": ([2**100], pl.Int128),
    "Float32": ([0.1, float("nan"), -0.0], pl.Float32),
    "Float64": ([0.1, float("inf")], pl.Float64),
    "Decimal": ([decimal.Decimal("1.5")], pl.Decimal(20, 2)),
    "String": (["a", ""], pl.String),
    "Categorical": (["a", "b"], pl.Categorical),
    "Enum": (["a", "b"], pl.Enum(["a", "b"])),
    "Binary": ([b"a"], pl.Binary),
    "Date": ([DAY], pl.Date),
    "Time": ([dt.time(1)], pl.Time),
    "Datetime": ([NOON.to_pydatetime()], pl.Datetime("us")),
    "Datetime ns UTC": ([NOON.to_pydatetime()], pl.Datetime("ns", "UTC")),
    "Duration": ([dt.timedelta(1)], pl.Duration("us")),
    "List": ([[1]], pl.List(pl.Int64)),
    "Struct": ([{"a": 1}], pl.Struct({"a": pl.Int64})),
    "Object": ([object()], pl.Object),
    "Null": ([None], pl.Null),
}


@pytest.mark.parametrize("kind", POLARS)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_polars_column_has_one_outcome(kind, lazy):
    """Grouping by a polars column, and asking about it, end the same way whatever it holds."""
    values, dtype = POLARS[kind]
    lists = [[], values[:1], [None], values * 30, [*values, None] * 30]
    by_group, alone, counted = set(), set(), set()
    for rows in lists:
        frame = pl.DataFrame({"g": pl.Series(rows, dtype=dtype)})
        private = (frame.lazy() if lazy else frame).dp
        grouped = private.group_by("g")
        by_group.add(outcome(lambda g=grouped: g.count(epsilon=1e12, delta=0.5).lazy().collect()))
        alone.add(outcome(lambda p=private: p.mean("g", (0, 9))))
        counted.add(outcome(lambda p=private: p.count("g")))
    assert [len(by_group), len(alone), len(counted)] == [1, 1, 1]


DUCKDB = {
    "BOOLEAN": ["true"],
    "TINYINT": ["1"],
    "BIGINT": ["1", "9223372036854775807"],
    "UBIGINT": ["18446744073709551615"],
    "HUGEINT": ["170141183460469231731687303715884105727"],
    "UHUGEINT": ["1", "340282366920938463463374607431768211455"],
    "FLOAT": ["0.5", "'nan'"],
    "DOUBLE": ["0.5", "'-inf'"],
    "DECIMAL(18,3)": ["1.5"],
    "VARCHAR": ["'a'", "''"],
    "BLOB": ["'a'"],
    "DATE": ["'2020-01-01'", "'infinity'"],
    "TIME": ["'01:00'"],
    "TIMESTAMP": ["'2020-01-01'", "'infinity'"],
    "TIMESTAMP_NS": ["'2020-01-01'"],
    "INTERVAL": ["'1 day'"],
    "UUID": ["'eeccb8c5-9943-b2bb-bb5e-222f4e14b687'"],
    "BIT": ["'101'"],
    "INTEGER[]": ["[1]"],
    "STRUCT(a INTEGER)": ["{'a': 1}"],
    "ENUM('a', 'b')": ["'a'", "'b'"],
}


@pytest.mark.parametrize("kind", DUCKDB)
def test_a_duckdb_column_has_one_outcome(kind):
    """Grouping by a DuckDB column, and asking about it, end the same way whatever it holds."""
    by_group, alone = set(), set()
    for rows in ([], DUCKDB[kind][:1], ["NULL"], DUCKDB[kind] * 30, [*DUCKDB[kind], "NULL"] * 30):
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t (g {kind})")
        for row in rows:
            connection.execute(f"INSERT INTO t VALUES ({row}::{kind})")
        private = dfp.frame(connection.table("t"))
        grouped = private.group_by("g")
        by_group.add(outcome(lambda g=grouped: g.count(epsilon=1e12, delta=0.5)))
        alone.add(outcome(lambda p=private: p.mean("g", (0, 9))))
    assert [len(by_group), len(alone)] == [1, 1]


@pytest.mark.parametrize("terms", [{}, {"unit": "g", "max_rows": 2, "max_groups": 2}])
def test_the_largest_integers_of_duckdb_are_no_keys(terms):
    """A UHUGEINT is refused by its type: the largest would come out in another order."""
    texts = set()
    for largest in ("18014398509481984", "340282366920938463463374607431768211455"):
        rows = duckdb.connect().sql(
            f"SELECT unnest([1, 1, {largest}])::UHUGEINT AS g, 0.5 AS x, 'a' AS h"
        )
        private = dfp.frame(rows)(**terms) if terms else dfp.frame(rows)
        with pytest.raises(dfp.UnsupportedDtypeError, match="UHUGEINT") as caught:
            private.group_by("h" if terms else "g").agg(dfp.count(), dfp.median("x"), delta=0.1)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_missing_keys_keep_their_own_group():
    """A released NULL key is shown as missing, never as another key's value."""
    for dtype in ("boolean", pd.CategoricalDtype(["x", "y"]), "str", "float64", "datetime64[ns]"):
        frame = pd.DataFrame({"g": pd.Series([None] * 9, dtype=dtype)})
        assert frame.dp.group_by("g").count(epsilon=1e12, delta=0.5)["g"].isna().tolist() == [True]


def test_a_missing_boolean_category_is_not_false():
    """A released NULL key of a boolean category is shown as missing."""
    frame = pd.DataFrame({"g": pd.Series([None] * 9, dtype=pd.CategoricalDtype([True, False]))})
    assert frame.dp.group_by("g").count(epsilon=1e12, delta=0.5)["g"].isna().tolist() == [True]


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "int64[pyarrow]"])
def test_large_keys_are_not_rounded_beside_a_missing_one(dtype):
    """The NULL group does not change how another group's key is shown."""
    keys = pd.Series([2**60 + 1] * 9 + [None] * 9, dtype=dtype)
    shown = pd.DataFrame({"g": keys}).dp.group_by("g").count(epsilon=1e12, delta=0.5)["g"]
    assert shown.tolist()[0] == 2**60 + 1
