"""Limits of a privacy unit, found privately: how many rows and groups nearly all units stay in."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.loss import Epsilon, Rho, loss_of
from dfprivacy.accounting.spending import account_of
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.unit_sizes import unit_sizes
from dfprivacy.labels import label_of
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import Integers
from dfprivacy.release.pipeline import paid
from dfprivacy.release.request import Request
from dfprivacy.releasing import named_columns, read
from dfprivacy.statistics.quantile import MeasuredRanks, Quantile, QuantilePart, value_grid
from dfprivacy.terms import EPSILON, Terms
from dfprivacy.unit import LARGEST_LIMIT, Unit


def suggest_limits(
    frame: object,
    *,
    unit: Hashable,
    by: Hashable | Sequence[Hashable] = (),
    share: float = 0.95,
    epsilon: float = EPSILON,
    rho: float | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    note: str | None = None,
) -> Unit:
    """Find limits that a part `share` of the units stay within, and pay for that.

    Two quantiles over units, each of them one row of a table: the most rows that a unit has in one
    group, and the number of groups it is in. Each costs half of the loss; without groups the first
    has it all. Where too few units are there to tell, the limit is 1.

    Privacy: neighbours differ by one whole unit, added or removed; the call costs `epsilon` (or
    `rho`), charged like any release. Rows without a unit are left out.

    Parameters
    ----------
    frame : frame, relation or path
        Whatever has `.dp`, or what `dfp.frame` takes.
    unit : label
        The column that says whose rows they are.
    by : label or list of labels
        The columns that will be grouped by; none for whole frames.
    share : float
        From 0 to 1.

    Returns
    -------
    Unit
        To be handed on: `df.dp(unit=dfp.suggest_limits(df, unit="user_id"))`.

    Raises
    ------
    DPError
        As any question; nothing depends on data.

    Examples
    --------
    >>> import dfprivacy as dfp, polars as pl
    >>> visits = pl.DataFrame({"user": [i % 5000 for i in range(10_000)], "shop": ["a"] * 10_000})
    >>> dfp.suggest_limits(visits, unit="user", by="shop", epsilon=2)
    Unit(column='user', max_rows=2, max_groups=1)
    """
    labels, quantile = group_labels(by), Quantile(label_of(unit), share)
    charge = limits_charge(quantile, labels, epsilon, rho)
    columns = named_columns(labels, None, {}, Unit(unit, 1))
    losses = limit_losses(charge, labels)

    def draw(found: tuple[Adopted, tuple[Integers, Integers, Integers]]) -> dict[str, int]:
        rows, groups, units = found[1]
        sizes = {"max_rows": rows, "max_groups": groups}
        return {name: _limit(quantile, sizes[name], units, losses[name]) for name in losses}

    _, limits = paid(
        Request(charge, account_of(ledger, dataset, note)),
        lambda: read(frame, columns, lambda a: unit_sizes(a, labels)),
        draw,
    )
    return Unit(unit, **limits)


def group_labels(by: Hashable | Sequence[Hashable]) -> list[Hashable]:
    """Return the columns to group by."""
    return [label_of(by)] if isinstance(by, str) or not isinstance(by, Sequence) else list(by)


def limits_charge(
    quantile: Quantile, labels: Sequence[Hashable], epsilon: object, rho: object
) -> Charge:
    """Return what finding limits costs: `quantile` is asked of the units twice."""
    asked = f"suggest_limits(unit={quantile.column!r}, share={quantile.q!r})"
    text = f"{asked} by {', '.join(map(repr, labels))}" if labels else asked
    return Charge(loss_of(*_named_loss(epsilon, rho)), question=text)


def limit_losses(charge: Charge, labels: Sequence[Hashable]) -> dict[str, Epsilon | Rho]:
    """Return the limits that are found, by name, and what each spends of the charge."""
    names = ("max_rows", "max_groups") if labels else ("max_rows",)
    return dict.fromkeys(names, charge.loss.share(Fraction(1, len(names))))


def _named_loss(epsilon: object, rho: object) -> tuple[object, object]:
    terms = Terms().updated(epsilon=epsilon, rho=rho)
    return terms.epsilon, terms.rho


def _limit(quantile: Quantile, sizes: Integers, units: Integers, loss: Epsilon | Rho) -> int:
    """Return a noisy quantile of sizes over units, as a limit."""
    grid = value_grid(coarse=False)
    labels = grid.labels(sizes.astype(np.float64))
    one = np.zeros(len(sizes), dtype=np.int64)
    table = bin_table(pa.table({}), 1, grid, one, labels, rows=units)
    part = QuantilePart("limit", quantile, grouped=False)
    (answer,) = MeasuredRanks(part, table).answer(loss, None).answers["limit"]
    value = float(answer.columns(0.5)[0][0])
    return 1 if math.isnan(value) else min(max(math.ceil(value), 1), LARGEST_LIMIT)
