"""Refusals: each names a construct in the caller's words, says why and shows a rewrite.

A syntax node of DuckDB's that no rule knows is refused by its kind, a known one by the name of the
part that its rule does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from dfprivacy.errors import RefusedStatementError

Node = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A construct in the caller's words, why it is refused, and what to write in its place."""

    construct: str
    why: str
    rewrite: str

    def error(self) -> RefusedStatementError:
        """Return the error to raise."""
        return RefusedStatementError(f"{self.construct}: {self.why}", hint=self.rewrite)


_SILENT = frozenset({"class", "type", "alias", "query_location", "query_location_length",
                     "qualified_name", "is_operator", "written", "given", "inner"})  # fmt: skip
_NOTHING: tuple[Node, ...] = ({"map": []}, {"type": "ORDER_MODIFIER", "orders": []})


def only(node: Node, *parts: str) -> None:
    """Refuse a syntax node that has any other part than those named.

    Raises
    ------
    RefusedStatementError
        For the first part that is not known to be safe.
    """
    for part, value in node.items():
        if part not in _SILENT and part not in parts and value and value not in _NOTHING:
            raise refuse(part)


def refuse(name: str) -> RefusedStatementError:
    """Return the error for a construct by the kind of its syntax node, or by a part of one."""
    known = CONSTRUCTS.get(name)
    if known is not None:
        return known.error()
    return Refusal(
        name if " " in name else name.upper().replace("_", " "),
        "it is not on the list of what is known to be safe",
        "write it with operators, CASE, CAST and plain functions",
    ).error()


def nearly(name: str, known: Collection[str], shown: Callable[[str], str] = repr) -> str:
    """Return the start of a hint: the name that was meant, if one is close to what was written."""
    close = get_close_matches(name.lower(), {one.lower(): one for one in known}, 1, 0.6)
    found = next((one for one in known if close and one.lower() == close[0]), None)
    return "" if found is None else f"did you mean {shown(found)}? "


def refuse_node(node: Node) -> RefusedStatementError:
    """Return the error for a syntax node without a rule."""
    kind = "WINDOW" if node.get("class") == "WINDOW" else str(node.get("type"))
    part = {"SUBQUERY": "subquery_type", "SET_OPERATION_NODE": "setop_type", "STAR": "columns"}
    name = f"{kind}:{node[part[kind]]}" if part.get(kind) in node else kind
    return refuse(name if name in CONSTRUCTS else kind)


def refused_statement(word: str) -> RefusedStatementError:
    """Return the error for a statement that is neither a query nor makes a table of one."""
    ask = "SELECT dp_count(*) FROM t; dfp.explain(query) shows a plan"
    if word.upper() in {"SUMMARIZE", "DESCRIBE"}:
        ask = "dfp.frame(t).describe(rho=0.5, delta=1e-6) describes every column of a frame"
    return Refusal(
        f"{word.upper()} as a statement",
        "only SELECT and CREATE TABLE ... AS SELECT can be released",
        ask,
    ).error()


_ONE = "an answer counts each row once, and this can repeat, drop or combine rows of several people"
_ROWS = "it looks at several rows, so that one person's row could change what all others add"
_LEFT = "which rows are left depends on all the others"
_ORDER = "the order of protected rows means nothing"
_PLAIN = "it is not on the list of what is known to be safe"
_GROUPS = "it puts a row into several groups at once"
_CONSTANT = "a statement is planned with its constants in it"
_READ = "a CTE is read once in any case"

_PREPARE = (
    "prepare a table first (CREATE TABLE prepared AS ...), then SELECT dp_count(*) FROM prepared"
)
_JOIN = (
    "join first (CREATE TABLE joined AS SELECT ...), then name who is protected: "
    "dfp.sql('SELECT dp_count(*) FROM joined', con=con, unit='user_id', max_rows=5)"
)
_BARE = "SELECT dp_mean(x, 0, 100) FROM t WHERE x > 10"
_AFTER = (
    "CREATE TABLE released AS SELECT city, dp_count(*) AS n FROM t GROUP BY city HAVING "
    "dp_keep(1e-6), then work with that table"
)
_BY = "SELECT city, dp_count(*) FROM t GROUP BY city"
_HAVING = "SELECT city, dp_count(*) AS n FROM t GROUP BY city HAVING n > 100"
_FILTERED = "WITH c AS (SELECT * FROM t WHERE x > 1) SELECT dp_count(*) FROM c"

_STAR = Refusal(
    "*",
    "it would show rows as they are",
    "name what is to be released: SELECT city, dp_count(*) FROM t GROUP BY city",
)
_JOINED = Refusal("a join, or several tables in FROM", _ONE, _JOIN)
_SUBQUERY = Refusal("a subquery in an expression", _ROWS, _BARE)
_SAMPLE = Refusal(
    "SAMPLE", _LEFT, "leave SAMPLE out; a smaller epsilon costs less: dp_mean(x, 0, 100, 0.1)"
)
_DOTS = Refusal(
    "a name with dots before a call or after one",
    _PLAIN,
    "write upper(city), struct_extract(place, 'city')",
)
_PARAMETER = Refusal(
    "a prepared parameter", _CONSTANT, "write the number itself: dp_mean(x, 0, 100)"
)
_MOMENT = Refusal(
    "the current date or time",
    "it changes from one evaluation to the next",
    "write a constant: DATE '2026-01-31'",
)
_SESSION = Refusal("a name of the session", "it reaches beyond the row", "write a constant: 'Rome'")

CONSTRUCTS: Mapping[str, Refusal] = {
    # kinds of nodes in FROM, and of whole queries
    "JOIN": _JOINED,
    "TABLE_FUNCTION": Refusal(
        "a table function",
        "what it reads is no relation whose rows are known",
        "name a table, or pass the file: dfp.sql('SELECT dp_count(*) FROM t', t='t.parquet')",
    ),
    "unnest": Refusal("UNNEST", "it makes many rows out of one", _JOIN),
    "EXPRESSION_LIST": Refusal("VALUES", "it holds no one's data", "SELECT dp_count(*) FROM t"),
    "SHOW_REF": Refusal("DESCRIBE, SHOW and SUMMARIZE", _ROWS, "SELECT dp_count(*) FROM t"),
    "EMPTY": Refusal(
        "a SELECT without FROM", "there is no one to protect", "SELECT dp_count(*) FROM t"
    ),
    "PIVOT": Refusal(
        "PIVOT and UNPIVOT", _ONE, "SELECT city, dp_sum(x, 0, 9) FROM t GROUP BY city"
    ),
    "SET_OPERATION_NODE:UNION": Refusal(
        "UNION",
        _ONE,
        "ask two questions; losses add up: dp_count(*) FROM a, then dp_count(*) FROM b",
    ),
    "SET_OPERATION_NODE:EXCEPT": Refusal(
        "EXCEPT", _ONE, "filter row by row: SELECT dp_count(*) FROM t WHERE x <> 1"
    ),
    "SET_OPERATION_NODE:INTERSECT": Refusal(
        "INTERSECT", _ONE, "filter row by row: SELECT dp_count(*) FROM t WHERE x = 1"
    ),
    "RECURSIVE_CTE_NODE": Refusal("WITH RECURSIVE", _ONE, _FILTERED),
    "two CTEs of one name": Refusal(
        "two CTEs of one name", "it must be plain which is meant", "rename one of them"
    ),
    "materialized": Refusal("MATERIALIZED or NOT MATERIALIZED", _READ, _FILTERED),
    # parts of a SELECT and of a relation
    "sample": _SAMPLE,
    "qualify": Refusal("QUALIFY", _ROWS, _HAVING),
    "group_expressions": Refusal(
        "GROUP BY inside a subquery or CTE",
        _ROWS,
        "group in the outermost SELECT: SELECT city, dp_count(*) FROM t GROUP BY city",
    ),
    "GROUP BY the unit": Refusal(
        "GROUP BY the unit, or a key of its rows, in the outermost SELECT",
        "each row of the result would be about a single unit",
        "group by what many units share: SELECT nation, dp_count(*) FROM customer GROUP BY nation; "
        "or use the groups of units in a subquery: FROM (SELECT id, count(*) AS n ... GROUP BY id)",
    ),
    "having": Refusal("HAVING inside a subquery or CTE", _ROWS, _HAVING),
    "group_sets": Refusal("ROLLUP, CUBE and GROUPING SETS in a subquery or CTE", _GROUPS, _BY),
    "DISTINCT_MODIFIER": Refusal(
        "DISTINCT", _ROWS, "count by group: SELECT city, dp_count(*) FROM t GROUP BY city"
    ),
    "LIMIT_MODIFIER": Refusal(
        "LIMIT inside a subquery or CTE", _LEFT, "put LIMIT at the end of the statement"
    ),
    "OFFSET": Refusal(
        "OFFSET inside a subquery or CTE", _LEFT, "put OFFSET at the end of the statement"
    ),
    "ORDER_MODIFIER": Refusal(
        "ORDER BY inside a subquery or CTE", _ORDER, "put ORDER BY at the end of the statement"
    ),
    "modifiers": Refusal(
        "ORDER BY or LIMIT twice", _PLAIN, "put ORDER BY and LIMIT at the end of the statement"
    ),
    "limit_type": Refusal("LIMIT in per cent", _PLAIN, "LIMIT 10"),
    "at_clause": Refusal("AT (VERSION ...)", _PLAIN, _PREPARE),
    "column_name_alias": Refusal(
        "new names for columns in FROM or WITH",
        "a column keeps the name that its relation gives it",
        "rename it in a subquery: FROM (SELECT age AS a FROM people) AS v",
    ),
    # kinds of nodes in expressions
    "SUBQUERY": _SUBQUERY,
    "SUBQUERY:EXISTS": Refusal("EXISTS", _ROWS, _BARE),
    "STAR": _STAR,
    "STAR:True": Refusal(
        "COLUMNS(...)", "what is asked must be plain", "name the columns: dp_mean(x, 0, 100)"
    ),
    **dict.fromkeys(["VALUE_PARAMETER", "named_param_map"], _PARAMETER),
    "LAMBDA": Refusal("a lambda, or ->", _PLAIN, "use a function of the row: list_sum(x)"),
    "COLLATE": Refusal("COLLATE", _PLAIN, "compare lower(city) = 'rome'"),
    "ARRAY_SLICE": Refusal(
        "x[...] with anything but a number",
        _PLAIN,
        "use x[1], substring(x, 1, 3) or list_extract(x, y)",
    ),
    "GROUPING_FUNCTION": Refusal(
        "GROUPING(...) here",
        "it tells which keys of the groups are added up",
        "SELECT city, GROUPING(city) AS g, dp_count(*) FROM t GROUP BY ROLLUP (city)",
    ),
    "WINDOW": Refusal("a window function (OVER)", _ROWS, _AFTER),
    # parts of a call
    "a window in HAVING": Refusal(
        "a window function in HAVING",
        "HAVING comes before windows",
        "use QUALIFY: SELECT city, dp_count(*) AS n FROM t GROUP BY city QUALIFY rank() OVER "
        "(ORDER BY n DESC) <= 3",
    ),
    "filter": Refusal(
        "FILTER (WHERE ...) after this call",
        "it is no aggregate that has a private form",
        "dp_mean(x, 0, 100) FILTER (WHERE y > 1)",
    ),
    "distinct": Refusal(
        "DISTINCT in a call",
        _ROWS,
        "leave DISTINCT out, and bound people instead: unit='user_id', max_rows=1",
    ),
    "order_bys": Refusal(
        "ORDER BY inside a call", _ROWS, "leave it out: dp_quantile(x, 0.9) needs no order"
    ),
    "name": Refusal("a named argument", "arguments go by place", "dp_mean(x, 0, 100, 0.5)"),
    **dict.fromkeys(["schema", "catalog"], _DOTS),
    # calls that stand for a syntax of their own
    "struct_pack()": Refusal("{...}", _PLAIN, "use the fields one by one"),
    "row()": Refusal(
        "(..., ...)", _PLAIN, "use the columns one by one: city = 'Rome' AND vip"
    ),
    "timezone()": Refusal("AT TIME ZONE", _PLAIN, _PREPARE),
    "->>()": Refusal("->>", _PLAIN, _PREPARE),
    # statements
    "the statement": Refusal(
        "the statement can't be read",
        "names or clauses in it do not go together, as two CTEs of one name",
        "SELECT city, dp_mean(income, 0, 200000) FROM people GROUP BY city",
    ),
    "INSERT": Refusal(
        "INSERT",
        "the keys, constraints and triggers of an existing table can tell who is in the "
        "protected one",
        "make a fresh table, CREATE TABLE released AS SELECT ..., and add its rows to others "
        "yourself: con.execute('INSERT INTO history FROM released')",
    ),
    "CREATE": Refusal(
        "CREATE TABLE with column definitions", _PLAIN, "CREATE TABLE released AS SELECT ..."
    ),
    "IF NOT EXISTS": Refusal(
        "IF NOT EXISTS",
        "whether something is released should not depend on what is there",
        "CREATE OR REPLACE TABLE released AS SELECT dp_count(*) AS n FROM t",
    ),
    # names that DuckDB takes for calls where no column has them
    **dict.fromkeys(
        ["@current_date", "@current_time", "@current_timestamp", "@localtime", "@localtimestamp"],
        _MOMENT,
    ),
    **dict.fromkeys(
        ["@current_user", "@session_user", "@user", "@current_role", "@current_catalog",
         "@current_schema"],
        _SESSION,
    ),
}  # fmt: skip
"""Refusals by the kind of a node, a part of one, `name()` of a call or `@name` of a column."""
