"""Write expressions over one row: each kind of node that is known has a rule of its own.

A node without a rule is refused. What DuckDB runs is what these rules write, never the text of the
caller: everything in parentheses, and each call by the name that DuckDB's tree has for it.

Functions of one row are listed by name: deterministic, without memory, files, settings or clocks.
What is not listed is refused: what can make a value of any size out of a small one, what depends on
the moment, and what only some version of DuckDB has. Parts and widths of dates stand on lists, and
arguments are written so that a type without the part can't be planned: whether a query fails
follows from the text and the declared types. Aggregates, windows and types are listed that have one
value, in whatever order rows are read: what a unit's rows give must be the same bits with and
without any other unit's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from dfprivacy.engine.embedded import open_embedded, quote_text
from dfprivacy.engine.files import quote
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.nodes import (
    Case,
    Cast,
    Constant,
    Function,
    Node,
    Operator,
    Order,
    Over,
    Type,
    arguments,
    cast_to,
    find_text,
    fold_name,
    literal,
    name_call,
    quote_if_needed,
    refuse_node,
    spell_type,
)
from dfprivacy.statements.rules import REFUSALS, nearly, refuse, refuse_part, words
from dfprivacy.statistics.forms import example_calls, functions

WHOLE = words("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT")
FLOATS = words("FLOAT DOUBLE")
SINGLE = (
    WHOLE
    | FLOATS
    | words("HUGEINT UHUGEINT BOOLEAN VARCHAR BLOB UUID DATE TIME")
    | words("TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS")
    | {"TIMESTAMP WITH TIME ZONE"}
)
"""Types whose values are one where they are equal; floats are made so by `one_float`."""


_SMALL = 18
"""Most digits of a DECIMAL whose sum over any number of rows still fits."""


def find_base_type(sort: str) -> str:
    """Return a type without its digits or categories."""
    return sort.partition("(")[0]


def _digits(sort: str) -> int:
    """Return the digits of a DECIMAL; 0 for other types."""
    return int(sort[8:].partition(",")[0]) if find_base_type(sort) == "DECIMAL" else 0


def is_single(sort: str) -> bool:
    """Return True for types whose equal values are identical."""
    return find_base_type(sort) in SINGLE | {"DECIMAL", "ENUM", '"NULL"', "NULL"}


def require_single(sort: str, what: str) -> None:
    """Refuse a type in which equal values may have several forms."""
    if not is_single(sort):
        raise refuse("equal values that differ", what=what, base=find_base_type(sort))


def one_float(name: str, sort: str) -> str:
    """Return the SQL of floats in which equal values have one form: 0.0 is -0.0, NaN is any NaN."""
    column = quote(name)
    return (
        f"CASE WHEN isnan({column}) THEN CAST('NaN' AS {sort}) "
        f"WHEN {column} = 0 THEN CAST(0 AS {sort}) ELSE {column} END"
    )


def require_exact(sort: str, name: str) -> None:
    """Refuse a running sum of numbers that depends on their order."""
    if find_base_type(sort) not in WHOLE | {"BOOLEAN"} and not 0 < _digits(sort) <= _SMALL:
        raise refuse("running sum", name=name, base=find_base_type(sort))


def are_comparable(first: str, second: str) -> bool:
    """Return True for types that compare without a cast that can fail."""
    bases = {find_base_type(first), find_base_type(second)}
    is_close = bases <= WHOLE - {"UBIGINT"} or bases == FLOATS
    return is_close or first == second


def are_united(types: Sequence[str]) -> bool:
    """Return True for types that UNION ALL makes one by casts that can't fail: one is a float."""
    bases = set(map(find_base_type, types))
    are_numbers = bases <= WHOLE | FLOATS | {"DECIMAL", "HUGEINT"} and bool(bases & FLOATS)
    return are_numbers or all(are_comparable(types[0], other) for other in types)


EXACT = frozenset(
    ("count", "count_star", "min", "max", "sum", "avg", "mean", "bool_and", "bool_or", "any_value")
)
BY_LIST: Mapping[str, str] = {
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "median": "median",
}


ORDERED_BY_VALUE = {
    **dict.fromkeys(("arg_max", "argmax", "max_by"), "DESC NULLS LAST"),
    **dict.fromkeys(("arg_min", "argmin", "min_by"), "ASC NULLS LAST"),
}
ORDERED = frozenset((*ORDERED_BY_VALUE, "first", "last", "list", "array_agg"))
"""Aggregates by the order of rows: equal rows have one order, as values break ties."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a unit's rows: of a column, in an order of columns with directions."""

    name: str
    argument: str
    order: tuple[tuple[str, str], ...] = ()
    is_unique: bool = False

    @property
    def uses(self) -> frozenset[str]:
        """The columns that it names."""
        return frozenset(filter(None, (self.argument, *(name for name, _ in self.order))))

    @property
    def is_list(self) -> bool:
        """Check for a list of all values."""
        return self.name in {"list", "array_agg"}


def exact_sum(call: Aggregate, kinds: Mapping[str, str]) -> tuple[str, str]:
    """Return an aggregate with one value in any order, and what reads the list it collects."""
    name, argument, sort = call.name, call.argument, kinds.get(call.argument, "")
    text, base = quote(argument), find_base_type(sort)
    once = "DISTINCT " if call.is_unique else ""
    if name in ORDERED or (name == "count" and call.is_unique):
        for column in call.uses:
            require_single(kinds[column], f"{name} by {column!r}")
    if name in ORDERED:  # the value itself breaks ties
        order = ", ".join([*(f"{quote(column)} {way}" for column, way in call.order), text])
        present = " AND ".join(f"{quote(column)} IS NOT NULL" for column in sorted(call.uses))
        by_value = f"first({text} ORDER BY {order}) FILTER (WHERE {present})"
        return (
            by_value if name in ORDERED_BY_VALUE else f"{name}({once}{text} ORDER BY {order})",
            "",
        )
    if name == "count":
        return f"count({once}{text if argument else '*'})", ""
    if name in {"min", "max", "any_value"}:
        require_single(sort, f"{name} of {argument!r}")
        return f"{'max' if name == 'max' else 'min'}({text})", ""
    if name in {"bool_and", "bool_or"}:
        if base != "BOOLEAN":
            raise refuse("no conditions", name=name, base=base)
        return f"{name}({text})", ""
    small = base in WHOLE or 0 < _digits(sort) <= _SMALL
    if base == "BOOLEAN":
        text, small = f"CAST({text} AS INTEGER)", True
    if name in {"sum", "avg", "mean"} and small:
        return f"{'sum' if name == 'sum' else 'avg'}({once}{text})", ""
    if base not in WHOLE | FLOATS | {"DECIMAL", "HUGEINT", "UHUGEINT", "BOOLEAN"}:
        raise refuse("no numbers", name=name, base=base)
    function = {"sum": "sum", "avg": "avg", "mean": "avg", **BY_LIST}[name]
    number = f"CAST({text} AS DOUBLE)"
    present = f"FILTER (WHERE {text} IS NOT NULL)"
    return f"list({once}{number} ORDER BY {number}) {present}", function


@dataclass(frozen=True)
class _Rule:
    """A window function: how many values it takes, and whether ties matter to it."""

    values: int
    orders: bool


WINDOWS: Mapping[str, _Rule] = {
    **dict.fromkeys(("row_number", "ntile"), _Rule(0, orders=True)),
    **dict.fromkeys(
        ("rank", "dense_rank", "percent_rank", "cume_dist", "count_star"), _Rule(0, orders=False)
    ),
    **dict.fromkeys(
        ("lag", "lead", "first_value", "last_value", "nth_value"), _Rule(1, orders=True)
    ),
    **dict.fromkeys(("count", "min", "max", "sum", "avg"), _Rule(1, orders=False)),
}
FRAME_ENDS = words(
    "UNBOUNDED_PRECEDING UNBOUNDED_FOLLOWING CURRENT_ROW_ROWS CURRENT_ROW_RANGE "
    "EXPR_PRECEDING_ROWS EXPR_FOLLOWING_ROWS"
)


def is_whole_sum(window: Any, kinds: Mapping[str, str]) -> bool:
    """Check for a window that adds up all numbers of its partition, which depend on their order."""
    if window.function not in {"sum", "avg"} or window.order or window.frame:
        return False
    kind = kinds[window.arguments[0]]
    return find_base_type(kind) in FLOATS | {"HUGEINT"} or _digits(kind) > _SMALL


_MOST = 2**31


def is_number_of_rows(node: Node) -> bool:
    """Return True for a constant that a window takes as a number of rows, whatever rows there are.

    Nothing is tried here: a larger number would end the query, if there is any row.
    """
    sort, text = literal(node)
    return sort == "INTEGER" and text.isdecimal() and int(text) < _MOST


NUMBERS = words(
    "abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 pow power mod "
    "gcd lcm sin cos tan asin acos atan atan2 cot degrees radians pi isnan isinf isfinite "
    "even bit_count xor add subtract multiply divide"
)
CHOICES = words("coalesce ifnull nullif if greatest least")
TEXT = words(
    "lower upper lcase ucase length len strlen trim ltrim rtrim left right substr substring "
    "replace reverse concat concat_ws contains starts_with ends_with prefix suffix instr "
    "strpos position split_part regexp_matches regexp_full_match regexp_replace "
    "regexp_extract ascii unicode ord md5 sha256 hash levenshtein jaccard jaro_similarity "
    "strip_accents translate json_extract_string string_split str_split"
)
TIMES = words(
    "date_part datepart date_trunc datetrunc date_diff datediff date_sub datesub date_add "
    "year month day hour minute second quarter week weekofyear dayofweek weekday isodow "
    "isoyear yearweek dayofyear dayofmonth dayname monthname last_day epoch epoch_ms "
    "epoch_us era decade century millennium millisecond microsecond make_date make_time "
    "make_timestamp strftime strptime try_strptime time_bucket to_years to_months to_weeks "
    "to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds to_quarters "
    "to_decades to_centuries to_millennia timezone"
)
NESTED = words(
    "struct_extract list_extract list_contains list_has list_position list_sum list_min "
    "list_max list_avg"
)
ROW_FUNCTIONS = NUMBERS | CHOICES | TEXT | TIMES | NESTED

_BY_VALUE = ", or SELECT x, dp_count(*) FROM t GROUP BY x"
_VALUES = (
    "values with their counts, SELECT x, count(*) FROM t GROUP BY x; or aggregate the rows of each "
    "unit in a subquery, GROUP BY user_id"
)
OF_FRAMES = {
    "regression": ", or the line of one column: dp_slope(y, x, 0, 100, 0, 100), dp_intercept",
    "describe": "",
    "crosstab": ", or GROUP BY both columns",
    "pivot": ", or GROUP BY both columns",
    "value_counts": _BY_VALUE,
    "top": _BY_VALUE,
    "mode": _BY_VALUE,
    "histogram": ", or SELECT floor(x / 10), dp_count(*) FROM t GROUP BY 1",
    "mean_vector": "",
}
"""Questions that frames have and SQL has not, and what SQL has instead."""


def of_frame(question: str) -> str:
    """Return where a question of `OF_FRAMES` can be asked."""
    return f"dfp.frame(con.table('t')).{question}(...){OF_FRAMES[question]}"


@cache
def _private() -> dict[str, str]:
    """Return a private call for each ordinary aggregate that a statistic answers."""
    calls_by_name: dict[str, str] = {}
    for name, statistic in reversed(functions().items()):
        calls = example_calls(name, statistic)
        bounded = (call for call in calls if call.endswith(", 0, 100)"))
        calls_by_name |= dict.fromkeys(statistic.sql_names, next(bounded, calls[0]))
    return calls_by_name


AGGREGATES = words(
    "count sum avg mean var_pop var_samp variance stddev stddev_pop stddev_samp median "
    "quantile quantile_cont quantile_disc approx_quantile min max regr_r2 count_distinct "
    "list array_agg string_agg group_concat listagg first last any_value arg_min arg_max "
    "argmin argmax min_by max_by mode histogram entropy kurtosis skewness mad bit_and "
    "bit_or bit_xor bool_and bool_or count_if countif count_star product fsum favg sumkahan "
    "sum_no_overflow approx_count_distinct approx_top_k corr covar_pop covar_samp "
    "regr_slope regr_intercept regr_count reservoir_quantile geomean grouping grouping_id "
    "summary"
)
CHANGING = words(
    "random uuid gen_random_uuid uuidv4 uuidv7 setseed now today current_date current_time "
    "current_timestamp current_localtime current_localtimestamp get_current_time "
    "get_current_timestamp transaction_timestamp localtime localtimestamp age txid_current "
    "nextval currval sleep_ms"
)
OUTSIDE = words(
    "error getenv getvariable current_setting current_user session_user user "
    "current_database current_catalog current_schema current_schemas current_query "
    "current_query_id current_connection_id current_transaction_id version read_csv "
    "read_csv_auto read_parquet read_json read_json_auto read_text read_blob glob query "
    "query_table parquet_scan write_log stats pragma_storage_info in_search_path"
)


def _refuse_call(call: Function) -> RefusedStatementError:
    """Return the error for a call of what is not a function of a single row on the list."""
    if f"{call.name}()" in REFUSALS:
        return refuse(f"{call.name}()")
    arguments(call)
    if is_dp(call):
        return refuse("dp_ call here", name=call.name)
    name = "count" if call.name == "count_star" else call.name  # count(*) in DuckDB's tree
    if name in AGGREGATES:
        instead = of_frame(name) if name in OF_FRAMES else _private().get(name, _VALUES)
        return refuse("aggregate", name=name, instead=instead)
    rules = {"changing": CHANGING, "outside": OUTSIDE, "unnest of a list": {"unnest"}}
    for rule, names in rules.items():
        if name in names:
            return refuse(rule, name=name)
    same = f"write {OTHER_DIALECTS[name]}, or " if name in OTHER_DIALECTS else ""
    return refuse("no row function", name=name, near=same or nearly(name, ROW_FUNCTIONS, str))


OTHER_DIALECTS = {
    **dict.fromkeys(("date_format", "format_date"), "strftime(d, '%Y-%m')"),
    **dict.fromkeys(("str_to_date", "parse_date"), "strptime(x, '%Y-%m-%d')"),
    **dict.fromkeys(("nvl", "isnull", "zeroifnull"), "coalesce(x, '')"),
    **dict.fromkeys(("dateadd", "adddate"), "d + INTERVAL 1 DAY"),
    **dict.fromkeys(("charindex", "locate"), "strpos(x, 'a')"),
    **dict.fromkeys(("safe_divide", "div0"), "y / nullif(y, 0)"),
    **dict.fromkeys(("convert", "try_convert"), "TRY_CAST(x AS INTEGER)"),
    "timestamp_trunc": "date_trunc('month', d)",
    "unix_timestamp": "epoch(d)",
    "from_unixtime": "to_timestamp(y)",
    "decode": "CASE x WHEN 'a' THEN 1 ELSE 0 END",
    "to_date": "CAST(x AS DATE)",
    "lpad": "right(concat('000', x), 3)",
    "initcap": "concat(upper(x[1]), lower(substring(x, 2)))",
}
"""Functions of other systems, by what computes the same of a text x, a number y or a date d."""


Inner = Callable[[Node], str]

_CLOCK = words("hour minute second millisecond microsecond epoch")
_LENGTHS = words("year quarter month day decade century millennium")
_PLACES = words("week dow isodow doy isoyear yearweek dayofweek weekday dayofyear era")
PARTS = _CLOCK | _LENGTHS | _PLACES
_WIDTHS = (_CLOCK | _LENGTHS | {"week"}) - {"epoch"}

_TAKEN = frozenset({"date_part", "datepart"})
_CUT = frozenset({"date_trunc", "datetrunc"})
_PARTED = _TAKEN | _CUT | {"date_diff", "datediff", "date_sub", "datesub"}
_PLACED = _PLACES | {"weekofyear"}

_SPAN = re.compile(r"(-?[0-9]{1,9})(?: +([a-z]+))?\Z", re.IGNORECASE)
_SPANS = {"microsecond", "millisecond", "second", "minute", "hour", "day", "week"}
_MADE = {f"to_{part}s": part for part in _WIDTHS} | {
    "to_centuries": "century",
    "to_millennia": "millennium",
}
"""INTERVAL '7' DAY is to_days(CAST(trunc(CAST('7' AS DOUBLE)) AS INTEGER)) in DuckDB's tree."""


def shield_arguments(name: str, operands: Sequence[Node | None], sqls: Sequence[str]) -> list[str]:
    """Return the SQL of arguments, which plans only types with the named parts."""
    start, end, dated = "", "", name in _PLACED
    if name == "epoch_ms":  # of a number it makes times that have no place in DuckDB's calendar
        start, end = "date_trunc('microsecond', ", ")"
    elif not dated and name in _PARTED - _CUT:
        part = fold_name(next(map(find_text, operands), None) or "").removesuffix("s")
        if name not in _TAKEN:
            dated = part not in _CLOCK
        elif part in _LENGTHS:
            start, end = "date_trunc('day', ", ")"
        else:
            dated = part in _PLACES
    if dated:
        start, end = "coalesce(", ", CAST(NULL AS DATE))"
    unshielded = 1 if name in _PARTED else 0
    return [*sqls[:unshielded], *(f"{start}{sql}{end}" for sql in sqls[unshielded:])]


def check_dates(name: str, operands: Sequence[Node | None]) -> None:
    """Refuse a call that names a part, width, zone or format that is not known."""
    first = operands[0] if operands else None
    match name:
        case "time_bucket":
            width, unit = _read_interval(first)
            if width < 1 or unit not in _WIDTHS:
                raise refuse("width")
            kinds = {"DATE", "TIMESTAMP", "TIMESTAMPTZ"}
            for operand in operands[2:]:  # where buckets start: a text would name a time zone
                if cast_to(operand) not in kinds or _cast_text(operand) is None:
                    raise refuse("origin")
        case "timezone":  # another name would end the query
            zone = find_text(first) if len(operands) == 2 else None
            if zone is None or fold_name(zone) not in _list_zones():
                raise refuse("zone")
        case "strptime":  # a text must not name its time zone
            formats = [
                arguments(operand)
                if isinstance(operand, Function) and operand.name == "list_value"
                else [operand]
                for operand in operands[1:]
            ]
            texts = [find_text(operand) for group in formats for operand in group]
            if any(text is None or "%Z" in text for text in texts):
                raise refuse("format")
        case "make_timestamp" if len(operands) == 1:
            raise refuse("make_timestamp")
    constant = all(literal(item)[0] in {"STRING", "INTEGER"} for item in operands[1:])
    if name in _CONSTANTS and not constant:
        raise refuse("path or separator", name=name)
    if name in _PARTED:
        part = find_text(first)
        parts = PARTS if name in _TAKEN else PARTS - {"era"}
        if part is None or fold_name(part).removesuffix("s") not in parts:
            raise refuse("part of a date")


_CONSTANTS = frozenset(("->>", "json_extract_string", "string_split", "str_split"))
"""Functions whose path or separator is a constant."""


@cache
def _list_zones() -> frozenset[str]:
    """Return the names of time zones, in lower case."""
    with open_embedded(idle=True) as engine:
        rows = engine.execute("SELECT name FROM pg_timezone_names()").fetchall()
    return frozenset(fold_name(name) for (name,) in rows)


def read_span(node: Node) -> timedelta | None:
    """Return the duration of a constant interval in one unit, at most weeks; None for others."""
    number, unit = _read_interval(node)
    return timedelta(**{f"{unit}s": number}) if unit in _SPANS else None


def _read_interval(node: Node | None) -> tuple[int, str]:
    """Return the number and the unit of a constant interval in one unit; 0 and "" of others."""
    unit = _MADE.get(name_call(node), "")
    text = (_cast_text(node) or "") if cast_to(node) == "INTERVAL" else ""
    while unit and node is not None and not text:
        match node:
            case Function(name=name) if name in {*_MADE, "trunc"}:
                node = next(iter(arguments(node)), None)
            case Cast(operand=operand) if cast_to(node) in {"DOUBLE", "INTEGER", "BIGINT"}:
                node = operand
            case _:
                text, node = literal(node)[1], None
    span = _SPAN.match(text.strip())
    if span is None or bool(unit) == bool(span[2]):
        return 0, ""
    return int(span[1]), unit or fold_name(span[2]).removesuffix("s")


def _cast_text(node: Node | None) -> str | None:
    """Return the text constant that a node casts, if it does."""
    return find_text(node.operand) if isinstance(node, Cast) else None


@dataclass(frozen=True)
class Size:
    """An upper limit of a length: `factor` times the longest value in the row, plus `length`."""

    factor: int = 0
    length: int = 0

    def times(self, number: int, more: int = 0) -> Size:
        """Return the limit of `number` such values and `more` characters."""
        return Size(self.factor * number, self.length * number + more)


STORED = Size(1)
"""The bound of what is stored."""


@dataclass(frozen=True)
class Expression:
    """An expression over columns, and those that it names.

    `size` is how long its values get; None where they are no longer than those of the columns.
    """

    sql: str
    uses: frozenset[str] = frozenset()
    kind: str = ""
    """Its type if it fails for no row, whatever is stored; that of a number is its own text."""
    size: Size | None = None
    by_row: bool = False
    """True if each row computes the same, whatever an optimizer knows of other rows.

    This holds where the type is certain, for arithmetic, which computes all its parts for each row,
    and for a choice among these by conditions of certain type. No optimizer leaves out a part of
    these that fails.
    """
    pair: tuple[Expression, Expression] | None = None
    """The sides of a condition that two expressions are equal; None for all others."""
    node: Node | None = field(default=None, compare=False)
    """The node that it writes."""

    @property
    def tried(self) -> str:
        """The expression as it is run: NULL where it fails; a column is read as it is."""
        return self.sql if self.kind or self.column is not None else f"TRY({self.sql})"

    @property
    def column(self) -> str | None:
        """The column that it is, if it is no more than that."""
        only = next(iter(self.uses), None)
        return only if only is not None and self.sql == quote(only) else None


class Writer:
    """Writes expressions over one row, from the operands up."""

    def find(self, node: Node) -> Expression | None:
        """Return the expression of a name, or of another node; None for what `write` knows."""
        raise NotImplementedError

    def check(self, node: Node, parts: Sequence[Expression]) -> None:
        """Refuse operands that do not go together."""

    def write(self, node: Node) -> Expression:
        """Return an expression that is known to be a function of one row."""
        expression = self.find(node)
        if expression is not None:
            return expression
        match node:
            case Constant():
                return _write_constant(node)
            case Function():
                return self._write_call(node)
            case Operator(sort=sort) if sort in _OPERATORS:
                return self._write_operator(node)
            case Case():
                return self._write_case(node)
            case Cast():
                return self._write_cast(node)
        raise refuse_node(node)

    def _write_call(self, call: Function) -> Expression:
        """Write a call of a function on the list, or of an operator."""
        name = call.name
        if name not in _WRITTEN:
            raise _refuse_call(call)
        parts = [self.write(operand) for operand in call.operands]
        arguments(call)  # refuses what else a call may have
        operands = [part.node for part in parts]
        if name in _ESCAPED and len(parts) == 3:
            pattern, mark = find_text(operands[1]), find_text(operands[2]) or ""
            is_plain = pattern is not None and len(mark) == 1 and mark.isascii()
            if pattern is None or not is_plain or pattern.replace(2 * mark, "").endswith(mark):
                raise refuse("ESCAPE")  # DuckDB could end a query for it in spite of TRY
        self.check(call, parts)
        sqls, kind = [part.sql for part in parts], ""
        if (name, len(parts)) in _CALLS:
            sql = _CALLS[name, len(parts)].format(*sqls)
        elif name == "list_value":
            sql = f"[{', '.join(sqls)}]"
        elif name in ROW_FUNCTIONS or name == "->>":
            check_dates(name, operands)
            called = "json_extract_string" if name == "->>" else name
            sql = f"{called}({', '.join(shield_arguments(name, operands, sqls))})"
        else:
            raise _refuse_call(call)
        if name in {"~~", "!~~"} and parts[0].kind == "VARCHAR":
            kind = "" if find_text(operands[1]) is None else "BOOLEAN"
        elif name in {"+", "-"}:
            constants = map(literal, operands)
            is_short = all(sort == "INTEGER" and len(digits) < 9 for sort, digits in constants)
            kind = "INTEGER" if is_short else ""
        by_row = name in {"+", "-", "*"} and all(part.by_row for part in parts)
        return _join(call, sql, parts, _measure_call(name, parts), kind, by_row=by_row)

    def _write_operator(self, node: Operator) -> Expression:
        sort, parts = node.sort, [self.write(operand) for operand in node.operands]
        operands = [part.node for part in parts]
        self.check(node, parts)
        sqls = [part.sql for part in parts]
        match sort, sqls:
            case "STRUCT_EXTRACT", (struct, _):
                name = find_text(operands[1])
                if name is None:
                    raise refuse_node(node)
                sql = write_field(struct, name)
            case "ARRAY_EXTRACT", (start, _):
                number, text = literal(operands[1])
                if number != "INTEGER" or not text.removeprefix("-").isdecimal():
                    raise refuse("ARRAY_SLICE")
                start = f"({start})" if start.startswith(("-", "CASE")) else start
                sql = f"{start}[{text}]"
            case (("CONJUNCTION_AND" | "CONJUNCTION_OR"), (_, *_)):
                sql = f"({f' {sort[12:]} '.join(sqls)})"
            case "COMPARE_IN", (value, *values):
                sql = f"({value} IN ({', '.join(values)}))"
            case "OPERATOR_COALESCE", (_, *_):
                sql = f"coalesce({', '.join(sqls)})"
            case _ if sort in _FORMS and _FORMS[sort].count("{}") == len(sqls):
                sql = _FORMS[sort].format(*sqls)
            case _:
                raise refuse_node(node)
        kinds, is_certain = [part.kind for part in parts], False
        if sort in _LOGIC:
            is_certain = set(kinds) == {"BOOLEAN"}
        elif sort in _TRUTHS:  # compared without a cast of what a column holds
            is_certain = any(wide and all(_holds(wide, kind) for kind in kinds) for wide in kinds)
        size = Size() if sort in _TRUTHS else _add(parts)
        joint = _join(node, sql, parts, size, "BOOLEAN" if is_certain else "")
        return replace(joint, pair=(parts[0], parts[1])) if sort == "COMPARE_EQUAL" else joint

    def _write_case(self, node: Case) -> Expression:
        whens = [self.write(branch.when) for branch in node.branches]
        results = [self.write(branch.then) for branch in node.branches]
        default = self.write(node.default)
        pairs = zip(whens, results, strict=True)
        checks = "".join(f" WHEN {when.sql} THEN {then.sql}" for when, then in pairs)
        sql, results = f"CASE{checks} ELSE {default.sql} END", [*results, default]
        is_certain = all(when.kind == "BOOLEAN" for when in whens)
        by_row = is_certain and all(result.by_row for result in results)
        return _join(node, sql, [*whens, *results], _add(results), by_row=by_row)

    def _write_cast(self, node: Cast) -> Expression:
        part, name = self.write(node.operand), type_name(node.type)
        self.check(node, [part])
        sql = f"{'TRY_CAST' if node.tries else 'CAST'}({part.sql} AS {name})"
        # as a text, a list shows each of its texts with signs escaped
        size = (part.size or STORED).times(2 if name == "VARCHAR" else 1, _DATE)
        is_day = name == "DATE" and _is_day(find_text(part.node))
        return _join(node, sql, [part], size, "DATE" if is_day else "")


def _join(
    node: Node,
    sql: str,
    parts: Sequence[Expression],
    size: Size,
    kind: str = "",
    *,
    by_row: bool = False,
) -> Expression:
    """Return an expression of others; one of any size is refused."""
    if size.factor > _FACTOR or size.length > _LENGTH or len(sql) > _MOST_SIGNS:
        raise refuse("too long")
    uses = frozenset[str]().union(*(part.uses for part in parts))
    return Expression(sql, uses, kind, size, bool(kind) or by_row, node=node)


def _is_day(text: str | None) -> bool:
    """Check for a date as DuckDB writes it."""
    with suppress(ValueError):
        return text is not None and date.fromisoformat(text).isoformat() == text
    return False


def is_dp(node: object) -> bool:
    """Return True if a node is a dp_ call, by its name."""
    return name_call(node).startswith("dp_")


_DIRECTIONS = {"ORDER_DEFAULT": "ASC", "ASCENDING": "ASC", "DESCENDING": "DESC"}
_NULLS = {"ORDER_DEFAULT": "NULLS LAST", "NULLS LAST": "NULLS LAST", "NULLS FIRST": "NULLS FIRST"}


def direction(item: Order) -> str:
    """Return the direction of an item of ORDER BY."""
    if item.way not in _DIRECTIONS or item.nulls not in _NULLS:
        raise refuse_part("a direction in ORDER BY")
    return f"{_DIRECTIONS[item.way]} {_NULLS[item.nulls]}"


def window(node: Over, inner: Inner) -> str:
    """Return a function with OVER; `inner` writes the expressions in it."""
    if node.name.startswith("dp_") or any(argument.name for argument in node.arguments):
        raise refuse_node(node)
    operands = [inner(argument.value) for argument in node.arguments]
    inside = ("DISTINCT " if node.distinct else "") + ", ".join(operands)
    inside = "*" if node.name == "count" and not operands else inside
    inside += _order_by(node.inner_orders, inner) + (" IGNORE NULLS" if node.ignores_nulls else "")
    filter_text = "" if node.filter is None else condition(node.filter, inner(node.filter))
    by = ", ".join(map(inner, node.partition))
    over = [
        f"PARTITION BY {by}" if by else "",
        _order_by(node.orders, inner).strip(),
        write_frame(node, inner),
    ]
    where = f" FILTER (WHERE {filter_text})" if filter_text else ""
    return f"{quote_if_needed(node.name)}({inside}){where} OVER ({' '.join(filter(None, over))})"


def _order_by(orders: Sequence[Order], inner: Inner) -> str:
    items = [f"{inner(item.value)} {direction(item)}" for item in orders]
    return f" ORDER BY {', '.join(items)}" if items else ""


def write_frame(node: Over, inner: Inner) -> str:
    """Return the rows of a window that count; nothing for those that count by default."""
    ends = (node.start, node.end)
    left_out = node.exclude.replace("_", " ")
    if ends == ("UNBOUNDED_PRECEDING", "CURRENT_ROW_RANGE") and left_out == "NO OTHER":
        return ""
    unit = next((u for u in ("ROWS", "GROUPS") if any(end.endswith(u) for end in ends)), "RANGE")
    written = []
    for end, size in zip(ends, (node.start_size, node.end_size), strict=True):
        name = end.removesuffix(f"_{unit}").removeprefix("EXPR_").replace("_", " ")
        written.append(name if size is None else f"{inner(size)} {name}")
    except_for = "" if left_out == "NO OTHER" else f" EXCLUDE {left_out}"
    return f"{unit} BETWEEN {' AND '.join(written)}{except_for}"


def condition(node: Node, sql: str) -> str:
    """Return a condition that is true, false or NULL, as it was written."""
    is_truth = isinstance(node, Operator) and node.sort in _TRUTHS
    plain = is_truth or name_call(node) in _TRUE or literal(node)[0] == "BOOLEAN"
    return sql if plain else f"CAST({sql} AS BOOLEAN)"


def _write_constant(node: Constant) -> Expression:
    sort, text, size = node.kind, node.text, Size()
    kind = {"STRING": "VARCHAR", "BOOLEAN": "BOOLEAN"}.get(sort, "")
    digits = text.removeprefix("-").replace("_", "")
    plain = digits[:1] in set("0123456789.") and not set(digits) - set("0123456789.eE+-")
    if sort == "STRING":
        sql, size = quote_text(text), Size(0, len(text))
    elif sort == "NULL_LITERAL":
        sql = "NULL"
    elif sort == "BOOLEAN" and text in {"true", "false"}:
        sql = text
    elif sort in {"INTEGER", "NUMERIC"} and digits and plain:
        sql = f"-{digits}" if text.startswith("-") else digits
        kind = text if _LITERAL.match(text) else ""
    else:
        raise refuse_part("a constant of this kind")
    by_row = bool(kind) or sort == "NULL_LITERAL"
    return Expression(sql, kind=kind, size=size, by_row=by_row, node=node)


def write_field(sql: str, name: str) -> str:
    """Return the SQL of a field."""
    return f"struct_extract({sql}, {quote_text(name)})"


_TYPES = words(
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT "
    "DOUBLE DECIMAL VARCHAR DATE TIME TIMESTAMP TIMESTAMP_NS TIMESTAMPTZ INTERVAL UUID"
)


def type_name(node: Node) -> str:
    """Return a type that is cast to, by one name for each."""
    name = spell_type(node.name) if isinstance(node, Type) else ""
    digits = [literal(size) for size in node.sizes] if isinstance(node, Type) else []
    is_sized = all(sort == "INTEGER" and text.isdecimal() for sort, text in digits)
    sized = not digits or name in {"DECIMAL", "VARCHAR"}  # text of any length is the same type
    if name not in _TYPES or not is_sized or not sized:
        raise refuse("CAST", near=nearly(name, _TYPES, str))
    if name != "DECIMAL" or not digits:
        return name
    return f"DECIMAL({', '.join(str(int(text)) for _, text in digits)})"


COMPARED = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_LOGIC = frozenset(("CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_NOT"))
_FORMS = {
    **{sort: f"({{}} {sign} {{}})" for sort, sign in COMPARED.items()},
    "COMPARE_BETWEEN": "({} BETWEEN {} AND {})",
    "OPERATOR_NOT": "(NOT {})",
    "OPERATOR_IS_NULL": "({} IS NULL)",
    "OPERATOR_IS_NOT_NULL": "({} IS NOT NULL)",
}
_TRUTHS = _LOGIC | {*_FORMS, "COMPARE_IN"}
_OPERATORS = _TRUTHS | {"OPERATOR_COALESCE", "STRUCT_EXTRACT", "ARRAY_EXTRACT"}
_LIKE = {"~~": "LIKE", "~~*": "ILIKE", "~~~": "GLOB"}
_ESCAPED = {"like_escape": "LIKE", "ilike_escape": "ILIKE"}
_TRUE = frozenset((*_LIKE, *(f"!{name}" for name in _LIKE), *_ESCAPED))
_CALLS = {
    **{(sign, 2): f"({{}} {sign} {{}})" for sign in words("+ - * / // % ** ^ || ^@ & | << >>")},
    **{(name, 2): f"({{}} {sign} {{}})" for name, sign in _LIKE.items()},
    **{(f"!{name}", 2): f"(NOT ({{}} {sign} {{}}))" for name, sign in _LIKE.items()},
    **{(name, 3): f"({{}} {sign} {{}} ESCAPE {{}})" for name, sign in _ESCAPED.items()},
    **{(sign, 1): f"({sign}({{}}))" for sign in "-+~@"},
    ("position", 2): "position({1} IN {0})",
}
"""Forms of operators and of `position`, by name and number of arguments."""
_WRITTEN = {name for name, _ in _CALLS} | ROW_FUNCTIONS | {"list_value", "->>"}

_LITERAL = re.compile(r"-?([0-9]{1,18})(?:\.([0-9]{1,18}))?\Z")


_HELD = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Digits of types of whole numbers."""
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+), ?([0-9]+)\)\Z")


def _holds(wide: str, narrow: str) -> bool:
    """Return True if a comparison of both types casts no value of the wide one."""
    if narrow == wide or {narrow, wide} <= _HELD.keys():
        return True
    digits, size = _LITERAL.match(narrow), _DECIMAL.match(wide)
    if size is None:
        return bool(digits) and (wide == "DOUBLE" or (wide in _HELD and "." not in narrow))
    before, after = (len(digits[1]), len(digits[2] or "")) if digits else (_HELD.get(narrow, 99), 0)
    return before <= int(size[1]) - int(size[2]) and after <= int(size[2])


_MOST_SIGNS = 200_000
"""How many signs the SQL of an expression may have."""
_FACTOR = 1_000
_LENGTH = 200_000
"""How much longer than what a row holds a value can get: by a public factor.

An engine that runs out of memory ends the query, and that it ended tells something about a row.
Every value in an expression has at most `_FACTOR` times the characters of the longest value that is
stored, plus `_LENGTH`; what could make longer ones is refused. The bound of a call adds up those of
its arguments; a condition counts nothing, and a call that can repeat an argument multiplies.
"""
_DATE = 40
"""Upper limit of the characters that one sign of a date's format stands for."""
LIST = Size(_FACTOR)
"""The bound of a list of any number of stored values: nothing longer can be made of it."""


def longest(sizes: Iterable[Size]) -> Size:
    """Return the bound of what has one of some bounds, or is stored."""
    parts = [STORED, *sizes]
    return Size(max(size.factor for size in parts), max(size.length for size in parts))


def _measure_call(name: str, parts: Sequence[Expression]) -> Size:
    """Return the bound of a call by those of its arguments."""
    first, second, third, *_ = [*(part.size or STORED for part in parts), Size(), Size(), Size()]
    if name in {"replace", "regexp_replace"} and third.factor:
        raise refuse("too long")
    total = Size() if name in _TRUE else _add(parts)
    match name:
        case "string_split" | "str_split":  # in its text, signs are around each element
            return first.times(5, 2)
        case "replace":  # what is replaced has one character at least, or nothing is
            is_text = len(parts) > 1 and find_text(parts[1].node) is not None
            length = max(second.length, 1) if is_text else 1
            return first.times(max(-(-third.length // length), 1))
        case "regexp_replace":  # each sign of the third may stand for the whole text
            return total.times(1 + third.length, third.length)
        case "concat_ws":
            repeated = first.times(len(parts))
            return Size(total.factor + repeated.factor, total.length + repeated.length)
    return total.times(_DATE) if name == "strftime" else total


def _add(parts: Iterable[Expression]) -> Size:
    sizes = [part.size or STORED for part in parts]
    return Size(sum(size.factor for size in sizes), sum(size.length for size in sizes))


_ZONED = "TIMESTAMP WITH TIME ZONE"
_PARSED = _TYPES - {"VARCHAR", "INTERVAL"} | {"TIMESTAMP_S", "TIMESTAMP_MS", _ZONED}
"""Types whose text constants are parsed when the statement is read."""
_EXAMPLES = {
    "DATE": "DATE '2026-01-31'",
    "TIME": "TIME '12:30:00'",
    "BOOLEAN": "true",
    "INTERVAL": "INTERVAL 1 DAY",
    "UUID": f"'{UUID(int=7)}'",
}
_COMPARISONS = frozenset((*COMPARED, "COMPARE_BETWEEN", "COMPARE_IN"))


def check_constants(
    node: Node, parts: Sequence[Expression], find_kind: Callable[[Expression], str]
) -> None:
    """Refuse a text constant that is no value of the type it is compared with or cast to.

    Refuse a cast that DuckDB does not have, too. Either would fail on every row, and a row on which
    an expression fails counts as NULL: the answer would be about no rows. `find_kind` returns the
    type of an expression, "" where none is known.
    """

    def find_type(part: Expression) -> str:
        if isinstance(part.node, Cast):
            return type_name(part.node.type)
        return "" if find_text(part.node) is not None else find_kind(part)

    texts = [text for text in (find_text(part.node) for part in parts) if text is not None]
    expected = ""
    if isinstance(node, Cast) and not node.tries:
        expected = type_name(node.type)
        base, kind = find_base_type(find_type(parts[0])), find_base_type(expected)
        if base in _PARSED | {"INTERVAL"} and not _is_castable(base, kind):
            raise refuse("cast between types", base=base, kind=kind)
    elif texts and isinstance(node, Operator) and node.sort in _COMPARISONS:
        expected = next(filter(None, map(find_type, parts)), "")
    name = find_base_type(expected)
    for text in texts if name in _PARSED else ():
        if not _is_readable(text, expected):
            example = _write_example(name)
            raise refuse("constant", text=repr(text), kind=expected, example=example)


def _write_example(kind: str) -> str:
    """Return a constant of a type."""
    moment_or_number = "TIMESTAMP '2026-01-31 12:00:00'" if "TIMESTAMP" in kind else "7"
    return _EXAMPLES.get(kind, moment_or_number)


@cache
def _is_castable(base: str, kind: str) -> bool:
    """Return True if DuckDB makes a value of one type from a value of another."""
    with open_embedded(idle=True) as engine:
        cast = f"SELECT TRY_CAST(CAST({_write_example(base)} AS {base}) AS {kind}) IS NOT NULL"
        return engine.execute(cast).fetchone() == (True,)


def find_other_spellings(text: str) -> str:
    """Return a type that a file's reader may see in a text, and write in other ways; "" if none."""
    if fold_name(text) in {"true", "false"}:
        return "BOOLEAN"
    kinds = ("DOUBLE", "TIMESTAMP", "TIME") if any(map(str.isdecimal, text)) else ()
    return next((kind for kind in kinds if _is_readable(text, kind)), "")


@lru_cache(maxsize=1024)
def _is_readable(text: str, expected: str) -> bool:
    with open_embedded(idle=True) as engine:
        query = f"SELECT TRY_CAST(? AS {expected}) IS NOT NULL"
        return engine.execute(query, [text]).fetchone() == (True,)
