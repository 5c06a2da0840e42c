"""The command line: `dfprivacy mean flights.csv delay --by carrier --bounds -60 240 ...`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dfprivacy.frontends.cli_errors import readable_errors
from dfprivacy.frontends.cli_job import Job, release
from dfprivacy.frontends.cli_ledger import DATASET, LEDGER, charged, ledger_app
from dfprivacy.frontends.demo import run_demo
from dfprivacy.questions import Count, Mean, StandardDeviation, Sum, Variance
from dfprivacy.terms import INTERVAL, bounds_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ledger_app, name="ledger")

_FILE = Annotated[
    Path, typer.Argument(metavar="FILE", help="A .csv, .tsv or .parquet file.", show_default=False)
]
_COLUMN = Annotated[
    str, typer.Argument(metavar="COLUMN", help="The column of numbers.", show_default=False)
]
_COUNTED = Annotated[
    str | None,
    typer.Argument(
        metavar="[COLUMN]", help="Count its values instead of rows.", show_default=False
    ),
]
_BY = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Group by this column; repeat for several."),
]
_KEYS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="A group that everybody may know of; repeat for each. Exactly these are shown, and "
        "no delta is needed. With several --by: AA,1.",
    ),
]
_BOUNDS = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Values are clipped to these bounds. Choose them from what you know about the "
        "subject, never from the data.",
        show_default=False,
    ),
]
_EPSILON = Annotated[
    float | None,
    typer.Option(
        help="Privacy loss of the whole call; smaller is more private and noisier. 1.0 unless "
        "--rho is given.",
        show_default=False,
    ),
]
_RHO = Annotated[
    float | None,
    typer.Option(help="Privacy loss in zCDP (Gaussian noise), instead of --epsilon."),
]
_DELTA = Annotated[
    float | None,
    typer.Option(
        help="Probability with which a group of a single row may show up, e.g. 1e-6. Needed with "
        "--by unless --keys are listed.",
    ),
]
_INTERVAL = Annotated[
    float, typer.Option(help="How surely low and high enclose the answer without noise.")
]
_METHOD = Annotated[str, typer.Option(help="transformed (most accurate), shifted or independent.")]
_OUTPUT = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write a .csv, .parquet or .json file instead of printing a table."
    ),
]


def main() -> None:
    """Run the command line."""
    app()


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

    dfprivacy mean flights.csv delay --by carrier --bounds -60 240 --delta 1e-6
    """


@app.command()
def count(
    file: _FILE,
    column: _COUNTED = None,
    *,
    by: _BY = None,
    keys: _KEYS = None,
    epsilon: _EPSILON = None,
    rho: _RHO = None,
    delta: _DELTA = None,
    interval: _INTERVAL = float(INTERVAL),
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: _OUTPUT = None,
) -> None:
    """Count rows, or the values of a column.

    [bold]Example[/bold]

    dfprivacy count flights.csv --by carrier --keys AA --keys UA
    """
    terms = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    with readable_errors(), charged(ledger, dataset):
        release(Job(file, Count(column), by or (), keys, output, terms))


@app.command("sum")
def total(
    file: _FILE,
    column: _COLUMN,
    *,
    by: _BY = None,
    keys: _KEYS = None,
    bounds: _BOUNDS = None,
    epsilon: _EPSILON = None,
    rho: _RHO = None,
    delta: _DELTA = None,
    interval: _INTERVAL = float(INTERVAL),
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: _OUTPUT = None,
) -> None:
    """Add up the values of a column.

    [bold]Example[/bold]

    dfprivacy sum flights.csv distance --bounds 0 5000 --epsilon 0.5
    """
    terms = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    with readable_errors(), charged(ledger, dataset):
        question = Sum(column, bounds_of(bounds))
        release(Job(file, question, by or (), keys, output, terms))


@app.command()
def mean(
    file: _FILE,
    column: _COLUMN,
    *,
    by: _BY = None,
    keys: _KEYS = None,
    bounds: _BOUNDS = None,
    epsilon: _EPSILON = None,
    rho: _RHO = None,
    delta: _DELTA = None,
    interval: _INTERVAL = float(INTERVAL),
    ledger: LEDGER = None,
    dataset: DATASET = None,
    method: _METHOD = "transformed",
    output: _OUTPUT = None,
) -> None:
    """Average the values of a column.

    [bold]Example[/bold]

    dfprivacy mean flights.csv delay --by carrier --bounds -60 240 --delta 1e-6
    """
    terms = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    with readable_errors(), charged(ledger, dataset):
        question = Mean(column, bounds_of(bounds), method)
        release(Job(file, question, by or (), keys, output, terms))


@app.command()
def var(
    file: _FILE,
    column: _COLUMN,
    *,
    by: _BY = None,
    keys: _KEYS = None,
    bounds: _BOUNDS = None,
    epsilon: _EPSILON = None,
    rho: _RHO = None,
    delta: _DELTA = None,
    interval: _INTERVAL = float(INTERVAL),
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: _OUTPUT = None,
) -> None:
    """Compute the variance of a column.

    [bold]Example[/bold]

    dfprivacy var flights.csv delay --bounds -60 240 --rho 0.5
    """
    terms = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    with readable_errors(), charged(ledger, dataset):
        question = Variance(column, bounds_of(bounds))
        release(Job(file, question, by or (), keys, output, terms))


@app.command()
def std(
    file: _FILE,
    column: _COLUMN,
    *,
    by: _BY = None,
    keys: _KEYS = None,
    bounds: _BOUNDS = None,
    epsilon: _EPSILON = None,
    rho: _RHO = None,
    delta: _DELTA = None,
    interval: _INTERVAL = float(INTERVAL),
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: _OUTPUT = None,
) -> None:
    """Compute the standard deviation of a column.

    [bold]Example[/bold]

    dfprivacy std flights.csv delay --bounds -60 240 --output std.csv
    """
    terms = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    with readable_errors(), charged(ledger, dataset):
        question = StandardDeviation(column, bounds_of(bounds))
        release(Job(file, question, by or (), keys, output, terms))


@app.command()
def demo() -> None:
    r"""Compare private with true delays of 336,776 flights, in pandas, polars and DuckDB.

    The flights come with [bold]pip install 'dfprivacy\[demo]'[/bold].
    """
    with readable_errors():
        run_demo(Console())
