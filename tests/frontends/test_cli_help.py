"""Help and the pages teach commands that run as they stand."""

import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from dfprivacy.statistics import STATISTICS
from tests.command_line import command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")


def list_commands(*group):
    """List the commands that a help names, with those of groups, as tuples of words."""
    section = command(*group, "--help").stdout.partition("Commands")[2]
    names = re.findall(r"^[│ ] ([a-z_-]+) ", section, re.MULTILINE)
    return [words for name in names for words in list_commands(*group, name) or [(*group, name)]]


@pytest.mark.battery
def test_help_teaches(ask):
    """Each command is on the page; its help fits 80 columns and shows an example."""
    commands = [(), *list_commands()]
    assert {("mean",), ("run",), ("ledger", "create")} <= set(commands)
    for words in commands:
        lines, name = ask(*words, "--help").output.splitlines(), " ".join(words)
        if words[:1] != ("serve",):
            assert any(line.startswith(f" dfprivacy {name or 'mean'}") for line in lines), name
        assert max(map(len, lines)) <= 80, name
        kind = STATISTICS.get(name)  # those of papers are commands once they are imported, as here
        assert f"`dfprivacy {name}" in PAGE or (kind and "papers" in kind.__module__), name


COMMANDS = (
    "count", "sum", "mean", "var", "std",
    "median", "quantile", "quantiles", "center", "bounds", "histogram", "crosstab",
)  # fmt: skip


def test_examples_of_help_run(ask, folder, tmp_path, monkeypatch):
    """The example of every command's help runs as it stands."""
    flights = pl.read_csv(folder / "flights.csv").with_columns(distance=pl.lit(500))
    flights.write_csv(tmp_path / "flights.csv")
    monkeypatch.chdir(tmp_path)
    for kind in COMMANDS:
        lines = ask(kind, "--help").output.splitlines()
        (example,) = [line.split() for line in lines if line.startswith(f" dfprivacy {kind} ")]
        assert ask(*example[1:]).exit_code == 0


def list_documented():
    """Return the commands of the page's console blocks and of its list of examples."""
    lines = PAGE.splitlines()
    shown = [line.removeprefix("$ ") for line in lines if line.startswith(("$ ", "dfprivacy "))]
    return [line for line in shown if line != "dfprivacy demo"]


@pytest.mark.parametrize("line", list_documented())
def test_documented_commands_run(ask, folder, tmp_path, monkeypatch, line):
    """A command on the page runs as it stands; the one shown with an error ends with that error."""
    for ending in ("csv", "tsv", "parquet"):
        (tmp_path / f"flights.{ending}").write_bytes((folder / f"flights.{ending}").read_bytes())
    monkeypatch.chdir(tmp_path)
    result = ask(*shlex.split(line)[1:])
    assert result.exit_code == (2 if result.stderr else 0)
    assert result.stderr in PAGE
    assert (result.stderr != "") == (f"$ {line}\nError" in PAGE)
