"""An answer whose interval may not hold says so at every door, and no column depends on a row."""

import copy
import math
import os
import pickle

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.numbered_bytes import NumberedBytes

HEAVY = "clipped above "


@pytest.fixture(autouse=True)
def _the_same_bytes(monkeypatch):
    """Noise is the same in every run: by chance alone one light tail in 30 is marked."""
    monkeypatch.setattr(os, "urandom", NumberedBytes())


NAMES = ["g", "x", "low", "high", "note", "count"]


@pytest.fixture(scope="module")
def tails():
    """Return two groups: `a` has a tail of index 1.1, which is marked at epsilon 10, `b` none."""
    ranks = (np.arange(20_000) + 0.5) / 20_000
    values = np.concatenate([ranks ** (-1 / 1.1), 50 + 10 * ranks])
    return pl.DataFrame({"g": np.repeat(["a", "b"], 20_000), "x": values})


def test_a_number_says_it(tails, tmp_path):
    """In its line and its card, of a copy, of a pickle, and when a ledger has remembered it."""
    heavy = tails.filter(pl.col("g") == "a")
    ledger = dfp.Ledger(tmp_path / "l.db", epsilon=100, remember=True)
    ask = heavy.dp(ledger=ledger, dataset="d", version="1")
    first, again = (ask.mean("x", epsilon=10) for _ in range(2))
    for number in (first, again, copy.copy(first), pickle.loads(pickle.dumps(first))):
        assert number.note.startswith(HEAVY)
        assert number.note in repr(number)
        assert number.note in number._repr_html_()
        assert number.interval() == first.interval()
    light = tails.filter(pl.col("g") == "b").dp.mean("x", epsilon=10)
    assert light.note is None
    clipped = [
        heavy.dp.mean("x", bounds=(0, 9), epsilon=10, clipping=clipping)
        for clipping in (True, False)
    ]
    assert clipped[0].note.startswith("clipped: ")
    assert clipped[0].note in repr(clipped[0])
    assert clipped[1].note is None


@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow"])
def test_a_frame_has_a_column_of_notes(tails, kind):
    """Text, null for most groups; its place and type are the same whatever the rows are."""
    frame = {"polars": tails, "pandas": tails.to_pandas(), "arrow": tails.to_arrow()}[kind]
    for keys in (["a", "b"], ["c"]):
        release = pl.DataFrame(
            dfp.frame(frame).group_by("g", keys=keys).agg(dfp.mean("x"), epsilon=10)
        )
        assert release.columns == NAMES
        assert release.schema["note"] == pl.String
    release = dfp.frame(frame).group_by("g", keys=["a", "b"]).mean("x", epsilon=10)
    notes = pl.DataFrame(release)["note"].to_list()
    assert notes[0].startswith(HEAVY)
    assert notes[1] is None
    assert notes[0] in repr(dfp.show(release))
    assert notes[0] in str(dfp.plot(release).to_dict()["title"]["subtitle"])


def test_several_answers_have_a_note_each(tails):
    """Those within bounds, unless it is not asked what these clip; counts have none."""
    questions = [dfp.mean("x"), dfp.count("x")]
    named_questions = {"y": dfp.sum("x", (0, 9)), "z": dfp.sum("x", (0, 9), clipping=False)}
    release = tails.dp.group_by("g", keys=["a"]).agg(*questions, **named_questions, epsilon=10)
    assert [name for name in release.columns if "note" in name] == ["x_mean_note", "y_note"]


def test_statements_say_it(tails):
    """`dp_mean_interval` has a field `note`, where bounds are found and where they are given."""
    query = "SELECT g, dp_mean_interval(x) AS m, dp_mean_interval(x, 0, 9) AS n FROM t GROUP BY g"
    release = dfp.sql(query, t=tails, keys=["a", "b"], epsilon=20)
    notes = [row["note"] for row in release["m"].to_list()]
    assert notes[0].startswith(HEAVY)
    assert notes[1] is None
    assert [row["note"] is not None for row in release["n"].to_list()] == [True, True]


def test_ranks_as_bounds_are_named(tails):
    """Means within bounds by rank say that these clip; no bounds at all is a note too."""
    assert tails.dp.subset_mean("x", epsilon=10).note.startswith("clipped by rank")
    nothing = pl.DataFrame({"x": [1.0]}).dp.mean("x", epsilon=0.01)
    assert nothing.note == "too few rows for bounds"


def test_a_quantile_without_an_answer_says_why():
    """NaN has a note in a frame, by group and in a description. False alarm: below 1e-9."""
    frame = pl.DataFrame({"g": ["a", "b"], "x": [1.0, 2.0]})
    assert frame.dp.quantile("x", 0.9, (0, 9), epsilon=0.001).note == "too few rows for this loss"
    by_group = frame.dp.group_by("g", keys=["a", "b"]).median("x", (0, 9), epsilon=0.001)
    assert by_group["note"].to_list() == ["too few rows for this loss"] * 2
    (row,) = frame.dp.describe(["x"], epsilon=0.001).to_dicts()
    assert row["note"].count("too few rows for this loss") == 1


@pytest.mark.parametrize("name", ["mean", "std", "var", "sum"])
def test_an_answer_that_noise_alone_has_made_says_so(name):
    """An interval that holds every possible answer has a note; others and sums have none.

    Of 60 listed groups without rows 95 % have such an interval. False alarm: below 1e-20.
    """
    frame = pl.DataFrame({"g": [100] * 50_000, "x": [3.0, 4.0] * 25_000})
    private = frame.dp.group_by("g", keys=[*range(60), 100])
    notes = getattr(private, name)("x", (0, 9), epsilon=1)["note"].to_list()
    assert notes[-1] is None
    is_empty = [note == "too few rows for this loss" for note in notes]
    assert sum(is_empty) == 0 if name == "sum" else sum(is_empty) > 30


@pytest.mark.parametrize("values", [[1.0, math.inf, -math.inf, 2.0], [math.inf] * 4, [1e200] * 4])
def test_bounds_that_hold_infinite_values_are_named(values):
    """Answers within estimated bounds that reach the largest values say so: of one column or two.

    All values may lie there, so that the bounds are near each other. False alarm: below 1e-9.
    """
    frame = pl.DataFrame({"x": values * 1000, "y": range(4000)}).with_columns(g=pl.col("y") % 2)
    groups = frame.dp.group_by("g", keys=[0, 1])
    notes = [getattr(frame.dp, name)("x", epsilon=2).note for name in ("sum", "mean", "std")]
    notes += [frame.dp.corr("y", "x", epsilon=2).note, groups.mean("x", epsilon=2)["note"][0]]
    notes += [frame.dp.regression("y", ["x"], epsilon=2)["note"][0]]
    assert all("values may be infinite" in note for note in notes)


def test_given_bounds_are_counted_beside_found_ones():
    """Where the bounds of one column are given and others found, a note says what these clip.

    False alarm: below 1e-9.
    """
    frame = pl.DataFrame({"x": range(4000), "y": [i % 100 for i in range(4000)]})
    groups = frame.with_columns(g=pl.col("y") % 2).dp.group_by("g", keys=[0, 1])
    within, private = (0, 3000), frame.dp(epsilon=20)
    notes = [getattr(private, name)("x", "y", within).note for name in ("ratio", "corr")]
    notes += [private.regression("y", ["x"], {"x": within})["note"][0]]
    notes += [groups.ratio("x", "y", within, epsilon=20)["note"][0]]
    for note in notes:
        assert "x: clipped: 2" in note
        assert "above 3000" in note
    assert "clipped: 2" not in str(private.ratio("x", "y", within, clipping=False).note)
