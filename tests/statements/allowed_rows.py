"""Statements that are allowed: conditions, expressions and subqueries over single rows.

Each with the questions it asks, its group keys and its cost (epsilon, delta).
"""

COUNTS = [
    "SELECT dp_count(*) AS n FROM visits WHERE age BETWEEN 30 AND 40 AND NOT vip",
    "SELECT dp_count(*) AS n FROM visits WHERE city IN ('Rome', 'Oslo') OR city IS NULL",
    (
        "SELECT dp_count(*) AS n FROM visits WHERE city LIKE 'R%' AND city NOT "
        "ILIKE '%x%' AND \"Home town\" NOT LIKE 'a!_%' ESCAPE '!'"
    ),
    (
        "SELECT dp_count(*) AS n FROM visits WHERE day >= DATE '2024-03-01' AND "
        "day < DATE '2024-03-01' + INTERVAL '2' MONTH"
    ),
    (
        "SELECT dp_count(*) AS n FROM visits WHERE NOT ((age = 30) IS TRUE) AND "
        "age IS NOT NULL AND vip IS NOT FALSE"
    ),
    (
        "SELECT dp_count(*) AS n FROM visits WHERE (age + 1) * 2 - -3 > 70 OR age "
        "% 7 = 0 AND vip OR -age ** 2 < -2000"
    ),
    (
        "SELECT dp_count(*) AS n FROM visits WHERE age IS DISTINCT FROM 30 AND "
        "coalesce(age, 0) <> 31 AND nullif(age, 32) IS NOT NULL"
    ),
    (
        "SELECT dp_count(*) AS n FROM visits WHERE regexp_matches(city, '^[RO]') "
        "AND length(trim(city)) = 4 AND city ~ 'R?o.*' AND city SIMILAR TO "
        "'[A-Z][a-z]+'"
    ),
    (
        "SELECT dp_count(*) AS n FROM visits WHERE substring(city FROM 2 FOR 1) = "
        "'o' AND position('s' IN city) > 1 AND trim(BOTH 'R' FROM city) != 'ome' "
        "AND city[1] = 'O'"
    ),
    "WITH visits AS (SELECT * FROM visits WHERE vip) SELECT dp_count(*) AS n FROM visits",
    (
        "SELECT dp_count(*) AS n FROM (WITH c AS (SELECT age FROM visits) SELECT "
        "age + 1 AS older FROM c WHERE older > 40)"
    ),
    "SELECT dp_count(*) AS n FROM ((SELECT * FROM visits))",
    "SELECT dp_count(*) AS n FROM romans WHERE age > 30",
    "SELECT dp_count(*) AS n FROM visits WHERE md5(city) LIKE '%' AND hash(user_id) % 2 = 0",
    'SELECT "dp_count"(*) FROM visits',
    "WITH RECURSIVE c AS (SELECT age FROM visits) SELECT dp_count(*) FROM c",
    "SELECT dp_count(*) FROM visits WHERE NOT age = 30 IS TRUE",
    "SELECT dp_count(*) FROM visits WINDOW w AS (ORDER BY age)",
    "(SELECT dp_count(*) FROM visits)",
]
"""Statements that count the rows of the whole table."""

ALLOWED = [
    {
        "query": "SELECT dp_mean(age, -1 * 10, 10 * 10 + 20, 1 / 2) AS m FROM visits",
        "asks": ["mean('age', bounds=(-10.0, 120.0))"],
        "keys": [],
        "cost": (0.5, 0.0),
    },
    {
        "query": (
            "SELECT dp_mean(CASE WHEN vip THEN income END, 0, 100000) AS vip_income FROM visits"
        ),
        "asks": ["mean('CASE  WHEN (vip) THEN (income) END', bounds=(0.0, 100000.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_mean(TRY_CAST(note AS DOUBLE), 0, 10) AS note, "
            "dp_count(TRY_CAST(note AS INTEGER)) AS notes FROM visits"
        ),
        "asks": [
            "mean('TRY_CAST(note AS DOUBLE)', bounds=(0.0, 10.0))",
            "count('TRY_CAST(note AS INTEGER)')",
        ],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_mean(age::DOUBLE / 2, 0, 50) AS half, dp_mean(CAST(income AS "
            "DECIMAL(9, 2)), 0, 100000) AS m FROM visits"
        ),
        "asks": [
            "mean('(CAST(age AS DOUBLE) / 2)', bounds=(0.0, 50.0))",
            "mean('CAST(income AS DECIMAL(9, 2))', bounds=(0.0, 100000.0))",
        ],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_mean(income / 1000, 0, 100) AS k, dp_sum(greatest(age, 30), 0, "
            "100) AS s, dp_mean(if(vip, 1, 0), 0, 1) AS share FROM visits"
        ),
        "asks": [
            "mean('(income / 1000)', bounds=(0.0, 100.0))",
            "sum('greatest(age, 30)', bounds=(0.0, 100.0))",
            "mean('if(vip, 1, 0)', bounds=(0.0, 1.0))",
        ],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_sum(v.place.flat, 0, 100) AS s, dp_sum(list_sum(tags), 0, 100) "
            "AS t FROM visits v"
        ),
        "asks": [
            "sum('v·place·flat', bounds=(0.0, 100.0))",
            "sum('list_sum(tags)', bounds=(0.0, 100.0))",
        ],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "WITH older AS (SELECT *, age / 10 AS decades FROM visits WHERE age > 30) "
            "SELECT dp_mean(decades, 0, 10) AS m FROM older"
        ),
        "asks": ["mean('decades', bounds=(0.0, 10.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": (
            "SELECT dp_mean(x, 0, 100) AS m FROM (SELECT * EXCLUDE (age, note) REPLACE "
            "(income / 1000 AS income), income AS y, age AS x FROM visits)"
        ),
        "asks": ["mean('x', bounds=(0.0, 100.0))"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT city, dp_count(*) FROM visits GROUP BY city FETCH FIRST 3 ROWS ONLY",
        "asks": ["count()"],
        "keys": ["city"],
        "cost": (1.0, 0.001),
    },
    {
        "query": 'SELECT dp_count("upper"(city)) FROM visits',
        "asks": ["count('upper(city)')"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_count(INTERVAL (age) DAY) FROM visits",
        "asks": ["count('to_days(CAST(trunc(CAST(age AS DOUBLE)) AS INTEGER))')"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_count(E'\\x41') FROM visits",
        "asks": ["count(\"'A'\")"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    {
        "query": "SELECT dp_count(*) FROM visits GROUP BY (city, vip)",
        "asks": ["count()"],
        "keys": ["city", "vip"],
        "cost": (1.0, 0.001),
    },
    {
        "query": "SELECT dp_count(day AT TIME ZONE 'Europe/Berlin') AS n FROM visits",
        "asks": ["count(\"timezone('Europe/Berlin', day)\")"],
        "keys": [],
        "cost": (1.0, 0.0),
    },
    *({"query": query, "asks": ["count()"], "keys": [], "cost": (1.0, 0.0)} for query in COUNTS),
]
