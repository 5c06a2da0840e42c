"""From a plan to its explanation."""

from __future__ import annotations

from dfprivacy.forecast.explaining import facts_of, groups_text
from dfprivacy.request import request_of
from dfprivacy.statements.explanation import StatementExplanation
from dfprivacy.statements.finish import released_query
from dfprivacy.statements.plan import Plan


def explanation_of(plan: Plan) -> StatementExplanation:
    """Return what a plan would do.

    Raises
    ------
    DPError
        Whatever would be refused before anything is charged, but for a budget that is too small:
        the explanation says so.
    """
    request = request_of(
        plan.questions, plan.terms, plan.by, plan.keys, own=plan.own, form="answers"
    )
    statement, target = plan.statement, plan.statement.target
    shown = [call for call, _ in statement.calls]
    return StatementExplanation(
        **facts_of(request, titles=dict(zip(plan.questions, shown, strict=True))),
        relation=statement.rows.named.name,
        keys=tuple(key.name for key in statement.keys),
        selection=groups_text(request),
        row_query=plan.row_query,
        calls=tuple(
            (call, question.text)
            for call, question in zip(shown, plan.questions.values(), strict=True)
        ),
        released_query=released_query(plan),
        target=None if target is None else f"table {target.name}",
    )
