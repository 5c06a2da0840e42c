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

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.server.catalog import MADE_UP, Catalog
from dfprivacy.server.policy import Policy
from dfprivacy.server.review import ReviewQueue
from dfprivacy.server.workers import Request, ServerError, Worker, WorkerPool, describe_error

LONGEST_STATEMENT = 100_000  # characters

_UTILITY = re.compile(
    r"\s*(SET|RESET|BEGIN|START|COMMIT|END|ROLLBACK|ABORT|DISCARD|DEALLOCATE|CLOSE|SAVEPOINT|RELEASE"
    r"|UNLISTEN|LISTEN)\b",
    re.IGNORECASE,
)
_SET_TERM = re.compile(
    r"\s*SET\s+(?:SESSION\s+|LOCAL\s+)?dfprivacy\.(\w+)\s*(?:=|\s+TO\s+)\s*'?([^';]*)'?\s*;?\s*$",
    re.IGNORECASE,
)
_RESET_TERM = re.compile(r"\s*RESET\s+(?:dfprivacy\.(\w+)|ALL)\s*;?\s*$", re.IGNORECASE)
_SHOW = re.compile(r"\s*SHOW\s+(.+?)\s*;?\s*$", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:\([^)]*\)\s*)?(.*)$", re.IGNORECASE | re.DOTALL)
_SHOWN = {
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "datestyle": "ISO, MDY",
    "search_path": "main",
    "server_version": "15.0",
    "timezone": "UTC",
    "client_encoding": "UTF8",
}


@dataclass(frozen=True)
class Outcome:
    """The answer to a statement: a table or None, the tag of the command, and notices."""

    table: pa.Table | None
    tag: str
    notices: tuple[str, ...] = ()


class Server:
    """The shared state of all sessions: policy, catalogs, workers, log."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        open_ledgers(policy)
        self.pools = {name: WorkerPool(name, policy) for name in policy.datasets}
        self.catalogs: dict[str, Catalog] = {"": Catalog("postgres", {})}
        self.running: dict[str, Worker] = {}
        self.review = ReviewQueue(policy.ledger)
        self.recent: dict[str, deque[float]] = {}

    async def open(self) -> None:
        """Read the declared tables of each dataset.

        Raises
        ------
        ServerError
            When a dataset can't be opened.
        """
        for name, pool in self.pools.items():
            answer = await pool.ask(Request("tables"), {}, "")
            self.catalogs[name] = Catalog(name, answer.tables)

    def write_log(self, **fields: Any) -> None:
        """Append a line to the log of statements."""
        line = {"time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), **fields}
        with self.policy.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """End all workers."""
        for pool in self.pools.values():
            pool.close()
        for catalog in self.catalogs.values():
            catalog.close()


def open_ledgers(policy: Policy) -> None:
    """Make or open the ledgers of a policy, and give analysts their parts."""
    for name, dataset in policy.datasets.items():
        budget = dataset.budget
        ledger = Ledger(
            policy.find_ledger(name),
            epsilon=budget.epsilon,
            delta=budget.delta or None,
            remember=True,
        )
        for analyst, rules in policy.analysts.items():
            if part := rules.datasets.get(name):
                ledger.allow(analyst, name, epsilon=part.epsilon, delta=part.delta)


@dataclass
class Session:
    """One connection of an analyst to a dataset."""

    server: Server
    analyst: str
    dataset: str
    login: str
    terms: dict[str, Any] = field(default_factory=dict)

    async def run(self, statement: str, parameters: Sequence[Any] = ()) -> Outcome:
        """Answer a statement.

        Raises
        ------
        ServerError
            With a code of Postgres and a hint.
        """
        begin = time.monotonic()
        outcome, price = "refused", 0.0
        try:
            self._check_statement(statement)
            self._count_statement()
            answer, price = await self._route(statement, tuple(parameters))
        except Exception as error:  # noqa: BLE001 the client reads what it may
            failure = describe_error(error)
            outcome = f"refused: {failure.message}"
            raise ServerError(failure.code, failure.message, failure.hint) from None
        else:
            outcome = "answered"
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
            if rest > 0:
                await asyncio.sleep(rest)

    async def describe(self, statement: str, parameters: Sequence[Any]) -> pa.Schema | None:
        """Return the columns of a statement's answer. It reads no data and charges nothing."""
        if self._is_without_rows(statement):
            return None
        if _SHOW.match(statement) or _EXPLAIN.match(statement):
            name = "QUERY PLAN" if _EXPLAIN.match(statement) else _show_name(statement)
            return pa.schema({name: pa.string()})
        try:
            self._check_statement(statement)
            table = await self._ask_catalog(statement, tuple(parameters))
            if table is None:
                values = tuple(parameters)
                request = Request("describe", statement, values, self.terms, self.analyst)
                table = (await self._ask(request)).to_table()
        except Exception as error:  # noqa: BLE001 the client reads what it may
            failure = describe_error(error)
            raise ServerError(failure.code, failure.message, failure.hint) from None
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

    def _is_without_rows(self, statement: str) -> bool:
        return not statement.strip(" \t\r\n;") or _UTILITY.match(statement) is not None

    async def _route(self, statement: str, parameters: tuple[Any, ...]) -> tuple[Outcome, float]:
        """Return the answer and its price."""
        if not statement.strip(" \t\r\n;"):
            return Outcome(None, ""), 0.0
        if self._is_without_rows(statement):
            return self._run_utility(statement), 0.0
        if _SHOW.match(statement):
            return await self._show(statement), 0.0
        if explained := _EXPLAIN.match(statement):
            request = Request("explain", explained[1], parameters, self.terms, self.analyst)
            return _to_outcome((await self._ask(request)).to_table(), tag="EXPLAIN"), 0.0
        table = await self._ask_catalog(statement, parameters)
        if table is None:
            return await self._release(statement, parameters)
        metadata = table.schema.metadata or {}
        notice = "these rows are made up from the declared types: they hold no data"
        return _to_outcome(table, notice if MADE_UP in metadata else ""), 0.0

    async def _ask_catalog(self, statement: str, parameters: tuple[Any, ...]) -> pa.Table | None:
        """Return the answer of the catalog, or None if the statement asks for a release."""
        catalog = self.server.catalogs[self.dataset]
        return await asyncio.to_thread(catalog.answer, statement, parameters)

    async def _release(self, statement: str, parameters: tuple[Any, ...]) -> tuple[Outcome, float]:
        request = Request("release", statement, parameters, self.terms, self.analyst)
        answer = await self._ask(request)
        if answer.awaits_review:
            review, text = self.server.review, f"{statement} {list(parameters) or ''}".strip()
            entry = review.add(self.analyst, self.dataset, text, answer.price)
            if entry.state != "approved":
                state = "was rejected" if entry.state == "rejected" else "waits for approval"
                raise ServerError(
                    "42501",
                    f"the statement costs epsilon {answer.price:g} and {state} "
                    f"under the number {entry.number}",
                    "ask for less epsilon, or ask the owner to approve it",
                )
            approved = Request(
                "release", statement, parameters, self.terms, self.analyst, is_approved=True
            )
            answer = await self._ask(approved)
        return _to_outcome(answer.to_table(), answer.notice), answer.price

    async def _ask(self, request: Request) -> Any:
        pool = self.server.pools.get(self.dataset)
        if pool is None:
            raise ServerError("42501", f"{self.analyst} has a part of no dataset")
        return await pool.ask(request, self.server.running, self.login)

    def _run_utility(self, statement: str) -> Outcome:
        if setting := _SET_TERM.match(statement):
            self._set_term(setting[1].lower(), setting[2].strip())
        if reset := _RESET_TERM.match(statement):
            self.terms = {
                name: v for name, v in self.terms.items() if reset[1] and name != reset[1]
            }
        tag = statement.split(None, 1)[0].strip(";").upper()
        return Outcome(None, {"END": "COMMIT", "ABORT": "ROLLBACK", "START": "BEGIN"}.get(tag, tag))

    def _set_term(self, name: str, text: str) -> None:
        """Change a term of this session's statements."""
        try:
            if name in {"epsilon", "delta", "interval"}:
                value: Any = float(text)
            elif name == "within":
                value = text if text.endswith("%") else float(text)
            elif name in {"intervals", "population"}:
                value = {"on": True, "true": True, "off": False, "false": False}[text.lower()]
            else:
                raise ServerError(
                    "42704",
                    f"a session has no term dfprivacy.{name}",
                    "its terms are epsilon, delta, within, interval, intervals and population",
                )
        except (ValueError, KeyError):
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

    async def _show(self, statement: str) -> Outcome:
        name = _show_name(statement)
        if name == "dfprivacy.budget":
            answer = await self._ask(Request("remaining", analyst=self.analyst))
            text = answer.notice
        elif name.startswith("dfprivacy."):
            text = str(self.terms.get(name.partition(".")[2], "not set"))
        else:
            text = _SHOWN.get(name, "")
        return _to_outcome(pa.table({name: [text]}), tag="SHOW")


def _show_name(statement: str) -> str:
    shown = _SHOW.match(statement)
    return shown[1].lower() if shown else ""


def _to_outcome(table: pa.Table, *notices: str, tag: str = "") -> Outcome:
    return Outcome(table, tag or f"SELECT {table.num_rows}", tuple(filter(None, notices)))


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
