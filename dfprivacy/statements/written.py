"""Add up what a text costs on a connection itself, where each dp_ call that it writes pays.

`sql_udfs.register` gives a connection functions that can't see one another: two calls of one column
with the same bounds are two draws there, and one in `dfp.sql`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dfprivacy.accounting.loss import Epsilon, delta_of
from dfprivacy.statements.calls import KEEP, is_dp, read_call, read_keep
from dfprivacy.statements.expressions import call_name

_ONCE = (
    exp.Alias, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Not, exp.And, exp.Or,
    exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between, exp.Cast, exp.TryCast, exp.Dot,
    exp.Bracket, exp.Ordered,
)  # fmt: skip
_PLAIN = ("round", "abs", "floor", "ceil", "sqrt", "coalesce", "isnan")
_CLAUSES = (exp.Select, exp.Having, exp.Order)
"""What DuckDB evaluates as often as it is written, and where a clause ends."""


@dataclass(frozen=True)
class Written:
    """A dp_ call as it is written: the epsilon that it names, if any, and its delta."""

    epsilon: Epsilon | None
    delta: Fraction = Fraction(0)


def written_calls(
    select: exp.Expression, items: Sequence[tuple[str, exp.Expression]]
) -> tuple[Written, ...] | None:
    """Return the calls that DuckDB draws, at most once each; None where it may draw one again.

    An expression of ORDER BY that the SELECT list has too is drawn with that.
    """
    calls = [node for node in select.find_all(exp.Anonymous) if is_dp(node)]
    if not all(map(_evaluated_once, calls)):
        return None
    return tuple(_read(node) for node in calls if not _sorts_by(node, [own for _, own in items]))


def _evaluated_once(node: exp.Expression) -> bool:
    return all(
        isinstance(one, _ONCE) or (isinstance(one, exp.Anonymous) and call_name(one) in _PLAIN)
        for one in _around(node)
    )


def _around(node: exp.Expression) -> Iterator[Any]:
    """Yield the nodes around a call, up to its clause."""
    around = node.parent
    while around is not None and not isinstance(around, _CLAUSES):
        yield around
        around = around.parent


def _sorts_by(node: exp.Expression, items: Iterable[exp.Expression]) -> bool:
    """Tell whether a call is in an item of ORDER BY that is in the SELECT list."""
    return any(isinstance(one, exp.Ordered) and one.this.unnest() in items for one in _around(node))


def _read(node: exp.Anonymous) -> Written:
    if call_name(node) == KEEP:
        delta, epsilon = read_keep(node)
        return Written(epsilon, delta_of(delta) or Fraction(0))
    return Written(read_call(node, lambda _: "x", lambda _: "x").epsilon)


def cost_of(calls: Sequence[Written], default: Fraction) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of all calls, where those that name none spend the default."""
    epsilons = (default if own.epsilon is None else own.epsilon.value for own in calls)
    deltas = (own.delta for own in calls)
    return sum(epsilons, start=Fraction(0)), sum(deltas, start=Fraction(0))
