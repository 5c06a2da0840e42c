"""Thresholds: losses are distances of ranks, moved by at most 1 a row, and constants are public."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import (
    EntropyError,
    InvalidBoundsError,
    InvalidLossError,
    InvalidQuestionError,
    TooManyRowsError,
)
from dfprivacy.estimators.subset_optimal import (
    dick_bounds,
    least_rows,
    printed_rank,
    public_rank,
    subset_bounds,
)
from dfprivacy.estimators.threshold import (
    select_thresholds,
    threshold_runs,
    window_grid,
    window_runs,
    window_threshold,
)
from dfprivacy.statistics.bin_table import BinTable, bin_table
from dfprivacy.statistics.binning import Octaves, SignificantBits
from dfprivacy.terms import Bounds

SIDES = ["lower", "upper"]
GRID = SignificantBits(3)
SURE = Epsilon(Fraction(2**40))
"""A worse candidate is chosen with probability below m * exp(-2**39): never."""


@dataclass(frozen=True)
class Line(SignificantBits):
    """The bins -bits, ..., bits alone: a grid small enough to look at every candidate."""

    @property
    def last(self):
        return self.bits


def table_of(*groups, grid=GRID):
    """Make a table from {bin: rows} of each group."""
    entries = [(g, b, r) for g, group in enumerate(groups) for b, r in sorted(group.items())]
    columns = np.array(entries, np.int64).reshape(-1, 3).T.copy()
    keys = pa.table({"g": pa.array(range(len(groups)), pa.int64())})
    return BinTable(keys, len(groups), grid, *columns)


def defined_losses(counts, rank, side, last):
    """max(0, F<(c) - rank, rank - F(c)) from the definition, for the bins -last, ..., last."""
    if side == "upper":
        counts = {-n: r for n, r in counts.items()}
    losses = []
    for c in range(-last, last + 1):
        below = sum(r for n, r in counts.items() if n < c)
        upto = sum(r for n, r in counts.items() if n <= c)
        losses.append(max(0, below - rank, rank - upto))
    return losses if side == "lower" else losses[::-1]


def expanded(runs, group, lowest, highest):
    """Losses candidate by candidate; the runs of the group are exactly the candidates."""
    ends = np.append(runs.group_starts, len(runs.first))
    part = slice(ends[group], ends[group + 1])
    first, length, loss = runs.first[part], runs.length[part], runs.loss[part]
    candidates = np.concatenate([f + np.arange(w) for f, w in zip(first, length, strict=True)])
    assert candidates.tolist() == list(range(lowest, highest + 1))
    return np.repeat(loss, length).tolist()


def random_group(random):
    bins = random.choice(np.arange(-8, 9), random.integers(0, 7), replace=False)
    return {int(b): int(r) for b, r in zip(bins, random.integers(1, 9, len(bins)), strict=True)}


@pytest.mark.parametrize("side", SIDES)
def test_losses_of_many_groups(side):
    """400 random groups, empty ones too, give the losses of the definition in one call."""
    random = np.random.default_rng(0)
    groups = [random_group(random) for _ in range(400)]
    assert {} in groups
    for rank, last in itertools.product((0, 1, 7, 60), (8, 9, 30)):
        runs = threshold_runs(table_of(*groups, grid=Line(last)), rank, side)
        for index, counts in enumerate(groups):
            expected = defined_losses(counts, rank, side, last)
            assert expanded(runs, index, -last, last) == expected


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("groups", [(), ({},), ({}, {}), ({}, {1: 3}, {})], ids=str)
def test_tables_without_rows(side, groups):
    """No groups, no rows, empty groups first and last: one choice a group, on the grid."""
    chosen = select_thresholds(table_of(*groups), 2, Epsilon(Fraction(1)), side)
    assert chosen.dtype == np.int64
    assert chosen.shape == (len(groups),)
    assert (np.abs(chosen) <= GRID.last).all()


def small_counts(most=4, bins=range(-1, 3)):
    for size in range(most + 1):
        for rows in itertools.combinations_with_replacement(bins, size):
            yield {b: rows.count(b) for b in set(rows)}


@pytest.mark.parametrize("side", SIDES)
def test_one_row_moves_losses_by_one(side):
    """All data sets of up to four rows in four bins, with and without each further row."""
    moved = set()
    for rank, grid in itertools.product((0, 2, 9), (Line(2), Line(4))):
        ends = -grid.last, grid.last
        for counts in small_counts():
            own = expanded(threshold_runs(table_of(counts, grid=grid), rank, side), 0, *ends)
            for number in range(-1, 3):
                more = table_of({**counts, number: counts.get(number, 0) + 1}, grid=grid)
                other = expanded(threshold_runs(more, rank, side), 0, *ends)
                moved |= {abs(a - b) for a, b in zip(own, other, strict=True)}
    assert moved == {0, 1}


@pytest.mark.parametrize("side", SIDES)
def test_sure_choices_have_the_rank(side):
    """At a huge epsilon the choice is a bin that holds the row of this rank from that side."""
    values = np.sort(np.random.default_rng(3).normal(size=500))
    grid = SignificantBits(20)
    table = bin_table(
        pa.table({}), 1, grid, np.zeros(500, np.int64), values, rows=np.ones(500, int)
    )
    for rank in (1, 2, 250, 499, 500):
        (chosen,) = grid.values(select_thresholds(table, rank, SURE, side))
        ordered = np.sort(grid.labels(values))
        ordered = ordered if side == "lower" else -ordered[::-1]
        chosen = chosen if side == "lower" else -chosen
        assert (ordered < chosen).sum() <= rank <= (ordered <= chosen).sum()


def test_ranks_beyond_the_rows():
    """A rank above the number of rows is no error: the choice goes beyond the last row."""
    for side, sign in (("lower", 1), ("upper", -1)):
        (chosen,) = select_thresholds(table_of({2: 5}), 100, SURE, side)
        assert sign * chosen >= sign * 2


@pytest.mark.parametrize("rank", [-1, 2**52 + 1, 1.0, True, None, "1"])
def test_other_ranks_are_refused(rank):
    """A rank is a public integer."""
    with pytest.raises(InvalidQuestionError, match="Hint"):
        select_thresholds(table_of({}), rank, SURE)


def test_other_sides_and_tables_are_refused():
    """Sides are lower and upper; octaves are not values."""
    with pytest.raises(InvalidQuestionError, match="side"):
        select_thresholds(table_of({}), 1, SURE, "middle")
    with pytest.raises(InvalidQuestionError, match="table of values"):
        select_thresholds(table_of({}, grid=Octaves()), 1, SURE)
    with pytest.raises(InvalidQuestionError, match="table of values"):
        subset_bounds(table_of({}, grid=Octaves()), SURE)


# Windows


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


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"alpha": 0}, InvalidQuestionError),
        ({"alpha": math.nan}, InvalidQuestionError),
        ({"alpha": "1"}, InvalidQuestionError),
        ({"rank": -1}, InvalidQuestionError),
        ({"side": "top"}, InvalidQuestionError),
        ({"epsilon": 0}, InvalidLossError),
        ({"upper": -1}, InvalidBoundsError),
        ({"rows": np.array([2**33])}, TooManyRowsError),
        ({"entropy": lambda size: b""}, EntropyError),
    ],
    ids=lambda given: ",".join(given) if isinstance(given, dict) else given.__name__,
)
def test_other_windows_are_refused(change, error):
    """Arguments are checked, and messages hold no value."""
    terms = {"values": np.array([123.456]), "rows": np.array([777]), "rank": 3}
    terms |= {"lower": 0, "upper": 1, "alpha": 0.1, "epsilon": 1}
    with pytest.raises(error) as caught:
        window_threshold(**terms | change)
    assert "123" not in str(caught.value)
    assert "777" not in str(caught.value)


# Bounds for a mean


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

    It may be in one of 10**6: three or more have probability below 2e-9.
    """
    loss = Epsilon(Fraction(1, 2))
    counts = np.array([least_rows(1000, loss) for _ in range(2000)])
    assert (counts > 1000).sum() <= 2
    assert counts.min() > 1000 - 150
    assert {least_rows(0, loss) for _ in range(50)} == {1}
