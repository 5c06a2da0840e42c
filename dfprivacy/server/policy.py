"""Read the policy of a server: datasets, budgets, analysts and limits, in one file of the owner."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError, model_validator

from dfprivacy.errors import InvalidDescriptionError

Positive = Annotated[float, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


_RESERVED_NAMES = {"information_schema", "main", "memory", "pg_catalog", "system", "temp"}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Budget(_Part):
    """The privacy loss that a dataset may spend in all."""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Allowance(_Part):
    """The part of a dataset's budget that an analyst may spend."""

    epsilon: Positive
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None


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

    source: Path | dict[Name, Path]
    tables: Path | dict[str, Any] | None = Field(None, alias="schema")
    unit: str | None = None
    max_rows: Annotated[int, Field(ge=1)] | None = None
    max_groups: Annotated[int, Field(ge=1)] | None = None
    version: str = "file"
    ledger: Path | None = None
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
        digest = hashlib.sha256()
        for file in sorted(self.files):
            status = file.stat()
            digest.update(_hash_file(file, status.st_size, status.st_mtime_ns, status.st_ino))
        return digest.hexdigest()


@cache
def _hash_file(file: Path, *_: int) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


class Analyst(_Part):
    """A person who may ask, and about which datasets. A monitor may ask for nothing."""

    datasets: dict[Name, Allowance] = {}


class Review(_Part):
    """Statements that cost more wait until the owner approves them."""

    above: Positive


class Tls(_Part):
    """The certificate of the server and its private key, in PEM files."""

    certificate: Path
    key: Path


class Listen(_Part):
    """The address of the server. TLS can be left out on the machine's own address only."""

    address: str = "127.0.0.1:5433"
    tls: Tls | None = None

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The host and the port of the address."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)

    @model_validator(mode="after")
    def _check(self) -> Listen:
        try:
            host, _ = self.host_and_port
        except ValueError:
            raise ValueError("the address must be HOST:PORT, e.g. 127.0.0.1:5433") from None
        if self.tls is None and not (host == "localhost" or _is_loopback(host)):
            raise ValueError("an address that other machines reach needs tls: certificate and key")
        return self


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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

    ledger: Path
    datasets: Annotated[dict[Name, Dataset], Field(min_length=1)]
    analysts: dict[Name, Analyst]
    review: Review | None = None
    listen: Listen = Listen()
    limits: Limits = Limits()
    users: Path = Path("users.scram")
    log: Path = Path("statements.jsonl")
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
    def has_expired(self) -> bool:
        """Check whether the last day of the policy is over."""
        return self.expires is not None and dt.datetime.now(dt.UTC).date() > self.expires


def read_policy(path: Path) -> Policy:
    """Read a policy from a YAML file.

    Parameters
    ----------
    path : Path
        The file. Relative paths in it count from its folder.

    Returns
    -------
    Policy
        The rules, checked for sense but not against the data.

    Raises
    ------
    InvalidDescriptionError
        When the file can't be read, is no YAML, or has an unknown, missing or wrong field.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Policy.model_validate(_resolve_paths(content, path.parent.resolve()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidDescriptionError(
            f"the policy {path.name!r} can't be read: {type(error).__name__}",
            hint="name a YAML file; docs/server.md shows one",
        ) from None
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, fault['loc'])) or 'policy'}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        ]
        raise InvalidDescriptionError(
            f"the policy {path.name!r} can't be used: {'; '.join(lines)}",
            hint="docs/server.md lists the fields of a policy",
        ) from None


_PATHS = {"ledger", "users", "log", "source", "schema", "certificate", "key"}


def _resolve_paths(content: Any, folder: Path) -> Any:
    """Make the paths of a policy absolute."""
    if not isinstance(content, dict):
        return content
    resolved: dict[str, Any] = {}
    for key, value in content.items():
        if key == "source" and isinstance(value, dict):
            resolved[key] = {name: str(folder / str(file)) for name, file in value.items()}
        elif key in _PATHS and isinstance(value, str):
            resolved[key] = str(folder / value)
        else:
            resolved[key] = _resolve_paths(value, folder)
    if "analysts" in content:  # the policy itself
        resolved.setdefault("users", str(folder / "users.scram"))
        resolved.setdefault("log", str(folder / "statements.jsonl"))
    return resolved
