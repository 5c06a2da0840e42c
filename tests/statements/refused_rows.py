"""Statements that are refused: expressions over several rows, groupings, rows shown as they are.

Each with the error and how its message begins.
"""

REFUSED = [
    (
        "SELECT dp_count(*) FROM visits WHERE age > ALL (SELECT half FROM adults)",
        "RefusedStatementError",
        "such a subquery in an expression:",
    ),
    (
        "SELECT dp_mean(row_number() OVER (), 0, 100) FROM visits",
        "RefusedStatementError",
        "a window function (OVER):",
    ),
    (
        "SELECT dp_mean(lag(age) OVER (ORDER BY day), 0, 100) FROM visits",
        "RefusedStatementError",
        "a window function (OVER):",
    ),
    (
        "SELECT DISTINCT city, dp_count(*) FROM visits GROUP BY city",
        "RefusedStatementError",
        "DISTINCT:",
    ),
    (
        "SELECT DISTINCT ON (city) city, dp_count(*) FROM visits GROUP BY city",
        "RefusedStatementError",
        "DISTINCT:",
    ),
    (
        "SELECT dp_median() WITHIN GROUP (ORDER BY age) FROM visits",
        "RefusedStatementError",
        "the statement can't be read:",
    ),
    (
        "SELECT dp_mean(age IGNORE NULLS, 0, 100) FROM visits",
        "RefusedStatementError",
        "the statement can't be read at line 1, column 32",
    ),
    ("SELECT dp_mean(max(age), 0, 100) FROM visits", "RefusedStatementError", "max(...):"),
    (
        "SELECT dp_mean(list_sum(list_transform(tags, t -> t + 1)), 0, 100) FROM visits",
        "RefusedStatementError",
        "list_transform(...):",
    ),
    ("SELECT dp_mean(unnest(tags), 0, 100) FROM visits", "RefusedStatementError", "unnest(...):"),
    (
        "SELECT city, dp_median(income) FROM visits GROUP BY ROLLUP (city)",
        "RefusedStatementError",
        "median('income') in ROLLUP, CUBE or GROUPING SETS:",
    ),
    (
        "SELECT city, dp_count(*), dp_mean(age) FROM visits GROUP BY CUBE (city, vip)",
        "RefusedStatementError",
        "mean('age') in ROLLUP, CUBE or GROUPING SETS:",
    ),
    (
        "SELECT dp_count(*) FROM visits GROUP BY dp_count(*)",
        "RefusedStatementError",
        "dp_count(...) here:",
    ),
    (
        "SELECT dp_count(*) AS n FROM visits GROUP BY n",
        "RefusedStatementError",
        "dp_count(...) here:",
    ),
    (
        "SELECT dp_count(*) FROM visits GROUP BY 7",
        "RefusedStatementError",
        "place 7 in GROUP BY or ORDER BY:",
    ),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY (SELECT 1)",
        "RefusedStatementError",
        "such a subquery in an expression:",
    ),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY random()",
        "RefusedStatementError",
        "random(...):",
    ),
    (
        "SELECT city, age, dp_count(*) FROM visits GROUP BY city",
        "RefusedStatementError",
        'column "age" outside a dp_ call:',
    ),
    (
        "SELECT city, dp_count(*) FROM visits",
        "RefusedStatementError",
        'column "city" outside a dp_ call:',
    ),
    ("SELECT age FROM visits", "RefusedStatementError", 'column "age" outside a dp_ call:'),
    ("SELECT * FROM visits", "RefusedStatementError", "*:"),
    ("SELECT *, dp_count(*) FROM visits", "RefusedStatementError", "*:"),
    ("SELECT visits.*, dp_count(*) FROM visits", "RefusedStatementError", "*:"),
    ("SELECT COLUMNS(*), dp_count(*) FROM visits", "RefusedStatementError", "COLUMNS(...):"),
]
