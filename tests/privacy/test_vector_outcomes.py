"""Means of vectors: nothing but noisy numbers tells neighbors apart, and errors come first."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

LISTS = pl.List(pl.Float64)


def hostile_rows():
    inf, nan = float("inf"), float("nan")
    odd = [None, [], [1.0], [1.0, None, 2.0], [nan] * 3, [0.0] * 9]
    return [[1.0, 2.0, 3.0], *odd, [inf, -inf, 0.0], [1e308, -1e308, 5e-324]]


class Angry:
    """An object that raises when it is asked to be a number."""

    def __float__(self):
        raise ZeroDivisionError


def strange():
    wide_values = np.array(["1e4000"] * 3, np.longdouble)
    some = [[Angry()] * 3, [np.complex128(1j), None, 2], ["1", "2", "3"], [10**400, 1, 2]]
    return [np.array([1j, 2, 3]), wide_values, *some, [Decimal("sNaN"), 1, 2], [[1], [2], [3]]]


@pytest.mark.parametrize("method", ["recentered", "clipped", "shifted", "plan"])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [0, 1, 2, 9])
def test_no_row_raises_or_warns(method, neighbors, rows):
    """Rows of any kind, and any number, give numbers of the declared dimension, and no warning."""
    sets = hostile_rows()[:rows]
    frames = [
        pl.DataFrame({"v": pl.Series(sets, dtype=LISTS)}),
        pa.table({"v": pa.array(sets, pa.list_(pa.float64()))}),
        pd.DataFrame({"v": pd.Series(sets, dtype=object)}),
        pd.DataFrame({"v": pd.Series([*sets, "text", {1: 2}, 7, *strange()], dtype=object)}),
    ]
    for frame in frames:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mean = dfp.frame(frame).mean_vector(
                "v", rho=0.5, radius=4, dimension=3, method=method, neighbors=neighbors
            )
        low, high = mean.interval(0.99)
        for values in (mean.values, low, high, mean.std_error):
            assert values.shape == (3,)
            assert not np.isnan(values).any()
        assert np.isfinite(mean.values).all()
        assert (np.abs(mean.values) <= 4).all()


@pytest.mark.parametrize("method", ["recentered", "clipped", "shifted", "plan"])
def test_few_rows_get_wide_intervals(method):
    """Where the noisy count does not rule out too few rows, intervals are the whole universe."""
    frame = pl.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    mean = frame.dp.mean_vector(["x", "y"], rho=0.01, radius=50, method=method)
    assert mean.low.tolist() == [-50, -50]
    assert mean.high.tolist() == [50, 50]


@pytest.mark.parametrize("dimension", [1, 2, 3, 7])
@pytest.mark.parametrize("method", ["recentered", "clipped", "shifted", "plan"])
def test_dimensions_and_zeros(dimension, method):
    """One coordinate, other numbers than powers of two, and vectors of norm 0 are all right."""
    frame = pl.DataFrame(np.zeros((500, dimension)), schema=[f"x{i}" for i in range(dimension)])
    mean = frame.dp.mean_vector(frame.columns, rho=5, radius=1e-3, method=method)
    assert np.abs(mean.values).max() <= 1e-3
    assert len(list(mean)) == len(mean) == dimension
    assert mean[0] == mean.values[0]


def test_a_radius_that_is_too_small_cuts():
    """Vectors beyond the radius count as cut, whatever they are."""
    frame = pl.DataFrame({"x": [1e9] * 400, "y": [-1e9] * 400})
    mean = frame.dp.mean_vector(["x", "y"], rho=5, radius=2)
    assert mean.values == pytest.approx([2, -2], abs=0.2)


@pytest.mark.parametrize("kind", [pl.Int128, pl.List(pl.Int128), pl.Array(pl.Int128, 1)])
@pytest.mark.parametrize("lazy", [False, True])
def test_integers_that_arrow_does_not_have_are_refused(kind, lazy):
    """A polars column of 128-bit integers is refused by its declared type."""
    frame = pl.DataFrame({"v": []}, schema={"v": kind})
    columns = "v" if kind.is_nested() else ["v"]
    with pytest.raises(dfp.UnsupportedDtypeError, match="Int128"):
        dfp.frame(frame.lazy() if lazy else frame).mean_vector(columns, rho=1, radius=5)


def test_the_largest_radius_is_shown():
    """At the largest and the least radius an estimate has a finite repr, without a warning."""
    frame = pl.DataFrame({"x": [1e308, -1e308], "y": [1.0, 5e-324]})
    for radius in (2.0**900, 2.0**-900):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shown = repr(frame.dp.mean_vector(["x", "y"], rho=1, radius=radius))
        assert "inf" not in shown
        assert "nan" not in shown


def test_public_groups_come_out_whatever_the_rows():
    """Exactly the listed groups are released, as listed; others are not, and NULL is a key."""
    frame = pl.DataFrame(
        {"g": ["a", None, "b", "c"] * 60, "x": [1.0] * 240, "y": [2.0] * 240}, strict=False
    )
    for source in (frame, frame.to_pandas(), frame.to_arrow(), frame.lazy()):
        grouped = dfp.frame(source).group_by("g", keys=["zz", "b", None])
        result = grouped.mean_vector(["x", "y"], rho=20, radius=5)
        if isinstance(result, pl.LazyFrame):
            result = result.collect()
        table = pa.table(result)
        assert table.column_names[:4] == ["g", "x", "y", "count"]
        assert table.column("count").to_pylist()[1] == pytest.approx(60, abs=12)
        assert table.column("x").to_pylist()[1] == pytest.approx(1, abs=0.2)
        assert table.num_rows == 3


def test_secret_groups_of_one_row_stay_hidden():
    """A group that one row has made is not shown; large ones are, and lists come with ends."""
    frame = pl.DataFrame(
        {
            "g": ["rare"] + ["often"] * 400,
            "v": pl.Series([[1.0, 2.0]] * 401, dtype=pl.Array(pl.Float64, 2)),
        }
    )
    result = frame.dp.group_by("g").mean_vector("v", rho=5, radius=5, delta=1e-9)
    assert result.columns == ["g", "v", "low", "high", "count"]
    assert result["g"].to_list() == ["often"]
    low, value, high = (result[name][0].to_numpy() for name in ("low", "v", "high"))
    assert ((low <= value) & (value <= high)).all()


def test_no_rows_by_group():
    """A frame without rows gives no secret group, and every public one."""
    frame = pl.DataFrame(schema={"g": pl.Int64, "x": pl.Float64, "y": pl.Float64})
    assert frame.dp.group_by("g").mean_vector(["x", "y"], rho=1, radius=5, delta=1e-6).height == 0
    table = frame.dp.group_by("g", keys=[1, 2]).mean_vector(["x", "y"], rho=1, radius=5)
    assert table["g"].to_list() == [1, 2]


def test_what_is_shown_of_an_estimate():
    """The repr names method, neighbors and cost, and an estimate is an array for numpy."""
    frame = pl.DataFrame(np.ones((900, 6)), schema=list("abcdef"))
    mean = frame.dp.mean_vector(list("abcdef"), rho=0.5, radius=9, skewed=True)
    assert "6 coordinates" in repr(mean)
    assert "method plan, neighbors add-remove, rho=0.5" in repr(mean)
    assert "&" not in mean._repr_html_()
    assert np.asarray(mean).shape == (6,)
    assert np.asarray(mean, dtype=np.float32).dtype == np.float32
    assert (mean.rho, mean.method, mean.neighbors) == (0.5, "plan", "add-remove")
    replaced = frame.dp.mean_vector(list("abcdef"), rho=0.5, radius=9, neighbors="replace")
    assert replaced.count == 900


def test_auto_follows_public_facts():
    """The rule of "auto": item sets, another error or declared skew take plan, else recentered."""
    rows = {"x": [1.0] * 9, "y": [2.0] * 9, "s": [[1, 2]] * 9}

    def chosen(columns, **terms):
        return pl.DataFrame(rows).dp.mean_vector(columns, rho=1, **terms).method

    assert chosen(["x"], radius=1) == "recentered"
    assert chosen(["x", "y"], radius=1, p=1) == "plan"
    assert chosen(["x", "y"], radius=1, skewed=True) == "plan"
    assert chosen("s", universe=9) == "plan"
    assert chosen(["x", "y"], deviations="binary") == "plan"
    assert chosen(["x", "y"], radius=1, method="clipped") == "clipped"
