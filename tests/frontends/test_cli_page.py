"""docs/command-line.md has every command, and every option of a question."""

from pathlib import Path

import pytest
from typer.main import get_command

from dfprivacy.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
OTHERS = {"local", "merge", "run", "statistics"}
"""Commands with pages of their own for their options."""


def commands(group, name="dfprivacy"):
    """Yield commands by name, those of groups too."""
    for own, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {own}")
        else:
            yield f"{name} {own}", command


ALL = dict(commands(get_command(app)))


@pytest.mark.parametrize("name", ALL)
def test_commands_and_options_are_on_the_page(name):
    """A command is named on the page, with its options where no other page has them."""
    own = name.split()[1]
    assert f"`{'dfprivacy local' if own == 'local' else name}" in PAGE
    options = () if own in OTHERS else ALL[name].params
    for option in (each.opts[0] for each in options if each.opts[0].startswith("-")):
        assert f"{option} " in PAGE or f"`{option}`" in PAGE
