"""A view of all columns of Parquet files on a connection is a table of their rows."""

import duckdb
import pytest

import dfprivacy as dfp
from tests.statements.same_rows import require_same_rows

TERMS = {"epsilon": 1e6, "delta": 1e-6}
SCHEMA = dfp.Schema(unit="trips.user", public=["cities"])
FORMS = [
    "CREATE VIEW trips AS FROM '{folder}/a.parquet'",
    "CREATE TEMP VIEW trips AS SELECT * FROM read_parquet('{folder}/a.parquet')",
    "CREATE VIEW \"trips\" AS FROM parquet_scan('{folder}/*.parquet')",
]
QUERIES = [
    "SELECT city, count(*) AS n, avg(fare) AS fare FROM trips GROUP BY city",
    "SELECT name, sum(fare) AS f FROM trips JOIN cities USING (city) WHERE fare > 3 GROUP BY name",
    "SELECT count(*) AS n FROM (SELECT user, city FROM trips WHERE city < 2)",
    "SELECT count(*) AS n, avg(twice) AS twice FROM doubled",
]


@pytest.fixture
def folder(tmp_path):
    """Write a Parquet file of 3,000 trips of 1,000 users, and return its folder."""
    duckdb.sql(
        "SELECT i % 1000 AS user, i % 3 AS city, (i % 7)::DOUBLE AS fare FROM range(3000) r(i)"
    ).write_parquet(str(tmp_path / "a.parquet"))
    return tmp_path


def connect(folder, form):
    con = duckdb.connect()
    con.execute("CREATE TABLE cities AS SELECT i AS city, 'city ' || i AS name FROM range(3) r(i)")
    con.execute(form.format(folder=folder))
    con.execute("CREATE VIEW doubled AS SELECT user, 2 * fare AS twice FROM trips")
    return con


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_schema_names_a_view_of_files(folder, form, query):
    """Its answers are DuckDB's but for noise, and nothing is left on the connection."""
    con = connect(folder, form)
    before = con.sql("FROM duckdb_views() WHERE NOT internal").fetchall()
    limits = {"max_rows": 10, "max_groups": 3, "population": False}
    ours = dfp.sql(query, con=con, schema=SCHEMA, **limits, **TERMS)
    require_same_rows(ours, con.sql(query), ordered=False)
    assert con.sql("FROM duckdb_views() WHERE NOT internal").fetchall() == before


@pytest.mark.parametrize("form", FORMS)
def test_a_lone_view_of_files(folder, form):
    """`unit=` names one of its columns, and `dfp.connect` reads it as well."""
    con = connect(folder, form)
    limits = {"unit": "user", "max_rows": 3, "max_groups": 3}
    query = "SELECT city, count(*) AS n FROM trips GROUP BY city"
    require_same_rows(dfp.sql(query, con=con, **limits, **TERMS), con.sql(query), ordered=False)
    with dfp.connect(con, **limits, **TERMS) as private:
        require_same_rows(private.sql(query), con.sql(query), ordered=False)


@pytest.mark.parametrize(
    "form",
    [
        "CREATE VIEW trips AS FROM read_parquet('{folder}/a.parquet', file_row_number = true)",
        "CREATE VIEW trips AS FROM read_parquet('{folder}/a.parquet', filename = true)",
        "CREATE VIEW trips AS SELECT *, 1 AS one FROM '{folder}/a.parquet'",
        "CREATE VIEW trips AS FROM '{folder}/a.parquet' LIMIT 5",
        "CREATE VIEW trips AS FROM read_csv('{folder}/a.csv')",
        "CREATE VIEW trips AS SELECT DISTINCT * FROM '{folder}/a.parquet'",
        "CREATE VIEW trips(user, city, fare) AS FROM '{folder}/a.parquet'",
        "CREATE VIEW trips AS FROM '{folder}/year=2024/*.parquet'",
    ],
)
def test_other_views_over_files_are_refused(folder, form):
    """A view that adds to the files, or reads them in another way than their path, is refused."""
    folder.joinpath("a.csv").write_text("user,city,fare\n1,2,3\n")
    (folder / "year=2024").mkdir()
    duckdb.sql(f"FROM '{folder}/a.parquet'").write_parquet(str(folder / "year=2024/b.parquet"))
    con = duckdb.connect()
    con.execute(form.format(folder=folder))
    for terms in ({"schema": dfp.Schema(rows="trips")}, {"unit": "user", "max_rows": 1}):
        with pytest.raises(dfp.RefusedStatementError):
            dfp.sql("SELECT count(*) FROM trips", con=con, **terms, **TERMS)


def test_a_file_that_changes_under_its_view_is_refused(folder):
    """A view whose file has other columns or types by now has no answer, and costs nothing."""
    con = connect(folder, FORMS[0])
    duckdb.sql("SELECT 'a' AS user, 1 AS city, 2.0::DOUBLE AS fare").write_parquet(
        str(folder / "a.parquet")
    )
    ledger = dfp.Ledger(folder / "budget.db", epsilon=1)
    with pytest.raises(dfp.DPError):
        dfp.sql("SELECT count(*) FROM trips", con=con, schema=SCHEMA, epsilon=1, ledger=ledger)
    assert float(ledger.remaining("default").epsilon) == 1


def test_tables_are_listed_while_a_file_is_missing(folder):
    """A view whose file is gone is listed, as DuckDB lists it, and other tables are answered."""
    con = connect(folder, FORMS[0])
    (folder / "a.parquet").unlink()
    tables = dfp.sql("SHOW TABLES", con=con).fetchall()
    assert {("cities",), ("doubled",), ("trips",)} == set(tables)
    with pytest.raises(dfp.RefusedStatementError, match="trips"):
        dfp.sql("SELECT count(*) FROM trips", con=con, **TERMS)
    assert dfp.sql("SELECT count(*) FROM cities", con=con, **TERMS).fetchall() == [(3,)]


FIRST_ROWS = "COPY (FROM 'a.parquet' LIMIT 70) TO"
SEARCHED = f"""
    {FIRST_ROWS} 'inner/a.parquet'; SET file_search_path = 'inner';
    CREATE VIEW trips AS FROM '*.parquet'
"""
OWN_TABLE = """
    ATTACH ':memory:' AS other; USE other; CREATE VIEW trips AS FROM 'a.parquet'; USE memory;
    CREATE TABLE other."a.parquet" AS FROM 'a.parquet' LIMIT 70;
    CREATE VIEW trips AS FROM other.trips
"""


@pytest.mark.parametrize(
    "views",
    [
        f"{FIRST_ROWS} '[a].parquet'; CREATE VIEW trips AS FROM '[a].parquet'",
        f"{FIRST_ROWS} '?.parquet'; CREATE VIEW trips AS FROM '?.parquet'",
        SEARCHED,
        OWN_TABLE,
    ],
)
def test_a_view_reads_the_rows_that_duckdb_reads(folder, monkeypatch, views):
    """The files of a view are those that DuckDB finds for it, or else the view is refused."""
    monkeypatch.chdir(folder)
    (folder / "inner").mkdir()
    con = duckdb.connect()
    con.execute(views)
    query = "SELECT count(*) AS n FROM trips"
    try:
        ours = dfp.sql(query, con=con, **TERMS)
    except dfp.RefusedStatementError:
        return
    require_same_rows(ours, con.sql(query), ordered=False)
