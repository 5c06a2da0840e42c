"""Help and the pages teach commands that run as they stand."""

import shlex
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(ask):
    """Run the command line in the folder of the flights, at 80 columns."""
    return ask


COMMANDS = (
    "count", "sum", "mean", "var", "std",
    "median", "quantile", "quantiles", "center", "bounds", "histogram", "crosstab",
)  # fmt: skip


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_teaches(run, command):
    """Help fits 80 columns and shows an example."""
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"dfprivacy {command or 'mean'} flights.csv" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_examples_of_help_run(run, folder, tmp_path, monkeypatch):
    """The example of every command's help runs as it stands."""
    flights = pl.read_csv(folder / "flights.csv").with_columns(distance=pl.lit(500))
    flights.write_csv(tmp_path / "flights.csv")
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        lines = run(command, "--help").output.splitlines()
        (example,) = [line.split() for line in lines if line.startswith(f" dfprivacy {command} ")]
        assert run(*example[1:]).exit_code == 0


def list_documented():
    """Return the commands of the page's console blocks and of its list of examples."""
    lines = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8").splitlines()
    shown = [line.removeprefix("$ ") for line in lines if line.startswith(("$ ", "dfprivacy "))]
    return [line for line in shown if line != "dfprivacy demo"]


@pytest.mark.parametrize("line", list_documented())
def test_documented_commands_run(run, folder, tmp_path, monkeypatch, line):
    """A command on the page runs as it stands; the one shown with an error ends with that error."""
    for ending in ("csv", "tsv", "parquet"):
        (tmp_path / f"flights.{ending}").write_bytes((folder / f"flights.{ending}").read_bytes())
    monkeypatch.chdir(tmp_path)
    result = run(*shlex.split(line)[1:])
    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert result.exit_code == (2 if result.stderr else 0)
    assert result.stderr in page
    assert (result.stderr != "") == (f"$ {line}\nError" in page)
