"""Make the releases of a job file: checked together, each charged once, kept and written.

The only things that leave a run are released tables that a ledger has kept, and what the job file
says about them (docs/how-to/etl.md). Files are written wholly or not at all, tables in one
transaction; an output without a note of where it came from is never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.idempotent import IdempotentLedger, Paid
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.accounting.memory import digest_files
from dfprivacy.cli.job_files import JobFileContent
from dfprivacy.cli.output import answers_table, cost, put_file, write_table
from dfprivacy.cli.rows import column_types, open_database, open_rows
from dfprivacy.cli.specs import JobRelease, Output
from dfprivacy.engine.columns import columns_near
from dfprivacy.engine.embedded import UTC, in_time_zone
from dfprivacy.engine.files import list_source_files, quoted
from dfprivacy.errors import MissingColumnError, OutputError, UnsupportedFrameError
from dfprivacy.statements.rules import refuse

_NOTE = ".provenance.json"
_ESCAPED = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%./\\"})


@dataclass(frozen=True)
class Step:
    """A release that can be made: its ledger, what it costs, and whether that was paid before."""

    name: str
    release: JobRelease
    ledger: IdempotentLedger
    charge: Charge
    is_paid: bool


@dataclass(frozen=True)
class Done:
    """A release that was written.

    An earlier run was charged for it if `is_paid_before`. The ledger held the answer before this
    run if `is_remembered`. `has_changed_source` is true for a remembered answer to files that have
    changed since. `rows` is the number of released rows.
    """

    step: Step
    is_paid_before: bool
    is_remembered: bool
    has_changed_source: bool
    rows: int


def plan_steps(job: JobFileContent) -> list[Step]:
    """Return the steps of a run, once everything that can be checked without a row has been."""
    steps = []
    for name, release in job.releases.items():
        budget = release.budget
        ledger = IdempotentLedger(budget.ledger.path, budget.account, release.mark)
        with in_time_zone(release.timezone or UTC):
            charge = _required_charge(job, name, release)
        steps.append(Step(name, release, ledger, charge, ledger.settled()))
    for step in steps:
        for output in step.release.outputs:
            require_writable(output)
    _require_room([step for step in steps if not step.is_paid])
    return steps


def _required_charge(job: JobFileContent, name: str, release: JobRelease) -> Charge:
    """Return the cost of a release whose source has the columns and types that it asks for."""
    if release.source.query is not None:
        with release.open_statement(release.terms) as statement:
            if not statement.plans:
                raise refuse("public tables alone")
            job.require_types(name, statement.key_types)
            return statement.request.charge
    if release.described is None:
        job.require_types(name, _required_columns(name, release))
    with open_rows(release.source, release.where) as rows:  # refuses a condition
        return release.plan_under(release.terms, release.public_keys, rows).charge


def _required_columns(name: str, release: JobRelease) -> dict[str, pa.DataType]:
    """Return the declared types of a source that has all columns of its release."""
    types = column_types(release.source)
    used = [column for question in release.questions.values() for column in question.columns or ()]
    unit = release.privacy_unit
    for column in [*used, *release.by, *([] if unit is None else [unit.column])]:
        if column not in types:
            raise MissingColumnError(
                f"the source of release {name!r} has no column {column!r}",
                hint=columns_near(column, [*types]),
            )
    return types


def _require_room(steps: Sequence[Step]) -> None:
    """Refuse a run whose releases do not fit together; two that are the same are charged once."""
    accounts: dict[tuple[Path, str], list[Step]] = {}
    for step in {step.release.mark: step for step in steps}.values():
        budget = step.release.budget
        accounts.setdefault((budget.ledger.path.resolve(), budget.account), []).append(step)
    for _, steps_of_account in sorted(accounts.items()):
        charges = [(step.charge, step.release.budget.analyst) for step in steps_of_account]
        steps_of_account[0].ledger.require_room(charges)


def run_release(job: JobFileContent, step: Step) -> Done:
    """Make a release and write its outputs, or repeat the answer that the ledger holds.

    Each release is charged to its ledger once, however often the run is killed or repeated, and
    all its outputs hold the one table that the ledger keeps. Only an error between the charge and
    what the ledger keeps uses the charge up: it may tell something about the draw. When an engine,
    a ledger or a disk fails on the way, to run again finishes what was not.
    """
    release, ledger = step.release, step.ledger
    answer = remembered = ledger.kept()
    digest, old_digest = _digest_source(job, release), ledger.remembered_files()
    if answer is None:
        ledger.remember_files(digest)
        answer = ledger.kept_of(partial(make_release, step))
    paid = ledger.paid()
    for output in release.outputs:
        note = _note(job, step, output, paid)
        put_file(note_of(output), partial(Path.write_text, data=note, encoding="utf-8"))
        write(answer, output)
    is_changed = digest != old_digest and None not in {digest, old_digest}
    return Done(
        step,
        is_paid_before=not ledger.has_charged,
        is_remembered=remembered is not None,
        has_changed_source=remembered is not None and is_changed,
        rows=answer.num_rows,
    )


def _digest_source(job: JobFileContent, release: JobRelease) -> bytes | None:
    """Return the digest of the files of a source, or None if the run itself writes to them."""
    outputs = (output for other in job.releases.values() for output in other.outputs)
    written, paths = {output.path.resolve() for output in outputs}, release.source.paths
    if written.isdisjoint(path.resolve() for path in paths):
        with suppress(OSError):
            files = {file for path in paths for file in list_source_files(path)}
            return digest_files(files, job.file.absolute().parent)
    return None


def make_release(step: Step) -> pa.Table:
    """Return a release, paid for; nobody may see it before the ledger has kept it."""
    release, budget = step.release, step.release.budget
    with in_time_zone(release.timezone or UTC):
        terms = replace(
            release.terms,
            ledger=step.ledger,
            dataset=budget.dataset,
            period=budget.period,
            analyst=budget.analyst,
        )
        if release.source.query is not None:
            with release.open_statement(terms) as statement:
                return statement.release()[0]
        return answers_table(release.release(terms))


def _note(job: JobFileContent, step: Step, output: Output, paid: Paid | None) -> str:
    """Return the note of an output, the same byte by byte: asked, paid, promised; no data."""
    release, charge = step.release, step.charge
    note = {
        "release": step.name,
        "output": output.text,
        "asked": _question_fields(release),
        "charged": cost_by_name(charge),
        "dataset": release.budget.dataset,
        "version": release.budget.version,
        "time": None if paid is None else paid.time,
        "dfprivacy": None if paid is None else paid.version,
        "description": {"file": job.file.name, "sha256": job.content.digest},
        "parameters": dict(job.parameters),
        "promise": _promise(release, charge),
    }
    return json.dumps(note, indent=2, ensure_ascii=False, default=str) + "\n"


def _question_fields(release: JobRelease) -> dict[str, Any]:
    source, unit = release.source, release.privacy_unit
    questions = {name: question.text for name, question in release.questions.items()}
    has_questions = source.query is None
    fields = {
        "source": source.text,
        "questions": questions if has_questions else None,
        "by": list(release.by) if has_questions else None,
        "query": source.query,
        "schema": None if source.owners is None else repr(source.owners),
        "hive": source.hive or None,
        "where": release.where,
        "timezone": release.timezone,
        "population": release.population or None,
        **source.text_form,
    }
    return {
        **{name: value for name, value in fields.items() if value is not None},
        "keys": None if release.keys is None else [list(row) for row in release.keys.rows],
        "unit": "one row" if unit is None else unit.text,
        "interval": release.interval,
    }


def cost_by_name(charge: Charge) -> dict[str, float]:
    """Return the privacy loss and the delta of a charge by name."""
    return {charge.loss.measure: float(charge.loss.value), "delta": float(charge.delta)}


def _promise(release: JobRelease, charge: Charge) -> str:
    unit = release.privacy_unit
    who = "one row" if unit is None else f"all rows of one {unit.column} ({unit.text})"
    if release.budget.period is not None:
        who = f"{who}, of the rows of the period {release.budget.period} alone"
    kind = "differentially private" if isinstance(charge.loss, Epsilon) else "zCDP"
    return (
        f"This release is {kind} with {cost(charge)} for adding or removing {who}; other releases "
        f"about the dataset {release.budget.dataset!r} add to that, and its ledger adds them up."
    )


def note_of(output: Output) -> Path:
    """Return the file beside an output that says where it came from: each output has its own."""
    table = "" if output.table is None else f".{output.table.translate(_ESCAPED)}.table"
    return output.path.with_name(f"{output.path.name}{table}{_NOTE}")


def require_writable(output: Output) -> None:
    """Refuse an output that could not be written, or that a run has not made."""
    if not output.path.parent.is_dir():
        raise OutputError(
            f"there is no directory {str(output.path.parent)!r} to write to", hint="create it first"
        )
    if output.path.is_dir() or (_is_there(output) and not note_of(output).is_file()):
        raise OutputError(
            f"{output.text!r} is there already, and no run has made it",
            hint="name another output, or move what is there away",
        )


def _is_there(output: Output) -> bool:
    if output.table is None or not output.path.exists():
        return output.path.exists()
    query = (
        "SELECT count(*) FROM (SELECT table_name AS name FROM duckdb_tables() "
        "UNION ALL SELECT view_name FROM duckdb_views()) WHERE lower(name) = lower(?)"
    )
    try:
        with open_database(output.path) as connection:
            return connection.execute(query, [output.table]).fetchone() != (0,)
    except UnsupportedFrameError:
        return True


def write(table: pa.Table, output: Output) -> None:
    """Write a release."""
    if output.table is None:
        write_table(table, output.path)
        return
    with suppress(duckdb.Error), duckdb.connect(str(output.path)) as connection:
        connection.register("dfprivacy_released", table)
        connection.begin()
        connection.execute(
            f"CREATE OR REPLACE TABLE {quoted(output.table)} AS SELECT * FROM dfprivacy_released"  # noqa: S608 the name is quoted
        )
        connection.commit()
        return
    raise OutputError(
        f"the table {output.text!r} could not be written",
        hint="close what holds the file open; then run again: what is paid for is repeated",
    )
