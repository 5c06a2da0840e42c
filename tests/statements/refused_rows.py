"""Statements that are refused: expressions over several rows, groupings, rows shown as they are.

Each with its error, if it is no `RefusedStatementError`, and how its message begins.
"""

REFUSED = [
    (
        "SELECT dp_count(*) FROM visits WHERE age > ALL (SELECT half FROM adults)",
        "such a subquery in an expression:",
    ),
    ("SELECT dp_mean(row_number() OVER (), 0, 100) FROM visits", "a window function (OVER):"),
    (
        "SELECT dp_mean(lag(age) OVER (ORDER BY day), 0, 100) FROM visits",
        "a window function (OVER):",
    ),
    ("SELECT DISTINCT city, dp_count(*) FROM visits GROUP BY city", "DISTINCT:"),
    ("SELECT DISTINCT ON (city) city, dp_count(*) FROM visits GROUP BY city", "DISTINCT:"),
    ("SELECT dp_median() WITHIN GROUP (ORDER BY age) FROM visits", "the statement can't be read:"),
    (
        "SELECT dp_mean(age IGNORE NULLS, 0, 100) FROM visits",
        "the statement can't be read at line 1, column 32",
    ),
    ("SELECT dp_mean(max(age), 0, 100) FROM visits", "max(...):"),
    (
        "SELECT dp_mean(list_sum(list_transform(tags, t -> t + 1)), 0, 100) FROM visits",
        "list_transform(...):",
    ),
    ("SELECT dp_mean(unnest(tags), 0, 100) FROM visits", "unnest(...):"),
    (
        "SELECT city, dp_median(income) FROM visits GROUP BY ROLLUP (city)",
        "median('income') in ROLLUP, CUBE or GROUPING SETS:",
    ),
    (
        "SELECT city, dp_count(*), dp_mean(age) FROM visits GROUP BY CUBE (city, vip)",
        "mean('age') in ROLLUP, CUBE or GROUPING SETS:",
    ),
    ("SELECT dp_count(*) FROM visits GROUP BY dp_count(*)", "dp_count(...) here:"),
    ("SELECT dp_count(*) AS n FROM visits GROUP BY n", "dp_count(...) here:"),
    ("SELECT dp_count(*) FROM visits GROUP BY 7", "place 7 in GROUP BY or ORDER BY:"),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY (SELECT 1)",
        "such a subquery in an expression:",
    ),
    ("SELECT city, dp_count(*) FROM visits GROUP BY random()", "random(...):"),
    ("SELECT city, age, dp_count(*) FROM visits GROUP BY city", 'column "age" outside a dp_ call:'),
    ("SELECT city, dp_count(*) FROM visits", 'column "city" outside a dp_ call:'),
    ("SELECT age FROM visits", 'column "age" outside a dp_ call:'),
    ("SELECT * FROM visits", "*:"),
    ("SELECT *, dp_count(*) FROM visits", "*:"),
    ("SELECT visits.*, dp_count(*) FROM visits", "*:"),
    ("SELECT COLUMNS(*), dp_count(*) FROM visits", "COLUMNS(...):"),
]
