"""Read FROM, WHERE and subqueries of statements over the tables of a schema: what is meant.

What runs is written by relations.py, which keeps owners apart by itself. Here stands what a name
means, which join is meant, and the refusals that keep a statement from meaning something else than
what runs: an author who joins the orders of everybody with those of everybody is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import duckdb

from dfprivacy.engine.files import quoted
from dfprivacy.errors import DPError, MissingColumnError, RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.calls import holds_dp
from dfprivacy.statements.expressions import (
    STORED,
    Scope,
    Size,
    certain,
    condition,
    conjuncts,
    direction,
    field_of,
    is_dp,
    longest,
    size_of,
    write,
)
from dfprivacy.statements.functions import (
    AGGREGATES,
    BY_LIST,
    CALLED,
    EXACT,
    FLOATS,
    WINDOWS,
    alike,
    exact_sum,
    frame_of,
    is_number_of_rows,
    is_single,
    one_float,
    require_exact,
    require_single,
)
from dfprivacy.statements.gate import Source
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
    marked,
    renamed,
    united,
    windowed,
)
from dfprivacy.statements.rows import (
    CLAUSES,
    Common,
    Reader,
    Relation,
    Rows,
    commons,
    definition_of,
    inside,
    named_in,
    named_item,
    qualifies,
    require_apart,
    starred,
)
from dfprivacy.statements.rules import (
    REFUSALS,
    Node,
    nearly,
    only,
    refuse,
    refuse_node,
    refuse_part,
)
from dfprivacy.statements.tables import Tables
from dfprivacy.statements.tree import (
    called,
    folded,
    fresh,
    is_column,
    kind,
    literal,
    nodes,
    plain,
)

T = TypeVar("T")
_MOST_RELATIONS = 500
"""How many relations a statement may hold, its views and CTEs taken apart."""


@dataclass(frozen=True)
class Seen:
    """A column that can be named: qualified by a path; `plain` where its name alone will do."""

    path: tuple[str, ...]
    name: str
    column: str
    plain: bool = True
    bounds: Bounds | None = None

    @property
    def written(self) -> str:
        """The name by which a statement can write it."""
        return ".".join((*self.path[-1:], self.name))


@dataclass(frozen=True)
class View:
    """The rows of a FROM, and what can be named; `outer` are those around a subquery."""

    bag: Bag
    seen: tuple[Seen, ...]
    outer: View | None = None

    def find(self, parts: Sequence[str]) -> tuple[str, str] | None:
        """Return the SQL of a name, and the column that it is, or is a field of."""
        last = len(parts) - 1
        for length in dict.fromkeys((last, *range(last))):  # a table's column before a field
            found = self._named(parts[:length], parts[length])
            if found is not None:
                sql = quoted(found)
                for name in parts[length + 1 :]:
                    sql = field_of(sql, name)
                return sql, found
        return None

    def _named(self, path: Sequence[str], name: str) -> str | None:
        found = {
            own.column
            for own in self.seen
            if folded(own.name) == folded(name)
            and (qualifies(own.path, path) if path else own.plain)
        }
        if len(found) > 1:
            names = [own.written for own in self.seen if own.column in found]
            raise refuse("column of several tables", name=name, names=" or ".join(names))
        return next(iter(found), None)

    def kind(self, parts: Sequence[str]) -> str:
        """Return the declared type of a column, where a catalog says it; "" for other names."""
        sql, found = self.find(parts) or ("", "")
        return self.bag.kinds.get(found, "") if sql == quoted(found) else ""

    def missing(self, parts: Sequence[str]) -> Exception:
        """Return the error for a name that is no column."""
        name = ".".join(parts)
        if f"@{folded(name)}" in REFUSALS:
            return refuse(f"@{folded(name)}")
        known = [own.name for own in self.seen]
        return MissingColumnError(
            f"no table in FROM has a column {name!r}",
            hint=f"{nearly(name, known)}the columns are {', '.join(map(repr, known[:20]))}",
        )


def meant(said: bool, rule: str, **words: str) -> None:  # noqa: FBT001 what is asked
    """Refuse what its author has not said: that each unit's rows are looked at by themselves.

    That is what runs in any case: relations.py writes the owner wherever rows meet. So this may be
    wrong without anything being released that should not be; the answer would not be that to the
    question.
    """
    if not said:
        raise refuse(rule, **words)


@dataclass(frozen=True)
class Condition:
    """A condition of a join or a WHERE; with `pair`, it says that two expressions are equal."""

    expression: Expression
    pair: tuple[Expression, Expression] | None = None

    @property
    def uses(self) -> frozenset[str]:
        """The columns that it names."""
        return self.expression.uses


@dataclass(frozen=True)
class Made:
    """What a query makes: a relation, and the names of its columns in order."""

    bag: Bag
    names: tuple[tuple[str, str], ...]


Special = Callable[[Node, set[str], set[str]], str | None]
Items = Sequence[tuple[str, Node]]
Sees = Mapping[str, Common]


@dataclass
class Compiler:
    """Reads the relations of one statement over the tables of a schema."""

    tables: Tables
    made: int = 0
    near: Relation | None = None
    """The view that is being taken apart: its names are looked for from where it is."""
    about_all: list[Node] = field(default_factory=list)
    """SELECTs whose aggregates are about several units."""
    later: list[Node] = field(default_factory=list)
    """Conditions of joins that hold subqueries: they filter what has been joined, as in WHERE."""

    def from_where(
        self,
        select: Node,
        sees: Sees,
        items: Items,
        outer: View | None = None,
        taken: set[str] | None = None,
    ) -> tuple[View, list[Condition]]:
        """Return the rows of FROM and WHERE, and the conditions that name columns around them."""
        if outer is not None and kind(select["from_table"]) == ("", "EMPTY"):
            raise refuse("subquery without FROM")
        if taken is None:
            taken = {folded(name) for name in outer.bag.columns} if outer else set[str]()
        before, self.later = self.later, []
        views, conditions, _ = self._flat(select["from_table"], sees, taken)
        later, self.later = self.later, before
        whole = replace(_beside(views), outer=outer)
        around: list[Condition] = []
        for node in _conjuncts(select["where_clause"]):
            if _holds_subquery(node):
                later.append(node)
                continue
            made = self.condition_of(node, whole, items)
            (around if made.expression.outer else conditions).append(made)
            conditions += self._implied(node, views, whole, items)
        view = replace(self._greedy(views, conditions), outer=outer)
        for node in later:
            view = self._where(node, view, sees, items, taken)
        return view, around

    def _implied(
        self, node: Node, views: Sequence[View], whole: View, items: Items
    ) -> Iterator[Condition]:
        """Yield certain conditions on one relation each that follow from an OR over several."""
        if kind(node) != ("CONJUNCTION", "CONJUNCTION_OR"):
            return
        sides = [_conjuncts(child) for child in node["children"]]
        for view in views if len(views) > 1 else ():
            own = [[part for part in side if _is_about(view, part)] for side in sides]
            if all(own) and own != sides:
                every = [{**node, "type": "CONJUNCTION_AND", "children": side} for side in own]
                made = self.condition_of({**node, "children": every}, whole, items)
                if made.expression.sure:
                    yield made

    # FROM

    def _flat(
        self, node: Node, sees: Sees, taken: set[str], before: Sequence[View] = ()
    ) -> tuple[list[View], list[Condition], bool]:
        """Return the relations of a FROM that are joined in any order, and what joins them.

        Conditions see relations `before`, those on the left of the whole, where they name what is
        in none of their own. Third is whether these are among the relations returned.
        """
        if kind(node) != ("", "JOIN"):
            return [self._relation(node, sees, taken)], [], False
        only(node, "left", "right", "condition", "using_columns", "join_type", "ref_type",
             "is_implicit", "nearest_count", "nearest_order_type")  # fmt: skip
        if node["alias"]:
            raise refuse_part("an alias of a whole join")
        way, sort = node["join_type"], node["ref_type"]
        if sort not in {"REGULAR", "CROSS"} or way not in {"INNER", "LEFT", "SEMI", "ANTI"}:
            known = [name for name in (f"{sort} JOIN", f"{way} JOIN") if name in REFUSALS]
            raise refuse(*known[:1] or ["JOIN"])
        left, ahead, whole = self._flat(node["left"], sees, taken, before)
        around = [] if whole else [*before]
        sides = [*around, *left] if way == "INNER" else []
        near, later, waiting, correlated = self.near, self.later, len(self.later), list[Condition]()
        beside = _is_beside(node)
        try:
            if not beside:
                right, behind, over = self._flat(node["right"], sees, taken, sides)
        except MissingColumnError as error:
            if not _names_left(node, left, error):
                raise
            beside = True
        if beside:
            self.near, self.later, behind, over = near, later[:waiting], [], False
            left, right, correlated = self._lateral(node, left, ahead, sees, taken)
            way, ahead = (way, ahead) if right else ("INNER", [])  # one row beside each
        right, conditions = _by_names(node, left, right, over=over)
        conditions += correlated
        if over:
            left, around, whole = [], [], True
        if way != "INNER" and len(self.later) > waiting:
            raise refuse("subquery in ON")
        conditions += self._on(node.get("condition"), way, [*left, *right], around)
        if way == "INNER":
            return [*left, *right], [*ahead, *behind, *conditions], whole
        uses = frozenset[str]().union(*(own.uses for own in (*ahead, *conditions)))
        if around and not uses <= frozenset(_beside([*left, *right]).bag.columns):
            left, whole = [*around, *left], True
        first, second = self._greedy(left, ahead), self._greedy(right, behind)
        if way == "LEFT":  # a condition on one side says which rows of the right have a match
            inside = [own for own in conditions if own.uses <= frozenset(second.bag.columns)]
            second = replace(second, bag=filtered(second.bag, [own.expression for own in inside]))
            conditions = [own for own in conditions if own not in inside]
        bag = self.join(first, second, way, conditions)
        seen = (*first.seen, *second.seen) if way == "LEFT" else first.seen
        return [View(bag, seen)], [], whole

    def _on(
        self, node: Node | None, way: str, sides: Sequence[View], around: Sequence[View]
    ) -> list[Condition]:
        """Return the conditions of a join; those with subqueries are `later`."""
        conditions = []
        for part in _conjuncts(node):
            if _holds_subquery(part):
                if way != "INNER":
                    raise refuse("subquery in ON")
                self.later.append(part)
                continue
            try:
                conditions.append(self.condition_of(part, _beside(sides), ()))
            except MissingColumnError:
                if not around:
                    raise
                conditions.append(self.condition_of(part, _beside([*around, *sides]), ()))
        return conditions

    def _lateral(
        self, node: Node, left: list[View], ahead: list[Condition], sees: Sees, taken: set[str]
    ) -> tuple[list[View], list[View], list[Condition]]:
        """Return the sides of a join whose right one names columns of the left; what joins them.

        Where that aggregates, its columns are beside those of the left, and there is no right side.
        """
        only(node["right"], "subquery")
        select, path = node["right"]["subquery"]["node"], (node["right"]["alias"],)
        if not _is_plain(select):
            alone = {**select, "select_list": []}
            always = literal(node["condition"]) == ("BOOLEAN", "true")
            if not _is_plain(alone) or (node["join_type"] == "LEFT" and not always):
                raise refuse("LATERAL")
            beside = _Subqueries(self, self._greedy(left, ahead), sees, (), taken)
            return [beside.extended(alone, select["select_list"], path)], [], []
        without = _is_beside(node)
        if without:  # without FROM: expressions over the row beside it
            inner = self._greedy(left, ahead)
            where = _conjuncts(select["where_clause"])
            kept = [self.condition_of(own, inner, ()).expression for own in where]
            bag, conditions = filtered(inner.bag, kept) if kept else inner.bag, list[Condition]()
        else:
            inner, conditions = self.from_where(
                select, commons(select, sees, several=True), (), _beside(left), taken
            )
            bag = inner.bag
        seen = list[Seen]()
        for name, item in (own for part in select["select_list"] for own in unfolded(part, inner)):
            made = self.written(item, inner, ())
            if made.outer:
                raise refuse("LATERAL")
            bag, own = _as_column(bag, made, [*taken])
            taken.add(folded(own))
            seen.append(Seen(path, name, own))
        if without:
            return [View(bag, (*inner.seen, *seen))], [], []
        return left, [View(bag, tuple(seen))], [_opened(own) for own in conditions]

    def _relation(self, node: Node, sees: Sees, taken: set[str]) -> View:
        self.made += 1
        if self.made > _MOST_RELATIONS:
            raise refuse("too many relations")
        bounds: Mapping[str, Bounds] = {}
        path, query = named_in(node, sees)
        if query is None:
            relation = self.tables.find(path, self.near)
            made, path = self._table(relation, taken), relation.path
            bounds = {} if relation.definition else self.tables.bounds(relation)
        else:
            made = self.query(query.select, query.sees)
        path = (node["alias"],) if node["alias"] else path
        bag, new = renamed(made.bag, taken)
        seen = (
            Seen(path, name, new[own], bounds=bounds.get(folded(name))) for name, own in made.names
        )
        return View(bag, tuple(seen))

    def _table(self, relation: Relation, taken: set[str]) -> Made:
        if relation.definition is None:
            return self._within_matches(relation, Made(*self.tables.bag(relation, taken)))
        before, self.near = self.near, relation
        with inside(relation):
            made = self.query(definition_of(relation, self.tables.engine), {})
            if len(made.names) != len(relation.columns):
                raise refuse("view without definition")
        self.near = before
        own = zip(relation.columns, made.names, strict=True)
        return Made(made.bag, tuple((name, was) for name, (_, was) in own))

    def _within_matches(self, relation: Relation, made: Made) -> Made:
        """Return the rows of a table that each unit has, within the matches that are declared."""
        bag, most = made.bag, self.tables.matches(relation)
        if not most or not bag.owned:
            return made
        columns = {folded(name): own for name, own in made.names}
        kinds = self.tables.kinds(bag, bag.columns)
        for name, kind_ in zip(bag.columns, kinds, strict=True):
            if name in {columns[own] for own in most}:
                require_single(kind_, f"matches of column {name!r}")
        keys = bag.keys
        bag = _with_ties(_one_of_equal(bag, bag.columns, kinds), kinds, set())
        for own, number in most.items():
            place = fresh("place", [*bag.columns, OWNER])
            window = Window("row_number", (), (), (columns[own],), (), "", breaks_ties=True)
            limit = Expression(f"({quoted(place)} <= {number})", frozenset([place]))
            whole = filtered(windowed(bag, {place: window}), [limit])
            bag = chosen(whole, {name: column(name) for name in bag.columns})
        kept = {name: key for name, key in keys.items() if name in bag.columns}
        depth = made.bag.depth
        names = tuple((name, now) for name, now in made.names if now in bag.columns)
        return Made(replace(bag, keys=kept, depth=depth), names)

    # joins

    def _greedy(self, views: Sequence[View], conditions: Sequence[Condition]) -> View:
        """Join relations: from the one with the longest link on, each by what it has in common."""
        whole = _beside(views)
        if len(views) == 1 and not conditions:
            return whole
        parts, waiting = [], list(conditions)
        for view in views:
            mine = [own for own in waiting if own.uses <= frozenset(view.bag.columns)]
            waiting = [own for own in waiting if own not in mine]
            kept = filtered(view.bag, [own.expression for own in mine]) if mine else view.bag
            parts.append(replace(view, bag=kept))
        made = max(parts, key=lambda own: (own.bag.owned, own.bag.depth))
        parts.remove(made)
        while parts:
            other = max(parts, key=lambda own: self._nearness(made.bag, own.bag, waiting))
            parts.remove(other)
            both = frozenset((*made.bag.columns, *other.bag.columns))
            now = [own for own in waiting if own.uses <= both]
            waiting = [own for own in waiting if own not in now]
            made = View(self.join(made, other, "INNER", now), (*made.seen, *other.seen))
        return replace(whole, bag=made.bag)

    def _nearness(self, bag: Bag, other: Bag, waiting: Sequence[Condition]) -> tuple[bool, bool]:
        pairs = [_across(own, bag, other) for own in waiting]
        return _says_owner(bag, other, pairs), any(pairs)

    def join(
        self,
        one: View,
        two: View,
        how: str,
        conditions: Sequence[Condition],
        *,
        said: bool = False,
    ) -> Bag:
        """Return a join, by equal columns where their types compare.

        Conditions name the owner, unless it has been `said` before.
        """
        if not said:
            self.check_owner(one, two, conditions)
        left, right = one.bag, two.bag
        columns = (*left.columns, *(() if how in {"SEMI", "ANTI"} else right.columns))
        equal: list[tuple[str, str]] = []
        others: list[Expression] = []
        for own in conditions:
            pair = _across(own, left, right)
            if pair is not None:
                taken = (*left.columns, *right.columns)
                left, mine = _as_column(left, pair[0], taken)
                right, theirs = _as_column(right, pair[1], (*taken, mine))
                if alike(*self.tables.kinds(left, [mine]), *self.tables.kinds(right, [theirs])):
                    equal.append((mine, theirs))
                    continue
            others.append(own.expression)
        written = {seen.column: seen.name for seen in (*one.seen, *two.seen)}
        self._check_once(left, right, how, equal, written)
        return replace(joined(left, right, how, equal, others), columns=columns)

    def _check_once(
        self,
        left: Bag,
        right: Bag,
        how: str,
        equal: Sequence[tuple[str, str]],
        written: Mapping[str, str],
    ) -> None:
        """Refuse a public table of which a row that is protected by itself meets several.

        `written` has the names of columns as the statement writes them.
        """
        if left.owned == right.owned or how not in {"INNER", "LEFT"}:
            return
        public, names = (right, [two for _, two in equal]) if left.owned else (
            left, [one for one, _ in equal]
        )  # fmt: skip
        known = public.unique is not None and public.unique <= set(names)
        protected = left if left.owned else right
        known |= any(name in public.matches for name in names)
        if not protected.single or not names or known:
            return
        shown = ", ".join(written.get(name, name) for name in names)
        if self.tables.is_released(public, names):
            raise refuse("several released matches", names=shown)
        if self.tables.repeats(public, names):
            raise refuse("several matches", names=shown)

    @staticmethod
    def check_owner(left: View, right: View, conditions: Sequence[Condition]) -> None:
        """Refuse a join of owned relations whose conditions compare no unit, and no key of one."""
        pairs = [_across(own, left.bag, right.bag) for own in conditions]
        meant(
            not (left.bag.owned and right.bag.owned) or _says_owner(left.bag, right.bag, pairs),
            "join across units",
            condition=_rewrite(left, right),
        )

    # conditions and expressions

    def written(
        self, node: Node, view: View, items: Items, special: Special | None = None
    ) -> Expression:
        """Return an expression over rows and items; `special` writes some nodes."""
        uses, outer = set[str](), set[str]()

        def named(parts: Sequence[str], before: int | None) -> str:
            found = view.find(parts)
            if found is not None:
                uses.add(found[1])
                return found[0]
            if len(parts) == 1:
                for index, (alias, item) in enumerate(items[:before]):
                    if folded(alias) == folded(parts[0]):
                        return inner(item, index)
            if view.outer is not None and (found := view.outer.find(parts)) is not None:
                outer.add(found[1])
                return found[0]
            raise view.missing(parts)

        def inner(part: Node, before: int | None) -> str:
            def own(node: Node) -> str | None:
                return None if special is None else special(node, uses, outer)

            return write(part, Scope(lambda parts: named(parts, before), own))

        sql = inner(node, None)
        around = {} if view.outer is None else view.outer.bag.sizes
        size = size_of(sql, {**around, **view.bag.sizes})
        sure = special is None and bool(certain(node, view.kind))
        return Expression(sql, frozenset(uses), frozenset(outer), sure, size)

    def condition_of(
        self, node: Node, view: View, items: Items, special: Special | None = None
    ) -> Condition:
        """Return a condition on rows."""
        made = self.written(node, view, items, special)
        whole = condition(node, made.sql)
        sure = made.sure and (whole == made.sql or certain(node, view.kind) == "BOOLEAN")
        made = replace(made, sql=whole, sure=sure)
        if kind(node) != ("COMPARISON", "COMPARE_EQUAL") or special is not None:
            return Condition(made)
        sides = [self.written(node[side], view, items) for side in ("left", "right")]
        return Condition(made, (sides[0], sides[1]))

    def _where(self, node: Node, view: View, sees: Sees, items: Items, taken: set[str]) -> View:
        """Return the rows of a view that fulfil a condition with subqueries."""
        asked = _negated(node)
        if asked is not None and _is_membership(asked[0]):
            sub, denied = asked
            other, conditions = self.matches(sub, view, sees, items, taken)
            bag = self.join(view, other, "ANTI" if denied else "SEMI", conditions)
            if denied and sub["subquery_type"] == "ANY":
                bag = self._known(replace(view, bag=bag), other, conditions)
            return replace(view, bag=bag)
        special = _Subqueries(self, view, sees, items, taken)
        made = self.condition_of(node, view, items, special.answer)
        if made.expression.outer:
            raise refuse("correlated")
        size_of(made.expression.sql, special.view.bag.sizes)
        return replace(view, bag=filtered(special.view.bag, [made.expression]))

    def _known(self, view: View, other: View, conditions: Sequence[Condition]) -> Bag:
        """Return the rows that a comparison with a NULL does not leave in doubt: for NOT IN.

        The last condition is that comparison. Where there are no others, all that counts of the
        other relation is whether it has a row with NULL, and one without.
        """
        *rest, same = conditions
        assert same.pair is not None  # noqa: S101 as `matches` makes it
        mine, value = same.pair
        name = fresh("missing", [*view.bag.columns, *other.bag.columns, OWNER])
        missing = {name: Expression(f"({value.sql} IS NULL)", value.uses)}
        bag = extended(other.bag, missing) if rest else distinct(chosen(other.bag, missing))
        doubt = Expression(f"({quoted(name)} OR ({mine.sql} IS NULL))", mine.uses | {name})
        whole = [*rest, Condition(doubt)]
        return self.join(view, replace(other, bag=bag), "ANTI", whole, said=True)

    def matches(
        self, sub: Node, view: View, sees: Sees, items: Items, taken: set[str]
    ) -> tuple[View, list[Condition]]:
        """Return the rows of an EXISTS or IN, and what makes a row of the view match one."""
        only(sub, "subquery", "subquery_type", "comparison_type", "child")
        select = sub["subquery"]["node"]
        around = replace(view, outer=None)
        if _is_plain(select):
            inner, conditions = self.from_where(
                select, commons(select, sees, several=True), (), around
            )
            items = [item for node in select["select_list"] for item in unfolded(node, inner)]
            is_any = sub["subquery_type"] == "ANY"
            value = self.written(_one(items), inner, ()) if is_any else None
        else:
            made = self.query(select, sees)
            bag, new = renamed(made.bag, taken | {folded(n) for n in view.bag.columns})
            inner = View(bag, tuple(Seen((), name, new[own]) for name, own in made.names))
            conditions = []
            value = column(new[_one(made.names)]) if sub["subquery_type"] == "ANY" else None
        if value is not None:
            if value.outer:
                raise refuse("correlated")
            mine = self.written(sub["child"], around, items)
            same = Expression(f"({mine.sql} = {value.sql})", mine.uses | value.uses)
            conditions = [*conditions, Condition(same, (mine, value))]
        return inner, [_opened(own) for own in conditions]

    # queries

    def query(self, node: Node, sees: Sees) -> Made:
        """Return what a subquery, CTE or view makes."""
        sort = kind(node)
        if sort == ("", "SET_OPERATION_NODE"):
            return self._union(node, sees)
        if sort != ("", "SELECT_NODE"):
            raise refuse_node(node)
        return _Select(self, node, commons(node, sees, several=True)).made()

    def _union(self, node: Node, sees: Sees) -> Made:
        if node["setop_type"] != "UNION" or not node["setop_all"]:
            raise refuse(
                "set operation",
                operation=node["setop_type"].replace("_", " "),
                every=" ALL" if node["setop_all"] else "",
            )
        only(node, "setop_type", "setop_all", "children", "cte_map", "modifiers")
        for modifier in node["modifiers"]:
            raise refuse_part(modifier["type"])
        sees = commons(node, sees, several=True)
        parts = [self.query(child, sees) for child in node["children"]]
        names = parts[0].names
        if any(len(part.names) != len(names) for part in parts):
            raise refuse("UNION ALL of widths")
        kinds = [self.tables.kinds(part.bag, [own for _, own in part.names]) for part in parts]
        for place, (name, _) in enumerate(names):
            if not all(alike(kinds[0][place], own[place]) for own in kinds):
                raise refuse("UNION ALL of types", name=name)
        taken: list[str] = [OWNER]
        new: list[str] = []
        for name, _ in names:
            new.append(fresh(name, taken))
            taken.append(new[-1])
        maps = [dict(zip(new, (own for _, own in part.names), strict=True)) for part in parts]
        bag = united([part.bag for part in parts], maps)
        return Made(bag, tuple(zip((name for name, _ in names), new, strict=True)))


def _opened(own: Condition) -> Condition:
    """Return a condition of a subquery over the join of it with what is around it."""

    def opened(one: Expression) -> Expression:
        return replace(one, uses=one.uses | one.outer, outer=frozenset())

    pair = None if own.pair is None else (opened(own.pair[0]), opened(own.pair[1]))
    return Condition(opened(own.expression), pair)


@dataclass
class _Subqueries:
    """Subqueries inside of an expression: each becomes a column of the rows."""

    compiler: Compiler
    view: View
    sees: Sees
    items: Items
    taken: set[str]

    def answer(self, node: Node, uses: set[str], _: set[str]) -> str | None:
        """Return the column that stands for a subquery; None for any other node."""
        if kind(node) != ("SUBQUERY", "SUBQUERY"):
            return None
        sql, columns = self._membership(node) if _is_membership(node) else self._scalar(node)
        uses |= columns
        return sql

    def name(self, wanted: str, other: View) -> str:
        """Return a name that no column has: of the rows, or of those that they are joined with."""
        columns = (*self.view.bag.columns, *other.bag.columns)
        name = fresh(wanted, [*self.taken, *columns, OWNER])
        self.taken.add(folded(name))
        return name

    def _membership(self, node: Node) -> tuple[str, set[str]]:
        compiler = self.compiler
        other, conditions = compiler.matches(node, self.view, self.sees, self.items, self.taken)
        found = self.name("found", other)
        if node["subquery_type"] == "EXISTS":
            self._mark(other, conditions, found)
            return quoted(found), {found}
        unsure = self.name("unsure", other)
        *rest, same = conditions
        perhaps = replace(same.expression, sql=f"coalesce({same.expression.sql}, true)")
        self._mark(other, conditions, found)
        self._mark(other, [*rest, Condition(perhaps)], unsure, checked=conditions)
        sql = f"CASE WHEN {quoted(found)} THEN true WHEN {quoted(unsure)} THEN NULL ELSE false END"
        return f"({sql})", {found, unsure}

    def _mark(
        self,
        other: View,
        conditions: Sequence[Condition],
        name: str,
        checked: Sequence[Condition] | None = None,
    ) -> None:
        self.compiler.check_owner(self.view, other, checked or conditions)
        matched, others = (
            self.compiler.join(self.view, other, how, conditions, said=True)
            for how in ("SEMI", "ANTI")
        )
        self._become(marked(matched, others, name))

    def extended(self, select: Node, items: Sequence[Node], path: tuple[str, ...]) -> View:
        """Return the rows with what a SELECT without items aggregates for each row, by items."""
        seen = [*self.view.seen]
        for item in items:
            uses = set[str]()
            sub = {"class": "SUBQUERY", "type": "SUBQUERY", "subquery_type": "SCALAR",
                   "subquery": {"node": {**select, "select_list": [item]}}}  # fmt: skip
            sql = str(self.answer(sub, uses, set()))
            bag, own = _as_column(self.view.bag, Expression(sql, frozenset(uses)), [*self.taken])
            self.taken.add(folded(own))
            self._become(bag)
            seen.append(Seen(path, item["alias"] or f"column {id(item)}", own))
        return View(self.view.bag, tuple(seen))

    def _become(self, bag: Bag) -> None:
        self.view = replace(self.view, bag=bag)

    def _scalar(self, node: Node) -> tuple[str, set[str]]:
        """Return the column of a scalar subquery: one aggregate of what belongs to the row."""
        compiler = self.compiler
        only(node, "subquery", "subquery_type", "comparison_type")
        select = node["subquery"]["node"]
        if kind(select) != ("", "SELECT_NODE") or node["subquery_type"] != "SCALAR":
            raise refuse_node(node)
        around = replace(self.view, outer=None)
        made = _Select(compiler, select, commons(select, self.sees, several=True), around)
        bag, value, keys, empty = made.scalar()
        meant(bool(keys) or not bag.owned, "number about everybody")
        pairs = []
        for mine, theirs in keys:
            same = Expression(f"({mine.sql} = {quoted(theirs)})", mine.uses | {theirs})
            pairs.append(Condition(same, (mine, column(theirs))))
        self._become(compiler.join(self.view, View(bag, ()), "LEFT", pairs))
        if empty is None:
            return quoted(value), {value}
        return f"coalesce({quoted(value)}, {empty})", {value}


@dataclass
class _Select:
    """One SELECT of a subquery, CTE or view: its groups, windows and columns, in their order."""

    compiler: Compiler
    node: Node
    sees: Sees
    outer: View | None = None
    taken: set[str] = field(default_factory=set)

    def name(self, wanted: str) -> str:
        name = fresh(wanted, [*self.taken, OWNER])
        self.taken.add(folded(name))
        return name

    def _start(self) -> tuple[View, list[Condition], list[tuple[str, Node]]]:
        select = self.node
        only(select, *CLAUSES)
        by_all = select["aggregate_handling"] == "FORCE_AGGREGATES"
        if not by_all and select["aggregate_handling"] != "STANDARD_HANDLING":
            raise refuse_part("aggregate_handling")
        sets = select["group_sets"]
        if sets and (
            len(sets) > 1 or sorted(sets[0]) != list(range(len(select["group_expressions"])))
        ):
            raise refuse("group_sets")
        named = [(n["alias"], n) for n in select["select_list"] if n["alias"]]
        view, around = self.compiler.from_where(select, self.sees, named, self.outer)
        items = [item for node in select["select_list"] for item in unfolded(node, view)]
        if by_all:
            keys = [
                node
                for _, node in items
                if not _aggregates(node) and any(map(is_column, nodes(node)))
            ]
            self.node = {**select, "group_expressions": keys}
        self.taken |= {folded(name) for name in view.bag.columns}
        if self.outer is not None:
            self.taken |= {folded(name) for name in self.outer.bag.columns}
        return view, around, items

    def made(self) -> Made:
        """Return what it makes."""
        view, _, items = self._start()
        ordered = self._modifiers()
        stage = _Stage(self, view, items)
        stage.prepare()
        out = [(name, stage.written(node, index)) for index, (name, node) in enumerate(items)]
        having = [] if self.node["having"] is None else [stage.condition(self.node["having"])]
        qualify = [] if self.node["qualify"] is None else [stage.condition(self.node["qualify"])]
        on = None
        if ordered is not None and ordered[0]:
            on = stage.first([*ordered[0]], ordered[1])
        bag = stage.bag(having, [*qualify, *([on] if on else [])])
        names: list[tuple[str, str]] = []
        made: dict[str, Expression] = {}
        for name, expression in out:
            own = fresh(name, [*made, OWNER])
            made[own] = expression
            names.append((name, own))
        require_apart(names)
        bag = chosen(bag, made)
        if ordered is not None and not ordered[0]:
            bag = self._distinct(bag)
        return Made(bag, tuple(names))

    def _distinct(self, bag: Bag) -> Bag:
        meant(
            bool(bag.keys) or not bag.owned,
            "DISTINCT across units",
        )
        kinds = self.compiler.tables.kinds(bag, bag.columns)
        for name, own in zip(bag.columns, kinds, strict=True):
            require_single(own, f"DISTINCT over column {name!r}")
        return distinct(_one_of_equal(bag, bag.columns, kinds))

    def _modifiers(self) -> tuple[list[Node], list[Node]] | None:
        """Return what DISTINCT [ON] names, and its order; None without."""
        found = {modifier["type"]: modifier for modifier in self.node["modifiers"]}
        unique = found.pop("DISTINCT_MODIFIER", None)
        targets = [] if unique is None else unique.get("distinct_on_targets") or []
        order = found.pop("ORDER_MODIFIER", None) if targets else None
        for name, modifier in found.items():
            skips = name == "LIMIT_MODIFIER" and not modifier["limit"]
            raise refuse_part("OFFSET" if skips else name)
        if unique is None:
            return None
        only(unique, "distinct_on_targets")
        return targets, [] if order is None else order["orders"]

    def scalar(self) -> tuple[Bag, str, list[tuple[Expression, str]], str | None]:
        """Return one aggregate by the columns that are compared with those around.

        With the relation come the column of the value, pairs of an expression around it and the
        column that it equals, and what stands for no rows.
        """
        select = self.node
        if select["group_expressions"] or select["modifiers"] or select["having"]:
            raise refuse("no one aggregate")
        view, around, items = self._start()
        if len(items) != 1 or not _aggregates(items[0][1]):
            raise refuse("no one aggregate")
        keys: list[tuple[Expression, Expression]] = []
        for own in around:
            sides = own.pair or (own.expression, own.expression)
            inner = [side for side in sides if side.uses and not side.outer]
            outer = [side for side in sides if side.outer and not side.uses]
            if own.pair is None or len(inner) != 1 or len(outer) != 1:
                raise refuse("correlated by more than equality")
            keys.append((replace(outer[0], uses=outer[0].outer, outer=frozenset()), inner[0]))
        stage = _Stage(self, view, items)
        named = [(mine, stage.key(theirs)) for mine, theirs in keys]
        value = stage.written(items[0][1], 0)
        if stage.windows or value.outer:
            raise refuse("correlated")
        name = self.name("value")
        counts = {"count", "count_star"}
        empty = "0" if called(items[0][1]) in counts else None
        if empty is None and any(called(part) in counts for part in nodes(items[0][1])):
            raise refuse("no one aggregate")
        bag = extended(stage.bag([], []), {name: value})
        kept = {own: column(own) for own in (*(own for _, own in named), name)}
        return chosen(bag, kept), name, named, empty


@dataclass
class _Stage:
    """The aggregates and windows of a SELECT, collected while its expressions are written."""

    select: _Select
    view: View
    items: Items
    keys: dict[str, str] = field(default_factory=dict)
    before: dict[str, Expression] = field(default_factory=dict)
    calls: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    ahead: dict[str, Expression] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    grouped: bool = False
    sums: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    """The columns that expressions over windows name."""

    def __post_init__(self) -> None:
        """Tell whether rows are grouped."""
        select = self.select.node
        parts = [[node for _, node in self.items], select["having"], select["qualify"]]
        self.grouped = bool(select["group_expressions"]) or _aggregates(parts)
        self.subqueries = _Subqueries(
            self.select.compiler, self.view, self.select.sees, self.items, self.select.taken
        )

    def prepare(self) -> None:
        """Read the keys of GROUP BY, and see that the unit is among them."""
        for node in self.select.node["group_expressions"]:
            place = None
            if literal(node)[0] in {"INTEGER", "NUMERIC"}:
                place = int(literal(node)[1]) if literal(node)[1].isdecimal() else 0
                if not 1 <= place <= len(self.items):
                    raise refuse("place in GROUP BY")
            key = node if place is None else self.items[place - 1][1]
            self.key(self.select.compiler.written(key, self.view, self.items))
        bag = self.view.bag
        said = not (bag.owned and self.grouped) or any(n in bag.keys for n in self.keys.values())
        if not said:
            self.select.compiler.about_all.append(self.select.node)
        meant(
            said,
            "GROUP BY across units",
            unit=_unit_of(self.view),
        )

    def key(self, expression: Expression) -> str:
        """Return the column of a key."""
        if expression.outer:
            raise refuse("correlated")
        self.grouped = True
        if expression.sql not in self.keys:
            own = expression.column
            self.keys[expression.sql] = own or self._named(self.before, expression, "key")
        return self.keys[expression.sql]

    def _named(self, found: dict[str, Any], wanted: object, name: str) -> str:
        """Return the column of what is wanted: a new one, unless there is one already."""
        for own, known in found.items():
            if known == wanted:
                return own
        own = self.select.name(name)
        found[own] = wanted
        return own

    def condition(self, node: Node) -> Expression:
        """Return a condition over aggregates and windows."""
        made = self.written(node, None)
        return replace(made, sql=condition(node, made.sql))

    def written(self, node: Node, index: int | None, *, windows: bool = True) -> Expression:
        """Return an expression over aggregates and windows."""
        items = [(name, item) for name, item in self.items[:index] if item is not node]

        def special(part: Node, uses: set[str]) -> str | None:
            found = self._special(part, windows=windows)
            if found is None:
                return None
            uses.add(found)
            return quoted(found)

        def subquery(part: Node, uses: set[str], outer: set[str]) -> str | None:
            if (
                not self.grouped
                and (found := self.subqueries.answer(part, uses, outer)) is not None
            ):
                return found
            return special(part, uses)

        made = self.select.compiler.written(node, self.view, items, subquery)
        if made.outer:
            raise refuse("correlated")
        made = replace(made, size=size_of(made.sql, self._sizes()))
        self.read |= made.uses
        if self.grouped:
            known = {*self.keys.values(), *self.calls, *self.windows}
            for own in made.uses - known:
                raise refuse("column beside aggregates", own=own)
        return made

    def _sizes(self) -> dict[str, Size]:
        """Return how long the columns get that expressions name."""
        sizes = dict(self.subqueries.view.bag.sizes)
        sizes |= {name: own.size for made in (self.before, self.ahead)
                  for name, own in made.items() if own.size is not None}  # fmt: skip
        sizes |= {name: sizes.get(own[1], STORED) for name, own in self.calls.items()}
        for name, window in self.windows.items():
            sizes[name] = longest(sizes.get(own, STORED) for own in window.arguments)
        return sizes

    def _special(self, node: Node, *, windows: bool) -> str | None:
        if node.get("class") == "WINDOW":
            if not windows:
                raise refuse_node(node)
            return self._window(node)
        if called(node) in AGGREGATES:
            return self._aggregate(node)
        if not self.grouped or literal(node) != ("", ""):
            return None
        if any(
            called(p) in AGGREGATES or p.get("class") in {"WINDOW", "SUBQUERY"} for p in nodes(node)
        ):
            return None
        try:
            sql = self.select.compiler.written(node, self.view, self.items).sql
        except (RefusedStatementError, MissingColumnError):
            return None
        return self.keys.get(sql)

    def _aggregate(self, node: Node) -> str:
        name = called(node)
        if name not in EXACT and name not in BY_LIST:
            raise refuse(
                "aggregate in a subquery", name=name, known=", ".join(sorted({*EXACT, *BY_LIST}))
            )
        only(node, "function_name", "arguments", "distinct", "filter")
        compiler = self.select.compiler
        given = [item["expression"] for item in node["arguments"]]
        given = [item for item in given if kind(item) != ("STAR", "STAR")]
        if len(given) > 1 or (not given and name not in {"count", "count_star"}):
            raise refuse("arguments of an aggregate", name=name)
        value = compiler.written(given[0], self.view, self.items) if given else None
        if node["filter"] is not None:
            where = compiler.condition_of(node["filter"], self.view, self.items).expression
            base = value or Expression("true")
            value = Expression(
                f"CASE WHEN {where.sql} THEN {base.sql} END",
                where.uses | base.uses,
                where.outer | base.outer,
                size=base.size,
            )
        if value is not None and value.outer:
            raise refuse("correlated")
        argument = "" if value is None else value.column or self._named(self.before, value, "value")
        name = "count" if name == "count_star" else name
        call = (name, argument, bool(node["distinct"]))
        return self._named(self.calls, call, f"{name}_{argument}" if argument else "count")

    def _window(self, node: Node) -> str:
        name = folded(node["function_name"])
        rule = WINDOWS.get(name)
        if rule is None:
            raise refuse_node(node)
        only(node, "function_name", "arguments", "partitions", "orders", "start", "end", "distinct",
             "start_expr", "end_expr", "exclude_clause", "ignore_nulls", "has_ignore_nulls",
             "offset_expr", "default_expr", "children", "filter_expr", "arg_orders")  # fmt: skip
        for part in ("distinct", "has_ignore_nulls", "filter_expr", "arg_orders"):
            if node.get(part):
                raise refuse("parts of a window function")
        if node.get("exclude_clause", "NO_OTHER") != "NO_OTHER":
            raise refuse("EXCLUDE in a window")
        given = [
            item.get("expression", item)
            for item in node.get("arguments") or node.get("children") or []
        ]
        given = [item for item in given if kind(item) != ("STAR", "STAR")]
        more = [node[part] for part in ("offset_expr", "default_expr") if node.get(part)]
        constants = [*given[rule.values :], *more]
        if not all(is_number_of_rows(own) and int(literal(own)[1]) > 0 for own in constants):
            raise refuse("argument of a window function", name=name)
        arguments_ = tuple(self._ahead(item) for item in given[: rule.values])
        if len(arguments_) < rule.values and name != "count":
            raise refuse("no argument of a window function", name=name)
        partition = tuple(self._ahead(item) for item in node["partitions"])
        order = tuple((self._ahead(item["expression"]), direction(item)) for item in node["orders"])
        frame = frame_of(node)
        window = Window(
            CALLED.get(name, name), arguments_, tuple(literal(own)[1] for own in constants),
            partition, order, frame, rule.orders or frame.startswith("ROWS"),
        )  # fmt: skip
        return self._windowed(window, sums=rule.sums)

    def _windowed(self, window: Window, *, sums: bool = False) -> str:
        bag = self.view.bag
        meant(
            not bag.owned
            or any(self.ahead.get(own, column(own)).column in bag.keys for own in window.partition),
            "window across units",
            unit=_unit_of(self.view),
        )
        name = self._named(self.windows, window, window.function)
        self.sums.update(window.arguments if sums else ())
        return name

    def _ahead(self, node: Node) -> str:
        expression = self.written(node, None, windows=False)
        return expression.column or self._named(self.ahead, expression, "part")

    def first(self, targets: Sequence[Node], order: Sequence[Node]) -> Expression:
        """Return the condition of DISTINCT ON: the first row of each."""
        window = Window(
            "row_number", (), (), tuple(self._ahead(node) for node in targets),
            tuple((self._ahead(item["expression"]), direction(item)) for item in order),
            "", breaks_ties=True,
        )  # fmt: skip
        name = self._windowed(window)
        return Expression(f"({quoted(name)} = 1)", frozenset([name]))

    def bag(self, having: Sequence[Expression], qualify: Sequence[Expression]) -> Bag:
        """Return the rows over which all expressions are written."""
        bag = (
            self._aggregated() if self.grouped else extended(self.subqueries.view.bag, self.before)
        )
        if having and not self.grouped:
            raise refuse("having")
        bag = filtered(bag, having) if having else bag
        bag = extended(bag, self.ahead)
        if self.windows:
            used = frozenset[str]().union(*(own.uses for own in self.windows.values()))
            names = list(bag.columns)
            kinds = self.select.compiler.tables.kinds(bag, names)
            for name, own in zip(names, kinds, strict=True):
                if name in used:
                    require_single(own, f"a window over column {name!r}")
                if name in self.sums:
                    require_exact(own, name)
            bag = _one_of_equal(bag, names, kinds)
            if any(own.breaks_ties for own in self.windows.values()):
                bag = _with_ties(bag, kinds, self.read)
            bag = windowed(bag, self.windows)
        return filtered(bag, qualify) if qualify else bag

    def _aggregated(self) -> Bag:
        compiler = self.select.compiler
        bag = extended(self.subqueries.view.bag, self.before)
        names = list(
            dict.fromkeys([*self.keys.values(), *(a for _, a, _ in self.calls.values() if a)])
        )
        kinds = dict(zip(names, compiler.tables.kinds(bag, names), strict=True))
        bag = _one_of_equal(bag, names, [*kinds.values()])
        for name in self.keys.values():
            require_single(kinds[name], f"GROUP BY {name!r}")
        made: dict[str, Expression] = {}
        after: dict[str, Expression] = {}
        for own, (name, argument, unique) in self.calls.items():
            sql, function = exact_sum(name, argument, unique=unique, sort=kinds.get(argument))
            made[own] = Expression(sql, frozenset([argument] if argument else []))
            if function:
                after[own] = Expression(
                    f"list_aggregate({quoted(own)}, '{function}')", frozenset([own])
                )
        bag = grouped(bag, list(dict.fromkeys(self.keys.values())), made)
        return chosen(bag, {own: after.get(own, column(own)) for own in bag.columns})


def _one_of_equal(bag: Bag, names: Sequence[str], kinds: Sequence[Any]) -> Bag:
    """Return a relation in which equal values of some columns are the same bits."""
    made = {
        name: Expression(one_float(name, own), frozenset([name]))
        for name, own in zip(names, kinds, strict=True)
        if str(own) in FLOATS
    }
    return replace(extended(bag, made), keys=bag.keys)


def _with_ties(bag: Bag, kinds: Sequence[Any], read: set[str]) -> Bag:
    """Return a relation whose columns tell all rows apart that differ; those not read may go."""
    kept = []
    for name, own in zip(bag.columns, kinds, strict=True):
        if name in read:
            require_single(own, f"column {name!r} beside a window that breaks ties by it")
        if is_single(own):
            kept.append(name)
    return chosen(bag, {name: column(name) for name in kept})


def _beside(views: Sequence[View]) -> View:
    """Return what several relations show together; their rows are joined later."""
    seen = tuple(own for view in views for own in view.seen)
    if len(views) == 1:
        return View(views[0].bag, seen)
    columns = tuple(name for view in views for name in view.bag.columns)
    keys = {name: key for view in views for name, key in view.bag.keys.items()}
    owned = any(view.bag.owned for view in views)
    kinds = {name: own for view in views for name, own in view.bag.kinds.items()}
    sizes = {name: own for view in views for name, own in view.bag.sizes.items()}
    return View(Bag(columns, owned, _no_text, keys, kinds=kinds, sizes=sizes), seen)


def _no_text(*_: object) -> str:
    raise AssertionError("relations that are not joined have no text")


def _is_beside(node: Node) -> bool:
    """Tell a join with a subquery without FROM, which has one row at most beside each."""
    if kind(node["right"]) != ("", "SUBQUERY"):
        return False
    select = node["right"]["subquery"]["node"]
    items = _is_plain(select) and kind(select["from_table"]) == ("", "EMPTY")
    every = literal(node["condition"]) == ("BOOLEAN", "true") and not select["where_clause"]
    kept = node["join_type"] == "INNER" or (node["join_type"] == "LEFT" and every)
    return items and kept and not any(kind(own)[0] == "STAR" for own in select["select_list"])


def _names_left(node: Node, left: Sequence[View], error: MissingColumnError) -> bool:
    """Tell whether a column that a subquery in FROM lacks is one of the relations before it."""
    if kind(node["right"]) != ("", "SUBQUERY") or node["join_type"] not in {"INNER", "LEFT"}:
        return False
    names = [own["column_names"] for own in nodes(node["right"]) if is_column(own)]
    lacking = [own for own in names if repr(".".join(own)) in error.message]
    return any(_beside(left).find(own) for own in lacking)


def _by_names(
    node: Node, left: Sequence[View], right: Sequence[View], *, over: bool
) -> tuple[list[View], list[Condition]]:
    """Return the right side of a join as it is seen beside USING, and what that compares."""
    mine, theirs, seen = _beside(left), _beside(right), [*right]
    conditions = []
    for name in node.get("using_columns") or ():
        one, two = mine.find([name]), theirs.find([name])
        if one is None or two is None or over:
            raise (theirs if two is None else mine).missing([name])
        equal = Expression(f"({one[0]} = {two[0]})", frozenset([one[1], two[1]]))
        conditions.append(Condition(equal, (column(one[1]), column(two[1]))))
        for place, view in enumerate(seen):  # the name alone means the left one
            hidden = (replace(own, plain=own.plain and folded(own.name) != folded(name))
                      for own in view.seen)  # fmt: skip
            seen[place] = replace(view, seen=tuple(hidden))
    return seen, conditions


def unfolded(node: Node, view: View) -> list[tuple[str, Node]]:
    """Return items of a SELECT list with their names, * written out."""
    if kind(node) == ("STAR", "STAR") and not node["columns"]:
        of = node["relation_name"]
        seen = [own for own in view.seen if (qualifies(own.path, [of]) if of else own.plain)]
        if not seen:
            raise view.missing([of or "*"])
        named = [(own.name, [*own.path[-1:], own.name]) for own in seen]
        return starred(node, named, lambda name: view.missing([name]))
    return [named_item(node, ((own.name, own) for own in view.seen))]


def _conjuncts(node: Node | None) -> list[Node]:
    """Return the conditions that AND combines, and those that every side of an OR has."""
    if node is None:
        return []
    found = list[Node]()
    for part in conjuncts(node):
        found.append(part)
        if kind(part) == ("CONJUNCTION", "CONJUNCTION_OR"):
            first, *others = [_conjuncts(child) for child in part["children"]]
            known = [[plain(own) for own in other] for other in others]
            found += [own for own in first if all(plain(own) in other for other in known)]
    return found


def _is_about(view: View, node: Node) -> bool:
    """Tell a condition that names columns of one relation, and no others."""
    names = [own["column_names"] for own in nodes(node) if is_column(own)]
    return bool(names) and all(view.find(own) is not None for own in names)


def _holds_subquery(node: Node) -> bool:
    return any(kind(part) == ("SUBQUERY", "SUBQUERY") for part in nodes(node))


def _across(own: Condition, left: Bag, right: Bag) -> tuple[Expression, Expression] | None:
    """Return the sides of an equality, that of the left relation first; None for others."""
    if own.pair is None:
        return None
    one, two = own.pair
    mine, theirs = frozenset(left.columns), frozenset(right.columns)
    for first, second in ((one, two), (two, one)):
        if first.uses and second.uses and first.uses <= mine and second.uses <= theirs:
            return first, second
    return None


def _as_column(bag: Bag, expression: Expression, taken: Sequence[str]) -> tuple[Bag, str]:
    """Return a relation in which an expression is a column."""
    own = expression.column
    if own is not None:
        return bag, own
    name = fresh("key", [*taken, OWNER])
    return extended(bag, {name: expression}), name


def _says_owner(
    left: Bag, right: Bag, pairs: Iterable[tuple[Expression, Expression] | None]
) -> bool:
    """Tell whether one of the equalities is between keys that belong to one unit."""
    for one, two in filter(None, pairs):
        mine, theirs = left.keys.get(one.column or ""), right.keys.get(two.column or "")
        if mine is not None and mine == theirs:
            return True
    return False


def _keys(view: View) -> list[tuple[str, str]]:
    """Return the columns that can be named and belong to one unit, with the key of each."""
    names = {own.column: own.written for own in view.seen}
    return [(names[own], key) for own, key in view.bag.keys.items() if own in names]


def _rewrite(left: View, right: View) -> str:
    mine, theirs = _keys(left), _keys(right)
    for one, key in mine:
        for two, other in theirs:
            if key == other:
                return f"{one} = {two}"
    names = " and ".join(sorted({name for name, _ in (*mine, *theirs)}))
    return f"join along the links of the schema ({names or 'keep the key columns in subqueries'})"


def _unit_of(view: View) -> str:
    return next((name for name, _ in _keys(view)), "the column of the unit")


def _negated(node: Node) -> tuple[Node, bool] | None:
    """Return a subquery that is a whole condition, and whether it is denied."""
    if kind(node) == ("SUBQUERY", "SUBQUERY"):
        return node, False
    if kind(node) == ("OPERATOR", "OPERATOR_NOT"):
        only(node, "children")
        (child,) = node["children"]
        found = _negated(child)
        return None if found is None else (found[0], not found[1])
    return None


def _is_membership(node: Node) -> bool:
    sort = node.get("subquery_type")
    return sort == "EXISTS" or (sort == "ANY" and node["comparison_type"] == "COMPARE_EQUAL")


def _is_plain(select: Node) -> bool:
    """Tell a SELECT that projects and filters."""
    if kind(select) != ("", "SELECT_NODE"):
        return False
    parts = ("group_expressions", "having", "qualify", "modifiers", "group_sets", "sample")
    return not any(select.get(part) for part in parts) and not _aggregates(select["select_list"])


def _aggregates(tree: object) -> bool:
    """Tell whether there is an aggregate or window in a tree, outside of subqueries."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if kind(node) == ("SUBQUERY", "SUBQUERY"):
                continue
            if called(node) in AGGREGATES:
                return True
            if node.get("class") == "WINDOW":
                waiting.extend(v for k, v in node.items() if k != "function_name")
                continue
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False


def _one(columns: Sequence[tuple[str, T]]) -> T:
    if len(columns) != 1:
        raise refuse("IN over several columns")
    return columns[0][1]


@dataclass(frozen=True)
class OwnedRows(Rows):
    """The rows of a FROM over the tables of a schema, as one relation with an owner."""

    view: View = field(kw_only=True)

    def find(self, parts: Sequence[str]) -> str | None:
        """Return the SQL of a name."""
        found = self.view.find(parts)
        return None if found is None else found[0]


def owned_rows(select: Node, reader: Reader) -> Rows:
    """Return the rows of the outermost SELECT: its FROM and WHERE over the tables of a schema."""
    assert reader.schema is not None  # noqa: S101 the caller has looked
    tables = Tables(reader.schema, reader.place, reader.engine, reader.givens)
    compiler = Compiler(tables)
    items = [(n["alias"], n) for n in select["select_list"] if n["alias"]]
    view, _ = compiler.from_where(select, commons(select, {}, several=True), items)
    if not view.bag.owned:
        raise refuse("public tables alone")
    view, constants = _with_constants(select, view, compiler)
    bag, place = view.bag, reader.place
    unit = tables.known[tables.names[folded(reader.schema.unit_table)]]

    def rows(names: tuple[str, ...], engine: duckdb.DuckDBPyConnection) -> Any:
        return place.query(bag.sql(names, tables.leaves(bag, names)), engine)

    def twin(names: tuple[str, ...], _: duckdb.DuckDBPyConnection) -> Any:
        return tables.planned(bag, names)

    names = (*bag.columns, OWNER)
    source = Source(names, rows, twin, unit.table.wrap, gated=bag.read | {OWNER})
    return OwnedRows(
        base=Relation(unit.path, names, None, source),
        named=unit,
        named_columns=((str(reader.schema.unit), quoted(OWNER)),),
        columns=tuple((own.name, quoted(own.column)) for own in view.seen if own.plain),
        path=(),
        text=f"({bag.sql(bag.columns, tables.shown)})",
        tables=tuple(tables.used.values()),
        filtered=True,
        computes=not bag.sure,
        sizes=bag.sizes,
        copies=bag.copies,
        single=frozenset(map(quoted, (OWNER, *bag.keys))),
        bounds={quoted(own.column): own.bounds for own in view.seen if own.bounds is not None},
        kinds=bag.kinds,
        given=constants,
        view=view,
    )


def about_all(select: Node, reader: Reader) -> bool:
    """Tell a SELECT whose aggregates are about several units, so that it is a release."""
    if reader.schema is None:
        return False
    compiler = Compiler(Tables(reader.schema, reader.place, reader.engine, reader.givens))
    with suppress(DPError):
        compiler.query(select, {})
    return any(node is select for node in compiler.about_all)


def _with_constants(select: Node, view: View, compiler: Compiler) -> tuple[View, dict[str, str]]:
    """Return the rows beside the released numbers that calls and keys name: one row of each."""
    items = [item for item in select["select_list"] if not holds_dp(item)]
    parts = [items, select["group_expressions"], *(n for n in nodes(select) if is_dp(n))]
    names = dict.fromkeys(node["given"] for node in nodes(parts) if "given" in node)
    tables, found = compiler.tables, dict[str, str]()
    taken = {folded(own) for own in view.bag.columns}
    for name in names:
        made, ((_, column),) = tables.bag(tables.find([name], None), taken)
        taken.add(folded(column))
        one = View(replace(made, unique=frozenset()), ())
        view = replace(view, bag=compiler.join(view, one, "INNER", []))
        found[name] = quoted(column)
    return view, found
