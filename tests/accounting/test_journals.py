"""A ledger beside a journal that a crash has left: no charge is lost unnoticed."""

import os
import shutil
import signal
import sqlite3

import pytest

import dfprivacy as dfp
from tests.accounting.charges import charge

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def crash():
    """Charge in a child that is killed at a stage; return the file and the journal it left."""

    def crashed(path, stage):
        child = os.fork()
        if child == 0:
            try:
                die(path, stage)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        return path.with_name(f"{path.name}-journal")

    return crashed


def die(path, stage):
    """Be killed once a charge is begun, or once SQLite has written much of it to the file."""
    ledger = dfp.Ledger(path)
    with ledger._open("BEGIN IMMEDIATE") as connection:
        ledger._append(connection, "d", charge(0.1), note="crash")
        if stage == "written":
            connection.execute("PRAGMA cache_size = 1")
            connection.execute(
                "INSERT INTO charge WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 "
                "FROM n WHERE i < 1400) SELECT i, 'u' || i, time, dataset, question, asked, "
                "amount, 1, 0, note, version FROM n, (SELECT * FROM charge LIMIT 1)"
            )
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def path(tmp_path):
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, remember=True)
    ledger.charge("d", charge(0.1))
    return ledger.path


STAGES = ["begun", "written"]


@pytest.mark.parametrize("stage", STAGES)
def test_its_own_journal_is_used(path, crash, stage):
    """What was under way in a crash is undone, as it always was."""
    assert crash(path, stage).exists()
    ledger = dfp.Ledger(path)
    assert ledger.spent("d").epsilon == 0.1
    ledger.charge("d", charge(0.1))
    assert [file.name for file in path.parent.iterdir()] == ["b.db"]


@pytest.mark.parametrize("charges", [1, 2, 7])
def test_a_file_that_went_on_elsewhere(path, tmp_path, crash, charges):
    """A copy with charges of its own, restored beside the journal, is refused and stays whole."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(path, folder / "b.db")
    other = dfp.Ledger(folder / "b.db")
    for _ in range(charges):
        other.charge("d", charge(0.1))
    journal = crash(path, "written")
    shutil.copy(folder / "b.db", path)
    content = path.read_bytes()
    for begin in ({}, {"epsilon": 1}):
        with pytest.raises(dfp.LedgerFileError, match="a journal that is not its own") as refused:
            dfp.Ledger(path, timeout=0.05, **begin)
        assert refused.value.hint
    assert path.read_bytes() == content
    journal.unlink()
    assert dfp.Ledger(path).spent("d").epsilon == round(0.1 + 0.1 * charges, 1)


def test_another_ledger(path, tmp_path, crash):
    """The file of another ledger, moved beside the journal, is refused, though as many pages."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    other = dfp.Ledger(folder / "b.db", epsilon=1, remember=True)
    other.charge("d", charge(0.7))
    crash(path, "written")
    shutil.copy(folder / "b.db", path)
    with pytest.raises(dfp.LedgerFileError, match="not its own"):
        dfp.Ledger(path, timeout=0.05)
    path.with_name("b.db-journal").unlink()
    assert dfp.Ledger(path).spent("d").epsilon == 0.7


def test_a_journal_that_never_reached_the_disk(path, tmp_path, crash):
    """SQLite uses no journal that was not finished: a file beside it keeps its charges."""
    shutil.copy(path, tmp_path / "copy")
    other = dfp.Ledger(tmp_path / "copy")
    other.charge("d", charge(0.1))
    crash(path, "begun")
    shutil.copy(tmp_path / "copy", path)
    assert dfp.Ledger(path).spent("d").epsilon == 0.2


@pytest.mark.parametrize("stage", STAGES)
def test_the_copy_that_the_journal_goes_back_to(path, tmp_path, crash, stage):
    """A copy taken just before the crash is what the journal restores: both say the same."""
    shutil.copy(path, tmp_path / "copy")
    crash(path, stage)
    shutil.copy(tmp_path / "copy", path)
    assert dfp.Ledger(path).spent("d").epsilon == 0.1


@pytest.mark.parametrize("stage", STAGES)
def test_a_new_ledger_beside_a_journal(path, crash, stage):
    """Where the journal of a ledger lies that is gone, no new one is made."""
    journal = crash(path, stage)
    path.unlink()
    for _ in range(2):
        with pytest.raises(dfp.LedgerFileError, match="lies the journal of another") as refused:
            dfp.Ledger(path, epsilon=1)
        assert "put it back" in refused.value.hint
        assert not path.exists()
    journal.unlink()
    assert dfp.Ledger(path, epsilon=1).spent("d").epsilon == 0


def test_through_a_symbolic_link(path, tmp_path, crash):
    """A journal lies beside the file itself, whatever name the ledger is opened by."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "link.db").symlink_to(path)
    shutil.copy(path, tmp_path / "copy")
    crash(path, "written")
    other = dfp.Ledger(tmp_path / "copy")
    other.charge("d", charge(0.1))
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(dfp.LedgerFileError, match="not its own"):
        dfp.Ledger(folder / "link.db", timeout=0.05)


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_of_an_older_version(path, tmp_path, crash, stage):
    """A file without a seal goes by its counter: its own journal is used, that of others not."""
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE seal")
    connection.close()
    shutil.copy(path, tmp_path / "copy")
    other = dfp.Ledger(tmp_path / "copy")
    for _ in range(3):
        other.charge("d", charge(0.1))
    crash(path, stage)
    shutil.copy(path, tmp_path / "crashed")
    shutil.copy(path.with_name("b.db-journal"), tmp_path / "crashed-journal")
    assert dfp.Ledger(path).spent("d").epsilon == 0.1
    shutil.copy(tmp_path / "copy", path)
    shutil.copy(tmp_path / "crashed-journal", path.with_name("b.db-journal"))
    if stage == "written":
        with pytest.raises(dfp.LedgerFileError, match="not its own"):
            dfp.Ledger(path, timeout=0.05)
        path.with_name("b.db-journal").unlink()
    assert dfp.Ledger(path).spent("d").epsilon == 0.4


def test_an_older_copy_is_noticed(path, tmp_path):
    """An open ledger refuses a copy that lacks charges which it has seen."""
    ledger = dfp.Ledger(path)
    shutil.copy(path, tmp_path / "old")
    shutil.copy(path, tmp_path / "new")
    ledger.charge("d", charge(0.1))
    assert ledger.spent("d").epsilon == 0.2
    shutil.copy(path, tmp_path / "new")
    shutil.copy(tmp_path / "old", path)
    for use in (lambda: ledger.remaining("d"), lambda: ledger.charge("d", charge(0.1))):
        with pytest.raises(dfp.LedgerFileError, match="older copy"):
            use()
    shutil.copy(tmp_path / "new", path)
    assert ledger.spent("d").epsilon == 0.2


def test_another_kind_of_journal(path):
    """A file that another program has set to write ahead is refused: its journal is no undo."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with pytest.raises(dfp.LedgerFileError, match="can't be read"):
        dfp.Ledger(path).charge("d", charge(0.1))
    assert dfp.Ledger(path).spent("d").epsilon == 0.1
