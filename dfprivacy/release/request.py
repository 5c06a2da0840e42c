"""Check a release before it is made: what is asked, of whom, what it costs, and who pays.

Nothing here looks at data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, delta_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.errors import (
    InvalidLossError,
    InvalidQuestionError,
    InvalidUnitError,
    MissingDeltaError,
)
from dfprivacy.noise.laws import KeyRule
from dfprivacy.release.terms import (
    INTERVAL,
    POPULATION,
    PublicKeys,
    Sought,
    Terms,
    Unit,
    interval_of,
    no_limit,
)

SEARCH = Fraction(1, 8)
"""What a release spends of its loss on limits of a unit, where none are given."""

SELECTION = "answer_selection"
"""How the name of a count ends that spends a loss of its own to select the groups."""


@dataclass(frozen=True)
class Search:
    """Limits that a release finds for this part of its loss; `settle` returns the rest of it."""

    unit: Sought
    loss: Epsilon | Rho
    rest: Epsilon | Rho
    settle: Callable[[Unit], Request]


@dataclass(frozen=True)
class Request:
    """A release that has been checked and not yet made: a charge, and the account that pays it.

    `mark` is what a ledger remembers the release by; None where it is not remembered. Questions
    that are answered from one pass each come in `parts`, each with the loss it has for one row.
    `rule` says which groups each of the noisy counts that select shows; None where keys are public
    or there are no groups. `unit` has the limits as they hold for these groups: the smallest where
    there is a `search` for them. Without a unit each row counts as `copies` rows at most.
    """

    charge: Charge
    account: Account | NoAccount
    mark: bytes | None = None
    level: float = float(INTERVAL)
    by: Sequence[Hashable] = ()
    keys: PublicKeys | None = None
    unit: Unit | None = None
    rule: KeyRule | None = None
    questions: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Any, ...] = ()
    row_losses: tuple[Epsilon | Rho, ...] = ()
    search: Search | None = None
    sets: tuple[tuple[int, ...], ...] = ()
    """Grouping sets, as places in `by`, where answers are totals of the groups."""
    copies: int = 1


def request_for(
    question: str,
    terms: Terms,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    losses: Sequence[Epsilon | Rho],
    *,
    parts: Sequence[Any] = (),
    questions: Mapping[str, Any] | None = None,
    selections: int = 1,
    known_by: Mapping[str, object] | None = None,
    sampled: bool = False,
) -> Request:
    """Return a release to be made; `losses` is what each of its `parts` spends, for all together.

    `selections` noisy counts of a group select it together. `known_by` is what else than question,
    level, keys and costs tells this release from others that a ledger remembers; None leaves it
    forgotten. `sampled` says that the parts know of intervals of the population where the terms ask
    for them.
    """
    (level, population), given = interval_of(terms.interval), delta_of(terms.delta)
    delta = required_delta(given, keys) if by else None
    unit, contribution = limits_of(terms.unit, by, keys)
    text = question if unit is None else f"{question}; {unit.text}"
    told: dict[str, object] = dict(known_by or {})
    if population and (not sampled or terms.files is not None):
        raise InvalidQuestionError(
            "this release has no intervals of the population",
            hint="ask a frame for counts, shares, sums, means, variances or deviations, or leave "
            "interval out",
        )
    if population:
        told["of"], text = POPULATION, f"{text}; interval of the population"
    if terms.files is not None:
        contribution = replace(contribution, parts=terms.files.parts)
        many = f"from {len(terms.files.ids)} files, parts_per_unit={terms.files.parts}"
        text, told["files"] = f"{text}; {many}", terms.files
    if unit is None and terms.copies > 1:
        contribution = replace(contribution, parts=contribution.parts * terms.copies)
        text, told["copies"] = f"{text}; each row as {terms.copies} rows", terms.copies
    charge = Charge(_total(losses), delta or Fraction(0), text)
    account = account_of(
        terms.ledger, terms.dataset, terms.note, terms.version,
        period=terms.period, analyst=terms.analyst, snapshot=terms.snapshot,
    )  # fmt: skip
    mark = None
    if known_by is not None:
        told |= {"keys": None if keys is None else keys.rows, "interval": level}
        told |= {"measure": type(charge.loss).__name__, "loss": charge.loss.value}
        mark = account.fingerprint(text, {**told, "delta": charge.delta})
    return Request(
        charge,
        account,
        mark,
        level,
        by,
        keys,
        unit,
        None if delta is None else contribution.key_rule(delta / selections),
        questions or {},
        tuple(parts),
        tuple(contribution.row_loss(loss) for loss in losses),
        copies=terms.copies,
    )


def together(requests: Sequence[Request], form: str) -> Request:
    """Return one request for several of the same terms: charged, remembered and paid once."""
    first = requests[0]
    charge = Charge(
        _total([own.charge.loss for own in requests]),
        sum((own.charge.delta for own in requests), start=Fraction(0)),
        "; ".join(own.charge.question for own in requests),
    )
    marks = [own.mark for own in requests if own.mark is not None]
    told = {"form": form, "releases": [mark.hex() for mark in marks]}
    mark = first.account.fingerprint(charge.question, told) if marks else None
    return Request(charge, first.account, mark, first.level)


def _total(losses: Sequence[Epsilon | Rho]) -> Epsilon | Rho:
    kinds = {type(loss) for loss in losses}
    if len(kinds) > 1:
        raise InvalidLossError(
            "some questions spend epsilon and the others share a rho",
            hint="name epsilon everywhere, or rho alone",
        )
    return kinds.pop()(sum((loss.value for loss in losses), start=Fraction(0)))


def searching(
    settle: Callable[[Unit, Fraction], Request],
    unit: Unit | None,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
) -> Request:
    """Return the release that `settle` makes of a unit's limits, searched first if left out."""
    unlimited = by and keys is None and unit is not None and unit.max_groups is None
    if unit is None or not (isinstance(unit, Sought) or unlimited):
        return settle(unit, Fraction(1))  # type: ignore[arg-type]
    rows = isinstance(unit, Sought) and unit.rows
    sought = Sought(unit.column, unit.max_rows, unit.max_groups, rows)
    groups = unit.max_groups or (1 if by and keys is None else None)
    smallest = settle(Unit(unit.column, unit.max_rows, groups), 1 - SEARCH)
    rest = smallest.charge.loss
    kind, total = type(rest), rest.value / (1 - SEARCH)
    text = smallest.charge.question
    text = f"{text[: text.rindex('; unit=')]}; {sought.text}"
    account, mark = smallest.account, None
    if smallest.mark is not None:
        mark = account.fingerprint(text, {"rest": smallest.mark.hex()})
    return replace(
        smallest,
        charge=replace(smallest.charge, loss=kind(total), question=text),
        mark=mark,
        search=Search(
            sought, kind(total - rest.value), rest, lambda found: settle(found, 1 - SEARCH)
        ),
    )


def limits_of(
    unit: Unit | None, by: Sequence[Hashable], keys: PublicKeys | None
) -> tuple[Unit | None, Contribution]:
    """Return the unit with the limits for these groups, and what it can contribute."""
    if unit is None:
        return None, Contribution()
    if isinstance(unit, Sought):
        raise no_limit()
    if not by:
        return Unit(unit.column, unit.max_rows), Contribution(unit.max_rows)
    groups, listed = unit.max_groups, None if keys is None else len(keys.rows)
    if groups is None and listed is None:
        raise InvalidUnitError(
            "a unit may be in any number of groups, and nothing says in how many it counts",
            hint="pass max_groups=3, or list keys that are public: group_by(..., keys=[...])",
        )
    if groups is None or (listed is not None and listed <= groups):
        assert listed is not None  # noqa: S101 one of both is there
        return Unit(unit.column, unit.max_rows), Contribution(unit.max_rows, listed)
    return unit, Contribution(unit.max_rows, groups)


def required_delta(delta: Fraction | None, keys: PublicKeys | None) -> Fraction | None:
    """Return the delta that key selection spends; None where keys are public."""
    if keys is not None:
        return None
    if delta is None:
        raise MissingDeltaError(
            "group keys are secret, and showing them needs a delta",
            hint="pass delta=1e-6, or list keys that are public anyway: group_by(..., keys=[...])",
        )
    return delta
