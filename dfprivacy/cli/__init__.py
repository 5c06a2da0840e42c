"""Run the command line: `dfprivacy mean flights.csv delay --by carrier --delta 1e-6`."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

import dfprivacy.papers  # noqa: F401 registers its statistics, which have commands too
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.cli.commands import add_commands, agg, sql
from dfprivacy.cli.ledger import ledger_app
from dfprivacy.cli.output import INTERRUPTED, INTERRUPTED_CODE, find_hint, show_error, show_line
from dfprivacy.cli.running import run
from dfprivacy.cli.serve import serve_app
from dfprivacy.errors import MOVED_ARGUMENTS, DPError, publish_error, write_plain_warnings
from dfprivacy.frames.lookup import closest_name
from dfprivacy.statistics import STATISTICS, Statistic

__all__ = ["app", "main"]

_UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """The commands of a program, with readable errors of usage."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; a wrong call ends with a message on stderr and exit code 2."""
        try:
            result = super().main(*args, **{**options, "standalone_mode": False})
        except _UsageError as error:
            message = re.sub(
                r"(No such command '.*?'\.) Did you mean.*", r"\1", error.format_message()
            )
            pattern, plain = r"Input should be a valid (\w+),.*", r"this is not a valid \1."
            message = re.sub(pattern, plain, message).replace("Value error, ", "")
            if message:  # none where the help has been shown already
                show_error(Console(stderr=True), message, self._hint(error))
            sys.exit(2)
        except typer.Abort:
            sys.exit(1)
        except DPError as error:
            show_error(Console(stderr=True), error.message, find_hint(error))
            sys.exit(2)
        except Exception as error:  # noqa: BLE001 whatever it is, its text could quote a row
            message, _, hint = str(publish_error(error)).partition("\n\nHint: ")
            show_error(Console(stderr=True), message, hint or None)
            sys.exit(1)
        if result == INTERRUPTED_CODE:  # typer returns it for a KeyboardInterrupt
            show_line(Console(stderr=True), INTERRUPTED)
        sys.exit(result if isinstance(result, int) else 0)

    def _hint(self, error: Any) -> str:
        """Return the nearest command, or where the options are listed."""
        path = error.ctx.command_path if error.ctx is not None else "dfprivacy"
        option = str(getattr(error, "option_name", "")).removeprefix("--")
        if option in MOVED_ARGUMENTS:
            return MOVED_ARGUMENTS[option]
        listing = getattr(getattr(error.ctx, "command", None), "list_commands", None)
        names = listing(error.ctx) if listing else []
        quoted = error.message.split("'")
        other = closest_name(quoted[1], names) if len(quoted) > 1 else None
        if pair := re.match(r"Option '(--\S+)' requires 2 arguments", error.message):
            return f"write two numbers with a space between them, e.g. {pair[1]} 0 100"
        if other is None:
            return f"{path} --help lists its options"
        return f"write {path} {other}, or see {path} --help"


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line, with the statistics that installed packages add."""
    write_plain_warnings()
    if isinstance(sys.stdout, TextIOWrapper):  # answers are paid for, whatever letters a key has
        sys.stdout.reconfigure(errors="backslashreplace")
    for point in entry_points(group="dfprivacy.statistics"):
        point.load()
    try:
        _built(tuple(STATISTICS.values()))()
    except KeyboardInterrupt:  # before or after a command
        sys.exit(INTERRUPTED_CODE)


@cache
def _built(_: tuple[type[Statistic], ...]) -> Any:
    """Return all commands, made once for the statistics that are registered by now."""
    add_commands(app)
    return get_command(app)


def _show_version(show: bool) -> None:
    if show:
        number = "(not installed)"
        with suppress(PackageNotFoundError):
            number = version("dfprivacy")
        typer.echo(f"dfprivacy {number}")
        raise typer.Exit


@app.callback()
def _callback(
    *,
    version_: Annotated[  # noqa: ARG001 its callback acts
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Differentially private statistics of CSV, TSV and Parquet files.

    Answers carry just enough noise that nobody can tell whether any one row was in the file.

    [bold]Example[/bold]

    dfprivacy mean flights.csv delay --by carrier --delta 1e-6
    """
    NoAccount.noticed = True  # each call is a process, and --help names --ledger


app.command("agg")(agg)
app.command("run")(run)
app.command("sql")(sql)
app.add_typer(ledger_app, name="ledger")
app.add_typer(serve_app, name="serve")
