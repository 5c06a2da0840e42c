"""Keys come back as they came: their dtype, and an order that only public facts decide."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

LEVELS = ["low", "mid", "high"]
ORDERED = pd.CategoricalDtype(LEVELS, ordered=True)


def count_rows(keys, public_keys=None, **terms):
    """Return the released frame of the counts of a column of keys, without noise to speak of."""
    frame = keys.to_frame("g")
    grouped = frame.dp(**terms).group_by("g", keys=public_keys)
    return grouped.count(epsilon=1e9, delta=None if public_keys else 1e-9)


def repeat_values(values, dtype, times=60):
    return pd.Series([value for value in values for _ in range(times)], dtype=dtype)


def test_ordered_categories_come_back_in_their_order():
    """Rows and categories of an ordered column stand in the declared order."""
    shown = count_rows(repeat_values(["high", "low", "mid"], ORDERED))
    assert shown["g"].tolist() == LEVELS
    assert shown["g"].dtype == ORDERED
    assert (shown["g"] > "low").tolist() == [False, True, True]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("public_keys", [None, ["mid", "low"], ["mid", "other", "low"]])
def test_a_category_of_one_row_shows_in_nothing(ordered, public_keys):
    """One more row, with a category of its own, moves neither dtype, nor order, nor names."""
    series = repeat_values(["mid", "low"], str)
    more = pd.concat([series, pd.Series(["alone"])])
    frames = []
    for keys in (series, more):
        categories = pd.Categorical(keys, ordered=ordered)  # made of the rows, as astype does
        frames.append(count_rows(pd.Series(categories), public_keys))
    first, other = (frame["g"] for frame in frames)
    pd.testing.assert_series_equal(first, other, check_category_order=True)
    assert "alone" not in first.cat.categories
    expected = public_keys or ["low", "mid"]
    assert (first.tolist(), first.cat.categories.tolist()) == (expected, sorted(expected))


def test_categories_without_an_order_show_none_of_theirs():
    """Categories in the order of the rows that they were found in come out by value."""
    for categories in (["b", "a", "c"], ["c", "b", "a"]):
        shown = count_rows(repeat_values(["a", "b"], pd.CategoricalDtype(categories)))["g"]
        assert (shown.tolist(), shown.cat.categories.tolist()) == (["a", "b"], ["a", "b"])
        assert not shown.cat.ordered


KINDS = {
    "ordered categories": (LEVELS, ORDERED),
    "intervals of cut": (
        list(pd.interval_range(0, 3)),
        pd.CategoricalDtype(pd.interval_range(0, 12), ordered=True),
    ),
    "intervals": (list(pd.interval_range(8.0, 12.0)), "interval[float64]"),
    "periods": (list(pd.period_range("2024-01", periods=11, freq="M")), "period[M]"),
    "dates": ([dt.date(2024, 1, day) for day in (1, 2, 10, 11)], object),
    "categories of dates": ([dt.date(2024, 1, day) for day in (1, 2, 10, 11)], "category"),
    "times": (list(pd.date_range("2024-01-01", periods=11)), "datetime64[us]"),
    "differences": ([pd.Timedelta(days=day) for day in (1, 2, 10)], "timedelta64[s]"),
    "categories of integers": ([-3, 2, 10], "category"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_come_out_as_they_came_and_sorted(kind):
    """Secret keys are sorted as what they are, and of the dtype and the Python type they had."""
    values, dtype = KINDS[kind]
    keys = repeat_values([*values, None], dtype)
    shown = count_rows(keys.sample(frac=1, random_state=1))["g"]
    assert shown.dropna().tolist() == values
    assert shown.isna().tolist() == [False] * len(values) + [True]
    if isinstance(keys.dtype, pd.CategoricalDtype):
        assert shown.cat.ordered == keys.cat.ordered
        assert shown.cat.categories.dtype == keys.cat.categories.dtype
    else:
        assert shown.dtype == keys.dtype
    assert {type(key) for key in shown[:-1]} == {type(key) for key in keys.dropna()}


@pytest.mark.parametrize("kind", KINDS)
def test_public_keys_come_out_as_listed(kind):
    """Public keys come out in the order listed, whatever order their dtype has."""
    values, dtype = KINDS[kind]
    public_keys = [values[1], None, *values[2:], values[0]]
    shown = count_rows(repeat_values(values[1:], dtype), public_keys)
    assert shown["g"].astype(object).where(shown["g"].notna(), None).tolist() == public_keys
    assert shown["count"].tolist() == [60, 0, *[60] * (len(values) - 2), 0]


def test_intervals_of_minus_zero_and_zero_are_one_key():
    """-0.0 is 0.0 in an interval's end, whichever row comes first; no end is a missing key."""
    ends = np.array([[-0.0, 1.0], [0.0, 1.0], [np.nan, np.nan]])
    for order in ([0, 1, 2], [1, 0, 2]):
        rows = ends[order].repeat(60, axis=0)
        keys = pd.Series(pd.arrays.IntervalArray.from_arrays(rows[:, 0], rows[:, 1]))
        shown = count_rows(keys)
        assert list(map(repr, shown["g"][:1])) == ["Interval(0.0, 1.0, closed='right')"]
        assert shown["count"].tolist() == [120, 60]


class Loud:
    """An object that shows itself whenever it is asked anything."""

    def __eq__(self, other):
        raise ValueError(other)

    __lt__ = __eq__

    def __hash__(self):
        return 7


def test_categories_of_other_objects_are_missing_keys():
    """Objects of the caller's class among categories are one missing key; none is called."""
    dtype = pd.CategoricalDtype(pd.Index(["a", Loud()], dtype=object), ordered=True)
    codes = np.repeat([0, 1, -1], 60)
    shown = count_rows(pd.Series(pd.Categorical.from_codes(codes, dtype=dtype)))
    assert shown["g"].tolist()[:1] == ["a"]
    assert shown["count"].tolist() == [60, 120]
    assert shown["g"].cat.categories.tolist() == ["a"]


@pytest.mark.parametrize("lazy", [True, False])
def test_an_enum_of_polars_comes_back_in_its_order(lazy):
    """Keys of an Enum are one of the released keys alone, in the declared order, NULL last."""
    frame = pl.DataFrame(
        {"g": pl.Series(["low", "high", "mid", None] * 60 + ["alone"], dtype=pl.String)}
    ).with_columns(pl.col("g").cast(pl.Enum(["low", "alone", "mid", "high"])))
    frame = frame.lazy() if lazy else frame
    secret = frame.dp.group_by("g").count(epsilon=1e9, delta=1e-9).lazy().collect()
    assert secret["g"].to_list() == [*LEVELS, None]
    assert secret["g"].dtype == pl.Enum(LEVELS)
    public = frame.dp.group_by("g", keys=["high", "other", "low"]).count(epsilon=1e9)
    public = public.lazy().collect()
    assert public["g"].to_list() == ["high", "other", "low"]
    assert public["g"].dtype == pl.Enum(["low", "high", "other"])
    assert public["count"].to_list() == [60, 0, 60]
    grouped = frame.with_columns(x=1.0).dp.group_by("g")
    bins = grouped.histogram("x", [0, 2, 4], epsilon=1e9, delta=1e-9).lazy().collect()
    assert bins["g"].to_list() == [key for key in [*LEVELS, None] for _ in range(2)]
    assert bins["count"].to_list() == [60, 0] * 4


def test_files_of_statistics_keep_the_order_of_public_keys(tmp_path):
    """Files give their public keys in the order of the first, whatever that of the others."""
    frame = pd.DataFrame({"g": ["a", "b", "c"] * 50, "x": 1.0})
    paths = []
    for index, public_keys in enumerate((["c", "a", "b"], ["b", "a", "c"])):
        paths.append(tmp_path / f"{index}.parquet")
        dfp.statistics(
            frame.iloc[index:], paths[-1], dfp.mean("x", (0, 2)), by="g", keys=public_keys
        )
    release = dfp.merge(paths, epsilon=1e9)
    assert release["g"].to_pylist() == ["c", "a", "b"]
    assert release["count"].to_pylist() == [100, 99, 100]
