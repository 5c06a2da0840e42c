"""A release that is paid for once, however often it is interrupted: charge, claim, keep.

The charge and a claim to it are one durable transaction. Whoever finds the claim may make the
release without another charge until one has been kept, which is all that ever comes out, or until
one has failed: an error may tell something about its draw, so it uses the charge up.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection

import pyarrow as pa

from dfprivacy.accounting.charge import Charge, Units
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.ledger_memory import MOST_BYTES, insert_release
from dfprivacy.accounting.ledger_terms import dataset_name
from dfprivacy.accounting.release_bytes import release_bytes
from dfprivacy.errors import BudgetExceededError, InvalidLedgerError

_CLAIM = release_bytes(pa.table({"claimed": [True]}))


@dataclass(frozen=True)
class Paid:
    """When a release was charged, and by which version of dfprivacy."""

    time: str
    version: str


class ClaimingLedger(Ledger):
    """A ledger that charges one release, known by its fingerprint `mark`, at most once.

    Privacy: the charge is on the disk before anything is drawn, as with every ledger. A process
    that dies between its charge and `keep` has shown nothing, and leaves a claim: the next one
    draws under the same charge. Of several that draw under it only the one that is kept first ever
    comes out, because callers use what `keep` returns. An error after the charge shows, and can
    depend on the draw: `kept_of` then gives the claim up, and the next attempt is charged.
    docs/etl.md has the proof.

    >>> import dfprivacy as dfp, pandas as pd, pyarrow as pa, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/budget.db"
    >>> made = dfp.Ledger(path, epsilon=1, remember=True)
    >>> frame = pd.DataFrame({"x": range(100)})
    >>> for attempt in range(2):  # the first one dies after its charge
    ...     ledger = ClaimingLedger(path, "d", b"1" * 32)
    ...     count = frame.dp(ledger=ledger, dataset="d").count(epsilon=0.5)
    >>> kept = ledger.keep(pa.table({"count": [float(count)]}))
    >>> made.spent("d"), made.stored("d")
    (Budget(epsilon=0.5), 1)
    >>> folder.cleanup()

    Raises
    ------
    InvalidLedgerError
        When the file remembers no releases.
    """

    def __init__(self, path: str | os.PathLike[str], dataset: str, mark: bytes) -> None:
        super().__init__(path)
        if not self.remembers:
            raise InvalidLedgerError(
                f"the ledger {str(self.path)!r} remembers no releases, and a run repeats its own",
                hint="make one that does: dfprivacy ledger create FILE --epsilon 10 --remember",
            )
        self._dataset, self._mark, self._asked = dataset_name(dataset), mark, 0
        self._claim = hashlib.sha256(b"claim" + mark).digest()
        self._drawn_under: Charge | None = None

    @property
    def note(self) -> str:
        """What the history says about the charge, by which it is found again."""
        return f"run {self._mark.hex()[:16]}"

    def kept(self) -> pa.Table | None:
        """Return the release, if it was kept before."""
        return self.recall(self._dataset, self._mark)

    def settled(self) -> bool:
        """Tell whether the release has been paid for."""
        with self._open("BEGIN") as connection:
            return self._is_settled(connection)

    def check(self, dataset: str, charge: Charge) -> None:
        """Raise what `charge` would raise now, and charge nothing."""
        self._require_own(dataset)
        if not self.settled():
            super().check(dataset, charge)

    def charge(self, dataset: str, charge: Charge, *, note: str | None = None) -> None:  # noqa: ARG002 it has its own
        """Charge the release and claim it, in one transaction; nothing if it is claimed already.

        Raises
        ------
        InvalidLedgerError
            For another dataset, or a second charge: this ledger is for one release.
        BudgetExceededError, LedgerError
            When the charge is not on the disk.
        """
        self._require_own(dataset)
        self._asked += 1
        if self._asked > 1:
            raise InvalidLedgerError("a ledger for one release was asked to charge another")
        with self._open("BEGIN IMMEDIATE") as connection:
            if not self._is_settled(connection):
                self._append(connection, self._dataset, charge, note=self.note)
                insert_release(connection, self._dataset, self._claim, _CLAIM)
        self._drawn_under = charge

    def kept_of(self, make: Callable[[], pa.Table]) -> pa.Table:
        """Make the release and keep it, and return what is kept.

        An error that `make` or `keep` raises after the charge uses the charge up. An interrupt, or
        the end of the process, does not: the claim stays.

        Raises
        ------
        BudgetExceededError
            In place of an error, when another attempt has used the charge up before and there is
            no room for one more.
        Exception
            What `make` and `keep` raise, unless another process has kept the release meanwhile.
        """
        try:
            return self.keep(make())
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 polars panics are no Exceptions; raised below
            failure = error
        kept = self._without_claim()
        if kept is None:
            raise failure
        return kept

    def _without_claim(self) -> pa.Table | None:
        """Let a draw that failed use its charge up; return what another process has kept.

        When the claim is gone, a draw that failed before has used the charge up, and this one is
        charged too.
        """
        charge = self._drawn_under
        if charge is None:
            return None
        with self._open("BEGIN IMMEDIATE") as connection:
            dropped = connection.execute(
                "DELETE FROM release WHERE fingerprint = ?", (self._claim,)
            ).rowcount
            if not dropped and not self._is_settled(connection):
                self._append(connection, self._dataset, charge, note=self.note)
        return self.kept()

    def keep(self, table: pa.Table) -> pa.Table:
        """Keep the release that was charged, give the claim up, and return what is kept.

        Unlike a remembered release it must be kept: what could not be is not for anyone's eyes.

        Raises
        ------
        LedgerError
            When it could not be written, or the claim is gone.
        """
        content = release_bytes(table)
        if len(content) > MOST_BYTES:
            raise InvalidLedgerError(
                "a release of more than 512 MiB is not kept", hint="release fewer groups at a time"
            )
        with self._open("BEGIN IMMEDIATE") as connection:
            if not self._is_settled(connection):
                raise InvalidLedgerError(
                    "the release was forgotten, or another run of it failed, while it was made",
                    hint="run again; it is charged again",
                )
            insert_release(connection, self._dataset, self._mark, content)
            connection.execute("DELETE FROM release WHERE fingerprint = ?", (self._claim,))
        kept = self.kept()
        if kept is None:
            raise InvalidLedgerError("the release was forgotten while it was made")
        return kept

    def paid(self) -> Paid | None:
        """Return when the release was charged last; None if its charge is not in the history."""
        with self._open("BEGIN") as connection:
            row = connection.execute(
                "SELECT time, version FROM charge WHERE dataset = ? AND note = ? "
                "ORDER BY number DESC LIMIT 1",
                (self._dataset, self.note),
            ).fetchone()
        return None if row is None else Paid(*row)

    def require_room(self, charges: Sequence[Charge]) -> None:
        """Refuse several releases of the dataset that do not fit together.

        Raises
        ------
        BudgetExceededError
            When they cost more than what is left.
        """
        costs = [charge.units(self._total.measure) for charge in charges]
        loss, delta = sum(cost.loss for cost in costs), sum(cost.delta for cost in costs)
        cost = Units(self._total.measure, loss, delta)
        with self._open("BEGIN") as connection:
            left = self._left(connection, self._dataset)
        if not left.covers(cost):
            raise BudgetExceededError(
                f"the budget of dataset {self._dataset!r} does not cover this run: it costs "
                f"{cost}, and what is left is {left}",
                hint=f"see what was charged: dfprivacy ledger show {self.path}",
            )

    def _is_settled(self, connection: Connection) -> bool:
        found = connection.execute(
            "SELECT count(*) FROM release WHERE fingerprint IN (?, ?)", (self._mark, self._claim)
        ).fetchone()
        return bool(found[0])

    def _require_own(self, dataset: str) -> None:
        if dataset_name(dataset) != self._dataset:
            raise InvalidLedgerError("a ledger for one release was asked to charge another")
