"""Questions: what they take, and what the history of a ledger keeps of them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy import questions, rank_questions
from dfprivacy.statistics import PrivateBounds, question_text

WORDS = {
    **{name: getattr(questions, name) for name in ("count", "sum", "mean", "var", "std")},
    **{name: getattr(rank_questions, name) for name in ("median", "quantile", "quantiles")},
    "center": rank_questions.center,
    "bounds": PrivateBounds,
}

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
    "mean('x', method='dick')",
    "mean('x', method='inverse')",
    "var('x', bounds=(-1.5, 9.0))",
    "std(3)",
    "median('x')",
    "median('x', method='inverse')",
    "quantile('x', 0.9)",
    "quantile('x', 0.9, method='inverse')",
    "quantiles('x', [0.25, 0.75])",
    "center('x', 1.5)",
    "center('x', 1.5, bounds=(0.0, 9.0))",
    "center('x', 1.5, method='dick')",
    "bounds('x')",
    "bounds('x', rank=100)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_the_question_as_it_was_asked(text):
    """The text of a question is the call that asks it: a method is there unless it is the default.

    Different calls are different questions, so that no two entries of a history look the same.
    """
    asked = eval(text, {"__builtins__": {}}, WORDS)
    assert asked.text == text
    assert [eval(other, {"__builtins__": {}}, WORDS) == asked for other in TEXTS].count(True) == 1


def test_several_questions_by_group_have_one_text():
    """Questions stand in the order asked, then the columns that they are grouped by."""
    asked = {name: eval(text, {}, WORDS) for name, text in zip("ab", TEXTS[8:10], strict=True)}
    both = "mean('x', method='subset'), mean('x', method='dick')"
    assert question_text(asked) == both
    assert question_text(asked, ["g", 1]) == f"{both} by 'g', 1"


@pytest.mark.parametrize(
    "p", [1, 1.0, 0.5, 65, Fraction(10**30 + 1, 10**30), Decimal("1.00000000000000000001"), "2"]
)
def test_a_center_needs_a_power_above_one(p):
    """What is 1 as a float is no power either, though it is above 1 as a fraction."""
    with pytest.raises(dfp.InvalidQuestionError, match="above 1, up to 64"):
        pl.DataFrame({"x": [0.0, 1.0]}).dp.center("x", p, bounds=(0, 1))
