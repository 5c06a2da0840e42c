"""Simulate protocols of the shuffle model over a frame's column: `df.dp.shuffle`."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.loss import delta_of
from dfprivacy.local.on_frames import FrameProtocols
from dfprivacy.shuffle.plans import mean, quantile, total
from dfprivacy.shuffle.protocol import simulate
from dfprivacy.terms import EPSILON, INTERVAL, Terms


class ShuffleMethods(FrameProtocols):
    """Protocols of the shuffle model over a frame's column: every row is one user.

    Privacy: (epsilon, delta) for replacing the value of a row. The number of rows is public here,
    unlike everywhere else in `.dp`. Half-widths of `explain` are those of the answer, certain for
    all data: noise and the rounding at users.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, 3.0]})
    >>> plan = frame.dp.shuffle.explain.mean("x", (0, 10), epsilon=1, delta=1e-6)
    >>> [round(half, 2) for half in plan.answers[0].certain[2:4]]
    [0.05, 0.01]
    """

    MODEL = "shuffle"
    MECHANISM = "noise at the users, shuffled: discrete Laplace in all"
    UNIT = "units of {!r}"
    CERTAIN = True
    _simulate = staticmethod(simulate)
    UNTOLD = "users below a point are counted round by round: no half-width before there is data"

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
        given = {"bounds": bounds, "delta": terms.delta}
        return self._answer("sum", column, terms, total, given)

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
        given = {"bounds": bounds, "delta": terms.delta}
        return self._answer("mean", column, terms, mean, given)

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
        given = {"q": q, "bounds": bounds, "resolution": resolution, "delta": terms.delta}
        return self._answer("quantile", column, terms, quantile, given)

    def _delta(self, terms: Terms) -> Fraction:
        return delta_of(terms.delta) or Fraction(0)
