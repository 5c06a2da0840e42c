"""Make one release of what options say: explain it, print its answers, or write them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from dfprivacy.accounting.charge import short
from dfprivacy.cli.output import (
    ENDS,
    UNKNOWN,
    check_output,
    has_unknowns,
    named_answers,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.cli.rows import column_types, open_rows, typed_column
from dfprivacy.cli.sources import File, Source
from dfprivacy.cli.specs import Goal, Loss, ReleaseSpec, UnitSpec
from dfprivacy.engine.text_files import FORM
from dfprivacy.errors import InvalidKeysError, InvalidQuestionError
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.describing import Describe
from dfprivacy.frames.estimates import Estimate
from dfprivacy.frames.explanation import SIZE
from dfprivacy.frames.frequencies import Frequencies
from dfprivacy.frames.released import released
from dfprivacy.frames.viz.pictures import show
from dfprivacy.release.plan import NOTE
from dfprivacy.release.terms import INTERVAL
from dfprivacy.statistics import Quantiles, Share
from dfprivacy.statistics.base import Question
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.regression import Regression

_COLUMNS_OF_ANSWERS = (*ENDS, NOTE, "count", "quantile")


def source_of(file: Path, values: Mapping[str, Any]) -> Source:
    """Return a file of rows with the form of its text."""
    return Source(file=File(str(file), file), **text_form(values))


def text_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of text that options name."""
    form = {name: values[name] for name in FORM}
    if form["delimiter"] == "\\t":  # as it is typed in a shell
        form["delimiter"] = "\t"
    return form


def unit_spec(values: Mapping[str, Any]) -> UnitSpec | None:
    """Return the unit that options name, with its limits."""
    limits = {name: values[name] for name in ("max_rows", "max_groups")}
    unit = UnitSpec(column=values["unit"], **limits)
    return None if unit == UnitSpec() else unit


def spec_of(
    file: Path,
    values: Mapping[str, Any],
    questions: Mapping[str, Question],
    *,
    by: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> ReleaseSpec:
    """Return the release of questions that options describe; nothing is read.

    Keys are of the columns of `by`, and of the column whose values are counted.
    """
    check_output(values["output"], file)
    by = tuple(values.get("by") or () if by is None else by)
    counted = [str(q.column) for q in questions.values() if isinstance(q, Frequencies)]
    keys = values.get("keys")
    return ReleaseSpec(
        source=source_of(file, values),
        where=values["where"],
        by=by,
        keys=split_keys([*by, *counted], keys) if keys else None,
        questions=dict(questions),
        unit=unit_spec(values),
        bounds=dict(bounds or {}),
        interval=values.get("interval", INTERVAL),
        population=values.get("population", False),
        budget=_loss_of(values),
    )


def _loss_of(values: Mapping[str, Any]) -> Loss:
    """Return the loss that options name, or the half-width that it has to reach."""
    within, size = values["within"], values["size"]
    if within is None and size is not None:
        raise InvalidQuestionError(
            "--size says for which group --within is, and there is none",
            hint="add --within 2%, or leave --size out",
        )
    if within is None:
        return Loss(epsilon=values["epsilon"], rho=values["rho"], delta=values["delta"])
    if values["epsilon"] is not None or values["rho"] is not None:
        raise InvalidQuestionError(
            "--within and a loss were both given: one says what the other is to be",
            hint="leave --epsilon and --rho out",
        )
    if "=" in within:
        within = dict(part.strip().rsplit("=", 1) for part in within.split(",") if "=" in part)
    return Loss(
        epsilon=Goal(within=within, size=SIZE if size is None else size), delta=values["delta"]
    )


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


def answer(spec: ReleaseSpec, values: Mapping[str, Any]) -> None:
    """Explain a release, or make it, then print the answers or write them."""
    if values["explain"]:
        if spec.where is not None:
            with open_rows(spec.source, spec.where):  # refuses a condition
                pass
        show_lines(spec.explain())
        return
    terms, mechanism = spec.terms, _mechanism(spec)
    answers = spec.release(terms)
    output, console = values["output"], Console()
    spent = _spent(spec)
    alone = next(iter(spec.questions.values())) if len(spec.questions) == 1 else None
    if values.get("long"):
        answers = released(answers).long()
    if isinstance(answers, dict) and alone is not None:
        mechanism += _bounds_found(alone, answers)
        answers = _one_row(next(iter(spec.questions)), alone, answers)
    if output is not None:
        answers = named_answers(answers)
        write_table(answers, output)
        rows = "1 row" if answers.num_rows == 1 else f"{answers.num_rows:,} rows"
        show_line(console, f"Wrote {rows} to {output}. {spent}")
    elif isinstance(answers, dict) or isinstance(alone, Describe):
        show_lines(show(answers))
    else:
        _show_answers(spec, alone, answers, _keys_shown(spec, alone, values))
    if output is None and not isinstance(alone, Describe):
        unit = spec.privacy_unit
        whose = "a row" if unit is None else f"all rows of one {unit.column}"
        show_line(console, f"{spent}; {mechanism}; neighbors: add/remove {whose}")
    if isinstance(answers, pa.Table) and has_unknowns(answers, _keys_shown(spec, alone, values)):
        show_line(console, UNKNOWN)


def _mechanism(spec: ReleaseSpec) -> str:
    """Return the names of the noise, or nothing for a description, whose page has them."""
    if spec.described is not None:
        return ""
    return ", ".join(dict.fromkeys(answer.mechanism for answer in spec.explain().answers))


def _spent(spec: ReleaseSpec) -> str:
    """Return the cost of a release in words."""
    terms: Any = spec.terms
    loss = f"rho {short(terms.rho)}" if terms.rho is not None else f"epsilon {short(terms.epsilon)}"
    if terms.delta is None or spec.keys is not None or not (spec.by or spec.described):
        return f"Spent {loss}"
    return f"Spent {loss}, delta {short(terms.delta)}"


def _keys_shown(spec: ReleaseSpec, alone: Question | None, values: Mapping[str, Any]) -> int:
    """Return the number of columns that identify a row of the table that is shown."""
    if isinstance(alone, Crosstab) and not values.get("long"):
        return 1
    return len(spec.by) or int(isinstance(alone, Quantiles | Regression))


def _show_answers(spec: ReleaseSpec, alone: Question | None, answers: pa.Table, keys: int) -> None:
    """Print a table of answers under its title; shares are percentages."""
    shares = [
        f"{name}{end}"
        for name, question in spec.questions.items()
        for end in ("", "_low", "_high")
        if isinstance(question, Share)
    ]
    if isinstance(alone, Histogram):  # ends of intervals of counts are whole numbers
        ends = [answers[name].cast(pa.int64()) for name in ENDS]
        answers = pa.table([*answers.columns[:-2], *ends], names=answers.column_names)
    if isinstance(alone, Share):
        shares += ENDS
    show_table(Console(), answers, keys, _title(spec, alone), shares)


def _title(spec: ReleaseSpec, alone: Question | None) -> str:
    """Return the title of a table of answers."""
    by = spec.by
    if alone is None:
        return f"Private answers by {', '.join(by)}"
    kind, columns = alone.kind.replace("_", " "), getattr(alone, "columns", ())
    if isinstance(alone, Frequencies):
        by = by[:-1]
    if isinstance(alone, Crosstab):
        kind, columns = alone.question.kind, alone.question.columns
    of = f" of {' and '.join(map(str, columns))}" if columns else ""
    groups = f" by {', '.join(by)}" if by else ""
    level = ""
    if alone.tells_interval and getattr(alone, "method", "") != "inverse":
        whose = " of the population" if spec.population else ""
        level = f", {100 * spec.interval:.6g}% intervals{whose}"
    needed = [
        argument.name
        for argument in alone.arguments()
        if argument.required and argument.form == "number"
    ]
    which = ", ".join(f"{name} = {getattr(alone, name):g}" for name in needed)
    return f"Private {kind}{which and f' ({which})'}{of}{groups}{level}"


def name_of(question: Any, by: Sequence[str]) -> str:
    """Return the name of an answer: its column, with the question where that name is taken."""
    reserved = [*by, *(_COLUMNS_OF_ANSWERS if question.columns else ())]
    return str(question.full_name if question.name in reserved else question.name)


def _one_row(name: str, question: Any, answers: Mapping[str, Any]) -> pa.Table:
    """Return one row with all answers to a question; of several quantiles, one row each."""
    if isinstance(question, Quantiles):
        values = [
            float(number) if isinstance(number, float) else number for number in answers.values()
        ]
        return pa.table({"quantile": list(question.qs), name: values})
    columns: dict[str, Any] = {}
    for title, number in answers.items():
        if isinstance(number, float):
            columns[title] = int(number) if question.is_whole else float(number)
        else:  # a date or time, or none
            columns[title] = number
        is_estimate = isinstance(number, Estimate) and number.has_interval
        if is_estimate or (not isinstance(number, float) and question.tells_interval):
            columns |= {end: getattr(number, end, None) for end in ENDS}
        if isinstance(number, Estimate) and question.has_note:
            columns[NOTE] = pa.scalar(number.note, pa.string())
    return pa.table({title: pa.array([value]) for title, value in columns.items()})


def _bounds_found(question: Any, answers: Mapping[str, Any]) -> str:
    """Return the bounds that were found, in brackets."""
    lacks = getattr(question, "bounds", question) is None
    for number in answers.values() if lacks else ():
        if isinstance(number, Estimate) and number.bounds is not None:
            return f" ({number.bounds.lower:.6g} to {number.bounds.upper:.6g})"
    return ""


def typed_value(source: Source, column: str, text: str) -> Any:
    """Return a constant in the declared type of its column."""
    (value,) = typed_column(column, [text], column_types(source).get(column, pa.string()))
    return value


def show_lines(page: object) -> None:
    """Print a page of text, line by line."""
    console = Console()
    for line in repr(page).splitlines():
        show_line(console, line)
