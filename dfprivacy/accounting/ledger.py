"""Keep a budget in a file: one account a dataset, charged before anything is drawn."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA, Budget, Charge, Units, total_of
from dfprivacy.accounting.composition import Composition, tight_total
from dfprivacy.accounting.ledger_file import Begin, Founding
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.memory import content_of, released_table
from dfprivacy.errors import (
    BudgetExceededError,
    InvalidLedgerError,
    LedgerBudgetError,
    LedgerFileError,
)
from dfprivacy.exact import describe, exact_number

_LONGEST = 200  # characters of a dataset's name

HISTORY = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"), "dataset": pa.string(), "question": pa.string(),
        "epsilon": pa.float64(), "rho": pa.float64(), "delta": pa.float64(), "note": pa.string(),
        "uuid": pa.string(), "version": pa.string(),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """A dataset's account as the file has it."""

    dataset: str
    spent: Units
    left: Units
    charges: int
    composition: Composition
    remembered: int


class Ledger:
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
    guarantees and what it can't. Every method raises a `LedgerError` when the file can't be used.

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
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise InvalidLedgerError(
                f"a ledger is a file, not {describe(path)}",
                hint='name it: dfp.Ledger("budget.db", epsilon=10)',
            )
        seconds, total = exact_number(timeout), total_of(epsilon, rho, delta)
        if seconds is None or not 0 <= seconds <= 10**6:
            raise InvalidLedgerError(
                f"timeout must be a number of seconds, not {describe(timeout)}",
                hint="pass timeout=5",
            )
        if not (remember is None or isinstance(remember, bool)):
            raise InvalidLedgerError(
                f"remember must be True or False, not {describe(remember)}",
                hint="pass remember=True",
            )
        self._path, self._timeout = Path(path).absolute(), float(seconds)
        self._closed, self._seen = False, 0  # the newest charge that this object has seen
        if total is not None and not self._path.exists():
            if not self._path.parent.is_dir():
                raise LedgerFileError(
                    f"there is no directory {str(self._path.parent)!r} for a ledger",
                    hint="create it first",
                )
            ledger_file.create(self._path, Founding(total, bool(remember)), self._timeout)
        with ledger_file.transaction(self._path, self._timeout, "BEGIN") as connection:
            ledger_file.require_whole(connection, self._path)
            self._name, self._founding = ledger_file.read_founding(connection)
        self._total = self._founding.total
        if total is not None and total != self._total:
            raise LedgerBudgetError(
                f"the ledger {str(self._path)!r} was made with {self._total}, not with {total}",
                hint="a budget never changes: leave it out to open the file as it is, or name a "
                "new file for other data",
            )
        if remember is not None and remember is not self.remembers:
            raise LedgerBudgetError(
                f"the ledger {str(self._path)!r} was made with remember={self.remembers}",
                hint="that never changes: leave remember out to open the file as it is",
            )

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

    @contextmanager
    def _open(self, begin: Begin) -> Iterator[Connection]:
        """Begin a transaction on the file that this ledger was opened on, no older than it was."""
        if self._closed:
            raise InvalidLedgerError("the ledger is closed", hint="open it again: dfp.Ledger(path)")
        with ledger_file.transaction(self._path, self._timeout, begin) as connection:
            if ledger_file.read_founding(connection) != (self._name, self._founding):
                raise LedgerFileError(
                    f"the ledger {str(self._path)!r} was replaced by another",
                    hint="open it again if that is meant: dfp.Ledger(path)",
                )
            newest = _newest(connection)
            if newest < self._seen:
                raise LedgerFileError(
                    f"the ledger {str(self._path)!r} was replaced by an older copy: charges that "
                    "it had are missing",
                    hint="put the newest file back",
                )
            yield connection
            newest = newest if begin == "BEGIN" else _newest(connection)
        self._seen = max(self._seen, newest)

    # What is spent and what is left

    def remaining(self, dataset: str) -> Budget:
        """Return what a dataset may still spend; to ask for just that fits."""
        name = dataset_name(dataset)
        with self._open("BEGIN") as connection:
            return self._left(connection, name).budget()

    def spent(self, dataset: str) -> Budget:
        """Return what a dataset has spent."""
        name = dataset_name(dataset)
        with self._open("BEGIN") as connection:
            return ledger_file.read_spent(connection, name, self._total.measure).budget()

    def datasets(self) -> list[str]:
        """Return the names that have been charged, sorted."""
        with self._open("BEGIN") as connection:
            return _datasets(connection)

    def history(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the charges of one dataset, or of all, oldest first.

        Columns: time (UTC), dataset, question, epsilon, rho, delta, note, uuid, version (of
        dfprivacy). On a ledger in rho, an epsilon is what was asked and rho is what it cost.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._open("BEGIN") as connection:
            rows = _charges(connection, name)
        in_rho = self._total.measure == "rho"
        lines = []
        try:
            for time, about, question, asked, amount, cost, delta, note, uuid, code in rows:
                line = (
                    datetime.fromisoformat(time), about, question,
                    float(Fraction(amount)) if asked == "epsilon" else None,
                    float(Fraction(cost, PER_ONE)) if in_rho else None,
                    float(Fraction(delta, PER_ONE_DELTA)), note, uuid, code,
                )  # fmt: skip
                lines.append(dict(zip(HISTORY.names, line, strict=True)))
        except (ValueError, ZeroDivisionError):
            raise ledger_file.damaged(self._path) from None
        frame: pd.DataFrame = pa.Table.from_pylist(lines, HISTORY).to_pandas()
        return frame

    def statements(self) -> tuple[Units, list[Statement], list[tuple[Any, ...]]]:
        """Return the budget, every account, and every charge as the file has it, at one moment."""
        with self._open("BEGIN") as connection:
            accounts = [
                Statement(
                    name, spent, self._total.less(spent), _count(connection, "charge", name),
                    self._composition(connection, name), _count(connection, "release", name),
                )
                for name in _datasets(connection)
                for spent in [ledger_file.read_spent(connection, name, self._total.measure)]
            ]  # fmt: skip
            return self._total, accounts, _charges(connection, None)

    # Charges

    def check(self, dataset: str, charge: Charge) -> None:
        """Raise what `charge` would raise now, and charge nothing."""
        name, cost = dataset_name(dataset), charge.units(self._total.measure)
        with self._open("BEGIN") as connection:
            self._require_left(connection, name, cost)

    def would_leave(self, dataset: str, charge: Charge) -> Budget | None:
        """Return what a charge would leave of a dataset's budget, None where it does not fit.

        Nothing is charged. Raises what `check` would raise, but for `BudgetExceededError`.
        """
        name, cost = dataset_name(dataset), charge.units(self._total.measure)
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
        about = {
            "question": charge.question.encode("utf-8", "replace").decode(),
            "asked": "epsilon" if isinstance(charge.loss, Epsilon) else "rho",
            "amount": str(charge.loss.value),
            "note": note,
            "version": _version(),
        }
        ledger_file.append(connection, name, self._total, cost, about)

    def _left(self, connection: Connection, name: str) -> Units:
        return self._total.less(ledger_file.read_spent(connection, name, self._total.measure))

    def _require_left(
        self, connection: Connection, name: str, cost: Units, what: str = "this release",
        hint: str = "ask for no more than what is left: ledger.remaining(dataset)",
    ) -> None:  # fmt: skip
        left = self._left(connection, name)
        if left.covers(cost):
            return
        if cost.delta > self._total.delta == 0:
            hint = (
                "this ledger was made without a delta, and a budget never changes: ask for what "
                "needs none (listed keys), or make a ledger with one: "
                "dfp.Ledger(path, epsilon=10, delta=1e-6)"
            )
        raise BudgetExceededError(
            f"the budget of dataset {name!r} does not cover {what}: it costs {cost}, "
            f"and what is left is {left}",
            hint=hint,
        )

    # What the releases amount to

    def total(self, dataset: str, *, delta: float | None = None) -> Budget:
        """Return the epsilon and delta of all releases of a dataset so far.

        Epsilons add up; with a `delta` above what the releases spent themselves, zero-concentrated
        composition is tried too (Bun and Steinke 2016; conversion of Canonne, Kamath and Steinke
        2020), and the smaller epsilon counts. It may always be quoted if what each release was to
        cost was settled before the first answer. If costs were chosen after seeing answers, quote
        `promise`. The floats are not below what was computed.

        >>> import dfprivacy as dfp, polars as pl, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/b.db", rho=1)
        >>> with dfp.spending(ledger, dataset="flights"):
        ...     answer = pl.DataFrame({"delay": range(100)}).dp.count(rho=0.5)
        >>> round(ledger.total("flights", delta=1e-6).epsilon, 2)
        5.22
        >>> folder.cleanup()

        Raises
        ------
        InvalidLossError
            When the releases spent more than `delta`, or it is no number between 0 and 1.
        MissingDeltaError
            When releases were asked for in rho and `delta` leaves nothing for them.
        """
        with self._open("BEGIN") as connection:
            return self._composition(connection, dataset_name(dataset)).total(delta)

    def tight_total(self, dataset: str, *, delta: float) -> Budget:
        """Return the least epsilon known, by privacy loss distributions (dp-accounting).

        As `total`, and never above it. Needs `pip install 'dfprivacy[accounting]'`.

        Raises
        ------
        InvalidLossError
            When the releases spent more than `delta`, or it is no number between 0 and 1.
        LedgerError
            When dp-accounting is not installed, or the file can't be read.
        """
        with self._open("BEGIN") as connection:
            composition = self._composition(connection, dataset_name(dataset))
        return tight_total(composition, delta)

    def promise(self, *, delta: float | None = None) -> Budget:
        """Return the epsilon and delta that each dataset will never exceed.

        That is what the whole budget amounts to. It holds for questions and costs chosen after any
        answers: the ledger refuses what goes beyond (Rogers et al. 2016; Feldman and Zrnic 2021).

        >>> import dfprivacy as dfp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/b.db", rho=0.5, delta=1e-7)
        >>> round(ledger.promise(delta=1e-6).epsilon, 2)
        5.24
        >>> folder.cleanup()

        Raises
        ------
        InvalidLossError
            When the budget has more than `delta`, or it is no number between 0 and 1.
        MissingDeltaError
            When the budget is in rho and `delta` leaves nothing for it.
        """
        value, delta_of_all = Fraction(self._total.loss, PER_ONE), self._total.delta
        loss = Rho(value) if self._total.measure == "rho" else Epsilon(value)
        return Composition(((loss, 1),), Fraction(delta_of_all, PER_ONE_DELTA)).total(delta)

    def _composition(self, connection: Connection, dataset: str) -> Composition:
        """Return the releases of a dataset, if each was charged what its loss costs."""
        losses: list[tuple[Epsilon | Rho, int]] = []
        delta = 0
        rows = connection.execute(
            "SELECT asked, amount, cost, count(*), sum(cost_delta) FROM charge WHERE dataset = ? "
            "GROUP BY asked, amount, cost",
            (dataset,),
        )
        for asked, amount, cost, times, spent in rows:
            try:
                loss = (Epsilon if asked == "epsilon" else Rho)(Fraction(amount))
            except (ValueError, ZeroDivisionError):
                raise ledger_file.damaged(self._path) from None
            if Charge(loss).units(self._total.measure).loss != cost:
                raise ledger_file.damaged(self._path)
            losses.append((loss, times))
            delta += spent
        return Composition(tuple(losses), Fraction(delta, PER_ONE_DELTA))

    def report(self, path: str | os.PathLike[str], *, delta: float | None = None) -> Path:
        """Write what the ledger holds as one HTML page, and return its path.

        The page lists every charge with its question and note, what each dataset has spent and
        left, a drawing of that over time, and the promise in plain words; tables can be sorted and
        filtered. It loads nothing and holds no rows and no answers. `delta` is the one at which
        epsilons are quoted: the budget's delta, unless named (1e-6 more for a ledger in rho).

        Privacy: a function of questions and terms alone; it costs nothing.

        >>> import dfprivacy as dfp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/budget.db", epsilon=1)
        >>> ledger.report(folder.name + "/budget.html").name
        'budget.html'
        >>> folder.cleanup()

        Raises
        ------
        PictureError
            When the path does not end in .html or can't be written.
        InvalidLossError
            When the releases spent more than `delta`, or it is no number between 0 and 1.
        """
        pages = import_module("dfprivacy.viz.ledger_page")  # accounting draws no pages
        written: Path = pages.write_report(self, path, delta)
        return written

    # Releases that can be repeated: what is handed out again is a function of what was charged

    def recall(self, dataset: str, fingerprint: bytes) -> pa.Table | None:
        """Return the release kept under a fingerprint, or None."""
        with self._open("BEGIN") as connection:
            row = connection.execute(
                "SELECT digest, content FROM release WHERE fingerprint = ? AND dataset = ?",
                (fingerprint, dataset_name(dataset)),
            ).fetchone()
        if row is None:
            return None
        digest, content = row
        if hashlib.sha256(content).digest() != digest:
            raise ledger_file.damaged(self._path)
        return released_table(content)

    def store(self, dataset: str, fingerprint: bytes, table: pa.Table) -> None:
        """Keep a release that has been charged, durably; what is kept already stays.

        Raises
        ------
        InvalidLedgerError
            When this ledger does not remember, or the release has more than 512 MiB.
        """
        name = dataset_name(dataset)
        if not self.remembers:
            raise InvalidLedgerError(
                "this ledger remembers no releases",
                hint="make one that does: dfp.Ledger(path, epsilon=10, remember=True)",
            )
        content = content_of(table)
        with self._open("BEGIN IMMEDIATE") as connection:
            insert_release(connection, name, fingerprint, content)

    def stored(self, dataset: str | None = None) -> int:
        """Return how many releases of a dataset, or of all, are kept."""
        name = None if dataset is None else dataset_name(dataset)
        with self._open("BEGIN") as connection:
            return _count(connection, "release", name)

    def forget(self, dataset: str | None = None) -> int:
        """Drop the releases kept of a dataset, or of all; return how many there were.

        Asked again, they are made anew and charged again: nothing is paid back. The file uses the
        room for what comes next.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._open("BEGIN IMMEDIATE") as connection:
            return connection.execute(f"DELETE FROM release WHERE {_OF}", (name,)).rowcount  # noqa: S608 our own text


_OF = "?1 IS NULL OR dataset = ?1"


def _datasets(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT dataset FROM account ORDER BY dataset")]


def _charges(connection: Connection, dataset: str | None) -> list[tuple[Any, ...]]:
    columns = "time, dataset, question, asked, amount, cost, cost_delta, note, uuid, version"
    query = f"SELECT {columns} FROM charge WHERE {_OF} ORDER BY number"  # noqa: S608 our own text
    return connection.execute(query, (dataset,)).fetchall()


def _newest(connection: Connection) -> int:
    """Return the number of the newest charge; numbers only grow."""
    found = connection.execute("SELECT coalesce(max(number), 0) FROM charge").fetchone()
    return int(found[0])


def _count(connection: Connection, table: str, dataset: str | None) -> int:
    query = f"SELECT count(*) FROM {table} WHERE {_OF}"  # noqa: S608 our own text
    return int(connection.execute(query, (dataset,)).fetchone()[0])


def insert_release(
    connection: Connection, dataset: str, fingerprint: bytes, content: bytes
) -> None:
    """Keep bytes under a fingerprint; what is kept already stays."""
    when, digest = datetime.now(UTC), hashlib.sha256(content).digest()
    connection.execute(
        "INSERT INTO release (fingerprint, time, dataset, digest, content) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO NOTHING",
        (fingerprint, when.isoformat(timespec="microseconds"), dataset, digest, content),
    )


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return version("dfprivacy")
    except PackageNotFoundError:
        return "unknown"


def dataset_name(dataset: object) -> str:
    """Return the name of an account; two spellings of one text are one name."""
    name = _readable(dataset)
    if name is None:
        raise InvalidLedgerError(
            "the dataset that a ledger charges has no usable name",
            hint='name it as it is named everywhere, e.g. dataset="flights"',
        )
    return name


def version_name(version: object) -> str | None:
    """Return what the caller calls this state of the data, or None."""
    name = _readable(version)
    if name is None and version is not None:
        raise InvalidLedgerError(
            f"the version of a dataset is a short text, not {describe(version)}",
            hint='name the state of the data, e.g. version="2026-11-20"',
        )
    return name


def _readable(text: object) -> str | None:
    """Return a text in one spelling, if it can be read and typed again."""
    if isinstance(text, str) and len(text) <= _LONGEST:
        name = unicodedata.normalize("NFC", text)
        if name and name == name.strip() and name.isprintable():
            return name
    return None


def note_text(note: object) -> str | None:
    """Return a caller's note to the history, a text that can be stored, or None."""
    if note is None or (isinstance(note, str) and note == note.encode("utf-8", "replace").decode()):
        return note
    raise InvalidLedgerError(
        f"a note is a text, not {describe(note)}", hint='pass note="monthly report"'
    )
