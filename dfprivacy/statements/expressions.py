"""Expressions over one row: each kind of syntax node that is known has a rule that writes it.

A node without a rule is refused, and so is a node with a part that its rule does not know. What
DuckDB runs is what these rules write, never the text of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dfprivacy.statements.dates import check_dates, shielded
from dfprivacy.statements.functions import ROW_FUNCTIONS, not_a_row_function
from dfprivacy.statements.names import folded
from dfprivacy.statements.operators import OPERATORS, Inner, Node, Rule
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only, refuse
from dfprivacy.statements.special_forms import SPECIAL_FORMS


@dataclass(frozen=True)
class Scope:
    """What names stand for: how a column is written, and which nodes are written otherwise.

    `shield` returns what writes the arguments of a node where it runs: some with a shield around
    them, which a text that is only shown or compared does not have.
    """

    column: Callable[[exp.Column], str]
    special: Callable[[Node], str | None] = lambda _: None
    shield: Callable[[Node, Inner], Inner] = shielded


def write(node: Node | None, scope: Scope) -> str:
    """Return the SQL of an expression.

    Raises
    ------
    RefusedStatementError
        For anything in it that is not known to be a function of one row.
    """
    if not isinstance(node, Node):
        raise refuse("expression")
    special = scope.special(node)
    if special is not None:
        return special
    if isinstance(node, exp.Column):
        return _column(node, scope)
    rule = _RULES.get(type(node))
    if rule is None:
        raise refuse(type(node).__name__)
    return rule(node, scope.shield(node, lambda part: write(part, scope)))


def _column(node: exp.Column, scope: Scope) -> str:
    if isinstance(node.this, exp.Star):
        raise refuse("Star")
    only(node, "this", "table", "db", "catalog")
    return scope.column(node)


def _call(node: Node, inner: Inner) -> str:
    """Write a call of a function on the list."""
    name = call_name(node)
    if name.startswith("dp_"):
        raise Refusal(
            f"{name}(...) here",
            "a dp_ call aggregates rows; it can't stand in WHERE, GROUP BY, a subquery, a CTE, a "
            "view or another call",
            "SELECT city, dp_mean(x, 0, 100) AS m FROM t GROUP BY city HAVING m > 10",
        ).error()
    if name not in ROW_FUNCTIONS:
        raise not_a_row_function(name)
    check_dates(node)
    return f"{name}({', '.join(inner(argument) for argument in node.expressions)})"


def call_name(node: Node) -> str:
    """Return the name of a function that is called, in small letters.

    Raises
    ------
    RefusedStatementError
        When it is quoted.
    """
    only(node, "this", "expressions")
    if not isinstance(node.this, str):
        raise Refusal(
            "a quoted function name",
            "functions are known by their plain names",
            "write upper(city)",
        ).error()
    return folded(node.this)


def _aggregate(name: str) -> Rule:
    def rule(node: Node, inner: Inner) -> str:  # noqa: ARG001 one signature for all rules
        raise not_a_row_function(name)

    return rule


def _method(node: Node, inner: Inner) -> str:  # noqa: ARG001 one signature for all rules
    raise Refusal(
        "a name with dots before a call or after one",
        "it is not on the list of what is known to be safe",
        "write upper(city), struct_extract(place, 'city')",
    ).error()


_RULES: dict[type[Node], Rule] = {
    **OPERATORS,
    **SPECIAL_FORMS,
    exp.Anonymous: _call,
    exp.Max: _aggregate("max"),
    exp.Min: _aggregate("min"),
    exp.GroupConcat: _aggregate("string_agg"),
    exp.Dot: _method,
}
