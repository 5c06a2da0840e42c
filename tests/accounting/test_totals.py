import functools
import sys
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.accounting.charge import PER_ONE
from dfprivacy.accounting.composition import Composition
from tests.accounting.charges import charge, forge, list_confirmed

DELTA = 1e-6


def test_epsilons_and_deltas_add_up(ledger):
    """Without a delta to spare, a total is the sum of the epsilons and the sum of the deltas."""
    assert ledger.total("flights") == dfp.Budget(epsilon=0.0)
    for _ in range(3):
        ledger.charge("flights", charge(0.1, delta=1e-7))
    ledger.charge("trains", charge(0.7))
    assert ledger.total("flights") == dfp.Budget(epsilon=0.3, delta=3e-7)
    assert ledger.total("flights", delta=3e-7) == dfp.Budget(epsilon=0.3, delta=3e-7)
    assert ledger.total("flights", delta=DELTA) == dfp.Budget(epsilon=0.3, delta=DELTA)


def test_totals_in_rho(tmp_path):
    """Releases in rho, and in epsilon among them, are converted together."""
    ledger = dfp.Ledger(tmp_path / "b.db", rho=1, delta=1e-6)
    ledger.charge("d", charge(rho=0.25, delta=1e-7))
    ledger.charge("d", charge(0.5))
    with pytest.raises(dfp.MissingDeltaError, match="no epsilon without a delta"):
        ledger.total("d")
    total = ledger.total("d", delta=DELTA)
    assert total == Composition(
        ((charge(rho=0.25).loss, 1), (charge(0.5).loss, 1)), Fraction(1, 10**7)
    ).total(DELTA)
    assert 4.4 < total.epsilon < 4.6
    assert ledger.tight_total("d", delta=DELTA).epsilon <= total.epsilon


def test_a_promise_is_that_of_the_whole_budget(tmp_path):
    """The promise does not depend on what was spent, and no history has a larger total."""
    ledger = dfp.Ledger(tmp_path / "b.db", rho=0.5, delta=1e-7)
    promised = ledger.promise(delta=DELTA)
    assert promised == Composition(((charge(rho=0.5).loss, 1),), Fraction(1, 10**7)).total(DELTA)
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
    with pytest.raises(dfp.errors.InvalidLossError):
        getattr(ledger, method)("d", delta=delta)
    with pytest.raises(dfp.MissingDeltaError):
        ledger.tight_total("d", delta=None)


def test_why_a_delta_can_not_be_had(ledger, tmp_path):
    """A refusal says which delta is missing, what has used it up, and what to do."""
    ledger.charge("d", charge(0.5, delta=1e-7))
    with pytest.raises(
        dfp.errors.InvalidLossError, match="counted add up to 1e-7 already"
    ) as refused:
        ledger.total("d", delta=1e-8)
    assert refused.value.hint.startswith("pass a delta above 1e-7")
    rho = dfp.Ledger(tmp_path / "rho.db", rho=1, delta=1e-6)
    rho.charge("d", charge(rho=0.1, delta=1e-7))
    for delta in (1e-7, None):
        with pytest.raises(dfp.MissingDeltaError, match="have spent all of 1e-7") as missing:
            rho.total("d", delta=delta)
        assert "e.g. delta=2e-7:" in missing.value.hint
    assert rho.total("d", delta=2e-7).delta == 2e-7
    with pytest.raises(dfp.MissingDeltaError, match="without a delta of their own\\n"):
        dfp.Ledger(tmp_path / "bare.db", rho=1).promise()


def test_a_history_that_does_not_add_up_is_damaged(ledger):
    """An amount in the file that is not what was charged gives an error and no total."""
    ledger.charge("d", charge(0.5))
    content = ledger.path.read_bytes()
    for amount in ("1/4", "none", "1/0"):
        ledger.path.write_bytes(content)
        forge(ledger.path, ("charge", list_confirmed(ledger.path)[0] | {"amount": amount}))
        for method in (ledger.total, ledger.tight_total):
            with pytest.raises(dfp.errors.LedgerFileError, match="is damaged"):
                method("d", delta=DELTA)


def test_without_the_extra(ledger, monkeypatch):
    """Without dp-accounting the tight total names the command that installs it; others work."""
    ledger.charge("d", charge(0.5))
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    with pytest.raises(dfp.LedgerError, match="which is not installed") as missing:
        ledger.tight_total("d", delta=DELTA)
    assert missing.value.hint == "pip install 'dfprivacy[accounting]'"
    assert ledger.total("d", delta=DELTA).epsilon == 0.5


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
    return functools.reduce(lambda left, right: left.compose(right), laws)


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        for charged_ledger in (ledger, plain):
            charged_ledger.charge("d", charge(amount, delta=delta))
    spent = sum(row["cost"] for row in list_confirmed(plain.path))
    assert exact <= Fraction(spent, PER_ONE) <= exact + Fraction(50, PER_ONE)
    lowest = lower_bound(releases)
    for delta in (1e-5, DELTA):
        tight, total = ledger.tight_total("d", delta=delta), ledger.total("d", delta=delta)
        assert lowest.get_epsilon_for_delta(delta) <= tight.epsilon <= total.epsilon
        assert tight.delta == total.delta == delta
    pure_only = [release for release in releases if release[0] != "gaussian"]
    tight = plain.tight_total("d", delta=DELTA)
    assert lower_bound(pure_only).get_epsilon_for_delta(DELTA) <= tight.epsilon
    assert Fraction(repr(tight.epsilon)) <= exact + Fraction(1, 10**15)
