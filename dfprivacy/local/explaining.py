"""`df.dp.local.explain`: the cost and the error of a protocol, by number of owners."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dfprivacy.engine.declared import integer_columns
from dfprivacy.forecast.explaining import by_users, explain_survey
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import Forecast, HalfWidths
from dfprivacy.local.charges import protocol_charge
from dfprivacy.local.findings import SideFinding
from dfprivacy.local.gaussian import GaussianPlan
from dfprivacy.local.planning import gaussian_mean
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.terms import EPSILON, INTERVAL, Terms, interval_level

_UNTOLD = "pass sigma= and rounds=2 to forecast the error before there are reports"


class LocalExplaining:
    """The protocols of `df.dp.local`, explained instead of run.

    No data is read, nothing is drawn or charged. Half-widths are those of the interval, which
    covers the sampling of owners too, when the coarse step has found the mean: `ordinary`.
    """

    def __init__(self, frame: Any, terms: Terms) -> None:
        self._frame, self._terms = frame, terms

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
    ) -> Explanation:
        """Explain the mean of a Gaussian in the local model: see `dfp.local.gaussian_mean`.

        >>> import dfprivacy as dfp, pandas as pd
        >>> frame = pd.DataFrame({"minutes": [150.0]})
        >>> plan = frame.dp.local.explain.gaussian_mean("minutes", epsilon=2, sigma=20, limit=1000)
        >>> [round(half, 2) for half in plan.answers[0].ordinary[-2:]]
        [0.29, 0.09]
        """
        terms = self._terms.updated(epsilon=epsilon, interval=interval)
        pure: Any = terms.epsilon
        charge, account = protocol_charge(f"local.gaussian_mean({column})", terms)
        level = interval_level(terms.interval)
        integer_columns(self._frame, [column])

        def half_width(users: int) -> float:
            protocol = gaussian_mean(
                users=users, epsilon=pure, sigma=sigma, sigma_bounds=sigma_bounds, limit=limit,
                rounds=rounds, campaign="explained",
            )  # fmt: skip
            assert isinstance(protocol.plan, GaussianPlan)  # noqa: S101 what was planned
            return side_half_width(protocol.plan, RandomisedResponse(2, charge.loss.pure()), level)

        half_width(1000)
        made = Forecast(
            str(column), charge.question, "randomised response of each owner",
            unit=f"units of {column!r}, sampling of owners included",
        )  # fmt: skip
        if sigma is None or rounds == 1:
            return explain_survey(charge, made.noted(_UNTOLD), level, account)
        widths: HalfWidths = by_users(half_width)
        return explain_survey(charge, made.measured((None,) * len(widths), widths), level, account)


def side_half_width(plan: GaussianPlan, law: RandomisedResponse, level: float) -> float:
    """Return half of the interval that half of the users give, asked at the mean itself."""
    reports = plan.users // 2
    expected = SideFinding(
        reports=reports, point=0.0, limit=plan.limit, trusted=True, beta=0.0, present=1.0,
        above=reports // 2, sigma=plan.sigma or 1.0, law=law,
    )  # fmt: skip
    low, high = expected.interval(level)
    return (high - low) / 2
