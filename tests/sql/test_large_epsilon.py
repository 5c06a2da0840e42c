"""A bound whose other end was forgotten is no epsilon: dp_mean(x, 240) is refused."""

import duckdb
import pytest

import dfprivacy as dfp
import sql_udfs

FORGOTTEN = ("dp_mean(x, 240)", "dp_sum(x, 20.5)", "dp_quantile(x, 0.9, 240)", "dp_count(x, 21)")
NAMED = ("dp_mean(x, epsilon := 240)", "dp_mean(x, 0, 240)", "dp_mean(x, 0, 240, 20)")


@pytest.fixture
def con():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 9 AS x, i % 2 AS g FROM range(9000) r(i)")
    return connection


@pytest.mark.parametrize("call", FORGOTTEN)
def test_a_statement_refuses_a_large_epsilon_without_its_name(con, call):
    """A positional epsilon above 20 is refused before a charge, with the rewrite by name."""
    with pytest.raises(dfp.RefusedStatementError, match="epsilon := 240"):
        dfp.sql(f"SELECT {call} AS n FROM t", con=con)


@pytest.mark.parametrize("call", NAMED)
def test_a_statement_takes_a_large_epsilon_by_its_name(con, call):
    """An epsilon above 20 that is named, and both bounds, are answered."""
    assert dfp.sql(f"SELECT {call} AS n FROM t", con=con).fetchall()[0][0] == pytest.approx(
        4, abs=1
    )


def test_a_count_that_selects_groups_names_a_large_epsilon(con):
    """dp_keep(delta, epsilon) keeps to the same rule as the other calls."""
    query = "SELECT g, dp_count(*) AS n FROM t GROUP BY g HAVING dp_keep(1e-6, {})"
    with pytest.raises(dfp.RefusedStatementError, match="epsilon := 240"):
        dfp.sql(query.format("240"), con=con)
    assert len(dfp.sql(query.format("epsilon := 240"), con=con).fetchall()) == 2


@pytest.mark.parametrize("call", FORGOTTEN)
def test_functions_refuse_a_large_epsilon_unless_it_is_allowed(con, call):
    """A function refuses an epsilon above 20 while DuckDB plans; max_epsilon= allows more."""
    sql_udfs.register(con)
    with pytest.raises(duckdb.Error, match=r"InvalidLossError: .*allows 20"):
        con.execute(f"SELECT {call} FROM t")
    sql_udfs.register(con, max_epsilon=300)
    assert con.execute(f"SELECT {call} FROM t").fetchone()[0] is not None


def test_a_default_epsilon_of_the_connection_is_allowed(con):
    """The epsilon with which functions are registered needs no other permission."""
    sql_udfs.register(con, epsilon=1e6)
    assert con.execute("SELECT dp_count(), dp_count(x, 1e6) FROM t").fetchone() == (9000, 9000)
