"""Run random schedules of clients and faults, and compare what was seen with the ledger.

    python -m benchmarks.server_simulation [--schedules 5000] [--seed 0]

A schedule is a sequence of events that a seed chooses: a client asks a statement, or fetches again
what was asked before (a ticket of Flight SQL, also while its first fetch runs), one of three
workers goes on to its next step, a worker is killed (or cancelled) there or within a write, all
workers are killed and the server starts again, the disk has room for some bytes only, the system
gives no random bytes. The steps of a worker are: before the charge, between draw and write, after
the write, before the answer is sent. Workers are threads of which one runs at a time. They run the
code of `dfprivacy.server.workers` over frames in place of SQL. A killed one changes no file any
more. After the schedule, two laws must hold:

1. Each answer that a client has seen is in the ledger, and its charge too.
2. A statement about one version of the data was charged once, if it has an answer, and once more
   for each draw that failed. The errors of these are the only ones that may depend on a draw.

Prints how often each event and outcome came up. Ends with an error if a schedule breaks a law.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa

import dfprivacy as dfp
from dfprivacy.accounting.answer_ledger import AnswerLedger
from dfprivacy.accounting.ledger_file import _SEEN
from dfprivacy.server.policy import Policy
from dfprivacy.server.session import open_ledgers
from dfprivacy.server.workers import Answer, DatasetReader, Request, ServerError, describe_error

WORKERS = 3
WITHOUT_NOTES = SimpleNamespace(notes=())
EVENTS = {
    "ask": 8,
    "fetch again": 3,
    "go on": 24,
    "kill": 2,
    "kill in a write": 2,
    "restart": 0.3,
    "fill the disk": 0.7,
    "empty the disk": 1,
    "break a draw": 1,
}
"""Events and how often they come up. Those that find no worker to happen to are left out."""
ROOM = (0, 100, 400, 900, 1500, 4000)  # bytes that a full disk has left
FRAME = pl.DataFrame({"x": range(300), "city": [f"city {i % 10}" for i in range(300)]})
STATEMENTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "count()": (dfp.count(), ()),
    "mean('x', bounds=(0.0, 300.0))": (dfp.mean("x", (0, 300)), ()),
    "count() by 'city'": (dfp.count(), ("city",)),
}
"""Statements, by the question in the history of a ledger, and their columns to group by."""


class Killed(BaseException):
    """End of a simulated process."""


@dataclass
class Disk:
    """The room on the disk, and what clients and workers went through."""

    room: int | None = None
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let writes and random bytes of simulated workers go through their worker."""
        real = {name: getattr(os, name) for name in ("write", "fsync", "ftruncate", "urandom")}

        def write(descriptor: int, content: Any) -> int:
            worker = getattr(CURRENT, "worker", None)
            if worker is not None:
                if worker.dies_now():
                    real["write"](descriptor, content[: len(content) // 2])
                    raise Killed
                if self.room is not None:
                    if len(content) > self.room:
                        worker.has_failed = True
                        raise OSError(errno.ENOSPC, "the disk is full")
                    self.room -= len(content)
            written: int = real["write"](descriptor, content)
            return written

        def change(name: str) -> Any:
            def function(*arguments: Any) -> None:
                worker = getattr(CURRENT, "worker", None)
                if worker is not None and worker.dies_now():
                    raise Killed
                if name == "ftruncate":  # nothing waits for the disk of this machine
                    real[name](*arguments)

            return function

        def urandom(size: int) -> bytes:
            worker = getattr(CURRENT, "worker", None)
            if worker is not None and worker.breaks_draw:
                worker.has_failed, worker.breaks_draw = True, False
                raise OSError("no random bytes")
            data: bytes = real["urandom"](size)
            return data

        os.write, os.urandom = write, urandom
        os.fsync, os.ftruncate = change("fsync"), change("ftruncate")
        try:
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)


CURRENT = threading.local()


class SimulatedWorker:
    """A statement of a client in a process that goes on step by step."""

    def __init__(self, reader: FrameReader, statement: str, analyst: str) -> None:
        self.reader, self.statement, self.analyst = reader, statement, analyst
        self.outcome: Answer | ServerError | None = None
        self.changes_left: int | None = None
        self.drops = 0
        self.is_killed = self.is_over = self.breaks_draw = self.has_failed = False
        self._go, self._stop = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._stop.acquire()

    def _run(self) -> None:
        CURRENT.worker = self
        try:
            self.pause()
            answer = self.reader.answer(Request("release", self.statement, analyst=self.analyst))
            self.pause()
            self.outcome = answer
        except Killed:
            pass
        except BaseException as error:
            self.outcome = describe_error(error)
        if self.is_killed:
            self.outcome = None
        self.is_over = True
        self._stop.release()

    def pause(self) -> None:
        """Wait until the schedule lets this worker go on, or kills it."""
        if not self.is_killed:
            self._stop.release()
            self._go.acquire()
        if self.is_killed:
            raise Killed

    def go_on(self) -> None:
        """Run to the next step."""
        self._go.release()
        self._stop.acquire()

    def kill(self) -> None:
        """End without changing anything any more."""
        self.is_killed = True
        self.go_on()

    def dies_now(self) -> bool:
        """Count a change of the disk, and check whether the process ends in the middle of it."""
        if self.is_killed:
            raise Killed
        if self.changes_left == 0:
            self.is_killed = True
        elif self.changes_left is not None:
            self.changes_left -= 1
        return self.is_killed


def add_steps(kind: type[Any]) -> type[Any]:
    """Return a ledger whose simulated workers stop before and after each change."""

    class SteppedLedger(kind):  # type: ignore[misc]
        def charge(self, *arguments: Any, **terms: Any) -> None:
            CURRENT.worker.pause()
            super().charge(*arguments, **terms)

        def store(self, *arguments: Any) -> None:
            CURRENT.worker.pause()
            super().store(*arguments)
            CURRENT.worker.pause()

        def settle(self) -> bool:
            is_first: bool = super().settle()
            CURRENT.worker.drops += not is_first
            return is_first

    return SteppedLedger


class ChargesFirst(dfp.Ledger):
    """A wrong order: the charge is written before the draw, and the answer after it."""

    def settle(self) -> bool:
        """Do nothing."""
        return True


class ChargesApart(AnswerLedger):
    """A wrong order: charge and answer are written after the draw, one by one."""

    def store(self, dataset: str, fingerprint: bytes, table: pa.Table) -> None:
        """Write the charge, then the answer."""
        self.settle()
        dfp.Ledger.store(self, dataset, fingerprint, table)


class SettlesNever(AnswerLedger):
    """A wrong order: an answer is sent whether it is stored or not."""

    def settle(self) -> bool:
        """Forget the debt."""
        self._debt, self._mark = None, ""
        return True


class FrameConnection:
    """Statements over a frame, in the place of `dfp.connect`."""

    def sql(self, statement: str, **terms: float) -> SimpleNamespace:
        """Release the answer."""
        question, by = STATEMENTS[statement]
        if by:
            table = FRAME.dp.group_by(*by).agg(question, **terms).to_arrow()
            return SimpleNamespace(table=table, origin=WITHOUT_NOTES)
        answers = FRAME.dp.agg(question, **terms)
        table = pa.table({k: [float(v)] for k, v in answers.items()})
        return SimpleNamespace(table=table, origin=WITHOUT_NOTES)

    def explain(self, statement: str, **terms: float) -> Any:
        """Price a statement."""
        question, by = STATEMENTS[statement]
        private = FRAME.dp.group_by(*by) if by else FRAME.dp
        return private.explain(question, **terms)


class FrameReader(DatasetReader):
    """A worker's half of the server over frames."""

    def __init__(self, policy: Policy, kind: type[Any]) -> None:
        super().__init__("flights", policy)
        self.ledger = kind(policy.ledger)

    def _open(self) -> None:
        self.version, self._real = self.dataset.version, FrameConnection()  # type: ignore[assignment]


@dataclass
class Schedule:
    """The state of one schedule."""

    policy: Policy
    kind: type[Any]
    generator: random.Random
    disk: Disk
    readers: list[FrameReader] = field(default_factory=list)
    workers: list[SimulatedWorker] = field(default_factory=list)
    ended: list[SimulatedWorker] = field(default_factory=list)

    def run(self) -> None:
        """Do random events, then let all workers finish."""
        open_ledgers(self.policy)
        for _ in range(self.generator.randrange(10, 50)):
            (event,) = self.generator.choices([*EVENTS], [*EVENTS.values()])
            self._do(event)
        self.disk.room = None
        while self.workers:
            self._do("go on")

    def _do(self, event: str) -> None:
        worker = self.generator.choice(self.workers) if self.workers else None
        if event in {"ask", "fetch again"}:
            asked = [*self.workers, *self.ended]
            if len(self.workers) == WORKERS or (event == "fetch again" and not asked):
                return
            if event == "ask":
                analyst = self.generator.choice([*self.policy.analysts])
                self._ask(self.generator.choice([*STATEMENTS]), analyst)
            else:
                first = self.generator.choice(asked)
                self._ask(first.statement, first.analyst)
        elif event == "fill the disk":
            self.disk.room = self.generator.choice(ROOM)
        elif event == "empty the disk":
            self.disk.room = None
        elif event == "restart":
            for running in self.workers:
                running.kill()
            self.readers.clear()
            _SEEN.clear()
            open_ledgers(self.policy)
        elif worker is None:
            return
        elif event == "kill":
            worker.kill()
        elif event == "break a draw":
            worker.breaks_draw = True
        else:
            if event == "kill in a write":
                worker.changes_left = self.generator.randrange(8)
            worker.go_on()
        self.disk.counts[event] += 1
        self._collect()

    def _ask(self, statement: str, analyst: str) -> None:
        reader = self.readers.pop() if self.readers else FrameReader(self.policy, self.kind)
        self.workers.append(SimulatedWorker(reader, statement, analyst))

    def _collect(self) -> None:
        """Take the outcomes of workers that are over."""
        for worker in [worker for worker in self.workers if worker.is_over]:
            self.workers.remove(worker)
            self.ended.append(worker)
            if not worker.is_killed:
                self.readers.append(worker.reader)
            self.disk.counts["draws dropped for another worker's answer"] += worker.drops
            self.disk.counts[name_outcome(worker.outcome)] += 1

    def find_fault(self) -> str:
        """Return the law that is broken in words, or an empty text."""
        ledger = AnswerLedger(self.policy.ledger)
        charges, stored = Counter(ledger.history()["question"]), ledger.stored()
        failed = [worker for worker in self.ended if worker.has_failed]
        reported = sum(name_outcome(worker.outcome) == CHARGED_FAILURE for worker in failed)
        if not stored + reported <= charges.total() <= stored + len(failed):
            return f"{charges.total()} charges of {stored} answers and {reported} failed draws"
        for statement, count in charges.items():
            if count > 1 + sum(worker.statement == statement for worker in failed):
                return f"{statement} was charged {count} times"
        reader = FrameReader(self.policy, AnswerLedger)
        for worker in self.ended:
            if isinstance(worker.outcome, Answer):
                with suppress(dfp.BudgetExceededError):  # raised for an answer that is not there
                    again = reader.answer(Request("release", worker.statement, analyst="ann"))
                    if again.table == worker.outcome.table and again.price == 0:
                        continue
                return f"an answer to {worker.statement} is not in the ledger"
        return ""


def name_outcome(outcome: Answer | ServerError | None) -> str:
    """Return the kind of an outcome, as the counts name it."""
    if outcome is None:
        return "killed workers"
    if isinstance(outcome, Answer):
        return "answers"
    if "random bytes" in outcome.message or "was charged" in outcome.message:
        return CHARGED_FAILURE
    return f"errors {outcome.code}"


CHARGED_FAILURE = "errors of draws that were charged and failed"


def simulate(seed: int, kind: type[Any], counts: Counter[str]) -> str:
    """Run the schedule of a seed with ledgers of a kind, and return the law that it breaks."""
    generator = random.Random(seed)
    disk = Disk(counts=counts)
    with tempfile.TemporaryDirectory() as folder, disk.used():
        policy = Policy.model_validate(
            {
                "ledger": Path(folder) / "budget.db",
                "datasets": {
                    "flights": {
                        "source": "flights.duckdb",
                        "version": "1",
                        "budget": {"epsilon": generator.choice([2, 100]), "delta": 1e-5},
                        "statement": {"epsilon": 1, "delta": 1e-7},
                    }
                },
                "analysts": {
                    "ann": {"datasets": {"flights": {"epsilon": 2}}},
                    "bob": {"datasets": {"flights": {"epsilon": 1}}},
                },
            }
        )
        schedule = Schedule(policy, add_steps(kind), generator, disk)
        schedule.run()
        return schedule.find_fault()


def main() -> None:
    """Run schedules, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.schedules):
        if fault := simulate(seed, AnswerLedger, counts):
            raise SystemExit(f"seed {seed}: {fault}")
    print(", ".join(f"{count:,} {name}" for name, count in counts.most_common()))


if __name__ == "__main__":
    main()
