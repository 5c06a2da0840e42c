"""Fixtures of the tests of the engine: a folder of temporary files that they can read."""

import os
import tempfile
import warnings

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp


@pytest.fixture
def spills(tmp_path, monkeypatch):
    """Return the directory in which temporary files of this test go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def failing():
    """Fail while rows are read: the database of such a call is not used again."""
    schema = pa.schema({"x": pa.float64()})
    batches = (1 / 0 for _ in range(1))
    with pytest.raises(dfp.EngineError):
        dfp.frame(pa.RecordBatchReader.from_batches(schema, batches)).count()


TABLE = pa.table({"x": [1.0] * 9})


def count_during(act):
    """Count rows; something is done while the engine reads them."""

    def batches():
        act()
        yield from TABLE.to_batches()

    return dfp.frame(pa.RecordBatchReader.from_batches(TABLE.schema, batches())).count()


def hold_none():
    """Have the databases closed that are held for further calls: they are, before a fork."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child needs not
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@pytest.fixture
def opened(monkeypatch):
    """Return the databases that are opened from now on, each with its settings; none is held."""
    databases, connect = [], duckdb.connect

    def watch_rows(*arguments, config=None, **named):
        databases.append((connect(*arguments, config=config or {}, **named), config))
        return databases[-1][0]

    monkeypatch.setattr(duckdb, "connect", watch_rows)
    dfp.sql("SELECT dp_count(*) AS n FROM t", t=pa.table({"x": [1.0]}))
    failing()  # both load and open what only the first call of a process needs
    hold_none()
    databases.clear()
    return databases


@pytest.fixture
def write(tmp_path):
    """Write a Parquet file below a folder of this test, and return the folder."""

    def parquet(name, **columns):
        path = tmp_path / "rows" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(columns).write_parquet(path)
        return tmp_path / "rows"

    return parquet


@pytest.fixture(scope="session")
def many_rows(tmp_path_factory):
    """2 million rows in 200,000 groups, in two files of a folder."""
    folder = tmp_path_factory.mktemp("many")
    for piece in range(2):
        duckdb.sql(
            f"COPY (SELECT hash(i) % 200000 AS g, hash(i + 1) % 1000 / 10 AS x "
            f"FROM range({piece}000000, {piece + 1}000000) r(i)) TO '{folder}/{piece}.parquet'"
        )
    return folder
