"""Units and keys in one word add up to what the engine's own GROUP BY and windows give."""

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
