"""Keep a ledger's file: an append-only log of charges with a running hash.

The first line names the format. Each other line is one transaction: the running hash, the number of
bytes that follow the line (a release that is kept), and a JSON list of entries. The newest hash
lies in a second file, in one of two slots that take turns. `Log` holds the rules that no file may
break. docs/how-to/ledger.md proves the guarantees of the order of writes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from dfprivacy.accounting.charge import (
    LEAST_DELTA,
    LEAST_TOTAL,
    MOST_UNITS,
    PER_ONE_DELTA,
    PERIODS,
    Units,
    find_dataset,
    is_period,
)
from dfprivacy.errors import LedgerFileError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

Entry = tuple[str, dict[str, Any]]
"""Kind of an entry and its fields: founding, announcement, allowance, charge, release or drop."""

SCHEMA = 4
COLUMNS = (
    "time",
    "dataset",
    "analyst",
    "question",
    "asked",
    "amount",
    "cost",
    "cost_delta",
    "note",
    "uuid",
    "version",
)
"""The fields of a charge."""

_NAME = b"dfprivacy ledger "
_FIRST = _NAME + b"%d\n" % SCHEMA
_SCALES = {_FIRST: (1, 1), _NAME + b"3\n": (LEAST_TOTAL, LEAST_DELTA)}
"""The first line of each readable schema, and the size of its units of loss and of delta."""
_SLOT = 512  # bytes, which a disk writes whole
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe does not block
_RETRY = 0.002  # seconds between two tries for the lock

_FAILURES = {
    errno.ENOENT: ("does not exist", "a budget starts with Ledger(path, epsilon=10)"),
    errno.ENOSPC: ("could not grow: the disk is full", "make room on the disk"),
    errno.EACCES: ("is read-only", "give this process the right to write to it and beside it"),
}
_ALIKE = {
    errno.EDQUOT: errno.ENOSPC,
    errno.EFBIG: errno.ENOSPC,
    errno.ENOTDIR: errno.ENOENT,
    errno.EPERM: errno.EACCES,
    errno.EROFS: errno.EACCES,
}


@dataclass(frozen=True)
class Founding:
    """The constants of a ledger: each dataset's budget, and whether it remembers and is strict."""

    total: Units
    remember: bool
    strict: bool = False

    def arguments(self) -> str:
        """Return it as the arguments of a call."""
        budget = self.total.budget().arguments()
        arguments = f"{budget}, remember=True" if self.remember else budget
        return f"{arguments}, strict=True" if self.strict else arguments


@dataclass(frozen=True)
class Head:
    """A place in a ledger's log: how many transactions there are, and the running hash."""

    ledger: str
    number: int
    digest: str


@dataclass
class Account:
    """The amount that a dataset has spent, in units, and the count of each loss and its cost."""

    loss: int = 0
    delta: int = 0
    charges: int = 0
    losses: Counter[tuple[str, str, int]] = field(default_factory=Counter)


@dataclass(frozen=True)
class Kept:
    """A release that is kept: its transaction, and its bytes in the file."""

    dataset: str
    digest: str
    number: int
    start: int
    size: int


@dataclass
class Log:
    """The sums of the transactions of a log, as far as it was read.

    Amounts in the file are whole numbers of the units of its schema: `loss_unit`, `delta_unit`.
    """

    file: tuple[int, int] | None = None
    first: bytes = _FIRST
    ledger: str = ""
    founding: Founding = Founding(Units("epsilon", 0, 0), remember=False)
    number: int = 0
    digest: str = ""
    last: bytes = b""
    start: int = 0  # of the last line
    end: int = len(_FIRST)
    unused: int = 0  # bytes of releases that were dropped
    accounts: dict[str, Account] = field(default_factory=dict)
    announced: dict[str, str] = field(default_factory=dict)
    """Datasets, and the length of their periods. None where that is empty."""
    allowed: dict[str, dict[str, Units]] = field(default_factory=dict)
    """Limits of analysts on each account of a dataset, by dataset and analyst."""
    by_analyst: dict[tuple[str, str], Units] = field(default_factory=dict)
    """Amounts spent of an account, by account and analyst."""
    releases: dict[str, Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin behind the first line."""
        self.last = self.last or self.first
        self.loss_unit, self.delta_unit = _SCALES[self.first]

    def written(self, amount: Units, *, up: bool) -> tuple[int, int]:
        """Return an amount in the units of the file, rounded up or down."""
        if up:
            return -(-amount.loss // self.loss_unit), -(-amount.delta // self.delta_unit)
        return amount.loss // self.loss_unit, amount.delta // self.delta_unit

    def amount(self, loss: int, delta: int) -> Units:
        """Return an amount of the file. A ValueError for other values."""
        loss, delta = loss * self.loss_unit, delta * self.delta_unit
        _require(1 <= loss <= MOST_UNITS and 0 <= delta <= PER_ONE_DELTA)
        return Units(self.founding.total.measure, loss, delta)

    @property
    def head(self) -> Head:
        """The place that was reached."""
        return Head(self.ledger, self.number, self.digest)

    def spent(self, dataset: str) -> Units:
        """Return the amount that a dataset has spent."""
        account = self.accounts.get(dataset, Account())
        return Units(self.founding.total.measure, account.loss, account.delta)

    def find_spent_by(self, analyst: str, account: str) -> Units:
        """Return the amount that an analyst has spent of an account."""
        measure = self.founding.total.measure
        return self.by_analyst.get((account, analyst), Units(measure, 0, 0))

    def dataset(self, account: str) -> str:
        """Return the dataset that an account is of: its own, or one that comes in periods."""
        dataset, period = find_dataset(account)
        kind = self.announced.get(dataset, "")
        return dataset if kind and is_period(kind, period) else account

    def list_accounts(self, dataset: str) -> list[str]:
        """Return the accounts of a dataset that have been charged, sorted."""
        return sorted(name for name in self.accounts if self.dataset(name) == dataset)

    def line(self, entries: list[Entry], size: int) -> bytes:
        """Return the line of the transaction that comes next, which `size` bytes follow."""
        body = json.dumps(entries, separators=(",", ":")).encode()
        return b"%s %d %s\n" % (_running(self.digest, body), size, body)

    def step(self, line: bytes) -> None:
        """Take in the next transaction. Raise an error of Python if it breaks a rule."""
        digest, size, body = _split(line)
        self.last, self.start, self.end = line, self.end, self.end + len(line) + size
        self.number, self.digest = self.number + 1, digest.decode()
        kinds: dict[str, Any] = {
            "founding": self._read_founding,
            "charge": self._spend,
            "release": self._keep,
            "drop": self._drop,
            "announcement": self._announce,
            "allowance": self._allow,
        }
        entries = json.loads(body)
        _require(size == 0 or any(kind == "release" for kind, _ in entries))
        for kind, fields in entries:
            _require((kind == "founding") == (not self.ledger))
            for name, value in fields.items():
                _require_type(name, value)
            kinds[kind](**fields, **({"size": size} if kind == "release" else {}))

    def _read_founding(
        self,
        *,
        ledger: str,
        measure: Any,
        total: int,
        total_delta: int,
        remember: int,
        strict: int = 0,
    ) -> None:
        _require(measure in {"epsilon", "rho"} and ledger != "")
        self.ledger = ledger
        budget = replace(self.amount(total, total_delta), measure=measure)
        self.founding = Founding(budget, remember=remember == 1, strict=strict == 1)

    def _announce(self, *, dataset: str, periods: str) -> None:
        _require(periods == "" or periods in PERIODS)
        _require(dataset not in self.announced and (not periods or dataset not in self.accounts))
        self.announced[dataset] = periods

    def _allow(self, *, analyst: str, dataset: str, loss: int, delta: int) -> None:
        self.allowed.setdefault(dataset, {})[analyst] = self.amount(loss, delta)

    def _spend(
        self,
        *,
        dataset: str,
        amount: str,
        cost: int,
        cost_delta: int,
        analyst: str | None = None,
        **about: str | None,
    ) -> None:
        measure = about.pop("asked", None) or ""
        _require(measure in {"epsilon", "rho"} and [*about] == _ABOUT)
        charged = self.amount(cost, cost_delta)
        account = self.accounts.setdefault(dataset, Account())
        account.loss += charged.loss
        account.delta += charged.delta
        account.charges += 1
        account.losses[measure, amount, charged.loss] += 1
        _require(self.founding.total.with_excess().covers(self.spent(dataset)))
        name = self.dataset(dataset)
        _require(not self.announced.get(dataset))  # its periods have accounts
        _require(not self.founding.strict or name in self.announced)
        if analyst is not None:
            spent = self.find_spent_by(analyst, dataset) + charged
            self.by_analyst[dataset, analyst] = spent
            _require(self.allowed.get(name, {}).get(analyst, spent).with_excess().covers(spent))
        else:
            _require(name not in self.allowed)

    def _keep(self, *, fingerprint: str, dataset: str, digest: str, length: int, size: int) -> None:
        _require(self.founding.remember)
        _require(dataset in self.accounts and fingerprint not in self.releases)
        _require(len(fingerprint) == len(digest) == 64 and size in {length, 0})
        start = self.start + len(self.last)
        self.releases[fingerprint] = Kept(dataset, digest, self.number, start, size)

    def _drop(self, *, fingerprints: list[str]) -> None:
        self.unused += sum(self.releases.pop(mark).size for mark in fingerprints)


_ABOUT = ["uuid", "time", "question", "note", "version"]
_NUMBERS = {"total", "total_delta", "remember", "strict", "loss", "delta", "cost", "cost_delta"}
_NUMBERS |= {"length"}


def _require_type(name: str, value: Any) -> None:
    """Require a whole number, or a text that can be written, as the name of a field says."""
    if name in _NUMBERS:
        _require(type(value) is int)
    elif name != "fingerprints" and not (name == "note" and value is None):
        _require(type(value) is str)
        value.encode()


def _require(condition: bool) -> None:  # noqa: FBT001 what must hold
    if not condition:
        raise ValueError


def _running(before: str, body: bytes) -> bytes:
    return hashlib.sha256(before.encode() + body).hexdigest().encode()


def _split(line: bytes) -> tuple[bytes, int, bytes]:
    """Return running hash, bytes that follow, and entries of a line. No hash if it is torn."""
    digest, size, body = [*line[:-1].split(b" ", 2), b"", b""][:3]
    is_complete = line.endswith(b"\n") and size.isdigit() and len(size) < 12
    return (digest, int(size), body) if is_complete else (b"", 0, b"")


@dataclass
class Reading:
    """An open log: its sums, the file, and the confirmed part."""

    log: Log
    file: BinaryIO
    confirmed: Head | None

    def charges(self, dataset: str | None) -> list[tuple[Any, ...]]:
        """Return the charges of one dataset, or of all, oldest first."""
        rows = []
        for _, body in self.lines():
            for kind, fields in json.loads(body):
                if kind == "charge" and dataset in {None, fields["dataset"]}:
                    cost = self.log.amount(fields["cost"], fields["cost_delta"])
                    row = {**fields, "cost": cost.loss, "cost_delta": cost.delta}
                    rows.append(tuple(map(row.get, COLUMNS)))
        return rows

    def lines(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the running hash and the entries of each transaction."""
        offset = len(_FIRST)
        while offset < self.log.end:
            self.file.seek(offset)
            digest, size, body = _split(line := self.file.readline())
            yield digest, body
            offset += len(line) + size

    def is_settled(self, entry: Kept) -> bool:
        """Check whether a release is confirmed: a crash can't take it away."""
        return self.confirmed is None or entry.number <= self.confirmed.number

    def content(self, entry: Kept) -> bytes:
        """Return the bytes of a release that is kept."""
        self.file.seek(entry.start)
        return self.file.read(entry.size)


@dataclass
class Writing(Reading):
    """A log that no other process writes to."""

    path: Path
    descriptor: int
    second: _Second

    def append(self, entries: list[Entry], content: bytes = b"") -> None:
        """Add a transaction. When this returns, it is on the disk and confirmed."""
        line, start = self.log.line(entries, len(content)), self.log.end
        try:
            self.log.step(line)  # what breaks a rule is never written
            _write(self.descriptor, line, start)
            _write(self.descriptor, content, start + len(line))
            flush(self.descriptor)
        except BaseException:
            self.log.file = None  # it is read again from its start
            with suppress(OSError):  # what can't be taken back is torn, or counts
                os.ftruncate(self.descriptor, start)
            raise
        self.second.write(self.log.head)

    def rewrite(self) -> None:
        """Put a file without the dropped releases in place of this one, if it has one name."""
        if os.fstat(self.descriptor).st_nlink > 1:
            return
        entries = {entry.number: entry for entry in self.log.releases.values() if entry.size}
        with _open_replacement(self.path, self.path) as descriptor:
            offset = _write(descriptor, self.log.first, 0)
            for number, (digest, body) in enumerate(self.lines(), 1):
                content = self.content(entries[number]) if number in entries else b""
                line = b"%s %d %s\n" % (digest, len(content), body)
                offset += _write(descriptor, line, offset)
                offset += _write(descriptor, content, offset)


class _Second:
    """The second file, which holds the newest hash that was confirmed."""

    def __init__(self, path: Path) -> None:
        self.path, self.descriptor, self.slot = second_file(path), -1, 0

    def open(self, like: Path, head: Head) -> None:
        """Open the file for writing. Make it if it is not there, whole from its first moment."""
        if not self.path.exists():
            with _open_replacement(self.path, like) as descriptor:
                _write(descriptor, self._find_slot(head).ljust(2 * _SLOT, b"."), 0)
        self.descriptor = os.open(self.path, os.O_RDWR | _BINARY)

    def close(self) -> None:
        """Close the file, if it is open."""
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def read(self) -> Head | None:
        """Return the newest hash of the two slots. None where there is no file, or an empty one."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        heads = []
        for slot in (0, 1):
            text = content[slot * _SLOT : (slot + 1) * _SLOT].split(b"\n")[0]
            parts = text.split(b" ")
            if len(parts) == 4 and parts[3] == _running("", b" ".join(parts[:3])):
                with suppress(ValueError):  # of a text that this module does not write
                    ledger, number, digest = (part.decode() for part in parts[:3])
                    heads.append((int(number), slot, Head(ledger, int(number), digest)))
        if content and not heads:
            raise LedgerFileError(
                f"the file beside a ledger is damaged: {str(self.path)!r}",
                hint="if the ledger has all its charges, move that file away",
            )
        _, self.slot, newest = max(heads, default=(0, 0, None), key=itemgetter(0))
        return newest

    def write(self, head: Head) -> None:
        """Write the newest hash, over the older one of the two that are there."""
        slot = 1 - self.slot
        _write(self.descriptor, self._find_slot(head), slot * _SLOT)
        flush(self.descriptor)
        self.slot = slot
        _SEEN[str(self.path)] = head

    def _find_slot(self, head: Head) -> bytes:
        text = f"{head.ledger} {head.number} {head.digest}".encode()
        return (b"%s %s\n" % (text, _running("", text))).ljust(_SLOT, b".")


_SEEN: dict[str, Head] = {}
"""The newest hash of each log that this process knows to be confirmed."""


def second_file(path: Path) -> Path:
    """Return where the newest hash of a ledger lies."""
    return Path(f"{os.path.realpath(path)}-head")


class LedgerFile:
    """A ledger's file as one object has read it. Threads take turns."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout, self._log = path, timeout, Log()
        self._is_tidy = False

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Read the log as it is at this moment, which takes no lock and changes nothing."""
        with _GATE.pass_gate(self.path, self.timeout), _readable(self.path):
            try:
                reading = self._read(_Second(self.path))
            except LedgerFileError:  # the first charge may have been under way
                reading = self._read(_Second(self.path))
            with reading.file:
                yield reading

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Lock out other processes, drop a torn transaction, and confirm the last one."""
        with _GATE.pass_gate(self.path, self.timeout), _readable(self.path):
            descriptor, second = self._open_locked(), _Second(self.path)
            try:
                reading = self._read(second)
                if not self._is_tidy:
                    _remove_left(self.path)
                    self._is_tidy = True
                with reading.file:
                    log = reading.log
                    second.open(self.path, log.head)
                    if os.fstat(descriptor).st_size > log.end:
                        os.ftruncate(descriptor, log.end)
                    if reading.confirmed != log.head:
                        flush(descriptor)
                        second.write(log.head)
                    yield Writing(log, reading.file, log.head, self.path, descriptor, second)
            finally:
                second.close()
                os.close(descriptor)

    def _open_locked(self) -> int:
        """Return the log, open and locked."""
        end = time.monotonic() + self.timeout
        while True:
            descriptor = os.open(self.path, os.O_RDWR | _BINARY)
            try:
                self._lock(descriptor, end)
                if _identity(os.fstat(descriptor)) == _identity(self.path.stat()):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _lock(self, descriptor: int, end: float) -> None:
        while not _take_lock(descriptor):
            if time.monotonic() > end:
                raise LedgerFileError(
                    f"the ledger {str(self.path)!r} is in use by another process",
                    hint="try again, or pass a longer timeout",
                )
            time.sleep(_RETRY)

    def _read(self, second: _Second) -> Reading:
        """Read on to the end of the complete transactions, past the confirmed one."""
        confirmed = second.read()
        file: BinaryIO = os.fdopen(os.open(self.path, os.O_RDONLY | _BINARY), "rb")
        try:
            identity, log = _identity(os.fstat(file.fileno())), self._log
            first = _read_format(file, self.path)
            file.seek(log.start)
            if log.file != identity or file.read(len(log.last)) != log.last:
                log = Log(identity, first)
            seen = _SEEN.get(str(second.path))
            _read_on(log, file, self.path, confirmed, seen)
            newest = confirmed or log.head
            if not seen or seen.ledger != log.ledger or seen.number < newest.number:
                _SEEN[str(second.path)] = newest
        except BaseException:
            file.close()
            self._log = Log()  # what was refused is read again from its start
            raise
        self._log = log
        return Reading(log, file, confirmed)


def _read_format(file: BinaryIO, path: Path) -> bytes:
    """Return the first line, which names a schema that can be read."""
    file.seek(0)
    first = file.readline()
    if not first.startswith(_NAME):
        raise LedgerFileError(
            f"the ledger {str(path)!r} is not a ledger",
            hint="name the file that Ledger(path, epsilon=...) made",
        )
    if first not in _SCALES:
        schema = first[len(_NAME) : -1].decode("ascii", "replace")[:20]
        raise LedgerFileError(
            f"the ledger {str(path)!r} has schema {schema}, and this version of dfprivacy reads "
            f"schemas 3 and {SCHEMA}",
            hint="use the version of dfprivacy that wrote it",
        )
    return first


def _read_on(
    log: Log, file: BinaryIO, path: Path, confirmed: Head | None, seen: Head | None
) -> None:
    """Read complete transactions from the end of `log` on. Refuse a log that has lost some."""
    size, sure = file.seek(0, os.SEEK_END), confirmed.number if confirmed else 0
    file.seek(log.end)
    while log.end < size:
        digest, follow, body = _split(line := file.readline())
        if digest != _running(log.digest, body) or log.end + len(line) + follow > size:
            break
        if follow and log.number >= sure and _digest(file.read(follow)) not in body:
            break  # a crash has left zeros in its place
        try:
            log.step(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise build_damage_error(path) from None
        file.seek(log.end)
        for head in (confirmed, seen):
            if head and (head.ledger, head.number) == (log.ledger, log.number):
                _require_newest(path, head.digest == log.digest)
    torn = log.end < size
    if confirmed and log.ledger and confirmed.ledger != log.ledger:
        raise LedgerFileError(
            f"beside the ledger {str(path)!r} lies the newest hash of another: "
            f"{str(second_file(path))!r}",
            hint="put that ledger's file back, or move its hash away",
        )
    late = any(
        head and head.ledger == log.ledger and head.number > log.number
        for head in (confirmed, seen)
    )
    if not log.ledger or (torn and (late or not confirmed)):
        raise build_damage_error(path)
    _require_newest(path, not late)


def _require_newest(path: Path, condition: bool) -> None:  # noqa: FBT001 what must hold
    if not condition:
        raise LedgerFileError(
            f"the ledger {str(path)!r} was replaced by an older copy: charges that it had are "
            "missing",
            hint="put the newest file back; if it is lost for good, what remains unspent can't be "
            f"known: {str(second_file(path))!r} holds the hash of the newest charge",
        )


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def build_damage_error(path: Path) -> LedgerFileError:
    """Return the error of a file that lost a transaction."""
    return LedgerFileError(
        f"the ledger {str(path)!r} is damaged",
        hint="restore the newest copy; charges after it are lost",
    )


def charge_entry(log: Log, fields: dict[str, Any]) -> Entry:
    """Return a charge with its time and an identifier, made of the running hash and not drawn."""
    stamped = {"time": datetime.now(UTC).isoformat(timespec="microseconds"), **fields}
    seed = hashlib.sha256(f"{log.ledger} {log.digest} {os.getpid()} {stamped}".encode()).digest()
    return "charge", {"uuid": str(uuid.UUID(bytes=seed[:16], version=4)), **stamped}


def release_entry(dataset: str, fingerprint: bytes, content: bytes) -> Entry:
    """Return that a release is kept, whose bytes follow."""
    about = {"fingerprint": fingerprint.hex(), "dataset": dataset}
    return "release", {**about, "digest": _digest(content).decode(), "length": len(content)}


def is_ledger(path: Path) -> bool:
    """Check whether a file starts as a ledger of any version."""
    if path.is_file():
        with suppress(OSError), path.open("rb") as file:
            return file.read(len(_NAME)) == _NAME
    return False


def expand_home(path: Path) -> Path:
    """Return a path with the home directory in the place of a leading `~`."""
    return path.expanduser() if path.parts[:1] == ("~",) else path


def ledger_path(path: str | os.PathLike[str]) -> Path:
    """Return where a ledger's file is, or is to be made."""
    file = expand_home(Path(path)).absolute()
    with _readable(file), suppress(FileNotFoundError, NotADirectoryError):
        with suppress(ValueError):  # a NUL, or what is no Unicode
            if stat.S_ISREG(file.stat().st_mode):
                return file
        raise LedgerFileError(
            f"the ledger {str(file)!a} is not a file",
            hint='name one: dfp.Ledger("budget.db", epsilon=10)',
        )
    return file


def create(path: Path, founding: Founding) -> None:
    """Make the file of a new ledger beside the path and link it there, if no process was first."""
    with _readable(path):
        if (left := second_file(path)).exists() and not path.exists():
            raise LedgerFileError(
                f"where the ledger {str(path)!r} is to be made lies a part of another: "
                f"{str(left)!r}",
                hint="that ledger's file is gone, and its charges with it: put it back, or "
                "move this one away to begin anew",
            )
        _remove_left(path)
        total, log = founding.total, Log()
        fields = {
            "ledger": uuid.uuid4().hex,
            "measure": total.measure,
            "total": total.loss,
            "total_delta": total.delta,
            "remember": int(founding.remember),
            **({"strict": 1} if founding.strict else {}),
        }
        with suppress(FileExistsError), _open_replacement(path) as descriptor:
            _write(descriptor, _FIRST + log.line([("founding", fields)], 0), 0)


@contextmanager
def _open_replacement(path: Path, like: Path | None = None) -> Iterator[int]:
    """Open a new file. When all is written, put it under the path.

    It takes the place of a file that is there, and is open to whom another is open, if that is
    named. Otherwise it is the first, or a `FileExistsError`.
    """
    real = Path(os.path.realpath(path))
    with _directory_beside(real) as directory:
        new_file = directory / "ledger"
        descriptor = os.open(new_file, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
        try:
            yield descriptor
            flush(descriptor)
        finally:
            os.close(descriptor)
        if like is None:
            os.link(new_file, real)
        else:
            shutil.copymode(like, new_file)
            new_file.replace(real)
        sync_directory(real.parent)


@contextmanager
def _directory_beside(real: Path) -> Iterator[Path]:
    """Make a directory for a new file beside a ledger, locked as long as this process lives."""
    while True:
        with tempfile.TemporaryDirectory(
            prefix=_prefix(real), dir=real.parent, ignore_cleanup_errors=True
        ) as name:
            descriptor = _lock_directory(Path(name))
            if descriptor >= 0:
                try:
                    yield Path(name)
                finally:
                    os.close(descriptor)
                return


def _prefix(real: Path) -> str:
    """Return how directories of a ledger's new files begin: the same for both of its files."""
    name = real.name.removesuffix("-head").encode(errors="surrogateescape")
    return f".ledger-{hashlib.sha256(name).hexdigest()[:16]}-"


def _lock_directory(directory: Path) -> int:
    """Lock a directory by a file in it. -1 where another process has it or has removed it."""
    lock = directory / "lock"
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | _BINARY
        descriptor = os.open(lock, flags, 0o600)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return -1
        raise
    with suppress(FileNotFoundError):
        if _take_lock(descriptor) and _identity(os.fstat(descriptor)) == _identity(lock.stat()):
            return descriptor
    os.close(descriptor)
    return -1


def _remove_left(path: Path) -> None:
    """Remove the directories of new files that killed writers of a ledger have left.

    A living writer holds the lock of its directory, or notices that it is gone and makes another.
    """
    real = Path(os.path.realpath(path))
    for directory in real.parent.glob(f"{_prefix(real)}*"):
        with suppress(OSError):
            if directory.is_symlink() or not directory.is_dir():
                continue
            descriptor = _lock_directory(directory)
            if descriptor >= 0:
                try:
                    shutil.rmtree(directory, ignore_errors=True)
                finally:
                    os.close(descriptor)


def _write(descriptor: int, content: bytes, offset: int) -> int:
    """Write all bytes at an offset of the file. Return their number."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return len(content)


def flush(descriptor: int) -> None:
    """Flush a file to the disk."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    os.fsync(descriptor)


def sync_directory(directory: Path) -> None:
    """Write the directory's entries to the disk, where the system can do that."""
    with suppress(PermissionError):  # Windows opens no directories, and needs no such call
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _take_lock(descriptor: int) -> bool:
    """Check whether this process has got the lock. It ends with the descriptor."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, 2**62, os.SEEK_SET)  # a byte that nobody reads
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Replace an error of the system by one that names the failure and the fix."""
    try:
        yield
    except LedgerFileError:
        raise
    except OSError as error:
        code = _ALIKE.get(error.errno or 0, error.errno)
        usual = ("could not be read or written", "check the disk, or see the system's log")
        what, hint = _FAILURES.get(code or 0, usual)
        raise LedgerFileError(f"the ledger {str(path)!r} {what}", hint=hint) from None


class _Gate:
    """Lets one thread at a time at the files, and no fork meanwhile: children share locks."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=lambda: self._lock.acquire(),  # noqa: PLW0108 a child has another lock
                after_in_parent=lambda: self._lock.release(),  # noqa: PLW0108
                after_in_child=self.renew,
            )

    def renew(self) -> None:
        """Start afresh, as in a child: no thread of the parent is there."""
        self._lock = threading.RLock()

    @contextmanager
    def pass_gate(self, path: Path, timeout: float) -> Iterator[None]:
        """Wait for the other threads of this process, but no longer than `timeout` seconds."""
        lock = self._lock
        if not lock.acquire(timeout=timeout):
            raise LedgerFileError(
                f"the ledger {str(path)!r} is in use by another thread",
                hint="try again, or pass a longer timeout",
            )
        try:
            yield
        finally:
            lock.release()


_GATE = _Gate()
