"""A ledger that remembers gives Dask frames back as they were."""

from __future__ import annotations

import gc

import pandas as pd
import pytest

import dfprivacy as dfp

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")


def test_a_ledger_remembers_dask_frames(tmp_path):
    """A remembered release comes back as a Dask frame with the same numbers."""
    frame = dd.from_pandas(pd.DataFrame({"g": ["a", "b"] * 50, "x": 1.0}), npartitions=2)
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=0.5, remember=True)
    private = dfp.frame(frame)(ledger=ledger, dataset="d", version="1", epsilon=1, delta=0.01)
    found = [private.group_by("g").mean("x", bounds=(0, 2)).compute() for _ in range(2)]
    pd.testing.assert_frame_equal(*found, check_dtype=False)
    gc.collect()


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([2**53 + 1, None] * 50, dtype="Int64"),
        pd.Series(["a", None] * 50, dtype="category"),
        pd.Series([pd.Timedelta(5)] * 100),
    ],
    ids=["Int64", "categories", "durations"],
)
def test_remembered_keys_have_the_declared_dtype(tmp_path, values):
    """Keys come back in the dtype that the Dask frame declares, with their own values."""
    frame = dd.from_pandas(pd.DataFrame({"g": values}), npartitions=2)
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=100, delta=0.5, remember=True)
    private = dfp.frame(frame)(ledger=ledger, dataset="d", version="1", epsilon=50, delta=0.01)
    found = [private.group_by("g").count().compute() for _ in range(2)]
    pd.testing.assert_frame_equal(*found, check_exact=True)
    assert ledger.spent("d").epsilon == 50
    gc.collect()
