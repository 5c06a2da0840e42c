"""Find the account that a release is charged to: named in its terms, or that of a `with` block."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from dfprivacy.accounting.charge import Charge, account_name
from dfprivacy.accounting.ledger import Ledger, analyst_name, dataset_name, note_text, version_name
from dfprivacy.accounting.memory import fingerprint
from dfprivacy.errors import EntropyError, InvalidLedgerError, MissingLedgerError, boundary
from dfprivacy.measurement.exact import describe

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Account:
    """A dataset's account in a ledger, and a note for its charges.

    With the `version` of the data, on a ledger that remembers, a release can be repeated: look for
    it under its fingerprint before `check`, and hand it to `remember` once it is made. Without a
    version nothing is remembered, for the data may have changed.
    """

    ledger: Ledger
    dataset: str
    note: str | None = None
    version: str | None = None
    analyst: str | None = None

    def check(self, charge: Charge) -> None:
        """Raise the errors that `pay` would raise now, and charge nothing."""
        self.ledger.check(self.dataset, charge, analyst=self.analyst)

    def pay(self, charge: Charge) -> None:
        """Charge the account, durably."""
        self.ledger.charge(self.dataset, charge, note=self.note, analyst=self.analyst)

    def fingerprint(self, question: str, terms: Mapping[str, object]) -> bytes | None:
        """Return the fingerprint that a release is remembered under, or None."""
        if self.version is None:
            return None
        return fingerprint(self.dataset, self.version, question, terms)

    def recall(self, mark: bytes | None) -> pa.Table | None:
        """Return the release made under this fingerprint before, or None."""
        return None if mark is None else self.ledger.recall(self.dataset, mark)

    def remember(self, mark: bytes | None, table: pa.Table) -> None:
        """Keep a release that was paid for, and never fail: its caller must get it."""
        if mark is not None:
            with suppress(Exception):  # whatever it is, the release must come out
                self.ledger.store(self.dataset, mark, table)


QUIET = "DFPRIVACY_LEDGER_NOTICE"
"""The environment variable that is set to off where nobody wants to read the notice."""

NOTICE = (
    "dfprivacy: no ledger is in use, so the total privacy loss of this process is not tracked.\n"
    'Name one, df.dp(ledger=dfp.Ledger("budget.db", epsilon=10), dataset="flights"), or set '
    f"{QUIET}=off to end this notice.\n"
)
"""Notice before the first release without a ledger, printed once. The same for any data."""


class NoAccount:
    """Account of releases without a ledger: they are not counted, unless a ledger is required."""

    required = False
    noticed = False

    def check(self, charge: Charge) -> None:  # noqa: ARG002 it costs nobody
        """Allow everything, unless a ledger is required. Say once a process that nobody counts."""
        if NoAccount.required:
            raise MissingLedgerError(
                "the release names no ledger, and this process requires one",
                hint='name it: df.dp(ledger=ledger, dataset="flights"), or release within '
                '`with dfp.spending(ledger, dataset="flights"):`',
            )
        if not NoAccount.noticed:
            NoAccount.noticed = True
            if os.environ.get(QUIET, "").lower() not in {"0", "off", "false", "no"}:
                with suppress(Exception):  # there may be no stderr, and nobody has to read it
                    sys.stderr.write(NOTICE)

    def pay(self, charge: Charge) -> None:
        """Charge nothing. Raise the errors of `check`."""
        self.check(charge)

    def fingerprint(self, question: str, terms: Mapping[str, object]) -> None:
        """Return None: nothing is remembered."""

    def recall(self, mark: bytes | None) -> None:
        """Return None: nothing is remembered."""

    def remember(self, mark: bytes | None, table: pa.Table) -> None:
        """Keep nothing."""


class PrepaidAccount(NoAccount):
    """An account for one release that an earlier step has paid for, in the same process."""

    def __init__(self, account: Account | NoAccount, paid_by: str) -> None:
        self._account, self._paid_by = account, paid_by
        self._process: int | None = os.getpid()

    def check(self, charge: Charge) -> None:
        """Allow the charge: it is paid."""

    def pay(self, charge: Charge) -> None:  # noqa: ARG002 it is paid
        """Use the payment up. A child that was forked since can't."""
        if self._process != os.getpid():
            raise EntropyError(
                f"{self._paid_by} was paid for in another process, or was released already",
                hint="fork before the release, and ask for it in one of the processes",
            )
        self._process = None

    def remember(self, mark: bytes | None, table: pa.Table) -> None:
        """Keep the release, which was looked up before it was paid."""
        self._account.remember(mark, table)


def require_ledger() -> None:
    """Refuse, from now on and in the whole process, every release that is charged to no ledger.

    There is no way back. A release without a ledger raises a `MissingLedgerError` before any row
    is read. A fork requires one too, a new process calls this itself.
    """
    NoAccount.required = True


@boundary
class spending:  # noqa: N801 it is used like a function
    """Charge every release in this block to a dataset's account.

    Terms of a call go before those of the block. Terms that name a ledger use that ledger alone.
    The innermost open block counts. It reaches coroutines, but not a thread that is started inside.
    Work that was begun inside may not release after the end.

    `period` is that of all rows (`Ledger.announce`), `analyst` who asks (`Ledger.allow`).

    `version` names the state of the data, e.g. "2026-11-20", for a ledger that remembers releases.

    As a decorator it charges the releases of a function at each call. Functions that return
    coroutines, generators or classes are refused: open a block inside.

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

    def __init__(
        self,
        ledger: Ledger,
        *,
        dataset: str | None = None,
        version: str | None = None,
        note: str | None = None,
        period: str | None = None,
        analyst: str | None = None,
    ) -> None:
        self.ledger = _ledger(ledger)
        self.dataset = None if dataset is None else dataset_name(dataset)
        self.period, self.analyst = period, analyst_name(analyst)
        account_name("", period)  # which refuses what is none
        self.note, self.version = note_text(note), _version(ledger, version)
        self.parent: spending | None = None
        self.entered = self.closed = False

    def __enter__(self) -> Ledger:
        """Begin the block, inside the one that is open here."""
        if self.entered:
            raise InvalidLedgerError(
                "a block of dfp.spending is entered once", hint="call dfp.spending again"
            )
        self.entered, self.parent = True, _BLOCK.get()
        _BLOCK.set(self)
        return self.ledger

    def __exit__(self, *_: object) -> None:
        """End the block. A block that was begun inside, and has not ended, goes on."""
        self.closed, block = True, _BLOCK.get()
        if block is self:
            _BLOCK.set(self.parent)
        while block is not None and block.parent is not self:
            block = block.parent
        if block is not None:
            block.parent = self.parent

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Charge the releases of a function at each call. Refuse one that releases afterwards."""
        inner: Any = function
        while isinstance(inner, partial):
            inner = inner.func
        if isinstance(inner, type) or any(
            kind(callable_)
            for callable_ in (inspect.unwrap(inner), type(inner).__call__)
            for kind in _LATE
        ):
            raise _late()

        @wraps(function)
        def call_charged(*args: P.args, **kwargs: P.kwargs) -> R:
            terms = {
                name: getattr(self, name)
                for name in ("dataset", "version", "note", "period", "analyst")
            }
            with spending(self.ledger, **terms):
                result = function(*args, **kwargs)
            if isinstance(result, _MADE):
                raise _late()
            return result

        return call_charged


_LATE = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_MADE = (Awaitable, Iterator, AsyncIterator)  # map and zip do their work later too
_BLOCK: ContextVar[spending | None] = ContextVar("dfprivacy_spending", default=None)


def _late() -> InvalidLedgerError:
    return InvalidLedgerError(
        "dfp.spending can't charge a coroutine, an iterator or a class as a decorator: it works "
        "after the call has ended",
        hint="open the block inside: with dfp.spending(ledger, dataset=...): ...",
    )


def name_account(
    ledger: object,
    dataset: object,
    note: object = None,
    version: object = None,
    *,
    period: object = None,
    analyst: object = None,
    snapshot: str | None = None,
) -> Account | NoAccount:
    """Return the account that a release with these terms is charged to, if they fit together.

    A release from a `snapshot` of a table has that as its version, unless it names a version.
    """
    block = _BLOCK.get()
    if ledger is None and block is not None:
        if block.closed:
            raise InvalidLedgerError(
                "the dfp.spending block in which this work was begun has ended",
                hint="open a block where the release is made, or name the ledger in its terms",
            )
        ledger = block.ledger
        same = dataset is None or block.dataset in (None, dataset_name(dataset))
        version = block.version if version is None and same else version
        period = block.period if period is None and same else period
        analyst = block.analyst if analyst is None else analyst
        dataset = block.dataset if dataset is None else dataset
        note = block.note if note is None else note
    if ledger is None:
        if any(name is not None for name in (dataset, note, version, period, analyst)):
            raise InvalidLedgerError(
                "a dataset, period, version, note or analyst was named, and no ledger to charge",
                hint='name the ledger too: df.dp(ledger=dfp.Ledger("budget.db", epsilon=10), '
                'dataset="flights")',
            )
        return NoAccount()
    checked = _ledger(ledger)
    if dataset is None:
        raise InvalidLedgerError(
            "a ledger keeps an account for each dataset, and no dataset was named",
            hint='name it as it is named everywhere: dataset="flights"',
        )
    name = account_name(dataset_name(dataset), period)
    named_version = snapshot if version is None and checked.remembers else version
    version = _version(checked, named_version)
    return Account(checked, name, note_text(note), version, analyst_name(analyst))


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
