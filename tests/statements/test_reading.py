"""What runs is what was written: rewritten expressions give the same, functions have no memory."""

from __future__ import annotations

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfprivacy.errors import DPError
from dfprivacy.statements.functions import AGGREGATES, CHANGING, OUTSIDE, ROW_FUNCTIONS

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
