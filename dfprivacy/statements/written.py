"""Add up what a text costs on a connection itself, where each dp_ call that it writes pays.

`sql_udfs.register` gives a connection functions that can't see one another: two calls of one column
with the same bounds are two draws there, and one in `dfp.sql`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.accounting.loss import Epsilon, delta_of
from dfprivacy.statements.calls import KEEP, read_call, read_keep
from dfprivacy.statements.expressions import display, is_dp
from dfprivacy.statements.refusals import Node
from dfprivacy.statements.tree import called, kind

_ONCE = frozenset(
    [("OPERATOR", f"OPERATOR_{name}") for name in ("NOT", "COALESCE")]
    + [("OPERATOR", "STRUCT_EXTRACT"), ("OPERATOR", "ARRAY_EXTRACT"), ("CAST", "OPERATOR_CAST")]
    + [("CONJUNCTION", "CONJUNCTION_AND"), ("CONJUNCTION", "CONJUNCTION_OR")]
    + [("COMPARISON", f"COMPARE_{name}") for name in (
        "EQUAL", "NOTEQUAL", "LESSTHAN", "LESSTHANOREQUALTO", "GREATERTHAN", "GREATERTHANOREQUALTO"
    )]
    + [("BETWEEN", "COMPARE_BETWEEN")]
)  # fmt: skip
_PLAIN = frozenset(("+", "-", "*", "/", "round", "abs", "floor", "ceil", "sqrt", "isnan"))
"""What DuckDB evaluates as often as it is written."""


@dataclass(frozen=True)
class Written:
    """A dp_ call as it is written: the epsilon that it names, if any, and its delta."""

    epsilon: Epsilon | None
    delta: Fraction = Fraction(0)


def written_calls(select: Node, items: Sequence[tuple[str, Node]]) -> tuple[Written, ...] | None:
    """Return the calls that DuckDB draws, at most once each; None where it may draw one again.

    An expression of ORDER BY that the SELECT list has too is drawn with that.
    """
    orders = [item for one in select["modifiers"] for item in one.get("orders", ())]
    chosen = {display(item) for _, item in items}
    sorts = [item["expression"] for item in orders if kind(item["expression"])[0] != "STAR"]
    others = [node for node in sorts if display(node) not in chosen]
    found = list(_calls([[item for _, item in items], select["having"], others], once=True))
    if not all(once for _, once in found):
        return None
    return tuple(_read(node) for node, _ in found)


def _calls(tree: object, *, once: bool) -> Iterator[tuple[Node, bool]]:
    """Yield the dp_ calls of a tree, each with whether it is evaluated as it is written."""
    if isinstance(tree, list):
        for part in tree:
            yield from _calls(part, once=once)
    elif is_dp(tree):
        assert isinstance(tree, dict)  # noqa: S101 a call is a node
        yield tree, once
    elif isinstance(tree, dict):
        plain = "class" not in tree or kind(tree) in _ONCE or called(tree) in _PLAIN
        for part in tree.values():
            yield from _calls(part, once=once and plain)


def _read(node: Node) -> Written:
    if called(node) == KEEP:
        delta, epsilon = read_keep(node)
        return Written(epsilon, delta_of(delta) or Fraction(0))
    return Written(read_call(node, lambda _: "x", lambda _: "x").epsilon)


def cost_of(calls: Sequence[Written], default: Fraction) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of all calls, where those that name none spend the default."""
    epsilons = (default if own.epsilon is None else own.epsilon.value for own in calls)
    deltas = (own.delta for own in calls)
    return sum(epsilons, start=Fraction(0)), sum(deltas, start=Fraction(0))
