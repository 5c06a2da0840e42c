import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

EXACT = 1e9  # a selection's rank and a count are off by less than 1e-6 rows


DATA = {pd: "data", pl: "values"}


@pytest.fixture(params=[pd, pl], ids=["pandas", "polars"])
def engine(request):
    """Return a library of frames and series."""
    return request.param


@pytest.fixture
def delays(engine):
    """Two in three flights are 10 minutes late, the others 40 early."""
    return engine.Series(name="delay", **{DATA[engine]: [10.0] * 2000 + [-40.0] * 1000})


def test_bounds(delays):
    """Private bounds are a pair that `bounds=` takes."""
    bounds = delays.dp.bounds(epsilon=EXACT)
    assert bounds == (-64, 16)
    assert delays.dp.bounds(rank=500, epsilon=EXACT) == (-40, 10)
    assert delays.dp.mean(bounds, epsilon=EXACT) == pytest.approx(-20 / 3)


def test_histogram(delays, engine):
    """A histogram of a series is a frame of its library with one row a bin."""
    frame = delays.dp(epsilon=EXACT).histogram([-50, 0, 50])
    assert isinstance(frame, engine.DataFrame)
    assert frame["count"].to_list() == [1000, 2000]
    assert delays.dp.histogram(2, (-50, 50), epsilon=EXACT)["count"].to_list() == [1000, 2000]


def test_series_without_a_name(engine):
    """A series needs no name."""
    assert engine.Series([3.0] * 1000).dp.median(epsilon=EXACT) == 3


@pytest.mark.parametrize("question", ["regression", "crosstab", "describe", "group_by"])
def test_questions_about_several_columns_are_those_of_the_frame(delays, question):
    """A series has no such attribute, and says where to ask."""
    assert not hasattr(delays.dp, question)
    with pytest.raises(dfp.DPError, match=rf"ask the frame: df\.dp\.{question}\(\.\.\.\)"):
        getattr(delays.dp, question)
