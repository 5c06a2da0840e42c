"""Statements that are refused: relations that are not one, CTEs and views.

Each with the error and how its message begins.
"""

REFUSED = [
    (
        "SELECT dp_count(*) FROM visits, visits v2",
        "RefusedStatementError",
        "a join of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM visits JOIN visits v2 USING (user_id)",
        "RefusedStatementError",
        "a join of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM visits v LEFT JOIN adults a ON v.user_id = a.person",
        "RefusedStatementError",
        "a join of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM visits CROSS JOIN range(50)",
        "RefusedStatementError",
        "a table function:",
    ),
    (
        "SELECT dp_count(*) FROM visits NATURAL JOIN adults",
        "RefusedStatementError",
        "a NATURAL JOIN of tables without a common column:",
    ),
    (
        "SELECT dp_count(*) FROM visits POSITIONAL JOIN adults",
        "RefusedStatementError",
        "POSITIONAL JOIN:",
    ),
    (
        "SELECT dp_count(*) FROM visits v ASOF JOIN adults a ON v.age >= a.half",
        "RefusedStatementError",
        "a window of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM visits SEMI JOIN adults ON visits.user_id = adults.person",
        "RefusedStatementError",
        "a join of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM visits, generate_series(1, 50)",
        "RefusedStatementError",
        "a table function:",
    ),
    ("SELECT dp_count(*) FROM visits, unnest(tags)", "RefusedStatementError", "UNNEST:"),
    (
        "SELECT dp_count(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits)",
        "RefusedStatementError",
        "UNION ALL of protected rows:",
    ),
    ("SELECT dp_count(*) FROM visits TABLESAMPLE 10%", "RefusedStatementError", "SAMPLE:"),
    ("SELECT dp_count(*) FROM visits USING SAMPLE 10 ROWS", "RefusedStatementError", "SAMPLE:"),
    (
        "SELECT dp_count(*) FROM visits PIVOT (sum(age) FOR vip IN (true, false))",
        "RefusedStatementError",
        "PIVOT and UNPIVOT:",
    ),
    (
        "SELECT dp_count(*) FROM visits UNPIVOT (v FOR k IN (age, user_id))",
        "RefusedStatementError",
        "PIVOT and UNPIVOT:",
    ),
    ("PIVOT visits ON city USING sum(age)", "RefusedStatementError", "PIVOT and UNPIVOT:"),
    ("SELECT dp_count(*) FROM range(10)", "RefusedStatementError", "a table function:"),
    (
        "SELECT dp_count(*) FROM generate_series(1, 10)",
        "RefusedStatementError",
        "a table function:",
    ),
    ("SELECT dp_count(*) FROM unnest([1, 2])", "RefusedStatementError", "UNNEST:"),
    (
        "SELECT dp_count(*) FROM read_csv('people.csv')",
        "RefusedStatementError",
        "a table function:",
    ),
    (
        "SELECT dp_count(*) FROM read_parquet('people.parquet')",
        "RefusedStatementError",
        "a table function:",
    ),
    (
        "SELECT dp_count(*) FROM 'people.parquet'",
        "RefusedStatementError",
        "'people.parquet' as a table:",
    ),
    (
        'SELECT dp_count(*) FROM "folder/people.csv"',
        "RefusedStatementError",
        "'folder/people.csv' as a table:",
    ),
    ("SELECT dp_count(*) FROM duckdb_tables()", "RefusedStatementError", "a table function:"),
    ("SELECT dp_count(*) FROM query('SELECT 1')", "RefusedStatementError", "a table function:"),
    ("SELECT dp_count(*) FROM query_table('visits')", "RefusedStatementError", "a table function:"),
    (
        "SELECT dp_count(*) FROM nowhere",
        "RefusedStatementError",
        "there is no table or view 'nowhere'",
    ),
    (
        "SELECT dp_count(*) FROM main.nowhere",
        "RefusedStatementError",
        ("there is no table or view 'main.nowhere'"),
    ),
    (
        "SELECT dp_count(*) FROM other.main.visits",
        "RefusedStatementError",
        ("there is no table or view 'other.main.visits'"),
    ),
    (
        "SELECT dp_count(*) FROM duckdb_settings",
        "RefusedStatementError",
        ("there is no table or view 'duckdb_settings'"),
    ),
    (
        "SELECT dp_count(*) FROM information_schema.tables",
        "RefusedStatementError",
        ("there is no table or view 'information_schema.tables'"),
    ),
    (
        "SELECT dp_count(*) FROM python_frame",
        "RefusedStatementError",
        ("there is no table or view 'python_frame'"),
    ),
    (
        "SELECT dp_count(*) FROM visits AT (VERSION => 3)",
        "RefusedStatementError",
        "AT (VERSION ...):",
    ),
    ("SELECT dp_count(*)", "RefusedStatementError", "a SELECT without FROM:"),
    (
        "SELECT dp_count(*) FROM registered",
        "RefusedStatementError",
        ("in the view 'temp.main.registered': a view without a definition of its own:"),
    ),
    (
        "SELECT dp_count(*) FROM joined",
        "RefusedStatementError",
        "in the view 'memory.main.joined': a join of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM counted",
        "RefusedStatementError",
        "in the view 'memory.main.counted': GROUP BY of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM from_file",
        "RefusedStatementError",
        ("in the view 'memory.main.from_file': a table function:"),
    ),
    (
        "SELECT dp_count(*) FROM private",
        "RefusedStatementError",
        ("in the view 'memory.main.private': dp_count(...) here:"),
    ),
]
