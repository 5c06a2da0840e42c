"""Counts by value: those of a group-by in another order, and what is noted of ranks."""

import datetime as dt

import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp
from tests.frame_types import FRAME_TYPES, to_polars

HUGE = {"epsilon": 1e9}
DATA = pl.DataFrame(
    {
        "city": ["Rome"] * 60 + ["Oslo"] * 30 + ["Bari"] * 30 + [None] * 200 + ["Kyiv"],
        "shop": [f"s{i % 2}" for i in range(321)],
    }
)


@pytest.mark.parametrize("engine", FRAME_TYPES)
def test_counts_by_value_are_those_of_a_group_by_the_largest_first(engine):
    """Secret or public, every value has its number of rows; NULL is one that is listed as any."""
    private = dfp.frame(FRAME_TYPES[engine](DATA.to_arrow()))
    secret = to_polars(private.value_counts("city", delta=1e-6, **HUGE)).rows()
    shown = [(None, 200), ("Rome", 60), ("Bari", 30), ("Oslo", 30)]
    assert [(None if pd.isna(row[0]) else row[0], row[1]) for row in secret] == shown
    public = to_polars(private.value_counts("city", ["Kyiv", "Rome", "Lima"], **HUGE)).rows()
    assert [row[:2] for row in public] == [("Rome", 60), ("Kyiv", 1), ("Lima", 0)]
    with_null = to_polars(private.value_counts("city", ["Rome", None], **HUGE)).rows()
    assert [row[1] for row in with_null] == [200, 60]
    grouped = private.group_by("shop", keys=["s0", "s1"])
    counts = to_polars(grouped.value_counts("city", ["Oslo", "Rome"], **HUGE)).rows()
    assert [row[:3] for row in counts] == [
        ("s0", "Rome", 30), ("s0", "Oslo", 15), ("s1", "Rome", 30), ("s1", "Oslo", 15)
    ]  # fmt: skip


@pytest.mark.parametrize("engine", FRAME_TYPES)
def test_the_largest_of_each_group_are_kept(engine):
    """`top` keeps k rows of each group, and notes a tie with what is left out."""
    private = dfp.frame(FRAME_TYPES[engine](DATA.to_arrow()))
    top = to_polars(private.top("city", 2, ["Rome", "Oslo", "Bari"], **HUGE)).rows()
    assert [row[1] for row in top] == [60, 30]
    assert [isinstance(row[-1], str) for row in top] == [False, True]
    by_shop = private.group_by("shop")
    every = to_polars(by_shop.top("city", 1, delta=1e-6, **HUGE)).rows()
    assert [row[:3] for row in every] == [("s0", "Rome", 30), ("s1", "Rome", 30)]
    assert [row[:3] for row in to_polars(by_shop.mode("city", delta=1e-6, **HUGE)).rows()] == [
        row[:3] for row in every
    ]


@pytest.mark.battery
def test_values_without_a_note_are_among_the_largest():
    """At 90 %, one release in ten at most shows a value without a note that is not the first."""
    frame = pl.DataFrame({"x": ["a"] * 52 + ["b"] * 50})
    wrong = 0
    for _ in range(200):
        release = frame.dp.top("x", 1, ["a", "b"], epsilon=0.5, interval=0.9)
        wrong += release["x"][0] == "b" and release["note"][0] is None
    assert stats.binomtest(wrong, 200, 0.1, alternative="greater").pvalue > 1e-6


def test_secret_values_that_are_not_shown_may_be_larger():
    """A value near the count from which values are shown is in doubt; every note has that count."""
    few_rows, many_rows = (pl.DataFrame({"x": ["a"] * rows}).dp for rows in (17, 100))
    hides = "values with noisy counts below 15 are not shown"
    release = many_rows.top("x", 1, epsilon=1, delta=1e-6)
    assert release["note"].to_list() == [f"selected by noisy counts: {hides}"]
    doubt = "selected by noisy counts: may not be among the 1 largest"
    for _ in range(40):
        release = few_rows.top("x", 1, epsilon=1, delta=1e-6)
        for note, count in release.select("note", "count").rows():
            assert note.endswith(hides)
            assert note.startswith(doubt) or count > 18


def test_series_and_explanations_know_counts_by_value():
    """A Series has both methods; an explanation reads nothing and costs nothing."""
    series = pd.Series(["a"] * 50 + ["b"] * 40, name="x")
    assert list(series.dp.value_counts(delta=1e-6, **HUGE)["x"]) == ["a", "b"]
    assert list(series.dp.top(1, delta=1e-6, **HUGE)["x"]) == ["a"]
    assert list(series.dp.mode(["a", "b"], **HUGE)["x"]) == ["a"]
    assert "note" not in repr(dfp.show(series.dp.mode(["a", "b"], **HUGE)))
    plan = DATA.dp.explain.top("city", 3, epsilon=1, delta=1e-6)
    assert (plan.epsilon, plan.delta) == (1.0, 1e-6)


LISTED = {
    "city": ["Rome", "Lima"],
    "whole": [1, 2],
    "part": [0.0, 9.0],
    "day": [dt.date(2024, 1, 1)],
    "late": [True],
    "kind": ["b"],
}
TYPED = pl.DataFrame(
    {
        "city": ["Rome"] * 60 + ["Oslo"] * 30 + ["Bari"] * 31 + [None] * 20 + ["Kyiv"],
        "whole": [1] * 50 + [2] * 40 + [3] * 40 + [4] * 12,
        "part": [0.0] * 50 + [-0.0] * 10 + [float("nan")] * 10 + [2.5, 3.5] * 36,
        "day": [dt.date(2024, 1, 1)] * 100 + [dt.date(2024, 1, 2), dt.date(2024, 1, 3)] * 21,
        "late": [True] * 100 + [False] * 42,
        "kind": pl.Series(["a", "c"] * 45 + ["b"] * 52, dtype=pl.Categorical),
        "user": [i % 9 for i in range(142)],
        "shop": [f"s{i % 2}" for i in range(142)],
    }
)


def count_rows(frame) -> dict:
    """Return the count and the note of each key of a released frame, None for other values."""
    return {
        row[0]: (row[1], row[-1] if isinstance(row[-1], str) else None)
        for row in to_polars(frame).rows()
    }


@pytest.mark.parametrize("engine", FRAME_TYPES)
@pytest.mark.parametrize("column", LISTED)
def test_other_values_are_one_row_and_the_last(engine, column):
    """All rows whose value is not listed are counted together, in every type."""
    values = LISTED[column]
    if (engine, column) == ("pandas", "day"):
        values = [pd.Timestamp(entry) for entry in values]
    private = dfp.frame(FRAME_TYPES[engine](TYPED.to_arrow()))
    counts = count_rows(private.value_counts(column, values, other=True, **HUGE))
    plain = count_rows(private.value_counts(column, values, **HUGE))
    rest = round(private.count(**HUGE)) - sum(count for count, _ in plain.values())
    assert list(counts.items())[-1] == (None, (rest, "rows with other values or none"))
    del counts[None]
    assert {key: entry[0] for key, entry in counts.items()} == {
        k: entry[0] for k, entry in plain.items()
    }


@pytest.mark.parametrize("engine", FRAME_TYPES)
def test_other_values_of_a_unit_are_one_of_its_groups(engine):
    """Values are mapped before a unit is bounded: it is the release over the mapped column."""
    keys = ["Rome", "Oslo"]
    mapped = pl.when(pl.col("city").is_in(keys)).then("city").alias("mapped")
    frame = TYPED.with_columns(mapped)
    limits = {"unit": "user", "max_rows": 3, "max_groups": 1}
    by_hand = frame.dp(**limits).group_by("mapped", keys=[*keys, None]).count(**HUGE)
    private = dfp.frame(FRAME_TYPES[engine](TYPED.to_arrow()))(**limits)
    counts = count_rows(private.value_counts("city", keys, other=True, **HUGE))
    assert sum(count for count, _ in counts.values()) == 9 * 3
    if engine in {"polars", "lazy"}:  # which groups of a unit count follows an engine's own hash
        assert {key: entry[0] for key, entry in counts.items()} == {
            r[0]: r[1] for r in by_hand.rows()
        }


def test_a_unit_moves_counts_with_others_by_no_more_than_its_limits():
    """Removing any unit moves the vector of counts by max_rows in max_groups groups at most."""
    limits = {"unit": "user", "max_rows": 2, "max_groups": 2}

    def counts(frame):
        release = frame.dp(**limits).value_counts("city", ["Rome", "Oslo"], other=True, **HUGE)
        return {row[0]: row[1] for row in release.rows()}

    full_counts = counts(TYPED)
    for user in range(9):
        without = counts(TYPED.filter(pl.col("user") != user))
        moved = [abs(full_counts[key] - without[key]) for key in full_counts]
        assert max(moved) <= 2
        assert sum(change > 0 for change in moved) <= 2
