"""A ledger's file: one SQLite database, and the protocol by which a charge becomes durable.

Every use opens a connection of its own and closes it, so that nothing is shared by threads or
survives a fork. A charge is one BEGIN IMMEDIATE transaction: no other process can charge between
the look at what is spent and the commit. The rollback journal with synchronous=EXTRA reaches the
disk, directory entries included, before COMMIT returns; the plain FULL leaves a moment in which a
power cut brings a committed transaction back to what it was.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dfprivacy.accounting.charge import Measure, Units
from dfprivacy.accounting.founding import Founding
from dfprivacy.accounting.ledger_schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION
from dfprivacy.errors import LedgerFileError

_FAILURES = {
    sqlite3.SQLITE_BUSY: ("is in use by another process", "try again, or pass a longer timeout"),
    sqlite3.SQLITE_READONLY: ("is read-only", "give this process the right to write to it"),
    sqlite3.SQLITE_FULL: ("could not grow: the disk is full", "make room on the disk"),
    sqlite3.SQLITE_IOERR: (
        "could not be read or written",
        "make room on the disk, or see the system's log",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "could not be opened",
        "check that the file and its directory exist and that this process may write to both",
    ),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "restore the newest copy; charges after it are lost"),
    sqlite3.SQLITE_NOTADB: ("is not a ledger", "name the file that Ledger(path, epsilon=...) made"),
}


class _Gate:
    """Lets one thread at a time at the files of ledgers, and no fork while one is there.

    SQLite's own locks are not safe against a fork in the middle of a transaction.
    """

    def __init__(self) -> None:
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

    def close(self) -> None:
        """Keep the gate for the time of a fork."""
        self._lock.acquire()

    def open(self) -> None:
        """Open the gate in the parent after a fork."""
        self._lock.release()

    def renew(self) -> None:
        """Start afresh in the child: no thread of the parent is there."""
        self._lock = threading.RLock()


_GATE = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_GATE.close, after_in_parent=_GATE.open, after_in_child=_GATE.renew)


@contextmanager
def transaction(
    path: Path, timeout: float, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]
) -> Iterator[sqlite3.Connection]:
    """Open the file, begin, check that it is a ledger of ours, and commit at the end.

    Whatever goes wrong on the way leaves the file as it was.

    Raises
    ------
    LedgerFileError
        When the file is missing, locked, read-only, damaged, full or not of this version.
    """
    with _GATE.passed(path, timeout), readable(path):
        connection = connect(path, timeout)
        try:
            connection.execute(begin)
            _require_ledger(connection, path)
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


def damaged(path: Path) -> LedgerFileError:
    """Return the error of a file that does not hold what was written."""
    what, hint = _FAILURES[sqlite3.SQLITE_CORRUPT]
    return LedgerFileError(f"the ledger {str(path)!r} {what}", hint=hint)


def _require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise LedgerFileError(
            f"the ledger {str(path)!r} is not a ledger",
            hint="name the file that Ledger(path, epsilon=...) made",
        )
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


def create(path: Path, founding: Founding, timeout: float) -> bool:
    """Make the file of a new ledger, whole or not at all; False if the file is there already.

    It is made in a directory of its own beside the path and then linked to the path, which fails
    if another process was first.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".ledger-", dir=path.parent) as directory:
            whole = Path(directory) / "ledger"
            whole.touch()
            _fill(whole, founding, timeout)
            os.link(whole, path)
            _sync_directory(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        if isinstance(error, LedgerFileError):
            raise
        raise LedgerFileError(
            f"the ledger {str(path)!r} could not be made: {error.strerror}",
            hint="choose a directory on a local disk in which this process may write",
        ) from None
    return True


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


def read_charges(connection: sqlite3.Connection, dataset: str | None) -> list[tuple[Any, ...]]:
    """Return the charges of one dataset, or of all, in the order in which they were made."""
    return connection.execute(
        "SELECT time, dataset, question, asked, amount, cost, cost_delta, note, uuid, version "
        "FROM charge WHERE :dataset IS NULL OR dataset = :dataset ORDER BY number",
        {"dataset": dataset},
    ).fetchall()


def read_datasets(connection: sqlite3.Connection) -> list[str]:
    """Return the datasets that have an account, sorted."""
    rows = connection.execute("SELECT dataset FROM account ORDER BY dataset").fetchall()
    return [name for (name,) in rows]
