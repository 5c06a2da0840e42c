"""What the tests of the engine share: a place for temporary files that they can look into."""

import tempfile

import duckdb
import polars as pl
import pytest


@pytest.fixture
def spills(tmp_path, monkeypatch):
    """Return the directory in which temporary files of this test go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


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
