"""Break the disk under a ledger at every write, sync and rename, and count what was lost.

    python -m benchmarks.ledger_faults [--every 1]

A job makes a ledger, charges it, keeps and forgets releases, and stores a charge with its answer.
It runs in a child, once for each operation and each fault there:

* killed before it, after it, or half-way through a write;
* the power fails: what was not flushed is there, is not, in part, or as zeros; renames too;
* EIO, ENOSPC, a short write, a short write and then ENOSPC, a disk that stays full to the end.

Then the ledger is opened, charged and opened again. Whatever was confirmed to the job must be
there, and at most the one step more that was under way. Beside each state of a crash all older
copies of the ledger are restored: each must be refused, or hold all that was confirmed.

Ends with exit code 1 if an outcome broke that.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import dfprivacy as dfp
from dfprivacy.accounting.answer_ledger import AnswerLedger
from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.idempotent import IdempotentLedger
from dfprivacy.accounting.loss import Epsilon

UNIT = Charge(Epsilon(Fraction(1, 1000)), question="count()")
ANSWERED = Charge(Epsilon(Fraction(1, 1000)), question="answer")
MARKS = bytes(31) + b"1", bytes(31) + b"2", bytes(31) + b"3"
KEPT = pa.table({"n": [7]})
FILE = "b.db"

Step = tuple[int, Callable[[Path], object]]
"""How many units a step of a job charges, and what it does."""


def _open(path: Path) -> dfp.Ledger:
    return dfp.Ledger(path)


def _answer(path: Path) -> None:
    """Store a charge with its answer, as a server does."""
    ledger = AnswerLedger(path)
    ledger.charge("d", ANSWERED)
    with suppress(dfp.LedgerError):
        ledger.store("d", MARKS[2], KEPT)
    if not ledger.settle():
        ledger.recall("d", MARKS[2])


CHARGE: Step = (1, lambda path: _open(path).charge("d", UNIT))
KEEP: Step = (0, lambda path: _open(path).store("d", MARKS[0], KEPT))
CLAIM: Step = (1, lambda path: IdempotentLedger(path, "d", MARKS[1]).charge("d", UNIT))
SETTLE: Step = (0, lambda path: IdempotentLedger(path, "d", MARKS[1]).keep(KEPT))
ANSWER: Step = (1, _answer)
FORGET: Step = (0, lambda path: _open(path).forget())
STEPS: list[Step] = [
    (0, lambda path: dfp.Ledger(path, epsilon=1, remember=True)),
    CHARGE, CHARGE, KEEP, CLAIM, SETTLE, ANSWER, CHARGE, FORGET, CHARGE,
]  # fmt: skip
ERRORS: dict[str, tuple[int | None, ...]] = {
    "EIO": (errno.EIO,), "ENOSPC": (errno.ENOSPC,), "a short write": (None,),
    "a short write, ENOSPC": (None, errno.ENOSPC), "a full disk": (errno.ENOSPC,) * 10_000,
}  # fmt: skip
"""At an operation and those that follow: the error, or None for a write that is cut short."""


@dataclass
class Figures:
    """How many faults were tried, states opened and copies restored, and what broke."""

    operations: int = 0
    kills: int = 0
    power_cuts: int = 0
    errors: int = 0
    copies: int = 0
    broken: int = 0

    def lines(self) -> list[str]:
        """Return the figures as lines of a report."""
        return [
            f"{figure.name.replace('_', ' ')}: {getattr(self, figure.name):,}"
            for figure in fields(self)
        ]


class Disk:
    """Counts what a process does to the files of a folder, and breaks it at one operation."""

    NAMES = ("write", "fsync", "ftruncate", "link", "replace", "chmod", "open")

    def __init__(self, folder: Path, broken: Callable[[Disk, int, Any, tuple[Any, ...]], Any]):
        self.folder, self.broken, self.count = folder, broken, 0
        self.real = {name: getattr(os, name) for name in self.NAMES}
        self.flushed: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self._flush_names()
        for path in self._files():
            self.flushed[path.stat().st_ino] = path.read_bytes()
        for name in self.NAMES:
            setattr(os, name, self._count_calls(name))

    def restore(self) -> None:
        """Give the process its own functions back."""
        for name, function in self.real.items():
            setattr(os, name, function)

    def _files(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.is_file()]

    def _flush_names(self) -> None:
        self.names = {path.name: path.stat().st_ino for path in self._files()}

    def _count_calls(self, name: str) -> Callable[..., Any]:
        real = self.real[name]

        def function(*args: Any, **kwargs: Any) -> Any:
            if not self._ours(args[0]) or (name == "open" and not args[1] & os.O_CREAT):
                return real(*args, **kwargs)
            self.count += 1
            return self.broken(
                self, self.count, lambda *arguments: real(*arguments, **kwargs), args
            )

        return function

    def _ours(self, file: int | str | Path) -> bool:
        path = str(Path(f"/proc/self/fd/{file}").readlink()) if isinstance(file, int) else str(file)
        return path.startswith(str(self.folder))

    def flush(self, descriptor: int) -> None:
        """Note that a file, or the names in the folder, are on the disk."""
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._flush_names()
        else:
            content = Path(f"/proc/self/fd/{descriptor}").read_bytes()
            self.flushed[status.st_ino] = content

    def after_power(self) -> Iterator[dict[str, bytes]]:
        """Yield what may be on the disk after the power failed, by name."""
        now = {path.name: path.stat().st_ino for path in self._files()}
        cache = {path.stat().st_ino: path.read_bytes() for path in self._files()}
        for names in (self.names, now):
            yield from (
                {
                    name: torn(self.flushed.get(inode, b""), cache.get(inode), how)
                    for name, inode in names.items()
                }
                for how in range(4)
            )


def torn(old: bytes, new: bytes | None, how: int) -> bytes:
    """Return bytes that a disk may have after a torn write of `new` over `old`."""
    if new is None or how == 0:
        return old
    first = count_equal_bytes(old, new)
    same = count_equal_bytes(old[:first:-1], new[:first:-1]) if len(old) == len(new) else 0
    last = len(new) - same
    if how == 1:
        return new
    if how == 2:
        half = first + (last - first + 1) // 2
        return new[:half] + old[half:]
    return new[:first] + bytes(last - first) + new[last:]


def count_equal_bytes(first: bytes, other: bytes) -> int:
    """Return how many bytes two texts share at their beginning."""
    pairs = enumerate(zip(first, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(first), len(other)))


def child(work: Callable[[], None]) -> None:
    """Run work in a child until it ends or is killed."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) not in {0, -signal.SIGKILL}:
        raise RuntimeError("a job ended with an error of its own")


def die() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Case:
    """The job in a folder, and how far it came."""

    folder: Path

    @property
    def path(self) -> Path:
        """The ledger."""
        return self.folder / "disk" / FILE

    def begin(self) -> None:
        """Start from what is there before the job."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.path.parent.mkdir(parents=True)

    def run(self) -> None:
        """Do all steps; note each that was confirmed, and the ledger as it was then."""
        for number, (_, step) in enumerate(STEPS, 1):
            with (self.folder / "begun").open("a") as file:
                file.write("x")
            step(self.path)
            shutil.copy(self.path, self.folder / f"copy {number}")
            with (self.folder / "done").open("a") as file:
                file.write("x")

    def length(self, name: str) -> int:
        """Return how many steps were begun, or done."""
        path = self.folder / name
        return path.stat().st_size if path.exists() else 0

    def holds(self, path: Path, *, refused: bool = False) -> bool:
        """Return whether a ledger has what was confirmed, and can go on; it may be `refused`."""
        done, begun = self.length("done"), self.length("begun")
        costs = [cost for cost, _ in STEPS]
        try:
            ledger = dfp.Ledger(path, epsilon=1, remember=True)
            spent = round((ledger.spent("d").epsilon or 0) * 1000)
            if not sum(costs[:done]) <= spent <= sum(costs[:begun]) or not self._has_releases(
                ledger, done
            ):
                return False
            ledger.charge("d", UNIT)
            again = path.with_name("again.db")
            for end in ("", "-head"):
                shutil.copy(f"{path}{end}", f"{again}{end}")
            return round((dfp.Ledger(again).spent("d").epsilon or 0) * 1000) == spent + 1
        except dfp.errors.LedgerFileError:
            return refused

    def _has_releases(self, ledger: dfp.Ledger, done: int) -> bool:
        """Return whether kept releases are there, except those that were forgotten."""
        sure, begun = STEPS[:done], STEPS[: self.length("begun")]
        for mark, step in zip(MARKS, (KEEP, SETTLE, ANSWER), strict=True):
            table = ledger.recall("d", mark)
            if table is None and step in sure and FORGET not in begun:
                return False
            if table is not None and (step not in begun or FORGET in sure or table != KEPT):
                return False
        paid = int((ledger.history()["question"] == ANSWERED.question).sum())
        return FORGET in begun or paid == (table is not None)  # both are there, or neither


def try_charge(case: Case, fault: Callable[[Disk, int, Any, tuple[Any, ...]], Any]) -> None:
    """Run the job in a child on a disk that breaks."""
    case.begin()

    def work() -> None:
        Disk(case.path.parent, fault)
        case.run()

    child(work)


def noting(disk: Disk, real: Any, args: tuple[Any, ...]) -> Any:
    """Do an operation, and note what it has brought to the disk."""
    result = real(*args)
    if args and isinstance(args[0], int) and len(args) == 1:
        disk.flush(args[0])
    return result


def operations(case: Case) -> int:
    """Count the operations of a job."""

    def fault(_: Disk, count: int, real: Any, args: tuple[Any, ...]) -> Any:
        (case.folder / "count").write_text(str(count))
        return real(*args)

    try_charge(case, fault)
    return int((case.folder / "count").read_text())


def kill_at(at: int, when: int) -> Callable[[Disk, int, Any, tuple[Any, ...]], Any]:
    """Return the fault of a kill before an operation (0), half-way (1), or after it (2)."""

    def fault(_: Disk, count: int, real: Any, args: tuple[Any, ...]) -> Any:
        if count == at:
            if when == 1 and len(args) == 2 and not isinstance(args[1], int | str | Path):
                real(args[0], args[1][: len(args[1]) // 2])
            elif when:
                real(*args)
            die()
        return real(*args)

    return fault


def cut_power_at(case: Case, at: int) -> Callable[[Disk, int, Any, tuple[Any, ...]], Any]:
    """Return the fault of a power cut after an operation that is no flush, or before a flush."""

    def fault(disk: Disk, count: int, real: Any, args: tuple[Any, ...]) -> Any:
        if count == at:
            if len(args) > 1:
                real(*args)
            states = {tuple(sorted(state.items())) for state in disk.after_power()}
            disk.restore()
            for number, state in enumerate(states):
                folder = case.folder / f"power {number}"
                folder.mkdir()
                for name, content in state:
                    (folder / name).write_bytes(content)
            die()
        return noting(disk, real, args)

    return fault


def failing_at(at: int, errors: tuple[int | None, ...], folder: Path) -> Any:
    """Return the fault of errors from an operation on, until the step that met them has ended."""

    def fault(_: Disk, count: int, real: Any, args: tuple[Any, ...]) -> Any:
        if count >= at and not (folder / "met").exists():
            index = count - at
            error = errors[index] if index < len(errors) else None
            if error is not None:
                raise OSError(error, os.strerror(error))
            if index < len(errors) and len(args) == 2 and isinstance(args[1], memoryview):
                return real(args[0], args[1][: max(1, len(args[1]) // 2)])
        return real(*args)

    return fault


def restore(case: Case, figures: Figures, state: Path) -> None:
    """Put each older copy in the place of the ledger of a state, and open it."""
    for copy in sorted(case.folder.glob("copy *")):
        folder = case.folder / f"restored {state.name} {copy.name}"
        shutil.copytree(state, folder)
        shutil.copy(copy, folder / FILE)
        figures.copies += 1
        figures.broken += not case.holds(folder / FILE, refused=True)


def survive_errors(case: Case, at: int, errors: tuple[int | None, ...]) -> None:
    """Run a job whose step fails for an error, and goes on with the next, in a child."""
    case.begin()

    def work() -> None:
        Disk(case.path.parent, failing_at(at, errors, case.folder))
        for number, (cost, step) in enumerate(STEPS, 1):
            with (case.folder / "begun").open("a") as file:
                file.write("x")
            try:
                step(case.path)
            except dfp.LedgerError:
                (case.folder / "met").touch()
                (case.folder / f"failed {number} {cost}").touch()

    child(work)


def holds_after_errors(case: Case) -> bool:
    """Return whether a ledger has what was confirmed, and at most what failed besides."""
    failed = sum(int(path.name.split()[2]) for path in case.folder.glob("failed *"))
    total = sum(cost for cost, _ in STEPS)
    if case.length("begun") != len(STEPS):
        return False
    try:
        if not case.path.exists():
            return len(list(case.folder.glob("failed *"))) > 0
        spent = round((dfp.Ledger(case.path).spent("d").epsilon or 0) * 1000)
    except dfp.errors.LedgerFileError:
        return False
    return total - failed <= spent <= total


def battery(every: int = 1) -> Figures:
    """Try every fault at each operation, or at one of `every`; return how many, and what broke.

    Nothing waits for the disk of this machine: what a power cut leaves is computed.
    """
    figures = Figures()
    with tempfile.TemporaryDirectory() as directory, no_waits():
        numbers = itertools.count()

        def case() -> Case:
            return Case(Path(directory) / str(next(numbers)))

        figures.operations = operations(case())
        for at in range(1 + next(numbers) % every, figures.operations + 1, every):
            _crashes(case, at, figures)
            for errors in ERRORS.values():
                trial = case()
                survive_errors(trial, at, errors)
                figures.errors += 1
                figures.broken += not holds_after_errors(trial)
                shutil.rmtree(trial.folder)
    return figures


@contextmanager
def no_waits() -> Iterator[None]:
    """Let flushes of the real disk do nothing."""
    real = os.fsync
    os.fsync = lambda _: None
    try:
        yield
    finally:
        os.fsync = real


def _crashes(case: Callable[[], Case], at: int, figures: Figures) -> None:
    for when in range(3):
        trial = case()
        try_charge(trial, kill_at(at, when))
        figures.kills += 1
        if trial.path.exists():
            restore(trial, figures, trial.path.parent)
        figures.broken += not trial.holds(trial.path)
        shutil.rmtree(trial.folder)
    trial = case()
    try_charge(trial, cut_power_at(trial, at))
    for state in sorted(trial.folder.glob("power *")):
        figures.power_cuts += 1
        if (state / FILE).exists():
            restore(trial, figures, state)
        figures.broken += not trial.holds(state / FILE)
    shutil.rmtree(trial.folder)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="try one operation of so many")
    figures = battery(parser.parse_args().every)
    print("\n".join(figures.lines()))
    return 1 if figures.broken else 0


if __name__ == "__main__":
    sys.exit(main())
