"""The number of rows behind a bin table, by group: it selects groups, and tells too few rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Column, Counted, CountPiece, everyone
from dfprivacy.mechanisms.additive import NoisyVector, add_to
from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.linear_query import CountWeights
from dfprivacy.statistics.stored_bins import StoredBins

COUNT_SHARE = Fraction(1, 6)
"""The part of a loss that counts the rows of each group."""


def noisy_rows(table: BinTable | StoredBins, loss: Epsilon | Rho) -> Counted:
    """Return the noisy number of rows of each group: sensitivity 1."""
    noise = loss.noise(1, 1)
    vector = NoisyVector(add_to(table.totals()[None, :], noise), noise)
    piece = CountPiece(everyone(table.groups), vector, CountWeights((0,), 1))
    return Counted(table.groups, (piece,))


def blanked(values: Column, counted: Counted, least: int) -> Column:
    """Return values, not a number where a group's noisy count is below `least`."""
    return np.where(counted.column() < least, np.nan, values)
