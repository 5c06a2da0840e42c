"""docs/command-line.md has every command, and every option of a question."""

import re
from pathlib import Path

import pytest

from tests.command_line import command

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
OTHERS = {"local", "merge", "run", "statistics"}
"""Commands with pages of their own for their options."""


def commands(*group):
    """Return the commands that a help lists, those of groups too, as tuples of words."""
    listed = command(*group, "--help").stdout.partition("Commands")[2]
    names = re.findall(r"^[│ ] ([a-z_-]+) ", listed, re.MULTILINE)
    return [own for name in names for own in commands(*group, name) or [(*group, name)]]


ALL = commands()


def test_there_are_as_many_as_there_are():
    """Questions, files, runs, and commands of ledgers and of the local model are found."""
    assert {("mean",), ("run",), ("ledger", "create"), ("local", "plan")} <= set(ALL)
    assert len(ALL) > 20


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_commands_and_options_are_on_the_page(words, monkeypatch):
    """A command is named on the page, with its options where no other page has them."""
    monkeypatch.setenv("COLUMNS", "200")
    name = "dfprivacy local" if words[0] == "local" else f"dfprivacy {' '.join(words)}"
    assert f"`{name}" in PAGE
    if words[0] not in OTHERS:
        options = set(re.findall(r"(?<!\S)--[a-z-]+", command(*words, "--help").stdout))
        for option in options - {"--help"}:
            assert f"{option} " in PAGE or f"`{option}`" in PAGE
