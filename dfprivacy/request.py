"""A release that has been checked and not yet made: what is asked, of whom, and what it costs.

Nothing here looks at data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, delta_of, loss_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.errors import InvalidLossError, InvalidUnitError, MissingDeltaError
from dfprivacy.noise.keys import KeyRule
from dfprivacy.statistics import Statistic, question_text
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.split import shares, split
from dfprivacy.terms import Files, PublicKeys, Terms, interval_level
from dfprivacy.unit import Unit

SELECTION = "answer_selection"
"""How the name of a count ends that spends a loss of its own to select the groups."""


@dataclass(frozen=True)
class Request:
    """Questions in parts, the loss that each part has for one row, and the account that pays.

    `rule` says which groups are shown; None where keys are public or there are no groups. `unit`
    has the limits as they hold for these groups.
    """

    questions: Mapping[str, Statistic]
    by: Sequence[Hashable]
    keys: PublicKeys | None
    unit: Unit | None
    parts: tuple[Part, ...]
    row_losses: tuple[Epsilon | Rho, ...]
    rule: KeyRule | None
    level: float
    charge: Charge
    account: Account | NoAccount
    mark: bytes | None


def request_of(
    questions: Mapping[str, Statistic],
    terms: Terms,
    by: Sequence[Hashable] = (),
    keys: PublicKeys | None = None,
    *,
    own: Mapping[str, Epsilon] | None = None,
    form: str = "frame",
) -> Request:
    """Return a release to be made.

    `own` names questions that spend a loss of their own; the others share that of the terms. `form`
    is what the answers are made into: a ledger remembers one form as another release than another.

    Raises
    ------
    DPError
        When anything about the question or its terms can't be: nothing depends on data.
    """
    level, given = interval_level(terms.interval), delta_of(terms.delta)
    delta = required_delta(given, keys) if by else None
    unit, contribution = limits_of(terms.unit, by, keys)
    text = _text(questions, by, unit)
    made_of: dict[str, object] = {}
    if terms.files is not None:
        contribution = replace(contribution, parts=terms.files.parts)
        text, made_of["files"] = f"{text}; {files_text(terms.files)}", terms.files
    parts, losses = _shared_out(questions, terms, own or {}, grouped=bool(by))
    charge = Charge(_total(losses), delta or Fraction(0), text)
    account = account_of(terms.ledger, terms.dataset, terms.note, terms.version)
    public = None if keys is None else keys.rows
    asked = {
        "form": form,
        "names": list(questions),
        "keys": public,
        "interval": level,
        "own": own or {},
    }
    return Request(
        questions,
        by,
        keys,
        unit,
        parts,
        tuple(contribution.row_loss(loss) for loss in losses),
        None if delta is None else contribution.key_rule(delta),
        level,
        charge,
        account,
        account.fingerprint(charge.question, {**asked, **made_of, **loss_terms(charge)}),
    )


def files_text(files: Files) -> str:
    """Return what is added up, for the history of a ledger.

    >>> files_text(Files(("a", "b", "c"), parts=1))
    'from 3 files, parts_per_unit=1'
    """
    return f"from {len(files.ids)} files, parts_per_unit={files.parts}"


def loss_terms(charge: Charge) -> dict[str, object]:
    """Return what a charge costs, as terms of a fingerprint."""
    return {"measure": type(charge.loss).__name__, "loss": charge.loss.value, "delta": charge.delta}


def _shared_out(
    questions: Mapping[str, Statistic],
    terms: Terms,
    own: Mapping[str, Epsilon],
    *,
    grouped: bool,
) -> tuple[tuple[Part, ...], list[Epsilon | Rho]]:
    """Return the parts of a release and the loss of each."""
    loss = loss_of(terms.epsilon, terms.rho)
    sharing = {name: question for name, question in questions.items() if name not in own}
    parts = split(sharing, grouped=grouped) if sharing or not own else ()
    losses = [loss.share(share) for share in shares(parts)]
    for name, apart in own.items():
        (part,) = split({name: questions[name]}, grouped=grouped)
        if name.endswith(SELECTION):
            parts, losses = (part, *parts), [apart, *losses]
        else:
            parts, losses = (*parts, part), [*losses, apart]
    return parts, losses


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


def _text(questions: Mapping[str, Statistic], by: Sequence[Hashable], unit: Unit | None) -> str:
    asked = question_text(questions, by)
    return asked if unit is None else f"{asked}; {unit.text}"
