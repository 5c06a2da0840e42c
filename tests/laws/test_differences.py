"""Differences, ratios and changes of released frames: values, intervals, every frame type."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp
from tests.frame_types import FRAME_TYPES, to_polars

ROWS = {"a": 300, "b": 500, "c": 0}
DATA = pl.DataFrame({"k": [key for key, rows in ROWS.items() for _ in range(rows)]})
KEYS = list(ROWS)


@pytest.mark.parametrize("kind", FRAME_TYPES)
def test_values_are_those_of_the_released_numbers(kind):
    """Differences, changes and parts are computed from what the frame shows, in its own type."""
    frame = FRAME_TYPES[kind](DATA.to_arrow())
    release = dfp.frame(frame).group_by("k", keys=KEYS).count(epsilon=1)
    counts = to_polars(release)["count"].to_list()
    read = dfp.released(release)
    less, grown = read.diff(), read.change()
    assert type(less) is type(release)
    assert to_polars(less)["count"].to_list()[1:] == [counts[1] - counts[0], counts[2] - counts[1]]
    assert to_polars(less)["against"].to_list() == [None, "a", "b"]
    assert to_polars(grown)["count"].to_list()[1] == pytest.approx(counts[1] / counts[0] - 1)
    parts = to_polars(read.ratio_to("total"))
    assert parts["count"].to_list() == pytest.approx([count / sum(counts) for count in counts])
    assert to_polars(read.ratio_to("b"))["count"].to_list()[1] == 1.0
    assert to_polars(read.diff("b"))["count"].to_list() == [count - counts[1] for count in counts]
    others = dfp.frame(frame).value_counts("k", keys=["a"], other=True, epsilon=1)
    assert to_polars(dfp.released(others).ratio_to(None))["count"].to_list()[1] == 1.0


CASES = {
    "diff": (lambda read: read.diff(), [None, 200, -500]),
    "diff to a group": (lambda read: read.diff("a"), [None, 200, -300]),
    "change": (lambda read: read.change(), [None, 2 / 3, -1]),
    "ratio to a group": (lambda read: read.ratio_to("b"), [0.6, None, 0]),
    "part of the total": (lambda read: read.ratio_to("total"), [0.375, 0.625, 0]),
}


@pytest.mark.parametrize(
    "loss", [{"epsilon": 0.2}, pytest.param({"rho": 0.02}, marks=pytest.mark.slow)]
)
def test_intervals_hold_the_truth(loss):
    """At 90 % every interval holds what the exact counts give, and is not far too wide."""
    groups = DATA.dp.group_by("k", keys=KEYS)
    hits = {(case, index): 0 for case in CASES for index in range(len(KEYS))}
    for _ in range(150):
        read = dfp.released(groups.count(interval=0.9, **loss))
        for case, (compare, truth) in CASES.items():
            table = compare(read)
            for index, true in enumerate(truth):
                if true is not None:
                    _, low, high = table.row(index)[-3:]
                    hits[case, index] += low <= true + 1e-12 and true - 1e-12 <= high
    for (case, index), hit_count in hits.items():
        if CASES[case][1][index] is not None:
            below = stats.binomtest(hit_count, 150, 0.9, alternative="less").pvalue
            above = stats.binomtest(hit_count, 150, 0.98, alternative="greater").pvalue
            assert min(below, above) > 1e-6, (case, index)


def test_a_part_of_a_total_is_surer_than_a_ratio_of_strangers():
    """Its interval is that of normal noise as wide as the counts', which the total has as well."""
    rows = pl.DataFrame({"k": ["most"] * 1000 + ["least"] * 60})
    release = rows.dp.group_by("k", keys=["most", "least"]).count(epsilon=0.3)
    parts = dfp.released(release).ratio_to("total")
    draws = np.random.default_rng(3)
    off = (release["high"] - release["low"]).to_numpy() / 2 / 1.96
    noisy = release["count"].to_numpy() + draws.normal(0, 1, (200_000, 2)) * off
    for index, truth in enumerate((noisy / noisy.sum(1)[:, None]).T):
        interval = parts["low"][index], parts["high"][index]
        assert interval == pytest.approx(tuple(np.quantile(truth, [0.025, 0.975])), abs=5e-4)
        assert max(interval) <= 1
    part, total = parts["count"][0], release["count"].sum()
    strangers = 2 * 1.96 * math.hypot(off[0], part * math.hypot(*off)) / total
    assert parts["high"][0] - parts["low"][0] < 0.7 * strangers


def test_lines_are_told_apart_by_their_other_keys():
    """Each place is compared with itself, in the order of the frame, sorted or filtered since."""
    months = pd.to_datetime(["2024-01-01", "2024-02-01"] * 2).repeat(300)
    rows = pd.DataFrame({"place": ["x", "y"] * 600, "month": months})
    release = rows.dp.group_by("place", "month").count(epsilon=1e9, delta=1e-6)
    grown = dfp.released(release).change()
    assert grown["count"].isna().tolist() == [True, False, True, False]
    assert grown["against"].tolist()[1] == pd.Timestamp("2024-01-01")
    assert grown["month"].dtype == release["month"].dtype
    turned = dfp.released(release.sort_values("month", ascending=False)).diff()
    assert turned["against"].tolist()[2:] == [pd.Timestamp("2024-02-01")] * 2
    along = dfp.released(release).diff("x", along="place")
    assert along["count"].tolist() == [0, 0, 0, 0]
    within = dfp.released(release).ratio_to("total", along="month")
    assert within["count"].tolist() == pytest.approx([0.5] * 4)
    assert dfp.released(release).ratio_to("total")["count"].sum() == pytest.approx(1)


def test_totals_that_were_measured_are_the_totals():
    """A table with secret cells is divided by its measured totals, hidden cells among them."""
    rows = {"a": ["x"] * 800 + ["y"] * 600, "b": ["p"] * 700 + [f"q{i}" for i in range(700)]}
    table = pl.DataFrame(rows).dp.crosstab("a", "b", margins=True, epsilon=1e6, delta=1e-6)
    read = dfp.released(table)
    assert read.ratio_to("total").row(0)[:3] == ("x", "p", pytest.approx(0.5, rel=1e-3))
    part = read.ratio_to("total", along="b").row(0)
    assert part[2] == pytest.approx(700 / 800, rel=1e-3)
    assert part[3] <= 0.875 <= part[4]


def test_cells_moved_by_totals_are_not_taken_for_independent():
    """Differences of cells that share the noise of totals add up their distances."""
    keys = {"r": list(range(9)), "c": list(range(9))}
    frame = pl.DataFrame({"r": [0], "c": [0]})
    mixed = dfp.released(frame.dp.crosstab("r", "c", keys=keys, margins=True, rho=0.1))
    long, less = mixed.long(), mixed.diff()
    width = (long["count_high"] - long["count_low"]).to_numpy()
    assert (less["high"] - less["low"]).to_numpy()[1] == pytest.approx(width[0] + width[1])


def test_rows_that_share_noise_are_not_taken_for_independent():
    """Coefficients of a regression, and answers computed from one base, add their distances."""
    frame = pl.DataFrame({"x": [i % 7 for i in range(3000)], "y": [i % 10 for i in range(3000)]})
    lines = frame.dp.regression("y", ["x"], {"x": (0, 6), "y": (0, 9)}, epsilon=1)
    less = dfp.released(DATA.dp.group_by("k", keys=KEYS).count(epsilon=1)).diff("a")
    for table, base in ((lines, "intercept"), (less, "b")):
        width = (table["high"] - table["low"]).to_numpy()
        row = table[table.columns[0]].to_list().index(base)
        compared = dfp.released(table).diff(base)
        both = (compared["high"] - compared["low"]).to_numpy()
        assert both[-1] == pytest.approx(width[row] + width[-1])


def test_bins_of_a_histogram_are_compared_as_bins():
    """Both ends of a bin are one key: bins are compared with the one before, within a group.

    Bins, and counts by value, add up to their total, in each group or in all.
    """
    rows = pl.DataFrame({"x": [1.0, 2.0, 2.0, 4.0] * 300, "k": ["a", "b", "b", "b"] * 300})
    bins = dfp.released(rows.dp.histogram("x", [0, 1.5, 3, 5], epsilon=1e9))
    less = bins.diff()
    assert less["count"].to_list()[1:] == [300, -300]
    assert less["against"].to_list() == [None, 1.5, 3]
    assert "Nothing to compare with: 0, 1.5" in repr(dfp.show(less))
    assert bins.ratio_to("total")["count"].to_list() == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    groups = rows.dp.group_by("k", keys=["a", "b"])
    grouped = dfp.released(groups.histogram("x", [0, 1.5, 3, 5], epsilon=1e9))
    shares = grouped.ratio_to("total", along="upper")["count"].to_list()
    assert shares == pytest.approx([1, 0, 0, 0, 2 / 3, 1 / 3])
    shares = grouped.ratio_to("total")["count"].to_list()
    assert shares == pytest.approx([1 / 4, 0, 0, 0, 1 / 2, 1 / 4])
    assert grouped.diff("a", along="k")["count"].to_list() == [0, 0, 0, -300, 600, 300]
    often = dfp.released(rows.dp.value_counts("k", keys=["a", "b"], epsilon=1e9))
    assert often.ratio_to("total")["count"].to_list() == pytest.approx([3 / 4, 1 / 4])


def test_what_was_computed_can_be_shown():
    """Names, cost and intervals stand in text and charts, and it is a release for what follows."""
    release = DATA.dp.group_by("k", keys=KEYS).count(epsilon=1)
    less = dfp.released(release).diff("a")
    assert "difference of count() by 'k'" in repr(dfp.show(less))
    assert "no further cost" in repr(dfp.show(less))
    assert dfp.plot(less).to_dict()["title"]["text"] == "difference of count by k"
    after = dfp.plot(dfp.released(release).diff()).to_dict()
    assert after["title"]["text"] == "difference of count by k"
    assert "Without an answer" not in str(after)
    assert "NULL" not in str(after)
    shown = repr(dfp.show(dfp.released(release).diff()))
    assert "Without an answer" not in shown
    assert "Nothing to compare with: a" in shown
    groups = DATA.with_columns(x=1.0).dp.group_by("k", keys=KEYS)
    both = groups.agg(dfp.count(), dfp.mean("x", (0, 2)), dfp.median("x"))
    assert dfp.released(both).diff().columns[1:] == [
        "against", "count", "count_low", "count_high", "x_mean", "x_mean_low", "x_mean_high",
        "x_mean_note",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.to_pandas])
def test_a_comparison_has_the_notes_of_the_answers_it_compares(kind):
    """Differences, changes and ratios repeat that bounds clip, parts that values were selected."""
    frame = kind(DATA.with_columns(x=5.0))
    means = dfp.released(frame.dp.group_by("k", keys=KEYS).mean("x", (0, 2), epsilon=1e6))
    for compared in (means.diff(), means.change("a"), means.ratio_to("a")):
        notes = list(compared["note"])
        assert len(notes) == len(KEYS)
        assert "clipped" in notes[0]
        shown = repr(dfp.show(compared))
        assert "above 2" in shown
        assert shown.count("note") == 1
    largest = frame.dp.top("k", 1, keys=KEYS, epsilon=1e-3)
    assert "may not be among" in dfp.released(largest).ratio_to("total")["note"][0]


def test_what_cannot_be_compared_is_refused():
    """Frames that are no release, no group of that name, means of a total, no interval."""
    groups = DATA.with_columns(x=1.0).dp.group_by("k", keys=KEYS)
    with pytest.raises(dfp.errors.InvalidQuestionError, match="is not a release"):
        dfp.released(pl.DataFrame({"k": ["never"], "count": [123.25]}))
    with pytest.raises(dfp.errors.InvalidQuestionError, match="do not add up"):
        dfp.released(groups.mean("x", (0, 2))).ratio_to("total")
    with pytest.raises(dfp.errors.InvalidQuestionError, match="no group"):
        dfp.released(groups.count()).diff("z")
    with pytest.raises(dfp.errors.InvalidQuestionError, match="no key"):
        dfp.released(groups.count()).diff(along="city")
    with pytest.raises(dfp.errors.InvalidQuestionError, match="no answer with an interval"):
        dfp.released(groups.median("x")).diff()
    with pytest.raises(dfp.errors.InvalidQuestionError, match="no groups"):
        dfp.released(DATA.dp.describe(delta=1e-6)).diff()
    with pytest.raises(dfp.errors.InvalidQuestionError, match="no table"):
        dfp.released(groups.count()).table()
