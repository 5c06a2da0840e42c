"""Statements that are refused: statements that are no plain query.

Each with the error and how its message begins.
"""

REFUSED = [
    (
        "SELECT dp_count(*) FROM visits; SELECT dp_count(*) FROM visits",
        "RefusedStatementError",
        "several statements in one text:",
    ),
    (
        "SELECT dp_count(*) FROM visits; DROP TABLE visits",
        "RefusedStatementError",
        "several statements in one text:",
    ),
    (
        "EXPLAIN ANALYZE SELECT dp_count(*) FROM visits",
        "RefusedStatementError",
        "ANALYZE as a statement:",
    ),
    ("PRAGMA show_tables", "RefusedStatementError", "PRAGMA as a statement:"),
    ("SET threads = 1", "RefusedStatementError", "SET as a statement:"),
    ("RESET threads", "RefusedStatementError", "RESET as a statement:"),
    (
        "COPY (SELECT dp_count(*) FROM visits) TO 'out.csv'",
        "RefusedStatementError",
        "COPY as a statement:",
    ),
    (
        "CREATE TABLE visits AS SELECT dp_count(*) AS n FROM visits",
        "RefusedStatementError",
        "a table that the statement reads as the target:",
    ),
    (
        "CREATE OR REPLACE TABLE visits AS SELECT dp_count(*) AS n FROM visits",
        "RefusedStatementError",
        "a table that the statement reads as the target:",
    ),
    ("INSERT INTO kept SELECT age FROM visits", "RefusedStatementError", "INSERT:"),
    ("INSERT INTO kept SELECT dp_count(*) AS n FROM visits", "RefusedStatementError", "INSERT:"),
    (
        "INSERT INTO kept (nothing) SELECT dp_count(*) FROM visits",
        "RefusedStatementError",
        "INSERT:",
    ),
    (
        "SELECT dp_count(*) INTO x FROM visits",
        "RefusedStatementError",
        "the statement can't be read at line 1, column 20",
    ),
    (
        "SELECT dp_count(* FROM visits",
        "RefusedStatementError",
        ("the statement can't be read at line 1, column 19"),
    ),
]
