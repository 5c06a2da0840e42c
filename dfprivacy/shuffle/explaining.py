"""`df.dp.shuffle.explain`: the cost and the error of a protocol, by number of users."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.engine.declared import integer_columns
from dfprivacy.forecast.explaining import by_users, explain_survey
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import Forecast
from dfprivacy.shuffle.on_frames import ShuffleMethods
from dfprivacy.shuffle.protocol import Protocol
from dfprivacy.shuffle.totals import Total
from dfprivacy.terms import Terms, interval_level

_QUANTILE = "users are counted in rounds, so no half-width is known before there is data"


class ShuffleExplaining(ShuffleMethods):
    """The protocols of `df.dp.shuffle`, explained instead of run.

    No data is read, nothing is drawn or charged. Half-widths are those of the answer, certain for
    all data: noise and the rounding at users.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, 3.0]})
    >>> plan = frame.dp.shuffle.explain.mean("x", (0, 10), epsilon=1, delta=1e-6)
    >>> [round(half, 2) for half in plan.answers[0].certain[2:4]]
    [0.05, 0.01]
    """

    def _run(
        self, column: Hashable, terms: Terms, name: str, plan: Callable[[Any], Protocol]
    ) -> Explanation:
        """Check and plan for several numbers of users."""
        charge, account = self._charge(column, terms, name)
        level = interval_level(terms.interval)
        integer_columns(self._frame, [column])

        def planned(users: int) -> Protocol:
            return plan({"users": users, "epsilon": terms.epsilon, "delta": terms.delta})

        made = _forecast(column, charge, planned, level)
        return explain_survey(charge, made, level, account)


def _forecast(
    column: Hashable, charge: Charge, planned: Callable[[int], Protocol], level: float
) -> Forecast:
    made = Forecast(
        str(column), charge.question, "noise at the users, shuffled: discrete Laplace in all",
        unit=f"units of {column!r}",
    )  # fmt: skip
    if not isinstance(planned(1000).plan, Total):
        return made.noted(_QUANTILE)

    def half_width(users: int) -> float:
        protocol = planned(users)
        assert isinstance(protocol.plan, Total)  # noqa: S101 as for 1,000 users
        return protocol.plan.half_width(protocol, level)

    widths = by_users(half_width)
    return made.measured(widths).noted("sizes count users")
