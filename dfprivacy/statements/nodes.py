"""Parse a statement with DuckDB, and read its syntax tree into typed nodes, once.

There is no second grammar: rules vet the tree that DuckDB reads, and look at no JSON. DuckDB hands
over queries alone, so CREATE TABLE ... AS is split off here, word by word.

Every part of a JSON object is read into a field, or must have its default. An object with another
part, or of a kind without a class, becomes an `Other`, which no rule over rows accepts.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import duckdb

from dfprivacy.engine.embedded import open_embedded
from dfprivacy.engine.files import quote
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.rules import REFUSALS, build_refusal, refuse, refuse_part, words

_CLASSES: dict[str, type[Node]] = {}
"""Classes by the class and type of their JSON, items of lists by the first part that they have."""


@dataclass(frozen=True)
class Node:
    """A syntax node; `json` is the object that it was read from, without later changes."""

    alias: str = field(default="", kw_only=True)
    written: Node | None = field(default=None, kw_only=True)
    """The node that the statement has in its place, where that is another one."""
    json: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)

    def __init_subclass__(cls, sort: str | None = None) -> None:
        """Register a class for one `sort` of JSON: its class and type, or a part that tells it."""
        if sort is not None:
            _CLASSES[sort] = cls


@dataclass(frozen=True, kw_only=True)
class Unread(Node):
    """An object of a `sort` without a class, or one with a part that is `unknown`."""

    sort: str = ""
    parts: tuple[tuple[str, Any], ...] = ()
    unknown: str | None = None


@dataclass(frozen=True)
class Other(Unread):
    """An unread object that is no query."""


@dataclass(frozen=True)
class Name(Node, sort="COLUMN_REF COLUMN_REF"):
    """A column, with the table before it if the statement says it."""

    path: Annotated[tuple[str, ...], "column_names"]
    clock: str | None = None
    """The SQL of the time of the statement, which the name stands for if no column has it."""
    is_number: bool = False
    """True for a text of a file that is compared with a number."""


@dataclass(frozen=True)
class Constant(Node, sort="CONSTANT VALUE_CONSTANT"):
    """A constant: INTEGER, NUMERIC, STRING, BOOLEAN or NULL_LITERAL, and its text."""

    kind: Annotated[str, "literal.kind"]
    text: Annotated[str, "literal.text"]


@dataclass(frozen=True)
class Order(Node, sort="null_order"):
    """An item of ORDER BY."""

    value: Annotated[Node, "expression"]
    way: Annotated[str, "type"]
    nulls: Annotated[str, "null_order"]


@dataclass(frozen=True)
class Argument(Node, sort="expression"):
    """An argument of a call; `f(x := 1)` has the name x."""

    value: Annotated[Node, "expression"]
    name: Annotated[str, "name"] = ""


@dataclass(frozen=True)
class Function(Node, sort="FUNCTION FUNCTION"):
    """A call, or an operator such as + that DuckDB takes for one."""

    name: Annotated[str, "function_name"]
    arguments: Annotated[tuple[Argument, ...], "arguments"]
    distinct: Annotated[bool, "distinct"]
    filter: Annotated[Node | None, "filter"]
    orders: Annotated[tuple[Order, ...], "order_bys.orders"]

    @property
    def operands(self) -> list[Node]:
        """The arguments without their names."""
        return [argument.value for argument in self.arguments]


@dataclass(frozen=True)
class Operator(Node):
    """A comparison, AND, OR, NOT, BETWEEN, IN, IS NULL and others, by DuckDB's name of it."""

    sort: Annotated[str, "type"]
    operands: Annotated[tuple[Node, ...], "children"]


@dataclass(frozen=True)
class Branch(Node, sort="when_expr"):
    """WHEN ... THEN ... of a CASE."""

    when: Annotated[Node, "when_expr"]
    then: Annotated[Node, "then_expr"]


@dataclass(frozen=True)
class Case(Node, sort="CASE CASE_EXPR"):
    """CASE; without ELSE, NULL is the default."""

    branches: Annotated[tuple[Branch, ...], "case_checks"]
    default: Annotated[Node, "else_expr"]


@dataclass(frozen=True)
class Type(Node, sort="TYPE TYPE"):
    """A type, with its digits or the types in it."""

    name: Annotated[str, "type_name"]
    sizes: Annotated[tuple[Node, ...], "children"]


@dataclass(frozen=True)
class Cast(Node, sort="CAST OPERATOR_CAST"):
    """CAST, or TRY_CAST."""

    operand: Annotated[Node, "child"]
    type: Annotated[Node, "type_expr"]
    tries: Annotated[bool, "try_cast"]


@dataclass(frozen=True)
class Subquery(Node, sort="SUBQUERY SUBQUERY"):
    """A query in an expression: SCALAR, EXISTS, or ANY for IN, which has an operand."""

    sort: Annotated[str, "subquery_type"]
    query: Annotated[Query, "subquery.node"]
    operand: Annotated[Node | None, "child"] = None
    comparison: Annotated[str, "comparison_type"] = "INVALID"
    released: str | None = None
    """The name under which a released value stands in its place."""


@dataclass(frozen=True)
class Over(Node):
    """A function with OVER."""

    name: Annotated[str, "function_name"]
    arguments: Annotated[tuple[Argument, ...], "arguments"]
    partition: Annotated[tuple[Node, ...], "partitions"]
    orders: Annotated[tuple[Order, ...], "orders"]
    start: Annotated[str, "start"]
    end: Annotated[str, "end"]
    start_size: Annotated[Node | None, "start_expr"]
    end_size: Annotated[Node | None, "end_expr"]
    exclude: Annotated[str, "exclude_clause"]
    filter: Annotated[Node | None, "filter_expr"]
    distinct: Annotated[bool, "distinct"]
    ignores_nulls: Annotated[bool, "ignore_nulls"]
    names_nulls: Annotated[bool, "has_ignore_nulls"]
    inner_orders: Annotated[tuple[Order, ...], "arg_orders"]


@dataclass(frozen=True)
class Star(Node, sort="STAR STAR"):
    """A *; `is_columns` is True for COLUMNS(*) and ORDER BY ALL."""

    table: Annotated[str, "relation_name"]
    left_out: Annotated[tuple[str, ...], "exclude_list"]
    replaced: Annotated[tuple[Entry, ...], "replace_list"]
    is_columns: Annotated[bool, "columns"]


@dataclass(frozen=True)
class EndOfSteps(Node):
    """One end of the interval of arithmetic with dp_ calls, each sign behind its operands."""

    steps: tuple[Any, ...] = ()
    end: str = ""


@dataclass(frozen=True)
class Table(Node, sort="BASE_TABLE"):
    """A table, view or CTE in FROM, with new names of its columns."""

    path: Annotated[tuple[str, ...], "qualified_name.path"]
    columns: Annotated[tuple[str, ...], "column_name_alias"]

    @property
    def name(self) -> str:
        """The last part of its name."""
        return self.path[-1]


@dataclass(frozen=True)
class Derived(Node, sort="SUBQUERY"):
    """A query in FROM, with new names of its columns."""

    query: Annotated[Query, "subquery.node"]
    columns: Annotated[tuple[str, ...], "column_name_alias"]
    cte: str | None = None
    """The name of the CTE that it stands for."""


@dataclass(frozen=True)
class Join(Node, sort="JOIN"):
    """A join: its `way` is INNER, LEFT and so on, its `sort` REGULAR, NATURAL, ASOF and so on."""

    left: Annotated[Node, "left"]
    right: Annotated[Node, "right"]
    condition: Annotated[Node | None, "condition"]
    way: Annotated[str, "join_type"]
    sort: Annotated[str, "ref_type"]
    using: Annotated[tuple[str, ...], "using_columns"]


@dataclass(frozen=True)
class Empty(Node, sort="EMPTY"):
    """No FROM."""


@dataclass(frozen=True)
class Distinct(Node, sort="DISTINCT_MODIFIER"):
    """DISTINCT, or DISTINCT ON its targets."""

    targets: Annotated[tuple[Node, ...], "distinct_on_targets"]


@dataclass(frozen=True)
class OrderBy(Node, sort="ORDER_MODIFIER"):
    """ORDER BY."""

    orders: Annotated[tuple[Order, ...], "orders"]


@dataclass(frozen=True)
class Limit(Node, sort="LIMIT_MODIFIER"):
    """LIMIT and OFFSET; the kind of a number of rows is ROW_COUNT."""

    rows: Annotated[Node | None, "limit"]
    offset: Annotated[Node | None, "offset"]
    kind: Annotated[str, "limit_type"]


@dataclass(frozen=True)
class CommonTable(Node, sort="query_node"):
    """A CTE, with new names of its columns."""

    name: Annotated[str, "key"]
    query: Annotated[Query, "value.query_node"]
    columns: Annotated[tuple[str, ...], "value.aliases"]


@dataclass(frozen=True)
class Entry(Node, sort="key"):
    """A name in the REPLACE list of a *, and what stands in its place."""

    name: Annotated[str, "key"]
    value: Annotated[Node, "value"]


@dataclass(frozen=True)
class Query(Node):
    """A query: a SELECT, a set operation, or an `OtherQuery`."""

    ctes: Annotated[tuple[CommonTable, ...], "cte_map.map"]
    modifiers: Annotated[tuple[Node, ...], "modifiers"]


@dataclass(frozen=True)
class OtherQuery(Query, Unread):
    """An unread query."""


@dataclass(frozen=True)
class Select(Query, sort="SELECT_NODE"):
    """A SELECT."""

    items: Annotated[tuple[Node, ...], "select_list"]
    source: Annotated[Node, "from_table"]
    where: Annotated[Node | None, "where_clause"]
    keys: Annotated[tuple[Node, ...], "group_expressions"]
    sets: Annotated[tuple[tuple[int, ...], ...], "group_sets"]
    handling: Annotated[str, "aggregate_handling"]
    having: Annotated[Node | None, "having"]
    qualify: Annotated[Node | None, "qualify"]
    is_value: bool = False
    """True for a subquery in an expression."""

    @property
    def groups_all(self) -> bool:
        """Check for GROUP BY ALL."""
        return self.handling == "FORCE_AGGREGATES"

    @property
    def is_grouped(self) -> bool:
        """Check for GROUP BY."""
        return self.groups_all or bool(self.keys)


@dataclass(frozen=True)
class SetOperation(Query, sort="SET_OPERATION_NODE"):
    """UNION, INTERSECT or EXCEPT."""

    operation: Annotated[str, "setop_type"]
    has_all: Annotated[bool, "setop_all"]
    queries: Annotated[tuple[Query, ...], "children"]


_OPERANDS = {
    "COMPARISON": ("left", "right"),
    "BETWEEN": ("input", "lower", "upper"),
    "CONJUNCTION": (),
    "OPERATOR": (),
}
"""Where the operands of classes of operators are; in "children" where none are named."""
_IGNORED = words(
    "class type alias query_location query_location_length qualified_name is_operator is_implicit "
    "materialized"
)
_IGNORED_BELOW = frozenset(("materialized",))
_HANDLINGS = ("STANDARD_HANDLING", "FORCE_AGGREGATES")
_PATH_PARTS = ("catalog_name", "schema_name", "table_name")
_DEFAULTS = {"type": "ORDER_MODIFIER", "nearest_count": 1, "nearest_order_type": "ASCENDING"}
_NOTHING: tuple[dict[str, Any], ...] = ({"map": []}, {"type": "ORDER_MODIFIER", "orders": []})


def _list_fields(cls: type[Node]) -> dict[str, tuple[list[str], type]]:
    """Return the fields of a class that are read from JSON: their places in it, what they hold."""
    read: dict[str, tuple[list[str], type]] = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, path = get_args(hint)
            item = (get_args(kind) or (kind,))[0]
            read[name] = path.split("."), item if isinstance(item, type) else object
    return read


_FIELDS = {
    cls: _list_fields(cls) for cls in (*Node.__subclasses__(), *Query.__subclasses__(), Other)
}


def _find_class(json: Mapping[str, Any]) -> type[Node] | None:
    kind, sort = json.get("class", ""), str(json.get("type", ""))
    if kind in _OPERANDS:
        return Operator
    if kind == "WINDOW" and sort.startswith("WINDOW"):
        return Over
    if "class" in json or ("type" in json and "null_order" not in json):
        return _CLASSES.get(f"{kind} {sort}".strip())
    value = json.get("value")
    parts = {*json, *(value if isinstance(value, dict) and "class" not in value else ())}
    return next((cls for part, cls in _CLASSES.items() if part in parts), None)


def _find_unread(
    json: Mapping[str, Any], paths: Sequence[list[str]], ignored: frozenset[str] = _IGNORED
) -> str | None:
    """Return the first part of an object that no field reads and that has no default."""
    for part, value in json.items():
        below = [path[1:] for path in paths if path[0] == part]
        if [] in below or (part in ignored and not below):
            continue
        if below and isinstance(value, dict):
            unread = _find_unread(value, below, _IGNORED_BELOW)
            if unread is not None:
                return unread
        elif value and value not in _NOTHING and _DEFAULTS.get(part) != value:
            return part
    return None


_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_ITEM = re.compile(rf'{_QUOTED}|([^{{}},"]+)', re.DOTALL)


def split_array(text: str) -> list[str | None]:
    r"""Return the items of an array as Postgres writes it, None for NULL.

    >>> split_array('{a,"b \\"c",NULL}')
    ['a', 'b "c', None]

    Raises
    ------
    ValueError
        When the text is no array of one dimension.
    """
    if not text.startswith("{") or re.sub(_QUOTED, "", text).count("{") != 1:
        raise ValueError
    items: list[str | None] = []
    for item in _ITEM.finditer(text):
        inner, plain = item.groups()
        unquoted = plain if inner is None else re.sub(r"\\(.)", r"\1", inner)
        items.append(None if plain == "NULL" else unquoted)
    return items


def _list_members(node: Subquery) -> Node:
    """Return `x IN (a, b)` for `x = ANY([a, b])`, a subquery to DuckDB; else the same."""
    match node:
        case Subquery(
            sort="ANY",
            comparison="COMPARE_EQUAL",
            operand=Node() as value,
            query=Select(
                items=(Function(name="unnest", arguments=(Argument(value=items),)),),
                source=Empty(),
            ) as select,
        ):
            members: Sequence[Node] = ()
            match items:
                case Operator(sort="ARRAY_CONSTRUCTOR", operands=members):
                    pass
                case Function(name="list_value"):
                    members = items.operands
                case Constant(kind="STRING"):  # drivers of Postgres write lists as such texts
                    with suppress(ValueError):
                        null = replace(items, kind="NULL_LITERAL", text="")
                        texts = split_array(items.text)
                        members = [null if t is None else replace(items, text=t) for t in texts]
            clauses = (select.where, select.keys, select.having, select.qualify, select.modifiers)
            if members and not (select.ctes or any(clauses)):
                json = {"class": "OPERATOR", "type": "COMPARE_IN", "alias": node.alias}
                return Operator("COMPARE_IN", (value, *members), alias=node.alias, json=json)
    return node


def read_node(json: Any) -> Any:
    """Read a JSON object as a node, and a list of them as a tuple."""
    if isinstance(json, list):
        return tuple(map(read_node, json))
    if not isinstance(json, dict):
        return json
    cls, source = _find_class(json), json
    if cls is None:
        return _read_other(json, None)
    if cls is Operator and (operands := _OPERANDS[json["class"]]):
        source = {part: value for part, value in json.items() if part not in operands}
        source["children"] = [json.get(part) for part in operands]
    ignored = [[part] for part in _PATH_PARTS] if cls is Table else []
    unknown = _find_unread(source, [*(path for path, _ in _FIELDS[cls].values()), *ignored])
    if cls is Select and json.get("aggregate_handling") not in _HANDLINGS:
        unknown = unknown or "aggregate_handling"
    if unknown is not None:
        return _read_other(json, unknown)
    values: dict[str, Any] = {}
    for name, (path, item_class) in _FIELDS[cls].items():
        value: Any = source
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        values[name] = read_node(value)
        for item in values[name] if isinstance(values[name], tuple) else (values[name],):
            if isinstance(item, Node) and not isinstance(item, item_class):
                return _read_other(json, getattr(item, "unknown", None) or name)
    if cls is Subquery and isinstance(values["query"], Select):
        values["query"] = replace(values["query"], is_value=True)
    node = cls(**values, alias=json.get("alias", ""), json=json)
    return _list_members(node) if isinstance(node, Subquery) else node


def read_query(json: Any) -> Query:
    """Read the JSON of a query, or refuse the query."""
    query = read_node(json)
    if not isinstance(query, Query):
        raise refuse_node(query)
    return query


def _read_other(json: Mapping[str, Any], unknown: str | None) -> Node:
    ctes = read_node(json["cte_map"].get("map", [])) if "cte_map" in json else ()
    is_query = "cte_map" in json and all(isinstance(entry, CommonTable) for entry in ctes)
    cls = OtherQuery if is_query else Other
    left_out = ("alias", *(("cte_map", "modifiers") if cls is OtherQuery else ()))
    parts = tuple((name, read_node(part)) for name, part in json.items() if name not in left_out)
    sort = "WINDOW" if json.get("class") == "WINDOW" else str(json.get("type", ""))
    values: dict[str, Any] = {"sort": sort, "parts": parts, "unknown": unknown, "json": json}
    if cls is OtherQuery:
        values["ctes"] = ctes
        values["modifiers"] = read_node(json.get("modifiers", []))
    return cls(alias=str(json.get("alias", "")), **values)


def to_json(node: Any) -> Any:
    """Return a tree as DuckDB's JSON."""
    if isinstance(node, tuple):
        return [to_json(part) for part in node]
    if not isinstance(node, Node):
        return node
    json: dict[str, Any] = dict(node.json)
    if node.alias or "alias" in json:
        json["alias"] = node.alias
    if isinstance(node, Unread):
        json |= {name: to_json(part) for name, part in node.parts}
    for name, (path, _) in _FIELDS[type(node)].items():
        target = json
        for part in path[:-1]:
            target[part] = dict(target.get(part) or {})
            target = target[part]
        target[path[-1]] = to_json(getattr(node, name))
    if isinstance(node, Operator) and _OPERANDS[json["class"]]:
        json |= zip(_OPERANDS[json["class"]], json.pop("children"), strict=True)
    elif isinstance(node, Function):
        json["qualified_name"] = {"path": [node.name]}
    elif isinstance(node, Table):
        padded = ("", "", *node.path)[-3:]
        json |= zip(_PATH_PARTS, padded, strict=True)
    return json


_BRANCHES: Mapping[type[Node], Iterable[str]] = _FIELDS | {
    EndOfSteps: ["steps"],
    Other: ["parts"],
    OtherQuery: [*_FIELDS[Query], "parts"],
}
"""The fields of nodes that may hold nodes."""


def walk(tree: Any, *, queries: bool = True) -> Iterator[Node]:
    """Yield the nodes of a tree in their order; those of queries below it only with `queries`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple | list):
            waiting += reversed(node)
        elif isinstance(node, Node) and (queries or not isinstance(node, Query)):
            yield node
            waiting += [getattr(node, name) for name in reversed([*_BRANCHES.get(type(node), ())])]


def holds(tree: Any, kind: type[Node]) -> bool:
    """Check for a node of a class in a tree."""
    return any(isinstance(node, kind) for node in walk(tree))


def rebuild(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return a node whose children are changed; the node itself where none is."""
    if isinstance(node, tuple):
        parts = tuple(rebuild_part(part, change) for part in node)
        return node if all(a is b for a, b in zip(node, parts, strict=True)) else parts
    changed = {}
    for name in _BRANCHES.get(type(node), ()):
        was = getattr(node, name)
        now = rebuild_part(was, change)
        if now is not was:
            changed[name] = now
    return replace(node, **changed) if changed else node


def rebuild_part(part: Any, change: Callable[[Any], Any]) -> Any:
    """Return a field of a node with its nodes changed."""
    if isinstance(part, tuple):
        return rebuild(part, change)
    return change(part) if isinstance(part, Node) else part


def refuse_node(node: Node) -> RefusedStatementError:
    """Return the error for a node without a rule."""
    sort = "WINDOW" if isinstance(node, Over) else str(node.json.get("type"))
    part = {"SUBQUERY": "subquery_type", "SET_OPERATION_NODE": "setop_type", "STAR": "columns"}
    name = f"{sort}:{node.json.get(part.get(sort, ''))}"
    unknown = getattr(node, "unknown", None)
    return refuse_part(name if name in REFUSALS else unknown or sort)


def split_modifiers(query: Query) -> tuple[Distinct | None, tuple[Order, ...], Limit | None]:
    """Return DISTINCT, the items of ORDER BY, and LIMIT; each comes once, and in this order."""
    distinct, order, limit = None, None, None
    for part in query.modifiers:
        match part:
            case Distinct():
                distinct = part
            case OrderBy():
                order = part
            case Limit():
                limit = part
            case Other():
                raise refuse_node(part)
    if query.modifiers != tuple(filter(None, (distinct, order, limit))):
        raise refuse_part("modifiers")
    return distinct, () if order is None else order.orders, limit


def literal(node: object) -> tuple[str, str]:
    """Return the kind and the text of a constant; twice nothing for anything else."""
    return (node.kind, node.text) if isinstance(node, Constant) else ("", "")


def find_text(node: object) -> str | None:
    """Return a text constant; None for anything else."""
    return node.text if isinstance(node, Constant) and node.kind == "STRING" else None


def cast_to(node: object) -> str:
    """Return the type that a node casts to, by DuckDB's name of it; "" for what is no cast."""
    match node:
        case Cast(type=Type(name=name)):
            return spell_type(name)
    return ""


@lru_cache(256)
def spell_type(name: str) -> str:
    """Return DuckDB's own name of a type, as INTEGER for int4; of other names the name itself.

    >>> spell_type("int8"), spell_type("timestamptz"), spell_type("mood")
    ('BIGINT', 'TIMESTAMPTZ', 'MOOD')
    """
    base = ""
    if name.replace(" ", "_").isidentifier():  # DuckDB would read other texts as types in types
        with suppress(duckdb.Error), open_embedded(idle=True) as engine:
            base = str(engine.sqltype(name)).partition("(")[0]
    return {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ", "": name.upper()}.get(base, base)


def name_call(node: object) -> str:
    """Return the name of the function that a node calls, which is in small letters; else ""."""
    return node.name if isinstance(node, Function) else ""


def arguments(call: Function) -> list[Node]:
    """Return the arguments of a call of a function of one row."""
    unusual = {
        "distinct": call.distinct,
        "filter": call.filter,
        "order_bys": call.orders,
        "name": any(argument.name for argument in call.arguments),
    }
    for part, value in unusual.items():
        if value:
            raise refuse_part(part)
    return call.operands


def conjuncts(node: Node | None) -> list[Node]:
    """Return the conditions that AND combines."""
    match node:
        case None:
            return []
        case Operator(sort="CONJUNCTION_AND"):
            return [part for child in node.operands for part in conjuncts(child)]
    return [node]


LONGEST = 2**16
_READ = "SELECT json_serialize_sql(?::VARCHAR)"
_SKIPPED = r"(?:\s|--[^\n]*|/\*.*?\*/)*"
_WORD = re.compile(
    rf'{_SKIPPED}("(?:[^"]|"")*"|(?:[^\W\d]|[^\x00-\x7f])(?:[\w$]|[^\x00-\x7f])*|.|\Z)', re.DOTALL
)
_QUERIES = {"SELECT", "WITH", "FROM", "(", "SHOW", "DESCRIBE", "DESC"}


@dataclass(frozen=True)
class Target:
    """Where released rows go: a fresh table."""

    path: tuple[str, ...]
    replaces: bool = False
    temporary: bool = False

    @property
    def name(self) -> str:
        """The name as the statement wrote it."""
        return ".".join(self.path)


class _Words:
    """The first words of a text, one by one: names, signs, and quoted names with their quotes."""

    def __init__(self, text: str) -> None:
        if "\0" in text:  # DuckDB cuts a text there when it writes a tree as SQL
            raise refuse("NUL")
        self.text, self.place = text, 0

    def next(self) -> str:
        """Take a word; an empty one at the end."""
        match = _WORD.match(self.text, self.place)
        assert match is not None  # noqa: S101 the pattern matches anywhere
        self.place = match.end()
        return match[1]

    def has(self, *words: str) -> bool:
        """Take these words, if they come next."""
        start = self.place
        if all(self.next().upper() == word for word in words):
            return True
        self.place = start
        return False

    def name(self) -> str:
        """Take a name."""
        word = self.next()
        if word.startswith('"') and len(word) > 1:
            return word[1:-1].replace('""', '"')
        if not word[:1].isidentifier() and word[:1].isascii():
            raise self.unread()
        return word

    def path(self) -> tuple[str, ...]:
        """Take a name with its qualifiers."""
        names = [self.name()]
        while self.has("."):
            names.append(self.name())
        if len(names) > 3:
            raise refuse("a name with more than three parts")
        return tuple(names)

    def names(self) -> tuple[str, ...]:
        """Take names in parentheses, if they come next."""
        names_read = [self.name()] if self.has("(") else []
        while names_read and self.has(","):
            names_read.append(self.name())
        if names_read and not self.has(")"):
            raise self.unread()
        return tuple(names_read)

    def unread(self, more: int = 0) -> RefusedStatementError:
        """Return the error for a text that can't be read on from here, or some bytes later."""
        rest = self.text[self.place :].encode("utf-8", "replace")[:more]
        before = self.text[: self.place] + rest.decode("utf-8", "ignore")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        after = self.text[len(before) :].split("\n")[0]
        context = f": {after[:40]}{'...' if after[40:] else ''}" if after.strip() else ""
        return refuse("unreadable", line=line, column=column, near=context)


def split_explain(text: object) -> tuple[object, bool]:
    """Return a text without a leading EXPLAIN, and whether there is one; places stay."""
    words = _Words(text) if isinstance(text, str) else None
    if words is None or not words.has("EXPLAIN"):
        return text, False
    return re.sub(r"\S", " ", words.text[: words.place]) + words.text[words.place :], True


def parse(
    text: object, engine: duckdb.DuckDBPyConnection, *, parameters: bool = False
) -> tuple[Target | None, Query]:
    """Return where the rows of a text's one statement go, and DuckDB's tree of its query."""
    if not isinstance(text, str) or not text.strip():
        raise refuse("no text")
    if len(text) > LONGEST:
        raise refuse("too long a text", most=LONGEST)
    words, target = _Words(text), None
    if words.has("CREATE"):
        replaces = words.has("OR", "REPLACE")
        temporary = words.has("TEMP") or words.has("TEMPORARY")
        if not words.has("TABLE"):
            raise build_refusal(f"create {words.next()}")
        if words.has("IF", "NOT", "EXISTS"):
            raise refuse("IF NOT EXISTS")
        target = Target(words.path(), replaces, temporary)
        if not words.has("AS"):
            raise refuse("CREATE")
    elif words.has("INSERT"):
        raise refuse("INSERT")
    else:
        first = words.next()
        words.place = 0
        if not first:
            raise refuse("no statement")
        if first.upper() not in _QUERIES:
            raise build_refusal(first)
    return target, _query(words, engine, *(["named_param_map"] if parameters else []))


def parse_query(text: str, engine: duckdb.DuckDBPyConnection) -> Query:
    """Return the tree of a query of ours."""
    return _query(_Words(text), engine)


def parse_view(definition: str, engine: duckdb.DuckDBPyConnection) -> Query | None:
    """Return the tree of the query that defines a view; None where it is not said."""
    words = _Words(definition)
    if not words.has("CREATE"):
        return None
    words.has("OR", "REPLACE")
    _ = words.has("TEMP") or words.has("TEMPORARY")
    if not words.has("VIEW"):
        return None
    words.path()
    words.names()
    return _query(words, engine) if words.has("AS") else None


def _query(words: _Words, engine: duckdb.DuckDBPyConnection, *parts: str) -> Query:
    """Return the tree of the one query in what is left of a text; `parts` are what else it has."""
    rest = words.text[words.place :]
    try:
        ((text,),) = engine.execute(_READ, [rest]).fetchall()
        tree = json.loads(text)
        if tree["error"]:
            raise _unread(tree, rest, words, engine)
        if not tree["statements"]:
            raise words.unread()
        if len(tree["statements"]) > 1:
            raise refuse("several statements")
        (statement,) = tree["statements"]
        for part in statement:
            if part not in {"node", *parts} and statement[part]:
                raise refuse_part(part)
        return read_query(statement["node"])
    except duckdb.Error:  # text without a UTF-8 form
        raise words.unread() from None
    except RecursionError:
        raise refuse("nested") from None


def _unread(
    tree: dict[str, Any], rest: str, words: _Words, engine: duckdb.DuckDBPyConnection
) -> RefusedStatementError:
    """Return the error for what DuckDB hands no tree over for."""
    problem = str(tree.get("error_message"))
    if "expression depth" in problem:
        return refuse("nested")
    if tree.get("error_type") == "parser":
        position = str(tree.get("position", ""))
        return words.unread(int(position)) if position.isdecimal() else refuse("the statement")
    kinds = [statement.type.name for statement in engine.extract_statements(rest)]
    if len(kinds) > 1:
        return refuse("several statements")
    if kinds == ["MULTI"]:
        return refuse("PIVOT")
    return refuse("INSERT") if kinds == ["INSERT"] else build_refusal(" ".join(kinds))


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z", re.IGNORECASE | re.ASCII)
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def quote_if_needed(name: str) -> str:
    """Return a name as DuckDB shows it in an expression, quoted where it has to be.

    >>> quote_if_needed("delay"), quote_if_needed("Q x")
    ('delay', '"Q x"')
    """
    return name if _PLAIN.match(name) else quote(name)


@lru_cache(4096)
def fold_name(name: str) -> str:
    """Return a name in the form in which two spellings of it are one.

    DuckDB takes A for a, and every letter beyond ASCII as it is.

    >>> fold_name("City") == fold_name("CITY"), fold_name("\N{KELVIN SIGN}") == fold_name("K")
    (True, False)
    """
    return name.translate(_SMALL)


def fresh(name: str, used_names: Iterable[str]) -> str:
    """Return a name that is not among those taken, in any spelling.

    >>> fresh("city", ["City", "city_2"])
    'city_3'
    """
    used = {fold_name(other) for other in used_names}
    if fold_name(name) not in used:
        return name
    number = 2
    while fold_name(f"{name}_{number}") in used:
        number += 1
    return f"{name}_{number}"


def text_of_query(query: Query, engine: duckdb.DuckDBPyConnection) -> str:
    """Return a query as DuckDB writes it, from its tree."""
    statement = {"node": to_json(query), "named_param_map": []}
    tree = json.dumps({"error": False, "statements": [statement]})
    try:
        ((text,),) = engine.execute("SELECT json_deserialize_sql(?::JSON)", [tree]).fetchall()
    except duckdb.Error:
        raise refuse("the statement") from None
    return str(text)
