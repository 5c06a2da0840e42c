"""What a statement does with the answers: expressions over released keys and answers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dfprivacy.engine.files import quoted
from dfprivacy.errors import MissingColumnError, RefusedStatementError
from dfprivacy.statements.calls import KEEP, Call, holds_dp, is_dp, read_call, wants_interval
from dfprivacy.statements.display import display
from dfprivacy.statements.expressions import Scope, call_name, write
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.relations import Names
from dfprivacy.statements.statement import Key
from dfprivacy.statistics import (
    Count,
    Mean,
    PrivateBounds,
    Quantiles,
    StandardDeviation,
    Sum,
    Variance,
)

_WITH_INTERVAL = (Count, Sum, Mean, Variance, StandardDeviation)


def key_column(index: int) -> str:
    """Return the name of a key in the released table."""
    return f"key_{index}"


def answer_column(index: int) -> str:
    """Return the name of an answer in the released table, or what its columns begin with."""
    return f"answer_{index}"


def qualified(column: str) -> str:
    """Return a column of the released table, so that no name in the result stands before it."""
    return f"released.{column}"


@dataclass(frozen=True)
class Release:
    """Keys and answers, as far as a statement has named them; `calls` grows while it is read.

    `items` are the SELECT list by name; an expression may use the aliases of those before it.
    """

    names: Names
    keys: Sequence[Key]
    items: Sequence[tuple[str, exp.Expression]]
    calls: dict[Call, str] = field(default_factory=dict)

    def written(self, node: exp.Expression, before: int | None = None) -> str:
        """Return the SQL of an expression over the released table."""
        scope = Scope(
            lambda column: self._column(column, before), lambda inner: self._special(inner, before)
        )
        return write(node, scope)

    def sorted_by(self, node: exp.Expression) -> str:
        """Return the SQL of an item of ORDER BY: an alias goes before a key of that name."""
        if isinstance(node, exp.Column) and not node.table:
            for index, (name, item) in enumerate(self.items):
                if folded(name) == folded(node.name):
                    return self.written(item, index)
        return self.written(node)

    def _special(self, node: exp.Expression, before: int | None) -> str | None:
        if is_dp(node):
            return self._answer(node)
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            inside = node.this.unnest()
            if is_dp(inside):
                name = node.expression.name.replace("'", "''")
                return f"struct_extract({self.written(inside, before)}, '{name}')"
        return self._key(node)

    def _key(self, node: exp.Expression) -> str | None:
        """Return the column of a key that an expression is, if it is one."""
        if not self.keys or holds_dp(node):
            return None
        try:
            sql = self.names.written(node)
        except (RefusedStatementError, MissingColumnError):
            return None
        for index, key in enumerate(self.keys):
            if key.sql == sql:
                return qualified(key_column(index))
        return None

    def _answer(self, node: exp.Expression) -> str:
        call = read_call(node, self.names.written, display)
        self.calls.setdefault(call, display(node))
        start = qualified(answer_column(list(self.calls).index(call)))
        if wants_interval(node):
            ends = f"'value': {start}, 'low': {start}_low, 'high': {start}_high"
            return f"{{{ends}}}"
        if isinstance(call.question, PrivateBounds):
            lower, upper = (f"{start}_{end}" for end in ("lower", "upper"))
            return f"{{'lower': {_known(lower)}, 'upper': {_known(upper)}}}"
        if isinstance(call.question, Quantiles):
            return f"[{', '.join(f'{start}_{i}' for i in range(len(call.question.qs)))}]"
        return start

    def _column(self, column: exp.Column, before: int | None) -> str:
        if not column.table:
            for index, (name, item) in enumerate(self.items[:before]):
                if folded(name) == folded(column.name):
                    return self.written(item, index)
        self.names.written(column)
        raise Refusal(
            f"column {quoted(column.name)} outside a dp_ call",
            "it is not a key of GROUP BY, and rows are not shown",
            f"GROUP BY {column.name}, or aggregate it: dp_mean({column.name}, 0, 100)",
        ).error()


def _known(answer: str) -> str:
    """Return NULL in place of NaN, by which bounds say that too few rows stand out."""
    return f"CASE WHEN NOT isnan({answer}) THEN {answer} END"


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """Return the conditions that AND combines."""
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.this), *conjuncts(node.expression)]
    return [node]


def is_keep(node: exp.Expression) -> bool:
    """Tell dp_keep(delta)."""
    return is_dp(node) and call_name(node) == KEEP
