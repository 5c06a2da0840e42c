"""Work on released answers can fail because of these alone, never because of a row."""

import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command

RELEASED = "(SELECT k, dp_count(*) AS n FROM t GROUP BY k)"
FAILING = [
    "SELECT TRY(TIMESTAMP '2024-01-01' AT TIME ZONE k) AS a",
    "SELECT CAST(k AS INTEGER) AS a",
    "SELECT strptime(k, '%Y') AS a",
    "SELECT error(k) AS a",
    "SELECT repeat(k, 10000000000) AS a",
    "SELECT date_trunc(k, TIMESTAMP '2024-01-01') AS a",
    "SELECT regexp_matches('a', k || '(') AS a",
]
"""Statements that DuckDB plans, and that fail for the keys that are listed below."""

TABLES = {
    "rows": [("a", 1.0)] * 500 + [("b", 2.0)] * 500,
    "one row less": [("a", 1.0)] * 499 + [("b", 2.0)] * 500,
    "a key that is not listed": [("2024", 1.0)],
    "no row": [],
}


@pytest.mark.parametrize("statement", FAILING)
def test_a_failure_does_not_depend_on_rows(statement, tmp_path):
    """By the same public keys it comes about every table, in the same words, after one charge.

    The error has the answers.
    """
    outcomes = set()
    for name, rows in TABLES.items():
        ledger = dfp.Ledger(tmp_path / f"{name}.db", epsilon=10)
        frame = pl.DataFrame(rows, schema={"k": pl.String, "x": pl.Float64}, orient="row")
        terms = {"ledger": ledger, "dataset": "d", "keys": ["a", "b"], "epsilon": 1}
        with pytest.raises(dfp.EngineError) as caught:
            dfp.sql(f"{statement} FROM {RELEASED}", t=frame, **terms)
        (answers,) = caught.value.released
        assert answers["k"].to_pylist() == ["a", "b"]  # what is paid for
        outcomes.add((str(caught.value), ledger.spent("d")))
    assert len(outcomes) == 1
    assert outcomes.pop()[1].epsilon == 1


def test_what_cannot_be_planned_is_refused_before_the_charge(tmp_path):
    """Types and names that don't go together are known without a row."""
    ledger = dfp.Ledger(tmp_path / "ledger.db", epsilon=10)
    frame = pl.DataFrame({"k": ["a", "b"], "x": [1.0, 2.0]})
    for statement in ("SELECT k + DATE '2024-01-01' AS a", "SELECT nothing AS a"):
        with pytest.raises(dfp.DPError):
            dfp.sql(f"{statement} FROM {RELEASED}", t=frame, ledger=ledger, dataset="d",
                    keys=["a"], epsilon=1)  # fmt: skip
    assert ledger.spent("d").epsilon == 0


@pytest.mark.parametrize(
    ("query", "cast"),
    [
        ("SELECT strftime(day, '%Y') AS y, COUNT(*) FROM t GROUP BY y", "CAST(day AS TIMESTAMP)"),
        ("SELECT AVG(x) FROM t WHERE day > DATE '2024-01-31'", "CAST(day AS TIMESTAMP)"),
        ("SELECT AVG(x + 1) FROM t", "CAST(x AS INTEGER)"),
        ("SELECT AVG(round(day)) FROM t", "CAST(day AS DOUBLE)"),
    ],
)
def test_a_text_of_a_file_is_cast_to_what_the_function_takes(tmp_path, query, cast):
    """The hint has the cast to times where a function of times is called, else to numbers."""
    (tmp_path / "t.csv").write_text("day,x\n2024-01-31,1\n")
    with pytest.raises(dfp.DPError, match="don't go together") as raised:
        dfp.sql(query, t=tmp_path / "t.csv", epsilon=1, delta=1e-6)
    assert cast in raised.value.hint


def test_the_command_line_prints_the_answers(tmp_path):
    """Where a query over answers fails, DuckDB's reason is told and the answers are printed."""
    pl.DataFrame({"x": [1, 2] * 500}).write_parquet(tmp_path / "t.parquet")
    query = "SELECT (n || ' rows')::INTEGER AS n FROM (SELECT dp_count(*) AS n FROM t)"
    arguments = ["sql", query, "--table", f"t={tmp_path / 't.parquet'}", "--epsilon", "100000"]
    result = command(*arguments)
    assert result.stdout == "n\n1000\n"
    assert "Could not convert string '1000 rows' to INT32" in result.stderr
    assert result.exit_code
