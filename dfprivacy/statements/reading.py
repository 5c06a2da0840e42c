"""Turn text into a statement that is known to be safe, or refuse it.

A statement is what is asked of which rows, and what is done with the answers. Nothing here looks at
data, and every text in a statement was written by this package, none by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.files import quoted
from dfprivacy.errors import MissingColumnError, RefusedStatementError
from dfprivacy.release.plan import GROUPING
from dfprivacy.statements.calls import (
    KEEP,
    Call,
    find_item,
    has_aggregates,
    holds_dp,
    private,
    read_call,
    read_keep,
    whole_number,
    with_intervals,
)
from dfprivacy.statements.expressions import (
    ColumnRef,
    condition,
    direction,
    display,
    is_dp,
    substitute,
    window,
    write,
)
from dfprivacy.statements.gate import Given, Reader
from dfprivacy.statements.names import named_item
from dfprivacy.statements.nodes import (
    Distinct,
    EndOfSteps,
    Function,
    Name,
    Node,
    Operator,
    Order,
    Over,
    Query,
    Select,
    Star,
    Subquery,
    Table,
    conjuncts,
    literal,
    refuse_node,
    split_modifiers,
    walk,
)
from dfprivacy.statements.relations import Expression
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.select import Rows, list_keys, names_columns, read_rows, require_handling
from dfprivacy.statements.tree import folded
from dfprivacy.statistics import Count, NUnique

Items = list[tuple[str, Node]]


@dataclass(frozen=True)
class Column:
    """A key, over the protected relation, or a column of the result, over the released table."""

    name: str
    sql: str
    by_row: bool = False
    """True if the expression of a key is `by_row`."""
    uses: frozenset[str] = frozenset()
    """The columns that a key names."""


@dataclass(frozen=True)
class Statement:
    """One statement: rows, keys, calls, and the query over the released table of their answers.

    `calls` are the draws, by their text; the n-th of them is answer_n of the released table.
    `selection` is the epsilon of a count that does nothing but select groups, if there is one.
    `windows` are functions with OVER, over the groups that `having` leaves; the n-th of them is
    column window_n of what `qualify`, outputs and order are about. `order` are SQL texts, each
    with its direction. `givens` is what it takes of the releases before it, `sets` the grouping
    sets, as places of keys; none where keys make groups.
    """

    rows: Rows
    keys: tuple[Column, ...]
    calls: tuple[tuple[str, Call], ...]
    delta: int | float | None
    selection: Epsilon | None
    outputs: tuple[Column, ...]
    having: tuple[str, ...]
    windows: tuple[str, ...]
    qualify: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    limit: int | None
    offset: int | None
    computed: tuple[tuple[Any, ...], ...]
    """Arithmetic with answers: names of answers, numbers, and each sign behind its operands."""
    givens: tuple[Given, ...]
    sets: tuple[tuple[int, ...], ...]
    table_keys: list[Any] | None
    """The keys that a public table lists, if one does."""


def statement(select: Query, reader: Reader) -> Statement:
    """Return the questions of a SELECT, their rows, and the query over their answers."""
    if not isinstance(select, Select):
        raise refuse_node(select)
    select = private(_by_distinct(select))
    order, limit, offset = _modifiers(select)
    rows = read_rows(select, reader)
    items = [named_item(node, rows.names, display) for node in select.items]
    if reader.intervals and not select.is_value:  # a number in an expression is a number
        items = with_intervals(items)
    keys, sets = _keys(select, rows, items)
    release = Release(rows, keys, items, sets)
    outputs = tuple(
        Column(name, release.written(node, index)) for index, (name, node) in enumerate(items)
    )
    names = [folded(output.name) for output in outputs]
    for output in outputs:
        if names.count(folded(output.name)) > 1:
            raise refuse("two columns in the result", twice=output.name)
    delta, selection, having = _having(select, release)
    qualify = tuple(
        condition(node, release.written(node)) for node in (select.qualify,) if node is not None
    )
    sorts = tuple(pair for item in order for pair in _sorted(item, release))
    if not release.calls and (not keys or reader.has_public_keys):
        raise refuse("no dp_ call")
    calls = tuple((shown, release.asked(call)) for call, shown in release.calls.items())
    named = {node.name for node in walk(select) if isinstance(node, Table)}
    givens = tuple(table for name, table in reader.givens.items() if name in named)
    table_keys = list_keys(rows, [Expression(key.sql, key.uses) for key in keys])
    key_table = rows.compiler.key_table
    public = () if key_table is None else key_table.bag.columns
    mine = {quoted(name) for name in {*rows.columns} - {*public}}
    for _, call in calls if table_keys is not None else ():
        values = call.values or [""]  # count(*) would count public rows without a match
        if not isinstance(call.question, Count | NUnique) or not mine.issuperset(values):
            raise refuse("keys of a public table")
    return Statement(
        rows,
        keys,
        calls,
        delta,
        selection,
        outputs,
        having,
        tuple(release.windows),
        qualify,
        sorts,
        limit,
        offset,
        tuple(release.computed),
        givens,
        sets,
        table_keys,
    )


def _by_distinct(select: Select) -> Select:
    """Return SELECT DISTINCT of columns as the groups that it makes: a count selects them."""
    grouped = select.keys or has_aggregates(select) or holds_dp(select)
    match select.modifiers:
        case (Distinct(targets=()), *others) if not grouped:
            return replace(select, modifiers=(*others,), handling="FORCE_AGGREGATES")
    return select


def _modifiers(select: Select) -> tuple[tuple[Order, ...], int | None, int | None]:
    """Return the items of ORDER BY, and the numbers of LIMIT and OFFSET."""
    distinct, orders, limit = split_modifiers(select)
    if distinct is not None:
        raise refuse_node(distinct)
    if limit is None:
        return orders, None, None
    if limit.kind != "ROW_COUNT":
        raise refuse("limit_type")
    rows = None if limit.rows is None else whole_number(limit.rows, "a LIMIT")
    offset = None if limit.offset is None else whole_number(limit.offset, "an OFFSET")
    return orders, rows, offset


def _keys(
    select: Select, rows: Rows, items: Items
) -> tuple[tuple[Column, ...], tuple[tuple[int, ...], ...]]:
    """Return the keys of GROUP BY, and the grouping sets, the finest first."""
    grouped, sets = select.keys, select.sets
    require_handling(select)
    if sets == ((),):
        raise refuse("GROUP BY ()")
    if select.groups_all:
        nodes = (node for _, node in items if not _is_released(node) and names_columns(node))
        grouped = (*nodes,)
    keys: dict[str, Column] = {}
    places = []
    for node in grouped:
        key = _key(node, rows, items)
        keys.setdefault(key.sql, key)
        places.append(list(keys).index(key.sql))
    sets_found = [tuple(sorted({places[index] for index in members})) for members in sets]
    if len(set(sets_found)) < len(sets_found):
        raise refuse("a grouping set twice")
    if sets_found == [tuple(range(len(keys)))]:
        sets_found = []
    sets_found.sort(key=len, reverse=True)
    columns: list[Column] = []
    for key in keys.values():
        used = {folded(other.name) for other in columns}
        columns.append(key if folded(key.name) not in used else replace(key, name=f"{key.name} "))
    return tuple(columns), tuple(sets_found)


def _is_released(node: Node) -> bool:
    """Return True for an expression over answers or all groups, which can't be a key."""
    if holds_dp(node):
        return True
    parts = [part for part in walk(node) if isinstance(part, Over | Operator)]
    return any(isinstance(part, Over) or part.sort == "GROUPING_FUNCTION" for part in parts)


def _key(node: Node, rows: Rows, items: Items) -> Column:
    node = find_item(node, items)
    key = rows.written(node, items)
    if not names_columns(node):
        raise refuse("GROUP BY a constant")
    for index, (name, item) in enumerate(items):
        # that of its column in the result, else its own text
        if not _is_released(item) and rows.written(item, items[:index]).sql == key.sql:
            return Column(name, key.sql, key.by_row, key.uses)
    return Column(named_item(node, rows.names, display)[0], key.sql, key.by_row, key.uses)


def _having(
    select: Select, release: Release
) -> tuple[int | float | None, Epsilon | None, tuple[str, ...]]:
    """Return the delta and epsilon of dp_keep, as far as they are there, and the rest of HAVING."""
    if any(isinstance(node, Over) for node in walk(select.having)):
        raise refuse("a window in HAVING")
    keeps, others = set[tuple[int | float, Epsilon | None]](), list[Node]()
    for node in conjuncts(select.having):
        if isinstance(node, Function) and node.name == KEEP:
            keeps.add(read_keep(node))
        else:
            others.append(node)
    if len(keeps) > 1 or (keeps and not release.keys):
        raise refuse("dp_keep twice")
    rest = tuple(condition(node, release.written(node)) for node in others)
    return *next(iter(keeps), (None, None)), rest


def _sorted(item: Order, release: Release) -> list[tuple[str, str]]:
    by, way = item.value, direction(item)
    if by == Star("", (), (), is_columns=True):  # ORDER BY ALL
        chosen = [node for _, node in release.items]
    elif literal(by)[0] in {"INTEGER", "NUMERIC"}:
        chosen = [find_item(by, release.items)]
    else:
        return [(release.sorted_by(by), way)]
    return [(release.written(node), way) for node in chosen]


def tried(sql: str) -> str:
    """Return an expression over the released table that is NULL where it fails."""
    return sql if sql.replace(".", "_").isidentifier() else f"TRY({sql})"


def qualified(column: str) -> str:
    """Return a column of the released table, so that no name in the result stands before it."""
    return f"released.{column}"


@dataclass(frozen=True)
class Release:
    """Keys and answers, as far as a statement has named them; `calls` grows while it is read.

    So does `windows`: functions with OVER.

    `items` are the SELECT list by name; an expression may use the aliases of those before it.
    """

    rows: Rows
    keys: Sequence[Column]
    items: Sequence[tuple[str, Node]]
    sets: Sequence[tuple[int, ...]] = ()
    calls: dict[Call, str] = field(default_factory=dict)
    windows: list[str] = field(default_factory=list)
    computed: list[tuple[Any, ...]] = field(default_factory=list)
    """Arithmetic with answers whose interval is computed, as in `Statement`."""
    with_ends: set[Call] = field(default_factory=set)
    """Calls whose interval the statement shows."""

    def asked(self, call: Call) -> Call:
        """Return a call with an interval where one is shown. What bounds clip is always counted."""
        has_ends = call in self.with_ends or hasattr(call.question, "clipping")
        return replace(call, question=call.question.told(interval=has_ends))

    def written(self, node: Node, before: int | None = None) -> str:
        """Return the SQL of an expression over the released table."""

        def leaf(part: Node) -> Node | None:
            sql = self._special(part)
            if sql is None and isinstance(part, Name):
                sql = self._column(part, before)
            return None if sql is None else ColumnRef(sql)

        return write(substitute(node, leaf))

    def sorted_by(self, node: Node) -> str:
        """Return the SQL of an item of ORDER BY: an alias goes before a key of that name."""
        sql = self._item(node.path, None) if isinstance(node, Name) else None
        return sql or self.written(node)

    def _item(self, path: Sequence[str], before: int | None) -> str | None:
        """Return the SQL of the item of the SELECT list that a name means; None for others."""
        for index, (name, item) in enumerate(self.items[:before] if len(path) == 1 else ()):
            if folded(name) == folded(path[0]):
                return self.written(item, index)
        return None

    def _over_rows(self, node: Node) -> Expression:
        """Return an expression over the protected rows."""
        return self.rows.written(node, self.items)

    def _special(self, node: Node) -> str | None:
        match node:
            case Function() if is_dp(node):
                return self._answer(node)
            case EndOfSteps():
                return self._end_of_steps(node)
            case Subquery(released=str(name)):
                return qualified(name)
            case Operator(sort="GROUPING_FUNCTION"):
                return self._grouping(node)
            case Over():
                return self._window(node)
        return self._key(node)

    def _window(self, node: Over) -> str:
        sql = window(node, lambda part: tried(self.written(part)))
        if sql not in self.windows:
            self.windows.append(sql)
        return qualified(f"window_{self.windows.index(sql)}")

    def _key(self, node: Node) -> str | None:
        """Return the column of a key that an expression is, if it is one."""
        if not self.keys or holds_dp(node):
            return None
        try:
            sql = self._over_rows(node).sql
        except (RefusedStatementError, MissingColumnError):
            return None
        texts = [key.sql for key in self.keys]
        return qualified(f"key_{texts.index(sql)}") if sql in texts else None

    def _grouping(self, node: Operator) -> str:
        """Return GROUPING(...): a bit for each key, the last one first, 1 where it is added up."""
        sqls = [self._over_rows(operand).sql for operand in node.operands]
        texts = [key.sql for key in self.keys]
        if not all(sql in texts for sql in sqls):
            raise refuse("GROUPING of no key")
        if not self.sets:
            return "0"
        last, grouping = len(sqls) - 1, qualified(GROUPING)
        bits = [
            f"((({grouping} >> {texts.index(sql)}) & 1) << {last - index})"
            for index, sql in enumerate(sqls)
        ]
        return f"({' + '.join(bits)})"

    def _end_of_steps(self, node: EndOfSteps) -> str:
        """Return the column with one end of the interval of arithmetic with answers."""
        steps = []
        for step in node.steps:
            if isinstance(step, Function):
                call, name = self._named(step)
                self.with_ends.add(call)
                steps.append(name)
            else:
                steps.append(step)
        if tuple(steps) not in self.computed:
            self.computed.append(tuple(steps))
        return qualified(f"computed_{self.computed.index(tuple(steps))}_{node.end}")

    def _named(self, node: Function) -> tuple[Call, str]:
        """Return a call with the name of its answer."""
        call = read_call(node, self._over_rows, self.rows.bounds)
        self.calls.setdefault(call, display(node))
        return call, f"answer_{list(self.calls).index(call)}"

    def _answer(self, node: Function) -> str:
        call, name = self._named(node)
        start = qualified(name)
        if node.name.endswith("_interval"):
            self.with_ends.add(call)
            ends = f"'value': {start}, 'low': {start}_low, 'high': {start}_high"
            noted = call.question.told(interval=True).has_note
            note = f", 'note': {start}_note" if noted else ""
            if not noted and hasattr(call.question, "searches"):
                note = ", 'note': NULL::VARCHAR"
            return f"{{{ends}{note}}}"
        suffixes = call.question.suffixes
        if suffixes == ("",):
            return start
        if suffixes[0] == "_0":
            return f"[{', '.join(f'{start}{suffix}' for suffix in suffixes)}]"
        parts = ((end[1:], f"{start}{end}") for end in suffixes)  # NaN: too few rows stand out
        named = (
            f"'{end}': CASE WHEN NOT isnan({number}) THEN {number} END" for end, number in parts
        )
        return f"{{{', '.join(named)}}}"

    def _column(self, column: Name, before: int | None) -> str:
        parts, is_known = column.path, self.rows.scope.find(column.path) is not None
        sql = self._item(parts, before) or (None if is_known else column.clock)
        if sql is not None:
            return sql
        if not is_known:
            raise self.rows.scope.missing(parts)
        raise refuse("column outside a dp_ call", quoted=quoted(parts[-1]), name=parts[-1])
