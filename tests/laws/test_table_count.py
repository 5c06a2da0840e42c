"""The noisy rows behind a bin table: what is counted, what it costs, and what is blanked."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.statistics import part
from dfprivacy.statistics.part import blanked, noisy_rows

SURE = Epsilon(Fraction(2**40))
"""Noise differs from 0 with probability below exp(-2**39): never."""


def table_of(*groups):
    """Make a table from {bin: rows} of each group."""
    entries = [(g, b, r) for g, group in enumerate(groups) for b, r in sorted(group.items())]
    columns = np.array(entries, np.int64).reshape(-1, 3).T.copy()
    keys = pa.table({"g": pa.array(range(len(groups)), pa.int64())})
    return BinTable(keys, len(groups), SignificantBits(8), *columns)


def test_rows_of_all_bins_are_counted():
    """The count of a group is the sum of its bins; an empty group has none."""
    counted = noisy_rows(table_of({}, {-4: 3, 0: 2, 9: 30}, {}, {1: 7}), SURE)
    assert counted.column().tolist() == [0, 35, 0, 7]
    assert counted.groups == 4
    assert noisy_rows(table_of(), SURE).column().tolist() == []


@pytest.mark.parametrize("loss", [Epsilon(Fraction(2, 7)), Rho(Fraction(2, 7))], ids=str)
def test_one_row_moves_one_count_by_one_and_is_paid_for(loss, monkeypatch):
    """What noise is added to moves by 1 in one group, and the noise is that of sensitivity 1."""
    seen = []

    def add_to(exact, noise):
        seen.append((exact, noise))
        return exact

    monkeypatch.setattr(part, "add_to", add_to)
    for group in ({1: 7}, {1: 8}, {1: 7, 3: 1}):
        noisy_rows(table_of({0: 5}, group), loss)
    (exact, noise), *more = seen
    for other, same in more:
        assert (other - exact).tolist() == [[0, 1]]
        assert noise == same == loss.noise(1, 1)


def test_groups_are_selected_by_the_rows_that_were_counted():
    """The count that selects groups is the one coordinate of each, in which a row counts once."""
    (piece,) = noisy_rows(table_of({5: 1}, {5: 2}, {}), SURE).pieces
    assert piece.groups.tolist() == [0, 1, 2]
    assert piece.weights == CountWeights((0,), 1)
    assert piece.vector.coordinates.tolist() == [[1, 2, 0]]


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_too_few_rows_blank_an_answer(dtype):
    """An answer is NaN below the least count and stays from there on, whatever its group's number.

    Neither the values nor the counts are changed.
    """
    counted = noisy_rows(table_of({1: 9}, {}, {1: 10}, {1: 4, 2: 7}), SURE)
    values = np.array([3, 4, 5, 6], dtype)
    shown = blanked(values, counted, 10)
    assert np.isnan(shown).tolist() == [True, True, False, False]
    assert shown[2:].tolist() == [5.0, 6.0]
    assert values.tolist() == [3, 4, 5, 6]
    assert blanked(values, counted, 0).tolist() == [3.0, 4.0, 5.0, 6.0]
