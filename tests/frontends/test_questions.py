"""Questions: what the history of a ledger keeps of them, and what they refuse."""

from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest

import dfprivacy as dfp

FRAME = pl.DataFrame({"x": [0.0, 1.0] * 500, "g": ["a", "b"] * 500})


@pytest.mark.parametrize(
    "p", [1, 1.0, 0.5, 65, Fraction(10**30 + 1, 10**30), Decimal("1.00000000000000000001"), "2"]
)
def test_a_center_needs_a_power_above_one(p):
    """A power that is 1 as a float is refused too, though it is above 1 as a fraction."""
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
