"""`df.dp.shuffle`: simulate a protocol of the shuffle model over a column."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import delta_of
from dfprivacy.accounting.spending import Account, NoAccount
from dfprivacy.local.charges import protocol_charge
from dfprivacy.local.on_frames import column_values
from dfprivacy.shuffle.planning import mean, quantile, simulate, total
from dfprivacy.shuffle.protocol import Protocol
from dfprivacy.terms import EPSILON, INTERVAL, Terms, interval_level


class ShuffleMethods:
    """Protocols of the shuffle model over a frame's column: every row is one user.

    Privacy: (epsilon, delta) for replacing the value of a row. The number of rows is public here,
    unlike everywhere else in `.dp`.
    """

    def __init__(self, frame: Any, terms: Terms) -> None:
        self._frame, self._terms = frame, terms

    @property
    def explain(self) -> ShuffleMethods:
        """Explain protocols instead of running them: no data is read, nothing is spent."""
        from dfprivacy.shuffle.explaining import ShuffleExplaining  # noqa: PLC0415 a subclass

        return ShuffleExplaining(self._frame, self._terms)

    def __repr__(self) -> str:
        """Show the kind of frame, never what is in it."""
        kind = type(self._frame)
        return f"ShuffleMethods({kind.__module__.split('.')[0]} {kind.__name__})"

    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float],
        *,
        epsilon: float = EPSILON,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> Any:
        """Simulate a sum in the shuffle model: see `dfp.shuffle.total`.

        >>> import dfprivacy as dfp, pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 3.0] * 5000})
        >>> abs(frame.dp.shuffle.sum("x", (0, 10), epsilon=1, delta=1e-6) - 20_000) < 1000
        True
        """
        terms = self._terms.updated(epsilon=epsilon, delta=delta, interval=interval)
        return self._run(column, terms, "sum", lambda own: total(bounds=bounds, **own))

    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float],
        *,
        epsilon: float = EPSILON,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> Any:
        """Simulate a mean in the shuffle model: see `dfp.shuffle.mean`."""
        terms = self._terms.updated(epsilon=epsilon, delta=delta, interval=interval)
        return self._run(column, terms, "mean", lambda own: mean(bounds=bounds, **own))

    def quantile(
        self,
        column: Hashable,
        q: float,
        bounds: tuple[float, float],
        *,
        epsilon: float = EPSILON,
        delta: float | None = None,
        resolution: int = 12,
    ) -> Any:
        """Simulate a quantile in the shuffle model: see `dfp.shuffle.quantile`."""
        terms = self._terms.updated(epsilon=epsilon, delta=delta)
        return self._run(
            column, terms, "quantile",
            lambda own: quantile(q=q, bounds=bounds, resolution=resolution, **own),
        )  # fmt: skip

    def _run(
        self, column: Hashable, terms: Terms, name: str, plan: Callable[[Any], Protocol]
    ) -> Any:
        """Check, read, plan, pay, and only then draw."""
        charge, account = self._charge(column, terms, name)
        level = interval_level(terms.interval)
        account.check(charge)
        values = column_values(self._frame, column)
        protocol = plan({"users": len(values), "epsilon": terms.epsilon, "delta": terms.delta})
        account.pay(charge)
        return simulate(protocol, values, interval=level)

    def _charge(
        self, column: Hashable, terms: Terms, name: str
    ) -> tuple[Charge, Account | NoAccount]:
        """Return the charge of a protocol by its name, and the account that pays."""
        return protocol_charge(f"shuffle.{name}({column})", terms, delta_of(terms.delta))
