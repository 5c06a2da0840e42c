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

LARGEST = 2.0**126
BITS = 17
"""The bits of a value that a rank counts."""
KINDS = {"octaves": 2, "means of octaves": 1, "values": 0}
ASK = {"octaves": dfp.std, "means of octaves": dfp.mean, "values": dfp.median}
EDGES = [-50.0, -0.5, 0.0, 1e-9, 50.0, 100.0]


def kept(value, bits):
    """Return a value rounded to so many bits by Veltkamp's splitting, double by double."""
    scaled = value * (2.0 ** (53 - bits) + 1.0)
    return scaled - (scaled - value)


def octave(value):
    """Return the number of (2**e, 2**(e + 1)], 1 for e = -127; negative values are mirrored."""
    mantissa, exponent = math.frexp(abs(value))
    number = max(exponent - (mantissa == 0.5) + 127, 0) if value else 0
    return -number if value < 0 else number


def part(value):
    """Return the number of the bin of 1/2048 octave, the larger end in it, and its smaller end."""
    size, whole = abs(value), abs(octave(value))
    if not whole:
        return 0, 0.0
    least = 2.0 ** (whole - 128)
    place = math.ceil((Fraction(size) / Fraction(least) - 1) * 2048)
    number, base = (whole - 1) * 2048 + place, least * (1 + (place - 1) / 2048)
    return (-number, -base) if value < 0 else (number, base)


def rank(value, bits):
    """Return the number of a value among those of so many bits; 2**-126 has number 1."""
    mantissa, exponent = math.frexp(abs(value))
    half = 2 ** (bits - 1)
    number = max((exponent - 1 + 126) * half + int(mantissa * 2 * half) - half + 1, 0)
    number = number if value else 0
    return -number if value < 0 else number


def by_definition(values, kind):
    """Return the entries of one group by the law in words, added up in fractions.

    Files have octaves cut into 2048 bins, whose sums are of what is beyond their ends.
    """
    present = [float(v) for v in values if v is not None and v == v]
    held = {}
    for value in (min(max(v, -LARGEST), LARGEST) for v in present):
        own = kept(value, 22)
        number, base = part(own)
        number = rank(kept(value, BITS), BITS) if kind == "values" else number
        powers = [own - base, kept((own - base) ** 2, 21)][: KINDS[kind]]
        held.setdefault(number, []).append([Fraction(p if number else 0.0) for p in powers])
    return [
        (number, len(rows), *(float(sum(column)) for column in zip(*rows, strict=True)))
        for number, rows in sorted(held.items())
    ]


def reference(rows, kind, keys=None, column="x"):
    order = lambda g: (g is None, (g or "").encode())  # noqa: E731
    names = sorted({row["g"] for row in rows}, key=order) if keys is None else keys
    entries = []
    for index, name in enumerate(names):
        own = [row[column] for row in rows if row["g"] == name]
        entries += [(index, *entry) for entry in by_definition(own, kind)]
    return [(name,) for name in names], entries


@settings(max_examples=8)
@given(data=st.data())
def test_every_engine_follows_the_law_of_the_bins(data, engine, rows, table_of, exact):
    """Counts and sums of bins are those of the law in words, bit for bit, for any values."""
    drawn = data.draw(st.lists(rows, max_size=25))
    kind, column = data.draw(st.sampled_from(list(KINDS))), data.draw(st.sampled_from("xxi"))
    found = exact.bins(engine(table_of(drawn)), ASK[kind](column))
    expected = by_definition([row[column] for row in drawn], kind)
    assert found == ([()], [(0, *entry) for entry in expected])


@settings(max_examples=6)
@given(data=st.data())
def test_every_engine_follows_the_law_by_group(data, way, rows, table_of, exact):
    """By group too.

    Groups are sorted, NULL is the last; with public keys exactly the listed groups come out, in the
    order listed, the absent ones with no bins at all.
    """
    drawn = data.draw(st.lists(rows, max_size=25))
    kind = data.draw(st.sampled_from(list(KINDS)))
    keys = data.draw(st.sampled_from([None, ["b", "a", "zz", None], [None], ["", "A", "b "]]))
    found = exact.bins(way(table_of(drawn)), ASK[kind]("x"), "g", keys=keys)
    assert found == reference(drawn, kind, keys)


@settings(max_examples=4)
@given(data=st.data())
def test_every_engine_follows_the_law_of_edges(data, way, rows, table_of):
    """With next to no noise a histogram counts a value in the bin that begins at or below it."""
    drawn = data.draw(st.lists(rows, max_size=25))
    released = dfp.frame(way(table_of(drawn))).histogram("x", EDGES, epsilon=2**60)
    counted = [0] * (len(EDGES) - 1)
    for value in (row["x"] for row in drawn):
        if value is not None and EDGES[0] <= value <= EDGES[-1]:
            counted[sum(edge <= value for edge in EDGES[1:-1])] += 1
    held = released.to_arrow_table() if hasattr(released, "to_arrow_table") else released
    assert pl.DataFrame(held)["count"].to_list() == counted


@pytest.fixture(scope="module")
def many():
    generator = np.random.default_rng(3)
    size = 4_000
    x = generator.normal(0, 1, size) * 2.0 ** generator.integers(-140, 140, size)
    x[::97], x[::101], x[::103], x[::107] = np.nan, np.inf, 0.0, -0.0
    near = 2.0 ** generator.integers(-3, 3, 800)
    x[:800] = near * (1 + generator.integers(-4, 5, 800) * 2.0**-23)
    g = generator.choice(["a", "b", "c", None], size)
    whole = generator.integers(-(2**20), 2**20, size)
    return pa.table({"g": g.tolist(), "x": x, "h": generator.integers(0, 60, size), "i": whole})


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_of_any_magnitude(kind, many, way, exact):
    """4,000 rows of all magnitudes, next to edges of octaves and of rounding, in every engine."""
    found = exact.bins(way(many), ASK[kind]("x"), "g")
    assert found == reference(many.to_pylist(), kind)


def test_integers_are_ranked_as_floats(many, way, exact):
    """By group the values of integers are told apart by 17 bits, as those of floats."""
    found = exact.bins(way(many), dfp.median("i"), "g")
    assert found == reference(many.to_pylist(), "values", column="i")


def test_order_chunks_and_slices_do_not_matter(many, way, exact):
    """Permuted, turned and re-chunked rows give the same table, bit for bit."""
    expected = exact.bins(way(many), dfp.std("x"), "hg")
    permuted = many.take(np.random.default_rng(2).permutation(len(many)))
    pieces = pa.concat_tables([many.slice(start, 331) for start in range(0, len(many), 331)])
    for other in (permuted, many.take(np.arange(len(many))[::-1]), pieces):
        assert exact.bins(way(other), dfp.std("x"), "hg") == expected


NUMBERS = [
    *[(name, [0, 1, 100, 127, None]) for name in ("int8", "uint8", "int16", "uint32")],
    ("int64", [-(2**63), 2**63 - 1, 2**53 + 1, 3, None]),
    ("uint64", [2**64 - 1, 2**63 + 1025, 50, None]),
    ("float32", [0.1, math.inf, -math.inf, math.nan, 1e-45, 3e38, None]),
    ("bool_", [True, False, True, None]),
]


@pytest.mark.parametrize(("kind", "values"), NUMBERS)
def test_every_number_type_has_the_bins_of_its_floats(kind, values, engines, exact):
    """Integers beyond 2**53, booleans and single precision are binned as their nearest doubles."""
    column = pa.array(values, getattr(pa, kind)())
    floats = [None if v is None else float(v) for v in column.to_pylist()]
    expected = [(0, *entry) for entry in by_definition(floats, "octaves")]
    for name in ("pandas", "polars", "arrow", "duckdb", "polars parquet"):
        if name != "pandas" or kind in {"int64", "float32"}:
            frame = engines[name](pa.table({"x": column}))
            assert exact.bins(frame, dfp.std("x"))[1] == expected, name


@pytest.mark.parametrize("scale", [0, 2, 9])
def test_decimals_have_the_same_bins(scale, engines, exact):
    """A decimal column has one table in every engine."""
    generator = np.random.default_rng(scale)
    values = [Decimal(int(v)).scaleb(-scale) for v in generator.integers(-(10**12), 10**12, 2000)]
    table = pa.table({"x": pa.array([*values, None], pa.decimal128(18, scale))})
    found = {name: exact.bins(made(table), dfp.std("x")) for name, made in engines.items()}
    assert all(value == found["arrow"] for value in found.values())


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_of_duckdb_do_not_matter(threads, many, exact):
    """DuckDB adds up the same floats on any number of threads."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    connection.register("many", many)
    found = exact.bins(connection.table("many"), dfp.std("x"), "h")
    assert found == exact.bins(many, dfp.std("x"), "h")


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
    names, column = ("pandas", "polars", "duckdb"), pa.concat_arrays([KEYS[kind]] * 30)
    table = pa.table({"g": column, "x": np.arange(1.0, len(column) + 1)})
    for name, rows in itertools.product(names, (table, table.slice(0, 1))):
        grouped = dfp.frame(engines[name](rows)).group_by("g")
        released = grouped.agg(m=dfp.mean("x"), n=dfp.count(), epsilon=1e9, delta=0.5)
        columns = released.to_arrow_table() if name == "duckdb" else pa.table(released)
        assert sum(columns["n"].to_pylist()) == (len(rows) if len(rows) > 1 else 0)


@pytest.mark.parametrize("bits", [8, 16])
def test_keys_of_the_whole_range_of_their_type_are_told_apart(bits):
    """Groups of narrow integers are those of wide ones, where keys are as far apart as can be."""
    half = 2 ** (bits - 1)
    keys = np.repeat(np.arange(-half, half), 2)
    for kind in (pa.int64(), getattr(pa, f"int{bits}")()):
        table = pa.table({"k": pa.array(keys, kind), "x": keys})
        found = pl.DataFrame(
            dfp.frame(table)
            .group_by("k")
            .agg(n=dfp.count(), s=dfp.sum("x", (-half, half)), epsilon=2**60, delta=0.5)
        )
        assert found["k"].to_list() == list(range(-half, half))
        assert found["n"].to_list() == [2] * 2 * half
        assert (found["s"] == 2 * found["k"].cast(pl.Float64)).all()
