"""Ask questions, find limits, write and merge files of statistics, run descriptions.

Each question is a command: its options are the arguments of its class.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer
from rich.console import Console

from dfprivacy.cli.asking import (
    Ask,
    Asked,
    Call,
    Input,
    Request,
    form_of,
    input_of,
    release,
    rows_of,
    show_explanation,
    typed_keys,
    typed_value,
)
from dfprivacy.cli.ledger import charged, session
from dfprivacy.cli.options import SHARED, Command, option, options, place, with_options
from dfprivacy.cli.output import (
    INTERRUPTED,
    answers_table,
    check_output,
    hint_of,
    plain,
    readable_errors,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.cli.run_log import LogFormat, RunLog
from dfprivacy.engine.embedded import in_checked_zone
from dfprivacy.engine.progress import hide_progress
from dfprivacy.engine.text_files import FORM, TextFile, with_form
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    EngineSpaceError,
    InvalidBoundsError,
    InvalidDescriptionError,
    InvalidKeysError,
    InvalidQuestionError,
    LedgerFileError,
    published,
)
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.forecasting import explain_limits
from dfprivacy.frames.limits import goal_of, suggest_limits
from dfprivacy.frames.merging import files_of, merge, statistics
from dfprivacy.frames.tables import find_origin
from dfprivacy.frames.viz.pictures import show
from dfprivacy.release.terms import EPSILON as LOSS
from dfprivacy.statements.interface import connect
from dfprivacy.statistics import STATISTICS, Argument, Statistic
from dfprivacy.statistics.base import QUESTIONS
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.quantile import end_of

if TYPE_CHECKING:
    from dfprivacy.cli.running import Done

_TEXTS = list[str]

_OF_FRAMES = {
    "histogram": (
        "Count the values of a column bin by bin.",
        "histogram flights.csv delay --bins 10 --bounds -60 240",
    ),
    "crosstab": (
        "Release a table of two columns: counts, or an aggregate of a third column.",
        "crosstab flights.csv carrier month --margins --delta 1e-6",
    ),
    "value_counts": (
        "Release how often each value is there.",
        "value_counts flights.csv carrier --delta 1e-6",
    ),
    "top": (
        "Release the values with the largest counts.", "top flights.csv carrier --delta 1e-6",
    ),
    "mode": ("Release the most frequent value.", "mode flights.csv carrier --delta 1e-6"),
    "describe": (
        "Describe every column by its type, for one price.",
        "describe flights.parquet --bounds delay=-60,240 --rho 0.5 --delta 1e-6",
    ),
    "regression": (
        "Release the line of least squares of a column on several others.",
        "regression flights.csv delay distance --bounds delay=-60,240 --bounds distance=0,5000",
    ),
}  # fmt: skip
"""What the commands of questions do that frames alone are asked, and an example of each."""


def commands() -> dict[str, Command]:
    """Return the command of each question by its name."""
    found = {}
    for kind, own in STATISTICS.items():
        shared = [name for name in SHARED if own.has_interval or name != "interval"]
        found[kind] = _command(own, map(_parameter, own.arguments()), _help(own), shared)
    told = [own for own in Crosstab.arguments() if own.name not in {"keys", "rounded"}]
    table, shared = [*map(_parameter, told), *_READ_AS], [n for n in SHARED if n != "by"]
    made = {
        "histogram": _command(_histogram, _BINS, _OF_FRAMES["histogram"]),
        "crosstab": _command(_crosstab, table, _OF_FRAMES["crosstab"], shared),
    }
    return found | made | {kind: _of_frame(kind) for kind in _OF_FRAMES if kind not in made}


def option_of(argument: Argument) -> str:
    """Return the option of an argument; a list is one that is repeated: --q 0.25 --q 0.75."""
    several = argument.form in {"numbers", _COLUMNS}
    name = argument.name.removesuffix("s") if several else argument.name
    return f"--{name.replace('_', '-')}"


def _help(kind: type[Statistic]) -> tuple[str, str]:
    """Return what a command does, and an example of it."""
    about = ["delay", "distance"][: len(kind.places())] if kind.arguments()[0].required else []
    words, ends = [kind.kind, "flights.csv", *about], iter(("-60 240", "0 5000"))
    has_list = any(own.form == "numbers" for own in kind.arguments())  # one line has to do
    for own in kind.arguments():
        if own.form == "bounds" and not has_list:
            words.append(f"{option_of(own)} {next(ends)}")
        elif own.required and own.form != "column":
            values = own.sample if own.form == "numbers" else [own.sample]
            words += [f"{option_of(own)} {value}" for value in values]
    return f"Release {kind.title}.", " ".join(words)


_COLUMNS = "Sequence[Hashable]"


def _parameter(own: Argument) -> inspect.Parameter:
    """Return an argument of a question as a parameter of its command."""
    default = inspect.Parameter.empty if own.required else own.default
    if own.form == "column":
        metavar, kind = (own.name.upper(), str) if own.required else ("[COLUMN]", str | None)
        return place(own.name, kind, metavar, own.doc, default=default)
    if own.form == f"{_COLUMNS} | None":
        return place(own.name, own.type.option | None, "[COLUMN]...", own.doc, default=default)
    if own.form == _COLUMNS and own.required:
        return place(own.name, _TEXTS, f"{own.name[:-1].upper()}...", own.doc, default=default)
    if own.form in {"value", _COLUMNS}:
        default = None
    values = {"bounds": "LOW HIGH", "number": own.name.upper(), _COLUMNS: "COLUMN"}.get(own.form)
    words = f"{own.doc} One of {', '.join(own.choices)}." if own.choices else own.doc
    words += " Repeat for several." if own.form == _COLUMNS else ""
    name = option_of(own)
    name = f"{name}/--no-{own.name}" if own.form == "flag" and own.default else name
    how = {"show_default": own.form == "choice", "parser": end_of if values == "LOW HIGH" else None}
    return option(own.name, own.type.option, words, values, name, default=default, **how)


_BINS = options("""
    COLUMN (text): The column of numbers.
    --bins (whole): So many equal bins; or name each --edge.
    --bounds LOW HIGH (pair): Where the first of --bins begins and the last one ends; values beyond
        are not counted. Found privately when left out.
    --edge X (numbers): Where a bin begins or ends; repeat, in ascending order.
    """)


def _histogram(
    column: str,
    bins: int | None,
    bounds: tuple[float, float] | None,
    edge: list[float] | None,
) -> Histogram:
    if (bins is None) == (not edge):
        raise InvalidQuestionError(
            "a histogram needs either a number of bins or the edges of its bins",
            hint="add --bins 10, or --edge 0 --edge 10 --edge 100",
        )
    if edge and bounds is not None:
        raise InvalidQuestionError(
            "edges and bounds were both given", hint="leave --bounds out: the edges are the bounds"
        )
    return Histogram(column, edge or bins or 0, bounds)


_READ_AS = options("""
    --rounded (flag): Show whole numbers that add up.
    --long (flag): Show one row a cell, with the ends of intervals.
    """)


def _crosstab(*, rounded: bool, long: bool, **asked: Any) -> Crosstab:
    """Return the table that options ask for; `long` is how it is shown."""
    del long
    return Crosstab(**asked, rounded="integer" if rounded else None)


def _command(
    ask: Callable[..., Asked | Crosstab],
    own: Iterable[inspect.Parameter],
    help_: tuple[str, str],
    shared: Iterable[str] = SHARED,
) -> Command:
    """Return a command with the options of a question and those of every question."""
    arguments = {each.name: each for each in own}

    def run(file: Path, **given: Any) -> None:
        with session(given):
            source = input_of(file, given)
            asked = {name: given[name] for name in arguments}
            if asked.get("value", "") is None:
                del asked["value"]
            made = ask(**asked)
            own: dict[str, Any] = {}
            if isinstance(made, Crosstab):
                own = {"table": made, "about": tuple(map(str, made.by)), "long": given["long"]}
                made = made.question
            if given["explain"]:
                call = Call.of(source, given, question=made, **own)
                show_explanation(call.explained(call.ask))
                return
            if "value" in asked:
                made = ask(**typed_value(source, asked))
                assert not isinstance(made, Crosstab)  # noqa: S101 it takes no constant
            release(Call.of(source, given, question=made, **own))

    run.__doc__ = f"{help_[0]}\n\n[bold]Example[/bold]\n\ndfprivacy {help_[1]}\n"
    return with_options(*shared, own=arguments.values())(run)


def _asking(kind: type[Statistic]) -> inspect.Parameter:
    """Return the option that asks a question: a column, with =numbers where it needs some."""
    needed = [own for own in kind.arguments() if own.required and own.form != "column"]
    name = "--bounds-of" if kind.kind == "bounds" else f"--{kind.kind.replace('_', '-')}"
    asked = f"ask_{kind.kind}"
    if not kind.arguments()[0].required:
        return option(asked, bool, "Ask for the number of rows.", None, name)
    places = kind.places()
    metavar = "COLUMN" if len(places) < 2 else ",".join(map(str.upper, places))
    metavar += f"={','.join(own.name.upper() for own in needed)}" if needed else ""
    metavar += "[=VALUE]" if any(own.form == "value" for own in kind.arguments()) else ""
    words = f"Ask for {kind.title}; repeat for several."
    return option(asked, _TEXTS, words, metavar, name)


BOUNDS_OF, _EVERY_BOUNDS, _BOUNDS_ASKED = (
    option("bounds", _TEXTS, words, "COLUMN=LOW,HIGH", "--bounds")
    for words in (
        "Bounds of a column, e.g. delay=-60,240; found privately when left out.",
        "What a column is clipped to, e.g. delay=-60,240; every column needs it.",
        "Bounds of a column that is asked about.",
    )
)


_UNIT, _SHARE, _SPENDING = options("""
    --unit COLUMN (text, required): Whose rows they are, e.g. a user's number.
    --share (number, 0.95): The part of the units, from 0 to 1, that the limits leave alone.
    --spending (number): The epsilon (or rho) that the question will cost; as much as this call.
    """)


@with_options(
    *("file", "where", *FORM, "by", "epsilon", "rho", "ledger", "dataset", "period", "analyst"),
    *("memory", "threads", "temporary", "timezone", "explain"),
    own=(_UNIT, _SHARE, _BOUNDS_ASKED, _SPENDING, *map(_asking, STATISTICS.values())),
)
def limits(
    file: Path,
    *,
    unit: str,
    share: float,
    bounds: list[str] | None,
    spending: float | None,
    **given: Any,
) -> None:
    """Find limits of a unit privately: those that suit a question, or that nearly all stay within.

    [bold]Example[/bold]

    dfprivacy limits visits.csv --unit user --by shop --mean spent --bounds spent=0,100
    """
    by, rho = given["by"] or (), given["rho"]
    loss = LOSS if given["epsilon"] is None else given["epsilon"]
    with session(given):
        source = input_of(file, given)
        asked = list(_all_questions(STATISTICS, given, source))
        if len(asked) > 1:
            raise InvalidQuestionError(
                "limits are found for one question", hint="ask again for the others, or for none"
            )
        question = asked[0].completed(_bounds(bounds)) if asked else None
        losses: dict[str, Any] = {"question": question, "epsilon": loss, "rho": rho}
        if given["explain"]:
            goal_of(question, spending, loss, rho)
            show_explanation(explain_limits(unit, by, share, **losses))
            return
        rows = rows_of(source, given["where"])
        found = suggest_limits(rows, unit=unit, by=by, share=share, spending=spending, **losses)
        groups = "" if found.max_groups is None else f" --max-groups {found.max_groups}"
        show_line(Console(), f"--unit {unit} --max-rows {found.max_rows}{groups}")


_KEPT = {kind: own for kind, own in STATISTICS.items() if own.adds_up}


@with_options(*SHARED, own=(BOUNDS_OF, *map(_asking, STATISTICS.values())))
def agg_command(file: Path, *, bounds: list[str] | None, **given: Any) -> None:
    """Answer several questions at once: all of them share one epsilon.

    [bold]Example[/bold]

    dfprivacy agg flights.csv --count --mean delay --bounds delay=-60,240
    """
    with session(given):
        source = input_of(file, given)
        asked = list(_all_questions(STATISTICS, given, source))
        own = Request.of(source, given, bounds=_bounds(bounds))

        def ask(frame: Any, _: object, terms: dict[str, Any]) -> Any:
            return frame.agg(*asked, **terms)

        _answer(own, ask, len(own.by), "Private answers", explain=given["explain"])


_ANSWERS = ["answer", "value", "low", "high", "note"]


def _answer(own: Request, ask: Ask, keys: int, title: str, *, explain: bool) -> None:
    """Explain what a call asks, or release the answers, show them and say what they cost."""
    if explain:
        show_explanation(own.explained(ask))
        return
    own = own.settled(ask)
    _show(own.answers(ask), keys, title, own.output)
    if title:
        show_line(Console(), own.spent)


def _show(answers: Any, keys: int, title: str, output: Path | None) -> None:
    """Write answers to `output`, or print them: as `show` does where nothing tells rows apart."""
    if output is not None:
        numbers = not isinstance(answers, pa.Table)
        table = answers_table(answers).rename_columns(_ANSWERS) if numbers else answers
        write_table(table, output)
        show_line(Console(), f"Wrote {table.num_rows:,} rows to {output}.")
    elif not keys:
        for line in repr(show(answers)).splitlines():
            show_line(Console(), line)
    else:
        origin = find_origin(answers)
        shown = () if origin is None else origin.shares
        shares = [f"{name}{end}" for name in shown for end in ("", "_low", "_high")]
        show_table(Console(), answers, keys, title, shares)


def _of_frame(kind: str) -> Command:
    """Return the command of a question that is asked by the method of a frame."""
    told = [own for own in QUESTIONS[kind].arguments() if own.form in _FORMS]
    within = {"describe": [BOUNDS_OF], "regression": [_EVERY_BOUNDS]}.get(kind, [])

    def run(file: Path, **given: Any) -> None:
        with session(given):
            source = input_of(file, given)
            asked = {own.name: given[own.name] for own in told if given[own.name] is not None}
            about, bounds = asked.get("column"), _bounds(given.get("bounds"))
            if about is not None and given["keys"] and given["by"]:
                raise InvalidKeysError(
                    "--keys are values of the column here, and there are groups too",
                    hint="leave --keys out, with --delta 1e-6, or --by",
                )
            lacking = [own for own in (asked.get("y"), *asked.get("xs", ())) if own not in bounds]
            if kind == "regression" and lacking:
                raise InvalidBoundsError(
                    f"a regression needs the bounds of column {lacking[0]!r}",
                    hint=f"add --bounds {lacking[0]}=LOW,HIGH, with numbers that you know",
                )
            own = Request.of(source, given, about=[about] if about else [], bounds=bounds)

            def ask(frame: Any, keys: Any, terms: dict[str, Any]) -> Any:
                listed = {"keys": keys} if about and keys is not None else {}
                return getattr(frame, kind)(**asked, **terms, **listed)

            title, keys = f"Private counts of the values of {about}", len(own.by) + 1
            if kind == "regression":
                title, keys = f"Private regression of {asked['y']}", len(own.by) or 1
            if kind == "describe":  # what is shown says what it costs
                title, keys = "", 0
            _answer(own, ask, keys, title, explain=given["explain"])

    shared = SHARED if kind != "describe" else [n for n in SHARED if n not in {"by", "keys"}]
    run.__doc__ = "{}\n\n[bold]Example[/bold]\n\ndfprivacy {}\n".format(*_OF_FRAMES[kind])
    return with_options(*shared, own=[*map(_parameter, told), *within])(run)


_FORMS = {"column", "whole", "flag", "numbers", _COLUMNS, f"{_COLUMNS} | None"}
"""What the arguments of these questions are that have options of their own."""


@with_options(
    *("file", "where", "timezone", *FORM, "by", "keys", "unit", "max_rows", "max_groups"),
    own=(
        *options("--output FILE (path, required): The secret file to be made."),
        BOUNDS_OF,
        *map(_asking, _KEPT.values()),
    ),
)
def statistics_command(file: Path, *, output: Path, bounds: list[str] | None, **given: Any) -> None:
    """Write exact statistics to a [bold]secret[/bold] file, for `dfprivacy merge`.

    [bold]Example[/bold]

    dfprivacy statistics monday.csv --count --mean delay --bounds delay=-60,240 --output mon.parquet
    """
    with readable_errors(), in_checked_zone(given.pop("timezone")):
        source = input_of(file, given)
        asked = list(_all_questions(_KEPT, given, source))
        by = given.pop("by") or ()
        given["keys"] = typed_keys(source, by, given["keys"]) if given["keys"] else None
        rows = rows_of(source, given.pop("where"))
        path = statistics(rows, output, *asked, by=by, bounds=_bounds(bounds), **given)
        show_line(Console(), f"Wrote {path}. It is secret: guard it like the rows.")


def _all_questions(
    kinds: Mapping[str, type[Statistic]], given: dict[str, Any], file: Input
) -> Iterator[Statistic]:
    for kind, own in kinds.items():
        yield from _questions(own, given.pop(f"ask_{kind}"), file)


def _questions(
    kind: type[Statistic],
    given: list[str] | bool | None,  # noqa: FBT001 an option
    file: Input,
) -> Iterator[Statistic]:
    needed = [own for own in kind.arguments() if own.required and own.form != "column"]
    make: Any = kind
    takes_value = any(own.form == "value" for own in kind.arguments())
    if given is True:
        yield make()
    for text in given or () if not isinstance(given, bool) else ():
        if takes_value and "=" in text:
            about, _, value = text.partition("=")
            yield make(**typed_value(file, {"column": about, "value": value}))
            continue
        if not needed:
            yield make(*_columns(kind, text))
            continue
        column, _, numbers = text.rpartition("=")
        columns = _columns(kind, column)
        is_list = needed[0].form == "numbers"
        found: Any = _numbers(kind.kind, numbers, None if is_list else len(needed))
        values = [found] if is_list else found
        yield make(*columns, **{o.name: v for o, v in zip(needed, values, strict=True)})


def _columns(kind: type[Statistic], text: str) -> Sequence[str]:
    """Return the columns that an option names: one, or several with commas between them."""
    places = kind.places()
    if len(places) == 1:
        return [text]
    found = next(csv.reader([text]), [])
    if len(found) != len(places):
        raise InvalidQuestionError(
            f"--{kind.kind} names {len(places)} columns",
            hint=f"write it like --{kind.kind} delay,distance",
        )
    return found


def _bounds(given: Iterable[str] | None) -> dict[Hashable, tuple[float, float]]:
    """Return the bounds that options name, by column."""
    made: dict[Hashable, tuple[float, float]] = {}
    for column, _, ends in (text.rpartition("=") for text in given or ()):
        lower, upper = _numbers("bounds", ends, 2)
        made[column] = lower, upper
    return made


def _numbers(option: str, text: str, count: int | None) -> tuple[float, ...]:
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if not found or (count is not None and len(found) != count):
        several = "numbers" if count is None else f"{count} number{'s' * (count > 1)}"
        example = "delay=0.9" if count == 1 else "delay=-60,240"
        raise InvalidQuestionError(
            f"--{option} names a column and {several}", hint=f"write it like --{option} {example}"
        )
    return found


@with_options(
    *("epsilon", "rho", "delta", "interval", "ledger", "dataset", "period", "analyst", "output"),
    own=options("""
        FILE... (paths): Files that `dfprivacy statistics` has made.
        --parts-per-unit N (whole): Your promise that no unit has rows in more than N of the files;
            nothing can check it. All of them when left out.
        """),
)
def merge_command(file: list[Path], *, parts_per_unit: int | None, **given: Any) -> None:
    """Add up files of exact statistics and release the answers once, with noise.

    [bold]Example[/bold]

    dfprivacy merge mon.parquet tue.parquet --epsilon 0.5 --delta 1e-6
    """
    output = given.pop("output")
    account = {name: given.pop(name) for name in ("ledger", "dataset", "period", "analyst")}
    with readable_errors(), charged(account):
        terms = {name: own for name, own in given.items() if own is not None}
        for each in file:
            check_output(output, each)
        by = files_of(file).header.by
        answers = merge(file, parts_per_unit=parts_per_unit, **terms)
        _show(answers, len(by), f"Private answers from {len(file)} files", output)


@with_options(
    *("epsilon", "delta", "unit", "max_rows", "max_groups", "interval", "ledger", "dataset"),
    *("period", "analyst", "output", "memory", "threads", "temporary", "timezone", "explain"),
    *FORM,
    own=options("""
        QUERY (text): One statement of dfp.sql.
        --table NAME=FILE (texts): A .csv, .tsv or .parquet file that the statement calls NAME;
            repeat for each.
        --database FILE (path): A DuckDB file, which is opened for reading only.
        --schema FILE (path): Who is protected in several tables: a .yml file of unit, links,
            public, bounds.
        --intervals (flag): Show the interval behind each answer.
        """),
)
def sql_command(
    query: str, *, table: list[str] | None, database: Path | None, intervals: bool, **given: Any
) -> None:
    """Answer one SQL statement privately.

    [bold]Example[/bold]

    dfprivacy sql "SELECT carrier, dp_mean(delay, -60, 240) FROM flights GROUP BY carrier"
    --table flights=flights.csv --delta 1e-6
    """
    with session(given):
        wrong = InvalidQuestionError(
            "a statement reads files that --table names, each under a name of its own, or one "
            "--database",
            hint="write --table flights=flights.csv, or --database flights.duckdb",
        )
        tables = _tables(_pairs(table or [], wrong), form_of(given))
        if bool(tables) == (database is not None):
            raise wrong
        for file in (database,) if database is not None else tables.values():
            check_output(given["output"], file)
        names = ("epsilon", "delta", "interval", "unit", "max_rows", "max_groups", "schema",
                 "timezone")  # fmt: skip
        terms = {name: given[name] for name in names if given[name] is not None}
        with connect(database or tables, **terms, intervals=intervals) as connection:
            if given["explain"]:
                show_explanation(connection.explain(query))
                return
            result = connection.sql(query)
        if given["output"] is None:
            own = result.origin
            show_table(Console(), result.arrow(), len(own.keys), "Private answers", own.shares)
            show_line(Console(), f"Spent {own.cost.replace('=', ' ')}")
        else:
            write_table(result.arrow(), given["output"])
            show_line(Console(), f"Wrote {len(result):,} rows to {given['output']}.")


def _tables(files: Mapping[str, str], form: Mapping[str, Any]) -> dict[str, Input]:
    """Return the files of a statement by name; text files among them have the form."""
    tables = {name: with_form(Path(file), form) for name, file in files.items()}
    if form and not any(isinstance(table, TextFile) for table in tables.values()):
        raise InvalidQuestionError(
            f"--{next(iter(form))} is for CSV and TSV files, and --table names none",
            hint="leave it out, or write --table flights=flights.csv",
        )
    return tables


def _pairs(given: Sequence[str], wrong: DPError) -> dict[str, str]:
    """Return what is written as NAME=VALUE, once for each name."""
    pairs = [text.partition("=") for text in given]
    found = {name: value for name, _, value in pairs}
    if len(found) < len(pairs) or not all(name and sign for name, sign, _ in pairs):
        raise wrong
    return found


WRONG, REFUSED, FAILED = 2, 3, 1
_LOG_FORMAT = option(
    "log_format",
    LogFormat,
    "Format of messages on stderr: json writes one object a line for programs.",
    "text|json",
    "--log-format",
    default=LogFormat.TEXT,
)


@with_options(
    "memory",
    "threads",
    "temporary",
    own=(
        *options("""
        FILE (path): A .yml or .yaml file.
        --set NAME=VALUE (texts): Set a parameter that the file declares; repeat it for each.
        --check (flag): Only check the file; nothing else is read.
        --explain (flag): Show what a run would cost; no row is read.
        --quiet -q (flag): Print nothing but errors and warnings.
        """),
        _LOG_FORMAT,
    ),
)
def run(
    file: Path, *, check: bool, explain: bool, quiet: bool, log_format: LogFormat, **given: Any
) -> None:
    """Make the releases that a file describes. To run it again spends nothing.

    A release asks questions of one table, or is an SQL query over several with a schema.

    Exit codes: 0 done, 2 the file has faults, 3 the budget does not suffice, 1 anything else.

    [bold]Example[/bold]

    dfprivacy run release.yml --set date=2024-01-31
    """
    from dfprivacy.cli.job_files import read_job_file  # noqa: PLC0415 loads pydantic
    from dfprivacy.cli.running import cost, plan_steps, run_release  # noqa: PLC0415 the same

    console, log = Console(quiet=quiet), RunLog(log_format)
    wrong = InvalidDescriptionError(
        f"{file}:1: --set takes NAME=VALUE, once for each name",
        hint="write e.g. --set date=2024-01-31",
    )
    with _exit_codes(log), ExitStack() as stack:
        if log.is_json:
            stack.enter_context(hide_progress())
        job = read_job_file(file, _pairs(given["set"] or [], wrong))
        named = {name: given[name] for name in ("memory", "threads", "temporary")}
        limits = {name: value for name, value in named.items() if value is not None}
        stack.enter_context(replace(job.engine, **limits))
        if check:
            show_line(console, f"{job.file}: no faults; releases: {', '.join(job.releases)}")
            return
        steps = plan_steps(job)
        for step in steps if explain else ():
            budget, again = step.release.budget, ", paid before" if step.settled else ""
            price = f"{cost(step.charge)} of {budget.dataset} in {budget.ledger.path.name}"
            show_line(Console(), f"{step.name}: {price}{again}")
        for step in () if explain else steps:
            log.start_release(step.name)
            _report_release(run_release(job, step), console, log)
        log.end_release()


def _report_release(done: Done, console: Console, log: RunLog) -> None:
    """Print a sentence about a release, or log its outputs and its cost."""
    from dfprivacy.cli.running import cost, cost_by_name  # noqa: PLC0415 loads pydantic

    step = done.step
    names = [output.text for output in step.release.outputs]
    spent = f"spent {cost(step.charge)}"
    spent = "paid before, nothing spent" if done.is_paid_before else spent
    show_line(console, f"{log.release}: wrote {', '.join(names)}; {spent}")
    if done.has_changed_source:
        version = step.release.budget.version
        log.warn(f"data changed under version {version}: the remembered answer is returned")
    if not log.is_json:
        return
    for name, rows in zip(names, done.rows, strict=True):
        log.write_event("output", path=name, rows=rows)
    log.write_event(
        "release",
        seconds=log.seconds,
        cost=cost_by_name(step.charge),
        charged=not done.is_paid_before,
        remembered=done.is_remembered,
        outputs=names,
    )


@contextmanager
def _exit_codes(log: RunLog) -> Iterator[None]:
    """Turn a typed error into a message on stderr and an exit code, Ctrl-C into a line and 130."""
    console = Console(stderr=True)
    try:
        yield
    except InvalidDescriptionError as error:
        if log.is_json:
            log.report_error(error, error.hint, WRONG)
            raise typer.Exit(WRONG) from None
        for line in error.message.splitlines():
            show_line(console, line)
        console.print(f"Hint: {plain(error.hint or '')}", soft_wrap=True, markup=False)
        raise typer.Exit(WRONG) from None
    except DPError as error:
        code = REFUSED if isinstance(error, BudgetExceededError) else FAILED
        log.report_error(error, _hint_of_run(error), code)
        raise typer.Exit(code) from None
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        if log.is_json:
            log.write_event("interrupt", seconds=log.seconds, exit_code=130)
        else:
            show_line(console, INTERRUPTED)
        raise typer.Exit(130) from None
    except Exception as error:  # noqa: BLE001 its text could quote a row
        log.report_error(published(error), None, FAILED)
        raise typer.Exit(FAILED) from None


def _hint_of_run(error: DPError) -> str | None:
    """Return the remedy of an error in the words of the command line and of descriptions."""
    if isinstance(error, EngineSpaceError):
        return f"{hint_of(error)}; in the description: engine: {{temporary: /large/disk}}"
    return hint_of(error) if isinstance(error, LedgerFileError) else error.hint
