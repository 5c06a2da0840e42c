"""What a description says, as frozen values; paths are absolute, and everything is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dfprivacy.histogram import Histogram
from dfprivacy.statistics import Statistic
from dfprivacy.terms import PublicKeys
from dfprivacy.unit import Unit


@dataclass(frozen=True)
class FileSource:
    """A CSV, TSV or Parquet file, or Parquet files by a glob."""

    path: Path
    text: str


@dataclass(frozen=True)
class TableSource:
    """A table or view of a DuckDB file."""

    database: Path
    table: str
    text: str


@dataclass(frozen=True)
class QuerySource:
    """A statement of `dfp.sql` over a DuckDB file, or over files by name.

    `files` are the names of the files with their paths as they were written, sorted by name.
    """

    query: str
    database: Path | None
    tables: Mapping[str, Path]
    files: tuple[tuple[str, str], ...]
    text: str


Source = FileSource | TableSource | QuerySource


@dataclass(frozen=True)
class Budget:
    """What a release may spend, and from which account; `version` names the state of the data."""

    ledger: Path
    dataset: str
    version: str
    epsilon: float | None
    rho: float | None
    delta: float | None


@dataclass(frozen=True)
class FileOutput:
    """A CSV or Parquet file."""

    path: Path
    text: str


@dataclass(frozen=True)
class TableOutput:
    """A table of a DuckDB file."""

    path: Path
    table: str
    text: str


Output = FileOutput | TableOutput


@dataclass(frozen=True)
class Release:
    """One release: what is asked of which rows, what it spends, and where the answer goes.

    A query holds its questions, groups and conditions itself; `questions` and `by` are empty then.
    """

    name: str
    line: int
    source: Source
    unit: Unit | None
    by: tuple[str, ...]
    keys: PublicKeys | None
    questions: Mapping[str, Statistic | Histogram]
    interval: float
    budget: Budget
    outputs: Sequence[Output]

    @property
    def histogram(self) -> Histogram | None:
        """The histogram that is asked for, which is always asked for alone."""
        asked = next(iter(self.questions.values()), None)
        return asked if isinstance(asked, Histogram) else None

    @property
    def numbers(self) -> dict[str, Statistic]:
        """The questions that are asked together."""
        return {name: q for name, q in self.questions.items() if not isinstance(q, Histogram)}


@dataclass(frozen=True)
class Description:
    """All releases of a file, its SHA-256, and the parameters that it was read with."""

    file: Path
    digest: str
    parameters: Mapping[str, str]
    releases: Sequence[Release]
