"""One call of the command line: ask the file, then print the answer or write it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from dfprivacy.engine.embedded import embedded_connection, read_file
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidKeysError
from dfprivacy.frontends.cli_output import (
    check_output,
    one_row,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.private import Private
from dfprivacy.questions import Count, Question
from dfprivacy.release import Estimate
from dfprivacy.terms import EPSILON

_TAKEN = ("low", "high", "count")  # columns of every answer


@dataclass(frozen=True)
class Job:
    """One call: what is asked of which file, and where the answer goes."""

    file: Path
    question: Question
    by: Sequence[str]
    keys: Sequence[str] | None
    output: Path | None
    terms: dict[str, float | None]

    @property
    def title(self) -> str:
        """What the table holds, in words."""
        of = "" if self.question.column is None else f" of {self.question.column}"
        by = f" by {', '.join(self.by)}" if self.by else ""
        level = f"{100 * float(self.terms['interval'] or 0):.6g}%"
        return f"Private {self.question.kind}{of}{by}, {level} intervals"

    def ask(self, frame: Any) -> Any:
        """Ask a frame, or a frame by group; name the answer where its column's name is taken."""
        given = {name: value for name, value in self.terms.items() if value is not None}
        name = str(self.question.column or self.question.kind)
        if name in self.by or self.question.column in _TAKEN:
            return frame.agg(**{f"{name}_{self.question.kind}": self.question}, **given)
        return frame.agg(self.question, **given)


def release(job: Job) -> None:
    """Release the answer, then print it or write it."""
    check_output(job.output, job.file)
    table = _grouped(job) if job.by else _whole(job)
    if job.output is not None:
        write_table(table, job.output)
        show_line(Console(), f"Wrote {_size(table)} to {job.output}. {_spent(job)}")
        return
    console = Console()
    show_table(console, table, len(job.by), job.title)
    show_line(console, f"{_spent(job)}; {_noise(job)}; neighbours: add/remove a row")


def _whole(job: Job) -> pa.Table:
    if job.keys:
        raise InvalidKeysError("--keys need a column to group by", hint="add --by COLUMN")
    answers: dict[str, Estimate] = job.ask(Private(job.file))
    name, estimate = next(iter(answers.items()))
    value = int(estimate) if isinstance(job.question, Count) else float(estimate)
    return one_row(**{name: value, "low": estimate.low, "high": estimate.high})


def _grouped(job: Job) -> pa.Table:
    keys = typed_keys(job.file, job.by, job.keys) if job.keys else None
    table: pa.Table = job.ask(Private(job.file).group_by(*job.by, keys=keys))
    return table


def typed_keys(file: Path, by: Sequence[str], keys: Sequence[str]) -> list[object]:
    """Return keys in the declared types of their columns; with several columns, split at commas.

    Raises
    ------
    InvalidKeysError
        When there are too many or too few parts, or a part does not fit its column.
    """
    rows = [(key,) for key in keys] if len(by) == 1 else list(map(tuple, csv.reader(keys)))
    if any(len(row) != len(by) for row in rows):
        raise InvalidKeysError(
            f"each of --keys must have {len(by)} parts, for {', '.join(by)}",
            hint="separate the parts by commas, e.g. --keys AA,1 --keys UA,12",
        )
    schema = guarded(lambda: _schema(file))
    texts = zip(*rows, strict=True)
    columns = [_typed(name, part, schema) for name, part in zip(by, texts, strict=True)]
    return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))


def _schema(file: Path) -> pa.Schema:
    with embedded_connection() as connection:
        return read_file(connection, file).limit(0).to_arrow_table().schema


def _typed(name: str, texts: Sequence[str], schema: pa.Schema) -> list[object]:
    declared = schema.field(name).type if name in schema.names else pa.string()
    if pa.types.is_dictionary(declared):
        return list(texts)
    try:
        column: list[object] = pa.array(texts, pa.string()).cast(declared).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidKeysError(
            f"a key does not fit column {name!r}, which is declared {declared}",
            hint=f"give --keys that can be read as {declared}",
        ) from None
    return column


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


def _noise(job: Job) -> str:
    return "discrete Laplace" if job.terms["rho"] is None else "discrete Gaussian"
