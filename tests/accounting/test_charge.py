"""What a release costs: rounded up, and what a unit contributes to it."""

import itertools
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dfprivacy.accounting.charge import Budget, Charge, Units, float_below, total_of
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, delta_of, loss_of
from dfprivacy.errors import InvalidLossError
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

losses = st.floats(2**-60, 2**31, exclude_max=True)
deltas = st.floats(2**-900, 1, exclude_max=True)


@given(losses)
def test_a_float_is_the_decimal_that_it_prints(value):
    """Noise and charge use one number: the decimal that Python prints for the float."""
    assert loss_of(epsilon=value) == Epsilon(Fraction(repr(value)))
    assert float(loss_of(rho=value).value) == value
    assert loss_of(epsilon=np.float64(value)) == loss_of(epsilon=value)


@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Decimal("0.1"), 7, np.int64(7), 2.0**60, 2.0**-60, np.float32(0.1)]
)
def test_exact_numbers_stay_exact(value):
    """Fractions, decimals and integers are taken as they are; both ends of the range are in it."""
    expected = Fraction(repr(float(value))) if isinstance(value, float | np.floating) else None
    exact = expected or Fraction(int(value) if isinstance(value, np.integer) else value)
    assert loss_of(epsilon=value).value == exact


@pytest.mark.parametrize("value", [2.0**-1000, 0.1, 1e-300])
def test_deltas_are_decimals_too(value):
    """A delta is the decimal that Python prints, from the smallest one on."""
    assert delta_of(value) == Fraction(repr(value))


@given(losses, deltas)
def test_a_charge_is_rounded_up(value, delta):
    """A charge is never below the loss, less than a unit above it, and at least one unit."""
    units = Charge(loss_of(epsilon=value), delta_of(delta)).units("epsilon")
    for charged, lost, unit in (
        (units.loss, Fraction(repr(value)), Fraction(1, 10**9)),
        (units.delta, Fraction(repr(delta)), Fraction(1, 10**18)),
    ):
        assert charged >= 1
        assert 0 <= charged * unit - lost < unit


@given(losses)
def test_a_pure_loss_costs_half_its_square_in_rho(value):
    """On a ledger in rho, epsilon costs epsilon^2/2, rounded up."""
    cost = Charge(loss_of(epsilon=value)).units("rho").loss
    assert 0 <= Fraction(cost, 10**9) - Fraction(repr(value)) ** 2 / 2 < Fraction(1, 10**9)


def test_rho_is_not_charged_to_epsilon():
    """No finite epsilon pays for a Gaussian release."""
    with pytest.raises(InvalidLossError, match="the ledger counts epsilon"):
        Charge(Rho(Fraction(1))).units("epsilon")


@given(st.integers(1, 2**62), st.integers(0, 10**18 - 1))
def test_a_budget_is_not_above_its_units(loss, delta):
    """To ask for what a budget shows costs no more than the budget holds."""
    units = Units("epsilon", loss, delta)
    shown = units.budget()
    assert Fraction(repr(shown.epsilon)) * 10**9 <= loss
    assert Fraction(repr(shown.delta)) * 10**18 <= delta


@given(st.floats(1e-9, 4e9), st.one_of(st.just(0.0), st.floats(1e-15, 0.5)))
def test_a_total_is_rounded_down(epsilon, delta):
    """A total is never above what the caller named."""
    total = total_of(epsilon, None, delta)
    assert 0 <= Fraction(repr(epsilon)) * 10**9 - total.loss < 1
    assert 0 <= Fraction(repr(delta)) * 10**18 - total.delta < 1


WRONG = [0, -1, 1e-10, 5e9, float("nan"), float("inf"), True, "1", 1j, [1], object()]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_wrong_totals(measure, value):
    """A total that is no number, or that can't be counted, is refused."""
    with pytest.raises(InvalidLossError):
        total_of(**{"epsilon": None, "rho": None, "delta": None} | {measure: value})


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, float("nan"), True, "0", None])
def test_wrong_deltas(delta):
    """The delta of a total lies between 0 and 1, and never stands alone."""
    with pytest.raises(InvalidLossError):
        total_of(None if delta is None else 1, None, 0.1 if delta is None else delta)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: total_of(1, None, 1e-19), "counts delta in units of 1e-18, and 1e-19 is less"),
        (lambda: delta_of(1e-305), "at least 2[*][*]-1000, about 1e-301, and 1e-305 is less"),
        (lambda: delta_of(0), "between 0 and 1, not 0"),
    ],
)
def test_why_a_delta_can_not_be_had(make, why):
    """A delta that is too small says what the smallest is; a budget of none is never silent."""
    with pytest.raises(InvalidLossError, match=why):
        make()


def test_both_measures():
    """A ledger counts one measure."""
    with pytest.raises(InvalidLossError, match="both"):
        total_of(1, 1, None)


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=0.1), Budget(rho=0.5, delta=1e-9), Budget(epsilon=0.0, delta=0.25)]
)
def test_repr_can_be_pasted(budget):
    """A budget's repr makes the same budget."""
    assert eval(repr(budget)) == budget


@given(st.fractions(0, 10**6))
def test_float_below(value):
    """The float is below or at the value, and the next one is above it."""
    below = float_below(value)
    assert Fraction(repr(below)) <= value
    assert Fraction(float(np.nextafter(np.nextafter(below, np.inf), np.inf))) > value


LIMITS = list(itertools.product((1, 2, 3), (1, 2), (1, 2, 3)))


def placements(rows, groups, parts):
    """Yield what a unit can add to each group of all files: its limits hold in each file alone."""
    universe = groups * parts
    chosen = list(itertools.combinations(range(universe), groups))
    for files in itertools.product(chosen, repeat=parts):
        held = [0] * universe
        for file in files:
            for group in file:
                held[group] += rows
        yield tuple(held)


@pytest.mark.parametrize(("rows", "groups", "parts"), LIMITS)
def test_no_placement_costs_more_than_the_loss(rows, groups, parts):
    """Wherever a unit has its rows, they cost at most what was asked, and some place costs it.

    One row costs e in each group; r rows of a group cost r e where losses are pure, and r^2 of it
    where they are zero-concentrated.
    """
    contribution = Contribution(rows, groups, parts)
    pure = contribution.row_loss(Epsilon(Fraction(1))).value
    concentrated = contribution.row_loss(Rho(Fraction(1))).value
    found = set(placements(rows, groups, parts))
    assert max(sum(held) * pure for held in found) == 1
    assert max(sum(own * own for own in held) * concentrated for held in found) == 1


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(7)), DiscreteGaussian(Fraction(40))])
@pytest.mark.parametrize(("rows", "groups", "parts"), LIMITS)
def test_no_placement_shows_groups_more_often_than_delta(rows, groups, parts, noise):
    """Wherever a unit is alone, its groups are shown with probability at most delta in all."""
    delta = Fraction(1, 1000)
    least = Contribution(rows, groups, parts).key_rule(delta).least(noise, 1, 1)
    for held in set(placements(rows, groups, parts)):
        shown = sum(noise.tail(least - own) for own in held if own)
        assert shown <= delta


def test_one_file_is_no_file():
    """With parts=1 nothing changes; groups counted together are rows of one group."""
    assert Contribution(3, 2, 1) == Contribution(3, 2)
    loss = Epsilon(Fraction(1))
    pooled = Contribution(3, 2, 5).pooled()
    assert pooled.row_loss(loss) == Contribution(3, 2, 5).row_loss(loss)
    assert pooled.row_loss(Rho(Fraction(1))).value == Fraction(1, 30**2)
