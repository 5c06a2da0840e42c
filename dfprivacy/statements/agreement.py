"""Two parsers agree on a query: what is planned is what DuckDB itself reads in the text.

sqlglot reads the text, this package writes the query anew from the tree, and DuckDB parses both
texts. Where the two trees differ, the text means something else to DuckDB than to this package.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import duckdb

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.casts import SPELLINGS
from dfprivacy.statements.display import as_written
from dfprivacy.statements.grammar import Parsed

_PLACES = {"query_location", "query_location_length", "location", "qualified_name", "is_operator"}
_NEGATED = {
    "~~": "!~~", "~~*": "!~~*", "like_escape": "not_like_escape", "ilike_escape": "not_ilike_escape"
}  # fmt: skip
_ALIKE = {"^": "**"}
_ORDER = {"ORDER_DEFAULT": "ASCENDING"}


def check_agreement(parsed: Parsed, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a query that DuckDB reads otherwise than it was planned.

    Raises
    ------
    RefusedStatementError
        When DuckDB can't parse it, or parses it into another tree.
    """
    select = parsed.tree.args.get("expression", parsed.tree)
    ours, theirs = _read(as_written(select), parsed.query, connection)
    if theirs is None:
        raise RefusedStatementError(
            "DuckDB can't parse the statement",
            hint="try it in DuckDB with avg and count in place of dp_mean and dp_count",
        )
    if ours != theirs:
        raise RefusedStatementError(
            "the statement means something else to DuckDB than to the planner",
            hint="write parentheses around operators, and plain numbers and names",
        )


_READ = "SELECT json_serialize_sql(?::VARCHAR), json_serialize_sql(?::VARCHAR)"


def _read(ours: str, theirs: str, connection: duckdb.DuckDBPyConnection) -> list[Any]:
    """Return DuckDB's trees of two texts; None for one that it can't parse."""
    (row,) = connection.execute(_READ, [ours, theirs]).fetchall()
    trees = map(json.loads, row)
    return [None if tree["error"] else _plain(tree["statements"]) for tree in trees]


def _plain(tree: Any) -> Any:
    """Return a tree without what does not matter: places, spellings of the same."""
    if isinstance(tree, list):
        return [_plain(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "CONSTANT":
        return _constant(tree)
    if tree.get("class") == "TYPE":
        return _type(tree)
    return _same({key: _plain(value) for key, value in tree.items() if key not in _PLACES})


def _type(tree: dict[str, Any]) -> tuple[str, list[str]]:
    """Return a type that is cast to: its one name, and its digits; text has any length."""
    name = tree["type_name"].upper()
    name = SPELLINGS.get(name, name)
    if name != "DECIMAL":
        return name, []
    return name, [_constant(digits)["constant"] for digits in tree["children"]] or ["18", "3"]


def _constant(tree: dict[str, Any]) -> Any:
    literal = tree.get("literal") or tree.get("value")
    text = literal.get("text", literal.get("value")) if isinstance(literal, dict) else literal
    scale = 0
    if isinstance(literal, dict) and isinstance(literal.get("type"), dict):
        scale = (literal["type"].get("type_info") or {}).get("scale", 0)
    try:
        value = Decimal(str(text).replace("_", "")).scaleb(-scale).normalize()
    except InvalidOperation:
        return {"constant": str(text), "alias": tree.get("alias")}
    return {"constant": str(value), "alias": tree.get("alias")}


def _same(tree: dict[str, Any]) -> Any:
    """Return one of several trees that mean the same."""
    if "null_order" in tree:
        nulls = tree["null_order"].replace("_", " ").replace("ORDER DEFAULT", "NULLS LAST")
        return {**tree, "null_order": nulls, "type": _ORDER.get(tree["type"], tree["type"])}
    if tree.get("type") == "OPERATOR_NOT":
        return _negated(tree)
    if "function_name" not in tree:
        return tree
    name = _ALIKE.get(tree["function_name"], tree["function_name"])
    arguments = tree.get("arguments")
    given = [item["expression"] for item in arguments] if arguments else tree.get("children", [])
    signed = _signed(name, given, tree.get("alias"))
    return {**tree, "function_name": name} if signed is None else signed


def _signed(name: str, given: list[Any], alias: Any) -> Any:
    """Return what a sign before one operand makes of it, where that is plain."""
    if len(given) != 1 or name not in {"+", "-"}:
        return None
    if name == "+":
        return {**given[0], "alias": alias}
    number = given[0].get("constant")
    if number is None or number[:1] in "-'":
        return None
    return {"constant": f"-{number}", "alias": alias}


def _negated(tree: dict[str, Any]) -> Any:
    (inner,) = tree["children"]
    sign = _NEGATED.get(inner.get("function_name", ""))
    if sign is None:
        return tree
    return {**inner, "function_name": sign, "alias": tree.get("alias")}
