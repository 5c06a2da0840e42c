"""A table of visits, views of it, and exact twins of the dp_ functions."""

import duckdb

TABLE = """
    CREATE TABLE visits AS SELECT
        i % 50 AS user_id,
        ['Rome', 'Oslo', 'Bonn'][1 + i % 3] AS city,
        CASE WHEN i % 17 > 0 THEN 20 + i % 40 END AS age,
        (i % 32) * 1000.0::DOUBLE AS income,
        CASE WHEN i % 10 = 3 THEN 'n/a' ELSE (i % 10)::VARCHAR END AS note,
        DATE '2024-01-01' + (i % 180)::INTEGER AS day,
        i % 4 = 0 AS vip,
        ['a_b', 'b_a'][1 + i % 2] AS "Home town",
        [i % 3, i % 5] AS tags,
        {'zip': 'Z' || i % 4, 'flat': i % 9} AS place
    FROM range(600) r(i)
"""
VIEWS = """
    CREATE VIEW adults AS SELECT city AS c, age / 2 AS half, user_id AS person FROM visits
        WHERE age >= 21 AND city IN ('Rome', 'Oslo');
    CREATE VIEW romans AS WITH r AS (SELECT * EXCLUDE (income) FROM visits WHERE city LIKE 'R%')
        SELECT * FROM r;
    CREATE VIEW joined AS SELECT v.age FROM visits v JOIN adults a ON v.user_id = a.person;
    CREATE VIEW counted AS SELECT city, count(*) AS n FROM visits GROUP BY city;
    CREATE VIEW from_file AS SELECT * FROM range(5);
    CREATE MACRO my_macro(x) AS x + 1;
    CREATE TABLE kept (n BIGINT);
"""
OTHERS = """
    CREATE MACRO dp_count() AS count(*);
    CREATE VIEW private AS SELECT dp_count() AS n FROM visits;
"""
EXACT = """
    CREATE MACRO dp_count() AS count(*), (x) AS count(x), (x, e) AS count(x);
    CREATE MACRO dp_sum(x) AS sum(x), (x, e) AS sum(x), (x, l, h) AS sum(x);
    CREATE MACRO dp_mean(x) AS avg(x), (x, e) AS avg(x), (x, l, h) AS avg(x),
        (x, l, h, e) AS avg(x);
    CREATE MACRO dp_avg(x, l, h) AS avg(x);
    CREATE MACRO dp_var(x, l, h) AS var_pop(x);
    CREATE MACRO dp_stddev(x, l, h) AS stddev_pop(x);
    CREATE MACRO dp_median(x) AS quantile_disc(x, 0.5);
    CREATE MACRO dp_quantile(x, q) AS quantile_disc(x, q);
    CREATE MACRO dp_quantiles(x, q) AS quantile_disc(x, q);
    CREATE MACRO dp_count_interval() AS {'value': count(*), 'low': count(*), 'high': count(*)};
    CREATE MACRO dp_mean_interval(x, l, h) AS {'value': avg(x), 'low': avg(x), 'high': avg(x)};
    CREATE MACRO dp_keep(d) AS true;
"""


def make_visits(rows: str = "", more: str = "") -> duckdb.DuckDBPyConnection:
    """Make a connection with the table and its views. `rows` is a clause on the table's rows."""
    connection = duckdb.connect()
    connection.execute(f"{TABLE} {rows}; {VIEWS}; {more}")
    return connection
