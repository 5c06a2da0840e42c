"""Dask frames made of given partitions."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pandas as pd
import pytest


def _in_partitions(parts, declared=None):
    """Return a Dask frame of these pandas frames, as they are: text stays what it is."""
    import dask  # noqa: PLC0415 optional
    import dask.dataframe as dd  # noqa: PLC0415 optional

    parts = list(parts)
    meta = (parts[0] if declared is None else declared).iloc[:0]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(
            lambda place: parts[place], range(len(parts)), meta=meta, enforce_metadata=False
        )


def _cut(frame, places):
    """Return a Dask frame cut before these rows; cuts may leave partitions empty."""
    ends = [0, *sorted(places), len(frame)]
    return _in_partitions([frame.iloc[a:b] for a, b in itertools.pairwise(ends)], frame)


def _pandas(table):
    """Return an Arrow table as pandas, integers and text with NULL."""
    kinds = {"int64": pd.Int64Dtype(), "string": pd.StringDtype()}
    return table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))


@pytest.fixture(scope="session")
def ask(ask):
    """Return what the tests of every frame ask, and Dask frames of given partitions."""
    own = {"in_partitions": _in_partitions, "cut": _cut, "pandas_of": _pandas}
    return SimpleNamespace(**vars(ask), **own)
