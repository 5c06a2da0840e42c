"""Habits from pandas and polars that can't be followed here are answered in our words."""

import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

FRAME = pd.DataFrame({"city": ["Rome", "Oslo"] * 500, "age": [20, 60] * 500})
POLARS = pl.from_pandas(FRAME)
DOORS = [FRAME.dp, POLARS.dp, POLARS.lazy().dp, dfp.frame(POLARS.to_arrow())]
AGES = (0, 100)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda door: door.mean("age", 0, 100), r"bounds are one pair, e\.g\. bounds=\(0, 100\)"),
        (lambda door: door.mean(), "mean needs column"),
        (lambda door: door.mean("age", column="age"), "given an argument twice"),
        (lambda door: door.mean("age", seed=1), "no argument 'seed'"),
        (lambda door: door.mean("age", by="city"), "no argument 'by'"),
        (lambda door: door.mean("age", bound=AGES), r"write bounds="),
        (lambda door: door.corr("age"), "corr needs y"),
        (lambda door: door.mean("age", AGES, axis=0), r"leave it out: name one column"),
        (lambda door: door.mean(numeric_only=True), r"leave it out: name one column"),
        (lambda door: door.mean("age", AGES, skipna=True), "NULL and NaN never count"),
        (lambda door: door.std("age", AGES, ddof=1), "all rows are the population"),
        (lambda door: door.quantiles("age", [0.5], ends=True), r"median or a quantile takes it"),
        (lambda door: door.value_counts("city", normalize=True), "ratio_to"),
        (lambda door: door.pivot("city", "age", "age", aggfunc="mean"), "write aggregate="),
        (lambda door: door.mean(["age", "city"]), r"one column.* a list[^$]*\.agg\(dfp\.mean"),
        (lambda door: door.group_by(lambda row: row), "not by a function"),
        (lambda door: door.plot, r"dfp\.plot\(answer\)"),
        (lambda door: door.head, r"df\.filter"),
        (lambda door: door.filter(True), r"df\.filter\(\.\.\.\)\.dp"),
        (lambda door: door.where(True), r"df\.filter\(\.\.\.\)\.dp"),
        (lambda door: door.group_by("city").cut(3), r"df\.filter\(\.\.\.\)\.dp"),
        (lambda door: door.sem("age"), "ask one of"),
        (lambda door: door.shape, r"write \.count\("),
        (lambda door: door.group_by("city").group_by("age"), r'group_by\("city", "year"\)'),
        (lambda door: door.group_by("city", sort=False), "no argument 'sort'"),
        (lambda door: door.agg(dfp.mean("age", AGES, epsilon=1)), r"dfp\.mean .*'epsilon'[^$]*agg"),
        (lambda door: door(eps=1), r"df\.dp takes no argument 'eps'"),
        (lambda _: dfp.frame(FRAME, unit="city"), r"dfp\.frame\(df\)\(unit=\.\.\.\)"),
        (lambda door: door.mean("age", AGES).mean("age"), "an answer has no 'mean'"),
        (lambda door: door.median("age").group_by("city"), "an answer has no 'group_by'"),
        (list, "rows are secret"),
        (lambda door: list(door.group_by("city")), "rows are secret"),
    ],
)
def test_a_habit_is_answered_with_what_to_type(door, call, says):
    """Arguments and chains of other libraries end with an error that says what to type instead."""
    with pytest.raises(dfp.DPError, match=says):
        call(door)


def test_quantiles_say_once_what_all_cost():
    """The list of several quantiles names their cost once, after all of them."""
    quantiles = FRAME.dp.quantiles("age", [0.25, 0.75], epsilon=100)
    assert repr(quantiles) == "[age_0.25 20, age_0.75 60], epsilon=100 for both"
    assert repr([*quantiles, 3]).count("for both") == 2
