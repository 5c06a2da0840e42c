"""Rewrite constructs of a statement by others that the rules know, before the rules read them.

The rules vet whatever comes out. So a wrong rewrite can answer another question, and can't release
a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from dfprivacy.engine.embedded import embedded
from dfprivacy.statements.rules import Node, refuse
from dfprivacy.statements.tree import called, folded, is_column, parse, plain, text_of

CLOCK: ContextVar[datetime] = ContextVar("clock")
"""The time at which a statement is planned: all of it sees the same one."""
_CLOCKS = {
    **dict.fromkeys(("today", "current_date"), "DATE"),
    **dict.fromkeys(
        ("now", "current_timestamp", "get_current_timestamp", "transaction_timestamp"),
        "TIMESTAMPTZ",
    ),
    **dict.fromkeys(
        ("localtimestamp", "current_localtimestamp"), "TIMESTAMP"
    ),
}  # fmt: skip
"""Names of the current date and time, and the type of each."""

_MACROS = {
    ("iff", 3): "if(a, b, c)",
    ("geomean", 1): "exp(avg(ln(a)))",
    ("width_bucket", 4): "CASE WHEN a < b THEN 0 WHEN a >= c THEN d + 1 "
    "ELSE CAST(floor((a - b) * d / (c - b)) AS INTEGER) + 1 END",
    ("to_timestamp", 1): "TIMESTAMPTZ '1970-01-01 00:00:00+00' + "
    "to_microseconds(CAST(round(a * 1000000) AS BIGINT))",
    ("to_timestamp", 2): "strptime(a, b)",
    ("to_date", 2): "CAST(strptime(a, b) AS DATE)",
    ("to_char", 2): "strftime(a, b)",
}
"""Functions, with their number of arguments, by what computes the same."""
_FORMATTED = frozenset(("to_timestamp", "to_date", "to_char"))
_FORMATS = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "Mon": "%b", "DDD": "%j", "DD": "%d", "HH24": "%H",
    "HH12": "%I", "MI": "%M", "SS": "%S", "AM": "%p",
}  # fmt: skip
"""Parts of a date's format as Postgres and as DuckDB write them."""
_FORMAT = re.compile(rf"{'|'.join(_FORMATS)}|[^A-Za-z%]+")


def rewrite(tree: Any) -> Any:
    """Return a tree that consists of constructs that the rules know."""
    if isinstance(tree, list):
        return [rewrite(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    node: Node = {name: rewrite(part) for name, part in tree.items()}
    if is_column(node) and len(node["column_names"]) == 1:
        sort = _CLOCKS.get(folded(node["column_names"][0]))
        return {**node, "clock": _read_clock(sort)} if sort else node
    name = called(node)
    if not name:
        return node
    operands = [item["expression"] for item in node["arguments"]]
    if name in _CLOCKS and not operands:
        result = read_template(_read_clock(_CLOCKS[name]))
    elif (name, len(operands)) in _MACROS:
        result = _expand(name, operands, node)
    elif node["distinct"] and len(operands) == 1 and called(operands[0]) == "row":
        result = {**node, "arguments": [{"name": "", "expression": _renamed(operands[0], "hash")}]}
    else:
        return node
    return {**result, "alias": node["alias"]}


def _renamed(node: Node, name: str) -> Node:
    return {**node, "function_name": name, "qualified_name": {"path": [name]}}


def _read_clock(sort: str) -> str:
    """Return the SQL of the time of the statement, by the time zone of the session for dates."""
    now = f"{CLOCK.get(datetime.now(UTC)):%Y-%m-%d %H:%M:%S.%f}+00"
    if sort != "TIMESTAMPTZ":
        with embedded(idle=True) as engine:
            query = f"SELECT CAST(CAST(CAST(? AS TIMESTAMPTZ) AS {sort}) AS VARCHAR)"
            ((now,),) = engine.execute(query, [now]).fetchall()
    return f"CAST('{now}' AS {sort})"


@lru_cache(64)
def read_template(sql: str) -> Node:
    """Return the tree of an expression."""
    with embedded(idle=True) as engine:
        _, select = parse(f"SELECT {sql}", engine)
    (node,) = select["select_list"]
    assert isinstance(node, dict)  # noqa: S101 as DuckDB has it
    return node


def read_query(sql: str) -> Node:
    """Return a tree of a query, without places, that may be changed."""
    node: Node = plain(read_template(f"({sql})")["subquery"]["node"])
    return node


def select_all(name: str) -> Node:
    """Return SELECT * FROM a table."""
    query = read_query("SELECT * FROM t")
    query["from_table"] |= {"table_name": name, "qualified_name": {"path": [name]}}
    return query


def select_item(expression: Node) -> Node:
    """Return SELECT of one expression over nothing."""
    return {**read_query("SELECT 1"), "select_list": [expression]}


def _expand(name: str, operands: list[Node], call: Node) -> Any:
    """Return the expression of a macro over the arguments of a call."""
    if name in _FORMATTED and len(operands) == 2:
        operands = [operands[0], _with_format(operands[1])]
    return fill_template(
        read_template(_MACROS[name, len(operands)]), dict(zip("abcd", operands, strict=False)), call
    )


def fill_template(tree: Any, values: Mapping[str, Node], call: Node | None = None) -> Any:
    """Return a template with arguments in it; its aggregate takes the FILTER of the call."""
    if isinstance(tree, list):
        return [fill_template(part, values, call) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if is_column(tree):
        return values[tree["column_names"][0]]
    node = {name: fill_template(part, values, call) for name, part in tree.items()}
    if call is None or called(node) != "avg":
        return node
    return {**node, **{part: call[part] for part in ("filter", "distinct", "order_bys")}}


def _with_format(node: Node) -> Node:
    """Return a constant format of dates as DuckDB writes it."""
    text = text_of(node)
    if text is None or "%" in text:
        return node
    if _FORMAT.sub("", text):
        raise refuse("format of dates")
    written = _FORMAT.sub(lambda part: _FORMATS.get(part[0], part[0]), text)
    return {**node, "literal": {"kind": "STRING", "text": written}}
