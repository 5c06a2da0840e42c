"""`.dp` on pandas frames and series."""

from __future__ import annotations

import atexit
from typing import Any

import pandas as pd

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import account_of
from dfprivacy.private import Private
from dfprivacy.release import Estimate
from dfprivacy.terms import EPSILON, INTERVAL, Terms


class PrivateSeries:
    """A series that answers privately: the questions of `Private` about its one column.

    >>> import dfprivacy as dfp, pandas as pd
    >>> 0 <= pd.Series(range(100)).dp(epsilon=2).mean(bounds=(0, 100)) <= 100
    True
    """

    def __init__(self, series: pd.Series[Any], terms: Terms | None = None) -> None:
        self._series, self._terms = series, Terms() if terms is None else terms

    def __call__(
        self,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        note: str | None = None,
    ) -> PrivateSeries:
        """Return the same series with terms for the questions that follow."""
        terms = self._terms.updated(
            epsilon=epsilon, rho=rho, delta=delta, interval=interval,
            ledger=ledger, dataset=dataset, note=note,
        )  # fmt: skip
        account_of(terms.ledger, terms.dataset, terms.note)
        return PrivateSeries(self._series, terms)

    def count(self, **terms: Any) -> Estimate:
        """Count the values that are neither NULL nor NaN; terms as in `Private.count`."""
        return self._frame().count(self._label(), **terms)

    def sum(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Sum the values, clipped to `bounds`; terms as in `Private.sum`."""
        return self._frame().sum(self._label(), bounds, **terms)

    def mean(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Average the values, clipped to `bounds`; terms as in `Private.mean`."""
        return self._frame().mean(self._label(), bounds, **terms)

    def var(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Return the population variance; terms as in `Private.var`."""
        return self._frame().var(self._label(), bounds, **terms)

    def std(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Return the population standard deviation; terms as in `Private.std`."""
        return self._frame().std(self._label(), bounds, **terms)

    def _label(self) -> Any:
        return "value" if self._series.name is None else self._series.name

    def _frame(self) -> Private:
        return Private(self._series.to_frame(self._label()), self._terms)


def register() -> None:
    """Put `.dp` on DataFrame and Series, until Python ends."""
    pd.api.extensions.register_dataframe_accessor("dp")(Private)
    pd.api.extensions.register_series_accessor("dp")(PrivateSeries)
    atexit.register(unregister)


def unregister() -> None:
    """Take `.dp` off again.

    The classes of pandas outlive the interpreter. What hangs on them would keep our modules alive,
    and DuckDB's types with them, of which DuckDB would complain on stderr.
    """
    for kind in (pd.DataFrame, pd.Series):
        if "dp" in vars(kind):
            delattr(kind, "dp")
