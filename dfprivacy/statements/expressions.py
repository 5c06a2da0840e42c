"""Write expressions over one row: each kind of syntax node that is known has a rule of its own.

A node without a rule is refused, and so is a node with a part that its rule does not know. What
DuckDB runs is what these rules write, never the text of the caller: everything in parentheses, and
each call by the name that DuckDB's tree has for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date

from dfprivacy.errors import MissingColumnError
from dfprivacy.statements.functions import ROW_FUNCTIONS, check_dates, not_a_row_function, shielded
from dfprivacy.statements.rules import (
    REFUSALS,
    Node,
    nearly,
    only,
    refuse,
    refuse_node,
    refuse_part,
)
from dfprivacy.statements.tree import (
    arguments,
    called,
    cast_to,
    folded,
    is_column,
    kind,
    list_operands,
    literal,
    shown,
    text_of,
)

Inner = Callable[[Node], str]


@dataclass(frozen=True)
class Spelling:
    """What names stand for: how a column is written, and which nodes are written otherwise.

    `shields` are put around arguments of calls about dates where they run; a text that is only
    shown or compared does not have them.
    """

    column: Callable[[Sequence[str]], str]
    special: Callable[[Node], str | None] = lambda _: None
    shields: bool = True


def write(node: Node, scope: Spelling) -> str:
    """Return the SQL of an expression that is known to be a function of one row."""
    special = scope.special(node)
    if special is not None:
        return special
    if is_column(node):
        only(node, "column_names")
        try:
            return scope.column(node["column_names"])
        except MissingColumnError:
            if "clock" not in node:
                raise
            return str(node["clock"])
    rule = _RULES.get(kind(node))
    if rule is None:
        raise refuse_node(node)

    def inner(part: Node) -> str:
        return write(part, scope)

    return rule(node, shielded(node, inner) if scope.shields else inner)


def display(node: Node) -> str:
    """Return an expression with its names as they were written, as DuckDB would show it."""

    def special(part: Node) -> str | None:
        if "written" in part:  # by another text than it is answered by
            return str(part["written"])
        if kind(part) == ("OPERATOR", "STRUCT_EXTRACT"):
            owner, name = _field(part)
            return f"({display(owner)}).{shown(name)}"
        if is_window(part):
            return window(part, display)
        if is_grouping(part):
            return f"GROUPING({', '.join(map(display, part['children']))})"
        return _asked(part) if is_dp(part) else None

    return write(node, Spelling(lambda names: ".".join(map(shown, names)), special, shields=False))


def _asked(node: Node) -> str:
    """Return a dp_ call as it is shown; its arguments may have names."""
    only(node, "function_name", "arguments")
    shown_arguments = []
    for item in node["arguments"]:
        only(item, "name", "expression")
        name = f"{shown(item['name'])} := " if item["name"] else ""
        if kind(item["expression"]) != ("STAR", "STAR"):
            shown_arguments.append(f"{name}{display(item['expression'])}")
    return f"{called(node)}({', '.join(shown_arguments)})"


def is_dp(node: object) -> bool:
    """Tell a dp_ call by its name."""
    return called(node).startswith("dp_")


def is_window(node: object) -> bool:
    """Tell a function with OVER."""
    return kind(node)[0] == "WINDOW"


def is_grouping(node: object) -> bool:
    """Tell GROUPING(...) and GROUPING_ID(...)."""
    return kind(node) == ("OPERATOR", "GROUPING_FUNCTION")


_DIRECTIONS = {"ORDER_DEFAULT": "ASC", "ASCENDING": "ASC", "DESCENDING": "DESC"}
_NULLS = {"ORDER_DEFAULT": "NULLS LAST", "NULLS LAST": "NULLS LAST", "NULLS FIRST": "NULLS FIRST"}


def direction(item: Node) -> str:
    """Return the direction of an item of ORDER BY."""
    only(item, "expression", "null_order")
    way, nulls = _DIRECTIONS.get(item["type"]), _NULLS.get(item["null_order"])
    if way is None or nulls is None:
        raise refuse_part("a direction in ORDER BY")
    return f"{way} {nulls}"


def window(node: Node, inner: Inner) -> str:
    """Return a function with OVER; `inner` writes the expressions in it."""
    only(node, "function_name", "arguments", "partitions", "orders", "start", "end", "start_expr",
         "end_expr", "filter_expr", "exclude_clause", "distinct", "ignore_nulls",
         "has_ignore_nulls", "arg_orders")  # fmt: skip
    if folded(node["function_name"]).startswith("dp_"):
        raise refuse_node(node)
    for item in node["arguments"]:
        only(item, "expression")
    given = [inner(item["expression"]) for item in node["arguments"]] or (
        ["*"] if folded(node["function_name"]) == "count" else []
    )
    inside = f"{'DISTINCT ' if node['distinct'] else ''}{', '.join(given)}"
    inside += _ordered(node["arg_orders"], inner)
    inside += " IGNORE NULLS" if node["ignore_nulls"] else ""
    kept = node["filter_expr"]
    where = "" if kept is None else f" FILTER (WHERE {condition(kept, inner(kept))})"
    by = ", ".join(map(inner, node["partitions"]))
    over = [f"PARTITION BY {by}" if by else "", _ordered(node["orders"], inner).strip(),
            _frame(node, inner)]  # fmt: skip
    name = shown(folded(node["function_name"]))
    return f"{name}({inside}){where} OVER ({' '.join(filter(None, over))})"


def _ordered(orders: Sequence[Node], inner: Inner) -> str:
    items = []
    for item in orders:  # a direction is shown as far as it is none of DuckDB's defaults
        said = direction(item)
        if item["null_order"] == "ORDER_DEFAULT":
            said = said.removesuffix(" NULLS LAST")
        items.append(f"{inner(item['expression'])} {said}".removesuffix(" ASC"))
    return f" ORDER BY {', '.join(items)}" if items else ""


def _frame(node: Node, inner: Inner) -> str:
    """Return the rows of a window that count; nothing for those that count by default."""
    ends = (node["start"], node["end"])
    left_out = node["exclude_clause"].replace("_", " ")
    if ends == ("UNBOUNDED_PRECEDING", "CURRENT_ROW_RANGE") and left_out == "NO OTHER":
        return ""
    unit = next((u for u in ("ROWS", "GROUPS") if any(end.endswith(u) for end in ends)), "RANGE")
    written = [
        (f"{inner(size)} " if size is not None else "")
        + end.removesuffix(f"_{unit}").removeprefix("EXPR_").replace("_", " ")
        for end, size in zip(ends, (node["start_expr"], node["end_expr"]), strict=True)
    ]
    except_for = "" if left_out == "NO OTHER" else f" EXCLUDE {left_out}"
    return f"{unit} BETWEEN {' AND '.join(written)}{except_for}"


def conjuncts(node: Node) -> list[Node]:
    """Return the conditions that AND combines."""
    if kind(node) != ("CONJUNCTION", "CONJUNCTION_AND"):
        return [node]
    only(node, "children")
    return [each for child in node["children"] for each in conjuncts(child)]


def condition(node: Node, sql: str) -> str:
    """Return a condition that is true, false or NULL, as it was written."""
    plain = kind(node) in _TRUTHS or called(node) in _TRUE or literal(node)[0] == "BOOLEAN"
    return sql if plain else f"CAST({sql} AS BOOLEAN)"


def _constant(node: Node, inner: Inner) -> str:  # noqa: ARG001 one signature for all rules
    sort, text = literal(node)
    if sort == "STRING":
        return "'" + text.replace("'", "''") + "'"
    if sort == "NULL_LITERAL":
        return "NULL"
    if sort == "BOOLEAN" and text in {"true", "false"}:
        return text
    digits = text.removeprefix("-").replace("_", "")
    plain = digits[:1] in set("0123456789.") and not set(digits) - set("0123456789.eE+-")
    if sort not in {"INTEGER", "NUMERIC"} or not digits or not plain:
        raise refuse_part("a constant of this kind")
    return f"-{digits}" if text.startswith("-") else digits


def _call(node: Node, inner: Inner) -> str:
    """Write a call of a function on the list, or of an operator."""
    name = called(node)
    if f"{name}()" in REFUSALS:
        raise refuse(f"{name}()")
    given = arguments(node)
    if name.startswith("dp_"):
        raise refuse("dp_ call here", name=name)
    operation = _operation(name, given, inner)
    if operation is not None:
        return operation
    name = "json_extract_string" if name == "->>" else name
    if name not in ROW_FUNCTIONS:
        raise not_a_row_function(name)
    check_dates(node)
    if name == "position" and len(given) == 2:
        return f"position({inner(given[1])} IN {inner(given[0])})"
    return f"{name}({', '.join(map(inner, given))})"


def _operation(name: str, given: Sequence[Node], inner: Inner) -> str | None:
    """Return a call of an operator as it is written; None for other functions."""
    if name in _ESCAPED and len(given) == 3:
        return _escaped(_ESCAPED[name], given, inner)
    parts = [inner(item) for item in given] if name in _SIGNS else []
    if name == "list_value":
        return f"[{', '.join(parts)}]"
    if name in _BINARY and len(parts) == 2:
        return f"({parts[0]} {_BINARY[name]} {parts[1]})"
    if name in _NOT_LIKE and len(parts) == 2:
        return f"(NOT ({parts[0]} {_NOT_LIKE[name]} {parts[1]}))"
    return f"({name}({parts[0]}))" if name in _UNARY and len(parts) == 1 else None


def _escaped(sign: str, given: Sequence[Node], inner: Inner) -> str:
    """Write x LIKE y ESCAPE z, unless DuckDB could end a query for it in spite of TRY."""
    pattern, mark = text_of(given[1]), text_of(given[2]) or ""
    known = pattern is not None and len(mark) == 1 and mark.isascii()
    if pattern is None or not known or pattern.replace(2 * mark, "").endswith(mark):
        raise refuse("ESCAPE")
    text, like, escape = map(inner, given)
    return f"({text} {sign} {like} ESCAPE {escape})"


def _comparison(node: Node, inner: Inner) -> str:
    only(node, "left", "right")
    return f"({inner(node['left'])} {COMPARED[node['type']]} {inner(node['right'])})"


def _between(node: Node, inner: Inner) -> str:
    only(node, "input", "lower", "upper")
    low, high = inner(node["lower"]), inner(node["upper"])
    return f"({inner(node['input'])} BETWEEN {low} AND {high})"


def _children(written: Callable[..., str]) -> Callable[[Node, Inner], str]:
    """Return the rule of nodes that have nothing but children, by how those are put together."""

    def rule(node: Node, inner: Inner) -> str:
        only(node, "children")
        return written(*map(inner, node["children"]))

    return rule


def _element(node: Node, inner: Inner) -> str:
    only(node, "children")
    owner, place = node["children"]
    sort, text = literal(place)
    if sort != "INTEGER" or not text.removeprefix("-").isdecimal():
        raise refuse("ARRAY_SLICE")
    start = inner(owner)
    return f"({start})[{text}]" if start.startswith(("-", "CASE")) else f"{start}[{text}]"


def _field(node: Node) -> tuple[Node, str]:
    only(node, "children")
    owner, name = node["children"]
    text = text_of(name)
    if text is None:
        raise refuse_node(node)
    return owner, text


def field_of(sql: str, name: str) -> str:
    """Return the SQL of a field."""
    literal_name = name.replace("'", "''")
    return f"struct_extract({sql}, '{literal_name}')"


def _extracted(node: Node, inner: Inner) -> str:
    owner, name = _field(node)
    return field_of(inner(owner), name)


def _case(node: Node, inner: Inner) -> str:
    only(node, "case_checks", "else_expr")
    branches = []
    for branch in node["case_checks"]:
        only(branch, "when_expr", "then_expr")
        when, then = inner(branch["when_expr"]), inner(branch["then_expr"])
        branches.append(f" WHEN ({when}) THEN ({then})")
    default = inner(node["else_expr"])
    end = "" if default == "NULL" else f" ELSE {default}"
    return f"CASE {''.join(branches)}{end} END"


def _cast(node: Node, inner: Inner) -> str:
    only(node, "child", "type_expr", "try_cast")
    word = "TRY_CAST" if node["try_cast"] else "CAST"
    return f"{word}({inner(node['child'])} AS {type_name(node['type_expr'])})"


_SPELLINGS = {
    "BOOL": "BOOLEAN", "LOGICAL": "BOOLEAN",
    "INT1": "TINYINT",
    "INT2": "SMALLINT", "INT16": "SMALLINT", "SHORT": "SMALLINT",
    "INT": "INTEGER", "INT4": "INTEGER", "INT32": "INTEGER", "SIGNED": "INTEGER",
    "INTEGRAL": "INTEGER",
    "INT8": "BIGINT", "INT64": "BIGINT", "LONG": "BIGINT",
    "INT128": "HUGEINT",
    "UINT8": "UTINYINT", "UINT16": "USMALLINT", "UINT32": "UINTEGER", "UINT64": "UBIGINT",
    "REAL": "FLOAT", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL",
    "TEXT": "VARCHAR", "STRING": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP", "TIMESTAMP_US": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "GUID": "UUID",
}  # fmt: skip
_TYPES = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
     "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE", "TIME", "TIMESTAMP",
     "TIMESTAMP_NS", "TIMESTAMPTZ", "INTERVAL", "UUID")
)  # fmt: skip


def type_name(node: Node) -> str:
    """Return a type that is cast to, by one name for each."""
    name = str(node.get("type_name")).upper()
    name = _SPELLINGS.get(name, name)
    known = kind(node) == ("TYPE", "TYPE") and name in _TYPES
    digits = [literal(child) for child in node.get("children") or ()]
    whole = all(sort == "INTEGER" and text.isdecimal() for sort, text in digits)
    sized = not digits or name in {"DECIMAL", "VARCHAR"}  # text of any length is the same type
    if not known or node.get("schema") or node.get("catalog") or not whole or not sized:
        raise refuse("CAST", near=nearly(name, _TYPES, str))
    only(node, "type_name", "children")
    if name != "DECIMAL" or not digits:
        return name
    return f"DECIMAL({', '.join(str(int(text)) for _, text in digits)})"


COMPARED = {
    "COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "!=", "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=", "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}  # fmt: skip
_LIKE = {"~~": "LIKE", "~~*": "ILIKE", "~~~": "GLOB"}
_NOT_LIKE = {f"!{name}": sign for name, sign in _LIKE.items()}
_TRUE = frozenset((*_LIKE, *_NOT_LIKE, "like_escape", "ilike_escape"))
_ESCAPED = {"like_escape": "LIKE", "ilike_escape": "ILIKE"}
_BINARY = _LIKE | {
    sign: sign
    for sign in ("+", "-", "*", "/", "//", "%", "**", "^", "||", "^@", "&", "|", "<<", ">>")
}
_UNARY = frozenset(("-", "+", "~", "@"))
_SIGNS = _BINARY.keys() | _NOT_LIKE.keys() | _UNARY | {"list_value"}

_RULES: dict[tuple[str, str], Callable[[Node, Inner], str]] = {
    ("CONSTANT", "VALUE_CONSTANT"): _constant,
    ("FUNCTION", "FUNCTION"): _call,
    **{("COMPARISON", name): _comparison for name in COMPARED},
    ("BETWEEN", "COMPARE_BETWEEN"): _between,
    ("CONJUNCTION", "CONJUNCTION_AND"): _children(lambda *own: f"({' AND '.join(own)})"),
    ("CONJUNCTION", "CONJUNCTION_OR"): _children(lambda *own: f"({' OR '.join(own)})"),
    ("OPERATOR", "OPERATOR_NOT"): _children(lambda own: f"(NOT {own})"),
    ("OPERATOR", "OPERATOR_IS_NULL"): _children(lambda own: f"({own} IS NULL)"),
    ("OPERATOR", "OPERATOR_IS_NOT_NULL"): _children(lambda own: f"({own} IS NOT NULL)"),
    ("OPERATOR", "COMPARE_IN"): _children(lambda own, *of: f"({own} IN ({', '.join(of)}))"),
    ("OPERATOR", "OPERATOR_COALESCE"): _children(lambda *own: f"coalesce({', '.join(own)})"),
    ("OPERATOR", "ARRAY_EXTRACT"): _element,
    ("OPERATOR", "STRUCT_EXTRACT"): _extracted,
    ("CASE", "CASE_EXPR"): _case,
    ("CAST", "OPERATOR_CAST"): _cast,
}
_TRUTHS = frozenset(key for key in _RULES if key[0] in {"COMPARISON", "BETWEEN", "CONJUNCTION"}) | {
    ("OPERATOR", f"OPERATOR_{name}") for name in ("NOT", "IS_NULL", "IS_NOT_NULL")
} | {("OPERATOR", "COMPARE_IN")}  # fmt: skip

Kinds = Callable[[Sequence[str]], str]
"""Declared types of columns, "" where none is known."""
_LITERAL = re.compile(r"-?([0-9]{1,18})(?:\.([0-9]{1,18}))?\Z")


def certain(node: Node, kinds: Kinds) -> str:
    """Return the type of an expression that fails for no row, whatever is stored; "" for others.

    That of a number is its own text. Types that are compared are alike, so that no value of a
    column is cast, not even one that its declared type does not have.
    """
    if is_column(node):
        return kinds(node["column_names"])
    name, below = called(node), list_operands(node)
    if name in {"~~", "!~~"}:
        is_pattern = len(below) == 2 and text_of(below[1]) is not None
        return "BOOLEAN" if is_pattern and certain(below[0], kinds) == "VARCHAR" else ""
    if kind(node) not in _TRUTHS:
        return _certain_constant(node)
    found = [certain(own, kinds) for own in below]
    if kind(node)[0] == "CONJUNCTION" or kind(node)[1] == "OPERATOR_NOT":
        fits = set(found) == {"BOOLEAN"}
    else:
        fits = any(wide and all(_holds(wide, own) for own in found) for wide in found)
    return "BOOLEAN" if fits else ""


def _certain_constant(node: Node) -> str:
    """Return the type of a constant that can be none of another, as `certain` does."""
    sort, text = literal(node)
    if cast_to(node) == "DATE":
        with suppress(ValueError):
            day = text_of(node["child"]) or ""
            return "DATE" if date.fromisoformat(day).isoformat() == day else ""
    if called(node) in {"+", "-"}:
        few = (
            sort == "INTEGER" and len(own) < 9 for sort, own in map(literal, list_operands(node))
        )
        return "INTEGER" if all(few) else ""
    plain = text if _LITERAL.match(text) else ""
    return {"STRING": "VARCHAR", "BOOLEAN": "BOOLEAN", "": ""}.get(sort, plain)


def by_row(node: Node, kinds: Kinds) -> bool:
    """Tell an expression of which one row computes the same, whatever optimiser knows of others.

    It is certain, or arithmetic, all of which is computed for each row, or a choice among such by
    certain conditions: no part of it that fails can be left out as it makes no difference.
    """
    if kind(node) == ("CASE", "CASE_EXPR"):
        checks = node["case_checks"]
        results = [node["else_expr"], *(own["then_expr"] for own in checks)]
        whens = (certain(own["when_expr"], kinds) for own in checks)
        is_certain = all(sql_type == "BOOLEAN" for sql_type in whens)
        return is_certain and all(by_row(result, kinds) for result in results)
    if called(node) in {"+", "-", "*"}:
        return all(by_row(operand, kinds) for operand in list_operands(node))
    return bool(certain(node, kinds)) or literal(node)[0] == "NULL_LITERAL"


_HELD = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Digits of types of whole numbers."""
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+), ?([0-9]+)\)\Z")


def _holds(wide: str, own: str) -> bool:
    """Tell whether values of a type compare with those of a wide one, none of which is cast."""
    if own == wide or {own, wide} <= _HELD.keys():
        return True
    digits, size = _LITERAL.match(own), _DECIMAL.match(wide)
    if size is None:
        return bool(digits) and (wide == "DOUBLE" or (wide in _HELD and "." not in own))
    whole, after = (len(digits[1]), len(digits[2] or "")) if digits else (_HELD.get(own, 99), 0)
    return whole <= int(size[1]) - int(size[2]) and after <= int(size[2])


_FACTOR = 1_000
_LENGTH = 200_000
"""How much longer than what a row holds a value can get: by a public factor.

An engine that runs out of memory ends the query, and that it ended tells something about a row.
Every value in an expression has at most `_FACTOR` times the characters of the longest value that is
stored, plus `_LENGTH`; what could make longer ones is refused. The bound of a text is read off its
tokens, from the innermost parentheses outwards. It adds up all that stands between two parentheses;
a condition counts nothing, and a call that can repeat what it is given multiplies.
"""

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()\[\],]|[^\s'"()\[\],]+""")
_CONDITIONS = frozenset(
    ("=", "!=", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE",
     "GLOB", "~", "^@")
)  # fmt: skip
_DATE = 40
"""What a sign of a date's format stands for has fewer characters."""


@dataclass(frozen=True)
class Size:
    """A bound: so many times the longest value in the row, and so many characters.

    It is that of a `text` where it is the very length of a constant.
    """

    factor: int = 0
    length: int = 0
    text: bool = False

    def times(self, number: int, more: int = 0) -> Size:
        """Return the bound of so many of the same, and of more characters."""
        return Size(self.factor * number, self.length * number + more)


def longest(sizes: Iterable[Size]) -> Size:
    """Return the bound of what has one of some bounds, or is stored."""
    parts = [STORED, *sizes]
    return Size(max(own.factor for own in parts), max(own.length for own in parts))


def _added(sizes: Iterable[Size]) -> Size:
    parts = [*sizes]
    return Size(sum(own.factor for own in parts), sum(own.length for own in parts))


@dataclass
class _Group:
    """What stands between two parentheses, after the name of a function if there is one.

    Its arguments consist of parts, each with its bound.
    """

    name: str = ""
    arguments: list[list[Size]] = field(default_factory=lambda: [[]])
    condition: bool = False
    texts: bool = False

    def size(self) -> Size:
        """Return the bound of the value that it stands for."""
        first, _, third, *_ = [*map(_added, self.arguments), Size(), Size()]
        total = _added(map(_added, self.arguments))
        if self.name in {"string_split", "str_split"}:  # in its text, signs are around each element
            total = first.times(5, 2)
        if self.name in {"replace", "regexp_replace"} and third.factor:
            raise refuse("too long")
        match self.name:
            case "replace":  # what is replaced has one character at least, or nothing is
                what = [*self.arguments, []][1]
                least = what[0].length if len(what) == 1 and what[0].text else 1
                return first.times(max(-(-third.length // max(least, 1)), 1))
            case "regexp_replace":  # each sign of the third may stand for the whole text
                return total.times(1 + third.length, third.length)
            case "concat_ws":
                return _added([total, first.times(len(self.arguments))])
            case "strftime":
                return total.times(_DATE)
            case (
                "cast" | "try_cast"
            ):  # as a text, a list shows each of its texts with signs escaped
                return total.times(2 if self.texts else 1, _DATE)
        return Size() if self.condition else total


STORED = Size(1)
"""The bound of what is stored."""
LIST = Size(_FACTOR)
"""The bound of a list of any number of stored values: nothing longer can be made of it."""


def size_of(sql: str, sizes: Mapping[str, Size]) -> Size:
    """Return the bound of an expression as this package writes it; one of any size is refused.

    `sizes` are those of columns that are more than what is stored.
    """
    if len(sql) > _LENGTH:
        raise refuse("too long")
    groups, before = [_Group(), _Group()], ""
    for word in [*_TOKEN.findall(sql), ")"]:
        own = groups[-1]
        if word in "([":
            groups.append(_Group(before))
        elif word in ")]":
            size = groups.pop().size()
            if size.factor > _FACTOR or size.length > _LENGTH:
                raise refuse("too long")
            groups[-1].arguments[-1].append(size)
        elif word.startswith("'"):
            text = word[1:-1].replace("''", "'")
            own.arguments[-1].append(Size(0, len(text), text=True))
        elif word.startswith('"'):
            own.arguments[-1].append(sizes.get(word[1:-1].replace('""', '"'), STORED))
        elif word == ",":
            own.arguments.append([])
        elif word in _CONDITIONS:
            own.condition = True
        else:
            own.texts = own.texts or word == "VARCHAR"
            own.arguments[-1].append(Size())
        before = folded(word)
    return _added(groups[0].arguments[0])
