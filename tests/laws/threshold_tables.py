"""Tables of three significant bits, and the losses of their candidates."""

from fractions import Fraction

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import SignificantBits

SIDES = ["lower", "upper"]
GRID = SignificantBits(3)
SURE = Epsilon(Fraction(2**40))
"""A worse candidate is chosen with probability below m * exp(-2**39): never."""


def table_of(*groups, grid=GRID):
    """Make a table from {bin: rows} of each group."""
    entries = [(g, b, r) for g, group in enumerate(groups) for b, r in sorted(group.items())]
    columns = np.array(entries, np.int64).reshape(-1, 3).T.copy()
    keys = pa.table({"g": pa.array(range(len(groups)), pa.int64())})
    return BinTable(keys, len(groups), grid, *columns)


def expanded(runs, group, lowest, highest):
    """Losses candidate by candidate; the runs of the group are exactly the candidates."""
    ends = np.append(runs.group_starts, len(runs.first))
    part = slice(ends[group], ends[group + 1])
    first, length, loss = runs.first[part], runs.length[part], runs.loss[part]
    candidates = np.concatenate([f + np.arange(w) for f, w in zip(first, length, strict=True)])
    assert candidates.tolist() == list(range(lowest, highest + 1))
    return np.repeat(loss, length).tolist()
