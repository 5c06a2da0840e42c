from pathlib import Path

import pytest

from tests.command_line import run_python

ROOT = Path(__file__).parents[2]


def run(name):
    """Run an example as a user would, with every warning an error."""
    return run_python("-W", "error", ROOT / "examples" / name)


def test_every_example_is_tested():
    """The examples below are all there are."""
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(WORDS)


WORDS = {
    "notebook_style.py": [
        "income",
        "median",
        "Bounds(lower=",
        "Visby",
        "Narvik",
        "rho=0.1",
        "people",
    ],
    "duckdb_shell.py": ["AA", "july_seats", "dp_keep"],
    "local_survey.py": ["one message an owner", "168,", "gaussian mean 1", "epsilon=2"],
    "nightly_parts.py": ["7 nights", "a week", "North", "remembered: True", "parts_per_unit=1"],
    "etl_job.py": ["9 groups", "median", "stays", "hospital", "North", "South", "West"],
}
LONG = {"local_survey.py"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in WORDS]
)
def test_example_runs(name):
    """An example ends well, says what it should and prints nothing on stderr."""
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert [word for word in WORDS[name] if word not in done.stdout] == []
    assert max(map(len, done.stdout.splitlines())) <= 120
