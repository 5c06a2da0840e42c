import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import loss_of

ROOT = Path(__file__).parents[2]
TENTH = Charge(loss_of(0.1), question="count()")


@pytest.fixture
def refused(frame, drawn):
    """Ask for a release that must be refused before anything is drawn; return the message."""

    def ask(ledger, error=dfp.LedgerFileError):
        drawn.clear()
        with pytest.raises(error) as caught:
            frame.dp(ledger=ledger, dataset="d").count(epsilon=0.1)
        assert drawn == []
        assert caught.value.hint
        return caught.value.message

    return ask


@pytest.fixture
def used(ledger, frame):
    """Make a ledger of epsilon 1, of which 0.5 is spent."""
    for _ in range(5):
        frame.dp(ledger=ledger, dataset="d", note="a note " * 100).count(epsilon=0.1)
    return ledger


def test_missing_file(used, refused):
    """A ledger whose file is gone refuses, and makes no new one."""
    used.path.unlink()
    assert refused(used).endswith("does not exist")
    assert not used.path.exists()
    with pytest.raises(dfp.LedgerFileError, match="does not exist"):
        dfp.Ledger(used.path)


def test_closed(used, refused):
    """A ledger that was closed gives no release; its file stays as it is."""
    used.close()
    assert refused(used, dfp.InvalidLedgerError) == "the ledger is closed"
    assert dfp.Ledger(used.path).remaining("d").epsilon == 0.5


def test_missing_directory(tmp_path):
    """A ledger is not made where there is no directory."""
    with pytest.raises(dfp.LedgerFileError, match="there is no directory"):
        dfp.Ledger(tmp_path / "no" / "b.db", epsilon=1)
    assert list(tmp_path.iterdir()) == []


def test_replaced_file(used, refused):
    """A ledger notices that its file is another one, though of the same budget."""
    used.path.unlink()
    dfp.Ledger(used.path, epsilon=1, delta=1e-6)
    assert refused(used).endswith("was replaced by another")


@pytest.mark.parametrize("budget", [{}, {"epsilon": 1, "delta": 1e-6}])
@pytest.mark.parametrize("content", [b"", b"secret 4711", b"x" * 5000])
def test_other_files(tmp_path, budget, content):
    """A file that is no ledger is refused and stays as it is; an empty one too: it may be cut."""
    path = tmp_path / "b.db"
    path.write_bytes(content)
    with pytest.raises(dfp.LedgerFileError, match="is not a ledger"):
        dfp.Ledger(path, **budget)
    assert path.read_bytes() == content


def test_a_directory(tmp_path):
    """A directory is no ledger."""
    with pytest.raises(dfp.LedgerFileError, match="could not be opened"):
        dfp.Ledger(tmp_path, epsilon=1)


def test_another_database(tmp_path):
    """A database of another program is refused and stays as it is."""
    path = tmp_path / "b.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE budget (total)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(dfp.LedgerFileError, match="is not a ledger"):
        dfp.Ledger(path, epsilon=1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [0, 1, 3])
def test_other_schemas(used, refused, version):
    """A ledger of another schema is refused, by an open ledger too."""
    connection = sqlite3.connect(used.path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    expected = f"has schema {version}, and this version of dfprivacy reads schema 2"
    assert refused(used).endswith(expected)
    with pytest.raises(dfp.LedgerFileError, match=expected):
        dfp.Ledger(used.path)


def test_truncated(used, refused):
    """A file cut at any length is refused, by an open ledger too, and never charged or mended."""
    whole = used.path.read_bytes()
    for size in sorted({*range(0, len(whole), 512), 1, 99, 101, 4095, len(whole) - 1}):
        used.path.write_bytes(whole[:size])
        with pytest.raises(dfp.LedgerFileError):
            dfp.Ledger(used.path, epsilon=1, delta=1e-6)
        refused(used)
        assert used.path.read_bytes() == whole[:size]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255))
def test_damaged(used, tmp_path_factory, fast_disk, place, flipped):
    """One damaged byte is noticed when a ledger is opened, or leaves what is spent as it was."""
    content = bytearray(used.path.read_bytes())
    content[int(place * len(content))] ^= flipped
    copy = tmp_path_factory.mktemp("damaged") / "b.db"
    copy.write_bytes(content)
    try:
        ledger = dfp.Ledger(copy, epsilon=1, delta=1e-6)
        spent = ledger.spent("d")
        ledger.history()
    except dfp.LedgerFileError:
        return
    finally:
        shutil.rmtree(copy.parent)
    assert spent == dfp.Budget(epsilon=0.5)


@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
def test_locked(used, refused, kind):
    """While another process holds the file, a ledger waits its timeout, refuses, and recovers."""
    waiting = dfp.Ledger(used.path, timeout=0.05)
    other = sqlite3.connect(used.path, isolation_level=None)
    other.execute(f"BEGIN {kind}")
    assert refused(waiting).endswith("is in use by another process")
    other.execute("ROLLBACK")
    other.close()
    waiting.charge("d", TENTH)
    assert waiting.remaining("d").epsilon == 0.4


def test_locked_by_a_thread(used, refused):
    """While another thread is in a transaction, a ledger waits its timeout and refuses."""
    waiting = dfp.Ledger(used.path, timeout=0.05)
    entered, done = threading.Event(), threading.Event()

    def hold():
        with ledger_file.transaction(used.path, 60, "BEGIN IMMEDIATE"):
            entered.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(60)
    try:
        assert refused(waiting).endswith("is in use by another thread")
    finally:
        done.set()
        holder.join()
    waiting.charge("d", TENTH)


def test_an_unfinished_journal_is_rolled_back(used, tmp_path):
    """A charge that was under way when the power failed is undone, and the ledger is whole."""
    other = sqlite3.connect(used.path, isolation_level=None)
    other.execute("PRAGMA cache_size = 1")
    other.execute("BEGIN IMMEDIATE")
    other.execute(
        "INSERT INTO charge WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n "
        "WHERE i < 400) SELECT i, 'u' || i, time, dataset, question, asked, amount, 1, 0, note, "
        "version FROM n, (SELECT * FROM charge LIMIT 1)"
    )
    for name in ("budget.db", "budget.db-journal"):
        shutil.copy(used.path.with_name(name), tmp_path / f"crashed {name}")
    other.close()
    crashed = dfp.Ledger(tmp_path / "crashed budget.db", epsilon=1, delta=1e-6)
    assert crashed.spent("d").epsilon == 0.5
    crashed.charge("d", TENTH)
    assert len(crashed.history()) == 6


def script(name, *args):
    done = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name(name), *map(str, args)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_full_disk(tmp_path):
    """When a file can't grow, nothing is drawn and nothing charged; afterwards all is well."""
    found = json.loads(script("full_disk.py", tmp_path / "b.db"))
    before = 1
    for error, drawn, charges in found:
        assert error in (None, "LedgerFileError")
        assert (drawn > 0) == (error is None)
        assert charges == before + (error is None)
        before = charges
    errors = [error for error, _, _ in found]
    assert errors[0] == "LedgerFileError"
    assert errors[-1] is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
@pytest.mark.parametrize("mode", ["file", "directory"])
def test_read_only(mode):
    """Who may not write to the file, or not to its directory, may look but gets no release."""
    folder = Path(tempfile.mkdtemp())
    owner = 65_534 if os.geteuid() == 0 else os.geteuid()
    try:
        folder.chmod(0o755)
        lines = script("read_only.py", folder / "b.db", mode, owner).splitlines()
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    assert lines[0] == lines[2] == "Budget(epsilon=1.0)"
    assert lines[1].endswith(("is read-only", "could not be opened"))
