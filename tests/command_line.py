"""Run the command `dfprivacy` in this process: the entry point that pyproject.toml declares."""

import io
import os
import re
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY = EntryPoint("dfprivacy", DECLARED["scripts"]["dfprivacy"], "console_scripts")


@dataclass(frozen=True)
class Ran:
    """Output and exit code of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        """Both streams, one after the other."""
        return self.stdout + self.stderr


def command(*words, columns=None, text=""):
    """Run `dfprivacy` with these words in a terminal of so many columns, 80 if nothing says.

    Its standard input is a text.
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch("sys.argv", ["dfprivacy", *map(str, words)]),
        mock.patch("sys.stdin", io.StringIO(text)),
        mock.patch.object(sys.modules["__main__"], "__package__", None),  # it is no `python -m`
        mock.patch.dict("os.environ", COLUMNS=str(columns or os.environ.get("COLUMNS", "80"))),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            ENTRY.load()()
        except SystemExit as ended:
            code = ended.code or 0
    return Ran(code, out.getvalue(), err.getvalue())


def run_python(*words, cwd=None, check=False, **environment):
    """Run another Python that finds this package, and return how it ended and what it wrote."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def read_cells(output):
    """Return the cells of a shown table, row by row, or of numbers: value, low and high."""
    numbers = re.findall(r"^\S+ (\S+)(?: \[(.*?)\])?.*, (?:epsilon|rho)=", output, re.MULTILINE)
    if numbers:
        return [[value, *(ends.split(", ") if ends else ())] for value, ends in numbers]
    lines = [line.strip() for line in output.splitlines() if "  " in line.strip()]
    rows = [re.split(r" {2,}", line) for line in lines[1:]]
    return [[end for cell in row for end in _split_interval(cell)] for row in rows]


def _split_interval(cell):
    interval = re.fullmatch(r"\[(\S+), (\S+)\]", cell)
    return [cell] if interval is None else list(interval.groups())
