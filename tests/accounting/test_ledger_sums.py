"""Charges add up exactly: nothing is lost, and not one unit more than the budget is spent."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from tests.accounting.charges import charge, confirmed, forge


def test_exhaustion_is_exact(ledger):
    """Ten times 0.1 of 1.0 is allowed, and then not one unit more."""
    for _ in range(10):
        ledger.charge("flights", charge(0.1))
    assert ledger.remaining("flights") == dfp.Budget(epsilon=0.0, delta=1e-6)
    with pytest.raises(dfp.BudgetExceededError, match=r"costs epsilon 1e-9, and what is left"):
        ledger.charge("flights", charge(1e-9))
    with pytest.raises(dfp.BudgetExceededError):
        ledger.charge("flights", charge(1e-15))
    assert len(ledger.history()) == 10


def test_delta_is_exhausted_on_its_own(ledger):
    """A release is refused when its delta exceeds what is left, whatever epsilon is left."""
    for _ in range(10):
        ledger.charge("flights", charge(0.01, delta=1e-7))
    with pytest.raises(dfp.BudgetExceededError, match=r"left is epsilon 0\.9\n"):
        ledger.charge("flights", charge(0.01, delta=1e-300))
    assert ledger.remaining("flights") == dfp.Budget(epsilon=0.9)
    ledger.charge("flights", charge(0.9))


def test_accounts_are_apart(ledger):
    """Each dataset has the whole budget to itself; two ways to write an accent are one name."""
    ledger.charge("flights", charge(0.75))
    ledger.charge("caf\u00e9", charge(0.5))
    assert ledger.remaining("cafe\u0301") == dfp.Budget(epsilon=0.5, delta=1e-6)
    assert ledger.remaining("flights") == dfp.Budget(epsilon=0.25, delta=1e-6)
    assert ledger.remaining("never named") == dfp.Budget(epsilon=1.0, delta=1e-6)
    assert ledger.datasets() == ["caf\u00e9", "flights"]


program = st.lists(
    st.tuples(
        st.sampled_from(["epsilon", "rho"]),
        st.one_of(
            st.sampled_from([0.1, 1e-9, 1e-18, 0.3, 1 / 3, 2**-60]),
            st.floats(2**-60, 0.2),
            st.fractions(Fraction(1, 10**6), Fraction(1, 5)),
        ),
        st.one_of(st.none(), st.sampled_from([1e-7, 1e-30]), st.floats(1e-30, 1e-7)),
    ),
    min_size=50,
    max_size=50,
)


def spent(measure, loss, delta):
    """Return what a ledger shows for units: floats whose decimals are not above them."""
    floats = []
    for value in (Fraction(loss, 10**9), Fraction(delta, 10**18)):
        near = float(value)
        floats.append(near if Fraction(repr(near)) <= value else math.nextafter(near, 0))
    return dfp.Budget(**{measure: floats[0], "delta": floats[1]})


def exactly(number):
    return Fraction(repr(number)) if isinstance(number, float) else number


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(releases=program)
def test_random_programs(tmp_path_factory, fast_disk, measure, releases):
    """What is spent lies at or above the exact sum, by less than a unit for each charge.

    A release is refused if and only if it does not fit, and then nothing is charged.
    """
    ledger = dfp.Ledger(tmp_path_factory.mktemp("t") / "b.db", **{measure: 1}, delta=1e-6)
    lost, lost_delta, before = Fraction(0), Fraction(0), (0, 0)
    for number, (asked, amount, delta) in enumerate(releases, 1):
        release = charge(**{asked: amount}, delta=delta)
        if asked == "rho" and measure == "epsilon":
            with pytest.raises(dfp.InvalidLossError):
                ledger.charge("d", release)
            continue
        cost = exactly(amount) ** 2 / 2 if asked != measure else exactly(amount)
        units = math.ceil(cost * 10**9), math.ceil(exactly(delta or 0) * 10**18)
        fits = before[0] + units[0] <= 10**9 and before[1] + units[1] <= 10**12
        try:
            ledger.charge("d", release)
        except dfp.BudgetExceededError:
            assert not fits
        else:
            assert fits
            before = before[0] + units[0], before[1] + units[1]
            lost, lost_delta = lost + cost, lost_delta + exactly(delta or 0)
        rows = confirmed(ledger.path) if before[0] else []
        loss, lost_to_keys = (
            sum(row["cost"] for row in rows),
            sum(row["cost_delta"] for row in rows),
        )
        assert (loss, lost_to_keys) == before
        assert ledger.spent("d") == spent(measure, loss, lost_to_keys)
        assert lost <= Fraction(loss, 10**9) <= lost + Fraction(number, 10**9)
        assert lost_delta <= Fraction(lost_to_keys, 10**18) <= lost_delta + Fraction(number, 10**18)


def test_tiny_charges_are_not_lost(tmp_path, fast_disk):
    """However small a release is, it costs a unit; nothing is lost beside a large total."""
    count = 500
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=4e9)
    ledger.charge("d", charge(3.9e9))
    for _ in range(count):
        ledger.charge("d", charge(2**-60))
    assert ledger.spent("d").epsilon == 3.9e9 + count / 10**9
    assert len(ledger.history("d")) == count + 1


@pytest.mark.parametrize("count", [5_000, pytest.param(10**6, marks=pytest.mark.slow)])
def test_a_million_tiny_charges_are_not_lost(tmp_path, count):
    """A million releases that cost a unit each cost a million units.

    They are added to an amount beside which a float could not tell one of them.
    """
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=4e9)
    ledger.charge("d", charge(3.9e9))
    ledger.charge("d", charge(2**-60))
    forge(ledger.path, *[("charge", confirmed(ledger.path)[1])] * (count - 1))
    again = dfp.Ledger(ledger.path)
    left = Fraction(repr(again.remaining("d").epsilon))
    assert 10**8 - Fraction(count, 10**9) - Fraction(2, 10**8) < left
    assert left <= 10**8 - Fraction(count, 10**9)
    assert len(again.history()) == count + 1
    with pytest.raises(dfp.BudgetExceededError):
        again.charge("d", charge(1e8))


@given(st.floats(2**-60, 1), st.floats(2**-60, 1))
def test_more_epsilon_never_costs_less(one, other):
    """The cost grows with epsilon, in either measure."""
    small, large = sorted([one, other])
    for measure in ("epsilon", "rho"):
        assert charge(small).units(measure).loss <= charge(large).units(measure).loss
