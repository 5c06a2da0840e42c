"""Make one release of what options say: explain it, print its answers, or write them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from dfprivacy.cli.output import (
    answers_table,
    check_output,
    cost,
    show_answers,
    show_line,
    show_lines,
    write_table,
)
from dfprivacy.cli.rows import column_types, open_rows, typed_column
from dfprivacy.cli.sources import File, Source
from dfprivacy.cli.specs import Goal, Loss, ReleaseSpec, UnitSpec
from dfprivacy.engine.text_files import FORM
from dfprivacy.errors import InvalidKeysError, InvalidQuestionError
from dfprivacy.frames.explanation import SIZE
from dfprivacy.frames.frequencies import Frequencies
from dfprivacy.frames.released import released
from dfprivacy.frames.tables import find_origin
from dfprivacy.release.terms import INTERVAL
from dfprivacy.statistics.base import Question


def source_of(file: Path, values: Mapping[str, Any]) -> Source:
    """Return a file of rows with the form of its text."""
    return Source(file=File(str(file), file), **text_form(values))


def text_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of text that options name."""
    form = {name: values[name] for name in FORM}
    if form["delimiter"] == "\\t":  # as it is typed in a shell
        form["delimiter"] = "\t"
    return form


def unit_spec(values: Mapping[str, Any]) -> UnitSpec:
    """Return the unit that options name, with its limits."""
    limits = {name: values[name] for name in ("max_rows", "max_groups")}
    return UnitSpec(column=values["unit"], **limits)


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
            with open_rows(spec.source, spec.where):
                pass  # refuses a condition
        show_lines(Console(), spec.explain())
        return
    unit, is_description = spec.privacy_unit, spec.described is not None
    whose = "a row" if unit is None else f"all rows of one {unit.column}"
    spent = (
        "" if is_description else f"Spent {cost(spec.plan.charge)}; neighbors: add/remove {whose}"
    )
    answers, output, console = spec.release(spec.terms), values["output"], Console()
    if is_description and (origin := find_origin(answers)):
        spent = f"Spent {origin.cost.replace('=', ' ')}"
    if values.get("long"):
        answers = released(answers).long()
    if output is not None:
        table = answers_table(answers)
        write_table(table, output)
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        show_line(console, f"Wrote {rows} to {output}. {spent}")
        return
    show_answers(console, answers)
    if not is_description:  # whose page says so
        show_line(console, spent)


def typed_value(source: Source, column: str, text: str) -> Any:
    """Return a constant in the declared type of its column."""
    (value,) = typed_column(column, [text], column_types(source).get(column, pa.string()))
    return value
