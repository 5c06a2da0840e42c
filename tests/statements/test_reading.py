"""What runs is what was written: two parsers agree, and rewritten expressions give the same."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfprivacy.errors import DPError, RefusedStatementError
from dfprivacy.statements.agreement import check_agreement
from dfprivacy.statements.functions import AGGREGATES, CHANGING, OUTSIDE, ROW_FUNCTIONS
from dfprivacy.statements.grammar import parse

ATOMS = st.sampled_from(
    ["age", "user_id", "income", "vip", "city", "note", "1", "2.5", "-3", "'Rome'", "true", "NULL",
     "day", "DATE '2024-02-01'", "tags[1]", "place.flat", "(age)", "length(city)"]
)  # fmt: skip
BINARY = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "||",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "IS DISTINCT FROM",
]
AFTER = ["IS NULL", "IS NOT NULL", "::VARCHAR", "IS TRUE", "ISNULL"]
BINARY += ["LIKE", "NOT LIKE", "IS NOT DISTINCT FROM", "&", "|", "<<", "=="]


def _combined(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(" ".join),
        st.tuples(st.sampled_from(["NOT", "-", "+"]), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(AFTER)).map(" ".join),
        st.tuples(inner, inner, inner).map("{0[0]} BETWEEN {0[1]} AND {0[2]}".format),
        st.tuples(inner, inner).map("{0[0]} IN ({0[1]}, 7)".format),
        st.tuples(inner, inner).map("CASE WHEN {0[0]} THEN {0[1]} END".format),
        inner.map("({})".format),
    )  # fmt: skip


EXPRESSIONS = st.recursive(ATOMS, _combined, max_leaves=6)


def values(connection, expression):
    """Return an expression's value in every row, or that it can't be planned."""
    try:
        return repr(connection.execute(f"SELECT TRY({expression}) FROM visits").fetchall())
    except duckdb.Error:
        return None


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression=EXPRESSIONS)
def test_rewritten_expressions_mean_the_same(shared, statement, expression):
    """An expression that is accepted has, rewritten, the value in every row that DuckDB gives it.

    Operators are combined without parentheses, so that it is precedence that is put to the test.
    """
    try:
        read = statement(f"SELECT dp_count({expression}) FROM visits")
    except DPError:
        return
    ((_, call),) = read.calls
    wanted = values(shared, expression)  # None for what has no type, e.g. + before a boolean
    assert wanted is None or values(shared, call.value) == wanted


DIFFERENT = [
    ("SELECT a + b FROM t", "SELECT a - b FROM t"),
    ("SELECT a FROM t", "SELECT b FROM t"),
    ("SELECT a FROM t", "SELECT a FROM u"),
    ("SELECT a + b * c FROM t", "SELECT (a + b) * c FROM t"),
    ("SELECT a FROM t WHERE a > 1", "SELECT a FROM t"),
    ("SELECT a FROM t GROUP BY a", "SELECT a FROM t"),
    ("SELECT a FROM t LIMIT 3", "SELECT a FROM t LIMIT 4"),
    ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC"),
    ("SELECT a FROM t HAVING a > 1", "SELECT a FROM t WHERE a > 1"),
    ("SELECT 'a' FROM t", "SELECT 'b' FROM t"),
    ("SELECT 1.5 FROM t", "SELECT 15 FROM t"),
    ("SELECT -1 FROM t", "SELECT 1 FROM t"),
    ("SELECT NOT a LIKE 'x' FROM t", "SELECT a LIKE 'x' FROM t"),
    ("SELECT a AS b FROM t", "SELECT a AS c FROM t"),
    ("SELECT atan2(a, b) FROM t", "SELECT atan2(b, a) FROM t"),
    ("SELECT a FROM (SELECT a FROM t)", "SELECT a FROM (SELECT b AS a FROM t)"),
    ("SELECT a::INT8 FROM t", "SELECT a::INT FROM t"),
    ("SELECT a::DECIMAL(5, 2) FROM t", "SELECT a::DECIMAL(5, 1) FROM t"),
    ("SELECT a::DATE::TEXT FROM t", "SELECT a::TEXT::DATE FROM t"),
    ("SELECT DISTINCT a FROM t", "SELECT a FROM t"),
    ("SELECT a FROM t USING SAMPLE 3", "SELECT a FROM t"),
    ("SELECT a FROM t, u", "SELECT a FROM t"),
    ("WITH c AS MATERIALIZED (SELECT 1) SELECT a FROM c", "WITH c AS (SELECT 1) SELECT a FROM c"),
]


@pytest.mark.parametrize(("text", "tree"), DIFFERENT)
def test_two_readings_are_told_apart(text, tree):
    """Two queries that differ in anything are not taken for one."""
    planned = parse(tree)
    connection = duckdb.connect()
    check_agreement(planned, connection)
    with pytest.raises(RefusedStatementError, match="means something else"):
        check_agreement(type(planned)(planned.tree, text), connection)


def test_functions_of_one_row_have_no_memory():
    """Every function on the list is one of DuckDB's, scalar, and the same at every evaluation."""
    rows = duckdb.execute(
        "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE internal"
    ).fetchall()
    kinds = {}
    for name, kind, stability in rows:
        kinds.setdefault(name, set()).add((kind, stability))
    syntax = {"coalesce", "ifnull", "if"}
    for name in ROW_FUNCTIONS - syntax:
        assert kinds[name] <= {("scalar", "CONSISTENT"), ("macro", None)}, name
    for name in ROW_FUNCTIONS:
        arguments = {"pi": ""}.get(name)
        if arguments is not None:
            assert duckdb.execute(f"SELECT {name}({arguments})").fetchall()


def test_the_lists_of_functions_are_apart():
    """No function is both of one row and something else, and no aggregate of DuckDB's is of one."""
    assert not ROW_FUNCTIONS & (AGGREGATES | CHANGING | OUTSIDE)
    rows = duckdb.execute(
        "SELECT function_name FROM duckdb_functions() "
        "WHERE function_type IN ('aggregate', 'table', 'table_macro') OR stability = 'VOLATILE'"
    ).fetchall()
    assert not ROW_FUNCTIONS & {name for (name,) in rows}
