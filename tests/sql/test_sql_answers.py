"""The dp_* functions behave as aggregates do; every call draws its own noise."""

import functools
import inspect
import re

import duckdb
import pytest

import dfprivacy as dfp
import sql_udfs
from dfprivacy import papers


def connect():
    connection = duckdb.connect()
    sql_udfs.register(connection, max_epsilon=1e12)
    connection.execute(
        "CREATE TABLE t AS SELECT i % 10 AS g, (i % 100)::DOUBLE AS x FROM range(20000) r(i);"
        "CREATE TABLE nothing AS SELECT * FROM t LIMIT 0;"
        "CREATE TABLE nulls AS SELECT g, NULL::DOUBLE AS x FROM t"
    )
    return connection


@functools.cache
def shared():
    """Return the connection of tests that leave its tables and its functions as they are."""
    return connect()


@pytest.fixture
def con():
    """Give a test a connection of its own, to write to."""
    with connect() as connection:
        yield connection


def ask(connection, query):
    return connection.execute(query, [0.5] * query.count("?")).fetchall()


def test_the_same_expression_twice_draws_twice():
    """Two calls are two releases, with two noises, in a list, a view, a join or a WHERE."""
    call = "dp_sum(x, -60, 240, 0.01)"
    shared().execute(f"CREATE OR REPLACE VIEW w AS SELECT g, {call} AS y FROM t GROUP BY g")
    pairs = ask(shared(), f"SELECT {call}, {call} FROM t GROUP BY g")
    pairs += ask(shared(), "SELECT a.y, b.y FROM w AS a JOIN w AS b USING (g)")
    assert all(first != second for first, second in pairs)
    assert len({first for first, _ in pairs}) == 20


def test_an_answer_is_drawn_once_and_then_fixed():
    """A subquery's answer is one number to everything outside: filters, sorting, its fields."""
    shared().execute(
        "CREATE OR REPLACE TABLE many AS SELECT i % 5000 AS g, 1.0 AS x FROM range(20000) r(i)"
    )
    call = "dp_sum_interval(x, -1, 1, 0.1)"
    inner = f"SELECT g, dp_sum(x, -1, 1, 0.1) AS y, {call} AS c FROM many GROUP BY g"
    positive = ask(shared(), f"SELECT y FROM ({inner}) WHERE y > 0 ORDER BY y")
    assert positive == sorted(positive)
    assert 0 < len(positive) < 5000
    assert all(y > 0 for (y,) in positive)
    sides = "round(c.high - c.value, 3), round(c.value - c.low, 3)"
    fields = ask(shared(), f"WITH r AS ({inner}) SELECT {sides} FROM r")
    assert len(fields) == 5000
    assert len(set(fields)) == 1


def test_aliases_views_and_prepared_statements_work():
    """Macros read as aggregates: GROUP BY and ORDER BY an alias, HAVING, CTE, view, PREPARE."""
    query = (
        "SELECT g // 5 AS half, dp_mean(x, 0, 100) AS m FROM t GROUP BY half HAVING dp_keep(1e-6)"
    )
    shared().execute(f"CREATE OR REPLACE VIEW v AS {query} ORDER BY m DESC")
    shared().execute("PREPARE p AS SELECT dp_mean(x, $1, $2, $3) FROM t")
    assert len(ask(shared(), "WITH r AS (SELECT * FROM v) SELECT m FROM r WHERE m > 10")) == 2
    assert 45 < ask(shared(), "EXECUTE p(0, 100, 1e6)")[0][0] < 55
    assert 45 < shared().execute("SELECT dp_mean(x, ?, ?) FROM t", [0, 100]).fetchone()[0] < 55
    assert ask(shared(), "SELECT dp_mean(x, lo := 0, hi := 100, epsilon := 1e9) > 49 FROM t") == [
        (True,)
    ]


def test_count_star_counts_rows_and_count_x_values(con):
    """dp_count(*) is dp_count(): rows; dp_count(x) leaves out NULL and NaN, of any type."""
    con.execute(
        "CREATE TABLE mixed AS SELECT CASE WHEN i % 2 = 0 THEN 'nan' END AS s, [i] AS l,"
        " CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'nan' ELSE '7' END::DOUBLE AS x, {'a': i} AS r"
        " FROM range(100) r(i)"
    )
    sql_udfs.register(con, epsilon=1e12)
    query = (
        "SELECT dp_count(*), dp_count(), dp_count(x), dp_count(s), dp_count(l), dp_count(r) FROM "
    )
    assert ask(con, query + "mixed") == [(100, 100, 50, 50, 100, 100)]


def test_registering_again_changes_the_defaults(con):
    """A second register replaces the macros: later calls spend the new epsilon."""
    sql_udfs.register(con, epsilon=1e12, interval=0.5)
    assert ask(con, "SELECT dp_count(), dp_count(x) FROM t") == [(20000, 20000)]
    sql_udfs.register(con, epsilon=1e-3)
    assert len(set(ask(con, "SELECT dp_count() FROM t GROUP BY g"))) > 1


def test_a_cursor_registers_on_its_own(con):
    """Each connection to a database has its own macros and defaults."""
    other = con.cursor()
    with pytest.raises(duckdb.CatalogException):
        other.execute("SELECT dp_count() FROM t")
    sql_udfs.register(other, epsilon=1e12)
    assert other.execute("SELECT dp_count() FROM t").fetchone() == (20000,)
    assert len({ask(con, "SELECT dp_count(x, 0.001) FROM t")[0] for _ in range(5)}) > 1


LITERALS = {"list_value", "struct_pack", "struct_extract"}
"""Functions of brackets, braces and dots in SQL: no text can name their schema."""


def test_a_macro_of_the_caller_hides_no_function(con):
    """The dp_* functions call DuckDB's own, whatever macros there are of the same names."""
    query = "SELECT round(dp_sum(x, 0, 99, 1e9)), dp_quantile(x, 0.905, 1e9)"
    expected = ask(con, f"{query} FROM t")
    functions = "FROM duckdb_functions() WHERE"
    names = {name for (name,) in ask(con, f"SELECT function_name {functions} internal")}
    bodies = ask(con, f"SELECT macro_definition {functions} NOT internal")
    called = set(re.findall(r"[\w.]+(?=\()", str(bodies))) & names
    assert {name for name in called if "dfprivacy" not in name} == LITERALS
    for macro in ("floor(x) AS 0", "abs(x) AS 0", "isfinite(x) AS false", "list(x) AS [1]"):
        con.execute(f"CREATE MACRO {macro}")
    assert ask(con, f"{query} FROM t") == expected


def test_registering_leaves_the_macros_alone_behind():
    """The stand-in for the check is gone once register returns."""
    temporary = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = 'temp'"
    names = {name for (name,) in ask(shared(), temporary) if not name.startswith("dp_")}
    assert names == {"dfprivacy_checked", "dfprivacy_on_grid"}


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1", None, True])
def test_register_refuses_what_is_no_epsilon(epsilon):
    """A bad default is refused when it is given."""
    with duckdb.connect() as connection, pytest.raises(dfp.errors.InvalidLossError):
        sql_udfs.register(connection, epsilon=epsilon, max_epsilon=1e12)


@pytest.mark.parametrize("level", [0, 1, 95, None, "0.95"])
def test_register_refuses_what_is_no_level(level):
    """A level is a number between 0 and 1."""
    with duckdb.connect() as connection, pytest.raises(dfp.errors.InvalidQuestionError):
        sql_udfs.register(connection, interval=level, max_epsilon=1e12)


def test_the_docstring_names_every_function():
    """The functions that register creates are in the package's docstring, but for papers."""
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = 'temp'"
    macros = {name for (name,) in ask(shared(), query) if not name.endswith("_interval")}
    macros = {name for name in macros if name.startswith("dp_")}
    macros -= {f"dp_{getattr(papers, name).kind}" for name in papers.__all__}
    page = inspect.getdoc(sql_udfs)
    assert [name for name in sorted(macros) if name not in page] == []
