"""Runs of equal labels: the same as by a loop over rows, and none where there are no rows."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
from hypothesis import example, given

from dfprivacy.measurement.runs import mark_starts, run_slices, run_starts


@given(st.lists(st.tuples(st.integers(-1, 2), st.sampled_from([0.0, 0.5])), max_size=12))
@example([])
def test_runs_are_those_of_a_loop(rows):
    """Starts, marks and slices of runs are those of `itertools.groupby`, for no rows too."""
    columns = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows])
    lengths = [len(list(run)) for _, run in itertools.groupby(rows)]
    ends = np.cumsum(lengths).tolist()
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    assert run_starts(*columns).tolist() == starts
    assert np.flatnonzero(mark_starts(*columns)).tolist() == starts
    assert list(run_slices(*columns)) == [slice(*pair) for pair in zip(starts, ends, strict=True)]
