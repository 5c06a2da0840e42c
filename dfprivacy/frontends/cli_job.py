"""One call of the command line: ask the file, then print the answer or write it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from dfprivacy.errors import InvalidKeysError
from dfprivacy.frontends.cli_output import (
    UNKNOWN,
    check_output,
    has_unknowns,
    one_row,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.frontends.cli_words import Asked, finds_bounds, kind, mechanism, title
from dfprivacy.histogram import Histogram
from dfprivacy.jobs.sources import file_columns, typed_column
from dfprivacy.private import Private
from dfprivacy.release import Estimate, Number
from dfprivacy.statistics import Count, Quantiles
from dfprivacy.terms import EPSILON
from dfprivacy.unit import Unit

_TAKEN = ("low", "high", "count", "quantile")  # columns of answers


@dataclass(frozen=True)
class Job:
    """One call: what is asked of which file, and where the answer goes."""

    file: Path
    question: Asked
    by: Sequence[str]
    keys: Sequence[str] | None
    output: Path | None
    terms: dict[str, float | None]
    unit: Unit | None = None

    @property
    def law(self) -> str:
        """The noise that the loss asks for."""
        return "discrete Laplace" if self.terms["rho"] is None else "discrete Gaussian"

    @property
    def name(self) -> str:
        """What the answer is called: its column, with the question where that name is taken."""
        name = str(self.question.column or kind(self.question))
        return f"{name}_{kind(self.question)}" if self._is_taken(name) else name

    def _is_taken(self, name: str) -> bool:
        return name in self.by or self.question.column in _TAKEN

    @property
    def private(self) -> Private:
        """The file, with the unit that is protected."""
        return Private(self.file)(unit=self.unit)

    def ask(self, frame: Any) -> Any:
        """Ask a frame, or a frame by group."""
        given = {name: value for name, value in self.terms.items() if value is not None}
        question = self.question
        if isinstance(question, Histogram):
            bins = question.bins if question.edges is None else question.edges
            return frame.histogram(question.column, bins, **given)
        if self._is_taken(str(question.column or question.kind)):
            return frame.agg(**{self.name: question}, **given)
        return frame.agg(question, **given)


@dataclass(frozen=True)
class Answered:
    """A released table, and what made it private."""

    table: pa.Table
    mechanism: str


def release(job: Job) -> None:
    """Release the answer, then print it or write it."""
    check_output(job.output, job.file)
    answered = _grouped(job) if job.by else _whole(job)
    table, console = answered.table, Console()
    if job.output is not None:
        write_table(table, job.output)
        show_line(console, f"Wrote {_size(table)} to {job.output}. {_spent(job)}")
    else:
        show_table(console, _shown(job, table), _keys(job), _title(job))
        made = f"{_spent(job)}; {answered.mechanism}"
        show_line(console, f"{made}; neighbours: add/remove {_neighbours(job)}")
    if has_unknowns(table, _keys(job)):
        show_line(console, UNKNOWN)


def _neighbours(job: Job) -> str:
    return "a row" if job.unit is None else f"all rows of one {job.unit.column}"


def _title(job: Job) -> str:
    return title(job.question, job.by, job.terms.get("interval"))


def _keys(job: Job) -> int:
    """Return how many columns of the table say what the others are about."""
    return len(job.by) or int(isinstance(job.question, Quantiles))


def _shown(job: Job, table: pa.Table) -> pa.Table:
    """Return a table for the terminal: the ends of a noisy count's interval are whole numbers."""
    if not isinstance(job.question, Histogram):
        return table
    ends = [table[name].cast(pa.int64()) for name in ("low", "high")]
    return pa.table([*table.columns[:-2], *ends], names=table.column_names)


def _whole(job: Job) -> Answered:
    if job.keys:
        split_keys(job.by, job.keys)  # refuses them: there are no groups
    answers = job.ask(job.private)
    how = mechanism(job.question, job.law)
    if isinstance(job.question, Histogram):
        return Answered(answers, how)
    return Answered(_table(job, answers), how + _found(job, answers))


def _table(job: Job, answers: dict[str, Number]) -> pa.Table:
    """Return one row with all answers; of several quantiles, one row each."""
    if isinstance(job.question, Quantiles):
        values = [float(answer) for answer in answers.values()]
        return pa.table({"quantile": list(job.question.qs), job.name: values})
    columns = {}
    for name, answer in answers.items():
        columns[name] = int(answer) if isinstance(job.question, Count) else float(answer)
        if isinstance(answer, Estimate):
            columns |= {"low": answer.low, "high": answer.high}
    return one_row(**columns)


def _found(job: Job, answers: dict[str, Number]) -> str:
    """Return the bounds that were found, in brackets."""
    for answer in answers.values() if finds_bounds(job.question) else ():
        if isinstance(answer, Estimate) and answer.bounds is not None:
            return f" ({answer.bounds.lower:.6g} to {answer.bounds.upper:.6g})"
    return ""


def _grouped(job: Job) -> Answered:
    keys = typed_keys(job.file, job.by, job.keys) if job.keys else None
    table: pa.Table = job.ask(job.private.group_by(*job.by, keys=keys))
    return Answered(table, mechanism(job.question, job.law))


def typed_keys(file: Path, by: Sequence[str], keys: Sequence[str]) -> list[object]:
    """Return keys in the declared types of their columns; with several columns, split at commas.

    Raises
    ------
    InvalidKeysError
        When there are too many or too few parts, or a part does not fit its column.
    """
    rows = split_keys(by, keys)
    schema = file_columns(file)
    declared = [schema.field(n).type if n in schema.names else pa.string() for n in by]
    texts = zip(*rows, strict=True)
    columns = list(map(typed_column, by, texts, declared))
    return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))


def split_keys(by: Sequence[str], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Return keys as they were typed, each with its parts; with several columns, split at commas.

    Raises
    ------
    InvalidKeysError
        When there is no column to group by, or there are too many or too few parts.
    """
    if not by:
        raise InvalidKeysError("--keys need a column to group by", hint="add --by COLUMN")
    parts = csv.reader(keys) if len(by) > 1 else ([key] for key in keys)
    rows = [tuple(row) for row in parts]
    if any(len(row) != len(by) for row in rows):
        raise InvalidKeysError(
            f"each of --keys must have {len(by)} parts, for {', '.join(by)}",
            hint="separate the parts by commas, e.g. --keys AA,1 --keys UA,12",
        )
    return rows


def _size(table: pa.Table) -> str:
    return "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"


def _spent(job: Job) -> str:
    """Say what the call has cost."""
    epsilon, rho, delta = (job.terms[name] for name in ("epsilon", "rho", "delta"))
    loss = f"rho {_short(rho)}" if rho is not None else f"epsilon {_short(epsilon or EPSILON)}"
    if delta is None or not job.by or job.keys:
        return f"Spent {loss}"
    return f"Spent {loss}, delta {_short(delta)}"


def _short(number: float) -> str:
    """Return a number with up to six digits: 1e-6, not 1e-06."""
    return f"{number:.6g}".replace("e-0", "e-").replace("e+0", "e")
