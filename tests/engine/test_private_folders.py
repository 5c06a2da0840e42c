"""Folders for raw rows go, at whatever moment Ctrl-C comes."""

import json
import os
import shutil
from pathlib import Path

import pytest

import dfprivacy as dfp
from tests.command_line import run_python
from tests.engine.conftest import TABLE


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_whenever_a_process_ends_it_leaves_nothing(spills, every):
    """Whichever line Ctrl-C comes before, it is heard, and the end of the process finds nothing.

    Nor is a folder left that is made in that moment, or when Ctrl-C comes at the end. The end of a
    fork leaves the folders of its parent, and nobody removes one that another process has made.
    """
    script = Path(__file__).with_name("ends.py")
    done = run_python(script, every, check=True, TMPDIR=str(spills))
    outcomes = json.loads(done.stdout)
    lines, heard, left = outcomes.pop("lines")
    assert (heard, left) == (False, [])
    assert lines > 100
    assert outcomes == {
        "interrupt_making": [True, []],
        "interrupt_end": [True, []],
        "fork": [True, []],
        "somebody_elses": [True, ["dfprivacy-theirs"]],
    }


def test_a_folder_goes_whole_before_the_interrupt_is_heard(spills, monkeypatch):
    """Ctrl-C while a folder is removed waits until it is gone."""
    remove, calls = shutil.rmtree, []

    def interrupt(*arguments, **options):
        calls.append(arguments)
        if len(calls) < 3:
            raise KeyboardInterrupt
        remove(*arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dfp.frame(TABLE).count()
    assert len(calls) == 3
    assert list(spills.iterdir()) == []


def test_a_place_that_is_not_there_is_refused(tmp_path):
    """A call that finds no place for its folder fails in fixed words; the next one is served."""
    folder = tmp_path / "place"
    folder.mkdir()
    with dfp.Engine(temporary=folder):
        folder.rmdir()
        with pytest.raises(dfp.EngineError, match="withheld"):
            dfp.frame(TABLE).count()
    assert round(dfp.frame(TABLE).count(epsilon=1e9)) == 9
