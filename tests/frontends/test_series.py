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


def test_series_without_a_name(engine):
    """A series needs no name."""
    assert engine.Series([3.0] * 1000).dp.median(epsilon=EXACT) == 3


@pytest.mark.parametrize("question", ["regression", "crosstab", "describe", "group_by"])
def test_questions_about_several_columns_are_those_of_the_frame(delays, question):
    """A series has no such attribute, and says where to ask."""
    assert not hasattr(delays.dp, question)
    with pytest.raises(dfp.DPError, match=rf"ask the frame: df\.dp\.{question}\(\.\.\.\)"):
        getattr(delays.dp, question)
