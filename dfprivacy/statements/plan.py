"""Plan a statement: vetted columns, questions about them, and the rest over released answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, delta_of, positive_number
from dfprivacy.engine.embedded import UTC, session_zone
from dfprivacy.engine.files import quoted
from dfprivacy.engine.returning import released_rows
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidKeysError, MissingDeltaError
from dfprivacy.frames.arithmetic import Expression, Range
from dfprivacy.frames.planning import plan_statistics
from dfprivacy.frames.tables import floats_in, is_number, summarize_notes
from dfprivacy.measurement.grid import kind_of
from dfprivacy.release.plan import GROUPING, NOTE, SELECTION
from dfprivacy.release.plan import Plan as ReleasePlan
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.release.totals import has_order
from dfprivacy.statements.calls import Call
from dfprivacy.statements.composing import Script, Statement, qualified, tried
from dfprivacy.statements.gate import NO_COLUMN, twin_of
from dfprivacy.statements.relations import OWNER
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.select import Rows
from dfprivacy.statements.tables import TEXT, unplanned
from dfprivacy.statements.tree import folded, fresh
from dfprivacy.statistics import Count, NUnique, Statistic
from dfprivacy.statistics.forms import part_of
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
    own: Mapping[str, Epsilon]
    terms: Terms

    @property
    def computes(self) -> bool:
        """True if the row query computes a value that other rows could change: see `by_row`."""
        keys, calls = self.statement.keys, [call for _, call in self.statement.calls]
        safe = {key.sql for key in keys if key.by_row}.union(
            *(call.values for call in calls if call.by_row),
            map(quoted, self.statement.rows.columns),
        )
        is_computed = any(sql not in safe for _, sql in self.columns)
        rows = self.statement.rows
        can_fail = not rows.bag.sure or rows.tables.reads_by_try(rows.bag, self.used)
        return is_computed or can_fail

    @property
    def projection(self) -> str:
        """The SELECT list of the row query."""
        plain = {*map(quoted, self.statement.rows.columns)}
        pairs = [
            (sql if sql in plain else f"TRY({sql})", quoted(label)) for label, sql in self.columns
        ]
        return ", ".join(s if s == label else f"{s} AS {label}" for s, label in pairs) or NO_COLUMN

    @property
    def row_query(self) -> str:
        """The row query as one SELECT."""
        rows = self.statement.rows
        return f"SELECT {self.projection} FROM ({rows.bag.sql(self.used, rows.tables.shown)})"  # noqa: S608 every part was written by rules

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of the protected relation that the row query reads."""
        texts = [sql for _, sql in self.columns]
        return tuple(
            name
            for name in self.statement.rows.columns
            if any(quoted(name) in text for text in texts)
        )

    @property
    def shares(self) -> tuple[str, ...]:
        """The columns of the result that are shares as they were drawn."""
        numbered = enumerate(self.questions.values())
        shares_drawn = {
            qualified(f"answer_{index}") for index, question in numbered if question.kind == "share"
        }
        return tuple(output.name for output in self.statement.outputs if output.sql in shares_drawn)

    @cached_property
    def request(self) -> ReleasePlan:
        """The release; what a ledger remembers of it belongs to these rows and no others."""
        rows = [self.row_query]
        for derived in self.statement.givens:  # by every query and public table behind its rows
            script = derived.script
            queries = [str(script.rest), *map(released_query, script.statements)]
            queries += [f"{name} is {relation.path}" for name, relation in script.public]
            rows.append(f"{derived.name}: {'; '.join(queries)}")
        zone = "" if session_zone() in {UTC, "Etc/UTC"} else f" in {session_zone()}"
        form, sets = f"answers of {'; '.join(rows)}{zone}", self.statement.sets
        request = plan_statistics(
            self.questions,
            self.terms,
            self.by,
            self.keys,
            own_losses=self.own,
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

    def rows_of(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """Return the row query over a relation; nothing is read."""
        return relation.project(self.projection)


def plan_statement(statement: Statement, terms: Terms, keys: object) -> Plan:
    """Return the plan of a statement under a caller's terms."""
    rows = statement.rows
    unit_columns = {*map(quoted, (OWNER, *rows.bag.keys))}
    if keys is None and any(key.sql in unit_columns for key in statement.keys):
        raise refuse("GROUP BY the unit")
    columns: dict[str, str] = {}
    unit = terms.unit
    if unit is not None:
        unit = replace(unit, column=_label(columns, str(unit.column), quoted(OWNER)))
    by = tuple(_label(columns, key.name, key.sql) for key in statement.keys)
    questions: dict[str, Statistic] = {}
    losses: dict[str, Epsilon] = {}
    start = ""  # of names of answers, so that none is the label of a key
    while any(folded(label).startswith(f"{start}answer_") for label in by):
        start += "_"
    for index, (_, call) in enumerate(statement.calls):
        name = f"{start}answer_{index}"
        questions[name] = call.question.about(*_values(rows, call, columns))
        if call.epsilon is not None:
            losses[name] = call.epsilon
    if statement.selection is not None:
        questions[f"{start}{SELECTION}"] = Count()
        losses[f"{start}{SELECTION}"] = statement.selection
    elif keys is None and _needs_row_count(statement):
        questions[f"{start}answer_rows"] = Count()
    public = None
    if isinstance(keys, Mapping):
        labels = {folded(key.name): label for key, label in zip(statement.keys, by, strict=True)}
        values_by_key: Any = {labels[folded(str(name))]: values for name, values in keys.items()}
        public = Terms(keys=values_by_key).keys_for(by, None)
    elif keys is not None:
        public = Terms().keys_for(by, keys)
    delta, copies = _delta(statement, terms, keys), rows.bag.copies
    terms = replace(terms, unit=unit, delta=delta, copies=copies)
    return Plan(statement, tuple(columns.items()), by, public, questions, losses, terms)


def plan_script(script: Script, terms: Terms, keys: object) -> tuple[Plan, ...]:
    """Return the plans of all releases in a text, which share its terms' epsilon and delta."""
    statements = script.statements
    public = [_keys_of(statement, keys) for statement in statements]
    pairs = list(zip(statements, public, strict=True))
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
        delta = None if terms.delta is None else delta_of(terms.delta)
        part = None if delta is None else delta / max(sum(secret), 1)
        deltas = [part if is_secret or not any(secret) else None for is_secret in secret]
    return tuple(
        plan_statement(statement, replace(terms, delta=delta), public_keys)
        for (statement, public_keys), delta in zip(pairs, deltas, strict=True)
    )


def _keys_of(statement: Statement, keys: object) -> object:
    """Return the public keys of one release: of a mapping, those of its own columns."""
    if not statement.keys:
        return None
    if not isinstance(keys, Mapping):
        return statement.table_keys if keys is None else keys
    names = {folded(key.name) for key in statement.keys}
    return {name: keys[name] for name in keys if folded(str(name)) in names} or None


def check_keys(script: Script, keys: object) -> None:
    """Refuse public keys that no grouping of a text has, or that several could mean."""
    groupings = {
        tuple(folded(key.name) for key in statement.keys) for statement in script.statements
    } - {()}
    if keys is None or not script.statements:
        return
    if not groupings:
        raise InvalidKeysError(
            "public keys were given to a statement without GROUP BY",
            hint="leave keys out, or write GROUP BY city",
        )
    names = {name for grouping in groupings for name in grouping}
    if isinstance(keys, Mapping) and not {folded(str(name)) for name in keys} <= names:
        shown = dict.fromkeys(
            repr(key.name) for statement in script.statements for key in statement.keys
        )
        raise InvalidKeysError(
            "public keys were given for a column that GROUP BY does not have",
            hint=f"its columns are {', '.join(shown)}",
        )
    if not isinstance(keys, Mapping) and len(groupings) > 1:
        raise InvalidKeysError(
            "public keys are listed for a statement with several groupings",
            hint="list them by column: keys={'city': ['Rome', 'Oslo'], 'year': [2025, 2026]}",
        )


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


def _label(labels: dict[str, str], name: str, sql: str) -> str:
    """Return the label of an expression, or a new one like that wanted, without dots."""
    existing = next((label for label, text in labels.items() if text == sql), None)
    label = existing or fresh(name.replace(".", "\u00b7"), labels)
    labels[label] = sql
    return label


def _values(rows: Rows, call: Call, columns: dict[str, str]) -> Iterator[str]:
    """Yield the labels of what a call aggregates: texts of files as numbers, units as owners."""
    mechanism, finds_bounds = part_of(call.question), call.question.finds_bounds
    is_about_numbers = bool(call.values) and (finds_bounds or any(mechanism.columns.values()))
    facts = rows.bag.facts if is_about_numbers else {}
    as_read = {
        quoted(name): f"TRY_CAST({quoted(name)} AS DOUBLE)"
        for name, fact in facts.items()
        if fact.kind == TEXT
    }
    if isinstance(call.question, NUnique):
        as_read |= dict.fromkeys(map(quoted, rows.unit_columns), quoted(OWNER))
    for shown, sql in zip(call.shown, call.values, strict=True):
        yield _label(columns, shown, as_read.get(sql, sql))


def _delta(statement: Statement, terms: Terms, keys: object) -> object:
    """Return the delta that selects groups, from the terms or from dp_keep."""
    if statement.delta is None:
        if statement.keys and keys is None and terms.delta is None:
            raise MissingDeltaError(
                "group keys are secret, and showing them needs a delta",
                hint="write HAVING dp_keep(1e-6), pass delta=1e-6, or list keys that are public "
                "anyway: keys=['Rome', 'Oslo']",
            )
        return terms.delta
    if terms.delta is not None or keys is not None:
        other = "delta=" if keys is None else "keys="
        raise refuse("dp_keep and terms", other=other)
    return statement.delta


_PLACE = "place"


def released_query(statement: Statement) -> str:
    """Return the query over the released table; ties keep the order of the keys."""
    chosen = ", ".join(f"{tried(o.sql)} AS {quoted(o.name)}" for o in statement.outputs)
    source, where = "released", _where(statement.having)
    if statement.windows or statement.qualify:
        windows = "".join(f", {sql} AS window_{i}" for i, sql in enumerate(statement.windows))
        source = f"(SELECT *{windows} FROM released{where}) AS released"  # noqa: S608 every part was written by rules
        where = _where(statement.qualify)
    parts = [f"SELECT {chosen} FROM {source}{where}"]  # noqa: S608 every part was written by rules
    order = [f"{tried(sql)} {direction}" for sql, direction in statement.order]
    parts.append(f"ORDER BY {', '.join([*order, qualified(_PLACE)])}")
    limits = {"LIMIT": statement.limit, "OFFSET": statement.offset}
    parts += [f"{word} {number}" for word, number in limits.items() if number is not None]
    return " ".join(parts)


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(map(tried, conditions))}" if conditions else ""


def finished(plan: Plan, answers: pa.Table, engine: duckdb.DuckDBPyConnection) -> pa.Table:
    """Run the rest of a statement over released answers, and return its result."""
    engine.register("released", _released(plan, answers))
    return guarded(lambda: released_rows(engine.sql(released_query(plan.statement))))


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

    Where the result `has_columns` of notes, only those of calls that have none there.
    """
    lines: list[str] = []
    for (call, _), name in zip(plan.statement.calls, plan.questions, strict=False):
        question, suffixes = plan.questions[name], plan.questions[name].suffixes
        has_ends = question.tells_interval and question.answers_one
        if has_columns and (question.has_note or (plan.statement.notes_limits and has_ends)):
            continue
        columns = {f"{name}{suffix}_{NOTE}" for suffix in suffixes} & {*answers.column_names}
        texts = [note for column in columns for note in answers[column].to_pylist()]
        notes = summarize_notes(texts, answers.num_rows, "intervals=True shows further notes")
        lines += [f"{call}: {note}" for note in notes]
    return lines


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
    ranges = [Expression(row).range_at(math.nan, 0.0) for row in zip(*columns, strict=True)]
    texts = [
        "; ".join(filter(None, dict.fromkeys(row))) or None for row in zip(*notes, strict=True)
    ]
    for end in ("low", "high"):
        values = pa.array([getattr(row, end) for row in ranges], pa.float64(), from_pandas=True)
        released = released.append_column(f"{name}_{end}", values)
    return released.append_column(f"{name}_{NOTE}", pa.array(texts, pa.string()))


_SIGNS = frozenset("+-*/")
_UNKNOWN = Range(math.nan, math.nan, math.nan)


def planned(
    plan: Plan, twin: duckdb.DuckDBPyRelation, engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return the result of a statement without groups, over a copy of its source without rows."""
    try:
        query = plan.rows_of(twin)
        rows = twin_of(query.columns, query.types, engine).to_arrow_table().schema
        engine.register("released", _released(plan, _no_answers(plan, rows)))
        return released_rows(engine.sql(released_query(plan.statement)))
    except (duckdb.Error, pa.ArrowException) as error:  # Arrow lacks some types of keys
        kind = type(error)
    types = dict(zip(twin.columns, map(str, twin.types), strict=True))
    what, names, kinds = "the whole of it", list[str](), list[str]()
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
            names = [name for name in plan.used if quoted(name) in sql]
            kinds = [types[name].split("(")[0] for name in names]
            what, kind = text, type(error)
            break
    raise unplanned(what, names, kinds, kind)


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
            kind = field if kind_of(field) else kind
        ends = ("", "_low", "_high") if question.tells_interval else ("",)
        for suffix in question.suffixes:
            fields += [(f"{name}{suffix}{end}", kind) for end in ends]
            has_note = question.has_note or notes_limits
            fields += [(f"{name}{suffix}_{NOTE}", pa.string())] if has_note else []
    if plan.statement.sets:
        if not all(map(has_order, keys.types)):
            raise refuse("keys without an order")
        fields.append((GROUPING, pa.int64()))
    return pa.schema(fields).empty_table()
