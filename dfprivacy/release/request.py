"""Check a release before it is made: what is asked, of whom, what it costs, and who pays.

Nothing here looks at data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, delta_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.errors import InvalidLossError, InvalidUnitError, MissingDeltaError
from dfprivacy.noise.keys import KeyRule
from dfprivacy.terms import INTERVAL, Files, PublicKeys, Terms, interval_level
from dfprivacy.unit import Unit

SELECTION = "answer_selection"
"""How the name of a count ends that spends a loss of its own to select the groups."""


@dataclass(frozen=True)
class Request:
    """A release that has been checked and not yet made: a charge, and the account that pays it.

    `mark` is what a ledger remembers the release by; None where it is not remembered. Questions
    that are answered from one pass each come in `parts`, each with the loss it has for one row.
    `rule` says which groups are shown, for all noisy counts that select together, which are
    `selections`; None where keys are public or there are no groups. `unit` has the limits as they
    hold for these groups.
    """

    charge: Charge
    account: Account | NoAccount
    mark: bytes | None = None
    level: float = float(INTERVAL)
    by: Sequence[Hashable] = ()
    keys: PublicKeys | None = None
    unit: Unit | None = None
    rule: KeyRule | None = None
    selections: int = 1
    questions: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Any, ...] = ()
    row_losses: tuple[Epsilon | Rho, ...] = ()

    @property
    def each(self) -> KeyRule | None:
        """The rule for each of the noisy counts that select."""
        return None if self.rule is None else self.rule.divided(self.selections)


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
) -> Request:
    """Return a release to be made; `losses` is what each of its `parts` spends, for all together.

    `known_by` is what else than question, level, keys and costs tells this release from others that
    a ledger remembers; None leaves it forgotten.

    Raises
    ------
    DPError
        When anything about the terms can't be: nothing depends on data.
    """
    level, given = interval_level(terms.interval), delta_of(terms.delta)
    delta = required_delta(given, keys) if by else None
    unit, contribution = limits_of(terms.unit, by, keys)
    text = question if unit is None else f"{question}; {unit.text}"
    told: dict[str, object] = dict(known_by or {})
    if terms.files is not None:
        contribution = replace(contribution, parts=terms.files.parts)
        text, told["files"] = f"{text}; {files_text(terms.files)}", terms.files
    charge = Charge(_total(losses), delta or Fraction(0), text)
    account = account_of(terms.ledger, terms.dataset, terms.note, terms.version)
    mark = None
    if known_by is not None:
        told |= {"keys": None if keys is None else keys.rows, "interval": level}
        mark = account.fingerprint(text, {**told, **_cost(charge)})
    return Request(
        charge,
        account,
        mark,
        level,
        by,
        keys,
        unit,
        None if delta is None else contribution.key_rule(delta),
        selections,
        questions or {},
        tuple(parts),
        tuple(contribution.row_loss(loss) for loss in losses),
    )


def files_text(files: Files) -> str:
    """Return what is added up, for the history of a ledger.

    >>> files_text(Files(("a", "b", "c"), parts=1))
    'from 3 files, parts_per_unit=1'
    """
    return f"from {len(files.ids)} files, parts_per_unit={files.parts}"


def _cost(charge: Charge) -> dict[str, object]:
    """Return what a charge costs, as terms of a fingerprint."""
    return {"measure": type(charge.loss).__name__, "loss": charge.loss.value, "delta": charge.delta}


def _total(losses: Sequence[Epsilon | Rho]) -> Epsilon | Rho:
    kinds = {type(loss) for loss in losses}
    if len(kinds) > 1:
        raise InvalidLossError(
            "some questions spend epsilon and the others share a rho",
            hint="name epsilon everywhere, or rho alone",
        )
    return kinds.pop()(sum((loss.value for loss in losses), start=Fraction(0)))


def limits_of(
    unit: Unit | None, by: Sequence[Hashable], keys: PublicKeys | None
) -> tuple[Unit | None, Contribution]:
    """Return the unit with the limits that hold for these groups, and what it can contribute.

    No unit is in more groups than are listed. Without groups there is one.

    Raises
    ------
    InvalidUnitError
        When keys are secret and nothing limits in how many groups a unit counts.
    """
    if unit is None:
        return None, Contribution()
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
    """Return the delta that key selection spends; None where keys are public.

    Raises
    ------
    MissingDeltaError
        When keys are secret and there is none.
    """
    if keys is not None:
        return None
    if delta is None:
        raise MissingDeltaError(
            "group keys are secret, and showing them needs a delta",
            hint="pass delta=1e-6, or list keys that are public anyway: group_by(..., keys=[...])",
        )
    return delta
