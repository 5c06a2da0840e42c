"""Ordinary aggregates over a unit's rows mean the private question; FILTER is CASE."""

import ast
import datetime as dt
import math
import re

import duckdb
import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.statistics import STATISTICS
from tests.statements.same_rows import require_same_rows

UNIT = {"unit": "user_id", "max_rows": 12, "max_groups": 6}
STATEMENTS = [
    """
        SELECT city, avg(income) AS a, COUNT(*) AS n FROM visits GROUP BY city
        HAVING count(*) > 10 ORDER BY sum(income) DESC
    """,
    "SELECT count(*), COUNT(age), sum(income), stddev_pop(income), var_pop(income) FROM visits",
    """
        SELECT vip, count(*) FILTER (WHERE age > 30) AS old, count(*) AS n, old / n AS share
        FROM visits GROUP BY vip
    """,
    "SELECT count(DISTINCT user_id), sum(income) FILTER (WHERE city = 'Rome' AND vip) FROM visits",
    "SELECT city, count(*) / sum(count(*)) OVER () FROM visits GROUP BY city",
    """
        SELECT quantile_disc(income, 0.25), percentile_disc(0.75) WITHIN GROUP (ORDER BY income)
        FROM visits
    """,
    "SELECT count_if(vip), countif(age > 30) FILTER (WHERE vip) AS c, count(*) FROM visits",
    "SELECT median(income), quantile_disc(income, [0.1, 0.9]) AS q FROM visits",
]


@pytest.mark.parametrize("query", STATEMENTS)
def test_answers_are_duckdbs_without_noise(shared, query):
    """Where no limit binds and there is no noise, a plain text has DuckDB's names and answers."""
    ours = dfp.sql(query, con=shared, epsilon=1e13, delta=1e-3, **UNIT)
    ordered = "ORDER BY sum" in query
    require_same_rows(ours, shared.sql(query), ordered=ordered, rel=0.02, off=2)


NAMES = {name: statistic.kind for statistic in STATISTICS.values() for name in statistic.sql_names}


@pytest.mark.parametrize(("name", "kind"), [*NAMES.items(), ("count_star", "count")])
def test_ordinary_name_costs_and_asks_what_its_statistic_does(shared, name, kind):
    """avg(x) is dp_mean(x): the same question at the same price, or the same refusal, for each."""
    arguments = STATISTICS[kind].arguments()
    columns = [argument for argument in arguments if argument.form == "column"]
    numbers = [
        argument for argument in arguments if argument.required and argument.form == "number"
    ]
    call_arguments = ["income", "age"][: len(columns)] + ["0.3"] * len(numbers)
    inside = {"count_star": "*"}.get(name, ", ".join(call_arguments))
    call = {"count_star": "count", "count_distinct": "count"}.get(name, name)
    distinct = "DISTINCT " if name == "count_distinct" else ""
    answers = []
    for text in (f"{call}({distinct}{inside})", f"dp_{kind}({inside})"):
        try:
            plan = dfp.explain(f"SELECT {text} FROM visits", con=shared, **UNIT)
        except dfp.RefusedStatementError as error:
            answers.append(error.message)
        else:
            answers.append(([q for _, q in plan.calls], plan.epsilon, plan.delta, plan.draws))
    assert answers[0] == answers[1]


def test_filter_is_case(shared):
    """A call with FILTER asks what it asks with CASE, for dp_ calls too and without a unit."""
    filtered = dfp.explain(
        "SELECT dp_sum(age, 0, 9) FILTER (WHERE vip) AS s, dp_count(*) FILTER (vip) FROM visits",
        con=shared,
    )
    cased = dfp.explain(
        "SELECT dp_sum(CASE WHEN vip THEN age END, 0, 9) AS s, dp_count(CASE WHEN vip THEN 1 END) "
        "FROM visits",
        con=shared,
    )
    assert filtered.row_query == cased.row_query
    assert filtered.draws == cased.draws


@pytest.mark.parametrize(
    "query",
    [
        "SELECT mode(income), count(*) FROM visits",
        "SELECT sum(DISTINCT income) FROM visits",
        "SELECT avg(income ORDER BY age DESC) FROM visits",
        "SELECT lower(city) FILTER (WHERE vip) FROM visits GROUP BY 1",
        "SELECT string_agg(city, ',') FROM visits",
        "SELECT count(*) FROM visits WHERE age > avg(age)",
        "SELECT sum(avg(income)) FROM visits",
        "SELECT count(*) FILTER (WHERE count(*) > 1) FROM visits",
    ],
)
def test_what_has_no_private_form_is_refused(shared, query):
    """An aggregate that no statistic answers is refused, whoever is protected."""
    for terms in ({}, UNIT):
        with pytest.raises(dfp.RefusedStatementError):
            dfp.explain(query, con=shared, **terms)


def test_intervals_stand_behind_their_answers(shared):
    """`intervals=True` adds ends to answers and to arithmetic with them; ORDER BY names them."""
    query = (
        "SELECT city, avg(income) AS a, count(*) AS n, median(age) AS m, n + 1 AS more FROM visits "
        "GROUP BY city HAVING n_high > 100 ORDER BY a_low DESC"
    )
    terms = {"con": shared, "epsilon": 1e13, "delta": 1e-3, **UNIT}
    release = dfp.sql(query, intervals=True, **terms)
    assert release.columns == [
        "city", "a", "a_low", "a_high", "a_note", "n", "n_low", "n_high", "m", "m_low", "m_high",
        "m_note", "more", "more_low", "more_high",
    ]  # fmt: skip
    lows = [row[2] for row in release.fetchall()]
    assert len(lows) == 3
    assert lows == sorted(lows, reverse=True)
    assert all(row[2] <= row[1] <= row[3] for row in release.fetchall())
    assert all(row[-2] == row[6] + 1 and row[-1] == row[7] + 1 for row in release.fetchall())
    plain = query.replace("n_high", "n").replace("a_low", "a")
    with_ends = dfp.explain(query, intervals=True, con=shared, delta=1e-3, **UNIT)
    without = dfp.explain(plain, con=shared, delta=1e-3, **UNIT)
    assert [draw.epsilon for draw in with_ends.draws] == [draw.epsilon for draw in without.draws]


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    "form",
    ["round(sum(age), -4)", "avg(age)::INT", "round(10 * avg(age) / 3, 1)::DECIMAL(9, 1)",
     "(count(*) / 8)::INT::DOUBLE", "round(avg(age))::FLOAT", "coalesce(sum(age), 0)::BIGINT",
     "nullif(sum(age), 0)::BIGINT"],
)  # fmt: skip
def test_ends_are_rounded_as_their_answer_is(shared, form):
    """Without noise, an interval is the answer alone; with any, the answer lies in it."""
    query = f"SELECT {form} AS a FROM visits"
    for epsilon in (1, 1e13):
        release = dfp.sql(query, con=shared, epsilon=epsilon, intervals=True)
        value, low, high = map(float, release.fetchall()[0][:3])
        assert low <= value <= high
    assert low == high == float(shared.sql(query).fetchall()[0][0])


@pytest.mark.parametrize(
    ("query", "terms", "is_noted"),
    [
        ("SELECT avg(n) FROM {groups}", {"delta": 1e-3}, True),
        ("SELECT avg(n) FROM {groups}", {"keys": ["Rome", "Oslo"]}, False),
        ("SELECT city, n FROM {groups}", {"delta": 1e-3}, False),
    ],
)
def test_aggregates_of_shown_groups_have_a_note(shared, query, terms, is_noted):
    """An aggregate over groups of secret keys says that small groups are left out."""
    groups = "(SELECT city, count(*) AS n FROM visits GROUP BY city)"
    answered = dfp.sql(query.format(groups=groups), con=shared, epsilon=1, **terms)
    assert ("leave out groups of few rows" in str(dfp.show(answered))) == is_noted


def test_notes_are_logged_where_no_column_shows_them(shared, caplog, tmp_path):
    """Without `intervals` each call with notes logs one line, an answer from memory too."""
    query = "SELECT city, dp_mean(age, 0, 5) AS a, dp_count(*) AS n FROM visits GROUP BY city"
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1e9, delta=0.1, remember=True)
    terms = {"con": shared, "epsilon": 1e6, "delta": 1e-3, "ledger": ledger, "dataset": "visits"}
    for _ in range(2):
        caplog.clear()
        answered = dfp.sql(query, version="1", **terms)
        (line,) = [record.getMessage() for record in caplog.records if record.name == "dfprivacy"]
        assert line.startswith("dp_mean(age, 0, 5): clipped: ")
        assert line in str(dfp.show(answered))
        assert line in repr(answered)
    caplog.clear()
    dfp.sql(query, intervals=True, **terms)
    assert not caplog.records


def test_a_quotient_by_what_may_be_0_has_an_open_interval(shared):
    """The interval of a quotient holds every number where that of the divisor holds 0."""
    query = "SELECT sum(income) / (count(*) - count(*)) AS none, avg(income) AS a, a / 2 AS half"
    terms = {"con": shared, "epsilon": 1, "intervals": True}
    row = dfp.sql(f"{query} FROM visits", **terms).df().iloc[0]
    assert (row["none_low"], row["none_high"]) == (-math.inf, math.inf)
    assert row["half_low"] == pytest.approx(row["a_low"] / 2)


SHARES = [
    "AVG(age > 50)",
    "AVG(vip)",
    "AVG(vip::INT)",
    "AVG(vip::int8)",
    "AVG(vip::float8)",
    "MEAN(NOT vip) FILTER (WHERE age > 20)",
    "dp_mean((age > 50)::DOUBLE)",
    "AVG(CASE WHEN age > 50 THEN 1 ELSE 0 END)",
    "AVG(CASE WHEN age > 50 THEN 1.0 WHEN age > 30 THEN 0::DOUBLE END)",
    "AVG(IF(vip, 1, IF(age > 30, NULL, 0))::DOUBLE)",
    "SUM(vip)",
    "SUM(CASE WHEN age > 50 THEN 1 ELSE 0 END)",
    "SUM(CASE WHEN age > 50 THEN 1 END)",
]


@pytest.mark.parametrize("call", SHARES)
def test_what_is_true_or_false_has_the_bounds_0_and_1(shared, call):
    """A type or constants are bounds that no rows decide: all of the loss goes to the answer."""
    bounded = "dp_sum(vip::INT, 0, 1)" if call.startswith("SUM") else "dp_mean(vip::INT, 0, 1)"
    plans = [dfp.explain(f"SELECT {text} AS n FROM visits", con=shared) for text in (call, bounded)]
    assert "octaves" not in str(plans[0])
    widths, bounded_widths = ([*plan.answers[0].typical] for plan in plans)
    assert np.allclose(widths, bounded_widths, rtol=0.1)  # no twentieth is spent on what is clipped
    assert widths[-1] <= bounded_widths[-1]


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("CASE WHEN vip THEN -2 ELSE CASE WHEN age > 50 THEN 3.5 END END", (-2, 3.5)),
        (
            "CASE WHEN vip THEN (age > 50)::INT WHEN age > 9 THEN 4 ELSE CAST(-1 AS DOUBLE) END",
            (-1, 4),
        ),
        ("CASE WHEN vip THEN -5 END", (-5, 0)),
        ("CASE WHEN vip THEN 0 END", (0, 1)),
        ("CASE WHEN vip THEN age ELSE 0 END", None),
        ("CASE WHEN vip THEN 1.5 ELSE 0.5 END::INTEGER", None),
        ("CASE WHEN vip THEN 1e308 ELSE -1e308 END", None),
        ("CASE WHEN vip THEN NULL END::DOUBLE", None),
        ("age - 1", None),
    ],
)
def test_constants_of_branches_are_bounds(shared, expression, bounds):
    """They are the least and the largest of all branches, where each is a constant or NULL."""
    answers = dfp.explain(f"SELECT SUM({expression}) AS n FROM visits", con=shared).answers
    match = re.search(r"bounds=(\([^)]*\))", answers[0].question)
    assert (None if match is None else ast.literal_eval(match[1])) == bounds


@pytest.mark.parametrize(
    ("k", "call", "bounds"),
    [
        ("1", "SUM(k)", (0, 1)),
        ("-1.5", "AVG(CASE WHEN k < 0 THEN k END)", (-1.5, 0)),
        ("COUNT(*) > 2", "AVG(k::INT)", (0, 1)),
        ("CASE WHEN COUNT(*) > 2 THEN 7 ELSE 3 END", "AVG(named.k)", (3, 7)),
        ("COUNT(*)", "AVG(k)", None),
        ("1 AS k FROM visits UNION ALL SELECT user_id AS u, age", "SUM(k)", None),
    ],
)
def test_constants_of_subqueries_are_bounds(shared, k, call, bounds):
    """A column of constants has their bounds around its subquery, as where it is written."""
    rows = f"SELECT user_id AS u, {k} AS k FROM visits{' GROUP BY u' if 'COUNT' in k else ''}"
    query = f"WITH named AS ({rows}) SELECT {call} AS n FROM named"
    answers = dfp.explain(query, con=shared, unit="user_id", max_rows=3).answers
    match = re.search(r"bounds=(\([^)]*\))", answers[0].question)
    assert (None if match is None else ast.literal_eval(match[1])) == bounds


@pytest.mark.parametrize(
    ("aggregate", "bounds"),
    [
        ("MAX(CASE WHEN age > 50 THEN 5 ELSE 2 END)", (2, 5)),
        ("MAX(vip::INT)", (0, 1)),
        ("AVG(j)", (0, 9)),
        ("MEDIAN(CASE WHEN vip THEN j ELSE -j END)", None),
        ("MIN(CASE WHEN vip THEN age ELSE 1 END)", None),
        ("SUM(CASE WHEN vip THEN 1 ELSE 0 END)", None),
        ("MAX(j) + 0", None),
        ("MAX(age)", None),
    ],
)
def test_aggregates_of_constants_have_their_bounds(shared, aggregate, bounds):
    """The largest of some constants is within their bounds, and the sum need not be."""
    rows = "SELECT user_id AS u, vip, age, CASE WHEN vip THEN 9 ELSE 0 END AS j FROM visits"
    units = f"SELECT u, {aggregate} AS k FROM ({rows}) GROUP BY u"
    answers = dfp.explain(f"SELECT AVG(k) FROM ({units})", con=shared, unit="user_id").answers
    match = re.search(r"bounds=(\([^)]*\))", answers[0].question)
    assert (None if match is None else ast.literal_eval(match[1])) == bounds


def test_bounds_that_are_named_come_before_those_of_constants(shared):
    """A call's own bounds stay, and clip."""
    call = "dp_sum(CASE WHEN vip THEN 1 ELSE 0 END, 0, 10)"
    (answer,) = dfp.explain(f"SELECT {call} AS n FROM visits", con=shared).answers
    assert "bounds=(0.0, 10.0)" in answer.question


def test_a_mean_of_conditions_is_released_with_its_interval():
    """The note beside it is empty, as nothing can be clipped, also of arithmetic and by group."""
    rows = pl.DataFrame({"g": [*"ab"] * 5000, "x": [*range(10)] * 1000})
    late = "CASE WHEN x > 3 THEN 1 ELSE 0 END"
    query = f"SELECT g, AVG(x > 3) AS a, 100 * SUM({late}) / COUNT(*) AS b FROM r GROUP BY g"
    release = dfp.sql(query, r=rows, keys=["a", "b"], epsilon=1e6, intervals=True)
    assert release["a"].to_list() == pytest.approx([0.6, 0.6])
    assert release["b"].to_list() == pytest.approx([60, 60])
    assert release["a_note"].to_list() == release["b_note"].to_list() == [None, None]


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("count(*) // 7", 85), ("CAST(sum(vip) AS BIGINT) // 7", 21), ("floor(sum(vip) / 7)", 21),
        ("sum(vip // 2)", 0), ("sum(vip) // 7", None), ("1 + sum(vip) // count(*)", None),
        ("avg(vip) // 2", None), ("sum(vip) AS s, s // 7", None), ("sum(vip) % 7", None),
        ("sum(vip) // CAST(7 AS BIGINT)", None), ("divide(sum(vip), 7)", None),
        ("mod(count(*), 7)", 5), ("count(*) AS \"n % //\", 'a // b%'", 600),
    ],
)  # fmt: skip
def test_a_whole_quotient_is_one_of_whole_numbers(con, expression, answer):
    """Sums have fractions here, and DuckDB's // is / for these: it is refused, as % is."""
    query = f"SELECT {expression.replace('vip', 'CAST(vip AS INTEGER)')} AS x FROM visits"
    above = re.sub(r"(sum|avg|count)\((\S*|CAST\(vip AS INTEGER\))\)", r"\1", query)
    inner = "SELECT sum(CAST(vip AS INTEGER)) AS sum, avg(CAST(vip AS INTEGER)) AS avg, count(*) "
    for text in (query, above.replace("visits", f"({inner} AS count FROM visits)")):
        if answer is None:
            with pytest.raises(dfp.RefusedStatementError, match="// or % of numbers with"):
                dfp.sql(text, con=con, epsilon=1e13)
        elif answer or text == query:
            released = dfp.sql(text, con=con, epsilon=1e13).fetchall()
            assert released[0][0] == pytest.approx(answer, abs=1e-6)


@pytest.mark.parametrize(
    ("item", "is_noted"),
    [
        ("upper(city) AS city", True), ("month(day) AS day", True), ("city AS city", False),
        ("city", False), ("upper(city) AS town, city", False),
    ],
)  # fmt: skip
def test_it_is_said_that_group_by_means_a_column_and_not_its_alias(con, caplog, item, is_noted):
    """As in DuckDB, a name in GROUP BY is a column if there is one, and then an alias."""
    name = item.rpartition(" ")[2]
    query = f"SELECT {item}, count(*) AS n FROM visits GROUP BY {{}}"
    dfp.sql(query.format(name), con=con, delta=1e-6)
    assert any("write GROUP BY ALL for the alias" in m for m in caplog.messages) == is_noted
    caplog.clear()
    dfp.sql(query.format("ALL"), con=con, delta=1e-6)
    assert not any("GROUP BY ALL" in message for message in caplog.messages)


OTHER_DIALECTS = """
    date_format format_date str_to_date parse_date nvl isnull zeroifnull dateadd adddate charindex
    locate safe_divide div0 convert try_convert timestamp_trunc unix_timestamp from_unixtime decode
    to_date lpad initcap
"""


@pytest.mark.parametrize("name", OTHER_DIALECTS.split())
def test_functions_of_other_systems_are_refused_with_what_computes_the_same(name):
    """The rewrite in the hint is answered."""
    rows = pl.DataFrame({"x": ["1"] * 9, "y": [1.0] * 9, "d": [dt.date(2024, 1, 1)] * 9})
    query = "SELECT dp_count(*) AS n FROM t WHERE {} IS NOT NULL"
    with pytest.raises(dfp.RefusedStatementError) as refused:
        dfp.sql(query.format(f"{name}(x)"), t=rows)
    (instead,) = re.findall("write (.*), or compute", refused.value.hint)
    n = dfp.sql(query.format(f"({instead})"), t=rows, epsilon=1e13)["n"][0]
    assert n == (0 if name in ("str_to_date", "parse_date", "to_date") else 9)


@pytest.mark.parametrize("limits", [{}, UNIT, {"unit": "user_id"}])
@pytest.mark.parametrize("intervals", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n, count(DISTINCT user_id) AS u, count(DISTINCT city) + 1 AS c",
        "SELECT dp_count_interval(*) AS i, median(age) AS m, dp_min(age) AS l, sum(vip) AS s",
        "SELECT city, count(vip) AS n, avg(income) AS a, round(n / 2)::INT AS h, day AS d",
        "SELECT city, count(*) FILTER (WHERE vip) / count(*) AS share, median(day) AS d",
        "WITH q AS (SELECT city, count(*) AS n FROM visits GROUP BY city) SELECT city, n",
    ],
)
def test_a_plan_has_the_columns_of_the_answer(shared, query, intervals, limits):
    """`explain` returns the names and types that `sql` returns."""
    text = f"{query} FROM {'q' if query.startswith('WITH') else 'visits'}"
    text = f"{text} GROUP BY ALL" if query.startswith("SELECT city") else text
    terms = {"con": shared, "epsilon": 9, "delta": 1e-3, "intervals": intervals, **limits}
    answer = duckdb.from_arrow(dfp.sql(text, **terms).arrow())
    columns = zip(answer.columns, map(str, answer.types), strict=True)
    assert dfp.explain(text, **terms).columns == tuple(columns)
