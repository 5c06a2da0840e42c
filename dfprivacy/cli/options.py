"""Make options of commands from lines of text and from arguments of questions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from dfprivacy.errors import DPError
from dfprivacy.release.terms import INTERVAL
from dfprivacy.statistics import Argument
from dfprivacy.statistics.quantile import read_end

Command = Callable[..., None]
Run = TypeVar("Run", bound=Command)
Parameters = tuple[inspect.Parameter, ...]

_REQUIRED = inspect.Parameter.empty
_TYPES: dict[str, Any] = {
    "text": str,
    "number": float,
    "whole": int,
    "path": Path,
    "flag": bool,
    "pair": tuple[float, float],
    "texts": list[str],
    "numbers": list[float],
}
_LINE = re.compile(
    r"(?P<flags>-\S+(?: -\S+)*)?(?: ?(?P<metavar>[A-Z]\S*(?: [A-Z]+)?))? \((?P<type>[\w|]+)"
    r"(?:, (?P<default>\S+))?\): (?P<help>.*)"
)


def option(
    name: str, type_: Any, help_: str, metavar: str | None = None, *flags: str, **settings: Any
) -> inspect.Parameter:
    """Return an option as the parameter of a command: a flag, or None where it is left out."""
    default = settings.pop("default", False if type_ is bool else None)
    info = typer.Option(*flags, metavar=metavar, help=help_, **settings)
    annotation: Any = Annotated[type_ | None if default is None else type_, info]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)


def positional(
    name: str, type_: Any, metavar: str, help_: str, default: Any = _REQUIRED
) -> inspect.Parameter:
    """Return an argument without a flag as the parameter of a command."""
    info = typer.Argument(metavar=metavar, help=help_, show_default=False)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[type_, info])


def options(text: str) -> Parameters:
    """Return the parameters of a command from lines of text: a name, its type and its meaning.

    A line with a flag is an option, --rounds N (whole): ..., and may have a default, --rounds
    (whole, 2): ..., or choices, (text|json); one without is an argument, FILE (path): ... Lines
    that are set in go on with the one before.

    >>> [(parameter.name, parameter.default) for parameter in options("--rounds (whole, 2): All.")]
    [('rounds', 2)]
    """
    lines = re.split(r"\n(?=\S)", inspect.cleandoc(text))
    return tuple(_parameter(" ".join(line.split())) for line in lines)


def _parameter(line: str) -> inspect.Parameter:
    parts = _LINE.fullmatch(line)
    assert parts is not None, line  # noqa: S101 the lines are ours
    metavar, default, flags = parts["metavar"], parts["default"], (parts["flags"] or "").split()
    choices = tuple(parts["type"].split("|"))
    type_ = _TYPES[parts["type"]] if len(choices) == 1 else Literal[choices]
    if not flags:
        return positional(metavar.rstrip(".").lower(), type_, metavar, parts["help"])
    name = max(flags, key=len).lstrip("-").replace("-", "_")
    settings = {"default": _TYPES.get(parts["type"], str)(default)} if default else {}
    return option(name, type_, parts["help"], metavar, *flags, **settings)


def name_flag(argument: Argument) -> str:
    """Return the flag of an argument; a list is a flag that is repeated: --q 0.25 --q 0.75."""
    is_list = argument.type.option in {list[float], list[str]}
    name = argument.name.removesuffix("s") if is_list else argument.name
    return f"--{name.replace('_', '-')}"


def argument_option(argument: Argument) -> inspect.Parameter:
    """Return an argument of a question as a parameter of its command."""
    type_, name, doc = argument.type.option, argument.name, argument.doc
    default = _REQUIRED if argument.required else argument.default
    is_list = type_ == list[str]
    if argument.form == "column" or (is_list and default in {_REQUIRED, None}):
        dots, word = "..." if is_list else "", name[:-1] if is_list else name
        if default is None:
            return positional(name, type_ | None, f"[COLUMN]{dots}", doc, None)
        return positional(name, type_, f"{word.upper()}{dots}", doc)
    metavar = {"bounds": "LOW HIGH", "number": name.upper()}.get(argument.form)
    if argument.choices:
        doc += f" One of {', '.join(argument.choices)}."
    if is_list:
        doc, metavar = f"{doc} Repeat for several.", "COLUMN"
    if is_list or argument.form == "value":
        default = None
    flag = name_flag(argument)
    if argument.form == "flag" and argument.default:
        flag = f"{flag}/--no-{name}"
    parser = read_end if argument.form == "bounds" else None
    is_choice = argument.form == "choice"
    return option(
        name, type_, doc, metavar, flag, default=default, show_default=is_choice, parser=parser
    )


def read_fields(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a description whose shared options have values."""
    named = {field.name: values.get(field.name) for field in fields(kind) if field.name in SHARED}
    return {name: value for name, value in named.items() if value is not None}


def read_named_values(texts: Sequence[str], refusal: DPError) -> dict[str, str]:
    """Return the values that are written as NAME=VALUE, once for each name."""
    pairs = [text.partition("=") for text in texts]
    values = {name: value for name, _, value in pairs}
    if len(values) < len(pairs) or not all(name and sign for name, sign, _ in pairs):
        raise refusal
    return values


_SHARED = options(f"""
        FILE (path): A .csv, .tsv or .parquet file, a .csv.gz or .csv.zst archive, a folder of such
            files of one kind, or a glob in quotes.
        --where CONDITION (text): Use only rows for which this SQL condition is true, e.g.
            "age >= 18 AND city = 'Rome'".
        --encoding NAME (text): Encoding of a CSV or TSV file, e.g. latin-1. UTF-8 by default.
        --delimiter C (text): Character between fields of a CSV or TSV file, e.g. ";". Taken from
            the first line by default.
        --multiline (flag): Quoted fields of a CSV or TSV file may contain line breaks.
        --by COLUMN (texts): Group by this column. Repeat it for several columns.
        --keys KEY (texts): A public group. Repeat it for each. Exactly these groups are shown, and
            no delta is needed. With several --by: AA,1.
        --epsilon (number): Privacy loss of the whole call. Smaller is more private and noisier.
            1.0 unless --rho is given.
        --rho (number): Privacy loss in zCDP (Gaussian noise), instead of --epsilon.
        --within HALF (text): Half-width to reach, instead of --epsilon: 2.0 in the unit of the
            answer, 2%, or NAME=2%,NAME=3. Spends the least sufficient epsilon of three digits.
        --size N (whole): Number of rows of the group for --within. 1000 by default.
        --delta (number): Probability that a group of a single row is shown, e.g. 1e-6.
            Needed with --by unless --keys are listed.
        --unit COLUMN (text): Protect all rows with one value of this column, e.g. a user's
            number. One row is protected by default. Limits are estimated unless they are given.
        --max-rows N (whole): Most rows of a unit that count in one group. Noise grows with N.
        --max-groups N (whole): Most groups in which a unit counts. Noise grows with N.
        --interval LEVEL (number, {float(INTERVAL)}): Probability that low and high contain the
            answer without noise.
        --population (flag): Include sampling error in low and high.
        --ledger FILE (path): Charge the call to this ledger, made by `dfprivacy ledger create`.
            Needs --dataset.
        --dataset NAME (text): The dataset whose budget in the ledger is charged.
        --period PERIOD (text): The period of all rows, e.g. 2024-01, if the dataset was announced
            by period.
        --analyst NAME (text): The analyst, if the budget is divided among analysts.
        --timezone NAME (text): Zone for times in a condition or statement, e.g. Europe/Berlin. UTC
            by default.
        --output -o FILE (path): Write a .csv, .parquet or .json file instead of printing a table.
        --memory SIZE (text): Memory limit of the engine, e.g. 500MB or 2GiB. Beyond it data spill
            to disk.
        --threads N (whole): Thread limit of the engine.
        --temporary DIR (path): Folder for spilled data, which are removed at the end.
        --explain (flag): Forecast cost and error. No row is read and nothing is spent.
        """)
SHARED = {parameter.name: parameter for parameter in _SHARED}


def with_options(
    *names: str, special: Iterable[inspect.Parameter] = (), example: str = ""
) -> Callable[[Run], Run]:
    """Give a command its `special` options, shared ones by name, and an example in its help."""
    parameters = [*special, *(SHARED[name] for name in names)]
    parameters.sort(key=lambda parameter: (parameter.kind, parameter is not SHARED.get("file")))

    def decorate(run: Run) -> Run:
        purpose = inspect.cleandoc(run.__doc__ or "")
        run.__doc__ = f"{purpose}\n\n[bold]Example[/bold]\n\ndfprivacy {example}"
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
