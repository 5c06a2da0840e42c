"""Read the SELECTs of subqueries, CTEs and views: groups, windows, DISTINCT and UNION ALL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from dfprivacy.engine.files import quoted
from dfprivacy.errors import DPError, MissingColumnError, RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.calls import find_item, holds_dp
from dfprivacy.statements.expressions import (
    LIST,
    STORED,
    ColumnRef,
    Size,
    condition,
    direction,
    is_dp,
    longest,
    write_frame,
)
from dfprivacy.statements.functions import (
    AGGREGATES,
    BY_LIST,
    CALLED,
    EXACT,
    ORDERED,
    ORDERED_BY_VALUE,
    WINDOWS,
    Aggregate,
    alike,
    check_frame,
    exact_sum,
    is_number_of_rows,
    is_whole_sum,
    require_exact,
    require_single,
)
from dfprivacy.statements.gate import Reader, Relation
from dfprivacy.statements.joins import (
    Items,
    Joins,
    Subqueries,
    keep_distinguishing_columns,
    name_unit,
    unify_equal_values,
)
from dfprivacy.statements.names import (
    Scope,
    require,
    require_apart,
    unfold_star,
)
from dfprivacy.statements.nodes import (
    Function,
    Name,
    Node,
    Order,
    Over,
    Query,
    Select,
    SetOperation,
    Star,
    Subquery,
    called,
    literal,
    refuse_node,
    split_modifiers,
    walk,
)
from dfprivacy.statements.relations import (
    OWNER,
    Bag,
    Expression,
    Window,
    chosen,
    column,
    distinct,
    extended,
    filtered,
    grouped,
    joined,
    renamed,
    same_value,
    united,
    windowed,
)
from dfprivacy.statements.rewrites import list_aggregates
from dfprivacy.statements.rules import refuse, refuse_part
from dfprivacy.statements.tables import Tables
from dfprivacy.statements.tree import folded, fresh


@dataclass
class Compiler(Joins):
    """Reads the relations of one statement."""

    def query(self, node: Query) -> Scope:
        """Return the relation of a subquery, CTE or view."""
        match node:
            case SetOperation():
                return self._union(node)
            case Select():
                return _Select(self, node).compiled()
        raise refuse_node(node)

    def scalar(
        self, select: Select, around: Scope
    ) -> tuple[Bag, str, list[tuple[Expression, str]], str | None]:
        """Return one aggregate by the columns that are compared with those around."""
        if select.keys or select.modifiers or select.having:
            raise refuse("no one aggregate")
        return _Select(self, select, around).scalar()

    def _union(self, node: SetOperation) -> Scope:
        operation = node.operation
        if operation != "UNION" and (node.has_all or operation not in _MEMBERS):
            raise refuse(
                "set operation",
                operation=operation.replace("_", " "),
                every=" ALL" if node.has_all else "",
            )
        for modifier in node.modifiers:
            raise refuse_node(modifier)
        parts = [self.query(child) for child in node.queries]
        names = [term.name for term in parts[0].seen]
        if any(len(part.seen) != len(names) for part in parts):
            raise refuse("UNION ALL of widths")
        kinds = [self.tables.kinds(part.bag, part.columns) for part in parts]
        for position, name in enumerate(names):
            if not all(alike(kinds[0][position], term[position]) for term in kinds):
                raise refuse("UNION ALL of types", name=name)
        if operation in _MEMBERS:
            return self._members(parts, _MEMBERS[operation])
        new: list[str] = []
        for name in names:
            new.append(fresh(name, [OWNER, *new]))
        maps = [dict(zip(new, part.columns, strict=True)) for part in parts]
        bag = united([part.bag for part in parts], maps)
        if not node.has_all:
            bag = self.distinct(bag)
        return Scope.of(bag, zip(names, new, strict=True))

    def _members(self, parts: Sequence[Scope], how: str) -> Scope:
        """Return the different rows of a query that are, or are not, among those of another."""
        first, second = parts
        bag, new = renamed(second.bag, {folded(name) for name in first.bag.columns})
        columns, others = first.columns, [new[theirs] for theirs in second.columns]
        same = list(map(same_value, columns, others))
        keys = any(
            mine in first.bag.keys and first.bag.keys[mine] == bag.keys.get(theirs)
            for mine, theirs in zip(columns, others, strict=True)
        )
        require(
            keys or not (first.bag.owned and bag.owned),
            "DISTINCT across units",
            first.bag,
            "INTERSECT or EXCEPT",
        )
        rows = self.distinct(chosen(first.bag, {term: column(term) for term in columns}))
        return replace(first, bag=joined(rows, bag, how, [], same))

    def distinct(self, bag: Bag) -> Bag:
        """Return the different rows of each unit."""
        require(bool(bag.keys) or not bag.owned, "DISTINCT across units", bag, "DISTINCT")
        kinds = self.tables.kinds(bag, bag.columns)
        for name, term in zip(bag.columns, kinds, strict=True):
            require_single(term, f"DISTINCT over column {name!r}")
        return distinct(unify_equal_values(bag, bag.columns, kinds))


_MEMBERS = {"INTERSECT": "SEMI", "EXCEPT": "ANTI"}
"""Set operations, and the join that each is."""


@dataclass
class _Select:
    """One SELECT of a subquery, CTE or view: its groups, windows and columns, in their order.

    Aggregates and windows are collected while its expressions are written.
    """

    compiler: Compiler
    node: Select
    outer: Scope | None = None
    used_names: set[str] = field(default_factory=set)
    keys: dict[str, str] = field(default_factory=dict)
    before: dict[str, Expression] = field(default_factory=dict)
    calls: dict[str, Aggregate] = field(default_factory=dict)
    ahead: dict[str, Expression] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    """The columns that expressions over windows name."""

    def __post_init__(self) -> None:
        """Read FROM and WHERE, and find out if rows are grouped."""
        select = self.node
        require_handling(select)
        sets = select.sets
        if sets and (len(sets) > 1 or sorted(sets[0]) != list(range(len(select.keys)))):
            raise refuse("group_sets")
        named = [(item.alias, item) for item in select.items if item.alias]
        self.view, self.around = self.compiler.from_where(select, named, self.outer)
        self.items = [term for item in select.items for term in unfold_star(item, self.view)]
        nodes = [item for _, item in self.items]
        self.group_by = select.keys
        if select.groups_all:
            keys = (item for item in nodes if not list_aggregates(item) and names_columns(item))
            self.group_by = (*keys,)
        aggregates = list_aggregates([nodes, select.having, select.qualify])
        self.grouped = bool(self.group_by or aggregates)
        for view in filter(None, (self.view, self.outer)):
            self.used_names |= {folded(name) for name in view.bag.columns}
        self.subqueries = Subqueries(self.compiler, self.view, self.items, self.used_names)

    def name(self, label: str) -> str:
        name = fresh(label, [*self.used_names, OWNER])
        self.used_names.add(folded(name))
        return name

    def compiled(self) -> Scope:
        """Return its relation."""
        distinct, orders, limit = split_modifiers(self.node)
        targets = () if distinct is None else distinct.targets
        if limit is not None:
            raise refuse_part("OFFSET" if limit.rows is None else "LIMIT_MODIFIER")
        if orders and not targets:
            raise refuse_part("ORDER_MODIFIER")
        for node in self.group_by:
            key = find_item(node, self.items)
            self.key(self.compiler.written(key, self.view, self.items))
        bag, unit = self.view.bag, name_unit(self.view)  # the unit has to be among the keys
        is_said = not (bag.owned and self.grouped) or any(n in bag.keys for n in self.keys.values())
        if not is_said:
            self.compiler.about_all.append(self.node)
        require(is_said, "GROUP BY across units", bag, "GROUP BY", unit=unit)
        compiled: dict[str, Expression] = {}
        for index, (name, node) in enumerate(self.items):
            compiled[fresh(name, [*compiled, OWNER])] = self.written(node, index)
        having, qualify = (
            [self.condition(node) for node in (clause,) if node is not None]
            for clause in (self.node.having, self.node.qualify)
        )
        if targets:
            qualify.append(self.first(targets, orders))
        bag = self.bag(having, qualify)
        names = zip((name for name, _ in self.items), compiled, strict=True)
        scope = require_apart(Scope.of(chosen(bag, compiled), names))
        if distinct is not None and not targets:
            scope = replace(scope, bag=self.compiler.distinct(scope.bag))
        return scope

    def scalar(self) -> tuple[Bag, str, list[tuple[Expression, str]], str | None]:
        """Return one aggregate by the columns that are compared with those around.

        With the relation come the column of the value, pairs of an expression around it and the
        column that it equals, and what stands for no rows.
        """
        node = self.items[0][1]
        if len(self.items) != 1 or not list_aggregates(node):
            raise refuse("no one aggregate")
        keys: list[tuple[Expression, Expression]] = []
        for term in self.around:
            inner = [side for side in term.pair or () if side.uses and not side.outer]
            outer = [side for side in term.pair or () if side.outer and not side.uses]
            if len(inner) != 1 or len(outer) != 1:
                raise refuse("correlated by more than equality")
            keys.append((replace(outer[0], uses=outer[0].outer, outer=frozenset()), inner[0]))
        named = [(mine, self.key(theirs)) for mine, theirs in keys]
        value = self.written(node, 0)
        if self.windows or value.outer:
            raise refuse("correlated")
        name = self.name("value")
        counts = {"count", "count_star"}
        empty = "0" if called(node) in counts else None
        if empty is None and any(called(part) in counts for part in walk(node)):
            raise refuse("no one aggregate")
        bag = extended(self.bag([], []), {name: value})
        remaining = {term: column(term) for term in (*(term for _, term in named), name)}
        return chosen(bag, remaining), name, named, empty

    def key(self, expression: Expression) -> str:
        """Return the column of a key."""
        if expression.outer:
            raise refuse("correlated")
        self.grouped = True
        if expression.sql not in self.keys:
            term = expression.column
            self.keys[expression.sql] = term or self._named(self.before, expression, "key")
        return self.keys[expression.sql]

    def _named(self, result: dict[str, Any], label: object, name: str) -> str:
        """Return the column of what is wanted: a new one, unless there is one already."""
        for term, names_known in result.items():
            if names_known == label:
                return term
        term = self.name(name)
        result[term] = label
        return term

    def condition(self, node: Node) -> Expression:
        """Return a condition over aggregates and windows."""
        compiled = self.written(node, None)
        return replace(compiled, sql=condition(node, compiled.sql))

    def written(self, node: Node, index: int | None, *, windows: bool = True) -> Expression:
        """Return an expression over aggregates and windows."""
        items = [(name, item) for name, item in self.items[:index] if item is not node]

        def special(part: Node) -> ColumnRef | None:
            answer = None if self.grouped else self.subqueries.answer(part)
            name = None if answer is not None else self._special(part, windows=windows)
            if name is None:
                return answer
            return ColumnRef(quoted(name), frozenset([name]), size=self._size(name))

        compiled = self.compiler.written(node, self.view, items, special)
        if compiled.outer:
            raise refuse("correlated")
        self.read |= compiled.uses
        if self.grouped:
            names_known = {*self.keys.values(), *self.calls, *self.windows}
            for column in compiled.uses - names_known:
                raise refuse("column beside aggregates", column=column)
        return compiled

    def _size(self, name: str) -> Size:
        """Return how long values of a column get."""
        if name in self.calls:
            call = self.calls[name]
            return LIST if call.is_list else self._size(call.argument)
        if name in self.windows:
            return longest(map(self._size, self.windows[name].arguments))
        expression = self.before.get(name) or self.ahead.get(name)
        size = None if expression is None else expression.size
        return size or self.subqueries.view.bag.sizes.get(name, STORED)

    def _special(self, node: Node, *, windows: bool) -> str | None:
        if isinstance(node, Over):
            if not windows:
                raise refuse_node(node)
            return self._window(node)
        if isinstance(node, Function) and node.name in AGGREGATES:
            return self._aggregate(node)
        if not self.grouped or literal(node) != ("", ""):
            return None
        if any(called(p) in AGGREGATES or isinstance(p, Over | Subquery) for p in walk(node)):
            return None
        try:
            sql = self.compiler.written(node, self.view, self.items).sql
        except (RefusedStatementError, MissingColumnError):
            return None
        return self.keys.get(sql)

    def _aggregate(self, node: Function) -> str:
        name = node.name
        names = {*EXACT, *BY_LIST, *ORDERED}
        if name not in names:
            raise refuse("aggregate in a subquery", name=name, known=", ".join(sorted(names)))
        compiler = self.compiler
        operands = list_operands(node)
        orders = [(item.value, direction(item)) for item in node.orders]
        if name in ORDERED_BY_VALUE and len(operands) == 2 and not orders:
            orders = [(operands.pop(), ORDERED_BY_VALUE[name])]
        if len(operands) > 1 or (not operands and name not in {"count", "count_star"}):
            raise refuse("arguments of an aggregate", name=name)
        is_list = name in {"list", "array_agg"}
        is_ordered = name in ORDERED and bool(orders or is_list) and not (orders and node.distinct)
        by_value = name in ORDERED_BY_VALUE
        if (orders or name in ORDERED) and not (is_ordered and (by_value or not node.filter)):
            raise refuse("order of an aggregate", name=name)
        value = compiler.written(operands[0], self.view, self.items) if operands else None
        if node.filter is not None:
            where = compiler.condition_of(node.filter, self.view, self.items)
            base = value or Expression("true")
            value = Expression(
                f"CASE WHEN {where.sql} THEN {base.sql} END",
                where.uses | base.uses,
                where.outer | base.outer,
                size=base.size,
            )
        argument = self._argument(value)
        by = [
            (self._argument(compiler.written(term, self.view, self.items)), way)
            for term, way in orders
        ]
        name = "count" if name == "count_star" else name
        call = Aggregate(name, argument, tuple(by), is_unique=node.distinct)
        return self._named(self.calls, call, f"{name}_{argument}" if argument else "count")

    def _argument(self, value: Expression | None) -> str:
        """Return the column of what an aggregate is about."""
        if value is None:
            return ""
        if value.outer:
            raise refuse("correlated")
        return value.column or self._named(self.before, value, "value")

    def _window(self, node: Over) -> str:
        name = node.name
        if name not in WINDOWS:
            raise refuse_node(node)
        rule, nulls = WINDOWS[name], node.ignores_nulls or node.names_nulls
        if node.distinct or nulls or node.filter is not None or node.inner_orders:
            raise refuse("parts of a window function")
        if node.exclude != "NO_OTHER":
            raise refuse("EXCLUDE in a window")
        operands = list_operands(node)
        constants = operands[rule.values :]
        if not all(is_number_of_rows(term) and int(literal(term)[1]) > 0 for term in constants):
            raise refuse("argument of a window function", name=name)
        arguments_ = tuple(self._ahead(item) for item in operands[: rule.values])
        if len(arguments_) < rule.values and name != "count":
            raise refuse("no argument of a window function", name=name)
        partition = tuple(self._ahead(item) for item in node.partition)
        order = tuple((self._ahead(item.value), direction(item)) for item in node.orders)
        check_frame(node)
        frame = write_frame(node, lambda size: literal(size)[1])
        window = Window(
            CALLED.get(name, name),
            arguments_,
            tuple(literal(term)[1] for term in constants),
            partition,
            order,
            frame,
            rule.orders or frame.startswith("ROWS"),
        )
        return self._windowed(window, sums=rule.sums)

    def _windowed(self, window: Window, *, sums: bool = False) -> str:
        bag, unit = self.view.bag, name_unit(self.view)
        by = (self.ahead.get(term, column(term)).column for term in window.partition)
        is_said = not bag.owned or any(term in bag.keys for term in by)
        require(is_said, "window across units", bag, "a window", unit=unit)
        name = self._named(self.windows, window, window.function)
        self.sums.update(window.arguments if sums else ())
        return name

    def _ahead(self, node: Node) -> str:
        expression = self.written(node, None, windows=False)
        return expression.column or self._named(self.ahead, expression, "part")

    def first(self, targets: Sequence[Node], order: Sequence[Order]) -> Expression:
        """Return the condition of DISTINCT ON: the first row of each."""
        window = Window(
            "row_number",
            (),
            (),
            tuple(self._ahead(node) for node in targets),
            tuple((self._ahead(item.value), direction(item)) for item in order),
            "",
            breaks_ties=True,
        )
        name = self._windowed(window)
        return Expression(f"({quoted(name)} = 1)", frozenset([name]))

    def bag(self, having: Sequence[Expression], qualify: Sequence[Expression]) -> Bag:
        """Return the rows over which all expressions are written."""
        bag = (
            self._aggregated() if self.grouped else extended(self.subqueries.view.bag, self.before)
        )
        if having and not self.grouped:
            raise refuse("having")
        bag = extended(filtered(bag, having), self.ahead)
        if self.windows:
            used = frozenset[str]().union(*(term.uses for term in self.windows.values()))
            names = list(bag.columns)
            kinds = self.compiler.tables.kinds(bag, names)
            sorts = dict(zip(names, kinds, strict=True))
            totals = {
                name: term for name, term in self.windows.items() if is_whole_sum(term, sorts)
            }
            summed = {a for n, w in self.windows.items() if n not in totals for a in w.arguments}
            for name, term in sorts.items():
                if name in used:
                    require_single(term, f"a window over column {name!r}")
                if name in self.sums & summed:
                    require_exact(term, name)
            bag = unify_equal_values(bag, names, kinds)
            windows = {name: term for name, term in self.windows.items() if name not in totals}
            if any(term.breaks_ties for term in windows.values()):
                bag = keep_distinguishing_columns(bag, kinds, self.read)
            bag = windowed(bag, windows) if windows else bag
            for name, term in totals.items():
                call = Aggregate(term.function, term.arguments[0])
                sql, function = exact_sum(call, sorts)
                sums = grouped(bag, term.partition, {name: Expression(sql, call.uses)})
                total = Expression(
                    f"list_aggregate({quoted(name)}, '{function}')", frozenset([name])
                )
                keys = {key: fresh(key, [*bag.columns, name, OWNER]) for key in term.partition}
                sums = chosen(
                    sums, {**{new: column(key) for key, new in keys.items()}, name: total}
                )
                same = [same_value(key, new) for key, new in keys.items()]
                result = joined(bag, sums, "LEFT", [], same)
                bag = replace(result, columns=(*bag.columns, name))
        return filtered(bag, qualify)

    def _aggregated(self) -> Bag:
        compiler = self.compiler
        bag = extended(self.subqueries.view.bag, self.before)
        uses = (name for call in self.calls.values() for name in call.uses)
        names = list(dict.fromkeys([*self.keys.values(), *uses]))
        kinds = dict(zip(names, compiler.tables.kinds(bag, names), strict=True))
        bag = unify_equal_values(bag, names, [*kinds.values()])
        for name in self.keys.values():
            require_single(kinds[name], f"GROUP BY {name!r}")
        compiled, after = dict[str, Expression](), dict[str, Expression]()
        for term, call in self.calls.items():
            sql, function = exact_sum(call, kinds)
            compiled[term] = Expression(sql, call.uses)
            if function:
                reading = f"list_aggregate({quoted(term)}, '{function}')"
                after[term] = Expression(reading, frozenset([term]))
        bag = grouped(bag, list(dict.fromkeys(self.keys.values())), compiled)
        lists = {term: LIST for term, call in self.calls.items() if call.is_list}
        bag = replace(bag, sizes={**bag.sizes, **lists})
        return chosen(bag, {term: after.get(term, column(term)) for term in bag.columns})


@dataclass(frozen=True)
class Rows:
    """The protected rows of a release: its FROM and WHERE, as one relation with owners.

    `constants` are the SQL of released numbers, by the names under which they are lent.
    """

    scope: Scope
    compiler: Compiler
    constants: Mapping[str, str]

    @property
    def bag(self) -> Bag:
        """The relation."""
        return self.scope.bag

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the relation, the owner's last."""
        return (*self.bag.columns, OWNER)

    @property
    def unit_columns(self) -> list[str]:
        """The columns whose values are those of the unit's column: one for each owner."""
        keys, unit_key = self.bag.keys, self.tables.unit_key
        return [name for name in keys if keys[name] == unit_key]

    @property
    def names(self) -> list[tuple[str, str]]:
        """The columns that their names alone mean, each with its SQL."""
        return [(seen.name, quoted(seen.column)) for seen in self.scope.seen if seen.plain]

    @property
    def bounds(self) -> dict[str, Bounds]:
        """The bounds that a schema declares, by the SQL of columns."""
        pairs = ((quoted(seen.column), seen.bounds) for seen in self.scope.seen)
        return {sql: bounds for sql, bounds in pairs if bounds is not None}

    def written(self, node: Node, items: Items) -> Expression:
        """Return an expression over the rows; `items` are aliases that it may name."""

        def constant(part: Node) -> ColumnRef | None:
            name = part.released if isinstance(part, Subquery) else None
            sql = None if name is None else self.constants.get(name)
            return None if sql is None else ColumnRef(sql)

        return self.compiler.written(node, self.scope, items, constant)

    @property
    def tables(self) -> Tables:
        """The tables that the rows are made of."""
        return self.compiler.tables

    @property
    def table(self) -> Relation:
        """The table of the unit."""
        return self.tables.protected

    def read(
        self, names: Sequence[str], engine: duckdb.DuckDBPyConnection
    ) -> duckdb.DuckDBPyRelation:
        """Return some columns; no row is read yet."""
        text = self.bag.sql(names, self.tables.leaves(self.bag, names))
        return self.tables.place.query(text, engine)


def require_handling(select: Select) -> None:
    """Refuse a SELECT with groups of an unknown kind."""
    if not select.groups_all and select.handling != "STANDARD_HANDLING":
        raise refuse_part("aggregate_handling")


def names_columns(node: Node) -> bool:
    """Check for a column in an expression."""
    return any(isinstance(part, Name) for part in walk(node))


def list_operands(call: Function | Over) -> list[Node]:
    """Return the arguments of an aggregate or window, without *; none may have a name."""
    if any(argument.name for argument in call.arguments):
        raise refuse_part("name")
    return [a.value for a in call.arguments if not isinstance(a.value, Star)]


def read_rows(select: Select, reader: Reader) -> Rows:
    """Return the rows of the outermost SELECT: its FROM and WHERE."""
    compiler = Compiler(tables_of(reader))
    items = [(item.alias, item) for item in select.items if item.alias]
    compiler.outermost = select.source
    scope, _ = compiler.from_where(select, items)
    if not scope.bag.owned:
        are_answers = any(value.script.statements for value in reader.givens.values())
        raise refuse("answers alone" if are_answers else "public tables alone")
    # released numbers that calls and keys name are joined: one row of each
    constant_items = [item for item in select.items if not holds_dp(item)]
    parts = [constant_items, select.keys, *(node for node in walk(select) if is_dp(node))]
    subqueries = [node for node in walk(parts) if isinstance(node, Subquery)]
    names = dict.fromkeys(node.released for node in subqueries if node.released)
    tables, constants = compiler.tables, dict[str, str]()
    used_names = {folded(name) for name in scope.bag.columns}
    for name in names:
        value, ((_, column),) = tables.bag(tables.find([name], None), used_names)
        used_names.add(folded(column))
        row = Scope(replace(value, unique=frozenset()), ())
        scope = replace(scope, bag=compiler.join(scope, row, "INNER", []))
        constants[name] = quoted(column)
    return Rows(scope, compiler, constants)


def list_keys(rows: Rows, keys: Sequence[Expression]) -> list[Any] | None:
    """Return all values of keys over the public table that lists them, if there is one."""
    if rows.compiler.key_table is None:
        return None
    tables, bag = rows.tables, rows.compiler.key_table.bag
    uses = frozenset[str]().union(*(key.uses for key in keys))
    if not keys or not uses <= frozenset(bag.columns) or tables.is_released(bag, bag.columns):
        raise refuse("keys of a public table")
    names = [f"key_{position}" for position in range(len(keys))]
    values = tables.different(chosen(bag, dict(zip(names, keys, strict=True))), names)
    return values if len(keys) > 1 else [value for (value,) in values]


def tables_of(reader: Reader) -> Tables:
    """Return the tables that a statement can name."""
    return Tables(reader.schema, reader.place, reader.engine, reader.givens, reader.unit)


def about_all(select: Query, reader: Reader) -> bool:
    """Check whether the aggregates of a SELECT are about several units, so that it is a release."""
    compiler = Compiler(tables_of(reader))
    with suppress(DPError):
        compiler.query(select)
    return any(node is select for node in compiler.about_all)
