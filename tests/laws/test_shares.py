"""Shares: what counts as the constant in every engine and type, and what their intervals hold."""

import datetime as dt
import re
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dfprivacy as dfp
from tests.command_line import command
from tests.frame_types import FRAME_TYPES

HUGE = {"epsilon": 1e9}
DAY, NOON = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
COLUMNS = {
    "flags": ([True, False, None, True], True, 2 / 3),
    "texts": (["a", "A", "", None], "a", 1 / 3),
    "whole": ([1, 2, None, 1], 1, 2 / 3),
    "floats": ([0.0, -0.0, float("nan"), None, 1.5], 0.0, 2 / 3),
    "days": ([DAY, None, DAY + dt.timedelta(1)], DAY, 1 / 2),
    "times": ([NOON, None, NOON], NOON, 1.0),
    "decimals": ([Decimal("1.50"), Decimal("2.00")], Decimal("1.5"), 1 / 2),
}


@pytest.mark.parametrize("engine", FRAME_TYPES)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_share_is_of_the_values_that_are_there(engine, column):
    """The constant over all values of the column: rows without a value count in neither."""
    values, constant, share = COLUMNS[column]
    frame = dfp.frame(FRAME_TYPES[engine](pa.table({"x": pa.array(values, from_pandas=False)})))
    answer = frame.share("x", constant, **HUGE)
    assert answer == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("engine", ["pandas", "polars", "lazy", "arrow", "duckdb"])
def test_booleans_are_numbers_from_0_to_1(engine):
    """Declared booleans need no bounds, which none exceeds: no loss looks for them or counts it."""
    rows = pa.table({"x": [True, False, False] * 20, "y": [2.0, 1.0, 0.0] * 20, "g": ["a"] * 60})
    private = dfp.frame(FRAME_TYPES[engine](rows))(epsilon=10)
    means = [private.mean("x"), private.agg(dfp.mean("x"))["x"], private["x"].mean()]
    assert [mean.high - mean.low < 0.02 for mean in means] == [True] * 3
    assert [mean == pytest.approx(1 / 3, abs=0.05) for mean in means] == [True] * 3
    text = str(private.explain.mean("x"))
    assert text.startswith("asks      mean('x', bounds=(0.0, 1.0), clipping=False)\n")
    assert "bounds=(0.0, 1.0)" in str(private.group_by("g", keys=["a"]).explain.sum("x"))
    within = {"y": (0, 2)}
    assert "x_bounds=(0.0, 1.0)" in str(private(bounds=within).explain.ratio("x", "y"))
    assert "'x': (0.0, 1.0)" in str(private.explain.regression("y", ["x"], within))
    keys = {"g": ["a"], "y": [0.0, 1.0, 2.0]}
    assert "(0.0, 1.0)" in str(private.explain.pivot("g", "y", "x", keys=keys))
    assert "bounds" not in str(private.explain.corr("x", "y")).splitlines()[0]
    assert "bounds=(0.0, 2.0)" in str(private.explain.mean("x", (0, 2)))


def test_constants_of_different_types_are_different_questions():
    """1 and True are asked apart, and one that the column can't hold is refused by its type."""
    frame = pd.DataFrame({"x": pd.Series([1, True, True, "1"], dtype=object)})
    both = frame.dp.agg(one=dfp.share("x", 1), true=dfp.share("x", True), **HUGE)
    assert [round(answer, 3) for answer in both.values()] == [0.25, 0.5]
    for values in ([1.5], []):
        numbers = pl.DataFrame({"x": values}, schema={"x": pl.Float64})
        for constant in ("1.5", True):
            with pytest.raises(dfp.errors.InvalidQuestionError, match="is no value of it"):
                numbers.dp.share("x", constant, epsilon=1)


@pytest.mark.parametrize("engine", ["polars", "pandas"])
def test_a_unit_with_many_rows_counts_with_its_own_share(engine):
    """A unit of 8 rows that counts as 2 adds a quarter of each: no part of a row is lost."""
    table = pa.table({"u": [i // 8 for i in range(4000)], "x": [i % 4 == 0 for i in range(4000)]})
    private = dfp.frame(FRAME_TYPES[engine](table))(unit="u", max_rows=2)
    share = private.share("x", **HUGE)
    assert share == pytest.approx(0.25, abs=1e-5)
    assert share.note == "a unit with more than 2 rows counts as 2"
    assert dfp.frame(FRAME_TYPES[engine](table)).share("x", **HUGE).note is None
    assert private.explain.share("x", epsilon=1)["x"].scale == pytest.approx(2)


@pytest.mark.parametrize(("rows", "epsilon"), [(40, 0.5), (2000, 1)])
def test_intervals_hold_the_exact_share(rows, epsilon):
    """The interval at 90 % holds the exact share in 90 % of releases at least."""
    frame = pl.DataFrame({"x": [i % 10 == 0 for i in range(rows)]})
    answers = [frame.dp.share("x", epsilon=epsilon, interval=0.9) for _ in range(200)]
    hits = sum(answer.low <= 0.1 <= answer.high for answer in answers)
    assert stats.binomtest(hits, 200, 0.9, alternative="less").pvalue > 1e-6
    assert all(0 <= answer <= 1 for answer in answers)


def test_a_share_prints_as_a_percentage():
    """Text and representation are percentages; the number itself is a part of 1."""
    share = pl.DataFrame({"x": [True, False] * 500}).dp.share("x", **HUGE)
    assert str(share) == "50%"
    assert re.match(r"x 50\.0+% \[49\.9+\d*%, 50\.0+\d*%\]", repr(share))
    assert f"{share:.2f}" == "0.50"


def test_a_count_comes_with_a_share_of_its_column():
    """Both are read off one noisy vector and cost what the share costs alone."""
    plan = pl.DataFrame({"x": [True]}).dp.explain(dfp.share("x"), n=dfp.count("x"), epsilon=1)
    assert len(plan.draws) == 1


def test_every_door_knows_constants(tmp_path):
    """SQL compares rows itself; the command line reads a constant in the type of its column."""
    frame = pl.DataFrame({"day": [DAY, DAY, None, DAY + dt.timedelta(1)], "n": [3, 4, 5, 3]})
    frame.write_parquet(tmp_path / "t.parquet")
    answer = dfp.sql("SELECT dp_share(n = 3) AS x FROM t", t=frame, **HUGE)
    assert answer["x"][0] == pytest.approx(0.5)
    for text in ("SELECT dp_share(n) AS x FROM t", "SELECT dp_share(day) AS x FROM t"):
        with pytest.raises(dfp.DPError):
            dfp.sql(text, t=frame, **HUGE)
    out = tmp_path / "out.csv"
    words = ["share", tmp_path / "t.parquet", "day", "--value", "2026-01-01", "--epsilon", 1e9]
    assert command(*words, "--output", out).exit_code == 0
    assert pl.read_csv(out)["value"][0] == pytest.approx(2 / 3)
    with pytest.raises(dfp.errors.StatisticsFileError, match="can't be named"):
        dfp.statistics(frame, tmp_path / "no.parquet", dfp.share("day", DAY))
