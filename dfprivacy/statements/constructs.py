"""Constructs that a statement may not hold, by the name of their syntax node or part."""

from __future__ import annotations

from dfprivacy.statements.refusal import Refusal

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


CONSTRUCTS: dict[str, Refusal] = {
    "joins": Refusal("a join, or several tables in FROM", _ONE, _JOIN),
    "laterals": Refusal("LATERAL", _ONE, _PREPARE),
    "Lateral": Refusal("LATERAL", _ONE, _PREPARE),
    "pivots": Refusal(
        "PIVOT and UNPIVOT", _ONE, "SELECT city, dp_sum(x, 0, 9) FROM t GROUP BY city"
    ),
    "Pivot": Refusal(
        "PIVOT and UNPIVOT", _ONE, "SELECT city, dp_sum(x, 0, 9) FROM t GROUP BY city"
    ),
    "sample": Refusal(
        "SAMPLE", _LEFT, "leave SAMPLE out; a smaller epsilon costs less: dp_mean(x, 0, 100, 0.1)"
    ),
    "distinct": Refusal(
        "DISTINCT", _ROWS, "count by group: SELECT city, dp_count(*) FROM t GROUP BY city"
    ),
    "Distinct": Refusal(
        "DISTINCT in a call",
        _ROWS,
        "leave DISTINCT out, and bound people instead: unit='user_id', max_rows=1",
    ),
    "qualify": Refusal("QUALIFY", _ROWS, _HAVING),
    "windows": Refusal("a window", _ROWS, _AFTER),
    "Window": Refusal("a window function (OVER)", _ROWS, _AFTER),
    "Union": Refusal(
        "UNION",
        _ONE,
        "ask two questions; losses add up: dp_count(*) FROM a, then dp_count(*) FROM b",
    ),
    "Except": Refusal("EXCEPT", _ONE, "filter row by row: SELECT dp_count(*) FROM t WHERE x <> 1"),
    "Intersect": Refusal(
        "INTERSECT", _ONE, "filter row by row: SELECT dp_count(*) FROM t WHERE x = 1"
    ),
    "Subquery": Refusal("a subquery in an expression", _ROWS, _BARE),
    "Select": Refusal("a subquery in an expression", _ROWS, _BARE),
    "Exists": Refusal("EXISTS", _ROWS, _BARE),
    "Values": Refusal("VALUES", "it holds no one's data", "SELECT dp_count(*) FROM t"),
    "Unnest": Refusal("UNNEST", "it makes many rows out of one", _JOIN),
    "Anonymous": Refusal(
        "a table function",
        "what it reads is no relation whose rows are known",
        "name a table, or pass the file: dfp.sql('SELECT dp_count(*) FROM t', t='t.parquet')",
    ),
    "Filter": Refusal(
        "FILTER (WHERE ...) after a call",
        "the statement's one WHERE says which rows count",
        "use CASE: dp_mean(CASE WHEN y > 1 THEN x END, 0, 100)",
    ),
    "WithinGroup": Refusal("WITHIN GROUP", _ROWS, "dp_quantile(x, 0.9)"),
    "Order": Refusal(
        "ORDER BY inside a call", _ROWS, "leave it out: dp_quantile(x, 0.9) needs no order"
    ),
    "IgnoreNulls": Refusal(
        "IGNORE NULLS inside a call", "dp_ calls leave NULL out anyway", "dp_mean(x, 0, 100)"
    ),
    "RespectNulls": Refusal(
        "RESPECT NULLS inside a call", "dp_ calls leave NULL out", "dp_mean(coalesce(x, 0), 0, 100)"
    ),
    "Rollup": Refusal("ROLLUP", _GROUPS, _BY),
    "rollup": Refusal("ROLLUP", _GROUPS, _BY),
    "Cube": Refusal("CUBE", _GROUPS, _BY),
    "cube": Refusal("CUBE", _GROUPS, _BY),
    "GroupingSets": Refusal("GROUPING SETS", _GROUPS, _BY),
    "grouping_sets": Refusal("GROUPING SETS", _GROUPS, _BY),
    "Lambda": Refusal("a lambda", _PLAIN, "use a function of the row: list_sum(x)"),
    "Placeholder": Refusal(
        "a prepared parameter", _CONSTANT, "write the number itself: dp_mean(x, 0, 100)"
    ),
    "Parameter": Refusal(
        "a prepared parameter", _CONSTANT, "write the number itself: dp_mean(x, 0, 100)"
    ),
    "Star": Refusal(
        "*",
        "it would show rows as they are",
        "name what is to be released: SELECT city, dp_count(*) FROM t GROUP BY city",
    ),
    "Any": Refusal("ANY (...)", _PLAIN, "list the values: city IN ('Rome', 'Oslo')"),
    "Collate": Refusal("COLLATE", _PLAIN, "compare lower(city) = 'rome'"),
    "limit": Refusal(
        "LIMIT inside a subquery or CTE", _LEFT, "put LIMIT at the end of the statement"
    ),
    "order": Refusal(
        "ORDER BY inside a subquery or CTE", _ORDER, "put ORDER BY at the end of the statement"
    ),
    "offset": Refusal(
        "OFFSET inside a subquery or CTE", _LEFT, "put OFFSET at the end of the statement"
    ),
    "group": Refusal(
        "GROUP BY inside a subquery or CTE",
        _ROWS,
        "group in the outermost SELECT: SELECT city, dp_count(*) FROM t GROUP BY city",
    ),
    "having": Refusal("HAVING inside a subquery or CTE", _ROWS, _HAVING),
    "recursive": Refusal("WITH RECURSIVE", _ONE, _FILTERED),
    "materialized": Refusal("MATERIALIZED or NOT MATERIALIZED", _READ, _FILTERED),
    "into": Refusal(
        "SELECT INTO", _PLAIN, "CREATE TABLE released AS SELECT dp_count(*) AS n FROM t"
    ),
    "when": Refusal("AT (VERSION ...)", _PLAIN, _PREPARE),
    "limit_options": Refusal("LIMIT in per cent, or WITH TIES", _PLAIN, "LIMIT 10"),
    "columns": Refusal(
        "new names for columns in FROM or WITH",
        "a column keeps the name that its relation gives it",
        "rename it in a subquery: FROM (SELECT age AS a FROM people) AS v",
    ),
    "by_name": Refusal("BY NAME", _PLAIN, "INSERT INTO released (n) SELECT dp_count(*) FROM t"),
    "returning": Refusal("RETURNING", _PLAIN, "INSERT INTO released SELECT dp_count(*) FROM t"),
    "with_": Refusal(
        "WITH before INSERT",
        _PLAIN,
        "INSERT INTO released WITH c AS (SELECT * FROM t) SELECT dp_count(*) FROM c",
    ),
    "Schema": Refusal(
        "CREATE TABLE with column definitions", _PLAIN, "CREATE TABLE released AS SELECT ..."
    ),
    "Kwarg": Refusal("a named argument", "arguments go by place", "dp_mean(x, 0, 100, 0.5)"),
    "PropertyEQ": Refusal("a named argument", "arguments go by place", "dp_mean(x, 0, 100, 0.5)"),
    "All": Refusal("ALL (...)", _ROWS, _BARE),
    "Struct": Refusal("{...}", _PLAIN, "use the fields one by one"),
    "Tuple": Refusal("(..., ...)", _PLAIN, "use the columns one by one: city = 'Rome' AND vip"),
    "AtTimeZone": Refusal("AT TIME ZONE", _PLAIN, _PREPARE),
    "JSONExtract": Refusal("->", _PLAIN, _PREPARE),
    "JSONExtractScalar": Refusal("->>", _PLAIN, _PREPARE),
    "Fetch": Refusal("FETCH FIRST", _PLAIN, "LIMIT 3"),
    "ByteString": Refusal("E'...'", _PLAIN, "write the text in plain quotes: 'Rome'"),
    "RawString": Refusal("$$...$$", _PLAIN, "write the text in plain quotes: 'Rome'"),
    **dict.fromkeys(
        ["CurrentDate", "CurrentTime", "CurrentTimestamp", "Localtime", "Localtimestamp"],
        Refusal(
            "the current date or time",
            "it changes from one evaluation to the next",
            "write a constant: DATE '2026-01-31'",
        ),
    ),
    **dict.fromkeys(
        ["CurrentUser", "SessionUser", "CurrentRole", "CurrentCatalog", "CurrentSchema"],
        Refusal("a name of the session", "it reaches beyond the row", "write a constant: 'Rome'"),
    ),
}
