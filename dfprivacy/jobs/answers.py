"""A release as a table, made under a ledger that charges it once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

import duckdb
import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.claims import ClaimingLedger
from dfprivacy.conductor import release_frame, release_numbers
from dfprivacy.errors import RefusedStatementError
from dfprivacy.histogram import release_histogram
from dfprivacy.jobs.description import QuerySource, Release
from dfprivacy.jobs.prices import charge_of, terms_of
from dfprivacy.jobs.sources import opened, require_columns, rows_of, typed_keys
from dfprivacy.release import Choice, Number
from dfprivacy.request import request_of
from dfprivacy.statements.jobs import Job, job_of
from dfprivacy.terms import Terms

T = TypeVar("T")


def required_charge(release: Release) -> Charge:
    """Return what a release costs, once its source is known to have what it asks for.

    Raises
    ------
    DPError
        When a file, a table or a column is missing, a key does not fit its column, or a query is
        refused. No row is read.
    """
    require_columns(release)
    if not isinstance(release.source, QuerySource):
        typed_keys(release, release.source)
        return charge_of(release)
    with _database(release.source) as connection:
        return _statement(
            release, release.source, connection, terms=terms_of(release), use=_planned
        )


def made(release: Release, ledger: ClaimingLedger) -> pa.Table:
    """Return a release, paid for; nobody may see it before the ledger has kept it."""
    terms = replace(terms_of(release), ledger=ledger, dataset=release.budget.dataset)
    if isinstance(release.source, QuerySource):
        with _database(release.source) as connection:
            return _statement(release, release.source, connection, terms=terms, use=_answered)
    keys = typed_keys(release, release.source)
    with rows_of(release.source) as rows:
        if release.histogram is not None:
            answer = release_histogram(rows, release.by, keys, release.histogram, terms)
        elif release.by:
            answer = release_frame(rows, release.by, keys, release.numbers, terms)
        else:
            answer = _table(release_numbers(rows, release.numbers, terms))
        return answer if isinstance(answer, pa.Table) else answer.to_arrow_table()


def _table(numbers: Mapping[str, Number]) -> pa.Table:
    """Return numbers about all rows: one row each, with the ends of their intervals."""
    ends = [
        (None, None) if isinstance(number, Choice) else (number.low, number.high)
        for number in numbers.values()
    ]
    return pa.table(
        {
            "name": pa.array(list(numbers), pa.string()),
            "value": pa.array([float(number) for number in numbers.values()], pa.float64()),
            "low": pa.array([low for low, _ in ends], pa.float64()),
            "high": pa.array([high for _, high in ends], pa.float64()),
        }
    )


def _database(source: QuerySource) -> AbstractContextManager[duckdb.DuckDBPyConnection | None]:
    return nullcontext() if source.database is None else opened(source.database)


def _statement(
    release: Release,
    source: QuerySource,
    connection: duckdb.DuckDBPyConnection | None,
    *,
    terms: Terms,
    use: Callable[[Job], T],
) -> T:
    """Hand a query's job on, once it is known to be a SELECT."""
    keys = None if release.keys is None else [list(row) for row in release.keys.rows]
    listed = None if keys is None else [row[0] if len(row) == 1 else tuple(row) for row in keys]
    frames = dict(source.tables)
    with job_of(source.query, connection, frames, terms, listed) as job:
        if job.plan.statement.target is not None:
            raise RefusedStatementError(
                f"the query of release {release.name!r} writes a table itself",
                hint="write a SELECT; where it goes stands in outputs",
            )
        return use(job)


def _planned(job: Job) -> Charge:
    plan = job.plan
    request = request_of(
        plan.questions, plan.terms, plan.by, plan.keys, own=plan.own, form="answers"
    )
    return request.charge


def _answered(job: Job) -> pa.Table:
    answer = job.run()
    if isinstance(answer, pa.Table):
        return answer
    return answer.to_arrow_table()
