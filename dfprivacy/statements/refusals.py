"""What to raise for a construct, and the check that a syntax node holds nothing unknown."""

from __future__ import annotations

from sqlglot import exp

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.constructs import CONSTRUCTS
from dfprivacy.statements.refusal import Refusal


def refuse(name: str) -> RefusedStatementError:
    """Return the error for a construct by the name of its syntax node or part."""
    known = CONSTRUCTS.get(name)
    if known is not None:
        return known.error()
    return Refusal(
        name.strip("_").upper() if name.islower() else name,
        "it is not on the list of what is known to be safe",
        "write it with operators, CASE, CAST and plain functions",
    ).error()


def refused_statement(word: str) -> RefusedStatementError:
    """Return the error for a statement that is neither a query nor makes a table of one."""
    return Refusal(
        f"{word.upper()} as a statement",
        "only SELECT, CREATE TABLE ... AS SELECT and INSERT INTO ... SELECT can be released",
        "SELECT dp_count(*) FROM t; dfp.explain(query) shows a plan",
    ).error()


def only(node: exp.Expression, *parts: str) -> None:
    """Refuse a syntax node that has any other part than those named.

    Raises
    ------
    RefusedStatementError
        For the first part that is not known to be safe.
    """
    for part, value in node.args.items():
        if value and part not in parts:
            raise refuse(part)
        if part == "materialized" and value is not None:
            raise refuse(part)
