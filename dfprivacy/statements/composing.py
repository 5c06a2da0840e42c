"""Split a statement into releases, with the rows of each, and a query over their answers.

A SELECT that holds a dp_ call among its own expressions is a release; it may stand in a CTE, in
FROM, in an expression or in a UNION. The rest of the statement may be any query over releases: it
runs on an engine of its own which holds the released tables and nothing else, which opens no file
and finds no Python variable. So whatever the rest is, it is a function of released answers.

Over the tables of a schema a release may stand inside of another, too. What the other one takes of
it is a query over released answers: a table that everybody may know once these are drawn.

Nothing here looks at data. Every text over rows was written by this package, none by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import takewhile, zip_longest
from typing import Any, TypeVar

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.embedded import quote_text
from dfprivacy.engine.files import quote
from dfprivacy.errors import (
    DPError,
    InvalidQuestionError,
    MissingColumnError,
    RefusedStatementError,
)
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.release.plan import GROUPING, needs_limits
from dfprivacy.statements.calls import (
    CLOCK,
    KEEP,
    Call,
    display,
    find_alternative,
    find_item,
    has_aggregates,
    holds_dp,
    inline_ctes,
    name_item,
    private,
    read_call,
    read_keep,
    read_select,
    read_template,
    rewrite,
    select_all,
    select_from,
    select_item,
    whole_number,
    with_intervals,
)
from dfprivacy.statements.expressions import (
    Expression,
    Writer,
    condition,
    direction,
    is_dp,
    window,
)
from dfprivacy.statements.gate import TEXT, Given, Reader, Relation
from dfprivacy.statements.names import (
    Items,
    Scope,
    list_row_items,
    refuse_table_function,
)
from dfprivacy.statements.nodes import (
    Derived,
    Distinct,
    Empty,
    EndOfSteps,
    Function,
    Join,
    Name,
    Node,
    Operator,
    Order,
    Other,
    OtherQuery,
    Over,
    Query,
    Select,
    Star,
    Subquery,
    Table,
    Target,
    conjuncts,
    fold_name,
    holds,
    name_call,
    parse,
    rebuild,
    rebuild_part,
    refuse_node,
    split_explain,
    split_modifiers,
    text_of_query,
    walk,
)
from dfprivacy.statements.relations import OWNER, Bag, chosen, list_uses
from dfprivacy.statements.rows import about_all, read_rows
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.select import Compiler
from dfprivacy.statements.tables import Tables

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A key, over the protected relation, or a column of the result, over the released table."""

    name: str
    sql: str
    by_row: bool = False
    """True if the expression of a key is `by_row`."""
    uses: frozenset[str] = frozenset()
    """The columns that a key names."""


def statement(select: Query, reader: Reader) -> Statement:
    """Return the questions of a SELECT, their rows, and the query over their answers."""
    if not isinstance(select, Select):
        raise refuse_node(select)
    grouped = select.keys or has_aggregates(select) or holds_dp(select)
    match select.modifiers:
        case (Distinct(targets=()), *others) if not grouped:  # the groups that it makes
            select = replace(select, modifiers=(*others,), handling="FORCE_AGGREGATES")
    select = private(select)
    order, limit, offset = _modifiers(select)
    scope, compiler = read_rows(select, reader)
    names = [seen.name for seen in scope.seen if seen.plain]
    items = [(name_item(node, names), node) for node in select.items]
    secret_keys = () if reader.has_public_keys else select.keys
    notes_limits = needs_limits(reader.unit, secret_keys, None)
    if reader.intervals and not select.is_value:  # a number in an expression is a number
        items = with_intervals(items, notes_limits=notes_limits)
    release = Statement(scope, compiler, items, notes_limits, limit=limit, offset=offset)
    release.keys, release.sets = _keys(select, release)
    release.outputs = tuple(
        Column(name, release.write_item(index)) for index, (name, _) in enumerate(items)
    )
    names = [fold_name(output.name) for output in release.outputs]
    for output in release.outputs:
        if names.count(fold_name(output.name)) > 1:
            raise refuse("two columns in the result", twice=output.name)
    if select.having is not None:
        release.delta, release.selection, release.having = _having(select, release)
    release.qualify = tuple(
        condition(node, release.written(node)) for node in (select.qualify,) if node is not None
    )
    for item in order:
        by, sqls = item.value, list[str]()
        if by == Star("", (), (), is_columns=True):  # ORDER BY ALL
            sqls = [release.write_item(index) for index in range(len(items))]
        else:  # an alias goes before a key
            sql = release.item(by.path) if isinstance(by, Name) else None
            sqls = [sql or release.written(find_item(by, items))]
        release.order += tuple((sql, direction(item)) for sql in sqls)
    if not release.answers and (not release.keys or reader.has_public_keys):
        raise refuse("no dp_ call")
    named = {node.name for node in walk(select) if isinstance(node, Table)}
    release.givens = tuple(table for name, table in reader.givens.items() if name in named)
    if compiler.key_table is not None:
        release.table_keys = _list_table_keys(release, compiler.key_table.bag)
    return release


def _list_table_keys(release: Statement, public: Bag) -> list[Any]:
    """Return all values of the keys over the public table that lists them."""
    keys = [Expression(key.sql, key.uses) for key in release.keys]
    mine = {quote(name) for name in {*release.columns} - {*public.columns}}
    # count(*) would count public rows without a match
    about_rows = all(mine.issuperset(call.values or [""]) for call in release.answers)
    tables, is_listed = release.compiler.tables, list_uses(keys) <= frozenset(public.columns)
    if not (keys and about_rows and is_listed) or tables.is_released(public, public.columns):
        raise refuse("keys of a public table")
    names = [f"key_{position}" for position in range(len(keys))]
    rows = chosen(public, dict(zip(names, keys, strict=True)))
    values = tables.list_different_rows(rows, names)
    return values if len(keys) > 1 else [value for (value,) in values]


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
    select: Select, release: Statement
) -> tuple[tuple[Column, ...], tuple[tuple[int, ...], ...]]:
    """Return the keys of GROUP BY, and the grouping sets, the finest first."""
    grouped, sets = select.keys, select.sets
    if sets == ((),):
        raise refuse("GROUP BY ()")
    if select.groups_all:
        grouped = tuple(node for _, _, node in release.row_items if holds(node, Name))
    keys: dict[str, Column] = {}
    places = []
    for node in grouped:
        key = _key(node, release)
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
        used = {fold_name(other.name) for other in columns}
        columns.append(
            key if fold_name(key.name) not in used else replace(key, name=f"{key.name} ")
        )
    return tuple(columns), tuple(sets_found)


def _key(node: Node, release: Statement) -> Column:
    node = find_item(node, release.items)
    key = release.over_rows(node)
    if not holds(node, Name):
        raise refuse("GROUP BY a constant")
    items = release.row_items
    path = [*map(fold_name, node.path)] if isinstance(node, Name) else []
    for index, name, item in items:
        is_alias = [fold_name(name)] == path
        if is_alias and release.over_rows(item, index).sql != key.sql:  # by DuckDB's rule, too
            note = (
                f"GROUP BY {name} is by the column of that name: write GROUP BY ALL for the alias"
            )
            release.compiler.tables.notes[note] = None
    names = (name for index, name, item in items if release.over_rows(item, index).sql == key.sql)
    plain = [seen.name for seen in release.scope.seen if seen.plain]
    name = next(names, "") or name_item(node, plain)  # of its column in the result, or its own
    return Column(name, key.sql, key.by_row, key.uses)


def _having(
    select: Select, release: Statement
) -> tuple[int | float | None, Epsilon | None, tuple[str, ...]]:
    """Return the delta and epsilon of dp_keep, as far as they are there, and the rest of HAVING."""
    if holds(select.having, Over):
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


def write_try(sql: str) -> str:
    """Return an expression over the released table that is NULL where it fails."""
    return sql if sql.replace(".", "_").isidentifier() else f"TRY({sql})"


@dataclass
class Statement:
    """One statement: rows, keys, calls, and the query over the released table of their answers.

    `answers` has the calls, which are draws, by their text: the n-th of them is answer_n of the
    released table. It grows while the statement is read, and so does `windows`: functions with
    OVER, over the groups that `having` leaves. The n-th of them is column window_n of what
    `qualify`, outputs and order are about. `items` are the SELECT list by name; an expression may
    use the aliases of those before it. `sets` are the grouping sets, as places of keys; none where
    keys make groups. `selection` is the epsilon of a count that does nothing but select groups.
    `order` are SQL texts, each with its direction.
    """

    scope: Scope
    """The protected rows: FROM and WHERE, as one relation with owners."""
    compiler: Compiler
    items: Items
    notes_limits: bool
    """True if each interval stands beside a note, because limits of a unit may be found."""
    keys: tuple[Column, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    limit: int | None = None
    offset: int | None = None
    answers: dict[Call, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    """The SQL of items of the SELECT list that has been written, by their places."""
    windows: list[str] = field(default_factory=list)
    computed: list[tuple[Any, ...]] = field(default_factory=list)
    """Arithmetic with answers: names of answers, numbers, and each sign behind its operands."""
    checked: list[tuple[Node, Sequence[Expression]]] = field(default_factory=list)
    """Nodes over the released table, with their operands, whose types are known with the plan."""
    with_ends: set[Call] = field(default_factory=set)
    """Calls whose interval the statement shows."""
    outputs: tuple[Column, ...] = ()
    having: tuple[str, ...] = ()
    qualify: tuple[str, ...] = ()
    order: tuple[tuple[str, str], ...] = ()
    delta: int | float | None = None
    selection: Epsilon | None = None
    givens: tuple[Given, ...] = ()
    """Tables that it takes of the releases before it."""
    table_keys: list[Any] | None = None
    """The keys that a public table lists, if one does."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the protected rows, the owner's last."""
        return (*self.scope.bag.columns, OWNER)

    @cached_property
    def row_items(self) -> list[tuple[int, str, Node]]:
        """The items over rows, which can be keys."""
        return list_row_items(self.items, self.scope)

    def over_rows(self, node: Node, before: int | None = None) -> Expression:
        """Return an expression over the protected rows; it may name items `before` one."""
        return self.compiler.written(node, replace(self.scope, items=self.items[:before]))

    @cached_property
    def calls(self) -> list[tuple[str, Call]]:
        """The calls by their text, with an interval where one is shown or bounds clip."""
        calls = []
        for call, shown in self.answers.items():
            has_ends = call in self.with_ends or hasattr(call.question, "clipping")
            calls.append(
                (shown, replace(call, question=call.question.with_ends(interval=has_ends)))
            )
        return calls

    def written(self, node: Node, before: int | None = None) -> str:
        """Return the SQL of an expression over the released table."""
        return _AnswerWriter(self, before).write(node).sql

    def item(self, path: Sequence[str], before: int | None = None) -> str | None:
        """Return the SQL of the item of the SELECT list that a name means; None for others."""
        for index, (name, _) in enumerate(self.items[:before] if len(path) == 1 else ()):
            if fold_name(name) == fold_name(path[0]):
                return self.write_item(index)
        return None

    def write_item(self, index: int) -> str:
        """Return the SQL of an item of the SELECT list, which names others before it."""
        if index not in self.texts:
            self.texts[index] = self.written(self.items[index][1], index)
        return self.texts[index]

    def number_sets(self, node: Operator) -> str:
        """Return GROUPING(...): a bit for each key, the last one first, 1 where it is added up."""
        sqls = [self.over_rows(operand).sql for operand in node.operands]
        texts = [key.sql for key in self.keys]
        if not all(sql in texts for sql in sqls):
            raise refuse("GROUPING of no key")
        if not self.sets:
            return "0"
        last = len(sqls) - 1
        bits = [
            f"(((released.{GROUPING} >> {texts.index(sql)}) & 1) << {last - index})"
            for index, sql in enumerate(sqls)
        ]
        return f"({' + '.join(bits)})"

    def name_answer(self, node: Function) -> tuple[Call, str]:
        """Return a call with the name of its answer."""
        scope, tables = self.scope, self.compiler.tables
        bounds = {quote(term.column): term.bounds for term in scope.seen if term.bounds is not None}

        def find_range(part: Node) -> Bounds | None:
            value = self.over_rows(part)
            choices = scope.find_choices(value.sql)
            is_truth = choices is None and tables.find_kind(scope.bag, value) == "BOOLEAN"
            return Bounds(0, 1) if is_truth else choices

        call = read_call(node, self.over_rows, bounds, find_range)
        self.answers.setdefault(call, display(node))
        return call, f"answer_{list(self.answers).index(call)}"

    def write_answer(self, node: Function) -> str:
        """Return the SQL of the answer of a call."""
        call, name = self.name_answer(node)
        start = f"released.{name}"
        if node.name.endswith("_interval"):
            self.with_ends.add(call)
            ends = f"'value': {start}, 'low': {start}_low, 'high': {start}_high"
            noted = self.notes_limits or call.question.with_ends(interval=True).has_note
            note = f", 'note': {start}_note" if noted else ""
            if not noted and any(hasattr(call.question, at) for at in ("searches", "clipping")):
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


@dataclass
class _AnswerWriter(Writer):
    """Writes expressions over the released table; they may name items `before` one."""

    release: Statement
    before: int | None

    def find(self, node: Node) -> Expression | None:
        """Return the expression of a call, key, window or name; None for other nodes."""
        release, sql = self.release, None
        match node:
            case Function() if is_dp(node):
                sql = release.write_answer(node)
            case EndOfSteps():
                calls = {s: release.name_answer(s) for s in node.steps if isinstance(s, Function)}
                release.with_ends |= {call for call, _ in calls.values()}
                steps = tuple(calls[s][1] if isinstance(s, Function) else s for s in node.steps)
                sql = f"released.computed_{_place_item(steps, release.computed)}_{node.end}"
            case Subquery(released=str(name)):
                sql = f"released.{name}"
            case Operator(sort="GROUPING_FUNCTION"):
                sql = release.number_sets(node)
            case Over():
                text = window(node, lambda part: write_try(release.written(part)))
                sql = f"released.window_{_place_item(text, release.windows)}"
            case _ if release.keys and not holds_dp(node):
                with suppress(RefusedStatementError, MissingColumnError):
                    text, keys = release.over_rows(node).sql, [key.sql for key in release.keys]
                    sql = f"released.key_{keys.index(text)}" if text in keys else None
        if sql is None and isinstance(node, Name):
            is_known = release.scope.find(node.path) is not None
            sql = release.item(node.path, self.before) or (None if is_known else node.clock)
            if sql is None and not is_known:
                raise release.scope.missing(node.path)
            if sql is None:
                name = node.path[-1]
                raise refuse("column outside a dp_ call", quoted=quote(name), name=name)
        return None if sql is None else Expression(sql)

    def check(self, node: Node, parts: Sequence[Expression]) -> None:
        """Keep operands until their types are known."""
        self.release.checked.append((node, parts))


def _place_item(item: T, items: list[T]) -> int:
    """Return the place of an item in a list, at whose end it is put unless it is there."""
    if item not in items:
        items.append(item)
    return items.index(item)


_TABLES = frozenset(("range", "generate_series", "unnest"))
"""Table functions that the rest of a statement may call: they read nothing."""


@dataclass(frozen=True)
class Script:
    """A whole text: its releases, what is done with them, and where that goes.

    `rest` is a query over the results of `statements`, which go by `names`, and over `public`
    tables; None where the last statement is the whole text.
    """

    statements: tuple[Statement, ...]
    names: tuple[str, ...] = ()
    rest: str | None = None
    public: tuple[tuple[str, Relation], ...] = ()
    target: Target | None = None
    explains: bool = False
    """True where the text asks for its plan in place of rows."""
    notes: tuple[str, ...] = ()
    """Notes on groups that the rest leaves out, whatever the rows."""

    @property
    def makes_table(self) -> bool:
        """Check for a text that makes a table of released rows."""
        return self.target is not None and not self.explains

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns before the first one that is made of answers, where there is no rest."""
        outputs = self.statements[-1].outputs
        pattern = re.compile(r"released\.(answer|window)_")
        keys = takewhile(lambda output: not pattern.search(output.sql), outputs)
        return tuple(output.name for output in keys)


def read(text: object, reader: Reader) -> Script:
    """Return a text that has been checked whole; nothing of the data is looked at."""
    token = CLOCK.set(datetime.now(UTC))
    try:
        text, explains = split_explain(text)
        target, select = parse(text, reader.engine)
        select = inline_ctes(rewrite(select))
        try:
            script = _taken_apart(select, reader)
        except DPError as refusal:  # another statement may have the same answer
            reader.givens.clear()
            try:
                alternative = find_alternative(select)
                if alternative == select:
                    raise
                script = _taken_apart(alternative, reader)
            except DPError:
                raise refusal from None
        return replace(script, target=target, explains=explains)
    except RecursionError:
        raise refuse("nested") from None
    finally:
        CLOCK.reset(token)


def _taken_apart(select: Query, reader: Reader) -> Script:
    """Return the releases of a statement and what is done with them and with public tables."""
    text, start = fold_name(repr(select)), "release"
    while re.search(rf"['\"]{start}", text):  # no name begins like those of released tables
        start += "_"
    pieces = _Taken(start, reader)
    try:
        rest = None if asks(select) else pieces.query(select)
    except _Unreleased:
        if holds_dp(select) and not has_aggregates(select):
            raise refuse("rows beside answers", rows=pieces.rows) from None
        rest = None
    except DPError as error:
        if holds_dp(select) or error is pieces.refusal:
            raise
        rest = None
    if pieces.counts_groups:
        raise refuse("count of released groups")
    public_alone = rest is not None and not pieces.releases and not holds_dp(select)
    if rest is None or not (pieces.releases or public_alone):
        reads_rows = isinstance(select, Select) and not isinstance(select.source, Empty)
        if pieces.refusal is not None and not reads_rows:
            raise pieces.refusal
        pieces = _Taken(start, reader)
        pieces.release(pieces.below(select))
        return Script(tuple(pieces.releases.values()), tuple(pieces.names))
    if reader.intervals:
        statements = pieces.releases.values()
        columns = [[output.name for output in release.outputs] for release in statements]
        rest = with_ends(rest, dict(zip(pieces.names, columns, strict=True)))
    return pieces.compose(rest)


def asks(select: Query) -> bool:
    """Return True if a SELECT has a dp_ call among its own expressions: it is a release."""
    match select:
        case Select():
            parts = [select.items, select.where, select.keys, select.having, select.qualify]
        case OtherQuery(sort="SELECT_NODE"):
            parts = [part for name, part in select.parts if name != "from_table"]
        case _:
            return False
    return any(map(is_dp, walk([*parts, select.modifiers], queries=False)))


SHOWN_GROUPS = (
    "aggregates over the groups that are shown leave out groups of few rows; to ask about persons, "
    "pass unit= and group by the person"
)
"""The note of an aggregate over groups of secret keys."""


class _Unreleased(Exception):  # noqa: N818 it is caught below
    """A name stands for rows."""


@dataclass
class _Taken:
    """The releases that have been found, what their names begin with, and the last name of rows.

    `lent` has the names of what releases take of others, by the query that makes it; `unreleased`
    are queries that are known to look at rows, by their identity, which is kept.
    """

    start: str
    reader: Reader
    releases: dict[Query, Statement] = field(default_factory=dict)
    tables: dict[tuple[str, ...], str] = field(default_factory=dict)
    lent: dict[Query, str] = field(default_factory=dict)
    unreleased: dict[int, Query] = field(default_factory=dict)
    rows: str = ""
    refusal: DPError | None = None
    """The error of a SELECT with ordinary aggregates, which has no answer."""
    ordinary: set[str] = field(default_factory=set)
    """Names of released tables by secret keys that no dp_ call asks for."""
    counts_groups: bool = False
    """A query counts the rows of one of these."""
    sums_groups: bool = False
    """A query has another aggregate over one of these."""
    recursive: set[str] = field(default_factory=set)
    """Folded names of recursive CTEs."""

    @property
    def names(self) -> list[str]:
        """The names of the released tables."""
        return [f"{self.start}_{index}" for index in range(len(self.releases))]

    @cached_property
    def public(self) -> set[tuple[str, ...]]:
        """The very tables that the schema declares public, wherever they are found."""
        names = self.reader.schema.public if self.reader.schema else ()
        relations = {label: self.reader.source.find(tuple(label.split("."))) for label in names}
        for name, relation in relations.items():
            if relation.definition is not None:
                raise refuse("view in a schema", name=name)
        return {relation.path for relation in relations.values()}

    def compose(self, rest: Query) -> Script:
        """Return the releases so far, and a query over them."""
        used, find = _list_table_names(rest), self.reader.source.find
        tables = tuple((name, find(label)) for label, name in self.tables.items() if name in used)
        text = text_of_query(rest, self.reader.engine)
        notes = (SHOWN_GROUPS,) if self.sums_groups else ()
        return Script(tuple(self.releases.values()), tuple(self.names), text, tables, notes=notes)

    def release(self, node: Query) -> Select:
        """Read a release, and return all of its table; the same query is one release."""
        if node not in self.releases:
            self.releases[node] = statement(node, self.reader)
        return select_all(self.names[[*self.releases].index(node)])

    # over answers

    def query(self, node: Query) -> Query:
        """Return a whole query over released tables."""
        if id(node) in self.unreleased:
            raise _Unreleased
        if asks(node):
            return self.release(self.below(node))
        before = self._state()
        try:
            return self._over_answers(node)
        except _Unreleased:
            self._restore(before)
        if isinstance(node, Select) and (node.is_grouped or has_aggregates(node)):
            inner, is_release = self.below(node), False
            try:
                is_release = inner in self.releases or about_all(inner, self.reader)
                if is_release:
                    released = self.release(inner)
                    if node.is_grouped and not self.reader.has_public_keys:
                        self.ordinary |= _list_table_names(released)
                    return released
            except DPError as error:
                self.refusal = error
                if is_release:
                    raise
            self._restore(before)
        self.unreleased[id(node)] = node
        raise _Unreleased

    def _state(self) -> tuple[Any, ...]:
        return (dict(self.releases), dict(self.tables), dict(self.lent))

    def _restore(self, state: tuple[Any, ...]) -> None:
        self.releases, self.tables, self.lent = state

    def _over_answers(self, node: Query) -> Query:
        self.recursive |= {fold_name(entry.name) for entry in node.ctes}
        inner: Query = rebuild(node, self._part)
        if isinstance(inner, Select) and not inner.keys and _find_source(inner) & self.ordinary:
            calls = [n for n in walk(inner.items, queries=False) if isinstance(n, Function)]
            counts = (c.name in {"count", "count_star"} and not c.distinct for c in calls)
            self.counts_groups |= any(counts)
            self.sums_groups |= has_aggregates(inner)
        return inner

    def _part(self, node: Any) -> Any:
        """Return a part of a query, with the queries in it over released tables."""
        match node:
            case Query():
                return self.query(node)
            case Table():
                return self._table(node)
            case Derived(cte=str(name)):
                try:
                    return rebuild(node, self._part)
                except _Unreleased:
                    self.rows = name
                    raise
            case Other(sort="SHOW_REF"):
                return self._describe_tables(node)
            case Other(sort="TABLE_FUNCTION"):
                if name_call(dict(node.parts).get("function")) not in _TABLES:
                    raise refuse_table_function(node, self.reader.engine)
            case Other(sort="VALUE_PARAMETER" | "BASE_TABLE" | "SUBQUERY" | "JOIN" | "WINDOW"):
                raise refuse_node(node)
            case Over(name=name) if name.startswith("dp_"):
                raise refuse_node(node)
        return rebuild(node, self._part)

    def _table(self, node: Table) -> Node:
        """Return a table that the rest of a statement may name: a recursive CTE or a public one."""
        path = node.path
        if tuple(map(fold_name, path)) in _CATALOG:
            return replace(self._catalog(path[1]), alias=node.alias or path[1])
        if len(path) == 1 and fold_name(path[0]) in self.recursive:
            return node
        if not self.public or self.reader.source.find(path).path not in self.public:
            self.rows = ".".join(path)
            raise _Unreleased
        name = self.tables.setdefault(path, f"{self.start}_public_{len(self.tables)}")
        return replace(node, path=(name,), alias=node.alias or path[-1])

    def _describe_tables(self, node: Other) -> Node:
        """Return SHOW TABLES, or DESCRIBE of a table, as a table of constants."""
        match dict(node.parts):
            case {"show_type": "SHOW_SPECIAL", "table_name": '"tables"'}:
                rows: Any = sorted((table.path[-1],) for table in self._tables())
                return self._constants(rows, "name")
            case {"show_type": "DESCRIBE", "query": Select(source=Table(path=path))}:
                path = self.reader.source.find(path).path
                tables = [table for table in self._tables() if table.path == path]
                rows = [(*row, "YES", None, None, None) for t in tables for row in self._columns(t)]
                return self._constants(rows, "column_name, column_type, null, key, default, extra")
        raise refuse("SHOW_REF")

    def _tables(self) -> list[Relation]:
        """Return the tables that a statement may name."""
        schema, source = self.reader.schema, self.reader.source
        names = [tuple(n.split(".")) for n in (*schema.tables, *schema.public)] if schema else None
        return [source.find(name) for name in (source.names() if names is None else names)]

    def _columns(self, table: Relation) -> list[tuple[str, str]]:
        """Return the columns of a table with their declared types; those of views have none."""
        source, kinds = table.source, list[Any]()
        if source is not None:
            kinds = [source.kinds.get(n, "").replace(TEXT, "VARCHAR") for n in table.columns]
            if not all(kinds):
                kinds = source.twin(table.columns, self.reader.engine).types
        return [(name, str(kind)) for name, kind in zip_longest(table.columns, kinds, fillvalue="")]

    def _catalog(self, name: str) -> Node:
        """Return a table of the catalog as constants: names and declared types alone."""
        tables, start = self._tables(), "table_catalog, table_schema, table_name"
        full = [((*("memory", "main", "")[: 3 - len(t.path)], *t.path), t) for t in tables]
        if fold_name(name) == "tables":
            kinds = {True: "BASE TABLE", False: "VIEW"}
            rows = [(*path, kinds[table.definition is None]) for path, table in full]
            return self._constants(rows, f"{start}, table_type")
        rows = [(*path, *row) for path, table in full for row in self._columns(table)]
        return self._constants(rows, f"{start}, column_name, data_type")

    def _constants(self, rows: Sequence[Sequence[str | None]], columns: str) -> Node:
        texts = [["NULL" if text is None else quote_text(text) for text in row] for row in rows]
        tuples = ", ".join(f"({', '.join(row)})" for row in texts)
        names = columns.replace("null", '"null"').replace("default", '"default"')
        nothing = ", ".join("CAST(NULL AS VARCHAR)" for _ in names.split(","))
        body = f"VALUES {tuples}" if rows else f"SELECT {nothing} WHERE false"
        return read_select(f"SELECT * FROM ({body}) AS catalog({names})").source  # noqa: S608 constants

    # inside of a release

    def below(self, node: Query) -> Query:
        """Return a query over rows, with tables that are lent to it in place of releases in it."""
        result: Query = rebuild(node, self._inside)
        return result

    def _inside(self, node: Any) -> Any:
        if not isinstance(node, Derived | Subquery):
            return rebuild(node, self._inside)
        scalar = node if isinstance(node, Subquery) and node.sort == "SCALAR" else None
        name = self._name_taken(node, scalar)
        if name is None:
            return rebuild(node, self._inside)
        lent = select_all(name)
        if isinstance(node, Derived):
            return replace(node, query=lent)
        if scalar is None:
            operand = rebuild_part(node.operand, self._inside)
            return replace(node, query=lent, operand=operand)
        value = replace(lent, items=(read_template("any_value(value)"),))
        return replace(scalar, query=value, released=name, written=scalar.written or scalar)

    def _name_taken(self, node: Derived | Subquery, scalar: Subquery | None) -> str | None:
        """Return the name of what a query over released answers makes; None for one over rows."""
        before = self._state()
        try:
            with suppress(_Unreleased):
                rest = self.query(node.query)
                is_cte = isinstance(node, Derived) and node.cte is not None
                if is_cte or not {fold_name(n) for n in self.names}.isdisjoint(
                    _list_table_names(rest)
                ):
                    if scalar is None:
                        columns = select_all("").items
                        return self._lend_released(select_from(rest, columns, "lent"))
                    value = replace(scalar, alias="value", query=rest)  # one row
                    return self._lend_released(select_item(value), single=True)
        except DPError as error:
            if asks(node.query) or error is self.refusal:
                raise
            if holds_dp(node.query) and not isinstance(error, InvalidQuestionError):
                raise
        self._restore(before)
        return None

    def _unique(self, rest: Query, planned: Any) -> frozenset[str] | None:
        """Return folded columns that no two rows of a query over answers have in common, if known.

        They are those by which rows of a single release, or groups of them, are made.
        """
        givens: dict[str, Given] = {}
        with suppress(DPError):
            for name, release in zip(self.names, self.releases.values(), strict=True):
                outputs = {output.sql: fold_name(output.name) for output in release.outputs}
                names = [outputs.get(f"released.key_{n}", "") for n in range(len(release.keys))]
                unique = None if "" in names or release.sets else frozenset(names)
                table = planned(Script((release,)))
                givens[name] = Given(name, None, table, single=False, unique=unique)
            tables = Tables(None, self.reader.source, self.reader.engine, givens)
            scope = Compiler(tables).query(_without_conditions(rest))
            columns = {visible.column: fold_name(visible.name) for visible in scope.seen}
            unique = scope.bag.unique
            return None if unique is None else frozenset(columns[name] for name in unique)
        return None

    def _lend_released(self, rest: Query, *, single: bool = False) -> str:
        """Return the name of a table that is made of the releases so far."""
        if rest not in self.lent:
            name = f"{self.start}_given_{len(self.lent)}"
            script, planned = self.compose(rest), self.reader.planned
            computed = self.reader.computed
            assert planned is not None  # noqa: S101 whoever reads plans
            assert computed is not None  # noqa: S101 as above
            table = planned(script)
            compute = None if script.statements else partial(computed, script, table.schema)
            unique = self._unique(rest, planned)
            self.reader.givens[name] = Given(name, script, table, single, unique, compute)
            self.lent[rest] = name
        return self.lent[rest]


def _find_source(query: Query) -> set[str]:
    """Return the name of the one table that a query projects and filters, if there is one."""
    match query:
        case Select(source=Derived(query=inner)):
            return _find_source(inner)
        case Select(source=Table(path=(name,))):
            return {fold_name(name)}
    return set()


_CATALOG = {("information_schema", "tables"), ("information_schema", "columns")}


def _without_conditions(node: Any) -> Any:
    """Return a query that has all of its rows, and more: without conditions, order and limits."""
    if isinstance(node, Select):
        node = replace(node, where=None, having=None, qualify=None, modifiers=())
    return rebuild(node, _without_conditions)


def _list_table_names(tree: object) -> set[str]:
    return {fold_name(node.name) for node in walk(tree) if isinstance(node, Table)}


def with_ends(rest: Query, columns: Mapping[str, Sequence[str]]) -> Query:
    """Return a query over answers with the ends and notes of those in its SELECT list.

    `columns` are those of the released tables. The ends come last, so that a place in ORDER BY
    stands for what it stood for. Groups, DISTINCT and unions make rows that have no ends.
    """
    if not isinstance(rest, Select) or rest.is_grouped:
        return rest
    if any(isinstance(part, Distinct | Star) for part in (*rest.modifiers, *rest.items)):
        return rest
    names_by_table = {fold_name(name): frozenset(map(fold_name, c)) for name, c in columns.items()}
    tables = [*_tables_in(rest.source, names_by_table)]
    items = [item for item in rest.items if isinstance(item, Name)]
    used = {fold_name(item.alias) for item in rest.items} | {fold_name(n.path[-1]) for n in items}
    added: list[Node] = []
    for item in items:
        *of, column = item.path
        needed = {fold_name(f"{column}{end}") for end in ("", "_low", "_high")}
        sources = [(name, has) for name, has in tables if needed <= has and of in ([], [name])]
        for source, has in sources if len(sources) == 1 else ():
            ends = [end for end in ("_low", "_high", "_note") if fold_name(f"{column}{end}") in has]
            new = {f"{item.alias or column}{end}": (source, f"{column}{end}") for end in ends}
            if used.isdisjoint(map(fold_name, new)):
                used |= set(map(fold_name, new))
                added += [replace(item, path=path, alias=name) for name, path in new.items()]
    return replace(rest, items=(*rest.items, *added))


def _tables_in(
    node: Node, released: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names of released tables in a FROM, each with its columns."""
    match node:
        case Join():
            yield from _tables_in(node.left, released)
            if node.way not in {"SEMI", "ANTI"}:
                yield from _tables_in(node.right, released)
        case Table() | Derived():
            source: Node = node  # a released table, or a subquery that is all of one
            while isinstance(source, Derived) and isinstance(source.query, Select):
                query, columns = source.query, source.columns
                is_all = not columns and query == replace(select_all("t"), source=query.source)
                source = query.source if is_all else query
            columns_of = frozenset[str]()
            if isinstance(source, Table) and not source.columns:
                columns_of = released.get(fold_name(source.name), columns_of)
            yield node.alias or getattr(node, "name", ""), columns_of
