"""Charges add up exactly: nothing is lost, and not one unit more than the budget is spent."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA
from tests.accounting.charges import charge, forge, in_old_units, list_confirmed


def test_exhaustion_is_exact(ledger):
    """Ten times 0.1 of 1.0 is allowed, and then no more than the excess of 2**-40."""
    for _ in range(10):
        ledger.charge("flights", charge(0.1))
    assert ledger.remaining("flights") == dfp.Budget(epsilon=0.0, delta=1e-6)
    with pytest.raises(dfp.BudgetExceededError, match=r"costs epsilon 1e-9, and what is left"):
        ledger.charge("flights", charge(1e-9))
    with pytest.raises(dfp.BudgetExceededError):
        ledger.charge("flights", charge(2**-39))
    assert len(ledger.history()) == 10


def test_delta_is_exhausted_on_its_own(ledger):
    """A release is refused when its delta exceeds what is left, whatever epsilon is left."""
    for _ in range(10):
        ledger.charge("flights", charge(0.01, delta=1e-7))
    with pytest.raises(dfp.BudgetExceededError, match=r"left is epsilon 0\.9\n"):
        ledger.charge("flights", charge(0.01, delta=1e-18))
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
    """Return the budget that a ledger shows for units: floats whose decimals are not above them."""
    floats = []
    for value in (Fraction(loss, PER_ONE), Fraction(delta, PER_ONE_DELTA)):
        number = float(value)
        floats.append(number if Fraction(repr(number)) <= value else math.nextafter(number, 0))
    return dfp.Budget(**{measure: floats[0], "delta": floats[1]})


def exactly(number):
    return Fraction(repr(number)) if isinstance(number, float) else number


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(releases=program)
def test_random_programs(tmp_path_factory, fast_disk, measure, releases):
    """The budget spent lies at or above the exact sum, by less than a unit for each charge.

    A release is refused if and only if it does not fit, and then nothing is charged.
    """
    ledger = dfp.Ledger(tmp_path_factory.mktemp("t") / "b.db", **{measure: 1}, delta=1e-6)
    lost, lost_delta, before = Fraction(0), Fraction(0), (0, 0)
    for number, (kind, amount, delta) in enumerate(releases, 1):
        release = charge(**{kind: amount}, delta=delta)
        if kind == "rho" and measure == "epsilon":
            with pytest.raises(dfp.errors.InvalidLossError):
                ledger.charge("d", release)
            continue
        cost = exactly(amount) ** 2 / 2 if kind != measure else exactly(amount)
        units = math.ceil(cost * PER_ONE), math.ceil(exactly(delta or 0) * PER_ONE_DELTA)
        limits = PER_ONE + PER_ONE // 2**40, PER_ONE_DELTA // 10**6 * (1 + Fraction(1, 2**40))
        fits = before[0] + units[0] <= limits[0] and before[1] + units[1] <= limits[1]
        try:
            ledger.charge("d", release)
        except dfp.BudgetExceededError:
            assert not fits
        else:
            assert fits
            before = before[0] + units[0], before[1] + units[1]
            lost, lost_delta = lost + cost, lost_delta + exactly(delta or 0)
        rows = list_confirmed(ledger.path) if before[0] else []
        loss, lost_to_keys = (
            sum(row["cost"] for row in rows),
            sum(row["cost_delta"] for row in rows),
        )
        assert (loss, lost_to_keys) == before
        assert ledger.spent("d") == spent(measure, loss, lost_to_keys)
        assert lost <= Fraction(loss, PER_ONE) <= lost + Fraction(number, PER_ONE)
        highest = lost_delta + Fraction(number, PER_ONE_DELTA)
        assert lost_delta <= Fraction(lost_to_keys, PER_ONE_DELTA) <= highest


@pytest.mark.parametrize("count", [5_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_many_tiny_charges_are_not_lost(tmp_path, count):
    """Releases at epsilon 1e-9 cost what all of them are worth.

    They are added to an amount beside which a float could not tell one of them.
    """
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=4e9)
    ledger.charge("d", charge(3.9e9))
    ledger.charge("d", charge(1e-9))
    forge(ledger.path, *[("charge", list_confirmed(ledger.path)[1])] * (count - 1))
    again = dfp.Ledger(ledger.path)
    left = Fraction(repr(again.remaining("d").epsilon))
    assert 10**8 - Fraction(count, 10**9) - Fraction(2, 10**8) < left
    assert left <= 10**8 - Fraction(count, 10**9)
    assert len(again.history()) == count + 1
    with pytest.raises(dfp.BudgetExceededError):
        again.charge("d", charge(1e8 + 1))


MEASURES = {"epsilon": {"epsilon": 1}, "rho": {"rho": 1}, "delta": {"epsilon": 1e6, "delta": 1e-6}}


def split_total(kind, total, parts):
    """Return a charge of one of equal parts of a total, and what cannot be more than it."""
    if kind == "delta":
        return charge(1e-3, delta=total / parts)
    return charge(**{kind: total / parts})


@pytest.mark.parametrize("kind", MEASURES)
@pytest.mark.parametrize("is_analyst", [False, True])
def test_equal_parts_of_a_budget_fit(tmp_path, fast_disk, kind, is_analyst):
    """A budget, or an analyst's allowance, in k equal floats fits exactly k times, for k to 50."""
    budget = {name: 100 * amount for name, amount in MEASURES[kind].items()}
    ledger = dfp.Ledger(tmp_path / "b.db", **(budget if is_analyst else MEASURES[kind]))
    analyst = "ann" if is_analyst else None
    total = MEASURES[kind][kind]
    for parts in range(1, 51):
        name = f"d{parts}"
        if is_analyst:
            ledger.allow("ann", name, **MEASURES[kind])
        part = split_total(kind, total, parts)
        for _ in range(parts):
            ledger.charge(name, part, analyst=analyst)
        with pytest.raises(dfp.BudgetExceededError):
            ledger.charge(name, part, analyst=analyst)
        left = ledger.remaining(name, analyst=analyst)
        assert (left.delta if kind == "delta" else getattr(left, kind)) <= total * 1e-14
    assert dfp.Ledger(ledger.path).datasets() == sorted(f"d{parts}" for parts in range(1, 51))


def test_steps_of_numpy_fit(tmp_path, fast_disk):
    """0.1, 0.2 and 0.30000000000000004, the steps of numpy.arange, fit into 0.6."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=0.6)
    for epsilon in np.arange(0.1, 0.4, 0.1)[:3]:
        ledger.charge("d", charge(float(epsilon)))
    assert ledger.remaining("d") == dfp.Budget(epsilon=0.0)
    with pytest.raises(dfp.BudgetExceededError):
        ledger.charge("d", charge(1e-9))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    total=st.sampled_from([0.6, 1.0, 1e9]),
    amounts=st.lists(st.floats(2**-46, 2**-38), min_size=40, max_size=40),
)
def test_the_excess_does_not_add_up(tmp_path_factory, fast_disk, total, amounts):
    """After the whole budget no sequence of tiny charges takes more than 2**-40 of it in all."""
    ledger = dfp.Ledger(tmp_path_factory.mktemp("t") / "b.db", epsilon=total)
    ledger.charge("d", charge(total))
    spent, limit = exactly(total), exactly(total) * (1 + Fraction(1, 2**40))
    for amount in amounts:
        cost = Fraction(amount) * exactly(total)
        try:
            ledger.charge("d", charge(cost))
        except dfp.BudgetExceededError:
            assert spent + cost + Fraction(41, PER_ONE) > limit
        else:
            spent += cost
            assert spent <= limit
        assert ledger.remaining("d").epsilon == 0


def test_a_ledger_of_the_schema_before_stays_readable(tmp_path, fast_disk):
    """A file in units of 1e-9 is read and charged in these, by the same rules as when written."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, delta=1e-6)
    old = in_old_units(ledger.path)
    again = dfp.Ledger(old, epsilon=1, delta=1e-6)
    again.charge("d", charge(Fraction(1, 3), delta=1e-7))
    again.allow("ann", "shared", epsilon=Fraction(1, 3))
    assert list_confirmed(old)[-1]["cost"] == 333_333_334
    assert list_confirmed(old)[-1]["cost_delta"] == 10**11
    assert again.remaining("d") == dfp.Budget(epsilon=0.666666666, delta=9e-7)
    assert again.remaining("shared", analyst="ann").epsilon == 0.333333333
    assert again.total("d") == dfp.Budget(epsilon=0.33333333333333337, delta=1e-7)
    assert list(again.history("d")["delta"]) == [1e-7]
    again.charge("d", charge(0.666666666))
    with pytest.raises(dfp.BudgetExceededError):
        again.charge("d", charge(1e-12))
    assert dfp.Ledger(old).remaining("d").epsilon == 0
