"""Questions: what the history of a ledger keeps of them, and what they refuse."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest

import dfprivacy as dfp

FRAME = pl.DataFrame({"x": [0.0, 1.0] * 500, "g": ["a", "b"] * 500})
TEXTS = [
    "count()",
    "count('x')",
    "sum('x')",
    "sum('x', bounds=(0.0, 9.0))",
    "mean('x')",
    "mean('x', bounds=(0.0, 9.0))",
    "mean('x', bounds=(0.0, 9.0), method='shifted')",
    "mean('x', bounds=(0.0, 9.0), method='independent')",
    "mean('x', method='subset')",
    "mean('x', method='inverse')",
    "var('x', bounds=(-1.5, 9.0))",
    "std('x')",
    "median('x')",
    "median('x', method='inverse')",
    "quantile('x', 0.9)",
    "quantile('x', 0.9, method='inverse')",
    "quantiles('x', [0.25, 0.75])",
    "center('x', 1.5)",
    "center('x', 1.5, bounds=(0.0, 9.0))",
    "bounds('x')",
    "bounds('x', rank=100)",
]


def test_a_history_has_the_questions_as_they_were_asked(tmp_path):
    """The text of a question is the call that asks it: a method is there unless it is the default.

    Different calls are different questions, so that no two entries of a history look the same.
    """
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1e6)
    private = FRAME.dp(ledger=ledger, dataset="d", epsilon=100)
    for text in TEXTS:
        eval(f"private.{text}", {"__builtins__": {}}, {"private": private})
    assert ledger.history()["question"].tolist() == TEXTS
    both = {"a": dfp.mean("x", method="subset"), "b": dfp.median("x")}
    private.group_by("g", keys=["a", "b"]).agg(**both)
    assert ledger.history()["question"].iloc[-1] == (
        "mean('x', method='subset'), median('x') by 'g'"
    )


@pytest.mark.parametrize(
    "p", [1, 1.0, 0.5, 65, Fraction(10**30 + 1, 10**30), Decimal("1.00000000000000000001"), "2"]
)
def test_a_center_needs_a_power_above_one(p):
    """What is 1 as a float is no power either, though it is above 1 as a fraction."""
    with pytest.raises(dfp.errors.InvalidQuestionError, match="above 1, up to 64"):
        FRAME.dp.center("x", p, bounds=(0, 1))


@pytest.mark.parametrize(
    "level", [-0.1, 1.1, Fraction(10**7 + 1, 10**7), float("nan"), float("inf"), True, "0.5", None]
)
def test_other_levels_are_refused(level):
    """A level is a real number from 0 to 1, alone or among others."""
    for ask in (lambda: FRAME.dp.quantile("x", level), lambda: FRAME.dp.quantiles("x", [0, level])):
        with pytest.raises(dfp.errors.InvalidQuestionError) as caught:
            ask()
        assert caught.value.hint
