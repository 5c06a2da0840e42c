"""The command line: `dfprivacy mean flights.csv delay --by carrier --delta 1e-6`."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from rich.console import Console

from dfprivacy.frontends import cli_limits, cli_partial, cli_ranks, cli_run, cli_sums
from dfprivacy.frontends.cli_errors import readable_errors
from dfprivacy.frontends.cli_ledger import ledger_app
from dfprivacy.frontends.cli_local import local_app
from dfprivacy.frontends.cli_usage import Commands
from dfprivacy.frontends.demo import run_demo

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:  # before or after a command
        sys.exit(130)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dfprivacy {_version()}")
        raise typer.Exit


def _version() -> str:
    try:
        return version("dfprivacy")
    except PackageNotFoundError:
        return "(not installed)"


@app.callback()
def _callback(
    *,
    version_: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Differentially private statistics of CSV, TSV and Parquet files.

    Answers carry just enough noise that nobody can tell whether any one row was in the file.

    [bold]Example[/bold]

    dfprivacy mean flights.csv delay --by carrier --delta 1e-6
    """


for _name, _command in {
    "count": cli_sums.count,
    "sum": cli_sums.total,
    "mean": cli_sums.mean,
    "var": cli_sums.var,
    "std": cli_sums.std,
    "median": cli_ranks.median,
    "quantile": cli_ranks.quantile,
    "quantiles": cli_ranks.quantiles,
    "center": cli_ranks.center,
    "bounds": cli_ranks.bounds,
    "histogram": cli_sums.histogram,
    "limits": cli_limits.limits,
}.items():
    app.command(_name)(_command)
app.command("statistics")(cli_partial.statistics_command)
app.command("merge")(cli_partial.merge_command)
app.command("run")(cli_run.run)
app.add_typer(ledger_app, name="ledger")
app.add_typer(local_app, name="local")


@app.command()
def demo() -> None:
    r"""Compare private with true delays of 336,776 flights, in pandas, polars and DuckDB.

    The flights come with [bold]pip install 'dfprivacy\[demo]'[/bold].
    """
    with readable_errors():
        run_demo(Console())
