"""Rewrite refused statements as others that the rules know, with the same answer.

The rules vet the rewritten statement like any other. A wrong rewrite can answer another question,
and can't release a row. docs/how-to/dfp-sql.md lists the rewrites with their proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dfprivacy.engine.embedded import embedded
from dfprivacy.statements.expressions import conjuncts
from dfprivacy.statements.functions import AGGREGATES
from dfprivacy.statements.names import holds_aggregates
from dfprivacy.statements.rewrites import (
    fill_template,
    read_query,
    read_template,
    select_item,
)
from dfprivacy.statements.rules import Node
from dfprivacy.statements.tree import (
    called,
    folded,
    fresh,
    is_column,
    kind,
    literal,
    nodes,
    own_nodes,
    plain,
    text_of_query,
)

_CLAUSES = ("select_list", "having", "modifiers")
_PRESENT = "FILTER (WHERE x IS NOT NULL)"
_BY_VALUE = {
    ("mode", 1): f"arg_max(x, n) {_PRESENT}",
    ("any_value", 1): f"arg_max(x, n) {_PRESENT}",
    ("histogram", 1): f"map(list(x ORDER BY x) {_PRESENT}, list(n ORDER BY x) {_PRESENT})",
    ("approx_top_k", 2): f"list_slice(list(x ORDER BY n DESC, x) {_PRESENT}, 1, k)",
}
"""Aggregates over single values x, as functions of the released counts n of the values."""


def find_alternative(select: Node) -> Node | None:
    """Return a statement with the same answer as a refused one, or None."""
    select = plain(select)
    if kind(select) != ("", "SELECT_NODE"):
        return None
    other = _count_distinct_rows(select) or _group_by_value(select) or select
    other = _release_correlated(other)
    return None if other == select else dict(other)


def _name_item(node: Node) -> str:
    """Return the name that DuckDB gives an item of a SELECT list."""
    if node["alias"] or is_column(node):
        return str(node["alias"] or node["column_names"][-1])
    with embedded(idle=True) as engine:
        return text_of_query(select_item(node), engine).removeprefix("SELECT ")


def _wrap_query(query: Node, items: Sequence[Node], name: str) -> Node:
    """Return SELECT items FROM (query) AS name."""
    outer = read_query(f"SELECT 1 FROM (SELECT 1) AS {name}")  # noqa: S608 ours
    source = outer["from_table"]
    inner = {**source["subquery"], "node": query}
    return {**outer, "select_list": [*items], "from_table": {**source, "subquery": inner}}


def _replace_nodes(tree: Any, replacements: Sequence[tuple[Node, Node]]) -> Any:
    """Return a tree in which nodes stand in place of equal ones; subqueries stay."""
    if isinstance(tree, list):
        return [_replace_nodes(part, replacements) for part in tree]
    if not isinstance(tree, dict):
        return tree
    for node, replacement in replacements:
        if {**tree, "alias": ""} == {**node, "alias": ""}:
            return {**replacement, "alias": tree.get("alias", "")}
    return {
        name: part if name == "subquery" else _replace_nodes(part, replacements)
        for name, part in tree.items()
    }


def _replace_clauses(select: Node, replacements: Sequence[tuple[Node, Node]]) -> Node:
    """Return the clauses over groups with other nodes; items keep their names."""
    clauses = {name: _replace_nodes(select[name], replacements) for name in _CLAUSES}
    items = zip(clauses["select_list"], select["select_list"], strict=True)
    return {**clauses, "select_list": [{**item, "alias": _name_item(was)} for item, was in items]}


def _list_aggregates(select: Node) -> list[Node]:
    return [
        node
        for clause in _CLAUSES
        for node in own_nodes(select[clause])
        if called(node) in AGGREGATES
    ]


def _is_bare(call: Node) -> bool:
    """Check for an aggregate without DISTINCT, FILTER and ORDER BY."""
    return not (call["distinct"] or call["filter"] or call["order_bys"]["orders"])


def _list_keys(select: Node) -> list[Node] | None:
    """Return the expressions of GROUP BY; None for grouping sets and wrong places."""
    items = select["select_list"]
    if select["aggregate_handling"] == "FORCE_AGGREGATES":
        return [item for item in items if not holds_aggregates(item)]
    if len(select["group_sets"]) > 1:
        return None
    aliases = {folded(item["alias"]): item for item in items if item["alias"]}
    keys = []
    for node in select["group_expressions"]:
        text = literal(node)[1]
        if text and not (text.isdecimal() and 1 <= int(text) <= len(items)):
            return None
        by_name = folded(node["column_names"][-1]) if is_column(node) else ""
        keys.append(items[int(text) - 1] if text else aliases.get(by_name, node))
    return keys


def _group_by_value(select: Node) -> Node | None:
    """Return a SELECT of modes and the like as one over the counts of single values."""
    calls, keys = _list_aggregates(select), _list_keys(select)
    operands = [[item["expression"] for item in call["arguments"]] for call in calls]
    for call, parts in zip(calls, operands, strict=True):
        if (called(call), len(parts)) not in _BY_VALUE or not _is_bare(call):
            return None
    if not calls or keys is None or select["qualify"]:
        return None
    value = operands[0][0]
    if any(parts[0] != value for parts in operands):
        return None
    names: list[str] = []
    for node in (*keys, value):
        names.append(fresh(_name_item(node), [*names, "n"]))
    columns = [_column(name) for name in names]
    counted = [{**key, "alias": name} for key, name in zip([*keys, value], names, strict=True)]
    count = {**read_template("count(*)"), "alias": "n"}
    inner = _group_all(select, [*counted, count])
    replacements = list(zip(keys, columns, strict=False))
    for call, parts in zip(calls, operands, strict=True):
        template = read_template(_BY_VALUE[called(call), len(parts)])
        values = {"x": columns[-1], "n": _column("n"), "k": parts[-1]}
        replacements.append((call, fill_template(template, values)))
    outer = _wrap_query(inner, [], "counts")
    sets = [list(range(len(keys)))] if keys else []
    clauses = _replace_clauses(select, replacements)
    return {**outer, **clauses, "group_expressions": columns[:-1], "group_sets": sets}


def _group_all(select: Node, items: Sequence[Node]) -> Node:
    """Return a SELECT of other items, grouped by those without aggregates."""
    names = ("group_expressions", "group_sets", "modifiers")
    clauses: Node = {name: [] for name in names}
    clauses |= {"having": None, "aggregate_handling": "FORCE_AGGREGATES"}
    return {**select, **clauses, "select_list": [*items]}


def _column(name: str) -> Node:
    return {**read_template("x"), "column_names": [name]}


def _count_distinct_rows(select: Node) -> Node | None:
    """Return count(*) over SELECT DISTINCT as the number of different values."""
    source = select["from_table"]
    if kind(source) != ("", "SUBQUERY") or select["where_clause"] or select["group_expressions"]:
        return None
    inner, calls = source["subquery"]["node"], _list_aggregates(select)
    if kind(inner) != ("", "SELECT_NODE") or not calls or holds_aggregates(inner["select_list"]):
        return None
    if any(called(call) != "count_star" or not _is_bare(call) for call in calls):
        return None
    modifiers, items = inner["modifiers"], inner["select_list"]
    is_distinct = [part["type"] for part in modifiers] == ["DISTINCT_MODIFIER"]
    stars = any(kind(item)[0] == "STAR" for item in items)
    if not is_distinct or modifiers[0].get("distinct_on_targets") or stars or _is_grouped(inner):
        return None
    names = [f"value_{index}" for index in range(len(items))]
    chosen = [{**item, "alias": name} for item, name in zip(items, names, strict=True)]
    inner = {**inner, "modifiers": [], "select_list": chosen}
    count = read_template("count(DISTINCT hash(x))")
    hashed = count["arguments"][0]["expression"]
    operands = [{"name": "", "expression": _column(name)} for name in names]
    count = {**count, "arguments": [{"name": "", "expression": {**hashed, "arguments": operands}}]}
    source = {**source, "subquery": {**source["subquery"], "node": inner}}
    return {**select, **_replace_clauses(select, [(calls[0], count)]), "from_table": source}


def _is_grouped(select: Node) -> bool:
    by_all = select["aggregate_handling"] == "FORCE_AGGREGATES"
    return by_all or bool(select["group_expressions"] or select["having"] or select["qualify"])


def _release_correlated(tree: Any) -> Any:
    """Return a tree in which correlated aggregates are taken from groups that are released."""
    if isinstance(tree, list):
        return [_release_correlated(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    node = {name: _release_correlated(part) for name, part in tree.items()}
    return _by_keys(node) if kind(node) == ("SUBQUERY", "SUBQUERY") else node


def _by_keys(node: Node) -> Node:
    """Return a scalar subquery that reads its value from groups by what it is compared with."""
    select = node["subquery"]["node"]
    if node["subquery_type"] != "SCALAR" or kind(select) != ("", "SELECT_NODE"):
        return node
    items, where = select["select_list"], select["where_clause"]
    counts = any(called(part).startswith("count") for part in nodes(items))
    if len(items) != 1 or not holds_aggregates(items) or counts or _is_grouped(select) or not where:
        return node
    tables = [part for part in nodes(select["from_table"]) if "table_name" in part]
    inside = {folded(table["alias"] or table["table_name"]) for table in tables}
    parts = [(part, _split_equality(part, inside)) for part in conjuncts(where)]
    pairs = [pair for _, pair in parts if pair is not None]
    others = [part for part, pair in parts if pair is None]
    if not pairs or select["modifiers"] or any(_names_others(part, inside) for part in others):
        return node
    names = [f"key_{index}" for index in range(len(pairs))]
    keys = [{**mine, "alias": name} for (mine, _), name in zip(pairs, names, strict=True)]
    grouped = _group_all(select, [*keys, {**items[0], "alias": "value"}])
    grouped["where_clause"] = _join_conditions(others)
    equal = [
        fill_template(read_template("a = b"), {"a": _column(name), "b": other})
        for (_, other), name in zip(pairs, names, strict=True)
    ]
    query = _wrap_query(grouped, [read_template("any_value(value)")], "by_keys")
    query = {**query, "where_clause": _join_conditions(equal)}
    return {**node, "subquery": {**node["subquery"], "node": query}}


def _names_others(node: Node, inside: set[str]) -> bool:
    """Check for a qualified column of a table that a subquery does not name."""
    columns = [part["column_names"] for part in nodes(node) if is_column(part)]
    return any(len(names) > 1 and folded(names[-2]) not in inside for names in columns)


def _split_equality(node: Node, inside: set[str]) -> tuple[Node, Node] | None:
    """Return the sides of an equality with a column around the subquery, which comes second."""
    if kind(node) != ("COMPARISON", "COMPARE_EQUAL"):
        return None
    sides = sorted((node["left"], node["right"]), key=lambda side: _names_others(side, inside))
    outer = [_names_others(side, inside) for side in sides]
    return (sides[0], sides[1]) if outer == [False, True] and is_column(sides[1]) else None


def _join_conditions(conditions: Sequence[Node]) -> Node | None:
    if len(conditions) < 2:
        return next(iter(conditions), None)
    return {**read_template("a AND b"), "children": [*conditions]}
