"""The number of different values: what a row or a unit moves it by, in every engine and dtype."""

import datetime as dt
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.frame_types import FRAME_TYPES, to_polars

HUGE = {"epsilon": 1e9}


@pytest.fixture(params=FRAME_TYPES)
def frame(request):
    """Return a function that makes a frame of an Arrow table, engine by engine."""
    return lambda table: dfp.frame(FRAME_TYPES[request.param](table))


def random_rows(seed: int, rows: int = 60) -> pa.Table:
    """Return rows of a few units in three groups, with few values, some of them missing."""
    draws = np.random.default_rng(seed)
    values = [None if number == 0 else f"v{number}" for number in draws.integers(0, 9, rows)]
    return pa.table(
        {
            "unit": draws.integers(0, 6, rows),
            "group": np.array(["a", "b", "c"])[draws.integers(0, 3, rows)],
            "value": values,
        }
    )


def count_groups(private) -> np.ndarray:
    """Return counts by group, in the order of the groups."""
    release = private.group_by("group", keys=["a", "b", "c"]).nunique("value", **HUGE)
    return to_polars(release)["value"].to_numpy().astype(np.int64)


def test_a_row_moves_the_number_of_values_by_at_most_one(frame):
    """Without any one row, one group has at most one value less, and no group has more."""
    table = random_rows(1, 16)
    counts = count_groups(frame(table))
    moved = []
    for row in range(table.num_rows):
        remaining = table.filter(pa.array(np.arange(table.num_rows) != row))
        less = counts - count_groups(frame(remaining))
        assert less.min() >= 0
        moved.append(less.sum())
    assert max(moved) == 1


@pytest.mark.parametrize(("most_rows", "most_groups"), [(2, 1), (1, 2)])
def test_a_unit_moves_at_most_its_rows_in_its_groups(frame, most_rows, most_groups):
    """Without any one unit, at most `max_groups` groups change, by `max_rows` values at most."""
    table, limits = random_rows(2), {"max_rows": most_rows, "max_groups": most_groups}
    counts = count_groups(frame(table)(unit="unit", **limits))
    for unit in range(6):
        remaining = table.filter(pa.array(np.asarray(table["unit"]) != unit))
        moved = np.abs(counts - count_groups(frame(remaining)(unit="unit", **limits)))
        assert moved.max() <= most_rows
        assert np.count_nonzero(moved) <= most_groups


def test_limits_that_hold_already_lose_no_value(frame):
    """With limits that no unit exceeds, the counts are those without units."""
    table = random_rows(3)
    limits = {"max_rows": 60, "max_groups": 3}
    assert (count_groups(frame(table)(unit="unit", **limits)) == count_groups(frame(table))).all()


def test_values_that_many_units_hold_are_kept(frame):
    """Where 400 units hold 20 common values each and one of each counts, none of 20 is lost."""
    table = pa.table({"unit": np.repeat(np.arange(400), 20), "value": list(range(20)) * 400})
    assert frame(table)(unit="unit", max_rows=1).nunique("value", **HUGE) == 20


def test_units_are_counted_once_whatever_their_rows(frame):
    """Of the unit's own column it is the number of units, with the noise of one row each."""
    table = random_rows(4)
    private = frame(table)(unit="unit", max_rows=20)
    assert private.nunique("unit", **HUGE) == 6
    plan = private.explain.nunique("unit", epsilon=1)
    assert plan["unit"].scale == 1
    assert "number of units" in str(plan)
    assert private.explain.nunique("value", epsilon=1)["value"].scale == 20


DAY, NOON = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
COLUMNS = {
    "floats": ([0.0, -0.0, math.nan, None, 1.5, math.inf], 3),
    "days": ([DAY, None, DAY, DAY + dt.timedelta(1)], 2),
    "times": ([NOON, None, NOON], 1),
    "flags": ([True, None, True, False], 2),
    "bytes": ([b"a", b"A", b"", None], 3),
    "texts": (["a", "A", "", None, "é"], 4),
    "nothing": ([], 0),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_values_of_any_type_are_told_apart(frame, column):
    """NULL and NaN are no values, zeros are one value, texts go by their characters."""
    values, distinct = COLUMNS[column]
    table = pa.table({"x": pa.array(values, None if values else pa.string(), from_pandas=False)})
    assert frame(table).nunique("x", **HUGE) == distinct


WIDTHS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
def test_integers_of_any_width_are_counted_near_and_far(frame, kind):
    """However far apart integers lie, up to both ends of their type, each counts once."""
    signed = pa.types.is_signed_integer(kind)
    low, many = -(2 ** (kind.bit_width - 1)) if signed else 0, min(2 ** (kind.bit_width - 1), 10**5)
    high = low + 2**kind.bit_width - 1
    close_values, distant_values = [high, high - 1, high - 1, high - 9], [low, high, 0, low]
    for values in ([], [None], [None, 1, None], close_values, distant_values, [low], range(many)):
        column = pa.array(values, kind)
        answer = frame(pa.table({"x": pa.chunked_array([column] * 3)})).nunique("x", **HUGE)
        assert round(answer) == len(set(values) - {None})


def test_objects_and_categories_of_pandas_are_told_apart():
    """Objects go by kind and value, unknown ones are missing; categories without rows are none."""
    objects = pd.DataFrame({"x": pd.Series([1, 1.0, True, "1", None, object(), [1]], dtype=object)})
    assert objects.dp.nunique("x", **HUGE) == 4
    coded = pd.DataFrame({"x": pd.Categorical(["a", None, "a"], categories=["a", "b"])})
    assert coded.dp.nunique("x", **HUGE) == 1


def test_secret_groups_are_shown_by_their_rows():
    """A group of many rows with one value is shown, and its rows stand beside."""
    frame = pl.DataFrame({"k": ["a"] * 5000, "x": ["same"] * 5000})
    release = frame.dp.group_by("k").nunique("x", epsilon=5, delta=1e-9)
    assert release.columns == ["k", "x", "low", "high", "count"]
    assert release["k"].to_list() == ["a"]
    assert abs(release["count"][0] - 5000) < 100


def test_other_questions_share_the_release():
    """Beside a mean and a count of the same column and others, each has its own answer."""
    frame = pl.DataFrame({"x": [1.0, 2.0, None] * 100, "k": ["a", "b", "c"] * 100})
    answers = frame.dp.agg(
        dfp.mean("x", (0, 10)),
        different=dfp.nunique("x"),
        rows=dfp.count(),
        k=dfp.nunique("k"),
        **HUGE,
    )
    assert [round(float(answer), 3) for answer in answers.values()] == [1.5, 2, 300, 3]
    limited = (
        frame.with_columns(u=pl.int_range(300))
        .dp(unit="u", max_rows=1)
        .agg(dfp.mean("x", (0, 10)), different=dfp.nunique("x"), k=dfp.nunique("k"), **HUGE)
    )
    assert [round(float(answer), 3) for answer in limited.values()] == [1.5, 2, 3]


@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_reader_answers_what_takes_several_passes(by):
    """Values of units are counted in a pass of their own: a reader, read once, becomes a table."""
    rows = pa.table({"u": [1, 2, 3], "v": ["a", "b", "a"], "g": [0, 0, 0]})
    private = dfp.frame(rows.to_reader())(unit="u", max_rows=1, max_groups=1, **HUGE)
    questions = {"values": dfp.nunique("v"), "rows": dfp.count()}
    if by:
        answers = to_polars(private.group_by(*by, keys=[0]).agg(**questions)).to_dicts()[0]
    else:
        answers = private.agg(**questions)
    assert (answers["values"], answers["rows"]) == (2, 3)
