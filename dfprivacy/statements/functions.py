"""Functions of one row, by name: deterministic, without memory, files, settings or clocks.

What is not listed is refused. Left out on purpose: what can make a value of any size out of a small
one (repeat, lpad, format; growth.py bounds those that stay), what depends on the moment (age(x),
now), and what only some supported version of DuckDB has.
"""

from __future__ import annotations

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.refusals import Refusal


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
    shown = f"{name}(...)"
    if name in AGGREGATES:
        instead = _PRIVATE.get(name, "dp_count(*)")
        return Refusal(
            shown, "it is as exact as the rows it aggregates", f"ask for {instead}"
        ).error()
    if name in CHANGING:
        return Refusal(
            shown,
            "it changes from one evaluation to the next",
            "write a constant: DATE '2026-01-31'",
        ).error()
    if name in OUTSIDE:
        return Refusal(
            shown,
            "it reaches beyond the row: files, settings, the session or an error of its own",
            "write a constant, or use columns of the row",
        ).error()
    if name == "unnest":
        return Refusal(
            shown, "it makes many rows out of one", "use a function of the list: list_sum(x)"
        ).error()
    return Refusal(
        shown,
        "it is not on the list of functions of one row",
        "compute the column in a table first (CREATE TABLE prepared AS ...), row by row",
    ).error()
