"""Charge a release once, however often it is interrupted: an idempotent charge.

The charge and a note that it is pending are one durable transaction. Whoever finds it pending may
make the release until one has been kept, or has failed. docs/how-to/etl.md has the proof.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dfprivacy.accounting.charge import Charge, Units
from dfprivacy.accounting.ledger import Ledger, dataset_name
from dfprivacy.accounting.ledger_file import Entry, Log, release_entry
from dfprivacy.accounting.memory import read_released_table, write_content
from dfprivacy.errors import InvalidLedgerError


@dataclass(frozen=True)
class Paid:
    """The time of a charge, and the version of dfprivacy that made it."""

    time: str
    version: str


class IdempotentLedger(Ledger):
    """A ledger that charges one release, known by its fingerprint `mark`, at most once.

    Privacy: the charge is on the disk before anything is drawn, as with every ledger. A process
    that dies between its charge and `keep` has shown nothing, and leaves the charge pending: the
    next one draws under it. Of several that draw under it only the one that is kept first ever
    comes out, because callers use the result of `keep`. An error after the charge shows, and can
    depend on the draw: `keep_release` then uses the charge up, and the next attempt is charged.

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
        self._drawn_under: tuple[Charge, str | None] | None = None
        self.has_charged = False  # of several processes that share a release, one has

    def read_release(self) -> pa.Table | None:
        """Return the release, if it was kept before."""
        return self.recall(self._dataset, self._mark)

    def is_settled(self) -> bool:
        """Check whether the release has been paid for."""
        with self._reading() as reading:
            return self._is_paid(reading.log)

    def check(self, dataset: str, charge: Charge, *, analyst: str | None = None) -> None:
        """Raise the errors that `charge` would raise now, and charge nothing."""
        self._require_this(dataset)
        if not self.is_settled():
            super().check(dataset, charge, analyst=analyst)

    def charge(
        self,
        dataset: str,
        charge: Charge,
        *,
        note: str | None = None,  # noqa: ARG002 it has its own
        analyst: str | None = None,
    ) -> None:
        """Charge the release and note that it is pending. Nothing if it has been charged."""
        self._require_this(dataset)
        if self._asked:
            raise InvalidLedgerError("a ledger for one release was asked to charge another")
        self._asked = True
        with self._writing() as writing:  # which confirms a charge of a process that was killed
            if not self._is_paid(writing.log):
                entry = self._build_own_charge(writing.log, charge, analyst)
                writing.append([entry, release_entry(self._dataset, self._pending, b"")])
                self.has_charged = True
        self._drawn_under = charge, analyst

    def _build_own_charge(self, log: Log, charge: Charge, analyst: str | None) -> Entry:
        return self._charge_entry(log, self._dataset, charge, note=self._note, analyst=analyst)

    def keep_release(self, make: Callable[[], pa.Table]) -> pa.Table:
        """Make the release and keep it, and return the kept release.

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
        if self._drawn_under is None:
            raise failure
        with self._writing() as writing:
            if self._pending.hex() in writing.log.releases:
                writing.append([self._no_longer_pending])
            elif not self._is_paid(writing.log):
                writing.append([self._build_own_charge(writing.log, *self._drawn_under)])
                self.has_charged = True
        table = self.read_release()
        if table is None:
            raise failure
        return table

    def keep(self, table: pa.Table) -> pa.Table:
        """Keep the release that was charged. A release that can't be kept is not returned."""
        content = write_content(table)
        with self._writing() as writing:
            if not self._is_paid(writing.log):
                raise InvalidLedgerError(
                    "another run of the release failed, or kept it and it was forgotten, while it "
                    "was made",
                    hint="run again; it is charged again",
                )
            if (entry := writing.log.releases.get(self._mark.hex())) is not None:
                content = self._read_content(writing, entry)
            else:
                release = release_entry(self._dataset, self._mark, content)
                writing.append([release, self._no_longer_pending], content)
        return read_released_table(content)

    # Sizes and times of the source's files are metadata of secret files. Their digest lies beside
    # the ledger and not in it, because readers of releases may read the ledger, too.

    def remember_files(self, digest: bytes | None) -> None:
        """Note the digest of the source's files, or its lack, in a file for the owner alone.

        A disk that is full or read-only costs later warnings, and no release.
        """
        line = f"{self._mark.hex()} {(digest or b'').hex()}\n".encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with suppress(OSError):
            descriptor = os.open(self._files_path, flags, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def read_file_digest(self) -> bytes | None:
        """Return the digest that was noted last for this release. None without a note."""
        digest = None
        with suppress(OSError, ValueError):
            for line in self._files_path.read_text("ascii").splitlines():
                mark, _, text = line.partition(" ")
                if mark == self._mark.hex():
                    digest = bytes.fromhex(text) if len(text) == 64 else None
        return digest

    @property
    def _files_path(self) -> Path:
        """The path of the notes, beside the ledger's file."""
        return Path(f"{os.path.realpath(self.path)}-sources")

    def find_payment(self) -> Paid | None:
        """Return when the release was charged last. None if its charge is not in the history."""
        with self._reading() as reading:
            times = [
                Paid(time, version)
                for time, *_, note, _, version in reading.charges(self._dataset)
                if note == self._note
            ]
        return times[-1] if times else None

    def require_room(self, charges: Sequence[tuple[Charge, str | None]]) -> None:
        """Refuse several releases, each with its analyst, that do not fit together."""
        with self._reading() as reading:
            for analyst in dict.fromkeys(who for _, who in charges):
                theirs = self._cost(reading.log, [cost for cost, who in charges if who == analyst])
                self._require_part(reading.log, self._dataset, theirs, analyst, "this run")
            self._require_left(
                reading.log,
                self._dataset,
                self._cost(reading.log, [charge for charge, _ in charges]),
                "this run",
                hint=f"see what was charged: dfprivacy ledger show {self.path}",
            )

    def _cost(self, log: Log, charges: Sequence[Charge]) -> Units:
        none = Units(self._total.measure, 0, 0)
        costs = (self._count_cost(log, charge.units(none.measure)) for charge in charges)
        return sum(costs, none)

    @property
    def _no_longer_pending(self) -> Entry:
        return "drop", {"fingerprints": [self._pending.hex()]}

    def _is_paid(self, log: Log) -> bool:
        return not {self._mark.hex(), self._pending.hex()}.isdisjoint(log.releases)

    def _require_this(self, dataset: str) -> None:
        if dataset_name(dataset) != self._dataset:
            raise InvalidLedgerError("a ledger for one release was asked to charge another")
