import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp


@pytest.mark.parametrize("engine", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("question", ["regression", "crosstab", "describe", "group_by"])
def test_questions_about_several_columns_are_those_of_the_frame(engine, question):
    """A series, which needs no name, has no such attribute, and says where to ask."""
    delays = engine.Series([3.0] * 1000)
    assert delays.dp.median(epsilon=1e9) == 3
    assert not hasattr(delays.dp, question)
    with pytest.raises(dfp.DPError, match=rf"ask the frame: df\.dp\.{question}\(\.\.\.\)"):
        getattr(delays.dp, question)
