"""Statements made by chance: their rows are DuckDB's, and no unit changes another's."""

from __future__ import annotations

import runpy
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp

HERE = Path(__file__).parent
TABLES = runpy.run_path(str(HERE / "shop.py"))
statement = runpy.run_path(str(HERE / "generated.py"))["statement"]
measured, shop = TABLES["measured"], TABLES["shop"]
FEW, MANY = range(25), {0: range(300), 1: range(300), 2: range(25, 150)}
"""Seeds, for the slow lane by the depth of nesting: shallow statements cost little."""


@pytest.fixture(scope="module")
def clean():
    return shop()


def rounded(value):
    return None if value is None else round(float(value), 6)


def by_both(query, con):
    """Return the values that reach the measurement, and those that DuckDB makes of the text."""
    plan, table = measured(query, con)
    label = plan.questions["answer_0"].columns[0]
    rows = [rounded(row[label]) for row in table.to_pylist()]
    start = query.index("dp_sum(") + len("dp_sum(")
    number = query[start : query.index(", 0, 9)")]
    plain = con.execute(f"SELECT {number} {query[query.index(' FROM (') :]}").fetchall()
    return sorted(rows, key=repr), sorted((rounded(v) for (v,) in plain), key=repr)


def check(con, seeds, depth=2):
    refused, kinds = 0, set()
    for seed in seeds:
        query = statement(seed, depth)
        try:
            ours, theirs = by_both(query, con)
        except dfp.DPError as error:
            refused += 1
            kinds.add(type(error))
            continue
        assert ours == theirs, (seed, query)
    assert kinds <= {dfp.RefusedStatementError, dfp.MissingColumnError}
    return refused


def test_a_few(clean):
    """Without noise a statement is about DuckDB's rows of the same text; few are refused."""
    assert check(clean, FEW) < len(FEW) / 4


@pytest.mark.slow
@pytest.mark.parametrize("depth", MANY)
def test_many(clean, depth):
    """The same, of many."""
    assert check(clean, MANY[depth], depth) < len(MANY[depth]) / 4


def test_every_statement_is_sql(clean):
    """What is made is SQL: DuckDB itself plans all of it."""
    for seed in FEW:
        query = statement(seed)
        body = query[query.index("(SELECT") : query.rindex(") AS q") + 1]
        try:
            clean.execute(f"EXPLAIN SELECT * FROM {body} AS q")
        except duckdb.Error as error:
            pytest.fail(f"{seed}: {query}: {error}")
