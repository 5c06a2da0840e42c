"""Any SQL may work with answers: it sees released tables and nothing else."""

import duckdb
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.engine.conftest import hold_none
from tests.statements.same_rows import require_same_rows

BY_CITY = "SELECT city, dp_count(*) AS n FROM visits GROUP BY city"
OVER_ANSWERS = [
    "SELECT city, dp_count(*) / sum(dp_count(*)) OVER () AS share FROM visits GROUP BY city",
    """
        SELECT vip, city, dp_count(*) AS n, rank() OVER (PARTITION BY vip ORDER BY n DESC,
        city) AS r FROM visits GROUP BY vip, city ORDER BY vip, r
    """,
    """
        SELECT month(day) AS m, dp_count(*) AS n, n - lag(n, 1, 0) OVER (ORDER BY m) AS
        more, sum(n) OVER (ORDER BY m ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near
        FROM visits GROUP BY m
    """,
    f"""
        {BY_CITY} HAVING dp_count(*) > 10 QUALIFY row_number() OVER (ORDER BY n DESC,
        city) <= 2
    """,
    """
        SELECT city, first_value(city) OVER w AS first, count(*) FILTER (WHERE city > 'M')
        OVER w AS c FROM visits GROUP BY city HAVING dp_count(*) > 1 WINDOW w AS (ORDER BY
        city GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) ORDER BY
        city
    """,
    f"""
        WITH r AS ({BY_CITY}) SELECT city, n / (SELECT sum(n) FROM r) AS share FROM r
        ORDER BY ALL
    """,
    f"SELECT max(n) AS most, list(city ORDER BY city) AS cities FROM ({BY_CITY})",
    f"""
        WITH r AS ({BY_CITY}), s AS (SELECT city, dp_mean(age, 0, 100) AS a FROM visits
        GROUP BY city), t AS (SELECT * FROM r JOIN s USING (city)) SELECT city, round(n *
        a) AS years FROM t WHERE n >= (SELECT min(n) FROM r) ORDER BY years DESC, city
    """,
    """
        SELECT 'all' AS who, dp_count(*) AS n FROM visits UNION ALL SELECT 'vip',
        dp_count(*) FROM visits WHERE vip
    """,
    """
        WITH old AS (SELECT * FROM visits WHERE age > 30) SELECT n, n / (SELECT
        dp_count(*) FROM visits) AS share FROM (SELECT dp_count(*) AS n FROM old)
    """,
    f"SELECT DISTINCT n > 100 AS much, g FROM ({BY_CITY}), range(2) AS s(g) ORDER BY g",
    f"""
        WITH RECURSIVE r AS ({BY_CITY}), up AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM
        up WHERE i < (SELECT count(*) FROM r)) SELECT * FROM up
    """,
    f"WITH c (a, b) AS ({BY_CITY}) SELECT x, b FROM c AS d (x) ORDER BY x",
    """
        WITH v AS (FROM visits), a AS (FROM v) SELECT * FROM (WITH v AS (SELECT * FROM
        visits WHERE vip) SELECT * FROM (SELECT dp_count(*) AS n FROM a))
    """,
    f"""
        SELECT * FROM ({BY_CITY}) WHERE EXISTS (SELECT 1 FROM (VALUES ('Rome')) v(c) WHERE
        c = city)
    """,
]


@pytest.mark.parametrize("query", OVER_ANSWERS)
def test_what_is_done_with_answers_is_what_duckdb_does(shared, exact, query):
    """Without noise, a statement gives what DuckDB gives, with the same names and rows."""
    ours = dfp.sql(query, con=shared, epsilon=1e13, delta=0.001)
    require_same_rows(ours, exact.sql(query), ordered="ORDER BY" in query)


def test_releases_share_what_calls_do_not_name(shared):
    """A call's own epsilon is no share, nor is dp_keep's delta; what nothing names is free."""
    query = (
        "WITH a AS (SELECT dp_count(age, 0.25) AS n FROM visits), "
        "unnamed AS (SELECT dp_count(*) AS n FROM visits), "
        "b AS (SELECT city, dp_count(*) AS n FROM visits GROUP BY city HAVING dp_keep(1e-7)), "
        "c AS (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) "
        "SELECT a.n, b.n, c.n FROM a, b, c"
    )
    plan = dfp.explain(query, con=shared, epsilon=1, delta=1e-6)
    assert [draw.epsilon for draw in plan.draws] == [0.25, 0.5, 0.5]
    assert (plan.epsilon, plan.delta) == (1.25, 1.1e-6)


def test_engine_of_the_rest_sees_what_is_registered_alone(con, monkeypatch):
    """Files, Python variables and settings are out of reach of any text."""
    opened, connect = [], duckdb.connect
    hold_none()  # an engine that an earlier statement has left would serve again

    def watch_rows(*arguments, config=None, **named):
        opened.append(config or {})
        return connect(*arguments, config=config or {}, **named)

    monkeypatch.setattr(duckdb, "connect", watch_rows)
    dfp.sql(OVER_ANSWERS[7], con=con, epsilon=1, delta=1e-6).fetchall()
    config, *others = [
        options for options in opened if options.get("enable_external_access") is False
    ]
    assert others == [config] * len(others)
    frame = pa.table({"x": [1]})
    with connect(config=config) as engine:
        engine.execute("SET lock_configuration = true")
        engine.register("released", frame)
        assert engine.sql("FROM released").fetchall() == [(1,)]
        for query in (
            "FROM frame",
            f"FROM '{__file__}'",
            f"FROM read_text('{__file__}')",
            "FROM query('FROM frame')",
            "SET enable_external_access = true",
            "ATTACH 'other.db'",
            f"COPY (SELECT 1) TO '{__file__}.csv'",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                engine.sql(query).fetchall()


def test_releases_are_remembered_together(con, tmp_path):
    """A statement of several releases comes again from a ledger, without a charge."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, delta=1e-6, remember=True)
    terms = {"con": con, "epsilon": 1, "delta": 1e-6, "ledger": ledger, "dataset": "d"}
    query = OVER_ANSWERS[7]
    first = dfp.sql(query, **terms, version="1").fetchall()
    assert dfp.explain(query, **terms, version="1").remembered
    assert dfp.sql(query, **terms, version="1").fetchall() == first
    assert ledger.spent("d").epsilon == 1
    with pytest.raises(dfp.BudgetExceededError):
        dfp.sql(query.replace("DESC", "ASC"), **terms, version="1")


def test_every_release_reads_all_rows_of_a_reader():
    """Record batches can be read once; both releases of a statement see them."""
    reader = pa.table({"x": range(500)}).to_reader(max_chunksize=50)
    query = "SELECT (SELECT dp_count(*) FROM t) AS a, n AS b FROM (SELECT dp_count(*) AS n FROM t)"
    assert dfp.sql(query, t=reader, epsilon=1e9).to_pylist() == [{"a": 500, "b": 500}]


SCHEMA = dfp.Schema(unit="visits.user_id", public=["cities"])
CITIES = "CREATE TABLE cities AS FROM (VALUES ('Rome', 'Italy'), ('Bonn', 'Germany')) v(city, land)"


def test_public_tables_stand_beside_answers(con):
    """Public tables of a schema can be joined with answers, before and after them, as they are."""
    con.execute(CITIES)
    joined = "SELECT c.land, n FROM r JOIN main.cities AS c USING (city) ORDER BY 1"
    query = f"WITH r AS ({BY_CITY}) {joined}"
    terms = {"con": con, "max_rows": 12, "max_groups": 3, "epsilon": 1e9, "delta": 1e-3}
    release = dfp.sql(query, schema=SCHEMA, **terms)
    assert release.fetchall() == [("Germany", 200), ("Italy", 200)]
    assert dfp.explain(query, schema=SCHEMA, **terms).epsilon == 1e9
    for table in ("visits", "adults", "kept"):
        with pytest.raises(dfp.RefusedStatementError, match="beside released answers"):
            dfp.sql(query.replace("main.cities", table), schema=SCHEMA, **terms)


ENDS = [
    ("WITH r AS ({0}) SELECT land, n FROM r JOIN cities USING (city) ORDER BY 1", ["n"]),
    ("WITH r AS ({0}) SELECT n AS people, land FROM r, cities c WHERE r.city = c.city", ["people"]),
    ("SELECT q.n, city, n / 2 FROM ({0}) AS q WHERE n > 1 ORDER BY 1 DESC LIMIT 1", ["n"]),
    ("WITH r AS ({0}), s AS ({0}) SELECT r.n, s.n AS m FROM r JOIN s USING (city)", ["n", "m"]),
    ("WITH r AS ({0}) SELECT n, 1 AS n_high FROM r", []),
    ("WITH r (c, n) AS ({0}) SELECT n FROM r", []),
    ("WITH r AS ({0}) SELECT n, max(n) FROM r GROUP BY n", []),
    ("WITH r AS ({0}) SELECT DISTINCT n FROM r", []),
    ("WITH r AS ({0}) SELECT city FROM cities WHERE city IN (SELECT city FROM r)", []),
    ("WITH r AS ({0}) SELECT n FROM r UNION ALL SELECT 1", []),
]


@pytest.mark.parametrize(("query", "answers"), ENDS)
def test_intervals_go_along_with_answers(con, query, answers):
    """With intervals, the ends of an answer stand behind what is made of a release, row by row."""
    con.execute(CITIES)
    query = query.format(BY_CITY)
    terms = {"con": con, "schema": SCHEMA, "max_rows": 12, "max_groups": 3, "delta": 1e-3}
    plain = dfp.sql(query, epsilon=1e9, **terms)
    release = dfp.sql(query, epsilon=1e9, intervals=True, **terms)
    ends = [f"{name}_{end}" for name in answers for end in ("low", "high")]
    assert release.columns == [*plain.columns, *ends]
    for row in release.fetchall():
        values = dict(zip(release.columns, row, strict=True))
        assert all(
            values[f"{answer}_low"] <= values[answer] <= values[f"{answer}_high"]
            for answer in answers
        )
    assert [row[: len(plain.columns)] for row in sorted(release.fetchall())] == sorted(
        plain.fetchall()
    )


PUBLIC_ALONE = [
    "SELECT land, count(*) AS n FROM cities GROUP BY land ORDER BY land",
    "WITH c AS (SELECT city FROM cities) SELECT max(city), list(city ORDER BY city) FROM c",
    "SELECT city, rank() OVER (ORDER BY city) FROM cities WHERE land IN (FROM (SELECT 'Italy'))",
]


@pytest.mark.parametrize("query", PUBLIC_ALONE)
def test_public_tables_alone_are_answered_exactly_and_free(con, tmp_path, query):
    """A statement over public tables alone is DuckDB's own answer; nothing is charged for it."""
    con.execute(CITIES)
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    terms = {"schema": SCHEMA, "ledger": ledger, "dataset": "visits"}
    expected = con.sql(query).fetchall()
    assert dfp.sql(query, con=con, **terms).fetchall() == expected
    assert dfp.connect(con, **terms).execute(query).fetchall() == expected
    plan = dfp.explain(query, con=con, **terms)
    assert (plan.epsilon, plan.delta, plan.draws) == (0, 0, ())
    assert "epsilon 0" in repr(plan)
    dfp.sql(f"CREATE TABLE made AS {query}", con=con, **terms)
    assert con.sql("FROM made").fetchall() == expected
    assert ledger.spent("visits").epsilon == 0
    for refused in (query, query.replace("cities", "visits")):
        with pytest.raises(dfp.DPError):
            dfp.sql(refused, con=con, **({} if refused == query else terms))


def test_public_table_is_the_one_that_the_schema_names(con):
    """A table in another schema under the name of a public one is none; a public one has dots."""
    con.execute(f"{CITIES}; CREATE SCHEMA other; CREATE TABLE other.cities AS SELECT 7 AS secret")
    terms = {"con": con, "max_rows": 12, "epsilon": 1}
    query = "SELECT * FROM {}, (SELECT dp_count(*) FROM visits)"
    for named, shown, refused in (
        ("cities", ("cities", "main.cities", "MAIN.Cities"), "other.cities"),
        ("other.cities", ("other.cities",), "main.cities"),
    ):
        terms["schema"] = dfp.Schema(unit="visits.user_id", public=[named])
        for table in shown:
            assert len(dfp.sql(query.format(table), **terms).columns) > 1
        with pytest.raises(dfp.RefusedStatementError, match="beside released answers"):
            dfp.sql(query.format(refused), **terms)


def test_conditions_that_all_sides_of_an_or_have_join_tables(con):
    """(a AND x) OR (a AND y) joins by a: the answer stays, and there is no product of rows."""
    con.execute(CITIES)
    sides = "(v.city = c.city AND land = 'Italy' AND vip) OR (land = 'Germany' AND v.city = c.city)"
    terms = {"con": con, "max_rows": 12, "epsilon": 1e9, "schema": SCHEMA}
    query = f"SELECT count(*) AS n FROM visits v, cities c WHERE {sides}"
    assert '"city" = r."city_2"' in dfp.explain(query, **terms).row_query
    assert dfp.sql(query, **terms).fetchall() == con.sql(query).fetchall()
