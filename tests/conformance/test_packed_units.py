"""Units and keys in one word add up to what the engine's own GROUP BY and windows give."""

from decimal import Decimal

import duckdb
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.engine import packed
from dfprivacy.engine.passes import hashed_bins, run_bins
from dfprivacy.frames.releasing import named_columns, read
from dfprivacy.release.terms import keys_of
from tests.conformance.test_packed import BINNINGS, FRAMES, same

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
        assert all(map(same, *both_bins(FRAMES[kind](visits), by, limits, ASKED[:3])))


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
            assert all(map(same, *both_bins(frame, by, limits, ASKED[::4])))


@pytest.mark.parametrize("kind", FRAMES)
def test_bins_of_units_in_listed_groups(visits, kind):
    """Groups that are not listed use up none of a unit's; listed ones come out empty."""
    for by, keys in ((["near"], [3, 9, 999]), (["text"], [None, "Z", "none"])):
        for rows, groups in ((1, 1), (3, 2)):
            limits = dfp.Unit("some", rows, groups)
            assert all(map(same, *both_bins(FRAMES[kind](visits), by, limits, ASKED[:5], keys)))


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
            assert all(map(same, *both_bins(FRAMES[kind](table), by, limits, ASKED[:6])))


def test_bins_of_units_by_categories(visits):
    """Keys and units of pandas that go as codes are chosen by their marks, as by windows."""
    frame = visits.to_pandas()
    frame["text"] = frame["text"].astype("category")
    frame["name"] = frame["name"].astype("category")
    frame["odd"] = frame["flag"].astype(object)
    for by in ([], ["text"], ["odd", "text"]):
        for rows, groups in ((1, 1), (3, 2)):
            limits = dfp.Unit("name", rows, groups)
            assert all(map(same, *both_bins(frame, by, limits, ASKED[:4])))


def test_bins_of_too_many_rows_of_units(visits, monkeypatch):
    """Rows for which arrays would be too large are left to the engine: the tables are the same."""
    for kind in FRAMES:
        tables = []
        for most in (2**30, 1000):
            monkeypatch.setattr("dfprivacy.engine.units._MOST_BYTES", most)
            found, law = both_bins(
                FRAMES[kind](visits), ["text"], dfp.Unit("near", 2, 2), ASKED[::5]
            )
            assert all(map(same, found, law))
            tables.append(found)
        assert all(map(same, *tables))
