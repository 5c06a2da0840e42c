import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def crowd(*args):
    """Run crowd.py, warnings as errors, and return what it found."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning",
         Path(__file__).with_name("crowd.py"), *map(str, args)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_processes_race(tmp_path):
    """16 processes try 200 times each for 100 units, and get exactly 100, each one recorded."""
    assert crowd("race", tmp_path / "b.db", 16, 200) == {"granted": 100, "stored": 100}


def test_threads_race_while_children_are_forked(tmp_path):
    """8 threads and the children forked meanwhile get exactly 100 units of 100."""
    assert crowd("threads", tmp_path / "b.db", 8, 100) == {"granted": 100, "stored": 100}


@pytest.mark.parametrize("runs", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_processes(tmp_path, runs):
    """Whenever a process is killed, every release that it printed was charged.

    At most one charge more was under way, and the ledger opens whole at once.
    """
    found = crowd("kill", tmp_path / "b.db", runs, 1)
    assert len(found) == runs
    total = 0
    for printed, charged, spent in found:
        total += charged
        assert printed <= charged <= printed + 1
        assert spent == total
    assert sum(printed for printed, _, _ in found) > runs / 3


@pytest.mark.parametrize("runs", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_while_a_ledger_is_made(tmp_path, runs):
    """A file under the ledger's name is whole from its first moment, or not there."""
    found = crowd("create", tmp_path, runs, 2)
    assert [whole for _, whole in found] == [True] * runs


def test_a_fork_never_repeats_a_draw(tmp_path):
    """What parent and 8 children release is all different, and all charged, to one ledger.

    The answers have more than 2**50 likely values: 50 of them repeat one with odds below 1e-12.
    """
    found = crowd("fork", tmp_path / "b.db", 8)
    assert len(set(found["answers"])) == len(found["answers"]) == found["stored"] == 50


@pytest.mark.parametrize("runs", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_a_killed_job_goes_on(tmp_path, runs):
    """A job that is killed and run again gives every answer as it gave it before.

    Every answer was charged; a kill costs at most the one charge whose release was not kept.
    """
    found = crowd("memory", tmp_path / "b.db", runs, 3)
    said = dict(found["said"])
    assert sorted(map(int, said)) == list(range(20))
    assert all(said[number] == answer for number, answer in found["said"])
    assert found["kept"] == 20
    assert 20 <= found["charged"] <= 20 + runs
    assert found["done"] >= 1
