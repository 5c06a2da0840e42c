import functools
import math
import sqlite3
import sys
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import HealthCheck, given, settings
from scipy.stats import norm

import dfprivacy as dfp
from dfprivacy.accounting.composition import (
    Composition,
    float_above,
    levelled,
    responses_law,
    tight_total,
)
from dfprivacy.accounting.loss import Epsilon, Rho
from tests.accounting.charges import charge

DELTA = 1e-6


def pure(*losses):
    return Composition(tuple((Epsilon(Fraction(epsilon)), times) for epsilon, times in losses))


def test_epsilons_and_deltas_add_up(ledger):
    """Without a delta to spare, a total is the sum of the epsilons and the sum of the deltas."""
    assert ledger.total("flights") == dfp.Budget(epsilon=0.0)
    for _ in range(3):
        ledger.charge("flights", charge(0.1, delta=1e-7))
    ledger.charge("trains", charge(0.7))
    assert ledger.total("flights") == dfp.Budget(epsilon=0.3, delta=3e-7)
    assert ledger.total("flights", delta=3e-7) == dfp.Budget(epsilon=0.3, delta=3e-7)
    assert ledger.total("flights", delta=DELTA) == dfp.Budget(epsilon=0.3, delta=DELTA)


def test_many_small_epsilons_amount_to_less(tmp_path, fast_disk):
    """A year of daily releases amounts to less than the sum, and to less still when it is tight."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=10, delta=DELTA)
    for _ in range(365):
        ledger.charge("flights", charge(0.01))
    assert ledger.total("flights").epsilon == 3.65
    assert 0.856 < ledger.total("flights", delta=DELTA).epsilon < 0.857
    assert 0.787 < ledger.tight_total("flights", delta=DELTA).epsilon < 0.792


def test_totals_in_rho(tmp_path):
    """Releases in rho, and in epsilon among them, are converted together."""
    ledger = dfp.Ledger(tmp_path / "b.db", rho=1, delta=1e-6)
    ledger.charge("d", charge(rho=0.25, delta=1e-7))
    ledger.charge("d", charge(0.5))
    with pytest.raises(dfp.MissingDeltaError, match="no epsilon without a delta"):
        ledger.total("d")
    found = ledger.total("d", delta=DELTA)
    assert found == Composition(
        ((Rho(Fraction(1, 4)), 1), (Epsilon(Fraction(1, 2)), 1)), Fraction(1, 10**7)
    ).total(DELTA)
    assert 4.4 < found.epsilon < 4.6
    assert ledger.tight_total("d", delta=DELTA).epsilon <= found.epsilon


def test_a_promise_is_that_of_the_whole_budget(tmp_path):
    """What is promised does not depend on what was spent, and no history has a larger total."""
    ledger = dfp.Ledger(tmp_path / "b.db", rho=0.5, delta=1e-7)
    promised = ledger.promise(delta=DELTA)
    assert promised == Composition(((Rho(Fraction(1, 2)), 1),), Fraction(1, 10**7)).total(DELTA)
    ledger.charge("d", charge(rho=0.25))
    ledger.charge("d", charge(rho=0.25, delta=1e-7))
    assert ledger.promise(delta=DELTA) == promised == ledger.total("d", delta=DELTA)
    plain = dfp.Ledger(tmp_path / "c.db", epsilon=2, delta=1e-7)
    assert plain.promise() == dfp.Budget(epsilon=2.0, delta=1e-7)


@pytest.mark.parametrize("method", ["total", "tight_total"])
@pytest.mark.parametrize("delta", [1e-8, 0, 1, -1, float("nan"), "1e-6", True])
def test_wrong_deltas(ledger, method, delta):
    """A delta below what the releases spent themselves, or that is no number, is refused."""
    ledger.charge("d", charge(0.5, delta=1e-7))
    with pytest.raises(dfp.InvalidLossError):
        getattr(ledger, method)("d", delta=delta)
    with pytest.raises(dfp.MissingDeltaError):
        ledger.tight_total("d", delta=None)


def test_why_a_delta_can_not_be_had(ledger, tmp_path, frame):
    """A refusal says which delta is missing, what has used it up, and what to do."""
    ledger.charge("d", charge(0.5, delta=1e-7))
    with pytest.raises(dfp.InvalidLossError, match="counted add up to 1e-7 already") as refused:
        ledger.total("d", delta=1e-8)
    assert refused.value.hint.startswith("pass a delta above 1e-7")
    rho = dfp.Ledger(tmp_path / "rho.db", rho=1, delta=1e-6)
    rho.charge("d", charge(rho=0.1, delta=1e-7))
    for delta in (1e-7, None):
        with pytest.raises(dfp.MissingDeltaError, match="have spent all of 1e-7"):
            rho.total("d", delta=delta)
    with pytest.raises(dfp.MissingDeltaError, match="without a delta of their own\\n"):
        dfp.Ledger(tmp_path / "bare.db", rho=1).promise()
    none = dfp.Ledger(tmp_path / "none.db", epsilon=1)
    with pytest.raises(dfp.BudgetExceededError, match="left is epsilon 1\n") as exceeded:
        frame.dp(ledger=none, dataset="d").group_by("g").count(epsilon=0.1, delta=1e-6)
    assert "made without a delta" in exceeded.value.hint


def test_a_history_that_does_not_add_up_is_damaged(ledger, fast_disk):
    """An amount in the file that is not what was charged gives an error and no total."""
    ledger.charge("d", charge(0.5))
    for amount in ("1/4", "none", "1/0"):
        connection = sqlite3.connect(ledger.path)
        connection.execute("DROP TRIGGER IF EXISTS keep_charge")
        connection.execute("UPDATE charge SET amount = ?", (amount,))
        connection.commit()
        connection.close()
        for method in (ledger.total, ledger.tight_total):
            with pytest.raises(dfp.LedgerFileError, match="is damaged"):
                method("d", delta=DELTA)


def test_without_the_extra(ledger, monkeypatch):
    """Without dp-accounting the tight total names the command that installs it; others work."""
    ledger.charge("d", charge(0.5))
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    with pytest.raises(dfp.LedgerError, match="which is not installed") as missing:
        ledger.tight_total("d", delta=DELTA)
    assert missing.value.hint == "pip install 'dfprivacy[accounting]'"
    assert ledger.total("d", delta=DELTA).epsilon == 0.5


def optimal_delta(epsilon, times, total):
    """Return the exact delta of composed pure releases (Kairouz, Oh and Viswanath 2015)."""
    up, down = math.exp(epsilon), 1.0
    weights = [
        math.comb(times, k) * max(0.0, up ** (times - k) * down - math.exp(total) * up**k)
        for k in range(times + 1)
    ]
    return sum(weights) / (1 + up) ** times


@pytest.mark.parametrize(("epsilon", "times"), [("1/10", 10), ("1/100", 365), ("1/3", 40), (1, 9)])
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-9])
def test_equal_releases_have_their_optimal_total(epsilon, times, delta):
    """Never below the optimal composition of that many pure releases, and hardly above it."""
    epsilon = Fraction(epsilon)
    found = tight_total(pure((epsilon, times)), delta).epsilon
    assert optimal_delta(float(epsilon), times, found) <= delta
    assert optimal_delta(float(epsilon), times, found * 0.99 - 1e-4) > delta


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 5)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_mixed_releases_are_covered(rho, delta):
    """Randomized responses and a Gaussian release together have no larger delta."""
    losses = ((Epsilon(Fraction(1, 4)), 12), (Epsilon(Fraction(1, 7)), 5), (Rho(rho), 1))
    composition = Composition(losses)
    found = tight_total(composition, delta).epsilon
    shift, exact = math.sqrt(2 * rho), 0.0
    for first in range(13):
        for second in range(6):
            weight = math.comb(12, first) * math.comb(5, second)
            weight /= (1 + math.exp(-1 / 4)) ** 12 * (1 + math.exp(-1 / 7)) ** 5
            loss = (2 * first - 12) / 4 + (2 * second - 5) / 7
            weight *= math.exp(-(12 - first) / 4 - (5 - second) / 7)
            left = found - loss
            rest = math.exp(left + norm.logcdf(-left / shift - shift / 2))
            exact += weight * (norm.cdf(shift / 2 - left / shift) - rest)
    assert exact <= delta
    assert found < composition.total(delta).epsilon


@pytest.mark.parametrize("spent", [Fraction(1, 10**7), Fraction(99, 10**8)])
def test_deltas_leave_less_for_the_composition(spent):
    """What releases spent on keys is taken off the delta before anything else."""
    losses = ((Epsilon(Fraction(1, 10)), 50),)
    found = tight_total(Composition(losses, spent), DELTA)
    assert found.delta == DELTA
    assert found.epsilon == tight_total(Composition(losses), Fraction(1, 10**6) - spent).epsilon
    assert found.epsilon > tight_total(Composition(losses), DELTA).epsilon


program = st.lists(
    st.tuples(
        st.sampled_from(["laplace", "gaussian", "keys"]),
        st.one_of(st.sampled_from([0.1, 0.05, 0.2]), st.floats(0.001, 0.3)),
    ),
    min_size=50,
    max_size=50,
).filter(lambda releases: any(kind != "gaussian" for kind, _ in releases))


def lower_bound(releases):
    """Return dp-accounting's optimistic distribution of the releases, mechanism by mechanism."""
    laws = []
    for kind, amount in releases:
        gaussian = kind == "gaussian"
        make = pld.from_gaussian_mechanism if gaussian else pld.from_laplace_mechanism
        law = make(1 / amount, value_discretization_interval=1e-3, pessimistic_estimate=False)
        laws.append(law)
    return functools.reduce(lambda one, other: one.compose(other), laws)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(releases=program)
def test_random_programs_against_dp_accounting(tmp_path_factory, fast_disk, releases):
    """50 releases: dp-accounting's lower bound <= tight total <= total <= sums.

    The sum of the epsilons in the file is the exact one, at most 50 units above it.
    """
    folder = tmp_path_factory.mktemp("t")
    ledger = dfp.Ledger(folder / "r.db", rho=100, delta=DELTA)
    plain = dfp.Ledger(folder / "e.db", epsilon=100, delta=DELTA)
    exact = Fraction(0)
    for kind, amount in releases:
        delta = 1e-9 if kind == "keys" else None
        if kind == "gaussian":
            ledger.charge("d", charge(rho=Fraction(repr(amount)) ** 2 / 2))
            continue
        exact += Fraction(repr(amount))
        for each in (ledger, plain):
            each.charge("d", charge(amount, delta=delta))
    spent = sum(rows["cost"] for rows in costs(plain))
    assert exact <= Fraction(spent, 10**9) <= exact + Fraction(50, 10**9)
    whole = lower_bound(releases)
    for delta in (1e-5, DELTA):
        tight, total = ledger.tight_total("d", delta=delta), ledger.total("d", delta=delta)
        assert whole.get_epsilon_for_delta(delta) <= tight.epsilon <= total.epsilon
        assert tight.delta == total.delta == delta
    pure_only = [release for release in releases if release[0] != "gaussian"]
    tight = plain.tight_total("d", delta=DELTA)
    assert lower_bound(pure_only).get_epsilon_for_delta(DELTA) <= tight.epsilon
    assert Fraction(repr(tight.epsilon)) <= exact + Fraction(1, 10**15)


def costs(ledger):
    connection = sqlite3.connect(ledger.path)
    connection.row_factory = sqlite3.Row
    rows = connection.execute("SELECT cost FROM charge").fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize(
    "losses",
    [
        pure(*((Fraction(1, 20 + number), 1) for number in range(100))),
        pure((Fraction(1, 10**9), 10**6), (Fraction(1, 2), 1)),
        pure((300, 2)),
        pure((10**6, 1)),
        Composition(((Rho(Fraction(10**6)), 1),)),
        Composition(((Rho(Fraction(1, 10**15)), 3), (Epsilon(Fraction(1, 10)), 2))),
        pure((Fraction(1, 1000), 10**6)),
    ],
    ids=["100 epsilons", "tiny ones", "large", "huge", "huge rho", "tiny rho", "a million"],
)
@pytest.mark.parametrize("delta", [0.4, 1e-7, 1e-15])
def test_a_tight_total_is_never_above_the_plain_one(losses, delta):
    """Whatever the history is, there is a tight total, and it is at most the plain one."""
    tight = tight_total(losses, delta)
    assert 0 <= tight.epsilon <= losses.total(delta).epsilon


@given(st.fractions(0, 10**6))
def test_float_above(value):
    """The float is above or at the value, and the one before the previous is below it."""
    above = float_above(value)
    assert Fraction(repr(above)) >= value
    assert Fraction(float(np.nextafter(np.nextafter(above, -np.inf), -np.inf))) < value or not value


@given(st.integers(1, 300), st.integers(1, 50), st.floats(2**-12, 1))
def test_the_law_of_responses(times, cells, cell):
    """It is a distribution whose losses are symmetric: exp(-l) times as probable at -l as at l."""
    law = responses_law(cells, times, cell)
    assert abs(sum(law.masses.values()) + law.infinite - 1) < 1e-12
    for place, mass in law.masses.items():
        if -place in law.masses and mass > 1e-200:
            ratio = math.log(mass / law.masses[-place])
            assert ratio == pytest.approx(place * cell, rel=1e-9, abs=1e-9)


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 9), min_size=20, max_size=200))
def test_levels_only_round_up(times):
    """Grouped into 32 levels, no release is lost and none gets a smaller epsilon."""
    levels = levelled(times)
    assert len(levels) <= 32
    assert sum(levels.values()) == sum(times.values())
    before, after = (np.repeat(sorted(c), [c[k] for k in sorted(c)]) for c in (times, levels))
    assert (after >= before).all()
