"""Noise is drawn within a release that is paid for, and nowhere else."""

import contextvars
import multiprocessing
import os
import sys
import threading
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.accounting.spending import name_account
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import fresh_id, system_entropy
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.release.pipeline import charge_plan, check_charge, permit
from dfprivacy.release.plan import Plan

LAPLACE = DiscreteLaplace(Fraction(10))


def require_refusal(draw=lambda: LAPLACE.sample(3)):
    """Return whether a draw is refused for want of a permit."""
    try:
        draw()
    except dfp.errors.EntropyError as error:
        return "outside of a release" in error.message
    return False


@pytest.mark.parametrize("noise", [LAPLACE, DiscreteGaussian(Fraction(9))])
def test_no_sampler_draws_without_a_release(noise):
    """Every law is refused the system's bytes, and takes those that a caller hands in."""
    assert require_refusal(lambda: noise.sample(3))
    assert require_refusal(lambda: add_to(np.zeros(3, np.int64), noise))
    assert require_refusal(lambda: system_entropy(8))
    assert len(noise.sample(3, os.urandom)) == 3


def test_a_permit_ends_with_its_block():
    """Permits may be nested; after the block, and after an error in it, nothing is drawn."""
    with permit("a test"):
        with permit("another"):
            assert not require_refusal()
        assert not require_refusal()
    assert require_refusal()
    with pytest.raises(ZeroDivisionError), permit("a test"):
        raise ZeroDivisionError
    assert require_refusal()


def test_a_function_is_permitted_for_each_call():
    """As a decorator it permits each call anew, within another call too."""

    @permit("a test")
    def entropy_calls(deep):
        return entropy_calls(deep - 1) if deep else LAPLACE.sample(2)

    for _ in range(2):
        assert len(entropy_calls(3)) == 2
        assert require_refusal()


def test_a_permit_is_of_one_thread():
    """Another thread has none, and a context that was copied inside has none afterwards."""
    refusals = []
    with permit("a test"):
        copied = contextvars.copy_context()
        thread = threading.Thread(target=lambda: refusals.append(require_refusal()))
        thread.start()
        thread.join()
        assert not copied.run(require_refusal)
    assert refusals == [True]
    assert copied.run(require_refusal)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_none():
    """A process that is forked beside a release draws nothing, and makes releases of its own."""
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        assert pool.apply(require_refusal)
        assert pool.apply(_count) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_inside_draws_nothing():
    """A child that is forked within a release can neither draw under its permit nor finish it.

    Not a byte of its own, not after a nested release of its parent, and no answer that was drawn
    before the fork comes out of it. A release that it asks for itself is its own.
    """
    parent = os.getpid()

    def fork(work):
        """Return the exit code of a child: 0 where `work` is true there."""
        child = os.fork()
        if child == 0:
            os._exit(0 if work() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with permit("a test"):
        assert fork(require_refusal) == 0
        with permit("a nested test"):
            assert fork(require_refusal) == 0
        assert fork(lambda: _count() == 1 and require_refusal()) == 0
        assert not require_refusal()
    before = []

    def draws(child):
        with permit("a test"):
            before.append(LAPLACE.sample(3))
            child.append(os.fork())
        return "an answer"

    child = []
    try:
        answer = draws(child)
    except dfp.errors.EntropyError as error:
        os._exit(0 if os.getpid() != parent and "in a child" in error.message else 1)
    finally:
        if os.getpid() != parent:
            os._exit(1)
    assert answer == "an answer"
    assert os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1]) == 0


def _count():
    return round(pd.DataFrame({"x": [1]}).dp.count(epsilon=1e12))


def test_a_protocol_without_rows_pays_before_it_draws(tmp_path):
    """Noise that a caller draws itself is drawn after a charge, and not without one."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=3)
    charge = Charge(Epsilon(Fraction(2)), question="a protocol")
    plan = Plan(charge, name_account(ledger, "d"))
    check_charge(plan)
    assert require_refusal()
    assert ledger.spent("d").epsilon == 0
    with charge_plan(plan):
        assert ledger.spent("d").epsilon == 2
        assert len(LAPLACE.sample(2)) == 2
    assert require_refusal()
    with pytest.raises(dfp.BudgetExceededError):
        check_charge(plan)
    with pytest.raises(dfp.BudgetExceededError), charge_plan(plan):
        pytest.fail("drawn")


def test_names_are_no_noise():
    """An id needs no permit."""
    assert len(fresh_id(8)) == 16
    assert fresh_id(8) != fresh_id(8)


def test_the_way_back_is_proved_before_it_is_paid_for(tmp_path):
    """Keys that can't be handed back are refused by their type, uncharged and undrawn."""
    pa = pytest.importorskip("pyarrow")
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=3, delta=0.5, rho=None)
    views = pa.array(["a", "b"], pa.string_view())
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1] * 3, pa.int32()), views)
    keys = pd.Series(pd.arrays.ArrowExtensionArray(codes))
    frame = pd.DataFrame({"g": keys, "x": range(9)})
    private = frame.dp(ledger=ledger, dataset="d").group_by("g")
    for ask in (
        lambda: private.count(delta=0.1),
        lambda: private.histogram("x", [0, 9], delta=0.1),
    ):
        with pytest.raises(dfp.UnsupportedDtypeError, match="handed back"):
            ask()
    assert ledger.spent("d").epsilon == 0


WAYS = {
    "agg": lambda rows, terms: dfp.frame(rows)(**terms).agg(dfp.mean("x", (0, 9)), dfp.count()),
    "bounds found": lambda rows, terms: dfp.frame(rows)(**terms).mean("x"),
    "median": lambda rows, terms: dfp.frame(rows)(**terms).median("x"),
    "secret keys": lambda rows, terms: (
        dfp.frame(rows)(**terms).group_by("g").mean("x", (0, 9), delta=1e-6)
    ),
    "histogram": lambda rows, terms: dfp.frame(rows)(**terms).histogram("x", [0, 2, 4]),
    "crosstab": lambda rows, terms: dfp.frame(rows)(**terms).crosstab(
        "g", "h", keys={"g": ["a", "b"], "h": [0, 1]}
    ),
    "describe": lambda rows, terms: dfp.frame(rows)(**terms).describe(delta=1e-6),
    "mean_vector": lambda rows, terms: dfp.frame(rows)(**terms).mean_vector(["x"], rho=1, radius=9),
    "limits": lambda rows, terms: dfp.suggest_limits(rows, unit="u", **terms),
    "found limits": lambda rows, terms: dfp.frame(rows)(unit="u", **terms).mean("x", (0, 9)),
    "sql": lambda rows, terms: dfp.sql("SELECT dp_count(*) FROM t", t=rows, **terms),
    "local": lambda rows, terms: dfp.frame(rows)(**terms).local.gaussian_mean(
        "x", epsilon=2, sigma=1.0, limit=10
    ),
    "shuffle": lambda rows, terms: dfp.frame(rows)(**terms).shuffle.sum(
        "x", (0, 9), epsilon=1, delta=1e-6
    ),
}
ADAPTIVE = {"mean_vector"}  # reads rows again around a noisy center, so it is charged first
FRAME = pl.DataFrame(
    {"g": ["a", "b"] * 500, "h": [0, 1] * 500, "x": [1.0, 3.0] * 500, "u": range(1000)}
)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Return rows and terms of a budget; `events` grows with what happens, and if it is paid."""
    events, urandom = [], os.urandom

    class Trace:
        def __init__(self, rho=100, error=None):
            self.events, self.error = events, error
            self.ledger = dfp.Ledger(tmp_path / "budget", rho=rho, delta=0.1)
            self.terms = {"ledger": self.ledger, "dataset": "d"}

        def record(self, event):
            events.append((event, self.ledger.spent("d").rho > 0))

        def read(self, batch):
            self.record("read")
            if self.error is not None:
                raise self.error
            return batch

        def ask(self, way):
            rows = FRAME.lazy().map_batches(self.read, schema=FRAME.schema)
            monkeypatch.setattr(os, "urandom", self.urandom)
            try:
                return WAYS[way](rows, self.terms)
            finally:
                monkeypatch.setattr(os, "urandom", urandom)

        def urandom(self, size):
            if sys._getframe(2).f_code is not fresh_id.__code__:  # an id is no noise
                self.record("draw")
            return urandom(size)

    return Trace


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_read_then_paid_for_then_noise_is_drawn(trace, way):
    """Every way out reads before the charge, draws after it, and leaves no permit behind."""
    release = trace()
    release.ask(way)
    assert release.events[0] == ("read", way in ADAPTIVE)
    assert {paid for event, paid in release.events if event == "draw"} == {True}
    assert require_refusal()


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_can_not_be_read_cost_nothing(trace, way):
    """A source that raises ends the release before noise is drawn, and before the charge."""
    release = trace(error=ValueError("3 rows"))
    with pytest.raises(dfp.DPError) as caught:
        release.ask(way)
    assert "3 rows" not in str(caught.value)
    assert set(release.events) == {("read", way in ADAPTIVE)}
    assert (release.ledger.spent("d").rho > 0) == (way in ADAPTIVE)


@pytest.mark.parametrize("way", WAYS)
def test_a_budget_that_is_too_small_refuses_before_noise_is_drawn(trace, way):
    """An account that raises ends the release uncharged, and no noise is drawn."""
    release = trace(rho=1e-6)
    with pytest.raises(dfp.BudgetExceededError):
        release.ask(way)
    assert not [event for event, _ in release.events if event == "draw"]
    assert release.ledger.spent("d").rho == 0
