"""Refuse what is not known to be safe, by the rules of the registry.

A syntax node of DuckDB's that no rule knows is refused by its kind, a known one by the name of the
part that its rule does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.rules import REFUSALS

Node = dict[str, Any]

_SILENT = frozenset({"class", "type", "alias", "query_location", "query_location_length",
                     "qualified_name", "is_operator", "written", "given", "inner"})  # fmt: skip
_NOTHING: tuple[Node, ...] = ({"map": []}, {"type": "ORDER_MODIFIER", "orders": []})


def only(node: Node, *parts: str) -> None:
    """Refuse a syntax node that has any other part than those named.

    Raises
    ------
    RefusedStatementError
        For the first part that is not known to be safe.
    """
    for part, value in node.items():
        if part not in _SILENT and part not in parts and value and value not in _NOTHING:
            raise refuse_part(part)


def refuse(rule: str, /, **words: object) -> RefusedStatementError:
    """Return the error of a rule of the registry, with words of the statement in it."""
    return REFUSALS[rule].error(**words)


def refuse_part(name: str) -> RefusedStatementError:
    """Return the error for a part of a syntax node, or for a kind of one, that no rule may know."""
    if name in REFUSALS:
        return refuse(name)
    return refuse("unlisted", part=name if " " in name else name.upper().replace("_", " "))


def nearly(name: str, known: Collection[str], shown: Callable[[str], str] = repr) -> str:
    """Return the start of a hint: the name that was meant, if one is close to what was written."""
    close = get_close_matches(name.lower(), {one.lower(): one for one in known}, 1, 0.6)
    found = next((one for one in known if close and one.lower() == close[0]), None)
    return "" if found is None else f"did you mean {shown(found)}? "


def refuse_node(node: Node) -> RefusedStatementError:
    """Return the error for a syntax node without a rule."""
    kind = "WINDOW" if node.get("class") == "WINDOW" else str(node.get("type"))
    part = {"SUBQUERY": "subquery_type", "SET_OPERATION_NODE": "setop_type", "STAR": "columns"}
    name = f"{kind}:{node[part[kind]]}" if part.get(kind) in node else kind
    return refuse_part(name if name in REFUSALS else kind)


def refused_statement(word: str) -> RefusedStatementError:
    """Return the error for a statement that is neither a query nor makes a table of one."""
    described = word.upper() in {"SUMMARIZE", "DESCRIBE"}
    return refuse("SUMMARIZE" if described else "no query", word=word.upper())
