"""A statement over one table is one over a schema of one table."""

import duckdb
import pytest

import dfprivacy as dfp

UNIT = {"unit": "user_id", "max_rows": 50, "max_groups": 5}
TABLE = """
    CREATE TABLE visits AS SELECT i % 40 AS user_id, ['Rome', 'Oslo'][1 + i % 2] AS city,
        i % 7 AS amount, 's' || (i // 3) AS session, TIMESTAMPTZ '2024-01-01 00:00:00+00' +
        INTERVAL (i) HOUR AS since FROM range(400) r(i);
    CREATE TABLE other AS SELECT 1 AS x;
    CREATE VIEW people AS SELECT 'u' || (user_id // 2) AS person, city, amount FROM visits
        WHERE amount > 0;
"""


@pytest.fixture(scope="module")
def con():
    con = duckdb.connect()
    con.execute(TABLE)
    return con


def exact(query, con, **terms):
    """Return the rows of a statement that is answered nearly without noise."""
    return [
        tuple(round(value, 3) if isinstance(value, float) else value for value in row)
        for row in dfp.sql(query, con=con, epsilon=1e13, **terms).fetchall()
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(n) FROM (SELECT user_id, count(*) AS n FROM visits GROUP BY user_id)",
        "SELECT count(*) FROM (SELECT user_id, session FROM visits GROUP BY user_id, session)",
        (
            "SELECT count(*) FROM (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY "
            "since) AS k FROM visits) WHERE k <= 3"
        ),
        "SELECT count(*) FROM visits a JOIN visits b USING (user_id, since)",
        "WITH v AS MATERIALIZED (SELECT * FROM visits), w AS (FROM v) SELECT count(*) FROM v",
    ],
)
def test_rows_of_a_unit_meet(con, query):
    """One table is allowed joins, groups and windows of each unit's own rows."""
    bounded = query.replace("sum(n)", "dp_sum(n, 0, 20)")
    assert exact(bounded, con, **UNIT) == con.execute(query).fetchall()


def test_a_unit_is_a_column_of_a_view(con):
    """The unit of a view is the column that it computes: rows count by its values."""
    query = "SELECT count(*) FROM people"
    assert exact(query, con, unit="person", max_rows=50) == con.execute(query).fetchall()
    assert exact(query, con, unit="person", max_rows=1) == [(20,)]  # two users a person


def test_a_second_table_is_refused_with_both_ways_to_say_whose_it_is(con):
    """The refusal names a link of a schema, and a declaration that the table is public."""
    with pytest.raises(dfp.RefusedStatementError) as caught:
        dfp.sql("SELECT count(*) FROM visits JOIN other ON x = amount", con=con)
    assert "dfp.Schema(" in caught.value.hint
    assert "dfp.public(" in caught.value.hint


def test_a_text_in_double_quotes_is_explained(con):
    """A name that is no column may be meant as a text."""
    with pytest.raises(dfp.MissingColumnError, match="single quotes, 'Rome'"):
        dfp.sql('SELECT count(*) FROM visits WHERE city = "Rome"', con=con)


def test_a_count_of_released_groups_is_refused(con):
    """Counting groups by secret keys is refused; its rewrites and public keys are answered."""
    by_session = "SELECT session FROM visits GROUP BY session HAVING count(*) > 2"
    with pytest.raises(dfp.RefusedStatementError, match="a count of groups"):
        dfp.sql(f"SELECT count(*) FROM ({by_session})", con=con, delta=1e-6, **UNIT)
    with pytest.raises(dfp.RefusedStatementError, match="a count of groups"):
        dfp.sql(f"WITH s AS ({by_session}) SELECT count(*) FROM s", con=con, delta=1e-6, **UNIT)
    distinct = "SELECT count(DISTINCT session) FROM visits"
    assert exact(distinct, con, **UNIT) == con.execute(distinct).fetchall()
    counted = f"SELECT count(*) FROM ({by_session})"
    assert exact(counted, con, keys=["s1", "s2"], **UNIT) == [(2,)]


def test_an_explanation_has_the_columns_and_the_time_zone(con):
    """Names and SQL types are those of the result; a zone is named where a time depends on it."""
    query = "SELECT city, avg(amount) AS m FROM visits GROUP BY city"
    plan = dfp.explain(query, con=con, delta=1e-6)
    assert plan.columns == (("city", "VARCHAR"), ("m", "DOUBLE"))
    assert plan.timezone is None
    zoned = dfp.explain(
        "SELECT year(since) AS y, count(*) AS n FROM visits GROUP BY 1",
        con=con, delta=1e-6, timezone="Europe/Berlin",
    )  # fmt: skip
    assert zoned.timezone == "Europe/Berlin"
    assert "zone      Europe/Berlin" in str(zoned)


def test_an_explanation_checks_types(con):
    """A type that `sql` refuses is refused by `explain`, in the same words."""
    errors = []
    for function in (dfp.sql, dfp.explain):
        with pytest.raises(dfp.DPError) as caught:
            function("SELECT dp_mean(city, 0, 1) FROM visits", con=con)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
