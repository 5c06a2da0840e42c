"""Ledgers on the command line: `dfprivacy ledger create`, `show`, `report`, and `--ledger`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import account, account_of, spending
from dfprivacy.cli.output import MOST_ROWS, plain, readable_errors, show_line
from dfprivacy.errors import InvalidLossError, LedgerBudgetError
from dfprivacy.exact import decimal_number

_FILE = Annotated[
    Path, typer.Argument(metavar="FILE", help="The ledger's file.", show_default=False)
]
_EPSILON = Annotated[
    float | None, typer.Option(help="What each dataset may spend in all.", show_default=False)
]
_RHO = Annotated[float | None, typer.Option(help="The same in zCDP, instead of --epsilon.")]
_DELTA = Annotated[
    float | None,
    typer.Option(help="What each dataset may spend on secret group keys, e.g. 1e-6."),
]
_REMEMBER = Annotated[
    bool,
    typer.Option(
        "--remember", help="Keep what is released, so that the same request can be repeated."
    ),
]
_MEASURES = ("epsilon", "rho", "delta")

ledger_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Make a ledger that keeps privacy budgets, or show what they have spent.",
)


@ledger_app.command()
def create(
    file: _FILE,
    *,
    epsilon: _EPSILON = None,
    rho: _RHO = None,
    delta: _DELTA = None,
    remember: _REMEMBER = False,
) -> None:
    """Make a ledger: a file that keeps a privacy budget for each dataset.

    [bold]Example[/bold]

    dfprivacy ledger create budget.db --epsilon 10 --delta 1e-6
    """
    with readable_errors():
        if epsilon is None and rho is None:
            raise InvalidLossError("a ledger needs a budget", hint="add --epsilon 10 --delta 1e-6")
        if file.exists():
            raise LedgerBudgetError(
                f"there is a file {str(file)!r} already",
                hint=f"see what it has left: dfprivacy ledger show {file}",
            )
        ledger = Ledger(file, epsilon=epsilon, rho=rho, delta=delta, remember=remember)
        show_line(Console(), f"Made {file}: {_about(ledger)}")


@ledger_app.command()
def show(file: _FILE) -> None:
    """Show what each dataset has left, and what was charged.

    [bold]Example[/bold]

    dfprivacy ledger show budget.db
    """
    with readable_errors():
        ledger, console = Ledger(file), Console()
        show_line(console, f"{file}: {_about(ledger)}")
        names = ledger.datasets()
        if not names:
            show_line(console, "Nothing has been spent")
            return
        console.print(_accounts(ledger, names))
        console.print(_history(ledger))


@ledger_app.command()
def report(
    file: _FILE,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Where the page goes.")
    ] = Path("report.html"),
    delta: Annotated[
        float | None,
        typer.Option(help="Quote epsilons at this delta, e.g. 1e-6.", show_default=False),
    ] = None,
) -> None:
    """Write a ledger as one HTML page: charges, what is left, and the promise.

    The page needs no network: its tables can be sorted and filtered offline.

    [bold]Example[/bold]

    dfprivacy ledger report budget.db -o report.html
    """
    with readable_errors():
        written = Ledger(file).report(output, delta=delta)
        show_line(Console(), f"Wrote {written}: {written.stat().st_size:,} bytes")


@contextmanager
def charged(file: Path | None, dataset: str | None) -> Iterator[None]:
    """Charge the releases of this block to a ledger, if one is named, and print what is left."""
    if file is None:
        account_of(None, dataset, None)
        yield
        return
    named = account(Ledger(file), dataset)
    with spending(named.ledger, dataset=named.dataset, note="command line"):
        yield
    left = _amount(named.ledger.remaining(named.dataset))
    show_line(Console(), f"Left for {named.dataset} in {file}: {left}")


def _about(ledger: Ledger) -> str:
    remembers = ", releases are remembered" if ledger.remembers else ""
    return f"{_amount(ledger.budget)} for each dataset{remembers}"


def _amount(budget: Budget) -> str:
    measure = "epsilon" if budget.rho is None else "rho"
    delta = f", delta {_number(budget.delta)}" if budget.delta else ""
    return f"{measure} {_number(getattr(budget, measure))}{delta}"


def _number(value: float | None) -> str:
    exact = decimal_number(value)
    return "" if exact is None else short(exact)


def _accounts(ledger: Ledger, names: list[str]) -> Table:
    measure = "epsilon" if ledger.budget.rho is None else "rho"
    table = Table(title="What is left", title_justify="left")
    table.add_column("dataset", overflow="fold")
    for column in (f"{measure} spent", "left", "delta spent", "left"):
        table.add_column(column, justify="right", no_wrap=True)
    if ledger.remembers:
        table.add_column("remembered", justify="right", no_wrap=True)
    for name in names:
        spent, left = ledger.spent(name), ledger.remaining(name)
        pairs = [(getattr(spent, m), getattr(left, m)) for m in (measure, "delta")]
        kept = [f"{ledger.stored(name):,}"] if ledger.remembers else []
        table.add_row(plain(name), *(_number(value) for pair in pairs for value in pair), *kept)
    return table


def _history(ledger: Ledger) -> Table:
    frame = ledger.history()
    kept = [m for m in _MEASURES if frame[m].notna().any() and (frame[m] != 0).any()]
    table = Table(title=_title(len(frame)), title_justify="left")
    for column in ("time", "dataset", "question", *kept, "note"):
        table.add_column(column, overflow="fold")
    for row in frame.tail(MOST_ROWS).to_dict("records"):
        amounts = [_number(row[measure]) for measure in kept]
        texts = [plain(row["dataset"]), plain(row["question"])]
        table.add_row(f"{row['time']:%Y-%m-%d %H:%M}", *texts, *amounts, plain(_text(row["note"])))
    return table


def _title(charges: int) -> str:
    if charges > MOST_ROWS:
        return f"The last {MOST_ROWS} of {charges:,} charges, times in UTC"
    return "Charges, times in UTC"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
