"""Types of answers that type checkers know: `mypy --strict` passes; nothing runs it."""

from typing import assert_type

import pandas as pd
import polars as pl

import dfprivacy as dfp


def answers(people: pd.DataFrame, rows: pl.DataFrame, lazy: pl.LazyFrame) -> None:
    """Whole frames answer with numbers, groups in the frame's own type."""
    assert_type(dfp.frame(people).mean("income", (0, 1), epsilon=1), dfp.Estimate)
    assert_type(dfp.frame(rows)(epsilon=1).median("income"), dfp.Estimate)
    assert_type(dfp.frame(people).group_by("city").count(), pd.DataFrame)
    assert_type(dfp.frame(rows).group_by("city").agg(dfp.count()), pl.DataFrame)
    assert_type(dfp.frame(rows).group_by("city")["income"].sum((0, 1)), pl.DataFrame)
    assert_type(dfp.frame(rows)["income"].mean((0, 1)), dfp.Estimate)
    assert_type(dfp.frame(lazy)(unit="person").group_by("city").count(), pl.LazyFrame)
    dfp.frame(people).mean("income", bound=(0, 1))  # type: ignore[call-arg]
    assert_type(dfp.frame(people)["income"].mean((0, 1)), dfp.Estimate)
