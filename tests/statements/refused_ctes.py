"""Statements that are refused: CTEs and subqueries that are more than rows one by one.

Each with its error, if it is no `RefusedStatementError`, and how its message begins.
"""

REFUSED = [
    (
        "WITH c AS (SELECT * FROM visits), c AS (SELECT * FROM adults) SELECT dp_count(*) FROM c",
        "the statement can't be read:",
    ),
    (
        "WITH c AS (SELECT age FROM visits LIMIT 5) SELECT dp_count(*) FROM c",
        "LIMIT inside a subquery or CTE:",
    ),
    (
        (
            "WITH c AS (SELECT city, avg(age) AS a FROM visits GROUP BY city) "
            "SELECT dp_count(*) FROM c"
        ),
        "a dp_ call over released answers:",
    ),
    (
        "WITH c AS (SELECT max(age) AS a FROM visits) SELECT dp_count(*) FROM c",
        "a dp_ call over released answers:",
    ),
    (
        "WITH c AS (SELECT unnest(tags) AS tag FROM visits) SELECT dp_count(*) FROM c",
        "unnest(...):",
    ),
    ("SELECT dp_count(*) FROM (SELECT COLUMNS(*) FROM visits)", "COLUMNS(...):"),
    (
        "SELECT dp_count(*) FROM (SELECT * EXCLUDE (nothing) FROM visits)",
        "MissingColumnError",
        "no table in FROM has a column 'nothing'",
    ),
    ("SELECT dp_count(*) FROM (FROM visits LIMIT 3)", "LIMIT inside a subquery or CTE:"),
]
