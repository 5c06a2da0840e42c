"""`df.dp.local`: simulate a protocol over a column, to plan a survey or to learn its error."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.columns import check_number_column
from dfprivacy.engine.run import collect, guarded
from dfprivacy.local.asks import Floats
from dfprivacy.local.charges import protocol_charge
from dfprivacy.local.columns import value_matrix
from dfprivacy.local.estimate import LocalEstimate
from dfprivacy.local.explaining import LocalExplaining
from dfprivacy.local.planning import gaussian_mean
from dfprivacy.local.simulation import simulate
from dfprivacy.terms import EPSILON, INTERVAL, Terms, interval_level


class LocalMethods:
    """Protocols of the local model over a frame's column: every row is one owner.

    Privacy: for replacing the value of a row, epsilon, and that of each report on its own. The
    number of rows is public here, unlike everywhere else in `.dp`.
    """

    def __init__(self, frame: Any, terms: Terms) -> None:
        self._frame, self._terms = frame, terms

    @property
    def explain(self) -> LocalExplaining:
        """Explain protocols instead of running them: no data is read, nothing is spent."""
        return LocalExplaining(self._frame, self._terms)

    def __repr__(self) -> str:
        """Show the kind of frame, never what is in it."""
        kind = type(self._frame)
        return f"LocalMethods({kind.__module__.split('.')[0]} {kind.__name__})"

    def gaussian_mean(
        self,
        column: Hashable,
        *,
        epsilon: float = EPSILON,
        sigma: float | None = None,
        sigma_bounds: tuple[float, float] | None = None,
        limit: float | None = None,
        rounds: int = 2,
        interval: float = INTERVAL,
    ) -> LocalEstimate:
        """Simulate the mean of a Gaussian in the local model: see `dfp.local.gaussian_mean`.

        >>> import dfprivacy as dfp, pandas as pd, statistics
        >>> normal = statistics.NormalDist(150, 20)
        >>> minutes = [normal.inv_cdf((k + 0.5) / 40_000) for k in range(40_000)]
        >>> frame = pd.DataFrame({"minutes": minutes})
        >>> mean = frame.dp.local.gaussian_mean("minutes", epsilon=2, sigma=20, limit=1000)
        >>> abs(mean - 150) < 10 and mean.epsilon == 2
        True
        """
        terms = self._terms.updated(epsilon=epsilon, interval=interval)
        pure: Any = terms.epsilon
        charge, account = protocol_charge(f"local.gaussian_mean({column})", terms)
        level = interval_level(terms.interval)
        account.check(charge)
        values = column_values(self._frame, column)
        protocol = gaussian_mean(
            users=len(values), epsilon=pure, sigma=sigma, sigma_bounds=sigma_bounds,
            limit=limit, rounds=rounds,
        )  # fmt: skip
        account.pay(charge)
        found: LocalEstimate = simulate(protocol, values, interval=level)
        return found


def column_values(frame: Any, column: Hashable) -> Floats:
    """Return a column of numbers as floats, NaN where a value is missing.

    Raises
    ------
    MissingColumnError, UnsupportedDtypeError, UnsupportedFrameError, EngineError
        When there is no such column, it holds no numbers, or it can't be read.
    """
    adopted = guarded(lambda: adopt(frame, Columns((), {column: True}, ())))
    try:
        name = adopted.values[column]
        check_number_column(column, adopted.lazy.collect_schema()[name])
        rows = adopted.rows().select(name)
        table = guarded(lambda: collect(rows, adopted.connection))
    finally:
        adopted.close()
    return value_matrix(table.column(0), 0)
