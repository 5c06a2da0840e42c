"""Write a ledger as one page that fetches nothing: questions, times and costs."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from dfprivacy.accounting.charge import PER_ONE_DELTA, Budget, short
from dfprivacy.accounting.composition import tight_total
from dfprivacy.accounting.ledger import Ledger, Statement
from dfprivacy.accounting.loss import read_delta
from dfprivacy.errors import PictureError
from dfprivacy.frames.viz.charts import write_whole
from dfprivacy.frames.viz.text import left_out, render

MOST_TIGHT = 24  # tight totals are computed for at most this many datasets, those that spent most
MOST_CHARGES = 10_000
"""At most this many charges are listed, the newest. All of them count in the spent budget."""

Cell = tuple[str, float | None]  # the text of a cell, and the percentage that a bar under it shows

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


def _page(ledger: Ledger, delta: object) -> str:
    """Return the page. Its policy lets a browser load nothing and run no script."""
    total, statements, history = ledger.statements()
    named_delta = read_delta(delta)
    own_delta = Fraction(total.delta, PER_ONE_DELTA)  # a ledger in rho needs some to spare
    usual = own_delta + _SPARE if total.measure == "rho" else own_delta or _SPARE
    quoted = usual if named_delta is None else named_delta
    exact = named_delta if total.measure == "epsilon" else quoted
    promised = ledger.promise(delta=None if exact is None else float(exact))
    newest = [
        [
            f"{charge['time']:%Y-%m-%d %H:%M:%S}",
            charge["dataset"],
            charge["question"],
            *([_write_request(charge)] if total.measure == "rho" else []),
            short(charge[total.measure]),
            short(charge["delta"]),
            ", ".join(charge[name] for name in ("analyst", "note") if not pd.isna(charge[name])),
        ]
        for charge in history[: -MOST_CHARGES - 1 : -1].to_dict("records")
    ]
    budget, epsilon = total.budget(), promised.epsilon or 0.0
    chance = math.ceil(1e4 * min(guess(epsilon, promised.delta), 1.0)) / 100
    amount = ["asked"] if total.measure == "rho" else []
    heads = ["time (UTC)", "dataset", "question", *amount, total.measure, "delta", "note"]
    about_tight = ""
    if not _has_tight():
        about_tight = (
            "Tight totals are computed by dp-accounting: pip install 'dfprivacy[accounting]'."
        )
    elif len(statements) > MOST_TIGHT:
        about_tight = f"Tight totals are shown for the {MOST_TIGHT} datasets that spent most."
    return render(
        "ledger.html",
        name=ledger.path.name,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        charges=len(history),
        times=[
            f"{time:%Y-%m-%d %H:%M:%S}"
            for time in history["time"].iloc[[0, -1] if len(history) else []]
        ],
        counted=write_count,
        budget=f"{total.measure} {_with_delta(short(_loss(budget)), budget.delta)}",
        promise=f"epsilon {_with_delta(upper(epsilon), promised.delta)}",
        chance=chance,
        accounts=_accounts(ledger, statements, budget, quoted),
        quoted_delta=short(float(quoted)),
        about_tight=about_tight,
        listed=[heads, *newest],
        unlisted=left_out(len(newest), len(history), "charges", ", the newest"),
    )


def _with_delta(text: str, delta: float) -> str:
    return f"{text} and delta {short(delta)}" if delta else text


def _loss(budget: Budget) -> float:
    return (budget.epsilon if budget.rho is None else budget.rho) or 0.0


def upper(value: float | None) -> str:
    """Return a number with up to 6 digits, rounded up: no loss is shown as less than it is.

    None is no text.

    >>> upper(7.7662201), upper(0.5)
    ('7.76623', '0.5')
    """
    if value is None:
        return ""
    exact = Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(exact):.6g}"


def write_count(number: int, noun: str) -> str:
    """Return a number of things.

    >>> write_count(1, "charge"), write_count(2000, "charge")
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


def _accounts(
    ledger: Ledger, statements: Sequence[Statement], budget: Budget, quoted: Fraction
) -> list[dict[str, Cell]]:
    """Return the spent and remaining budget of each dataset. Bars show the spent fraction."""
    largest = sorted(statements, key=lambda statement: (-statement.spent.loss, statement.dataset))
    tight = {statement.dataset for statement in largest[:MOST_TIGHT]} if _has_tight() else set()
    measure = "rho" if budget.epsilon is None else "epsilon"
    accounts = []
    for statement in statements:
        spent, left = statement.spent.budget(), statement.left.budget()
        history = statement.composition
        tightest = tight_total(history, quoted).epsilon if statement.dataset in tight else None
        account: dict[str, Cell] = {
            "dataset": (statement.dataset, None),
            "charges": (f"{statement.charges:,}", None),
            f"{measure} spent": _format_meter(_loss(spent), _loss(budget)),
            "left": (short(_loss(left)), None),
            "delta spent": _format_meter(spent.delta, budget.delta),
            "delta left": (short(left.delta), None),
            "together": (upper(history.total(quoted).epsilon), None),
            "tight": (upper(tightest), None),
        }
        if ledger.remembers:
            account["remembered"] = f"{statement.remembered:,}", None
        accounts.append(account)
    return accounts


def _format_meter(part: float, total: float) -> Cell:
    """Return an amount over a bar of the spent fraction. No bar if the budget is 0."""
    return short(part), round(100 * min(part / total, 1), 1) if total > 0 else None


def _write_request(charge: Mapping[Hashable, Any]) -> str:
    """Return the amount that was asked for on a ledger in rho, which counts its cost."""
    measure = "rho" if pd.isna(charge["epsilon"]) else "epsilon"
    return f"{measure} {short(charge[measure])}"


def _has_tight() -> bool:
    return find_spec("dp_accounting") is not None
