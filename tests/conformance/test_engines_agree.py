"""The same rows give the same integers, whoever counts them."""

import itertools
import math
from decimal import Decimal

import duckdb
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from tests.conformance.asked_sums import BOUNDS, questions
from tests.conformance.bin_laws import by_definition
from tests.frame_types import to_polars


def grid_sums(values, low, high, anchor, size):
    """Return counts and sums by the law in words: clip, subtract, scale, round."""
    mantissa, exponent = math.frexp(size)
    step = max((exponent - 1 if mantissa == 0.5 else exponent) - 30, -1022)
    present = [float(v) for v in values if v is not None and v == v]
    clipped = [min(max(v, low), high) for v in present]
    grid = [math.floor((v - anchor) * 2.0**-step + 0.5) for v in clipped]
    last = math.floor((high - anchor) * 2.0**-step + 0.5)
    return len(grid), sum(grid), sum(q * q // last for q in grid)


def reference(rows, low, high):
    low, high = float(low), float(high)
    x, i = [r["x"] for r in rows], [r["i"] for r in rows]
    variance = grid_sums(x, low, high, low, high - low)
    total = grid_sums(x, low, 2 * high, 0.0, max(2 * high, 0.0) - min(low, 0.0))
    integer_sums = grid_sums(i, low, high, low, high - low)
    texts = sum(r["g"] is not None for r in rows)
    integers = sum(r["h"] is not None for r in rows)
    return [len(rows), texts, *variance, *total[:2], *integer_sums[:2], integers]


def group_reference(rows, low, high):
    names = sorted({r["g"] for r in rows}, key=lambda g: (g is None, (g or "").encode()))
    sums = {g: reference([r for r in rows if r["g"] == g], low, high) for g in names}
    return [[g, *sums[g]] for g in names]


@settings(max_examples=12)
@given(data=st.data())
def test_every_engine_follows_the_law_of_the_grid(data, engine, exact, rows, table_of):
    """Exact sums are those of the law in words, bit for bit, for NULL, NaN, inf and huge values."""
    table_rows = data.draw(st.lists(rows, max_size=25))
    low, high = data.draw(st.sampled_from(BOUNDS))
    sums = exact.sums(engine(table_of(table_rows)), questions(low, high, clipping=False))
    assert sums == [reference(table_rows, low, high)]


@settings(max_examples=8)
@given(data=st.data())
def test_every_engine_follows_the_law_by_group(data, way, exact, rows, table_of):
    """By group the sums are those of each group's rows; groups are sorted, NULL is the last."""
    table_rows = data.draw(st.lists(rows, max_size=25))
    low, high = data.draw(st.sampled_from(BOUNDS))
    sums = exact.sums(way(table_of(table_rows)), questions(low, high, clipping=False), ["g"])
    # "rows" comes before the keys' own sums: the table starts with the key
    assert sums == group_reference(table_rows, low, high)


@pytest.mark.parametrize(
    "name",
    ["arrow", "parquet", "duckdb parquet", "polars parquet", "duckdb"],
)
@pytest.mark.parametrize(("bounds", "other"), [((100, 101), 1.0), ((-7, -3), -5.0)])
def test_nan_in_parquet_is_no_value(name, bounds, other, engines, exact):
    """NaN contributes nothing, whatever the smallest and the largest value of the file are."""
    column = [math.nan] * 3 + [other]
    statistics = {"v": dfp.var("x", bounds)}
    assert exact.sums(engines[name](pa.table({"x": column})), statistics)[0][0] == 1


NUMBERS = [
    *[(name, [0, 1, 100, 127, 5, None]) for name in ("int8", "uint8")],
    *[(name, [0, 1, 30_000, 99, None]) for name in ("int16", "uint16")],
    *[(name, [0, 2**31 - 1, 77, None]) for name in ("int32", "uint32")],
    ("int64", [-(2**63), 2**63 - 1, 2**53 + 1, 3, None]),
    ("uint64", [2**64 - 1, 2**63, 2**63 + 1025, 50, None]),
    ("float32", [0.1, 99.9, math.inf, -math.inf, math.nan, 1e-45, 3e38, None]),
    ("float64", [0.1, 99.9, 1e300, 5e-324, math.nan, -0.0, None]),
    ("bool_", [True, False, True, None]),
]
PANDAS = {
    **{kind: kind.replace("int", "Int").replace("u", "U") for kind, _ in NUMBERS if "int" in kind},
    "bool_": "boolean",
}


@pytest.mark.parametrize(("kind", "values"), NUMBERS, ids=[kind for kind, _ in NUMBERS])
def test_every_numeric_type_gives_the_same_integers(kind, values, engines, exact):
    """Integers of all widths, floats and booleans count as the 64-bit float nearest to them.

    So they do in sums within bounds, and in bins without any.
    """
    array = pa.array(values, getattr(pa, kind)())
    plain = [None if v is None else float(v) for v in array.to_pylist()]
    rows = [{"g": None, "h": None, "x": v, "i": None} for v in plain]
    expected = reference(rows, 0, 100)[2:5]
    statistics = {"variance": dfp.var("x", (0, 100), clipping=False)}
    bins = [(0, *entry) for entry in by_definition(plain, "octaves")]
    for (name, convert), is_binned in itertools.product(engines.items(), (False, True)):
        frame = convert(pa.table({"x": array}))
        if name == "pandas" and kind in PANDAS:
            frame = pd.DataFrame({"x": pd.array(values, dtype=PANDAS[kind])})
        answer = exact.bins(frame, dfp.std("x"))[1] if is_binned else exact.sums(frame, statistics)
        assert answer == (bins if is_binned else [expected]), name


@pytest.mark.parametrize(("digits", "scale"), [(38, 18), (38, 10), (18, 2), (9, 9), (38, 0)])
def test_decimals_give_the_same_integers(digits, scale, engines, exact):
    """A decimal column has the same grid integers and the same bins in every engine."""
    generator = np.random.default_rng(scale)
    reach = 10 ** min(digits, 18) - 1
    values = [Decimal(int(v)).scaleb(-scale) for v in generator.integers(-reach, reach, 3000)]
    table = pa.table({"x": pa.array([*values, None], pa.decimal128(digits, scale))})
    statistics = {}
    for bounds in ((0, 1), (-1e6, 1e6), (0.1, 0.3)):
        statistics |= {f"v{bounds}": dfp.var("x", bounds), f"s{bounds}": dfp.sum("x", bounds)}
    answers = {name: exact.sums(convert(table), statistics) for name, convert in engines.items()}
    assert all(value == answers["arrow"] for value in answers.values()), answers
    answers = {name: exact.bins(convert(table), dfp.std("x")) for name, convert in engines.items()}
    assert all(value == answers["arrow"] for value in answers.values()), answers


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_float_keys_are_one_group_for_each_number(kind, engines, exact):
    """0.0 and -0.0 are one group, NaN and NULL are another, the infinities are two."""
    values = [0.0, -0.0, math.nan, None, 0.5, math.inf, -math.inf]
    table = pa.table({"g": pa.array(values, getattr(pa, kind)())})
    expected = [[-math.inf, 1], [0.0, 2], [0.5, 1], [math.inf, 1], [None, 2]]
    for name, convert in engines.items():
        sums = exact.sums(convert(table), {"n": dfp.count()}, ["g"])
        assert sums == expected, name
        assert math.copysign(1, sums[1][0]) == 1, name


@pytest.mark.parametrize(
    "name",
    ["pandas", "polars", "polars lazy", "arrow", "duckdb", "parquet"],
)
def test_a_public_key_meets_a_float32_column(name, engines, exact):
    """A public key counts the rows whose key is that number in the column's own type."""
    table = pa.table({"g": pa.array([0.1, 0.1, 0.5], pa.float32())})
    sums = exact.sums(engines[name](table), {"n": dfp.count()}, ["g"], keys=[0.1, 0.5])
    assert [row[-1] for row in sums] == [2, 1]


@pytest.mark.parametrize("size", [1, 3, 16, 10**6])
@pytest.mark.parametrize(("kind", "high"), [("Int32", 2**30), ("Int64", 2**53), ("Float64", 1.0)])
def test_full_columns_do_not_wrap(size, kind, high):
    """Rows that all sit at a bound, the largest the grid knows, add up without overflow."""
    column = pl.repeat(high, size, dtype=getattr(pl, kind), eager=True)
    frame = pl.DataFrame({"x": column})
    for table in (frame, frame.to_arrow(), frame.to_pandas()):
        for bounds in ((0, high), (-high, high)):
            mean = dfp.frame(table).mean("x", bounds, epsilon=2**60)
            assert mean == pytest.approx(high, rel=2**-29)
        assert dfp.frame(table).sum("x", (0, high), epsilon=2**60) == pytest.approx(
            high * size, rel=2**-29
        )


@pytest.mark.slow
def test_fifty_million_rows_do_not_wrap():
    """5e7 rows at the upper bound have that bound as their mean."""
    relation = duckdb.connect().sql("SELECT 1.0::DOUBLE AS x FROM range(50000000)")
    assert dfp.frame(relation).mean("x", (0, 1), epsilon=2**60) == pytest.approx(1, abs=2**-29)
    assert dfp.frame(relation).sum("x", (-1, 1), epsilon=2**60) == pytest.approx(5e7, rel=2**-29)


NAMES = ["integer_0", "integer_1", "key_0", "sum_0_0", "sum_0_1", "value_0", "row", "sums", "keys"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["polars", "duckdb"])
def test_the_callers_column_names_are_free(name, kind, engines):
    """No column name of the caller is taken for one of our own."""
    table = pa.table({name: ["a", "b"] * 30, "x": [float(i % 2) for i in range(60)]})
    grouped = dfp.frame(engines[kind](table)).group_by(name)
    released = grouped.mean("x", (0, 1), epsilon=1e12, delta=0.5)
    columns = to_polars(released)
    assert columns[name].to_list() == ["a", "b"]
    assert columns["x"].to_list() == pytest.approx([0, 1], abs=1e-6)


def test_a_count_beside_a_mean_reads_the_callers_column():
    """A column called integer_0 is counted by its own values."""
    frame = pl.DataFrame({"integer_0": [1.0, None, 3.0], "x": [1.0, 2.0, 3.0]})
    answers = frame.dp.agg(dfp.mean("x", (0, 10)), dfp.count("integer_0"), epsilon=1e12)
    assert answers["integer_0"] == 2
