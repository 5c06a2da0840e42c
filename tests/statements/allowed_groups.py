"""Statements that are allowed: answers by group.

Each with the questions it asks, its group keys and its cost (epsilon, delta).
"""

ALLOWED = [
    {
        "query": "SELECT city, dp_count(*) AS n FROM visits GROUP BY city",
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT city, dp_mean(age, 0, 100) AS m FROM visits GROUP BY 1",
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT city, vip, dp_count(*) AS n FROM visits GROUP BY ALL",
        "asks": ["count()"],
        "keys": ["city", "vip"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT city, dp_mean(age, 0, 100) FROM visits GROUP BY city ORDER BY 2 DESC",
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT dp_count(*) AS n, city FROM visits GROUP BY city ORDER BY n DESC, city LIMIT 2"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, dp_count(*) AS n FROM visits GROUP BY city ORDER BY city "
            "DESC LIMIT 1 OFFSET 1"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT city, vip, dp_count(*) AS n FROM visits GROUP BY city, vip ORDER BY ALL",
        "asks": ["count()"],
        "keys": ["city", "vip"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT upper(city) AS town, dp_count(*) AS n FROM visits GROUP BY town",
        "asks": ["count()"],
        "keys": ["town"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT upper(city), dp_count(*) AS n FROM visits GROUP BY upper(city) "
            "ORDER BY upper(city) DESC"
        ),
        "asks": ["count()"],
        "keys": ["upper(city)"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT upper(city) || '!' AS loud, dp_count(*) AS n FROM visits GROUP BY city",
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city AS town, dp_count(*) AS n FROM visits GROUP BY city HAVING "
            "dp_count(*) > 100 AND town <> 'Oslo'"
        ),
        "asks": ["count()"],
        "keys": ["town"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, dp_count(*) AS n FROM visits GROUP BY city HAVING "
            "dp_keep(0.001) AND n > 10"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, dp_mean(age, 0, 100) AS m, m * 2 AS twice, twice + 1 AS more "
            "FROM visits GROUP BY city"
        ),
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, round(dp_sum(income, 0, 100000) / dp_count(*), 2) AS mean "
            "FROM visits GROUP BY city"
        ),
        "asks": ["sum('income', bounds=(0.0, 100000.0))", "count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT city, CASE WHEN dp_count(*) > 150 THEN 'many' ELSE 'few' END AS "
            "size FROM visits GROUP BY city"
        ),
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT year(day) AS y, month(day) AS m, dp_count(*) AS n FROM visits "
            "GROUP BY y, m ORDER BY y, m"
        ),
        "asks": ["count()"],
        "keys": ["y", "m"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT date_trunc('month', day) AS month, dp_count(*) AS n FROM visits "
            "GROUP BY month ORDER BY month"
        ),
        "asks": ["count()"],
        "keys": ["month"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT EXTRACT(quarter FROM day) AS q, dp_count(*) AS n FROM visits GROUP BY q",
        "asks": ["count()"],
        "keys": ["q"],
        "cost": (1.0, 0.001),
    },
    {
        "query": (
            "SELECT age // 10 * 10 AS decade, dp_count(*) AS n FROM visits GROUP BY "
            "decade ORDER BY decade NULLS FIRST"
        ),
        "asks": ["count()"],
        "keys": ["decade"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT age IS NULL AS unknown, dp_count(*) AS n FROM visits GROUP BY unknown",
        "asks": ["count()"],
        "keys": ["unknown"],
        "cost": (1.0, 0.001),
    },
]
