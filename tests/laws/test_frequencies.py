"""Counts by value: those of a group-by in another order, and what is noted of ranks."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp

HUGE = {"epsilon": 1e9}
DATA = pl.DataFrame(
    {
        "city": ["Rome"] * 60 + ["Oslo"] * 30 + ["Bari"] * 30 + [None] * 200 + ["Kyiv"],
        "shop": [f"s{i % 2}" for i in range(321)],
    }
)
FRAMES = {
    "polars": DATA,
    "pandas": DATA.to_pandas(),
    "duckdb": duckdb.from_arrow(DATA.to_arrow()),
}


def rows_of(made) -> list[tuple]:
    """Return the rows of a released frame of any type."""
    if isinstance(made, duckdb.DuckDBPyRelation):
        return made.fetchall()
    if isinstance(made, pd.DataFrame):
        return list(made.itertuples(index=False, name=None))
    return made.rows()


@pytest.mark.parametrize("engine", FRAMES)
def test_counts_by_value_are_those_of_a_group_by_the_largest_first(engine):
    """Secret or public, every value that is shown has its count, and missing ones have none."""
    private = dfp.frame(FRAMES[engine])
    secret = rows_of(private.value_counts("city", delta=1e-6, **HUGE))
    assert [row[:2] for row in secret] == [("Rome", 60), ("Bari", 30), ("Oslo", 30)]
    public = rows_of(private.value_counts("city", ["Kyiv", "Rome", "Lima"], **HUGE))
    assert [row[:2] for row in public] == [("Rome", 60), ("Kyiv", 1), ("Lima", 0)]
    grouped = private.group_by("shop", keys=["s0", "s1"])
    found = rows_of(grouped.value_counts("city", ["Oslo", "Rome"], **HUGE))
    assert [row[:3] for row in found] == [
        ("s0", "Rome", 30), ("s0", "Oslo", 15), ("s1", "Rome", 30), ("s1", "Oslo", 15)
    ]  # fmt: skip


@pytest.mark.parametrize("engine", FRAMES)
def test_the_largest_of_each_group_are_kept(engine):
    """`top` keeps k rows of each group, and notes a tie with what is left out."""
    private = dfp.frame(FRAMES[engine])
    top = rows_of(private.top("city", 2, ["Rome", "Oslo", "Bari"], **HUGE))
    assert [row[1] for row in top] == [60, 30]
    assert [isinstance(row[-1], str) for row in top] == [False, True]
    by_shop = private.group_by("shop")
    every = rows_of(by_shop.top("city", 1, delta=1e-6, **HUGE))
    assert [row[:3] for row in every] == [("s0", "Rome", 30), ("s1", "Rome", 30)]
    assert [row[:3] for row in rows_of(by_shop.mode("city", delta=1e-6, **HUGE))] == [
        row[:3] for row in every
    ]


def test_values_without_a_note_are_among_the_largest():
    """At 90 %, one release in ten at most shows a value without a note that is not the first."""
    frame = pl.DataFrame({"x": ["a"] * 52 + ["b"] * 50})
    wrong = 0
    for _ in range(200):
        made = frame.dp.top("x", 1, ["a", "b"], epsilon=0.5, interval=0.9)
        wrong += made["x"][0] == "b" and made["note"][0] is None
    assert stats.binomtest(wrong, 200, 0.1, alternative="greater").pvalue > 1e-6


def test_secret_values_that_are_not_shown_may_be_larger():
    """A value near the count from which on values are shown is noted, one far above it is not."""
    near, far = (pl.DataFrame({"x": ["a"] * rows}).dp for rows in (17, 100))
    assert far.top("x", 1, epsilon=1, delta=1e-6)["note"].to_list() == [None]
    for _ in range(40):
        made = near.top("x", 1, epsilon=1, delta=1e-6)
        assert all(note or count > 18 for note, count in made.select("note", "count").rows())


def test_series_and_explanations_know_counts_by_value():
    """A Series has both methods; an explanation reads nothing and costs nothing."""
    series = pd.Series(["a"] * 50 + ["b"] * 40, name="x")
    assert list(series.dp.value_counts(delta=1e-6, **HUGE)["x"]) == ["a", "b"]
    assert list(series.dp.top(1, delta=1e-6, **HUGE)["x"]) == ["a"]
    assert list(series.dp.mode(["a", "b"], **HUGE)["x"]) == ["a"]
    assert "note" not in repr(dfp.show(series.dp.mode(["a", "b"], **HUGE)))
    plan = DATA.dp.explain.top("city", 3, epsilon=1, delta=1e-6)
    assert (plan.epsilon, plan.delta) == (1.0, 1e-6)


def test_what_cannot_be_is_refused_before_a_row_is_read():
    """No whole number of values, keys for one column alone, names that are taken."""
    for k in (0, None, 1.5):
        with pytest.raises(dfp.InvalidQuestionError, match="whole number"):
            DATA.dp.top("city", k, delta=1e-6)
    with pytest.raises(dfp.InvalidKeysError, match="public together"):
        DATA.dp.group_by("shop").value_counts("city", ["Rome"])
    with pytest.raises(dfp.InvalidQuestionError, match="name of a column"):
        DATA.rename({"city": "note"}).dp.top("note", 1, delta=1e-6)
    with pytest.raises(dfp.MissingDeltaError):
        DATA.dp.value_counts("city")
