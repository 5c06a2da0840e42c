"""Bin tables: the values that bins stand for, and counts by another binning of them."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from dfprivacy.measurement.bin_table import bin_table, rebinned
from dfprivacy.measurement.binning import Edges, Octaves, SignificantBits

FINE = SignificantBits(16)
GROUPS = 3
BINNINGS = [Octaves(), SignificantBits(5), Edges((-1.0, 0.0, 2.5, 1e9))]
ROWS = st.lists(
    st.tuples(st.integers(0, GROUPS - 1), st.one_of(st.floats(-9, 9), st.floats(-1e300, 1e300)))
)


def counted(rows, binning, groups=GROUPS):
    """Return the table of rows, each a group and a value."""
    group = np.array([g for g, _ in rows], np.int64)
    labels = binning.labels(np.array([x for _, x in rows], np.float64))
    keys = pa.table({}) if groups == 1 else pa.table({"key_0": list("abc")})
    return bin_table(keys, groups, binning, group, labels, rows=np.ones(len(rows), np.int64))


def content(table):
    return [table.groups, table.keys.to_pydict(), *(
        column.tolist() for column in (table.group, table.bins, table.rows)
    )]  # fmt: skip


@pytest.mark.parametrize("binning", BINNINGS, ids=str)
@given(rows=ROWS)
def test_counts_by_another_binning_are_those_of_the_rounded_rows(binning, rows):
    """Binning a table anew is counting its rounded values, by group or of all groups together."""
    table = counted(rows, FINE)
    values = FINE.values(FINE.numbers(FINE.labels(np.array([x for _, x in rows], np.float64))))
    again = [(g, x) for (g, _), x in zip(rows, values.tolist(), strict=True)]
    assert content(rebinned(table, binning)) == content(counted(again, binning))
    assert rebinned(table, binning).binning == binning
    everyone = [(0, x) for _, x in again]
    pooled = rebinned(table, binning, pooled=True)
    assert content(pooled) == content(counted(everyone, binning, groups=1))
