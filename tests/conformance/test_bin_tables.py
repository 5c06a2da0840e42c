"""The same rows give the same bin tables, whoever counts them."""

import itertools
import math
from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from tests.conformance.bin_laws import KINDS, by_definition
from tests.frame_types import to_polars

ASK = {"octaves": dfp.std, "means of octaves": dfp.mean, "values": dfp.median}
EDGES = [-50.0, -0.5, 0.0, 1e-9, 50.0, 100.0]


def reference(rows, kind, keys=None, column="x"):
    order = lambda g: (g is None, (g or "").encode())  # noqa: E731
    names = sorted({row["g"] for row in rows}, key=order) if keys is None else keys
    entries = []
    for index, name in enumerate(names):
        values = [row[column] for row in rows if row["g"] == name]
        entries += [(index, *entry) for entry in by_definition(values, kind)]
    return [(name,) for name in names], entries


@settings(max_examples=8)
@given(data=st.data())
def test_every_engine_follows_the_law_of_the_bins(data, engine, rows, table_of, exact):
    """Counts and sums of bins are those of the law in words, bit for bit, for any values."""
    table_rows = data.draw(st.lists(rows, max_size=25))
    kind, column = data.draw(st.sampled_from(list(KINDS))), data.draw(st.sampled_from("xxi"))
    bins = exact.bins(engine(table_of(table_rows)), ASK[kind](column))
    expected = by_definition([row[column] for row in table_rows], kind)
    assert bins == ([()], [(0, *entry) for entry in expected])


@settings(max_examples=6)
@given(data=st.data())
def test_every_engine_follows_the_law_by_group(data, way, rows, table_of, exact):
    """By group too.

    Groups are sorted, NULL is the last; with public keys exactly the listed groups come out, in the
    order listed, the absent ones with no bins at all.
    """
    table_rows = data.draw(st.lists(rows, max_size=25))
    kind = data.draw(st.sampled_from(list(KINDS)))
    keys = data.draw(st.sampled_from([None, ["b", "a", "zz", None], [None], ["", "A", "b "]]))
    bins = exact.bins(way(table_of(table_rows)), ASK[kind]("x"), "g", keys=keys)
    assert bins == reference(table_rows, kind, keys)


@settings(max_examples=4)
@given(data=st.data())
def test_every_engine_follows_the_law_of_edges(data, way, rows, table_of):
    """With next to no noise a histogram counts a value in the bin that begins at or below it."""
    table_rows = data.draw(st.lists(rows, max_size=25))
    released = dfp.frame(way(table_of(table_rows))).histogram("x", EDGES, epsilon=2**60)
    counted = [0] * (len(EDGES) - 1)
    for value in (row["x"] for row in table_rows):
        if value is not None and EDGES[0] <= value <= EDGES[-1]:
            counted[sum(edge <= value for edge in EDGES[1:-1])] += 1
    assert to_polars(released)["count"].to_list() == counted


@pytest.fixture(scope="module")
def many_values():
    generator = np.random.default_rng(3)
    size = 4_000
    x = generator.normal(0, 1, size) * 2.0 ** generator.integers(-140, 140, size)
    x[::97], x[::101], x[::103], x[::107] = np.nan, np.inf, 0.0, -0.0
    edges = 2.0 ** generator.integers(-3, 3, 800)
    x[:800] = edges * (1 + generator.integers(-4, 5, 800) * 2.0**-23)
    g = generator.choice(["a", "b", "c", None], size)
    integers = generator.integers(-(2**20), 2**20, size)
    return pa.table({"g": g.tolist(), "x": x, "h": generator.integers(0, 60, size), "i": integers})


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_of_any_magnitude(kind, many_values, way, exact):
    """4,000 rows of all magnitudes, next to edges of octaves and of rounding, in every engine."""
    bins = exact.bins(way(many_values), ASK[kind]("x"), "g")
    assert bins == reference(many_values.to_pylist(), kind)


def test_integers_are_ranked_as_floats(many_values, way, exact):
    """By group the values of integers are told apart by 17 bits, as those of floats."""
    bins = exact.bins(way(many_values), dfp.median("i"), "g")
    assert bins == reference(many_values.to_pylist(), "values", column="i")


@pytest.mark.parametrize("frame", ["polars", "arrow"])
@pytest.mark.parametrize("bins", [1, 1200])
def test_many_edges_are_no_trouble(frame, bins, engines):
    """A histogram of thousands of bins runs in every engine, and counts each value where it is."""
    values = np.arange(0, bins, 0.5)
    private_frame = dfp.frame(engines[frame](pa.table({"x": values})))
    histogram = pl.DataFrame(
        private_frame.histogram("x", bins=bins, bounds=(0, bins), epsilon=1e12)
    )
    assert histogram["count"].to_list() == [2] * bins


KEYS = {
    "float": pa.array([0.0, -0.0, math.nan, None, -1.5, math.inf, -math.inf]),
    "bool": pa.array([True, False, None]),
    "decimal": pa.array([Decimal("1.5"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
    "text": pa.array(["b", "a", "\u00e9", "Z", "", None, "\U0001f600", "\uffff"]),
    "dates": pa.array([19_000, -5, None], pa.date32()),
    "times": pa.array([0, 10**9, -(10**15), None], pa.timestamp("us")),
    "bytes": pa.array([b"\xff", b"a", b"", None]),
    "unsigned": pa.array([2**64 - 1, 1], pa.uint64()),
}


@pytest.mark.parametrize("kind", KEYS)
def test_groups_of_bins_are_the_groups_of_rows(kind, engines):
    """A mean without bounds beside a count of rows: both passes number the groups alike."""
    names, column = ("pandas", "polars", "duckdb"), pa.concat_arrays([KEYS[kind]] * 30)
    table = pa.table({"g": column, "x": np.arange(1.0, len(column) + 1)})
    for name, rows in itertools.product(names, (table, table.slice(0, 1))):
        grouped = dfp.frame(engines[name](rows)).group_by("g")
        released = grouped.agg(m=dfp.mean("x"), n=dfp.count(), epsilon=1e9, delta=0.5)
        assert to_polars(released)["n"].sum() == (len(rows) if len(rows) > 1 else 0)


@pytest.mark.parametrize("bits", [8, 16])
def test_keys_of_the_whole_range_of_their_type_are_told_apart(bits):
    """Groups of narrow integers are those of wide ones, where keys are as far apart as can be."""
    half = 2 ** (bits - 1)
    keys = np.repeat(np.arange(-half, half), 2)
    for kind in (pa.int64(), getattr(pa, f"int{bits}")()):
        table = pa.table({"k": pa.array(keys, kind), "x": keys})
        release = pl.DataFrame(
            dfp.frame(table)
            .group_by("k")
            .agg(n=dfp.count(), s=dfp.sum("x", (-half, half)), epsilon=2**60, delta=0.5)
        )
        assert release["k"].to_list() == list(range(-half, half))
        assert release["n"].to_list() == [2] * 2 * half
        assert (release["s"] == 2 * release["k"].cast(pl.Float64)).all()
