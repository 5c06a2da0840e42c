"""Run a release. This module is the only caller of `Account.pay`.

The engine runs before the account pays, so that a release that can't be made costs nothing. Nothing
is drawn before the charge is durable, so that no failure gives noise away for free. Only the server
charges later, before an answer leaves its worker (`accounting/answer_ledger.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.accounting.memory import REMEMBERED
from dfprivacy.errors import EntropyError, warn_once
from dfprivacy.noise.entropy import PERMIT, Permit
from dfprivacy.release.answers import Answered, Answers, Measured
from dfprivacy.release.plan import Plan, ReleaseInfo, index_of_counting_part

LARGE_EPSILON = 20
LARGE_DELTA = Fraction(1, 1000)
"""Above these a release warns its caller."""


@dataclass(frozen=True)
class Release:
    """A published release: keys, then value, low, high and note of each answer, and its info.

    `answers` hold the laws of the noise, for intervals at other levels. A release that a ledger
    remembers has none.
    """

    table: pa.Table
    info: ReleaseInfo
    answers: Answers | None = field(default=None, repr=False)


class Source(ABC):
    """Rows that a plan can be measured over."""

    @abstractmethod
    def measure(self, plan: Any) -> Any:
        """Return the exact, secret statistics that a plan needs.

        Raises an error for every plan that can't be answered, or handed back.
        """

    @abstractmethod
    def answer(self, plan: Any, exact: Any) -> Release:
        """Draw noise, and return the release."""

    def to_memory(self, plan: Plan, released: Release) -> pa.Table | None:  # noqa: ARG002 of any plan
        """Return the table that a ledger keeps; None if it would come back as another one."""
        return released.table


def release(source: Source, plan: Plan) -> Release:
    """Release the answers to a plan, or recall them if the ledger remembers them.

    Raises
    ------
    DPError
        When the account refuses or measuring fails; nothing is charged then.
    """
    remembered = plan.account.recall(plan.mark)
    if remembered is not None:
        facts = {**(remembered.schema.metadata or {}), REMEMBERED: b""}
        return Release(remembered.replace_schema_metadata(facts), plan.info)
    check_charge(plan)
    exact = source.measure(plan)
    with charge_plan(plan):
        released = source.answer(plan, exact)
    if plan.mark is not None:
        with suppress(Exception):  # it is charged already; its keys may fail as they like
            table = source.to_memory(plan, released)
            if table is not None:
                plan.account.remember(plan.mark, table)
    return released


def check_charge(plan: Plan) -> None:
    """Refuse a charge that the account can't cover; warn once of a weak promise."""
    plan.account.check(plan.charge)
    loss, delta = plan.charge.loss, plan.charge.delta
    if isinstance(loss, Epsilon) and loss.value > LARGE_EPSILON:
        warn_once(
            "epsilon",
            f"epsilon={float(loss.value):g} promises next to nothing: values up to 1 are strong, "
            f"above {LARGE_EPSILON} hardly any single row is hidden",
        )
    if delta > LARGE_DELTA:
        warn_once(
            "delta",
            f"delta={float(delta):g} lets a row of its own group be shown in one of "
            f"{int(1 / delta)} releases: choose less than 1 / number of rows",
        )


@contextmanager
def charge_plan(plan: Plan) -> Iterator[None]:
    """Charge a plan, durably, and let noise be drawn in this block."""
    plan.account.pay(plan.charge)
    with permit(plan.charge.question):
        yield


@contextmanager
def permit(paid_by: str) -> Iterator[None]:
    """Let noise be drawn in this block, or in the function that this decorates.

    Code that draws without an account names its payment: the epsilon in a statement on a raw
    connection, or the owner of a report, who gives nothing else away. It holds for this thread, may
    be nested, and ends with the block: a context that was copied inside draws nothing afterwards. A
    child that is forked inside fails at the end of the block, so that no answer of its parent
    leaves it a second time.
    """
    opened = Permit(paid_by)
    token = PERMIT.set(opened)
    try:
        yield
        if not opened.is_open:
            raise EntropyError(
                "a release was drawn in a child of the process that has paid for it",
                hint="fork before the release, and ask for it in one of the processes",
            )
    finally:
        opened.closed = True
        PERMIT.reset(token)


def run_mechanisms(plan: Plan, measured: Sequence[Measured]) -> Answers:
    """Run every mechanism and select the groups to publish.

    Where a rule selects groups, the mechanism that counts them answers first. The others see the
    groups that are shown alone: not even how many are hidden enters their answers.
    """
    rule, counting = plan.rule, index_of_counting_part(plan.parts)
    others, by_index = dict(enumerate(measured)), dict[int, Answered]()
    if rule:
        first = by_index[counting] = others.pop(counting).answer(plan.row_losses[counting], rule)
        keys, shown = first.keys, first.counted.select_groups(rule)
        if len(shown) < keys.num_rows:
            keys = keys.take(pa.array(shown))
        others = {index: mechanism.of_groups(keys) for index, mechanism in others.items()}
    indices_by_type: dict[type[Measured], list[int]] = {}
    for index, mechanism in others.items():
        indices_by_type.setdefault(type(mechanism), []).append(index)
    for kind, indices in indices_by_type.items():
        losses = [plan.row_losses[index] for index in indices]
        answers_of_type = kind.answer_together([others[index] for index in indices], losses)
        by_index.update(zip(indices, answers_of_type, strict=True))
    first = by_index[counting]
    if not rule:
        keys, shown = first.keys, np.arange(first.keys.num_rows if plan.by else 1)
    by_name = {name: parts for part in by_index.values() for name, parts in part.answers.items()}
    if plan.notes_limits:  # the bias of limits that were found
        for part, lost in zip(plan.parts, plan.lost, strict=True):
            effect = (lost.below, lost.above, lost.note) if lost else (0.0, 0.0, None)
            for name in part.names:
                by_name[name] = tuple(answer.within_limits(*effect) for answer in by_name[name])
    answers = {}
    for name in plan.questions:
        selects = name in first.answers  # the others are about groups that are shown already
        places, rule_of_part = (shown, rule) if selects else (np.arange(len(shown)), None)
        answers[name] = tuple(
            answer.about_shown(places, first.counted, rule_of_part) for answer in by_name[name]
        )
    return Answers(keys, answers, first.counted, shown)
