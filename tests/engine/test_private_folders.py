"""Folders for raw rows go, at whatever moment Ctrl-C comes."""

import gc
import os
import sys

import pytest

from dfprivacy.engine import embedded
from dfprivacy.engine.embedded import private_folder, remove_folders

OWN = {embedded.__file__}
LINES = 170
"""More lines than the module runs to open a connection and to close it, with a new database and
with one that is held."""


def interrupted_at(count, work):
    """Run `work`, interrupted before the given line of the module; tell whether it was."""
    left = [count]

    def lines(frame, event, argument):
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return lines

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: lines if frame.f_code.co_filename in OWN else None)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def use_a_connection():
    embedded.close_held()
    for _ in range(2):
        with embedded.embedded() as connection:
            connection.execute("SELECT 1")


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_before_any_line_leaves_nothing(spills, every):
    """Whichever line Ctrl-C comes before, it is heard, and the end of the process finds nothing."""
    heard = []
    for count in range(1, LINES, every):
        heard.append(interrupted_at(count, use_a_connection))
        gc.collect()
        embedded._remove_all()
        assert list(spills.iterdir()) == []
    assert heard.index(False) > 20 // every
    assert True not in heard[heard.index(False) :]


def test_a_folder_goes_whole_before_the_interrupt_is_heard(spills, monkeypatch):
    """Ctrl-C while a folder is removed waits until it is gone."""
    folder, remove = private_folder(), embedded.shutil.rmtree
    (folder / "rows").write_text("raw rows")
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) < 3:
            raise KeyboardInterrupt
        remove(*arguments, **options)

    monkeypatch.setattr(embedded.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove_folders(folder)
    assert len(calls) == 3
    assert list(spills.iterdir()) == []


def test_an_interrupt_of_the_end_waits_for_all_folders(spills, monkeypatch):
    """Ctrl-C while the end of the process removes folders leaves none of them."""
    folders, remove, calls = [private_folder() for _ in range(3)], embedded.shutil.rmtree, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(*arguments, **options)

    monkeypatch.setattr(embedded.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embedded._remove_all()
    assert not any(folder.exists() for folder in folders)


def test_a_place_that_is_not_there(tmp_path, monkeypatch):
    """A folder that could not be made is not remembered."""
    monkeypatch.setattr(embedded.tempfile, "tempdir", str(tmp_path / "none"))
    before = dict(embedded._MAKERS)
    with pytest.raises(OSError, match="No such file"):
        private_folder()
    assert before == embedded._MAKERS


def test_a_folder_is_noted_before_it_is_made(spills, monkeypatch):
    """A folder whose making was interrupted goes with the process."""
    make = embedded.Path.mkdir

    def interrupted(path, **options):
        make(path, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded.Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        private_folder()
    assert len(list(spills.iterdir())) == 1
    embedded._remove_all()
    assert list(spills.iterdir()) == []


def test_a_folder_of_somebody_else_stays(spills, monkeypatch):
    """A folder that another process has made in that moment is refused, and left alone."""
    theirs = spills / "dfprivacy-theirs"
    theirs.mkdir()
    monkeypatch.setattr(embedded.tempfile, "mktemp", lambda **_: str(theirs))
    with pytest.raises(FileExistsError):
        private_folder()
    embedded._remove_all()
    assert list(spills.iterdir()) == [theirs]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_leaves_the_folders_of_its_parent(spills):
    """The end of a forked process removes what it has made itself, and nothing else."""
    folder = private_folder()
    child = os.fork()
    if child == 0:
        private_folder()
        embedded._remove_all()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(spills.iterdir()) == [folder]
    remove_folders(folder)
    assert list(spills.iterdir()) == []
