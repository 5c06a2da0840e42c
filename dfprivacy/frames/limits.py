"""Find limits of a privacy unit privately: rows and groups that nearly all units stay within."""

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
from dfprivacy.engine.files import open_source
from dfprivacy.errors import InvalidLossError, InvalidQuestionError
from dfprivacy.frames.limit_finding import NamedLimits, draw_choice, read_sizes
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.exact import describe
from dfprivacy.release.pipeline import charged, check_charge
from dfprivacy.release.plan import Plan
from dfprivacy.release.terms import EPSILON, LARGEST_LIMIT, Terms, Unit, label_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.quantile import Quantile, QuantilePart
from dfprivacy.statistics.split import shares as split_shares
from dfprivacy.statistics.split import split


def suggest_limits(
    frame: object,
    *,
    unit: Hashable,
    by: Hashable | Sequence[Hashable] = (),
    share: float = 0.95,
    question: Statistic | None = None,
    spending: float | None = None,
    epsilon: float = EPSILON,
    rho: float | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    note: str | None = None,
) -> Unit:
    """Find the limits that suit a question, or that a part `share` of the units stay within.

    With a `question` the limits are those with the least error that can be forecast: the noise,
    which grows with both limits, and what they leave out or scale down. A noisy histogram of the
    rows of units in a group says how much that is (and, where a mean or a sum has bounds, how much
    higher or lower the rows of large units are), another one in how many groups units are, and a
    noisy number of groups how many rows a group has.

    Without one, limits come from two quantiles over units: the most rows that a unit has in one
    group, and the number of groups that it is in, each for half of the loss. Nearly all rows count
    then, which is rarely best: noise grows with the largest units.

    Where too few units are there to tell, the limit is 1.

    Privacy: neighbors differ by one whole unit, added or removed; the call costs `epsilon` (or
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
        From 0 to 1; of no use beside a question.
    question : question
        What will be asked: `dfp.mean("spent", (0, 100))`.
    spending : float
        The epsilon that the question will cost, or its rho where this call names a rho; as much as
        this call, if left out.

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
    >>> dfp.suggest_limits(visits, unit="user", by="shop", question=dfp.count(), epsilon=2)
    Unit(column='user', max_rows=..., max_groups=...)
    """
    named = _named_loss(epsilon, rho)  # read once: what is charged is what is spent
    labels, goal = group_labels(by), goal_of(question, spending, *named)
    quantile = Quantile(label_of(unit), share)
    charge = limits_charge(quantile, labels, *named, question)
    plan = Plan(charge, account_of(ledger, dataset, note))
    frame = open_source(frame)
    check_charge(plan)
    parts = () if goal is None else split(
        {"": goal[0]}, grouped=False, unit=Unit(unit, 1), searching=True
    )  # fmt: skip
    table, sizes = read_sizes(frame, labels, None, parts, Unit(unit, 1))
    if goal is None:
        losses = limit_losses(charge, labels)
        most, groups, units = table.largest_sizes()
        with charged(plan):
            limits = {
                limit: _limit(quantile, exact, units, losses[limit])
                for limit, exact in zip(losses, (most, groups), strict=False)
            }
        return Unit(unit, **limits)
    with charged(plan):
        shares = [goal[1].share(share) for share in split_shares(parts)]
        rows, limit, _ = draw_choice(sizes, charge.loss, parts, shares, NamedLimits())
    return Unit(unit, max(rows), limit if labels else None)


def goal_of(
    question: object, spending: object, epsilon: object, rho: object
) -> tuple[Statistic, Epsilon | Rho] | None:
    """Return the question that limits are found for, and what it will spend.

    None where a share of the units is to stay within.
    """
    loss = loss_of(*_named_loss(epsilon, rho))
    if question is None:
        if spending is not None:
            raise InvalidLossError(
                "spending= says what a question will cost, and none was named",
                hint='suggest_limits(..., question=dfp.mean("spent", (0, 100)), spending=1.0)',
            )
        return None
    if not isinstance(question, Statistic):
        raise InvalidQuestionError(
            f"question= is no question, but {describe(question)}",
            hint='question=dfp.mean("spent", (0, 100))',
        )
    question.check()
    if spending is not None:
        loss = loss_of(**{loss.measure: spending})
    return question, loss


def group_labels(by: Hashable | Sequence[Hashable]) -> list[Hashable]:
    """Return the columns to group by."""
    return [label_of(by)] if isinstance(by, str) or not isinstance(by, Sequence) else list(by)


def limits_charge(
    quantile: Quantile,
    labels: Sequence[Hashable],
    epsilon: object,
    rho: object,
    question: Statistic | None = None,
) -> Charge:
    """Return what finding limits costs, for a question or a `quantile` of the units."""
    what = f"share={quantile.q!r}" if question is None else f"question={question.text}"
    asked = f"suggest_limits(unit={quantile.column!r}, {what})"
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
    part = QuantilePart("limit", quantile, grouped=False)
    grid = part.binning()
    labels = grid.labels(sizes.astype(np.float64))
    one = np.zeros(len(sizes), dtype=np.int64)
    table = bin_table(pa.table({}), 1, grid, one, labels, rows=units)
    (answer,) = part.measured(table).answer(loss, None).answers["limit"]
    value = float(answer.columns(0.5)[0][0])
    return 1 if math.isnan(value) else min(max(math.ceil(value), 1), LARGEST_LIMIT)
