"""Route the statements of a logged-in analyst: to the catalog, or to a release that is paid for."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.server.catalog import MADE_UP, Catalog
from dfprivacy.server.policy import Policy
from dfprivacy.server.workers import (
    Answer,
    Request,
    ServerError,
    Worker,
    WorkerPool,
    describe_error,
)

LONGEST_STATEMENT = 100_000  # characters
FAILED_LOGIN_SECONDS = 1

STATUS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
}
"""Parameters of the server that each client is sent."""
_SHOWN = {name.lower(): value for name, value in STATUS.items()} | {
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "search_path": "main",
}
_TAGS = {"END": "COMMIT", "ABORT": "ROLLBACK", "START": "BEGIN"}
_UTILITIES = {*_TAGS, *_TAGS.values(), "SET", "RESET", "DISCARD", "DEALLOCATE", "CLOSE"}
_UTILITIES |= {"SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN"}
"""Statements without rows. Only SET and RESET of the terms of a session change anything here."""
_SET_TERM = re.compile(
    r"\s*SET\s+(?:SESSION\s+|LOCAL\s+)?dfprivacy\.(\w+)\s*(?:=|\s+TO\s+)\s*'?([^';]*)'?\s*;?\s*$",
    re.IGNORECASE,
)
_RESET_TERM = re.compile(r"\s*RESET\s+(?:dfprivacy\.(\w+)|ALL)\s*;?\s*$", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:\([^)]*\)\s*)?", re.IGNORECASE)
_TERMS: dict[str, TypeAdapter[Any]] = {
    **dict.fromkeys(("epsilon", "delta", "interval", "within"), TypeAdapter(float)),
    **dict.fromkeys(("intervals", "population"), TypeAdapter(bool)),
}
"""Types of the terms of a session, as texts of SET are read."""


def find_keyword(statement: str) -> str:
    """Return the first word of a statement in capitals: SELECT where it begins with a sign."""
    text = statement.strip(" \t\r\n;")
    word = re.match(r"\w+", text)
    return word[0].upper() if word else "SELECT" if text else ""


@dataclass(frozen=True)
class Outcome:
    """The answer to a statement: a table or None, the tag of the command, and a notice."""

    table: pa.Table | None
    tag: str
    notice: str = ""


class Server:
    """The shared state of all sessions: policy, catalogs, workers, log."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.ledgers = open_ledgers(policy)
        self.pools = {name: WorkerPool(name, policy) for name in policy.datasets}
        self.catalogs: dict[str, Catalog] = {"": Catalog("postgres", {})}
        self.recent: dict[str, deque[float]] = {}

    async def open(self) -> None:
        """Read the declared tables of each dataset."""
        for name, pool in self.pools.items():
            async with pool.lend_worker() as worker:
                answer = await asyncio.to_thread(worker.ask, Request("tables"))
            self.catalogs[name] = Catalog(name, answer.tables)

    def log_in(self, user: str, dataset: str, *, is_proven: bool) -> Session:
        """Return a session of a user whose password is right. A monitor has no dataset."""
        rules = self.policy.analysts.get(user)
        if rules is None or not is_proven:
            self.write_log(analyst=user, outcome="wrong password")
            raise ServerError("28P01", f'password authentication failed for user "{user}"')
        if not dataset and len(rules.datasets) == 1:
            (dataset,) = rules.datasets
        if rules.datasets and dataset not in rules.datasets:
            hint = f"datasets of {user}: {', '.join(rules.datasets)}"
            raise ServerError("3D000", f"{user} has no part of a dataset {dataset!r}", hint)
        return Session(self, user, dataset if rules.datasets else "")

    def write_log(self, **fields: Any) -> None:
        """Append a line to the log of statements."""
        line = {"time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), **fields}
        with self.policy.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def open_ledgers(policy: Policy) -> dict[str, Ledger]:
    """Make or open the ledger of each dataset, and give analysts their parts."""
    ledgers = {}
    for name, dataset in policy.datasets.items():
        epsilon, delta = dataset.budget.epsilon, dataset.budget.delta or None
        ledgers[name] = ledger = Ledger(
            policy.find_ledger(name), epsilon=epsilon, delta=delta, remember=True
        )
        for analyst, rules in policy.analysts.items():
            if part := rules.datasets.get(name):
                ledger.allow(analyst, name, epsilon=part.epsilon, delta=part.delta)
    return ledgers


@dataclass
class Session:
    """One connection of an analyst to a dataset."""

    server: Server
    analyst: str
    dataset: str
    terms: dict[str, Any] = field(default_factory=dict)
    worker: Worker | None = None
    """The worker that runs a statement of this session now."""

    async def run(self, statement: str, parameters: Sequence[Any] = ()) -> Outcome:
        """Answer a statement, and log who asked it."""
        begin, outcome, price = time.monotonic(), "answered", 0.0
        try:
            self._check_statement(statement)
            self._count_statement()
            answer, price = await self._route(statement, tuple(parameters))
        except Exception as error:
            outcome = f"refused: {describe_error(error).message}"
            raise
        else:
            return answer
        finally:
            self.server.write_log(
                analyst=self.analyst,
                dataset=self.dataset,
                statement=statement[:LONGEST_STATEMENT],
                epsilon=price,
                outcome=outcome,
            )
            rest = self.server.policy.limits.minimum_seconds - (time.monotonic() - begin)
            await asyncio.sleep(max(rest, 0))

    async def describe(self, statement: str, parameters: Sequence[Any]) -> pa.Schema | None:
        """Return the columns of a statement's answer. It reads no data and charges nothing."""
        keyword = find_keyword(statement)
        if keyword in {"", *_UTILITIES}:
            return None
        if keyword in {"SHOW", "EXPLAIN"}:
            name = "QUERY PLAN" if keyword == "EXPLAIN" else _find_shown_name(statement)
            return pa.schema({name: pa.string()})
        self._check_statement(statement)
        table = await self._ask_catalog(statement, tuple(parameters))
        if table is None:
            table = (await self._ask("describe", statement, tuple(parameters))).to_table()
        return table.schema

    def _check_statement(self, statement: str) -> None:
        if len(statement) > LONGEST_STATEMENT:
            raise ServerError(
                "54000",
                f"the statement has more than {LONGEST_STATEMENT:,} characters",
                "shorten it, or declare a view in the data",
            )
        if self.server.policy.has_expired:
            raise ServerError(
                "28000", "the policy of this server has expired", "ask the owner to renew it"
            )

    def _count_statement(self) -> None:
        times = self.server.recent.setdefault(self.analyst, deque())
        now, limit = time.monotonic(), self.server.policy.limits.statements_per_minute
        while times and times[0] < now - 60:
            times.popleft()
        if len(times) >= limit:
            raise ServerError(
                "53300", f"{self.analyst} has asked {limit} statements in a minute", "wait a little"
            )
        times.append(now)

    async def _route(self, statement: str, parameters: tuple[Any, ...]) -> tuple[Outcome, float]:
        """Return the answer and its price."""
        keyword = find_keyword(statement)
        if keyword in {"", *_UTILITIES}:
            if setting := _SET_TERM.match(statement):
                self._set_term(setting[1].lower(), setting[2].strip())
            if reset := _RESET_TERM.match(statement):
                for name in [reset[1]] if reset[1] else [*self.terms]:
                    self.terms.pop(name, None)
            return Outcome(None, _TAGS.get(keyword, keyword)), 0.0
        if keyword == "SHOW":
            name = _find_shown_name(statement)
            text = _SHOWN.get(name, "")
            if name == "dfprivacy.budget" and self.dataset:
                ledger = self.server.ledgers[self.dataset]
                text = str(
                    await asyncio.to_thread(ledger.remaining, self.dataset, analyst=self.analyst)
                )
            elif name.startswith("dfprivacy."):
                text = str(self.terms.get(name.partition(".")[2], "not set"))
            return Outcome(pa.table({name: [text]}), "SHOW"), 0.0
        if keyword == "EXPLAIN":
            answer = await self._ask("explain", _EXPLAIN.sub("", statement, 1), parameters)
            return Outcome(answer.to_table(), "EXPLAIN"), 0.0
        table, notice, price = await self._ask_catalog(statement, parameters), "", 0.0
        if table is None:
            answer = await self._ask("release", statement, parameters)
            table, notice, price = answer.to_table(), answer.notice, answer.price
        elif MADE_UP in (table.schema.metadata or {}):
            notice = "these rows are made up from the declared types: they hold no data"
        return Outcome(table, f"SELECT {table.num_rows}", notice), price

    async def _ask_catalog(self, statement: str, parameters: tuple[Any, ...]) -> pa.Table | None:
        """Return the answer of the catalog, or None if the statement asks for a release."""
        catalog = self.server.catalogs[self.dataset]
        return await asyncio.to_thread(catalog.answer, statement, parameters)

    async def _ask(self, kind: Any, statement: str, parameters: tuple[Any, ...]) -> Answer:
        if not self.dataset:
            raise ServerError("42501", f"{self.analyst} has a part of no dataset")
        request = Request(kind, statement, parameters, {**self.terms}, self.analyst)
        async with self.server.pools[self.dataset].lend_worker() as worker:
            self.worker = worker
            try:
                return await asyncio.to_thread(worker.ask, request)
            finally:
                self.worker = None

    def cancel(self) -> None:
        """End the worker that runs a statement of this session, if one does."""
        if self.worker is not None:
            self.worker.process.kill()

    def _set_term(self, name: str, text: str) -> None:
        """Change a term of this session's statements."""
        if name not in _TERMS:
            raise ServerError(
                "42704", f"a session has no term dfprivacy.{name}", f"terms: {', '.join(_TERMS)}"
            )
        try:
            is_percentage = name == "within" and text.endswith("%")
            value: Any = text if is_percentage else _TERMS[name].validate_python(text)
        except ValueError:
            raise ServerError(
                "22023",
                f"{text!r} is no value of dfprivacy.{name}",
                "e.g. SET dfprivacy.epsilon = 0.5",
            ) from None
        limit = self.server.policy.datasets[self.dataset].statement
        largest = {"epsilon": limit.largest_epsilon, "delta": limit.delta or 0.0}.get(name)
        if largest is not None and not 0 < value <= largest:
            raise ServerError(
                "22023", f"the policy allows dfprivacy.{name} up to {largest:g}", "set it to less"
            )
        self.terms[name] = value


def _find_shown_name(statement: str) -> str:
    return statement.strip(" \t\r\n;")[len("SHOW") :].strip().lower()


def split_statements(text: str) -> list[str]:
    r"""Split a text at the semicolons outside of quotes and comments.

    >>> split_statements("SELECT ';'; -- a; b\nSELECT 2;")
    ["SELECT ';'", ' -- a; b\nSELECT 2']
    """
    token = re.compile(
        r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|;|.",
        re.DOTALL,
    )
    statements = [""]
    for match in token.finditer(text):
        if match[0] == ";":
            statements.append("")
        else:
            statements[-1] += match[0]
    return [statement for statement in statements if statement.strip()]
