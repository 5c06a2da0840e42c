"""What the tests of the command line share: made-up flights, and a command line beside them."""

import datetime as dt

import polars as pl
import pytest
from typer.testing import CliRunner

from dfprivacy.frontends.cli import app


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
    return lambda *args: CliRunner().invoke(app, list(args))


@pytest.fixture
def cells():
    """Return the cells of a printed table, row by row."""

    def of(output):
        rows = [line.strip("│") for line in output.splitlines() if line.startswith("│")]
        return [[cell.strip() for cell in row.split("│")] for row in rows]

    return of
