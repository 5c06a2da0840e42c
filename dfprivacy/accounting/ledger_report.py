"""A ledger as a page: what was asked, of which dataset, when, and what it cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA, Units
from dfprivacy.accounting.composition import Composition
from dfprivacy.accounting.ledger_totals import Totals, read_composition
from dfprivacy.accounting.loss import delta_of
from dfprivacy.accounting.loss_distribution import tight_total
from dfprivacy.display.ledger_facts import AccountFacts, Amount, ChargeFacts, LedgerFacts
from dfprivacy.display.ledger_page import ledger_page
from dfprivacy.display.saving import write_whole
from dfprivacy.errors import PictureError

MOST_TIGHT = 24
"""For so many datasets, those that spent most, the tight total is computed."""

_ENDINGS = {".html", ".htm"}
_SPARE = Fraction(1, 10**6)


class Reports(Totals):
    """The part of a ledger that shows it."""

    def report(self, path: str | os.PathLike[str], *, delta: float | None = None) -> Path:
        """Write what the ledger holds as one HTML page, and return its path.

        The page lists every charge with its question and note, what each dataset has spent and
        left, a drawing of that over time, and the promise in plain words; tables can be sorted and
        filtered. It loads nothing and holds no rows and no answers. `delta` is the one at which
        epsilons are quoted: the budget's delta, unless named (1e-6 more for a ledger in rho).

        Privacy: a function of questions and terms alone; it costs nothing.

        >>> import dfprivacy as dfp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/budget.db", epsilon=1)
        >>> ledger.report(folder.name + "/budget.html").name
        'budget.html'
        >>> folder.cleanup()

        Raises
        ------
        PictureError
            When the path does not end in .html or can't be written.
        InvalidLossError
            When the releases spent more than `delta`, or it is no number between 0 and 1.
        LedgerError
            When the ledger can't be read.
        """
        target = Path(path)
        if target.suffix.lower() not in _ENDINGS or _same_file(target, self.path):
            raise PictureError(
                f"a report can't be written to {str(target)!r}",
                hint="name a file of its own that ends in .html",
            )
        return write_whole(target, ledger_page(self._facts(delta)).encode())

    def _facts(self, delta: object) -> LedgerFacts:
        with self._open("BEGIN") as connection:
            names = ledger_file.read_datasets(connection)
            accounts = [_read(connection, name, self._total) for name in names]
            rows = ledger_file.read_charges(connection, None)
        named = delta_of(delta)
        quoted = _usual(self._total) if named is None else named
        exact = named if self._total.measure == "epsilon" else quoted
        promised = self.promise(delta=None if exact is None else float(exact))
        charges = self._charges(rows)
        return LedgerFacts(
            name=self.path.name, made=datetime.now(UTC), measure=self._total.measure,
            budget=_amount(self._total), remembers=self.remembers,
            promise=(promised.epsilon or 0.0, promised.delta), quoted_delta=float(quoted),
            tells_tight=_about_tight(len(names)), accounts=self._accounts(accounts, quoted),
            charges=charges,
        )  # fmt: skip

    def _charges(self, rows: Sequence[tuple[Any, ...]]) -> tuple[ChargeFacts, ...]:
        try:
            return tuple(map(_charge, rows))
        except (ValueError, ZeroDivisionError):
            raise ledger_file.damaged(self._path) from None

    def _accounts(self, read: Sequence[_Account], delta: Fraction) -> tuple[AccountFacts, ...]:
        most = sorted(read, key=lambda own: (-own.spent.loss, own.dataset))[:MOST_TIGHT]
        tight = {own.dataset for own in most} if _has_tight() else set()
        made = []
        for own in read:
            if own.composition is None:
                raise ledger_file.damaged(self._path)
            least = tight_total(own.composition, delta) if own.dataset in tight else None
            made.append(
                AccountFacts(
                    own.dataset, own.charges, _amount(own.spent),
                    _amount(self._total.less(own.spent)), own.composition.total(delta).epsilon,
                    None if least is None else least.epsilon, own.remembered,
                )
            )  # fmt: skip
        return tuple(made)


@dataclass(frozen=True)
class _Account:
    """A dataset as the file has it."""

    dataset: str
    spent: Units
    charges: int
    composition: Composition | None
    remembered: int


def _read(connection: Connection, dataset: str, total: Units) -> _Account:
    counts = [
        connection.execute(f"SELECT count(*) FROM {table} WHERE dataset = ?", (dataset,))  # noqa: S608 two names of ours
        for table in ("charge", "release")
    ]
    charges, remembered = (int(found.fetchone()[0]) for found in counts)
    spent = ledger_file.read_spent(connection, dataset, total.measure)
    composition = read_composition(connection, dataset, total.measure)
    return _Account(dataset, spent, charges, composition, remembered)


def _charge(row: tuple[Any, ...]) -> ChargeFacts:
    time, dataset, question, asked, amount, cost, delta, note, _, _ = row
    return ChargeFacts(
        datetime.fromisoformat(time), dataset, question, asked, float(Fraction(amount)),
        float(Fraction(cost, PER_ONE)), float(Fraction(delta, PER_ONE_DELTA)), note or "",
    )  # fmt: skip


def _amount(units: Units) -> Amount:
    budget = units.budget()
    loss = budget.epsilon if units.measure == "epsilon" else budget.rho
    return Amount(loss or 0.0, budget.delta)


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


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
