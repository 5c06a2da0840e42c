"""docs/reference/command-line.md has every command; `--help` lists the options."""

import re
from pathlib import Path

import pytest

from dfprivacy.statistics import STATISTICS
from tests.command_line import command

PAGE = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")


def commands(*group):
    """List the commands that a help names, with those of groups, as tuples of words."""
    section = command(*group, "--help").stdout.partition("Commands")[2]
    names = re.findall(r"^[│ ] ([a-z_-]+) ", section, re.MULTILINE)
    return [words for name in names for words in commands(*group, name) or [(*group, name)]]


@pytest.mark.battery
def test_commands_are_on_the_page():
    """Each command is named on the page."""
    names = [" ".join(words) for words in commands()]
    assert {"mean", "run", "ledger create"} <= set(names)
    of_papers = {kind for kind, statistic in STATISTICS.items() if "papers" in statistic.__module__}
    missing = [words for words in names if f"`dfprivacy {words}" not in PAGE]
    assert set(missing) <= of_papers  # which are commands once they are imported, as here
