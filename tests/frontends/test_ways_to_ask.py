"""The ways in which people ask: lists, brackets, attributes, keys of any library, odd names."""

import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

EXACT = {"epsilon": 1e9, "delta": 0.1}
DATA = {
    "a": ["x", "y"] * 1000,
    "b": ["u", "u", "v", "v"] * 500,
    "value": [1.0, 3.0] * 1000,
    "low": [1.0, 2.0] * 1000,
    "high": [1.0, 2.0] * 1000,
    "count": [1.0, 2.0] * 1000,
}
FRAMES = {"pandas": pd.DataFrame(DATA), "polars": pl.DataFrame(DATA), "lazy": pl.LazyFrame(DATA)}


def names(released):
    return list(
        released.collect_schema() if isinstance(released, pl.LazyFrame) else released.columns
    )


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_list_of_columns_groups_as_the_columns_do(frame):
    """group_by(["a", "b"]) is group_by("a", "b")."""
    counts = frame.dp.group_by(["a", "b"]).count(**EXACT)
    assert names(counts) == names(frame.dp.group_by("a", "b").count(**EXACT))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_column_by_group_is_asked_in_brackets(frame):
    """group_by("a")["value"].mean(...) is group_by("a").mean("value", ...), explained too."""
    by = frame.dp.group_by("a")
    released = by["value"].mean((0, 4), **EXACT)
    assert names(released) == names(by.mean("value", (0, 4), **EXACT))
    plan = by["value"].explain.mean((0, 4), epsilon=1, delta=1e-6)
    assert plan.asks == by.explain.mean("value", (0, 4), epsilon=1, delta=1e-6).asks


@pytest.mark.parametrize("column", ["low", "high", "count"])
def test_columns_with_names_of_the_result(column):
    """A column called low, high or count can be asked about, by group too."""
    for frame in (FRAMES["pandas"], FRAMES["polars"]):
        assert float(frame.dp.mean(column, (0, 4), epsilon=1e9)) == pytest.approx(1.5, abs=0.01)
        released = frame.dp.group_by("a").mean(column, (0, 4), **EXACT)
        assert len(set(names(released))) == 6
        assert list(released[column]) == pytest.approx([1, 2], abs=0.01)


def test_a_count_is_shown_as_a_whole_number():
    """print(count) and f"{count:d}" show a whole number; other numbers stay floats."""
    count = FRAMES["pandas"].dp.count(epsilon=1e9)
    assert (str(count), f"{count:d}", f"{count:,d}", f"{count:.1f}") == (
        "2000", "2000", "2,000", "2000.0",
    )  # fmt: skip
    mean = FRAMES["pandas"].dp.mean("value", (0, 4), epsilon=1e9)
    assert f"{mean:.2f}" == "2.00"
    with pytest.raises(ValueError, match="format code"):
        f"{mean:d}"


@pytest.mark.parametrize("engine", [pd, pl], ids=["pandas", "polars"])
def test_a_series_knows_units_and_explains(engine):
    """A series takes the terms of a frame: a unit by its own values, and explanations."""
    values = engine.DataFrame(FRAMES["pandas"].to_dict("list"))["value"]
    users = engine.Series([i % 500 for i in range(2000)])
    counted = values.dp(unit=users, max_rows=2, epsilon=1e9).count()
    assert int(counted) == 1000
    assert values.dp.explain.mean((0, 4), epsilon=2).epsilon == 2
    with pytest.raises(dfp.errors.InvalidUnitError, match="as many"):
        values.dp(unit=users.head(3), max_rows=2)
    with pytest.raises(dfp.errors.InvalidUnitError, match="another series"):
        values.dp(unit="user")


def test_methods_are_listed_and_documented():
    """Every statistic is listed by dir, and its docstring describes every parameter."""
    private = FRAMES["polars"].dp
    for name in ("count", "mean", "quantiles", "center", "bounds"):
        assert name in dir(private)
        doc = getattr(private, name).__doc__
        assert all(f"\n{term} : " in doc for term in ("epsilon", "rho", "delta"))
