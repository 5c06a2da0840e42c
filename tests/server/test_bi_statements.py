"""Statements of dashboards are answered, with the columns and values of plain DuckDB."""

from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from .test_protocol import MADE_UP

psycopg = pytest.importorskip("psycopg")

TEXT = (Path(__file__).parent / "bi_statements.sql").read_text()
STATEMENTS = [parsed.query.strip(" \n;") for parsed in duckdb.extract_statements(TEXT)]
NUMBER = (int, float, Decimal)


def sort_numbers(rows, column):
    """Return the numbers of a column in order."""
    values = (row[column] for row in rows)
    return sorted(float(value) for value in values if isinstance(value, NUMBER))


@pytest.fixture(scope="module")
def plain(policy_file):
    """Open the data without privacy."""
    with duckdb.connect(str(policy_file.parent / "flights.duckdb"), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def test_there_are_as_many_statements_as_promised():
    """64 statements and more, in the style of at least eight tools."""
    assert len(STATEMENTS) >= 64
    assert sum(line.startswith("-- ") for line in TEXT.splitlines()) >= 8 + 2


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_dashboard_gets_what_duckdb_would_say(connect, plain, statement):
    """Names of columns, numbers of rows and, at a large epsilon, numbers agree.

    Previews are made up and agree in columns only. Extremes are quantiles close to the end.
    """
    expected = plain.sql(statement)
    with connect() as connection:
        answer = connection.execute(statement)
        rows = answer.fetchall()
    assert [column.name for column in answer.description] == expected.columns
    truth = expected.fetchall()
    if all(value in MADE_UP for row in rows for value in row):
        return
    assert len(rows) == len(truth)
    for column in range(len(expected.columns)):
        ours, theirs = sort_numbers(rows, column), sort_numbers(truth, column)
        assert ours == pytest.approx(theirs, rel=0.02, abs=1)
