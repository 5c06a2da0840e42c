"""A call that can't be parsed ends like any other mistake: one message, a hint, exit code 2."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from dfprivacy.cli import app

WRONG = {
    "another library's name": (["max", "f.csv"], "No such command 'max'", "write root bounds, or"),
    "a near command": (["meen", "f.csv"], "No such command 'meen'", "write root mean, or"),
    "a far command": (["xyzzy"], "No such command 'xyzzy'", "root --help lists what it takes"),
    "a near command of a group": (
        ["ledger", "creat"], "No such command 'creat'", "write root ledger create, or",
    ),
    "no column": (["mean", "f.csv"], "Missing argument 'COLUMN'", "root mean --help lists"),
    "no option": (["count", "f.csv", "--epsilom", "1"], "--epsilom", "root count --help lists"),
    "no number": (["count", "f.csv", "--epsilon", "x"], "'--epsilon'", "root count --help lists"),
}  # fmt: skip


def called(*args):
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, list(args))


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_call_has_a_message_and_a_hint(mistake):
    """What happened, then what to write or where to look, on stderr alone."""
    args, message, hint = WRONG[mistake]
    result = called(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    said, done = result.stderr.splitlines()
    assert said.startswith("Error: ")
    assert message in said
    assert done.startswith(f"Hint: {hint}")


@pytest.mark.parametrize("args", [[], ["ledger"]])
def test_no_command_shows_the_help_once(args):
    """Without a command there is the help, once, and no message."""
    result = called(*args)
    assert result.exit_code == 2
    assert result.output.count("Usage:") == 1
    assert "Error" not in result.output


def test_a_command_that_was_aborted():
    """An abort, as from a prompt that is left, ends with exit code 1 and no message."""
    aborting = typer.Typer(cls=type(typer.main.get_command(app)))

    @aborting.command()
    def stop() -> None:
        raise typer.Abort

    @aborting.command()
    def leave() -> None:
        raise typer.Exit(3)

    result = CliRunner().invoke(aborting, ["stop"])
    assert (result.exit_code, result.output) == (1, "")
    assert CliRunner().invoke(aborting, ["leave"]).exit_code == 3


def test_inside_another_program_errors_are_raised():
    """With standalone_mode=False a wrong call is the caller's to handle."""
    command = typer.main.get_command(app)
    with pytest.raises(typer.BadParameter.__bases__[0], match="No such command"):
        command.main(["xyzzy"], standalone_mode=False)
