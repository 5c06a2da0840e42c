"""Which account a release is charged to: one named in its terms, or that of a `with` block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.fingerprint import fingerprint
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.ledger_terms import dataset_name, note_text, version_name
from dfprivacy.errors import InvalidLedgerError
from dfprivacy.exact import describe


@dataclass(frozen=True)
class Account:
    """A dataset's account in a ledger, and a note for what is charged to it.

    With the `version` of the data, on a ledger that remembers, a release can be repeated: look for
    it under its fingerprint before `check`, and hand it to `remember` once it is made. Without a
    version nothing is remembered, for the data may have changed.
    """

    ledger: Ledger
    dataset: str
    note: str | None = None
    version: str | None = None

    def check(self, charge: Charge) -> None:
        """Raise what `pay` would raise now, and charge nothing."""
        self.ledger.check(self.dataset, charge)

    def pay(self, charge: Charge) -> None:
        """Charge the account, durably."""
        self.ledger.charge(self.dataset, charge, note=self.note)

    def fingerprint(self, question: str, terms: Mapping[str, object]) -> bytes | None:
        """Return what a release is remembered under; None where nothing is remembered.

        Raises
        ------
        InvalidLedgerError
            For a term that has no canonical text.
        """
        if self.version is None:
            return None
        return fingerprint(self.dataset, self.version, question, terms)

    def remembered(self, mark: bytes | None) -> pa.Table | None:
        """Return the release made under this fingerprint before, or None.

        Raises
        ------
        LedgerError
            When the file can't be read.
        """
        return None if mark is None else self.ledger.recall(self.dataset, mark)

    def remember(self, mark: bytes | None, table: pa.Table) -> None:
        """Keep a release that was paid for.

        It never fails: the release is made and charged, and its caller must get it. A release that
        could not be kept is made anew, and charged again, when it is asked for again.
        """
        if mark is not None:
            with suppress(Exception):  # whatever it is, the release must come out
                self.ledger.store(self.dataset, mark, table)


class NoAccount:
    """Where releases go that nobody counts, and nobody remembers."""

    def check(self, charge: Charge) -> None:
        """Allow everything."""

    def pay(self, charge: Charge) -> None:
        """Charge nothing."""

    def fingerprint(self, question: str, terms: Mapping[str, object]) -> None:
        """Return None: nothing is remembered."""

    def remembered(self, mark: bytes | None) -> None:
        """Return None: nothing is remembered."""

    def remember(self, mark: bytes | None, table: pa.Table) -> None:
        """Keep nothing."""


@dataclass(frozen=True)
class _Spending:
    ledger: Ledger
    dataset: str | None
    note: str | None
    version: str | None


_SPENDING: ContextVar[_Spending | None] = ContextVar("dfprivacy_spending", default=None)


@contextmanager
def spending(
    ledger: Ledger,
    *,
    dataset: str | None = None,
    version: str | None = None,
    note: str | None = None,
) -> Iterator[Ledger]:
    """Charge every release in this block to a dataset's account.

    Terms that name a dataset, a version or a note go before those of the block; terms that name
    another dataset leave the block's version out, which is not of their data; terms that name a
    ledger use that ledger alone. Of two nested blocks the inner one counts. The block is a context
    variable: it reaches coroutines, but not a thread that is started inside.

    `version` says which state of the data is meant, e.g. "2026-11-20". On a ledger made with
    `remember=True`, the same request about the same version gets the same answer, without a charge.

    >>> import dfprivacy as dfp, pandas as pd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dfp.spending(dfp.Ledger(folder.name + "/b.db", rho=1), dataset="flights") as ledger:
    ...     answer = pd.DataFrame({"delay": range(100)}).dp.count(rho=0.25)
    >>> ledger.remaining("flights")
    Budget(rho=0.75)
    >>> folder.cleanup()

    Raises
    ------
    InvalidLedgerError
        When `ledger` is not a `Ledger`, it remembers nothing and a version is named, or dataset,
        version or note can't be used.
    """
    named = None if dataset is None else dataset_name(dataset)
    checked = _ledger(ledger)
    block = _Spending(checked, named, note_text(note), _version(checked, version))
    token = _SPENDING.set(block)
    try:
        yield ledger
    finally:
        _SPENDING.reset(token)


def account_of(
    ledger: object, dataset: object, note: object, version: object = None
) -> Account | NoAccount:
    """Return the account that a release with these terms is charged to.

    Raises
    ------
    InvalidLedgerError
        For a ledger without a dataset; a dataset, a version or a note without a ledger; a version
        for a ledger that remembers nothing.
    """
    block = _SPENDING.get()
    if ledger is None and block is not None:
        ledger = block.ledger
        if version is None and _same(dataset, block.dataset):
            version = block.version
        dataset = block.dataset if dataset is None else dataset
        note = block.note if note is None else note
    if ledger is not None:
        return account(ledger, dataset, note, version)
    if dataset is not None or note is not None or version is not None:
        raise InvalidLedgerError(
            "a dataset, a version or a note was named, and no ledger to charge",
            hint='name the ledger too: df.dp(ledger=dfp.Ledger("budget.db", epsilon=10), '
            'dataset="flights")',
        )
    return NoAccount()


def _same(dataset: object, block: str | None) -> bool:
    """Tell whether the terms mean the dataset of the block, whose version is that of its data."""
    return dataset is None or block is None or dataset_name(dataset) == block


def account(
    ledger: object, dataset: object, note: object = None, version: object = None
) -> Account:
    """Return a dataset's account in a ledger.

    Raises
    ------
    InvalidLedgerError
        When one of them is missing or can't be used.
    """
    checked = _ledger(ledger)
    if dataset is None:
        raise InvalidLedgerError(
            "a ledger keeps an account for each dataset, and no dataset was named",
            hint='name it as it is named everywhere: dataset="flights"',
        )
    return Account(checked, dataset_name(dataset), note_text(note), _version(checked, version))


def _version(ledger: Ledger, version: object) -> str | None:
    if version is not None and not ledger.remembers:
        raise InvalidLedgerError(
            "a version of the data was named, and the ledger remembers no releases",
            hint="leave version out, or make a ledger that does: "
            'dfp.Ledger("budget.db", epsilon=10, remember=True)',
        )
    return version_name(version)


def _ledger(ledger: object) -> Ledger:
    if isinstance(ledger, Ledger):
        return ledger
    raise InvalidLedgerError(
        f"a ledger is opened first, not named by {describe(ledger)}",
        hint='open it: ledger=dfp.Ledger("budget.db", epsilon=10, delta=1e-6)',
    )
