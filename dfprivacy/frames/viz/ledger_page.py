"""Write a ledger as one page that fetches nothing: questions, times and costs."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA, Budget, Units, short
from dfprivacy.accounting.composition import tight_total
from dfprivacy.accounting.ledger import Ledger, Statement
from dfprivacy.accounting.ledger_file import damaged
from dfprivacy.accounting.loss import delta_of
from dfprivacy.errors import PictureError
from dfprivacy.frames.viz.charts import write_whole
from dfprivacy.frames.viz.text import left_out, rendered, trusted

MOST_TIGHT = 24
"""Tight totals are computed for at most this many datasets, those that spent most."""
MOST_CHARGES = 10_000
"""At most this many charges are listed, the newest. All of them count in the spent budget."""

Cell = tuple[str, float | None]
"""The text of a cell, and the percentage that a bar under it shows."""

_SPARE = Fraction(1, 10**6)


def write_report(ledger: Ledger, path: str | os.PathLike[str], delta: float | None) -> Path:
    """Write the page of `Ledger.report`, and return its path."""
    target = Path(path)
    same = target.exists() and ledger.path.exists() and target.samefile(ledger.path)
    if target.suffix.lower() not in {".html", ".htm"} or same:
        raise PictureError(
            f"a report can't be written to {str(target)!r}",
            hint="name a file of its own that ends in .html",
        )
    return write_whole(target, _page(ledger, delta).encode())


@dataclass(frozen=True)
class Charged:
    """One charge of the history. `cost` is in the measure of the ledger."""

    time: datetime
    dataset: str
    question: str
    amount: str
    cost: float
    delta: float
    note: str


def _read_charge(row: tuple[Any, ...]) -> Charged:
    time, dataset, analyst, question, measure, amount, cost, delta, note, _, _ = row
    note = ", ".join(text for text in (analyst, note) if text)
    amount_text = f"{measure} {short(float(Fraction(amount)))}"
    return Charged(
        datetime.fromisoformat(time),
        dataset,
        question,
        amount_text,
        float(Fraction(cost, PER_ONE)),
        float(Fraction(delta, PER_ONE_DELTA)),
        note,
    )


def _page(ledger: Ledger, delta: object) -> str:
    """Return the page. Its policy lets a browser load nothing and run this one script alone."""
    total, statements, rows = ledger.statements()
    named_delta = delta_of(delta)
    own_delta = Fraction(total.delta, PER_ONE_DELTA)  # a ledger in rho needs some to spare
    usual = own_delta + _SPARE if total.measure == "rho" else own_delta or _SPARE
    quoted = usual if named_delta is None else named_delta
    exact = named_delta if total.measure == "epsilon" else quoted
    promised = ledger.promise(delta=None if exact is None else float(exact))
    try:
        charges = tuple(map(_read_charge, rows))
    except (ValueError, ZeroDivisionError):
        raise damaged(ledger.path) from None
    budget, epsilon = total.budget(), promised.epsilon or 0.0
    chance = math.ceil(1e4 * min(guess(epsilon, promised.delta), 1.0)) / 100
    accounts, charge_table = _accounts(ledger, statements, budget, quoted), _charges(total, charges)
    style = _file("ledger.css") + (accounts.phone_labels + charge_table.phone_labels) * bool(
        charges
    )
    script = _file("ledger.js")
    return rendered(
        "ledger.html",
        name=ledger.path.name,
        made=datetime.now(UTC),
        measure=total.measure,
        charges=charges,
        datasets=len(statements),
        counted=counted,
        zip=zip,
        budget=f"{total.measure} {_with_delta(short(_loss(budget)), budget.delta)}",
        promise=f"epsilon {_with_delta(upper(epsilon), promised.delta)}",
        chance=chance,
        accounts=accounts,
        quoted_delta=short(float(quoted)),
        about_tight=_about_tight(statements),
        listed=charge_table,
        unlisted=left_out(len(charge_table.rows), len(charges), "charges", ", the newest"),
        style=trusted(style),
        style_digest=_digest(style),
        script=trusted(script),
        script_digest=_digest(script),
    )


def _with_delta(text: str, delta: float) -> str:
    return f"{text} and delta {short(delta)}" if delta else text


def _file(name: str) -> str:
    return files("dfprivacy.frames.viz").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _loss(budget: Budget) -> float:
    return (budget.epsilon if budget.rho is None else budget.rho) or 0.0


def upper(value: float) -> str:
    """Return a number with up to 6 digits, rounded up: no loss is shown as less than it is.

    >>> upper(7.7662201), upper(0.5)
    ('7.76623', '0.5')
    """
    exact = Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(exact):.6g}"


def counted(number: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "charge"), counted(2000, "charge")
    ('1 charge', '2,000 charges')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def guess(epsilon: float, delta: float) -> float:
    """Return the best chance of telling two neighbors apart at even odds: (e^eps+d)/(e^eps+1).

    That is the corner of the region of errors which (epsilon, delta) allows (Kairouz, Oh and
    Viswanath 2015).

    >>> guess(0.0, 0.0), round(guess(1.0, 0.0), 4)
    (0.5, 0.7311)
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


@dataclass(frozen=True)
class Table:
    """A table, sorted by its first column. Columns have a head and the class of their cells."""

    name: str
    caption: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    sorted_by: str

    @property
    def phone_labels(self) -> str:
        """The rules that name each cell where a row is a card and has no heads above it."""
        rules = [
            f'#{self.name} td:nth-child({position})::before {{ content: "{head}: "; }}'
            for position, (head, _) in enumerate(self.columns, start=1)
        ]
        return f"@media (max-width: 800px) {{\n{chr(10).join(rules)}\n}}\n"


def _accounts(ledger: Ledger, read: Sequence[Statement], budget: Budget, quoted: Fraction) -> Table:
    """Return the spent and remaining budget of each dataset. Bars show the spent fraction."""
    largest = sorted(read, key=lambda statement: (-statement.spent.loss, statement.dataset))[
        :MOST_TIGHT
    ]
    tight = {statement.dataset for statement in largest} if _has_tight() else set()
    measure = "rho" if budget.epsilon is None else "epsilon"
    heads = [
        "charges",
        f"{measure} spent",
        "left",
        "delta spent",
        "delta left",
        "together",
        "tight",
        *(["remembered"] if ledger.remembers else []),
    ]
    rows = []
    for statement in read:
        spent, left = statement.spent.budget(), statement.left.budget()
        tight_epsilon = (
            tight_total(statement.composition, quoted).epsilon
            if statement.dataset in tight
            else None
        )
        row = [
            (statement.dataset, None),
            (f"{statement.charges:,}", None),
            _format_meter(_loss(spent), _loss(budget)),
            (short(_loss(left)), None),
            _format_meter(spent.delta, budget.delta),
            (short(left.delta), None),
            (_upper(statement.composition.total(quoted).epsilon), None),
            (_upper(tight_epsilon), None),
            *([(f"{statement.remembered:,}", None)] if ledger.remembers else []),
        ]
        rows.append(row)
    columns = [("dataset", ""), *((head, "n") for head in heads)]
    return Table("accounts", "What each dataset has spent and left", columns, rows, "ascending")


def _upper(value: float | None) -> str:
    return "" if value is None else upper(value)


def _format_meter(part: float, total: float) -> Cell:
    """Return an amount over a bar of the spent fraction. No bar if the budget is 0."""
    return short(part), round(100 * min(part / total, 1), 1) if total > 0 else None


def _charges(total: Units, charges: Sequence[Charged]) -> Table:
    other = total.measure == "rho"
    columns = [
        ("time (UTC)", "t"),
        ("dataset", ""),
        ("question", "q"),
        *([("asked", "t")] if other else []),
        (total.measure, "n"),
        ("delta", "n"),
        ("note", ""),
    ]
    rows = []
    for charge in reversed(charges[-MOST_CHARGES:]):
        amounts = [charge.amount] if other else []
        row = (
            f"{charge.time:%Y-%m-%d %H:%M:%S}",
            charge.dataset,
            charge.question,
            *amounts,
            short(charge.cost),
            short(charge.delta),
            charge.note,
        )
        rows.append([(text, None) for text in row])
    return Table("charges", "Charges, the newest first", columns, rows, "descending")


def _has_tight() -> bool:
    return find_spec("dp_accounting") is not None


def _about_tight(read: Sequence[Statement]) -> str:
    if not _has_tight():
        return "Tight totals are computed by dp-accounting: pip install 'dfprivacy[accounting]'."
    if len(read) > MOST_TIGHT:
        return f"Tight totals are shown for the {MOST_TIGHT} datasets that spent most."
    return ""
