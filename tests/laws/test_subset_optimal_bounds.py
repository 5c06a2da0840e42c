"""Bounds for a mean cut few rows, by ranks that are public."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.statistics.mean_by_rank import (
    dick_bounds,
    least_rows,
    printed_rank,
    public_rank,
    subset_bounds,
)
from dfprivacy.terms import Bounds
from tests.laws.threshold_tables import GRID, SURE, table_of


def test_the_rank_is_public_and_sufficient():
    """Beyond 1/epsilon, the rank is the error of a selection at 1e-6, for both losses."""
    for loss in (Epsilon(Fraction(1, 3)), Rho(Fraction(1, 50))):
        epsilon = float(loss.selection(sensitivity=1).epsilon(sensitivity=1))
        expected = 1 / epsilon + 2 / epsilon * math.log(10**6 * 501)
        assert public_rank(loss, 501) == math.ceil(expected)


def test_the_printed_rank():
    """Algorithm 3: alpha = gamma / n, zeta = alpha / (R n epsilon), t = 1/epsilon + beta."""
    for epsilon, radius, gamma, rows in [(1, 1e6, 1e-3, 500), (0.1, 3.0, 0.5, 10**7)]:
        alpha = gamma / rows
        zeta = alpha / (radius * rows * epsilon)
        beta = 2 / epsilon * math.log(2 * radius / (alpha * zeta))
        exact = Epsilon(Fraction(str(epsilon)))
        assert printed_rank(exact, radius, gamma, rows) == math.ceil(1 / epsilon + beta)


def test_subset_bounds_cut_few_rows():
    """Of 300 groups none has a bound beyond 2 t rows, and 290 at least cut a row on each side.

    False alarms: an error of t = 4 ranks has probability below 1e-10; of 3, below 2e-6, ten times.
    """
    random, grid, loss = np.random.default_rng(2), SignificantBits(16), Epsilon(Fraction(40))
    sizes = random.integers(100, 400, 300)
    group, values = np.repeat(np.arange(300), sizes), random.standard_cauchy(sizes.sum()) * 1e5
    keys = pa.table({"g": np.arange(300)})
    rows = np.ones(len(values), np.int64)
    table = bin_table(keys, 300, grid, group, grid.labels(values), rows=rows)
    lower, upper = subset_bounds(table, loss)
    most = 2 * public_rank(Epsilon(Fraction(20)), 2 * grid.last + 1)
    below = np.bincount(group, grid.labels(values) < lower[group], 300)
    above = np.bincount(group, grid.labels(values) > upper[group], 300)
    assert max(below.max(), above.max()) <= most
    assert min((below > 0).sum(), (above > 0).sum()) >= 290


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1)), SURE], ids=str)
def test_subset_bounds_are_ordered(loss):
    """Empty groups, few rows and one value many times: lower < upper, finite, on the grid."""
    groups = [{}, {0: 1}, {5: 10**6}, {GRID.last: 10**6}, {-GRID.last: 10**6}, {1: 500, 2: 500}]
    lower, upper = subset_bounds(table_of(*groups * 50), loss)
    assert lower.shape == upper.shape == (300,)
    assert (lower < upper).all()
    assert np.isfinite([lower, upper]).all()
    assert (GRID.labels(lower) == lower).all()
    assert (lower[4::6] == -(2.0**126)).all()


def test_dick_bounds_cut_few_rows():
    """Bounds of 20,001 rows are near the rank t, and what is left is three tenths.

    False alarms: an error of t - 3 = 118 ranks has probability below 1e-15.
    """
    values = np.linspace(-1, 1, 20_001)
    values[:3] = -1e6
    rows = np.ones(20_001, np.int64)
    for _ in range(20):
        bounds = dick_bounds(values, rows, epsilon=4, radius=1e6, gamma=1e-3)
        assert bounds.left == Epsilon(Fraction(6, 5))
        assert bounds.spent == Epsilon(Fraction(14, 5))
        most = 3 * printed_rank(Epsilon(Fraction(6, 5)), 1e6, 1e-3, 20_001)
        assert -1 < bounds.lower <= -1 + most * 1e-4
        assert 1 - most * 1e-4 <= bounds.upper < 1


def test_dick_bounds_of_few_rows_are_the_radius():
    """Where the ranks don't fit, both bounds are public and nine tenths are left."""
    for size in (0, 1, 2, 100):
        values, rows = np.full(size, 3.0), np.ones(size, np.int64)
        bounds = dick_bounds(values, rows, epsilon=1, radius=1e6, gamma=0.1)
        assert (bounds.lower, bounds.upper) == (-1e6, 1e6)
        assert bounds.left == Epsilon(Fraction(9, 10))
        assert bounds.spent == Epsilon(Fraction(1, 10))


@pytest.mark.parametrize("value", [0.0, 1.0, -1e6, 1e6, 1e-300, 7e300])
@pytest.mark.parametrize(("radius", "gamma"), [(1e6, 0.1), (1e300, 1e-300), (1e-290, 1e-299)])
def test_dick_bounds_of_equal_rows(value, radius, gamma):
    """A million equal rows: bounds in order, their distance no smaller than bounds may be."""
    values, rows = np.array([value]), np.array([10**6])
    bounds = dick_bounds(values, rows, epsilon=5, radius=radius, gamma=gamma)
    assert Bounds(bounds.lower, bounds.upper).width > 0
    slack, inside = max(math.ulp(radius) * 8, 2 * gamma), min(max(value, -radius), radius)
    assert bounds.lower - slack <= inside <= bounds.upper + slack
    assert bounds.left.value + bounds.spent.value == 5


def test_least_rows():
    """The noisy count is at least 1 and above the rows in two of 2,000 draws at most.

    It may be in one of 10**6: three or more have probability below 2e-9, in 50 draws without rows
    far less.
    """
    loss = Epsilon(Fraction(1, 2))
    counts = np.array([least_rows(1000, loss) for _ in range(2000)])
    assert (counts > 1000).sum() <= 2
    assert counts.min() > 1000 - 150
    assert sorted(least_rows(0, loss) for _ in range(50))[:48] == [1] * 48
