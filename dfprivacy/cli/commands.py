"""Find limits, write and merge files of statistics, run descriptions: commands of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dfprivacy.cli.asking import show_explanation, typed_keys
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
    SHARE,
    TEMPORARY,
    THREADS,
    UNIT,
    WHOSE,
)
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
from dfprivacy.engine.embedded import Engine
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    InvalidDescriptionError,
    InvalidQuestionError,
    LedgerFileError,
)
from dfprivacy.forecast.limits import explain_limits
from dfprivacy.jobs.places import answers_table
from dfprivacy.limits import suggest_limits
from dfprivacy.partial.merging import files_of, merge
from dfprivacy.partial.writing import statistics
from dfprivacy.statistics import STATISTICS, Statistic
from dfprivacy.terms import EPSILON as LOSS
from dfprivacy.terms import INTERVAL as LEVEL

if TYPE_CHECKING:
    from dfprivacy.jobs.description import Description


def limits(
    file: FILE,
    *,
    unit: WHOSE,
    by: BY = None,
    share: SHARE = 0.95,
    epsilon: EPSILON = None,
    rho: RHO = None,
    ledger: LEDGER = None,
    dataset: DATASET = None,
    memory: MEMORY = None,
    threads: THREADS = None,
    temporary: TEMPORARY = None,
    explain: EXPLAIN = False,
) -> None:
    """Find how many rows and groups nearly all units stay within, privately.

    [bold]Example[/bold]

    dfprivacy limits visits.csv --unit user --by shop --epsilon 0.2
    """
    loss = LOSS if epsilon is None else epsilon
    with (
        readable_errors(),
        Engine(memory=memory, threads=threads, temporary=temporary),
        charged(ledger, dataset),
    ):
        if explain:
            show_explanation(explain_limits(unit, by or (), share, epsilon=loss, rho=rho))
            return
        found = suggest_limits(file, unit=unit, by=by or (), share=share, epsilon=loss, rho=rho)
        groups = "" if found.max_groups is None else f" --max-groups {found.max_groups}"
        show_line(Console(), f"--unit {unit} --max-rows {found.max_rows}{groups}")


WITHIN = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="COLUMN=LOW,HIGH",
        help="Bounds of a column, e.g. delay=-60,240; found privately when left out.",
    ),
]
MADE = Annotated[Path, typer.Option("--output", metavar="FILE", help="The secret file to be made.")]
FILES = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Files that `dfprivacy statistics` has made."),
]
PARTS = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Your promise that no unit has rows in more than N of the files; nothing can check "
        "it. All of them when left out.",
    ),
]


def statistics_command() -> Callable[..., None]:
    """Return the command that writes statistics: it has an option for each question."""
    asking = {f"ask_{kind}": _asking(own) for kind, own in STATISTICS.items()}

    def run(file: Path, output: Path, **given: Any) -> None:
        with readable_errors():
            asked = [
                question
                for kind, own in STATISTICS.items()
                for question in _questions(own, given.pop(f"ask_{kind}"))
            ]
            by, keys = given["by"] or (), given["keys"]
            within: dict[Hashable, tuple[float, float]] = dict(map(_bounds, given["within"] or ()))
            path = statistics(
                file, output, *asked, by=by,
                keys=typed_keys(file, by, keys) if keys else None, unit=given["unit"],
                max_rows=given["max_rows"], max_groups=given["max_groups"], bounds=within,
            )  # fmt: skip
            show_line(Console(), f"Wrote {path}. It is secret: guard it like the rows.")

    run.__doc__ = """Write exact statistics to a [bold]secret[/bold] file, for `dfprivacy merge`.

    [bold]Example[/bold]

    dfprivacy statistics monday.csv --count --mean delay --bounds delay=-60,240 --output mon.parquet
    """
    shared = dict(inspect.signature(_places, eval_str=True).parameters)
    parameters = {"file": shared.pop("file"), "output": shared.pop("output"), **asking, **shared}
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return run


def _places(
    file: FILE,
    *,
    output: MADE,
    within: WITHIN = None,
    by: BY = None,
    keys: KEYS = None,
    unit: UNIT = None,
    max_rows: MAX_ROWS = None,
    max_groups: MAX_GROUPS = None,
) -> None:
    """Say what is read, by which groups, and where the file goes."""


def _asking(kind: type[Statistic]) -> inspect.Parameter:
    """Return the option that asks a question: a column, with =numbers where it needs some."""
    needed = [own for own in kind.arguments() if own.required and own.form != "column"]
    name = "--bounds-of" if kind.kind == "bounds" else f"--{kind.kind.replace('_', '-')}"
    place, words = inspect.Parameter.KEYWORD_ONLY, f"Ask for {kind.title}"
    if not kind.arguments()[0].required:
        option: Any = Annotated[bool, typer.Option(name, help="Ask for the number of rows.")]
        return inspect.Parameter(f"ask_{kind.kind}", place, default=False, annotation=option)
    metavar = "COLUMN" + (f"={','.join(own.name.upper() for own in needed)}" if needed else "")
    told = typer.Option(name, metavar=metavar, help=f"{words}; repeat for several.")
    annotation = Annotated[list[str] | None, told]
    return inspect.Parameter(f"ask_{kind.kind}", place, default=None, annotation=annotation)


def _questions(kind: type[Statistic], given: list[str] | bool | None) -> Iterator[Statistic]:  # noqa: FBT001 an option
    """Yield the questions that an option asks."""
    needed = [own for own in kind.arguments() if own.required and own.form != "column"]
    make: Any = kind
    if isinstance(given, bool):
        if given:
            yield make()
        return
    for text in given or ():
        if not needed:
            yield make(column=text)
            continue
        column, _, numbers = text.rpartition("=")
        if needed[0].form == "numbers":
            found: Any = _numbers(kind.kind, numbers, None)
            yield make(column=column, **{needed[0].name: found})
            continue
        values = _numbers(kind.kind, numbers, len(needed))
        yield make(column=column, **{o.name: v for o, v in zip(needed, values, strict=True)})


def _bounds(given: str) -> tuple[str, tuple[float, float]]:
    column, _, ends = given.rpartition("=")
    lower, upper = _numbers("bounds", ends, 2)
    return column, (lower, upper)


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


def merge_command(
    files: FILES,
    *,
    epsilon: EPSILON = None,
    rho: RHO = None,
    delta: DELTA = None,
    interval: INTERVAL = float(LEVEL),
    parts_per_unit: PARTS = None,
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: OUTPUT = None,
) -> None:
    """Add up files of exact statistics and release the answers once, with noise.

    [bold]Example[/bold]

    dfprivacy merge mon.parquet tue.parquet --epsilon 0.5 --delta 1e-6
    """
    given = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    terms: dict[str, Any] = {name: own for name, own in given.items() if own is not None}
    with readable_errors(), charged(ledger, dataset):
        for file in files:
            check_output(output, file)
        by = files_of(files).header.by
        answers = merge(files, parts_per_unit=parts_per_unit, **terms)
        if output is not None:
            names = ["answer", "value", "low", "high"]
            table = answers if by else answers_table(answers).rename_columns(names)
            write_table(table, output)
            show_line(Console(), f"Wrote the answers to {output}.")
        elif by:
            show_table(Console(), answers, len(by), f"Private answers from {len(files)} files")
        else:
            for answer in answers.values():
                show_line(Console(), repr(answer))


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
    from dfprivacy.jobs.description import read_description  # noqa: PLC0415 loads pydantic

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
    from dfprivacy.jobs.running import cost, planned  # noqa: PLC0415 as above

    for step in planned(description):
        budget = step.release.budget
        again = ", paid before" if step.settled else ""
        price = f"{cost(step.charge)} of {budget.dataset} in {budget.ledger.path.name}"
        yield f"{step.release.name}: {price}{again}"


def _ran(description: Description) -> Iterator[str]:
    from dfprivacy.jobs.running import cost, run_releases  # noqa: PLC0415 as above

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
