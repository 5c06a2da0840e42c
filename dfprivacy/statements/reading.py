"""From text to a statement: vetted against what is known to be safe, or refused."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.statements.calls import holds_dp, read_keep
from dfprivacy.statements.constants import whole_number
from dfprivacy.statements.display import direction, display
from dfprivacy.statements.grammar import parse, too_deep
from dfprivacy.statements.names import folded
from dfprivacy.statements.operators import condition
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only, refuse
from dfprivacy.statements.relations import Names, Rows, declared
from dfprivacy.statements.released import Release, conjuncts, is_keep
from dfprivacy.statements.rows import Reader, conditions_of, read_rows
from dfprivacy.statements.statement import Key, Output, Released, Statement
from dfprivacy.statements.targets import target_of
from dfprivacy.statements.written import written_calls

_CLAUSES = (
    "expressions", "from_", "with_", "where", "group", "having", "order", "limit", "offset",
)  # fmt: skip
Items = list[tuple[str, exp.Expression]]


def read(text: object, reader: Reader) -> Statement:
    """Return a statement that has been checked whole; nothing of the data is looked at.

    Raises
    ------
    RefusedStatementError
        For anything that is not known to be safe, or that can't be read.
    MissingColumnError
        For a column that does not exist.
    """
    try:
        return _read(text, reader)
    except RecursionError:
        raise too_deep() from None


def _read(text: object, reader: Reader) -> Statement:
    parsed = parse(text)
    target, select = target_of(parsed.tree)
    only(select, *_CLAUSES)
    rows = read_rows(select, reader)
    items = [_item(node, rows) for node in select.expressions]
    names = Names(rows, items)
    keys = _keys(select, names, items)
    release = Release(names, keys, items)
    outputs = tuple(
        Output(name, release.written(node, index)) for index, (name, node) in enumerate(items)
    )
    _distinct(outputs)
    delta, selection, having = _having(select, release)
    released = Released(outputs, having, _order(select, release), _limit(select), _offset(select))
    _asks_something(release)
    conditions = (*rows.conditions, *conditions_of(select, names))
    calls = tuple((shown, call) for call, shown in release.calls.items())
    reader.agree(parsed)
    written = written_calls(select, items)
    return Statement(rows, conditions, keys, calls, delta, selection, written, released, target)


def _item(node: exp.Expression, rows: Rows) -> tuple[str, exp.Expression]:
    """Return an item of the SELECT list with its name, as DuckDB would name it."""
    if isinstance(node, exp.Alias):
        only(node, "this", "alias")
        return node.alias, node.this
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return declared(rows, node.name), node
    return display(node), node


def _distinct(outputs: tuple[Output, ...]) -> None:
    names = [folded(output.name) for output in outputs]
    if len(set(names)) < len(names):
        twice = next(output.name for output in outputs if names.count(folded(output.name)) > 1)
        raise Refusal(
            f"two columns called {twice!r} in the result",
            "each needs a name of its own",
            "name one of them: dp_mean(x, 0, 100) AS mean_x",
        ).error()


def _keys(select: exp.Expression, names: Names, items: Items) -> tuple[Key, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    only(group, "expressions", "all")
    if group.args.get("all") and group.expressions:
        raise refuse("GROUP BY ALL, ...")
    nodes = _grouped_by_all(items) if group.args.get("all") else group.expressions
    keys: dict[str, Key] = {}
    for node in nodes:
        key = _key(node, names, items)
        keys.setdefault(key.sql, key)
    return tuple(_named_apart(list(keys.values())))


def _grouped_by_all(items: Items) -> list[exp.Expression]:
    return [node for _, node in items if not holds_dp(node) and node.find(exp.Column)]


def _key(node: exp.Expression, names: Names, items: Items) -> Key:
    if isinstance(node, exp.Literal) and not node.args.get("is_string"):
        node = _ordinal(node, items)
    if isinstance(node, exp.Tuple):
        raise Refusal(
            "GROUP BY (...) with several columns, or none, in parentheses",
            "a group is named by its columns",
            "GROUP BY city, year; leave GROUP BY out for the whole table",
        ).error()
    sql = names.written(node)
    if not node.find(exp.Column):
        raise Refusal(
            "GROUP BY a constant", "it makes no groups", "leave GROUP BY out for the whole table"
        ).error()
    return Key(_name_of(sql, node, names, items), sql)


def _ordinal(node: exp.Literal, items: Items) -> exp.Expression:
    place = whole_number(node, "a place in the SELECT list")
    if not 1 <= place <= len(items):
        raise Refusal(
            f"place {place} in GROUP BY or ORDER BY",
            "the SELECT list has no such place",
            f"use a number from 1 to {len(items)}, or the expression",
        ).error()
    return items[place - 1][1]


def _name_of(sql: str, node: exp.Expression, names: Names, items: Items) -> str:
    """Return the name of a key: that of its column in the result, else its own text."""
    for name, item in items:
        if not holds_dp(item) and names.written(item) == sql:
            return name
    return _item(node, names.rows)[0]


def _named_apart(keys: list[Key]) -> list[Key]:
    apart: list[Key] = []
    for key in keys:
        taken = {folded(other.name) for other in apart}
        apart.append(key if folded(key.name) not in taken else replace(key, name=f"{key.name} "))
    return apart


def _having(
    select: exp.Expression, release: Release
) -> tuple[int | float | None, Epsilon | None, tuple[str, ...]]:
    """Return the delta and epsilon of dp_keep, as far as they are there, and the rest of HAVING."""
    clause = select.args.get("having")
    if clause is None:
        return None, None, ()
    only(clause, "this")
    conditions = conjuncts(clause.this)
    keeps = {read_keep(node) for node in conditions if is_keep(node)}
    if len(keeps) > 1 or (keeps and not release.keys):
        raise Refusal(
            "dp_keep twice, or without GROUP BY",
            "groups are selected once, where there are some",
            "SELECT city, dp_count(*) FROM t GROUP BY city HAVING dp_keep(1e-6)",
        ).error()
    others = [node for node in conditions if not is_keep(node)]
    rest = tuple(condition(node, release.written(node)) for node in others)
    return *next(iter(keeps), (None, None)), rest


def _order(select: exp.Expression, release: Release) -> tuple[str, ...]:
    order = select.args.get("order")
    if order is None:
        return ()
    only(order, "expressions")
    return tuple(text for item in order.expressions for text in _sorted(item, release))


def _sorted(item: exp.Expression, release: Release) -> list[str]:
    only(item, "this", "desc", "nulls_first")
    by = item.this.unnest()  # DuckDB drops parentheses before it looks for a place or an alias
    if isinstance(by, exp.Var) and by.name.upper() == "ALL":
        nodes = [node for _, node in release.items]
    elif isinstance(by, exp.Literal) and not by.args.get("is_string"):
        nodes = [_ordinal(by, list(release.items))]
    else:
        return [f"{release.sorted_by(by)} {direction(item)}"]
    return [f"{release.written(node)} {direction(item)}" for node in nodes]


def _limit(select: exp.Expression) -> int | None:
    clause = select.args.get("limit")
    if clause is None:
        return None
    if not isinstance(clause, exp.Limit):
        raise refuse(type(clause).__name__)
    only(clause, "expression")
    return whole_number(clause.expression, "a LIMIT")


def _offset(select: exp.Expression) -> int | None:
    clause = select.args.get("offset")
    if clause is None:
        return None
    only(clause, "expression")
    return whole_number(clause.expression, "an OFFSET")


def _asks_something(release: Release) -> None:
    if not release.calls:
        raise Refusal(
            "a statement without a dp_ call",
            "it would show rows or keys as they are",
            "SELECT city, dp_count(*) FROM t GROUP BY city",
        ).error()
