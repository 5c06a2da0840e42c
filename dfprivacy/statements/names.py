"""Find the columns that a SELECT sees, by their names and aliases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb

from dfprivacy.engine.files import quote
from dfprivacy.errors import MissingColumnError, RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.calls import (
    list_aggregates,
    name_item,
    read_name,
    select_all,
)
from dfprivacy.statements.expressions import AGGREGATES, Expression, is_dp, write_field
from dfprivacy.statements.gate import Relation
from dfprivacy.statements.nodes import (
    Function,
    Name,
    Node,
    Operator,
    Other,
    Over,
    Query,
    Select,
    Star,
    conjuncts,
    find_text,
    fold_name,
    name_call,
    text_of_query,
    walk,
)
from dfprivacy.statements.relations import Bag, Leaf
from dfprivacy.statements.rules import REFUSALS, nearly, refuse, refuse_part


@dataclass(frozen=True)
class VisibleColumn:
    """A column that can be named: qualified by a path; `plain` where its name alone will do.

    `bounds` are declared by a schema. `choices` are those of a column of constants.
    """

    path: tuple[str, ...]
    name: str
    column: str
    plain: bool = True
    bounds: Bounds | None = None
    choices: Bounds | None = None

    @property
    def written(self) -> str:
        """The name by which a statement can write it."""
        return ".".join((*self.path[-1:], self.name))


Items = Sequence[tuple[str, Node]]
"""The items of a SELECT list, by their names."""


@dataclass(frozen=True)
class Scope:
    """The rows of a FROM, and what can be named; `outer` are those around a subquery.

    `items` can be named where no column has the name. `constants` are the SQL of released numbers,
    by the names under which they are lent.
    """

    bag: Bag
    seen: tuple[VisibleColumn, ...]
    outer: Scope | None = None
    items: Items = ()
    constants: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, bag: Bag, names: Iterable[tuple[str, str]]) -> Scope:
        """Return a relation with pairs of a name and its column, in order."""
        return cls(bag, tuple(VisibleColumn((), name, column) for name, column in names))

    @property
    def columns(self) -> list[str]:
        """The columns that can be named, in order."""
        return [visible.column for visible in self.seen]

    def names_around(self, expression: Expression) -> bool:
        """Check for an expression that names columns around the subquery.

        `Tables.take_name` gives no two columns of a statement the same name.
        """
        return self.outer is not None and not expression.uses.isdisjoint(self.outer.bag.columns)

    def find(self, parts: Sequence[str]) -> tuple[str, str] | None:
        """Return the SQL of a name, and the column that it is, or is a field of."""
        last = len(parts) - 1
        for length in dict.fromkeys((last, *range(last))):  # a table's column before a field
            path, name = parts[:length], parts[length]
            matches = [
                visible
                for visible in self.seen
                if fold_name(visible.name) == fold_name(name)
                and (qualifies(visible.path, path) if path else visible.plain)
            ]
            if len({visible.column for visible in matches}) > 1:
                names = " or ".join(visible.written for visible in matches)
                raise refuse("column of several tables", name=name, names=names)
            if matches:
                sql = quote(matches[0].column)
                for name_inside in parts[length + 1 :]:
                    sql = write_field(sql, name_inside)
                return sql, matches[0].column
        return None

    def find_range(self, node: Node) -> Bounds | None:
        """Return the bounds of a column that is true or false, or chosen among constants."""
        if not isinstance(node, Name):
            return None
        if self.kind(node.path) == "BOOLEAN":
            return Bounds(0, 1)
        sql, _ = self.find(node.path) or ("", "")
        return self.find_choices(sql)

    def find_choices(self, sql: str) -> Bounds | None:
        """Return the bounds of a column that is chosen among constants, by its SQL."""
        choices = (term.choices for term in self.seen if quote(term.column) == sql)
        return next(filter(None, choices), None)

    def arrange(self, names: Sequence[str]) -> Scope:
        """Return the scope with its columns in the order of some names, which are all of them."""
        columns = {fold_name(visible.name): visible for visible in self.seen}
        order = list(map(fold_name, names))
        if columns.keys() != {*order}:
            raise refuse("UNION of columns")
        return replace(self, seen=tuple(columns[name] for name in order))

    def without_plain(self, name: str) -> Scope:
        """Return the scope where a name alone means none of its columns."""
        seen = (
            replace(column, plain=column.plain and fold_name(column.name) != fold_name(name))
            for column in self.seen
        )
        return replace(self, seen=tuple(seen))

    def kind(self, parts: Sequence[str]) -> str:
        """Return the declared type of a column, where a catalog says it; "" for other names."""
        sql, result = self.find(parts) or ("", "")
        return self.bag.kind(result) if sql == quote(result) else ""

    def missing(self, parts: Sequence[str]) -> Exception:
        """Return the error for a name that is no column."""
        name = ".".join(parts)
        if f"@{fold_name(name)}" in REFUSALS:
            return refuse(f"@{fold_name(name)}")
        visible_names = [visible.name for visible in self.seen]
        if len(parts) > 1 and fold_name(name) in map(fold_name, visible_names):
            close = f"a name with a dot stands in double quotes: {quote(name)}; "
        else:
            close = nearly(name, visible_names)
        hint = (
            f"{close}the columns are {', '.join(map(repr, visible_names[:20]))}; text stands in "
            f"single quotes, '{name}', and double quotes make a name"
        )
        if name.isdecimal() or not visible_names:
            hint = "names of columns are texts in SQL: pass frame.rename(columns=str)"
        return MissingColumnError(f"no table in FROM has a column {name!r}", hint=hint)


def require(holds: bool, rule: str, bag: Bag, what: str, **words: str) -> None:  # noqa: FBT001 the condition
    """Refuse a query over several units unless the condition that names the unit holds.

    relations.py writes the owner wherever rows meet. So a wrong condition here can answer another
    question, but can't release what should not be released.
    """
    if not holds:
        raise refuse("several protected rows", what=what) if bag.single else refuse(rule, **words)


def qualifies(path: Sequence[str], parts: Sequence[str]) -> bool:
    """Check if parts of a name before a column mean a relation of this path."""
    return list(map(fold_name, path))[len(path) - len(parts) :] == list(map(fold_name, parts))


def refuse_view(view: Relation) -> RefusedStatementError:
    """Return the error for a view that stands for something else than a query."""
    name = view.path[-1]
    shown, name = (name, name) if name.isidentifier() else (quote(name), "t")
    return refuse("view without definition", name=name, shown=shown)


def refuse_table_function(node: Other, engine: duckdb.DuckDBPyConnection) -> RefusedStatementError:
    """Return the error for a table function, whose hint passes what it reads."""
    query = text_of_query(replace(select_all("t"), source=node), engine)
    source = f"con.sql({query.removeprefix('SELECT * ')!r})"
    match dict(node.parts)["function"]:
        case Function(name="read_parquet" | "read_csv", arguments=(argument,)):
            path = find_text(argument.value)
            source = source if path is None else repr(path)
    return refuse("TABLE_FUNCTION", source=source)


def require_apart(scope: Scope) -> Scope:
    """Refuse a subquery, CTE or view with two columns of the same name, and return all others."""
    if len({fold_name(visible.name) for visible in scope.seen}) < len(scope.seen):
        raise refuse("two columns in a subquery")
    return scope


def put_beside(views: Sequence[Scope]) -> Scope:
    """Return the columns of several relations; their rows are joined later."""
    seen = tuple(column for view in views for column in view.seen)
    if len(views) == 1:
        return Scope(views[0].bag, seen)
    facts = {name: fact for view in views for name, fact in view.bag.facts.items()}
    owned = any(view.bag.owned for view in views)

    def write_side(names: tuple[str, ...], leaf: Leaf) -> str:
        """Write columns of one relation: their types are asked for before all are joined."""
        bags = [view.bag for view in views if {*names} <= view.bag.facts.keys()]
        assert bags, "relations that are not joined have no text"  # noqa: S101
        return bags[0].text(names, leaf)

    return Scope(Bag(facts, owned, write_side), seen)


def unfold_star(node: Node, view: Scope) -> Items:
    """Return items of a SELECT list with their names, * written out."""
    if not isinstance(node, Star) or node.is_columns:
        return [(name_item(node, (column.name for column in view.seen)), node)]
    table = node.table
    seen = [
        column
        for column in view.seen
        if (qualifies(column.path, [table]) if table else column.plain)
    ]
    if not seen:
        raise view.missing([table or "*"])
    replaced = {fold_name(entry.name): entry.value for entry in node.replaced}
    left_out = {fold_name(name) for name in node.left_out}
    for name in [*left_out, *replaced]:
        if name not in {fold_name(column.name) for column in seen}:
            raise view.missing([name])
    items: list[tuple[str, Node]] = []
    for visible in seen:
        name = fold_name(visible.name)
        item = replaced.get(name, read_name(*visible.path[-1:], visible.name))
        items += [] if name in left_out else [(visible.name, item)]
    return items


def list_row_items(items: Items, scope: Scope) -> list[tuple[int, str, Node]]:
    """Return the items of a SELECT list that aggregate no rows, with their places and names.

    A name that is no column stands for an item before it.
    """
    rows, aggregated = list[tuple[int, str, Node]](), set[str]()
    for index, (name, node) in enumerate(items):
        parts = [*walk(node, queries=False)]
        paths = [part.path for part in parts if isinstance(part, Name)]
        aliases = {fold_name(path[0]) for path in paths if scope.find(path) is None}
        aggregates = any(
            isinstance(part, Over)
            or is_dp(part)
            or name_call(part) in AGGREGATES
            or (isinstance(part, Operator) and part.sort == "GROUPING_FUNCTION")
            for part in parts
        )
        if aggregates or aliases & aggregated:
            aggregated.add(fold_name(name))
        else:
            rows.append((index, name, node))
    return rows


def split_condition(node: Node | None) -> list[Node]:
    """Return the conditions that AND combines, and those that every side of an OR has."""
    result = list[Node]()
    for part in conjuncts(node):
        result.append(part)
        if isinstance(part, Operator) and part.sort == "CONJUNCTION_OR":
            first, *others = map(split_condition, part.operands)
            result += [term for term in first if all(term in other for other in others)]
    return result


def is_plain(query: Query) -> bool:
    """Check if a query only projects and filters."""
    if not isinstance(query, Select):
        return False
    parts = (query.is_grouped, query.having, query.qualify, query.modifiers, query.sets)
    return not any(parts) and not list_aggregates(query.items)


def list_operands(call: Function | Over) -> list[Node]:
    """Return the arguments of an aggregate or window, without *; none may have a name."""
    if any(argument.name for argument in call.arguments):
        raise refuse_part("name")
    return [a.value for a in call.arguments if not isinstance(a.value, Star)]
