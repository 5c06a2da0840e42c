"""Processes and threads that race for a ledger."""

import json
import os
from pathlib import Path

import pytest

from tests.command_line import run_python

FEW = {"race": (6, 30), "threads": (4, 30)}
MANY = {"race": (16, 100), "threads": (8, 100)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(FEW, marks=pytest.mark.battery),
        pytest.param(MANY, marks=pytest.mark.slow),
    ],
)
def test_a_budget_is_spent_once_whoever_races_for_it(numbers, tmp_path):
    """Processes, and threads while children are forked, get the 100 units of 100, all recorded."""
    script = Path(__file__).with_name("crowd.py")
    warnings = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    done = run_python(*warnings, script, tmp_path, json.dumps(numbers))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {name: {"granted": 100, "stored": 100} for name in numbers}
