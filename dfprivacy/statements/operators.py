"""How operators and constants are written: one rule a kind of syntax node.

A rule writes its node in the form in which DuckDB shows it, everything in parentheses, and refuses
any part that it does not know. `inner` writes what is inside.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only, refuse

Node = exp.Expression
Inner = Callable[[Node | None], str]
Rule = Callable[[Node, Inner], str]


def _operator(sign: str) -> Rule:
    def rule(node: Node, inner: Inner) -> str:
        only(node, "this", "expression", "typed", "safe")
        return f"({inner(node.this)} {sign} {inner(node.expression)})"

    return rule


def prefix(start: str, end: str) -> Rule:
    """Return the rule of a node that has one part."""

    def rule(node: Node, inner: Inner) -> str:
        only(node, "this")
        return f"{start}{inner(node.this)}{end}"

    return rule


def _literal(node: Node, inner: Inner) -> str:  # noqa: ARG001 one signature for all rules
    only(node, "this", "is_string")
    text = str(node.this)
    if node.args.get("is_string"):
        return "'" + text.replace("'", "''") + "'"
    if not text.isascii() or not text[:1].isdigit() or set(text) - set("0123456789.eE+-"):
        raise refuse("number")
    return text


def _boolean(node: Node, inner: Inner) -> str:  # noqa: ARG001 one signature for all rules
    only(node, "this")
    return "true" if node.this else "false"


def _null(node: Node, inner: Inner) -> str:  # noqa: ARG001 one signature for all rules
    only(node)
    return "NULL"


def _paren(node: Node, inner: Inner) -> str:
    only(node, "this")
    return inner(node.this)


def _not(node: Node, inner: Inner) -> str:
    only(node, "this")
    negated = node.this
    if isinstance(negated, exp.Is):
        return _is(negated, inner, " NOT")
    return f"(NOT {inner(negated)})"


def _is(node: Node, inner: Inner, negation: str = "") -> str:
    only(node, "this", "expression")
    if not isinstance(node.expression, exp.Null | exp.Boolean):
        raise refuse("IS")
    return f"({inner(node.this)} IS{negation} {inner(node.expression)})"


def _between(node: Node, inner: Inner) -> str:
    only(node, "this", "low", "high")
    low, high = inner(node.args["low"]), inner(node.args["high"])
    return f"({inner(node.this)} BETWEEN {low} AND {high})"


def _in(node: Node, inner: Inner) -> str:
    if node.args.get("query"):
        raise refuse("Subquery")
    only(node, "this", "expressions")
    listed = ", ".join(inner(item) for item in node.expressions)
    return f"({inner(node.this)} IN ({listed}))"


def _like(sign: str) -> Rule:
    def rule(node: Node, inner: Inner) -> str:
        only(node, "this", "expression", "negate")
        like = f"({inner(node.this)} {sign} {inner(node.expression)})"
        return f"(NOT {like})" if node.args.get("negate") else like

    return rule


def _escape(node: Node, inner: Inner) -> str:
    """Write x LIKE y ESCAPE z; a negation may stand inside or outside of it in the tree."""
    only(node, "this", "expression")
    like = node.this
    if not isinstance(like, exp.Like | exp.ILike):
        raise refuse("ESCAPE")
    only(like, "this", "expression", "negate")
    _check_escape(like.expression, node.expression)
    sign = "ILIKE" if isinstance(like, exp.ILike) else "LIKE"
    pattern = f"{inner(like.expression)} ESCAPE {inner(node.expression)}"
    text = f"({inner(like.this)} {sign} {pattern})"
    return f"(NOT {text})" if like.args.get("negate") else text


def _check_escape(pattern: Node, escape: Node) -> None:
    """Refuse what DuckDB ends a query for in spite of TRY: an escape with nothing behind it."""
    mark, text = (str(n.this) if is_text(n) else "" for n in (escape, pattern))
    known = is_text(pattern) and len(mark) == 1 and mark.isascii()
    if not known or text.replace(2 * mark, "").endswith(mark):
        raise Refusal(
            "LIKE with such an ESCAPE",
            "a pattern or escape that is no constant, or a pattern that ends in the escape, could "
            "make the query fail on one row",
            "x LIKE '50!%' ESCAPE '!'",
        ).error()


def is_text(node: Node | None) -> bool:
    """Tell a text constant."""
    return isinstance(node, exp.Literal) and bool(node.args.get("is_string"))


def _array(node: Node, inner: Inner) -> str:
    only(node, "expressions")
    return f"[{', '.join(inner(item) for item in node.expressions)}]"


def _element(node: Node, inner: Inner) -> str:
    """Write x[n]; the tree counts from 0, DuckDB from 1."""
    only(node, "this", "expressions", "offset", "safe")
    places = node.expressions
    if len(places) != 1 or not _is_whole(places[0]):
        raise Refusal(
            "x[...] with anything but a number",
            "it is not on the list of what is known to be safe",
            "use x[1], substring(x, 1, 3) or list_extract(x, y)",
        ).error()
    return f"{inner(node.this)}[{int(places[0].this) + 1}]"


def _is_whole(node: Node) -> bool:
    number = isinstance(node, exp.Literal) and not node.args.get("is_string")
    return number and node.this.isdecimal()


def condition(node: Node, sql: str) -> str:
    """Return a condition, as it was written, that is true, false or NULL.

    DuckDB would cast any other value itself, where no TRY is around it.
    """
    plain = isinstance(node.unnest(), exp.Connector | exp.Not | exp.Predicate | exp.Boolean)
    return sql if plain else f"CAST({sql} AS BOOLEAN)"


_SIGNS: dict[type[Node], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
    exp.Pow: "**", exp.DPipe: "||", exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=",
    exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM", exp.And: "AND", exp.Or: "OR",
    exp.SimilarTo: "SIMILAR TO", exp.RegexpLike: "~", exp.RegexpFullMatch: "~", exp.Glob: "GLOB",
    exp.StartsWith: "^@",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}  # fmt: skip

OPERATORS: dict[type[Node], Rule] = {
    **{kind: _operator(sign) for kind, sign in _SIGNS.items()},
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.Not: _not,
    exp.Neg: prefix("(-(", "))"),
    exp.BitwiseNot: prefix("(~(", "))"),
    exp.Abs: prefix("(@(", "))"),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like("LIKE"),
    exp.ILike: _like("ILIKE"),
    exp.Escape: _escape,
    exp.Array: _array,
    exp.Bracket: _element,
}
