"""Find limits of a privacy unit privately: rows and groups that nearly all units stay within."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.loss import Contribution, read_loss
from dfprivacy.accounting.spending import name_account
from dfprivacy.engine.files import open_source
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frames.limit_finding import draw_limits, read_sizes
from dfprivacy.measurement.exact import describe
from dfprivacy.release.pipeline import charge_plan, check_charge
from dfprivacy.release.plan import LimitSearch, Plan
from dfprivacy.release.terms import EPSILON, Terms, Unit, UnlimitedUnit, find_label
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.split import shares as split_shares
from dfprivacy.statistics.split import split


def suggest_limits(
    frame: object,
    *,
    unit: Hashable,
    by: Hashable | Sequence[Hashable] = (),
    question: Statistic = Count(),  # noqa: B008 it never changes
    spending: float | None = None,
    epsilon: float = EPSILON,
    rho: float | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    note: str | None = None,
) -> Unit:
    """Find the limits that suit a question, a count unless another is named.

    They are those with the least error that can be forecast: the noise, which grows with both
    limits, and what they leave out or scale down. A noisy histogram of the rows of units in a group
    says how much that is (and, where a mean or a sum has bounds, how much higher or lower the rows
    of large units are), another one in how many groups units are, and a noisy number of groups how
    many rows a group has. Where too few units are there to tell, the limit is 1.

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
    """
    terms = Terms().update(epsilon=epsilon, rho=rho)  # read once: what is charged is what is spent
    loss = read_loss(terms.epsilon, terms.rho)
    if not isinstance(question, Statistic):
        raise InvalidQuestionError(
            f"question= is no question, but {describe(question)}",
            hint='question=dfp.mean("spent", (0, 100))',
        )
    question.check()
    goal = loss if spending is None else read_loss(**{loss.measure: spending})
    is_single = isinstance(by, str) or not isinstance(by, Sequence)
    labels = [find_label(by)] if is_single else list(by)  # type: ignore[arg-type]
    question_text = f"suggest_limits(unit={find_label(unit)!r}, question={question.text})"
    if labels:
        question_text += f" by {', '.join(map(repr, labels))}"
    plan = Plan(Charge(loss, question=question_text), name_account(ledger, dataset, note))
    frame = open_source(frame)
    check_charge(plan)
    one_row = Unit(unit, 1)
    parts = split({"": question}, grouped=False, unit=one_row, searching=True)
    losses = tuple(goal.share(share) for share in split_shares(parts))
    contributions = (Contribution(),) * len(parts)
    search = LimitSearch(UnlimitedUnit(unit), loss)
    plan = replace(plan, by=labels, unit=one_row, parts=parts, search=search)
    plan = replace(plan, losses=losses, contributions=contributions)
    _, sizes = read_sizes(frame, plan)
    with charge_plan(plan):
        limits = draw_limits(plan, sizes).unit
    assert limits is not None  # noqa: S101 of the unit that was named
    return limits
