"""Thresholds in a window: grids fine enough for alpha, losses that are distances of ranks."""

import math

import numpy as np
import pytest

from dfprivacy.estimators.threshold import window_grid, window_runs, window_threshold
from dfprivacy.terms import Bounds
from tests.laws.threshold_tables import SIDES, SURE, expanded

WINDOWS = [(-4.0, 4.0, 4.0), (-4.0, 4.0, 0.7), (0.3, 9.1, 2.0), (-1.0, 1e6, 3e5), (5.0, 5.5, 1e9)]


@pytest.mark.parametrize(("lower", "upper", "alpha"), WINDOWS)
def test_window_losses(lower, upper, alpha):
    """Runs have the losses of the definition on the grid, for random rows and ranks."""
    random = np.random.default_rng(7)
    grid = window_grid(Bounds(lower, upper), alpha)
    for _ in range(40):
        size = random.integers(0, 8)
        integers = grid.integers(random.uniform(lower, upper, size))
        rows, rank = random.integers(1, 5, size), int(random.integers(0, 25))
        runs = window_runs(grid, integers, rows, rank)
        expected = []
        for t in range(grid.first, grid.last + 1):
            below, upto = rows[integers < t - grid.window], rows[integers <= t + grid.window]
            expected.append(max(0, below.sum() - rank, rank - upto.sum()))
        assert expanded(runs, 0, grid.first, grid.last) == expected


@pytest.mark.parametrize(("lower", "upper", "alpha"), WINDOWS)
@pytest.mark.parametrize("side", SIDES)
def test_sure_windows_hold_the_rank(lower, upper, alpha, side):
    """At a huge epsilon the row of the rank is within alpha: in the column's own units."""
    random = np.random.default_rng(11)
    for _ in range(20):
        values = np.sort(random.uniform(lower - 1, upper + 1, 30))
        rank = int(random.integers(1, 31))
        terms = {"lower": lower, "upper": upper, "alpha": alpha, "side": side}
        ones = np.ones(30, np.int64)
        result = window_threshold(values, ones, rank, **terms, epsilon=SURE.value)
        clipped = np.clip(values if side == "lower" else -values[::-1], *sorted_ends(terms))
        found = result if side == "lower" else -result
        assert lower <= result <= upper
        assert (clipped < found - alpha).sum() <= rank <= (clipped <= found + alpha).sum()


def sorted_ends(terms):
    ends = terms["lower"], terms["upper"]
    return ends if terms["side"] == "lower" else (-ends[1], -ends[0])


@pytest.mark.parametrize(
    ("lower", "upper", "alpha"),
    [
        *WINDOWS,
        (-(2.0**1021), 2.0**1021, 1e-300),
        (-1e-300, 2e-300, 1e-301),
        (1e9, 1e9 + 1e-6, 1e-7),
        (1.0, 1.0 + 2**-52, 1e-30),
        (1.0 - 2**-53, 1.0, 1e-30),
        (-1e6, 1e6, 1e-12),
        (0.0, 3.0, 2.0**-900),
    ],
)
def test_window_grids(lower, upper, alpha):
    """A power of two up to alpha / 4 unless floats are coarser; candidates are floats in range."""
    grid = window_grid(Bounds(lower, upper), alpha)
    step, ulp = 2.0 ** max(grid.exponent, -1074), math.ulp(max(abs(lower), abs(upper)))
    assert step <= max(alpha / 4, ulp)
    assert step > min(alpha, upper - lower) / 16 or step >= ulp
    assert grid.first <= grid.last
    assert grid.last - grid.first < 2**62
    assert lower <= grid.value(grid.first) <= grid.value(grid.last) <= upper
    assert grid.window == 0 or (grid.window + 1) * step <= alpha
    assert grid.window >= 3 or step > min(alpha, (upper - lower) / 2) / 4
    ends = grid.integers(np.array([lower, upper, -np.inf, np.inf]))
    assert ends.tolist() == [grid.first, grid.last] * 2


def test_windows_of_missing_and_infinite_values():
    """NaN holds no value, infinities are the ends."""
    values = np.array([np.nan, np.inf, -np.inf, 1.0])
    rows = np.array([10**6, 10, 10, 10])
    terms = {"lower": -8, "upper": 8, "alpha": 0.25, "epsilon": SURE.value}
    results = [window_threshold(values, rows, rank, **terms) for rank in (5, 15, 25)]
    assert np.abs(np.array(results) - [-8, 1, 8]).max() <= 0.25
