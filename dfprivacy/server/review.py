"""Keep statements that wait for the owner's approval, in a file beside the ledger."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dfprivacy.errors import InvalidQuestionError


@dataclass(frozen=True)
class Waiting:
    """A statement that costs more than analysts may spend without approval."""

    number: int
    analyst: str
    dataset: str
    statement: str
    epsilon: float
    state: str = "waiting"


class ReviewQueue:
    """Statements by number, and what the owner decided. Processes may share the file."""

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_name(f"{ledger.name}-review.json")

    def read(self) -> list[Waiting]:
        """Return all statements."""
        with self._open() as descriptor:
            return _load(descriptor)

    def add(self, analyst: str, dataset: str, statement: str, epsilon: float) -> Waiting:
        """Return the entry of a statement, which is appended unless it is there."""
        with self._open() as descriptor:
            entries = _load(descriptor)
            for entry in entries:
                new = Waiting(entry.number, analyst, dataset, statement, epsilon, entry.state)
                if entry == new:
                    return entry
            new = Waiting(len(entries) + 1, analyst, dataset, statement, epsilon)
            _store(descriptor, [*entries, new])
        return new

    def decide(self, number: int, state: str) -> Waiting:
        """Approve or reject a statement.

        Raises
        ------
        InvalidQuestionError
            When no statement has this number.
        """
        with self._open() as descriptor:
            entries = _load(descriptor)
            if not 1 <= number <= len(entries):
                raise InvalidQuestionError(
                    f"no statement waits under the number {number}",
                    hint="dfprivacy serve log POLICY --waiting lists them",
                )
            entries[number - 1] = replace(entries[number - 1], state=state)
            _store(descriptor, entries)
        return entries[number - 1]

    @contextmanager
    def _open(self) -> Iterator[int]:
        with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file.fileno()


def _load(descriptor: int) -> list[Waiting]:
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    return [Waiting(**entry) for entry in json.loads(content or b"[]")]


def _store(descriptor: int, entries: list[Waiting]) -> None:
    content = json.dumps([asdict(entry) for entry in entries], indent=1).encode()
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)
