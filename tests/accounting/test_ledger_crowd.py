import json
import os
from pathlib import Path

import pytest

from tests.command_line import run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


FEW = {
    "race": (6, 30), "threads": (4, 30), "kill": (9, 1), "create": (8, 2), "fork": (8,),
    "memory": (6, 3),
}  # fmt: skip
MANY = {
    "race": (16, 100), "threads": (8, 100), "kill": (50, 1), "create": (50, 2), "fork": (8,),
    "memory": (50, 3),
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("few", marks=pytest.mark.battery),
        pytest.param("many", marks=pytest.mark.slow),
    ],
)
def crowd(request, tmp_path_factory):
    """Run crowd.py, warnings as errors, and return its numbers and what it found."""
    numbers = FEW if request.param == "few" else MANY
    script, folder = Path(__file__).with_name("crowd.py"), tmp_path_factory.mktemp("crowd")
    warnings = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    done = run_python(*warnings, script, folder, json.dumps(numbers))
    assert (done.returncode, done.stderr) == (0, "")
    return {name: (numbers[name], result) for name, result in json.loads(done.stdout).items()}


def test_processes_race(crowd):
    """Processes try far more often than there are units, and get exactly 100, each recorded."""
    assert crowd["race"][1] == {"granted": 100, "stored": 100}


def test_threads_race_while_children_are_forked(crowd):
    """Threads and the children forked meanwhile get exactly 100 units of 100."""
    assert crowd["threads"][1] == {"granted": 100, "stored": 100}


def test_killed_processes(crowd):
    """Whenever a process is killed, every release that it printed was charged.

    At most one charge more was under way, and the ledger opens whole at once.
    """
    (runs, _), figures = crowd["kill"]
    assert len(figures) == runs
    total = 0
    for printed, charged, spent in figures:
        total += charged
        assert printed <= charged <= printed + 1
        assert spent == total
    assert sum(printed for printed, _, _ in figures) > runs / 3


def test_killed_while_a_ledger_is_made(crowd):
    """A file under the ledger's name is whole from its first moment, or not there."""
    (runs, _), outcomes = crowd["create"]
    assert [is_complete for _, is_complete in outcomes] == [True] * runs


def test_a_fork_never_repeats_a_draw(crowd):
    """The answers of a parent and 8 children are all different, and all charged to one ledger.

    The answers have more than 2**50 likely values: 50 of them repeat one with odds below 1e-12.
    """
    result = crowd["fork"][1]
    assert len(set(result["answers"])) == len(result["answers"]) == result["stored"] == 50


def test_a_killed_job_goes_on(crowd):
    """A job that is killed and run again gives every answer as it gave it before.

    Every answer was charged; a kill costs at most the one charge whose release was not kept.
    """
    (runs, _), result = crowd["memory"]
    answers = dict(result["answers"])
    assert sorted(map(int, answers)) == list(range(20))
    assert all(answers[number] == answer for number, answer in result["answers"])
    assert result["kept"] == 20
    assert 20 <= result["charged"] <= 20 + runs
    assert result["done"] >= 1
