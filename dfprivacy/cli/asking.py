"""Ask a file one question, then print the answer, write it, or explain what it would cost."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from dfprivacy.cli.output import (
    UNKNOWN,
    check_output,
    has_unknowns,
    one_row,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.errors import InvalidKeysError
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.jobs.places import file_columns, typed_column
from dfprivacy.private import Private
from dfprivacy.release.numbers import Estimate, Number
from dfprivacy.statistics import (
    Center,
    Mean,
    PrivateBounds,
    Quantiles,
    Statistic,
)
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.terms import EPSILON
from dfprivacy.unit import Unit

Asked = Statistic | Histogram
_TAKEN = ("low", "high", "count", "quantile")  # columns of answers


@dataclass(frozen=True)
class Call:
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


def release(call: Call) -> None:
    """Release the answer, then print it or write it."""
    check_output(call.output, call.file)
    answered = _grouped(call) if call.by else _whole(call)
    table, console = answered.table, Console()
    if call.output is not None:
        write_table(table, call.output)
        show_line(console, f"Wrote {_size(table)} to {call.output}. {_spent(call)}")
    else:
        show_table(console, _shown(call, table), _keys(call), _title(call))
        made = f"{_spent(call)}; {answered.mechanism}"
        show_line(console, f"{made}; neighbours: add/remove {_neighbours(call)}")
    if has_unknowns(table, _keys(call)):
        show_line(console, UNKNOWN)


def _neighbours(call: Call) -> str:
    return "a row" if call.unit is None else f"all rows of one {call.unit.column}"


def _title(call: Call) -> str:
    return title(call.question, call.by, call.terms.get("interval"))


def _keys(call: Call) -> int:
    """Return how many columns of the table say what the others are about."""
    return len(call.by) or int(isinstance(call.question, Quantiles))


def _shown(call: Call, table: pa.Table) -> pa.Table:
    """Return a table for the terminal: the ends of a noisy count's interval are whole numbers."""
    if not isinstance(call.question, Histogram):
        return table
    ends = [table[name].cast(pa.int64()) for name in ("low", "high")]
    return pa.table([*table.columns[:-2], *ends], names=table.column_names)


def _whole(call: Call) -> Answered:
    if call.keys:
        split_keys(call.by, call.keys)  # refuses them: there are no groups
    answers = call.ask(call.private)
    how = mechanism(call.question, call.law)
    if isinstance(call.question, Histogram):
        return Answered(answers, how)
    return Answered(_table(call, answers), how + _found(call, answers))


def _table(call: Call, answers: dict[str, Number]) -> pa.Table:
    """Return one row with all answers; of several quantiles, one row each."""
    if isinstance(call.question, Quantiles):
        values = [float(answer) for answer in answers.values()]
        return pa.table({"quantile": list(call.question.qs), call.name: values})
    columns = {}
    for name, answer in answers.items():
        columns[name] = int(answer) if _is_whole(call.question) else float(answer)
        if isinstance(answer, Estimate):
            columns |= {"low": answer.low, "high": answer.high}
    return one_row(**columns)


def _found(call: Call, answers: dict[str, Number]) -> str:
    """Return the bounds that were found, in brackets."""
    for answer in answers.values() if finds_bounds(call.question) else ():
        if isinstance(answer, Estimate) and answer.bounds is not None:
            return f" ({answer.bounds.lower:.6g} to {answer.bounds.upper:.6g})"
    return ""


def _grouped(call: Call) -> Answered:
    keys = typed_keys(call.file, call.by, call.keys) if call.keys else None
    table: pa.Table = call.ask(call.private.group_by(*call.by, keys=keys))
    return Answered(table, mechanism(call.question, call.law))


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


def _spent(call: Call) -> str:
    """Say what the call has cost."""
    epsilon, rho, delta = (call.terms[name] for name in ("epsilon", "rho", "delta"))
    loss = f"rho {_short(rho)}" if rho is not None else f"epsilon {_short(epsilon or EPSILON)}"
    if delta is None or not call.by or call.keys:
        return f"Spent {loss}"
    return f"Spent {loss}, delta {_short(delta)}"


def _short(number: float) -> str:
    """Return a number with up to six digits: 1e-6, not 1e-06."""
    return f"{number:.6g}".replace("e-0", "e-").replace("e+0", "e")


def explain(call: Call) -> None:
    """Print the explanation of a call; the file is not read, and a ledger is not charged."""
    check_output(call.output, call.file)
    rows = split_keys(call.by, call.keys) if call.keys else []
    keys = [row[0] if len(row) == 1 else row for row in rows] or None  # only their number matters
    frame = call.private.group_by(*call.by, keys=keys) if call.by else call.private
    show_explanation(call.ask(frame.explain))


def show_explanation(explanation: Explanation) -> None:
    """Print an explanation, line by line."""
    console = Console()
    for line in repr(explanation).splitlines():
        show_line(console, line)


_ONE, _SEVERAL = "a private selection", "private selections"
_HISTOGRAM = "a noisy histogram"


def kind(asked: Asked) -> str:
    """Return what is asked for, in one word."""
    return "histogram" if isinstance(asked, Histogram) else asked.kind


def title(asked: Asked, by: Sequence[str], interval: float | None) -> str:
    """Return what a table holds."""
    of = "" if asked.column is None else f" of {asked.column}"
    groups = f" by {', '.join(by)}" if by else ""
    level = f", {100 * (interval or 0):.6g}% intervals" if has_interval(asked) else ""
    return f"Private {kind(asked)}{_which(asked)}{of}{groups}{level}"


def _which(asked: Asked) -> str:
    """Return the numbers that a question names, besides its column and bounds."""
    if isinstance(asked, Histogram):
        return ""
    needed = [own for own in asked.arguments() if own.required and own.form == "number"]
    texts = [f"{own.name} = {getattr(asked, own.name):g}" for own in needed]
    return f" ({', '.join(texts)})" if texts else ""


def _is_whole(asked: Asked) -> bool:
    return isinstance(asked, Statistic) and asked.is_whole


def has_interval(asked: Asked) -> bool:
    """Tell whether the answers are read off noisy sums, and not selected."""
    if isinstance(asked, Histogram):
        return True
    return asked.has_interval and getattr(asked, "method", "") != "inverse"


def finds_bounds(asked: Asked) -> bool:
    """Tell whether a noisy sum is taken within bounds that were found privately."""
    lacks = getattr(asked, "bounds", asked) is None
    return lacks and has_interval(asked) and not isinstance(asked, Histogram)


def mechanism(asked: Asked, law: str) -> str:
    """Return what made the answer private; `law` is the noise that the loss asks for.

    What is not read off noisy sums comes with a noisy count of the rows, by group or not.
    """
    return _noise(asked, law) if has_interval(asked) else f"{_choice(asked)} and {law} counts"


def _noise(asked: Asked, law: str) -> str:
    if isinstance(asked, Histogram):
        return law if asked.edges is not None else f"{law} within bounds from {_HISTOGRAM}"
    if not finds_bounds(asked):
        return law
    if isinstance(asked, Mean) and asked.method == "dick":
        return f"discrete Laplace within bounds from {_SEVERAL}"
    if isinstance(asked, Mean) and asked.method == "subset":
        return f"{law} within bounds from {_SEVERAL}"
    return f"{law} within bounds from {_HISTOGRAM}"


def _choice(asked: Asked) -> str:
    if isinstance(asked, PrivateBounds):
        return f"{_HISTOGRAM} (discrete Laplace)" if asked.rank is None else _SEVERAL
    if isinstance(asked, Center) and asked.method == "dick":
        return _SEVERAL
    if isinstance(asked, Quantiles) and len(asked.qs) > 1:
        return _SEVERAL
    found = isinstance(asked, Mean) or (isinstance(asked, Center) and asked.bounds is None)
    return f"{_ONE} within bounds from {_HISTOGRAM} (discrete Laplace)" if found else _ONE
