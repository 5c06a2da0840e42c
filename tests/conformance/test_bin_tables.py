"""The same rows give the same bin tables, whoever counts them."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import duckdb
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.engine.bins import run_bins
from dfprivacy.engine.group_numbers import number_groups
from dfprivacy.measurement.bin_table import merge_tables
from dfprivacy.measurement.binning import (
    SQUARE_BITS,
    VALUE_BITS,
    Edges,
    Octaves,
    SignificantBits,
    clipped,
    rounded,
)
from dfprivacy.releasing import named_columns, read
from dfprivacy.terms import keys_of

BINNINGS = {
    "octaves": (Octaves(), 2),
    "means of octaves": (Octaves(), 1),
    "8 bits": (SignificantBits(8), 0),
    "16 bits": (SignificantBits(16), 0),
    "edges": (Edges((-50.0, -0.5, 0.0, 1e-9, 50.0, 100.0)), 0),
    "two edges": (Edges((0.0, 100.0)), 0),
}


def run(frame, binning, moments, column="x", by=(), keys=None):
    public = keys_of(keys, by) if by else None
    _, table = read(
        frame, named_columns(by, public, {column: True}, None),
        lambda a: run_bins(a, by, column, binning, moments, public=public is not None),
    )  # fmt: skip
    return table


def shown(table):
    """Return a table's content: keys, and (group, bin, rows, moments) of each entry."""
    entries = zip(table.group, table.bins, table.rows, *table.moments, strict=True)
    keys = [tuple(row.values()) for row in table.keys.to_pylist()]
    return keys or [()] * table.groups, [tuple(v.item() for v in entry) for entry in entries]


def by_definition(values, binning, moments):
    """Return the entries of one group by the law in words, added up in fractions."""
    present = np.array([v for v in values if v is not None and v == v], dtype=float)
    bins = binning.numbers(binning.labels(present))
    kept = rounded(clipped(present), VALUE_BITS)
    powers = [kept, rounded(kept * kept, SQUARE_BITS)][:moments]
    return [
        (
            int(b), int((bins == b).sum()),
            *(float(sum(map(Fraction, p[bins == b].tolist()))) if b else 0.0 for p in powers),
        )
        for b in np.unique(bins)
    ]  # fmt: skip


def reference(rows, binning, moments, keys=None, column="x", by="g"):
    order = lambda g: (g is None, (g or "").encode())  # noqa: E731
    names = sorted({row[by] for row in rows} if keys is None else set(keys), key=order)
    entries = []
    for index, name in enumerate(names):
        own = [row[column] for row in rows if row[by] == name]
        values = [None if v is None else float(v) for v in own]
        entries += [(index, *entry) for entry in by_definition(values, binning, moments)]
    return [(name,) for name in names], entries


@settings(max_examples=6)
@given(data=st.data())
def test_every_engine_follows_the_law_of_the_bins(data, engine, rows, table_of):
    """Counts and sums of bins are those of the law in words, bit for bit, for any values."""
    drawn = data.draw(st.lists(rows, max_size=25))
    binning, moments = BINNINGS[data.draw(st.sampled_from(sorted(BINNINGS)))]
    column = data.draw(st.sampled_from(["x", "x", "i"]))
    table = run(engine(table_of(drawn)), binning, moments, column)
    values = [None if row[column] is None else float(row[column]) for row in drawn]
    expected = [(0, *entry) for entry in by_definition(values, binning, moments)]
    assert shown(table) == ([()], expected)


@settings(max_examples=6)
@given(data=st.data())
def test_every_engine_follows_the_law_by_group(data, engine, rows, table_of):
    """By group too.

    Groups are sorted, NULL is the last; with public keys exactly the listed groups come out,
    the absent ones with no bins at all.
    """
    drawn = data.draw(st.lists(rows, max_size=25))
    binning, moments = BINNINGS[data.draw(st.sampled_from(sorted(BINNINGS)))]
    keys = data.draw(st.sampled_from([None, ["b", "a", "zz", None], [None], ["", "A", "b "]]))
    table = run(engine(table_of(drawn)), binning, moments, "x", ("g",), keys)
    assert shown(table) == reference(drawn, binning, moments, keys)
    assert table.groups == table.keys.num_rows


@pytest.fixture(scope="module")
def many():
    generator = np.random.default_rng(3)
    size = 4_000
    x = generator.normal(0, 1, size) * 2.0 ** generator.integers(-140, 140, size)
    x[::97], x[::101], x[::103], x[::107] = np.nan, np.inf, 0.0, -0.0
    near = 2.0 ** generator.integers(-3, 3, 800)
    x[:800] = near * (1 + generator.integers(-4, 5, 800) * 2.0**-23)
    g = generator.choice(["a", "b", "c", None], size)
    return pa.table({"g": g.tolist(), "x": x, "h": generator.integers(0, 60, size)})


@pytest.mark.parametrize("kind", BINNINGS)
def test_many_rows_of_any_magnitude(kind, many, way):
    """4,000 rows of all magnitudes, next to edges of octaves and of rounding, in every engine."""
    binning, moments = BINNINGS[kind]
    found = shown(run(way(many), binning, moments, "x", ("g",)))
    assert found == reference(many.to_pylist(), binning, moments)


@pytest.mark.parametrize("by", [("h", "g")])
def test_order_chunks_and_slices_do_not_matter(by, many, way):
    """Permuted, turned and re-chunked rows give the same table, bit for bit."""
    expected = shown(run(way(many), Octaves(), 2, "x", by))
    permuted = many.take(np.random.default_rng(2).permutation(len(many)))
    pieces = pa.concat_tables([many.slice(start, 331) for start in range(0, len(many), 331)])
    for other in (permuted, many.take(np.arange(len(many))[::-1]), pieces):
        assert shown(run(way(other), Octaves(), 2, "x", by)) == expected


@pytest.mark.parametrize("cut", [777])
def test_merged_parts_are_the_whole(cut, many, way):
    """Tables of two parts of a frame add up to the table of the frame."""
    keys = ["a", "b", "c", None]
    for kind in ("octaves", "8 bits"):
        binning, moments = BINNINGS[kind]
        whole = run(way(many), binning, moments, "x", ("g",), keys)
        parts = [
            run(way(part), binning, moments, "x", ("g",), keys)
            for part in (many.slice(0, cut), many.slice(cut))
        ]
        assert shown(merge_tables(parts)) == shown(whole)


KINDS = [
    *[(name, [0, 1, 100, 127, None]) for name in ("int8", "uint8", "int16", "uint32")],
    ("int64", [-(2**63), 2**63 - 1, 2**53 + 1, 3, None]),
    ("uint64", [2**64 - 1, 2**63 + 1025, 50, None]),
    ("float32", [0.1, math.inf, -math.inf, math.nan, 1e-45, 3e38, None]),
    ("bool_", [True, False, True, None]),
]


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_every_number_type_has_the_bins_of_its_floats(kind, values, engines):
    """Integers beyond 2**53, booleans and single precision are binned as their nearest doubles."""
    column = pa.array(values, getattr(pa, kind)())
    floats = [None if v is None else float(v) for v in column.to_pylist()]
    expected = [(0, *entry) for entry in by_definition(floats, Octaves(), 2)]
    for name, convert in engines.items():
        if name != "pandas" or kind in {"int64", "float32"}:
            assert shown(run(convert(pa.table({"x": column})), Octaves(), 2))[1] == expected, name


@pytest.mark.parametrize("scale", [0, 2, 9])
def test_decimals_have_the_same_bins(scale, engines):
    """A decimal column has one table in every engine."""
    generator = np.random.default_rng(scale)
    values = [Decimal(int(v)).scaleb(-scale) for v in generator.integers(-(10**12), 10**12, 2000)]
    table = pa.table({"x": pa.array([*values, None], pa.decimal128(18, scale))})
    found = {name: shown(run(convert(table), Octaves(), 2)) for name, convert in engines.items()}
    assert all(value == found["arrow"] for value in found.values())


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_of_duckdb_do_not_matter(threads, many):
    """DuckDB adds up the same floats on any number of threads."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    connection.register("many", many)
    found = shown(run(connection.table("many"), Octaves(), 2, "x", ("h",)))
    assert found == shown(run(many, Octaves(), 2, "x", ("h",)))


@pytest.mark.parametrize("frame", ["polars", "arrow"])
@pytest.mark.parametrize("bins", [1, 1200])
def test_many_edges_are_no_trouble(frame, bins, engines):
    """A histogram of thousands of bins runs in every engine, and counts each value where it is."""
    values = np.arange(0, bins, 0.5)
    asked = dfp.frame(engines[frame](pa.table({"x": values})))
    found = pl.DataFrame(asked.histogram("x", bins=bins, bounds=(0, bins), epsilon=1e12))
    assert found["count"].to_list() == [2] * bins


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
    names, column = ("pandas", "polars", "arrow", "duckdb"), pa.concat_arrays([KEYS[kind]] * 30)
    table = pa.table({"g": column, "x": np.arange(1.0, len(column) + 1)})
    for name, rows in itertools.product(names, (table, table.slice(0, 1))):
        grouped = dfp.frame(engines[name](rows)).group_by("g")
        released = grouped.agg(m=dfp.mean("x"), n=dfp.count(), epsilon=1e9, delta=0.5)
        released = released.collect() if hasattr(released, "collect") else released
        columns = released.to_arrow_table() if hasattr(released, "to_arrow_table") else released
        columns = columns if isinstance(columns, pa.Table) else pa.table(columns)
        assert sum(columns["n"].to_pylist()) == (len(rows) if len(rows) > 1 else 0)


@pytest.mark.parametrize("bits", [8, 16])
def test_keys_of_the_whole_range_of_their_type_are_told_apart(bits):
    """Groups of narrow integers are those of wide ones, where keys are as far apart as can be."""
    half = 2 ** (bits - 1)
    keys = np.repeat(np.arange(-half, half), 2)
    for kind in (pa.int64(), getattr(pa, f"int{bits}")()):
        found = number_groups(pa.table({"k": pa.array(keys, kind)}), ["k"], None)
        assert found.keys["k"].to_pylist() == list(range(-half, half))
        assert (found.group == keys + half).all()
