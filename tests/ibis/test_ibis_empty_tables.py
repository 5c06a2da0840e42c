"""Ibis tables of no rows have the outcomes of Ibis tables of one row."""

import pytest

import dfprivacy as dfp
from tests.ibis.conftest import IBIS_WARNINGS
from tests.laws.empty_tables import STATISTICS_BY_NAME, TABLES, ask, run_question

ibis = pytest.importorskip("ibis")

pytestmark = IBIS_WARNINGS

ASKED = [name for name in STATISTICS_BY_NAME if name.endswith("bounds") or " " not in name]


@pytest.fixture(scope="module")
def tables():
    """Return each table in one Ibis connection to DuckDB."""
    connection = ibis.duckdb.connect()
    for number, table in enumerate(TABLES.values()):
        connection.con.register(f"rows{number}", table.to_arrow())
        connection.con.execute(f"CREATE TABLE t{number} AS SELECT * FROM rows{number}")
    return [connection.table(f"t{number}") for number in range(len(TABLES))]


@pytest.mark.parametrize("question", ASKED)
def test_secret_keys_of_no_rows(question, tables, tmp_path):
    """By secret keys an Ibis table without groups has the outcome of one with a group."""
    ledger = dfp.Ledger(tmp_path / "budget.db", rho=1e6, delta=0.9)
    outcomes = set()
    for table in tables:
        private = dfp.frame(table)
        outcomes.add(
            run_question(ledger, lambda a=private, **account: ask(a(**account), question, "secret"))
        )
    assert len(outcomes) == 1
