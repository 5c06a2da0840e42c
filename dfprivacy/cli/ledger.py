"""Make and show ledgers: `dfprivacy ledger create`, `show`, `report`, and `--ledger`."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import NoAccount, name_account, spending
from dfprivacy.cli.options import Command, options, with_options
from dfprivacy.cli.output import plain, show_line
from dfprivacy.engine.embedded import Engine, in_checked_zone
from dfprivacy.errors import InvalidLedgerError, InvalidLossError, LedgerBudgetError
from dfprivacy.frames.viz.charts import write_whole
from dfprivacy.frames.viz.text import legible

_FACTS, _LOSSES = ("dataset", "analyst", "question"), ("epsilon", "rho", "delta")
_MOST_CHARGES = 200

ledger_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Make a ledger of privacy budgets, or show what was spent.",
)


def _command(text: str) -> Callable[[Command], Command]:
    """Add a command about a ledger's file: the text is an example, and options line by line."""
    example, _, lines = inspect.cleandoc(text).partition("\n")
    parameters = options(f"FILE (path): The ledger's file.\n{lines}")
    give = with_options(special=parameters, example=f"ledger {example}")
    return lambda run: ledger_app.command()(give(run))


@_command("""
    create budget.db --epsilon 10 --delta 1e-6
    --epsilon (number): Total budget of each dataset.
    --rho (number): The budget in zCDP, instead of --epsilon.
    --delta (number): Total delta of each dataset, for secret group keys, e.g. 1e-6.
    --remember (flag): Keep releases, so that the same request is answered again at no cost.
    --strict (flag): Refuse datasets that were not announced.
    """)
def create(file: Path, **budget: Any) -> None:
    """Make a ledger: a file that keeps a privacy budget for each dataset."""
    if budget["epsilon"] is None and budget["rho"] is None:
        raise InvalidLossError("a ledger needs a budget", hint="add --epsilon 10 --delta 1e-6")
    if file.exists():
        raise LedgerBudgetError(
            f"there is a file {str(file)!r} already",
            hint=f"see what it has left: dfprivacy ledger show {file}",
        )
    show_line(Console(), f"Made {file}: {_describe_ledger(Ledger(file, **budget))}")


@_command("""
    announce budget.db visits --periods month
    DATASET (text): The name of the data.
    --periods (text): Open an account for each year, month, week or day of the data. The budget
        then protects a unit's rows of one period.
    """)
def announce(file: Path, dataset: str, *, periods: str | None) -> None:
    """Open the account of a dataset, or one for each period of its data."""
    Ledger(file).announce(dataset, periods=periods)
    accounts = "" if periods is None else f", an account for each {periods} of its data"
    show_line(Console(), f"Announced {dataset}{accounts}")


@_command("""
    allow budget.db flights ann --epsilon 3
    DATASET (text): The name of the data.
    ANALYST (text): The analyst's name.
    --epsilon (number): Total budget of the analyst.
    --rho (number): The budget in zCDP, instead of --epsilon.
    --delta (number): Delta of the analyst. All of the budget's by default.
    """)
def allow(file: Path, dataset: str, analyst: str, **part: float | None) -> None:
    """Give an analyst a part of a dataset's budget, or of each period's budget."""
    Ledger(file).allow(analyst, dataset, **part)
    amount = Budget(part["epsilon"], part["rho"], part["delta"] or 0.0).text()
    show_line(Console(), f"{analyst} may spend {amount} of {dataset}")


@_command("show budget.db")
def show(file: Path) -> None:
    """Show the remaining budget of each dataset, and its charges."""
    ledger, console = Ledger(file), Console()
    show_line(console, f"{file}: {_describe_ledger(ledger)}")
    names = ledger.datasets()
    periods = ledger.periods()
    if announced := [name for name in ledger.announced() if name not in periods]:
        show_line(console, f"Announced: {', '.join(announced)}")
    for name, kind in periods.items():
        spent = ledger.spent(name).text()
        page = f"{name} comes by {kind}: the budget protects a unit's rows of one {kind} "
        show_line(console, f"{page}(a unit-period). Over all of them a unit has lost {spent}")
    if not names:
        show_line(console, "Nothing has been spent.")
        return
    accounts = [
        {"dataset": name, **_amounts(ledger.spent(name), ledger.remaining(name))}
        | ({"remembered": f"{ledger.stored(name):,}"} if ledger.remembers else {})
        for name in names
    ]
    _show_records(console, "Remaining budget", accounts)
    analysts = [
        {"dataset": name, "analyst": analyst, **_amounts(spent, left)}
        for name, analyst, spent, left in ledger.analysts()
    ]
    _show_records(console, "Analysts", analysts)
    history = ledger.history()
    charges = [
        {"time": f"{charge['time']:%Y-%m-%d %H:%M}"}
        | {name: "" if pd.isna(charge[name]) else str(charge[name]) for name in _FACTS}
        | {name: "" if pd.isna(charge[name]) else short(charge[name]) for name in _LOSSES}
        | {"note": "" if pd.isna(charge["note"]) else charge["note"]}
        for charge in history.tail(_MOST_CHARGES).to_dict("records")
    ]
    last = f"The last {_MOST_CHARGES} of {len(history):,} charges"
    title = last if len(history) > _MOST_CHARGES else "Charges"
    _show_records(console, f"{title}, times in UTC", charges)


@_command("""
    report budget.db -o report.html
    --output -o FILE.html (path, report.html): The file to write.
    --delta (number): Quote epsilons at this delta, e.g. 1e-6.
    """)
def report(file: Path, *, output: Path, delta: float | None) -> None:
    """Write a ledger as one HTML page: charges, remaining budgets and the promise.

    The page needs no network.
    """
    written = Ledger(file).report(output, delta=delta)
    show_line(Console(), f"Wrote {written}: {written.stat().st_size:,} bytes")


@_command("""
    statement budget.db flights -o flights.md
    DATASET (text): The name of the data.
    --output -o FILE.md (path): The file to write, instead of the terminal.
    --delta (number): Quote epsilons at this delta, e.g. 1e-6.
    """)
def statement(file: Path, dataset: str, *, output: Path | None, delta: float | None) -> None:
    """Write a statement in the terms of NIST SP 800-226, with fields to fill in."""
    text = write_statement(Ledger(file), dataset, delta)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text.encode())
        show_line(Console(), f"Wrote {output}")


@contextmanager
def session(values: Mapping[str, Any]) -> Iterator[None]:
    """Limit the engine, set its zone, charge the ledger if one is named, and print what is left."""
    limits = {name: values[name] for name in ("memory", "threads", "temporary")}
    file, dataset = values["ledger"], values["dataset"]
    part = {name: values.get(name) for name in ("period", "analyst")}
    with Engine(**limits), in_checked_zone(values["timezone"]):
        ledger = None if file is None else Ledger(file)
        named = name_account(ledger, dataset, **part)
        if isinstance(named, NoAccount):
            yield
            return
        with spending(named.ledger, dataset=dataset, note="command line", **part):
            yield
        left = named.ledger.remaining(named.dataset, analyst=named.analyst).text()
        whose = "" if named.analyst is None else f" and {named.analyst}"
        show_line(Console(), f"Left for {named.dataset}{whose} in {file}: {left}")


def _describe_ledger(ledger: Ledger) -> str:
    remembers = ", releases are remembered" if ledger.remembers else ""
    strict = ", none but announced datasets" if ledger.strict else ""
    return f"{ledger.budget.text()} for each dataset{remembers}{strict}"


def _amounts(spent: Budget, left: Budget) -> dict[str, str]:
    """Return the spent and remaining amounts of an account by the heads of their columns."""
    loss = "epsilon" if spent.rho is None else "rho"
    heads = (f"{loss} spent", "left", "delta spent", "delta left")
    amounts = (getattr(spent, loss), getattr(left, loss), spent.delta, left.delta)
    return dict(zip(heads, map(short, amounts), strict=True))


def _show_records(console: Console, title: str, records: Sequence[Mapping[str, str]]) -> None:
    """Print a table without its empty columns, or nothing if there are no records."""
    table = Table(title=title, title_justify="left")
    heads = [head for head in (records or [{}])[0] if any(record[head] for record in records)]
    for head in heads:
        table.add_column(head, overflow="fold")
    for record in records:
        table.add_row(*(plain(record[head]) for head in heads))
    if records:
        console.print(table)


def write_statement(ledger: Ledger, dataset: str, delta: float | None) -> str:
    """Return a statement in the terms of NIST SP 800-226 with fields that are left to fill in.

    Privacy: a function of questions, terms and times; it costs nothing.
    """
    history = ledger.history(dataset)
    if not len(history):
        names = ", ".join(ledger.datasets()) or "none"
        raise InvalidLedgerError(
            f"dataset {dataset!r} was never charged, only: {names}", hint="name a charged dataset"
        )
    budget = ledger.budget
    spare = 1e-6 if budget.rho is not None or not budget.delta else 0.0
    quoted = budget.delta + spare if delta is None else delta
    period = ledger.periods().get(dataset)
    questions = [legible(question) for question in history["question"]]
    units = Counter(question.partition("; unit=")[2] or "one row" for question in questions)
    days = [f"{time:%Y-%m-%d}" for time in history["time"]]
    facts = {
        "dataset": legible(dataset),
        "file": ledger.path.name,
        "made": f"{datetime.now(UTC):%Y-%m-%d}",
        "definition": "(epsilon, delta)"
        if budget.rho is None
        else "zero-concentrated (rho, delta)",
        "budget": budget.text(),
        "promise": ledger.promise(delta=quoted).text(),
        "spent": ledger.spent(dataset).text(),
        "charges": f"{len(days)} release{'s' * (len(days) > 1)}",
        "times": f"{min(days)} to {max(days)}",
        "total": ledger.total(dataset, delta=quoted).text(),
        "unit": f"all rows of one unit in one {period}" if period else "the unit of each charge",
        "units": "; ".join(f"{unit} ({count})" for unit, count in units.items()),
        "version": ", ".join(sorted(set(history["dfprivacy"]))),
        "questions": "\n".join(
            f"- {count} x {question}" for question, count in Counter(questions).items()
        ),
    }
    template = files("dfprivacy.cli").joinpath("statement.txt").read_text(encoding="utf-8")
    return Template(template).substitute(facts)
