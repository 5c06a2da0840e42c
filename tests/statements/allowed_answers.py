"""Statements that are allowed: answers about the whole table.

Each with the questions it asks, its group keys and its cost (epsilon, delta).
"""

ALLOWED = [
    {
        "query": "SELECT dp_count(*) FROM visits",
        "asks": ["count()"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_count() AS n FROM visits",
        "asks": ["count()"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_count(age) AS n, dp_count(*) AS rows FROM visits",
        "asks": ["count('age')", "count()"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": 'select DP_COUNT(*) as "Rows" from VISITS',
        "asks": ["count()"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_mean(age, 0, 100) FROM visits",
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_avg(age, 0, 100) AS a, dp_mean(age, 0, 100) AS b FROM visits",
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_sum(income, 0, 100000) AS total FROM visits",
        "asks": ["sum('income', bounds=(0.0, 100000.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_var(age, 0, 100) AS v, dp_stddev(age, 0, 100) AS s FROM visits",
        "asks": ["var('age', bounds=(0.0, 100.0))", "std('age', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_median(age) AS m, dp_quantile(age, 0.5) AS same, "
            "dp_quantile(age, 0.25) AS q FROM visits"
        ),
        "asks": ["median('age')", "quantile('age', 0.25)"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_quantiles(age, [0.25, 0.75]) AS q FROM visits",
        "asks": ["quantiles('age', [0.25, 0.75])"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_quantiles(age, [0.25, 0.75])[2] AS upper_quartile FROM visits",
        "asks": ["quantiles('age', [0.25, 0.75])"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_sum(income) AS total FROM visits",
        "asks": ["sum('income')"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_mean(income, 0.25) AS m, dp_count(*) AS n FROM visits",
        "asks": ["mean('income')", "count()"],
        "keys": [],
        "cost": (1.25, 0.0),
    },
    {
        "query": "SELECT dp_mean_interval(age, 0, 100) AS age FROM visits",
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT (dp_mean_interval(age, 0, 100)).low AS low, dp_mean(age, 0, 100) "
            "AS age, (dp_mean_interval(age, 0, 100)).high AS high FROM visits"
        ),
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_count_interval(*).value AS n FROM visits",
        "asks": ["count()"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "FROM visits SELECT dp_count(*) AS n",
        "asks": ["count()"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_count(age > 30) AS n, dp_mean((age > 30)::INTEGER, 0, 1) AS "
            "share FROM visits"
        ),
        "asks": ["count('(age > 30)')", "mean('CAST((age > 30) AS INTEGER)', bounds=(0.0, 1.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_mean(age, 0, 100, epsilon => 1) AS m FROM visits",
        "asks": ["mean('age', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
]
