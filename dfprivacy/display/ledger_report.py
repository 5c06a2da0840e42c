"""Write a ledger as a page: what was asked, of which dataset, when, and what it cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA, Budget, Units
from dfprivacy.accounting.composition import tight_total
from dfprivacy.accounting.ledger import Ledger, Statement
from dfprivacy.accounting.ledger_file import damaged
from dfprivacy.accounting.loss import delta_of
from dfprivacy.display.ledger_facts import AccountFacts, Amount, ChargeFacts, LedgerFacts
from dfprivacy.display.ledger_page import ledger_page
from dfprivacy.display.saving import write_whole
from dfprivacy.errors import PictureError

MOST_TIGHT = 24
"""For so many datasets, those that spent most, the tight total is computed."""

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
    return write_whole(target, ledger_page(_facts(ledger, delta)).encode())


def _facts(ledger: Ledger, delta: object) -> LedgerFacts:
    total, statements, rows = ledger.statements()
    named = delta_of(delta)
    quoted = _usual(total) if named is None else named
    exact = named if total.measure == "epsilon" else quoted
    promised = ledger.promise(delta=None if exact is None else float(exact))
    try:
        charges = tuple(map(_charge, rows))
    except (ValueError, ZeroDivisionError):
        raise damaged(ledger.path) from None
    return LedgerFacts(
        name=ledger.path.name, made=datetime.now(UTC), measure=total.measure,
        budget=_amount(total.budget()), remembers=ledger.remembers,
        promise=(promised.epsilon or 0.0, promised.delta), quoted_delta=float(quoted),
        tells_tight=_about_tight(len(statements)), accounts=_accounts(statements, quoted),
        charges=charges,
    )  # fmt: skip


def _accounts(read: Sequence[Statement], delta: Fraction) -> tuple[AccountFacts, ...]:
    most = sorted(read, key=lambda own: (-own.spent.loss, own.dataset))[:MOST_TIGHT]
    tight = {own.dataset for own in most} if _has_tight() else set()
    made = []
    for own in read:
        least = tight_total(own.composition, delta) if own.dataset in tight else None
        made.append(
            AccountFacts(
                own.dataset, own.charges, _amount(own.spent.budget()), _amount(own.left.budget()),
                own.composition.total(delta).epsilon, None if least is None else least.epsilon,
                own.remembered,
            )
        )  # fmt: skip
    return tuple(made)


def _charge(row: tuple[Any, ...]) -> ChargeFacts:
    time, dataset, question, asked, amount, cost, delta, note, _, _ = row
    return ChargeFacts(
        datetime.fromisoformat(time), dataset, question, asked, float(Fraction(amount)),
        float(Fraction(cost, PER_ONE)), float(Fraction(delta, PER_ONE_DELTA)), note or "",
    )  # fmt: skip


def _amount(budget: Budget) -> Amount:
    return Amount((budget.epsilon if budget.rho is None else budget.rho) or 0.0, budget.delta)


def _usual(total: Units) -> Fraction:
    """Return the delta to quote where none is named; releases in rho need some of their own."""
    own = Fraction(total.delta, PER_ONE_DELTA)
    return own + _SPARE if total.measure == "rho" else own or _SPARE


def _has_tight() -> bool:
    return find_spec("dp_accounting") is not None


def _about_tight(datasets: int) -> str:
    if not _has_tight():
        return "Tight totals are computed by dp-accounting: pip install 'dfprivacy[accounting]'."
    if datasets > MOST_TIGHT:
        return f"Tight totals are those of the {MOST_TIGHT} datasets that spent most."
    return ""
