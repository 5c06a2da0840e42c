"""Thresholds: losses are distances of ranks, moved by at most 1 a row, and constants are public."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.estimators.threshold import select_thresholds, threshold_runs
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from tests.laws.threshold_tables import GRID, SIDES, SURE, expanded, table_of


@dataclass(frozen=True)
class Line(SignificantBits):
    """The bins -bits, ..., bits alone: a grid small enough to look at every candidate."""

    @property
    def last(self):
        return self.bits


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
