"""Make the releases that a file describes: checked together, each charged once, kept and written.

The only things that leave a run are released tables that a ledger has kept, and what the
description says about them (docs/etl.md). Files are written wholly or not at all, tables in one
transaction; an output without a note of where it came from is never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.accounting.charge import Charge, short
from dfprivacy.accounting.idempotent import IdempotentLedger, Paid
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.accounting.memory import digest_files
from dfprivacy.cli.asking import answers_table, declared_columns, file_columns, typed_column
from dfprivacy.cli.description import Description, NamedKeys, Output, Release, Source
from dfprivacy.engine.columns import columns_near
from dfprivacy.engine.embedded import (
    UTC,
    Setting,
    engine_options,
    find_space_error,
    in_time_zone,
    limits_of,
    private_folder,
    remove_folders,
    session_zone,
    set_time_zone,
)
from dfprivacy.engine.files import (
    list_source_files,
    open_source,
    put_whole,
    quoted,
    write_csv,
    write_parquet,
)
from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.run import guarded
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.engine.text_files import TextFile, with_form
from dfprivacy.errors import (
    InvalidKeysError,
    MissingColumnError,
    OutputError,
    RefusedStatementError,
    UnsupportedFrameError,
)
from dfprivacy.frames.describing import description_of, release_description
from dfprivacy.frames.releasing import release_numbers
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.statements.gate import fence
from dfprivacy.statements.jobs import Job, filtered, job_of
from dfprivacy.statements.plan import plan_script
from dfprivacy.statements.rules import refuse

_NOTE = ".provenance.json"
_ESCAPED = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%./\\"})


@dataclass(frozen=True)
class Step:
    """A release that can be made: its ledger, what it costs, and whether that was paid before."""

    release: Release
    ledger: IdempotentLedger
    charge: Charge
    settled: bool


@dataclass(frozen=True)
class Done:
    """A release that was written.

    An earlier run was charged for it if `is_paid_before`. The ledger held the answer before this
    run if `is_remembered`. `has_changed_source` is true for a remembered answer to files that have
    changed since. `rows` has the number of rows of each output.
    """

    release: Release
    charge: Charge
    is_paid_before: bool
    is_remembered: bool
    has_changed_source: bool
    rows: Sequence[int]


def planned(description: Description) -> list[Step]:
    """Return the steps of a run, once everything that can be checked without a row has been."""
    steps = []
    for release in description.releases:
        budget = release.budget
        ledger = IdempotentLedger(budget.ledger.path, budget.account, release.mark)
        with in_time_zone(release.timezone or UTC):
            charge = _required_charge(description, release)
        steps.append(Step(release, ledger, charge, ledger.settled()))
    for step in steps:
        for output in step.release.outputs:
            require_writable(output)
    _require_room([step for step in steps if not step.settled])
    return steps


def _required_charge(description: Description, release: Release) -> Charge:
    """Return the cost of a release whose source has the columns and types that it asks for."""
    if release.described is not None:
        with rows_of(release) as rows:
            return description_of(rows, release.described, release.terms).request.charge
    if release.source.query is None:
        schema = _required_columns(release)
        description.require_types(release, dict(zip(schema.names, schema.types, strict=True)))
        with rows_of(release):  # refuses a condition
            return release.charge()
    with _statement(release, release.terms) as job:
        description.require_types(release, job.key_types)
        return job.request.charge


def _require_room(steps: Sequence[Step]) -> None:
    """Refuse a run whose releases do not fit together; two that are the same are charged once."""
    once = {step.release.mark: step for step in steps}.values()
    for _, account in groupby(sorted(once, key=_account), _account):
        own = list(account)
        charges = [(step.charge, step.release.budget.analyst) for step in own]
        own[0].ledger.require_room(charges)


def _account(step: Step) -> tuple[Path, str]:
    return step.release.budget.ledger.path.resolve(), step.release.budget.account


def run_release(description: Description, step: Step) -> Done:
    """Make a release and write its outputs, or repeat the answer that the ledger holds.

    Each release is charged to its ledger once, however often the run is killed or repeated, and
    all its outputs hold the one table that the ledger keeps. Only an error between the charge and
    what the ledger keeps uses the charge up: it may tell something about the draw. When an engine,
    a ledger or a disk fails on the way, to run again finishes what was not.
    """
    release, ledger = step.release, step.ledger
    answer = remembered = ledger.kept()
    digest, old_digest = _digest_source(description, release), ledger.remembered_files()
    if answer is None:
        ledger.remember_files(digest)
        answer = ledger.kept_of(partial(made, release, ledger))
    paid, rows = ledger.paid(), []
    for output in release.outputs:
        note = _note(description, step, output, paid)
        _put(note_of(output), partial(Path.write_text, data=note, encoding="utf-8"))
        compared = output.compared
        table = answer if compared is None else compared.of(answer, release.origin)
        write(table, output)
        rows.append(table.num_rows)
    is_changed = digest != old_digest and None not in {digest, old_digest}
    return Done(
        release,
        step.charge,
        is_paid_before=not ledger.has_charged,
        is_remembered=remembered is not None,
        has_changed_source=remembered is not None and is_changed,
        rows=rows,
    )


def _digest_source(description: Description, release: Release) -> bytes | None:
    """Return the digest of the files of a source, or None if the run itself writes to them."""
    outputs = (output for other in description.releases for output in other.outputs)
    written = {output.path.resolve() for output in outputs}
    paths = release.source.paths
    if not written.isdisjoint(path.resolve() for path in paths):
        return None
    with suppress(OSError):
        files = {file for path in paths for file in list_source_files(path)}
        return digest_files(files, description.file.absolute().parent)
    return None


def made(release: Release, ledger: IdempotentLedger) -> pa.Table:
    """Return a release, paid for; nobody may see it before the ledger has kept it."""
    with in_time_zone(release.timezone or UTC):
        return _made(release, ledger)


def _made(release: Release, ledger: IdempotentLedger) -> pa.Table:
    budget = release.budget
    terms = replace(
        release.terms,
        ledger=ledger,
        dataset=budget.dataset,
        period=budget.period,
        analyst=budget.analyst,
    )
    if release.source.query is not None:
        with _statement(release, terms) as job:
            return job.release()[0]
    if release.described is not None:
        with rows_of(release) as rows:
            asked = description_of(rows, release.described, terms)
            return frame_table(release_description(asked))
    keys = typed_keys(release)
    with rows_of(release) as rows:
        if release.numbers and not release.by:
            return answers_table(release_numbers(rows, release.numbers, terms))
        return frame_table(release.asked.release(rows, terms, release.by, keys))


@contextmanager
def _statement(release: Release, terms: Terms) -> Iterator[Job]:
    """Open a query as a job, once it is known to be a SELECT."""
    source = release.source
    files = source.tables or {}
    tables = {name: with_form(file.path, source.text_form) for name, file in files.items()}
    with (
        nullcontext() if source.database is None else opened(source.database.path) as connection,
        job_of(
            str(source.query),
            connection,
            tables,
            terms,
            _keys_of_query(release.keys),
            schema=source.owners,
            intervals=release.intervals,
            timezone=session_zone(),
        ) as job,
    ):
        if job.script.target is not None:
            raise RefusedStatementError(
                f"the query of release {release.name!r} writes a table itself",
                hint="write a SELECT; where it goes stands in outputs",
            )
        if not job.plans:
            raise refuse("public tables alone")
        yield job if release.keys is None else _with_typed_keys(job, release.keys)


def _keys_of_query(keys: PublicKeys | None) -> object:
    """Return public keys as `dfp.sql` takes them: by column where they were listed by column."""
    if keys is None:
        return None
    if isinstance(keys, NamedKeys):
        lists = (list(dict.fromkeys(column)) for column in zip(*keys.rows, strict=True))
        return dict(zip(keys.columns, lists, strict=True))
    return [row[0] if len(row) == 1 else row for row in keys.rows]


def _with_typed_keys(job: Job, keys: PublicKeys) -> Job:
    """Return a job whose public keys have the declared types of their columns."""
    types = job.key_types
    names = {name.casefold(): name for name in types}
    listed = keys.columns if isinstance(keys, NamedKeys) else types
    columns = [names[name.casefold()] for name in listed]
    try:
        typed = [
            typed_column(name, values, types[name])
            for name, values in zip(columns, zip(*keys.rows, strict=True), strict=True)
        ]
    except InvalidKeysError:
        return job  # the description names the line
    rows = tuple(zip(*typed, strict=True))
    public = _keys_of_query(replace(keys, rows=rows))
    plans = plan_script(job.script, job.terms, public)
    return replace(job, plans=plans, public=public)


def _note(description: Description, step: Step, output: Output, paid: Paid | None) -> str:
    """Return the note of an output, the same byte by byte: asked, paid, promised; no data."""
    release, charge = step.release, step.charge
    note = {
        "release": release.name,
        "output": output.text,
        **({} if output.compared is None else {"compared": asdict(output.compared)}),
        "asked": _asked(release),
        "charged": cost_by_name(charge),
        "dataset": release.budget.dataset,
        "version": release.budget.version,
        "time": None if paid is None else paid.time,
        "dfprivacy": None if paid is None else paid.version,
        "description": {"file": description.file.name, "sha256": description.content.digest},
        "parameters": dict(description.parameters),
        "promise": _promise(release, charge),
    }
    return json.dumps(note, indent=2, ensure_ascii=False, default=str) + "\n"


def _asked(release: Release) -> dict[str, Any]:
    source = release.source
    if source.query is not None:
        what: dict[str, Any] = {"source": source.text, "query": source.query}
        if source.owners is not None:
            what["schema"] = repr(source.owners)
    else:
        questions = {name: question.text for name, question in release.questions.items()}
        what = {"source": source.text, "questions": questions, "by": list(release.by)}
        if source.hive:
            what["hive"] = True
        if release.where is not None:
            what["where"] = release.where
    if release.timezone is not None:
        what["timezone"] = release.timezone
    return {
        **what,
        **source.text_form,
        "keys": None if release.keys is None else [list(row) for row in release.keys.rows],
        "unit": "one row" if release.unit is None else release.unit.text,
        "interval": release.interval,
    }


def _amounts(charge: Charge) -> dict[str, Fraction]:
    return {charge.loss.measure: charge.loss.value, "delta": charge.delta}


def cost_by_name(charge: Charge) -> dict[str, float]:
    """Return the privacy loss and the delta of a charge by name."""
    return {name: float(value) for name, value in _amounts(charge).items()}


def cost(charge: Charge) -> str:
    """Return a charge in words.

    >>> from fractions import Fraction
    >>> cost(Charge(Epsilon(Fraction(1, 2)), Fraction(1, 10**6)))
    'epsilon 0.5, delta 1e-6'
    """
    amounts = _amounts(charge).items()
    return ", ".join(f"{name} {short(value)}" for name, value in amounts if value)


def _promise(release: Release, charge: Charge) -> str:
    unit = release.unit
    who = "one row" if unit is None else f"all rows of one {unit.column} ({unit.text})"
    if release.budget.period is not None:
        who = f"{who}, of the rows of the period {release.budget.period} alone"
    kind = "differentially private" if isinstance(charge.loss, Epsilon) else "zCDP"
    return (
        f"This release is {kind} with {cost(charge)} for adding or removing {who}; other releases "
        f"about the dataset {release.budget.dataset!r} add to that, and its ledger adds them up."
    )


_READ_ONLY: dict[str, Setting] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_FORMATS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
}


@contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file for reading, within the limits of the engine."""
    connection, space_error, options = None, None, engine_options()
    folder = private_folder()
    config = _READ_ONLY | limits_of(options) | {"temp_directory": str(folder)}
    try:
        if path.is_file():
            try:
                connection = duckdb.connect(str(path), read_only=True, config=config)
            except duckdb.Error as error:
                space_error = find_space_error(error)
        if space_error is not None:
            raise space_error
        if connection is None:
            raise UnsupportedFrameError(
                f"{str(path)!r} is not a DuckDB file that can be opened for reading",
                hint="check the path, and that no other process holds it open for writing",
            )
        set_time_zone(connection, session_zone())
        with connection:
            yield connection
    finally:
        remove_folders(folder)


@contextmanager
def rows_of(release: Release) -> Iterator[Any]:
    """Open what a release of questions asks: a path or a relation, or some of their rows."""
    where = release.where
    with _rows_of(release.source, fenced=where is not None) as rows:
        yield rows if where is None else filtered(rows, where)


Rows = Path | TextFile | Snapshot | duckdb.DuckDBPyRelation


@contextmanager
def _rows_of(source: Source, *, fenced: bool = False) -> Iterator[Rows]:
    """Open all rows; those of a table on a connection without an optimiser if it is `fenced`."""
    if source.table is None or source.database is None:
        yield open_source(source.rows, **source.text_form)
        return
    with opened(source.database.path) as connection:
        table = None
        if fenced:
            fence(connection)
        with suppress(duckdb.Error):
            table = connection.table(source.table)
        if table is None:
            raise MissingColumnError(
                f"there is no table {source.table!r} in {str(source.database.path)!r}",
                hint="name a table or view of the file, with its schema where it is not main",
            )
        yield table


def _columns_of(source: Source) -> pa.Schema:
    with _rows_of(source) as rows:
        if isinstance(rows, Path | TextFile | Snapshot):
            return file_columns(rows)
        return guarded(lambda: declared_columns(rows))


def _required_columns(release: Release) -> pa.Schema:
    """Return the declared columns of a source that has all columns of its release."""
    schema = _columns_of(release.source)
    asked = [column for own in release.questions.values() for column in own.columns or ()]
    unit = [] if release.unit is None else [release.unit.column]
    for column in [*asked, *release.by, *unit]:
        if column not in schema.names:
            raise MissingColumnError(
                f"the source of release {release.name!r} has no column {column!r}",
                hint=columns_near(column, schema.names),
            )
    return schema


def typed_keys(release: Release) -> PublicKeys | None:
    """Return public keys in the declared types of their columns."""
    schema = _required_columns(release)
    if release.keys is None:
        return None
    columns = zip(*release.keys.rows, strict=True)
    typed = [
        typed_column(name, column, schema.field(name).type)
        for name, column in zip(release.by, columns, strict=True)
    ]
    return PublicKeys(tuple(zip(*typed, strict=True)))


def note_of(output: Output) -> Path:
    """Return the file beside an output that says where it came from: each output has its own."""
    table = "" if output.table is None else f".{output.table.translate(_ESCAPED)}.table"
    return output.path.with_name(f"{output.path.name}{table}{_NOTE}")


def require_writable(output: Output) -> None:
    """Refuse an output that could not be written, or that a run has not made."""
    if not output.path.parent.is_dir():
        raise OutputError(
            f"there is no directory {str(output.path.parent)!r} to write to",
            hint="create it first",
        )
    if output.path.is_dir() or (_is_there(output) and not note_of(output).is_file()):
        raise OutputError(
            f"{output.text!r} is there already, and no run has made it",
            hint="name another output, or move what is there away",
        )


def _is_there(output: Output) -> bool:
    there = output.path.exists()
    if not there or output.table is None:
        return there
    query = (
        "SELECT count(*) FROM (SELECT table_name AS name FROM duckdb_tables() "
        "UNION ALL SELECT view_name FROM duckdb_views()) WHERE lower(name) = lower(?)"
    )
    try:
        with opened(output.path) as connection:
            return connection.execute(query, [output.table]).fetchone() != (0,)
    except UnsupportedFrameError:
        return True


def write(table: pa.Table, output: Output) -> None:
    """Write a release."""
    if output.table is None:
        form = _FORMATS[output.path.suffix.lower()]
        _put(output.path, lambda path: form(table, path))
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


def _put(path: Path, fill: Callable[[Path], object]) -> None:
    """Make a file wholly or not at all."""
    try:
        put_whole(path, fill)
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise OutputError(
            f"{str(path)!r} could not be written: {reason}",
            hint="make room, or choose a directory in which you may write; then run again: what "
            "is paid for is repeated",
        ) from None
