"""A frame may have other rows each time it is read: no reading is compared with another.

A sample that is drawn anew, a view over random(), a lazy frame with a function of its own: whether
two readings have the same groups can hang on one row, and may show in nothing.
"""

import itertools

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp

SCHEMA = {"g": pl.String, "x": pl.Float64, "y": pl.Float64, "u": pl.Int64}
ASKED = {
    "sums and ranks": {"m": dfp.mean("x", (0, 2000)), "q": dfp.median("x")},
    "ranks of two": {"q": dfp.median("x"), "other": dfp.median("y")},
    "far": {"m": dfp.mean("x")},
    "far and near": {"m": dfp.mean("x"), "other": dfp.mean("y"), "q": dfp.median("y")},
    "near and far": {"other": dfp.mean("y"), "m": dfp.mean("x"), "s": dfp.sum("y", (0, 9))},
    "distinct": {"n": dfp.nunique("y"), "m": dfp.mean("x", (0, 2000))},
}
TERMS = {"epsilon": 50, "delta": 1e-6}
MOST = 5
"""No question here reads a frame more often."""


def rows(groups, count=400):
    """Return as many rows of each group: x is far from zero, y is near it."""
    columns = {
        "x": [1000.0 + k % 50 for k in range(count)],
        "y": [k % 8 - 3.0 for k in range(count)],
    }
    parts = [pl.DataFrame({"g": [g] * count, **columns, "u": range(count)}, SCHEMA) for g in groups]
    return pl.concat([pl.DataFrame(schema=SCHEMA), *parts])


def read_as(readings):
    """Return a lazy frame with these rows, reading by reading, and the last ones from there on."""
    left = iter([*readings[:-1], *itertools.repeat(readings[-1], MOST)])
    frame = pl.DataFrame(schema=SCHEMA).lazy()
    return dfp.frame(frame.map_batches(lambda _: next(left), schema=SCHEMA))


def answers(readings, name, **terms):
    """Return the groups that are shown, and everything else that a caller sees of the outcome."""
    table = read_as(readings)(**terms).group_by("g").agg(**ASKED[name], **TERMS).collect()
    return table["g"].to_list(), table.schema


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("position", range(MOST))
def test_a_group_of_one_reading_shows_in_nothing(name, position):
    """One row whose group is there in a single reading, whichever, ends no release."""
    frame, alice = rows("ab"), rows(["alice"], 1)
    readings = [pl.concat([frame, alice]) if k == position else frame for k in range(MOST)]
    units = {"unit": "u", "max_rows": 2, "max_groups": 2} if name == "distinct" else {}
    assert answers(readings, name, **units) == answers([frame], name, **units)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("position", range(MOST))
def test_a_group_may_be_missing_in_one_reading(name, position):
    """Nor does a group that one reading lacks: what is asked of it there has no rows."""
    frame, some = rows("abc"), rows("ac")
    units = {"unit": "u", "max_rows": 2, "max_groups": 3} if name == "distinct" else {}
    shown, schema = answers([some if k == position else frame for k in range(MOST)], name, **units)
    assert set("ac") <= set(shown) <= set("abc")
    assert schema == answers([frame], name, **units)[1]


@pytest.mark.parametrize(
    ("name", "counted"), [("sums and ranks", 0), ("ranks of two", 0), ("far", 1)]
)
def test_groups_are_those_of_the_reading_that_counts_them(name, counted):
    """The groups that are shown are those of the rows that are counted, and of no others."""
    shown, _ = answers([rows("ab"), rows("bc")], name)
    assert shown == [["a", "b"], ["b", "c"]][counted]


@pytest.mark.parametrize("name", ["sums and ranks", "far"])
def test_samples_drawn_anew_are_released(name):
    """A relation that is a sample has another one in each reading, with a rare group or without."""
    con = duckdb.connect()
    con.register("t", rows("ab", 2_000).to_arrow())
    con.execute("CREATE TABLE kept AS FROM t UNION ALL SELECT 'alice', 1000, 0, 0")
    sample = con.sql("FROM kept USING SAMPLE 50 PERCENT (bernoulli)")
    for _ in range(12):
        release = dfp.frame(sample).group_by("g").agg(**ASKED[name], **TERMS)
        assert [row[0] for row in release.fetchall()] == ["a", "b"]


@pytest.mark.parametrize("name", ASKED)
def test_listed_groups_are_answered_whatever_is_read(name):
    """Public keys come out as they are listed, be they in all readings, in some or in none."""
    readings = [rows(groups) for groups in ("ab", "", "b", "abc")]
    keys, units = ["b", "z", "a"], {"unit": "u", "max_rows": 2} if name == "distinct" else {}
    private = read_as(readings)(**units).group_by("g", keys=keys)
    assert private.agg(**ASKED[name], epsilon=1).collect()["g"].to_list() == keys
