"""Ask questions, find limits, write and merge files of statistics, run descriptions.

An option that several commands take means one thing everywhere. Each question is a command: its
options are the arguments of its class.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pyarrow as pa
import typer
from rich.console import Console

from dfprivacy.cli.asking import (
    Ask,
    Asked,
    Call,
    Request,
    answers_table,
    release,
    rows_of,
    show_explanation,
    typed_keys,
    typed_value,
)
from dfprivacy.cli.ledger import charged, session
from dfprivacy.cli.output import (
    INTERRUPTED,
    check_output,
    hint_of,
    plain,
    readable_errors,
    show_error,
    show_line,
    show_table,
    write_table,
)
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    InvalidBoundsError,
    InvalidDescriptionError,
    InvalidKeysError,
    InvalidQuestionError,
    LedgerFileError,
)
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.describing import SHOWN
from dfprivacy.frames.forecasting import explain_limits
from dfprivacy.frames.limits import goal_of, suggest_limits
from dfprivacy.frames.merging import files_of, merge, statistics
from dfprivacy.frames.tables import origin_of
from dfprivacy.frames.viz.pictures import show
from dfprivacy.release.terms import EPSILON as LOSS
from dfprivacy.release.terms import INTERVAL, bounds_of
from dfprivacy.statements.connection import connect
from dfprivacy.statistics import STATISTICS, Argument, Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.quantile import end_of

if TYPE_CHECKING:
    from dfprivacy.cli.description import Description

Command = Callable[..., None]
Run = TypeVar("Run", bound=Command)

FILE = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .csv, .tsv or .parquet file, or a folder of .parquet files.",
        show_default=False,
    ),
]

COLUMN = Annotated[str, typer.Argument(metavar="COLUMN", help="The column.", show_default=False)]


def _level(text: object) -> float | str:
    """Return a level as a number; other words are those of `Terms.interval`."""
    try:
        return float(text)  # type: ignore[arg-type]
    except ValueError:
        return str(text)


def option(name: str, kind: Any, told: Any, default: Any = None) -> inspect.Parameter:
    """Return an option as the parameter of a command."""
    place = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, place, default=default, annotation=Annotated[kind, told])


def _shared(
    name: str, kind: Any, words: str, metavar: str | None = None, *, shown: bool = True
) -> inspect.Parameter:
    told = typer.Option(metavar=metavar, help=words, show_default=shown)
    return option(name, kind | None, told)


_TEXTS = list[str]
_SHARED = (
    _shared(
        "where",
        str,
        "Ask about the rows for which this holds: what stands behind WHERE in SQL, e.g. "
        "\"age >= 18 AND city = 'Rome'\".",
        "CONDITION",
    ),
    _shared("by", _TEXTS, "Group by this column; repeat for several.", "COLUMN"),
    _shared(
        "keys",
        _TEXTS,
        "A group that everybody may know of; repeat for each. Exactly these are shown, and no "
        "delta is needed. With several --by: AA,1.",
        "KEY",
    ),
    _shared(
        "epsilon",
        float,
        "Privacy loss of the whole call; smaller is more private and noisier. 1.0 unless --rho is "
        "given.",
        shown=False,
    ),
    _shared("rho", float, "Privacy loss in zCDP (Gaussian noise), instead of --epsilon."),
    _shared(
        "within",
        str,
        "The half-width to reach, instead of --epsilon: 2.0 in the answer's unit, or 2%. The least "
        "epsilon of three digits is spent.",
        "HALF",
    ),
    _shared("size", int, "The rows of the group that --within is for; 1000 when left out.", "N"),
    _shared(
        "delta",
        float,
        "Probability with which a group of a single row may show up, e.g. 1e-6. Needed with --by "
        "unless --keys are listed.",
    ),
    _shared(
        "unit",
        str,
        "Whose rows they are, e.g. a user's number: all rows of one are protected together. Limits "
        "are found when left out. One row is protected without a unit.",
        "COLUMN",
    ),
    _shared(
        "max_rows", int, "A unit's rows in one group count as N at most; noise grows with N.", "N"
    ),
    _shared(
        "max_groups", int, "A unit counts in N groups at most, with --by; noise grows with N.", "N"
    ),
    option(
        "interval",
        Any,
        typer.Option(
            help="How surely low and high enclose the answer without noise; population: sampling "
            "as well, at 95 %, or as in 'population 0.9'.",
            parser=_level,
            metavar="LEVEL",
        ),
        float(INTERVAL),
    ),
    _shared(
        "ledger",
        Path,
        "Charge the call to this ledger, made by `dfprivacy ledger create`. Needs --dataset.",
        "FILE",
    ),
    _shared("dataset", str, "Whose budget in the ledger is charged.", "NAME"),
    _shared(
        "period",
        str,
        "The period that all rows are of, e.g. 2024-01, where the dataset was announced by period.",
        "PERIOD",
    ),
    _shared("analyst", str, "Who asks, where the budget is shared out.", "NAME"),
    _shared(
        "output", Path, "Write a .csv, .parquet or .json file instead of printing a table.", "FILE"
    ),
    _shared(
        "memory",
        str,
        "What the engine may hold in memory, e.g. 500MB or 2GiB; more spills.",
        "SIZE",
    ),
    _shared("threads", int, "How many threads it may use.", "N"),
    _shared(
        "temporary",
        Path,
        "Where it spills, into a private folder that is removed at the end.",
        "DIR",
    ),
    option(
        "explain",
        bool,
        typer.Option(
            "--explain",
            help="Show what the call would cost and how wrong it would be; nothing is read or "
            "spent.",
        ),
        default=False,
    ),
)
SHARED = {own.name: own for own in _SHARED}


def with_options(*names: str, own: Iterable[inspect.Parameter] = ()) -> Callable[[Run], Run]:
    """Give a command options in place of its `**given`: its `own`, then shared ones by name."""

    def made(run: Run) -> Run:
        written = inspect.signature(run, eval_str=True).parameters.values()
        kept = [each for each in written if each.kind is not each.VAR_KEYWORD]
        options: list[Any] = [*kept, *own, *(SHARED[name] for name in names)]
        options.sort(key=lambda each: each.kind)
        run.__annotations__ = {each.name: each.annotation for each in options}
        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        return run

    return made


_HISTOGRAM = (
    "Count the values of a column bin by bin.",
    "histogram flights.csv delay --bins 10 --bounds -60 240",
)
_CROSSTAB = (
    "Release a table of two columns: counts, or an aggregate of a third column.",
    "crosstab flights.csv carrier month --margins --delta 1e-6",
)


def commands() -> dict[str, Command]:
    """Return the command of each question by its name."""
    found = {}
    for kind, own in STATISTICS.items():
        shared = [name for name in SHARED if own.has_interval or name != "interval"]
        found[kind] = _command(own, map(_parameter, own.arguments()), _help(own), shared)
    bins = inspect.signature(_histogram, eval_str=True).parameters.values()
    found["histogram"] = _command(_histogram, bins, _HISTOGRAM)
    table = inspect.signature(_crosstab, eval_str=True).parameters.values()
    found["crosstab"] = _command(_crosstab, table, _CROSSTAB, [n for n in SHARED if n != "by"])
    return found | _frequency_commands()


def option_of(argument: Argument) -> str:
    """Return the option of an argument; a list is one that is repeated: --q 0.25 --q 0.75."""
    name = argument.name.removesuffix("s") if argument.form == "numbers" else argument.name
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


_TYPES: Mapping[str, Any] = {
    "bounds": tuple[float, float] | None,
    "number": float,
    "numbers": list[float],
    "whole": int | None,
    "choice": str,
    "flag": bool,
    "value": str | None,
}


def _parameter(own: Argument) -> inspect.Parameter:
    """Return an argument of a question as a parameter of its command."""
    default = inspect.Parameter.empty if own.required else own.default
    if own.form == "column":
        metavar = "COLUMN" if own.required else "[COLUMN]"
        told = typer.Argument(metavar=metavar, help=own.doc, show_default=False)
        kind: Any = str if own.required else str | None
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        annotation: Any = Annotated[kind, told]
        return inspect.Parameter(own.name, place, default=default, annotation=annotation)
    if own.form == "value":  # a text, of the column's type once the file is known
        default = None
    values = {"bounds": "LOW HIGH", "number": own.name.upper()}.get(own.form)
    shown = own.form == "choice"
    words = f"{own.doc} One of {', '.join(own.choices)}." if own.choices else own.doc
    name = option_of(own)
    name = f"{name}/--no-{own.name}" if own.form == "flag" and own.default else name
    ends = end_of if own.form == "bounds" else None  # of each
    told_ = typer.Option(name, metavar=values, help=words, show_default=shown, parser=ends)
    form = float | None if own.form == "number" and not own.required else _TYPES[own.form]
    return option(own.name, form, told_, default)


def _histogram(
    column: Annotated[
        str, typer.Argument(metavar="COLUMN", help="The column of numbers.", show_default=False)
    ],
    *,
    bins: Annotated[
        int | None, typer.Option(help="So many equal bins; or name each --edge.")
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Where the first of --bins begins and the last one ends; values beyond are not "
            "counted. Found privately when left out.",
            show_default=False,
        ),
    ] = None,
    edge: Annotated[
        list[float] | None,
        typer.Option(
            "--edge", metavar="X", help="Where a bin begins or ends; repeat, in ascending order."
        ),
    ] = None,
) -> Histogram:
    """Return the histogram that options ask for."""
    if (bins is None) == (not edge):
        raise InvalidQuestionError(
            "a histogram needs either a number of bins or the edges of its bins",
            hint="add --bins 10, or --edge 0 --edge 10 --edge 100",
        )
    if edge and bounds is not None:
        raise InvalidQuestionError(
            "edges and bounds were both given", hint="leave --bounds out: the edges are the bounds"
        )
    return Histogram.of(column, edge or bins, bounds_of(bounds))


def _crosstab(
    index: Annotated[
        str, typer.Argument(metavar="INDEX", help="The column of the rows.", show_default=False)
    ],
    columns: Annotated[
        str,
        typer.Argument(metavar="COLUMNS", help="The column of the columns.", show_default=False),
    ],
    *,
    values: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="What is aggregated; rows are counted without it."),
    ] = None,
    aggregate: Annotated[
        str | None,
        typer.Option(help="sum, mean, median and the like; the sum when left out."),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="What values are clipped to.", show_default=False),
    ] = None,
    margins: Annotated[
        bool, typer.Option("--margins", help="Add the totals of rows, of columns and of all.")
    ] = False,
    rounded: Annotated[
        bool, typer.Option("--rounded", help="Show whole numbers that add up.")
    ] = False,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="Show no number below 0.")
    ] = False,
    long: Annotated[
        bool, typer.Option("--long", help="Show one row a cell, with the ends of intervals.")
    ] = False,
) -> Crosstab:
    """Return the table that options ask for; `long` is how it is shown."""
    del long
    return Crosstab.of(
        index, columns, values, aggregate, bounds, margins=margins,
        rounded="integer" if rounded else None, nonnegative=nonnegative,
    )  # fmt: skip


def _command(
    ask: Callable[..., Asked | Crosstab],
    own: Iterable[inspect.Parameter],
    help_: tuple[str, str],
    shared: Iterable[str] = SHARED,
) -> Command:
    """Return a command with the options of a question and those of every question."""
    arguments = {each.name: each for each in own}

    def run(file: FILE, **given: Any) -> None:
        with session(given):
            asked = {name: given[name] for name in arguments}
            if asked.get("value", "") is None:
                del asked["value"]
            made = ask(**asked)
            own: dict[str, Any] = {}
            if isinstance(made, Crosstab):
                own = {"table": made, "about": tuple(map(str, made.by)), "long": given["long"]}
                made = made.question
            if given["explain"]:
                call = Call.of(file, given, question=made, **own)
                show_explanation(call.explained(call.ask))
                return
            if "value" in asked:
                made = ask(**typed_value(file, asked))
                assert not isinstance(made, Crosstab)  # noqa: S101 it takes no constant
            release(Call.of(file, given, question=made, **own))

    run.__doc__ = f"{help_[0]}\n\n[bold]Example[/bold]\n\ndfprivacy {help_[1]}\n"
    return with_options(*shared, own=arguments.values())(run)


def _takes_value(kind: type[Statistic]) -> bool:
    return any(own.form == "value" for own in kind.arguments())


def _asking(kind: type[Statistic]) -> inspect.Parameter:
    """Return the option that asks a question: a column, with =numbers where it needs some."""
    needed = [own for own in kind.arguments() if own.required and own.form != "column"]
    name = "--bounds-of" if kind.kind == "bounds" else f"--{kind.kind.replace('_', '-')}"
    asked = f"ask_{kind.kind}"
    if not kind.arguments()[0].required:
        told = typer.Option(name, help="Ask for the number of rows.")
        return option(asked, bool, told, default=False)
    metavar = ",".join(["COLUMN", *[place.upper() for place in kind.places()[1:]]])
    metavar += f"={','.join(own.name.upper() for own in needed)}" if needed else ""
    metavar += "[=VALUE]" if _takes_value(kind) else ""
    words = f"Ask for {kind.title}; repeat for several."
    return option(asked, list[str] | None, typer.Option(name, metavar=metavar, help=words))


@with_options(
    *("where", "by", "epsilon", "rho", "ledger", "dataset", "period", "analyst"),
    *("memory", "threads"),
    *("temporary", "explain"),
    own=map(_asking, STATISTICS.values()),
)
def limits(
    file: FILE,
    *,
    unit: Annotated[
        str,
        typer.Option("--unit", metavar="COLUMN", help="Whose rows they are, e.g. a user's number."),
    ],
    share: Annotated[
        float,
        typer.Option(help="The part of the units, from 0 to 1, that the limits leave alone."),
    ] = 0.95,
    within: Annotated[
        list[str] | None,
        typer.Option(
            "--bounds", metavar="COLUMN=LOW,HIGH", help="Bounds of a column that is asked about."
        ),
    ] = None,
    spending: Annotated[
        float | None,
        typer.Option(
            help="The epsilon (or rho) that the question will cost; as much as this call.",
            show_default=False,
        ),
    ] = None,
    **given: Any,
) -> None:
    """Find limits of a unit privately: those that suit a question, or that nearly all stay within.

    [bold]Example[/bold]

    dfprivacy limits visits.csv --unit user --by shop --mean spent --bounds spent=0,100
    """
    by, rho = given["by"] or (), given["rho"]
    loss = LOSS if given["epsilon"] is None else given["epsilon"]
    with session(given):
        asked = list(_all_questions(STATISTICS, given, file))
        if len(asked) > 1:
            raise InvalidQuestionError(
                "limits are found for one question", hint="ask again for the others, or for none"
            )
        question = asked[0].completed(_bounds(within)) if asked else None
        losses: dict[str, Any] = {"question": question, "epsilon": loss, "rho": rho}
        if given["explain"]:
            goal_of(question, spending, loss, rho)
            show_explanation(explain_limits(unit, by, share, **losses))
            return
        rows = rows_of(file, given["where"])
        found = suggest_limits(rows, unit=unit, by=by, share=share, spending=spending, **losses)
        groups = "" if found.max_groups is None else f" --max-groups {found.max_groups}"
        show_line(Console(), f"--unit {unit} --max-rows {found.max_rows}{groups}")


_KEPT = {kind: own for kind, own in STATISTICS.items() if own.adds_up}


BOUNDS_OF = typer.Option(
    "--bounds",
    metavar="COLUMN=LOW,HIGH",
    help="Bounds of a column, e.g. delay=-60,240; found privately when left out.",
)


@with_options(*SHARED, own=map(_asking, STATISTICS.values()))
def agg_command(
    file: FILE, *, bounds_of_columns: Annotated[list[str] | None, BOUNDS_OF] = None, **given: Any
) -> None:
    """Answer several questions at once: all of them share one epsilon.

    [bold]Example[/bold]

    dfprivacy agg flights.csv --count --mean delay --bounds delay=-60,240
    """
    with session(given):
        asked = [
            question
            for kind, own in STATISTICS.items()
            for question in _questions(own, given[f"ask_{kind}"], file)
        ]
        own = Request.of(file, given, bounds=_bounds(bounds_of_columns))

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
    show_line(Console(), own.spent)


def _show(answers: Any, keys: int, title: str, output: Path | None) -> None:
    """Print answers, as a table or as `show` writes them where nothing tells rows apart.

    With an output they are written.
    """
    if output is not None:
        numbers = not isinstance(answers, pa.Table)
        table = answers_table(answers).rename_columns(_ANSWERS) if numbers else answers
        write_table(table, output)
        show_line(Console(), f"Wrote {table.num_rows:,} rows to {output}.")
    elif not keys:
        for line in repr(show(answers)).splitlines():
            show_line(Console(), line)
    else:
        origin = origin_of(answers)
        shown = () if origin is None else origin.shares
        shares = [f"{name}{end}" for name in shown for end in ("", "_low", "_high")]
        show_table(Console(), answers, keys, title, shares)


def _frequency_commands() -> dict[str, Command]:
    """Return the commands that count the values of a column, by name."""
    most = _shared("k", int, "How many values; 10 when left out.", "K")
    told = typer.Option("--other", help="Count the values that are none of --keys together.")
    other = option("other", bool, told, default=False)
    return {
        "value_counts": _frequencies("value_counts", "how often each value is there", (other,)),
        "top": _frequencies("top", "the values with the largest counts", (most,)),
        "mode": _frequencies("mode", "the most frequent value", ()),
    }


def _frequencies(kind: str, title: str, own: Iterable[inspect.Parameter]) -> Command:
    def run(file: FILE, column: COLUMN, **given: Any) -> None:
        with session(given):
            if given["keys"] and given["by"]:
                raise InvalidKeysError(
                    "--keys are values of the column here, and there are groups too",
                    hint="leave --keys out, with --delta 1e-6, or --by",
                )
            most = {"k": given["k"]} if given.get("k") is not None else {}
            most |= {"other": True} if given.get("other") else {}
            own = Request.of(file, given, about=[column])

            def ask(frame: Any, keys: Any, terms: dict[str, Any]) -> Any:
                listed = {} if keys is None else {"keys": keys}
                return getattr(frame, kind)(column, **most, **terms, **listed)

            counts = f"Private counts of the values of {column}"
            _answer(own, ask, len(own.by) + 1, counts, explain=given["explain"])

    run.__doc__ = (
        f"Release {title}.\n\n[bold]Example[/bold]\n\n"
        f"dfprivacy {kind} flights.csv carrier --delta 1e-6\n"
    )
    return with_options(*SHARED, own=own)(run)


_DESCRIBING = [name for name in SHARED if name not in {"by", "keys", "within", "size"}]


@with_options(*_DESCRIBING)
def describe(
    file: FILE,
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COLUMN]...", help="The columns; all when left out."),
    ] = None,
    *,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Leave a column out; repeat for several."),
    ] = None,
    number: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Read a column of a text file as numbers, as those with --bounds are; repeat.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="How many frequent values of text are named.")] = SHOWN,
    bounds_of_columns: Annotated[list[str] | None, BOUNDS_OF] = None,
    **given: Any,
) -> None:
    """Describe every column by its type, for one price.

    [bold]Example[/bold]

    dfprivacy describe flights.parquet --bounds delay=-60,240 --rho 0.5 --delta 1e-6
    """
    with session(given):
        own = Request.of(file, given, bounds=_bounds(bounds_of_columns))
        frame = own.private.explain if given["explain"] else own.private
        made = frame.describe(
            columns or None, exclude=exclude or (), numbers=number or (), top=top, **own.given
        )
        if given["explain"]:
            show_explanation(made)
        else:
            _show(made, 0, "", own.output)


@with_options(*SHARED)
def regression(
    file: FILE,
    y: Annotated[
        str, typer.Argument(metavar="Y", help="The column that is explained.", show_default=False)
    ],
    xs: Annotated[
        list[str],
        typer.Argument(metavar="X...", help="The columns that explain it.", show_default=False),
    ],
    *,
    bounds_of_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--bounds",
            metavar="COLUMN=LOW,HIGH",
            help="What a column is clipped to, e.g. delay=-60,240; every column needs it.",
        ),
    ] = None,
    **given: Any,
) -> None:
    """Release the line of least squares of a column on several others.

    [bold]Example[/bold]

    dfprivacy regression flights.csv delay distance --bounds delay=-60,240 --bounds distance=0,5000
    """
    with session(given):
        bounds = _bounds(bounds_of_columns)
        for column in (y, *xs):
            if column not in bounds:
                raise InvalidBoundsError(
                    f"a regression needs the bounds of column {column!r}",
                    hint=f"add --bounds {column}=LOW,HIGH, with numbers that you know",
                )
        own = Request.of(file, given, bounds=bounds)

        def ask(frame: Any, _: object, terms: dict[str, Any]) -> Any:
            return frame.regression(y, xs, **terms)

        title = f"Private regression of {y}"
        _answer(own, ask, len(own.by) or 1, title, explain=given["explain"])


@with_options(
    *("where", "by", "keys", "unit", "max_rows", "max_groups"), own=map(_asking, _KEPT.values())
)
def statistics_command(
    file: FILE,
    *,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="The secret file to be made.")
    ],
    within: Annotated[list[str] | None, BOUNDS_OF] = None,
    **given: Any,
) -> None:
    """Write exact statistics to a [bold]secret[/bold] file, for `dfprivacy merge`.

    [bold]Example[/bold]

    dfprivacy statistics monday.csv --count --mean delay --bounds delay=-60,240 --output mon.parquet
    """
    with readable_errors():
        asked = list(_all_questions(_KEPT, given, file))
        by = given.pop("by") or ()
        given["keys"] = typed_keys(file, by, given["keys"]) if given["keys"] else None
        rows = rows_of(file, given.pop("where"))
        path = statistics(rows, output, *asked, by=by, bounds=_bounds(within), **given)
        show_line(Console(), f"Wrote {path}. It is secret: guard it like the rows.")


def _all_questions(
    kinds: Mapping[str, type[Statistic]], given: dict[str, Any], file: Path
) -> Iterator[Statistic]:
    """Yield the questions that options ask."""
    for kind, own in kinds.items():
        yield from _questions(own, given.pop(f"ask_{kind}"), file)


def _questions(
    kind: type[Statistic],
    given: list[str] | bool | None,  # noqa: FBT001 an option
    file: Path,
) -> Iterator[Statistic]:
    """Yield the questions that an option asks."""
    needed = [own for own in kind.arguments() if own.required and own.form != "column"]
    make: Any = kind
    if isinstance(given, bool):
        if given:
            yield make()
        return
    for text in given or ():
        if _takes_value(kind) and "=" in text:
            about, _, value = text.partition("=")
            yield make(**typed_value(file, {"column": about, "value": value}))
            continue
        if not needed:
            yield make(*_columns(kind, text))
            continue
        column, _, numbers = text.rpartition("=")
        columns = _columns(kind, column)
        if needed[0].form == "numbers":
            found: Any = _numbers(kind.kind, numbers, None)
            yield make(*columns, **{needed[0].name: found})
            continue
        values = _numbers(kind.kind, numbers, len(needed))
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
    "epsilon", "rho", "delta", "interval", "ledger", "dataset", "period", "analyst", "output"
)
def merge_command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files that `dfprivacy statistics` has made."),
    ],
    *,
    parts_per_unit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Your promise that no unit has rows in more than N of the files; nothing can "
            "check it. All of them when left out.",
        ),
    ] = None,
    **given: Any,
) -> None:
    """Add up files of exact statistics and release the answers once, with noise.

    [bold]Example[/bold]

    dfprivacy merge mon.parquet tue.parquet --epsilon 0.5 --delta 1e-6
    """
    output = given.pop("output")
    account = {name: given.pop(name) for name in ("ledger", "dataset", "period", "analyst")}
    with readable_errors(), charged(account):
        terms = {name: own for name, own in given.items() if own is not None}
        for file in files:
            check_output(output, file)
        by = files_of(files).header.by
        answers = merge(files, parts_per_unit=parts_per_unit, **terms)
        _show(answers, len(by), f"Private answers from {len(files)} files", output)


@with_options(
    "epsilon", "delta", "unit", "max_rows", "max_groups", "interval", "ledger", "dataset",
    "period", "analyst", "output", "memory", "threads", "temporary", "explain",
)  # fmt: skip
def sql_command(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="One statement of dfp.sql.", show_default=False)
    ],
    *,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME=FILE",
            help="A .csv, .tsv or .parquet file that the statement calls NAME; repeat for each.",
        ),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A DuckDB file, which is opened for reading only."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who is protected in several tables: a .yml file of unit, links, public, bounds.",
        ),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show the interval behind each answer.")
    ] = False,
    **given: Any,
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
        tables = {name: Path(file) for name, file in _pairs(table or [], wrong).items()}
        if bool(tables) == (database is not None):
            raise wrong
        for file in (database,) if database is not None else tables.values():
            check_output(given["output"], file)
        names = ("epsilon", "delta", "interval", "unit", "max_rows", "max_groups", "schema")
        given |= {"schema": schema}
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


def _pairs(given: Sequence[str], wrong: DPError) -> dict[str, str]:
    """Return what is written as NAME=VALUE, once for each name."""
    pairs = [text.partition("=") for text in given]
    found = {name: value for name, _, value in pairs}
    if len(found) < len(pairs) or not all(name and sign for name, sign, _ in pairs):
        raise wrong
    return found


WRONG, REFUSED, FAILED = 2, 3, 1


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .yml or .yaml file.", show_default=False)
    ],
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a parameter that the file declares; repeat it for each.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the file; nothing else is read.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what a run would cost; no row is read.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Make the releases that a file describes. To run it again spends nothing.

    A release asks questions of one table, or is an SQL query over several with a schema.

    Exit codes: 0 done, 2 the file has faults, 3 the budget does not suffice, 1 anything else.

    [bold]Example[/bold]

    dfprivacy run release.yml --set date=2024-01-31
    """
    from dfprivacy.cli.description import read_description  # noqa: PLC0415 loads pydantic

    console = Console(quiet=quiet)
    wrong = InvalidDescriptionError(
        f"{file}:1: --set takes NAME=VALUE, once for each name",
        hint="write e.g. --set date=2024-01-31",
    )
    with _exit_codes():
        description = read_description(file, _pairs(set_ or [], wrong))
        if check:
            _say(console, _checked(description))
        elif explain:
            _say(Console(), _explained(description))
        else:
            _say(console, _ran(description))


def _say(console: Console, lines: Iterator[str]) -> None:
    for line in lines:
        show_line(console, line)


def _checked(description: Description) -> Iterator[str]:
    names = ", ".join(release.name for release in description.releases)
    yield f"{description.file}: no faults; releases: {names}"


def _explained(description: Description) -> Iterator[str]:
    from dfprivacy.cli.running import cost, planned  # noqa: PLC0415 as above

    for step in planned(description):
        budget = step.release.budget
        again = ", paid before" if step.settled else ""
        price = f"{cost(step.charge)} of {budget.dataset} in {budget.ledger.path.name}"
        yield f"{step.release.name}: {price}{again}"


def _ran(description: Description) -> Iterator[str]:
    from dfprivacy.cli.running import cost, run_releases  # noqa: PLC0415 as above

    for done in run_releases(description):
        written = ", ".join(output.text for output in done.release.outputs)
        spent = "paid before, nothing spent" if done.paid_before else f"spent {cost(done.charge)}"
        yield f"{done.release.name}: wrote {written}; {spent}"


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn a typed error into a message on stderr and an exit code, Ctrl-C into a line and 130."""
    console = Console(stderr=True)
    try:
        yield
    except InvalidDescriptionError as error:
        for line in error.message.splitlines():
            show_line(console, line)
        console.print(f"Hint: {plain(error.hint or '')}", soft_wrap=True, markup=False)
        raise typer.Exit(WRONG) from None
    except DPError as error:
        hint = hint_of(error) if isinstance(error, LedgerFileError) else error.hint
        show_error(console, error.message, hint)
        raise typer.Exit(REFUSED if isinstance(error, BudgetExceededError) else FAILED) from None
    except KeyboardInterrupt:
        show_line(console, INTERRUPTED)
        raise typer.Exit(130) from None
