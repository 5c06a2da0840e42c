"""Run statements in processes of their own, with limits of time and memory.

Some workers hold one dataset, read-only: no other process opens the data. Others hold the catalogs
of all datasets. A worker answers one request at a time. A request that takes too long, or that its
client cancels, ends with its worker, and a new one takes the place.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from dfprivacy.accounting.answer_ledger import AnswerLedger
from dfprivacy.accounting.spending import NoAccount, spending
from dfprivacy.engine.files import list_data_files
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    InvalidDescriptionError,
    RefusedStatementError,
    log_nothing,
    publish_error,
)
from dfprivacy.server.catalog import Answer, make_database
from dfprivacy.server.policy import Dataset, Limits, Policy, build_unopened_error
from dfprivacy.statements.gate import replace_columns, write_durations
from dfprivacy.statements.interface import connect, with_constants
from dfprivacy.statements.rules import nearly
from dfprivacy.statements.schema import read_schema

_CONTEXT = multiprocessing.get_context("spawn")  # a forked child would inherit open sockets
_START_SECONDS = 600  # to start a process and read a hash of the data


class ServerError(DPError):
    """An error that a client may read, with a code of Postgres."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Cross processes whole."""
        return ServerError, (self.code, self.message, self.hint)


def describe_error(error: BaseException) -> ServerError:
    """Describe an error without a word of the data."""
    safe = error if isinstance(error, DPError) else publish_error(error)
    if isinstance(safe, ServerError):
        return safe
    if not isinstance(safe, DPError):
        return ServerError("XX000", str(safe))
    codes = {BudgetExceededError: "53400", RefusedStatementError: "42601"}
    code = next((code for kind, code in codes.items() if isinstance(safe, kind)), "22023")
    hint = safe.hint
    if isinstance(safe, BudgetExceededError):
        hint = "SHOW dfprivacy.budget says what is left; SET dfprivacy.epsilon to less"
    return ServerError(code, safe.message, hint)


class DatasetReader:
    """The data of one dataset, opened read-only, and its empty copy."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy, self.dataset = name, policy, policy.datasets[name]
        self.ledger = AnswerLedger(policy.find_ledger(name))
        self._reader: Any = None
        self._open()

    def _open(self) -> None:
        """Open the data in the version that they have before and after."""
        version = self.version = ""  # until they are open
        while version != (newest := self.dataset.find_version()):
            if self._reader is not None:
                self._reader.close()  # DuckDB would hand out the old file again
            version = newest
            data, self._reader = _open_data(self.dataset)
        self.columns = _read_columns(self._reader)
        check_schema(self.name, self.dataset, self.columns)
        terms = self.dataset.model_dump(
            include={"unit", "max_rows", "max_groups"}, exclude_none=True
        )
        if (schema := self.dataset.tables) is not None:
            terms["schema"] = str(schema) if isinstance(schema, Path) else schema
        self._real = connect(data, **terms)
        self._blank = connect(make_database(self.columns), **terms)
        self.version = version

    def answer(
        self,
        kind: Literal["columns", "describe", "explain", "release"],
        statement: str = "",
        parameters: Sequence[Any] = (),
        terms: dict[str, Any] | None = None,
        analyst: str = "",
    ) -> Answer:
        """Answer a statement of an analyst, on the terms of their session."""
        if kind == "columns":
            return Answer(self.columns)
        if parameters:
            statement = with_constants(statement, parameters)
        defaults = self.dataset.statement.model_dump(
            include={"epsilon", "delta"}, exclude_none=True
        )
        terms = defaults | (terms or {})
        if self.dataset.find_version() != self.version:  # a file was replaced
            self._open()
        if kind == "describe":
            return Answer(self._blank.sql(statement, **terms).table)
        account = {"dataset": self.name, "version": self.version, "note": analyst}
        with spending(self.ledger, **account, analyst=analyst):
            plan, terms = self._plan(statement, terms)
            if kind == "explain":
                lines = [f"{title}: {text}" for title, text in plan.head()]
                return Answer(pa.table({"QUERY PLAN": lines}))
            if not plan.remembered:
                self._require_approval(analyst, statement, plan.epsilon)
            self.ledger.has_charged = False
            while (result := self._draw(statement, terms)) is None:
                plan = self._real.explain(statement, **terms)
            left = self.ledger.remaining(self.name, analyst=analyst)
        cost, price = plan.cost, plan.epsilon
        if price and not self.ledger.has_charged:
            cost, price = f"answered again, at no cost ({cost})", 0.0
        hint = "" if terms.get("intervals") else "; SET dfprivacy.intervals = on shows intervals"
        notice = "\n".join(
            [f"{cost}; {analyst} has left: {left.text()}{hint}", *result.origin.notes]
        )
        return Answer(result.table, notice, price)

    def _require_approval(self, analyst: str, statement: str, price: float) -> None:
        """Refuse a dear statement that the owner has not approved."""
        if self.policy.review is None or price <= self.policy.review.above:
            return
        entry = self.policy.reviews.add(analyst, self.name, statement, price)
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


def _open_data(dataset: Dataset) -> tuple[Any, duckdb.DuckDBPyConnection]:
    """Return the data as `connect` takes them, and a read-only connection that knows all tables."""
    try:
        if isinstance(dataset.source, dict):
            reader = duckdb.connect()
            for name, file in dataset.source.items():
                rows = reader.read_parquet(str(file))
                durations = write_durations(list_data_files(file), tuple(rows.columns))
                replace_columns(rows, durations).create_view(name)
            return {name: str(file) for name, file in dataset.source.items()}, reader
        reader = duckdb.connect(str(dataset.source), read_only=True)
        return reader.execute("SET TimeZone = 'UTC'"), reader
    except duckdb.Error as error:
        raise build_unopened_error(type(error)) from None


def _read_columns(reader: duckdb.DuckDBPyConnection) -> pa.Table:
    return reader.sql(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND schema_name = 'main' ORDER BY table_name, column_index"
    ).to_arrow_table()


def check_schema(name: str, dataset: Dataset, columns: pa.Table | None = None) -> None:
    """Refuse a schema that names a table or a column that the data lack. No row is read."""
    if columns is None:
        _, reader = _open_data(dataset)
        columns = _read_columns(reader)
        reader.close()
    tables = columns["table_name"].to_pylist()
    names = {text.lower() for text in tables}
    for table, column in zip(tables, columns["column_name"].to_pylist(), strict=True):
        names |= {f"{table}.{column}".lower(), column.lower()}
    entries = [dataset.unit]
    if dataset.tables is not None:
        schema = read_schema(dataset.tables)
        entries += [schema.unit, schema.rows, *schema.links, *schema.links.values()]
        entries += [*schema.public, *schema.bounds, *schema.matches]
    for entry in entries:
        if entry is not None and entry.lower() not in names:
            raise InvalidDescriptionError(
                f"dataset {name}: the policy names {entry!r}, and the data have no such column "
                "or table",
                hint=nearly(entry.lower(), names) + "write table.column",
            )


def _run_worker(pipe: Pipe, memory: int, reader_type: Callable[..., Any], *terms: Any) -> None:
    """Answer requests until the server closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log_nothing()  # analysts get the notes
    NoAccount.noticed = True  # an empty copy is described without a ledger
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))  # engines allocate from there
    with suppress(OSError):  # the server has closed the pipe
        try:
            reader = reader_type(*terms)
        except BaseException as error:  # noqa: BLE001 the server says what it may
            pipe.send(describe_error(error))
            return
        pipe.send(None)  # it is ready
        while True:
            try:
                pipe.send(reader.answer(*pipe.recv()))
            except BaseException as error:  # noqa: BLE001 as above
                pipe.send(describe_error(error))


class Worker:
    """A process that answers, and the pipe to it. A process that has ended is replaced."""

    def __init__(self, limits: Limits, reader_type: Callable[..., Any], *terms: Any) -> None:
        self._terms = limits.memory, reader_type, *terms
        self._seconds = limits.seconds
        self._start()

    def _start(self) -> None:
        self.pipe, other = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=_run_worker, args=(other, *self._terms), daemon=True, name="dfprivacy worker"
        )
        process.start()
        self.process = process  # one that has not started can't be killed
        other.close()
        self._limits = [_START_SECONDS, self._seconds]  # of the replies that come next

    def ask(self, *request: Any) -> Any:
        """Send a request and wait for its answer, or raise its error, or that of a lost worker."""
        if not self.process.is_alive():
            self._replace()
        end = "was ended before its answer"
        try:
            self.pipe.send(request)
            for seconds in self._limits:
                if not self.pipe.poll(seconds):
                    end = f"took more than {seconds:g} seconds"
                    raise EOFError  # noqa: TRY301 as if it had ended
                reply = self.pipe.recv()
                self._limits = self._limits[-1:]
                if isinstance(reply, ServerError):
                    raise reply
        except (EOFError, OSError):
            self._replace()
            hint = "if it was charged, asking again costs nothing"
            raise ServerError("57014", f"the statement {end}", hint) from None
        return reply

    def _replace(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self._start()
