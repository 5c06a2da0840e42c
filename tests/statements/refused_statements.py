"""Statements that are refused: statements that are no plain query.

Each with its error, if it is no `RefusedStatementError`, and how its message begins.
"""

REFUSED = [
    (
        "SELECT dp_count(*) FROM visits; SELECT dp_count(*) FROM visits",
        "several statements in one text:",
    ),
    ("SELECT dp_count(*) FROM visits; DROP TABLE visits", "several statements in one text:"),
    ("EXPLAIN ANALYZE SELECT dp_count(*) FROM visits", "ANALYZE as a statement:"),
    ("PRAGMA show_tables", "PRAGMA as a statement:"),
    ("SET threads = 1", "SET as a statement:"),
    ("RESET threads", "RESET as a statement:"),
    ("COPY (SELECT dp_count(*) FROM visits) TO 'out.csv'", "COPY as a statement:"),
    (
        "CREATE TABLE visits AS SELECT dp_count(*) AS n FROM visits",
        "a table that the statement reads as the target:",
    ),
    (
        "CREATE OR REPLACE TABLE visits AS SELECT dp_count(*) AS n FROM visits",
        "a table that the statement reads as the target:",
    ),
    ("INSERT INTO kept SELECT age FROM visits", "INSERT:"),
    ("INSERT INTO kept SELECT dp_count(*) AS n FROM visits", "INSERT:"),
    ("INSERT INTO kept (nothing) SELECT dp_count(*) FROM visits", "INSERT:"),
    ("SELECT dp_count(*) INTO x FROM visits", "the statement can't be read at line 1, column 20"),
    ("SELECT dp_count(* FROM visits", "the statement can't be read at line 1, column 19"),
]
