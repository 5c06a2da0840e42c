"""A call that can't be parsed ends like any other mistake: one message, a hint, exit code 2."""

from __future__ import annotations

import pytest

from tests.command_line import command

WRONG = {
    "another library's name": (["avg", "f.csv"], "No such command 'avg'", "write dfprivacy mean"),
    "a near command": (["meen", "f.csv"], "No such command 'meen'", "write dfprivacy mean"),
    "a far command": (["xyzzy"], "No such command 'xyzzy'", "dfprivacy --help lists its options"),
    "a near command of a group": (
        ["ledger", "creat"], "No such command 'creat'", "write dfprivacy ledger create, or",
    ),
    "a question that tables answer": (["pivot", "f.csv"], "'pivot'", "write dfprivacy crosstab"),
    "no column": (["mean", "f.csv"], "Missing argument 'COLUMN'", "dfprivacy mean --help lists"),
    "no option": (["count", "f.csv", "--epsilom", "1"], "--epsilom", "dfprivacy count --help"),
    "no number": (
        ["count", "f.csv", "--epsilon", "x"], "'--epsilon': this is not a valid number.",
        "dfprivacy count --help",
    ),
    "one bound": (
        ["mean", "f.csv", "x", "--bounds", "0"], "'--bounds' requires 2 arguments",
        "write two numbers with a space between them, e.g. --bounds 0 100",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_call_has_a_message_and_a_hint(mistake, monkeypatch):
    """What happened, then what to write or where to look, on stderr alone."""
    monkeypatch.setenv("COLUMNS", "80")
    args, message, hint = WRONG[mistake]
    result = command(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    said, done = result.stderr.splitlines()
    assert said.startswith("Error: ")
    assert message in said
    assert done.startswith(f"Hint: {hint}")


@pytest.mark.parametrize("args", [[], ["ledger"]])
def test_no_command_shows_the_help_once(args):
    """Without a command there is the help, once, and no message."""
    result = command(*args)
    assert result.exit_code == 2
    assert result.output.count("Usage:") == 1
    assert "Error" not in result.output
