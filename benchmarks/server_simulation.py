"""Run random schedules of clients and faults, and compare what was seen with the ledger.

    python -m benchmarks.server_simulation [--schedules 5000] [--seed 0]

A schedule is a sequence of events that a seed chooses: a client asks a statement of the Postgres
listener or of the Flight SQL listener, or fetches again an answer that a client has asked for (by
the same ticket, also while its first fetch runs), one of three workers goes on to its next step, a
worker is killed there or within a write, a client cancels its statement or leaves, all workers are
killed and the ledgers opened again, the disk has room for some bytes only, the system gives no
random bytes. The steps of a worker are: after the plan, before the charge, between draw and write,
after the write, before the answer is sent. Both listeners run, on ports, with clients that log in.
Workers are threads of which one runs at a time. They run the code of `dfprivacy.server.workers`
over frames in place of SQL. A killed one changes no file any more. After the schedule, three laws
must hold:

1. Each answer that a client has seen is in the ledger, and its charge too.
2. A statement about one version of the data was charged once, if it has an answer, and once more
   for each draw that failed. The errors of these are the only ones that may depend on a draw.
3. The prices that clients were told add up to no more than the charges.

Prints how often each event and outcome came up. Ends with an error if a schedule breaks a law.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import queue
import random
import socket
import struct
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.flight as fl
from google.protobuf.any_pb2 import Any as AnyMessage

import dfprivacy as dfp
from dfprivacy.accounting.answer_ledger import AnswerLedger
from dfprivacy.accounting.ledger_file import _SEEN
from dfprivacy.server.catalog import Answer, CatalogReader
from dfprivacy.server.listener import Listener
from dfprivacy.server.policy import Policy
from dfprivacy.server.session import open_ledgers
from dfprivacy.server.users import Verifier, write_users
from dfprivacy.server.workers import DatasetReader, ServerError, describe_error

WORKERS = 3
WITHOUT_NOTES = SimpleNamespace(notes=())
EVENTS = {
    "ask": 8,
    "fetch again": 3,
    "go on": 24,
    "kill": 2,
    "kill in a write": 2,
    "cancel": 0.5,
    "leave": 0.5,
    "restart": 0.3,
    "fill the disk": 0.7,
    "empty the disk": 1,
    "break a draw": 1,
}
"""Events and how often they come up. Those that find no worker to happen to are left out."""
ROOM = (0, 100, 400, 900, 1500, 4000)  # bytes that a full disk has left
FRAME = pl.DataFrame({"x": range(300), "city": [f"city {i % 10}" for i in range(300)]})
STATEMENTS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "SELECT count(*) FROM flights": ("count()", dfp.count(), ()),
    "SELECT avg(x) FROM flights": (
        "mean('x', bounds=(0.0, 300.0))",
        dfp.mean("x", (0, 300)),
        (),
    ),
    "SELECT city, count(*) FROM flights GROUP BY city": (
        "count() by 'city'",
        dfp.count(),
        ("city",),
    ),
}
"""Statements, their question in the history of a ledger, and their columns to group by."""
HANG_SECONDS = 60


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
    """A process that answers a statement step by step, in the thread of its listener."""

    def __init__(self, reader: FrameReader) -> None:
        self.reader, self.statement = reader, ""
        self.changes_left: int | None = None
        self.drops, self.price = 0, 0.0
        self.is_killed = self.is_over = self.breaks_draw = self.has_failed = False
        self.analyst, self.client = "", None
        self.reply: Future[Seen] = Future()
        self._go, self._stop = threading.Semaphore(0), threading.Semaphore(0)

    def run(self, request: tuple[Any, ...], arrivals: queue.Queue[SimulatedWorker]) -> Answer:
        """Answer a request, or raise its error, or that of a worker that has ended."""
        CURRENT.worker, self.statement = self, request[1]
        arrivals.put(self)
        try:
            self.pause()
            answer: Answer | ServerError = self.reader.answer(*request)
            self.price = answer.price
            self.pause()
        except Killed:
            pass
        except BaseException as error:
            answer = describe_error(error)
        finally:
            CURRENT.worker = None
        if self.is_killed:
            answer = ServerError("57014", "the statement was ended before its answer")
        self.is_over = True
        self._stop.release()
        if isinstance(answer, ServerError):
            raise answer
        return answer

    def pause(self) -> None:
        """Wait until the schedule lets this worker go on, or kills it."""
        if not self.is_killed:
            self._stop.release()
            self._go.acquire()
        if self.is_killed:
            raise Killed

    def wait(self) -> None:
        """Wait until it stops."""
        if not self._stop.acquire(timeout=HANG_SECONDS):
            raise AssertionError("a worker hangs")

    def go_on(self) -> None:
        """Run to the next step."""
        self._go.release()
        self.wait()

    def kill(self) -> None:
        """End without changing anything any more."""
        self.is_killed = True
        self._go.release()

    def dies_now(self) -> bool:
        """Count a change of the disk, and check whether the process ends in the middle of it."""
        if self.is_killed:
            raise Killed
        if self.changes_left == 0:
            self.is_killed = True
        elif self.changes_left is not None:
            self.changes_left -= 1
        return self.is_killed


class SimulatedPool:
    """The workers of the schedule that runs."""

    def __init__(self) -> None:
        self.arrivals: queue.Queue[SimulatedWorker] = queue.Queue()
        self.schedule: Schedule | None = None

    async def get(self) -> Any:
        """Return a worker."""
        assert self.schedule is not None
        worker = self.schedule.start_worker()

        def ask(*request: Any) -> Answer:
            return worker.run(request, self.arrivals)

        return SimpleNamespace(ask=ask, process=worker)

    def put_nowait(self, worker: Any) -> None:
        """Do nothing: the schedule takes workers back."""


class PlainWorker:
    """A worker of the catalogs in this process, or one of data that knows their columns alone."""

    def __init__(self, limits: object, reader_type: type[Any], *terms: Any) -> None:  # noqa: ARG002 no process
        self._reader = CatalogReader(*terms) if reader_type is CatalogReader else None

    def ask(self, *request: Any) -> Answer | None:
        """Answer about the catalog, or return the columns."""
        if self._reader is not None:
            return self._reader.answer(*request)
        columns = {"column_name": ["x", "city"], "data_type": ["BIGINT", "VARCHAR"]}
        return Answer(pa.table({"table_name": ["flights", "flights"], **columns}))


@dataclass(frozen=True)
class Seen:
    """The reply that a client has read: rows, or an error."""

    rows: tuple[tuple[Any, ...], ...] | None = None
    code: str = ""
    message: str = ""


class PostgresClient:
    """A connection to the Postgres listener."""

    def __init__(self, listeners: Listeners, analyst: str) -> None:
        self._listeners, self._analyst = listeners, analyst
        self._open()

    def _open(self) -> None:
        self._connection = psycopg.connect(
            host="127.0.0.1",
            port=self._listeners.port,
            user=self._analyst,
            password="secret",
            dbname="flights",
            sslmode="require",
            autocommit=True,
        )

    def ask(self, statement: str) -> Seen:
        """Ask a statement, and return what comes back."""
        if self._connection.closed:
            self._open()
        try:
            return Seen(tuple(self._connection.execute(statement).fetchall()))
        except psycopg.Error as error:
            return Seen(code=error.sqlstate or "left", message=str(error))

    def cancel(self) -> None:
        """Send a cancel request. That of libpq would keep the listener's thread from running."""
        number = self._connection.info.backend_pid
        key = self._listeners.listener.sessions[number].key
        with socket.create_connection(("127.0.0.1", self._listeners.port), HANG_SECONDS) as wire:
            wire.sendall(struct.pack("!iiI", 16, 80877102, number) + key)
            wire.recv(1)

    def leave(self) -> None:
        """Hang up while a statement runs."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


class FlightClient:
    """A login of the Flight SQL listener, which keeps its tickets."""

    def __init__(self, listeners: Listeners, analyst: str) -> None:
        address = f"grpc+tls://localhost:{listeners.listener.flight.port}"
        self._wire = fl.connect(address, tls_root_certs=listeners.certificate)
        token = self._wire.authenticate_basic_token(analyst, "secret")
        self._options = fl.FlightCallOptions(headers=[token], timeout=HANG_SECONDS)

    @cache  # noqa: B019 clients live as long as the process
    def _find_ticket(self, statement: str) -> fl.Ticket:
        body = AnyMessage(type_url=statement).SerializeToString()
        name = "/arrow.flight.protocol.sql.CommandStatementQuery"
        command = AnyMessage(type_url=name, value=body).SerializeToString()
        descriptor = fl.FlightDescriptor.for_command(command)
        return self._wire.get_flight_info(descriptor, self._options).endpoints[0].ticket

    def ask(self, statement: str) -> Seen:
        """Fetch the ticket of a statement, and return what comes back."""
        try:
            reader = self._wire.do_get(self._find_ticket(statement), self._options)
            return Seen(list_rows(reader.read_all()))
        except fl.FlightError as error:
            return Seen(code=str(error).partition("SQLSTATE: ")[2][:5], message=str(error))


def list_rows(table: pa.Table) -> tuple[tuple[Any, ...], ...]:
    """Return the rows of a table."""
    return tuple(tuple(row.values()) for row in table.to_pylist())


class Listeners:
    """Both listeners of one server, and clients that stay logged in."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        openssl = (
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
            "-addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
        )
        subprocess.run(openssl.split(), cwd=folder, check=True, capture_output=True)
        self.certificate = (folder / "server.crt").read_bytes()
        verifier = Verifier.from_password("secret", iterations=1)
        write_users(folder / "users.scram", dict.fromkeys(("ann", "bob"), verifier))
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._open(make_policy(folder, 100)), loop).result()
        self._clients: dict[tuple[str, str, int], Any] = {}
        self.threads = ThreadPoolExecutor(WORKERS)

    async def _open(self, policy: Policy) -> None:
        self.listener, self.pool = Listener(policy), SimulatedPool()
        with mock.patch("dfprivacy.server.session.Worker", PlainWorker):
            self.port = await self.listener.open()
        idle: Any = self.listener.idle_workers
        idle["flights"] = self.pool

    def find_client(self, kind: str, analyst: str, slot: int) -> Any:
        """Return a client of a listener for an analyst, which is made at first."""
        if (kind, analyst, slot) not in self._clients:
            client = PostgresClient if kind == "postgres" else FlightClient
            self._clients[kind, analyst, slot] = client(self, analyst)
        return self._clients[kind, analyst, slot]


find_listeners = cache(Listeners)
"""Start the listeners, once in a process."""


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
        """Release the answer, after another step of its worker."""
        if (worker := getattr(CURRENT, "worker", None)) is not None:
            worker.pause()
        _, question, by = STATEMENTS[statement]
        if by:
            table = dfp.frame(FRAME).group_by(*by).agg(question, **terms).to_arrow()
            return SimpleNamespace(table=table, origin=WITHOUT_NOTES)
        answers = dfp.frame(FRAME).agg(question, **terms)
        table = pa.table({k: [float(v)] for k, v in answers.items()})
        return SimpleNamespace(table=table, origin=WITHOUT_NOTES)

    def explain(self, statement: str, **terms: float) -> Any:
        """Price a statement."""
        _, question, by = STATEMENTS[statement]
        private = dfp.frame(FRAME).group_by(*by) if by else dfp.frame(FRAME)
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
    listeners: Listeners
    readers: list[FrameReader] = field(default_factory=list)
    workers: list[SimulatedWorker] = field(default_factory=list)
    ended: list[SimulatedWorker] = field(default_factory=list)

    def run(self) -> None:
        """Do random events, then let all workers finish."""
        open_ledgers(self.policy)
        self.listeners.pool.schedule = self
        for _ in range(self.generator.randrange(10, 50)):
            (event,) = self.generator.choices([*EVENTS], [*EVENTS.values()])
            self._do(event)
        self.disk.room = None
        while self.workers:
            self._do("go on")

    def _do(self, event: str) -> None:
        worker = self.generator.choice(self.workers) if self.workers else None
        if event in {"ask", "fetch again"}:
            candidates = [*self.workers, *self.ended]
            if len(self.workers) == WORKERS or (event == "fetch again" and not candidates):
                return
            if event == "ask":
                analyst = self.generator.choice([*self.policy.analysts])
                self._ask(self.generator.choice([*STATEMENTS]), analyst)
            else:
                first = self.generator.choice(candidates)
                self._ask(first.statement, first.analyst)
        elif event == "fill the disk":
            self.disk.room = self.generator.choice(ROOM)
        elif event == "empty the disk":
            self.disk.room = None
        elif event == "restart":
            for running in self.workers:
                running.kill()
                running.wait()
            self.readers.clear()
            _SEEN.clear()
            open_ledgers(self.policy)
        elif worker is None:
            return
        elif event in {"cancel", "leave"}:
            if not isinstance(worker.client, PostgresClient) or worker.reply.done():
                return
            if event == "cancel":
                worker.client.cancel()
                worker.wait()
            else:
                worker.client.leave()
                worker.reply.result(HANG_SECONDS)
        elif event == "kill":
            worker.kill()
            worker.wait()
        elif event == "break a draw":
            worker.breaks_draw = True
        else:
            if event == "kill in a write":
                worker.changes_left = self.generator.randrange(8)
            worker.go_on()
        self.disk.counts[event] += 1
        self._collect()

    def _ask(self, statement: str, analyst: str) -> None:
        kind = self.generator.choice(["postgres", "flight"])
        busy = [worker.client for worker in self.workers]
        clients = (self.listeners.find_client(kind, analyst, slot) for slot in range(WORKERS))
        client = next(client for client in clients if client not in busy)
        reply = self.listeners.threads.submit(client.ask, statement)
        worker = self.listeners.pool.arrivals.get(timeout=HANG_SECONDS)
        worker.wait()
        worker.analyst, worker.client, worker.reply = analyst, client, reply
        self.workers.append(worker)
        self.disk.counts[f"statements over {kind}"] += 1

    def start_worker(self) -> SimulatedWorker:
        """Return a worker of an idle reader, or of a new one."""
        reader = self.readers.pop() if self.readers else FrameReader(self.policy, self.kind)
        return SimulatedWorker(reader)

    def _collect(self) -> None:
        """Take the replies of workers that are over."""
        for worker in [worker for worker in self.workers if worker.is_over]:
            self.workers.remove(worker)
            self.ended.append(worker)
            if not worker.is_killed:
                self.readers.append(worker.reader)
            self.disk.counts["draws dropped for another worker's answer"] += worker.drops
            self.disk.counts[name_outcome(worker.reply.result(HANG_SECONDS))] += 1

    def find_fault(self) -> str:
        """Return the law that is broken in words, or an empty text."""
        ledger = AnswerLedger(self.policy.ledger)
        charges, stored = Counter(ledger.history()["question"]), ledger.stored()
        failed = [worker for worker in self.ended if worker.has_failed]
        reported = sum(name_outcome(worker.reply.result()) == CHARGED_FAILURE for worker in failed)
        if not stored + reported <= charges.total() <= stored + len(failed):
            return f"{charges.total()} charges of {stored} answers and {reported} failed draws"
        if sum(worker.price for worker in self.ended) > ledger.history()["epsilon"].sum():
            return "prices were told that were not charged"
        for question, count in charges.items():
            failures = [worker for worker in failed if STATEMENTS[worker.statement][0] == question]
            if count > 1 + len(failures):
                return f"{question} was charged {count} times"
        reader = FrameReader(self.policy, AnswerLedger)
        for worker in self.ended:
            rows = worker.reply.result().rows
            if rows is not None:
                with suppress(dfp.BudgetExceededError):  # raised for an answer that is not there
                    again = reader.answer("release", worker.statement, analyst="ann")
                    if list_rows(again.table) == rows and again.price == 0:
                        continue
                return f"an answer to {worker.statement} is not in the ledger"
        return ""


def name_outcome(seen: Seen) -> str:
    """Return the kind of a reply, as the counts name it."""
    if seen.rows is not None:
        return "answers"
    if "random bytes" in seen.message or "was charged" in seen.message:
        return CHARGED_FAILURE
    return f"errors {seen.code}"


CHARGED_FAILURE = "errors of draws that were charged and failed"


def make_policy(folder: Path, epsilon: float) -> Policy:
    """Return a policy of two analysts and one dataset."""
    listen = {"address": "127.0.0.1:0", "flight": 0}
    listen["tls"] = {"certificate": folder / "server.crt", "key": folder / "server.key"}
    return Policy.model_validate(
        {
            "ledger": folder / "budget.db",
            "datasets": {
                "flights": {
                    "source": "flights.duckdb",
                    "version": "1",
                    "budget": {"epsilon": epsilon, "delta": 1e-5},
                    "statement": {"epsilon": 1, "delta": 1e-7},
                }
            },
            "analysts": {
                "ann": {"datasets": {"flights": {"epsilon": 2}}},
                "bob": {"datasets": {"flights": {"epsilon": 1}}},
            },
            "listen": listen,
            "limits": {"statements_per_minute": 10**9, "workers": WORKERS},
            "users": folder / "users.scram",
            "log": folder / "statements.jsonl",
        }
    )


def simulate(seed: int, kind: type[Any], counts: Counter[str]) -> str:
    """Run the schedule of a seed with ledgers of a kind, and return the law that it breaks."""
    generator, listeners = random.Random(seed), find_listeners()
    disk = Disk(counts=counts)
    with tempfile.TemporaryDirectory() as folder, disk.used():
        policy = make_policy(Path(folder), generator.choice([2, 100]))
        schedule = Schedule(policy, add_steps(kind), generator, disk, listeners)
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
