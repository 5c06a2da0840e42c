"""Read what the owner of a server has decided: its policy, in one file, and approvals."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import sqlite3
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from dfprivacy.errors import (
    EngineError,
    InvalidDescriptionError,
    InvalidQuestionError,
    LedgerFileError,
)

Positive = Annotated[float, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
File = Annotated[Path, AfterValidator(lambda path, info: (info.context or Path()) / path)]
"""A path that counts from the folder of the policy's file."""
_RESERVED_NAMES = {"information_schema", "main", "memory", "pg_catalog", "system", "temp"}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Budget(_Part):
    """The privacy loss that a dataset may spend in all, or an analyst of it."""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None


class StatementTerms(_Part):
    """The terms of a statement that names none of its own, and their limits."""

    epsilon: Positive = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_epsilon: Positive | None = None
    minimum_units: Annotated[int, Field(ge=1, le=10**6)] | None = None

    @property
    def largest_epsilon(self) -> float:
        """The most that one statement may cost."""
        return self.epsilon if self.max_epsilon is None else self.max_epsilon


class Dataset(_Part):
    """A DuckDB file, or Parquet files by table name, with its unit, version and budget."""

    source: File | dict[Name, File]
    tables: File | dict[str, Any] | None = Field(None, alias="schema")
    unit: str | None = None
    max_rows: Annotated[int, Field(ge=1)] | None = None
    max_groups: Annotated[int, Field(ge=1)] | None = None
    version: str = "file"
    ledger: File | None = None
    budget: Budget
    statement: StatementTerms = StatementTerms()

    @property
    def files(self) -> list[Path]:
        """The files that hold the data."""
        return [self.source] if isinstance(self.source, Path) else [*self.source.values()]

    def find_version(self) -> str:
        """Return the version that the policy names, or a hash of the data's files."""
        if self.version != "file":
            return self.version
        digest, files = hashlib.sha256(), sorted(self.files)
        logs = [log for file in files if (log := file.with_name(f"{file.name}.wal")).exists()]
        try:
            for file in (*files, *logs):  # DuckDB keeps its last changes in a log beside the file
                status = file.stat()
                digest.update(_hash_file(file, status.st_size, status.st_mtime_ns, status.st_ino))
        except OSError as error:
            raise build_unopened_error(type(error)) from None
        return digest.hexdigest()


def build_unopened_error(kind: type[Exception]) -> EngineError:
    """Return the error for data that are gone or damaged, without the words of an engine."""
    return EngineError(
        f"the data can't be opened: {kind.__name__}",
        hint="a source is a DuckDB file, or a mapping of table names to Parquet files",
    )


@cache
def _hash_file(file: Path, *_: int) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


class Analyst(_Part):
    """A person who may ask, and about which datasets. A monitor may ask for nothing."""

    datasets: dict[Name, Budget] = {}


class Review(_Part):
    """Statements that cost more wait until the owner approves them."""

    above: Positive


class Tls(_Part):
    """The certificate of the server and its private key, in PEM files."""

    certificate: File
    key: File


class Listen(_Part):
    """The address of the server. TLS can be left out on the machine's own address only."""

    address: Annotated[str, Field(pattern=r"^.+:\d{1,5}$")] = "127.0.0.1:5433"
    flight: Annotated[int, Field(ge=0, le=65535)] | None = None
    """The port of Flight SQL, on the same host. None: only the Postgres protocol is spoken."""
    tls: Tls | None = None

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The host and the port of the address."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)

    @model_validator(mode="after")
    def _require_tls(self) -> Listen:
        host, _ = self.host_and_port
        is_local = host == "localhost"
        with suppress(ValueError):
            is_local = is_local or ipaddress.ip_address(host).is_loopback
        if self.tls is None and not is_local:
            raise ValueError("an address that other machines reach needs tls: certificate and key")
        if self.tls is None and self.flight is not None:
            raise ValueError("flight needs tls: its clients send their passwords")
        return self


class Limits(_Part):
    """The largest use of the machine by one statement and one analyst."""

    workers: Annotated[int, Field(ge=1, le=64)] = 2
    seconds: Positive = 60.0
    memory: ByteSize = ByteSize(2 * 10**9)
    statements_per_minute: Annotated[int, Field(ge=1)] = 120
    minimum_seconds: Annotated[float, Field(ge=0, le=10)] = 0.0
    connections: Annotated[int, Field(ge=1)] = 200


class Policy(_Part):
    """The rules of a server. Paths count from the folder of the policy's file."""

    ledger: File
    datasets: Annotated[dict[Name, Dataset], Field(min_length=1)]
    analysts: dict[Name, Analyst]
    review: Review | None = None
    listen: Listen = Listen()
    limits: Limits = Limits()
    users: File = Path("users.scram")
    log: File = Path("statements.jsonl")
    expires: dt.date | None = None

    @model_validator(mode="after")
    def _check(self) -> Policy:
        if reserved := _RESERVED_NAMES & self.datasets.keys():
            raise ValueError(f"a dataset can't have the name {min(reserved)!r}: DuckDB uses it")
        budgets: dict[Path, Budget] = {}
        for name, dataset in self.datasets.items():
            if budgets.setdefault(self.find_ledger(name), dataset.budget) != dataset.budget:
                raise ValueError(
                    f"dataset {name!r} has another budget than others of its ledger: name a "
                    "ledger of its own in it"
                )
        for name, analyst in self.analysts.items():
            for part, allowance in analyst.datasets.items():
                if part not in self.datasets:
                    raise ValueError(f"analyst {name!r} has a part of {part!r}, no dataset here")
                if allowance.epsilon > self.datasets[part].budget.epsilon:
                    raise ValueError(f"analyst {name!r} has more than the budget of {part!r}")
        return self

    def find_ledger(self, dataset: str) -> Path:
        """Return the ledger that a dataset names, or that of all datasets that name none."""
        return self.datasets[dataset].ledger or self.ledger

    @property
    def reviews(self) -> ReviewQueue:
        """The statements that wait for the owner's approval, in a file beside the ledger."""
        return ReviewQueue(self.ledger.with_name(f"{self.ledger.name}-review.db"))

    @property
    def has_expired(self) -> bool:
        """Check whether the last day of the policy is over."""
        return self.expires is not None and dt.datetime.now(dt.UTC).date() > self.expires


class ReviewQueue:
    """Statements by number, and what the owner decided. Processes may share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, change: str = "", *values: object) -> list[sqlite3.Row]:
        """Return all statements, after a change if one is named."""
        with suppress(OSError, sqlite3.Error):
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self._path)) as connection, connection:
                connection.row_factory = sqlite3.Row
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY, analyst, "
                    "dataset, statement, epsilon, state DEFAULT 'waiting', "
                    "UNIQUE (analyst, dataset, statement, epsilon))"
                )
                connection.execute(change, values)
                return connection.execute(
                    "SELECT number, analyst, dataset, statement, epsilon, state FROM waiting "
                    "ORDER BY number"
                ).fetchall()
        raise LedgerFileError(
            f"the list of statements for review, {self._path.name!r}, can't be read or written",
            hint="ask again; if it is damaged, the owner moves it away, and a new list begins",
        )

    def add(self, *values: object) -> sqlite3.Row:
        """Return the entry of an analyst's statement, which is appended unless it is there."""
        insert = "INSERT OR IGNORE INTO waiting (analyst, dataset, statement, epsilon) VALUES "
        return next(
            row for row in self.read(f"{insert} (?, ?, ?, ?)", *values) if row[1:5] == values
        )

    def decide(self, number: int, state: str) -> sqlite3.Row:
        """Approve or reject a statement."""
        for entry in self.read("UPDATE waiting SET state = ? WHERE number = ?", state, number):
            if entry["number"] == number:
                return entry
        raise InvalidQuestionError(
            f"no statement waits under the number {number}",
            hint="dfprivacy serve log POLICY --waiting lists them",
        )


def read_policy(path: Path) -> Policy:
    """Read a policy from a YAML file, or refuse it. Relative paths in it count from its folder."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Policy.model_validate(content, context=path.parent.resolve())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidDescriptionError(
            f"the policy {path.name!r} can't be read: {type(error).__name__}",
            hint="name a YAML file; docs/how-to/server.md shows one",
        ) from None
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'policy'}: {e['msg']}" for e in error.errors()]
        raise InvalidDescriptionError(
            f"the policy {path.name!r} can't be used: {'; '.join(lines)}",
            hint="docs/how-to/server.md lists the fields of a policy",
        ) from None
