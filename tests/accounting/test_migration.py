"""Ledgers that an earlier version has written as files of SQLite are read, and go on as logs."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import dfprivacy as dfp
from tests.accounting.charges import charge

WRITTEN = Path(__file__).with_name("schema2.sql")
LEFT = dfp.Budget(epsilon=0.8, delta=1e-6)


@pytest.fixture
def old(tmp_path):
    """Make the file that the earlier version has made."""
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(WRITTEN.read_text(encoding="utf-8"))
    return tmp_path / "old.db"


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def shown(ledger):
    return [
        ledger.remaining("caf\u00e9"), ledger.remaining("d"), ledger.stored(), repr(ledger),
        ledger.total("d"), ledger.history().to_csv(),
    ]  # fmt: skip


def test_it_says_the_same_before_and_after(old):
    """To look at it changes nothing; with the first charge a log takes its place."""
    before = old.read_bytes()
    ledger = dfp.Ledger(old, epsilon=1, delta=1e-6, remember=True)
    first = shown(ledger)
    assert first[:3] == [LEFT, dfp.Budget(epsilon=0.75, delta=9e-7), 2]
    assert ledger.history()["uuid"].tolist()[0] == "ff7215ee-babe-45c6-b6b1-e20de0988c21"
    assert ledger.history()["note"].tolist()[:2] == ["n\u00fc"] * 2
    assert old.read_bytes() == before
    ledger.forget("nobody")
    assert old.read_bytes().startswith(b"dfprivacy ledger 3\n")
    assert sorted(path.name for path in old.parent.iterdir()) == ["old.db", "old.db-head"]
    assert shown(ledger) == shown(dfp.Ledger(old)) == first
    for _ in range(2):
        ledger.charge("d", charge(0.25))
    with pytest.raises(dfp.BudgetExceededError):
        dfp.Ledger(old).charge("d", charge(0.3))


def test_a_file_of_two_names_is_not_migrated(old, tmp_path):
    """A file that is reached by a hard link too would become two ledgers: nothing is charged."""
    os.link(old, tmp_path / "other.db")
    for name in ("old.db", "other.db"):
        ledger = dfp.Ledger(tmp_path / name)
        with pytest.raises(dfp.LedgerFileError, match="other names"):
            ledger.charge("d", charge(0.1))
    (tmp_path / "other.db").unlink()
    dfp.Ledger(old).charge("d", charge(0.1))


def test_releases_are_still_remembered(old):
    """What was remembered comes out, before the first charge and after it."""
    frame = pd.DataFrame({"x": range(100), "g": ["a", "b"] * 50})
    private = frame.dp(ledger=dfp.Ledger(old), dataset="caf\u00e9", version="1")
    for _ in range(2):
        assert private.count(epsilon=0.1) == 88
        shown = private.group_by("g", keys=["a"]).count(epsilon=0.1)
        assert shown.to_dict("list") == {"g": ["a"], "count": [58], "low": [28.0], "high": [88.0]}
        assert dfp.Ledger(old).remaining("caf\u00e9") == LEFT
        dfp.Ledger(old).charge("d", charge(0.1))


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE account SET spent = spent + 1"],
        ["DROP TRIGGER keep_history", "DELETE FROM charge WHERE number = 2"],
        ["DROP TRIGGER keep_budget", "UPDATE budget SET total = 100000000"],
        ["DROP TRIGGER keep_budget", "UPDATE budget SET remember = 0"],
        ["PRAGMA user_version = 1"],
        ["PRAGMA application_id = 7"],
        ["DROP TABLE release"],
    ],
)  # fmt: skip
def test_a_file_that_does_not_add_up_is_refused(old, statements):
    """What breaks the rules of a ledger, or is none, is neither read nor replaced."""
    change(old, *statements)
    content = old.read_bytes()
    with pytest.raises(dfp.LedgerFileError):
        dfp.Ledger(old)
    assert old.read_bytes() == content


def test_cut_anywhere_it_is_refused(old):
    """A file cut at any page is no ledger."""
    whole = old.read_bytes()
    for size in range(512, len(whole), 1024):
        old.write_bytes(whole[:size])
        with pytest.raises(dfp.LedgerFileError):
            dfp.Ledger(old)


def test_a_journal_beside_it_is_refused(old):
    """Only the version that wrote it knows whose journal it is; a new ledger is not made there."""
    journal = old.with_name("old.db-journal")
    journal.write_bytes(b"x")
    with pytest.raises(dfp.LedgerFileError, match="lies a journal") as refused:
        dfp.Ledger(old, timeout=0.02)
    assert "version of dfprivacy that wrote it" in refused.value.hint
    old.rename(old.with_name("away"))
    with pytest.raises(dfp.LedgerFileError, match="lies a part of another"):
        dfp.Ledger(old, epsilon=1)


def test_an_older_version_does_not_go_on(old, monkeypatch):
    """Where the log could not take its place, no older version uses the file; a newer one does."""
    ledger = dfp.Ledger(old)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "no")))
    with pytest.raises(dfp.LedgerFileError, match="could not be read or written"):
        ledger.charge("d", charge(0.1))
    monkeypatch.undo()
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert ledger.remaining("d").epsilon == 0.75
    ledger.charge("d", charge(0.1))
    assert dfp.Ledger(old).remaining("d").epsilon == 0.65


def test_while_an_older_version_charges(old):
    """A file that an older version is writing to is waited for, and not replaced."""
    with closing(sqlite3.connect(old, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(dfp.LedgerFileError, match="in use"):
            dfp.Ledger(old, timeout=0.05).charge("d", charge(0.1))
    dfp.Ledger(old).charge("d", charge(0.1))
    old.with_name("copy.db").write_bytes(old.read_bytes())
    assert dfp.Ledger(old.with_name("copy.db")).remaining("d").epsilon == 0.65
