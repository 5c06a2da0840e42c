"""Route the statements of a logged-in analyst: to the catalog, or to a release that is paid for."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.server.catalog import LONGEST_SECONDS, SETTINGS, Answer, CatalogReader
from dfprivacy.server.policy import Policy
from dfprivacy.server.workers import DatasetReader, ServerError, Worker, describe_error

LONGEST_STATEMENT = 100_000  # characters
FAILED_LOGIN_SECONDS = 1
_SHOWN = {name.lower(): value for name, value in SETTINGS.items()}
_SHOWN["transaction isolation level"] = _SHOWN["transaction_isolation"]
_TAGS = {"END": "COMMIT", "ABORT": "ROLLBACK", "START": "BEGIN"}
_UTILITIES = {"", *_TAGS, *_TAGS.values(), "SET", "RESET", "DISCARD", "DEALLOCATE", "CLOSE"}
_UTILITIES |= {"SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN"}
"""Statements without rows. Only SET and RESET of the terms of a session change anything here."""
_SET_TERM = re.compile(
    r"SET\s+(?:SESSION\s+|LOCAL\s+)?dfprivacy\.(\w+)(?:\s*=|\s+TO\s)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_RESET_TERM = re.compile(r"(?:RESET|DISCARD)\s+(?:dfprivacy\.(\w+)|ALL)", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:\([^)]*\)\s*)?", re.IGNORECASE)
_QUOTED = (
    r"'[^']*'?|\"[^\"]*\"?|--[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|\$(?P<tag>|[A-Za-z_]\w*)\$.*?(?:\$(?P=tag)\$|\Z)"
)
"""Quotes and comments. One that has no end lasts to that of the text: none is read twice."""
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


def check_length(statement: str) -> None:
    """Refuse a statement that is too long, before anything looks at all of it."""
    if len(statement) > LONGEST_STATEMENT:
        raise ServerError(
            "54000",
            f"the statement has more than {LONGEST_STATEMENT:,} characters",
            "shorten it, or declare a view in the data",
        )


class Server:
    """The shared state of all sessions: policy, workers, log."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.ledgers = open_ledgers(policy)
        self.idle_workers: defaultdict[str, asyncio.Queue[Worker]] = defaultdict(asyncio.Queue)
        """Workers by their dataset. Those of the catalogs have none."""
        self.turns: dict[tuple[str, str], asyncio.Semaphore] = {}
        """Analysts wait for workers behind their own statements, not behind all of another's."""
        self.recent: dict[str, deque[float]] = {}
        self.log_lock = Lock()  # logins of Flight have threads of their own

    async def open_data(self) -> None:
        """Start the workers of each dataset, and those of the catalogs of their tables."""
        limits, columns = self.policy.limits, {}
        threads = limits.workers * (len(self.policy.datasets) + 1) + 4  # each worker has one
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
        for name in self.policy.datasets:
            worker = self._start_workers(name, limits, DatasetReader, name, self.policy)
            columns[name] = (await asyncio.to_thread(worker.ask, "columns")).table
        columns[""] = columns[name].slice(0, 0)  # of monitors
        seconds = min(LONGEST_SECONDS, limits.seconds)
        self._start_workers(
            "", limits.model_copy(update={"seconds": seconds}), CatalogReader, columns
        )

    def _start_workers(self, name: str, *terms: Any) -> Worker:
        workers = [Worker(*terms) for _ in range(self.policy.limits.workers)]
        for worker in workers:
            self.idle_workers[name].put_nowait(worker)
        return workers[0]

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
        """Append a line to the log of statements, wholly or not at all.

        If it can't be written, that is an error. An answer that was charged is kept.
        """
        line = {"time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), **fields}
        content = json.dumps(line).encode() + b"\n"
        with suppress(OSError), self.log_lock, self.policy.log.open("ab", buffering=0) as log:
            end = log.seek(0, os.SEEK_END)
            if log.write(content) == len(content):
                return
            log.truncate(end)
        raise ServerError(
            "53100",
            "the server can't write its log of statements",
            "the owner makes room on the disk; then ask again: what was charged costs nothing more",
        )


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
    constants: tuple[str, Answer] | None = None
    """The last statement of constants, as pools send to see if a connection lives."""

    async def run(
        self, statement: str, parameters: Sequence[Any] = (), described: Answer | None = None
    ) -> Answer:
        """Answer a statement, and log who asked it.

        If `describe` has answered it whole, pass that answer.
        """
        begin, outcome, price = time.monotonic(), "answered", 0.0
        try:
            self._check_statement(statement)
            self._count_statement()
            answer = described or await self._route(statement, parameters, "release")
            price = answer.price
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

    async def describe(self, statement: str, parameters: Sequence[Any]) -> Answer:
        """Return an answer with the columns of a statement. It reads no data and charges nothing.

        One with the tag SELECT is about the catalog, and whole.
        """
        keyword = find_keyword(statement)
        if keyword in _UTILITIES:
            return Answer(None, tag=keyword)
        if keyword == "EXPLAIN":
            return Answer(pa.table({"QUERY PLAN": pa.array([], pa.string())}), tag=keyword)
        self._check_statement(statement)
        return await self._route(statement, parameters, "describe")

    def _check_statement(self, statement: str) -> None:
        check_length(statement)
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

    async def _route(self, statement: str, parameters: Sequence[Any], kind: Any) -> Answer:
        keyword = find_keyword(statement)
        if keyword in _UTILITIES:
            text = statement.strip(" \t\r\n;")
            if setting := _SET_TERM.fullmatch(text):
                self._set_term(setting[1].lower(), setting[2].strip().strip("'"))
            if reset := _RESET_TERM.fullmatch(text):
                for name in [reset[1]] if reset[1] else [*self.terms]:
                    self.terms.pop(name, None)
            return Answer(None, tag=_TAGS.get(keyword, keyword))
        if keyword == "SHOW":
            name = statement.strip(" \t\r\n;")[len("SHOW") :].strip().lower()
            text = _SHOWN.get(name, "")
            if name == "dfprivacy.budget" and self.dataset:
                ledger, of = self.server.ledgers[self.dataset], {"analyst": self.analyst}
                left = await asyncio.to_thread(ledger.remaining, self.dataset, **of)
                spent = await asyncio.to_thread(ledger.spent, self.dataset, **of)
                text = f"left {left.text()}; spent by {self.analyst} {spent.text()}"
            elif name.startswith("dfprivacy."):
                text = str(self.terms.get(name.partition(".")[2], "not set"))
            return Answer(pa.table({name: [text]}), tag="SHOW")
        if keyword == "EXPLAIN":
            return await self._ask("explain", _EXPLAIN.sub("", statement, 1), parameters)
        if keyword == "ALTER":  # psql's \password sends it
            hint = "the owner runs: dfprivacy serve user add POLICY NAME"
            raise ServerError("42501", "passwords are set by the owner", hint)
        if self.constants and self.constants[0] == statement:
            return self.constants[1]
        answer: Answer | None = await self._call("", self.dataset, statement, parameters)
        if answer and answer.is_constant:
            self.constants = statement, answer
        return answer or await self._ask(kind, statement, parameters)

    async def _ask(self, kind: Any, statement: str, parameters: Sequence[Any]) -> Answer:
        self._require_dataset()
        request = kind, statement, parameters, {**self.terms}, self.analyst
        answer: Answer = await self._call(self.dataset, *request)
        return replace(answer, tag="SELECT" if kind == "release" else kind.upper())

    async def _call(self, dataset: str, *request: Any) -> Any:
        """Send a request to the next worker of a dataset, or of the catalogs, one at a time."""
        idle = self.server.idle_workers[dataset]
        share = asyncio.Semaphore(self.server.policy.limits.workers if dataset else 1)
        async with self.server.turns.setdefault((self.analyst, dataset), share):
            self.worker = worker = await idle.get()
            try:
                return await asyncio.to_thread(worker.ask, *request)
            finally:
                self.worker = None
                idle.put_nowait(worker)

    def _require_dataset(self) -> None:
        if not self.dataset:
            raise ServerError("42501", f"{self.analyst} has a part of no dataset")

    def cancel(self) -> None:
        """End the worker that runs a statement of this session, if one does."""
        if self.worker is not None:
            self.worker.process.kill()

    def _set_term(self, name: str, text: str) -> None:
        """Change a term of this session's statements."""
        self._require_dataset()
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
                "22023",
                f"the policy allows dfprivacy.{name} above 0 and up to {largest:g}",
                f"SET dfprivacy.{name} = {largest:g}, or less",
            )
        self.terms[name] = value


def split_statements(text: str) -> list[str]:
    r"""Split a text at the semicolons outside of quotes and comments.

    >>> split_statements("SELECT ';'; -- a; b\nSELECT 2;")
    ["SELECT ';'", ' -- a; b\nSELECT 2']
    """
    matches = re.finditer(f"(?:{_QUOTED}|[^;])+", text, re.DOTALL)
    return [match[0] for match in matches if match[0].strip()]


def count_parameters(statement: str) -> int:
    """Return the highest number of a parameter outside of quotes and comments.

    >>> count_parameters("SELECT $1, '$3' -- $4")
    1
    """
    places = re.findall(r"\$(\d{1,5})\b", re.sub(_QUOTED, "''", statement, flags=re.DOTALL))
    return max(map(int, places), default=0)
