"""Run a statement: read and plan it, then explain it, or measure, charge and release it once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, takewhile
from operator import is_
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, positive_number, read_delta
from dfprivacy.accounting.memory import REMARKS, REMEMBERED, is_remembered
from dfprivacy.engine.adopt import Filtered, Stored
from dfprivacy.engine.embedded import (
    UTC,
    connect_isolated,
    open_embedded,
    restrict_optimizer,
    session_zone,
    with_all_optimizers,
)
from dfprivacy.engine.files import RowCondition, list_data_files, open_source, quote
from dfprivacy.engine.returning import read_released_rows
from dfprivacy.engine.run import reading_files, run_guarded
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.engine.text_files import LEFT_OUT, TextFile, number_in_text, reads_numbers
from dfprivacy.errors import (
    EngineError,
    InvalidKeysError,
    InvalidQuestionError,
    MissingDeltaError,
    RefusedStatementError,
    ReleasedQueryError,
    log_note,
    silent,
)
from dfprivacy.frames.arithmetic import Expression as Arithmetic
from dfprivacy.frames.arithmetic import Range
from dfprivacy.frames.explanation import (
    Explanation,
    Target,
    explain_plan,
    groups_text,
    in_one,
    reach_target,
)
from dfprivacy.frames.measuring import measure_plan
from dfprivacy.frames.releasing import (
    log_no_groups,
    log_notes,
    plan_statistics,
    release_answers,
    release_several,
)
from dfprivacy.frames.tables import (
    Origin,
    floats_in,
    is_number,
    list_amounts,
    summarize_notes,
    with_origin,
)
from dfprivacy.measurement.grid import find_clock_kind
from dfprivacy.release.answers import join_notes
from dfprivacy.release.plan import GROUPING, NOTE, SELECTION, SHOWN_TOTALS, JointPlan
from dfprivacy.release.plan import Plan as ReleasePlan
from dfprivacy.release.terms import PublicKeys, Terms, Unit, read_keys
from dfprivacy.release.totals import has_order
from dfprivacy.statements.calls import Call
from dfprivacy.statements.composing import Script, Statement, read, write_try
from dfprivacy.statements.expressions import Expression, check_constants
from dfprivacy.statements.gate import (
    NO_COLUMN,
    RANKED,
    TEXT,
    ConnectionSource,
    Place,
    Reader,
    build_twin,
    gate_rows,
    open_place,
    reads,
    replace_columns,
    write_durations,
)
from dfprivacy.statements.names import Scope, VisibleColumn, split_condition
from dfprivacy.statements.nodes import (
    Select,
    fold_name,
    fresh,
    name_call,
    parse,
    parse_query,
    rebuild,
    text_of_query,
)
from dfprivacy.statements.relations import OWNER, stored
from dfprivacy.statements.relations import filter_relation as filtered_rows
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.schema import Schema, separate_public_frames
from dfprivacy.statements.select import Compiler, compare_as_numbers
from dfprivacy.statements.tables import WHY, Tables, build_unplanned_error
from dfprivacy.statistics import Count, NUnique, Statistic
from dfprivacy.statistics.count import ChosenUnits
from dfprivacy.statistics.forms import build_part
from dfprivacy.statistics.linear import LinearPart


@dataclass(frozen=True)
class Plan:
    """The row query of a statement, and a release over its columns.

    `columns` are pairs of a label and its SQL over the protected relation. `questions` and `own`
    go by the name of an answer in the released table.
    """

    statement: Statement
    columns: tuple[tuple[str, str], ...]
    by: tuple[str, ...]
    keys: PublicKeys | None
    questions: Mapping[str, Statistic]
    own_losses: Mapping[str, Epsilon]
    terms: Terms

    @property
    def computes(self) -> bool:
        """True if the row query computes a value that other rows could change: see `by_row`."""
        keys, calls = self.statement.keys, [call for _, call in self.statement.calls]
        safe = {key.sql for key in keys if key.by_row}.union(
            *(call.values for call in calls if call.by_row),
            map(quote, self.statement.columns),
        )
        is_computed = any(sql not in safe for _, sql in self.columns)
        bag, tables = self.statement.scope.bag, self.statement.compiler.tables
        can_fail = not bag.sure or "TRY(" in bag.sql(self.used, tables.twin)
        return is_computed or can_fail

    @property
    def projection(self) -> str:
        """The SELECT list of the row query."""
        plain, items = {*map(quote, self.statement.columns)}, list[str]()
        for label, sql in self.columns:
            text = sql if sql in plain else f"TRY({sql})"
            items.append(text if text == quote(label) else f"{text} AS {quote(label)}")
        return ", ".join(items) or NO_COLUMN

    @property
    def row_query(self) -> str:
        """The row query as one SELECT."""
        bag, tables = self.statement.scope.bag, self.statement.compiler.tables
        return f"SELECT {self.projection} FROM ({bag.sql(self.used, tables.display_select)})"  # noqa: S608 every part was written by rules

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of the protected relation that the row query reads."""
        texts = [sql for _, sql in self.columns]
        return tuple(n for n in self.statement.columns if any(quote(n) in t for t in texts))

    def read(self, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """Return the columns that the row query reads; no row is read yet."""
        bag, tables = self.statement.scope.bag, self.statement.compiler.tables
        return tables.source.query(bag.sql(self.used, tables.leaves(bag, self.used)), engine)

    @cached_property
    def request(self) -> ReleasePlan:
        """The release; what a ledger remembers of it belongs to these rows and no others."""
        rows = [self.row_query]
        for derived in self.statement.givens:  # by every query and public table behind its rows
            script = derived.script
            queries = [str(script.rest), *map(query_released, script.statements)]
            queries += [f"{name} is {relation.path}" for name, relation in script.public]
            rows.append(f"{derived.name}: {'; '.join(queries)}")
        zone = "" if session_zone() in {UTC, "Etc/UTC"} else f" in {session_zone()}"
        form, sets = f"answers of {'; '.join(rows)}{zone}", self.statement.sets
        request = plan_statistics(
            self.questions,
            self.terms,
            self.by,
            self.keys,
            own_losses=self.own_losses,
            form=form,
            sets=sets,
        )
        plain = {
            name for part in request.parts if isinstance(part, LinearPart) for name in part.names
        }
        for name, question in request.questions.items() if sets else ():  # totals of their cells
            if name not in plain or isinstance(question, NUnique):
                raise refuse("no totals", question=question.text)
        return replace(request, notes_limits=request.search is not None)


def plan_statement(statement: Statement, terms: Terms, keys: object) -> Plan:
    """Return the plan of a statement under a caller's terms."""
    bag = statement.scope.bag
    unit_columns = {*map(quote, (OWNER, *bag.keys))}
    if keys is None and any(key.sql in unit_columns for key in statement.keys):
        raise refuse("GROUP BY the unit")
    columns: dict[str, str] = {}
    unit = terms.unit
    if unit is not None:
        unit = replace(unit, column=_label(columns, str(unit.column), quote(OWNER)))
    by = tuple(_label(columns, key.name, key.sql) for key in statement.keys)
    questions: dict[str, Statistic] = {}
    losses: dict[str, Epsilon] = {}
    start = ""  # of names of answers, so that none is the label of a key
    while any(fold_name(label).startswith(f"{start}answer_") for label in by):
        start += "_"
    for index, (_, call) in enumerate(statement.calls):
        name = f"{start}answer_{index}"
        questions[name] = _question(statement, call, unit, columns)
        if call.epsilon is not None:
            losses[name] = call.epsilon
    if statement.selection is not None:
        questions[f"{start}{SELECTION}"] = _selecting(questions, unit)
        losses[f"{start}{SELECTION}"] = statement.selection
    elif keys is None and _needs_row_count(statement):
        selecting = _selecting(questions, unit)
        shared = [question for name, question in questions.items() if name not in losses]
        if isinstance(selecting, Count) or selecting not in shared:
            questions[f"{start}answer_rows"] = selecting
    if isinstance(keys, Mapping):
        labels = {fold_name(key.name): label for key, label in zip(statement.keys, by, strict=True)}
        keys = {labels[fold_name(str(name))]: values for name, values in keys.items()}
    public = read_keys(keys, by)
    if statement.delta is not None and (terms.delta is not None or keys is not None):
        raise refuse("dp_keep and terms", other="delta=" if keys is None else "keys=")
    delta = terms.delta if statement.delta is None else statement.delta
    if delta is None and statement.keys and keys is None:
        raise MissingDeltaError(
            "group keys are secret, and showing them needs a delta",
            hint="write HAVING dp_keep(1e-6), pass delta=1e-6, or list keys that are public "
            "anyway: keys=['Rome', 'Oslo']",
        )
    terms = replace(terms, unit=unit, delta=delta, copies=bag.copies)
    return Plan(statement, tuple(columns.items()), by, public, questions, losses, terms)


def plan_script(script: Script, terms: Terms, keys: object) -> tuple[Plan, ...]:
    """Return the plans of all releases in a text, which share its terms' epsilon and delta."""
    statements = script.statements
    pairs = []
    for statement in statements:  # of a mapping, the keys of its own columns
        public = statement.table_keys if keys is None else keys
        if isinstance(keys, Mapping):
            names = {fold_name(key.name) for key in statement.keys}
            public = {name: keys[name] for name in keys if fold_name(str(name)) in names} or None
        pairs.append((statement, public if statement.keys else None))
    deltas = [terms.delta] * len(pairs)
    if len(pairs) > 1:
        sharing = sum(any(call.epsilon is None for _, call in s.calls) for s in statements)
        for loss in ("epsilon", "rho") if sharing > 1 else ():
            if (amount := getattr(terms, loss)) is not None:
                share: Any = positive_number(loss, amount) / sharing
                terms = replace(terms, **{loss: share})
        secret = [
            bool(statement.keys) and public_keys is None and statement.delta is None
            for statement, public_keys in pairs
        ]
        delta = None if terms.delta is None else read_delta(terms.delta)
        part = None if delta is None else delta / max(sum(secret), 1)
        deltas = [part if is_secret or not any(secret) else None for is_secret in secret]
    return tuple(
        plan_statement(statement, replace(terms, delta=delta), public_keys)
        for (statement, public_keys), delta in zip(pairs, deltas, strict=True)
    )


def check_keys(script: Script, keys: object) -> None:
    """Refuse public keys that no grouping of a text has, or that several could mean."""
    columns = [key for statement in script.statements for key in statement.keys]
    names = [
        tuple(fold_name(key.name) for key in statement.keys) for statement in script.statements
    ]
    groupings, what = {*names} - {()}, ""
    if not script.statements:
        return
    if not groupings:
        what = "public keys were given to a statement without GROUP BY"
        hint = "leave keys out, or write GROUP BY city"
    elif not isinstance(keys, Mapping):
        if len(groupings) > 1:
            what = "public keys are listed for a statement with several groupings"
            hint = "list them by column: keys={'city': ['Rome', 'Oslo'], 'year': [2025, 2026]}"
    elif not {fold_name(str(name)) for name in keys} <= {fold_name(key.name) for key in columns}:
        what = "public keys were given for a column that GROUP BY does not have"
        hint = f"its columns are {', '.join(dict.fromkeys(repr(key.name) for key in columns))}"
    if what:
        raise InvalidKeysError(what, hint=hint)


def _needs_row_count(statement: Statement) -> bool:
    """Check whether calls count different rows, so that none of them can select the groups."""
    calls = [call for _, call in statement.calls]
    if not calls:
        return True
    conditional = any(call.is_conditional for call in calls)
    expressions = {call.values for call in calls}
    if not statement.keys or not conditional or len(expressions) < 2 or () in expressions:
        return False
    if all(call.epsilon is not None for call in calls):
        raise refuse("no count of rows")
    return True


def _selecting(questions: Mapping[str, Statistic], unit: Unit | None) -> Statistic:
    """Return the count that selects groups: of units where any are counted, else of rows."""
    counting = (isinstance(q, NUnique) and q.counts_units(unit) for q in questions.values())
    return NUnique(unit.column) if unit is not None and any(counting) else Count()


def _label(labels: dict[str, str], name: str, sql: str) -> str:
    """Return the label of an expression, or a new one like that wanted."""
    existing = next((label for label, text in labels.items() if text == sql), None)
    label = existing or fresh(name, labels)
    labels[label] = sql
    return label


def _question(
    statement: Statement, call: Call, unit: Unit | None, columns: dict[str, str]
) -> Statistic:
    """Return the question of a call about its columns: texts of files as numbers, units as owners.

    Where its values are units and NULL, it is how many units there are.
    """
    question, facts, unit_key = (
        call.question,
        statement.scope.bag.facts,
        statement.compiler.tables.unit_key,
    )
    units = {quote(name) for name, fact in facts.items() if fact.key == unit_key}
    is_about_numbers = question.finds_bounds or any(build_part(question).columns.values())
    as_read: dict[str, str] = {}
    if isinstance(question, NUnique):
        as_read = dict.fromkeys(units, quote(OWNER))
        nullable = {quote(n) for n, fact in facts.items() if fact.key_or_null == unit_key}
        is_chosen = call.choices and call.choices <= units | nullable
        if unit is not None and is_chosen and not units.issuperset(call.values):
            question = ChosenUnits(question.column)
    for name, fact in facts.items() if is_about_numbers and call.values else ():
        if fact.kind == TEXT:
            as_read.setdefault(quote(name), number_in_text(quote(name)))
    pairs = zip(call.shown, call.values, strict=True)
    return question.with_columns(
        *(_label(columns, shown, as_read.get(sql, sql)) for shown, sql in pairs)
    )


_PLACE = "place"


def query_released(statement: Statement) -> str:
    """Return the query over the released table; ties keep the order of the keys."""
    chosen = ", ".join(f"{write_try(o.sql)} AS {quote(o.name)}" for o in statement.outputs)
    where, qualify = (
        f" WHERE {' AND '.join(map(write_try, conditions))}" if conditions else ""
        for conditions in (statement.having, statement.qualify)
    )
    source = "released"
    if statement.windows or statement.qualify:
        windows = "".join(f", {sql} AS window_{i}" for i, sql in enumerate(statement.windows))
        source = f"(SELECT *{windows} FROM released{where}) AS released"  # noqa: S608 every part was written by rules
        where = qualify
    parts = [f"SELECT {chosen} FROM {source}{where}"]  # noqa: S608 every part was written by rules
    order = [f"{write_try(sql)} {direction}" for sql, direction in statement.order]
    parts.append(f"ORDER BY {', '.join([*order, f'released.{_PLACE}'])}")
    limits = {"LIMIT": statement.limit, "OFFSET": statement.offset}
    parts += [f"{word} {number}" for word, number in limits.items() if number is not None]
    return " ".join(parts)


def finish_statement(plan: Plan, answers: pa.Table, engine: duckdb.DuckDBPyConnection) -> pa.Table:
    """Run the rest of a statement over released answers, and return its result."""
    engine.register("released", _released(plan, answers))
    query = query_released(plan.statement)
    return _query_answers(lambda: read_released_rows(engine.sql(query)), [answers])


def _query_answers(query: Callable[[], pa.Table], released: Sequence[pa.Table]) -> pa.Table:
    """Return the result of a query over released answers and public tables, for no row of others.

    An error says what DuckDB says, and hands the answers over, as they are paid for.
    """
    reasons: list[str] = []

    def run_query() -> pa.Table:
        try:
            return query()
        except duckdb.Error as error:
            reasons.append(str(error).partition("\n")[0])
            raise

    try:
        return run_guarded(run_query)
    except EngineError as error:
        if not released:
            raise
        reasons.append(error.message)
    raise ReleasedQueryError(
        f"the query over the released answers fails: {reasons[0]}",
        hint="the answers are charged: in Python they are the error's own `released`",
        released=released,
    )


def _released(plan: Plan, answers: pa.Table) -> pa.Table:
    """Return released answers under the names that the query knows, with the place of each row."""
    keys = [f"key_{index}" for index in range(len(plan.by))]
    start = next(iter(plan.questions)).removesuffix("answer_0").removesuffix("answer_rows")
    others = [name.removeprefix(start) for name in answers.column_names[len(keys) :]]
    if plan.statement.sets:
        others[-1] = GROUPING
    named = answers.rename_columns([*keys, *others])
    for index in range(len(plan.statement.calls) if plan.statement.notes_limits else 0):
        if (note := f"answer_{index}_{NOTE}") not in others:  # the limits are known after all
            named = named.append_column(note, pa.nulls(named.num_rows, pa.string()))
    for derived in plan.statement.givens:
        if derived.single:
            first = pa.array([0] * named.num_rows, pa.int64())  # its one value, in each row
            named = named.append_column(derived.name, derived.table.column(0).take(first))
    for index, steps in enumerate(plan.statement.computed):
        named = _append_interval(plan, named, f"computed_{index}", steps)
    return named.append_column(_PLACE, pa.array(range(named.num_rows), type=pa.int64()))


def list_notes(plan: Plan, answers: pa.Table, *, has_columns: bool = False) -> list[str]:
    """List the notes of released answers, in one line for each call that has some.

    Where the result `has_columns` of notes, only those of calls that have none there. The first is
    about rows that earlier answers choose or change.
    """
    answered = [derived for derived in plan.statement.givens if derived.script.statements]
    is_chosen = any(quote(derived.name) in plan.row_query for derived in answered)
    lines = [_CHOSEN] if is_chosen else []
    for (call, _), name in zip(plan.statement.calls, plan.questions, strict=False):
        question, suffixes = plan.questions[name], plan.questions[name].suffixes
        columns = {f"{name}{suffix}_{NOTE}" for suffix in suffixes} & {*answers.column_names}
        texts = [note for column in columns for note in answers[column].to_pylist()]
        has_ends = question.tells_interval and question.answers_one
        if has_columns and (question.has_note or (plan.statement.notes_limits and has_ends)):
            continue
        notes = summarize_notes(texts, answers.num_rows, "intervals=True shows further notes")
        lines += [f"{call}: {note}" for note in notes]
    return [*lines, LEFT_OUT] if reads_numbers(plan.row_query) else lines


@dataclass(frozen=True)
class _ReleasedNumber:
    """A released number with its interval, and the draws behind it; none if they are unknown."""

    range: Range
    draws: frozenset[int]

    def range_at(self, level: float) -> Range:  # noqa: ARG002 released at one level
        """Return the interval."""
        return self.range

    def may_share_noise_with(self, other: _ReleasedNumber) -> bool:
        """Check whether a draw may be behind both."""
        return not (self.draws and other.draws and self.draws.isdisjoint(other.draws))


def _append_interval(plan: Plan, released: pa.Table, name: str, steps: Sequence[Any]) -> pa.Table:
    """Append the interval of arithmetic with answers in each group, and the notes of the answers.

    Numbers from different noisy vectors are independent, but not with the error of sampling. An
    interval of dates is NULL.
    """
    names_drawn = [names for part in plan.request.parts for names, _ in part.draws()]
    names_drawn = [] if plan.terms.population else names_drawn
    columns: list[Sequence[Any]] = []
    notes: list[list[str | None]] = [[None] * released.num_rows]
    for step in steps:
        ends = (step, f"{step}_low", f"{step}_high")
        if not isinstance(step, str) or step in _SIGNS:
            columns.append([step] * released.num_rows)
        elif all(is_number(released, end) for end in ends):
            draws = frozenset(
                index
                for index, names in enumerate(names_drawn)
                if any(n.endswith(step) for n in names)
            )
            rows = zip(*(floats_in(released, end) for end in ends), strict=True)
            columns.append([_ReleasedNumber(Range(*row), draws) for row in rows])
        else:
            columns.append([_ReleasedNumber(_UNKNOWN, frozenset())] * released.num_rows)
        if f"{step}_{NOTE}" in released.column_names:
            notes.append(released[f"{step}_{NOTE}"].to_pylist())
    ranges = [Arithmetic(row).range_at(math.nan, 0.0) for row in zip(*columns, strict=True)]
    texts = [join_notes(dict.fromkeys(row)) for row in zip(*notes, strict=True)]
    for end in ("low", "high"):
        values = pa.array([getattr(row, end) for row in ranges], pa.float64(), from_pandas=True)
        released = released.append_column(f"{name}_{end}", values)
    return released.append_column(f"{name}_{NOTE}", pa.array(texts, pa.string()))


_SIGNS = frozenset("+-*/")
_UNKNOWN = Range(math.nan, math.nan, math.nan)


def plan_whole(
    plan: Plan, twin: duckdb.DuckDBPyRelation, engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return the result of a statement without groups, over a copy of its source without rows."""
    try:
        query = twin.project(plan.projection)
        rows = build_twin(query.columns, query.types, engine).to_arrow_table().schema
        engine.register("released", _released(plan, _no_answers(plan, rows)))
        for node, parts in plan.statement.checked:
            check_constants(node, parts, partial(_find_released_type, engine))
        return _plan_query(query_released(plan.statement), engine)
    except (duckdb.Error, pa.ArrowException) as error:  # Arrow lacks some types of keys
        kind = type(error)
    types = dict(zip(twin.columns, twin.types, strict=True))
    what, failing = "the whole of it", ""
    expressions = [(twin, label, sql) for label, sql in plan.columns]
    with suppress(duckdb.Error):
        answers, statement = engine.sql("FROM released"), plan.statement
        expressions += [(answers, output.name, output.sql) for output in statement.outputs]
        order, text = [sql for sql, _ in statement.order], _CONDITION
        sqls = (*statement.having, *order, *statement.qualify)
        expressions += [(answers, text, sql) for sql in sqls]
    for relation, text, sql in expressions:
        try:
            relation.project(f"TRY({sql}) AS x").to_arrow_table()
        except (duckdb.Error, pa.ArrowException) as error:
            what, failing, kind = text, sql, type(error)
            break
    raise build_unplanned_error(what, failing, types, kind)


def _find_released_type(engine: duckdb.DuckDBPyConnection, expression: Expression) -> str:
    """Return the type of an expression over released answers; "" where none is known."""
    with suppress(duckdb.Error):
        return str(engine.sql(f"SELECT {expression.sql} FROM released").types[0])  # noqa: S608 every part was written by rules
    return ""


_CONDITION = "a condition or an order of released answers"


def _no_answers(plan: Plan, rows: pa.Schema) -> pa.Table:
    """Return no released answers; categories come out as what they stand for."""
    is_coded, keys = pa.types.is_dictionary, pa.schema([rows.field(name) for name in plan.by])
    fields = [
        (field.name, field.type.value_type if is_coded(field.type) else field.type)
        for field in keys
    ]
    notes_limits = plan.request.notes_limits
    for name, question in plan.questions.items():
        kind = pa.int64() if question.is_whole else pa.float64()
        if question.answers_in_kind:
            field = rows.field(str(question.columns[0])).type
            field = pa.duration("us") if pa.types.is_interval(field) else field
            kind = field if find_clock_kind(field) else kind
        end_kind = pa.float64() if question.is_whole else kind
        ends = ("_low", "_high") if question.tells_interval else ()
        for suffix in question.suffixes:
            fields.append((f"{name}{suffix}", kind))
            fields += [(f"{name}{suffix}{end}", end_kind) for end in ends]
            has_note = question.has_note or notes_limits
            fields += [(f"{name}{suffix}_{NOTE}", pa.string())] if has_note else []
    if plan.statement.sets:
        if not all(map(has_order, keys.types)):
            raise refuse("keys without an order")
        fields.append((GROUPING, pa.int64()))
    return pa.schema(fields).empty_table()


_EXACT = "a query over public tables alone: exact"
_PLAN = "the plan of a statement: it reads no row"


@dataclass(frozen=True)
class Job:
    """A text that has been checked and planned, its source, and the engine that runs it."""

    script: Script
    plans: tuple[Plan, ...]
    source: Place
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
        schema = _schema(plan)
        labels = zip(plan.statement.keys, plan.by, strict=True)
        return {key.name: schema.field(label).type for key, label in labels}

    def run(self) -> Any:
        """Return the released rows as a frame of the source's type."""
        table, origin = self.release()
        last = 0 if self.script.rest else -1
        tables = [plan.statement.compiler.tables.protected for plan in self.plans]
        read = tables or [relation for _, relation in self.script.public]
        return with_origin(read[last].table.wrap(table) if read else table, origin)

    @silent()
    def release(self, answers: Sequence[pa.Table] = ()) -> tuple[pa.Table, Origin]:
        """Measure, charge, draw, and run the rest of the text over what was released.

        Nothing is measured or charged where an earlier run has drawn the `answers`.
        """
        if self.script.explains:
            keys, values = zip(*explain_job(self).head(), strict=True)
            page = {"explain_key": pa.array(keys), "explain_value": pa.array(values)}
            return pa.table(page), Origin(_PLAN, "epsilon=0", None, ())
        releases = _Drawn(self)
        tables = [table for p in self.plans for table in p.statement.compiler.tables.used.values()]
        files = dict.fromkeys(table.table.path for table in tables if table.table.path is not None)
        if self.plans and not answers:
            with reading_files(list(files)):
                answers = self._answers(releases)
        try:
            return self._finish(releases, answers)
        except ReleasedQueryError as error:
            error.answers = answers
            raise

    def _finish(self, releases: _Drawn, answers: Sequence[pa.Table]) -> tuple[pa.Table, Origin]:
        """Run the rest of the text over answers, and say where its result comes from."""
        releases.add(answers)
        texts = [(table.schema.metadata or {}).get(REMARKS, b"") for table in answers]
        lines = [line for text in texts for line in text.decode().splitlines()]
        log_notes(self.script.notes)
        lines += self.script.notes
        for plan, answered in zip(self.plans, answers, strict=True):
            log_no_groups(plan.request, answered)
            log_notes([SHOWN_TOTALS] * bool(plan.statement.sets and plan.request.rule))
            notes = list_notes(plan, answered, has_columns=self.intervals)
            for line in (*notes, *self._list_orders(plan, answered)):
                log_note(line)
                lines.append(line)
        table = _query_answers(
            lambda: resulting(self.script, releases.tables, self.engine), releases.tables
        )
        if self.script.target is not None:
            self.source.make(self.script.target, table)
        if self.script.rest is None:
            keys = self.script.keys
        else:  # the columns before the first number
            is_number = pa.types.is_integer, pa.types.is_floating
            before = takewhile(lambda f: not any(is_a(f.type) for is_a in is_number), table.schema)
            keys = tuple(field.name for field in before)
        numbers = tuple(name for name in table.column_names if name not in keys)
        last = {} if self.script.rest or not self.plans else self.plans[-1].questions
        outputs = self.plans[-1].statement.outputs if last else ()
        questions = {f"released.answer_{n}": question for n, question in enumerate(last.values())}
        named = {o.name: questions[o.sql] for o in outputs if o.sql in questions}
        shares = tuple(name for name, question in named.items() if question.kind == "share")
        pairs = zip(table.column_names, table.columns, strict=True)
        computed = tuple(name for name, column in pairs if name in numbers and column.null_count)
        origin = Origin(_EXACT, "epsilon=0", None, ())
        if self.plans:
            facts = {REMEMBERED: b""} if any(map(is_remembered, answers)) else None
            origin = Origin.of(self.request, table.replace_schema_metadata(facts))
        origin = replace(origin, shown_from=None, notes=tuple(dict.fromkeys(lines)))
        origin = replace(origin, keys=keys, answers=numbers, computed=computed, shares=shares)
        origin = replace(origin, amounts=list_amounts(named, table))
        return table, origin

    def _list_orders(self, plan: Plan, answers: pa.Table) -> Iterator[str]:
        """List the columns that are ordered or compared in another way than their type has it.

        Categories are released as texts, and so are numbers of a file that declares no types.
        """
        of = plan.statement
        yield from of.compiler.tables.notes
        for table in of.compiler.tables.used.values():
            for name in table.table.collated:
                if quote(name) in plan.row_query:
                    yield f"texts of {name!r} are compared without their collation"
        copies = (None, *(f"SELECT * FROM {name}" for name in self.script.names))  # noqa: S608 ours
        is_used = of.order or of.having or of.windows or self.script.rest not in copies
        kinds = {quote(name): fact.kind for name, fact in of.scope.bag.facts.items()}
        keys = of.keys if is_used else ()
        schema = _schema(plan) if keys else pa.schema(())
        for index, key in enumerate(keys):
            kind = kinds.get(key.sql, "")
            if kind == RANKED or pa.types.is_dictionary(schema.field(plan.by[index]).type):
                yield f"categories of {key.name!r} are ordered and compared as texts"
            if kind == TEXT and _has_other_order(answers.column(index).drop_null().to_pylist()):
                yield f"numbers of {key.name!r} are texts of a file: 10 comes before 9"

    def _answers(self, releases: _Drawn) -> Sequence[pa.Table]:
        for plan in self.plans:
            if _waits(plan):
                _measure_without_rows(plan)
            else:
                releases.give(plan)
        opened = [plan for plan in self.plans if not _waits(plan)]
        rows = run_guarded(lambda: [p.read(self.engine) for p in opened])
        read = run_guarded(lambda: list(map(_gate_bag, opened, rows)))
        try:
            with self.reading(plain=all(map(is_, read, rows))):
                pairs = zip(opened, read, strict=True)
                tables = run_guarded(
                    lambda: iter([Stored(r.project(p.projection)) for p, r in pairs])
                )
                sources = [
                    partial(self._later, plan, releases) if _waits(plan) else next(tables)
                    for plan in self.plans
                ]
                request = self.request
                if isinstance(request, JointPlan):
                    return release_several(request, sources)
                return [release_answers(request, sources[0])]
        finally:
            self.source.take_back()

    def reading(self, *, plain: bool) -> AbstractContextManager[None]:
        """Return a block in which rows are read; they are `plain` where no gate changes them.

        The optimizer is off there, unless no row's failing could make a difference to others: then
        a connection's is as it was, and that of our own engine is on.
        """
        if not plain or any(plan.computes for plan in self.plans):
            return self.source.fence()
        on_connection = isinstance(self.source, ConnectionSource)
        return nullcontext() if on_connection else with_all_optimizers(self.engine)

    def _later(self, plan: Plan, releases: _Drawn, answers: Sequence[pa.Table]) -> Stored:
        """Return the rows of a release that takes something of those before it."""
        with reading_files(()):
            releases.add(answers)
            releases.give(plan)
        rows = run_guarded(lambda: plan.read(self.engine))
        return run_guarded(lambda: Stored(_gate_bag(plan, rows).project(plan.projection)))


@dataclass
class _Drawn:
    """The releases of a job that have been drawn, each as its own text makes it."""

    job: Job
    tables: list[pa.Table] = field(default_factory=list)
    derived_names: set[str] = field(default_factory=set)

    def add(self, answers: Sequence[pa.Table]) -> None:
        """Add the releases whose answers are new; what they take of others comes first."""
        for plan, table in list(zip(self.job.plans, answers, strict=False))[len(self.tables) :]:
            self.give(plan)
            self.tables.append(finish_statement(plan, table, self.job.engine))

    def give(self, plan: Plan) -> None:
        """Make what a release takes of those before it."""
        for derived in plan.statement.givens:
            if derived.name not in self.derived_names:
                self.derived_names.add(derived.name)
                before = self.tables[: len(derived.script.statements)]
                table = _query_answers(
                    lambda: resulting(derived.script, before, self.job.engine),  # noqa: B023 at once
                    self.tables,
                )
                derived.table = run_guarded(lambda: table.cast(derived.table.schema))  # noqa: B023 as above


def _gate_bag(plan: Plan, rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    facts = plan.statement.scope.bag.facts
    return gate_rows(rows, {OWNER, *(name for name in facts if facts[name].is_read)})


def _twin(plan: Plan) -> duckdb.DuckDBPyRelation:
    bag, tables = plan.statement.scope.bag, plan.statement.compiler.tables
    return run_guarded(lambda: _gate_bag(plan, tables.plan_columns(bag, plan.used)))


def _schema(plan: Plan) -> pa.Schema:
    """Return the declared types of the columns of the row query."""
    return run_guarded(lambda: _twin(plan).project(plan.projection).to_arrow_table()).schema


def _has_other_order(texts: Sequence[str]) -> bool:
    """Return True for numbers in text that have another order as numbers."""
    with suppress(ValueError):
        return sorted(texts, key=float) != sorted(texts)
    return False


def _waits(plan: Plan) -> bool:
    """Return True if a release reads answers of earlier releases, not public tables alone."""
    return any(derived.script.statements for derived in plan.statement.givens)


_CHOSEN = "rows are compared with released numbers: intervals leave out the noise of these"
"""The note on answers about rows that released numbers choose or change."""


def resulting(
    script: Script,
    tables: Sequence[pa.Table],
    engine: duckdb.DuckDBPyConnection,
    *,
    rows: bool = True,
) -> pa.Table:
    """Run a text over the tables of its releases and public ones, or their twins."""
    if script.rest is None:
        return tables[-1]
    with connect_isolated() as inside:
        for name, table in zip(script.names, tables, strict=True):
            inside.register(name, table)
        for name, relation in script.public:
            read = relation.table.rows if rows else relation.table.twin
            inside.register(name, gate_rows(read(relation.columns, engine)).to_arrow_table())
        if rows or not script.statements:
            table = read_released_rows(inside.sql(script.rest))
        else:
            table = _plan_query(script.rest, inside)
        # A subquery numbers columns of one name.
        return table.rename_columns(inside.sql(f"FROM ({script.rest}) LIMIT 0").columns)


def _plan_query(query: str, engine: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the result of a query over released tables without rows.

    Released sums and means have fractions where DuckDB's may have none, so that whole quotients
    and remainders are those of whole numbers: those which >> and xor take, too.
    """
    result = read_released_rows(engine.sql(query))
    if any(name in query for name in _WITH_BITS):
        text = text_of_query(_take_bits(parse_query(query, engine)), engine)
        try:
            engine.sql(text)
        except duckdb.Error:
            raise refuse("whole quotient") from None
    return result


_WITH_BITS = {"//": ">>", "%": ">>", "divide": "xor", "mod": "xor"}


def _take_bits(node: Any) -> Any:
    """Return a tree with functions of bits in place of whole quotients and remainders."""
    node = rebuild(node, _take_bits)
    name = _WITH_BITS.get(name_call(node))
    return node if name is None else replace(node, name=name)


@contextmanager
def open_job(
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
            hint="leave con out to read frames by name",
        )
    if con is None and not frames:
        raise RefusedStatementError(
            "a statement reads either a connection or frames that are passed by name",
            hint="dfp.sql('SELECT dp_count(*) FROM t', con=con), or "
            "dfp.sql('SELECT dp_count(*) FROM t', t=frame)",
        )
    frames, schema, terms = separate_public_frames(frames, schema, terms)
    frames = {name: open_source(frame) for name, frame in frames.items()}
    snapshots = {n: f.version for n, f in sorted(frames.items()) if isinstance(f, Snapshot)}
    version = repr(snapshots) if frames and len(snapshots) == len(frames) else None
    terms = replace(terms, snapshot=version)
    with (
        open_place(con, frames) as catalog,
        catalog.in_time_zone(timezone),
        open_embedded(idle=con is not None) as engine,
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
            computed=lambda nested, types: run_guarded(
                lambda: resulting(nested, (), engine).cast(types)
            ),
        )
        script = read(query, reader)
        if keys is not None:
            check_keys(script, keys)
        plans = plan_script(script, terms, keys)
        empty = _without_rows(script, plans, engine)
        target = script.target
        if target is not None:
            read_of = [
                table for plan in plans for table in plan.statement.compiler.tables.used.values()
            ]
            for relation in (*read_of, *(table for _, table in script.public)):
                catalog.check(target, relation, empty)
        yield Job(script, plans, catalog, engine, terms, keys, empty, intervals)


def _without_rows(
    script: Script, plans: Sequence[Plan], engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return the result of a text over releases without rows, in declared types."""
    tables = [plan_whole(plan, _twin(plan), engine) for plan in plans]
    try:
        return resulting(script, tables, engine, rows=False)
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
def explain_job(job: Job, target: Target | None = None) -> StatementExplanation:
    """Explain a job, and the cost of its text on the connection itself."""
    script, relation = job.script, job.engine.from_arrow(job.empty)
    result: dict[str, Any] = {
        "target": None if script.target is None else f"table {script.target.name}",
        "columns": tuple(zip(relation.columns, map(str, relation.types), strict=True)),
    }
    if not job.plans:  # over public tables alone, which costs nothing
        return StatementExplanation(
            asks=_EXACT,
            protects="no one: everybody may know these tables",
            epsilon=0.0,
            relation=", ".join(table.name for _, table in script.public),
            released_query=str(script.rest),
            **result,
        )
    for plan in job.plans:
        _measure_without_rows(plan)

    def explain(terms: Terms, sizes: tuple[int, ...]) -> StatementExplanation:
        plans = plan_script(script, terms, job.public)
        request = replace(job, plans=plans).request
        pages, calls = zip(*(_explain_release(plan, sizes) for plan in plans), strict=True)
        keys = [key.name for plan in plans for key in plan.statement.keys]
        selection = groups_text(next((plan.request for plan in plans if plan.by), request))
        if any(plan.statement.sets for plan in plans):
            selection += f"; {SHOWN_TOTALS}"
        queries = [query_released(plan.statement) for plan in plans]
        if len(plans) > 1 or script.rest is not None:
            queries = [f"{name}: {sql}" for name, sql in zip(script.names, queries, strict=True)]
            inputs = [derived for plan in plans for derived in plan.statement.givens]
            queries += dict.fromkeys(f"{derived.name}: {derived.script.rest}" for derived in inputs)
        if script.rest is not None:
            queries.append(script.rest)
        texts = [f"{plan.row_query} {' '.join(map(str, _twin(plan).types))}" for plan in plans]
        protected = (plan.statement.compiler.tables.protected.name for plan in plans)
        return StatementExplanation(
            **vars(in_one(pages, request)),
            relation=", ".join(dict.fromkeys(protected)),
            keys=tuple(dict.fromkeys(keys)),
            selection=selection,
            row_query="; ".join(plan.row_query for plan in plans),
            calls=tuple(chain(*calls)),
            released_query="; ".join(queries),
            timezone=session_zone() if any(map(_ZONED.search, texts)) else None,
            **result,
        )

    return reach_target(target, job.terms, explain)


def _measure_without_rows(plan: Plan) -> None:
    """Measure a release without rows, which refuses types that it can't be about."""
    twin = _twin(plan)
    measure_plan(Stored(run_guarded(lambda: twin.project(plan.projection))), plan.request)


_ZONED = re.compile(r"TIMESTAMPTZ|WITH TIME ZONE|timezone\(|%z")
"""Names of types and functions by which rows depend on the time zone of the session."""


def _explain_release(
    plan: Plan, sizes: tuple[int, ...]
) -> tuple[Explanation, tuple[tuple[str, str], ...]]:
    """Return the explanation of one release, and its calls with what they ask."""
    statement = plan.statement
    shown = [call for call, _ in statement.calls]
    if statement.selection is not None:
        named = f"{statement.delta!r}, {float(statement.selection.value)!r}"
        shown.append(f"dp_keep({named})")
    elif len(plan.questions) > len(shown):
        counted = [*plan.questions.values()][-1]
        what = "*" if isinstance(counted, Count) else f"DISTINCT {counted.column}"
        shown.append(f"count({what}), which selects the groups")
    calls = zip(shown, plan.questions.values(), strict=True)
    titles = dict(zip(plan.questions, shown, strict=True))
    page = explain_plan(plan.request, titles=titles, sizes=sizes)
    return page, tuple((call, question.text) for call, question in calls)


def filter_rows(
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
        open_place(None, {"rows": source}) as catalog,
        catalog.in_time_zone(zone),
        open_embedded() as engine,
    ):
        restrict_optimizer(engine)
        tables = Tables(None, catalog, engine)
        relation = tables.find(["rows"], None)
        (name,) = tables.relations
        bag = stored(name, {name: name for name in relation.columns}, kinds=relation.table.kinds)
        seen = tuple(VisibleColumn(("rows",), name, name) for name in relation.columns)
        compiler, scope = Compiler(tables), Scope(bag, seen)
        _, bare = parse("SELECT 1 FROM rows", engine)
        select = None
        with suppress(RefusedStatementError):  # which would speak of a statement
            _, select = parse(f"SELECT 1 FROM rows WHERE (\n{where}\n)", engine)  # noqa: S608 it is vetted, not run
        if not isinstance(select, Select) or replace(select, where=None) != bare:
            raise RefusedStatementError(
                "this is no condition on rows, or more than one",
                hint="write what stands behind WHERE alone, e.g. age >= 18 AND city = 'Rome'",
            )
        parts = split_condition(compare_as_numbers(select.where, scope))
        rules = [compiler.write_condition(part, scope) for part in parts]
        used = tuple(n for n in relation.columns if any(n in rule.uses for rule in rules))
        tables.plan_columns(filtered_rows(bag, rules), used)
    for note in tables.notes:
        log_note(note)
    conditions = [RowCondition(rule.tried, {name: name for name in rule.uses}) for rule in rules]
    durations = write_durations(source, used)
    return Filtered(source, partial(_keep_rows, rules, used, durations), used, conditions)


def _keep_rows(
    rules: Sequence[Expression],
    used: Sequence[str],
    durations: Mapping[str, str],
    relation: duckdb.DuckDBPyRelation,
) -> duckdb.DuckDBPyRelation:
    """Return the rows that conditions keep; columns that they name come by the gate."""
    relation = replace_columns(relation, durations)
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    gate = reads(used, [kinds[name] for name in used]).items()
    relation = replace_columns(relation, {name: sql for name, sql in gate if sql != quote(name)})
    return relation.filter(" AND ".join(rule.tried for rule in rules))
