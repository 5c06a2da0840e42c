"""Expressions and queries as their writer wrote them: for names of columns and for comparison."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dfprivacy.engine.files import quoted
from dfprivacy.statements.calls import is_dp
from dfprivacy.statements.expressions import Scope, call_name, write
from dfprivacy.statements.names import shown
from dfprivacy.statements.refusals import only, refuse

Spelling = Callable[[str], str]


def display(node: exp.Expression, spelling: Spelling = shown) -> str:
    """Return an expression with its names as they were written, as DuckDB would show it."""
    scope = Scope(
        lambda column: ".".join(spelling(part.name) for part in column.parts),
        lambda inner: _special(inner, spelling),
        lambda _, inner: inner,
    )
    return write(node, scope)


def _special(node: exp.Expression, spelling: Spelling) -> str | None:
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        return f"({display(node.this, spelling)}).{spelling(node.expression.name)}"
    if isinstance(node, exp.PropertyEQ) and is_dp(node.parent):
        return f"{spelling(node.name)} := {display(node.expression, spelling)}"
    if not is_dp(node):
        return None
    given = [item for item in node.expressions if not isinstance(item, exp.Star)]
    return f"{call_name(node)}({', '.join(display(item, spelling) for item in given)})"


def as_written(select: exp.Expression) -> str:
    """Return a whole query, every name quoted and every expression in parentheses.

    Raises
    ------
    RefusedStatementError
        For anything that has no place in a query that is read.
    """
    if isinstance(select, exp.Subquery):
        return _relation(select)
    if not isinstance(select, exp.Select):
        raise refuse(type(select).__name__)
    clauses = [
        _with(select),
        "SELECT " + ", ".join(_item(item) for item in select.expressions),
        _from(select),
        _clause(select, "where", "WHERE"),
        _group(select),
        _clause(select, "having", "HAVING"),
        _order(select),
        _count(select, "limit", "LIMIT"),
        _count(select, "offset", "OFFSET"),
    ]
    return " ".join(clause for clause in clauses if clause)


def _strict(node: exp.Expression) -> str:
    return display(node, quoted)


def _with(select: exp.Expression) -> str:
    clause = select.args.get("with_")
    if clause is None:
        return ""
    commons = [f"{quoted(own.alias)} AS ({as_written(own.this)})" for own in clause.expressions]
    return f"WITH {', '.join(commons)}"


def _item(node: exp.Expression) -> str:
    if isinstance(node, exp.Alias):
        return f"{_strict(node.this)} AS {quoted(node.alias)}"
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return _strict(node)
    left_out = ", ".join(quoted(item.name) for item in star.args.get("except_") or ())
    replaced = ", ".join(_item(item) for item in star.args.get("replace") or ())
    start = f"{quoted(node.table)}.*" if isinstance(node, exp.Column) else "*"
    exclude = f" EXCLUDE ({left_out})" if left_out else ""
    return f"{start}{exclude}{f' REPLACE ({replaced})' if replaced else ''}"


def _from(select: exp.Expression) -> str:
    clause = select.args.get("from_")
    return "" if clause is None else f"FROM {_relation(clause.this)}"


def _relation(node: exp.Expression) -> str:
    alias = node.args.get("alias")
    end = "" if alias is None else f" AS {quoted(alias.name)}"
    if isinstance(node, exp.Table):
        if not isinstance(node.this, exp.Identifier):
            raise refuse("Anonymous")
        return ".".join(quoted(part.name) for part in node.parts) + end
    if not isinstance(node, exp.Subquery):
        raise refuse(type(node).__name__)
    inside = node.this
    if isinstance(inside, exp.Subquery | exp.Table):
        return f"({_relation(inside)}){end}"
    return f"({as_written(inside)}){end}"


def _clause(select: exp.Expression, part: str, word: str) -> str:
    clause = select.args.get(part)
    return "" if clause is None else f"{word} {_strict(clause.this)}"


def _group(select: exp.Expression) -> str:
    group = select.args.get("group")
    if group is None:
        return ""
    if group.args.get("all"):
        return "GROUP BY ALL"
    return f"GROUP BY {', '.join(_strict(item) for item in group.expressions)}"


def _order(select: exp.Expression) -> str:
    order = select.args.get("order")
    if order is None:
        return ""
    return f"ORDER BY {', '.join(_ordered(item) for item in order.expressions)}"


def _ordered(item: exp.Expression) -> str:
    only(item, "this", "desc", "nulls_first")
    return f"{_sorted_by(item)} {direction(item)}"


def _sorted_by(item: exp.Expression) -> str:
    return "ALL" if isinstance(item.this, exp.Var) else _strict(item.this)


def direction(item: exp.Expression) -> str:
    """Return the direction of an item of ORDER BY."""
    nulls = "NULLS FIRST" if item.args.get("nulls_first") else "NULLS LAST"
    return f"{'DESC' if item.args.get('desc') else 'ASC'} {nulls}"


def _count(select: exp.Expression, part: str, word: str) -> str:
    clause = select.args.get(part)
    if clause is None:
        return ""
    if not isinstance(clause, exp.Limit | exp.Offset):
        raise refuse(type(clause).__name__)
    return f"{word} {_strict(clause.expression)}"
