"""What the releases of an account amount to, as an epsilon and a delta."""

from __future__ import annotations

from fractions import Fraction
from sqlite3 import Connection

from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA, Budget, Charge, Measure
from dfprivacy.accounting.composition import Composition
from dfprivacy.accounting.ledger_terms import dataset_name
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.loss_distribution import tight_total
from dfprivacy.accounting.opened import Opened


class Totals(Opened):
    """The part of a ledger that adds up.

    Privacy, for every method: all releases of the dataset together are (epsilon, delta)-DP for the
    neighbours they were made for. The floats are not below what was computed.
    """

    def total(self, dataset: str, *, delta: float | None = None) -> Budget:
        """Return the epsilon and delta of all releases of a dataset so far.

        Epsilons add up; with a `delta` above what the releases spent themselves, zero-concentrated
        composition is tried too (Bun and Steinke 2016; conversion of Canonne, Kamath and Steinke
        2020), and the smaller epsilon counts. It may always be quoted if what each release was to
        cost was settled before the first answer. If costs were chosen after seeing answers, quote
        `promise`.

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
        LedgerError
            When the file can't be read.
        """
        return self._composition(dataset).total(delta)

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
        return tight_total(self._composition(dataset), delta)

    def promise(self, *, delta: float | None = None) -> Budget:
        """Return the epsilon and delta that each dataset will never exceed.

        That is what the whole budget amounts to. It holds for questions and costs chosen after any
        answers: the ledger refuses what goes beyond (Rogers et al. 2016; Feldman and Zrnic 2021).

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

    def _composition(self, dataset: str) -> Composition:
        name = dataset_name(dataset)
        with self._open("BEGIN") as connection:
            composition = read_composition(connection, name, self._total.measure)
        if composition is None:
            raise ledger_file.damaged(self._path)
        return composition


def read_composition(connection: Connection, dataset: str, measure: Measure) -> Composition | None:
    """Return the releases charged to a dataset; None if a cost is not that of its loss."""
    rows = connection.execute(
        "SELECT asked, amount, cost, count(*), sum(cost_delta) FROM charge WHERE dataset = ? "
        "GROUP BY asked, amount, cost",
        (dataset,),
    ).fetchall()
    losses, delta = [], 0
    for asked, amount, cost, times, spent in rows:
        loss = _loss(asked, amount)
        if loss is None or Charge(loss).units(measure).loss != cost:
            return None
        losses.append((loss, times))
        delta += spent
    return Composition(tuple(losses), Fraction(delta, PER_ONE_DELTA))


def _loss(asked: str, amount: str) -> Epsilon | Rho | None:
    try:
        value = Fraction(amount)
    except (ValueError, ZeroDivisionError):
        return None
    return Epsilon(value) if asked == "epsilon" else Rho(value)
