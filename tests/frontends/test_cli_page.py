"""docs/reference/command-line.md has every command, and every option of a question."""

import re
from pathlib import Path

import pytest

from tests.command_line import command

PAGE = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
OTHERS = {"merge", "run", "statistics"}
"""Commands with pages of their own for their options."""


def commands(*group):
    """Return the commands that a help lists, those of groups too, as tuples of words."""
    listed = command(*group, "--help").stdout.partition("Commands")[2]
    names = re.findall(r"^[│ ] ([a-z_-]+) ", listed, re.MULTILINE)
    return [own for name in names for own in commands(*group, name) or [(*group, name)]]


@pytest.mark.battery
def test_commands_and_options_are_on_the_page(monkeypatch):
    """Each command is named on the page, with its options where no other page has them."""
    found = commands()
    assert {("mean",), ("run",), ("ledger", "create")} <= set(found)
    monkeypatch.setenv("COLUMNS", "200")
    missing = []
    for words in found:
        told = [f"`dfprivacy {' '.join(words)}"]
        if words[0] not in OTHERS:
            options = set(re.findall(r"(?<!\S)--[a-z-]+", command(*words, "--help").stdout))
            told += [f"{own} " for own in options - {"--help"} if f"`{own}`" not in PAGE]
        missing += [own for own in told if own not in PAGE]
    assert missing == []
