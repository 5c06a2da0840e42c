"""A ledger's file as one object has opened it: the same file and the same budget, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Literal, Self

from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import Budget, Units
from dfprivacy.accounting.founding import Founding
from dfprivacy.errors import InvalidLedgerError, LedgerBudgetError, LedgerFileError


class Opened:
    """What every use of a ledger shares: its file, what it was made with, and a transaction."""

    def __init__(
        self, path: Path, *, total: Units | None, remember: bool | None, timeout: float
    ) -> None:
        self._path, self._timeout, self._closed = path, timeout, False
        if total is not None and not path.exists():
            _require_directory(path)
            ledger_file.create(path, Founding(total, remember=bool(remember)), timeout)
        with ledger_file.transaction(path, timeout, "BEGIN") as connection:
            ledger_file.require_whole(connection, path)
            self._name, self._founding = ledger_file.read_founding(connection)
        _require_same(path, self._founding, total, remember=remember)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def budget(self) -> Budget:
        """What each dataset may spend in all."""
        return self._total.budget()

    @property
    def remembers(self) -> bool:
        """Whether releases of a dataset whose version is named are kept."""
        return self._founding.remember

    def close(self) -> None:
        """Refuse further use of this object; the file stays as it is."""
        self._closed = True

    def __enter__(self) -> Self:
        """Return the ledger, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the ledger."""
        self.close()

    def __repr__(self) -> str:
        """Show the call that opens this ledger."""
        return f"Ledger({str(self._path)!r}, {self._founding.arguments()})"

    @property
    def _total(self) -> Units:
        return self._founding.total

    @contextmanager
    def _open(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[Connection]:
        """Begin a transaction on the file that this ledger was opened on."""
        if self._closed:
            raise InvalidLedgerError("the ledger is closed", hint="open it again: dfp.Ledger(path)")
        with ledger_file.transaction(self._path, self._timeout, begin) as connection:
            if ledger_file.read_founding(connection) != (self._name, self._founding):
                raise LedgerFileError(
                    f"the ledger {str(self._path)!r} was replaced by another",
                    hint="open it again if that is meant: dfp.Ledger(path)",
                )
            yield connection


def _require_directory(path: Path) -> None:
    if not path.parent.is_dir():
        raise LedgerFileError(
            f"there is no directory {str(path.parent)!r} for a ledger", hint="create it first"
        )


def _require_same(
    path: Path, founding: Founding, total: Units | None, *, remember: bool | None
) -> None:
    asked = Founding(
        founding.total if total is None else total,
        remember=founding.remember if remember is None else remember,
    )
    if asked.total != founding.total:
        raise LedgerBudgetError(
            f"the ledger {str(path)!r} was made with {founding.total}, not with {asked.total}",
            hint="a budget never changes: leave it out to open the file as it is, or name a new "
            "file for other data",
        )
    if asked != founding:
        raise LedgerBudgetError(
            f"the ledger {str(path)!r} was made with remember={founding.remember}",
            hint="that never changes: leave remember out to open the file as it is",
        )
