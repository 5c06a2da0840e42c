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
    ("SUMMARIZE visits", "RefusedStatementError", "SUMMARIZE as a statement:"),
    ("PRAGMA show_tables", "RefusedStatementError", "PRAGMA as a statement:"),
    ("PRAGMA storage_info('visits')", "RefusedStatementError", "PRAGMA as a statement:"),
    ("SET threads = 1", "RefusedStatementError", "SET as a statement:"),
    ("RESET threads", "RefusedStatementError", "RESET as a statement:"),
    (
        "COPY (SELECT dp_count(*) FROM visits) TO 'out.csv'",
        "RefusedStatementError",
        "COPY as a statement:",
    ),
    ("COPY visits TO 'out.csv'", "RefusedStatementError", "COPY as a statement:"),
    ("EXPORT DATABASE 'out'", "RefusedStatementError", "EXPORT as a statement:"),
    ("ATTACH 'other.db'", "RefusedStatementError", "ATTACH as a statement:"),
    ("DETACH memory", "RefusedStatementError", "DETACH as a statement:"),
    ("USE memory", "RefusedStatementError", "USE as a statement:"),
    ("INSTALL httpfs", "RefusedStatementError", "INSTALL as a statement:"),
    ("LOAD httpfs", "RefusedStatementError", "LOAD as a statement:"),
    ("CALL pragma_version()", "RefusedStatementError", "CALL as a statement:"),
    (
        "PREPARE p AS SELECT dp_count(*) FROM visits",
        "RefusedStatementError",
        "PREPARE as a statement:",
    ),
    ("EXECUTE p", "RefusedStatementError", "EXECUTE as a statement:"),
    (
        "CREATE VIEW v AS SELECT dp_count(*) FROM visits",
        "RefusedStatementError",
        "CREATE VIEW as a statement:",
    ),
    (
        "CREATE MACRO m() AS TABLE SELECT * FROM visits",
        "RefusedStatementError",
        "CREATE MACRO as a statement:",
    ),
    (
        "CREATE TABLE released (n INTEGER)",
        "RefusedStatementError",
        ("CREATE TABLE with column definitions:"),
    ),
    (
        "CREATE TABLE IF NOT EXISTS released AS SELECT dp_count(*) AS n FROM visits",
        "RefusedStatementError",
        "IF NOT EXISTS:",
    ),
    ("CREATE TABLE released AS SELECT * FROM visits", "RefusedStatementError", "*:"),
    ("CREATE TABLE released AS FROM visits", "RefusedStatementError", "*:"),
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
    (
        (
            "CREATE TABLE released AS SELECT dp_count(*) AS n FROM visits UNION ALL "
            "SELECT age FROM visits"
        ),
        "RefusedStatementError",
        "'visits' beside released answers:",
    ),
    (
        "CREATE TABLE kept AS SELECT dp_count(*) AS n FROM visits",
        "RefusedStatementError",
        "CREATE TABLE kept:",
    ),
    ("INSERT INTO kept SELECT age FROM visits", "RefusedStatementError", "INSERT:"),
    ("INSERT INTO kept SELECT dp_count(*) AS n FROM visits", "RefusedStatementError", "INSERT:"),
    (
        "INSERT INTO kept (nothing) SELECT dp_count(*) FROM visits",
        "RefusedStatementError",
        "INSERT:",
    ),
    (
        "INSERT INTO kept BY NAME SELECT dp_count(*) AS n FROM visits",
        "RefusedStatementError",
        "INSERT:",
    ),
    (
        "INSERT OR REPLACE INTO kept SELECT dp_count(*) FROM visits RETURNING *",
        "RefusedStatementError",
        "INSERT:",
    ),
    ("INSERT INTO kept VALUES (1)", "RefusedStatementError", "INSERT:"),
    (
        "WITH c AS (SELECT * FROM visits) INSERT INTO kept SELECT dp_count(*) FROM c",
        "RefusedStatementError",
        "INSERT:",
    ),
    ("DELETE FROM visits", "RefusedStatementError", "DELETE as a statement:"),
    ("UPDATE visits SET age = 1", "RefusedStatementError", "UPDATE as a statement:"),
    ("DROP TABLE visits", "RefusedStatementError", "DROP as a statement:"),
    ("TRUNCATE visits", "RefusedStatementError", "TRUNCATE as a statement:"),
    ("BEGIN", "RefusedStatementError", "BEGIN as a statement:"),
    ("VALUES (1)", "RefusedStatementError", "VALUES as a statement:"),
    ("TABLE visits", "RefusedStatementError", "TABLE as a statement:"),
    ("FROM visits", "RefusedStatementError", "*:"),
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
    (
        "SELECT dp_count(*) FROM visits WHERE",
        "RefusedStatementError",
        ("the statement can't be read at line 1, column 32"),
    ),
    ("nonsense", "RefusedStatementError", "NONSENSE as a statement:"),
    (";", "RefusedStatementError", "; as a statement:"),
    ("-- nothing", "RefusedStatementError", "there is no statement in the text"),
]
