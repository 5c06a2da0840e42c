"""Ask a file one question, then print the answer, write it, or explain what it would cost."""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from rich.console import Console

from dfprivacy.accounting.charge import short
from dfprivacy.cli.output import (
    UNKNOWN,
    check_output,
    has_unknowns,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.cli.rows import declared, typed_column
from dfprivacy.engine.files import open_source
from dfprivacy.engine.run import guarded
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.engine.text_files import FORM, TextFile
from dfprivacy.errors import InvalidKeysError, InvalidQuestionError
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.explanation import SIZE, Explanation
from dfprivacy.frames.numbers import Estimate
from dfprivacy.frames.private import Private
from dfprivacy.frames.released import released
from dfprivacy.frames.tables import NOTE
from dfprivacy.release.terms import EPSILON, Unit, interval_of, unit_of
from dfprivacy.statistics import Quantiles, Share, Statistic
from dfprivacy.statistics.histogram import Histogram

Asked = Statistic | Histogram
Input = Path | TextFile
_ENDS = ("low", "high")
_TAKEN = (*_ENDS, NOTE, "count", "quantile")  # columns of answers


TERMS = ("epsilon", "rho", "delta", "interval")

Ask = Callable[[Any, Any, dict[str, Any]], Any]
"""What asks a frame, or what explains one: with keys, and with the terms that are given."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a call says beside its question; where `about` names columns, keys are of these."""

    file: Input
    where: str | None
    by: Sequence[str]
    keys: Sequence[str] | None
    output: Path | None
    terms: dict[str, float | None]
    unit: Unit | None
    target: tuple[str | dict[str, str], int] | None
    about: Sequence[str] = ()
    bounds: Mapping[Hashable, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Input, given: Mapping[str, Any], **own: Any) -> Self:
        """Return what options say; nothing is read."""
        check_output(given["output"], file)
        return cls(
            file=file, where=given["where"], by=given.get("by") or (), keys=given.get("keys"),
            output=given["output"],
            terms={name: given[name] for name in TERMS if name in given},
            unit=unit_of(given["unit"], given["max_rows"], given["max_groups"]),
            target=_target(given), **own,
        )  # fmt: skip

    @property
    def keyed(self) -> Sequence[str]:
        """The columns that keys are of."""
        return self.about or self.by

    @property
    def private(self) -> Private[Any]:
        """The file, with the unit that is protected."""
        return Private(rows_of(self.file, self.where))(unit=self.unit, bounds=self.bounds)

    @property
    def given(self) -> dict[str, Any]:
        """The terms that are given."""
        return {name: value for name, value in self.terms.items() if value is not None}

    def frame(self, keys: object) -> Any:
        """Return the file, by group where there are groups."""
        keys = None if self.about else keys
        return self.private.group_by(*self.by, keys=keys) if self.by else self.private

    def explained(self, ask: Ask) -> Explanation:
        """Return the explanation; no row is read. Of keys only their number matters."""
        rows = split_keys(self.keyed, self.keys) if self.keys else []
        keys = [row[0] if len(row) == 1 else row for row in rows] or None
        explain = self.frame(keys).explain
        if self.target is not None:
            explain = explain.within(self.target[0], size=self.target[1])
        explained: Explanation = ask(explain, keys, self.given)
        return explained

    def settled(self, ask: Ask) -> Self:
        """Return the call at the least epsilon that reaches its half-width."""
        if self.target is None:
            return self
        epsilon = self.explained(ask).epsilon
        return replace(self, terms={**self.terms, "epsilon": epsilon}, target=None)

    def answers(self, ask: Ask) -> Any:
        """Release the answers."""
        keys = typed_keys(self.file, self.keyed, self.keys) if self.keys else None
        return ask(self.frame(keys), keys, self.given)

    @property
    def spent(self) -> str:
        """What the call has cost, in words."""
        epsilon, rho, delta = (self.terms.get(name) for name in ("epsilon", "rho", "delta"))
        loss = f"rho {short(rho)}" if rho is not None else f"epsilon {short(epsilon or EPSILON)}"
        if delta is None or not self.keyed or self.keys:
            return f"Spent {loss}"
        return f"Spent {loss}, delta {short(delta)}"


def _target(given: Mapping[str, Any]) -> tuple[str | dict[str, str], int] | None:
    """Return the half-width that --within names, or some by answer, and their size."""
    if given.get("within") is None:
        if given.get("size") is not None:
            raise InvalidQuestionError(
                "--size says for which group --within is, and there is none",
                hint="add --within 2%, or leave --size out",
            )
        return None
    if given["epsilon"] is not None or given["rho"] is not None:
        raise InvalidQuestionError(
            "--within and a loss were both given: one says what the other is to be",
            hint="leave --epsilon and --rho out",
        )
    within = given["within"]
    if "=" in within:
        within = dict(own.strip().rsplit("=", 1) for own in within.split(",") if "=" in own)
    return within, SIZE if given["size"] is None else given["size"]


@dataclass(frozen=True, kw_only=True)
class Call(Request):
    """One question, or with `table` one about its cells; `long` shows these one row a cell."""

    question: Asked
    table: Crosstab | None = None
    long: bool = False

    @property
    def mechanism(self) -> str:
        """What makes the answers private, as `--explain` has it."""
        answers = self.explained(self.ask).answers
        return ", ".join(dict.fromkeys(own.mechanism for own in answers))

    @property
    def name(self) -> str:
        """What the answer is called: its column, with the question where that name is taken."""
        own = self.question
        assert isinstance(own, Statistic)  # noqa: S101 a histogram has columns of its own
        taken = [*self.by, *self.terms, *(_TAKEN if own.columns else ())]
        return own.full_name if own.name in taken else own.name

    def ask(self, frame: Any, keys: object, given: dict[str, Any]) -> Any:
        """Ask a frame, or a frame by group; `keys` are those of a table."""
        question, table = self.question, self.table
        if table is not None:
            return frame.crosstab(
                *table.by, question, keys=keys, margins=table.margins,
                rounded=table.rounded, nonnegative=table.nonnegative, **given,
            )  # fmt: skip
        if isinstance(question, Histogram):
            return frame.histogram(question.column, question.bins, question.bounds, **given)
        return frame.agg(**{self.name: question}, **given)


def release(call: Call) -> None:
    """Release the answer, then print it or write it."""
    call = call.settled(call.ask)
    if call.keys:
        split_keys(call.keyed, call.keys)  # refuses them where there are no groups
    law, answers, found = call.mechanism, call.answers(call.ask), ""
    if call.long:
        answers = released(answers).long()
    elif not call.keyed and isinstance(call.question, Statistic):
        answers, found = _table(call, answers), _found(call, answers)
    console = Console()
    if call.output is not None:
        write_table(answers, call.output)
        size = "1 row" if answers.num_rows == 1 else f"{answers.num_rows:,} rows"
        show_line(console, f"Wrote {size} to {call.output}. {call.spent}")
    else:
        heading = title(call.question, call.keyed, call.terms.get("interval"))
        shares = (call.name, *_ENDS) if isinstance(call.question, Share) else ()
        shown = answers
        if isinstance(call.question, Histogram):  # ends of intervals of counts are whole numbers
            ends = [answers[name].cast(pa.int64()) for name in _ENDS]
            shown = pa.table([*answers.columns[:-2], *ends], names=answers.column_names)
        show_table(console, shown, _keys(call), heading, shares)
        made = f"{call.spent}; {law}{found}"
        whose = "a row" if call.unit is None else f"all rows of one {call.unit.column}"
        show_line(console, f"{made}; neighbours: add/remove {whose}")
    if has_unknowns(answers, _keys(call)):
        show_line(console, UNKNOWN)


def _keys(call: Call) -> int:
    """Return how many columns of the table say what the others are about."""
    alone = int(isinstance(call.question, Quantiles))
    return 1 if call.table is not None and not call.long else len(call.keyed) or alone


def _table(call: Call, answers: dict[str, Any]) -> pa.Table:
    """Return one row with all answers; of several quantiles, one row each."""
    if isinstance(call.question, Quantiles):
        values = [float(own) if isinstance(own, float) else own for own in answers.values()]
        return pa.table({"quantile": list(call.question.qs), call.name: values})
    columns: dict[str, Any] = {}
    kinds: dict[str, pa.DataType] = {}
    for name, answer in answers.items():
        if not isinstance(answer, float):  # a date or time, or none
            columns[name] = answer
            told = getattr(call.question, "tells_interval", False)
            columns |= {end: getattr(answer, end, None) for end in _ENDS if told}
            continue
        columns[name] = int(answer) if getattr(call.question, "is_whole", False) else float(answer)
        if isinstance(answer, Estimate):
            columns |= {"low": answer.low, "high": answer.high}
            if getattr(call.question, "has_note", False):
                columns[NOTE] = answer.note
                kinds[NOTE] = pa.string()
    return pa.table({name: pa.array([value], kinds.get(name)) for name, value in columns.items()})


def _found(call: Call, answers: dict[str, Any]) -> str:
    """Return the bounds that were found, in brackets."""
    lacks = getattr(call.question, "bounds", call.question) is None
    for answer in answers.values() if lacks else ():
        if isinstance(answer, Estimate) and answer.bounds is not None:
            return f" ({answer.bounds.lower:.6g} to {answer.bounds.upper:.6g})"
    return ""


def input_of(file: Path, arguments: dict[str, Any]) -> Input:
    """Return a file with the form of its text, whose options are taken out of the arguments."""
    form = form_of(arguments)
    return TextFile(file, **form) if form else file


def form_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the form of text that options name, and take them out."""
    form = {name: arguments.pop(name) for name in FORM}
    if form["delimiter"] == "\\t":  # as it is typed in a shell
        form["delimiter"] = "\t"
    return {name: value for name, value in form.items() if value is not None and value is not False}


def rows_of(file: Input, where: str | None) -> Any:
    """Return what is asked: a file, or its rows for which a condition holds."""
    if where is None:
        return file
    from dfprivacy.statements.jobs import filtered  # noqa: PLC0415 on first use

    return filtered(file, where)


def typed_keys(file: Input, by: Sequence[str], keys: Sequence[str]) -> list[object]:
    """Return keys in the declared types of their columns; with several columns, split at commas."""
    rows = split_keys(by, keys)
    schema = file_columns(file)
    declared = [schema.field(n).type if n in schema.names else pa.string() for n in by]
    texts = zip(*rows, strict=True)
    columns = list(map(typed_column, by, texts, declared))
    return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))


def typed_value(file: Input, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a question with its constant in the declared type of its column."""
    column, text = asked["column"], asked["value"]
    schema = file_columns(file)
    if column not in schema.names:
        return dict(asked)  # the release says so
    (value,) = typed_column(column, [text], schema.field(column).type)
    return {**asked, "value": value}


def split_keys(by: Sequence[str], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Return keys as they were typed; with several columns, each split at commas."""
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


def show_explanation(explanation: Explanation) -> None:
    """Print an explanation, line by line."""
    console = Console()
    for line in repr(explanation).splitlines():
        show_line(console, line)


def title(asked: Asked, by: Sequence[str], interval: object) -> str:
    """Return what a table holds."""
    of = f" of {' and '.join(map(str, asked.columns))}" if asked.columns else ""
    groups = f" by {', '.join(by)}" if by else ""
    level = ""
    if asked.tells_interval and getattr(asked, "method", "") != "inverse":
        own, sampled = interval_of(interval)
        level = f", {100 * own:.6g}% intervals{' of the population' if sampled else ''}"
    needed = [own.name for own in asked.arguments() if own.required and own.form == "number"]
    which = ", ".join(f"{name} = {getattr(asked, name):g}" for name in needed)
    return f"Private {asked.kind}{which and f' ({which})'}{of}{groups}{level}"


def file_columns(path: Input | Snapshot) -> pa.Schema:
    """Return the declared columns of a file or table; no row is read."""
    return guarded(lambda: declared(open_source(path)))
