"""A release inside of another is drawn first; the other takes what has been released of it."""

import re
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp
from benchmarks.replay import Meter
from tests.statements.readers import read_statements
from tests.statements.same_rows import require_same_rows
from tests.statements.shop import HOSTILE, NOBODY, SCHEMA, shop

NESTED = Path(__file__).with_name("nested.sql").read_text().splitlines()
SAMPLES = [
    pytest.param(query, id=str(position), marks=[] if position < 3 else [pytest.mark.slow])
    for position, query in enumerate(NESTED)
]


def plain(query):
    """Return the text that DuckDB itself can run."""
    query = re.sub(r"dp_mean\((\w+), \d+, \d+\)", r"avg(\1)", query)
    return re.sub(r"dp_(sum|count)\((\w+|\*)(, \d+, \d+)?\)", r"\1(\2)", query)


@pytest.fixture(scope="module")
def clean():
    return shop("INSERT INTO customer SELECT i, 'C', i % 6, i % 90 FROM range(40, 400) r(i)")


@pytest.mark.parametrize("query", SAMPLES)
def test_answers_are_duckdbs_without_noise(clean, query):
    """Without noise a statement gives what DuckDB gives of the plain text."""
    terms = {"schema": SCHEMA, "max_rows": 8, "max_groups": 6, "epsilon": 1e9, "delta": 1e-3}
    ours, theirs = dfp.sql(query, con=clean, **terms), clean.sql(plain(query))
    assert len(theirs) > 0
    require_same_rows(ours, theirs, ordered=False, off=0)


@pytest.mark.parametrize("query", SAMPLES)
def test_the_whole_is_charged_once(clean, tmp_path, query):
    """The cost that explain forecasts for all releases is one charge, and is that of the terms."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=1e-6)
    terms = {"schema": SCHEMA, "max_rows": 8, "max_groups": 6, "delta": 1e-6, "ledger": ledger}
    plan = dfp.explain(query, con=clean, **terms, dataset="shop")
    dfp.sql(query, con=clean, **terms, dataset="shop")
    spent = ledger.spent("shop")
    assert (spent.epsilon, spent.delta) == (plan.epsilon, plan.delta)
    assert plan.epsilon == 1
    assert len(ledger.history("shop")) == 1
    assert sum(draw.epsilon for draw in plan.draws) == pytest.approx(1)
    assert "release_0: SELECT" in plan.released_query


def test_a_budget_that_is_too_small_draws_nothing(clean, tmp_path, entropy_calls):
    """The total is known beforehand: where it is refused, the inner release is not drawn either."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    terms = {"con": clean, "schema": SCHEMA, "max_rows": 8, "ledger": ledger, "dataset": "shop"}
    entropy_calls.clear()
    with pytest.raises(dfp.BudgetExceededError):
        dfp.sql(NESTED[0], epsilon=1.5, **terms)
    assert entropy_calls == []
    assert ledger.spent("shop").epsilon == 0


def test_doors_and_intervals(clean):
    """A number in an expression is a number at every door, whether intervals are asked for or not.

    A table is made of what is released, and what is lent to a connection's query goes with it.
    """
    terms = {"schema": SCHEMA, "max_rows": 8, "epsilon": 1e9}
    count = dfp.sql(NESTED[0], con=clean, **terms).fetchall()[0][0]
    frame = dfp.connect(clean, **terms).sql(NESTED[0], intervals=True).df()
    assert frame.iloc[0].tolist() == [count, count, count]
    query = "SELECT dp_count(*) AS n, (SELECT dp_count(*) FROM orders) AS k FROM customer"
    rows = dfp.sql(query, con=clean, intervals=True, **terms)
    assert rows.columns == ["n", "n_low", "n_high", "k"]
    con = shop()
    dfp.sql(f"CREATE TABLE made AS {NESTED[0]}", con=con, **terms)
    assert con.execute("SELECT count(*) FROM made").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("where", "is_noted"),
    [
        ("WHERE amount > (SELECT dp_mean(amount, 0, 90) FROM orders)", True),
        ("HAVING count(*) > (SELECT dp_count(*) / 50 FROM orders)", False),
        ("", False),
    ],
)
def test_rows_that_answers_choose_have_a_note(caplog, where, is_noted):
    """Intervals of answers about rows above a released mean hold for that mean: a note says so."""
    orders = pd.DataFrame({"amount": [float(i % 90) for i in range(3000)]})
    query = f"SELECT count(*) AS n FROM orders {where}"
    page = repr(dfp.show(dfp.sql(query, orders=orders, intervals=True)))
    note = "rows are compared with released numbers: intervals leave out the noise of these"
    assert (note in page) == (note in caplog.text) == is_noted


def test_one_text_is_one_release(clean):
    """The same subquery twice is drawn once: both have the same number."""
    inner = "(SELECT dp_mean(balance, 0, 100) FROM customer)"
    query = f"SELECT {inner} AS a, {inner} AS b, dp_count(*) AS n FROM customer WHERE balance > "
    terms = {"con": clean, "schema": SCHEMA, "max_rows": 8}
    assert len(dfp.explain(query + inner, **terms).draws) == 2
    a, b, _ = dfp.sql(query + inner, **terms, epsilon=0.1).fetchall()[0]
    assert a == b


def test_rows_by_themselves(clean):
    """Without a unit each row is protected by itself: numbers and tables are taken alike."""
    flights = pd.DataFrame({"carrier": ["AA", "UA"] * 400, "delay": [*range(100)] * 8})
    query = """
        WITH r AS (SELECT carrier, dp_mean(delay, 0, 100) AS m FROM flights GROUP BY carrier)
        SELECT dp_count(*) AS n FROM flights JOIN r USING (carrier)
        WHERE delay > m AND delay > (SELECT dp_mean(delay, 0, 100) FROM flights)
    """
    schema = dfp.Schema(rows="flights")
    release = dfp.sql(query, flights=flights, schema=schema, epsilon=1e9, delta=1e-3)
    assert isinstance(release, pd.DataFrame)
    assert release["n"].tolist() == [400]


OTHERS = "(SELECT dp_mean({0}, 0, 9) FROM orders o{1})"
REFUSED = [
    (f"SELECT dp_count(*) FROM customer c WHERE balance > {OTHERS.format(*arguments)}", reason)
    for arguments, reason in [
        (("total", " WHERE o.customer = c.id"), "no table in FROM has a column 'c.id'"),
        (("none", ""), "no table in FROM has a column 'none'"),
        (("total", " GROUP BY customer"), "GROUP BY the unit"),
    ]
]


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_refused_the_same_on_any_rows(clean, tmp_path, query, message):
    """A query that is no release of its own is refused on any rows, and nothing is charged."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=0.5)
    errors = []
    for con in (clean, shop("DELETE FROM orders; DELETE FROM customer")):
        with pytest.raises(dfp.DPError) as caught:
            dfp.sql(query, con=con, schema=SCHEMA, max_rows=5, max_groups=5, delta=1e-6,
                    ledger=ledger, dataset="shop")  # fmt: skip
        errors.append(str(caught.value))
    assert errors[0].startswith(message)
    assert errors[0] == errors[1]
    assert ledger.spent("shop").epsilon == 0


RICHER = """SELECT nation, dp_count(*) AS n FROM customer
WHERE balance > (SELECT dp_mean(balance, 0, 100) FROM customer) GROUP BY nation"""
DIGITS = """WITH rich AS (SELECT balance % 10 AS digit, dp_count(*) AS n FROM customer GROUP BY 1)
SELECT nation, dp_count(*) AS n FROM customer
WHERE balance % 10 IN (SELECT digit FROM rich WHERE n > 0) GROUP BY nation"""


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (RICHER, [0, 1, 2]),
        (DIGITS, {"nation": [0, 1, 2]}),
        (DIGITS, {"nation": [0, 1, 2], "digit": [1, 2, 3]}),
    ],
)
def test_public_keys_belong_to_the_grouping_of_their_columns(clean, query, keys):
    """Public keys are those of the release that groups by their columns, whatever is nested."""
    terms = {"schema": SCHEMA, "max_rows": 8, "max_groups": 6, "epsilon": 1e9}
    answers = dfp.sql(query, con=clean, **terms, keys=keys, delta=1e-3).fetchall()
    condition = " AND digit IN (1, 2, 3)" if "digit" in keys else ""
    exact = plain(query).replace("n > 0", f"n > 0{condition}")
    assert answers == clean.sql(f"SELECT * FROM ({exact}) WHERE nation < 3 ORDER BY 1").fetchall()


@pytest.mark.parametrize("keys", [[0, 1], {"nation": [0, 1], "city": ["Rome"]}])
def test_public_keys_that_could_mean_several_groupings_are_refused(clean, keys):
    """A plain list for two groupings, and a column that none has, are refused before a charge."""
    with pytest.raises(dfp.errors.InvalidKeysError):
        dfp.sql(DIGITS, con=clean, schema=SCHEMA, max_rows=8, max_groups=6, keys=keys, delta=1e-3)


ROWS = dfp.Schema(rows="visit", public=["city"])
GROUPS = "WITH r AS (SELECT k, g, dp_count(*) AS n FROM visit GROUP BY k, g) "
MATCHING = {
    "all keys": GROUPS + "SELECT r.g, dp_count(*) AS a FROM visit JOIN r USING (k, g) GROUP BY r.g",
    "keys under other names": GROUPS + ", s AS (SELECT g AS h, k AS j, n FROM r WHERE n > 100) "
    "SELECT h, dp_count(*) AS a FROM visit LEFT JOIN s ON visit.k = j AND visit.g = h GROUP BY h",
    "grouped": GROUPS + "SELECT k, dp_count(*) AS a FROM visit JOIN "
    "(SELECT k, sum(n) AS m FROM r GROUP BY k) AS s USING (k) WHERE m > 1000 GROUP BY k",
    "named by their table": "WITH r AS (SELECT k, dp_count(*) AS n FROM visit GROUP BY k), "
    "s AS (SELECT t.k, n * 2 AS twice FROM r AS t) "
    "SELECT k, dp_count(*) AS a FROM visit JOIN s USING (k) WHERE twice > 9 GROUP BY k",
    "one row": "WITH r AS (SELECT dp_count(*) AS n, 1 AS k FROM visit) "
    "SELECT visit.g, dp_count(*) AS a FROM visit JOIN r USING (k) GROUP BY visit.g",
    "public": "WITH c AS (SELECT k, name FROM city) "
    "SELECT name, dp_count(*) AS a FROM visit JOIN c USING (k) GROUP BY name",
}
SEVERAL = {
    "one of two keys": GROUPS
    + "SELECT r.g, dp_count(*) AS a FROM visit JOIN r USING (k) GROUP BY r.g",
    "a key is left out": GROUPS + ", s AS (SELECT k, n FROM r) "
    "SELECT dp_count(*) AS a FROM visit LEFT JOIN s USING (k)",
    "repeated": "WITH r AS (SELECT k, dp_count(*) AS n FROM visit GROUP BY k), "
    "s AS (SELECT k, unnest([1, 2]) AS twice FROM r) "
    "SELECT dp_count(*) AS a FROM visit JOIN s USING (k)",
    **{
        name: f"WITH r AS (SELECT k, dp_count(*) AS n FROM visit GROUP BY k), {tables} "
        "SELECT dp_count(*) AS a FROM visit JOIN s USING (k)"
        for name, tables in {
            "repeated by another name": "s AS (SELECT k, unlist([1, 2]) AS twice FROM r)",
            "split": "s AS (SELECT k, regexp_split_to_table('a,b', ',') AS x FROM r)",
            "a constant beside all columns": "s AS (SELECT 1 AS k, * FROM r)",
            "a constant of that name": "s AS (SELECT 1 AS k, k FROM r)",
            "a field": "f AS (SELECT k, {'k': 1} AS x FROM r), s AS (SELECT x.k FROM f)",
            "groups of a field": "f AS (SELECT k, {'k': 1} AS x FROM r), "
            "s AS (SELECT x.k FROM f GROUP BY x.k, f.k)",
            "a name that DuckDB changes": "f AS (SELECT 0 AS x, 1 AS x, k AS x_1 FROM r), "
            "s AS (SELECT x_1 AS k FROM f)",
        }.items()
    },
    "united": "WITH r AS (SELECT k, dp_count(*) AS n FROM visit GROUP BY k), "
    "s AS (SELECT * FROM r UNION ALL SELECT * FROM r) "
    "SELECT dp_count(*) AS a FROM visit JOIN s USING (k)",
    "public": "WITH c AS (SELECT k % 2 AS k, name FROM city) "
    "SELECT name, dp_count(*) AS a FROM visit JOIN c USING (k) GROUP BY name",
}


@pytest.fixture(scope="module")
def visits():
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE visit AS SELECT i % 5 AS k, (i // 5) % 3 AS g FROM range(6000) r(i);
        CREATE TABLE city AS SELECT i AS k, 'city ' || i AS name FROM range(5) r(i);
    """)
    return {"con": con, "schema": ROWS, "epsilon": 1e7, "delta": 1e-4}


@pytest.mark.parametrize("name", MATCHING)
def test_rows_meet_each_row_of_a_released_table_by_its_keys(visits, name):
    """A protected row joined with a released table by its keys meets the row that DuckDB joins."""
    query = MATCHING[name]
    answers = dfp.sql(query, **visits).fetchall()
    exact = visits["con"].sql(plain(query)).fetchall()
    assert sorted(answers, key=repr) == sorted(exact, key=repr)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_released_rows_for_one_row_are_refused(visits, tmp_path, name):
    """Where a protected row could meet several released rows, the join is refused for nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1e8, delta=1e-3)
    with pytest.raises(dfp.RefusedStatementError, match="several rows of one k"):
        dfp.sql(SEVERAL[name], **visits, ledger=ledger, dataset="visits")
    assert ledger.spent("visits").epsilon == 0


FEATURES = """
SELECT name, avg(balance) AS a, coalesce(sum(balance), 0)::INTEGER AS s, round(a / 2, 1) AS r
    FROM nation LEFT JOIN customer USING (nation) GROUP BY name HAVING a > 1 ORDER BY s;
SELECT status, count(DISTINCT CASE WHEN total > 3 THEN customer END) AS n FROM orders
    WHERE status = ANY (['open', 'done']) AND day <> ALL ([DATE '2024-01-05']) GROUP BY status;
SELECT width_bucket(total, 0, 10, 5) AS w, max(total) AS m FROM orders GROUP BY w;
SELECT to_timestamp(total * 1e18) AS t, count(*) AS n FROM orders GROUP BY t;
SELECT make_date(order_id, customer, 5) AS t, count(*) AS n FROM orders GROUP BY t;
SELECT strptime(status, '%Y') AS t, median(day) AS m FROM orders GROUP BY t;
SELECT status, day, count(*) AS n FROM orders GROUP BY ROLLUP (status, day);
SELECT nullif(count(*), 0) AS n, greatest(avg(total), 2) AS g, corr(total, order_id) AS c
    FROM orders;
"""
"""Statements of functions that no other statement of these files has."""
REPLAYED = [
    *FEATURES.split(";\n")[:-1],
    *NESTED,
    *read_statements("owned_allowed.sql"),
    *Path(__file__).with_name("analysts.sql").read_text().split(";\n")[:-1],
]


@pytest.fixture(scope="module")
def neighbor_shops():
    """Make shops of large groups, with and without a unit of many rows."""
    more = """INSERT INTO customer SELECT i, 'C', i % 6, i % 90 FROM range(200, 460) r(i);
        INSERT INTO orders SELECT i, i % 300 + 160, i % 9, ['open', 'done', 'lost'][1 + i % 3],
            DATE '2024-01-01' + (i % 40)::INTEGER FROM range(400, 1000) r(i)"""
    return shop(more, NOBODY, HOSTILE.format(unit=100, many=9)), shop(more, NOBODY)


@pytest.mark.battery
@pytest.mark.parametrize("limits", [{"max_rows": 3, "max_groups": 2}, {}], ids=["named", "found"])
@pytest.mark.parametrize("query", REPLAYED)
def test_a_unit_changes_noise_alone(neighbor_shops, query, limits, tmp_path):
    """With the same noise a statement gives neighbors the same rows, types, notes and errors.

    The loss is at most the charge.
    """

    def releases(con):
        def release(ledger, dataset):
            terms = {"schema": SCHEMA, "epsilon": 2, "delta": 1e-9, "intervals": True, **limits}
            answer = dfp.sql(query, con=con, ledger=ledger, dataset=dataset, **terms)
            return str((answer.columns, answer.types, answer.fetchall(), answer.origin.notes))

        return release

    pair = Meter(tmp_path).compare(*map(releases, neighbor_shops), lost_groups=True)
    assert not pair.fault
    assert pair.ratio <= 1
