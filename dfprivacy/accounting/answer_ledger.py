"""Store a charge and its answer in one write, for a process that shows neither before."""

from __future__ import annotations

import os

import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.ledger_file import Entry, Log, release_entry
from dfprivacy.accounting.memory import write_content
from dfprivacy.errors import InvalidLedgerError, LedgerFileError


class AnswerLedger(Ledger):
    """A ledger that stores each charge together with its answer.

    Privacy: the caller lets no answer and no error out of its process before `settle` returns.
    `charge` checks the budget and notes a debt. Then noise is drawn. `store` writes charge and
    answer as one durable transaction. `settle` charges a draw that has no stored answer. A process
    that dies before the transaction has shown and charged nothing. After it, the answer is recalled
    without a charge. docs/how-to/server.md has the proof.

    >>> import dfprivacy as dfp, pandas as pd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/budget.db"
    >>> plain = dfp.Ledger(path, epsilon=1, remember=True)
    >>> ledger, frame = AnswerLedger(path), pd.DataFrame({"x": range(100)})
    >>> for _ in range(2):
    ...     count = frame.dp(ledger=ledger, dataset="d", version="1").count(epsilon=0.5)
    >>> ledger.settle(), plain.spent("d"), plain.stored("d")
    (True, Budget(epsilon=0.5), 1)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._debt: tuple[str, Charge, str | None, str | None] | None = None
        self._mark = ""
        self.has_charged = False
        """True if a charge was written since a caller has set it to False."""

    def charge(
        self, dataset: str, charge: Charge, *, note: str | None = None, analyst: str | None = None
    ) -> None:
        """Note a debt that fits now, for the draw that follows."""
        if self._debt is not None:
            raise InvalidLedgerError(
                "an earlier draw has no stored answer",
                hint="ask again: an answer that is stored meanwhile costs nothing",
            )
        self.check(dataset, charge, analyst=analyst)
        self._debt = dataset, charge, note, analyst

    def store(self, dataset: str, fingerprint: bytes, table: pa.Table) -> None:
        """Write the charge and the answer, durably, unless the answer is there already."""
        self._mark, content = fingerprint.hex(), write_content(table)
        with self._writing() as writing:
            if self._mark in writing.log.releases:
                self._debt = None  # another process has stored one: `settle` says so
                return
            answer = release_entry(dataset, fingerprint, content)
            writing.append([self._charge_debt(writing.log), answer], content)
            self.has_charged = True
        self._debt, self._mark = None, ""

    def settle(self) -> bool:
        """Charge a draw that has no stored answer. False if its answer must be recalled.

        Raises
        ------
        LedgerError
            When the answer could not be stored. It must not be shown.
        """
        if self._debt is None:
            is_own, self._mark = not self._mark, ""
            return is_own
        try:
            with self._writing() as writing:
                if self._mark in writing.log.releases:
                    return False
                writing.append([self._charge_debt(writing.log)])
                self.has_charged = True
            if self._mark:
                raise LedgerFileError(
                    f"the ledger {str(self.path)!r} could not store an answer that was charged",
                    hint="make room on the disk, and ask again: it is charged again",
                )
        finally:
            self._debt, self._mark = None, ""
        return True

    def _charge_debt(self, log: Log) -> Entry:
        if self._debt is None:
            raise InvalidLedgerError("a release that was never charged is not kept")
        dataset, charge, note, analyst = self._debt
        return self._charge_entry(log, dataset, charge, note=note, analyst=analyst)
