"""Explain a release or a protocol before it is made: its cost, its draws and its forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dfprivacy.accounting.charge import Charge, short
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.spending import Account as Paying
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.errors import InvalidProtocolError
from dfprivacy.forecast.explanation import Account, Draw, Explanation
from dfprivacy.forecast.forecast import SIZES, Circumstances, Forecast, HalfWidths, Reach
from dfprivacy.release.request import Request
from dfprivacy.statistics.linear import shown_from
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.split import counting_part, selections
from dfprivacy.unit import Unit


def explained(
    request: Request,
    integers: frozenset[object] = frozenset(),
    titles: Mapping[str, str] | None = None,
) -> Explanation:
    """Return the explanation of a request. No data, no charge, no noise.

    `integers` are columns declared to hold integers; `titles` are what the questions are called,
    where that is not their name in the request.
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
    return Explanation(
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
    """Return an explanation from a charge, its draws and the forecasts of its answers."""
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
    rows = f"counted as at most {unit.max_rows} rows"
    groups = "group" if unit.max_groups is None else f"of at most {unit.max_groups} groups"
    return f"all rows of one {unit.column!r}, {rows} in each {groups}"


def groups_text(request: Request) -> str:
    """Say whether keys are public, and when secret ones are shown."""
    if request.keys is not None:
        return f"public, exactly the {len(request.keys.rows)} listed"
    return f"secret, shown if the noisy count is large enough, delta {short(request.charge.delta)}"


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


REPLACED = "one row, replaced by another: the number of rows is public"


def explain_survey(
    charge: Charge, forecast: Forecast, level: float, account: Paying | NoAccount
) -> Explanation:
    """Return the explanation of a protocol over a column."""
    draws = [(charge.loss, charge.question)]
    return plain_explanation(charge, (forecast,), draws, level, account, protects=REPLACED)


def by_users(half_width: Callable[[int], float | None]) -> HalfWidths:
    """Return half-widths by number of users; None for so many that no protocol serves them."""

    def planned(users: int) -> float | None:
        try:
            return half_width(users)
        except InvalidProtocolError:
            return None

    return tuple(map(planned, SIZES))
