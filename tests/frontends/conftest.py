"""Fixtures of the tests of the command line: made-up flights, and a command line beside them."""

import datetime as dt
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command, read_cells
from tests.frontends.described_delays import ROWS


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """3,000 made-up flights in three formats: AA is always 10 minutes late, UA 40 early."""
    path = tmp_path_factory.mktemp("flights")
    flights = pl.DataFrame(
        {
            "carrier": ["AA"] * 2000 + ["UA"] * 1000,
            "month": [1, 2] * 1500,
            "day": [dt.date(2013, 1, 1), dt.date(2013, 1, 2)] * 1500,
            "delay": [10.0] * 2000 + [-40.0] * 1000,
        }
    )
    flights.write_csv(path / "flights.csv")
    flights.write_csv(path / "flights.tsv", separator="\t")
    flights.write_parquet(path / "flights.parquet")
    (path / "broken.parquet").write_text("secret 4711")
    return path


@pytest.fixture
def ask(folder, monkeypatch):
    """Run the command line in the folder of the flights, at 80 columns."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return command


@pytest.fixture
def cells():
    """Return the cells of a printed table, row by row."""
    return read_cells


@pytest.fixture(scope="session")
def described_files(tmp_path_factory):
    """3,000 flights in a file, a folder and a DuckDB file: what a description is about."""
    folder = tmp_path_factory.mktemp("described")
    flights = pl.DataFrame(
        {
            "carrier": ["AA"] * 2000 + ["UA"] * 1000,
            "month": [1, 2] * 1500,
            "user": [i // 3 for i in range(ROWS)],
            "delay": [10.0] * 2000 + [-40.0] * 1000,
        }
    )
    flights.write_parquet(folder / "flights.parquet")
    flights.write_csv(folder / "flights.csv")
    (folder / "days").mkdir()
    flights[:1500].write_parquet(folder / "days" / "1.parquet")
    flights[1500:].write_parquet(folder / "days" / "2.parquet")
    with duckdb.connect(folder / "flights.duckdb") as connection:
        connection.register("given", flights.to_arrow())
        connection.sql("CREATE TABLE flights AS SELECT * FROM given")
        connection.sql("CREATE VIEW early AS SELECT * FROM flights WHERE delay < 0")
    return folder


@pytest.fixture
def run(described_files, tmp_path, monkeypatch):
    """Run a description beside copies of what it is about, and a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(described_files, tmp_path, dirs_exist_ok=True)
    dfp.Ledger("budget.db", epsilon=100, delta=1e-6, remember=True)

    def run_text(text, *args):
        Path("release.yml").write_text(text)
        return command("run", "release.yml", *args)

    return run_text
