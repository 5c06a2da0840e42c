"""Make a release: check, measure, prove the way back, pay, draw, wrap, remember. The one way.

The engine runs before the account pays, so that a release that can't be made costs nothing; nothing
is drawn before the charge is durable, so that no failure gives noise away for free.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import EntropyError, warn_once
from dfprivacy.noise.entropy import PERMIT, Permit
from dfprivacy.noise.laws import KeyRule
from dfprivacy.release.answers import Answer, Column, Counted, Estimated, everyone
from dfprivacy.release.request import Request

LARGE_EPSILON = 20
LARGE_DELTA = Fraction(1, 1000)
"""Beyond these a release warns its caller."""


@contextmanager
def permit(paid_by: str) -> Iterator[None]:
    """Let noise be drawn in this block, or in the function that this decorates.

    The pipeline enters it once a charge is paid. What draws without an account says what pays
    instead: the epsilon that stands in a statement on a raw connection, or the owner of a report,
    who gives nothing else away. It holds for this thread, may be nested, and ends with the block:
    a context that was copied inside draws nothing afterwards. A child that is forked inside fails
    at the end of the block, so that no answer that its parent has drawn leaves it a second time.
    """
    made = Permit(paid_by)
    token = PERMIT.set(made)
    try:
        yield
        if not made.is_open:
            raise EntropyError(
                "a release was drawn in a child of the process that has paid for it",
                hint="fork before the release, and ask for it in one of the processes",
            )
    finally:
        made.closed = True
        PERMIT.reset(token)


Exact = TypeVar("Exact")
Drawn = TypeVar("Drawn")
Released = TypeVar("Released")


def paid(
    request: Request,
    measure: Callable[[], Exact],
    draw: Callable[[Exact], Drawn],
    prove: Callable[[Exact], object] | None = None,
) -> tuple[Exact, Drawn]:
    """Return what is measured, and what is drawn over it once it has been paid for.

    A budget that can't cover the charge refuses before anything is measured. `prove` raises where
    what is drawn could not be handed over: nothing is charged then. Noise can be drawn in `draw`
    and nowhere else.

    Raises
    ------
    DPError
        When the account refuses, or measuring fails; whatever `draw` raises comes after the charge.
    """
    request.account.check(request.charge)
    _warn_about_loss(request)
    exact = measure()
    if prove is not None:
        prove(exact)
    request.account.pay(request.charge)
    with permit(request.charge.question):
        return exact, draw(exact)


def _warn_about_loss(request: Request) -> None:
    """Warn once of an epsilon or a delta that promises next to nothing."""
    loss, delta = request.charge.loss, request.charge.delta
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


def released(
    request: Request,
    measure: Callable[[], Exact],
    draw: Callable[[Exact], Drawn],
    wrap: Callable[[Exact, Drawn], Released],
    *,
    recall: Callable[[pa.Table], Released],
    keep: Callable[[Released], pa.Table | None],
    prove: Callable[[Exact], object] | None = None,
) -> Released:
    """Return a release as the caller gets it: the one that the ledger remembers, or a new one.

    `wrap` makes it of what was drawn. `keep` returns the table that a ledger keeps of it, or None,
    and `recall` makes the release of such a table.
    """
    remembered = request.account.remembered(request.mark)
    if remembered is not None:
        return recall(remembered)
    made = wrap(*paid(request, measure, draw, prove))
    if request.mark is not None:
        table = None
        with suppress(Exception):  # it is charged already; its keys may fail as they like
            table = keep(made)
        if table is not None:
            request.account.remember(request.mark, table)
    return made


@dataclass(frozen=True)
class Answered:
    """What a part has answered about which groups, and the count that can select them. Public."""

    keys: pa.Table
    answers: Mapping[str, tuple[Answer, ...]]
    counted: Counted | None = None


class Measured(Protocol):
    """What a part of a request has measured: exact and secret, one entry a group."""

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted, or as listed."""

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the same of exactly the groups with these keys: one that is not there is empty."""

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Draw the noise that pays for the loss of one row, and answer.

        `rule` says which groups of secret keys are shown: a part may forget the others.
        """


@runtime_checkable
class Joint(Measured, Protocol):
    """What is answered together with what other parts have measured that is alike."""

    @property
    def alike(self) -> Hashable:
        """What is the same of those."""

    def answer_together(self, several: Sequence[Self], loss: Epsilon | Rho) -> Sequence[Answered]:
        """Draw the noise that pays for the loss of one row of each, and answer."""


@dataclass(frozen=True)
class Answers:
    """The answers of all parts, in the order of their questions, and the groups shown. Public."""

    keys: pa.Table
    answers: Mapping[str, tuple[Answer, ...]]
    counted: Counted
    kept: Column


def answered(request: Request, measured: Sequence[Measured]) -> Answers:
    """Let every part answer for its loss; the first that counts selects the groups to show."""
    rule = request.rule
    counting = counting_place(request.parts)
    own = _drawn(measured, request.row_losses, rule, counting)
    found = {name: answers for part in own for name, answers in part.answers.items()}
    counted = own[counting].counted or Counted(1, ())
    keys, answers = own[counting].keys, {name: found[name] for name in request.questions}
    groups = keys.num_rows if request.by else 1
    kept = everyone(groups) if rule is None else counted.kept(rule)
    if rule is not None:  # intervals hold for the groups that it shows
        answers = {
            name: tuple(
                each.shown_by(counted, rule, kept) if isinstance(each, Estimated) else each
                for each in several
            )
            for name, several in answers.items()
        }
    return Answers(keys, answers, counted, kept)


def counting_place(parts: Sequence[Any]) -> int:
    """Return the place of the part whose counts select the groups: the first that can, if any."""
    return next((place for place, part in enumerate(parts) if part.counts), 0)


def _drawn(
    measured: Sequence[Measured],
    losses: Sequence[Epsilon | Rho],
    rule: KeyRule | None,
    counting: int,
) -> list[Answered]:
    """Return what each part answers for its loss, those together that are alike.

    Where a rule selects groups the part that counts them answers first, the others about these.
    """
    made: dict[int, Answered] = {}
    together: dict[Hashable, list[int]] = {}
    for place, (exact, loss) in enumerate(zip(measured, losses, strict=True)):
        alike = (exact.alike, loss) if isinstance(exact, Joint) else place
        together.setdefault(alike, []).append(place)
    for places in sorted(together.values(), key=lambda own: bool(rule) and counting not in own):
        several: list[Any] = [measured[place] for place in places]
        if rule and counting in made:
            several = [own.of_groups(made[counting].keys) for own in several]
        first, loss = several[0], losses[places[0]]
        if isinstance(first, Joint):
            made |= zip(places, first.answer_together(several, loss), strict=True)
        else:
            made[places[0]] = first.answer(loss, rule)
    return [made[place] for place in range(len(measured))]
