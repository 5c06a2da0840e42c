"""Statements that are allowed: more answers by group, from views, CTEs and subqueries.

Each with the questions it asks, its group keys and its cost (epsilon, delta).
"""

ALLOWED = [
    {
        "query": (
            "SELECT CASE WHEN age < 30 THEN 'young' WHEN age >= 50 THEN 'old' ELSE "
            "'other' END AS band, dp_mean(income, 0, 100000) AS m FROM visits GROUP BY "
            "band"
        ),
        "asks": ["mean('income', bounds=(0.0, 100000.0))"],
        "keys": ["band"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT v.city, dp_count(*) AS n FROM visits AS v WHERE v.vip GROUP BY v.city",
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT visits.city, dp_count(*) AS n FROM main.visits WHERE visits.age > "
            "30 GROUP BY visits.city"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": 'SELECT "Home town", dp_count(*) AS n FROM visits GROUP BY "Home town"',
        "asks": ["count()"],
        "keys": ["Home town"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT place.zip AS zip, dp_count(*) AS n FROM visits GROUP BY zip",
        "asks": ["count()"],
        "keys": ["zip"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT vip + 1 AS class, dp_count(*) AS n FROM (SELECT vip::INTEGER AS "
            "vip FROM visits) GROUP BY class"
        ),
        "asks": ["count()"],
        "keys": ["class"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, dp_count(*) AS n FROM (SELECT * FROM visits WHERE age > 30) "
            "AS older WHERE older.vip GROUP BY city"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT town, dp_mean(k, 0, 100) AS m FROM (SELECT city AS town, income / "
            "1000 AS k FROM visits) s GROUP BY town"
        ),
        "asks": ["mean('k', bounds=(0.0, 100.0))"],
        "keys": ["town"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "WITH a AS (SELECT city, age FROM visits WHERE vip), b AS (SELECT city AS "
            "c, age FROM a WHERE age > 25) SELECT c, dp_count(*) AS n FROM b GROUP BY "
            "c"
        ),
        "asks": ["count()"],
        "keys": ["c"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT c, dp_mean(half, 0, 100) AS m FROM adults GROUP BY c ORDER BY c",
        "asks": ["mean('half', bounds=(0.0, 100.0))"],
        "keys": ["c"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT strftime(day, '%Y-%m') AS month, dp_sum(age, 0, 100) AS s FROM "
            "visits WHERE day IS NOT NULL GROUP BY ALL ORDER BY month"
        ),
        "asks": ["sum('age', bounds=(0.0, 100.0))"],
        "keys": ["month"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, dp_count(*) AS n FROM visits GROUP BY city HAVING n BETWEEN "
            "1 AND 100000 AND (city = 'Rome' OR n > 5) ORDER BY n % 7, lower(city)"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
]
