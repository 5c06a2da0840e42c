"""From a plan to its explanation."""

from __future__ import annotations

import duckdb

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.accounting.loss import positive_number
from dfprivacy.forecast.explaining import facts_of, groups_text
from dfprivacy.releasing import request_of
from dfprivacy.statements.calls import cost_of
from dfprivacy.statements.catalog import registered_epsilon
from dfprivacy.statements.explanation import StatementExplanation
from dfprivacy.statements.plan import Plan, released_query


def explanation_of(
    plan: Plan, connection: duckdb.DuckDBPyConnection | None
) -> StatementExplanation:
    """Return what a plan would do, and what its text costs on the connection itself.

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
    if statement.selection is not None:
        named = f"{statement.delta!r}, {float(statement.selection.value)!r}"
        shown.append(f"dp_keep({named})")
    on_connection, remark = (None, "") if connection is None else _elsewhere(plan, connection)
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
        on_connection=on_connection,
        remark=remark,
    )


def _elsewhere(plan: Plan, connection: duckdb.DuckDBPyConnection) -> tuple[Budget | None, str]:
    """Return what the text costs with the functions of a connection, and say so."""
    if plan.terms.unit is not None:
        return None, "dp_* functions on a connection protect single rows, and no unit"
    written = plan.statement.written
    if written is None:
        return None, (
            "on a connection DuckDB may draw a dp_ call in CASE, IN, nullif and the like several "
            "times, each time at its whole cost"
        )
    named = registered_epsilon(connection)
    default = positive_number("epsilon", plan.terms.epsilon if named is None else named)
    epsilon, delta = cost_of(written, default)
    cost = f"epsilon {short(epsilon)}" + (f", delta {short(delta)}" if delta else "")
    calls = "1 dp_ call pays" if len(written) == 1 else f"each of {len(written)} dp_ calls pays"
    return (
        Budget(epsilon=float(epsilon), delta=float(delta)),
        f"{cost} if dp_* functions on the connection run this text: {calls}",
    )
