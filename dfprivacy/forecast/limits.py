"""The explanation of limits that are found privately."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from dfprivacy.accounting.spending import account_of
from dfprivacy.forecast.explaining import plain_explanation
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import Circumstances
from dfprivacy.labels import label_of
from dfprivacy.limits import group_labels, limit_losses, limits_charge
from dfprivacy.statistics.quantile import Quantile, QuantilePart
from dfprivacy.terms import INTERVAL


def explain_limits(
    unit: Hashable,
    by: Hashable | Sequence[Hashable],
    share: float,
    *,
    epsilon: object,
    rho: object,
) -> Explanation:
    """Return the explanation of `suggest_limits`: two quantiles over units, in ranks of units.

    Raises
    ------
    DPError
        Whatever would be refused before anything is charged.
    """
    labels, quantile = group_labels(by), Quantile(label_of(unit), share)
    charge, level = limits_charge(quantile, labels, epsilon, rho), float(INTERVAL)
    known = Circumstances(level, charge.loss, None, grouped=False, draws=1)
    made, draws = [], []
    for name, loss in limit_losses(charge, labels).items():
        part = QuantilePart(name, quantile, grouped=False)
        (own,) = part.forecasts(loss, {name: quantile}, known)
        made.append(replace(own, unit="ranks of units"))
        draws.append((loss, name))
    who = f"all rows of one {unit!r}"
    account = account_of(None, None, None)
    return plain_explanation(charge, made, draws, level, account, protects=who)
