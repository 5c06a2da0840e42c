"""From a request to its explanation: the facts of a release, without the release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypedDict

from dfprivacy.accounting.charge import Charge, short
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.spending import Account as Paying
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.forecast.advice import Circumstances
from dfprivacy.forecast.explanation import Account, Draw, Explanation
from dfprivacy.forecast.forecast import Forecast
from dfprivacy.forecast.reaching import Reach
from dfprivacy.release.request import Request
from dfprivacy.statistics.linear import shown_from
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.split import counting_part, selections
from dfprivacy.unit import Unit


class Facts(TypedDict):
    """The public facts of a release: the arguments of an `Explanation`."""

    asks: str
    protects: str
    epsilon: float | None
    rho: float | None
    delta: float
    draws: tuple[Draw, ...]
    level: float
    answers: tuple[Forecast, ...]
    shown: Reach | None
    account: Account | None
    remembered: bool


def explained(request: Request, integers: frozenset[object] = frozenset()) -> Explanation:
    """Return the explanation of a request; `integers` are columns declared to hold integers."""
    return Explanation(**facts_of(request, integers))


def facts_of(
    request: Request,
    integers: frozenset[object] = frozenset(),
    titles: Mapping[str, str] | None = None,
) -> Facts:
    """Return what is public about a release before it is made. No data, no charge, no noise.

    `titles` are what the questions are called, where that is not their name in the request.
    """
    draws = draws_of(request)
    known = Circumstances(
        request.level, request.charge.loss, request.unit, bool(request.by), len(draws), integers
    )
    found: dict[str, list[Forecast]] = {name: [] for name in request.questions}
    for part, loss in zip(request.parts, request.row_losses, strict=True):
        for name, answer in _of_part(part, loss, request, known):
            title = (titles or {}).get(name, name) + answer.name.removeprefix(name)
            found[name].append(replace(answer, name=title))
    epsilon, rho = named_loss(request.charge.loss)
    return Facts(
        asks=request.charge.question,
        protects=protects(request.unit),
        epsilon=epsilon,
        rho=rho,
        delta=float(request.charge.delta),
        draws=draws,
        level=request.level,
        answers=tuple(answer for own in found.values() for answer in own),
        shown=_shown(request),
        account=account_after(request.account, request.charge),
        remembered=request.account.remembered(request.mark) is not None,
    )


def plain_explanation(
    charge: Charge,
    answers: Sequence[Forecast],
    draws: Sequence[tuple[Epsilon | Rho, str]],
    level: float,
    account: Paying | NoAccount,
    *,
    protects: str,
) -> Explanation:
    """Return the explanation of a release that is no request: its charge, draws and answers."""
    epsilon, rho = named_loss(charge.loss)
    return Explanation(
        asks=charge.question,
        protects=protects,
        epsilon=epsilon,
        rho=rho,
        delta=float(charge.delta),
        draws=tuple(drawn(loss, (what,)) for loss, what in draws),
        level=level,
        answers=tuple(answers),
        account=account_after(account, charge),
    )


def drawn(loss: Epsilon | Rho, questions: tuple[str, ...]) -> Draw:
    """Return a draw of this loss."""
    epsilon, rho = named_loss(loss)
    return Draw(epsilon, questions, rho)


def _of_part(
    part: Part, loss: Epsilon | Rho, request: Request, known: Circumstances
) -> Iterator[tuple[str, Forecast]]:
    """Yield the forecasts of a part, each with the name of its question."""
    names = {shown: name for name in part.names for shown in (*part.names[name], name)}
    for answer in part.forecasts(loss, request.questions, known):
        yield names[answer.name], answer


def named_loss(loss: Epsilon | Rho) -> tuple[float | None, float | None]:
    """Return epsilon and rho, one of them None."""
    value = float(loss.value)
    return (value, None) if isinstance(loss, Epsilon) else (None, value)


def protects(unit: Unit | None) -> str:
    """Say who may be added or removed."""
    if unit is None:
        return "one row, added or removed"
    groups = "" if unit.max_groups is None else f", in at most {unit.max_groups} groups"
    return f"all rows of one {unit.column!r}: counting as {unit.max_rows} rows a group{groups}"


def groups_text(request: Request) -> str:
    """Say whether keys are public, and what shows secret ones."""
    if request.keys is not None:
        return f"public, exactly the {len(request.keys.rows)} listed"
    return f"secret, shown where noisy counts allow it: delta {short(request.charge.delta)}"


def account_after(account: Paying | NoAccount, charge: Charge) -> Account | None:
    """Return what a ledger has left for a dataset, and what a charge would leave of it."""
    if isinstance(account, NoAccount):
        return None
    ledger, dataset = account.ledger, account.dataset
    return Account(dataset, ledger.remaining(dataset), ledger.would_leave(dataset, charge))


def _shown(request: Request) -> Reach | None:
    """Return the sizes from which on groups of secret keys are shown."""
    if request.rule is None:
        return None
    deciding = counting_part(request.parts)
    loss = request.row_losses[request.parts.index(deciding)]
    rule = request.rule.divided(selections(request.parts))
    return shown_from(deciding.count_noise(loss), rule)


def draws_of(request: Request) -> tuple[Draw, ...]:
    """Return each noisy vector or selection with its loss; together they cost the charge."""
    texts = {name: question.text for name, question in request.questions.items()}
    whole = sum((loss.value for loss in request.row_losses), start=Fraction(0))
    draws = []
    for part, loss in zip(request.parts, request.row_losses, strict=True):
        share = request.charge.loss.value * loss.value / whole
        for names, of_part in part.draws():
            cost = type(request.charge.loss)(share * of_part)
            draws.append(drawn(cost, tuple(texts[name] for name in names)))
    return tuple(draws)
