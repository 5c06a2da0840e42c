"""A release as a table, made under a ledger that charges it once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import duckdb
import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.idempotent import IdempotentLedger
from dfprivacy.conductor import release_frame, release_numbers
from dfprivacy.errors import RefusedStatementError
from dfprivacy.histogram import release_histogram
from dfprivacy.jobs.description import QuerySource, Release
from dfprivacy.jobs.prices import charge_of, terms_of
from dfprivacy.jobs.sources import opened, require_columns, rows_of, typed_keys
from dfprivacy.release import Choice, Number
from dfprivacy.remembered import frame_table
from dfprivacy.request import request_of
from dfprivacy.statements.jobs import Job, job_of
from dfprivacy.terms import Terms


def required_charge(release: Release) -> Charge:
    """Return what a release costs, once its source is known to have what it asks for.

    Raises
    ------
    DPError
        When a file, a table or a column is missing, a key does not fit its column, or a query is
        refused. No row is read.
    """
    if isinstance(release.source, QuerySource):
        with _statement(release, release.source, terms_of(release)) as job:
            return _planned(job)
    require_columns(release, release.source)
    typed_keys(release, release.source)
    return charge_of(release)


def made(release: Release, ledger: IdempotentLedger) -> pa.Table:
    """Return a release, paid for; nobody may see it before the ledger has kept it."""
    terms = replace(terms_of(release), ledger=ledger, dataset=release.budget.dataset)
    if isinstance(release.source, QuerySource):
        with _statement(release, release.source, terms) as job:
            return frame_table(job.run())
    keys = typed_keys(release, release.source)
    with rows_of(release.source) as rows:
        if release.histogram is not None:
            return frame_table(release_histogram(rows, release.by, keys, release.histogram, terms))
        if release.by:
            return frame_table(release_frame(rows, release.by, keys, release.numbers, terms))
        return answers_table(release_numbers(rows, release.numbers, terms))


def answers_table(numbers: Mapping[str, Number]) -> pa.Table:
    """Return numbers about all rows: one row each; the ends of no interval are missing."""
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


@contextmanager
def _statement(release: Release, source: QuerySource, terms: Terms) -> Iterator[Job]:
    """Open a query as a job, once it is known to be a SELECT."""
    listed = None
    if release.keys is not None:
        listed = [row[0] if len(row) == 1 else row for row in release.keys.rows]
    with (
        _database(source) as connection,
        job_of(source.query, connection, source.tables, terms, listed) as job,
    ):
        if job.plan.statement.target is not None:
            raise RefusedStatementError(
                f"the query of release {release.name!r} writes a table itself",
                hint="write a SELECT; where it goes stands in outputs",
            )
        yield job


def _planned(job: Job) -> Charge:
    plan = job.plan
    request = request_of(
        plan.questions, plan.terms, plan.by, plan.keys, own=plan.own, form="answers"
    )
    return request.charge
