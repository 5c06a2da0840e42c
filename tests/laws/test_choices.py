"""Choices are made from losses that follow their definition, and a row moves these as declared.

The references go through every candidate, and through all small data sets. Tests at a large epsilon
have a false-alarm rate below 1e-12 each: another answer has a probability of at most exp(-50).
"""

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.noise.selection import ExponentialMechanism, Selection
from dfprivacy.papers.monotone import QuantileLength, select_order_statistic
from dfprivacy.papers.subset_optimal import (
    dick_bounds,
    find_printed_rank,
    least_rows,
    public_rank,
    subset_bounds,
    window_grid,
    window_runs,
    window_threshold,
)
from dfprivacy.statistics.estimators.monotone import CentreLength, length_beyond
from dfprivacy.statistics.estimators.quantile import threshold_runs

pytestmark = pytest.mark.usefixtures("permitted")
HALF = Fraction(1, 2)


# Thresholds: ranks that are public


SIDES = ["lower", "upper"]
COARSE = SignificantBits(3)
CERTAIN = Epsilon(Fraction(2**40))
"""A worse candidate is chosen with probability below m * exp(-2**39): never."""


def bins_table(*groups, grid=COARSE):
    """Make a table from {bin: rows} of each group."""
    entries = [(g, b, r) for g, group in enumerate(groups) for b, r in sorted(group.items())]
    columns = np.array(entries, np.int64).reshape(-1, 3).T.copy()
    keys = pa.table({"g": pa.array(range(len(groups)), pa.int64())})
    return BinTable(keys, len(groups), grid, *columns)


def list_losses(runs, group, lowest, highest):
    """Losses candidate by candidate; the runs of the group are exactly the candidates."""
    ends = np.append(runs.group_starts, len(runs.first))
    part = slice(ends[group], ends[group + 1])
    first, length, loss = runs.first[part], runs.length[part], runs.loss[part]
    candidates = np.concatenate([f + np.arange(w) for f, w in zip(first, length, strict=True)])
    assert candidates.tolist() == list(range(lowest, highest + 1))
    return np.repeat(loss, length).tolist()


@dataclass(frozen=True)
class FewBins(SignificantBits):
    """The bins -bits, ..., bits alone: a grid small enough to look at every candidate."""

    @property
    def last(self):
        return self.bits


def define_losses(counts, rank, side, last):
    """max(0, F<(c) - rank, rank - F(c)) from the definition, for the bins -last, ..., last."""
    if side == "upper":
        counts = {-n: r for n, r in counts.items()}
    losses = []
    for c in range(-last, last + 1):
        below = sum(r for n, r in counts.items() if n < c)
        upto = sum(r for n, r in counts.items() if n <= c)
        losses.append(max(0, below - rank, rank - upto))
    return losses if side == "lower" else losses[::-1]


def random_group(random):
    bins = random.choice(np.arange(-8, 9), random.integers(0, 7), replace=False)
    return {int(b): int(r) for b, r in zip(bins, random.integers(1, 9, len(bins)), strict=True)}


def small_counts(max_rows=4, bins=range(-1, 3)):
    for size in range(max_rows + 1):
        for rows in itertools.combinations_with_replacement(bins, size):
            yield {b: rows.count(b) for b in set(rows)}


@pytest.mark.parametrize("side", SIDES)
def test_one_row_moves_losses_by_one(side):
    """All data sets of up to four rows in four bins, with and without each further row."""
    moved = set()
    for rank, grid in itertools.product((0, 2, 9), (FewBins(2), FewBins(4))):
        ends = -grid.last, grid.last
        for counts in small_counts():
            losses = list_losses(
                threshold_runs(bins_table(counts, grid=grid), rank, side), 0, *ends
            )
            for number in range(-1, 3):
                more = bins_table({**counts, number: counts.get(number, 0) + 1}, grid=grid)
                other = list_losses(threshold_runs(more, rank, side), 0, *ends)
                moved |= {abs(a - b) for a, b in zip(losses, other, strict=True)}
    assert moved == {0, 1}


@pytest.mark.parametrize("side", SIDES)
def test_losses_of_many_groups(side):
    """100 random groups, empty ones too, give the losses of the definition in one call."""
    random = np.random.default_rng(0)
    groups = [random_group(random) for _ in range(100)]
    assert {} in groups
    for rank, last in itertools.product((0, 1, 7, 60), (8, 9, 30)):
        runs = threshold_runs(bins_table(*groups, grid=FewBins(last)), rank, side)
        for index, counts in enumerate(groups):
            expected = define_losses(counts, rank, side, last)
            assert list_losses(runs, index, -last, last) == expected


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
        assert list_losses(runs, 0, grid.first, grid.last) == expected


@pytest.mark.parametrize(("lower", "upper", "alpha"), WINDOWS)
@pytest.mark.parametrize("side", SIDES)
def test_sure_windows_hold_the_rank(lower, upper, alpha, side):
    """At a huge epsilon the row of the rank is within alpha: in the column's own units."""
    random = np.random.default_rng(11)
    for _ in range(20):
        values = np.sort(random.uniform(lower - 1, upper + 1, 30))
        rank = int(random.integers(1, 31))
        terms = {"bounds": Bounds(lower, upper), "alpha": alpha, "side": side}
        ones = np.ones(30, np.int64)
        result = window_threshold(values, ones, rank, **terms, loss=CERTAIN)
        ends = (lower, upper) if side == "lower" else (-upper, -lower)
        clipped = np.clip(values if side == "lower" else -values[::-1], *ends)
        threshold = result if side == "lower" else -result
        assert lower <= result <= upper
        assert (clipped < threshold - alpha).sum() <= rank <= (clipped <= threshold + alpha).sum()


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
    terms = {"bounds": Bounds(-8, 8), "alpha": 0.25, "loss": CERTAIN}
    results = [window_threshold(values, rows, rank, **terms) for rank in (5, 15, 25)]
    assert np.abs(np.array(results) - [-8, 1, 8]).max() <= 0.25


# Lengths: how many rows away data with the property are

POWERS = [1 + 2**-52, 1.01, 1.5, 2, 17.3, 64]
POINTS = 5
MOST = 4
LEVELS_OF_LENGTHS = [Fraction(1, 100), Fraction(1, 4), HALF, Fraction(2, 3), Fraction(9, 10)]
CENTERS = {f"p={p}": (CentreLength(p), p) for p in (1.5, 2, 3, 7.25)}
OTHERS = [CentreLength(1.01), CentreLength(40), CentreLength(64), QuantileLength(0.123)]
EVERY = [*map(QuantileLength, LEVELS_OF_LENGTHS), *(c for c, _ in CENTERS.values()), *OTHERS]


@functools.cache
def count_sets(max_rows, points=POINTS):
    """Rows at each of the points, for every data set of up to so many rows."""
    counts = itertools.product(range(max_rows + 1), repeat=points)
    return np.array([c for c in counts if sum(c) <= max_rows], np.int64)


def lengths(functional, counts, lowest=0):
    values = np.flatnonzero(counts)
    candidates = np.arange(lowest, lowest + len(counts))
    return functional.lengths(values + lowest, np.asarray(counts)[values], candidates)


def distances_to(counts, allowed):
    """Rows between one data set and the nearest allowed one; candidates are columns."""
    others = count_sets(2 * int(sum(counts)) + 1)
    rows = np.abs(others - counts).sum(axis=1)
    return np.where(allowed(others), rows[:, None], 10**6).min(axis=0)


def quantile_is(q):
    """Allow data sets, not empty, whose smallest v with F(v) >= q N is each point: in integers."""

    def allow(others):
        upto = np.cumsum(others, axis=1) * q.denominator
        goal = others.sum(axis=1, keepdims=True) * q.numerator
        first = (upto >= goal).argmax(axis=1)
        return (first[:, None] == np.arange(POINTS)) & (goal > 0)

    return allow


def pulls(others, p):
    gaps = np.arange(POINTS)[:, None] - np.arange(POINTS)
    exact = np.sign(gaps) * np.abs(gaps).astype(float) ** (p - 1)
    total = others @ exact
    return np.where(np.abs(total) < 1e-9, 0, total)


def center_is(p, sign):
    """Allow data sets, not empty, whose center is not above each point (or not below, sign -1)."""
    return lambda others: (sign * pulls(others, p) <= 0) & (others.sum(axis=1, keepdims=True) > 0)


@pytest.mark.parametrize("name", CENTERS)
def test_center_lengths_are_distances(name):
    """A length is the larger distance to data with a center not above, and not below."""
    functional, p = CENTERS[name]
    for counts in count_sets(3):
        sides = [distances_to(counts, center_is(p, sign)) for sign in (1, -1)]
        assert (lengths(functional, counts) == np.maximum(*sides)).all()


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_one_row_moves_lengths_by_one(functional):
    """Neighbors: all data sets of up to five rows with each of them removed."""
    lengths_by_counts = {tuple(c): lengths(functional, c) for c in count_sets(MOST + 1)}
    moved = 0
    for counts, full_lengths in lengths_by_counts.items():
        for point in np.flatnonzero(counts):
            other = list(counts)
            other[point] -= 1
            change = np.abs(full_lengths - lengths_by_counts[tuple(other)]).max()
            assert change <= 1
            moved = max(moved, change)
    assert moved == 1


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_one_row_moves_lengths_by_one_in_large_data(functional):
    """One row moves lengths by one in 30 random data sets of up to millions of rows a value."""
    random = np.random.default_rng(5)
    for _ in range(30):
        counts = random.integers(0, 10 ** random.integers(1, 7), 33) * (random.random(33) < 0.3)
        counts += random.random(33) < random.random() / 4
        other = counts + (np.arange(33) == random.integers(33))
        assert np.abs(lengths(functional, counts) - lengths(functional, other)).max() <= 1


@pytest.mark.parametrize("p", [1 + 2**-52, 1.001, 1.5, 2, 3, 17.3, 64])
def test_pulls_are_a_public_table(p):
    """0 at 0 alone, ascending, at most 2**29: whatever the power function of the platform does."""
    table = CentreLength(p).pulls(2**12)
    assert table[0] == 0
    assert table[1] >= 1
    assert (np.diff(table) >= 0).all()
    assert table[-1] == 2**29


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_nothing_wraps_at_the_limit_of_rows(functional):
    """With 2**33 - 1 rows at both ends of 4,097 points, lengths are in [0, rows + 1]."""
    counts = np.zeros(4097, np.int64)
    counts[0], counts[-1] = 2**32, 2**32 - 1
    point_lengths = lengths(functional, counts)
    assert point_lengths.min() >= 0
    assert point_lengths.max() <= 2**33


def lengths_near(p, counts, reach):
    values = np.flatnonzero(counts)
    return CentreLength(p).lengths_near(values, counts[values], len(counts) - 1, reach)


def expected(p, counts, reach):
    values = np.flatnonzero(counts)
    center_lengths = CentreLength(p).lengths(values, counts[values], np.arange(len(counts)))
    return np.minimum(center_lengths, center_lengths.min() + reach)


def data_sets(random, points):
    """Sparse and full, light and heavy, at the ends, in the middle, and none."""
    empty = np.zeros(points, np.int64)
    yield empty
    for places in ([0], [points - 1], [points // 2], [0, points - 1], [1, 2, points - 2]):
        for limit in (2, 1000, 2**31):
            counts = empty.copy()
            counts[places] = random.integers(1, limit, len(places))
            yield counts
    for share, limit in itertools.product((0.01, 0.3, 1), (2, 50, 10**6)):
        counts = random.integers(1, limit, points) * (random.random(points) < share)
        yield counts
        yield np.sort(counts)


@pytest.mark.parametrize("p", POWERS)
def test_near_lengths_are_all_lengths_up_to_the_reach(p):
    """On grids of few and of many points, whatever the data."""
    random = np.random.default_rng(5)
    for points, reach in ((3, 1), (65, 7), (65, 2**60), (257, 200), (257, 10**9)):
        for counts in data_sets(random, points):
            assert np.array_equal(lengths_near(p, counts, reach), expected(p, counts, reach))


def test_what_is_far_is_hardly_ever_chosen():
    """All candidates at the reach weigh e**-45 of the nearest, whatever epsilon is."""
    for epsilon in (Fraction(1, 1000), Fraction(1), Fraction(50)):
        mechanism = ExponentialMechanism.for_epsilon(epsilon, 1)
        weight = 4097 * np.exp(-float(mechanism.rate) * length_beyond(mechanism, 4097))
        assert weight <= np.exp(-45) * 1.000001
        assert length_beyond(mechanism, 4097) <= 54 / mechanism.rate + 1


# Order statistics on a whole grid


LINE_END = POINTS // 2
ON_LINE = range(-LINE_END, LINE_END + 1)
LOSSES = [Epsilon(Fraction(3, 7)), Rho(Fraction(3, 7))]
GRID = SignificantBits(16)
WIDTH = 2 * GRID.last + 1


@pytest.fixture
def watched(monkeypatch):
    """Return mechanism and runs of the one choice that a call makes; nothing is drawn."""

    def watch(call):
        seen = []

        def select(mechanism, runs, entropy=None):
            seen.append((mechanism, runs))
            return np.zeros(len(runs.group_starts), np.int64)

        with monkeypatch.context() as patch:
            patch.setattr(Selection, "select", select)
            call()
        (choice,) = seen
        return choice

    return watch


def chosen_from(functional, counts, loss):
    positions = np.flatnonzero(counts)
    numbers, rows = positions - LINE_END, np.asarray(counts)[positions]
    return lambda: select_order_statistic(functional, numbers, rows, LINE_END, loss)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("q", LEVELS_OF_LENGTHS, ids=str)
def test_every_candidate_has_the_length_of_its_distance(watched, q, loss):
    """Every candidate of the grid is there once, with the distance to data of that quantile.

    For all data sets of up to three rows on five points; the mechanism pays for sensitivity 1.
    """
    for counts in count_sets(3):
        mechanism, runs = watched(chosen_from(QuantileLength(q), counts, loss))
        ends = zip(runs.first.tolist(), runs.length.tolist(), strict=True)
        assert [c for first, length in ends for c in range(first, first + length)] == [*ON_LINE]
        assert (
            np.repeat(runs.loss, runs.length).tolist()
            == distances_to(counts, quantile_is(q)).tolist()
        )
        assert isinstance(mechanism, ExponentialMechanism)
        if isinstance(loss, Epsilon):
            assert mechanism.epsilon(sensitivity=1) == loss.value
        else:
            assert mechanism.rho(sensitivity=1) <= loss.value


def chance_of_others(mechanism, runs, atom):
    """Return how probable it is that the exponential mechanism chooses anything but `atom`."""
    weights = runs.length * np.exp(-float(mechanism.rate) * runs.loss)
    return 1 - float(weights[runs.first == atom].sum() / weights.sum())


@pytest.mark.parametrize("q", [Fraction(1, 100), Fraction(1, 4), HALF, Fraction(9, 10)], ids=str)
def test_order_statistics_need_rows_for_their_level(watched, q):
    """A level needs max(q, 1 - q) / min(q, 1 - q) times (2 / epsilon) log(10 candidates) rows.

    One atom is missed with probability at most 1/10 then, and above 1/10 with a fifth less.
    """
    loss, atom = Epsilon(Fraction(1)), int(GRID.numbers(np.array([5.0]))[0])
    min_rows = max(q, 1 - q) / min(q, 1 - q) * Fraction(2 * math.log(10 * WIDTH))

    def find_missed(rows):
        numbers, counts = np.array([atom]), np.array([rows])
        law = QuantileLength(q)
        call = lambda: select_order_statistic(law, numbers, counts, GRID.last, loss)  # noqa: E731
        return chance_of_others(*watched(call), atom)

    assert find_missed(math.ceil(min_rows)) <= 1 / 10
    assert find_missed(int(min_rows * Fraction(4, 5))) > 1 / 10


# Bounds by ranks


def test_the_printed_rank():
    """Algorithm 3: alpha = gamma / n, zeta = alpha / (R n epsilon), t = 1/epsilon + beta."""
    for epsilon, radius, gamma, rows in [(1, 1e6, 1e-3, 500), (0.1, 3.0, 0.5, 10**7)]:
        alpha = gamma / rows
        zeta = alpha / (radius * rows * epsilon)
        beta = 2 / epsilon * math.log(2 * radius / (alpha * zeta))
        exact = Epsilon(Fraction(str(epsilon)))
        assert find_printed_rank(exact, radius, gamma, rows) == math.ceil(1 / epsilon + beta)


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
    max_cut = 2 * public_rank(Epsilon(Fraction(20)), 2 * grid.last + 1)
    below = np.bincount(group, grid.labels(values) < lower[group], 300)
    above = np.bincount(group, grid.labels(values) > upper[group], 300)
    assert max(below.max(), above.max()) <= max_cut
    assert min((below > 0).sum(), (above > 0).sum()) >= 290


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1)), CERTAIN], ids=str)
def test_subset_bounds_are_ordered(loss):
    """Empty groups, few rows and one value many times: lower < upper, finite, on the grid."""
    groups = [{}, {0: 1}, {5: 10**6}, {COARSE.last: 10**6}, {-COARSE.last: 10**6}, {1: 500, 2: 500}]
    lower, upper = subset_bounds(bins_table(*groups * 50), loss)
    assert lower.shape == upper.shape == (300,)
    assert (lower < upper).all()
    assert np.isfinite([lower, upper]).all()
    assert (COARSE.labels(lower) == lower).all()
    assert (lower[4::6] == -(2.0**126)).all()


def test_dick_bounds_cut_few_rows():
    """Bounds of 20,001 rows are near the rank t, and what is left is three tenths.

    False alarms: an error of t - 3 = 118 ranks has probability below 1e-15.
    """
    values = np.linspace(-1, 1, 20_001)
    values[:3] = -1e6
    rows = np.ones(20_001, np.int64)
    for _ in range(5):
        bounds, left = dick_bounds(values, rows, Epsilon(Fraction(4)), radius=1e6, gamma=1e-3)
        assert left == Epsilon(Fraction(6, 5))
        max_cut = 3 * find_printed_rank(Epsilon(Fraction(6, 5)), 1e6, 1e-3, 20_001)
        assert -1 < bounds.lower <= -1 + max_cut * 1e-4
        assert 1 - max_cut * 1e-4 <= bounds.upper < 1


def test_dick_bounds_of_few_rows_are_the_radius():
    """Where the ranks don't fit, both bounds are public and nine tenths are left."""
    for size in (0, 1, 2, 100):
        values, rows = np.full(size, 3.0), np.ones(size, np.int64)
        bounds, left = dick_bounds(values, rows, Epsilon(Fraction(1)), radius=1e6, gamma=0.1)
        assert bounds == Bounds(-1e6, 1e6)
        assert left == Epsilon(Fraction(9, 10))


@pytest.mark.parametrize(("radius", "gamma"), [(1e6, 0.1), (1e300, 1e-300), (1e-290, 1e-299)])
def test_dick_bounds_of_equal_rows(radius, gamma):
    """A million equal rows: bounds in order, their distance no smaller than bounds may be."""
    for value in (0.0, 1.0, -1e6, 1e6, 1e-300, 7e300):
        check_dick_bounds(value, radius, gamma)


def check_dick_bounds(value, radius, gamma):
    values, rows = np.array([value]), np.array([10**6])
    bounds, left = dick_bounds(values, rows, Epsilon(Fraction(5)), radius=radius, gamma=gamma)
    assert bounds.width > 0
    slack, inside = max(math.ulp(radius) * 8, 2 * gamma), min(max(value, -radius), radius)
    assert bounds.lower - slack <= inside <= bounds.upper + slack
    assert left.value in {Fraction(3, 2), Fraction(9, 2)}


def test_least_rows():
    """The noisy count is at least 1 and above the rows in two of 500 draws at most.

    It may be in one of 10**6: three or more have probability below 2e-9, in 50 draws without rows
    far less.
    """
    loss = Epsilon(Fraction(1, 2))
    counts = np.array([least_rows(1000, loss) for _ in range(500)])
    assert (counts > 1000).sum() <= 2
    assert counts.min() > 1000 - 150
    assert sorted(least_rows(0, loss) for _ in range(50))[:48] == [1] * 48
