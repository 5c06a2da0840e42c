"""The four protocols of Joseph et al. find the mean, and their intervals hold it."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.local.estimates import NORMAL, RefinedBySides, wilson
from dfprivacy.local.gaussian import (
    TRUSTED_DEVIATION,
    Digits,
    Gaussian,
    expected_shares,
    fitted,
    located_mean,
    located_spread,
    of_present,
)

SIGMA = 2.0
RANDOM = np.random.default_rng(11)


def digits(mean, sigma, low=-3, high=9, error=0.01, absent=0.0):
    """Return the digits that infinitely many users with such values show."""
    levels = high - low + 1
    plain = Digits(low, np.zeros((levels, 4)), np.full(levels, error), np.ones(levels), 1.0)
    shares = expected_shares(plain, np.array([mean]), sigma)[0]
    shares = (1 - absent) * shares + absent / 4
    return Digits(low, shares, np.full(levels, error), np.full(levels, 1e6), 1.0)


MEANS = [0.0, 0.3, -0.3, 1.0, 63.9, 64.0, 64.1, -128.0, 255.7, -301.3, 511.9]


@pytest.mark.parametrize("sigma", [0.25, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("mean", MEANS)
def test_the_located_mean_is_within_two_sigma(mean, sigma):
    """Step 1: with exact shares the walk ends within 2 sigma, wherever the mean lies."""
    low = math.floor(math.log2(sigma))
    assert abs(located_mean(digits(mean, sigma, low=low)) - mean) <= 2 * sigma


def test_the_located_mean_survives_errors_within_their_bound():
    """Step 1: with the largest errors that are trusted, the walk ends within 2 sigma."""
    random = np.random.default_rng(12)
    for _ in range(1500):
        mean, sigma = random.uniform(-500, 500), random.uniform(1, 2)
        exact = digits(mean, sigma, low=0)
        off = TRUSTED_DEVIATION * random.choice([-1, 1], exact.shares.shape)
        given = np.full(10, TRUSTED_DEVIATION), np.ones(10), 1.0
        assert abs(located_mean(Digits(0, exact.shares + off, *given)) - mean) <= 2 * sigma


@pytest.mark.parametrize("sigma", [0.3, 1.0, 1.7, 5.0, 20.0])
@pytest.mark.parametrize("mean", [0.0, 7.7, -100.2])
@pytest.mark.parametrize("absent", [0.0, 0.01, 0.1, 0.6])
def test_the_located_spread_is_near_sigma(mean, sigma, absent):
    """Step 1.5: the lowest level above which all are concentrated lies within a factor of 4.

    Owners without a value, who show all digits alike, change nothing.
    """
    shown = of_present(digits(mean, sigma, absent=absent))
    assert 0.5 <= located_spread(shown) / sigma <= 4
    assert abs(located_mean(of_present(digits(mean, 1.0, low=0, absent=absent))) - mean) <= 2


@pytest.mark.parametrize("absent", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("mean", "sigma"), [(3.3, 1.0), (-210.0, 2.0), (100.1, 7.0)])
def test_the_fit_finds_the_gaussian_behind_exact_digits(mean, sigma, absent):
    """With exact shares the fit gives mean, sigma and the share of owners with a value."""
    exact = digits(mean, sigma, absent=absent)
    start = Gaussian(mean + 0.9 * sigma, 1.9 * sigma)
    found = fitted(exact, start, spreads=start.spread * np.exp2(np.linspace(-2, 1.5, 15)))
    assert abs(found.mean - mean) < 0.05 * sigma
    assert found.spread == pytest.approx(sigma, rel=0.05)
    assert found.present == pytest.approx(1 - absent, abs=0.02)


def test_a_share_above_a_point_tells_the_mean():
    """The value of a count of sides inverts the law of its reports: the sign of the shift is right.

    Reports of an owner at mean + sigma/2 around a point at the mean are expected counts here.
    """
    law = dfp.local.RandomisedResponse(2, dfp.local.gaussian_mean(users=19, sigma=1).loss.pure())
    above = NORMAL.cdf(0.5)
    expected = float(law.other) + above * float(law.truth - law.other)
    found = RefinedBySides(10**9, 10.0, 64.0, True, 0.0, 1.0, round(expected * 10**9), 2.0, law)
    assert found.value == pytest.approx(10.0 + 0.5 * 2.0, abs=1e-6)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.999999])
def test_score_intervals_of_any_level_are_answers(level):
    """At every level and for every count there is an interval, which lies between 0 and 1."""
    deviations = NORMAL.inv_cdf(0.5 + level / 2)
    for total in (1, 2, 30):
        for hits in range(total + 1):
            low, high = wilson(hits, total, deviations)
            assert 0 <= low <= high <= 1


def test_score_intervals_hold_a_proportion():
    """The score interval holds p for 95% of all counts and more, by the exact binomial law."""
    for total in (5, 20, 200):
        ends = [wilson(hits, total, 1.959964) for hits in range(total + 1)]
        for p in np.linspace(0.02, 0.98, 33):
            chances = [
                math.comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(total + 1)
            ]
            held = sum(c for c, (low, high) in zip(chances, ends, strict=True) if low <= p <= high)
            assert held >= 0.945


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
    given, largest = KINDS[kind]
    values = RANDOM.normal(-77.7, SIGMA, 400_000)
    plan = dfp.local.gaussian_mean(users=400_000, epsilon=2, limit=512, **given)
    found = dfp.local.simulate(plan, values)
    assert abs(found + 77.7) <= 6 * found.std_error <= 6 * largest * SIGMA
    assert abs(found.coarse + 77.7) <= 2 * SIGMA or "one round" in kind
    assert found.spread is None or found.spread == pytest.approx(SIGMA, rel=0.3)
    copied = pickle.loads(pickle.dumps(found))
    assert (float(copied), repr(copied)) == (float(found), repr(found))
    low, high = found.interval(0.999999)
    assert low < found.low < found < found.high < high


@pytest.mark.parametrize("users", [1, 2, 19, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_too_few_users_get_an_honest_interval(kind, users):
    """With too few users, by their public number, the interval holds the mean all the same.

    All protocols but one know nothing then and say the whole range; with sigma known, two rounds
    know which side of a point the mean is on, however badly that point was chosen.
    """
    plan = dfp.local.gaussian_mean(users=users, epsilon=0.5, limit=512, **KINDS[kind][0])
    found = dfp.local.simulate(plan, np.full(users, 100.0))
    assert -512 <= found.low <= found <= found.high <= 512
    if kind != "known, two rounds":
        assert (found.low, found.high) == (-512, 512)


def test_intervals_of_few_users_hold():
    """With sigma known, 95% intervals of 200 users hold the mean in 93% of 300 runs and more.

    False alarms: with at least 95%, 300 runs hold fewer than 270 times with probability below
    1e-4 by the binomial law; six standard deviations below are 262, below 1e-6.
    """
    held = 0
    for _ in range(300):
        plan = dfp.local.gaussian_mean(users=200, epsilon=1, limit=64, sigma=SIGMA)
        mean = RANDOM.uniform(-60, 60)
        found = dfp.local.simulate(plan, RANDOM.normal(mean, SIGMA, 200))
        held += found.low <= mean <= found.high
    assert held >= 262


@pytest.mark.parametrize("kind", ["known, two rounds", "unknown, two rounds"])
def test_missing_values_do_not_pull(kind):
    """With a third of the values missing the mean and the spread are found all the same.

    False alarms: below 1e-7, as without missing values; the standard error may be half as large
    again, for all owners add noise to the answer of two thirds.
    """
    values = RANDOM.normal(100.0, SIGMA, 600_000)
    values[RANDOM.random(600_000) < 1 / 3] = np.nan
    plan = dfp.local.gaussian_mean(users=600_000, epsilon=2, limit=512, **KINDS[kind][0])
    found = dfp.local.simulate(plan, values)
    assert abs(found - 100) <= 6 * found.std_error <= 6 * 1.5 * KINDS[kind][1] * SIGMA
    assert found.spread is None or found.spread == pytest.approx(SIGMA, rel=0.3)


def test_frames_simulate():
    """`df.dp.local.gaussian_mean` gives the estimate of `dfp.local` on every kind of frame."""
    values = RANDOM.normal(150, 20, 60_000)
    for frame in (pd.DataFrame({"x": values}), pl.DataFrame({"x": values}).lazy()):
        found = frame.dp.local.gaussian_mean("x", epsilon=3, sigma=20, limit=1000)
        assert isinstance(found, dfp.local.LocalEstimate)
        assert abs(found - 150) < 6 * found.std_error
        assert "for each owner" in repr(found)
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
