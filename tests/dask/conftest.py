"""Dask frames made of given partitions, and what both test files ask of them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pandas as pd
import pytest

import dfprivacy as dfp
from dfprivacy.conductor import measure, named_columns, read
from dfprivacy.engine.bins import run_bins
from dfprivacy.mechanisms import entropy
from dfprivacy.parts.linear import LinearPart
from dfprivacy.plan import plan_release
from dfprivacy.terms import keys_of


def in_partitions(parts, declared=None):
    """Return a Dask frame of these pandas frames, as they are."""
    import dask.dataframe as dd  # noqa: PLC0415 optional

    parts = list(parts)
    meta = (parts[0] if declared is None else declared).iloc[:0]
    return dd.from_map(parts.__getitem__, range(len(parts)), meta=meta, enforce_metadata=False)


def cut(frame, places):
    """Return a Dask frame cut before these rows; cuts may leave partitions empty."""
    ends = [0, *sorted(places), len(frame)]
    return in_partitions([frame.iloc[a:b] for a, b in itertools.pairwise(ends)], frame)


def pandas_of(table):
    """Return an Arrow table as pandas, integers and text with NULL."""
    kinds = {"int64": pd.Int64Dtype(), "string": pd.StringDtype()}
    return table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))


def sums_of(frame, asked, by=(), keys=None, unit=None):
    """Return the exact sums of questions, group by group."""
    plan = plan_release(asked, grouped=bool(by))
    (measured,) = measure(frame, by, keys_of(keys, by), [LinearPart(plan)], unit=unit)[1]
    return [list(row.values()) for row in measured.statistics.table.to_pylist()]


def bins_of(frame, binning, moments=0, by=(), keys=None, unit=None, column="x"):
    """Return an exact table of bins: its keys, and its entries."""
    public = keys_of(keys, by) if by else None
    columns = named_columns(by, public, {column: True}, unit)
    _, table = read(
        frame, columns,
        lambda a: run_bins(a, by, column, binning, moments, public=public is not None),
    )  # fmt: skip
    entries = zip(table.group, table.bins, table.rows, *table.moments, strict=True)
    return table.keys.to_pylist(), [tuple(v.item() for v in entry) for entry in entries]


def replayed(frame, ask):
    """Return what `ask` releases with the same random bytes every time."""
    state = itertools.count()

    def some(size):
        return bytes((next(state) * 167 + 41) * 2654435761 >> 7 & 255 for _ in range(size))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "os", SimpleNamespace(urandom=some))
        return ask(dfp.frame(frame))


@pytest.fixture
def ask():
    """What the tests of Dask and Ibis frames share, as attributes."""
    return SimpleNamespace(
        in_partitions=in_partitions, cut=cut, pandas_of=pandas_of, sums=sums_of, bins=bins_of,
        replayed=replayed,
    )  # fmt: skip
