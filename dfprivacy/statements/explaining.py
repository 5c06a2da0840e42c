"""From a plan to its explanation."""

from __future__ import annotations

from fractions import Fraction

from dfprivacy.accounting.charge import short
from dfprivacy.parts.linear import LinearPart
from dfprivacy.parts.part import Part
from dfprivacy.parts.split import shares
from dfprivacy.request import Request, request_of
from dfprivacy.statements.explanation import Draw, Explanation
from dfprivacy.statements.finish import released_query
from dfprivacy.statements.plan import Plan


def explanation_of(plan: Plan) -> Explanation:
    """Return what a plan would do.

    Raises
    ------
    DPError
        Whatever would be refused before anything is charged.
    """
    request = request_of(plan.questions, plan.terms, plan.by, plan.keys, own=plan.own)
    texts = {name: question.text for name, question in plan.questions.items()}
    statement = plan.statement
    asked = zip((shown for shown, _ in statement.calls), texts.values(), strict=True)
    target = statement.target
    return Explanation(
        relation=statement.rows.named.name,
        protects=_protects(request),
        keys=tuple(key.name for key in statement.keys),
        selection=_selection(plan, request),
        row_query=plan.row_query,
        calls=tuple(asked),
        draws=tuple(
            Draw(float(loss), tuple(texts[name] for name in names))
            for names, loss in _draws(plan, request)
        ),
        released_query=released_query(plan),
        target=None if target is None else f"table {target.name}",
        epsilon=float(request.charge.loss.value),
        delta=float(request.charge.delta),
    )


def _protects(request: Request) -> str:
    unit = request.unit
    if unit is None:
        return "one row, added or removed"
    groups = "" if unit.max_groups is None else f", in at most {unit.max_groups} groups"
    return f"all rows of one {unit.column!r}: counting as {unit.max_rows} rows a group{groups}"


def _selection(plan: Plan, request: Request) -> str:
    if plan.keys is not None:
        return f"public, exactly the {len(plan.keys.rows)} listed"
    return f"secret, shown where noisy counts allow it: delta {short(request.charge.delta)}"


def _draws(plan: Plan, request: Request) -> list[tuple[tuple[str, ...], Fraction]]:
    """Return the names that each noisy vector answers, and its epsilon."""
    own = [name for name in plan.questions if name in plan.own]
    sharing = request.parts[: len(request.parts) - len(own)]
    losses = (
        [share * _shared_epsilon(plan, request) for share in shares(sharing)] if sharing else []
    )
    losses += [plan.own[name].value for name in plan.own]
    pairs = zip(request.parts, losses, strict=True)
    return [drawn for part, loss in pairs for drawn in _vectors(part, loss)]


def _shared_epsilon(plan: Plan, request: Request) -> Fraction:
    apart = sum((loss.value for loss in plan.own.values()), start=Fraction(0))
    return request.charge.loss.value - apart


def _vectors(part: Part, loss: Fraction) -> list[tuple[tuple[str, ...], Fraction]]:
    if not isinstance(part, LinearPart):
        return [(tuple(part.names), loss)]
    queries = len(part.plan.queries)
    names = [
        tuple(answer.name for answer in part.plan.answers if answer.query == query)
        for query in range(queries)
    ]
    return [(own, loss / queries) for own in names]
