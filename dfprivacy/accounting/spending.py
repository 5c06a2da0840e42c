"""Which account a release is charged to: one named in its terms, or that of a `with` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.ledger_terms import dataset_name, note_text
from dfprivacy.errors import InvalidLedgerError
from dfprivacy.exact import describe


@dataclass(frozen=True)
class Account:
    """A dataset's account in a ledger, and a note for what is charged to it."""

    ledger: Ledger
    dataset: str
    note: str | None = None

    def check(self, charge: Charge) -> None:
        """Raise what `pay` would raise now, and charge nothing."""
        self.ledger.check(self.dataset, charge)

    def pay(self, charge: Charge) -> None:
        """Charge the account, durably."""
        self.ledger.charge(self.dataset, charge, note=self.note)


class NoAccount:
    """Where releases go that nobody counts."""

    def check(self, charge: Charge) -> None:
        """Allow everything."""

    def pay(self, charge: Charge) -> None:
        """Charge nothing."""


@dataclass(frozen=True)
class _Spending:
    ledger: Ledger
    dataset: object
    note: object


_SPENDING: ContextVar[_Spending | None] = ContextVar("dfprivacy_spending", default=None)


@contextmanager
def spending(
    ledger: Ledger, *, dataset: str | None = None, note: str | None = None
) -> Iterator[Ledger]:
    """Charge every release in this block to a dataset's account.

    Terms that name a dataset or a note go before those of the block; terms that name a ledger use
    that ledger alone. Of two nested blocks the inner one counts. The block is a context variable:
    it reaches coroutines, but not a thread that is started inside.

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
        When `ledger` is not a `Ledger`, or dataset or note can't be used.
    """
    named = None if dataset is None else dataset_name(dataset)
    token = _SPENDING.set(_Spending(_ledger(ledger), named, note_text(note)))
    try:
        yield ledger
    finally:
        _SPENDING.reset(token)


def account_of(ledger: object, dataset: object, note: object) -> Account | NoAccount:
    """Return the account that a release with these terms is charged to.

    Raises
    ------
    InvalidLedgerError
        For a ledger without a dataset, or a dataset or a note without a ledger.
    """
    block = _SPENDING.get()
    if ledger is None and block is not None:
        ledger = block.ledger
        dataset = block.dataset if dataset is None else dataset
        note = block.note if note is None else note
    if ledger is not None:
        return account(ledger, dataset, note)
    if dataset is not None or note is not None:
        raise InvalidLedgerError(
            "a dataset or a note was named, and no ledger to charge",
            hint='name the ledger too: df.dp(ledger=dfp.Ledger("budget.db", epsilon=10), '
            'dataset="flights")',
        )
    return NoAccount()


def account(ledger: object, dataset: object, note: object = None) -> Account:
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
    return Account(checked, dataset_name(dataset), note_text(note))


def _ledger(ledger: object) -> Ledger:
    if isinstance(ledger, Ledger):
        return ledger
    raise InvalidLedgerError(
        f"a ledger is opened first, not named by {describe(ledger)}",
        hint='open it: ledger=dfp.Ledger("budget.db", epsilon=10, delta=1e-6)',
    )
