"""Means of vectors are as accurate as their papers say, and by default more so.

Each check raises a false alarm in less
than one run in 10**6: limits are six standard deviations of the averaged errors or more, as
measured over 100 runs.
"""

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp

pytestmark = pytest.mark.slow

N = 4000


def normal(n, d, mu=0.0, sigma=1.0):
    x = mu + np.random.default_rng().normal(size=(n, d)) * sigma
    return pl.DataFrame({"v": pl.Series(x, dtype=pl.Array(pl.Float64, d))})


def error(frame, mu, **terms):
    mean = frame.dp.mean_vector("v", **terms)
    assert isinstance(mean, dfp.VectorEstimate)
    return float(np.linalg.norm(mean.values - mu))


def noise(x, **terms):
    frame = pl.DataFrame({"v": pl.Series(x, dtype=pl.Array(pl.Float64, x.shape[1]))})
    return float(np.linalg.norm(frame.dp.mean_vector("v", **terms).values - x.mean(axis=0)))


@pytest.mark.parametrize(
    ("neighbors", "lower", "upper"), [("replace", 0.24, 0.29), ("add-remove", 0.12, 0.148)]
)
def test_three_rounds_have_little_noise(neighbors, lower, upper):
    """At d = 128, rho = 0.045, around 10: 0.264 off the mean of the rows, or 0.134, on average.

    The shifted mean is 0.313 and 0.160 off, the best CoinPress 0.306 (replace). One run varies by
    0.018, or 0.010: the limits are six standard deviations of the average of 20, or more.
    """
    x = 10 + np.random.default_rng().normal(size=(N, 128))
    terms = {"rho": 0.045, "radius": 566, "neighbors": neighbors}
    assert lower < np.mean([noise(x, **terms) for _ in range(20)]) < upper


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
def test_no_threshold_strays(neighbors):
    """At d = 16 fewer than three of 150 runs are three times further off than the median run.

    The noise alone does that with a probability below 1e-20, and the six choices of a threshold
    stray in one run of a thousand at most, together: three of 150 in fewer than one of 10**6 at
    1.2e-4. Medians of rotated coordinates, and thresholds searched by noisy counts, strayed in one
    run of twenty.
    """
    x = 10 + np.random.default_rng().normal(size=(1000, 16))
    terms = {"rho": 0.5, "radius": 200, "neighbors": neighbors}
    errors = np.array([noise(x, **terms) for _ in range(150)])
    assert np.sum(errors > 3 * np.median(errors)) < 3


@pytest.mark.parametrize(
    ("neighbors", "lower", "upper"), [("replace", 0.16, 0.25), ("add-remove", 0.15, 0.22)]
)
def test_shifted_has_the_error_of_the_paper(neighbors, lower, upper):
    """At d = 128, rho = 1/2: usually about 0.205 under replace, 0.185 under add-remove.

    For any mu; a run in some thousand goes astray.
    """
    errors = [
        error(normal(N, 128, mu), mu, rho=0.5, radius=566, neighbors=neighbors, method="shifted")
        for mu in (0, 5, 10)
        for _ in range(3)
    ]
    assert lower < np.median(errors) < upper


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
def test_plan_is_ahead_of_shifted_on_skewed_data(neighbors):
    """Gaussian B, a = 2, d = 128: PLAN's noise is less than half of that of shifted."""
    sigma = 128 / np.arange(1, 129)
    frame = normal(N, 128, 10.0, sigma)
    terms = {"rho": 0.25, "radius": 50_000, "neighbors": neighbors}
    plan, shifted = (
        np.linalg.norm(frame.dp.mean_vector("v", method=method, **terms).std_error)
        for method in ("plan", "shifted")
    )
    assert plan < shifted / 2


@pytest.mark.parametrize("method", ["clipped", "recentered"])
def test_intervals_cover_the_clipped_mean(method):
    """Intervals at 1 - 10**-8 hold all 40 coordinates of the clipped mean, and are narrow."""
    rows = np.tile([[1.0], [3.0]], (1500, 40))
    frame = pl.DataFrame(rows, schema=[f"x{i}" for i in range(40)])
    mean = frame.dp.mean_vector(frame.columns, rho=5, radius=100, method=method)
    low, high = mean.interval(1 - 1e-8)
    away = rows / mean.noisy.step - mean.noisy.center
    lengths = np.linalg.norm(away, axis=1, keepdims=True)
    cut = (away * np.minimum(1.0, mean.noisy.threshold / lengths)).mean(axis=0)
    truth = (mean.noisy.center + cut) * mean.noisy.step
    assert ((low <= truth) & (truth <= high)).all()
    assert (high - low).max() < 0.5


def test_items_are_as_accurate_as_published():
    """Binary, d = 512, rho = 1/4, r = 1/4: TVD about 1.17 in the authors' runs under replace.

    Under add-remove it is about 0.87, with a standard deviation of 0.035 and a tail to the right:
    two of three runs are bad in fewer than one of 1e9.
    """
    p = np.where(np.arange(512) < 128, 0.5, 0.01)
    x = np.random.default_rng().random((4096, 512)) < p
    sets = [np.flatnonzero(row).tolist() for row in x]
    frame = pl.DataFrame({"s": pl.Series(sets, dtype=pl.List(pl.Int64))})

    def distance(neighbors):
        mean = frame.dp.mean_vector("s", rho=0.25, universe=512, p=1, neighbors=neighbors)
        return np.abs(mean.values - p).sum() / 2

    assert sorted(distance("replace") for _ in range(3))[1] < 1.4
    assert sorted(distance("add-remove") for _ in range(3))[1] < 1.1
