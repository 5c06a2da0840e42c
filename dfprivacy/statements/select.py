"""Read SELECTs over rows: FROM and WHERE, groups, windows, UNION ALL and subqueries.

What runs is written by relations.py, which keeps owners apart by itself. The refusals here keep a
statement from meaning something else than what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from dfprivacy.engine.files import quote
from dfprivacy.engine.text_files import number_in_text
from dfprivacy.errors import MissingColumnError, RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.calls import (
    MOST_RELATIONS,
    bounds_of_choices,
    find_item,
    inline_ctes,
    list_aggregates,
    name_item,
    rewrite,
)
from dfprivacy.statements.expressions import (
    AGGREGATES,
    BY_LIST,
    COMPARED,
    EXACT,
    FLOATS,
    FRAME_ENDS,
    LIST,
    ORDERED,
    ORDERED_BY_VALUE,
    STORED,
    WINDOWS,
    Aggregate,
    Expression,
    Size,
    Writer,
    are_comparable,
    are_united,
    check_constants,
    condition,
    direction,
    exact_sum,
    find_other_spellings,
    is_number_of_rows,
    is_single,
    is_whole_sum,
    longest,
    one_float,
    require_exact,
    require_single,
    write_frame,
)
from dfprivacy.statements.gate import RANKED, TEXT, Relation
from dfprivacy.statements.names import (
    Items,
    Scope,
    VisibleColumn,
    is_plain,
    list_operands,
    list_row_items,
    put_beside,
    refuse_table_function,
    refuse_view,
    require,
    require_apart,
    split_condition,
    unfold_star,
)
from dfprivacy.statements.nodes import (
    Argument,
    Derived,
    Empty,
    Function,
    Join,
    Name,
    Node,
    Operator,
    Order,
    Other,
    Over,
    Query,
    Select,
    SetOperation,
    Star,
    Subquery,
    Table,
    arguments,
    find_text,
    fold_name,
    holds,
    literal,
    name_call,
    parse_view,
    rebuild,
    refuse_node,
    split_modifiers,
    walk,
)
from dfprivacy.statements.relations import (
    Bag,
    Facts,
    Window,
    add_windows,
    chosen,
    column,
    equality,
    extend_relation,
    filter_relation,
    group_relation,
    join_relations,
    list_uses,
    mark_matches,
    same_value,
    unite_relations,
)
from dfprivacy.statements.rules import REFUSALS, refuse, refuse_part
from dfprivacy.statements.tables import Tables

Special = Callable[[Node], Expression | None]


@dataclass
class Compiler:
    """Reads the relations of one statement."""

    tables: Tables
    compiled: int = 0
    view_around: Relation | None = None
    """The view that is being taken apart: its names are looked for from where it is."""
    about_all: list[Node] = field(default_factory=list)
    """SELECTs whose aggregates are about several units."""
    outermost: Node | None = None
    """The FROM of the outermost SELECT."""
    key_table: Scope | None = None
    """The public table there that a LEFT JOIN leads from: its keys are those of the groups."""
    later: list[Node] = field(default_factory=list)
    """Conditions of joins that hold subqueries: they filter what has been joined, as in WHERE."""

    def from_where(
        self, select: Select, items: Items, outer: Scope | None = None
    ) -> tuple[Scope, list[Expression]]:
        """Return the rows of FROM and WHERE, and the conditions that name columns around them."""
        for entry in select.ctes:  # recursive ones
            raise refuse_node(entry.query)
        if outer is not None and isinstance(select.source, Empty):
            raise refuse("subquery without FROM")
        before, self.later = self.later, []
        views, conditions, _ = self._collect_joins(select.source)
        later, self.later = self.later, before
        joint = replace(put_beside(views), outer=outer, items=items)
        around: list[Expression] = []
        has_texts = any(fact.kind == TEXT for fact in joint.bag.facts.values())
        where = compare_as_numbers(select.where, joint) if has_texts else select.where
        for node in split_condition(where):
            if holds(node, Subquery):
                later.append(node)
                continue
            compiled = self.write_condition(node, joint)
            (around if joint.names_around(compiled) else conditions).append(compiled)
            if self.key_table is not None and select.source is self.outermost:
                if not compiled.uses <= frozenset(self.key_table.bag.columns):
                    raise refuse("keys of a public table")
                bag = filter_relation(self.key_table.bag, [compiled])
                self.key_table = replace(self.key_table, bag=bag)
            conditions += self._imply_conditions(node, views, joint)
        view = replace(joint, bag=self._order_joins(views, conditions).bag)
        for node in later:
            view = self._where(node, view)
        return view, around

    def _imply_conditions(
        self, node: Node, views: Sequence[Scope], joint: Scope
    ) -> Iterator[Expression]:
        """Yield certain conditions on one relation each that follow from an OR over several."""
        if not isinstance(node, Operator) or node.sort != "CONJUNCTION_OR":
            return

        def is_about(part: Node, view: Scope) -> bool:
            names = [view.find(n.path) is not None for n in walk(part) if isinstance(n, Name)]
            return bool(names) and all(names)

        sides = [split_condition(child) for child in node.operands]
        for view in views if len(views) > 1 else ():
            term = [[part for part in side if is_about(part, view)] for side in sides]
            if all(term) and term != sides:
                every = [replace(node, sort="CONJUNCTION_AND", operands=tuple(t)) for t in term]
                compiled = self.write_condition(replace(node, operands=(*every,)), joint)
                if compiled.kind:
                    yield compiled

    def _collect_joins(
        self, node: Node, before: Sequence[Scope] = ()
    ) -> tuple[list[Scope], list[Expression], bool]:
        """Return the relations of a FROM that are joined in any order, and what joins them.

        Conditions see relations `before`, those on the left of the whole, where they name what is
        in none of their own. Third is whether these are among the relations returned.
        """
        if not isinstance(node, Join):
            return [self._relation(node)], [], False
        original, node = node, _turn_right_join(node)
        way = node.way
        left, ahead, joint = self._collect_joins(node.left, before)
        around = [] if joint else [*before]
        sides = [*around, *left] if way == "INNER" else []
        later, waiting, correlated = self.later, len(self.later), list[Expression]()
        lateral = isinstance(node.right, Derived) and _is_beside(node)
        try:
            if not lateral:
                right, behind, over = self._collect_joins(node.right, sides)
        except MissingColumnError as error:
            if not _names_left(node, left, error):
                raise
            lateral = True
        if lateral:
            self.later, behind, over = later[:waiting], [], False
            left, right, correlated = self._lateral(node, left, ahead)
            way, ahead = (way, ahead) if right else ("INNER", [])  # one row beside each
        right, conditions, names = _by_names(node, left, right, over=over)
        conditions += correlated
        right, behind, nearest = (
            self._nearest(node, left, right, behind)
            if node.sort == "ASOF"
            else (right, behind, list[Expression]())
        )
        conditions += nearest
        if over:
            left, around, joint = [], [], True
        if way != "INNER" and len(self.later) > waiting:
            raise refuse("subquery in ON")
        conditions += self._on(node.condition, way, [*left, *right], around)
        if way == "INNER":
            return [*left, *right], [*ahead, *behind, *conditions], joint
        uses = list_uses([*ahead, *conditions])
        if around and not uses <= frozenset(put_beside([*left, *right]).bag.columns):
            left, joint = [*around, *left], True
        first, second = self._order_joins(left, ahead), self._order_joins(right, behind)
        if way == "FULL":
            return [self._join_fully(first, second, conditions, names)], [], joint
        if way == "LEFT" and original is self.outermost and second.bag.owned > first.bag.owned:
            way, self.key_table = "INNER", first
        if way == "LEFT":  # a condition on one side says which rows of the right have a match
            inside = [term for term in conditions if term.uses <= frozenset(second.bag.columns)]
            second = replace(second, bag=filter_relation(second.bag, inside))
            conditions = [term for term in conditions if term not in inside]
        bag = self.join(first, second, way, conditions)
        both = (first, second) if original.way != "RIGHT" else (second, first)
        seen = put_beside(both).seen
        return [Scope(bag, first.seen if way in {"SEMI", "ANTI"} else seen)], [], joint

    def _join_fully(
        self,
        left: Scope,
        right: Scope,
        conditions: Sequence[Expression],
        using: Sequence[str],
    ) -> Scope:
        """Return all rows of two relations, those without a match beside NULL.

        Each side is a function of the unit's rows, and so are the rows without a match. The name
        alone of a column in USING means the value of either side.
        """
        if not (left.bag.owned and right.bag.owned):
            raise refuse("FULL JOIN")
        bags = [
            self.join(left, right, "LEFT", conditions),
            self.join(right, left, "ANTI", conditions),
        ]
        missing = {name: Expression("NULL", kind="NULL") for name in left.bag.columns}
        values, seen = [{}, missing], Scope(left.bag, (*left.seen, *right.seen))
        for name, condition_ in zip(using, conditions, strict=False):
            assert condition_.pair is not None  # noqa: S101 USING compares columns
            either = self.tables.take_name(name)
            for value, side in zip(values, condition_.pair, strict=True):
                value[either] = side
            sides = zip(bags, condition_.pair, strict=True)
            if not are_comparable(
                *(self.tables.find_type(bag, str(side.column)) for bag, side in sides)
            ):
                raise refuse("UNION ALL of types", name=name)
            seen = seen.without_plain(name)
            seen = replace(seen, seen=(*seen.seen, VisibleColumn((), name, either)))
        bags = [extend_relation(bag, value) for bag, value in zip(bags, values, strict=True)]
        return replace(
            seen, bag=unite_relations(bags, [{name: name for name in bags[0].columns}] * 2)
        )

    def _nearest(
        self, node: Join, left: Sequence[Scope], right: Sequence[Scope], behind: list[Expression]
    ) -> tuple[list[Scope], list[Expression], list[Expression]]:
        """Return the right side of an ASOF JOIN with the time of the row after, and its condition.

        Among right rows that are equal by what else is compared, a left row meets the last one
        whose time is not after its own. Rows of one time are told apart by the whole row.
        """
        parts = split_condition(node.condition)
        bounds = [p for p in parts if isinstance(p, Operator) and COMPARED.get(p.sort) in _NEAREST]
        scope, inner = put_beside([*left, *right]), self._order_joins(right, behind)
        if len(bounds) != 1 or (inner.bag.owned and not put_beside(left).bag.owned):
            raise refuse("ASOF JOIN")
        columns, sign = frozenset(inner.bag.columns), COMPARED[bounds[0].sort]
        sides = [self.written(side, scope) for side in bounds[0].operands]
        if sides[0].uses <= columns:
            sides, sign = sides[::-1], sign.translate({60: ">", 62: "<"})
        pairs = [
            self.write_condition(part, scope).pair or () for part in parts if part is not bounds[0]
        ]
        equal = [[side for side in pair if side.uses <= columns] for pair in pairs]
        if not sides[1].uses <= columns or sides[0].uses & columns or not all(equal):
            raise refuse("ASOF JOIN")
        way = "ASC NULLS LAST" if sign.startswith(">") else "DESC NULLS LAST"
        bag, time = self.as_column(inner.bag, sides[1])
        partition = []
        for theirs, *_ in equal:
            bag, name = self.as_column(bag, theirs)
            partition.append(name)
        after = self.tables.take_name("after")
        window = Window("lead", (time,), (), (*partition,), ((time, way),), breaks_ties=True)
        bag = self._with_window(bag, after, window, {*bag.columns})
        last = f"({quote(after)} IS NULL OR ({sides[0].sql} {_NEAREST[sign]} {quote(after)}))"
        return [replace(inner, bag=bag)], [], [Expression(last, sides[0].uses | {after})]

    def _on(
        self, node: Node | None, way: str, sides: Sequence[Scope], around: Sequence[Scope]
    ) -> list[Expression]:
        """Return the conditions of a join; those with subqueries are `later`."""
        conditions = []
        for part in split_condition(node):
            if holds(part, Subquery):
                if way != "INNER":
                    raise refuse("subquery in ON")
                self.later.append(part)
                continue
            try:
                conditions.append(self.write_condition(part, put_beside(sides)))
            except MissingColumnError:
                if not around:
                    raise
                conditions.append(self.write_condition(part, put_beside([*around, *sides])))
        return conditions

    def _lateral(
        self, node: Join, left: list[Scope], ahead: list[Expression]
    ) -> tuple[list[Scope], list[Scope], list[Expression]]:
        """Return the sides of a join whose right one names columns of the left; what joins them.

        Where that aggregates, its columns are beside those of the left, and there is no right side.
        """
        assert isinstance(node.right, Derived)  # noqa: S101 the caller knows
        if node.right.columns or not isinstance(node.right.query, Select):
            raise refuse("LATERAL")
        path = (node.right.alias,)
        select, limit = _without_limit(node.right.query)
        if not is_plain(select):
            alone = replace(select, items=())
            always = literal(node.condition) == ("BOOLEAN", "true")
            if not is_plain(alone) or (node.way == "LEFT" and not always):
                raise refuse("LATERAL")
            lateral = Subqueries(self, self._order_joins(left, ahead))
            return [lateral.extend_rows(select, path)], [], []
        without, conditions = _is_beside(node) and limit is None, list[Expression]()
        if without:  # without FROM: expressions over the row beside it
            inner = self._order_joins(left, ahead)
            where = [self.write_condition(term, inner) for term in split_condition(select.where)]
            bag = filter_relation(inner.bag, where)
        else:
            inner, conditions = self.from_where(select, (), put_beside(left))
            bag = inner.bag
        items = [item for part in select.items for item in unfold_star(part, inner)]
        values = [(name, self.written(item, inner)) for name, item in items]
        if any(inner.names_around(value) for _, value in values):
            raise refuse("LATERAL")
        if limit is not None:
            if bag.owned > put_beside(left).bag.owned:
                raise refuse("LATERAL")  # the first rows of each unit are not those of all
            read = list_uses([*(value for _, value in values), *conditions])
            bag = self._limit(inner, limit, conditions, {*read})
        seen = list[VisibleColumn]()
        for name, value in values:
            bag, term = self.as_column(bag, value)
            seen.append(VisibleColumn(path, name, term))
        if without:
            return [Scope(bag, (*inner.seen, *seen))], [], []
        return left, [Scope(bag, tuple(seen))], conditions

    def _limit(
        self, inner: Scope, limit: FirstRows, conditions: Sequence[Expression], read: set[str]
    ) -> Bag:
        """Return the first rows of those that are equal by what is compared with rows around."""
        bag, (orders, number) = inner.bag, limit
        around = inner.names_around
        sides = [[s for s in c.pair or () if s.uses and not around(s)] for c in conditions]
        values = [self.written(item.value, inner) for item in orders]
        if any(len(inside) != 1 for inside in sides) or any(map(around, values)):
            raise refuse("LATERAL")
        names = []
        for value in (*(side for (side,) in sides), *values):
            bag, name = self.as_column(bag, value)
            names.append(name)
        by = list(zip(names[len(sides) :], map(direction, orders), strict=True))
        first = self.first_rows(bag, names[: len(sides)], by, number, read)
        return chosen(first, {n: column(n) for n in inner.bag.columns if n in first.columns})

    def _relation(self, node: Node) -> Scope:
        self.compiled += 1
        if self.compiled > MOST_RELATIONS:
            raise refuse("too many relations")
        match node:
            case Derived():
                compiled, path = self.query(node.query), tuple[str, ...]()
            case Table() if len(node.path) <= 3:
                relation = self.tables.find(node.path, self.view_around)
                compiled, path = self._table(relation), relation.path
            case Table():
                raise refuse("a name with more than three parts")
            case Other(sort="TABLE_FUNCTION") if (
                name_call(dict(node.parts)["function"]) == "unnest"
            ):
                raise refuse_part("unnest")
            case Other(sort="TABLE_FUNCTION"):
                raise refuse_table_function(node, self.tables.engine)
            case _:
                raise refuse_node(node)
        if len(node.columns) > len(compiled.seen):
            raise refuse("column_name_alias")
        names = [*node.columns, *(term.name for term in compiled.seen[len(node.columns) :])]
        path = (node.alias,) if node.alias else path
        named = zip(names, compiled.seen, strict=True)
        seen = tuple(replace(term, name=name, path=path) for name, term in named)
        scope = Scope(compiled.bag, seen)
        return require_apart(scope) if node.columns else scope

    def _table(self, relation: Relation) -> Scope:
        if relation.definition is None:
            scope = Scope.of(*self.tables.bag(relation))
            facts = self.tables.facts(relation, "bounds")
            bounds = {name: Bounds(*ends) for name, ends in facts.items()}
            seen = (replace(term, bounds=bounds.get(fold_name(term.name))) for term in scope.seen)
            scope = replace(scope, seen=tuple(seen))
            limits = self.tables.facts(relation, "matches") if scope.bag.owned else {}
            for name, number in limits.items():  # the first of these rows of each unit
                columns = {fold_name(visible.name): visible.column for visible in scope.seen}
                bag = self.first_rows(scope.bag, [columns[name]], [], number, set())
                seen = (term for term in scope.seen if term.column in bag.columns)
                scope = Scope(bag, tuple(seen))
            return scope
        above, self.view_around = (self.view_around, self.tables), relation
        names_units = relation is self.tables.lone
        try:
            if names_units:  # rows below the view belong to nobody yet
                self.tables = replace(self.tables, givens={}, unit_column=None, lone=None)
            text = relation.definition
            select = None if "_scan(" in text else parse_view(text, self.tables.engine)
            if select is None:
                raise refuse_view(relation)
            compiled = self.query(inline_ctes(rewrite(select)))
            if len(compiled.seen) != len(relation.columns):
                raise refuse_view(relation)
        except RefusedStatementError as error:
            raise RefusedStatementError(
                f"in the view {relation.name!r}: {error.message}", hint=error.hint
            ) from None
        finally:
            self.view_around, self.tables = above
        names, bag = dict(zip(relation.columns, compiled.columns, strict=True)), compiled.bag
        bag = self.tables.own_view(relation, bag, names) if names_units else bag
        return Scope.of(bag, names.items())

    def query(self, node: Query) -> Scope:
        """Return the relation of a subquery, CTE or view."""
        match node:
            case SetOperation():
                return self._union(node)
            case Select():
                return _Select(self, node).compile()
        raise refuse_node(node)

    def _union(self, node: SetOperation) -> Scope:
        operation = node.operation.removesuffix("_BY_NAME")
        if operation != "UNION" and (node.has_all or operation not in _MEMBERS):
            raise refuse(
                "set operation",
                operation=operation,
                every=" ALL" if node.has_all else "",
            )
        for modifier in node.modifiers:
            raise refuse_node(modifier)
        parts = [self.query(child) for child in node.queries]
        names = [term.name for term in parts[0].seen]
        if operation != node.operation:
            parts = [part.arrange(names) for part in parts]
        if any(len(part.seen) != len(names) for part in parts):
            raise refuse("UNION of columns")
        kinds = [self.tables.kinds(part.bag, part.columns) for part in parts]
        for name, *columns in zip(names, *(part.columns for part in parts), strict=True):
            types = [kind[column] for kind, column in zip(kinds, columns, strict=True)]
            is_same = all(are_comparable(types[0], other) for other in types)
            if not is_same and (operation in _MEMBERS or not are_united(types)):
                raise refuse("UNION ALL of types", name=name)
        if operation in _MEMBERS:
            return self._members(parts, _MEMBERS[operation])
        new = parts[0].columns
        maps = [dict(zip(new, part.columns, strict=True)) for part in parts]
        bag = unite_relations([part.bag for part in parts], maps)
        if not node.has_all:
            bag = self.distinct(bag)
        return Scope.of(bag, zip(names, new, strict=True))

    def _members(self, parts: Sequence[Scope], how: str) -> Scope:
        """Return the different rows of a query that are, or are not, among those of another."""
        first, second = parts
        bag, columns, others = second.bag, first.columns, second.columns
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
        return replace(first, bag=join_relations(rows, bag, how, [], same))

    def distinct(self, bag: Bag) -> Bag:
        """Return the different rows of each unit."""
        require(bool(bag.keys) or not bag.owned, "DISTINCT across units", bag, "DISTINCT")
        kinds = self.tables.kinds(bag, bag.columns)
        for name, kind in kinds.items():
            require_single(kind, f"DISTINCT over column {name!r}")
        return group_relation(unify_equal_values(bag, kinds), bag.columns, {})

    def first_rows(
        self,
        bag: Bag,
        partition: Sequence[str],
        order: Sequence[tuple[str, str]],
        number: int,
        read: set[str],
    ) -> Bag:
        """Return the first rows of each unit and value of some columns; whole rows break ties."""
        names = [*partition, *(name for name, _ in order)]
        _require_order(bag, {name for name, _ in order} - {*partition})
        for name, kind in self.tables.kinds(bag, names).items():
            require_single(kind, f"the first rows by column {name!r}")
        position = self.tables.take_name("place")
        window = Window("row_number", partition=(*partition,), order=(*order,), breaks_ties=True)
        limit = Expression(f"({quote(position)} <= {number})", frozenset([position]))
        joint = filter_relation(self._with_window(bag, position, window, read), [limit])
        return chosen(joint, {name: column(name) for name in joint.columns if name != position})

    def _with_window(self, bag: Bag, name: str, window: Window, read: set[str]) -> Bag:
        """Return a relation with a window by whole rows; columns that are not read may go."""
        kinds = self.tables.kinds(bag, bag.columns)
        bag = keep_distinguishing_columns(unify_equal_values(bag, kinds), kinds, read)
        return add_windows(bag, {name: window})

    def as_column(self, bag: Bag, expression: Expression) -> tuple[Bag, str]:
        """Return a relation in which an expression is a column, and its name."""
        if expression.column is not None:
            return bag, expression.column
        name = self.tables.take_name("key")
        return extend_relation(bag, {name: expression}), name

    def _order_joins(self, views: Sequence[Scope], conditions: Sequence[Expression]) -> Scope:
        """Join relations: from the one with the longest link on, each by what it has in common."""
        joint = put_beside(views)
        if len(views) == 1 and not conditions:
            return joint
        parts, waiting = [], list(conditions)
        for view in views:
            mine = [term for term in waiting if term.uses <= frozenset(view.bag.columns)]
            waiting = [term for term in waiting if term not in mine]
            remaining = filter_relation(view.bag, mine)
            parts.append(replace(view, bag=remaining))
        compiled = max(parts, key=lambda term: (term.bag.owned, term.bag.depth))
        parts.remove(compiled)
        while parts:
            pairs = [[_across(c, compiled.bag, part.bag) for c in waiting] for part in parts]
            nearness = [
                (_says_owner(compiled.bag, part.bag, of_part), any(of_part))
                for part, of_part in zip(parts, pairs, strict=True)
            ]
            other = parts[nearness.index(max(nearness))]
            parts.remove(other)
            both = frozenset((*compiled.bag.columns, *other.bag.columns))
            now = [term for term in waiting if term.uses <= both]
            waiting = [term for term in waiting if term not in now]
            compiled = Scope(
                self.join(compiled, other, "INNER", now), (*compiled.seen, *other.seen)
            )
        return replace(joint, bag=compiled.bag)

    def join(
        self,
        first_side: Scope,
        two: Scope,
        how: str,
        conditions: Sequence[Expression],
        *,
        is_said: bool = False,
    ) -> Bag:
        """Return a join, by equal columns where their types compare.

        Conditions name the owner, unless it has been `said` before.
        """
        if not is_said:
            self.check_owner(first_side, two, conditions)
        left, right = first_side.bag, two.bag
        columns = (*left.columns, *(() if how in {"SEMI", "ANTI"} else right.columns))
        equal: list[tuple[str, str]] = []
        others: list[Expression] = []
        for term in conditions:
            pair = _across(term, left, right)
            if pair is not None:
                left, mine = self.as_column(left, pair[0])
                right, theirs = self.as_column(right, pair[1])
                if are_comparable(
                    self.tables.find_type(left, mine), self.tables.find_type(right, theirs)
                ):
                    is_text = left.kind(mine) == right.kind(theirs) == TEXT
                    if is_text and not _is_one_column(left, right, (mine, theirs)):
                        seen = (*first_side.seen, *two.seen)
                        self.tables.notes[_note_texts((mine, theirs), seen)] = None
                    equal.append((mine, theirs))
                    continue
            others.append(term)
        if (left.single or right.single) and how in {"INNER", "LEFT"}:
            written = {seen.column: seen.name for seen in (*first_side.seen, *two.seen)}
            self._check_once(left, right, equal, written)
        bag = join_relations(left, right, how, equal, others)
        return replace(bag, facts={name: bag.facts[name] for name in columns})

    def _check_once(
        self,
        left: Bag,
        right: Bag,
        equal: Sequence[tuple[str, str]],
        written: Mapping[str, str],
    ) -> None:
        """Refuse a join in which one protected row may meet several rows of a public table.

        `written` has the names of columns as the statement writes them.
        """
        public, protected = (right, left) if left.owned else (left, right)
        names = [pair[left.owned] for pair in equal]
        if public.owned or not protected.single or not names:
            return
        is_unique = public.unique is not None and public.unique <= set(names)
        if is_unique or any(public.facts[name].matches for name in names):
            return
        shown = ", ".join(written.get(name, name) for name in names)
        if self.tables.is_released(public, names):
            raise refuse("several released matches", names=shown)
        if self.tables.repeats(public, names):
            raise refuse("several matches", names=shown)

    def check_owner(self, left: Scope, right: Scope, conditions: Sequence[Expression]) -> None:
        """Refuse a join of owned relations whose conditions compare no unit, and no key of one."""
        pairs = [_across(term, left.bag, right.bag) for term in conditions]
        both = left.bag.owned and right.bag.owned
        is_said = not both or _says_owner(left.bag, right.bag, pairs)
        if is_said:
            return
        mine, theirs = self._keys(left), self._keys(right)
        names = " and ".join(sorted({name for name, _ in (*mine, *theirs)}))
        names = names or "keep the key columns in subqueries"
        shown = (f"{name} = {two}" for name, key in mine for two, other in theirs if key == other)
        rewrite = next(shown, f"join along the links of the schema ({names})")
        require(is_said, "join across units", left.bag, "a join", condition=rewrite)

    def _keys(self, view: Scope) -> list[tuple[str, str]]:
        """Return the named columns that belong to one unit, with their keys; the unit's first."""
        names = {term.column: term.written for term in view.seen}
        keys = [(names[term], key) for term, key in view.bag.keys.items() if term in names]
        return sorted(keys, key=lambda named: named[1] != self.tables.unit_key)

    def name_unit(self, view: Scope) -> str:
        """Return a name of the unit's column, for a message."""
        return next((name for name, _ in self._keys(view)), "the column of the unit")

    def written(self, node: Node, scope: Scope, special: Special | None = None) -> Expression:
        """Return an expression over rows and items; `special` has others for some nodes."""
        result = RowWriter(self.tables, scope, special).write(node)
        return result if special is None else replace(result, kind="")

    def write_condition(
        self, node: Node, view: Scope, special: Special | None = None
    ) -> Expression:
        """Return a condition on rows."""
        compiled = self.written(node, view, special)
        joint = condition(node, compiled.sql)
        is_boolean = isinstance(node, Name) and view.kind(node.path) == "BOOLEAN"
        plain = joint == compiled.sql
        kind = compiled.kind if plain or is_boolean else ""
        return replace(compiled, sql=joint, kind=kind, pair=compiled.pair if plain else None)

    def _where(self, node: Node, view: Scope) -> Scope:
        """Return the rows of a view that fulfill a condition with subqueries."""
        sub, denied = node, False
        while isinstance(sub, Operator) and sub.sort == "OPERATOR_NOT":
            (sub,), denied = sub.operands, not denied
        if _is_membership(sub):
            other, conditions = self.matches(sub, view)
            bag = self.join(view, other, "ANTI" if denied else "SEMI", conditions)
            if denied and sub.sort == "ANY":
                doubtful, doubts = self.find_doubts(sub, other, conditions)
                bag = self.join(replace(view, bag=bag), doubtful, "ANTI", doubts, is_said=True)
            return replace(view, bag=bag)
        special = Subqueries(self, view)
        compiled = self.write_condition(node, view, special.answer)
        if view.names_around(compiled):
            raise refuse("correlated")
        return replace(view, bag=filter_relation(special.view.bag, [compiled]))

    def find_doubts(
        self, sub: Subquery, other: Scope, conditions: Sequence[Expression]
    ) -> tuple[Scope, list[Expression]]:
        """Return the rows of an IN, and what leaves a row in doubt about it: a NULL on one side.

        The last condition is that comparison. Where there are no others, all that counts of the
        rows is whether there is one with NULL, and one without.
        """
        if name_call(sub.operand) == "row":
            raise refuse("IN over several columns")
        *rest, same = conditions
        assert same.pair is not None  # noqa: S101 as `matches` makes it
        mine, value = same.pair
        name = self.tables.take_name("missing")
        missing = {name: Expression(f"({value.sql} IS NULL)", value.uses)}
        bag = extend_relation(other.bag, missing)
        bag = bag if rest else group_relation(bag, [name], {})
        doubt = Expression(f"({quote(name)} OR ({mine.sql} IS NULL))", mine.uses | {name})
        return replace(other, bag=bag), [*rest, doubt]

    def matches(self, sub: Subquery, view: Scope) -> tuple[Scope, list[Expression]]:
        """Return the rows of an EXISTS or IN, and what makes a row of the view match one."""
        select = sub.query
        around, is_any = replace(view, outer=None), sub.sort == "ANY"
        if isinstance(select, Select) and is_plain(select):
            inner, conditions = self.from_where(select, (), around)
            chosen_items = [term for node in select.items for term in unfold_star(node, inner)]
            values = [self.written(item, inner) for _, item in chosen_items] if is_any else []
        else:
            inner, conditions = self.query(select), []
            values = [column(name) for name in inner.columns] if is_any else []
        match sub.operand:
            case Function(name="row") as row:
                terms = arguments(row)
            case operand:
                terms = [operand] if operand else []
        if values and len(values) != len(terms):
            raise refuse("IN over several columns")
        for term, value in zip(terms, values, strict=False):
            if inner.names_around(value):
                raise refuse("correlated")
            conditions = [*conditions, equality(self.written(term, around), value)]
        return inner, conditions


@dataclass
class RowWriter(Writer):
    """Writes expressions over the rows of a scope; names are those of columns, then of items."""

    tables: Tables
    scope: Scope
    special: Special | None

    def find(self, node: Node) -> Expression | None:
        """Return the expression of a name, released number or special node; None for others."""
        other = None if self.special is None else self.special(node)
        if isinstance(node, Subquery) and (name := node.released or "") in self.scope.constants:
            other = Expression(self.scope.constants[name])
        if other is not None or not isinstance(node, Name):
            return other
        if (ref := self._find_column(self.scope, node)) is not None:
            return ref
        items = self.scope.items
        for index, (alias, item) in enumerate(items if len(node.path) == 1 else ()):
            if fold_name(alias) == fold_name(node.path[0]):
                return replace(self, scope=replace(self.scope, items=items[:index])).write(item)
        if self.scope.outer and (ref := self._find_column(self.scope.outer, node)) is not None:
            return ref
        if node.clock is None:
            raise self.scope.missing(node.path)
        return Expression(node.clock, size=Size())

    def _find_column(self, view: Scope, name: Name) -> Expression | None:
        match = view.find(name.path)
        if match is None:
            return None
        sql, column = match
        used, size = frozenset([column]), view.bag.size([column])
        if view is not self.scope:
            return Expression(sql, used, size=size)
        if name.is_number:
            return Expression(number_in_text(sql), used, size=size)
        kind = view.kind(name.path)
        return Expression(sql, used, kind=kind, size=size, by_row=bool(kind))

    def check(self, node: Node, parts: Sequence[Expression]) -> None:
        """Refuse orders of texts and constants of other types; note how texts are compared.

        A reader that looks for types compares texts of files as numbers, dates or the like, however
        they are written.
        """
        sort, texts = getattr(node, "sort", ""), [part for part in parts if part.kind in _TEXTS]
        if len(texts) > 1 and (sort in _ORDERED or name_call(node) in _EXTREMES):
            raise refuse(_TEXTS[texts[0].kind], name=texts[0].sql)
        columns = [str(part.column) for part in texts if part.kind == TEXT]
        if columns and sort in _EQUALITIES:
            constants = [text for part in parts if (text := find_text(part.node)) is not None]
            kinds = {kind: text for text in constants if (kind := find_other_spellings(text))}
            seen, notes = self.scope.seen, self.tables.notes
            if kinds:
                notes[_note_texts(columns[:1], seen, *next(iter(kinds.items())))] = None
            elif len(columns) > 1 and not _is_one_column(self.scope.bag, self.scope.bag, columns):
                notes[_note_texts(columns, seen)] = None
        check_constants(node, parts, self._find_kind)

    def _find_kind(self, part: Expression) -> str:
        """Return the type of an expression over the rows; "" for others."""
        bag = self.scope.bag
        if part.column in bag.columns:
            return self.tables.find_type(bag, str(part.column))
        return self.tables.find_kind(bag, part)


_TEXTS = {TEXT: "order of texts", RANKED: "order of categories"}
"""Kinds of columns whose values are read as texts, and have another order."""


def _require_order(bag: Bag, names: Iterable[str]) -> None:
    """Refuse an order by columns that are read as texts, and may have another."""
    for name in names:
        if bag.kind(name) in _TEXTS:
            raise refuse(_TEXTS[bag.kind(name)], name=name)


_ORDERED = frozenset(s for s, sign in COMPARED.items() if sign[0] in "<>") | {"COMPARE_BETWEEN"}
_EXTREMES = frozenset(("greatest", "least"))
_ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "//"))


def _is_one_column(left: Bag, right: Bag, columns: Sequence[str]) -> bool:
    """Check for two columns of relations that read the same one of a stored table."""
    return bool(left.facts[columns[0]].origins & right.facts[columns[1]].origins)


def _note_texts(
    columns: Sequence[str], seen: Iterable[VisibleColumn], kind: str = "DOUBLE", text: str = ""
) -> str:
    names_by_column = {v.column: ".".join([*v.path[-1:], v.name]) for v in seen}
    names = [names_by_column.get(name, name) for name in columns]
    return (
        f"texts of a file are compared letter by letter, {' and '.join(names)}: write "
        f"CAST({names[0]} AS {kind}) if {repr(text) if text else 'a number'} may be written in "
        "several ways"
    )


_EQUALITIES = frozenset(("COMPARE_IN", *COMPARED)) - _ORDERED


def compare_as_numbers(where: Any, scope: Scope) -> Any:
    """Mark the names of texts of files that a WHERE compares with numbers."""

    def mark(part: Any) -> Any:
        if isinstance(part, Argument):
            return rebuild(part, mark)
        is_text = isinstance(part, Name) and scope.kind(part.path) == TEXT
        return replace(part, is_number=True) if is_text else part

    node = rebuild(where, lambda part: compare_as_numbers(part, scope))
    compares = isinstance(node, Operator) and node.sort.startswith("COMPARE_")
    if not compares and name_call(node) not in _ARITHMETIC:
        return node
    is_numeric = any(literal(part)[0] in {"INTEGER", "NUMERIC"} for part in node.operands)
    node = rebuild(node, mark) if is_numeric else node
    names = walk(node) if name_call(node) == "//" else ()
    if any(isinstance(name, Name) and name.is_number for name in names):
        raise refuse("whole quotient")
    return node


@dataclass
class Subqueries:
    """Subqueries inside of an expression: each becomes a column of the rows."""

    compiler: Compiler
    view: Scope

    def answer(self, node: Node) -> Expression | None:
        """Return the column that stands for a subquery; None for any other node."""
        if not isinstance(node, Subquery):
            return None
        return self._membership(node) if _is_membership(node) else self._scalar(node)

    def _membership(self, node: Subquery) -> Expression:
        compiler = self.compiler
        other, conditions = compiler.matches(node, self.view)
        result = compiler.tables.take_name("found")
        if node.sort == "EXISTS":
            self._mark(other, conditions, result)
            return Expression(quote(result), frozenset([result]), size=Size())
        unsure = compiler.tables.take_name("unsure")
        doubtful, doubts = compiler.find_doubts(node, other, conditions)
        self._mark(other, conditions, result)
        self._mark(doubtful, doubts, unsure, is_said=True)
        sql = f"CASE WHEN {quote(result)} THEN true WHEN {quote(unsure)} THEN NULL ELSE false END"
        return Expression(f"({sql})", frozenset([result, unsure]), size=Size())

    def _mark(
        self, other: Scope, conditions: Sequence[Expression], name: str, *, is_said: bool = False
    ) -> None:
        if not is_said:
            self.compiler.check_owner(self.view, other, conditions)
        matched, others = (
            self.compiler.join(self.view, other, how, conditions, is_said=True)
            for how in ("SEMI", "ANTI")
        )
        self.view = replace(self.view, bag=mark_matches(matched, others, name))

    def extend_rows(self, select: Select, path: tuple[str, ...]) -> Scope:
        """Return the rows with the aggregates of a SELECT for each row."""
        seen = [*self.view.seen]
        for item in select.items:
            ref = self._scalar(Subquery("SCALAR", replace(select, items=(item,))))
            bag, term = self.compiler.as_column(self.view.bag, ref)
            self.view = replace(self.view, bag=bag)
            seen.append(VisibleColumn(path, name_item(item), term))
        return Scope(self.view.bag, tuple(seen))

    def _scalar(self, node: Subquery) -> Expression:
        """Return the column of a scalar subquery: one aggregate of what belongs to the row."""
        compiler = self.compiler
        if not isinstance(node.query, Select) or node.sort != "SCALAR" or node.operand is not None:
            raise refuse_node(node)
        select = node.query
        if select.keys or select.modifiers or select.having:
            raise refuse("no one aggregate")
        inner = _Select(compiler, select, replace(self.view, outer=None))
        bag, value, keys, empty = inner.scalar()
        require(bool(keys) or not bag.owned, "number about everybody", bag, "a subquery")
        pairs = [equality(mine, column(theirs)) for mine, theirs in keys]
        bag = compiler.join(self.view, Scope(bag, ()), "LEFT", pairs)
        self.view = replace(self.view, bag=bag)
        sql = quote(value) if empty is None else f"coalesce({quote(value)}, {empty})"
        size = self.view.bag.size([value])
        return Expression(sql, frozenset([value]), size=size)


def unify_equal_values(bag: Bag, kinds: Mapping[str, str]) -> Bag:
    """Return a relation in which equal values of columns of some types are the same bits."""
    floats = [name for name, kind in kinds.items() if kind in FLOATS]
    same_bits = {n: Expression(one_float(n, kinds[n]), frozenset([n])) for n in floats}
    unified = extend_relation(bag, same_bits)
    keys = {name: replace(unified.facts[name], key=bag.facts[name].key) for name in floats}
    return replace(unified, facts={**unified.facts, **keys})


def keep_distinguishing_columns(bag: Bag, kinds: Mapping[str, str], read: set[str]) -> Bag:
    """Return a relation whose columns tell all rows apart that differ; those not read may go."""
    for name in bag.columns:
        if name in read:
            what = f"column {name!r} beside a window that breaks ties by it"
            require_single(kinds[name], what)
    return chosen(bag, {name: column(name) for name in bag.columns if is_single(kinds[name])})


FirstRows = tuple[Sequence[Order], int]
"""The items of an ORDER BY, and the number of a LIMIT."""


def _without_limit(select: Select) -> tuple[Select, FirstRows | None]:
    """Return a SELECT without its ORDER BY and LIMIT, and these if it has a LIMIT."""
    distinct, orders, limit = split_modifiers(select)
    if limit is None or distinct is not None:
        return select, None
    text = literal(limit.rows)[1]
    if limit.kind != "ROW_COUNT" or limit.offset is not None or not text.isdecimal():
        raise refuse("LATERAL")
    return replace(select, modifiers=()), (orders, int(text))


def _is_beside(node: Join) -> bool:
    """Check for a join with a subquery without FROM, which has one row at most beside each."""
    match node.right:
        case Derived(query=Select(source=Empty()) as select) if is_plain(select):
            every = literal(node.condition) == ("BOOLEAN", "true") and not select.where
            remaining = node.way == "INNER" or (node.way == "LEFT" and every)
            return remaining and not any(isinstance(item, Star) for item in select.items)
    return False


def _names_left(node: Join, left: Sequence[Scope], error: MissingColumnError) -> bool:
    """Check if a column that a subquery in FROM lacks is one of the relations before it."""
    if not isinstance(node.right, Derived) or node.right.cte is not None:  # a CTE
        return False
    if node.way not in {"INNER", "LEFT"}:
        return False
    names = [term.path for term in walk(node.right) if isinstance(term, Name)]
    lacking = [term for term in names if repr(".".join(term)) in error.message]
    return any(put_beside(left).find(term) for term in lacking)


def _by_names(
    node: Join, left: Sequence[Scope], right: Sequence[Scope], *, over: bool
) -> tuple[list[Scope], list[Expression], list[str]]:
    """Return the right side of a join as it is seen beside USING or NATURAL, and what is equal.

    Last are the names of the columns that are compared.
    """
    mine, theirs, seen, names = put_beside(left), put_beside(right), [*right], [*node.using]
    if node.sort == "NATURAL":
        others = {fold_name(term.name) for term in theirs.seen if term.plain}
        names = [term.name for term in mine.seen if term.plain and fold_name(term.name) in others]
        if not names:
            raise refuse("NATURAL JOIN")
    conditions = []
    for name in names:
        first_side, two = mine.find([name]), theirs.find([name])
        if first_side is None or two is None or over:
            raise (theirs if two is None else mine).missing([name])
        conditions.append(equality(column(first_side[1]), column(two[1])))
        seen = [view.without_plain(name) for view in seen]  # the name alone means the left one
    return seen, conditions, names


_JOINS = frozenset(("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
_NEAREST = {">=": "<", ">": "<=", "<=": ">", "<": ">="}
"""How a left row of an ASOF JOIN compares with the time of a right row, and of the row after."""


def _turn_right_join(node: Join) -> Join:
    """Return a join that is known, a RIGHT JOIN as the LEFT JOIN that it is."""
    if node.alias:
        raise refuse_part("an alias of a whole join")
    way, sort = node.way, node.sort
    nearest = sort == "ASOF" and way in {"INNER", "LEFT"} and not node.using
    if not nearest and (sort not in {"REGULAR", "CROSS", "NATURAL"} or way not in _JOINS):
        names = [f"{sort} JOIN", f"{way} JOIN"]
        raise refuse_part(next((name for name in names if name in REFUSALS), names[1]))
    if way != "RIGHT":
        return node
    return replace(node, left=node.right, right=node.left, way="LEFT")


def _across(term: Expression, left: Bag, right: Bag) -> tuple[Expression, Expression] | None:
    """Return the sides of an equality, that of the left relation first; None for others."""
    mine, theirs = frozenset(left.columns), frozenset(right.columns)
    for first, second in (term.pair, term.pair[::-1]) if term.pair else ():
        if first.uses and second.uses and first.uses <= mine and second.uses <= theirs:
            return first, second
    return None


def _says_owner(
    left: Bag, right: Bag, pairs: Iterable[tuple[Expression, Expression] | None]
) -> bool:
    """Check if one of the equalities is between keys that belong to one unit."""
    for first_side, two in filter(None, pairs):
        mine, theirs = left.keys.get(first_side.column or ""), right.keys.get(two.column or "")
        if mine is not None and mine == theirs:
            return True
    return False


def _is_membership(node: object) -> TypeGuard[Subquery]:
    """Check for EXISTS or IN."""
    if not isinstance(node, Subquery):
        return False
    return node.sort == "EXISTS" or (node.sort == "ANY" and node.comparison == "COMPARE_EQUAL")


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
    keys: dict[str, str] = field(default_factory=dict)
    before: dict[str, Expression] = field(default_factory=dict)
    calls: dict[str, Aggregate] = field(default_factory=dict)
    ahead: dict[str, Expression] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    sizes: dict[str, Size] = field(default_factory=dict)
    """How long values of these columns get."""
    read: set[str] = field(default_factory=set)
    """The columns that expressions over windows name."""

    def __post_init__(self) -> None:
        """Read FROM and WHERE, and find out if rows are grouped."""
        select = self.node
        sets = select.sets
        if sets and (len(sets) > 1 or sorted(sets[0]) != list(range(len(select.keys)))):
            raise refuse("group_sets")
        named = [(item.alias, item) for item in select.items if item.alias]
        view, self.around = self.compiler.from_where(select, named, self.outer)
        self.items = [term for item in select.items for term in unfold_star(item, view)]
        self.view = replace(view, items=self.items)
        nodes = [item for _, item in self.items]
        self.group_by = select.keys
        if select.groups_all:
            rows = list_row_items(self.items, self.view)
            self.group_by = tuple(item for _, _, item in rows if holds(item, Name))
        aggregates = list_aggregates([nodes, select.having, select.qualify])
        self.grouped = bool(self.group_by or aggregates)
        self.subqueries = Subqueries(self.compiler, self.view)

    def compile(self) -> Scope:
        """Return its relation."""
        distinct, orders, limit = split_modifiers(self.node)
        targets = () if distinct is None else distinct.targets
        if limit is not None:
            raise refuse_part("OFFSET" if limit.rows is None else "LIMIT_MODIFIER")
        if orders and not targets:
            raise refuse_part("ORDER_MODIFIER")
        for node in self.group_by:
            key = find_item(node, self.items)
            self.key(self.compiler.written(key, self.view))
        bag, unit = self.view.bag, self.compiler.name_unit(self.view)  # it has to be among the keys
        is_said = not (bag.owned and self.grouped) or any(n in bag.keys for n in self.keys.values())
        if not is_said:
            self.compiler.about_all.append(self.node)
        require(is_said, "GROUP BY across units", bag, "GROUP BY", unit=unit)
        compiled: dict[str, Expression] = {}
        for index, (name, node) in enumerate(self.items):
            value = self.written(node, index)
            result = value.column if isinstance(node, Name) and not node.alias else None
            if result is None or result in compiled:
                result = self.compiler.tables.take_name(name)
            compiled[result] = value
        having, qualify = (
            [self.condition(node) for node in (clause,) if node is not None]
            for clause in (self.node.having, self.node.qualify)
        )
        if targets:  # DISTINCT ON: the first row of each
            partition = tuple(self._ahead(node) for node in targets)
            by = tuple((self._ahead(item.value), direction(item)) for item in orders)
            window = Window("row_number", partition=partition, order=by, breaks_ties=True)
            first = self._write_window(window)
            qualify.append(Expression(f"({quote(first)} = 1)", frozenset([first])))
        bag = self.bag(having, qualify)
        names = zip((name for name, _ in self.items), compiled, strict=True)
        scope = require_apart(Scope.of(chosen(bag, compiled), names))
        pairs = zip(scope.seen, self.items, strict=True)  # a choice among constants has bounds
        seen = (
            replace(term, choices=bounds_of_choices(node, self.view.find_range))
            for term, (_, node) in pairs
        )
        scope = replace(scope, seen=tuple(seen))
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
        here = frozenset(self.view.bag.columns)
        for term in self.around:
            sides = [side for side in term.pair or () if side.uses]
            inner = [side for side in sides if side.uses <= here]
            outer = [side for side in sides if side.uses.isdisjoint(here)]
            if len(inner) != 1 or len(outer) != 1:
                raise refuse("correlated by more than equality")
            keys.append((outer[0], inner[0]))
        named = [(mine, self.key(theirs)) for mine, theirs in keys]
        value = self.written(node, 0)
        if self.windows:
            raise refuse("correlated")
        name = self.compiler.tables.take_name("value")
        counts = {"count", "count_star"}
        empty = "0" if name_call(node) in counts else None
        if empty is None and any(name_call(part) in counts for part in walk(node)):
            raise refuse("no one aggregate")
        bag = extend_relation(self.bag([], []), {name: value})
        remaining = {term: column(term) for term in (*(term for _, term in named), name)}
        return chosen(bag, remaining), name, named, empty

    def key(self, expression: Expression) -> str:
        """Return the column of a key."""
        self.grouped = True
        if expression.sql not in self.keys:
            self.keys[expression.sql] = self._column(expression, self.before, "key")
        return self.keys[expression.sql]

    def _column(self, value: Expression, columns: dict[str, Expression], name: str) -> str:
        """Return the column that an expression is, or becomes among others."""
        if self.view.names_around(value):
            raise refuse("correlated")
        return value.column or self._name_column(columns, value, name, value.size or STORED)

    def _name_column(self, columns: dict[str, Any], value: object, name: str, size: Size) -> str:
        """Return the column of a value of a size: a new one, unless there is one already."""
        for term, other in columns.items():
            if other == value:
                return term
        term = self.compiler.tables.take_name(name)
        columns[term], self.sizes[term] = value, size
        return term

    def _size(self, name: str) -> Size:
        """Return how long values of a column get."""
        return self.sizes.get(name) or self.subqueries.view.bag.size([name])

    def condition(self, node: Node) -> Expression:
        """Return a condition over aggregates and windows."""
        compiled = self.written(node, None)
        return replace(compiled, sql=condition(node, compiled.sql))

    def written(self, node: Node, index: int | None, *, windows: bool = True) -> Expression:
        """Return an expression over aggregates and windows."""
        items = [(name, item) for name, item in self.items[:index] if item is not node]

        def special(part: Node) -> Expression | None:
            answer = None if self.grouped else self.subqueries.answer(part)
            name = None if answer is not None else self._special(part, windows=windows)
            if name is None:
                return answer
            return Expression(quote(name), frozenset([name]), size=self._size(name))

        compiled = self.compiler.written(node, replace(self.view, items=items), special)
        if self.view.names_around(compiled):
            raise refuse("correlated")
        self.read |= compiled.uses
        if self.grouped:
            names_known = {*self.keys.values(), *self.calls, *self.windows}
            for column in compiled.uses - names_known:
                raise refuse("column beside aggregates", column=column)
        return compiled

    def _special(self, node: Node, *, windows: bool) -> str | None:
        if isinstance(node, Over):
            if not windows:
                raise refuse_node(node)
            return self._window(node)
        if isinstance(node, Function) and node.name in AGGREGATES:
            return self._aggregate(node)
        if not self.grouped or literal(node) != ("", ""):
            return None
        if any(name_call(p) in AGGREGATES or isinstance(p, Over | Subquery) for p in walk(node)):
            return None
        try:
            sql = self.compiler.written(node, self.view).sql
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
        value = compiler.written(operands[0], self.view) if operands else None
        if node.filter is not None:
            where = compiler.write_condition(node.filter, self.view)
            base = value or Expression("true")
            sql = f"CASE WHEN {where.sql} THEN {base.sql} END"
            value = Expression(sql, where.uses | base.uses, size=base.size)
        argument = "" if value is None else self._column(value, self.before, "value")
        values = [compiler.written(term, self.view) for term, _ in orders]
        columns = [self._column(value, self.before, "value") for value in values]
        by = zip(columns, (way for _, way in orders), strict=True)
        name = "count" if name == "count_star" else name
        call = Aggregate(name, argument, tuple(by), is_unique=node.distinct)
        title = f"{name}_{argument}" if argument else "count"
        size = LIST if call.is_list else self._size(argument)
        return self._name_column(self.calls, call, title, size)

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
        values = tuple(self._ahead(item) for item in operands[: rule.values])
        if len(values) < rule.values and name != "count":
            raise refuse("no argument of a window function", name=name)
        partition = tuple(self._ahead(item) for item in node.partition)
        order = tuple((self._ahead(item.value), direction(item)) for item in node.orders)
        for end, size in ((node.start, node.start_size), (node.end, node.end_size)):
            if end not in FRAME_ENDS:
                raise refuse("a window frame by RANGE or GROUPS")
            if end.startswith("EXPR") and (size is None or not is_number_of_rows(size)):
                raise refuse("a window frame without a constant size")
        frame = write_frame(node, lambda size: literal(size)[1])
        numbers, ties = tuple(literal(term)[1] for term in constants), frame.startswith("ROWS")
        function, breaks_ties = name.removesuffix("_star"), rule.orders or ties
        window = Window(function, values, numbers, partition, order, frame, breaks_ties)
        return self._write_window(window)

    def _write_window(self, window: Window) -> str:
        bag, unit = self.view.bag, self.compiler.name_unit(self.view)
        by = (self.ahead.get(term, column(term)).column for term in window.partition)
        is_said = not bag.owned or any(term in bag.keys for term in by)
        require(is_said, "window across units", bag, "a window", unit=unit)
        size = longest(map(self._size, window.arguments))
        return self._name_column(self.windows, window, window.function, size)

    def _ahead(self, node: Node) -> str:
        return self._column(self.written(node, None, windows=False), self.ahead, "part")

    def bag(self, having: Sequence[Expression], qualify: Sequence[Expression]) -> Bag:
        """Return the rows over which all expressions are written."""
        bag = extend_relation(self.subqueries.view.bag, self.before)
        if self.grouped:
            bag = self._aggregate_rows(bag)
        if having and not self.grouped:
            raise refuse("having")
        bag = extend_relation(filter_relation(bag, having), self.ahead)
        if self.windows:
            used = list_uses(self.windows.values())
            for window in self.windows.values():
                values = window.arguments if window.function in {"min", "max"} else ()
                by = {name for name, _ in window.order} - {*window.partition}
                _require_order(bag, [*values, *by])
            kinds = self.compiler.tables.kinds(bag, bag.columns)
            totals = {name: w for name, w in self.windows.items() if is_whole_sum(w, kinds)}
            windows = {name: w for name, w in self.windows.items() if name not in totals}
            running = [w.arguments for w in windows.values() if w.function in {"sum", "avg"}]
            for name, kind in kinds.items():
                if name in used:
                    require_single(kind, f"a window over column {name!r}")
                if (name,) in running:
                    require_exact(kind, name)
            bag = unify_equal_values(bag, kinds)
            if any(term.breaks_ties for term in windows.values()):
                bag = keep_distinguishing_columns(bag, kinds, self.read)
            bag = add_windows(bag, windows) if windows else bag
            for name, term in totals.items():
                call = Aggregate(term.function, term.arguments[0])
                sums = _aggregate_exactly(bag, term.partition, {name: call}, kinds)
                keys = {key: self.compiler.tables.take_name(key) for key in term.partition}
                sums = chosen(sums, {keys.get(key, key): column(key) for key in sums.columns})
                same = [same_value(key, new) for key, new in keys.items()]
                result = join_relations(bag, sums, "LEFT", [], same)
                columns = (*bag.columns, name)
                bag = replace(result, facts={name: result.facts[name] for name in columns})
        return filter_relation(bag, qualify)

    def _aggregate_rows(self, bag: Bag) -> Bag:
        for call in self.calls.values():
            values = [call.argument] if call.name in {"min", "max"} else []
            _require_order(bag, [*values, *(name for name, _ in call.order)])
        uses = (name for call in self.calls.values() for name in call.uses)
        kinds = self.compiler.tables.kinds(bag, [*self.keys.values(), *uses])
        bag = unify_equal_values(bag, kinds)
        for name in self.keys.values():
            require_single(kinds[name], f"GROUP BY {name!r}")
        return _aggregate_exactly(bag, list(dict.fromkeys(self.keys.values())), self.calls, kinds)


def _aggregate_exactly(
    bag: Bag, keys: Sequence[str], calls: Mapping[str, Aggregate], kinds: Mapping[str, str]
) -> Bag:
    """Return aggregates by keys that have one value in any order of the rows."""
    compiled, readings = dict[str, Expression](), dict[str, Expression]()
    for name, call in calls.items():
        sql, function = exact_sum(call, kinds)
        compiled[name] = Expression(sql, call.uses)
        if function:
            reading = f"list_aggregate({quote(name)}, '{function}')"
            readings[name] = Expression(reading, frozenset([name]))
    bag = group_relation(bag, keys, compiled)
    lists = {name: Facts(size=LIST) for name, call in calls.items() if call.is_list}
    bag = replace(bag, facts={**bag.facts, **lists})
    return chosen(bag, {name: readings.get(name, column(name)) for name in bag.columns})
