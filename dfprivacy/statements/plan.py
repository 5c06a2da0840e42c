"""Plan a statement: vetted columns, questions about them, and the rest over released answers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.quoting import quoted
from dfprivacy.engine.run import guarded
from dfprivacy.errors import (
    InvalidKeysError,
    InvalidQuestionError,
    MissingColumnError,
    MissingDeltaError,
)
from dfprivacy.release.request import SELECTION
from dfprivacy.statements.calls import Call
from dfprivacy.statements.names import folded, fresh
from dfprivacy.statements.reading import Statement, answer_column, key_column, qualified
from dfprivacy.statements.refusals import Refusal
from dfprivacy.statistics import Count, Statistic
from dfprivacy.terms import PublicKeys, Terms
from dfprivacy.unit import Unit


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
    def projection(self) -> str:
        """The SELECT list of the row query."""
        plain = {quoted(name) for name in self.statement.rows.base.columns}
        made = [
            f"{sql if sql in plain else f'TRY({sql})'} AS {quoted(label)}"
            for label, sql in self.columns
        ]
        return ", ".join(made) or 'true AS "row"'

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the row query."""
        return tuple(f"TRY({condition})" for condition in self.statement.conditions)

    @property
    def row_query(self) -> str:
        """The row query as one SELECT."""
        where = " AND ".join(self.conditions)
        source = ".".join(map(quoted, self.statement.rows.base.path))
        return f"SELECT {self.projection} FROM {source}{f' WHERE {where}' if where else ''}"  # noqa: S608 every part was written by rules

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of the protected relation that the row query reads."""
        texts = [sql for _, sql in self.columns] + list(self.statement.conditions)
        return tuple(
            name
            for name in self.statement.rows.base.columns
            if any(quoted(name) in text for text in texts)
        )

    def rows_of(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """Return the row query over a relation; nothing is read."""
        for condition in self.conditions:
            relation = relation.filter(condition)
        return relation.project(self.projection)


def plan_statement(statement: Statement, terms: Terms, keys: object) -> Plan:
    """Return the plan of a statement under a caller's terms.

    Raises
    ------
    MissingColumnError
        When the named relation has no such unit.
    InvalidKeysError
        When keys do not fit the GROUP BY.
    RefusedStatementError
        When delta is given twice.
    """
    columns = _Columns()
    unit = _unit(statement, terms.unit, columns)
    by = tuple(columns.label(key.name, key.sql) for key in statement.keys)
    questions: dict[str, Statistic] = {}
    own: dict[str, Epsilon] = {}
    start = _apart(by)
    for index, (_, call) in enumerate(statement.calls):
        name = f"{start}{answer_column(index)}"
        questions[name] = call.about(_value(statement, call, columns))
        if call.epsilon is not None:
            own[name] = call.epsilon
    if statement.selection is not None:
        questions[f"{start}{SELECTION}"] = Count()
        own[f"{start}{SELECTION}"] = statement.selection
    made = tuple(columns.made.items())
    public = _public(statement, by, keys)
    terms = replace(terms, unit=unit, delta=_delta(statement, terms, keys))
    plan = Plan(statement, made, by, public, questions, own, terms)
    return replace(plan, terms=_versioned(plan))


class _Columns:
    """Labels of the row query, and the SQL of each.

    A label has no dot: DuckDB takes it for a qualified name.
    """

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def label(self, wanted: str, sql: str) -> str:
        """Return the label of an expression: that which it has, else one like that wanted."""
        for label, made in self.made.items():
            if made == sql:
                return label
        label = fresh(wanted.replace(".", "\u00b7"), self.made)
        self.made[label] = sql
        return label


def _apart(by: tuple[str, ...]) -> str:
    """Return what names of answers begin with, so that none is the label of a key."""
    start = ""
    while any(folded(label).startswith(f"{start}answer_") for label in by):
        start += "_"
    return start


def _value(statement: Statement, call: Call, columns: _Columns) -> str | None:
    """Return the label of what a call aggregates; None for rows.

    The columns of a file that declares no types are text, and read as numbers where numbers are
    asked for, as the frame interface does.
    """
    if call.value is None:
        return None
    base, sql = statement.rows.base, call.value
    if base.texts and call.needs_numbers and sql in map(quoted, base.columns):
        sql = f"TRY_CAST({sql} AS DOUBLE)"
    return columns.label(call.shown, sql)


def _unit(statement: Statement, unit: Unit | None, columns: _Columns) -> Unit | None:
    if unit is None:
        return None
    found = {folded(name): sql for name, sql in statement.rows.named_columns}
    sql = found.get(folded(str(unit.column)))
    if sql is None:
        named = statement.rows.named
        raise MissingColumnError(
            f"{named.name!r} has no column {unit.column!r} to be the privacy unit",
            hint=f"its columns are {', '.join(map(repr, named.columns[:20]))}",
        )
    return Unit(columns.label(str(unit.column), sql), unit.max_rows, unit.max_groups)


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
        raise Refusal(
            f"dp_keep and {other} together",
            "both say which groups are shown",
            f"leave one of them out: HAVING dp_keep(1e-6), or {other}...",
        ).error()
    return statement.delta


def _public(statement: Statement, by: tuple[str, ...], keys: object) -> PublicKeys | None:
    if keys is None:
        return None
    if not by:
        raise InvalidKeysError(
            "public keys were given to a statement without GROUP BY",
            hint="leave keys out, or write GROUP BY city",
        )
    if not isinstance(keys, Mapping):
        return Terms().keys_for(by, keys)
    names = {folded(key.name): label for key, label in zip(statement.keys, by, strict=True)}
    labels: dict[Hashable, object] = {
        names.get(folded(str(name)), ""): values for name, values in keys.items()
    }
    if "" in labels:
        raise InvalidKeysError(
            "public keys were given for a column that GROUP BY does not have",
            hint=f"its columns are {', '.join(repr(key.name) for key in statement.keys)}",
        )
    return Terms(keys=labels).keys_for(by, None)


def _versioned(plan: Plan) -> Terms:
    """Return the terms with a version that tells the row query too.

    What a ledger remembers goes by the question and the version of the data; rows that are chosen
    by another WHERE are other data.
    """
    if not isinstance(plan.terms.version, str):
        return plan.terms
    return replace(plan.terms, version=f"{plan.terms.version}; {plan.row_query}")


_PLACE = "place"


def released_query(plan: Plan) -> str:
    """Return the query over the released table; ties keep the order of the keys."""
    released = plan.statement.released
    chosen = ", ".join(f"{_tried(o.sql)} AS {quoted(o.name)}" for o in released.outputs)
    parts = [f"SELECT {chosen} FROM released"]  # noqa: S608 every part was written by rules
    if released.having:
        parts.append(f"WHERE {' AND '.join(_tried(sql) for sql in released.having)}")
    parts.append(f"ORDER BY {', '.join([*map(_tried_order, released.order), qualified(_PLACE)])}")
    if released.limit is not None:
        parts.append(f"LIMIT {released.limit}")
    if released.offset is not None:
        parts.append(f"OFFSET {released.offset}")
    return " ".join(parts)


def _tried(sql: str) -> str:
    return sql if sql.replace(".", "_").isidentifier() else f"TRY({sql})"


def _tried_order(text: str) -> str:
    """Return an item of ORDER BY, whose direction is three words, with NULL where it fails."""
    sql, *direction = text.rsplit(" ", 3)
    return " ".join([_tried(sql), *direction])


def finished(plan: Plan, answers: pa.Table, engine: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return what a statement makes of released answers."""
    engine.register("released", _released(plan, answers))
    return guarded(lambda: engine.sql(released_query(plan)).to_arrow_table())


def _released(plan: Plan, answers: pa.Table) -> pa.Table:
    """Return released answers under the names that the query knows, with the place of each row."""
    keys = [key_column(index) for index in range(len(plan.by))]
    start = next(iter(plan.questions)).removesuffix(answer_column(0))
    others = [name.removeprefix(start) for name in answers.column_names[len(keys) :]]
    named = answers.rename_columns([*keys, *others])
    return named.append_column(_PLACE, pa.array(range(named.num_rows), type=pa.int64()))


def check_finish(
    plan: Plan, rows: duckdb.DuckDBPyRelation, engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return what a statement makes of no groups at all; refuse what DuckDB can't plan.

    Raises
    ------
    InvalidQuestionError
        When types do not go together: found out before anything is spent.
    """
    try:
        keys = rows.limit(0).to_arrow_table().select(list(plan.by))
        engine.register("released", _released(plan, _no_answers(plan, keys.schema)))
        return engine.sql(released_query(plan)).to_arrow_table()
    except (duckdb.Error, pa.ArrowException) as error:  # Arrow lacks some types of keys: UNION
        problem = str(error).splitlines()[0]
    raise unplanned(problem)


def unplanned(problem: str) -> InvalidQuestionError:
    """Return the error for a statement whose types or names DuckDB refuses."""
    return InvalidQuestionError(
        f"DuckDB can't plan the statement: {problem}",
        hint="check names and types; CAST(x AS DOUBLE) turns text into numbers",
    )


def _no_answers(plan: Plan, keys: pa.Schema) -> pa.Table:
    fields = [(field.name, _plain(field.type)) for field in keys]
    for name, question in plan.questions.items():
        kind = pa.int64() if question.is_whole else pa.float64()
        fields += [(f"{name}{end}", kind) for end in _ends(question)]
    return pa.schema(fields).empty_table()


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _ends(question: Statistic) -> Sequence[str]:
    return ("", "_low", "_high") if question.has_interval else question.suffixes
