import duckdb
import pytest

import dfprivacy as dfp
import sql_udfs


@pytest.fixture
def con(tmp_path):
    """Return a guarded connection over a file of flights."""
    connection = duckdb.connect(str(tmp_path / "flights.duckdb"))
    connection.execute("CREATE TABLE flights AS SELECT i % 60 AS delay FROM range(300) r(i)")
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10)
    sql_udfs.register(connection, ledger=ledger, dataset="flights")
    return connection, ledger


STATEMENTS = [
    "CREATE TABLE made AS (SELECT dp_count() AS n FROM flights)",
    "CREATE TABLE made AS (\n-- a comment (\nSELECT dp_count() AS n FROM flights\n);\n ",
    '/* dbt */ CREATE TABLE "flights"."main"."made" AS ((SELECT dp_count() AS n FROM flights))',
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_parentheses_around_the_select(con, statement):
    """CREATE TABLE AS (SELECT ...), as dbt writes it, is what it is without parentheses."""
    connection, ledger = con
    connection.execute(statement)
    assert ledger.spent("flights").epsilon == 1
    assert len(connection.sql("FROM made").fetchall()) == 1


REFUSED = [
    ("CREATE TABLE made AS (SELECT dp_count() AS n FROM flights) LIMIT 1", "LIMIT"),
    ("CREATE TABLE made AS (SELECT dp_count() AS n FROM flights) ORDER BY 1", "ORDER BY"),
    ("CREATE TABLE made AS (SELECT dp_count() AS n FROM flights) UNION ALL SELECT 1", "UNION"),
    ("CREATE TABLE made AS (SELECT dp_count() FROM flights UNION ALL SELECT 1)", "UNION"),
    (
        "CREATE TABLE made AS (SELECT dp_count() FROM flights a JOIN flights b USING (delay))",
        "join",
    ),
]


@pytest.mark.parametrize(("statement", "what"), REFUSED)
def test_parentheses_hide_nothing(con, statement, what):
    """What is refused without parentheses is refused inside and behind them, for nothing."""
    connection, ledger = con
    with pytest.raises(duckdb.Error, match=f"RefusedStatementError: .*{what}"):
        connection.execute(statement)
    assert ledger.spent("flights").epsilon == 0
