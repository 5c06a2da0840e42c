"""Run statements in processes of their own, the only ones that open the data.

Each worker holds one dataset, read-only. It answers one request at a time. A request that takes
too long, or that its client cancels, ends with its worker, and a new one takes the place.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from dfprivacy.accounting.answer_ledger import AnswerLedger
from dfprivacy.accounting.memory import release_bytes
from dfprivacy.accounting.spending import NoAccount, spending
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    EngineError,
    RefusedStatementError,
    published,
)
from dfprivacy.server.catalog import Tables, make_empty_copy
from dfprivacy.server.policy import Dataset, Limits, Policy
from dfprivacy.statements.interface import connect, with_constants

_CONTEXT = multiprocessing.get_context("spawn")  # a forked child would inherit open sockets
_START_SECONDS = 600  # to start a process and read a hash of the data


@dataclass(frozen=True)
class Request:
    """A statement, who asks, and the terms of their session."""

    kind: Literal["tables", "describe", "explain", "release", "remaining"]
    statement: str = ""
    parameters: tuple[Any, ...] = ()
    terms: dict[str, Any] = field(default_factory=dict)
    analyst: str = ""
    is_approved: bool = False


@dataclass(frozen=True)
class Answer:
    """A table in Arrow's format, the price in words, and the epsilon that awaits approval."""

    table: bytes = b""
    notice: str = ""
    tables: Tables = field(default_factory=dict)
    price: float = 0.0
    awaits_review: bool = False

    def to_table(self) -> pa.Table:
        """Return the rows."""
        return pa.ipc.open_stream(self.table).read_all()


@dataclass(frozen=True)
class Failure:
    """An error that a client may read."""

    code: str
    message: str
    hint: str = ""


class ServerError(Exception):
    """An error with the code of Postgres that its client knows."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.failure = Failure(code, message, hint)


def describe_error(error: BaseException) -> Failure:
    """Describe an error without a word of the data."""
    if isinstance(error, ServerError):
        return error.failure
    safe = error if isinstance(error, DPError) else published(error)
    code = "XX000"
    if isinstance(safe, BudgetExceededError):
        code = "53400"
    elif isinstance(safe, RefusedStatementError):
        code = "42601"
    elif isinstance(safe, DPError):
        code = "22023"
    message = safe.message if isinstance(safe, DPError) else str(safe)
    return Failure(code, message, (safe.hint or "") if isinstance(safe, DPError) else "")


class DatasetReader:
    """The data of one dataset, opened read-only, and its empty copy."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy, self.dataset = name, policy, policy.datasets[name]
        self.ledger = AnswerLedger(policy.find_ledger(name))
        self._data: duckdb.DuckDBPyConnection | dict[str, str] = {}
        self._open()

    def _open(self) -> None:
        """Open the data in the version that they have before and after."""
        self.version, data = "", self._data
        while self.version != (version := self.dataset.find_version()):
            if isinstance(data, duckdb.DuckDBPyConnection):
                data.close()  # DuckDB would hand out the old file again
            self.version = version
            data, self.tables = _open_data(self.dataset)
        self._data = data
        schema = self.dataset.tables
        terms: dict[str, Any] = {
            "schema": str(schema) if isinstance(schema, Path) else schema,
            "unit": self.dataset.unit,
            "max_rows": self.dataset.max_rows,
            "max_groups": self.dataset.max_groups,
        }
        terms = {name: value for name, value in terms.items() if value is not None}
        self._real = connect(data, **terms)
        self._blank = connect(make_empty_copy(self.tables), **terms)

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        if request.kind == "tables":
            return Answer(tables=self.tables)
        if request.kind == "remaining":
            left = self.ledger.remaining(self.name, analyst=request.analyst)
            return Answer(notice=str(left))
        statement, terms = request.statement, self._complete_terms(request)
        if request.parameters:
            statement = with_constants(statement, request.parameters)
        if request.kind == "describe":
            return Answer(table=release_bytes(self._blank.sql(statement, **terms).table))
        if self.dataset.find_version() != self.version:  # a file was replaced
            self._open()
        with spending(
            self.ledger,
            dataset=self.name,
            version=self.version,
            note=request.analyst,
            analyst=request.analyst,
        ):
            plan, terms = self._plan(statement, terms)
            if request.kind == "explain":
                lines = [f"{title}: {text}" for title, text in plan.head()]
                return Answer(table=release_bytes(pa.table({"QUERY PLAN": lines})))
            price = plan.epsilon
            review = self.policy.review
            if review and price > review.above and not (request.is_approved or plan.remembered):
                return Answer(price=price, awaits_review=True)
            while (result := self._draw(statement, terms)) is None:
                plan = self._real.explain(statement, **terms)
            left = self.ledger.remaining(self.name, analyst=request.analyst)
        cost = f"answered again, at no cost ({plan.cost})" if plan.remembered else plan.cost
        notice = f"{cost}; {request.analyst} has left: {left}"
        return Answer(release_bytes(result.table), notice, price=0.0 if plan.remembered else price)

    def _draw(self, statement: str, terms: dict[str, Any]) -> Any:
        """Release a statement. None if another worker has stored the answer, to be recalled.

        Privacy: charge and answer are stored when this returns, and an error after a draw is
        charged. An own draw that another worker's answer replaces is not charged, and neither it
        nor its error is shown.
        """
        try:
            result = self._real.sql(statement, **terms)
        except BaseException:
            if self.ledger.settle():
                raise
            return None
        return result if self.ledger.settle() else None

    def _complete_terms(self, request: Request) -> dict[str, Any]:
        limits = self.dataset.statement
        terms = {"epsilon": limits.epsilon, **request.terms}
        if limits.delta is not None:
            terms.setdefault("delta", limits.delta)
        return terms

    def _plan(self, statement: str, terms: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Price a statement, and lower its delta until small groups stay hidden."""
        limits, terms = self.dataset.statement, dict(terms)
        within = terms.pop("within", None)
        plan = self._real.explain(statement, **terms)
        if within is not None:
            del terms["epsilon"]
            plan = self._real.explain(statement, within=within, **terms)
            terms["epsilon"] = plan.epsilon
        largest_delta = limits.delta or 0.0
        if plan.delta > largest_delta:
            raise ServerError(
                "53400",
                f"the statement costs delta {plan.delta:g}, and the policy allows "
                f"{largest_delta:g} for one statement",
                "leave dp_keep out, or name a smaller delta in it",
            )
        minimum = limits.minimum_units or 0
        while plan.shown is not None and plan.shown.rarely < minimum:
            terms["delta"] = plan.delta / 16
            plan = self._real.explain(statement, **terms)
        price = plan.epsilon or 0.0
        if price > limits.largest_epsilon:
            raise ServerError(
                "53400",
                f"the statement costs epsilon {price:g}, and the policy allows "
                f"{limits.largest_epsilon:g} for one statement",
                "SET dfprivacy.epsilon to less, or leave epsilon out of the statement",
            )
        return plan, terms


def _open_data(dataset: Dataset) -> tuple[duckdb.DuckDBPyConnection | dict[str, str], Tables]:
    """Open the data read-only, and read names and types of the columns of all tables."""
    try:
        if isinstance(dataset.source, dict):
            files = {name: str(file) for name, file in dataset.source.items()}
            with duckdb.connect() as reader:
                kinds = {name: reader.read_parquet(file) for name, file in files.items()}
                return files, {
                    name: [(c, str(t)) for c, t in zip(kind.columns, kind.types, strict=True)]
                    for name, kind in kinds.items()
                }
        data = duckdb.connect(str(dataset.source), read_only=True)
        data.execute("SET TimeZone = 'UTC'")
    except duckdb.Error as error:
        raise EngineError(
            f"the data can't be opened: {type(error).__name__}",
            hint="a source is a DuckDB file, or a mapping of table names to Parquet files",
        ) from None
    rows = data.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND schema_name = 'main' ORDER BY table_name, column_index"
    ).fetchall()
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in rows:
        tables.setdefault(table, []).append((column, kind))
    return data, tables


def _run_worker(pipe: Pipe, name: str, policy: Policy) -> None:
    """Answer requests until the server closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    NoAccount.noticed = True  # an empty copy is described without a ledger
    _limit_memory(policy.limits)
    try:
        reader = DatasetReader(name, policy)
    except BaseException as error:  # noqa: BLE001 the server says what it may
        pipe.send(describe_error(error))
        return
    pipe.send(Answer())  # it is ready
    with suppress(EOFError, BrokenPipeError):
        while True:
            request = pipe.recv()
            try:
                answer: Answer | Failure = reader.answer(request)
            except BaseException as error:  # noqa: BLE001 as above
                answer = describe_error(error)
            pipe.send(answer)


def _limit_memory(limits: Limits) -> None:
    """Limit the data segment, which engines allocate from, of this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))


class Worker:
    """A process that answers, and the pipe to it."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.pipe, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(
            target=_run_worker, args=(other, name, policy), daemon=True, name=f"dfprivacy-{name}"
        )
        self.process.start()
        self.is_ready = False
        other.close()

    def ask(self, request: Request, seconds: float) -> Answer:
        """Send a request and wait for its answer.

        Raises
        ------
        ServerError
            When the worker refuses, takes too long, or ends.
        """
        try:
            self.pipe.send(request)
            if not self.is_ready:
                self._receive(_START_SECONDS)
                self.is_ready = True
            return self._receive(seconds)
        except (EOFError, OSError):
            raise ServerError(
                "57014",
                "the statement was ended before its answer",
                "if it was charged, asking again costs nothing",
            ) from None

    def _receive(self, seconds: float) -> Answer:
        if not self.pipe.poll(seconds):
            self.stop()
            raise ServerError(
                "57014",
                f"the statement took more than {seconds:g} seconds",
                "if it was charged, asking again costs nothing",
            )
        answer: Answer | Failure = self.pipe.recv()
        if isinstance(answer, Failure):
            raise ServerError(answer.code, answer.message, answer.hint)
        return answer

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class WorkerPool:
    """The workers of one dataset."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name, self._policy = name, policy
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._workers: set[Worker] = set()
        for _ in range(policy.limits.workers):
            self._add_worker()

    def _add_worker(self) -> None:
        worker = Worker(self._name, self._policy)
        self._workers.add(worker)
        self._idle.put_nowait(worker)

    async def ask(self, request: Request, running: dict[str, Worker], login: str) -> Answer:
        """Give a request to the next idle worker. `running` has the workers that can be stopped."""
        worker = await self._idle.get()
        while not worker.process.is_alive():
            self._replace(worker)
            worker = await self._idle.get()
        running[login] = worker
        try:
            return await asyncio.to_thread(worker.ask, request, self._policy.limits.seconds)
        finally:
            running.pop(login, None)
            if worker.process.is_alive():
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        worker.stop()
        self._workers.discard(worker)
        self._add_worker()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.stop()
