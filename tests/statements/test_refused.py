"""What is not known to be safe is refused: by name, before a charge, whatever the data."""

from __future__ import annotations

import runpy
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp

FILES = ("sources", "ctes", "rows", "calls", "functions", "statements")
CASES = [
    case
    for name in FILES
    for case in runpy.run_path(str(Path(__file__).with_name(f"refused_{name}.py")))["REFUSED"]
]
BUDGET = {"epsilon": 10, "delta": 0.1}


@pytest.fixture(scope="session")
def ledger(tmp_path_factory):
    return dfp.Ledger(tmp_path_factory.mktemp("ledger") / "budget.db", **BUDGET)


def refusal(connection, query, **terms):
    python_frame = duckdb.sql("SELECT 1 AS x")
    delta = None if "dp_keep" in query else 1e-6
    with pytest.raises(dfp.DPError) as caught:
        dfp.sql(query, con=connection, delta=delta, **terms)
    del python_frame
    return caught.value


def test_there_are_enough():
    """At least eighty statements are refused."""
    assert len({query for query, _, _ in CASES}) >= 80


@pytest.mark.parametrize(("query", "kind", "start"), CASES, ids=[case[0] for case in CASES])
def test_refused(shared, ledger, query, kind, start):
    """A refusal names its construct, shows a rewrite and costs nothing."""
    error = refusal(shared, query, ledger=ledger, dataset="visits")
    assert type(error).__name__ == kind
    assert error.message.startswith(start)
    assert error.hint
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert ledger.remaining("visits") == dfp.Budget(**BUDGET)


@pytest.mark.parametrize("query", [query for query, _, _ in CASES[::5]])
def test_refused_without_rows(shared, empty, query):
    """A refusal says the same of a table without rows: it reads none."""
    error, other = (refusal(connection, query) for connection in (shared, empty))
    assert (type(other), str(other)) == (type(error), str(error))


@pytest.mark.parametrize("query", [None, b"SELECT 1", 7, "", "  ", "\n", ";", "x" * 70_000])
def test_no_statement(shared, query):
    """What is no text with a statement in it is refused."""
    with pytest.raises(dfp.RefusedStatementError):
        dfp.sql(query, con=shared)


def test_deep_statements(shared):
    """A statement that is nested a little is planned, one that is nested too deeply is refused."""
    query = "SELECT dp_count({}age{}) FROM visits"
    assert dfp.explain(query.format("(" * 30, ")" * 30), con=shared).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="nested too deeply"):
        dfp.explain(query.format("(" * 20_000, ")" * 20_000), con=shared)


@pytest.mark.parametrize("link", ["age + ", "city || ", "age * "])
def test_long_chains_of_operators(shared, link):
    """A chain of some operators is planned, one that can't be followed is refused."""
    query = f"SELECT dp_count(*) FROM visits WHERE ({{}}{link.split()[0]}) IS NOT NULL"
    assert dfp.explain(query.format(link * 20), con=shared).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="nested too deeply"):
        dfp.explain(query.format(link * 1500), con=shared)


def test_long_chains_of_conditions(shared):
    """AND and OR are one node however many conditions they join."""
    query = f"SELECT dp_count(*) FROM visits WHERE {'age > 1 AND ' * 1500}vip"
    assert dfp.explain(query, con=shared).epsilon == 1


def test_long_chains_of_aliases(shared):
    """Expressions that double with every alias are refused before they fill the memory."""
    doubled = ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(40))
    query = f"SELECT dp_count(a40) FROM (SELECT age AS a0, {doubled} FROM visits)"
    with pytest.raises(dfp.RefusedStatementError, match="grows too long"):
        dfp.explain(query, con=shared)
