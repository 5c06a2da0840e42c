"""Keep statements that wait for the owner's approval, in a file beside the ledger."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from dfprivacy.errors import InvalidQuestionError, LedgerFileError

_TABLE = """CREATE TABLE IF NOT EXISTS waiting (
    number INTEGER PRIMARY KEY, analyst, dataset, statement, epsilon, state DEFAULT 'waiting',
    UNIQUE (analyst, dataset, statement, epsilon))"""
_SELECT = """SELECT number, analyst, dataset, statement, epsilon, state FROM waiting
    ORDER BY number"""
_INSERT = """INSERT OR IGNORE INTO waiting (analyst, dataset, statement, epsilon)
    VALUES (?, ?, ?, ?)"""


class ReviewQueue:
    """Statements by number, and what the owner decided. Processes may share the file."""

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_name(f"{ledger.name}-review.db")

    def read(self, change: str = "", *values: object) -> list[sqlite3.Row]:
        """Return all statements, after a change if one is named."""
        with suppress(OSError, sqlite3.Error):
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self._path)) as connection, connection:
                connection.row_factory = sqlite3.Row
                connection.execute(_TABLE)
                connection.execute(change, values)
                return connection.execute(_SELECT).fetchall()
        raise LedgerFileError(
            f"the list of statements for review, {self._path.name!r}, can't be read or written",
            hint="ask again; if it is damaged, the owner moves it away, and a new list begins",
        )

    def add(self, analyst: str, dataset: str, statement: str, epsilon: float) -> sqlite3.Row:
        """Return the entry of a statement, which is appended unless it is there."""
        values = (analyst, dataset, statement, epsilon)
        return next(entry for entry in self.read(_INSERT, *values) if entry[1:5] == values)

    def decide(self, number: int, state: str) -> sqlite3.Row:
        """Approve or reject a statement."""
        for entry in self.read("UPDATE waiting SET state = ? WHERE number = ?", state, number):
            if entry["number"] == number:
                return entry
        raise InvalidQuestionError(
            f"no statement waits under the number {number}",
            hint="dfprivacy serve log POLICY --waiting lists them",
        )
