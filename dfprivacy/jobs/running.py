"""Run releases one after the other: checked together, then each charged once, kept and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from dfprivacy.accounting.charge import Charge, short
from dfprivacy.accounting.idempotent import IdempotentLedger, Paid
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.returning import frame_table
from dfprivacy.errors import RefusedStatementError
from dfprivacy.jobs.description import Description, Output, Release
from dfprivacy.jobs.places import (
    answers_table,
    opened,
    require_writable,
    rows_of,
    typed_keys,
    write,
    write_note,
)
from dfprivacy.releasing import release_frame, release_histogram, release_numbers, request_of
from dfprivacy.statements.jobs import Job, job_of
from dfprivacy.terms import Terms


@dataclass(frozen=True)
class Step:
    """A release that can be made: its ledger, what it costs, and whether that was paid before."""

    release: Release
    ledger: IdempotentLedger
    charge: Charge
    settled: bool


@dataclass(frozen=True)
class Done:
    """A release that was written; `paid_before` if an earlier run was charged for it."""

    release: Release
    charge: Charge
    paid_before: bool


def planned(description: Description) -> list[Step]:
    """Return the steps of a run, once everything that can be checked without a row has been.

    Raises
    ------
    BudgetExceededError
        When the releases that are not paid for do not fit into what is left, all together.
    OutputError, LedgerError, DPError
        When a ledger, a source or an output can't be used. Nothing is charged.
    """
    steps = [_step(release) for release in description.releases]
    for step in steps:
        for output in step.release.outputs:
            require_writable(output)
    _require_room([step for step in steps if not step.settled])
    return steps


def _step(release: Release) -> Step:
    budget = release.budget
    ledger = IdempotentLedger(budget.ledger.path, budget.dataset, release.mark)
    return Step(release, ledger, _required_charge(release), ledger.settled())


def _required_charge(release: Release) -> Charge:
    """Return what a release costs, once its source is known to have what it asks for."""
    if release.source.query is None:
        typed_keys(release)
        return release.charge()
    with _statement(release, release.terms) as job:
        plan = job.plan
        request = request_of(
            plan.questions, plan.terms, plan.by, plan.keys, own=plan.own, form="answers"
        )
        return request.charge


def _require_room(steps: Sequence[Step]) -> None:
    """Refuse a run whose releases do not fit together; two that are the same are charged once."""
    once = {step.release.mark: step for step in steps}.values()
    for _, account in groupby(sorted(once, key=_account), _account):
        own = list(account)
        own[0].ledger.require_room([step.charge for step in own])


def _account(step: Step) -> tuple[Path, str]:
    return step.release.budget.ledger.path.resolve(), step.release.budget.dataset


def run_releases(description: Description) -> Iterator[Done]:
    """Make every release and write it, one at a time; what was made before is repeated.

    Each release is charged to its ledger once, however often the run is killed or repeated, and
    all its outputs hold the one table that the ledger keeps. Only an error between the charge and
    what the ledger keeps uses the charge up: it may tell something about the draw.

    Raises
    ------
    DPError
        As `planned`, before anything is charged; or when an engine, a ledger or a disk fails on
        the way. To run again finishes what was not; what the ledger has kept is not paid again.
    """
    for step in planned(description):
        kept = step.ledger.kept()
        if kept is None:
            table = step.ledger.kept_of(partial(made, step.release, step.ledger))
        else:
            table = kept
        paid = step.ledger.paid()
        for output in step.release.outputs:
            write_note(_note(description, step, output, paid), output)
            write(table, output)
        yield Done(step.release, step.charge, step.settled or kept is not None)


def made(release: Release, ledger: IdempotentLedger) -> pa.Table:
    """Return a release, paid for; nobody may see it before the ledger has kept it."""
    terms = replace(release.terms, ledger=ledger, dataset=release.budget.dataset)
    if release.source.query is not None:
        with _statement(release, terms) as job:
            return frame_table(job.run())
    keys = typed_keys(release)
    with rows_of(release.source) as rows:
        if release.histogram is not None:
            return frame_table(release_histogram(rows, release.by, keys, release.histogram, terms))
        if release.by:
            return frame_table(release_frame(rows, release.by, keys, release.numbers, terms))
        return answers_table(release_numbers(rows, release.numbers, terms))


@contextmanager
def _statement(release: Release, terms: Terms) -> Iterator[Job]:
    """Open a query as a job, once it is known to be a SELECT."""
    source, listed = release.source, None
    tables = {name: place.path for name, place in (source.tables or {}).items()}
    if release.keys is not None:
        listed = [row[0] if len(row) == 1 else row for row in release.keys.rows]
    with (
        nullcontext() if source.database is None else opened(source.database.path) as connection,
        job_of(str(source.query), connection, tables, terms, listed) as job,
    ):
        if job.plan.statement.target is not None:
            raise RefusedStatementError(
                f"the query of release {release.name!r} writes a table itself",
                hint="write a SELECT; where it goes stands in outputs",
            )
        yield job


def _note(description: Description, step: Step, output: Output, paid: Paid | None) -> str:
    """Return the note of an output: what was asked, what it cost, and what is promised.

    It holds what the description says and what the history of the ledger says about the charge:
    nothing of the data, and no number of rows. The same release has the same note, byte by byte.
    """
    release, charge = step.release, step.charge
    note = {
        "release": release.name,
        "output": output.text,
        "asked": _asked(release),
        "charged": {name: float(value) for name, value in _amounts(charge).items()},
        "dataset": release.budget.dataset,
        "version": release.budget.version,
        "time": None if paid is None else paid.time,
        "dfprivacy": None if paid is None else paid.version,
        "description": {"file": description.file.name, "sha256": description.digest},
        "parameters": dict(description.parameters),
        "promise": _promise(release, charge),
    }
    return json.dumps(note, indent=2, ensure_ascii=False, default=str) + "\n"


def _asked(release: Release) -> dict[str, Any]:
    """Return what is asked, as the description has it."""
    source = release.source
    if source.query is not None:
        what: dict[str, Any] = {"source": source.text, "query": source.query}
    else:
        questions = {name: question.text for name, question in release.questions.items()}
        what = {"source": source.text, "questions": questions, "by": list(release.by)}
    return {
        **what,
        "keys": None if release.keys is None else [list(row) for row in release.keys.rows],
        "unit": "one row" if release.unit is None else release.unit.text,
        "interval": release.interval,
    }


def _amounts(charge: Charge) -> dict[str, Fraction]:
    measure = "epsilon" if isinstance(charge.loss, Epsilon) else "rho"
    return {measure: charge.loss.value, "delta": charge.delta}


def cost(charge: Charge) -> str:
    """Return a charge in words.

    >>> from fractions import Fraction
    >>> cost(Charge(Epsilon(Fraction(1, 2)), Fraction(1, 10**6)))
    'epsilon 0.5, delta 1e-6'
    """
    amounts = _amounts(charge).items()
    return ", ".join(f"{name} {short(value)}" for name, value in amounts if value)


def _promise(release: Release, charge: Charge) -> str:
    """Return what an output promises, in one sentence."""
    unit = release.unit
    who = "one row" if unit is None else f"all rows of one {unit.column} ({unit.text})"
    kind = "differentially private" if isinstance(charge.loss, Epsilon) else "zCDP"
    return (
        f"This release is {kind} with {cost(charge)} for adding or removing {who}; other releases "
        f"about the dataset {release.budget.dataset!r} add to that, and its ledger adds them up."
    )
