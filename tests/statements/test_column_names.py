"""No name of a column, alias or table changes an answer, whatever names the package generates."""

import duckdb
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

NAMES = [
    "found",
    "unsure",
    "owner",
    "answer_0",
    "count",
    "count_value",
    "every",
    "found_2",
    "key",
    "key_0",
    "key_2",
    "l",
    "links",
    "missing",
    "part",
    "place",
    "r",
    "released",
    "row",
    "row_number",
    "rows",
    "stored",
    "unsure_2",
    "value",
    "value_2",
    "window_0",
]
STATEMENTS = {
    "EXISTS": "SELECT dp_count(*) AS n FROM person WHERE g = 1 OR EXISTS "
    "(SELECT 1 FROM event WHERE {name} = id AND x > 40)",
    "NOT IN": "SELECT dp_count(*) AS n FROM person WHERE g = 1 OR id NOT IN "
    "(SELECT {name} FROM event WHERE x > 60)",
    "scalar": "SELECT dp_count(*) AS n FROM person WHERE g < "
    "(SELECT max(x % 3) FROM event WHERE {name} = id AND x < 80) OR g = 2",
    "group in a subquery": "SELECT dp_count(*) AS n FROM (SELECT {name}, "
    "count(*) AS total FROM event WHERE x + {name} > 30 GROUP BY {name}) WHERE total = 2",
    "window": "SELECT dp_count(*) AS n FROM (SELECT {name}, row_number() OVER "
    "(PARTITION BY {name} ORDER BY x + 1) AS nth FROM event) WHERE nth = 2",
    "join": "SELECT dp_count(*) AS n FROM person JOIN event ON event.{name} = person.id "
    "WHERE x + 1 > 30",
    "released number": "SELECT dp_count(*) AS n FROM event WHERE x > "
    "(SELECT dp_mean(x, 0, 100) FROM event) AND {name} > 3",
    "alias": "SELECT g AS {name}, dp_count(*) AS n, rank() OVER (ORDER BY {name}) AS place_ "
    "FROM person GROUP BY g HAVING dp_count(*) > 1 ORDER BY {name} DESC",
    "alias of an answer": "SELECT g, dp_count(*) AS {name} FROM person GROUP BY g "
    "QUALIFY row_number() OVER (ORDER BY {name} DESC, g) <= 2 ORDER BY {name}, g",
    "CTE": "WITH {name} AS (SELECT g, dp_count(*) AS n FROM person GROUP BY g) "
    "SELECT {name}.n, {name}.g AS h FROM {name} ORDER BY 1, 2",
}


def answer(statement, name):
    con = duckdb.connect()
    con.execute(f"""
        CREATE TABLE person AS SELECT i AS id, i % 3 AS g FROM range(30) r(i);
        CREATE TABLE event AS SELECT i % 30 AS "{name}", i AS x FROM range(90) r(i);
    """)
    schema = dfp.Schema(unit="person.id", links={f"event.{name}": "person.id"})
    terms = {"schema": schema, "max_rows": 3, "max_groups": 3, "epsilon": 1e8, "delta": 1e-6}
    return dfp.sql(STATEMENTS[statement].format(name=f'"{name}"'), con=con, **terms).fetchall()


@pytest.mark.parametrize(
    "names", [NAMES[:3], pytest.param(NAMES[3:], marks=pytest.mark.battery)], ids=["sample", "all"]
)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_names_of_columns_change_no_answer(statement, names):
    """A statement has the same answer under each name that the package might generate."""
    expected = answer(statement, "plain")
    for name in names:
        assert answer(statement, name) == expected, name


@pytest.mark.parametrize("columns", [("owner", "owner_2"), ("Owner", "OWNER_2")])
def test_names_of_linked_tables_change_no_owner(columns):
    """Linked rows belong to the unit, whatever other columns the table of the unit has."""
    unit, other = columns
    con = duckdb.connect()
    con.execute(f"""
        CREATE TABLE person AS SELECT i AS "{unit}", i % 2 AS "{other}", i AS id
            FROM range(10) r(i);
        CREATE TABLE reversed AS SELECT "{other}", "{unit}", id FROM person;
        CREATE TABLE event AS SELECT i % 10 AS id FROM range(100) r(i);
    """)
    for table in ("person", "reversed"):
        schema = dfp.Schema(unit=f"{table}.{unit}", links={"event.id": f"{table}.id"})
        terms = {"schema": schema, "max_rows": 1, "max_groups": 1, "epsilon": 1e8}
        query = "SELECT dp_count(*) AS n FROM event"
        assert dfp.sql(query, con=con, **terms).fetchall() == [(10,)]


def test_a_name_with_a_dot_stands_in_quotes():
    """A column whose name has a dot is named as it has to be written."""
    frame = pl.DataFrame({"price.eur": [1.0]})
    with pytest.raises(dfp.MissingColumnError, match=r'in double quotes: "price\.eur"'):
        dfp.sql("SELECT avg(price.eur) FROM t", t=frame)


EXPRESSIONS = [
    "CASE WHEN x > 3 AND y < 4 THEN date_part('day', day) + 1 END",
    "if(x > 1, 2, 3)",
    "coalesce(x, 1)",
    "x::text",
    "week(day)",
    "place.city",
    "name->>'a'",
    "position('a' IN name)",
    "day + INTERVAL 3 DAY",
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_column_is_called_as_duckdb_calls_it(expression):
    """A key and a call without an alias are columns of the names that DuckDB gives them."""
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE t (x INTEGER, y INTEGER, day DATE, name VARCHAR, place STRUCT(city VARCHAR));
        CREATE MACRO dp_count(value) AS count(value);
    """)
    query = f"SELECT {expression}, dp_count({expression}) FROM t GROUP BY ALL"
    plan = dfp.explain(query, con=con, delta=1e-6)
    assert [name for name, _ in plan.columns] == con.sql(query).columns


def test_a_number_as_a_name_is_renamed_as_the_hint_says():
    """A column of pandas whose name is a number has no name in SQL until it is made a text."""
    frame = pd.DataFrame({0: [1.0, 2.0] * 500, 1: 1})
    query = 'SELECT AVG("0") AS m FROM t'
    with pytest.raises(dfp.DPError) as raised:
        dfp.sql(query, t=frame, epsilon=1)
    assert "frame.rename(columns=str)" in raised.value.hint
    assert dfp.sql(query, t=frame.rename(columns=str), epsilon=1e6)["m"][0] == pytest.approx(1.5)
