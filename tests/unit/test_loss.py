"""Losses are exact numbers."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho, delta_of, loss_of
from dfprivacy.exact import describe, exact_number
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip

LOSSES = st.fractions(Fraction(1, 2**50), 2**50)


@given(LOSSES, st.integers(1, 2**40), st.integers(1, 12))
def test_shares_pay_for_their_noise(value, sensitivity, parts):
    """The shares of a loss add up to it, and each share's noise costs exactly that share."""
    for kind in (Epsilon, Rho):
        shares = [kind(value).share(Fraction(1, parts)) for _ in range(parts)]
        assert sum(share.value for share in shares) == value
        noise = shares[0].noise(sensitivity, sensitivity**2)
        if kind is Epsilon:
            assert Fraction(sensitivity) / noise.scale == shares[0].value
        else:
            assert Fraction(sensitivity**2) / (2 * noise.sigma_squared) == shares[0].value


@given(LOSSES, LOSSES)
def test_more_loss_is_less_noise(one, other):
    """A larger epsilon, and a larger rho, never mean more noise."""
    low, high = sorted([one, other])
    assert Epsilon(low).noise(5, 25).scale >= Epsilon(high).noise(5, 25).scale
    assert Rho(low).noise(5, 25).sigma_squared >= Rho(high).noise(5, 25).sigma_squared


@given(LOSSES, st.integers(1, 2**40))
def test_a_selection_costs_its_loss(value, sensitivity):
    """Epsilon buys permute-and-flip at exactly epsilon, rho the exponential mechanism at rho."""
    pure, concentrated = Epsilon(value).selection(sensitivity), Rho(value).selection(sensitivity)
    assert isinstance(pure, PermuteAndFlip)
    assert pure.epsilon(sensitivity) == value
    assert isinstance(concentrated, ExponentialMechanism)
    assert value * (1 - Fraction(1, 2**200)) < concentrated.rho(sensitivity) <= value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, Fraction(1)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (0.5, Fraction(1, 2)),
        (np.int8(3), Fraction(3)),
        (np.float32(0.25), Fraction(1, 4)),
    ],
)
def test_numbers_are_taken_exactly(value, expected):
    """Numbers of any type become the fraction that they are."""
    assert exact_number(value) == expected
    assert loss_of(epsilon=value) == Epsilon(expected)
    assert loss_of(rho=value) == Rho(expected)


@given(st.floats(2**-59, 2**59))
def test_a_float_epsilon_is_the_decimal_that_python_prints(value):
    """The float 0.1 is taken as 1/10: what is charged and what sets the scale are one number."""
    assert loss_of(epsilon=value).value == Fraction(repr(value))


@pytest.mark.parametrize(
    "value", [True, "1", None, float("nan"), Decimal("NaN"), 1j, [1], object()]
)
def test_what_is_no_number_is_none(value):
    """Anything but a finite real number is refused, booleans too."""
    assert exact_number(value) is None


def test_the_default_is_one():
    """Without epsilon and rho a release costs epsilon = 1; both together are refused."""
    assert loss_of() == Epsilon(Fraction(1))
    with pytest.raises(dfp.InvalidLossError):
        loss_of(epsilon=1, rho=1)
    assert delta_of(None) is None
    assert delta_of(1e-6) in {Fraction("1e-06"), Fraction(1e-6)}


@given(st.one_of(st.text(), st.binary(), st.lists(st.integers()), st.builds(object)))
def test_a_rejected_argument_is_named_by_its_type(value):
    """What is no number is described by its type alone."""
    assert describe(value) == f"a {type(value).__name__}"
