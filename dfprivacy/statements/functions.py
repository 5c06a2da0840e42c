"""List functions of one row, by name: deterministic, without memory, files, settings or clocks.

What is not listed is refused: what can make a value of any size out of a small one, what depends on
the moment, and what only some version of DuckDB has. Parts and widths of dates stand on lists, and
arguments are written so that a type without the part can't be planned: whether a query fails
follows from the text and the declared types. Aggregates, windows and types are listed that have one
value, in whatever order rows are read: what a unit's rows give must be the same bits with and
without any other unit's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.files import quoted
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.nodes import (
    Cast,
    Function,
    Node,
    Over,
    arguments,
    called,
    cast_to,
    literal,
    text_of,
)
from dfprivacy.statements.rules import nearly, refuse, words
from dfprivacy.statements.tree import folded
from dfprivacy.statistics.forms import example_calls, functions

_WHOLE = words("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT")
FLOATS = words("FLOAT DOUBLE")
SINGLE = (
    _WHOLE
    | FLOATS
    | words("HUGEINT UHUGEINT BOOLEAN VARCHAR BLOB UUID DATE TIME")
    | words("TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS")
    | {"TIMESTAMP WITH TIME ZONE"}
)
"""Types whose values are one where they are equal; floats are made so by `one_float`."""


_SMALL = 18
"""Digits of a DECIMAL of which no number of rows has a sum that is too large."""


def _base(sort: Any) -> str:
    return str(sort).split("(")[0]


def _digits(sort: Any) -> int:
    """Return the digits of a DECIMAL; 0 for other types."""
    return int(str(sort)[8:].split(",")[0]) if _base(sort) == "DECIMAL" else 0


def is_single(sort: Any) -> bool:
    """Return True for types whose equal values are identical."""
    return _base(sort) in SINGLE | {"DECIMAL", "ENUM", '"NULL"', "NULL"}


def require_single(sort: Any, what: str) -> None:
    """Refuse types of which equal values can differ."""
    if not is_single(sort):
        raise refuse("equal values that differ", what=what, base=_base(sort))


def one_float(name: str, sort: Any) -> str:
    """Return the SQL of floats in which equal values have one form: 0.0 is -0.0, NaN is any NaN."""
    column = quoted(name)
    return (
        f"CASE WHEN isnan({column}) THEN CAST('NaN' AS {sort}) "
        f"WHEN {column} = 0 THEN CAST(0 AS {sort}) ELSE {column} END"
    )


def require_exact(sort: Any, name: str) -> None:
    """Refuse a running sum of numbers that depends on their order."""
    if _base(sort) not in _WHOLE | {"BOOLEAN"} and not 0 < _digits(sort) <= _SMALL:
        raise refuse("running sum", name=name, base=_base(sort))


def both_whole(first: Any, second: Any) -> bool:
    """Return True for two types of whole numbers."""
    return _base(first) in _WHOLE and _base(second) in _WHOLE


def alike(first: Any, second: Any) -> bool:
    """Return True for types that compare without a cast that can fail."""
    if both_whole(first, second):
        return "UBIGINT" not in {_base(first), _base(second)} or str(first) == str(second)
    return {_base(first), _base(second)} == FLOATS or str(first) == str(second)


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


def exact_sum(call: Aggregate, kinds: Mapping[str, Any]) -> tuple[str, str]:
    """Return an aggregate with one value in any order, and what reads the list it collects."""
    name, argument, sort = call.name, call.argument, kinds.get(call.argument)
    text, base = quoted(argument), _base(sort)
    once = "DISTINCT " if call.is_unique else ""
    if name in ORDERED or (name == "count" and call.is_unique):
        for column in call.uses:
            require_single(kinds[column], f"{name} by {column!r}")
    if name in ORDERED:  # the value itself breaks ties
        order = ", ".join([*(f"{quoted(column)} {way}" for column, way in call.order), text])
        present = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in sorted(call.uses))
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
    small = base in _WHOLE or 0 < _digits(sort) <= _SMALL
    if base == "BOOLEAN":
        text, small = f"CAST({text} AS INTEGER)", True
    if name in {"sum", "avg", "mean"} and small:
        return f"{'sum' if name == 'sum' else 'avg'}({once}{text})", ""
    if base not in _WHOLE | FLOATS | {"DECIMAL", "HUGEINT", "UHUGEINT", "BOOLEAN"}:
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
    sums: bool = False


WINDOWS: Mapping[str, _Rule] = {
    **dict.fromkeys(("row_number", "ntile"), _Rule(0, orders=True)),
    **dict.fromkeys(
        ("rank", "dense_rank", "percent_rank", "cume_dist", "count_star"), _Rule(0, orders=False)
    ),
    **dict.fromkeys(
        ("lag", "lead", "first_value", "last_value", "nth_value"), _Rule(1, orders=True)
    ),
    **dict.fromkeys(("count", "min", "max"), _Rule(1, orders=False)),
    **dict.fromkeys(("sum", "avg"), _Rule(1, orders=False, sums=True)),
}
CALLED = {"count_star": "count"}
_ENDS = words(
    "UNBOUNDED_PRECEDING UNBOUNDED_FOLLOWING CURRENT_ROW_ROWS CURRENT_ROW_RANGE "
    "EXPR_PRECEDING_ROWS EXPR_FOLLOWING_ROWS"
)


def is_whole_sum(window: Any, kinds: Mapping[str, Any]) -> bool:
    """Check for a window that adds up all numbers of its partition, which depend on their order."""
    if window.function not in {"sum", "avg"} or window.order or window.frame:
        return False
    kind = kinds[window.arguments[0]]
    return _base(kind) in FLOATS | {"HUGEINT"} or _digits(kind) > _SMALL


_MOST = 2**31


def is_number_of_rows(node: Node) -> bool:
    """Return True for a constant that a window takes as a number of rows, whatever rows there are.

    Nothing is tried here: a larger number would end the query, if there is any row.
    """
    sort, text = literal(node)
    return sort == "INTEGER" and text.isdecimal() and int(text) < _MOST


def check_frame(node: Over) -> None:
    """Refuse the frame of a window, unless it counts rows by plain numbers."""
    for end, size in ((node.start, node.start_size), (node.end, node.end_size)):
        if end not in _ENDS:
            raise refuse("a window frame by RANGE or GROUPS")
        if end.startswith("EXPR") and (size is None or not is_number_of_rows(size)):
            raise refuse("a window frame without a constant size")


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


def not_a_row_function(name: str) -> RefusedStatementError:
    """Return the error for a function that is not one of a single row."""
    if name == "count_star":  # count(*) in DuckDB's tree
        name = "count"
    if name in AGGREGATES:
        instead = of_frame(name) if name in OF_FRAMES else _private().get(name, _VALUES)
        return refuse("aggregate", name=name, instead=instead)
    if name in CHANGING:
        return refuse("changing", name=name)
    if name in OUTSIDE:
        return refuse("outside", name=name)
    if name == "unnest":
        return refuse("unnest of a list", name=name)
    return refuse("no row function", name=name, near=nearly(name, ROW_FUNCTIONS, str))


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

_WIDTH = re.compile(r"([1-9][0-9]{0,8})(?: +([a-z]+))?\Z", re.IGNORECASE)
_SPAN = re.compile(r"(-?[0-9]{1,9})(?: +([a-z]+))?\Z", re.IGNORECASE)
_SPANS = {"microsecond", "millisecond", "second", "minute", "hour", "day", "week"}
_MADE = {f"to_{part}s": part for part in _WIDTHS} | {
    "to_centuries": "century",
    "to_millennia": "millennium",
}
"""INTERVAL '7' DAY is to_days(CAST(trunc(CAST('7' AS DOUBLE)) AS INTEGER)) in DuckDB's tree."""


def shielded(node: Function, inner: Inner) -> Inner:
    """Return a writer of the arguments that plans only types with the named parts."""
    name, start, end = node.name, "", ""
    dated = name in _PLACED
    if name == "epoch_ms":  # of a number it makes times that have no place in DuckDB's calendar
        start, end = "date_trunc('microsecond', ", ")"
    elif not dated and name in _PARTED - _CUT:
        part = folded(next(map(text_of, node.operands), None) or "").removesuffix("s")
        if name not in _TAKEN:
            dated = part not in _CLOCK
        elif part in _LENGTHS:
            start, end = "date_trunc('day', ", ")"
        else:
            dated = part in _PLACES
    if dated:
        start, end = "coalesce(", ", CAST(NULL AS DATE))"
    unshielded = node.operands[0] if name in _PARTED else None
    return lambda operand: (
        inner(operand) if operand is unshielded else f"{start}{inner(operand)}{end}"
    )


def check_dates(node: Function) -> None:
    """Refuse a call that names a part, width, zone or format that is not known."""
    name, operands = node.name, arguments(node)
    first = operands[0] if operands else None
    match name:
        case "time_bucket":
            text, unit = _width(first)
            width = _WIDTH.match(text.strip())
            named = folded((width and width[2]) or "").removesuffix("s")
            if width is None or bool(unit) == bool(named) or (unit or named) not in _WIDTHS:
                raise refuse("width")
            kinds = {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"}
            for operand in operands[2:]:  # where buckets start: a text would name a time zone
                if cast_to(operand) not in kinds or _cast_text(operand) is None:
                    raise refuse("origin")
        case "timezone":  # another name would end the query
            zone = text_of(first) if len(operands) == 2 else None
            if zone is None or folded(zone) not in _list_zones():
                raise refuse("zone")
        case "strptime":  # a text must not name its time zone
            formats = [
                arguments(operand)
                if isinstance(operand, Function) and operand.name == "list_value"
                else [operand]
                for operand in operands[1:]
            ]
            texts = [text_of(operand) for group in formats for operand in group]
            if any(text is None or "%Z" in text for text in texts):
                raise refuse("format")
        case "make_timestamp" if len(operands) == 1:
            raise refuse("make_timestamp")
    constant = all(literal(item)[0] in {"STRING", "INTEGER"} for item in operands[1:])
    if name in _CONSTANTS and not constant:
        raise refuse("path or separator", name=name)
    if name in _PARTED:
        part = text_of(first)
        parts = PARTS if name in _TAKEN else PARTS - {"era"}
        if part is None or folded(part).removesuffix("s") not in parts:
            raise refuse("part of a date")


_CONSTANTS = frozenset(("->>", "json_extract_string", "string_split", "str_split"))
"""Functions whose path or separator is a constant."""


@cache
def _list_zones() -> frozenset[str]:
    """Return the names of time zones, in lower case."""
    with embedded(idle=True) as engine:
        rows = engine.execute("SELECT name FROM pg_timezone_names()").fetchall()
    return frozenset(folded(name) for (name,) in rows)


def span_of(node: Node) -> timedelta | None:
    """Return the duration of a constant interval of so many of one unit up to weeks, or None."""
    text, unit = _width(node)
    match = _SPAN.match(text.strip())
    name = unit or folded((match and match[2]) or "").removesuffix("s")
    if match is None or name not in _SPANS or bool(unit) == bool(match[2]):
        return None
    return timedelta(**{f"{name}s": int(match[1])})


def _width(node: Node | None) -> tuple[str, str]:
    """Return the text of a constant interval, and its unit where the text does not hold it."""
    if cast_to(node) == "INTERVAL":
        return _cast_text(node) or "", ""
    unit = _MADE.get(called(node), "")
    while unit and node is not None and not literal(node)[1]:
        match node:
            case Function(name=name) if name in {*_MADE, "trunc"}:
                node = next(iter(arguments(node)), None)
            case Cast(operand=operand) if cast_to(node) in {"DOUBLE", "INTEGER", "BIGINT"}:
                node = operand
            case _:
                node = None
    return (literal(node)[1], unit) if unit else ("", "")


def _cast_text(node: Node | None) -> str | None:
    """Return the text constant that a node casts, if it does."""
    return text_of(node.operand) if isinstance(node, Cast) else None
