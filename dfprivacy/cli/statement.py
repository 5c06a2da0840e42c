"""Write a ledger's figures into the statement of `dfprivacy ledger statement`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from importlib.resources import files
from string import Template

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.errors import InvalidLedgerError
from dfprivacy.frames.viz.text import legible
from dfprivacy.measurement.exact import decimal_number


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
        "budget": amount_text(budget),
        "promise": amount_text(ledger.promise(delta=quoted)),
        "spent": amount_text(ledger.spent(dataset)),
        "charges": f"{len(days)} release{'s' * (len(days) > 1)}",
        "times": f"{min(days)} to {max(days)}",
        "total": amount_text(ledger.total(dataset, delta=quoted)),
        "unit": f"all rows of one unit in one {period}" if period else "the unit of each charge",
        "units": "; ".join(f"{unit} ({count})" for unit, count in units.items()),
        "version": ", ".join(sorted(set(history["version"]))),
        "questions": "\n".join(
            f"- {count} x {question}" for question, count in Counter(questions).items()
        ),
    }
    template = files("dfprivacy.cli").joinpath("statement.txt").read_text(encoding="utf-8")
    return Template(template).substitute(facts)


def amount_text(budget: Budget) -> str:
    """Return a budget in words: epsilon or rho, and a delta unless it is 0."""
    measure = "epsilon" if budget.rho is None else "rho"
    delta = f", delta {number_text(budget.delta)}" if budget.delta else ""
    return f"{measure} {number_text(getattr(budget, measure))}{delta}"


def number_text(value: float | None) -> str:
    """Return a number in few characters, or no text for None."""
    exact = decimal_number(value)
    return "" if exact is None else short(exact)
