"""Run a statement: read and plan it, then explain it, or measure, charge and release it once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, takewhile
from operator import is_
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.adopt import Filtered, Stored
from dfprivacy.engine.embedded import (
    apart,
    embedded,
    restrict_optimizer,
    session_zone,
    with_all_optimizers,
)
from dfprivacy.engine.files import RowCondition, list_data_files, open_source, quoted
from dfprivacy.engine.returning import released_rows
from dfprivacy.engine.run import guarded, reading_files
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.engine.text_files import TextFile
from dfprivacy.errors import InvalidQuestionError, RefusedStatementError, log_note, silent
from dfprivacy.frames.explanation import Explanation, Target, reached
from dfprivacy.frames.forecasting import explained, groups_text, in_one
from dfprivacy.frames.measuring import measure_plan
from dfprivacy.frames.releasing import REMARKS, log_no_groups, release_answers, release_several
from dfprivacy.frames.tables import Origin, with_origin
from dfprivacy.release.plan import JointPlan
from dfprivacy.release.plan import Plan as ReleasePlan
from dfprivacy.release.terms import Terms
from dfprivacy.statements.composing import Script, read
from dfprivacy.statements.gate import ConnectionSource, Place, Reader, gated, place_of, reads
from dfprivacy.statements.names import Scope, VisibleColumn
from dfprivacy.statements.nodes import Select
from dfprivacy.statements.plan import (
    Plan,
    check_keys,
    finished,
    list_notes,
    plan_script,
    planned,
    released_query,
)
from dfprivacy.statements.relations import OWNER, Expression, stored
from dfprivacy.statements.relations import filtered as filtered_rows
from dfprivacy.statements.schema import Schema, declared
from dfprivacy.statements.select import Compiler
from dfprivacy.statements.tables import WHY, Tables
from dfprivacy.statements.tree import parse

_EXACT = "a query over public tables alone: exact"
_PLAN = "the plan of a statement: it reads no row"


@dataclass(frozen=True)
class Job:
    """A text that has been checked and planned, its source, and the engine that runs it."""

    script: Script
    plans: tuple[Plan, ...]
    place: Place
    engine: duckdb.DuckDBPyConnection
    terms: Terms
    public: object
    """The keys that are public, as the caller gave them."""
    empty: pa.Table
    """The result without rows, in declared types."""
    intervals: bool
    """True if each answer is followed by its interval and its note."""

    @property
    def request(self) -> ReleasePlan:
        """The plan of the whole text, with one charge."""
        plans = [plan.request for plan in self.plans]
        return plans[0] if len(plans) == 1 else JointPlan.of(plans, str(self.script.rest))

    @property
    def key_types(self) -> Mapping[str, pa.DataType]:
        """The declared types of the group columns, in the order of GROUP BY."""
        plan = next((plan for plan in self.plans if plan.by), None)
        if plan is None:
            return {}
        schema = guarded(lambda: plan.rows_of(_twin(plan)).to_arrow_table()).schema
        labels = zip(plan.statement.keys, plan.by, strict=True)
        return {key.name: schema.field(label).type for key, label in labels}

    def run(self) -> Any:
        """Return the released rows as a frame of the source's type."""
        table, origin = self.release()
        last = 0 if self.script.rest else -1
        tables = [plan.statement.rows.table for plan in self.plans]
        read = tables or [relation for _, relation in self.script.public]
        return with_origin(read[last].table.wrap(table) if read else table, origin)

    @silent()
    def release(self) -> tuple[pa.Table, Origin]:
        """Measure, charge, draw, and run the rest of the text over what was released."""
        if self.script.explains:
            keys, values = zip(*explanation_of(self).head(), strict=True)
            page = {"explain_key": pa.array(keys), "explain_value": pa.array(values)}
            return pa.table(page), Origin(_PLAN, "epsilon=0", None, ())
        releases = _Drawn(self)
        with reading_files(self._files):
            answers = self._answers(releases) if self.plans else ()
        releases.add(answers)
        texts = [(table.schema.metadata or {}).get(REMARKS, b"") for table in answers]
        lines = [line for text in texts for line in text.decode().splitlines()]
        for plan, answered in zip(self.plans, answers, strict=True):
            log_no_groups(plan.request, answered)
            for line in list_notes(plan, answered, has_columns=self.intervals):
                log_note(line)
                lines.append(line)
        public = _public(self.script, self.engine, rows=True)
        table = guarded(lambda: resulting(self.script, releases.tables, public))
        if self.script.target is not None:
            self.place.make(self.script.target, table)
        if self.script.rest is None:
            keys = self.script.keys
        else:  # the columns before the first number
            keys = tuple(field.name for field in takewhile(_is_text, table.schema))
        numbers = tuple(name for name in table.column_names if name not in keys)
        shares = self.plans[-1].shares if self.script.rest is None else ()
        origin = Origin.of(self.request) if self.plans else Origin(_EXACT, "epsilon=0", None, ())
        origin = replace(origin, shown_from=None, notes=tuple(dict.fromkeys(lines)))
        pairs = zip(table.column_names, table.columns, strict=True)
        computed = tuple(name for name, column in pairs if name in numbers and column.null_count)
        origin = replace(origin, answers=numbers, computed=computed)
        return table, replace(origin, keys=keys, shares=shares)

    @property
    def _files(self) -> list[Path]:
        """The paths of Parquet files that the releases read."""
        tables = [plan.statement.rows.tables.used.values() for plan in self.plans]
        paths = [relation.table.path for used in tables for relation in used]
        return list(dict.fromkeys(path for path in paths if path is not None))

    def _answers(self, releases: _Drawn) -> Sequence[pa.Table]:
        for plan in self.plans:
            if _waits(plan):
                _measure_without_rows(plan)
            else:
                releases.give(plan)
        opened = [plan for plan in self.plans if not _waits(plan)]
        rows = guarded(lambda: list(map(self._rows, opened)))
        read = guarded(lambda: list(map(_gated, opened, rows)))
        try:
            with self.reading(plain=all(map(is_, read, rows))):
                stored_rows = guarded(lambda: iter([*map(_store, opened, read)]))
                sources = [
                    partial(self._later, plan, releases) if _waits(plan) else next(stored_rows)
                    for plan in self.plans
                ]
                request = self.request
                if isinstance(request, JointPlan):
                    return release_several(request, sources)
                return [release_answers(request, sources[0])]
        finally:
            self.place.take_back()

    def reading(self, *, plain: bool) -> AbstractContextManager[None]:
        """Return a block in which rows are read; they are `plain` where no gate changes them.

        The optimizer is off there, unless no row's failing could make a difference to others: then
        a connection's is as it was, and that of our own engine is on.
        """
        if not plain or any(plan.computes for plan in self.plans):
            return self.place.fenced()
        on_connection = isinstance(self.place, ConnectionSource)
        return nullcontext() if on_connection else with_all_optimizers(self.engine)

    def _later(self, plan: Plan, releases: _Drawn, answers: Sequence[pa.Table]) -> Stored:
        """Return the rows of a release that takes something of those before it."""
        with reading_files(()):
            releases.add(answers)
            releases.give(plan)
        return guarded(lambda: _store(plan, _gated(plan, self._rows(plan))))

    def _rows(self, plan: Plan) -> duckdb.DuckDBPyRelation:
        return plan.statement.rows.read(plan.used, self.engine)


@dataclass
class _Drawn:
    """The releases of a job that have been drawn, each as its own text makes it."""

    job: Job
    tables: list[pa.Table] = field(default_factory=list)
    given: set[str] = field(default_factory=set)

    def add(self, answers: Sequence[pa.Table]) -> None:
        """Add the releases whose answers are new; what they take of others comes first."""
        for plan, table in list(zip(self.job.plans, answers, strict=False))[len(self.tables) :]:
            self.give(plan)
            self.tables.append(finished(plan, table, self.job.engine))

    def give(self, plan: Plan) -> None:
        """Make what a release takes of those before it."""
        for derived in plan.statement.givens:
            if derived.name not in self.given:
                self.given.add(derived.name)
                before = self.tables[: len(derived.script.statements)]
                public = _public(derived.script, self.job.engine, rows=True)
                table = guarded(lambda: resulting(derived.script, before, public))  # noqa: B023 at once
                derived.table = guarded(lambda: table.cast(derived.table.schema))  # noqa: B023 as above


def _gated(plan: Plan, rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    facts = plan.statement.rows.bag.facts
    return gated(rows, {OWNER, *(name for name in facts if facts[name].is_read)})


def _store(plan: Plan, rows: duckdb.DuckDBPyRelation) -> Stored:
    return Stored(plan.rows_of(rows))


def _twin(plan: Plan) -> duckdb.DuckDBPyRelation:
    rows = plan.statement.rows
    return guarded(lambda: _gated(plan, rows.tables.planned(rows.bag, plan.used)))


def _waits(plan: Plan) -> bool:
    """Return True if a release reads answers of earlier releases, not public tables alone."""
    return any(derived.script.statements for derived in plan.statement.givens)


def _is_text(field: pa.Field) -> bool:
    return not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))


def _public(script: Script, engine: duckdb.DuckDBPyConnection, *, rows: bool) -> Iterator[pa.Table]:
    """Yield the public tables that the rest of a text names, or twins of them without rows."""
    for _, relation in script.public:
        read = relation.table.rows if rows else relation.table.twin
        yield gated(read(relation.columns, engine)).to_arrow_table()


def resulting(script: Script, tables: Sequence[pa.Table], public: Iterable[pa.Table]) -> pa.Table:
    """Run a text over the tables of its releases and public tables, and return its result."""
    if script.rest is None:
        return tables[-1]
    names = [*script.names, *(name for name, _ in script.public)]
    with apart() as engine:
        for name, table in zip(names, [*tables, *public], strict=True):
            engine.register(name, table)
        return released_rows(engine.sql(script.rest))


@contextmanager
def job_of(
    query: str,
    con: object,
    frames: Mapping[str, object],
    terms: Terms,
    keys: object,
    *,
    schema: Schema | None = None,
    intervals: bool = False,
    timezone: str | None = None,
) -> Iterator[Job]:
    """Return a statement as a job whose types and target fit; nothing is read, nothing spent."""
    if con is not None and frames:
        named = ", ".join(map(repr, frames))
        raise RefusedStatementError(
            f"a statement on a connection takes no argument {named}, and reads no other frame",
            hint="leave con out to read frames by name; bounds stand in the statement: "
            "dp_mean(x, 0, 100)",
        )
    if con is None and not frames:
        raise RefusedStatementError(
            "a statement reads either a connection or frames that are passed by name",
            hint="dfp.sql('SELECT dp_count(*) FROM t', con=con), or "
            "dfp.sql('SELECT dp_count(*) FROM t', t=frame)",
        )
    frames, schema, terms = declared(frames, schema, terms)
    frames = {name: open_source(frame) for name, frame in frames.items()}
    snapshots = {n: f.version for n, f in sorted(frames.items()) if isinstance(f, Snapshot)}
    version = repr(snapshots) if frames and len(snapshots) == len(frames) else None
    terms = replace(terms, snapshot=version)
    with (
        place_of(con, frames) as catalog,
        catalog.in_time_zone(timezone),
        embedded(idle=con is not None) as engine,
    ):
        restrict_optimizer(engine)
        reader = Reader(
            catalog,
            engine,
            schema,
            terms.unit,
            intervals,
            keys is not None,
            planned=lambda nested: _without_rows(nested, plan_script(nested, terms, keys), engine),
            computed=lambda nested, types: guarded(
                lambda: resulting(nested, (), _public(nested, engine, rows=True)).cast(types)
            ),
        )
        script = read(query, reader)
        check_keys(script, keys)
        plans = plan_script(script, terms, keys)
        empty = _without_rows(script, plans, engine)
        target = script.target
        if target is not None:
            read_of = [
                table for plan in plans for table in plan.statement.rows.tables.used.values()
            ]
            for relation in (*read_of, *(table for _, table in script.public)):
                catalog.check(target, relation, empty)
        yield Job(script, plans, catalog, engine, terms, keys, empty, intervals)


def _without_rows(
    script: Script, plans: Sequence[Plan], engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return the result of a text over releases without rows, in declared types."""
    tables = [planned(plan, _twin(plan), engine) for plan in plans]
    try:
        return resulting(script, tables, _public(script, engine, rows=False))
    except (duckdb.Error, pa.ArrowException) as error:
        why = WHY.get(type(error), "a name or a type in it has no place")
    raise InvalidQuestionError(
        f"DuckDB can't plan what is done with released answers: {why}",
        hint="check the names and types in it; it sees the columns of the releases, and no others",
    )


@dataclass(frozen=True, repr=False, kw_only=True)
class StatementExplanation(Explanation):
    """The plan of a statement and its cost. Making one reads no row and spends nothing.

    `epsilon` and `delta` are what the whole statement costs one privacy unit, the sum over
    `draws`. `row_query` is what runs over the protected relation, `released_query` what runs over
    the released answers; `calls` pairs each dp_ call with the question that it asks. `answers`
    go by their calls; the rest is that of every `Explanation`.

    `columns` are the names of the result with their SQL types. `timezone` is the time zone in which
    the rows are read; None where no time of a zone is read.
    """

    relation: str
    keys: tuple[str, ...] = ()
    selection: str = ""
    row_query: str = "none"
    calls: tuple[tuple[str, str], ...] = ()
    released_query: str
    target: str | None
    columns: tuple[tuple[str, str], ...] = ()
    timezone: str | None = None

    def head(self) -> list[tuple[str, str]]:
        """Return the plan, one line a step."""
        return [
            ("protects", self.protects),
            ("relation", self.relation),
            ("rows", self.row_query),
            *([("zone", self.timezone)] if self.timezone else []),
            ("groups", f"{', '.join(self.keys)}: {self.selection}" if self.keys else "none"),
            *(("asks", f"{call} -> {question}") for call, question in self.calls),
            *(("spends", draw.text) for draw in self.draws),
            ("then", self.released_query),
            ("columns", ", ".join(f"{name} {kind}" for name, kind in self.columns)),
            *([("into", self.target)] if self.target else []),
            ("costs", self.cost),
            *([("reaches", self.reaches)] if self.reaches else []),
            *self.details(),
        ]

    def lines(self) -> list[str]:
        """Return the head, one line a step however long it is: SQL stays as it is."""
        return [f"{title:<9} {text}" for title, text in self.head()]


@silent()
def explanation_of(job: Job, target: Target | None = None) -> StatementExplanation:
    """Explain a job, and the cost of its text on the connection itself."""
    script = job.script
    if not job.plans:  # over public tables alone, which costs nothing
        return StatementExplanation(
            asks=_EXACT,
            protects="no one: everybody may know these tables",
            epsilon=0.0,
            relation=", ".join(table.name for _, table in script.public),
            released_query=str(script.rest),
            target=None if script.target is None else f"table {script.target.name}",
            columns=_columns(job),
        )
    for plan in job.plans:
        _measure_without_rows(plan)

    def made(terms: Terms, sizes: tuple[int, ...]) -> StatementExplanation:
        plans = plan_script(job.script, terms, job.public)
        return _explanation(replace(job, plans=plans, terms=terms), sizes)

    return reached(target, job.terms, made)


def _measure_without_rows(plan: Plan) -> None:
    """Measure a release without rows, which refuses types that it can't be about."""
    twin = _twin(plan)
    measure_plan(Stored(guarded(partial(plan.rows_of, twin))), plan.request)


def _columns(job: Job) -> tuple[tuple[str, str], ...]:
    """Return the names and SQL types of the columns of the result."""
    result = job.engine.from_arrow(job.empty)
    return tuple(zip(result.columns, map(str, result.types), strict=True))


def _explanation(job: Job, sizes: tuple[int, ...]) -> StatementExplanation:
    plans, request, script = job.plans, job.request, job.script
    pages, calls = zip(*(_explained(plan, sizes) for plan in plans), strict=True)
    keys = [key.name for plan in plans for key in plan.statement.keys]
    selection = groups_text(next((plan.request for plan in plans if plan.by), request))
    if any(plan.statement.sets for plan in plans):
        selection += "; totals are sums of the groups that are shown"
    queries = [released_query(plan.statement) for plan in plans]
    if len(plans) > 1 or script.rest is not None:
        queries = [f"{name}: {sql}" for name, sql in zip(script.names, queries, strict=True)]
        inputs = [derived for plan in plans for derived in plan.statement.givens]
        queries += dict.fromkeys(f"{derived.name}: {derived.script.rest}" for derived in inputs)
    if script.rest is not None:
        queries.append(script.rest)
    return StatementExplanation(
        **vars(in_one(pages, request)),
        relation=", ".join(dict.fromkeys(plan.statement.rows.table.name for plan in plans)),
        keys=tuple(dict.fromkeys(keys)),
        selection=selection,
        row_query="; ".join(plan.row_query for plan in plans),
        calls=tuple(chain(*calls)),
        released_query="; ".join(queries),
        target=None if script.target is None else f"table {script.target.name}",
        columns=_columns(job),
        timezone=session_zone() if any(map(_reads_times, plans)) else None,
    )


def _reads_times(plan: Plan) -> bool:
    """Check whether rows are read by the time zone of the session."""
    text = f"{plan.row_query} {' '.join(map(str, _twin(plan).types))}"
    return re.search(r"TIMESTAMPTZ|WITH TIME ZONE|timezone\(|%z", text) is not None


def _explained(
    plan: Plan, sizes: tuple[int, ...]
) -> tuple[Explanation, tuple[tuple[str, str], ...]]:
    """Return the explanation of one release, and its calls with what they ask."""
    statement = plan.statement
    shown = [call for call, _ in statement.calls]
    if statement.selection is not None:
        named = f"{statement.delta!r}, {float(statement.selection.value)!r}"
        shown.append(f"dp_keep({named})")
    elif len(plan.questions) > len(shown):
        shown.append("count(*), which selects the groups")
    calls = zip(shown, plan.questions.values(), strict=True)
    titles = dict(zip(plan.questions, shown, strict=True))
    page = explained(plan.request, titles=titles, sizes=sizes)
    return page, tuple((call, question.text) for call, question in calls)


def filtered(
    frame: str | Path | TextFile | Snapshot | duckdb.DuckDBPyRelation, where: str
) -> Filtered:
    """Return the rows of a file, table or relation for which a condition holds; none is read here.

    The condition is read as that of a statement over the relation `rows`: a vetted function of
    single rows, planned over the declared types, NULL where it fails. A row for which it is not
    true is left out, so that neighbors stay neighbors.

    Raises
    ------
    RefusedStatementError
        For a text that is more, or other, than one condition on single rows.
    DPError
        What `dfp.sql` raises for a statement with this condition, before it reads a row.
    """
    source = open_source(frame)
    if not isinstance(source, duckdb.DuckDBPyRelation):
        source = list_data_files(source)
    zone = session_zone()
    with (
        place_of(None, {"rows": source}) as catalog,
        catalog.in_time_zone(zone),
        embedded() as engine,
    ):
        restrict_optimizer(engine)
        tables = Tables(None, catalog, engine)
        relation = tables.find(["rows"], None)
        (name,) = tables.relations
        bag = stored(name, {name: name for name in relation.columns}, kinds=tables.types(relation))
        seen = tuple(VisibleColumn(("rows",), name, name) for name in relation.columns)
        compiler, scope = Compiler(tables), Scope(bag, seen)
        # A text that is more is refused.
        _, bare = parse("SELECT 1 FROM rows", engine)
        _, select = parse(f"SELECT 1 FROM rows WHERE (\n{where}\n)", engine)  # noqa: S608 it is vetted, not run
        condition = select.where if isinstance(select, Select) else None
        if (
            not isinstance(select, Select)
            or condition is None
            or replace(select, where=None) != bare
        ):
            raise RefusedStatementError(
                "this is more than a condition on rows",
                hint="write what stands behind WHERE alone, e.g. age >= 18 AND city = 'Rome'",
            )
        rules = compiler.row_conditions(condition, scope)
        used = tuple(n for n in relation.columns if any(n in rule.uses for rule in rules))
        tables.planned(filtered_rows(bag, rules), used)
    conditions = [RowCondition(rule.tried, {name: name for name in rule.uses}) for rule in rules]
    return Filtered(source, partial(_keep_rows, rules, used), used, conditions)


def _keep_rows(
    rules: Sequence[Expression], used: Sequence[str], relation: duckdb.DuckDBPyRelation
) -> duckdb.DuckDBPyRelation:
    """Return the rows that conditions keep; columns that they name come by the gate."""
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    gate = zip(used, reads(used, [kinds[name] for name in used]), strict=True)
    gated_columns = [f"{sql} AS {quoted(name)}" for name, sql in gate if sql != quoted(name)]
    if gated_columns:
        relation = relation.project(f"* REPLACE ({', '.join(gated_columns)})")
    return relation.filter(" AND ".join(rule.tried for rule in rules))
