"""`.dp` on pandas frames and series."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import account_of
from dfprivacy.private import Private
from dfprivacy.release import Choice, Estimate, Number
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
        answer: Estimate = self._frame().count(self._label(), **terms)
        return answer

    def sum(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Sum the values; `bounds` and terms as in `Private.sum`."""
        answer: Estimate = self._frame().sum(self._label(), bounds, **terms)
        return answer

    def mean(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Number:
        """Average the values; `bounds`, method and terms as in `Private.mean`."""
        answer: Number = self._frame().mean(self._label(), bounds, **terms)
        return answer

    def var(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Return the population variance; `bounds` and terms as in `Private.var`."""
        answer: Estimate = self._frame().var(self._label(), bounds, **terms)
        return answer

    def std(self, bounds: tuple[float, float] | None = None, **terms: Any) -> Estimate:
        """Return the population standard deviation; `bounds` and terms as in `Private.std`."""
        answer: Estimate = self._frame().std(self._label(), bounds, **terms)
        return answer

    def median(self, **terms: Any) -> Choice:
        """Return the median; method and terms as in `Private.median`."""
        answer: Choice = self._frame().median(self._label(), **terms)
        return answer

    def quantile(self, q: float, **terms: Any) -> Choice:
        """Return the quantile `q`, from 0 to 1; method and terms as in `Private.quantile`."""
        answer: Choice = self._frame().quantile(self._label(), q, **terms)
        return answer

    def quantiles(self, qs: Sequence[float], **terms: Any) -> list[Choice]:
        """Return several quantiles in the order asked; terms as in `Private.quantiles`."""
        answer: list[Choice] = self._frame().quantiles(self._label(), qs, **terms)
        return answer

    def center(self, p: float, bounds: tuple[float, float] | None = None, **terms: Any) -> Choice:
        """Return the l_p centre, p > 1; `bounds` and terms as in `Private.center`."""
        answer: Choice = self._frame().center(self._label(), p, bounds, **terms)
        return answer

    def bounds(self, rank: int | None = None, **terms: Any) -> tuple[float, float]:
        """Return private bounds (lower, upper); `rank` and terms as in `Private.bounds`."""
        answer: tuple[float, float] = self._frame().bounds(self._label(), rank, **terms)
        return answer

    def histogram(
        self,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = None,
        **terms: Any,
    ) -> pd.DataFrame:
        """Count the values bin by bin, one row a bin; terms as in `Private.histogram`."""
        answer: pd.DataFrame = self._frame().histogram(self._label(), bins, bounds, **terms)
        return answer

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
