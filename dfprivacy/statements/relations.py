"""Write relations as SQL: each row has an owner, or everybody may know it.

This file alone decides what runs. Whatever it is asked to combine, the owner's equality stands in
every join of owned relations, in every grouping, window and DISTINCT, and each owned relation
carries its owner to whoever reads it. So the rows that a unit owns are a function of its own rows
and of public tables, whatever the statement said. docs/how-to/owned-rows.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from types import MappingProxyType

from dfprivacy.engine.files import quote
from dfprivacy.statements.expressions import STORED, Expression, Size, longest
from dfprivacy.statements.rules import refuse

OWNER = "owner"
"""The column that holds the owner; no other column of a relation has this name."""
_OWNER = quote(OWNER)


def column(name: str) -> Expression:
    """Return a column as an expression."""
    return Expression(quote(name), frozenset([name]))


def equality(left: Expression, right: Expression) -> Expression:
    """Return the condition that two expressions are equal."""
    return Expression(f"({left.sql} = {right.sql})", left.uses | right.uses, pair=(left, right))


def list_uses(expressions: Iterable[Expression | Window]) -> frozenset[str]:
    """Return the columns that expressions name."""
    return frozenset[str]().union(*(expression.uses for expression in expressions))


def same_value(first: str, second: str) -> Expression:
    """Return the condition that two columns hold the same value, or both none."""
    sql = f"({quote(first)} IS NOT DISTINCT FROM {quote(second)})"
    return Expression(sql, frozenset([first, second]), kind="BOOLEAN")


@dataclass(frozen=True)
class StoredRead:
    """The columns that are read of a stored table, by their new names, and of which rows.

    `selected` are those of the result. `owner` are the column that names the unit, if
    there is one, and the SQL of the owner. As the text of a relation, it reads all columns.
    """

    table: str
    columns: Mapping[str, str]
    owner: tuple[str, str] | None
    conditions: tuple[Expression, ...] = ()
    selected: tuple[str, ...] = ()

    def __call__(self, selected: tuple[str, ...], leaf: Leaf) -> str:
        """Return the SELECT of some columns, and of the owner."""
        used = frozenset(selected) | list_uses(self.conditions)
        columns = {name: column for name, column in self.columns.items() if name in used}
        unit, _ = self.owner or ("", "")
        columns |= {unit: self.columns[unit]} if unit else {}
        return leaf(replace(self, columns=columns, selected=selected))

    def select_from(self, source: str, where: Sequence[str] = ()) -> str:
        """Return the SELECT of the wanted columns and the owner over a source of the others."""
        unit, owner = self.owner or ("", None)
        conditions = [*where, *([f"{quote(unit)} IS NOT NULL"] if unit else [])]
        filters = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {_list(_quote_all(self.selected), owner=owner)} FROM {source}{filters}"  # noqa: S608 ours


Leaf = Callable[[StoredRead], str]
"""How a stored table is read: returns a SELECT, over its rows or over none."""


@dataclass(frozen=True)
class Facts:
    """The facts about a column of a relation."""

    key: str | None = None
    """The key that it stands for if its values belong to one owner, by what the schema says."""
    key_or_null: str | None = None
    """The key that its values stand for where a LEFT JOIN has met a row; elsewhere it is NULL."""
    origins: frozenset[str] = frozenset()
    """The columns of stored tables that have all its pairs of value and owner."""
    matches: int | None = None
    """The most rows of one of its values that a protected row meets, as the schema declares."""
    is_read: bool = False
    """True if it holds what has been read of a stored table, and nothing that is made of it."""
    kind: str = ""
    """The declared type of such a column, as far as a catalog says it."""
    size: Size = STORED
    """The length of its values, where that is more than the longest one that is stored."""


@dataclass(frozen=True)
class Bag:
    """A relation: its columns, whether its rows have owners, and how it is written.

    `text` returns a SELECT of some columns in their order, and of the owner if there is one.
    Nothing that is written depends on the keys among the facts of columns.
    """

    facts: Mapping[str, Facts]
    owned: bool
    text: Callable[[tuple[str, ...], Leaf], str]
    depth: int = 0
    single: bool = False
    """True if each protected row stays one row, or goes."""
    unique: frozenset[str] | None = None
    """Columns that no two rows have in common, by how the relation is made; None for unknown."""
    link: Link | None = None
    """How its rows get their owners, where they do so by a link."""
    copies: int = 1
    """As how many rows a row that is protected by itself counts at most."""
    sure: bool = False
    """True if it only reads, filters and joins, and no computation can fail."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.facts)

    @property
    def keys(self) -> dict[str, str]:
        """The columns whose values belong to one owner, each with the key that it stands for."""
        return {name: fact.key for name, fact in self.facts.items() if fact.key is not None}

    def kind(self, name: str) -> str:
        """Return the declared type of a column; "" for unknown."""
        return self.facts[name].kind if name in self.facts else ""

    def size(self, names: Iterable[str]) -> Size:
        """Return the bound of what is a value of one of some columns."""
        return longest(self.facts[name].size for name in names if name in self.facts)

    def sql(self, names: Iterable[str], leaf: Leaf) -> str:
        """Return a SELECT of the columns that are wanted, and of the owner."""
        chosen = frozenset(names)
        return self.text(tuple(name for name in self.columns if name in chosen), leaf)


@dataclass(frozen=True)
class Link:
    """Rows of a table, and the key of the table above whose owners are theirs.

    `target` is that key as `Facts.origins` names it. Rows that are joined with owned ones by their
    link get no owner of their own: where the pairs of key and owner there are among those of the
    table above, each row meets those whom it belongs to, and nobody else.
    """

    rows: Bag
    column: str
    above: Bag
    key: str
    target: str
    is_small: bool = False
    """True if conditions are taken to leave few of the rows: the rest depends on their keys."""
    owner: str | None = None
    """The SQL of the owner, where the key is the unit's column: a row's own value of it."""

    def said_by(self, equal: Iterable[tuple[str, str]], other: Bag) -> bool:
        """Return True if equalities of columns, its own first, hold for all pairs of the key."""
        return any(
            first == self.column and self.target in other.facts[two].origins for first, two in equal
        )


def _list(items: Iterable[str], *, owner: str | None = None) -> str:
    parts = [*items, *([] if owner is None else [f"{owner} AS {_OWNER}"])]
    return ", ".join(parts) or 'true AS "row"'


def _quote_all(names: Iterable[str], of: str = "") -> list[str]:
    return [f"{of}{quote(name)}" for name in names]


def _select(bag: Bag, items: Iterable[str], uses: Iterable[str], leaf: Leaf, rest: str = "") -> str:
    """Return the SELECT of items and the owner over some columns of a relation."""
    columns = _list(items, owner=_OWNER if bag.owned else None)
    return f"SELECT {columns} FROM ({bag.sql(uses, leaf)}) AS rows{rest}"  # noqa: S608 ours


def stored(
    table: str,
    columns: Mapping[str, str],
    owner: tuple[str, str] | None = None,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> Bag:
    """Return a stored table by its own names of columns, and the owner of its rows."""
    facts = {n: Facts(is_read=True, kind=kinds.get(column, "")) for n, column in columns.items()}
    return Bag(facts, owner is not None, StoredRead(table, columns, owner), sure=True)


def own_rows_by(bag: Bag, unit: str, owner: str) -> Bag:
    """Return rows that are protected by themselves, as rows of the unit that a column names.

    `owner` is the SQL of the owner. A row without a unit is left out.
    """
    assert bag.single  # noqa: S101 so each row is a function of one stored row

    return replace(bag, text=partial(_select_owned, bag, unit, owner), single=False)


def _select_owned(bag: Bag, unit: str, owner: str, selected: tuple[str, ...], leaf: Leaf) -> str:
    """Return the SELECT of rows whose owner is an expression over their column of the unit."""
    below = bag.sql([*selected, unit], leaf)
    columns = _list(_quote_all(selected), owner=owner)
    return f"SELECT {columns} FROM ({below}) AS rows WHERE {owner} IS NOT NULL"  # noqa: S608 ours


def _by_itself(bag: Bag, what: str) -> None:
    """Refuse what looks at several protected rows where each is by itself."""
    if bag.single:
        raise refuse("several protected rows", what=what)


def _first(bag: Bag, names: Sequence[str], limit: int = 1) -> Bag:
    """Return the first rows of a public relation for each value of some columns."""

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        rows, by = bag.sql(bag.columns, leaf), ", ".join(_quote_all(names))
        order = ", ".join(_quote_all(bag.columns))
        rank = f"row_number() OVER (PARTITION BY {by} ORDER BY {order})"
        return (
            f"SELECT {_list(_quote_all(selected))} FROM (SELECT * FROM ({rows}) AS every "  # noqa: S608
            f"QUALIFY {rank} <= {limit}) AS firsts"
        )

    return replace(bag, text=text, unique=frozenset(names) if limit == 1 else None, sure=False)


def _count_matches(bag: Bag, equal: Sequence[str]) -> tuple[Bag, int]:
    """Return a public relation, and how many rows of it a protected row meets at most."""
    if bag.unique is not None and bag.unique <= set(equal):
        return bag, 1
    if not equal:
        raise refuse("join without equality")
    declared = [(bag.facts[name].matches or 0, name) for name in equal if bag.facts[name].matches]
    if declared:
        matches, name = min(declared, key=itemgetter(0))
        return _first(bag, [name], matches), matches
    return _first(bag, equal), 1


def link_table(link: Link) -> Bag:
    """Return a table whose rows belong to each owner of the rows that they are linked to."""
    column, key = quote(link.column), quote(link.key)

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        if link.owner is not None:
            return _select_owned(link.rows, link.column, link.owner, selected, leaf)
        sql, above, start = link.rows.sql([*selected, link.column], leaf), link.above, ""
        if link.is_small and above.link is not None:
            start, sql = f"WITH {_FEW} AS MATERIALIZED ({sql}) ", f"FROM {_FEW}"
            above = _met(above.link, link.key, f"SELECT {column} FROM {_FEW}")  # noqa: S608
        columns = _list(_quote_all(selected, "l."), owner=f"r.{_OWNER}")
        return (
            f"{start}SELECT {columns} FROM ({sql}) AS l "  # noqa: S608 ours
            f"JOIN (SELECT DISTINCT {key} AS {quote('key')}, {_OWNER} FROM "
            f"({above.sql([link.key], leaf)}) AS links) AS r ON l.{column} = r.{quote('key')}"
        )

    facts = dict(link.rows.facts)
    facts[link.column] = replace(facts[link.column], origins=link.above.facts[link.key].origins)
    depth, sure = link.above.depth + 1, link.rows.sure and link.above.sure
    return Bag(facts, owned=True, text=text, depth=depth, link=link, sure=sure)


_FEW = quote("few rows")


def _met(link: Link, key: str, values: str) -> Bag:
    """Return the rows of a table whose key is among some values, before they get their owners."""
    rows = link.rows

    def text(names: tuple[str, ...], leaf: Leaf) -> str:
        return (
            f"SELECT {_list(_quote_all(names, 'l.'))} FROM ({rows.sql([*names, key], leaf)}) AS l "  # noqa: S608
            f"SEMI JOIN ({values}) AS r({quote('key')}) ON l.{quote(key)} = r.{quote('key')}"
        )

    return link_table(replace(link, rows=replace(rows, text=text)))


def chosen(
    bag: Bag, expressions: Mapping[str, Expression], conditions: Sequence[Expression] = ()
) -> Bag:
    """Return expressions over the rows that fulfill all conditions."""

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        uses = list_uses([*(expressions[name] for name in selected), *conditions])
        parts = [f"{expressions[name].tried} AS {quote(name)}" for name in selected]
        where = " AND ".join(condition.tried for condition in conditions)
        return _select(bag, parts, uses, leaf, f" WHERE {where}" if where else "")

    named = [(name, value, value.column) for name, value in expressions.items()]
    new = {was: name for name, _, was in named if was is not None}
    is_unique = bag.unique is not None and bag.unique <= new.keys()
    unique = frozenset(new[name] for name in bag.unique or ()) if is_unique else None
    facts = {
        name: Facts(size=value.size or bag.size(value.uses)) if was is None else bag.facts[was]
        for name, value, was in named
    }
    computed = [value for _, value, was in named if was is None]
    sure = bag.sure and all(expression.kind for expression in (*computed, *conditions))
    return Bag(facts, bag.owned, text, bag.depth, bag.single, unique, copies=bag.copies, sure=sure)


def extend_relation(bag: Bag, expressions: Mapping[str, Expression]) -> Bag:
    """Return a relation with more columns."""
    if not expressions:
        return bag
    return chosen(bag, {name: column(name) for name in bag.columns} | dict(expressions))


def filter_relation(bag: Bag, conditions: Sequence[Expression]) -> Bag:
    """Return the rows that fulfill all conditions."""
    if not conditions:
        return bag
    if bag.link is not None:  # before the rows get their owners
        rows = filter_relation(bag.link.rows, conditions)
        is_small = bag.link.is_small or len(conditions) > 1
        return replace(link_table(replace(bag.link, rows=rows, is_small=is_small)), facts=bag.facts)
    if isinstance(bag.text, StoredRead):
        below = replace(bag.text, conditions=(*bag.text.conditions, *conditions))
        sure = bag.sure and all(condition.kind for condition in conditions)
        return replace(bag, text=below, sure=sure)
    return chosen(bag, {name: column(name) for name in bag.columns}, conditions)


def join_relations(
    left: Bag,
    right: Bag,
    how: str,
    equal: Sequence[tuple[str, str]],
    others: Sequence[Expression] = (),
) -> Bag:
    """Return a join of pairs of columns of one type; of two that have owners, owners are equal."""
    if right.owned and not left.owned and how != "INNER":
        raise refuse("public to protected", join=_SHOWN[how])
    both = left.owned and right.owned
    if both:
        _by_itself(left, "a join")
    elif right.single or (right.link is not None and how == "INNER"):
        return join_relations(right, left, how, _swap_pairs(equal), others)
    copies = left.copies
    if left.single and how in {"INNER", "LEFT"}:
        right, matches = _count_matches(right, [two for _, two in equal])
        copies *= matches
    owned = left.owned or (right.owned and how == "INNER")
    facts = dict(left.facts)
    for name, fact in right.facts.items() if how in {"INNER", "LEFT"} else ():
        key = fact.key or fact.key_or_null
        lost = replace(fact, key=None, key_or_null=key, origins=frozenset())
        facts[name] = fact if how == "INNER" else lost
    facts = {name: replace(fact, matches=None) for name, fact in facts.items()}
    depth, single = max(left.depth, right.depth), left.single
    if left.link is not None and not right.owned:  # before the rows get their owners
        rows = join_relations(left.link.rows, right, how, equal, others)
        return replace(link_table(replace(left.link, rows=rows)), facts=facts)
    if both and right.link is not None and right.link.said_by(_swap_pairs(equal), left):
        both, right = False, right.link.rows
    elif both and how == "INNER" and left.link is not None and left.link.said_by(equal, right):
        both, left = False, left.link.rows
    side = "l" if left.owned else "r"

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        uses = list_uses(others).union(selected, *equal)
        parts = [f"l.{_OWNER} = r.{_OWNER}"] if both else []
        parts += [f"l.{quote(mine)} = r.{quote(theirs)}" for mine, theirs in equal]
        parts += [condition.tried for condition in others]
        return (
            f"SELECT {_list(_quote_all(selected), owner=f'{side}.{_OWNER}' if owned else None)} "  # noqa: S608
            f"FROM ({left.sql(uses, leaf)}) AS l {how} JOIN ({right.sql(uses, leaf)}) AS r "
            f"ON {' AND '.join(parts) or 'true'}"
        )

    sure = left.sure and right.sure and all(condition.kind for condition in others)
    return Bag(facts, owned, text, depth, single, copies=copies, sure=sure)


def _swap_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(two, first) for first, two in pairs]


_SHOWN = {"LEFT": "LEFT JOIN", "SEMI": "EXISTS or IN", "ANTI": "NOT EXISTS or NOT IN"}


def mark_matches(matched: Bag, others: Bag, name: str) -> Bag:
    """Return the rows of a relation that have a match and others, a column telling them apart."""
    ways = ((matched, "true"), (others, "false"))
    sides = [extend_relation(bag, {name: Expression(sql)}) for bag, sql in ways]
    return _unite_all(sides, [{column: column for column in sides[0].columns}] * 2)


def unite_relations(bags: Sequence[Bag], columns: Sequence[Mapping[str, str]]) -> Bag:
    """Return all rows of several relations; `columns` are the columns of each by their new name."""
    if len({bag.owned for bag in bags}) > 1:
        raise refuse("UNION ALL of both")
    _by_itself(bags[0], "UNION ALL")
    return _unite_all(bags, columns)


def _unite_all(bags: Sequence[Bag], columns: Sequence[Mapping[str, str]]) -> Bag:
    names = tuple(columns[0])

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        parts = []
        for bag, of_bag in zip(bags, columns, strict=True):
            items = [f"{quote(of_bag[name])} AS {quote(name)}" for name in selected]
            parts.append(_select(bag, items, [of_bag[name] for name in selected], leaf))
        return " UNION ALL ".join(parts)

    facts = {}
    for name in names:
        parts = [bag.facts[names_of[name]] for bag, names_of in zip(bags, columns, strict=True)]
        keys = {fact.key for fact in parts}
        facts[name] = Facts(
            keys.pop() if len(keys) == 1 else None,
            is_read=all(fact.is_read for fact in parts),
            size=longest(fact.size for fact in parts),
        )
    first, depth = bags[0], max(bag.depth for bag in bags)
    return Bag(facts, first.owned, text, depth, first.single, copies=first.copies)


def group_relation(bag: Bag, keys: Sequence[str], aggregates: Mapping[str, Expression]) -> Bag:
    """Return aggregates by keys, and by owner where there are owners."""
    _by_itself(bag, "GROUP BY or DISTINCT")

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        uses = list_uses(aggregates[name] for name in selected if name in aggregates).union(keys)
        parts = [
            f"{aggregates[n].sql} AS {quote(n)}" if n in aggregates else quote(n) for n in selected
        ]
        by = ", ".join([*_quote_all(keys), *([_OWNER] if bag.owned else [])])
        if not by and not parts:  # one row, though nothing of it is read
            parts = ['count(*) AS "row"']
        return _select(bag, parts, uses, leaf, f" GROUP BY {by}" if by else "")

    facts = _derive_facts(bag, keys, aggregates)
    return Bag(facts, bag.owned, text, bag.depth, unique=frozenset(keys))


def _derive_facts(
    bag: Bag, names: Iterable[str], values: Mapping[str, Expression] | Mapping[str, Window]
) -> dict[str, Facts]:
    """Return the facts of columns, and of those that take one of the values of others."""
    facts = {name: replace(bag.facts[name], matches=None, kind="") for name in names}
    return facts | {name: Facts(size=bag.size(value.uses)) for name, value in values.items()}


@dataclass(frozen=True)
class Window:
    """A window function: what it is called with, its partition, order and frame, all by column.

    `order` are columns, each with its direction. Where ties matter, `breaks_ties`, the whole row
    breaks them.
    """

    function: str
    arguments: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    order: tuple[tuple[str, str], ...] = ()
    frame: str = ""
    breaks_ties: bool = False

    @property
    def uses(self) -> frozenset[str]:
        """The columns that it names."""
        return frozenset((*self.arguments, *self.partition, *(name for name, _ in self.order)))

    def sql(self, row: Sequence[str], *, owned: bool) -> str:
        """Return it as SQL; `row` is what a whole row consists of."""
        by = [*([_OWNER] if owned else []), *_quote_all(self.partition)]
        order = [f"{quote(name)} {direction}" for name, direction in self.order]
        order += _quote_all(row) if self.breaks_ties else []
        parts = [f"PARTITION BY {', '.join(by)}"] if by else []
        parts += [f"ORDER BY {', '.join(order)}"] if order else []
        arguments = ", ".join([*_quote_all(self.arguments), *self.constants])
        over = " ".join([*parts, *([self.frame] if self.frame else [])])
        return f"{self.function}({arguments}) OVER ({over})"


def add_windows(bag: Bag, windows: Mapping[str, Window]) -> Bag:
    """Return a relation with window functions over the rows of each owner by itself."""
    _by_itself(bag, "a window")

    def text(selected: tuple[str, ...], leaf: Leaf) -> str:
        uses = list_uses(windows[name] if name in windows else column(name) for name in selected)
        row = [name for name in bag.columns if name in uses]
        parts = [
            f"{windows[n].sql(row, owned=bag.owned)} AS {quote(n)}" if n in windows else quote(n)
            for n in selected
        ]
        return _select(bag, parts, uses, leaf)

    return Bag(_derive_facts(bag, bag.columns, windows), bag.owned, text, bag.depth)
