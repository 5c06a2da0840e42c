"""Quantiles are selected by the losses of docs/quantiles.md, among all candidates of the grid.

The references go through every candidate in Python integers.
"""

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.quantile import cells_of, largest_loss, rank_runs
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.noise.selection import PermuteAndFlip
from tests.laws.rank_tables import (
    HALF,
    LEVELS,
    Line,
    expanded,
    multisets,
    relative_loss,
    table_of,
)

NO_CAP = 2**53 - 1


def relative_runs(table, q, cap=NO_CAP):
    cells = cells_of(table)
    return rank_runs(cells, q.denominator, q.numerator * cells.totals(), cap)


# Losses of one quantile


@pytest.mark.parametrize("q", LEVELS, ids=str)
@pytest.mark.parametrize("cap", [NO_CAP, 3, 1])
def test_losses_are_the_formula(q, cap):
    """Every candidate of the grid has its loss, for all small data sets at once."""
    groups = list(multisets(2, 4))
    for rows, losses in zip(groups, expanded(relative_runs(table_of(groups), q, cap)), strict=True):
        assert losses == {c: min(cap, relative_loss(rows, c, q)) for c in range(-2, 3)}


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_losses_on_significant_bits(q):
    """The same on a real grid with its gaps, whose ends hold rows too."""
    grid = SignificantBits(2)
    random = np.random.default_rng(5)
    groups = [random.integers(-grid.last, grid.last + 1, size).tolist() for size in (0, 1, 7, 40)]
    groups += [[-grid.last, -grid.last, grid.last], [0] * 9]
    found = expanded(relative_runs(table_of(groups, grid), q))
    for rows, losses in zip(groups, found, strict=True):
        everything = range(-grid.last, grid.last + 1)
        assert losses == {c: relative_loss(rows, c, q) for c in everything}


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_sensitivity_of_the_relative_loss(q):
    """One row moves each loss by at most max(a, b - a), and by as much somewhere."""
    groups = list(multisets(2, 4))
    for cap in (NO_CAP, 2):
        found = expanded(relative_runs(table_of(groups), q, cap))
        losses = dict(zip(groups, found, strict=True))
        moves = {
            abs(losses[rows][c] - losses[tuple(sorted((*rows, row)))][c])
            for rows in multisets(2, 3)
            for row in range(-2, 3)
            for c in range(-2, 3)
        }
        assert max(moves) == min(cap, max(q.numerator, q.denominator - q.numerator))


def test_large_counts_do_not_overflow():
    """2**33 rows and a denominator of 10**6 leave losses exact, below 2**53 and without a wrap."""
    q = Fraction(499_999, 10**6)
    rows = np.array([2**30, 2**31, 2**32, 2**30], np.int64)
    bins = np.array([-500, -3, 8, 9], np.int64)
    group = np.zeros(4, np.int64)
    table = BinTable(pa.table({}), 1, SignificantBits(1), group, bins, rows)
    found = expanded(relative_runs(table, q))[0]
    total = int(rows.sum())
    for candidate, loss in found.items():
        below = int(rows[bins < candidate].sum())
        upto = int(rows[bins <= candidate].sum())
        a, b = q.numerator, q.denominator
        assert loss == min(NO_CAP, max(0, b * below - a * total, a * total - b * upto))


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1, 10)), Epsilon(Fraction(9)), Rho(HALF)])
def test_far_candidates_are_never_chosen(loss):
    """At the largest loss, candidates of a grid of 2**30 win with a probability below 1e-18."""
    law = loss.selection(2)
    assert law.rate * largest_loss(law) >= 64
    assert 2**30 * np.exp(-64.0) < 1e-18
    assert SignificantBits(22).last * 2 + 1 < 2**30
    assert largest_loss(PermuteAndFlip(Fraction(1, 2**60))) == NO_CAP


# Cells between answers


def cell_loss(rows, candidate, target, low, high, edge):
    """Twice the distance of target / 2 from the ranks, with infinitely many rows at the answers."""
    if low == high:
        return None
    below = 2 * sum(row < candidate for row in rows)
    upto = 2 * sum(row <= candidate for row in rows)
    if candidate == low != -edge:
        return max(0, target - upto)
    if candidate == high != edge:
        return max(0, below - target)
    return max(0, below - target, target - upto)


def cells_at(table, low, high):
    """Return the cells strictly between ends, one pair for all groups."""
    whole = cells_of(table)
    last, size = table.binning.last, table.groups
    columns = [np.full(size, end, np.int64) for end in (low, high)]
    cells = whole
    if low > -last - 1:
        cells = cells.split(columns[0], np.array([[-1], [0]]))
    return cells.split(columns[1], np.array([[0], [-1]])) if high <= last else cells


ENDS = list(itertools.combinations_with_replacement(range(-3, 4), 2))[1:-1]


@pytest.mark.parametrize(("low", "high"), ENDS)
@pytest.mark.parametrize("cap", [NO_CAP, 3])
def test_losses_between_answers(low, high, cap):
    """Candidates are the closed interval between the answers; one row moves a loss by at most 2."""
    groups = list(multisets(2, 4))
    everything = range(max(low, -2), min(high, 2) + 1)
    cells = cells_at(table_of(groups), low, high)
    for target in range(-3, 10):
        runs = rank_runs(cells, 2, np.full(len(groups), target), cap)
        found = dict(zip(groups, expanded(runs), strict=True))
        for rows, losses in found.items():
            inner = [row for row in rows if low < row < high]
            assert set(losses) == set(everything)
            for candidate, loss in losses.items():
                wanted = cell_loss(inner, candidate, target, low, high, 3)
                assert wanted is None or loss == min(cap, wanted)
        moves = [
            abs(found[rows][c] - found[tuple(sorted((*rows, row)))][c])
            for rows in multisets(2, 3)
            for row in range(-2, 3)
            for c in everything
        ]
        assert max(moves, default=0) <= 2


def test_targets_beyond_a_cell_fall_on_its_ends():
    """A target in the atom at the answer below, or above, makes that answer the only one at 0."""
    cells = cells_at(table_of([[-2, -2, -2, 0, 0, 2, 2]]), -2, 2)
    for target, best in ((-3, {-2}), (-1, {-2}), (1, {0}), (3, {0}), (5, {2}), (9, {2})):
        losses = expanded(rank_runs(cells, 2, np.array([target]), NO_CAP))[0]
        assert {candidate for candidate, loss in losses.items() if loss == 0} == best


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(st.lists(st.integers(-9, 9), max_size=12), min_size=1, max_size=5),
    data=st.data(),
)
def test_splits_keep_all_rows_but_those_at_the_answers(groups, data):
    """Splitting twice gives the rows strictly between neighbouring answers, in their order."""
    cells = cells_of(table_of(groups, Line(9)))
    ends = st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9)).map(sorted)
    chosen = [data.draw(ends) for _ in groups]
    left, middle, right = np.array(chosen, np.int64).T
    halves = cells.split(middle, np.array([[0], [1]]))
    quarters = halves.split(np.stack([left, right], 1).reshape(-1), np.array([[0, 2], [1, -1]]))
    for group, (rows, (a, b, c)) in enumerate(zip(groups, chosen, strict=True)):
        for place, (low, high) in enumerate([(-10, a), (a, b), (b, c)]):
            cell = 3 * group + place
            held = slice(int(quarters.first[cell]), int(quarters.stop[cell]))
            inner = [row for row in rows if low < row < high]
            assert quarters.held.bins[held].tolist() == sorted(set(inner))
            assert quarters.totals()[cell] == len(inner)
            assert (quarters.low[cell], quarters.high[cell]) == (low, high)
            assert quarters.group[cell] == group


def test_one_row_moves_one_count_by_one():
    """Counts beside the answer are one-hot in a row of the cell, and sum to its rows."""
    groups = list(multisets(2, 4))
    for low, high in [(-3, 3), (-2, 3), (-2, 2), (-1, 1)]:
        cells = cells_at(table_of(groups), low, high)
        for answer in range(max(low, -2), min(high, 2) + 1):
            counts = cells.counts(np.full(len(groups), answer)).T.tolist()
            found = dict(zip(groups, counts, strict=True))
            for rows in multisets(2, 3):
                inner = [row for row in rows if low < row < high]
                assert found[rows][0] == sum(row <= answer for row in inner)
                assert sum(found[rows]) == len(inner)
                for row in range(-2, 3):
                    other = found[tuple(sorted((*rows, row)))]
                    moves = [abs(x - y) for x, y in zip(found[rows], other, strict=True)]
                    assert sum(moves) == (low < row < high)
