"""Run statements in processes of their own, the only ones that open the data.

Each worker holds one dataset, read-only. It answers one request at a time. A request that takes
too long, or that its client cancels, ends with its worker, and a new one takes the place.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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
    log_nothing,
    published,
)
from dfprivacy.server.catalog import Tables, make_database
from dfprivacy.server.policy import Dataset, Policy
from dfprivacy.server.review import ReviewQueue
from dfprivacy.statements.interface import connect, with_constants

_CONTEXT = multiprocessing.get_context("spawn")  # a forked child would inherit open sockets
_START_SECONDS = 600  # to start a process and read a hash of the data


@dataclass(frozen=True)
class Request:
    """A statement, who asks, and the terms of their session."""

    kind: Literal["tables", "describe", "explain", "release"]
    statement: str = ""
    parameters: tuple[Any, ...] = ()
    terms: dict[str, Any] = field(default_factory=dict)
    analyst: str = ""


@dataclass(frozen=True)
class Answer:
    """A table in Arrow's format, the price in words and in epsilon, or the declared tables."""

    table: bytes = b""
    notice: str = ""
    price: float = 0.0
    tables: Tables = field(default_factory=dict)

    def to_table(self) -> pa.Table:
        """Return the rows."""
        return pa.ipc.open_stream(self.table).read_all()


class ServerError(Exception):
    """An error that a client may read, with a code of Postgres and a hint."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code, self.message, self.hint = code, message, hint


def describe_error(error: BaseException) -> ServerError:
    """Describe an error without a word of the data."""
    if isinstance(error, ServerError):
        return error
    safe = error if isinstance(error, DPError) else published(error)
    if not isinstance(safe, DPError):
        return ServerError("XX000", str(safe))
    codes = {BudgetExceededError: "53400", RefusedStatementError: "42601"}
    code = next((code for kind, code in codes.items() if isinstance(safe, kind)), "22023")
    return ServerError(code, safe.message, safe.hint or "")


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
        rules, schema = self.dataset, self.dataset.tables
        terms: dict[str, Any] = {
            "schema": str(schema) if isinstance(schema, Path) else schema,
            **{name: getattr(rules, name) for name in ("unit", "max_rows", "max_groups")},
        }
        terms = {name: value for name, value in terms.items() if value is not None}
        self._real = connect(data, **terms)
        self._blank = connect(make_database(self.tables), **terms)

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        if request.kind == "tables":
            return Answer(tables=self.tables)
        statement, limits = request.statement, self.dataset.statement
        if request.parameters:
            statement = with_constants(statement, request.parameters)
        terms = {"epsilon": limits.epsilon, "delta": limits.delta, **request.terms}
        terms = {name: value for name, value in terms.items() if value is not None}
        if request.kind == "describe":
            return Answer(release_bytes(self._blank.sql(statement, **terms).table))
        if self.dataset.find_version() != self.version:  # a file was replaced
            self._open()
        analyst, ledger = request.analyst, self.ledger
        with spending(
            ledger, dataset=self.name, version=self.version, note=analyst, analyst=analyst
        ):
            plan, terms = self._plan(statement, terms)
            if request.kind == "explain":
                lines = [f"{title}: {text}" for title, text in plan.head()]
                return Answer(release_bytes(pa.table({"QUERY PLAN": lines})))
            if not plan.remembered:
                self._require_approval(analyst, statement, plan.epsilon)
            while (result := self._draw(statement, terms)) is None:
                plan = self._real.explain(statement, **terms)
            left = ledger.remaining(self.name, analyst=analyst)
        cost, price = plan.cost, plan.epsilon
        if plan.remembered:
            cost, price = f"answered again, at no cost ({cost})", 0.0
        hint = "" if terms.get("intervals") else "; SET dfprivacy.intervals = on shows intervals"
        notice = "\n".join([f"{cost}; {analyst} has left: {left}{hint}", *result.origin.notes])
        return Answer(release_bytes(result.table), notice, price)

    def _require_approval(self, analyst: str, statement: str, price: float) -> None:
        """Refuse a dear statement that the owner has not approved."""
        if self.policy.review is None or price <= self.policy.review.above:
            return
        queue = ReviewQueue(self.policy.ledger)
        entry = queue.add(analyst, self.name, statement, price)
        if entry["state"] != "approved":
            state = "was rejected" if entry["state"] == "rejected" else "waits for approval"
            raise ServerError(
                "42501",
                f"the statement costs epsilon {price:g} and {state} under the number "
                f"{entry['number']}",
                "ask for less epsilon, or ask the owner to approve it",
            )

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

    def _plan(self, statement: str, terms: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Price a statement, and lower its delta until small groups stay hidden."""
        limits, within = self.dataset.statement, terms.pop("within", None)
        plan = self._real.explain(statement, **terms)
        if within is not None:
            del terms["epsilon"]
            plan = self._real.explain(statement, within=within, **terms)
            terms["epsilon"] = plan.epsilon
        _require_price("delta", plan.delta, limits.delta or 0.0)
        while plan.shown is not None and plan.shown.rarely < (limits.minimum_units or 0):
            terms["delta"] = plan.delta / 16
            plan = self._real.explain(statement, **terms)
        _require_price("epsilon", plan.epsilon or 0.0, limits.largest_epsilon)
        return plan, terms


def _require_price(term: str, price: float, limit: float) -> None:
    """Refuse a statement that costs more than the policy allows for one."""
    if price > limit:
        raise ServerError(
            "53400",
            f"the statement costs {term} {price:g}, and the policy allows {limit:g} for one "
            "statement",
            f"SET dfprivacy.{term} to less, or name less in the statement, or nothing",
        )


def _open_data(dataset: Dataset) -> tuple[duckdb.DuckDBPyConnection | dict[str, str], Tables]:
    """Open the data read-only, and read names and types of the columns of all tables."""
    try:
        if isinstance(dataset.source, dict):
            data: Any = {name: str(file) for name, file in dataset.source.items()}
            reader = duckdb.connect()
            for name, file in data.items():
                reader.read_parquet(file).create_view(name)
        else:
            data = reader = duckdb.connect(str(dataset.source), read_only=True)
            data.execute("SET TimeZone = 'UTC'")
    except duckdb.Error as error:
        raise EngineError(
            f"the data can't be opened: {type(error).__name__}",
            hint="a source is a DuckDB file, or a mapping of table names to Parquet files",
        ) from None
    rows = reader.execute(
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
    log_nothing()  # analysts get the notes
    NoAccount.noticed = True  # an empty copy is described without a ledger
    limit = policy.limits.memory
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # engines allocate from there
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
                answer: Answer | ServerError = reader.answer(request)
            except BaseException as error:  # noqa: BLE001 as above
                answer = describe_error(error)
            pipe.send(answer)


class Worker:
    """A process that answers, and the pipe to it."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.pipe, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(
            target=_run_worker, args=(other, name, policy), daemon=True, name=f"dfprivacy-{name}"
        )
        self.process.start()
        other.close()
        self._limits = [_START_SECONDS, policy.limits.seconds]  # of the replies that come next

    def ask(self, request: Request) -> Answer:
        """Send a request and wait for its answer, or raise its error, or that of a lost worker."""
        end, answer = "was ended before its answer", Answer()
        try:
            self.pipe.send(request)
            for seconds in self._limits:
                if not self.pipe.poll(seconds):
                    end = f"took more than {seconds:g} seconds"
                    self.stop()
                reply = self.pipe.recv()
                if isinstance(reply, ServerError):
                    raise reply
                answer = reply
        except (EOFError, OSError):
            hint = "if it was charged, asking again costs nothing"
            raise ServerError("57014", f"the statement {end}", hint) from None
        self._limits = self._limits[-1:]
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
        for _ in range(policy.limits.workers):
            self._idle.put_nowait(Worker(name, policy))

    @asynccontextmanager
    async def lend_worker(self) -> AsyncIterator[Worker]:
        """Yield the next idle worker. One that has ended is replaced."""
        worker = await self._idle.get()
        if not worker.process.is_alive():
            worker = self._replace(worker)
        try:
            yield worker
        finally:
            if not worker.process.is_alive():
                worker = self._replace(worker)
            self._idle.put_nowait(worker)

    def _replace(self, worker: Worker) -> Worker:
        worker.stop()
        return Worker(self._name, self._policy)
