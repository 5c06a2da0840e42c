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
        "SELECT dp_count(*) FROM visits CROSS JOIN range(50)",
        "RefusedStatementError",
        "a table function:",
    ),
    (
        "SELECT dp_count(*) FROM visits v ASOF JOIN adults a ON v.age >= a.half",
        "RefusedStatementError",
        "a window of protected rows:",
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
    ("SELECT dp_count(*) FROM unnest([1, 2])", "RefusedStatementError", "UNNEST:"),
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
