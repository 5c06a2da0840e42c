import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
import tempfile
import threading
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from tests.accounting.charges import charge
from tests.command_line import run_python

TENTH = charge(0.1)


@pytest.fixture
def refused(frame, entropy_calls):
    """Ask for a release that must be refused before anything is drawn; return the message."""

    def ask(ledger, error=dfp.errors.LedgerFileError):
        entropy_calls.clear()
        with pytest.raises(error) as caught:
            frame.dp(ledger=ledger, dataset="d").count(epsilon=0.1)
        assert entropy_calls == []
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
    with pytest.raises(dfp.errors.LedgerFileError, match="does not exist"):
        dfp.Ledger(used.path)


def test_closed(used, refused):
    """A ledger gives no release after its block; its file stays as it is."""
    with used:
        pass
    assert refused(used, dfp.errors.InvalidLedgerError) == "the ledger is closed"
    assert dfp.Ledger(used.path).remaining("d").epsilon == 0.5


def test_replaced_file(used, refused):
    """A ledger notices that its file is another one, though of the same budget."""
    head = used.path.with_name("budget.db-head")
    used.path.unlink()
    with pytest.raises(dfp.errors.LedgerFileError, match="lies a part of another") as caught:
        dfp.Ledger(used.path, epsilon=1, delta=1e-6)
    assert "put it back" in caught.value.hint
    assert not used.path.exists()
    head_content = head.read_bytes()
    head.unlink()
    dfp.Ledger(used.path, epsilon=1, delta=1e-6)
    assert refused(used).endswith("was replaced by another")
    head.write_bytes(head_content)
    with pytest.raises(dfp.errors.LedgerFileError, match="lies the newest hash of another"):
        dfp.Ledger(used.path)


@pytest.mark.parametrize("budget", [{}, {"epsilon": 1, "delta": 1e-6}])
@pytest.mark.parametrize("content", [b"", b"secret 4711", b"x" * 5000, "a database"])
def test_other_files(tmp_path, budget, content):
    """A file that is no ledger is refused and stays as it is; an empty one too: it may be cut."""
    path = tmp_path / "b.db"
    if content == "a database":
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE budget (total)")
        content = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(dfp.errors.LedgerFileError, match="is not a ledger"):
        dfp.Ledger(path, **budget)
    assert path.read_bytes() == content


NAMES = ["/dev/zero", "/dev/null", "a\0b", "\ud800", "x" * 300, "x" * 5000, ".", "no/b.db"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("budget", [{}, {"epsilon": 1}])
def test_names_of_no_file(tmp_path, monkeypatch, name, budget):
    """A device, which may have no end, a folder and what can be no name are refused unread."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dfp.errors.LedgerFileError):
        dfp.Ledger(name, **budget)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [0, 2, 5])
def test_other_schemas(used, refused, version):
    """A ledger of another schema is refused, by an open ledger too."""
    used.path.write_bytes(used.path.read_bytes().replace(b"ledger 4", b"ledger %d" % version))
    expected = f"has schema {version}, and this version of dfprivacy reads schemas 3 and 4"
    assert refused(used).endswith(expected)
    with pytest.raises(dfp.errors.LedgerFileError, match=expected):
        dfp.Ledger(used.path)


def test_truncated(used, refused):
    """A file cut at any length is refused, by an open ledger too, and never charged or mended."""
    content = used.path.read_bytes()
    for size in sorted({*range(0, len(content), 512), 1, 99, 101, 4095, len(content) - 1}):
        used.path.write_bytes(content[:size])
        with pytest.raises(dfp.errors.LedgerFileError):
            dfp.Ledger(used.path, epsilon=1, delta=1e-6)
        refused(used)
        assert used.path.read_bytes() == content[:size]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    position=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255), is_head=st.booleans()
)
def test_damaged(used, tmp_path_factory, fast_disk, position, flipped, is_head):
    """One damaged byte, in the log or in the file beside it, is noticed or changes nothing."""
    folder = tmp_path_factory.mktemp("damaged")
    for name in ("budget.db", "budget.db-head"):
        content = bytearray(used.path.with_name(name).read_bytes())
        if is_head == name.endswith("-head"):
            content[int(position * len(content))] ^= flipped
        (folder / name).write_bytes(content)
    try:
        ledger = dfp.Ledger(folder / "budget.db", epsilon=1, delta=1e-6)
        assert ledger.spent("d") == dfp.Budget(epsilon=0.5)
        assert len(ledger.history()) == 5
        ledger.charge("d", TENTH)
        assert dfp.Ledger(ledger.path).spent("d") == dfp.Budget(epsilon=0.6)
    except dfp.errors.LedgerFileError:
        return
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("head", [b"a b c", b"a 1 \xff"])
def test_a_hash_that_is_none(used, refused, head):
    """The newest hash is refused if it is no text and number, though its own hash is right."""
    digest = hashlib.sha256(head).hexdigest().encode()
    used.path.with_name("budget.db-head").write_bytes(b"%s %s\n" % (head, digest))
    assert "beside a ledger is damaged" in refused(used)


def test_locked(used, refused):
    """While another process writes, a ledger can be read; a release waits, is refused, recovers."""
    waiting = dfp.Ledger(used.path, timeout=0.05)
    with used.path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert waiting.remaining("d").epsilon == 0.5
        assert refused(waiting).endswith("is in use by another process")
    waiting.charge("d", TENTH)
    assert waiting.remaining("d").epsilon == 0.4


def test_locked_by_a_thread(used, refused, monkeypatch):
    """While another thread charges, a ledger waits its timeout and refuses."""
    waiting = dfp.Ledger(used.path, timeout=0.05)
    entered, done, sync = threading.Event(), threading.Event(), os.fsync

    def slow(descriptor):
        entered.set()
        done.wait(60)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    holder = threading.Thread(target=used.charge, args=("d", TENTH))
    holder.start()
    entered.wait(60)
    try:
        assert refused(waiting).endswith("is in use by another thread")
    finally:
        done.set()
        holder.join()
    waiting.charge("d", TENTH)
    assert waiting.remaining("d").epsilon == 0.3


def test_full_disk(used, refused, limit_files):
    """When a file can't grow, nothing is drawn and nothing charged; afterwards all is well."""
    size = used.path.stat().st_size
    for limit in (0, 1, 511, 512, size - 1, size, size + 1, size + 100, size + 200):
        with limit_files(limit):
            refused(used)
        assert len(dfp.Ledger(used.path).history()) == 5
    used.charge("d", TENTH)
    assert dfp.Ledger(used.path).remaining("d").epsilon == 0.4


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_read_only():
    """Who may not write to the file may look but gets no release."""
    folder = Path(tempfile.mkdtemp())
    owner = 65_534 if os.geteuid() == 0 else os.geteuid()
    script = Path(__file__).with_name("read_only.py")
    try:
        folder.chmod(0o755)
        done = run_python("-W", "error", script, folder / "b.db", owner, check=True)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    first, refusal, last = done.stdout.splitlines()
    assert first == last == "Budget(epsilon=1.0)"
    assert refusal.endswith("is read-only")
