"""Releases that can be repeated: what was released once comes out again, and costs nothing."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from sqlite3 import Connection

import pyarrow as pa

from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.ledger_terms import dataset_name
from dfprivacy.accounting.opened import Opened
from dfprivacy.accounting.release_bytes import release_bytes, released_table
from dfprivacy.errors import InvalidLedgerError

MOST_BYTES = 2**29  # of one release; SQLite's own limit is near 2**30


class Memory(Opened):
    """The part of a ledger that keeps what was released.

    Privacy: a release that is handed out again is a function of a release that was charged; it
    tells nothing new about the data, however often it is handed out.
    """

    def recall(self, dataset: str, fingerprint: bytes) -> pa.Table | None:
        """Return the release kept under a fingerprint, or None.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        name = dataset_name(dataset)
        with self._open("BEGIN") as connection:
            row = connection.execute(
                "SELECT digest, content FROM release WHERE fingerprint = ? AND dataset = ?",
                (fingerprint, name),
            ).fetchone()
        if row is None:
            return None
        digest, content = row
        if hashlib.sha256(content).digest() != digest:
            raise ledger_file.damaged(self._path)
        return released_table(content)

    def store(self, dataset: str, fingerprint: bytes, table: pa.Table) -> None:
        """Keep a release that has been charged, durably; what is kept already stays.

        Raises
        ------
        InvalidLedgerError
            When this ledger does not remember, or the release has more than 512 MiB.
        LedgerError
            When it could not be written.
        """
        name = dataset_name(dataset)
        if not self.remembers:
            raise InvalidLedgerError(
                "this ledger remembers no releases",
                hint="make one that does: dfp.Ledger(path, epsilon=10, remember=True)",
            )
        content = release_bytes(table)
        if len(content) > MOST_BYTES:
            raise InvalidLedgerError(
                "a release of more than 512 MiB is not kept", hint="release fewer groups at a time"
            )
        with self._open("BEGIN IMMEDIATE") as connection:
            insert_release(connection, name, fingerprint, content)

    def stored(self, dataset: str | None = None) -> int:
        """Return how many releases of a dataset, or of all, are kept.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._open("BEGIN") as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM release WHERE :dataset IS NULL OR dataset = :dataset",
                {"dataset": name},
            ).fetchone()
        return int(count)

    def forget(self, dataset: str | None = None) -> int:
        """Drop the releases kept of a dataset, or of all; return how many there were.

        Asked again, they are made anew and charged again: nothing is paid back. The file uses the
        room for what comes next.

        Raises
        ------
        LedgerError
            When the file can't be written.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._open("BEGIN IMMEDIATE") as connection:
            return connection.execute(
                "DELETE FROM release WHERE :dataset IS NULL OR dataset = :dataset",
                {"dataset": name},
            ).rowcount


def insert_release(
    connection: Connection, dataset: str, fingerprint: bytes, content: bytes
) -> None:
    """Keep bytes under a fingerprint; what is kept already stays."""
    row = (
        fingerprint, datetime.now(UTC).isoformat(timespec="microseconds"), dataset,
        hashlib.sha256(content).digest(), content,
    )  # fmt: skip
    connection.execute(
        "INSERT INTO release (fingerprint, time, dataset, digest, content) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO NOTHING",
        row,
    )
