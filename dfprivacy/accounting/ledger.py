"""Keep a budget in a file: one account a dataset, charged before anything is drawn."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache, reduce
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self, TypeVar

import pandas as pd
import pyarrow as pa

from dfprivacy.accounting.charge import (
    PER_ONE,
    PER_ONE_DELTA,
    PERIODS,
    Budget,
    Charge,
    Units,
    account_name,
    find_dataset,
    is_period,
    name_total,
)
from dfprivacy.accounting.composition import Composition, tight_total
from dfprivacy.accounting.ledger_file import (
    Entry,
    Founding,
    Kept,
    LedgerFile,
    Log,
    Reading,
    Writing,
    build_damage_error,
    charge_entry,
    create,
    ledger_path,
    release_entry,
)
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.memory import read_released_table, write_content
from dfprivacy.errors import (
    BudgetExceededError,
    InvalidLedgerError,
    InvalidLossError,
    LedgerBudgetError,
    LedgerFileError,
    UnknownAccountError,
    boundary,
)
from dfprivacy.measurement.exact import describe, number_within

Opened = TypeVar("Opened", bound=Reading)

_LONGEST = 200  # characters of a dataset's name

HISTORY = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        "dataset": pa.string(),
        "question": pa.string(),
        "epsilon": pa.float64(),
        "rho": pa.float64(),
        "delta": pa.float64(),
        "note": pa.string(),
        "uuid": pa.string(),
        "dfprivacy": pa.string(),
        "analyst": pa.string(),
    }
)


@dataclass(frozen=True)
class Statement:
    """A dataset's account as the file has it."""

    dataset: str
    spent: Units
    left: Units
    charges: int
    composition: Composition
    remembered: int


@boundary
class Ledger:
    """A privacy budget for each dataset, kept in a file for ever.

    Each dataset has an account with the whole budget: `epsilon` and `delta`, or `rho` and `delta`.
    A release is charged in full before noise is drawn, and nothing is paid back.

    Without a budget an existing file is opened. With one it is made, or must have the same budget.
    With `remember=True` the file keeps releases about a dataset whose version is named, and repeats
    them without a charge. With `strict=True` only announced datasets have accounts. `timeout` is
    the number of seconds to wait for other processes.

    Threads, processes and forks may share a ledger. docs/how-to/ledger.md lists its guarantees.
    Every method raises a `LedgerError` when the file can't be used.

    >>> import dfprivacy as dfp, pandas as pd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = dfp.Ledger(folder.name + "/budget.db", epsilon=1)
    >>> flights = pd.DataFrame({"delay": range(100)}).dp(ledger=ledger, dataset="flights")
    >>> answer = flights.mean("delay", bounds=(0, 100), epsilon=0.4)
    >>> ledger.remaining("flights")
    Budget(epsilon=0.6)
    >>> folder.cleanup()

    Raises
    ------
    InvalidLossError
        When the budget is not a positive number of epsilon or of rho.
    LedgerBudgetError
        When the file was made with another budget, another `remember` or another `strict`.
    LedgerFileError
        When the file can't be made or read, is damaged, or is no ledger of this version.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        remember: bool | None = None,
        strict: bool | None = None,
        timeout: float = 5.0,
    ) -> None:
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise InvalidLedgerError(
                f"a ledger is a file, not {describe(path)}",
                hint='name it: dfp.Ledger("budget.db", epsilon=10)',
            )
        total, what = name_total(epsilon, rho, delta), "timeout must be a number of seconds"
        seconds = number_within(timeout, 0, 10**6, InvalidLedgerError, what, hint="pass timeout=5")
        choices = {"remember": remember, "strict": strict}
        for choice, value in choices.items():
            if not (value is None or isinstance(value, bool)):
                raise InvalidLedgerError(
                    f"{choice} must be True or False, not {describe(value)}",
                    hint=f"pass {choice}=True",
                )
        self._path, self._closed = ledger_path(path), False
        if total is not None and not self._path.exists():
            if not self._path.parent.is_dir():
                raise LedgerFileError(
                    f"there is no directory {str(self._path.parent)!r} for a ledger",
                    hint="create it first",
                )
            create(self._path, Founding(total, bool(remember), bool(strict)))
        self._file = LedgerFile(self._path, float(seconds))
        with self._file.reading() as reading:
            self._name, self._founding = reading.log.ledger, reading.log.founding
        self._total = self._founding.total
        if total is not None and total != self._total:
            raise LedgerBudgetError(
                f"the ledger {str(self._path)!r} was made with {self._total}, not with {total}",
                hint="a budget never changes: leave it out to open the file as it is, or name a "
                "new file for other data",
            )
        recorded = {"remember": self.remembers, "strict": self._founding.strict}
        for choice, value in choices.items():
            if value is not None and value is not recorded[choice]:
                raise LedgerBudgetError(
                    f"the ledger {str(self._path)!r} was made with {choice}={recorded[choice]}",
                    hint=f"that never changes: leave {choice} out to open the file as it is",
                )

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def budget(self) -> Budget:
        """The budget of each dataset."""
        return self._total.budget()

    @property
    def remembers(self) -> bool:
        """True if releases of a dataset whose version is named are kept."""
        return self._founding.remember

    @property
    def strict(self) -> bool:
        """True if only announced datasets have accounts."""
        return self._founding.strict

    def close(self) -> None:
        """Refuse further use of this object. The file stays as it is."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}, {self._founding.arguments()})"

    def _reading(self) -> AbstractContextManager[Reading]:
        """Read the file that this ledger was opened on."""
        return self._require_same(self._file.reading())

    def _writing(self) -> AbstractContextManager[Writing]:
        """Add to the file that this ledger was opened on, while no other process does."""
        return self._require_same(self._file.writing())

    @contextmanager
    def _require_same(self, file: AbstractContextManager[Opened]) -> Iterator[Opened]:
        if self._closed:
            raise InvalidLedgerError("the ledger is closed", hint="open it again: dfp.Ledger(path)")
        with file as opened:
            if opened.log.ledger != self._name:
                raise LedgerFileError(
                    f"the ledger {str(self._path)!r} was replaced by another",
                    hint="open it again if that is meant: dfp.Ledger(path)",
                )
            yield opened

    # Who has an account

    def announce(self, dataset: str, *, periods: str | None = None) -> None:
        """Open the account of a dataset, or one for each period of its data.

        With `periods`, "year", "month", "week" or "day", each period has an account with the whole
        budget, and every charge names one (`period="2024-01"`). You promise that the release is
        about rows of that period alone. The budget then protects a unit's rows of one period. A
        unit with rows in k periods loses k times as much.

        >>> import dfprivacy as dfp, pandas as pd, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/b.db", epsilon=1, strict=True)
        >>> ledger.announce("visits", periods="month")
        >>> january = pd.DataFrame({"shop": ["a"] * 100})
        >>> private = january.dp(ledger=ledger, dataset="visits", period="2024-01")
        >>> answer = private.count(epsilon=0.75)
        >>> ledger.remaining("visits", period="2024-01")
        Budget(epsilon=0.25)
        >>> ledger.remaining("visits", period="2024-02")
        Budget(epsilon=1.0)
        >>> folder.cleanup()

        Raises
        ------
        InvalidLedgerError
            When the dataset was announced otherwise, or was charged as a whole before.
        """
        name, kind = dataset_name(dataset), "" if periods is None else periods
        if periods is not None and not (isinstance(periods, str) and periods in PERIODS):
            named = repr(periods) if isinstance(periods, str) else describe(periods)
            raise UnknownAccountError(
                f"the periods of a dataset are its years, months, weeks or days, not {named}",
                hint='pass periods="month"',
            )
        with self._writing() as writing:
            before = writing.log.announced.get(name)
            if before == kind:
                return
            if before is not None or (kind and name in writing.log.accounts):
                how = "charged as a whole" if before is None else "announced otherwise"
                raise InvalidLedgerError(
                    f"the dataset {name!r} was {how} before",
                    hint="what a dataset's accounts are never changes: choose another name for "
                    "other data",
                )
            writing.append([("announcement", {"dataset": name, "periods": kind})])

    def allow(
        self,
        analyst: str,
        dataset: str,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
    ) -> None:
        """Allow an analyst to spend so much of a dataset's account, or of each of its periods.

        Allowances add nothing to the budget: all analysts together never exceed it. From the first
        allowance on, every charge names an analyst who has one. The last allowance of an analyst
        counts. The ledger believes the name.

        >>> import dfprivacy as dfp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/b.db", epsilon=10)
        >>> ledger.allow("ann", "flights", epsilon=3)
        >>> ledger.remaining("flights", analyst="ann"), ledger.remaining("flights")
        (Budget(epsilon=3.0), Budget(epsilon=10.0))
        >>> folder.cleanup()

        Raises
        ------
        InvalidLossError
            When the allowance is not in the measure of the ledger's budget.
        InvalidLedgerError
            When the ledger is strict and the dataset was not announced.
        """
        who, name = analyst_name(analyst), dataset_name(dataset)
        allowance = name_total(epsilon, rho, delta)
        if who is None or allowance is None or allowance.measure != self._total.measure:
            raise InvalidLossError(
                f"an allowance has a name and a number in {self._total.measure}, as the budget",
                hint=f'pass allow("ann", "flights", {self._total.measure}=1)',
            )
        with self._writing() as writing:
            if self.strict and name not in writing.log.announced:
                raise self._build_unannounced_error(writing.log, name)
            most_delta = self._total.delta if delta is None else allowance.delta
            loss, share = writing.log.written(replace(allowance, delta=most_delta), up=False)
            allowed = writing.log.allowed.get(name, {}).get(who)
            if allowed != writing.log.amount(loss, share):  # else it stands there already
                fields = {"analyst": who, "dataset": name, "loss": loss, "delta": share}
                writing.append([("allowance", fields)])

    def _require_account(self, log: Log, name: str) -> None:
        """Refuse an account that nobody has opened."""
        dataset, period = find_dataset(name)
        kind = log.announced.get(dataset)
        if kind and not is_period(kind, period):
            raise UnknownAccountError(
                f"the data of {dataset!r} come in periods, and "
                + (f"{period!r} is no {kind}" if period else f"no {kind} was named"),
                hint=f'name it, period="{PERIODS[kind][1]}", and ask rows of it alone',
            )
        if period and not kind:
            raise UnknownAccountError(
                f"the data of {dataset!r} were not announced to come in periods",
                hint="leave period out, and all releases add up; or announce disjoint periods "
                f'before the first charge: ledger.announce({dataset!r}, periods="month")',
            )
        if self.strict and kind is None:
            raise self._build_unannounced_error(log, dataset)

    def _require_analyst(self, log: Log, name: str, analyst: str | None) -> None:
        """Refuse who has no part in a budget that is shared out."""
        dataset = log.dataset(name)
        allowed = log.allowed.get(dataset)
        if allowed is not None and analyst not in allowed:
            who = "no analyst was named" if analyst is None else f"{analyst!r} has no part in it"
            raise UnknownAccountError(
                f"the budget of dataset {dataset!r} is shared out among analysts, and {who}",
                hint='name who asks, analyst="ann"; ledger.allow("ann", dataset, ...) gives a part',
            )

    def _build_unannounced_error(self, log: Log, dataset: str) -> UnknownAccountError:
        matches = get_close_matches(dataset, log.announced, 1)
        suggestion = f"did you mean {matches[0]!r}? Otherwise open" if matches else "open"
        return UnknownAccountError(
            f"the ledger is strict, and no dataset {dataset!r} was announced",
            hint=f"{suggestion} its account: ledger.announce({dataset!r})",
        )

    # What is spent and what is left

    def remaining(
        self, dataset: str, *, period: str | None = None, analyst: str | None = None
    ) -> Budget:
        """Return the remaining budget of a dataset, or of a period. A request for it fits.

        Of an `analyst` it is the rest of the allowance, if that is less.
        """
        name, who = account_name(dataset_name(dataset), period), analyst_name(analyst)
        with self._reading() as reading:
            self._require_account(reading.log, name)
            return self._find_rest(reading.log, name, who).budget()

    def spent(
        self, dataset: str, *, period: str | None = None, analyst: str | None = None
    ) -> Budget:
        """Return the spent budget of a dataset, in one `period` or in all. Of one `analyst`."""
        name, who = account_name(dataset_name(dataset), period), analyst_name(analyst)
        with self._reading() as reading:
            log = reading.log
            names = log.list_accounts(name) or [name]
            spent = [
                log.spent(account) if who is None else log.find_spent_by(who, account)
                for account in names
            ]
        return sum(spent, Units(self._total.measure, 0, 0)).budget()

    def analysts(self) -> list[tuple[str, str, Budget, Budget]]:
        """Return account, analyst, spent and remaining budget, where analysts count.

        Accounts that an analyst has not charged yet are left out, but for those of whole datasets.
        """
        with self._reading() as reading:
            log = reading.log
            pairs = {*log.by_analyst}
            for dataset, analysts in log.allowed.items():
                if not log.announced.get(dataset):
                    pairs |= {(dataset, who) for who in analysts}
            rows = []
            for name, who in sorted(pairs):
                spent, left = log.find_spent_by(who, name), self._find_rest(log, name, who)
                rows.append((name, who, spent.budget(), left.budget()))
            return rows

    def periods(self) -> dict[str, str]:
        """Return the datasets that come in periods, each with the length of one."""
        with self._reading() as reading:
            return {name: kind for name, kind in reading.log.announced.items() if kind}

    def announced(self) -> list[str]:
        """Return the datasets that were announced, sorted."""
        with self._reading() as reading:
            return sorted(reading.log.announced)

    def datasets(self) -> list[str]:
        """Return the names that have been charged, sorted."""
        with self._reading() as reading:
            return sorted(reading.log.accounts)

    def history(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the charges of one dataset, or of all, oldest first.

        Columns: time (UTC), dataset (with its period), question, epsilon, rho, delta, note, uuid,
        dfprivacy (its version, not that of the data), analyst. On a ledger in rho, an epsilon was
        asked for and rho is its cost.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._reading() as reading:
            return self._frame_charges(reading.charges(name))

    def _frame_charges(self, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
        """Return charges of the file as a history has them."""
        in_rho = self._total.measure == "rho"
        lines = []
        try:
            for time, about, who, question, measure, amount, cost, delta, note, uuid, code in rows:
                line = (
                    datetime.fromisoformat(time),
                    about,
                    question,
                    float(Fraction(amount)) if measure == "epsilon" else None,
                    float(Fraction(cost, PER_ONE)) if in_rho else None,
                    float(Fraction(delta, PER_ONE_DELTA)),
                    note,
                    uuid,
                    code,
                    who,
                )
                lines.append(dict(zip(HISTORY.names, line, strict=True)))
        except (ValueError, ArithmeticError):
            raise build_damage_error(self._path) from None
        frame: pd.DataFrame = pa.Table.from_pylist(lines, HISTORY).to_pandas()
        return frame

    def statements(self) -> tuple[Units, list[Statement], pd.DataFrame]:
        """Return the budget, every account and the history of all, at one moment."""
        with self._reading() as reading:
            accounts = []
            for name in sorted(reading.log.accounts):
                spent, charges = reading.log.spent(name), reading.log.accounts[name].charges
                left, stored = self._total.less(spent).positive(), _list_kept(reading.log, name)
                composition = self._composition(reading.log, name)
                accounts.append(Statement(name, spent, left, charges, composition, len(stored)))
            return self._total, accounts, self._frame_charges(reading.charges(None))

    # Charges

    def check(self, dataset: str, charge: Charge, *, analyst: str | None = None) -> None:
        """Raise the errors that `charge` would raise now, and charge nothing."""
        name, cost = dataset_name(dataset), charge.units(self._total.measure)
        with self._reading() as reading:
            self._require_part(reading.log, name, cost, analyst_name(analyst))
            self._require_left(reading.log, name, cost)

    def would_leave(
        self, dataset: str, charge: Charge, *, analyst: str | None = None
    ) -> Budget | None:
        """Return the remaining budget after a charge, or None if the charge does not fit.

        Nothing is charged. Raises the errors of `check`, but for `BudgetExceededError`.
        """
        name, cost = dataset_name(dataset), charge.units(self._total.measure)
        with self._reading() as reading:
            who = analyst_name(analyst)
            self._require_account(reading.log, name)
            self._require_analyst(reading.log, name, who)
            cost = self._count_cost(reading.log, cost)
            covered = self._find_largest_charge(reading.log, name, who)
            left = self._find_rest(reading.log, name, who)
        return left.less(cost).positive().budget() if covered.covers(cost) else None

    def charge(
        self, dataset: str, charge: Charge, *, note: str | None = None, analyst: str | None = None
    ) -> None:
        """Take a release's cost off a dataset's budget, durably, before anything is drawn.

        Every release of `.dp` does that by itself. When this returns, the charge is on the disk.
        When it raises, there must be no release.

        Raises
        ------
        BudgetExceededError
            When the cost exceeds the remaining budget.
        InvalidLossError
            For a release in rho on a ledger that counts epsilon.
        LedgerError
            When the charge could not be made durable.
        """
        name, about = dataset_name(dataset), note_text(note)
        with self._writing() as writing:
            who = analyst_name(analyst)
            writing.append([self._charge_entry(writing.log, name, charge, note=about, analyst=who)])

    def _charge_entry(
        self, log: Log, name: str, charge: Charge, *, note: str | None, analyst: str | None
    ) -> Entry:
        """Return a charge that fits, to be added to the log."""
        cost = charge.units(self._total.measure)
        self._require_part(log, name, cost, analyst)
        self._require_left(log, name, cost)
        loss, delta = log.written(cost, up=True)
        fields = {
            "question": charge.question.encode("utf-8", "replace").decode(),
            "note": note,
            "version": _version(),
            "dataset": name,
            "asked": charge.loss.measure,
            "amount": str(charge.loss.value),
            "cost": loss,
            "cost_delta": delta,
            **({} if analyst is None else {"analyst": analyst}),
        }
        return charge_entry(log, fields)

    def _count_cost(self, log: Log, cost: Units) -> Units:
        """Return a cost as the file counts it, rounded up to its units."""
        loss, delta = log.written(cost, up=True)
        return Units(cost.measure, loss * log.loss_unit, delta * log.delta_unit)

    def _find_rest(self, log: Log, name: str, analyst: str | None = None) -> Units:
        """Return the rest of an account, or of an analyst's allowance if that is less."""
        limits = self._limits(log, name, analyst)
        return reduce(Units.minimum, (limit.less(spent) for limit, spent in limits)).positive()

    def _find_largest_charge(self, log: Log, name: str, analyst: str | None = None) -> Units:
        """Return the largest charge that fits: the rest with the excess of each budget."""
        limits = self._limits(log, name, analyst)
        return reduce(Units.minimum, (limit.with_excess().less(spent) for limit, spent in limits))

    def _limits(self, log: Log, name: str, analyst: str | None) -> list[tuple[Units, Units]]:
        """Return the budget and its spent part, then the allowance of an analyst and its own."""
        allowed, limits = log.allowed.get(log.dataset(name), {}), [(self._total, log.spent(name))]
        if analyst is not None and analyst in allowed:
            limits.append((allowed[analyst], log.find_spent_by(analyst, name)))
        return limits

    def _require_part(
        self, log: Log, name: str, cost: Units, analyst: str | None, what: str = "this release"
    ) -> None:
        """Refuse an account that nobody has opened, and more than an analyst's part in it."""
        self._require_account(log, name)
        self._require_analyst(log, name, analyst)
        for allowance, spent in self._limits(log, name, analyst)[1:]:
            if allowance.with_excess().less(spent).covers(self._count_cost(log, cost)):
                continue
            left = allowance.less(spent).positive()
            raise BudgetExceededError(
                f"what {analyst!r} may spend of dataset {name!r} does not cover {what}: it costs "
                f"{cost}, and what is left of it is {left}",
                hint="ask for no more: ledger.remaining(dataset, analyst=...); ledger.allow can "
                "give a larger part",
            )

    def _require_left(
        self,
        log: Log,
        name: str,
        cost: Units,
        what: str = "this release",
        hint: str = "",
    ) -> None:
        if self._find_largest_charge(log, name).covers(self._count_cost(log, cost)):
            return
        left = self._find_rest(log, name)
        if cost.delta > self._total.delta == 0:
            hint = (
                "this ledger was made without a delta, and a budget never changes: ask for what "
                "needs none (listed keys), or make a ledger with one: "
                "dfp.Ledger(path, epsilon=10, delta=1e-6)"
            )
        elif cost.delta > left.delta and left.loss >= cost.loss:
            hint = (
                "it is the delta that lacks: each release by secret keys spends its own. Ask with "
                "a smaller delta, or list the keys, which needs none"
            )
        dataset, period = find_dataset(name)
        arguments = f"{dataset!r}, period={period!r}" if period else "dataset"
        raise BudgetExceededError(
            f"the budget of dataset {name!r} does not cover {what}: it costs {cost}, "
            f"and what is left is {left}",
            hint=hint or f"ask for no more than what is left: ledger.remaining({arguments})",
        )

    # What the releases amount to

    def total(
        self, dataset: str, *, delta: float | None = None, period: str | None = None
    ) -> Budget:
        """Return the epsilon and delta of all releases of a dataset, or of one period, so far.

        Epsilons add up. With a `delta` above the spent one, zero-concentrated composition is tried
        too, and the smaller epsilon counts. Quote it if the cost of each release was fixed before
        the first answer, else `promise`. The floats are not below the exact result.

        >>> import dfprivacy as dfp, polars as pl, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/b.db", rho=1)
        >>> with dfp.spending(ledger, dataset="flights"):
        ...     answer = pl.DataFrame({"delay": range(100)}).dp.count(rho=0.5)
        >>> round(ledger.total("flights", delta=1e-6).epsilon, 2)
        5.22
        >>> folder.cleanup()

        Raises
        ------
        InvalidLossError
            When the releases spent more than `delta`, or it is no number between 0 and 1.
        MissingDeltaError
            When releases were asked for in rho and `delta` leaves nothing for them.
        """
        with self._reading() as reading:
            name = account_name(dataset_name(dataset), period)
            return self._composition(reading.log, name).total(delta)

    def tight_total(self, dataset: str, *, delta: float) -> Budget:
        """Return the least epsilon known, by privacy loss distributions (dp-accounting).

        As `total`, and never above it. Needs `pip install 'dfprivacy[accounting]'`.

        Raises
        ------
        InvalidLossError
            When the releases spent more than `delta`, or it is no number between 0 and 1.
        LedgerError
            When dp-accounting is not installed, or the file can't be read.
        """
        with self._reading() as reading:
            composition = self._composition(reading.log, dataset_name(dataset))
        return tight_total(composition, delta)

    def promise(self, *, delta: float | None = None) -> Budget:
        """Return the epsilon and delta that each dataset, or period of one, will never exceed.

        That is the whole budget, converted. It holds for questions and costs chosen after any
        answers: the ledger refuses what goes beyond (Rogers et al. 2016, Feldman and Zrnic 2021).

        >>> import dfprivacy as dfp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dfp.Ledger(folder.name + "/b.db", rho=0.5, delta=1e-7)
        >>> round(ledger.promise(delta=1e-6).epsilon, 2)
        5.24
        >>> folder.cleanup()

        Raises
        ------
        InvalidLossError
            When the budget has more than `delta`, or it is no number between 0 and 1.
        MissingDeltaError
            When the budget is in rho and `delta` leaves nothing for it.
        """
        value, delta_of_all = Fraction(self._total.loss, PER_ONE), self._total.delta
        loss = Rho(value) if self._total.measure == "rho" else Epsilon(value)
        return Composition(((loss, 1),), Fraction(delta_of_all, PER_ONE_DELTA)).total(delta)

    def _composition(self, log: Log, dataset: str) -> Composition:
        """Return the releases of a dataset, if each was charged the cost of its loss."""
        names = log.list_accounts(dataset) or [dataset]
        accounts = [log.accounts[name] for name in names if name in log.accounts]
        losses: list[tuple[Epsilon | Rho, int]] = []
        for (measure, amount, cost), times in sum(
            (account.losses for account in accounts), Counter()
        ).items():
            try:
                loss = (Epsilon if measure == "epsilon" else Rho)(Fraction(amount))
            except (ValueError, ArithmeticError):
                raise build_damage_error(self._path) from None
            if self._count_cost(log, Charge(loss).units(self._total.measure)).loss != cost:
                raise build_damage_error(self._path)
            losses.append((loss, times))
        spent = Fraction(sum(account.delta for account in accounts), PER_ONE_DELTA)
        return Composition(tuple(losses), spent)

    def report(self, path: str | os.PathLike[str], *, delta: float | None = None) -> Path:
        """Write the ledger as one HTML page, and return its path.

        The page lists charges, budgets, a drawing over time and the promise. It loads nothing and
        costs nothing. Epsilons are quoted at `delta`: the budget's, unless named (1e-6 more for a
        ledger in rho).

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
        """
        pages = import_module("dfprivacy.frames.viz.ledger_page")  # accounting draws no pages
        written: Path = pages.write_report(self, path, delta)
        return written

    # Releases that can be repeated: what is handed out again is a function of what was charged

    def recall(self, dataset: str, fingerprint: bytes) -> pa.Table | None:
        """Return the release kept under a fingerprint, or None."""
        name, mark = dataset_name(dataset), fingerprint.hex()
        with self._reading() as reading:
            entry = reading.log.releases.get(mark)
            if entry is None or entry.dataset != name:
                return None
            content, is_settled = self._read_content(reading, entry), reading.is_settled(entry)
        if not is_settled:
            with self._writing():
                pass  # what comes out is on the disk
        return read_released_table(content)

    def _read_content(self, reading: Reading, entry: Kept) -> bytes:
        content = reading.content(entry)
        if hashlib.sha256(content).hexdigest() != entry.digest:
            raise build_damage_error(self._path)
        return content

    def store(self, dataset: str, fingerprint: bytes, table: pa.Table) -> None:
        """Keep a release that has been charged, durably. A kept release stays.

        Raises
        ------
        InvalidLedgerError
            When this ledger does not remember, or the release has more than 512 MiB.
        """
        name = dataset_name(dataset)
        if not self.remembers:
            raise InvalidLedgerError(
                "this ledger remembers no releases",
                hint="make one that does: dfp.Ledger(path, epsilon=10, remember=True)",
            )
        content = write_content(table)
        with self._writing() as writing:
            if name not in writing.log.accounts:
                raise InvalidLedgerError("a release that was never charged is not kept")
            if fingerprint.hex() not in writing.log.releases:
                writing.append([release_entry(name, fingerprint, content)], content)

    def stored(self, dataset: str | None = None) -> int:
        """Return how many releases of a dataset, or of all, are kept."""
        name = None if dataset is None else dataset_name(dataset)
        with self._reading() as reading:
            return len(_list_kept(reading.log, name))

    def forget(self, dataset: str | None = None) -> int:
        """Drop the releases kept of a dataset, or of all. Return how many there were.

        Asked again, they are made anew and charged again: nothing is paid back. The file is written
        anew without them. A release that is being made meanwhile is none of them.
        """
        name = None if dataset is None else dataset_name(dataset)
        with self._writing() as writing:
            marks = _list_kept(writing.log, name)
            if marks:
                writing.append([("drop", {"fingerprints": marks})])
            if writing.log.unused:
                writing.rewrite()
            return len(marks)


def _list_kept(log: Log, dataset: str | None) -> list[str]:
    """Return the fingerprints of the releases kept, without those that are charged and pending."""
    entries = log.releases.items()
    return [mark for mark, entry in entries if entry.size and dataset in {None, entry.dataset}]


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return version("dfprivacy")
    except PackageNotFoundError:
        return "unknown"


def dataset_name(dataset: object) -> str:
    """Return the name of an account. Two spellings of one text are one name."""
    name = _readable(dataset)
    if name is None:
        raise InvalidLedgerError(
            "the dataset that a ledger charges has no usable name",
            hint='name it as it is named everywhere, e.g. dataset="flights"',
        )
    return name


def analyst_name(analyst: object) -> str | None:
    """Return the name of who asks, or None. Two spellings of one text are one name."""
    what, hint = "an analyst is named by", 'name who asks as everywhere, e.g. analyst="ann"'
    return _optional(analyst, what, hint)


def version_name(version: object) -> str | None:
    """Return the caller's name of this state of the data, or None."""
    hint = 'name the state of the data, e.g. version="2026-11-20"'
    return _optional(version, "the version of a dataset is", hint)


def _optional(text: object, what: str, hint: str) -> str | None:
    """Return a text in one spelling, or None for None."""
    name = _readable(text)
    if name is None and text is not None:
        raise InvalidLedgerError(f"{what} a short text, not {describe(text)}", hint=hint)
    return name


def _readable(text: object) -> str | None:
    """Return a text in one spelling, if it can be read and typed again."""
    if isinstance(text, str) and len(text) <= _LONGEST:
        name = unicodedata.normalize("NFC", text)
        if name and name == name.strip() and name.isprintable():
            return name
    return None


def note_text(note: object) -> str | None:
    """Return a caller's note to the history, a text that can be stored, or None."""
    if note is None or (isinstance(note, str) and note == note.encode("utf-8", "replace").decode()):
        return note
    raise InvalidLedgerError(
        f"a note is a text, not {describe(note)}", hint='pass note="monthly report"'
    )
