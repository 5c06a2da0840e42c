"""TPC-H with the customer as the unit: what becomes of each query, by text and declared types."""

import pytest

import dfprivacy as dfp
from benchmarks.tpch import QUERIES, TERMS, build_terms, found_out, tables

ANSWERED = ["Q1", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q12", "Q13", "Q14", "Q15", "Q19", "Q21",
            "Q22"]  # fmt: skip
PUBLIC = ["Q2", "Q11", "Q16"]
ABOUT_ONE = ["Q3", "Q10", "Q17", "Q18", "Q20"]


@pytest.fixture(scope="module")
def con():
    """Make the eight tables, without rows."""
    return tables()


def test_there_are_22_queries_that_duckdb_can_run(con):
    """The texts are whole: DuckDB plans each of them."""
    assert len(QUERIES) == 22
    for query in QUERIES.values():
        con.execute(f"EXPLAIN {query}")


@pytest.mark.parametrize("name", ANSWERED)
def test_answered(con, name):
    """A query about all customers is answered as it stands and costs the epsilon of the terms."""
    assert found_out(con, name) == ("answered", "as it stands")
    plan = dfp.explain(QUERIES[name], con=con, **build_terms(name))
    assert plan.epsilon == TERMS["epsilon"]


@pytest.mark.parametrize("name", PUBLIC)
def test_public(con, name):
    """A query of public tables alone is exact, and free."""
    assert found_out(con, name)[0] == "public"
    release = dfp.sql(QUERIES[name], con=con, **build_terms(name))
    plain = con.sql(QUERIES[name])
    assert (release.columns, release.types) == (plain.columns, plain.types)


@pytest.mark.parametrize("name", ABOUT_ONE)
def test_refused(con, name):
    """A query about single customers, or about their rows beside those of others, is refused."""
    outcome, why = found_out(con, name)
    assert outcome == "refused"
    assert why
