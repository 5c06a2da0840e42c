"""Ask questions, find limits, answer SQL, write and merge files of statistics.

Each question is a command: its options are the arguments of its class.
"""

from __future__ import annotations

import csv
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console

from dfprivacy.cli.ledger import session
from dfprivacy.cli.options import (
    SHARED,
    Command,
    argument_option,
    name_flag,
    option,
    options,
    read_fields,
    read_named_values,
    with_options,
)
from dfprivacy.cli.output import (
    ENDS,
    answers_table,
    check_output,
    print_answers,
    show_line,
    show_lines,
    write_table,
)
from dfprivacy.cli.specs import (
    NOT_FOR_QUERIES,
    File,
    Goal,
    Loss,
    ReleaseSpec,
    Source,
    UnitSpec,
    build_histogram,
    column_types,
    type_column,
)
from dfprivacy.engine.returning import write_csv
from dfprivacy.engine.text_files import FORM
from dfprivacy.errors import (
    InvalidKeysError,
    InvalidQuestionError,
    OutputError,
    ReleasedQueryError,
    log_note,
)
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.explanation import SIZE
from dfprivacy.frames.frequencies import Frequencies
from dfprivacy.frames.released import released
from dfprivacy.frames.releasing import questions_by_name
from dfprivacy.frames.tables import find_origin
from dfprivacy.frames.viz.pictures import show
from dfprivacy.release.plan import NOTE
from dfprivacy.release.terms import Terms
from dfprivacy.statistics import STATISTICS, Argument, Statistic
from dfprivacy.statistics.base import QUESTIONS, Question
from dfprivacy.statistics.histogram import Histogram

_EXAMPLES = {
    "histogram": "histogram flights.csv delay --bins 10 --bounds -60 240",
    "crosstab": "crosstab flights.csv carrier month --margins --delta 1e-6",
    "value_counts": "value_counts flights.csv carrier --delta 1e-6",
    "top": "top flights.csv carrier --delta 1e-6",
    "mode": "mode flights.csv carrier --delta 1e-6",
    "describe": "describe flights.parquet --bounds delay=-60,240 --rho 0.5 --delta 1e-6",
    "regression": "regression flights.csv delay distance --bounds delay=-60,240 "
    "--bounds distance=0,5000",
}
"""The questions that frames alone are asked, each with an example."""

_BINS = options("""
    COLUMN (text): The column of numbers.
    --bins (whole): The number of equal bins. Or name each --edge.
    --bounds LOW HIGH (pair): Where the first of --bins begins and the last one ends; values beyond
        are not counted. Estimated privately when left out.
    --edge X (numbers): Where a bin begins or ends; repeat, in ascending order.
    """)
_READ_AS = options("""
    --rounded (flag): Show whole numbers that add up.
    --long (flag): Show one row a cell, with the ends of intervals.
    """)
_BOUNDS = options("""
    --bounds COLUMN=LOW,HIGH (texts): Bounds of a column, e.g. delay=-60,240. Estimated privately
        when left out.
    """)


def add_commands(app: typer.Typer) -> None:
    """Add a command for each question that has none."""
    named = {command.name for command in app.registered_commands}
    for name, statistic in STATISTICS.items():
        if name not in named:
            arguments = map(argument_option, statistic.arguments())
            command = _command(statistic, arguments, _help(statistic))
            is_ours = statistic.__module__.startswith("dfprivacy.statistics.")
            app.command(name, rich_help_panel=None if is_ours else "Other statistics")(command)
    for name, example in _EXAMPLES.items():
        if name not in named:
            app.command(name)(_frame_command(QUESTIONS[name], example))


def _frame_command(kind: type[Question], example: str) -> Command:
    """Return the command of a question that frames alone are asked."""
    name, declared = kind.kind, kind.arguments()
    without = {"crosstab": {"by"}, "describe": {"by", "keys"}}.get(name, set())
    if name == "crosstab":
        named = [a for a in declared if a.name not in {"keys", "rounded"}]
        arguments = [*map(argument_option, named), *_READ_AS]
    else:
        named = [a for a in declared if a.type.job_field is not None and a.form != "bounds"]
        arguments = [*_BINS] if name == "histogram" else [*map(argument_option, named)]
    if name in {"describe", "regression"}:
        arguments += _BOUNDS
    purpose = (kind.__doc__ or "").partition("\n")[0].replace("`", "")
    return _command(kind, arguments, (purpose, example), without)


def _help(kind: type[Statistic]) -> tuple[str, str]:
    """Return the purpose of a command, and an example of it."""
    columns = ["delay", "distance"][: len(kind.places())] if kind.arguments()[0].required else []
    words, ends = [kind.kind, "flights.csv", *columns], iter(("-60 240", "0 5000"))
    forms = {argument.form for argument in kind.arguments()}
    for argument in kind.arguments():
        flag = name_flag(argument)
        if argument.form == "bounds" and "numbers" not in forms:  # one line has to do
            words.append(f"{flag} {next(ends)}")
        elif argument.required and argument.form != "column":
            samples = argument.sample if argument.form == "numbers" else [argument.sample]
            words += [f"{flag} {value}" for value in samples]
    return f"Release {kind.title}.", " ".join(words)


def _command(
    kind: type[Any],
    arguments: Iterable[inspect.Parameter],
    help_: tuple[str, str],
    without: Iterable[str] = (),
) -> Command:
    """Return the command of a question, with the options that every question has."""
    parameters = {parameter.name: parameter for parameter in arguments}

    def run(file: Path, **values: Any) -> None:
        with session(values):
            chosen = {name: values[name] for name in parameters if values[name] is not None}
            source, name, by, bounds = build_source(file, values), "count", values.get("by"), {}
            if isinstance(chosen.get("bounds"), list):  # of several columns by name
                bounds = _bounds(chosen.pop("bounds"))
            if "value" in chosen and not values["explain"]:
                chosen["value"] = type_value(source, chosen["column"], chosen["value"])
            if kind is Histogram:
                question: Any = build_histogram(edges=chosen.pop("edge", None), **chosen)
            elif kind is Crosstab:
                by, is_rounded = [chosen["index"], chosen["columns"]], chosen["rounded"]
                del chosen["long"], chosen["rounded"]
                question = Crosstab(**chosen, rounded="integer" if is_rounded else None)
            else:
                question = kind(**chosen)
            if isinstance(question, Statistic):  # by its column, unless that name is taken
                names = [*(by or ()), *(_COLUMNS_OF_ANSWERS if question.columns else ())]
                name = str(question.full_name if question.name in names else question.name)
            answer(build_spec(source, values, {name: question}, by, bounds), values)

    run.__doc__, example = help_
    hidden = {*without, *([] if kind.has_interval else ["interval", "population"])}
    names = [name for name in SHARED if name not in hidden]
    return with_options(*names, special=parameters.values(), example=example)(run)


_COLUMNS_OF_ANSWERS = (*ENDS, NOTE, "count", "quantile")


def _list_needed_arguments(kind: type[Statistic]) -> list[Argument]:
    """Return the arguments besides columns that a question can't do without."""
    return [a for a in kind.arguments() if a.required and a.form != "column"]


def _question_option(kind: type[Statistic]) -> inspect.Parameter:
    """Return the option that asks a question: a column, with =numbers where it needs some."""
    needed = _list_needed_arguments(kind)
    flag = "--bounds-of" if kind.kind == "bounds" else f"--{kind.kind.replace('_', '-')}"
    name = f"ask_{kind.kind}"
    if not kind.arguments()[0].required:
        return option(name, bool, "Ask for the number of rows.", None, flag)
    places = kind.places()
    metavar = "COLUMN" if len(places) < 2 else ",".join(map(str.upper, places))
    metavar += f"={','.join(argument.name.upper() for argument in needed)}" if needed else ""
    metavar += "[=VALUE]" if any(argument.form == "value" for argument in kind.arguments()) else ""
    return option(name, list[str], f"Ask for {kind.title}. Repeat for several.", metavar, flag)


def _question(kind: type[Statistic], text: str, source: Source) -> Statistic:
    needed = _list_needed_arguments(kind)
    arguments: dict[str, Any] = {}
    if "=" in text and any(argument.form == "value" for argument in kind.arguments()):
        text, _, value = text.partition("=")
        arguments["value"] = type_value(source, text, value)
    elif needed:
        text, _, numbers = text.rpartition("=")
        is_list = needed[0].form == "numbers"
        parts = _numbers(kind.kind, numbers, None if is_list else len(needed))
        parsed = [parts] if is_list else parts
        arguments = {argument.name: part for argument, part in zip(needed, parsed, strict=True)}
    places = kind.places()
    columns = [text] if len(places) == 1 else next(csv.reader([text]), [])
    if len(columns) != len(places):
        raise InvalidQuestionError(
            f"--{kind.kind} names {len(places)} columns",
            hint=f"write it like --{kind.kind} delay,distance",
        )
    return kind(*columns, **arguments)


def _bounds(options: Iterable[str] | None) -> dict[Any, tuple[float, float]]:
    """Return the bounds that options name, by column."""
    bounds = {}
    for column, _, ends in (text.rpartition("=") for text in options or ()):
        lower, upper = _numbers("bounds", ends, 2)
        bounds[column] = lower, upper
    return bounds


def _numbers(option: str, text: str, count: int | None) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count):
        numbers_text = "numbers" if count is None else f"{count} number{'s' * (count > 1)}"
        example = "delay=0.9" if count == 1 else "delay=-60,240"
        raise InvalidQuestionError(
            f"--{option} names a column and {numbers_text}",
            hint=f"write it like --{option} {example}",
        )
    return numbers


@with_options(
    *SHARED,
    special=(*_BOUNDS, *map(_question_option, STATISTICS.values())),
    example="agg flights.csv --count --mean delay --bounds delay=-60,240",
)
def agg(file: Path, *, bounds: list[str] | None, **values: Any) -> None:
    """Answer several questions under one epsilon."""
    with session(values):
        ends, source, questions = _bounds(bounds), build_source(file, values), list[Statistic]()
        for kind, statistic in STATISTICS.items():
            texts = values.get(f"ask_{kind}") or ()
            if texts is True:
                questions.append(statistic())
            else:
                questions += [_question(statistic, text, source) for text in texts]
        named = questions_by_name(questions, {}, Terms(bounds={**ends}))
        answer(build_spec(source, values, named, values["by"], ends), values)


@with_options(
    *(name for name in SHARED if name not in {"file", *NOT_FOR_QUERIES}),
    special=options("""
        QUERY (text): One statement of dfp.sql.
        --table NAME=FILE (texts): A .csv, .tsv or .parquet file that the statement calls NAME;
            repeat for each.
        --database FILE (path): A DuckDB file, which is opened for reading only.
        --schema FILE (path): Who is protected in several tables: a .yml file of unit, links,
            public, bounds.
        --intervals (flag): Show the interval behind each answer.
        """),
    example='sql "SELECT carrier, dp_mean(delay, -60, 240) FROM flights GROUP BY carrier"\n'
    "--table flights=flights.csv --delta 1e-6",
)
def sql(query: str, *, table: list[str] | None, database: Path | None, **values: Any) -> None:
    """Answer one SQL statement privately."""
    with session(values):
        refusal = InvalidQuestionError(
            "a statement reads files that --table names, each under a name of its own, or one "
            "--database",
            hint="write --table flights=flights.csv, or --database flights.duckdb",
        )
        tables = read_named_values(table or [], refusal)
        if bool(tables) == (database is not None):
            raise refusal
        files: Any = {name: File.of(file) for name, file in tables.items()}
        named = {"database": File.of(database), "schema": File.of(values["schema"])}
        source = build_source(None, values, query=query, tables=files or None, **named)
        keys = [tuple(row) for row in csv.reader(values["keys"])] if values["keys"] else None
        answer(_build_release(source, keys, values, intervals=values["intervals"]), values)


def build_source(file: Path | None, values: Mapping[str, Any], **fields: Any) -> Source:
    """Return a file of rows, or a source with other fields, in the form of text of the options."""
    form = {name: values[name] for name in FORM}
    if form["delimiter"] == "\\t":  # as it is typed in a shell
        form["delimiter"] = "\t"
    return Source(file=File.of(file), **fields, **form)


def build_spec(
    source: Source,
    values: Mapping[str, Any],
    questions: Mapping[str, Question],
    by: Sequence[str] | None,
    bounds: Mapping[str, tuple[float, float]],
) -> ReleaseSpec:
    """Return the release of questions that options describe; nothing is read.

    Keys are of the columns of `by`, and of the column whose values are counted.
    """
    by, keys = tuple(by or ()), values.get("keys")
    counted = [str(q.column) for q in questions.values() if isinstance(q, Frequencies)]
    keys = split_keys([*by, *counted], keys) if keys else None
    fields: dict[str, Any] = {"by": by, "questions": dict(questions), "bounds": dict(bounds)}
    return _build_release(source, keys, values, **fields)


def _build_release(
    source: Source, keys: Sequence[object] | None, values: Mapping[str, Any], **fields: Any
) -> ReleaseSpec:
    """Return a release with the unit, the interval and the loss that options name."""
    for path in source.paths:
        check_output(values["output"], path)
    unit = UnitSpec(column=values["unit"], **read_fields(UnitSpec, values))
    fields = read_fields(ReleaseSpec, values) | {"source": source, "unit": unit} | fields
    return ReleaseSpec(**fields | {"keys": keys, "budget": _read_loss(values)})


def _read_loss(values: Mapping[str, Any]) -> Loss:
    """Return the loss that options name, or the half-width that it has to reach."""
    within, size, rho = (values.get(name) for name in ("within", "size", "rho"))
    if within is None and size is not None:
        raise InvalidQuestionError(
            "--size says for which group --within is, and there is none",
            hint="add --within 2%, or leave --size out",
        )
    if within is None:
        return Loss(**read_fields(Loss, values))
    if values["epsilon"] is not None or rho is not None:
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
    """Return keys as they were typed; with several columns, each split at commas.

    Keys of one column that have a comma get a note: they may have been meant as several.
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
    for key in keys if len(by) == 1 else ():
        if "," in key:
            options = " ".join(f"--keys {part.strip()}" for part in key.split(","))
            log_note(f"{key!r} is a single key; several are written {options}")
    return rows


def answer(spec: ReleaseSpec, values: Mapping[str, Any]) -> None:
    """Explain a release, or make it, then print the answers or write them.

    Answers are paid for: those that can't be written are printed.
    """
    if values["explain"]:
        show_lines(Console(), spec.explain())
        return
    output = values["output"]
    try:
        answers = spec.release(spec.terms)
    except ReleasedQueryError as error:
        print_answers(error)
    if spec.source.query is None and spec.described is None:
        unit = spec.privacy_unit
        whose = "a row" if unit is None else f"all rows of one {unit.column}"
        spent = f"Spent {spec.plan.charge.text()}; neighbors: add/remove {whose}"
    else:
        origin = find_origin(answers)
        spent = f"Spent {origin.cost.replace('=', ' ')}" if origin is not None else ""
    if values.get("long"):
        answers = released(answers).long()
    if output is not None:
        table = answers_table(answers)
        try:
            write_table(table, output)
        except OutputError as error:
            write_csv(table, sys.stdout)
            hint = f"the answers are paid for, and printed as CSV instead. {spent}"
            raise OutputError(error.message, hint=hint) from None
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        show_line(Console(), f"Wrote {rows} to {output}. {spent}")
        return
    if isinstance(answers, pa.Table):
        show_lines(Console(), show(answers))
    else:
        for name, number in answers.items():
            show_line(Console(), f"{name} unknown" if number is None else repr(number))
    if spec.described is None:  # whose page says so
        show_line(Console(), spent)


def type_value(source: Source, column: str, text: str) -> Any:
    """Return a constant in the declared type of its column."""
    (value,) = type_column(column, [text], column_types(source).get(column, pa.string()))
    return value
