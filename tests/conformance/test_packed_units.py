"""Units and keys in one word add up to what the engine's own GROUP BY and windows give."""

import duckdb
import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp

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
@pytest.mark.parametrize("key", SIZES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
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
@pytest.mark.parametrize("embedded", [False, True])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
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
        monkeypatch.setattr("dfprivacy.engine.units._MOST_ROWS", few)
        several.append(exact.sums(frame, QUESTIONS, by, unit="u", max_rows=2, max_groups=most))
    assert several[0] == several[1]
