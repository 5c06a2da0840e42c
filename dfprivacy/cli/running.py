"""Make the releases of a job file: all checked before anything runs, each charged once and kept.

The only things that leave a run are released tables that a ledger has kept, and what the job file
says about them (docs/how-to/etl.md). Files are written wholly or not at all, tables in one
transaction; an output without a note of where it came from is never replaced.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
import pyarrow as pa
import typer
from rich.console import Console

from dfprivacy.accounting.charge import Charge, account_name
from dfprivacy.accounting.idempotent import IdempotentLedger, Paid
from dfprivacy.accounting.ledger import analyst_name, dataset_name, version_name
from dfprivacy.accounting.loss import Epsilon, read_delta, read_loss
from dfprivacy.accounting.memory import (
    FAILURE,
    digest_files,
    fingerprint,
    read_released_table,
    release_bytes,
)
from dfprivacy.cli.options import options, read_named_values, with_options
from dfprivacy.cli.output import (
    INTERRUPTED_CODE,
    answers_table,
    excel_hint,
    find_hint,
    print_answers,
    put_file,
    require_folder,
    show_error,
    show_line,
    show_lines,
    write_table,
)
from dfprivacy.cli.specs import (
    NOT_FOR_QUERIES,
    JobFile,
    Loss,
    Read,
    ReleaseSpec,
    as_list,
    checking,
    column_types,
    open_database,
    open_rows,
    read_as,
    require_kind,
    resolve_file,
    spec,
)
from dfprivacy.engine.columns import columns_near
from dfprivacy.engine.embedded import UTC, Engine, in_time_zone
from dfprivacy.engine.files import list_source_files, quote
from dfprivacy.engine.keys import type_constant
from dfprivacy.engine.progress import hide_progress
from dfprivacy.errors import (
    MOVED_ARGUMENTS,
    BudgetExceededError,
    DPError,
    EngineSpaceError,
    InvalidDescriptionError,
    InvalidKeysError,
    InvalidQuestionError,
    LedgerFileError,
    MissingColumnError,
    OutputError,
    ReleasedQueryError,
    UnsupportedFrameError,
    hold_notes,
    publish_error,
)
from dfprivacy.frames.releasing import no_groups_note
from dfprivacy.statements.rules import refuse
from dfprivacy.statistics import Share

if TYPE_CHECKING:
    from pydantic import ValidationError

    from dfprivacy.statements.yaml_files import At, Content, Faults

_NOTE = ".provenance.json"
_ESCAPED = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%./\\"})


@spec
class Budget(Loss):
    """The loss of a release, and the account that it is charged to."""

    ledger: JobFile
    dataset: str
    version: str
    period: str | None = None
    analyst: str | None = None

    def __post_init__(self) -> None:
        if self.epsilon is None and self.rho is None:
            raise ValueError("epsilon or rho is missing")
        super().__post_init__()
        with checking("dataset"):
            dataset_name(self.dataset)
        with checking("version"):
            version_name(self.version)
        with checking("period"):
            account_name(self.dataset, self.period)
        with checking("analyst"):
            analyst_name(self.analyst)

    @property
    def account(self) -> str:
        """The name of the account: the dataset's, or its period's."""
        return account_name(self.dataset, self.period)


@spec
class TableOutput:
    """A table of a DuckDB file."""

    database: JobFile
    table: str


@dataclass(frozen=True)
class Output:
    """A CSV or Parquet file, or a table of a DuckDB file."""

    path: Path
    text: str
    table: str | None = None


def _read_output(value: Any, folder: Path) -> Output:
    if isinstance(value, dict):
        table: TableOutput = read_as(TableOutput, value, folder)
        database = table.database
        return Output(database.path, f"{database.text}:{table.table}", table.table)
    file = resolve_file(value, folder)
    if not file.text.lower().endswith((".csv", ".parquet")):
        raise ValueError(
            f"{file.text!r} does not end in .csv or .parquet; a table is "
            f"{{database: FILE, table: NAME}}{excel_hint(file.text)}"
        )
    return Output(file.path, file.text)


@spec
class JobRelease(ReleaseSpec):
    """A release of a job file: its account, and where the answers go.

    A query holds its questions, groups and conditions itself; `questions` and `by` are empty then.
    """

    budget: Budget
    outputs: tuple[Annotated[Output, Read(_read_output)], ...]

    def __post_init__(self) -> None:
        """Find what does not go together before anything is read."""
        super().__post_init__()
        is_query = self.source.query is not None
        with checking("source", "tables"):
            for name in self.source.tables or {}:
                if not name.isidentifier():
                    raise ValueError(f"{name!r} is not a plain name")
        for name in NOT_FOR_QUERIES:
            if is_query and getattr(self, name, None):
                with checking(name):
                    raise ValueError("a query can't have this field: write it in the SQL")
        if not is_query and not self.questions:
            raise ValueError("questions are missing")
        with checking("intervals"):
            if self.intervals and not is_query:
                raise ValueError("'intervals' is for a query: questions have intervals anyway")
        with checking("unit"):
            _ = self.privacy_unit
        with checking("outputs"):
            if not self.outputs:
                raise ValueError("at least one output is needed")
        with checking("margins"):
            if self.margins and (len(self.by) != 2 or len(self.numbers) != 1):
                raise ValueError(
                    "needs exactly one question, no histogram, and two columns in 'by'"
                )
        budget, is_described = self.budget, self.described is not None
        with checking("budget"):
            if is_query and (budget.rho is not None or budget.target is not None):
                raise ValueError("a query needs a fixed epsilon: no rho, and no 'within'")
            if is_described and (self.by or budget.target is not None):
                raise ValueError("describe takes neither 'by' nor 'within'")
        if not is_query and not is_described:
            if self.keys is not None or not self.by:  # no keys are secret
                self._set(budget=replace(budget, delta=None))
            _ = self.plan.charge

    @property
    def mark(self) -> bytes:
        """The fingerprint of the release: its rows, questions and loss, wherever it is written."""
        budget, source = self.budget, self.source
        kind = "FileSource" if source.table is None else "TableSource"
        kind = kind if source.query is None else "QuerySource"
        names = ("where", "by", "keys", "unit", "bounds", "interval")
        flags = ("intervals", "margins", "population")
        known_by = {
            **{name: getattr(self, name) for name in (*names, *flags)},
            "source": [kind, source.text, source.table, source.query, source.files],
            "form": [source.hive, source.text_form, repr(source.owners)],
            "timezone": self.timezone or UTC,
            "questions": list(self.questions.items()),
            "loss": budget.target or read_loss(budget.epsilon, budget.rho),
            "delta": read_delta(budget.delta),
        }
        return fingerprint(budget.account, budget.version, "run", known_by)


_SHARED = ("source", "unit", "budget")
"""The fields at the top of a file that stand for those of every release."""


@spec
class JobSpec:
    """A whole job file; what it says for all releases has been put into each."""

    releases: dict[str, Annotated[Any, Read(lambda fields, at: read_as(JobRelease, fields, at))]]
    parameters: Any = None
    source: Any = None
    unit: Any = None
    budget: Any = None

    def __post_init__(self) -> None:
        if not self.releases:
            raise ValueError("there are no releases; write some by name")


@dataclass(frozen=True)
class JobFileContent:
    """All releases of a job file, its content, and the parameters that it was read with."""

    file: Path
    content: Content
    parameters: Mapping[str, str]
    releases: Mapping[str, JobRelease]
    faults: Faults

    def require_types(self, name: str, types: Mapping[str, pa.DataType]) -> None:
        """Refuse public keys and constants that do not fit the declared types of their columns.

        The fault names the line of the field, before anything is charged.
        """
        release = self.releases[name]
        questions = self.content.value["releases"][name].get("questions", {})
        try:
            if release.keys is not None:
                with checking("keys"):
                    release.keys.for_query(types, release.by)
            for title, question in release.numbers.items():
                if isinstance(question, Share) and "value" in questions[title]:
                    column, value = str(question.column), question.value
                    with checking("questions", title, "value"):
                        require_kind(column, value, types[column])
                        type_constant(column, value, types[column], value)
        except (InvalidKeysError, InvalidQuestionError) as error:
            way = self.content.nearest(("releases", name, *error.__notes__))
            _add_fault(self.faults, self.content, way, f"{error.message}; {error.hint}")
        self.faults.require_none()


def read_job_file(file: Path, parameters: Mapping[str, str]) -> JobFileContent:
    """Return the content of a job file, with values for its parameters; no data are read.

    Its error has one line for each fault: file, line, field, and what pydantic says of it.
    """
    from pydantic import ValidationError  # noqa: PLC0415 on first use

    from dfprivacy.statements.yaml_files import Faults, read_content  # noqa: PLC0415 loads yaml

    faults = Faults(file)
    content = read_content(faults, parameters)
    try:
        job: JobSpec = read_as(JobSpec, _inherit_fields(content.value), file.absolute().parent)
    except ValidationError as error:
        _add_faults(faults, content, error)
        faults.require_none()
        raise
    for at, what in _find_clashes(job.releases):
        _add_fault(faults, content, at, what)
    faults.require_none()
    return JobFileContent(file, content, parameters, job.releases, faults)


def _add_faults(faults: Faults, content: Content, error: ValidationError) -> None:
    """Note all that pydantic has found, once for each field."""
    noted = set()
    for fault in error.errors(include_url=False):
        loc, what = fault["loc"], fault["msg"].removeprefix("Value error, ")
        reason = fault.get("ctx", {}).get("error")
        if isinstance(reason, DPError):
            what = reason.message
        if fault["type"] == "string_type" and isinstance(fault["input"], bool | int | float):
            what = f"{what}: write it in quotes"
        if fault["type"] == "extra_forbidden" and loc[-1] in MOVED_ARGUMENTS:
            what = f"{what}; {MOVED_ARGUMENTS[loc[-1]]}"
        at = (*loc, *getattr(reason, "__notes__", ()))
        way, shared = content.nearest(at), content.nearest(at[2:])
        if len(at) > 2 and len(shared) + 2 > len(way):  # the release has it from the top
            way = shared
        if fault["type"] == "missing":
            way = (*way, loc[-1])
        if way not in noted:
            noted.add(way)
            _add_fault(faults, content, way, what)


def _add_fault(faults: Faults, content: Content, at: At, what: str) -> None:
    path = ".".join(map(str, at))
    faults.add(content.line(at), f"{path}: {what}" if path else what)


def _inherit_fields(value: Any) -> Any:
    """Return a job file whose releases have what the file says for all of them.

    Lone items become lists, and a source that is a text is a file.
    """
    if not isinstance(value, dict) or not isinstance(value.get("releases"), dict):
        return value
    top = _without_nothing(value)
    for fields in (top, *top["releases"].values()):
        if isinstance(fields, dict) and isinstance(fields.get("source"), str):
            fields["source"] = {"file": fields["source"]}
    shared = {name: top[name] for name in _SHARED if name in top}
    for release in top["releases"].values():
        if isinstance(release, dict):
            for name in {"by", "outputs"} & {*release}:
                release[name] = as_list(release[name])
            budget, common = release.get("budget", {}), shared.get("budget")
            if isinstance(common, dict) and isinstance(budget, dict):
                losses = {"epsilon", "rho"} if {"epsilon", "rho"} & {*budget} else set()
                inherited = {name: item for name, item in common.items() if name not in losses}
                release["budget"] = {**inherited, **budget}
            release |= {**shared, **release}
    return top


def _without_nothing(value: Any) -> Any:
    """Return a value without fields that hold nothing, at any depth."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nothing(item) for name, item in value.items() if item is not None}


def _find_clashes(releases: Mapping[str, JobRelease]) -> Iterator[tuple[At, str]]:
    """Find outputs that would overwrite one another, or what is read."""
    names: dict[tuple[Path, str], str] = {}
    read = {path.resolve() for release in releases.values() for path in release.source.paths}
    for name, release in releases.items():
        ledger = release.budget.ledger.path.resolve()
        for number, output in enumerate(release.outputs):
            path, table = output.path.resolve(), (output.table or "").lower()
            fault = None
            if (path, table) in names:
                fault = f"the release {names[path, table]!r} writes there too"
            elif (path in read and not table) or path == ledger:
                fault = "the output is a file that is read"
            elif any(_can_name(source, path) for source in read):
                fault = "the output would be read as a source"
            if fault is not None:
                yield ("releases", name, "outputs", number), f"{output.text}: {fault}"
            names.setdefault((path, table), name)


def _can_name(source: Path, path: Path) -> bool:
    """Check if a folder or pattern could name a path, whatever files there are by now."""
    if not has_magic(str(source)):
        return source in path.parents
    parts = ["*" if "\\" in part else part for part in source.parts]  # engines read it differently
    pattern = re.sub(r"/(\*\*/)+", "/*", Path(*parts).as_posix())
    return fnmatch.fnmatchcase(path.as_posix(), pattern)


@dataclass(frozen=True)
class Step:
    """A release that can be made: its ledger, what it costs, and whether that was paid before."""

    name: str
    release: JobRelease
    ledger: IdempotentLedger
    charge: Charge
    is_paid: bool


def plan_steps(job: JobFileContent) -> list[Step]:
    """Return the steps of a run, once everything that can be checked without a row has been."""
    steps = []
    for name, release in job.releases.items():
        budget = release.budget
        ledger = IdempotentLedger(budget.ledger.path, budget.account, release.mark)
        with in_time_zone(release.timezone or UTC):
            charge = _require_charge(job, name, release)
        steps.append(Step(name, release, ledger, charge, ledger.is_settled()))
    for step in steps:
        for output in step.release.outputs:
            require_folder(output.path, OutputError)
            if output.path.is_dir() or (_is_there(output) and not name_note_file(output).is_file()):
                raise OutputError(
                    f"{output.text!r} is there already, and no run has made it",
                    hint="name another output, or move what is there away",
                )
    # All releases have to fit together; two that are the same are charged once.
    accounts: dict[tuple[Path, str], list[Step]] = {}
    for step in {step.release.mark: step for step in steps if not step.is_paid}.values():
        budget = step.release.budget
        accounts.setdefault((budget.ledger.path.resolve(), budget.account), []).append(step)
    for _, steps_of_account in sorted(accounts.items()):
        charges = [(step.charge, step.release.budget.analyst) for step in steps_of_account]
        steps_of_account[0].ledger.require_room(charges)
    return steps


def _require_charge(job: JobFileContent, name: str, release: JobRelease) -> Charge:
    """Return the cost of a release whose source has the columns and types that it asks for."""
    if release.source.query is not None:
        with release.open_statement(release.terms) as statement:
            if not statement.plans:
                raise refuse("public tables alone")
            job.require_types(name, statement.key_types)
            return statement.request.charge
    if release.described is None:
        types = column_types(release.source)
        used = [
            column for question in release.questions.values() for column in question.columns or ()
        ]
        unit = release.privacy_unit
        for column in [*used, *release.by, *([] if unit is None else [unit.column])]:
            if column not in types:
                raise MissingColumnError(
                    f"the source of release {name!r} has no column {column!r}",
                    hint=columns_near(column, [*types]),
                )
        job.require_types(name, types)
    with open_rows(release.source, release.where) as rows:  # refuses a condition
        return release.plan_under(release.terms, rows).charge


def run_release(job: JobFileContent, step: Step, console: Console, log: RunLog) -> None:
    """Make a release and write its outputs, or repeat the answer that the ledger holds.

    Print a sentence about it, or log its outputs and its cost.

    Each release is charged to its ledger once, however often the run is killed or repeated, and
    all its outputs hold the one table that the ledger keeps. Where the query over its answers
    fails, these are kept and printed, and each run runs it over them again: that draws nothing. Any
    other error between the charge and what the ledger keeps uses the charge up: it may tell
    something about the draw. When an engine, a ledger or a disk fails on the way, to run again
    finishes what was not.
    """
    release, ledger = step.release, step.ledger
    answer = remembered = ledger.read_release()
    outputs = (output for other in job.releases.values() for output in other.outputs)
    written, paths = {output.path.resolve() for output in outputs}, release.source.paths
    digest, old_digest = None, ledger.read_file_digest()
    if written.isdisjoint(path.resolve() for path in paths):  # else the run changes its source
        with suppress(OSError):
            files = {file for path in paths for file in list_source_files(path)}
            digest = digest_files(files, job.file.absolute().parent)
    if answer is None:
        ledger.remember_files(digest)
        answer, notes = _answer_to_keep(step)
        for note in notes:
            log.warn(note)
    reason = (answer.schema.metadata or {}).get(FAILURE)
    if reason is not None:
        tables = [read_released_table(content) for content in answer.column(0).to_pylist()]
        if "drawn" not in answer.column_names:
            print_answers(ReleasedQueryError(reason.decode(), released=tables))
        try:
            with in_time_zone(release.timezone or UTC), hold_notes():
                answer = answers_table(release.release(release.terms, tables))
        except ReleasedQueryError as error:
            print_answers(error)
    paid = ledger.find_payment()
    for output in release.outputs:
        note = _write_note(job, step, output, paid)
        put_file(name_note_file(output), partial(Path.write_text, data=note, encoding="utf-8"))
        write(answer, output)
    names = [output.text for output in release.outputs]
    paid_before = "paid before, nothing spent"
    spent = f"spent {step.charge.text()}" if ledger.has_charged else paid_before
    show_line(console, f"{step.name}: wrote {', '.join(names)}; {spent}")
    if remembered is not None and release.by and not answer.num_rows:
        log.warn(no_groups_note(release.plan))
    is_changed = digest != old_digest and None not in {digest, old_digest}
    if remembered is not None and is_changed:
        version = release.budget.version
        log.warn(f"data changed under version {version}: the remembered answer is returned")
    if log.is_json:
        for name in names:
            log.write_event("output", path=name, rows=answer.num_rows)
        fields = {"cost": cost_by_name(step.charge), "charged": ledger.has_charged}
        fields |= {"remembered": remembered is not None, "outputs": names}
        log.write_event("release", seconds=log.seconds, **fields)


def _answer_to_keep(step: Step) -> tuple[pa.Table, list[str]]:
    """Return the answer that the ledger keeps, and the notes about it if this process drew it."""
    samples: list[bytes] = []

    def sample() -> pa.Table:
        table = make_release(step)
        samples.append(release_bytes(table))
        return table

    with hold_notes() as notes:
        answer = step.ledger.keep_release(sample)
    return answer, notes if samples == [release_bytes(answer)] else []


def make_release(step: Step) -> pa.Table:
    """Return a release, paid for; nobody may see it before the ledger has kept it.

    Where the query over its answers fails, return these with the error in the metadata: the ledger
    keeps them, too, so that to run again draws nothing. If all were drawn, the query can run again.
    """
    release, budget = step.release, step.release.budget
    with in_time_zone(release.timezone or UTC):
        terms = replace(
            release.terms,
            ledger=step.ledger,
            dataset=budget.dataset,
            period=budget.period,
            analyst=budget.analyst,
        )
        try:
            return answers_table(release.release(terms))
        except ReleasedQueryError as error:
            contents = [release_bytes(table) for table in error.answers or error.released]
            name = "drawn" if error.answers else "answers"
            return pa.table({name: contents}, metadata={FAILURE: error.message})


def _write_note(job: JobFileContent, step: Step, output: Output, paid: Paid | None) -> str:
    """Return the note of an output, the same byte by byte: asked, paid, promised; no data."""
    release, charge = step.release, step.charge
    budget, source, unit = release.budget, release.source, release.privacy_unit
    who = "one row" if unit is None else f"all rows of one {unit.column} ({unit.text})"
    if budget.period is not None:
        who = f"{who}, of the rows of the period {budget.period} alone"
    kind = "differentially private" if isinstance(charge.loss, Epsilon) else "zCDP"
    promise = (
        f"This release is {kind} with {charge.text()} for adding or removing {who}; other releases "
        f"about the dataset {budget.dataset!r} add to that, and its ledger adds them up."
    )
    questions = {name: question.text for name, question in release.questions.items()}
    fields = {
        "source": source.text,
        "questions": questions if source.query is None else None,
        "by": list(release.by) if source.query is None else None,
        "query": source.query,
        "schema": None if source.owners is None else repr(source.owners),
        "hive": source.hive or None,
        "where": release.where,
        "timezone": release.timezone,
        "population": release.population or None,
        **source.text_form,
    }
    request = {name: value for name, value in fields.items() if value is not None}
    request["keys"] = None if release.keys is None else [list(row) for row in release.keys.rows]
    request["unit"] = "one row" if unit is None else unit.text
    request["interval"] = release.interval
    note = {
        "release": step.name,
        "output": output.text,
        "asked": request,
        "charged": cost_by_name(charge),
        "dataset": budget.dataset,
        "version": budget.version,
        "time": None if paid is None else paid.time,
        "dfprivacy": None if paid is None else paid.version,
        "description": {"file": job.file.name, "sha256": job.content.digest},
        "parameters": dict(job.parameters),
        "promise": promise,
    }
    return json.dumps(note, indent=2, ensure_ascii=False, default=str) + "\n"


def cost_by_name(charge: Charge) -> dict[str, float]:
    """Return the privacy loss and the delta of a charge by name."""
    return {charge.loss.measure: float(charge.loss.value), "delta": float(charge.delta)}


def name_note_file(output: Output) -> Path:
    """Return the file beside an output that says where it came from: each output has its own."""
    table = "" if output.table is None else f".{output.table.translate(_ESCAPED)}.table"
    return output.path.with_name(f"{output.path.name}{table}{_NOTE}")


def _is_there(output: Output) -> bool:
    if output.table is None or not output.path.exists():
        return output.path.exists()
    query = "SELECT count(*) FROM information_schema.tables WHERE lower(table_name) = lower(?)"
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
            f"CREATE OR REPLACE TABLE {quote(output.table)} AS SELECT * FROM dfprivacy_released"  # noqa: S608 the name is quoted
        )
        connection.commit()
        return
    raise OutputError(
        f"the table {output.text!r} could not be written",
        hint="close what holds the file open; then run again: what is paid for is repeated",
    )


@dataclass
class RunLog:
    """Messages of one run, with the name and the start of the release that is being made.

    Programs read the log where it `is_json`.
    """

    is_json: bool
    release: str | None = None
    start: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The duration of the current release so far, or that of the run before the first."""
        return round(time.monotonic() - self.start, 3)

    def write_event(self, event: str, **fields: Any) -> None:
        """Write one JSON object with the time in UTC and the name of the release."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "event": event, "release": self.release, **fields}
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()

    def warn(self, message: str) -> None:
        """Write a warning."""
        if self.is_json:
            self.write_event("warning", message=message)
        else:
            show_line(Console(stderr=True), f"Warning: {self.release}: {message}")

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Turn an error into a message on stderr and an exit code, and log an interrupt."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.is_json:
                raise
            self.write_event("interrupt", seconds=self.seconds, exit_code=INTERRUPTED_CODE)
            sys.exit(INTERRUPTED_CODE)
        except Exception as failure:  # noqa: BLE001 its text could quote a row
            error = publish_error(failure)
            message, hint = getattr(error, "message", str(error)), getattr(error, "hint", None)
            if isinstance(error, EngineSpaceError | LedgerFileError):
                hint = find_hint(error)
            codes = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
            exit_code = next(codes, _FAILED)
            if self.is_json:
                fields: Any = {"error": type(error).__name__, "message": message, "hint": hint}
                self.write_event("error", seconds=self.seconds, **fields, exit_code=exit_code)
            elif isinstance(error, InvalidDescriptionError):  # each line begins with its place
                for line in [*message.splitlines(), f"Hint: {hint or ''}"]:
                    show_line(Console(stderr=True), line)
            else:
                show_error(Console(stderr=True), message, hint)
            raise typer.Exit(exit_code) from None


_EXIT_CODES, _FAILED = {InvalidDescriptionError: 2, BudgetExceededError: 3}, 1


@with_options(
    "memory",
    "threads",
    "temporary",
    special=options("""
        FILE (path): A .yml or .yaml file.
        --set NAME=VALUE (texts): Set a parameter that the file declares. Repeat it for each.
        --check (flag): Check the file and read nothing else.
        --explain (flag): Forecast cost and error. No row is read and nothing is spent.
        --quiet -q (flag): Print errors and warnings only.
        --log-format (text|json, text): Format of messages on stderr: json writes one object a line
            for programs.
        """),
    example="run release.yml --set date=2024-01-31",
)
def run(
    file: Path, *, check: bool, explain: bool, quiet: bool, log_format: str, **values: Any
) -> None:
    """Make the releases of a job file. A second run spends nothing.

    A release asks questions of one table, or is an SQL query over several with a schema.

    Exit codes: 0 done, 2 the file has faults, 3 the budget does not suffice, 1 anything else.
    """
    console, log = Console(quiet=quiet), RunLog(log_format == "json")
    refusal = InvalidDescriptionError(
        f"{file}:1: --set takes NAME=VALUE, once for each name",
        hint="write e.g. --set date=2024-01-31",
    )
    with log.ending(), ExitStack() as stack:
        if log.is_json:
            stack.enter_context(hide_progress())
        job = read_job_file(file, read_named_values(values["set"] or [], refusal))
        stack.enter_context(Engine(values["memory"], values["threads"], values["temporary"]))
        if check:
            show_line(console, f"{job.file}: no faults; releases: {', '.join(job.releases)}")
            return
        steps = plan_steps(job)
        for step in steps if explain else ():
            budget, again = step.release.budget, ", paid before" if step.is_paid else ""
            price = f"{step.charge.text()} of {budget.dataset} in {budget.ledger.path.name}"
            show_line(Console(), f"{step.name}: {price}{again}")
            if not quiet:
                with in_time_zone(step.release.timezone or UTC):
                    show_lines(Console(), step.release.explain())
        for step in () if explain else steps:
            log.release, log.start = step.name, time.monotonic()
            run_release(job, step, console, log)
        log.release = None
