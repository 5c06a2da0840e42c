"""Vectors: grids, rotations and exact tables."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import dfprivacy as dfp
from dfprivacy.measurement.vectors import (
    BucketSpreads,
    Buffers,
    ClippedSums,
    CoordinateCounts,
    Distances,
    ItemCounts,
    ItemRows,
    NormCounts,
    PairDistances,
    Rotation,
    Shifted,
    Windows,
    distance_bins,
    distance_slots,
    find_bin_middle,
    find_squared_limit,
    hadamard,
    incomplete,
    pad_size,
    vector_grid,
)

pytestmark = pytest.mark.usefixtures("permitted")

DIMENSIONS = [1, 2, 3, 8, 33, 300]


def draw_integers(rows, dimension, bits=20, seed=0):
    """Draw whole numbers up to 2**bits, with the ends among them."""
    draws = np.random.default_rng(seed)
    x = draws.integers(-(2**bits), 2**bits + 1, (rows, dimension)).astype(float)
    x.flat[::7] = 2.0**bits
    return x


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 8, 33, 100, 784, 1025])
def test_sums_on_the_grid_stay_exact(dimension):
    """Twice a grid integer, squared and added up over coordinates, is at most 2**53."""
    for radius in (1e-250, 0.3, 1.0, 28.0, 1e250):
        grid = vector_grid(dimension, radius)
        assert dimension * (2 * grid.largest) ** 2 <= 2**53
        assert pad_size(dimension) * grid.largest < 2**53
        assert grid.largest * grid.step == pytest.approx(radius, rel=2 ** -(grid.bits - 1))
        assert 2 ** (grid.bits - 1) <= grid.largest <= 2**grid.bits


@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(width=64, allow_nan=True)),
    st.floats(1e-200, 1e200),
)
def test_a_row_becomes_integers_by_itself(x, radius):
    """Each row's integers are those of a grid that sees it alone; NaN shows as incomplete."""
    grid = vector_grid(3, radius)
    integers = grid.integers(x, np.empty_like(x))
    alone = [grid.integers(row[np.newaxis], np.empty((1, 3)))[0] for row in x]
    np.testing.assert_array_equal(integers, alone)
    np.testing.assert_array_equal(incomplete(integers), np.isnan(x).any(axis=1))
    numbers = integers[~np.isnan(integers)]
    assert (numbers == np.rint(numbers)).all()
    assert (np.abs(numbers) <= grid.largest).all()


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_rotation_is_the_matrix_product(dimension):
    """The fast transform gives H D x in exact integers, and `undo` gives x back."""
    x = draw_integers(9, dimension)
    size = pad_size(dimension)
    signs = np.where(np.random.default_rng(1).random(size) < 0.5, 1.0, -1.0)
    rotation = Rotation(signs, dimension)
    turned = rotation.apply(x, 1.0, Buffers()).copy()
    matrix = hadamard(size).astype(object)
    padded = np.zeros((9, size), object)
    padded[:, :dimension] = (x * signs[:dimension]).astype(np.int64).astype(object)
    np.testing.assert_array_equal(turned, (padded @ matrix).astype(float))
    np.testing.assert_array_equal(rotation.undo(turned[0]), x[0])
    scaled = rotation.apply(x, 2.0**-7, Buffers())
    np.testing.assert_array_equal(scaled, turned * 2.0**-7)


def tables(dimension):
    """Return one table of each dense kind, by name."""
    size = pad_size(dimension)
    rotation = Rotation(np.where(np.arange(size) % 3, 1.0, -1.0), dimension)
    windows = Windows(np.full(size, -(2.0**22)), 15, 256)
    center = np.arange(dimension) * 100.0
    shifted = Shifted(center, 21)
    scaled = Shifted(center, 21, np.linspace(0.1, 0.9, dimension))
    return {
        "coordinates": lambda: CoordinateCounts(Windows(-center - 2**20, 13, 128)),
        "rotated": lambda: CoordinateCounts(windows, rotation),
        "norms": lambda: NormCounts(shifted),
        "sums": lambda: ClippedSums(shifted, 2.0**42),
        "scaled sums": lambda: ClippedSums(scaled, 2.0**38),
        "distances": lambda: Distances(center, 22),
    }


@pytest.mark.parametrize("kind", tables(1))
@pytest.mark.parametrize("dimension", [1, 5, 100])
def test_blocks_add_up_to_the_same_bits(kind, dimension):
    """Blocks of any size, in any order, add up to the same table."""
    x = draw_integers(301, dimension, bits=18)
    make, buffers = tables(dimension)[kind], Buffers()
    once = make()
    once.add(x, buffers)
    order = np.random.default_rng(2).permutation(len(x))
    pieces = make()
    for first in range(0, 150, 11):
        pieces.add(x[order][first : min(first + 11, 150)], buffers)
    pieces.add(x[order][150:], Buffers())
    assert pieces.rows == once.rows == 301
    np.testing.assert_array_equal(pieces.counts, once.counts)
    assert repr(pieces) == f"{type(pieces).__name__}(secret)"


def test_counts_are_those_of_a_loop():
    """Slots are: below the window, each bin from its lower edge on, above the window."""
    table = CoordinateCounts(Windows(np.array([-4.0, 0.0]), 1, 4))
    table.add(np.array([[-5.0, 0.0], [-4.0, 1.0], [-3.0, 2.0], [3.0, 7.0], [4.0, 8.0]]), Buffers())
    assert table.counts.tolist() == [[1, 2, 0, 0, 1, 1], [0, 2, 1, 0, 1, 1]]


@given(hnp.arrays(np.int64, 3, elements=st.integers(-(2**12), 2**12)))
def test_norms_are_counted_exactly(row):
    """A squared norm is in the bin that ends above it, where the bin before ends at most there."""
    table, squared = NormCounts(Shifted(np.zeros(3), 13)), int(sum(row * row))
    table.add(row[np.newaxis].astype(float), Buffers())
    ((bin_number,),) = np.nonzero(table.counts)
    assert squared < find_squared_limit(int(bin_number))
    assert squared >= (find_squared_limit(int(bin_number) - 1) if bin_number else 0)


def test_norms_have_bins_at_the_ends():
    """0 has a bin of its own, and what is longer than all is in the last one."""
    norms = NormCounts(Shifted(np.zeros(2), 3))
    norms.add(np.array([[0.0, 0.0], [3.0, 4.0], [5.0, 0.0], [8.0, 0.0], [9.0, 9.0]]), Buffers())
    assert norms.counts[0] == 1
    assert norms.counts[1 + 4 * 16 + 9] == 2  # 25 = 16 * (1 + 9 / 16)
    assert norms.counts[-1] == 2
    assert find_squared_limit(len(norms.counts) - 1) == 64


@given(
    hnp.arrays(np.int64, st.integers(1, 6), elements=st.integers(-(2**21), 2**21)),
    st.integers(1, 2**40),
)
def test_a_row_moves_a_clipped_sum_by_the_threshold_at_most(row, limit):
    """The squared L2 norm of what one row adds is at most the limit, in exact integers."""
    table = ClippedSums(Shifted(np.zeros(len(row)), 21), float(limit))
    table.add(row[np.newaxis].astype(float), Buffers())
    added = [int(value) for value in table.counts]
    assert sum(value * value for value in added) <= limit
    if sum(int(value) ** 2 for value in row) <= limit:
        assert added == row.tolist()


def test_a_clipped_row_keeps_its_direction():
    """A long row is shortened to the threshold, up to the rounding of its coordinates."""
    table = ClippedSums(Shifted(np.zeros(2), 20), 1000.0**2)
    table.add(np.array([[3e5, 4e5]]), Buffers())
    assert table.counts.tolist() == [599, 799]


def test_distance_bins_are_monotone_and_within_a_sixteenth_octave():
    """Bins ascend with distances; the middle of a bin is within 1/32 of all it holds."""
    bits = 24
    values = np.unique(np.concatenate([np.arange(5000.0), np.logspace(0, 7, 4000).round()]))
    slots = distance_slots(values.copy(), distance_bins(bits) + 2)
    assert (np.diff(slots) >= 0).all()
    assert slots[0] == 1
    middle = find_bin_middle(slots - 1)
    assert middle[0] == 0
    np.testing.assert_allclose(middle[1:], values[1:], rtol=1 / 31)
    ends = np.array([np.inf, 0.0, 0.5])
    assert distance_slots(ends, 514).tolist() == [513, 1, 1]


def test_pairs_are_consecutive_whatever_the_blocks():
    """Groups of consecutive rows run across blocks; one row changes one group."""
    x = draw_integers(41, 3, bits=10)
    once, pieces = PairDistances(3, 12, 2), PairDistances(3, 12, 2)
    once.add(x, Buffers())
    for first in range(0, 41, 5):
        pieces.add(x[first : first + 5], Buffers())
    np.testing.assert_array_equal(once.counts, pieces.counts)
    assert once.groups == pieces.groups == 10
    other = x.copy()
    other[17] = 0
    changed = PairDistances(3, 12, 2)
    changed.add(other, Buffers())
    assert np.abs(changed.counts - once.counts).sum(axis=1).max() <= 2


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_a_row_changes_one_bucket(seed, rows):
    """With one row more, each coordinate has one value in another bin, of as many values."""
    labels = np.random.default_rng(seed).integers(0, 6, rows + 1)
    x = draw_integers(rows + 1, 2, bits=16, seed=seed)

    def spreads(part):
        buckets = iter(labels[: len(part)])
        table = BucketSpreads(
            np.zeros(2),
            6,
            18,
            lambda size: np.array([next(buckets) for _ in range(size)], np.int64),
        )
        for first in range(0, len(part), 7):
            table.add(part[first : first + 7], Buffers())
        return table.distances()

    before, after = spreads(x[:rows]), spreads(x)
    assert before.sum(axis=1).tolist() == after.sum(axis=1).tolist() == [6, 6]
    assert np.abs(np.cumsum(after - before, axis=1)).max(initial=0) <= 1


def test_item_tables_are_those_of_dense_rows():
    """Sparse tables of sets equal dense ones of their 0/1 vectors, scaled by whole numbers."""
    dense = (np.random.default_rng(3).random((60, 9)) < 0.3).astype(float)
    row, item = np.nonzero(dense)
    sets, scale = ItemRows(60, row, item), np.arange(1.0, 10.0) * 1000
    scaled = Shifted(np.zeros(9), 20, scale)
    for sparse, table in (
        (NormCounts(scaled), NormCounts(scaled)),
        (ClippedSums(scaled, 9000.0**2), ClippedSums(scaled, 9000.0**2)),
    ):
        sparse.add(sets, Buffers())
        table.add(dense, Buffers())
        np.testing.assert_array_equal(sparse.counts, table.counts)
        assert sparse.rows == table.rows == 60
    counts = ItemCounts(9)
    counts.add(sets, Buffers())
    np.testing.assert_array_equal(counts.counts, dense.sum(axis=0))


def test_sets_without_items_are_rows():
    """Empty sets have norm 0, and add nothing."""
    empty = ItemRows(3, np.zeros(0, np.int64), np.zeros(0, np.int64))
    unscaled = Shifted(np.zeros(4), 4)
    norms, sums = NormCounts(unscaled), ClippedSums(unscaled, 1.0)
    for table in (norms, sums):
        table.add(empty, Buffers())
        assert table.rows == 3
    assert norms.counts.tolist() == [3, *[0] * 128]
    assert sums.counts.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
def test_the_center_of_plan_is_the_median_of_each_coordinate(neighbors):
    """At a huge rho it is within a bin of the median, from which the mean is far."""
    rows = np.random.default_rng(0).exponential(1.0, (4001, 4)) ** 2
    frame = dfp.frame(pl.DataFrame(rows, schema=list("abcd")))
    mean = frame.mean_vector(list("abcd"), 50, rho=1e9, method="plan", neighbors=neighbors)
    center = mean.noisy.center * mean.noisy.step
    assert np.abs(center - np.median(rows, axis=0)).max() < 0.001
