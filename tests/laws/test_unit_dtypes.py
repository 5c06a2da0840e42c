"""Which rows of a unit count does not depend on the numeric type of units and keys."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from tests.frame_types import make_database

ROWS = 4000
EXACT = {"epsilon": 1e12}


def integers():
    """Return units of twenty rows, in five groups each."""
    generator = np.random.default_rng(5)
    units = np.arange(ROWS) % 200 - 20
    return pd.DataFrame(
        {"u": units, "g": generator.integers(0, 5, ROWS), "x": generator.normal(50, 20, ROWS)}
    )


SOURCES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "duckdb": lambda frame: make_database(stored=frame).table("stored"),
    "arrow": lambda frame: pl.from_pandas(frame).to_arrow(),
}
QUESTIONS = {
    "quantiles": lambda private: private.group_by("g", keys=range(5)).quantile("x", 0.3, (0, 99)),
    "sums": lambda private: private.group_by("g", keys=range(5)).sum("x", (0, 99)),
    "values": lambda private: private.group_by("g", keys=range(5)).nunique("v"),
    "whole": lambda private: private.histogram("x", list(range(0, 101, 5))),
}


def answer(frame, question, source):
    """Return the exact values of an answer about units with few rows and groups."""
    groups = {} if question == "whole" else {"max_groups": 2}
    private = dfp.frame(SOURCES[source](frame))(unit="u", max_rows=2, **groups, **EXACT)
    release = QUESTIONS[question](private)
    table = pl.DataFrame(release)
    return table["count"].to_list() if question == "whole" else table.sort("g")[:, 1].to_list()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_integral_floats_count_as_integers_do(question, source):
    """Units and keys of 8 bits, 64 bits, and floats leave the same rows in."""
    frame = integers().assign(v=lambda rows: (rows["x"] // 4).astype(int))
    first = answer(frame, question, source)
    for kind in ("int16", "float64", "float32"):
        other = frame.astype({"u": kind, "g": kind, "v": kind})
        assert answer(other, question, source) == pytest.approx(first, rel=1e-6), kind


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_missing_unit_decides_about_no_other(question):
    """A row without a unit turns pandas' integers into floats, and changes no answer."""
    frame = integers().assign(v=lambda rows: (rows["x"] // 4).astype(int))
    lost = pd.DataFrame({"u": [None], "g": [None], "x": [1.0], "v": [None]})
    more = pd.concat([frame, lost.astype(float)])
    assert [str(kind) for kind in more.dtypes] == ["float64"] * 4
    assert answer(more, question, "pandas") == pytest.approx(
        answer(frame, question, "pandas"), rel=1e-6
    )
