"""Refusals come while DuckDB plans, say what to do, and say nothing of the data."""

import datetime as dt
import functools

import duckdb
import pytest

import sql_udfs
from tests.command_line import run_python
from tests.wrapped import Wrapped

SECRET = "Alice Secret"
TABLES = ["full_table", "neighbor", "empty_table"]


@functools.cache
def con():
    """Return the connection of all tests, with rows, a neighbor of them, and none."""
    connection = duckdb.connect()
    sql_udfs.register(connection, max_epsilon=1e12)
    return connection.execute(
        f"CREATE TABLE full_table AS SELECT 1 AS g, '{SECRET}' AS s, 1.5::DOUBLE AS d, 7777 AS i,"
        f" DATE '2001-02-03' AS day, [7777] AS l, {{'a': 7777}} AS r, '{SECRET}'::BLOB AS b,"
        f" '{SECRET}'::ENUM('{SECRET}') AS e, INTERVAL 3 DAY AS v, TIMESTAMP '2001-02-03' AS ts;"
        "CREATE TABLE neighbor AS SELECT * FROM full_table UNION ALL"
        " SELECT * REPLACE ('Bob' AS s, 1e300 AS d, 5 AS i) FROM full_table;"
        "CREATE TABLE empty_table AS SELECT * FROM full_table LIMIT 0"
    )


def failure(query):
    with pytest.raises(duckdb.Error) as caught:
        con().execute(query).fetchall()
    return str(caught.value)


def refusal(template):
    """Return the one message that every table gives, as a whole and by group."""
    seen = set()
    for table in TABLES:
        for tail in ("", " GROUP BY g"):
            text = failure(template.format(table=f"{table}{tail}"))
            assert not [word for word in (SECRET, "Alice", "Bob", "7777", "2001") if word in text]
            seen.add(text.split("\n\nAt:")[0].split("\n\nLINE")[0])
    assert len(seen) == 1
    return seen.pop()


def cross_cases(calls, cases):
    """Return every call with the first case, and the first call with every case."""
    return [*((call, cases[0]) for call in calls), *((calls[0], case) for case in cases[1:])]


BAD_BOUNDS = ["1, 0", "0, 0", "NULL, 1", "0, NULL", "0, 'nan'::DOUBLE", "0, 'inf'::DOUBLE"]
BAD_BOUNDS += ["'0', 1", "TRUE, 2", "0, 1e-320", "-1e308, 1e308", "DATE '2020-01-01', 1", "[0], 1"]
BAD_LOSSES = ["0", "-1", "NULL", "'1'", "TRUE", "'nan'::DOUBLE", "'inf'::DOUBLE", "1e-300", "1e300"]
BAD_DELTAS = ["0", "1", "-0.5", "2", "NULL", "'x'", "TRUE", "'nan'::DOUBLE", "1e-400"]
FUNCTIONS = ["dp_sum", "dp_mean", "dp_avg", "dp_var", "dp_stddev", "dp_mean_interval"]
NO_NUMBERS = ["s", "day", "l", "r", "b", "e", "v", "ts", "upper(s)"]
MOMENTS = {"day", "v", "ts"}
"""Columns of dates, times and durations."""

UNBOUNDED = [f"{name}({{}})" for name in (*FUNCTIONS, "dp_stddev_interval", "dp_bounds")]
UNBOUNDED += ["dp_median({})", "dp_quantile({}, 0.9)", "dp_quantiles({}, [0.25, 0.5, 0.75])"]


OF_DATES = ("dp_median", "DATE '2013-01-01', DATE '2014-01-01'")


@pytest.mark.parametrize(("function", "bounds"), [*cross_cases(FUNCTIONS, BAD_BOUNDS), OF_DATES])
def test_bad_bounds_are_refused_on_any_table(function, bounds):
    """Constants that are no bounds raise our error with its hint, whatever the table holds."""
    text = refusal(f"SELECT {function}(d, {bounds}) FROM {{table}}")
    assert "InvalidBoundsError: " in text
    assert "\n\nHint: " in text


@pytest.mark.parametrize("call", ["dp_min(d, 0, 1)", "dp_max(day, 0, 1, 0.5)"])
def test_arguments_that_no_form_takes_are_refused(call):
    """A call with too many arguments says which there are."""
    text = refusal(f"SELECT {call} FROM {{table}}")
    assert f"Candidate macros:\n\t{call.split('(')[0]}(x, epsilon" in text


LOSS_CALLS = [
    *["dp_mean(d, 0, 1, {})", "dp_stddev(d, 0, 1, {})", "dp_count(d, {})", "dp_keep(0.1, {})"],
    *["dp_mean(d, {})", "dp_sum_interval(d, {})", "dp_bounds(d, {})", "dp_median(d, {})"],
    *["dp_quantile(d, 0.5, {})", "dp_quantiles(d, [0, 1], {})"],
]


@pytest.mark.parametrize(("call", "loss"), cross_cases(LOSS_CALLS, BAD_LOSSES))
def test_bad_epsilons_are_refused_on_any_table(call, loss):
    """An epsilon that is not a positive, finite number never leads to an answer."""
    text = refusal(f"SELECT {call.format(loss)} FROM {{table}}")
    assert "InvalidLossError: epsilon must be a positive, finite number" in text
    assert "Hint: pass a number such as epsilon=1.0" in text


@pytest.mark.parametrize("delta", BAD_DELTAS)
def test_bad_deltas_are_refused_on_any_table(delta):
    """A delta that is not between 0 and 1 never lets a group through."""
    text = refusal(f"SELECT dp_keep({delta}) FROM {{table}}")
    assert "delta" in text
    assert "Hint: " in text


@pytest.mark.parametrize(("function", "column"), cross_cases(FUNCTIONS, NO_NUMBERS))
def test_columns_without_a_mean_are_refused_by_their_type(function, column):
    """Text, dates and nested values are refused by declared type; no value is ever converted."""
    text = refusal(f"SELECT {function}({column}, 0, 100) FROM {{table}}")
    assert "UnsupportedDtypeError: " in text
    assert ("epoch(x)" if column in MOMENTS else "TRY_CAST(x AS DOUBLE)") in text


@pytest.mark.parametrize(("call", "column"), cross_cases(UNBOUNDED, NO_NUMBERS))
def test_columns_that_are_no_numbers_are_refused_without_bounds(call, column):
    """The hint is the same call on a number, or on the seconds of a date or time, and it runs."""
    text = refusal(f"SELECT {call.format(column)} FROM {{table}}")
    number = "epoch(x)" if column in MOMENTS else "TRY_CAST(x AS DOUBLE)"
    mend, field = call.format(number), column if column in MOMENTS else "s"
    assert f"UnsupportedDtypeError: {call.split('(')[0]} needs numbers" in text
    assert f"Hint: convert it first, e.g. {mend}" in text
    con().execute(f"SELECT {mend.replace('(x', f'({field}')} FROM full_table")


MEDIANS = ["dp_median({})", "dp_quantile({}, 0.9)", "dp_quantiles({}, [0.5])", "dp_min({})"]
MEDIANS += ["dp_median_interval({})", "dp_median({}, 0, 100)", "dp_max({}, 0.5)"]
MEDIANS += ["dp_median({}, DATE '2013-01-01', DATE '2014-01-01')"]


@pytest.mark.parametrize(("call", "column"), cross_cases(MEDIANS, sorted(MOMENTS)))
def test_ranks_of_dates_are_refused_with_a_conversion_that_runs(call, column):
    """A quantile of dates or times is refused on any table alike, and of their epoch it runs."""
    text = refusal(f"SELECT {call.format(column)} FROM {{table}}")
    assert "UnsupportedDtypeError: " in text
    mend = text.partition("Hint: convert it first, e.g. ")[2].splitlines()[0]
    assert "(epoch(x)" in mend
    con().execute(f"SELECT {mend.replace('x)', f'{column})', 1)} FROM full_table").fetchall()


@pytest.mark.parametrize("rows", [0, 1, 9000])
def test_the_documented_median_of_dates_is_a_date(rows):
    """Days since a public date have a median that becomes a date, or NULL, on any rows."""
    con().execute(
        "CREATE OR REPLACE TABLE days AS SELECT DATE '2013-01-01' + (range % 365)::INTEGER AS day "
        f"FROM range({rows})"
    )
    epsilon = 1e6 if rows == 9000 else 1
    median = f"dp_median(date_diff('day', DATE '2013-01-01', day), 0, 365, {epsilon})"
    query = f"SELECT DATE '2013-01-01' + TRY_CAST({median} AS INTEGER) FROM days"
    ((answer,),) = con().execute(query).fetchall()
    assert rows < 9000 or abs(answer - dt.date(2013, 6, 29)).days <= 1


BAD = ["NULL", "'0.5'", "TRUE", "'nan'::DOUBLE", "DATE '2020-01-01'"]
BAD_LISTS = [*(f"[{q}]" for q in BAD), "[]", "NULL", "0.5", "'[0.5]'", "[0.5, NULL]", "[0.5, 2]"]
BAD_LISTS += ["[[0.5]]", "[0.5, 0.5]", "{{'a': 1}}"]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        *((f"dp_quantile(d, {q})", "dp_quantile(x, 0.9)") for q in ["-0.1", "1.5", "[0.5]", *BAD]),
        *((f"dp_quantiles(d, {qs})", "dp_quantiles(x, [0.25, 0.5, 0.75])") for qs in BAD_LISTS),
    ],
)
def test_bad_quantiles_are_refused_on_any_table(call, hint):
    """No number from 0 to 1, or no list of different ones, leads to no answer; the hint runs."""
    text = refusal(f"SELECT {call} FROM {{table}}")
    assert "InvalidQuestionError: " in text
    assert "dp_quantiles" in hint or "a quantile must be a number from 0 to 1" in text
    assert f"Hint: call {hint}" in text


@pytest.mark.parametrize(
    "call",
    [
        *["dp_mean(d, 0, d)", "dp_mean(d, d, 5)", "dp_mean(d, 0, (SELECT max(d) FROM full_table))"],
        *["dp_mean(d, 0, 1, d)", "dp_mean(d, 0, random())", "dp_count(d, random())"],
        *["dp_mean(d, d)", "dp_median(d, random())", "dp_bounds(d, d)", "dp_quantile(d, d)"],
        *[
            "dp_quantile(d, (SELECT max(d) / 9 FROM full_table))",
            "dp_quantiles(d, [0.1, random()])",
        ],
        *["dp_keep((SELECT max(d) / 100 FROM full_table))", "dp_keep(0.1, random())"],
    ],
)
def test_bounds_quantiles_epsilon_and_delta_must_be_constants(call):
    """An argument that a column, a subquery or chance decides is refused while DuckDB plans."""
    assert "constant" in refusal(f"SELECT {call} FROM {{table}}")


def test_a_group_beyond_the_limit_is_refused():
    """2**33 rows in one group raise our own error, wherever the group stands."""
    query = "SELECT dfprivacy_mean_2(n, 0, 0, 1, 1) FROM (VALUES (5), (8589934592)) v(n)"
    assert "TooManyRowsError: a group reaches 2**33 rows" in failure(query)


@pytest.mark.parametrize("function", ["dp_mean", "dp_sum", "dp_var", "dp_mean_interval"])
@pytest.mark.parametrize("random", ["1e6 * random()", "exp(100 * random())", "exp(700 * random())"])
def test_random_arguments_fail_without_a_value(function, random):
    """An argument that changes while it is worked out is answered, or has too many rows."""
    try:
        con().execute(
            f"SELECT {function}(d * {random}, 0, 1) FROM full_table, range(5000)"
        ).fetchall()
    except duckdb.Error as error:
        assert "TooManyRowsError" in str(error)  # noqa: PT017 either is allowed


@pytest.mark.parametrize(
    "call",
    [
        "dfprivacy_mean_2(9, 9, i, i + 1, 1)",
        "dfprivacy_mean_0_of_list([1, 2], i + 1)",
        "dfprivacy_quantile_1_of_list([1, 2], true, i / 9, 1)",
        "dfprivacy_quantiles_1_of_list([1, 2], true, [0, i / 9], 1)",
    ],
)
def test_finalizers_insist_on_constants(call):
    """Called past the macros, a finalizer refuses settings that change from row to row."""
    assert "must be constants" in failure(f"SELECT {call} FROM range(3) r(i)")


REQUIRED = """
import duckdb, sql_udfs
import dfprivacy as dfp

connection = duckdb.connect()
sql_udfs.register(connection)
queries = [
    "SELECT dp_count() FROM {0}",
    "SELECT k, dp_mean(x, 0, 9) FROM {0} GROUP BY k",
    "SELECT k, dp_median(x) FROM {0} GROUP BY k HAVING dp_keep(1e-6)",
    "SELECT count(*) FROM {0} HAVING dp_keep(1e-6)",
]
for rows in (0, 1, 50):
    connection.execute(f"CREATE TABLE t{rows} AS SELECT range AS x, 'a' AS k FROM range({rows})")
asked = [query.format(f"t{rows}") for query in queries for rows in (0, 1, 50)]
for query in asked:
    connection.execute(query).fetchall()
dfp.require_ledger()
for query in asked:
    try:
        connection.execute(query).fetchall()
    except duckdb.Error as error:
        print("is charged to no ledger, and this process" in str(error))
"""


@pytest.mark.slow
def test_where_a_ledger_is_required_functions_answer_nothing():
    """Functions are charged to no ledger: where one is required they fail alike on any rows."""
    done = run_python("-c", REQUIRED, check=True)
    assert done.stdout.split() == ["True"] * 12


WORTH = {"x": "d", "y": "i", "q": "0.5", "qs": "[0.5]", "p": "2", "delta": "1e-6", "epsilon": "1"}
WORTH |= {"lo": "0", "hi": "9", "x_lo": "0", "x_hi": "9", "y_lo": "0", "y_hi": "9"}
"""An argument for each parameter, of numbers."""


def every_call():
    """Yield a call of every form of every function that draws."""
    query = (
        "SELECT function_name, parameters FROM duckdb_functions() WHERE "
        "starts_with(function_name, 'dp_') "
        "AND function_name <> 'dp_epsilon'"
    )
    for name, parameters in con().execute(query).fetchall():
        values = WORTH | ({"x": "d > 0"} if name.startswith("dp_share") else {})
        yield f"{name}({', '.join(values[parameter] for parameter in parameters)})"


def test_no_function_draws_once_a_row():
    """Every call answers once a group, and is refused over a window, with a noise for each row.

    It is refused whatever the table is: one call after the other asks another one.
    """
    calls = list(every_call())
    assert len(calls) > 60
    for number, call in enumerate(calls):
        assert con().execute(f"SELECT {call} FROM full_table GROUP BY g").fetchall()
        for offset, tail in enumerate(("OVER ()", "OVER (PARTITION BY g)", "FILTER (d > 0)")):
            failure(f"SELECT {call} {tail} FROM {TABLES[(number + offset) % 3]}")


class FailingConnection(Wrapped):
    """A connection that fails when one macro is created."""

    def execute(self, query):
        """Run a statement, unless it creates dp_std."""
        if "MACRO dp_std " in query:
            raise KeyboardInterrupt
        return self.connection.execute(query)


def test_a_registration_that_fails_leaves_no_function_unchecked():
    """Functions that were created before the failure check their arguments, and add up rows."""
    with duckdb.connect() as connection:
        with pytest.raises(KeyboardInterrupt):
            sql_udfs.register(FailingConnection(connection))
        answer = connection.execute("SELECT dp_mean(range, 0, 10, 19) FROM range(10000)")
        assert 9.9 < answer.fetchone()[0] < 10
        with pytest.raises(duckdb.Error, match="InvalidBoundsError"):
            connection.execute("SELECT dp_mean(range, 9, 0) FROM range(10)")
