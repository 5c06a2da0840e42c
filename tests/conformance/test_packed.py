"""Counting by cells and by sorted words gives the tables of one GROUP BY, bit for bit.

With units, units and keys in one word add up to what the engine's own windows give.
"""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from functools import partial

import duckdb
import hypothesis.strategies as st
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.engine import packed
from dfprivacy.engine.passes import build_pass, hashed_bins, run_bins
from dfprivacy.engine.run import exact_table
from dfprivacy.frames.releasing import named_columns, read
from dfprivacy.measurement.bin_table import FINE
from dfprivacy.measurement.binning import Octaves, SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import even_grid, grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import Above, OnGrid, Source
from dfprivacy.measurement.sums import key_name
from dfprivacy.release.terms import keys_of

pytestmark = pytest.mark.sample(1)

BINNINGS = [(Octaves(), 0), (Octaves(), 1), (Octaves(), 2), (FINE, 2), (SignificantBits(8), 0),
            (SignificantBits(16), 0)]  # fmt: skip


@pytest.fixture(scope="module")
def many():
    """Make up rows of all magnitudes: next to edges, infinite, subnormal, NaN and NULL."""
    generator = np.random.default_rng(3)
    size = 3_000
    x = generator.normal(0, 1, size) * 2.0 ** generator.integers(-140, 140, size)
    exponents, near = generator.integers(-130, 130, 800), generator.integers(-4, 5, 800)
    x[:800] = 2.0**exponents * (1 + near * 2.0**-23)
    special = (np.nan, np.inf, 0.0, -0.0, -np.inf, 5e-324, 2.0**-127, -(2.0**-126), 1e308)
    for place, value in enumerate(special):
        x[place :: 97 + place] = value
    far = np.array([-(2**63), 2**63 - 1, 0, 7])
    return pa.table({
        "x": pa.array(x, mask=generator.random(size) < 0.05),
        "f": x.clip(-3e38, 3e38).astype(np.float32),
        "i": generator.integers(-(2**62), 2**62, size),
        "near": pa.array(generator.integers(-5, 60, size).astype(np.int8)),
        "some": pa.array(generator.integers(0, 60, size), mask=generator.random(size) < 0.1),
        "many": generator.integers(-300_000_000, 300_000_000, size).astype(np.int32),
        "far": far[generator.integers(0, 4, size)],
        "unsigned": generator.integers(0, 9, size).astype(np.uint32),
        "text": pa.array(["é", "a", "", "Z", "aa"], pa.large_string()).take(
            pa.array(generator.integers(0, 5, size), mask=generator.random(size) < 0.1)),
        "flag": pa.array(generator.random(size) < 0.5, mask=generator.random(size) < 0.1),
        "day": pa.array(generator.integers(-9, 9, size).astype(np.int32)).cast(pa.date32()),
        "time": pa.array(generator.integers(-9, 9, size), mask=generator.random(size) < 0.1).cast(
            pa.timestamp("us")),
    })  # fmt: skip


def both(frame, by, column, binning, moments, keys=None):
    """Return the table by cells or words, and that of one GROUP BY."""
    public = keys_of(keys, by) if by else None
    columns, known = named_columns(by, public, {column: True}, None), public is not None
    used = []

    def counted(adopted):
        used.append(packed.is_packable(adopted, binning))
        asked = [packed.Asked(column, binning, moments)]
        (own,) = run_bins(adopted, by, asked, public=known)
        return own, hashed_bins(adopted, by, column, binning, moments, public=known)

    found = read(frame, columns, counted)[1]
    assert used == [True]
    return found


def same(found, law):
    """Tell whether two tables are equal, bit for bit."""
    assert found.keys.equals(law.keys)
    assert found.groups == law.groups
    for one, other in zip((found.group, found.bins, found.rows), (law.group, law.bins, law.rows),
                          strict=True):  # fmt: skip
        assert one.tolist() == other.tolist()
    assert [own.tobytes() for own in found.moments] == [own.tobytes() for own in law.moments]
    return True


def stored(table):
    connection = duckdb.connect()
    connection.register("arrow", table)
    connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
    return connection.table("t")


FRAMES = {"polars": pl.from_arrow, "duckdb": stored, "arrow": lambda t: t}
KEYS = [[], ["near"], ["some"], ["many"], ["far"], ["some", "near"], ["many", "some"], ["unsigned"]]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("by", KEYS)
def test_cells_and_words_are_one_group_by(many, frame, by):
    """For keys near each other and far apart, NULL among them, and every binning."""
    made = FRAMES[frame](many)
    for binning, moments in BINNINGS:
        assert same(*both(made, by, "x", binning, moments))
    for column in ("f", "i"):
        assert same(*both(made, by, column, Octaves(), 2))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("cells", [2**8, 2**16])
def test_many_rows_of_many_cells_are_one_group_by(many, frame, cells, monkeypatch):
    """Blocks that wait are counted once there are so many cells for a row, and words are emptied.

    Later blocks have keys that the first ones had not.
    """
    monkeypatch.setattr(packed, "_BLOCK", 250)
    monkeypatch.setattr(packed, "_FEW_CELLS", 0)
    monkeypatch.setattr(packed, "_MANY_OF_ROW", cells)
    monkeypatch.setattr(packed, "_WORD_ROWS", 400)
    made = FRAMES[frame](many.sort_by("near"))
    for by in ([], ["near"], ["some"], ["many"]):
        for binning, moments in ((SignificantBits(8), 0), (Octaves(), 2)):
            assert same(*both(made, by, "x", binning, moments))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("by", [["near"], ["some"], ["far"], ["some", "near"]])
def test_cells_of_the_lines_that_there_are_make_one_group_by(many, frame, by, monkeypatch):
    """Of many groups only lines with rows have cells, in any number of blocks, NaN among them."""
    monkeypatch.setattr(packed, "_BLOCK", 700)
    monkeypatch.setattr(packed, "_FEW_CELLS", 0)
    monkeypatch.setattr(packed, "_MANY_OF_ROW", 0)
    monkeypatch.setattr(packed, "_FEW_GROUPS", 7)
    for cells in (2, 2**12):
        monkeypatch.setattr(packed, "_LINE_CELLS_OF_ROW", cells)
        for moments in (0, 1, 2):
            assert same(*both(FRAMES[frame](many), by, "x", Octaves(), moments))


@pytest.mark.parametrize("rows", [2**20 - 1, 2**20 + 2**19, 2**21 + 2**12])
def test_words_that_overflow_are_told_by_their_rows(rows, monkeypatch):
    """A group that has more rows in an octave than a word can hold is counted as it is."""
    monkeypatch.setattr(packed, "_FEW_CELLS", 0)
    monkeypatch.setattr(packed, "_MANY_OF_ROW", 0)
    one = pl.DataFrame({"g": np.zeros(rows, np.int64), "x": np.full(rows, 4.0)})
    frame = pl.concat([one, pl.DataFrame({"g": [1, 2], "x": [4.0, -3.0]})])
    found, law = both(frame, ["g"], "x", Octaves(), 1)
    assert same(found, law)
    assert found.rows.tolist() == [rows, 1, 1]


@pytest.mark.parametrize(("frame", "at_once"), [("polars", 500), ("duckdb", 500), ("arrow", 2**20)])
def test_several_columns_of_one_reading_are_each_alone(many, frame, at_once, monkeypatch):
    """Tables of many columns and binnings, counted together, are those of one GROUP BY each."""
    monkeypatch.setattr(packed, "_BLOCK", 250)
    monkeypatch.setattr(packed, "_SORTED", at_once)
    asked = [packed.Asked("x", *own) for own in BINNINGS]
    asked += [packed.Asked(column, *own) for column in ("i", "f") for own in BINNINGS[2:4]]
    for by, keys in (([], None), (["some", "near"], None), (["far"], None), (["some"], [3, 999])):
        public = keys_of(keys, by) if by else None
        columns = named_columns(by, public, dict.fromkeys(("x", "i", "f"), True), None)

        def both_of(adopted, by=by, known=public is not None):
            together = run_bins(adopted, by, asked, public=known)
            return together, [hashed_bins(adopted, by, *own, public=known) for own in asked]

        found = read(FRAMES[frame](many), columns, both_of)[1]
        assert all(map(same, *found))


@pytest.mark.parametrize("by", [["text"], ["flag"], ["day"], ["time"], ["text", "near", "flag"]])
def test_ranks_of_keys_are_one_group_by(many, by):
    """Text, flags, days and times of polars frames go as ranks, categories and enums as text."""
    frame = pl.from_arrow(many)
    kinds = [frame.schema["text"]]
    if "text" in by:
        kinds += [pl.Categorical(), pl.Enum(["Z", "é", "aa", "", "a"])]
    for kind in kinds:
        made = frame.with_columns(pl.col("text").cast(kind))
        for binning, moments in ((Octaves(), 2), (SignificantBits(8), 0)):
            assert same(*both(made, by, "x", binning, moments))
    assert same(*both(frame.head(0), by, "x", Octaves(), 1))
    if by == ["text"]:
        assert same(*both(frame, by, "x", Octaves(), 1, keys=["Z", None, "none"]))


@pytest.mark.parametrize("few", [0, 2**22])
@pytest.mark.parametrize(("rows", "at_once"), [(1, 300), (700, 1), (700, 2000), (2**20, 2**20)])
@pytest.mark.parametrize("frame", FRAMES)
def test_blocks_do_not_matter(many, frame, few, rows, at_once, monkeypatch):
    """Blocks of any size add up to the same table, counted either way."""
    monkeypatch.setattr(packed, "_FEW_CELLS", few)
    monkeypatch.setattr(packed, "_CELLS_OF_ROW", few)
    monkeypatch.setattr(packed, "_BLOCK", max(rows, 200))
    monkeypatch.setattr(packed, "_SORTED", at_once)
    monkeypatch.setattr(packed, "_WORD_ROWS", max(rows, 200) + 150)  # words are emptied, too
    made = FRAMES[frame](many)
    for by in ([], ["some"], ["near", "some"]):
        for binning, moments in ((Octaves(), 2), (SignificantBits(8), 0)):
            assert same(*both(made, by, "x", binning, moments))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("rows", [0, 1])
def test_frames_of_few_rows(many, frame, rows):
    """No rows are no groups; one row is one group, with a value or without."""
    for start in (0, 1):
        made = FRAMES[frame](many.slice(start, rows))
        for by in ([], ["some"]):
            assert same(*both(made, by, "x", Octaves(), 1))


@pytest.mark.parametrize("frame", FRAMES)
def test_public_keys(many, frame):
    """Exactly the listed groups come out, absent ones empty."""
    made = FRAMES[frame](many)
    for keys in ([3, 1, 999], [None, 5], [-7]):
        for binning, moments in ((Octaves(), 2), (SignificantBits(8), 0)):
            assert same(*both(made, ["some"], "x", binning, moments, keys))


def test_what_is_counted_by_the_engine():
    """Text keys of DuckDB, frames not in memory and limits of memory are left to the engine."""
    frame = pl.DataFrame({"g": ["a"], "x": [1.0], "i": [1]})
    columns = named_columns(["g"], None, {"x": True}, None)
    assert read(frame.to_arrow(), columns, lambda a: packed.is_packable(a, Octaves()))[1] is False
    columns = named_columns(["i"], None, {"x": True}, None)
    assert read(frame.lazy(), columns, lambda a: packed.is_packable(a, Octaves()))[1] is False
    table = frame.to_arrow()
    assert read(table, columns, lambda a: packed.is_packable(a, Octaves()))[1] is True
    with dfp.Engine(memory="100MB"):
        assert read(table, columns, lambda a: packed.is_packable(a, Octaves()))[1] is False


def terms_of(column, bounds):
    """Return the terms of means, sums, variances and what bounds clip, of one column."""
    grids = [make(Bounds(*bounds)) for make in (grid_from_lower, grid_from_zero, even_grid)]
    first, *others = (OnGrid(column, grid) for grid in grids)
    ends = (Above(column, bounds[0], 3), Above(column, bounds[1], 2**20), Above(column, 0.5))
    return first, *others, *ends, first * first // 2**30


X, ONE = terms_of("x", (-1.0, 2.0)), grid_from_lower(Bounds(0, 1))
SOURCES = [
    (Source(("x",), X),),
    (Source(()), Source(("x",), X[:1]), Source(("f",), terms_of("f", (0.0, 1e9)))),
    (Source(("i", "x"), (*terms_of("i", (-9.0, 2.0**52)), OnGrid("x", ONE))),),
    (Source(("near",), (OnGrid("near", ONE),)), Source(("x",), (Above("x", 0.0),))),
]


@pytest.mark.parametrize("by", KEYS)
@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize(
    ("frame", "rows", "block"), [("polars", 3_000, 700), ("duckdb", 1_000, 7), ("duckdb", 0, 7)]
)
def test_sums_by_places_are_one_group_by(many, frame, sources, by, block, rows, monkeypatch):
    """Keys, rows and sums are those of the engine's pass, of rows without values and none, too."""
    monkeypatch.setattr(packed, "_FEW_THREADS", 2**10)
    monkeypatch.setattr(packed, "_BLOCK", block)
    labels = dict.fromkeys(own for source in sources for own in source.columns)
    columns = named_columns(by, None, dict.fromkeys(labels, True), None)

    def both_of(adopted):
        assert packed.is_addable(adopted, sources)
        names = [key_name(index) for index in range(len(by))]
        built = partial(build_pass, labels=by, sources=sources, numbers=nw.Int64())
        return packed.packed_sums(adopted, sources), exact_table(adopted, built, names)

    found, law = read(FRAMES[frame](many.slice(5, rows)), columns, both_of)[1]
    if found is None:
        assert {"many", "far"} & set(by)
        return
    assert found.table.equals(law.cast(found.table.schema))
    assert found.table.schema.types[: len(by)] == law.schema.types[: len(by)]


@pytest.mark.parametrize("words", [0, 2**14])
def test_keys_that_come_later_get_places(words, monkeypatch):
    """A view with other rows each time is read once: keys beyond those before, to a type's ends."""
    monkeypatch.setattr(packed, "_FEW_THREADS", 2**10)
    monkeypatch.setattr(packed, "_FEW_LEVELS", words)
    monkeypatch.setattr(packed, "_FEW_PLACES", 2**20)
    monkeypatch.setattr(packed, "_BLOCK", 2048)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("CREATE SEQUENCE s")
    up = "nextval('s')"
    sources = (Source(("x",), (OnGrid("x", ONE), Above("x", 0.5))), Source(()))
    columns = named_columns(["k"], None, {"x": True}, None)
    low, high = -(2**63), 2**63 - 1
    for key in (
        f"({up} * 7919) % 25000 - 12000",
        f"{low} + CAST({up} // 3 AS BIGINT) % 5000",
        f"{high} - CAST({up} // 3 AS BIGINT) % 5000",
    ):
        rows = f"SELECT {key} AS k, 1.0 AS x FROM range(20_000)"
        connection.execute(f"CREATE OR REPLACE VIEW v AS {rows}")
        view = connection.table("v")
        table = read(view, columns, lambda own: packed.packed_sums(own, sources))[1].table
        assert sum(table["sum_0_0"].to_pylist()) == sum(table["sum_1_0"].to_pylist()) == 20_000
        assert sum(table["sum_0_1"].to_pylist()) == 20_000 * ONE.last


@pytest.mark.parametrize("groups", [84, 85, 21_844, 21_845, 25_000])
@pytest.mark.parametrize("least", [-(2**63), -40, 2**63 - 25_000])
def test_groups_of_any_number_and_place_are_one_group_by(groups, least, monkeypatch):
    """Numbers of groups below, within and above bounds take one byte, two or four."""
    monkeypatch.setattr(packed, "_FEW_THREADS", 2**10)
    rows = np.arange(100_000)
    keys = pa.array(np.int64(least) + rows * 7919 % groups, mask=rows % 999 == 0)
    frame = pl.from_arrow(pa.table({"k": keys, "x": pa.array(rows % 5.0, mask=rows % 901 == 0)}))
    sources = (Source(("x",), (OnGrid("x", ONE), Above("x", 0.5), Above("x", 3.0))), Source(()))
    columns = named_columns(["k"], None, {"x": True}, None)

    def both_of(adopted):
        built = partial(build_pass, labels=["k"], sources=sources, numbers=nw.Int64())
        return packed.packed_sums(adopted, sources), exact_table(adopted, built, [key_name(0)])

    found, law = read(frame, columns, both_of)[1]
    assert found.table.num_rows == groups + 1
    assert found.table.equals(law.cast(found.table.schema))


@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0, 2.0])
def test_blocks_of_one_group_and_integer_are_added_up(value, monkeypatch):
    """All rows of a block can add the largest integer, or none, within the bounds or beyond."""
    monkeypatch.setattr(packed, "_FEW_THREADS", 2**10)
    size = 2**18
    frame = pl.DataFrame({"k": np.zeros(size, np.int64), "x": np.full(size, value)})
    ends = (Above("x", -0.5), Above("x", 1.0))
    sources = (Source(("x",), (OnGrid("x", ONE), *ends)),)
    columns = named_columns(["k"], None, {"x": True}, None)
    found = read(frame, columns, lambda own: packed.packed_sums(own, sources))[1].table
    assert ONE.last == 2**30
    (row,) = found.to_pylist()
    integer = 2**30 * (value >= 1.0)
    assert list(row.values()) == [
        0,
        size,
        size * integer,
        *(size * (value > t) for t in (-0.5, 1.0)),
    ]


@pytest.mark.parametrize("by", [["k"], ["k", "near"]])
def test_rows_without_keys_lie_nowhere(by, monkeypatch):
    """Where the first rows have no key, those of the others decide where places are."""
    monkeypatch.setattr(packed, "_FEW_THREADS", 2**10)
    monkeypatch.setattr(packed, "_BLOCK", 2048)
    rows = (
        "SELECT CASE WHEN i >= 4096 THEN 1e9::BIGINT + i % 3000 END AS k, i % 3 AS near, 1.0 AS x"
    )
    view = duckdb.sql(f"{rows} FROM range(20_000) t(i)")
    sources = (Source(("x",), (OnGrid("x", ONE), Above("x", 0.5))), Source(()))
    columns = named_columns(by, None, {"x": True}, None)

    def both_of(adopted):
        names = [key_name(index) for index in range(len(by))]
        built = partial(build_pass, labels=by, sources=sources, numbers=nw.Int64())
        return packed.packed_sums(adopted, sources), exact_table(adopted, built, names)

    found, law = read(view, columns, both_of)[1]
    assert found.table.num_rows == (3003 if "near" in by else 3001)
    assert found.table.equals(law.cast(found.table.schema))


def test_keys_far_apart_take_no_memory_for_those_between(monkeypatch):
    """Many means of keys up to 1.8 million take 0.1 GB at most: a place for each key takes 2.9."""
    monkeypatch.setattr(packed, "_FEW_THREADS", 2**10)
    columns = {f"x{index}": f"(i * {index} % 97)::DOUBLE" for index in range(50)}
    values = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE t AS SELECT i % 10 * 200_000 AS k, {values} FROM range(130_000) t(i)"
    )
    asked = {name: dfp.mean(name, (0, 96), clipping=False) for name in columns}
    tracemalloc.start()
    try:
        frame = dfp.frame(connection.table("t")).group_by("k")
        groups = frame.agg(**asked, epsilon=50, delta=1e-6).fetchall()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(groups) == 10
    assert most < 1e8


# Units


FAR = [-(2**63), 2**63 - 1, -(2**31), 0]
SIZES = {
    "near": st.integers(0, 9),
    "far": st.one_of(st.sampled_from(FAR), st.integers(0, 3)),
    "missing": st.one_of(st.none(), st.integers(-3, 3)),
    "all missing": st.none(),
}
QUESTIONS = {"rows": dfp.count(), "total": dfp.sum("x", (-5, 20)), "spread": dfp.var("x", (-5, 20))}


def agrees(exact, rows, max_groups, by, kinds):
    """Tell whether a frame in memory has the sums that polars works out without words."""
    schema = dict(zip(("u", "g", "h"), kinds, strict=True)) | {"x": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    found, law = (
        exact.sums(own, QUESTIONS, by, unit="u", max_rows=2, max_groups=max_groups)
        for own in (frame, frame.lazy())
    )
    assert found == law


@pytest.mark.parametrize("unit", SIZES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from([*SIZES]), data=st.data())
def test_words_keep_the_groups_of_windows(exact, unit, key, monkeypatch, data):
    """Whatever units and keys are: near, far apart, or missing; of equal hashes too."""
    bits = data.draw(st.sampled_from([31, 2]))
    monkeypatch.setattr("dfprivacy.engine.units._PLACE_BITS", bits)
    row = st.tuples(SIZES[unit], SIZES[key], st.integers(0, 3), st.floats(-9, 30))
    rows = data.draw(st.lists(row, max_size=60))
    by = data.draw(st.sampled_from([[], ["g"], ["h", "g"]]))
    kinds = data.draw(st.sampled_from([(pl.Int64,) * 3, (pl.Int64, pl.Int64, pl.UInt8)]))
    agrees(exact, rows, data.draw(st.sampled_from([1, 2, 50])), by, kinds)


@pytest.mark.parametrize("unit", SIZES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(embedded=st.booleans(), data=st.data())
def test_rows_that_are_read_keep_the_groups_of_sql(exact, unit, embedded, monkeypatch, data):
    """Whether a relation's rows are few enough to be read or not: the same groups of each unit.

    One row more may lead to the other way. Of equal hashes too: few bits of them are looked at.
    """
    monkeypatch.setattr("dfprivacy.engine.packed._FEW_THREADS", 2**10)
    bits = data.draw(st.sampled_from([31, 2]))
    monkeypatch.setattr("dfprivacy.engine.units._PLACE_BITS", bits)
    monkeypatch.setattr("dfprivacy.engine.units._HALF", 2 ** (63 - bits))
    row = st.tuples(SIZES[unit], SIZES["missing"], st.integers(0, 9), st.floats(-9, 30))
    rows = data.draw(st.lists(row, max_size=60))
    schema = {"u": pl.Int64, "g": pl.Int64, "h": pl.UInt8, "x": pl.Float64}
    made = pl.DataFrame(rows, schema=schema, orient="row").to_arrow()
    frame = made
    if not embedded:
        con = duckdb.connect()
        con.execute("CREATE TABLE t AS SELECT * FROM made")
        frame = con.table("t")
    by, most = data.draw(st.sampled_from([["g"], ["h", "g"]])), data.draw(st.sampled_from([1, 3]))
    several = []
    for few in (2**20, 0):
        monkeypatch.setattr("dfprivacy.engine.units._MOST_BYTES", few)
        several.append(exact.sums(frame, QUESTIONS, by, unit="u", max_rows=2, max_groups=most))
    assert several[0] == several[1]


UNITS = ["near", "far", "some", "fraction", "name", "day"]
BY = [
    [],
    ["near"],
    ["some"],
    ["text"],
    ["flag", "fraction"],
    ["text", "near", "day"],
    ["far", "many"],
]


@pytest.fixture(scope="module")
def visits():
    """Make up rows of a few units of every kind, many of which are in several groups."""
    generator = np.random.default_rng(5)
    size = 1_500

    def drawn(values, missing=0.1):
        places = pa.array(generator.integers(0, len(values), size), mask=missed(missing))
        return pa.array(values).take(places)

    def missed(share):
        return generator.random(size) < share

    x = generator.normal(0, 1, size) * 2.0 ** generator.integers(-3, 3, size)
    x[::2] = generator.integers(-3, 4, len(x[::2]))
    for place, value in enumerate((np.nan, np.inf, -0.0, -np.inf, 5e-324, -(2.0**-127), 1e308)):
        x[place :: 67 + place] = value
    day = pa.array([0, 3, -5, 800], pa.int32()).cast(pa.date32())
    return pa.table({
        "near": generator.integers(-5, 25, size).astype(np.int16),
        "far": drawn(FAR, 0),
        "some": drawn([1, 7, 8, 2**40]),
        "many": generator.integers(-(2**40), 2**40, size),
        "fraction": drawn([0.0, -0.0, 0.5, float("nan"), 7.25, -1e300]),
        "name": drawn(["a", "b", "", "é", "Zz"]),
        "text": drawn(["é", "a", "", "Z"]),
        "flag": drawn([True, False]),
        "day": drawn(day),
        "x": pa.array(x, mask=missed(0.05)),
        "i": generator.integers(-(2**62), 2**62, size),
        "f": drawn(np.array([0.5, -3e38, 1.25], np.float32)),
        "step": drawn([Decimal(own) / 100 for own in range(-400, 400)]),
    })  # fmt: skip


def both_bins(frame, by, limits, asked, keys=None):
    """Return the tables that are counted from arrays, and those of GROUP BY and windows."""
    public = keys_of(keys, by) if by else None
    values, known = {own.column: True for own in asked}, public is not None

    def counted(adopted):
        assert all(packed.is_packable(adopted, own.binning) for own in asked)
        together = run_bins(adopted, by, asked, public=known)
        return together, [hashed_bins(adopted, by, *own, public=known) for own in asked]

    return read(frame, named_columns(by, public, values, limits), counted)[1]


ASKED = [packed.Asked(column, *own) for column in ("x", "f", "i", "step") for own in BINNINGS]


@pytest.mark.parametrize("unit", UNITS)
def test_bins_of_units_are_those_of_windows(visits, unit):
    """The same rows of each unit count in the same groups, whatever units, keys and values are."""
    frames = [made(visits) for made in FRAMES.values()]
    several = [(1, 1), (2, 3), (5, 2), (2**20, 1), (7, 50)]
    for place, by in enumerate(BY, UNITS.index(unit)):
        limits = dfp.Unit(unit, *several[place % len(several)])
        frame = frames[place % len(frames)]
        assert all(map(same, *both_bins(frame, by, limits, ASKED[place % 9 :: 9])))


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("by", [["near"], ["text"], ["flag", "some"]])
def test_bins_of_equal_hashes_are_those_of_windows(visits, kind, by, monkeypatch):
    """Where hashes begin alike, a unit's groups go by their keys, NULL before others."""
    monkeypatch.setattr("dfprivacy.engine.units._PLACE_BITS", 1)
    monkeypatch.setattr("dfprivacy.engine.units._HALF", 2**62)
    for most in (1, 2, 4):
        limits = dfp.Unit("name", 3, most)
        assert all(map(same, *both_bins(FRAMES[kind](visits), by, limits, ASKED[:3:2])))


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("block", [1, 30])
def test_blocks_of_units_do_not_matter(visits, kind, block, monkeypatch):
    """Blocks of any size are one, in cells and by sorting; so are the batches of an engine."""
    monkeypatch.setattr(packed, "_BLOCK", block)
    monkeypatch.setattr("dfprivacy.engine.units._BATCH", block)
    for few in (0, 2**20):
        monkeypatch.setattr(packed, "_FEW_CELLS", few)
        for by in ([], ["some"], ["text"]):
            limits = dfp.Unit("near", 4, 2)
            frame = FRAMES[kind](visits.slice(0, 40))
            assert all(map(same, *both_bins(frame, by, limits, ASKED[::8])))


@pytest.mark.parametrize("kind", FRAMES)
def test_bins_of_units_in_listed_groups(visits, kind):
    """Groups that are not listed use up none of a unit's; listed ones come out empty."""
    for by, keys in ((["near"], [3, 9, 999]), (["text"], [None, "Z", "none"])):
        for rows, groups in ((1, 1), (3, 2)):
            limits = dfp.Unit("some", rows, groups)
            assert all(map(same, *both_bins(FRAMES[kind](visits), by, limits, ASKED[:5:2], keys)))


@pytest.mark.parametrize("kind", FRAMES)
def test_bins_of_few_rows_of_units(visits, kind):
    """No rows are no groups; rows without a unit are none; a group may be without values."""
    missing = pa.table({name: own.slice(0, 0) for name, own in zip(
        visits.column_names, visits.columns, strict=True)})  # fmt: skip
    nobody = visits.set_column(0, "near", pa.nulls(visits.num_rows, pa.int16()))
    empty = visits.set_column(visits.column_names.index("x"), "x",
                              pa.nulls(visits.num_rows, pa.float64()))  # fmt: skip
    for table in (missing, nobody, empty, visits.slice(0, 1)):
        for by in ([], ["text"]):
            limits = dfp.Unit("near", 2, 1)
            assert all(map(same, *both_bins(FRAMES[kind](table), by, limits, ASKED[1:6:2])))


def test_bins_of_units_by_categories(visits):
    """Keys and units of pandas that go as codes are chosen by their marks, as by windows."""
    frame = visits.to_pandas()
    frame["text"] = frame["text"].astype("category")
    frame["name"] = frame["name"].astype("category")
    frame["odd"] = frame["flag"].astype(object)
    for by in ([], ["text"], ["odd", "text"]):
        for rows, groups in ((1, 1), (3, 2)):
            limits = dfp.Unit("name", rows, groups)
            assert all(map(same, *both_bins(frame, by, limits, ASKED[1:4:2])))


def test_bins_of_too_many_rows_of_units(visits, monkeypatch):
    """Rows for which arrays would be too large are left to the engine: the tables are the same."""
    for made in FRAMES.values():
        tables = []
        for most in (2**30, 1000):
            monkeypatch.setattr("dfprivacy.engine.units._MOST_BYTES", most)
            limits = dfp.Unit("near", 2, 2)
            found, law = both_bins(made(visits), ["text"], limits, ASKED[::7])
            assert all(map(same, found, law))
            tables.append(found)
        assert all(map(same, *tables))
