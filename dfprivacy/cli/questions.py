"""Make a command of each question: its options are the arguments of its class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dfprivacy.cli.asking import Asked, Call, explain, release
from dfprivacy.cli.ledger import charged
from dfprivacy.cli.options import (
    BY,
    DATASET,
    DELTA,
    EPSILON,
    EXPLAIN,
    FILE,
    INTERVAL,
    KEYS,
    LEDGER,
    MAX_GROUPS,
    MAX_ROWS,
    MEMORY,
    OUTPUT,
    RHO,
    TEMPORARY,
    THREADS,
    UNIT,
)
from dfprivacy.cli.output import readable_errors
from dfprivacy.engine.options import Engine
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.statistics import STATISTICS, Argument, Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.terms import INTERVAL as LEVEL
from dfprivacy.terms import bounds_of
from dfprivacy.unit import unit_of

Command = Callable[..., None]

_COLUMN = Annotated[
    str, typer.Argument(metavar="COLUMN", help="The column of numbers.", show_default=False)
]
_BINNED = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Where the first of --bins begins and the last one ends; values beyond are not "
        "counted. Found privately when left out.",
        show_default=False,
    ),
]
_BINS = Annotated[int | None, typer.Option(help="So many equal bins; or name each --edge.")]
_EDGES = Annotated[
    list[float] | None,
    typer.Option(
        "--edge", metavar="X", help="Where a bin begins or ends; repeat, in ascending order."
    ),
]
_HISTOGRAM = (
    "Count the values of a column bin by bin.",
    "histogram flights.csv delay --bins 10 --bounds -60 240",
)
_TERMS = ("epsilon", "rho", "delta", "interval")


def commands() -> dict[str, Command]:
    """Return the command of each question by its name."""
    found = {
        kind: _command(own, map(_parameter, own.arguments()), _help(own), own.has_interval)
        for kind, own in STATISTICS.items()
    }
    own = inspect.signature(_histogram, eval_str=True).parameters.values()
    found["histogram"] = _command(_histogram, own, _HISTOGRAM, True)  # noqa: FBT003
    return found


def option_of(argument: Argument) -> str:
    """Return the option of an argument; a list is one that is repeated: --q 0.25 --q 0.75."""
    name = argument.name.removesuffix("s") if argument.form == "numbers" else argument.name
    return f"--{name.replace('_', '-')}"


def _help(kind: type[Statistic]) -> tuple[str, str]:
    """Return what a command does, and an example of it."""
    words = [kind.kind, "flights.csv", *(["delay"] if kind.arguments()[0].required else [])]
    for own in kind.arguments():
        if own.form == "bounds":
            words.append("--bounds -60 240")
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
    values = {"bounds": "LOW HIGH", "number": own.name.upper()}.get(own.form)
    shown = own.form == "choice"
    words = f"{own.doc} One of {', '.join(own.choices)}." if own.choices else own.doc
    told_ = typer.Option(option_of(own), metavar=values, help=words, show_default=shown)
    annotation = Annotated[_TYPES[own.form], told_]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(own.name, keyword, default=default, annotation=annotation)


def _histogram(
    column: _COLUMN, *, bins: _BINS = None, bounds: _BINNED = None, edge: _EDGES = None
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


def _command(
    ask: Callable[..., Asked],
    own: Iterable[inspect.Parameter],
    help_: tuple[str, str],
    intervals: bool,  # noqa: FBT001 two kinds of commands
) -> Command:
    """Return a command with the options of a question and those of every question."""
    arguments = {each.name: each for each in own}

    def run(file: Path, **given: Any) -> None:
        engine = {name: given[name] for name in ("memory", "threads", "temporary")}
        with readable_errors(), Engine(**engine), charged(given["ledger"], given["dataset"]):
            question = ask(**{name: given[name] for name in arguments})
            terms = {name: given[name] for name in _TERMS if name in given}
            unit = unit_of(given["unit"], given["max_rows"], given["max_groups"])
            by, keys, output = given["by"] or (), given["keys"], given["output"]
            act = explain if given["explain"] else release
            act(Call(file, question, by, keys, output, terms, unit))

    run.__doc__ = f"{help_[0]}\n\n[bold]Example[/bold]\n\ndfprivacy {help_[1]}\n"
    shared = dict(inspect.signature(_every_question, eval_str=True).parameters)
    if not intervals:
        del shared["interval"]
    file = shared.pop("file")
    parameters = {"file": file, **arguments, **shared}
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return run


def _every_question(
    file: FILE,
    *,
    by: BY = None,
    keys: KEYS = None,
    epsilon: EPSILON = None,
    rho: RHO = None,
    delta: DELTA = None,
    unit: UNIT = None,
    max_rows: MAX_ROWS = None,
    max_groups: MAX_GROUPS = None,
    interval: INTERVAL = float(LEVEL),
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: OUTPUT = None,
    memory: MEMORY = None,
    threads: THREADS = None,
    temporary: TEMPORARY = None,
    explain: EXPLAIN = False,
) -> None:
    """Say what is asked, what it may cost, who is protected, and where the answer goes."""
