"""Rows of a file or table for which a condition holds: the WHERE of `dfp.sql`, alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb

from dfprivacy.engine.adopt import Filtered
from dfprivacy.engine.files import quoted
from dfprivacy.errors import RefusedStatementError
from dfprivacy.release.terms import Terms
from dfprivacy.statements.gate import reads
from dfprivacy.statements.jobs import job_of
from dfprivacy.statements.plan import Plan
from dfprivacy.statements.reading import Released, Statement


def filtered(rows: Path | duckdb.DuckDBPyRelation, where: str) -> Filtered:
    """Return the rows of a file or relation for which a condition holds; none is read here.

    The condition is read as that of a statement over the relation `rows`: a vetted function of
    single rows, planned over the declared types, NULL where it fails. A row for which it is not
    true is left out, so that neighbours stay neighbours.

    Raises
    ------
    RefusedStatementError
        For a text that is more, or other, than one condition on single rows.
    DPError
        What `dfp.sql` raises for a statement with this condition, before it reads a row.
    """
    query = f"SELECT dp_count(*) FROM rows WHERE (\n{where}\n)"  # noqa: S608 it is vetted, not run
    with job_of(query, None, {"rows": rows}, Terms(), None) as job:
        if job.script.rest is not None or len(job.plans) > 1 or not _is_alone(job.plans[0]):
            raise RefusedStatementError(
                "this is more than a condition on rows",
                hint="write what stands behind WHERE alone, e.g. age >= 18 AND city = 'Rome'",
            )
        return Filtered(rows, partial(_kept, job.plans[0]))


def _is_alone(plan: Plan) -> bool:
    """Tell whether a statement is nothing but a count of rows under a condition."""
    own: Statement = plan.statement
    plain = replace(own.released, outputs=()) == Released(())
    return (
        plain
        and len(own.calls) == 1
        and not own.keys
        and (own.selection, own.delta) == (None, None)
    )


def _kept(plan: Plan, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return the rows that a plan's condition keeps; columns that it names come by the gate."""
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    gate = zip(plan.used, reads(plan.used, [kinds[own] for own in plan.used]), strict=True)
    made = ", ".join(f"{sql} AS {quoted(own)}" for own, sql in gate if sql != quoted(own))
    relation = relation.project(f"* REPLACE ({made})") if made else relation
    for condition in plan.conditions:
        relation = relation.filter(condition)
    return relation
