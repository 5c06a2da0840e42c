"""The four protocols of Joseph et al. find the mean, and their intervals hold it."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

SIGMA = 2.0
RANDOM = np.random.default_rng(11)
MEANS = [0.0, 0.3, -0.3, 1.0, 63.9, 64.0, 64.1, -128.0, 255.7, -301.3, 511.9]


@pytest.mark.parametrize("sigma", [0.25, 2.0])
def test_the_coarse_mean_is_within_two_sigma(sigma):
    """Step 1: with hardly any noise the walk ends within 2 sigma, wherever the mean lies."""
    for mean in MEANS:
        plan = dfp.local.gaussian_mean(users=20_000, epsilon=9, sigma=sigma, limit=512)
        estimate = dfp.local.simulate(plan, RANDOM.normal(mean, sigma, 20_000))
        assert abs(estimate.coarse - mean) <= 2 * sigma
        assert abs(estimate - mean) <= 6 * estimate.std_error


@pytest.mark.parametrize("absent", [0.0, 0.4])
@pytest.mark.parametrize("sigma", [0.7, 5.0, 20.0])
def test_the_spread_is_found(sigma, absent):
    """With hardly any noise mean and spread are found; owners without a value change nothing."""
    for mean in (7.7, -100.2):
        values = RANDOM.normal(mean, sigma, 40_000)
        values[RANDOM.random(40_000) < absent] = np.nan
        plan = dfp.local.gaussian_mean(users=40_000, epsilon=9, sigma_bounds=(0.5, 32.0), limit=512)
        estimate = dfp.local.simulate(plan, values)
        assert estimate.spread == pytest.approx(sigma, rel=0.25)
        assert abs(estimate - mean) <= 6 * estimate.std_error + 0.02 * sigma


@pytest.mark.parametrize("users", [1, 2, 30])
def test_intervals_of_any_level_are_answers(users):
    """At every level there is an interval within the limits, which widens with its level."""
    plan = dfp.local.gaussian_mean(users=users, epsilon=2, limit=64, sigma=SIGMA)
    estimate = dfp.local.simulate(plan, np.full(users, 3.0))
    ends = [estimate.interval(level) for level in (0.01, 0.5, 0.9, 0.999999)]
    assert all(-64 <= low <= high <= 64 for low, high in ends)
    assert all(
        wide[0] <= narrow[0] and narrow[1] <= wide[1] for narrow, wide in itertools.pairwise(ends)
    )


KINDS = {
    "known, two rounds": ({"sigma": SIGMA}, 0.02),
    "known, one round": ({"sigma": SIGMA, "rounds": 1}, 0.2),
    "unknown, two rounds": ({"sigma_bounds": (0.5, 16.0)}, 0.2),
    "unknown, one round": ({"sigma_bounds": (0.5, 16.0), "rounds": 1}, 2.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_protocols_find_the_mean(kind):
    """Each protocol's error stays below six of its standard errors, which are as small as stated.

    False alarms: below 1e-7 for the error of one run, whose noise is nearly normal.
    """
    arguments, largest = KINDS[kind]
    values = RANDOM.normal(-77.7, SIGMA, 400_000)
    plan = dfp.local.gaussian_mean(users=400_000, epsilon=2, limit=512, **arguments)
    estimate = dfp.local.simulate(plan, values)
    assert abs(estimate + 77.7) <= 6 * estimate.std_error <= 6 * largest * SIGMA
    assert abs(estimate.coarse + 77.7) <= 2 * SIGMA or "one round" in kind
    assert estimate.spread is None or estimate.spread == pytest.approx(SIGMA, rel=0.3)
    copied = pickle.loads(pickle.dumps(estimate))
    assert (float(copied), repr(copied)) == (float(estimate), repr(estimate))
    low, high = estimate.interval(0.999999)
    assert low < estimate.low < estimate < estimate.high < high


@pytest.mark.parametrize("users", [1, 2, 19, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_too_few_users_get_an_honest_interval(kind, users):
    """With too few users, by their public number, the interval holds the mean all the same.

    All protocols but one know nothing then and say the whole range; with sigma known, two rounds
    know which side of a point the mean is on, however badly that point was chosen.
    """
    plan = dfp.local.gaussian_mean(users=users, epsilon=0.5, limit=512, **KINDS[kind][0])
    estimate = dfp.local.simulate(plan, np.full(users, 100.0))
    assert -512 <= estimate.low <= estimate <= estimate.high <= 512
    if kind != "known, two rounds":
        assert (estimate.low, estimate.high) == (-512, 512)


def test_intervals_of_few_users_hold():
    """With sigma known, 95% intervals of 200 users hold the mean in 93% of 300 runs and more.

    False alarms: with at least 95%, 300 runs hold fewer than 270 times with probability below
    1e-4 by the binomial law; six standard deviations below are 262, below 1e-6.
    """
    hits = 0
    for _ in range(300):
        plan = dfp.local.gaussian_mean(users=200, epsilon=1, limit=64, sigma=SIGMA)
        mean = RANDOM.uniform(-60, 60)
        estimate = dfp.local.simulate(plan, RANDOM.normal(mean, SIGMA, 200))
        hits += estimate.low <= mean <= estimate.high
    assert hits >= 262


@pytest.mark.parametrize("kind", ["known, two rounds", "unknown, two rounds"])
def test_missing_values_do_not_pull(kind):
    """With a third of the values missing the mean and the spread are found all the same.

    False alarms: below 1e-7, as without missing values; the standard error may be half as large
    again, for all owners add noise to the answer of two thirds.
    """
    values = RANDOM.normal(100.0, SIGMA, 600_000)
    values[RANDOM.random(600_000) < 1 / 3] = np.nan
    plan = dfp.local.gaussian_mean(users=600_000, epsilon=2, limit=512, **KINDS[kind][0])
    estimate = dfp.local.simulate(plan, values)
    assert abs(estimate - 100) <= 6 * estimate.std_error <= 6 * 1.5 * KINDS[kind][1] * SIGMA
    assert estimate.spread is None or estimate.spread == pytest.approx(SIGMA, rel=0.3)


def test_frames_simulate():
    """`df.dp.local.gaussian_mean` gives the estimate of `dfp.local` on every kind of frame."""
    values = RANDOM.normal(150, 20, 60_000)
    for frame in (pd.DataFrame({"x": values}), pl.DataFrame({"x": values}).lazy()):
        estimate = frame.dp.local.gaussian_mean("x", epsilon=3, sigma=20, limit=1000)
        assert isinstance(estimate, dfp.local.LocalEstimate)
        assert abs(estimate - 150) < 6 * estimate.std_error
        assert "for each owner" in repr(estimate)
        with pytest.raises(dfp.MissingColumnError):
            frame.dp.local.gaussian_mean("y", sigma=20)
    with pytest.raises(dfp.UnsupportedDtypeError):
        pd.DataFrame({"x": ["a"]}).dp.local.gaussian_mean("x", sigma=20)


def test_a_simulation_is_charged_once(tmp_path):
    """A ledger in force pays epsilon for a simulation, before anything is drawn."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, delta=1e-6)
    frame = pd.DataFrame({"x": RANDOM.normal(0, 1, 1000)})
    private = frame.dp(ledger=ledger, dataset="x")
    private.local.gaussian_mean("x", epsilon=0.75, sigma=1.0)
    assert ledger.remaining("x").epsilon == 0.25
    with pytest.raises(dfp.BudgetExceededError):
        private.local.gaussian_mean("x", epsilon=0.5, sigma=1.0)
    private.shuffle.sum("x", (-1, 1), epsilon=0.25, delta=1e-7)
    assert ledger.remaining("x").epsilon == 0
