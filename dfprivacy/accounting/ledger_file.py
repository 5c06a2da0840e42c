"""Keep a ledger's file: one SQLite database, and the protocol by which a charge becomes durable.

Every use opens a connection of its own and closes it, so that nothing is shared by threads or
survives a fork. A charge is one BEGIN IMMEDIATE transaction: no other process can charge between
the look at what is spent and the commit. The rollback journal with synchronous=EXTRA reaches the
disk, directory entries included, before COMMIT returns; the plain FULL leaves a moment in which a
power cut brings a committed transaction back to what it was.

The tables hold the rules that no program may break, ours included. What is spent never exceeds the
total, only grows, and is the sum of charges that stay as they are. A release is kept only if its
ledger remembers releases and its dataset has been charged; it never changes, but it may be
forgotten.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dfprivacy.accounting.charge import MOST_UNITS, PER_ONE_DELTA, Measure, Units
from dfprivacy.errors import LedgerFileError

Begin = Literal["BEGIN", "BEGIN IMMEDIATE"]

APPLICATION_ID = 0x64667072  # "dfpr"
SCHEMA_VERSION = 2

SCHEMA = f"""CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    ledger TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('epsilon', 'rho')),
    total INTEGER NOT NULL CHECK (typeof(total) = 'integer' AND total BETWEEN 1 AND {MOST_UNITS}),
    total_delta INTEGER NOT NULL
        CHECK (typeof(total_delta) = 'integer' AND total_delta BETWEEN 0 AND {PER_ONE_DELTA}),
    remember INTEGER NOT NULL CHECK (remember IN (0, 1))
);
CREATE TABLE account (
    dataset TEXT PRIMARY KEY NOT NULL,
    total INTEGER NOT NULL,
    total_delta INTEGER NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0,
    spent_delta INTEGER NOT NULL DEFAULT 0,
    CHECK (typeof(spent) = 'integer' AND spent BETWEEN 0 AND total),
    CHECK (typeof(spent_delta) = 'integer' AND spent_delta BETWEEN 0 AND total_delta)
) WITHOUT ROWID;
CREATE TABLE charge (
    number INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    time TEXT NOT NULL,
    dataset TEXT NOT NULL REFERENCES account (dataset),
    question TEXT NOT NULL,
    asked TEXT NOT NULL CHECK (asked IN ('epsilon', 'rho')),
    amount TEXT NOT NULL,
    cost INTEGER NOT NULL CHECK (typeof(cost) = 'integer' AND cost >= 1),
    cost_delta INTEGER NOT NULL CHECK (typeof(cost_delta) = 'integer' AND cost_delta >= 0),
    note TEXT,
    version TEXT NOT NULL
);
CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    fingerprint BLOB NOT NULL UNIQUE
        CHECK (typeof(fingerprint) = 'blob' AND length(fingerprint) = 32),
    time TEXT NOT NULL,
    dataset TEXT NOT NULL REFERENCES account (dataset),
    digest BLOB NOT NULL CHECK (typeof(digest) = 'blob' AND length(digest) = 32),
    content BLOB NOT NULL CHECK (typeof(content) = 'blob')
);
CREATE TABLE seal (only INTEGER PRIMARY KEY CHECK (only = 1), mark BLOB NOT NULL);
CREATE TRIGGER remember BEFORE INSERT ON release WHEN (SELECT remember FROM budget) = 0 BEGIN
    SELECT RAISE(ABORT, 'this ledger remembers no releases');
END;
CREATE TRIGGER keep_release BEFORE UPDATE ON release BEGIN
    SELECT RAISE(ABORT, 'a release is never changed');
END;
CREATE TRIGGER spend AFTER INSERT ON charge BEGIN
    UPDATE account
    SET spent = spent + NEW.cost, spent_delta = spent_delta + NEW.cost_delta
    WHERE dataset = NEW.dataset;
END;
CREATE TRIGGER keep_charge BEFORE UPDATE ON charge BEGIN
    SELECT RAISE(ABORT, 'a charge is never changed');
END;
CREATE TRIGGER keep_history BEFORE DELETE ON charge BEGIN
    SELECT RAISE(ABORT, 'a charge is never taken back');
END;
CREATE TRIGGER only_more BEFORE UPDATE ON account
WHEN NEW.spent < OLD.spent OR NEW.spent_delta < OLD.spent_delta
    OR NEW.total <> OLD.total OR NEW.total_delta <> OLD.total_delta BEGIN
    SELECT RAISE(ABORT, 'what is spent only grows');
END;
CREATE TRIGGER keep_account BEFORE DELETE ON account BEGIN
    SELECT RAISE(ABORT, 'an account is never deleted');
END;
CREATE TRIGGER keep_budget BEFORE UPDATE ON budget BEGIN
    SELECT RAISE(ABORT, 'a budget is never changed');
END;
CREATE TRIGGER stay_budget BEFORE DELETE ON budget BEGIN
    SELECT RAISE(ABORT, 'a budget is never deleted');
END;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""  # noqa: S608 the braces hold our own integers

_FAILURES = {
    sqlite3.SQLITE_BUSY: ("is in use by another process", "try again, or pass a longer timeout"),
    sqlite3.SQLITE_READONLY: ("is read-only", "give this process the right to write to it"),
    sqlite3.SQLITE_FULL: ("could not grow: the disk is full", "make room on the disk"),
    sqlite3.SQLITE_IOERR: (
        "could not be read or written", "make room on the disk, or see the system's log",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "could not be opened",
        "check that the file and its directory exist and that this process may write to both",
    ),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "restore the newest copy; charges after it are lost"),
    sqlite3.SQLITE_NOTADB: ("is not a ledger", "name the file that Ledger(path, epsilon=...) made"),
}  # fmt: skip


@dataclass(frozen=True)
class Founding:
    """What a ledger is made with, and keeps: the budget of each dataset, and if it remembers."""

    total: Units
    remember: bool

    def arguments(self) -> str:
        """Return it as the arguments of a call."""
        budget = self.total.budget().arguments()
        return f"{budget}, remember=True" if self.remember else budget


class _Gate:
    """Lets one thread at a time at the files of ledgers, and no fork while one is there.

    SQLite's own locks are not safe against a fork in the middle of a transaction.
    """

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=lambda: self._lock.acquire(),  # noqa: PLW0108 a child has another lock
                after_in_parent=lambda: self._lock.release(),  # noqa: PLW0108
                after_in_child=self.renew,
            )

    def renew(self) -> None:
        """Start afresh, as in a child: no thread of the parent is there."""
        self._lock = threading.RLock()

    @contextmanager
    def passed(self, path: Path, timeout: float) -> Iterator[None]:
        """Wait for the other threads of this process, but no longer than `timeout` seconds."""
        lock = self._lock
        if not lock.acquire(timeout=timeout):
            raise LedgerFileError(
                f"the ledger {str(path)!r} is in use by another thread",
                hint="try again, or pass a longer timeout",
            )
        try:
            yield
        finally:
            lock.release()


_GATE = _Gate()


@contextmanager
def transaction(path: Path, timeout: float, begin: Begin) -> Iterator[sqlite3.Connection]:
    """Open the file, begin, check that it is a ledger of ours, and commit at the end.

    Whatever goes wrong on the way leaves the file as it was.
    """
    with _GATE.passed(path, timeout), readable(path):
        _require_own_journal(path, timeout)
        connection = connect(path, timeout)
        try:
            connection.execute(begin)
            _require_ledger(connection, path)
            if begin == "BEGIN IMMEDIATE":
                _seal(connection, path)
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """Connect to a file that exists, for durable transactions begun by hand."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None
    )
    for pragma in ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Replace what SQLite says by an error that says what happened and what to do."""
    try:
        yield
    except UnicodeDecodeError:
        raise damaged(path) from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        what, hint = _FAILURES.get(code, (f"can't be used ({error})", "use a whole ledger file"))
        if code == sqlite3.SQLITE_CANTOPEN and not path.exists():
            what, hint = "does not exist", "a budget starts with Ledger(path, epsilon=10)"
        raise LedgerFileError(f"the ledger {str(path)!r} {what}", hint=hint) from None


def damaged(path: Path, code: int = sqlite3.SQLITE_CORRUPT) -> LedgerFileError:
    """Return the error of a file that does not hold what was written."""
    what, hint = _FAILURES[code]
    return LedgerFileError(f"the ledger {str(path)!r} {what}", hint=hint)


def _require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise damaged(path, sqlite3.SQLITE_NOTADB)
    if version != SCHEMA_VERSION:
        raise LedgerFileError(
            f"the ledger {str(path)!r} has schema {version}, and this version of dfprivacy "
            f"reads schema {SCHEMA_VERSION}",
            hint="use the version of dfprivacy that wrote it",
        )
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size < pages * size:  # SQLite reads a page that is cut as zeros
        raise damaged(path)


_MAGIC = bytes.fromhex("d9d505f920a163d7")  # how SQLite begins a journal
_SEAL = bytes.fromhex("ff64667072fe7365616cfdb01a9cfa77")  # no text holds such bytes


def _journal(path: Path) -> Path:
    """Return where SQLite keeps what undoes a transaction."""
    return Path(f"{os.path.realpath(path)}-journal")


def _seal(connection: sqlite3.Connection, path: Path) -> None:
    """Write into the file, first of all, which journal undoes the transaction that begins here.

    A journal is known by the random number in its head, which is there from the first write on;
    how journals begin is written once it has reached the disk.
    """
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'seal'").fetchall():
        return  # an older version made the file
    (blob,) = connection.execute("SELECT randomblob(12)").fetchone()
    connection.execute("UPDATE seal SET mark = ?", (_SEAL + blob + bytes(4),))
    head = b""
    with suppress(OSError), _journal(path).open("rb") as file:
        head = file.read(16)
    if len(head) < 16:
        raise LedgerFileError(
            f"the journal of the ledger {str(path)!r} can't be read",
            hint="let this process read its directory, and leave the file's journal mode as it was",
        )
    connection.execute("UPDATE seal SET mark = ?", (_SEAL + blob + head[12:],))


def _require_own_journal(path: Path, timeout: float) -> None:
    """Refuse a journal that is not of this file: SQLite would undo with it what it never did.

    That of a process at work is there for a moment only, and may be half written: what is refused
    has been there at two looks. No connection of this process is open, for to read its file beside
    it would take its locks away.
    """
    end, before = time.monotonic() + timeout, b""
    while found := _foreign_journal(path):
        if found == before and time.monotonic() > end:
            raise LedgerFileError(
                f"beside the ledger {str(path)!r} lies a journal that is not its own: "
                f"{str(_journal(path))!r}; to use it would undo charges",
                hint="a copy was put here beside what a crash had left: if the copy has all "
                "charges, move the journal away; if not, put the newest file back",
            )
        before = found
        time.sleep(0.01)


def _foreign_journal(path: Path) -> bytes:
    """Return the head of the journal beside a file that does not undo its last transaction, or b"".

    It does if the page of the seal is what the journal goes back to, which no other state of a
    ledger has, or if the seal names the journal. A file without a seal shares a counter with it.
    """
    try:
        journal = _journal(path).read_bytes()
        head, size = journal[:28], path.stat().st_size
        if len(head) < 28 or not head.startswith(_MAGIC):
            return b""  # SQLite will not use it
        _, records, _, pages, sector, width = (
            int.from_bytes(head[place : place + 4]) for place in range(4, 28, 4)
        )
        old = {
            int.from_bytes(journal[place : place + 4]): journal[place + 4 : place + 4 + width]
            for place in range(sector, len(journal) - width - 7, width + 8)
        }
        number = next((number for number, page in old.items() if _SEAL in page), 1)
        if number not in old:
            return b"" if records == 0 and size == pages * width else head  # nothing was written
        with path.open("rb") as file:
            file.seek((number - 1) * width)
            page = file.read(width)
    except OSError:  # it is gone, or SQLite can't read it either
        return b""
    seal = page.find(_SEAL)
    if _SEAL in old[number]:
        own = seal >= 0 and page[seal + 28 : seal + 32] == head[12:16]
    else:
        own = int.from_bytes(page[24:28]) - int.from_bytes(old[1][24:28]) in (0, 1)
    return b"" if own or page == old[number] else head


def create(path: Path, founding: Founding, timeout: float) -> None:
    """Make the file of a new ledger, whole or not at all; leave a file that is there already.

    It is made in a directory of its own beside the path and then linked to the path, which fails
    if another process was first.
    """
    if _journal(path).exists() and not path.exists():
        raise LedgerFileError(
            f"where the ledger {str(path)!r} is to be made lies the journal of another: "
            f"{str(_journal(path))!r}",
            hint="that ledger's file is gone, and its charges with it: put it back, or move the "
            "journal away to begin anew",
        )
    try:
        with tempfile.TemporaryDirectory(prefix=".ledger-", dir=path.parent) as directory:
            whole = Path(directory) / "ledger"
            whole.touch()
            _fill(whole, founding, timeout)
            os.link(whole, path)
            _sync_directory(path.parent)
    except FileExistsError:
        return
    except OSError as error:
        if isinstance(error, LedgerFileError):
            raise
        raise LedgerFileError(
            f"the ledger {str(path)!r} could not be made: {error.strerror}",
            hint="choose a directory on a local disk in which this process may write",
        ) from None


def _fill(path: Path, founding: Founding, timeout: float) -> None:
    total = founding.total
    with readable(path):
        connection = connect(path, timeout)
        try:
            connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}")
            connection.execute(
                "INSERT INTO budget VALUES (1, lower(hex(randomblob(16))), ?, ?, ?, ?)",
                (total.measure, total.loss, total.delta, int(founding.remember)),
            )
            (blob,) = connection.execute("SELECT randomblob(16)").fetchone()
            connection.execute("INSERT INTO seal VALUES (1, ?)", (_SEAL + blob,))
            connection.execute("COMMIT")
        finally:
            connection.close()


def _sync_directory(directory: Path) -> None:
    """Write the directory's entries to the disk, where the system can do that."""
    with suppress(PermissionError):  # Windows opens no directories, and needs no such call
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def require_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with damaged pages, or whose accounts are not the sum of their charges."""
    broken = connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",)
    off = connection.execute(
        "SELECT count(*) FROM account LEFT JOIN "
        "(SELECT dataset, sum(cost) AS cost, sum(cost_delta) AS cost_delta "
        "FROM charge GROUP BY dataset) AS summed USING (dataset) "
        "WHERE spent <> coalesce(cost, 0) OR spent_delta <> coalesce(cost_delta, 0) "
        "OR (total, total_delta) <> (SELECT total, total_delta FROM budget)"
    ).fetchone() != (0,)
    if broken or off:
        raise damaged(path)


def read_founding(connection: sqlite3.Connection) -> tuple[str, Founding]:
    """Return the ledger's own name and what it was made with."""
    row = connection.execute(
        "SELECT ledger, remember, measure, total, total_delta FROM budget"
    ).fetchone()
    if row is None:
        raise sqlite3.DatabaseError("there is no budget in it")
    name, remember, *total = row
    return name, Founding(Units(*total), remember=bool(remember))


def read_spent(connection: sqlite3.Connection, dataset: str, measure: Measure) -> Units:
    """Return what a dataset has spent."""
    row = connection.execute(
        "SELECT spent, spent_delta FROM account WHERE dataset = ?", (dataset,)
    ).fetchone()
    return Units(measure, *(row or (0, 0)))


def append(
    connection: sqlite3.Connection, dataset: str, total: Units, cost: Units, about: dict[str, Any]
) -> None:
    """Add a charge; the trigger adds it to what the account has spent.

    The random number of the row comes from SQLite: the operating system's bytes are for the noise
    alone, and the first of them is drawn after the commit.
    """
    connection.execute(
        "INSERT INTO account (dataset, total, total_delta) VALUES (?, ?, ?) "
        "ON CONFLICT (dataset) DO NOTHING",
        (dataset, total.loss, total.delta),
    )
    (blob,) = connection.execute("SELECT randomblob(16)").fetchone()
    row = {
        "uuid": str(uuid.UUID(bytes=blob, version=4)),
        "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        "dataset": dataset,
        "cost": cost.loss,
        "cost_delta": cost.delta,
        **about,
    }
    names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO charge ({names}) VALUES ({marks})", row)  # noqa: S608 names are ours
