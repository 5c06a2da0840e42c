"""A budget that survives: one file, one account a dataset, charged before anything is drawn."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from sqlite3 import Connection
from typing import Any

import pandas as pd

from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import Budget, Charge, Units, total_of
from dfprivacy.accounting.founding import remember_flag
from dfprivacy.accounting.history import history_frame
from dfprivacy.accounting.ledger_memory import Memory
from dfprivacy.accounting.ledger_report import Reports
from dfprivacy.accounting.ledger_terms import dataset_name, file_path, note_text, seconds
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.errors import BudgetExceededError


class Ledger(Reports, Memory):
    """A privacy budget for each dataset, kept in a file for ever.

    Each dataset named in a release has an account of its own with the whole budget: `epsilon` and
    `delta`, or `rho` and `delta` (zero-concentrated privacy, in which many small releases add up
    to less). The losses of an account add up, for questions chosen one after the other too. A
    release is charged in full before anything is drawn, and nothing is ever paid back.

    Without a budget an existing file is opened; with one it is made if it is not there, and must
    have been made with the same budget if it is. With `remember=True` the file keeps what is
    released about a dataset whose version is named, and the same request gets the same answer again
    without a charge. `timeout` is how many seconds to wait for other processes.

    A ledger can be used by threads, by processes and after a fork. docs/ledger.md says what it
    guarantees and what it can't.

    >>> import dfprivacy as dfp, pandas as pd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = dfp.Ledger(folder.name + "/budget.db", epsilon=1)
    >>> flights = pd.DataFrame({"delay": range(100)}).dp(ledger=ledger, dataset="flights")
    >>> answer = flights.mean("delay", bounds=(0, 100), epsilon=0.4)
    >>> ledger.remaining("flights")
    Budget(epsilon=0.6)
    >>> folder.cleanup()

    Raises
    ------
    InvalidLossError
        When the budget is not a positive number of epsilon or of rho.
    LedgerBudgetError
        When the file was made with another budget, or with another `remember`.
    LedgerFileError
        When the file can't be made or read, is damaged, or is no ledger of this version.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        remember: bool | None = None,
        timeout: float = 5.0,
    ) -> None:
        super().__init__(
            file_path(path), total=total_of(epsilon, rho, delta),
            remember=remember_flag(remember), timeout=seconds(timeout),
        )  # fmt: skip

    def remaining(self, dataset: str) -> Budget:
        """Return what a dataset may still spend; to ask for just that fits.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        name = dataset_name(dataset)
        with self._open("BEGIN") as connection:
            return self._left(connection, name).budget()

    def spent(self, dataset: str) -> Budget:
        """Return what a dataset has spent.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        name = dataset_name(dataset)
        with self._open("BEGIN") as connection:
            return ledger_file.read_spent(connection, name, self._total.measure).budget()

    def datasets(self) -> list[str]:
        """Return the names that have been charged, sorted.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        with self._open("BEGIN") as connection:
            return ledger_file.read_datasets(connection)

    def history(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the charges of one dataset, or of all, oldest first.

        Columns: time (UTC), dataset, question, epsilon, rho, delta, note, uuid, version (of
        dfprivacy). On a ledger in rho, an epsilon is what was asked and rho is what it cost.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._open("BEGIN") as connection:
            rows = ledger_file.read_charges(connection, name)
        try:
            return history_frame(rows, self._total.measure)
        except (ValueError, ZeroDivisionError):
            raise ledger_file.damaged(self._path) from None

    def check(self, dataset: str, charge: Charge) -> None:
        """Raise what `charge` would raise now, and charge nothing."""
        name = dataset_name(dataset)
        cost = charge.units(self._total.measure)
        with self._open("BEGIN") as connection:
            self._require_left(connection, name, cost)

    def would_leave(self, dataset: str, charge: Charge) -> Budget | None:
        """Return what a charge would leave of a dataset's budget, None where it does not fit.

        Nothing is charged. Raises what `check` would raise, but for `BudgetExceededError`.
        """
        name = dataset_name(dataset)
        cost = charge.units(self._total.measure)
        with self._open("BEGIN") as connection:
            left = self._left(connection, name)
        return left.less(cost).budget() if left.covers(cost) else None

    def charge(self, dataset: str, charge: Charge, *, note: str | None = None) -> None:
        """Take a release's cost off a dataset's budget, durably, before anything is drawn.

        Every release of `.dp` does that by itself. When this returns, the charge is on the disk;
        when it raises, there must be no release.

        Raises
        ------
        BudgetExceededError
            When the cost exceeds what is left.
        InvalidLossError
            For a release in rho on a ledger that counts epsilon.
        LedgerError
            When the charge could not be made durable.
        """
        name, about = dataset_name(dataset), note_text(note)
        with self._open("BEGIN IMMEDIATE") as connection:
            self._append(connection, name, charge, note=about)

    def _append(
        self, connection: Connection, name: str, charge: Charge, *, note: str | None
    ) -> None:
        """Charge an account in a transaction that is open."""
        cost = charge.units(self._total.measure)
        self._require_left(connection, name, cost)
        ledger_file.append(connection, name, self._total, cost, _about(charge, note))

    def _left(self, connection: Connection, name: str) -> Units:
        return self._total.less(ledger_file.read_spent(connection, name, self._total.measure))

    def _require_left(self, connection: Connection, name: str, cost: Units) -> None:
        left = self._left(connection, name)
        if not left.covers(cost):
            raise BudgetExceededError(
                f"the budget of dataset {name!r} does not cover this release: it costs {cost}, "
                f"and what is left is {left}",
                hint="ask for no more than what is left: ledger.remaining(dataset)",
            )


def _about(charge: Charge, note: str | None) -> dict[str, Any]:
    return {
        "question": charge.question.encode("utf-8", "replace").decode(),
        "asked": "epsilon" if isinstance(charge.loss, Epsilon) else "rho",
        "amount": str(charge.loss.value),
        "note": note,
        "version": _version(),
    }


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return version("dfprivacy")
    except PackageNotFoundError:
        return "unknown"
