"""Read ledgers that earlier versions kept as files of SQLite (schema 2).

A ledger is read as it is until something is written to it; then a log takes its place. The number
of the schema is raised within that transaction, so that no process with an older version, which has
the file open, charges what nobody would read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dfprivacy.errors import LedgerFileError

MAGIC = b"SQLite format 3\x00"
_APPLICATION, _SCHEMAS = 0x64667072, (2, 3)  # 3: a log was about to take its place
_CHARGE = (
    "uuid", "time", "dataset", "question", "asked", "amount", "cost", "cost_delta", "note",
    "version",
)  # fmt: skip
_FOUNDING = ("ledger", "measure", "total", "total_delta", "remember")

Transactions = Iterator[tuple[list[tuple[str, dict[str, Any]]], bytes]]


def journal(path: Path) -> Path:
    """Return where SQLite keeps what undoes a transaction."""
    return Path(f"{os.path.realpath(path)}-journal")


@contextmanager
def transactions(path: Path, timeout: float, *, last: bool = False) -> Iterator[Transactions]:
    """Yield what a ledger holds as the transactions of a log, and their contents.

    With `last=True` no other process can use the file until the end, nor an older version then.

    Raises
    ------
    LedgerFileError
        When it can't be read, breaks its own rules, or lies beside a journal.
    """
    end = time.monotonic() + timeout
    while journal(path).exists():
        if time.monotonic() > end:
            raise LedgerFileError(
                f"beside the ledger {str(path)!r} lies a journal, which may undo charges: "
                f"{str(journal(path))!r}",
                hint="open the ledger once with the version of dfprivacy that wrote it, or move "
                "the journal away if the ledger has all its charges",
            )
        time.sleep(0.01)
    uri = f"{Path(os.path.realpath(path)).as_uri()}?mode={'rw' if last else 'ro'}"
    try:
        with closing(
            sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
        ) as connection:
            connection.execute("BEGIN EXCLUSIVE" if last else "BEGIN")
            _require_whole(connection, path)
            yield _read(connection)
            if last:
                connection.execute("PRAGMA user_version = 3")
                connection.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError):
        raise LedgerFileError(
            f"the ledger {str(path)!r} can't be read: it is in use, damaged, or not a ledger",
            hint="try again; if that does not help, restore the newest copy",
        ) from None


def _require_whole(connection: sqlite3.Connection, path: Path) -> None:
    def one(query: str) -> Any:
        return connection.execute(query).fetchone()[0]

    if one("PRAGMA application_id") != _APPLICATION:
        raise LedgerFileError(
            f"the ledger {str(path)!r} is not a ledger",
            hint="name the file that Ledger(path, epsilon=...) made",
        )
    if (schema := one("PRAGMA user_version")) not in _SCHEMAS:
        raise LedgerFileError(
            f"the ledger {str(path)!r} has schema {schema}, and this version of dfprivacy reads "
            "schemas 2 and 3",
            hint="use the version of dfprivacy that wrote it",
        )
    cut = path.stat().st_size < one("PRAGMA page_count") * one("PRAGMA page_size")
    off = one(
        "SELECT count(*) FROM account LEFT JOIN "
        "(SELECT dataset, sum(cost) AS cost, sum(cost_delta) AS cost_delta "
        "FROM charge GROUP BY dataset) AS summed USING (dataset) "
        "WHERE spent <> coalesce(cost, 0) OR spent_delta <> coalesce(cost_delta, 0)"
    )
    if cut or off or one("PRAGMA integrity_check(1)") != "ok":
        raise sqlite3.DatabaseError


def _read(connection: sqlite3.Connection) -> Transactions:
    for kind, table, names in (("founding", "budget", _FOUNDING), ("charge", "charge", _CHARGE)):
        order = "only" if kind == "founding" else "number"
        for row in connection.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {order}"):  # noqa: S608 our own names
            yield [(kind, dict(zip(names, row, strict=True)))], b""
    kept = connection.execute(
        "SELECT lower(hex(fingerprint)), dataset, lower(hex(digest)), length(content), content "
        "FROM release ORDER BY number"
    )
    for fingerprint, dataset, digest, length, content in kept:
        fields = {"fingerprint": fingerprint, "dataset": dataset, "digest": digest}
        yield [("release", {**fields, "length": length})], content
