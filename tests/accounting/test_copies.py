"""A ledger whose file is not the newest one: no charge is lost unnoticed."""

import fcntl
import os
import shutil
import signal

import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.accounting.charges import charge
from tests.command_line import run_python

pytestmark = pytest.mark.slow

AFRESH = """
import sys, dfprivacy as dfp
from tests.accounting.charges import charge
ledger = dfp.Ledger(sys.argv[1])
ledger.charge('d', charge(0.1))
print(ledger.spent('d').epsilon)
"""


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    ledger = dfp.Ledger(folder / "b.db", epsilon=1, remember=True)
    ledger.charge("d", charge(0.1))
    return ledger.path


def afresh(path):
    """Open a ledger in a process that has never seen it, and charge it; return what it says."""
    done = run_python("-c", AFRESH, path)
    return (done.stdout or done.stderr.splitlines()[-3]).strip()


def test_an_older_copy_is_noticed(path, tmp_path):
    """A copy that lacks charges is refused, by this process and by others; the newest is not."""
    ledger = dfp.Ledger(path)
    shutil.copy(path, tmp_path / "old")
    ledger.charge("d", charge(0.1))
    shutil.copy(path, tmp_path / "new")
    shutil.copy(tmp_path / "old", path)
    for use in (
        lambda: ledger.remaining("d"),
        lambda: ledger.charge("d", charge(0.1)),
        lambda: dfp.Ledger(path),
    ):
        with pytest.raises(dfp.errors.LedgerFileError, match="older copy"):
            use()
    assert "was replaced by an older copy" in afresh(path)
    assert path.read_bytes() == (tmp_path / "old").read_bytes()
    shutil.copy(tmp_path / "new", path)
    assert ledger.spent("d").epsilon == 0.2
    assert afresh(path) == "0.3"


def test_an_older_folder_is_noticed_by_who_has_seen_the_newer(path):
    """Where the file beside the ledger is as old, a process that saw more charges refuses it."""
    old = shutil.copytree(path.parent, path.parent.with_name("old"))
    ledger = dfp.Ledger(path)
    ledger.charge("d", charge(0.1))
    for name in ("b.db", "b.db-head"):
        shutil.copy(old / name, path.with_name(name))
    for use in (lambda: ledger.remaining("d"), lambda: dfp.Ledger(path)):
        with pytest.raises(dfp.errors.LedgerFileError, match="older copy"):
            use()


@pytest.mark.parametrize("charges", [1, 2, 5])
def test_a_copy_that_went_on_elsewhere(path, tmp_path, charges):
    """A copy with charges of its own, however many, is not the ledger that it was copied from.

    It stays refused, however often it is asked, by who had read the ledger before and by others.
    """
    opened = dfp.Ledger(path)
    other = dfp.Ledger(shutil.copy(path, tmp_path / "copy"))
    for _ in range(charges):
        other.charge("d", charge(0.1))
    dfp.Ledger(path).charge("d", charge(0.1))
    shutil.copyfile(other.path, path)  # the same inode
    uses = (
        lambda: opened.spent("d"),
        lambda: opened.charge("d", charge(0.1)),
        lambda: dfp.Ledger(path),
    )
    for use in uses * 3:
        with pytest.raises(dfp.errors.LedgerFileError, match="older copy"):
            use()
    assert "was replaced by an older copy" in afresh(path)
    assert dfp.Ledger(other.path).spent("d").epsilon == round(0.1 + 0.1 * charges, 1)


def test_a_copy_with_more_charges_is_used(path, tmp_path):
    """A copy that has all charges and more takes the ledger's place."""
    ledger = dfp.Ledger(path)
    other = dfp.Ledger(shutil.copy(path, tmp_path / "copy"))
    other.charge("d", charge(0.1))
    shutil.copy(other.path, path)
    assert ledger.spent("d").epsilon == 0.2
    ledger.charge("d", charge(0.1))
    assert afresh(path) == "0.4"


def test_a_ledger_that_was_moved(path, tmp_path):
    """A file without the one beside it is read to its end, and refused if its last line is cut."""
    content, moved = path.read_bytes(), tmp_path / "moved.db"
    moved.write_bytes(content)
    assert dfp.Ledger(moved).spent("d").epsilon == 0.1
    assert not moved.with_name("moved.db-head").exists()
    dfp.Ledger(moved).charge("d", charge(0.1))
    assert moved.with_name("moved.db-head").exists()
    cut, last_line = tmp_path / "cut.db", content.rindex(b"\n", 0, -1) + 1
    for size in range(last_line + 1, len(content)):
        cut.write_bytes(content[:size])
        with pytest.raises(dfp.errors.LedgerFileError):
            dfp.Ledger(cut)


def test_through_a_symbolic_link(path, tmp_path):
    """The newest hash lies beside the file itself, whatever name the ledger is opened by."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    old = path.read_bytes()
    ledger = dfp.Ledger(link)
    ledger.charge("d", charge(0.1))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.db", "own"]
    ledger.forget()
    assert link.is_symlink()
    path.write_bytes(old)
    with pytest.raises(dfp.errors.LedgerFileError, match="older copy"):
        dfp.Ledger(path)


@pytest.mark.parametrize("tail", [b"x", b"0" * 64 + b" 0 []\n", b"\0" * 5000, b"\n"])
def test_what_was_never_confirmed_is_dropped(path, tail):
    """Lines that a crash has left at the end are passed over, and gone with the next charge."""
    content = path.read_bytes()
    path.write_bytes(content + tail)
    ledger = dfp.Ledger(path)
    assert ledger.spent("d").epsilon == 0.1
    assert path.read_bytes() == content + tail
    ledger.charge("d", charge(0.1))
    assert path.read_bytes().startswith(content)
    assert path.read_bytes().count(b"\n") == content.count(b"\n") + 1
    assert afresh(path) == "0.3"


def test_two_names_of_a_file_spend_one_budget(path, tmp_path):
    """A ledger that is reached by a hard link too is one ledger, whatever is forgotten."""
    other = tmp_path / "other.db"
    os.link(path, other)
    first, second = dfp.Ledger(path), dfp.Ledger(other)
    frame = pd.DataFrame({"x": [1.0] * 9})
    for version in "ab":
        frame.dp(ledger=first, dataset="d", version=version).count(epsilon=0.1)
    assert first.forget() == 2
    second.charge("d", charge(0.3))
    assert first.spent("d") == second.spent("d") == dfp.Budget(epsilon=0.6)
    with pytest.raises(dfp.BudgetExceededError):
        first.charge("d", charge(0.5))
    assert first.stored() == second.stored() == 0


KILLED = """
import os, signal, sys
import dfprivacy as dfp
ledger = dfp.Ledger(sys.argv[1])
os.replace = os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ledger.forget()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
def test_folders_of_killed_writers_are_removed(tmp_path):
    """The next writer removes what a killed one has left, and no folder that a living one holds."""
    path = tmp_path / "b.db"
    ledger = dfp.Ledger(path, epsilon=1, remember=True)
    ledger.charge("d", charge(0.1))
    ledger.store("d", bytes(32), pa.table({"n": [1]}))
    other = dfp.Ledger(tmp_path / "other.db", epsilon=1, remember=True)
    done = run_python("-c", KILLED, path)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob(".ledger-*")
    living = tmp_path / f"{left.name[:-1]}~"
    living.mkdir()
    with (living / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other.charge("d", charge(0.1))
        assert set(tmp_path.glob(".ledger-*")) == {left, living}
        dfp.Ledger(path).charge("d", charge(0.1))
        assert set(tmp_path.glob(".ledger-*")) == {living}
    dfp.Ledger(path).charge("d", charge(0.1))
    assert not set(tmp_path.glob(".ledger-*"))
    assert dfp.Ledger(path).spent("d").epsilon == 0.3
