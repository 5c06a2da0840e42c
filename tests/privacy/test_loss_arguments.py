"""Every loss is either in range or refused by name, before a random byte is drawn."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dfprivacy as dfp
from tests.privacy.refused_arguments import ASKS, FRAME, NO_NUMBERS, require_refusal


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("name", ["epsilon", "rho"])
def test_a_loss_out_of_range_is_refused(ask, name, entropy_calls):
    """An epsilon or rho that is no positive, finite, sensible number is InvalidLossError."""
    for value in NO_NUMBERS:
        require_refusal(
            lambda v=value: ASKS[ask](FRAME.dp, **{name: v}),
            entropy_calls,
            dfp.errors.InvalidLossError,
        )
        require_refusal(
            lambda v=value: ASKS[ask](FRAME.dp(**{name: v})),
            entropy_calls,
            dfp.errors.InvalidLossError,
        )


NO_DELTAS = [number for number in NO_NUMBERS if not isinstance(number, float) or number != 1e-300]
NO_DELTAS += [1, 1.0, 2, Fraction(3, 2), Decimal(1), Fraction(1, 2**1001)]


@pytest.mark.parametrize("value", NO_DELTAS)
def test_a_delta_out_of_range_is_refused(value, entropy_calls):
    """A delta that is no number in (0, 1) is InvalidLossError."""
    group = FRAME.dp.group_by("g")
    require_refusal(lambda: group.count(delta=value), entropy_calls, dfp.errors.InvalidLossError)


@pytest.mark.parametrize("name", ["epsilon", "rho", "delta", "interval"])
def test_a_number_too_long_to_print_is_refused(name, entropy_calls):
    """A number that Python does not print is refused like any other."""
    kinds = (dfp.errors.InvalidLossError, dfp.errors.InvalidQuestionError)
    require_refusal(lambda: FRAME.dp.count(**{name: 10**5000}), entropy_calls, kinds)


VALID = [
    1,
    0.1,
    np.float32(0.1),
    np.float64(2),
    np.int64(3),
    Decimal("0.1"),
    Fraction(1, 3),
    2**-60,
    2**60,
]


@pytest.mark.parametrize("name", ["epsilon", "rho"])
@pytest.mark.parametrize("ask", ASKS)
def test_a_loss_in_range_draws_noise(ask, name, entropy_calls):
    """Numbers of every type are taken and shown at their value, and noise is drawn for them."""
    for value in VALID if ask == "count" else VALID[:2]:
        entropy_calls.clear()
        answer = ASKS[ask](FRAME.dp, **{name: value})
        assert entropy_calls
        assert ask != "count" or getattr(answer, name) == pytest.approx(float(value), rel=1e-15)
