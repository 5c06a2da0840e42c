"""Read ordinary aggregates as the private questions that they are: AVG(x) as dp_mean(x).

Each statistic names the aggregates that it answers (`Statistic.sql_names`). FILTER (WHERE ...)
behind any call is CASE: rows that do not fulfil it have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dfprivacy.statements.composing import own_nodes
from dfprivacy.statements.expressions import condition, display, is_dp
from dfprivacy.statements.refusals import Node, only
from dfprivacy.statements.tree import called, kind, shown
from dfprivacy.statistics import STATISTICS
from dfprivacy.statistics.forms import forms_of

_CLAUSES = ("select_list", "having", "qualify", "modifiers")


def aggregates() -> Mapping[str, str]:
    """Return the kinds of statistics by the ordinary aggregates that they answer.

    >>> aggregates()["avg"], aggregates()["count_star"]
    ('mean', 'count')
    """
    named = {name: own for own in STATISTICS.values() for name in own.sql_names if forms_of(own)}
    counts = dict.fromkeys(("count_star", "count_if", "countif"), "count")
    return {name: own.kind for name, own in named.items()} | counts


def private(select: Node, *, ordinary: bool) -> Node:
    """Return a SELECT whose aggregates are dp_ calls; ordinary ones where they mean these.

    Raises
    ------
    RefusedStatementError
        For a part of a call that has no private form.
    """
    known = aggregates() if ordinary else {}
    return {
        name: _within(part, known) if name in _CLAUSES else part for name, part in select.items()
    }


def has_aggregates(select: Node) -> bool:
    """Tell a SELECT that has ordinary aggregates with a private form among its own expressions."""
    known = aggregates()
    return kind(select) == ("", "SELECT_NODE") and any(
        _name(node) in known for part in _CLAUSES for node in own_nodes(select[part])
    )


def with_intervals(items: Sequence[tuple[str, Node]]) -> list[tuple[str, Node]]:
    """Return the items of a SELECT list, each answer followed by the ends of its interval."""
    found: list[tuple[str, Node]] = []
    kinds = {f"dp_{name}": own for own in STATISTICS.values()
             for name in (own.kind, *own.sql_aliases)}  # fmt: skip
    for name, node in items:
        found.append((name, node))
        own = kinds.get(called(node))
        if own is not None and own.has_interval:
            found += [(f"{name}_{end}", _end_of(node, end)) for end in ("low", "high")]
    return found


def _within(tree: Any, known: Mapping[str, str]) -> Any:
    if isinstance(tree, list):
        return [_within(part, known) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if is_dp(tree) or _name(tree) in known:
        return _asked(tree, known)
    return {
        name: part if name == "subquery" else _within(part, known) for name, part in tree.items()
    }


def _name(node: Node) -> str:
    name = called(node)
    return f"{name}_distinct" if name and node["distinct"] else name


def _asked(node: Node, known: Mapping[str, str]) -> Node:
    """Return an aggregate as a dp_ call, with the text by which DuckDB would name it."""
    kept, own = node["filter"], dict(node)
    if not is_dp(node):
        own = _unordered(own)
        own |= {"function_name": f"dp_{_kind(own, known)}", "distinct": False}
        own["written"] = _text(node, display)
        if called(node) in {"count_if", "countif"} and len(own["arguments"]) == 1:
            own["arguments"] = _chosen([], own["arguments"][0]["expression"])
    if kept is not None:
        own |= {"filter": None, "written": _text(node, display)}
        own["arguments"] = _chosen(own["arguments"], kept)
    return own


def _kind(node: Node, known: Mapping[str, str]) -> str:
    """Return the kind of the statistic that answers an aggregate; several fractions are a list."""
    found = known[_name(node)]
    last = node["arguments"][-1]["expression"] if node["arguments"] else None
    return "quantiles" if found == "quantile" and called(last) == "list_value" else found


def _unordered(node: Node) -> Node:
    """Return quantile_cont(0.5) WITHIN GROUP (ORDER BY x) as quantile_cont(x, 0.5)."""
    orders = node["order_bys"]["orders"]
    if len(orders) != 1 or orders[0]["type"] == "DESCENDING":
        return node
    only(orders[0], "expression", "null_order")
    first = {"name": "", "expression": orders[0]["expression"]}
    empty = {"type": "ORDER_MODIFIER", "orders": []}
    return {**node, "order_bys": empty, "arguments": [first, *node["arguments"]]}


def _chosen(given: Sequence[Node], kept: Node) -> list[Node]:
    """Return the arguments of a call, the first one only where a condition is fulfilled."""
    row = {"name": "", "expression": _constant("INTEGER", "1")}
    first, *others = given or [row]
    check = {"when_expr": kept, "then_expr": first["expression"]}
    case = {"class": "CASE", "type": "CASE_EXPR", "alias": "", "case_checks": [check],
            "else_expr": _constant("NULL_LITERAL", "")}  # fmt: skip
    return [{**first, "expression": case}, *others]


def _constant(sort: str, text: str) -> Node:
    literal = {"kind": sort, "text": text} if text else {"kind": sort}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": literal}


def _end_of(call: Node, end: str) -> Node:
    """Return one end of the interval of a call."""
    name = called(call)
    interval = {**call, "function_name": f"{name}_interval", "alias": ""}
    return {"class": "OPERATOR", "type": "STRUCT_EXTRACT", "alias": "",
            "children": [interval, _constant("STRING", end)]}  # fmt: skip


def _text(node: Node, written: Callable[[Node], str]) -> str:
    """Return a call as DuckDB would name its column."""
    stars = [item for item in node["arguments"] if kind(item["expression"]) == ("STAR", "STAR")]
    given = [written(item["expression"]) for item in node["arguments"] if item not in stars]
    orders = node["order_bys"]["orders"]
    ordered = f" ORDER BY {written(orders[0]['expression'])}" if orders else ""
    where = node["filter"]
    kept = "" if where is None else f" FILTER (WHERE {condition(where, written(where))})"
    distinct = "DISTINCT " if node["distinct"] else ""
    return f"{shown(called(node))}({distinct}{', '.join(given)}{ordered}){kept}"
