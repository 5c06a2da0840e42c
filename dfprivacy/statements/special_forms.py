"""How calls with a syntax of their own are written: CASE, CAST, EXTRACT, INTERVAL and the like."""

from __future__ import annotations

from sqlglot import exp

from dfprivacy.statements.casts import type_name
from dfprivacy.statements.dates import check_part
from dfprivacy.statements.operators import Inner, Node, Rule, prefix
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only, refuse


def _case(node: Node, inner: Inner) -> str:
    only(node, "this", "ifs", "default")
    subject = f" {inner(node.this)}" if node.this else ""
    branches = "".join(_branch(branch, inner) for branch in node.args["ifs"])
    default = node.args.get("default")
    end = "" if default is None else f" ELSE {inner(default)}"
    return f"CASE {subject}{branches}{end} END"


def _branch(node: Node, inner: Inner) -> str:
    only(node, "this", "true")
    return f" WHEN ({inner(node.this)}) THEN ({inner(node.args['true'])})"


def _if(node: Node, inner: Inner) -> str:
    only(node, "this", "true", "false")
    parts = [node.this, node.args["true"], node.args.get("false") or exp.Null()]
    return f"if({', '.join(inner(part) for part in parts)})"


def _cast(word: str) -> Rule:
    def rule(node: Node, inner: Inner) -> str:
        only(node, "this", "to", "safe")
        return f"{word}({inner(node.this)} AS {type_name(node.args['to'])})"

    return rule


def _interval(node: Node, inner: Inner) -> str:
    only(node, "this", "unit")
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal):
        raise Refusal(
            "an interval that is no constant",
            "it is not on the list of what is known to be safe",
            "use a function: d + to_days(x)",
        ).error()
    text = inner(exp.Literal.string(node.this.this))
    return f"INTERVAL {text}" if unit is None else f"INTERVAL {text} {_unit(unit)}"


def _unit(node: Node) -> str:
    if not isinstance(node, exp.Var):
        raise refuse("part of a date")
    check_part(node.name)
    return node.name.upper()


def _extract(node: Node, inner: Inner) -> str:
    only(node, "this", "expression")
    return f"EXTRACT({_unit(node.this)} FROM {inner(node.expression)})"


def _substring(node: Node, inner: Inner) -> str:
    only(node, "this", "start", "length")
    given = [node.this, node.args.get("start"), node.args.get("length")]
    return f"substring({', '.join(inner(part) for part in given if part is not None)})"


def _trim(node: Node, inner: Inner) -> str:
    only(node, "this", "expression", "position")
    word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    given = [node.this, node.args.get("expression")]
    return f"{word}({', '.join(inner(part) for part in given if part is not None)})"


def _position(node: Node, inner: Inner) -> str:
    only(node, "this", "substr")
    return f"position({inner(node.args['substr'])} IN {inner(node.this)})"


SPECIAL_FORMS: dict[type[Node], Rule] = {
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast("CAST"),
    exp.TryCast: _cast("TRY_CAST"),
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Ceil: prefix("ceil(", ")"),
    exp.Floor: prefix("floor(", ")"),
}
