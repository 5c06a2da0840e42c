"""The rest of a statement, over released keys and answers."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from dfprivacy.engine.files import quoted
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.statements.plan import Plan
from dfprivacy.statements.reading import answer_column, key_column, qualified
from dfprivacy.statistics import Statistic

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
