"""Make options of commands from lines of text; what several commands take means one thing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dfprivacy.release.terms import INTERVAL

Command = Callable[..., None]
Run = TypeVar("Run", bound=Command)
Parameters = tuple[inspect.Parameter, ...]


def option(
    name: str, kind: Any, words: str, metavar: str | None = None, *names: str, **how: Any
) -> inspect.Parameter:
    """Return an option as the parameter of a command: a flag, or None where it is left out."""
    default = how.pop("default", False if kind is bool else None)
    told = typer.Option(*names, metavar=metavar, help=words, **how)
    form: Any = Annotated[kind | None if default is None else kind, told]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form)


def place(name: str, kind: Any, metavar: str, words: str, **how: Any) -> inspect.Parameter:
    """Return an argument without a name as the parameter of a command."""
    told = typer.Argument(metavar=metavar, help=words, show_default=False)
    where = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, where, annotation=Annotated[kind, told], **how)


_KINDS: dict[str, Any] = {
    "text": str, "number": float, "whole": int, "path": Path, "flag": bool,
    "pair": tuple[float, float], "texts": list[str], "numbers": list[float], "paths": list[Path],
}  # fmt: skip
_LINE = re.compile(
    r"(?P<names>-\S+(?: -\S+)*)?(?: ?(?P<metavar>[A-Z]\S*(?: [A-Z]+)?))? \((?P<kind>\w+)"
    r"(?P<required>, required)?(?:, (?P<default>\S+))?\): (?P<words>.*)"
)


def options(text: str) -> Parameters:
    """Return the parameters of a command from lines of text: a name, its kind and what it does.

    What has a name is an option, --max-rows N (whole): ..., and may be required or have a default,
    --rounds (whole, 2): ...; what has none is an argument, FILE (path): ... Lines that are set in
    go on with the one before.

    >>> [(own.name, own.default) for own in options("--rounds (whole, 2): How many.")]
    [('rounds', 2)]
    """
    lines = re.split(r"\n(?=\S)", inspect.cleandoc(text))
    return tuple(_parameter(" ".join(line.split())) for line in lines)


def _parameter(line: str) -> inspect.Parameter:
    found = _LINE.fullmatch(line)
    assert found is not None, line  # noqa: S101 the lines are ours
    kind, metavar, default = _KINDS[found["kind"]], found["metavar"], found["default"]
    names = (found["names"] or "").split()
    if not names:
        return place(metavar.rstrip(".").lower(), kind, metavar, found["words"])
    how: dict[str, Any] = {"default": kind(default)} if default else {}
    if found["required"]:
        how["default"] = inspect.Parameter.empty
    name = max(names, key=len).lstrip("-").replace("-", "_")
    return option(name, kind, found["words"], metavar, *names, **how)


def _level(text: object) -> float | str:
    """Return a level as a number; other words are those of `Terms.interval`."""
    try:
        return float(text)  # type: ignore[arg-type]
    except ValueError:
        return str(text)


_INTERVAL = option(
    "interval", Any, "How surely low and high enclose the answer without noise; population: "
    "sampling as well, at 95 %, or as in 'population 0.9'.", "LEVEL",
    parser=_level, default=float(INTERVAL),
)  # fmt: skip
_SHARED = (
    *options("""
        FILE (path): A .csv, .tsv or .parquet file, a .csv.gz or .csv.zst archive, a folder of such
            files of one kind, or a glob in quotes.
        --where CONDITION (text): Ask about the rows for which this holds: what stands behind WHERE
            in SQL, e.g. "age >= 18 AND city = 'Rome'".
        --encoding NAME (text): The encoding of a CSV or TSV file, e.g. latin-1; UTF-8 when left
            out.
        --delimiter C (text): The character between its fields, e.g. ";"; as the first line shows
            when left out.
        --multiline (flag): Its quoted fields may hold line breaks.
        --by COLUMN (texts): Group by this column; repeat for several.
        --keys KEY (texts): A group that everybody may know of; repeat for each. Exactly these are
            shown, and no delta is needed. With several --by: AA,1.
        --epsilon (number): Privacy loss of the whole call; smaller is more private and noisier.
            1.0 unless --rho is given.
        --rho (number): Privacy loss in zCDP (Gaussian noise), instead of --epsilon.
        --within HALF (text): The half-width to reach, instead of --epsilon: 2.0 in the answer's
            unit, 2%, or of some answers NAME=2%,NAME=3. The least epsilon of three digits is spent.
        --size N (whole): The rows of the group that --within is for; 1000 when left out.
        --delta (number): Probability with which a group of a single row may show up, e.g. 1e-6.
            Needed with --by unless --keys are listed.
        --unit COLUMN (text): Whose rows they are, e.g. a user's number: all rows of one are
            protected together. Limits are found when left out. One row is protected without a unit.
        --max-rows N (whole): A unit's rows in one group count as N at most; noise grows with N.
        --max-groups N (whole): A unit counts in N groups at most, with --by; noise grows with N.
        """),
    _INTERVAL,
    *options("""
        --ledger FILE (path): Charge the call to this ledger, made by `dfprivacy ledger create`.
            Needs --dataset.
        --dataset NAME (text): Whose budget in the ledger is charged.
        --period PERIOD (text): The period that all rows are of, e.g. 2024-01, where the dataset was
            announced by period.
        --analyst NAME (text): Who asks, where the budget is shared out.
        --timezone NAME (text): The zone in which a condition or statement reads times with a zone,
            e.g. Europe/Berlin. UTC when left out.
        --output FILE (path): Write a .csv, .parquet or .json file instead of printing a table.
        --memory SIZE (text): What the engine may hold in memory, e.g. 500MB or 2GiB; more spills.
        --threads N (whole): How many threads it may use.
        --temporary DIR (path): Where it spills, into a private folder that is removed at the end.
        --explain (flag): Show what the call would cost and how wrong it would be; nothing is read
            or spent.
        """),
)
SHARED = {own.name: own for own in _SHARED}


def with_options(*names: str, own: Iterable[inspect.Parameter] = ()) -> Callable[[Run], Run]:
    """Give a command its `own` options, then shared ones by name."""
    told = [*own, *(SHARED[name] for name in names)]
    told.sort(key=lambda each: (each.kind, each is not SHARED.get("file")))

    def made(run: Run) -> Run:
        run.__annotations__ = {each.name: each.annotation for each in told}
        run.__signature__ = inspect.Signature(told)  # type: ignore[attr-defined]
        return run

    return made
