"""`dfprivacy run release.yml`: releases that are described in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dfprivacy.errors import BudgetExceededError, DPError, InvalidDescriptionError, LedgerFileError
from dfprivacy.frontends.cli_errors import INTERRUPTED, hint_of
from dfprivacy.frontends.cli_output import plain, show_error, show_line
from dfprivacy.jobs.checks import read_description
from dfprivacy.jobs.description import Description
from dfprivacy.jobs.provenance import cost
from dfprivacy.jobs.running import planned, run_releases

WRONG, REFUSED, FAILED = 2, 3, 1

_FILE = Annotated[
    Path, typer.Argument(metavar="FILE", help="A .yml or .yaml file.", show_default=False)
]
_SET = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter that the file declares; repeat it for each.",
    ),
]
_CHECK = Annotated[bool, typer.Option("--check", help="Only check the file; nothing else is read.")]
_EXPLAIN = Annotated[
    bool, typer.Option("--explain", help="Show what a run would cost; no row is read.")
]
_QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def run(
    file: _FILE,
    *,
    set_: _SET = None,
    check: _CHECK = False,
    explain: _EXPLAIN = False,
    quiet: _QUIET = False,
) -> None:
    """Make the releases that a file describes. To run it again spends nothing.

    Exit codes: 0 done, 2 the file has faults, 3 the budget does not suffice, 1 anything else.

    [bold]Example[/bold]

    dfprivacy run release.yml --set date=2024-01-31
    """
    console = Console(quiet=quiet)
    with _exit_codes():
        description = read_description(file, _parameters(file, set_ or []))
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
    for step in planned(description):
        budget = step.release.budget
        again = ", paid before" if step.settled else ""
        price = f"{cost(step.charge)} of {budget.dataset} in {budget.ledger.name}"
        yield f"{step.release.name}: {price}{again}"


def _ran(description: Description) -> Iterator[str]:
    for done in run_releases(description):
        written = ", ".join(output.text for output in done.release.outputs)
        spent = "paid before, nothing spent" if done.paid_before else f"spent {cost(done.charge)}"
        yield f"{done.release.name}: wrote {written}; {spent}"


def _parameters(file: Path, given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    wrong = [name for name, sign, _ in pairs if not sign or not name]
    twice = {name for name, _, _ in pairs if sum(name == other for other, _, _ in pairs) > 1}
    if wrong or twice:
        raise InvalidDescriptionError(
            f"{file}:1: --set takes NAME=VALUE, once for each name",
            hint="write e.g. --set date=2024-01-31",
        )
    return {name: value for name, _, value in pairs}


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
