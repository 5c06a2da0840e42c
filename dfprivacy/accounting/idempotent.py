"""Charge a release once, however often it is interrupted: an idempotent charge.

The charge and a note that it is pending are one durable transaction. Whoever finds the charge
pending may make the release without another one until a release has been kept, which is all that
ever comes out, or until one has failed: an error may tell something about its draw, so it uses the
charge up. docs/etl.md has the proof.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection

import pyarrow as pa

from dfprivacy.accounting.charge import Charge, Units
from dfprivacy.accounting.ledger import Ledger, dataset_name, insert_release
from dfprivacy.accounting.memory import content_of, release_bytes
from dfprivacy.errors import InvalidLedgerError

_PENDING = release_bytes(pa.table({"claimed": [True]}))


@dataclass(frozen=True)
class Paid:
    """When a release was charged, and by which version of dfprivacy."""

    time: str
    version: str


class IdempotentLedger(Ledger):
    """A ledger that charges one release, known by its fingerprint `mark`, at most once.

    Privacy: the charge is on the disk before anything is drawn, as with every ledger. A process
    that dies between its charge and `keep` has shown nothing, and leaves the charge pending: the
    next one draws under it. Of several that draw under it only the one that is kept first ever
    comes out, because callers use what `keep` returns. An error after the charge shows, and can
    depend on the draw: `kept_of` then uses the charge up, and the next attempt is charged.

    >>> import dfprivacy as dfp, pandas as pd, pyarrow as pa, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/budget.db"
    >>> made = dfp.Ledger(path, epsilon=1, remember=True)
    >>> frame = pd.DataFrame({"x": range(100)})
    >>> for attempt in range(2):  # the first one dies after its charge
    ...     ledger = IdempotentLedger(path, "d", b"1" * 32)
    ...     count = frame.dp(ledger=ledger, dataset="d").count(epsilon=0.5)
    >>> kept = ledger.keep(pa.table({"count": [float(count)]}))
    >>> made.spent("d"), made.stored("d")
    (Budget(epsilon=0.5), 1)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], dataset: str, mark: bytes) -> None:
        super().__init__(path)
        if not self.remembers:
            raise InvalidLedgerError(
                f"the ledger {str(self.path)!r} remembers no releases, and a run repeats its own",
                hint="make one that does: dfprivacy ledger create FILE --epsilon 10 --remember",
            )
        self._dataset, self._mark, self._asked = dataset_name(dataset), mark, False
        self._pending = hashlib.sha256(b"claim" + mark).digest()
        self._note = f"run {mark.hex()[:16]}"  # by which the history finds the charge again
        self._drawn_under: Charge | None = None

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
        """Charge the release and note that it is pending; nothing if it has been charged."""
        self._require_own(dataset)
        if self._asked:
            raise InvalidLedgerError("a ledger for one release was asked to charge another")
        self._asked = True
        with self._open("BEGIN IMMEDIATE") as connection:
            if not self._is_settled(connection):
                self._append(connection, self._dataset, charge, note=self._note)
                insert_release(connection, self._dataset, self._pending, _PENDING)
        self._drawn_under = charge

    def kept_of(self, make: Callable[[], pa.Table]) -> pa.Table:
        """Make the release and keep it, and return what is kept.

        An error that `make` or `keep` raises after the charge uses the charge up, and is raised
        unless another process has kept the release meanwhile. In its place comes a
        `BudgetExceededError` when another attempt has used the charge up before and there is no
        room for one more. An interrupt, or the end of the process, leaves the charge pending.
        """
        try:
            return self.keep(make())
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 polars panics are no Exceptions; raised below
            failure = error
        kept = self._used_up()
        if kept is None:
            raise failure
        return kept

    def _used_up(self) -> pa.Table | None:
        """Let a draw that failed use its charge up; return what another process has kept.

        When the charge is no longer pending, a draw that failed before has used it up, and this one
        is charged too.
        """
        if self._drawn_under is None:
            return None
        with self._open("BEGIN IMMEDIATE") as connection:
            if not self._drop_pending(connection) and not self._is_settled(connection):
                self._append(connection, self._dataset, self._drawn_under, note=self._note)
        return self.kept()

    def keep(self, table: pa.Table) -> pa.Table:
        """Keep the release that was charged, as no longer pending, and return what is kept.

        Unlike a remembered release it must be kept: what could not be is not for anyone's eyes.
        """
        content = content_of(table)
        with self._open("BEGIN IMMEDIATE") as connection:
            if not self._is_settled(connection):
                raise InvalidLedgerError(
                    "the release was forgotten, or another run of it failed, while it was made",
                    hint="run again; it is charged again",
                )
            insert_release(connection, self._dataset, self._mark, content)
            self._drop_pending(connection)
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
                (self._dataset, self._note),
            ).fetchone()
        return None if row is None else Paid(*row)

    def require_room(self, charges: Sequence[Charge]) -> None:
        """Refuse several releases of the dataset that do not fit together."""
        costs = [charge.units(self._total.measure) for charge in charges]
        cost = Units(
            self._total.measure, sum(own.loss for own in costs), sum(own.delta for own in costs)
        )
        with self._open("BEGIN") as connection:
            self._require_left(
                connection, self._dataset, cost, "this run",
                hint=f"see what was charged: dfprivacy ledger show {self.path}",
            )  # fmt: skip

    def _is_settled(self, connection: Connection) -> bool:
        marks = self._mark, self._pending
        query = "SELECT count(*) FROM release WHERE fingerprint IN (?, ?)"
        return bool(connection.execute(query, marks).fetchone()[0])

    def _drop_pending(self, connection: Connection) -> int:
        query = "DELETE FROM release WHERE fingerprint = ?"
        return connection.execute(query, (self._pending,)).rowcount

    def _require_own(self, dataset: str) -> None:
        if dataset_name(dataset) != self._dataset:
            raise InvalidLedgerError("a ledger for one release was asked to charge another")
