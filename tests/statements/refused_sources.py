"""Statements that are refused: relations that are not one, CTEs and views.

Each with its error, if it is no `RefusedStatementError`, and how its message begins.
"""

REFUSED = [
    ("SELECT dp_count(*) FROM visits, visits v2", "a join of protected rows:"),
    ("SELECT dp_count(*) FROM visits CROSS JOIN range(50)", "a table function:"),
    (
        "SELECT dp_count(*) FROM visits v ASOF JOIN adults a ON v.age >= a.half",
        "a window of protected rows:",
    ),
    ("SELECT dp_count(*) FROM visits, generate_series(1, 50)", "a table function:"),
    ("SELECT dp_count(*) FROM visits, unnest(tags)", "UNNEST:"),
    (
        "SELECT dp_count(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits)",
        "UNION ALL of protected rows:",
    ),
    ("SELECT dp_count(*) FROM visits TABLESAMPLE 10%", "SAMPLE:"),
    ("SELECT dp_count(*) FROM visits USING SAMPLE 10 ROWS", "SAMPLE:"),
    (
        "SELECT dp_count(*) FROM visits PIVOT (sum(age) FOR vip IN (true, false))",
        "PIVOT and UNPIVOT:",
    ),
    ("SELECT dp_count(*) FROM visits UNPIVOT (v FOR k IN (age, user_id))", "PIVOT and UNPIVOT:"),
    ("SELECT dp_count(*) FROM unnest([1, 2])", "UNNEST:"),
    ("SELECT dp_count(*) FROM 'people.parquet'", "'people.parquet' as a table:"),
    ('SELECT dp_count(*) FROM "folder/people.csv"', "'folder/people.csv' as a table:"),
    ("SELECT dp_count(*) FROM nowhere", "there is no table or view 'nowhere'"),
    ("SELECT dp_count(*) FROM main.nowhere", "there is no table or view 'main.nowhere'"),
    ("SELECT dp_count(*) FROM other.main.visits", "there is no table or view 'other.main.visits'"),
    (
        "SELECT dp_count(*) FROM joined",
        "in the view 'memory.main.joined': a join of protected rows:",
    ),
    (
        "SELECT dp_count(*) FROM counted",
        "in the view 'memory.main.counted': GROUP BY of protected rows:",
    ),
    ("SELECT dp_count(*) FROM from_file", "in the view 'memory.main.from_file': a table function:"),
    ("SELECT dp_count(*) FROM private", "in the view 'memory.main.private': dp_count(...) here:"),
]
