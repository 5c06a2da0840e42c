"""Run job files: `dfprivacy run release.yml`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from dfprivacy.cli.options import named_values, option, options, with_options
from dfprivacy.cli.output import INTERRUPTED, cost, hint_of, plain, show_line
from dfprivacy.cli.run_log import LogFormat, RunLog
from dfprivacy.engine.embedded import Engine
from dfprivacy.engine.progress import hide_progress
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    EngineSpaceError,
    InvalidDescriptionError,
    LedgerFileError,
    published,
)

if TYPE_CHECKING:
    from dfprivacy.cli.running import Done

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
    special=(
        *options("""
        FILE (path): A .yml or .yaml file.
        --set NAME=VALUE (texts): Set a parameter that the file declares. Repeat it for each.
        --check (flag): Check the file and read nothing else.
        --explain (flag): Forecast cost and error. No row is read and nothing is spent.
        --quiet -q (flag): Print errors and warnings only.
        """),
        _LOG_FORMAT,
    ),
)
def run(
    file: Path, *, check: bool, explain: bool, quiet: bool, log_format: LogFormat, **values: Any
) -> None:
    """Make the releases of a job file. A second run spends nothing.

    A release asks questions of one table, or is an SQL query over several with a schema.

    Exit codes: 0 done, 2 the file has faults, 3 the budget does not suffice, 1 anything else.

    [bold]Example[/bold]

    dfprivacy run release.yml --set date=2024-01-31
    """
    from dfprivacy.cli.job_files import read_job_file  # noqa: PLC0415 loads pydantic
    from dfprivacy.cli.running import plan_steps, run_release  # noqa: PLC0415 the same

    console, log = Console(quiet=quiet), RunLog(log_format is LogFormat.JSON)
    refusal = InvalidDescriptionError(
        f"{file}:1: --set takes NAME=VALUE, once for each name",
        hint="write e.g. --set date=2024-01-31",
    )
    with _exit_codes(log), ExitStack() as stack:
        if log.is_json:
            stack.enter_context(hide_progress())
        job = read_job_file(file, named_values(values["set"] or [], refusal))
        stack.enter_context(Engine(values["memory"], values["threads"], values["temporary"]))
        if check:
            show_line(console, f"{job.file}: no faults; releases: {', '.join(job.releases)}")
            return
        steps = plan_steps(job)
        for step in steps if explain else ():
            budget, again = step.release.budget, ", paid before" if step.is_paid else ""
            price = f"{cost(step.charge)} of {budget.dataset} in {budget.ledger.path.name}"
            show_line(Console(), f"{step.name}: {price}{again}")
        for step in () if explain else steps:
            log.release, log.start = step.name, time.monotonic()
            _report_release(run_release(job, step), console, log)
        log.release = None


def _report_release(done: Done, console: Console, log: RunLog) -> None:
    """Print a sentence about a release, or log its outputs and its cost."""
    from dfprivacy.cli.running import cost_by_name  # noqa: PLC0415 loads pydantic

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
    for name in names:
        log.write_event("output", path=name, rows=done.rows)
    fields = {"cost": cost_by_name(step.charge), "charged": not done.is_paid_before}
    fields |= {"remembered": done.is_remembered, "outputs": names}
    log.write_event("release", seconds=log.seconds, **fields)


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
        in_own_words = isinstance(error, EngineSpaceError | LedgerFileError)
        log.report_error(error, hint_of(error) if in_own_words else error.hint, code)
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
