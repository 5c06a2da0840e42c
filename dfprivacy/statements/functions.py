"""Functions of one row, by name: deterministic, without memory, files, settings or clocks.

What is not listed is refused. Left out on purpose: what can make a value of any size out of a small
one (repeat, lpad, format; growth.py bounds those that stay), what depends on the moment (age(x),
now), and what only some supported version of DuckDB has.

DuckDB ends a query, in spite of TRY, when it does not know a part of a date, when a type has no
such part (the week of an interval, the day of a time), and when a bucket has no plain width. So
parts and widths stand on lists, and each argument is written so that a type without the part can't
be planned: whether the query fails then follows from the text and the declared types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.refusals import Node, nearly, refuse
from dfprivacy.statements.tree import arguments, called, folded, kind, literal, text_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBERS = _words(
    "abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 pow power mod "
    "gcd lcm sin cos tan asin acos atan atan2 cot degrees radians pi isnan isinf isfinite "
    "even bit_count xor add subtract multiply divide"
)
CHOICES = _words("coalesce ifnull nullif if greatest least")
TEXT = _words(
    "lower upper lcase ucase length len strlen trim ltrim rtrim left right substr substring "
    "replace reverse concat concat_ws contains starts_with ends_with prefix suffix instr "
    "strpos position split_part regexp_matches regexp_full_match regexp_replace "
    "regexp_extract ascii unicode ord md5 sha256 hash levenshtein jaccard jaro_similarity "
    "strip_accents translate"
)
TIMES = _words(
    "date_part datepart date_trunc datetrunc date_diff datediff date_sub datesub date_add "
    "year month day hour minute second quarter week weekofyear dayofweek weekday isodow "
    "isoyear yearweek dayofyear dayofmonth dayname monthname last_day epoch epoch_ms "
    "epoch_us era decade century millennium millisecond microsecond make_date make_time "
    "make_timestamp strftime strptime try_strptime time_bucket to_years to_months to_weeks "
    "to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds to_quarters "
    "to_decades to_centuries to_millennia"
)
NESTED = _words(
    "struct_extract list_extract list_contains list_has list_position list_sum list_min "
    "list_max list_avg"
)
ROW_FUNCTIONS = NUMBERS | CHOICES | TEXT | TIMES | NESTED

_PRIVATE = {
    "count": "dp_count(*)",
    "sum": "dp_sum(x, 0, 100)",
    "avg": "dp_mean(x, 0, 100)",
    "mean": "dp_mean(x, 0, 100)",
    "var_pop": "dp_var(x, 0, 100)",
    "var_samp": "dp_var(x, 0, 100)",
    "variance": "dp_var(x, 0, 100)",
    "stddev": "dp_stddev(x, 0, 100)",
    "stddev_pop": "dp_stddev(x, 0, 100)",
    "stddev_samp": "dp_stddev(x, 0, 100)",
    "covar_pop": "dp_cov(x, y, 0, 100, 0, 100)",
    "covar_samp": "dp_cov(x, y, 0, 100, 0, 100)",
    "corr": "dp_corr(x, y, 0, 100, 0, 100)",
    "regr_slope": "dp_slope(y, x, 0, 100, 0, 100)",
    "regr_intercept": "dp_intercept(y, x, 0, 100, 0, 100)",
    "regr_r2": "dp_r_squared(y, x, 0, 100, 0, 100)",
    "median": "dp_median(x)",
    "quantile": "dp_quantile(x, 0.9)",
    "quantile_cont": "dp_quantile(x, 0.9)",
    "quantile_disc": "dp_quantile(x, 0.9)",
    "approx_quantile": "dp_quantile(x, 0.9)",
    "min": "dp_bounds(x)",
    "max": "dp_bounds(x)",
}
AGGREGATES = frozenset(_PRIVATE) | _words(
    "list array_agg string_agg group_concat listagg first last any_value arg_min arg_max "
    "argmin argmax min_by max_by mode histogram entropy kurtosis skewness mad bit_and bit_or "
    "bit_xor bool_and bool_or count_if countif count_star product fsum favg sumkahan "
    "sum_no_overflow approx_count_distinct approx_top_k corr covar_pop covar_samp regr_slope "
    "regr_intercept regr_count reservoir_quantile geomean grouping grouping_id summary"
)
CHANGING = _words(
    "random uuid gen_random_uuid uuidv4 uuidv7 setseed now today current_date current_time "
    "current_timestamp current_localtime current_localtimestamp get_current_time "
    "get_current_timestamp transaction_timestamp localtime localtimestamp age txid_current "
    "nextval currval sleep_ms"
)
OUTSIDE = _words(
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
        instead = _PRIVATE.get(name, "dp_count(*)")
        return refuse("aggregate", name=name, instead=instead)
    if name in CHANGING:
        return refuse("changing", name=name)
    if name in OUTSIDE:
        return refuse("outside", name=name)
    if name == "unnest":
        return refuse("unnest of a list", name=name)
    return refuse("no row function", name=name, near=nearly(name, ROW_FUNCTIONS, str))


Inner = Callable[[Node], str]

_CLOCK = frozenset(("hour", "minute", "second", "millisecond", "microsecond", "epoch"))
_LENGTHS = frozenset(("year", "quarter", "month", "day", "decade", "century", "millennium"))
_PLACES = frozenset(
    ("week", "dow", "isodow", "doy", "isoyear", "yearweek", "dayofweek", "weekday", "dayofyear",
     "era")
)  # fmt: skip
PARTS = _CLOCK | _LENGTHS | _PLACES
_WIDTHS = (_CLOCK | _LENGTHS | {"week"}) - {"epoch"}

_TAKEN = frozenset({"date_part", "datepart"})
_CUT = frozenset({"date_trunc", "datetrunc"})
_PARTED = _TAKEN | _CUT | {"date_diff", "datediff", "date_sub", "datesub"}
_PLACED = _PLACES | {"weekofyear"}
_DATED = ("coalesce(", ", CAST(NULL AS DATE))")

_WIDTH = re.compile(r"([1-9][0-9]{0,8})(?: +([a-z]+))?\Z", re.IGNORECASE)
_MADE = {f"to_{part}s": part for part in _WIDTHS} | {
    "to_centuries": "century", "to_millennia": "millennium"
}  # fmt: skip
"""INTERVAL '7' DAY is to_days(CAST(trunc(CAST('7' AS DOUBLE)) AS INTEGER)) in DuckDB's tree."""


def shielded(node: Node, inner: Inner) -> Inner:
    """Return what writes the arguments of a node so that only types with its parts can be planned.

    A time can't be cut to days; times and intervals have no type in common with a date.
    """
    name = called(node)
    shield = _shield(name, node)
    if shield is None:
        return inner
    start, end = shield
    part = arguments(node)[0] if name in _PARTED else None
    return lambda own: inner(own) if own is part else f"{start}{inner(own)}{end}"


def _shield(name: str, node: Node) -> tuple[str, str] | None:
    if name in _PLACED:
        return _DATED
    if name == "epoch_ms":  # of a number it makes times that have no place in DuckDB's calendar
        return ("date_trunc('microsecond', ", ")")
    if name not in _PARTED or name in _CUT:
        return None
    part = folded(next(map(text_of, arguments(node)), None) or "").removesuffix("s")
    return _shield_of(part) if name in _TAKEN or part in _CLOCK else _DATED


def _shield_of(part: str) -> tuple[str, str] | None:
    """Return what stands around a value of which a part is taken."""
    return ("date_trunc('day', ", ")") if part in _LENGTHS else _DATED if part in _PLACES else None


def check_dates(node: Node) -> None:
    """Refuse a call that names a part or a width that is not known.

    Raises
    ------
    RefusedStatementError
        The same on any rows.
    """
    name, given = called(node), arguments(node)
    if name == "time_bucket":
        _check_width(given[0] if given else None)
        _check_origin(given[2:])
    if name == "strptime":
        _check_format(given[1:])
    if name == "make_timestamp" and len(given) == 1:
        raise refuse("make_timestamp")
    if name in _PARTED:
        part = text_of(given[0]) if given else None
        known = PARTS if name in _TAKEN else PARTS - {"era"}
        if part is None or folded(part).removesuffix("s") not in known:
            raise refuse("part of a date")


def _check_width(node: Node | None) -> None:
    """Refuse the width of a bucket, unless it is so many of one unit, and at least one."""
    text, unit = _width(node)
    found = _WIDTH.match(text.strip())
    if found is None or bool(unit) == bool(found[2]):
        raise refuse("width")
    if (unit or folded(found[2]).removesuffix("s")) not in _WIDTHS:
        raise refuse("width")


def _width(node: Node | None) -> tuple[str, str]:
    """Return the text of a constant interval, and its unit where the text does not hold it."""
    if node is not None and _cast_to(node) == "INTERVAL":
        return text_of(node["child"]) or "", ""
    unit = _MADE.get(called(node), "")
    if node is None or not unit:
        return "", ""
    while node is not None and not literal(node)[1]:
        if called(node) in {*_MADE, "trunc"}:
            node = next(iter(arguments(node)), None)
        else:
            node = node["child"] if _cast_to(node) in {"DOUBLE", "INTEGER", "BIGINT"} else None
    return literal(node)[1], unit


def _cast_to(node: Node | None) -> str:
    """Return the type that a node casts to, if it is a cast."""
    if node is None or kind(node) != ("CAST", "OPERATOR_CAST"):
        return ""
    return str(node["type_expr"].get("type_name")).upper()


def _check_origin(rest: Sequence[Node]) -> None:
    """Refuse where buckets start, unless it is a constant date: a text would name a time zone."""
    kinds = {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"}
    if not all(_cast_to(node) in kinds and text_of(node["child"]) is not None for node in rest):
        raise refuse("origin")


def _check_format(formats: Sequence[Node]) -> None:
    """Refuse a format that is no constant, or in which a text names its time zone."""
    single = [arguments(own) if called(own) == "list_value" else [own] for own in formats]
    texts = [text_of(own) for group in single for own in group]
    if any(text is None or "%Z" in text for text in texts):
        raise refuse("format")
