"""An example of each rule of refusals, by its heading in docs/reference/refusals.md.

An example is SQL, the last statement of which is refused, or Python.
"""

EXAMPLES = {
    "Statements": {
        "no text": "dfp.sql(7, con=con)",
        "no statement": "-- nothing",
        "too long a text": "dfp.sql('SELECT 1' + 70_000 * ' ', con=con)",
        "NUL": "dfp.sql(\"SELECT dp_count(*) FROM visits WHERE note = 'a\\0b'\", con=con)",
        "nested": (
            "dfp.sql(f\"SELECT dp_count({20_000 * '('}age{20_000 * ')'}) FROM visits\", con=con)"
        ),
        "unreadable": "SELECT dp_count(* FROM visits",
        "the statement": "SELECT dp_median() WITHIN GROUP (ORDER BY age) FROM visits",
        "several statements": (
            "dfp.sql('SELECT dp_count(*) FROM visits; DROP TABLE visits', con=con)"
        ),
        "SUMMARIZE": "SUMMARIZE visits",
        "no query": "DELETE FROM visits",
        "INSERT": "INSERT INTO kept SELECT dp_count(*) FROM visits",
        "CREATE": "CREATE TABLE released (n INTEGER)",
        "IF NOT EXISTS": (
            "CREATE TABLE IF NOT EXISTS released AS SELECT dp_count(*) AS n FROM visits"
        ),
        "protected target": "CREATE TABLE visits AS SELECT dp_count(*) AS n FROM visits",
        "taken target": "CREATE TABLE kept AS SELECT dp_count(*) AS n FROM visits",
        "foreign key": (
            "CREATE TABLE above (n BIGINT PRIMARY KEY); CREATE TABLE below (n BIGINT REFERENCES "
            "above (n)); CREATE OR REPLACE TABLE above AS SELECT dp_count(*) AS n FROM visits"
        ),
        "no target": "CREATE TABLE nowhere.released AS SELECT dp_count(*) AS n FROM visits",
        "CREATE without con": (
            "dfp.sql('CREATE TABLE released AS SELECT dp_count(*) AS n FROM t', t=frame)"
        ),
        "SHOW_REF": "SELECT dp_count(*) FROM (SUMMARIZE visits)",
        "EMPTY": "SELECT dp_count(*)",
        "no dp_ call": "SELECT 1 AS one FROM visits",
        "VALUE_PARAMETER|named_param_map": "SELECT dp_mean(age, 0, $high) FROM visits",
        "unlisted": "SELECT dp_count(#1) FROM visits",
    },
    "FROM, subqueries and CTEs over one relation": {
        "no such table": "SELECT dp_count(*) FROM vists",
        "file as a table": "SELECT dp_count(*) FROM 'people.parquet'",
        "no frame": "dfp.sql('SELECT dp_count(*) FROM other', t=frame)",
        "a name with more than three parts": "SELECT dp_count(*) FROM a.b.c.visits",
        "second table": "SELECT dp_count(*) FROM visits JOIN kept ON n = age",
        "TABLE_FUNCTION": "SELECT dp_count(*) FROM range(10)",
        "unnest": "SELECT dp_count(*) FROM unnest([1, 2])",
        "EXPRESSION_LIST": "SELECT dp_count(*) FROM (VALUES (1), (2))",
        "PIVOT": "SELECT dp_count(*) FROM visits UNPIVOT (v FOR k IN (age, user_id))",
        "SET_OPERATION_NODE:UNION": "SELECT age FROM visits UNION SELECT age FROM visits",
        "SET_OPERATION_NODE:EXCEPT": "SELECT age FROM visits EXCEPT SELECT 1",
        "SET_OPERATION_NODE:INTERSECT": "SELECT age FROM visits INTERSECT SELECT 1",
        "RECURSIVE_CTE_NODE": (
            "WITH RECURSIVE c AS (SELECT age FROM visits UNION ALL SELECT age + 1 FROM c) SELECT "
            "dp_count(*) FROM c"
        ),
        "two CTEs of one name": (
            "WITH v AS (FROM visits) SELECT n FROM (WITH v AS (FROM v) SELECT dp_count(*) AS n "
            "FROM v)"
        ),
        "column_name_alias": "SELECT dp_count(*) FROM (SELECT age FROM visits) AS v(a, b)",
        "two columns in a subquery": "SELECT dp_count(*) FROM (SELECT age, age FROM visits)",
        "sample": "SELECT dp_count(*) FROM visits TABLESAMPLE 10%",
        "at_clause": "SELECT dp_count(*) FROM visits AT (VERSION => 3)",
        "having": "SELECT dp_count(*) FROM (SELECT 1 AS one FROM visits HAVING true)",
        "DISTINCT_MODIFIER": "SELECT DISTINCT city, dp_count(*) FROM visits GROUP BY city",
        "LIMIT_MODIFIER": "SELECT dp_count(*) FROM (FROM visits LIMIT 3)",
        "OFFSET": "SELECT dp_count(*) FROM (FROM visits OFFSET 3)",
        "ORDER_MODIFIER": "SELECT dp_count(*) FROM (FROM visits ORDER BY age)",
    },
    "Expressions of a row": {
        "SUBQUERY": "SELECT dp_count(*) FROM visits WHERE age > ALL (SELECT half FROM adults)",
        "SUBQUERY:EXISTS": "SELECT dp_count(EXISTS (SELECT 1 FROM adults)) FROM visits",
        "STAR:True": "SELECT dp_count(COLUMNS(*)) FROM visits",
        "LAMBDA": "SELECT dp_count(note -> '$.a') FROM visits",
        "COLLATE": "SELECT dp_count(note COLLATE NOCASE) FROM visits",
        "ARRAY_SLICE": "SELECT dp_count(tags[1:2]) FROM visits",
        "struct_pack()": "SELECT dp_count({'a': age}) FROM visits",
        "row()": "SELECT dp_count((age, note)) FROM visits",
        "path or separator": "SELECT dp_count(note ->> city) FROM visits",
        "schema|catalog": "SELECT main.dp_count(*) FROM visits",
        "ESCAPE": "SELECT dp_count(*) FROM visits WHERE note LIKE city ESCAPE '!'",
        "constant": "SELECT dp_count(*) FROM visits WHERE age > 'old'",
        "CAST": "SELECT dp_count(age::INTEGER[]) FROM visits",
        "aggregate": "SELECT dp_count(*) FROM visits WHERE age > max(age)",
        "changing": "SELECT dp_count(uuid()) FROM visits",
        "@current_time|@localtime": "SELECT dp_count(*) FROM visits WHERE current_time > city",
        "outside": "SELECT dp_count(error(note)) FROM visits",
        "@current_user|@session_user|@user|@current_role|@current_catalog|@current_schema": (
            "SELECT dp_count(*) FROM visits WHERE current_user = city"
        ),
        "unnest of a list": "SELECT dp_mean(unnest(tags), 0, 100) FROM visits",
        "no row function": "SELECT dp_count(my_macro(age)) FROM visits",
        "make_timestamp": "SELECT dp_count(make_timestamp(age)) FROM visits",
        "part of a date": "SELECT dp_count(date_trunc(city, day)) FROM visits",
        "format": "SELECT dp_count(strptime(note, city)) FROM visits",
        "format of dates": "SELECT dp_count(to_char(day, 'YYYY-Q')) FROM visits",
        "width": "SELECT dp_count(time_bucket(to_days(age), day)) FROM visits",
        "origin": "SELECT dp_count(time_bucket(INTERVAL '7' DAY, day, day)) FROM visits",
        "zone": "SELECT dp_count(day AT TIME ZONE city) FROM visits",
        "too long": "SELECT dp_count(replace(note, 'a', city)) FROM visits",
    },
    "dp_ calls, groups and answers": {
        "no such dp_ call": "SELECT dp_product(age) FROM visits",
        "dp_ call of a frame": "SELECT dp_regression(amount, age, user_id) FROM visits",
        "dp_ call here": "SELECT dp_count(*) FROM visits WHERE dp_count(*) > 5",
        "arguments of a dp_ call": "SELECT dp_mean() FROM visits",
        "dates as bounds": "SELECT dp_mean(age, DATE '2013-01-01', DATE '2014-01-01') FROM visits",
        "no constant": "SELECT dp_mean(age, 0, user_id) FROM visits",
        "name": "SELECT dp_mean(round(age, digits := 1), 0, 100) FROM visits",
        "distinct": "SELECT dp_mean(DISTINCT age, 0, 100) FROM visits",
        "order_bys": "SELECT dp_median(age ORDER BY day) FROM visits",
        "filter": (
            "SELECT city, dp_count(*), lower(city) FILTER (WHERE vip) FROM visits GROUP BY city"
        ),
        "STAR": "SELECT *, dp_count(*) FROM visits",
        "column outside a dp_ call": "SELECT age, dp_count(*) FROM visits",
        "two columns in the result": "SELECT city, dp_count(*), city FROM visits GROUP BY city",
        "WINDOW": "SELECT dp_count(*) OVER () FROM visits",
        "a window in HAVING": (
            "SELECT city, dp_count(*) AS n FROM visits GROUP BY city HAVING rank() OVER (ORDER "
            "BY dp_count(*)) < 3"
        ),
        "a place": "SELECT dp_count(*) FROM visits GROUP BY 7",
        "GROUP BY a constant": "SELECT dp_count(*) FROM visits GROUP BY 'x'",
        "GROUP BY ()": "SELECT dp_count(*) FROM visits GROUP BY ()",
        "a grouping set twice": (
            "SELECT city, dp_count(*) FROM visits GROUP BY GROUPING SETS ((city), (city, city))"
        ),
        "no totals": "SELECT city, dp_median(age) FROM visits GROUP BY ROLLUP (city)",
        "keys without an order": "SELECT tags, dp_count(*) FROM visits GROUP BY ROLLUP (tags)",
        "GROUPING of no key": (
            "SELECT city, GROUPING(age), dp_count(*) FROM visits GROUP BY ROLLUP (city)"
        ),
        "GROUPING_FUNCTION": "SELECT dp_count(*) FROM visits WHERE GROUPING(city) = 0",
        "no count of rows": (
            "SELECT city, dp_count(age, 1) FILTER (WHERE vip) AS a, "
            "dp_count(age, 1) FILTER (WHERE NOT vip) AS b FROM visits GROUP BY city"
        ),
        "large epsilon": "SELECT dp_mean(age, 240) FROM visits",
        "dp_keep elsewhere": "SELECT dp_keep(1e-6) FROM visits",
        "arguments of dp_keep": (
            "SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(1e-6, 0.5, 1)"
        ),
        "dp_keep twice": "SELECT dp_count(*) FROM visits HAVING dp_keep(1e-6)",
        "dp_keep and terms": (
            "dfp.sql('SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(1e-6)', "
            "con=con, delta=1e-6)"
        ),
        "limit_type": "SELECT city, dp_count(*) FROM visits GROUP BY city LIMIT 10%",
        "modifiers": "(SELECT city, dp_count(*) FROM visits GROUP BY city LIMIT 3) ORDER BY 2",
        "rows beside answers": "SELECT * FROM visits, (SELECT dp_count(*) AS n FROM visits)",
    },
    "Several tables": {
        "unnamed table": "SELECT dp_count(*) FROM visits",
        "count of released groups": (
            "SELECT count(*) FROM (SELECT status FROM orders GROUP BY status HAVING count(*) > 3)"
        ),
        "answers alone": (
            "SELECT dp_count(*) FROM (SELECT status, dp_count(*) AS n FROM orders GROUP BY status)"
        ),
        "public tables alone": "SELECT dp_count(*) FROM nation",
        "GROUP BY the unit": "SELECT customer, dp_count(*) FROM orders GROUP BY customer",
        "join across units": "SELECT dp_count(*) FROM orders a JOIN orders b ON a.day = b.day",
        "GROUP BY across units": (
            "SELECT dp_count(*) FROM (SELECT status, any_value(total) AS t FROM orders GROUP BY "
            "status)"
        ),
        "number about everybody": (
            "SELECT dp_count(*) FROM orders WHERE total > (SELECT any_value(total) FROM orders)"
        ),
        "DISTINCT across units": "SELECT dp_count(*) FROM (SELECT DISTINCT status FROM orders)",
        "window across units": (
            "SELECT dp_count(*) FROM (SELECT row_number() OVER (ORDER BY total) AS r FROM orders)"
        ),
        "public to protected": (
            "SELECT dp_count(*) FROM (FROM nation LEFT JOIN customer USING (nation) SELECT id)"
        ),
        "keys of a public table": (
            "SELECT nation, count(*) FROM nation LEFT JOIN customer USING (nation) GROUP BY nation"
        ),
        "NATURAL JOIN": "SELECT dp_count(*) FROM orders NATURAL JOIN nation",
        "ASOF JOIN": "SELECT dp_count(*) FROM product ASOF JOIN orders ON total >= price",
        "FULL JOIN": "SELECT dp_count(*) FROM customer FULL JOIN nation USING (nation)",
        "POSITIONAL JOIN": "SELECT dp_count(*) FROM customer POSITIONAL JOIN nation",
        "column of several tables": "SELECT dp_count(*) FROM customer, nation WHERE nation > 1",
        "set operation": (
            "SELECT dp_count(*) FROM (SELECT customer FROM orders EXCEPT ALL SELECT id FROM "
            "customer)"
        ),
        "UNION ALL of both": (
            "SELECT dp_count(*) FROM (SELECT nation FROM customer UNION ALL SELECT nation FROM "
            "nation)"
        ),
        "UNION ALL of widths": (
            "SELECT dp_count(*) FROM (SELECT customer FROM orders UNION ALL SELECT id, nation "
            "FROM customer)"
        ),
        "UNION ALL of types": (
            "SELECT dp_count(*) FROM (SELECT customer FROM orders UNION ALL SELECT called FROM "
            "customer)"
        ),
        "too many relations": (
            'dfp.sql("WITH c0 AS (FROM customer), " + ", ".join(f"c{i + 1} AS (FROM c{i} UNION '
            'ALL FROM c{i})" for i in range(9)) + " SELECT dp_count(*) FROM c9", con=con, '
            "schema=schema, max_rows=3)"
        ),
        "subquery in ON": (
            "SELECT dp_count(*) FROM customer c LEFT JOIN orders o ON o.customer = c.id AND "
            "o.order_id IN (SELECT order_id FROM item)"
        ),
        "LATERAL": (
            "SELECT dp_count(*) FROM customer c, LATERAL (SELECT total FROM orders WHERE "
            "customer = c.id AND total > c.balance LIMIT 2)"
        ),
        "correlated": "SELECT dp_count(*) FROM customer c WHERE 1 IN (SELECT c.nation FROM orders)",
        "subquery without FROM": (
            "SELECT dp_count(*) FROM customer c WHERE EXISTS (SELECT 1 WHERE c.nation > 2)"
        ),
        "correlated by more than equality": (
            "SELECT dp_count(*) FROM customer c WHERE 9 > (SELECT max(total) FROM orders o WHERE "
            "o.customer < c.id)"
        ),
        "no one aggregate": (
            "SELECT dp_count(*) FROM customer c WHERE 9 > (SELECT total FROM orders o WHERE "
            "o.customer = c.id)"
        ),
        "IN over several columns": (
            "SELECT dp_count(*) FROM customer WHERE id IN (SELECT customer, total FROM orders)"
        ),
        "group_sets": (
            "SELECT dp_count(*) FROM (SELECT customer, count(*) FROM orders GROUP BY ROLLUP "
            "(customer, status))"
        ),
        "column beside aggregates": (
            "SELECT dp_count(*) FROM (SELECT customer, total, count(*) FROM orders GROUP BY "
            "customer)"
        ),
        "order of an aggregate": (
            "SELECT dp_count(*) FROM (SELECT customer, first(total) AS f FROM orders GROUP BY "
            "customer)"
        ),
        "aggregate in a subquery": (
            "SELECT dp_count(*) FROM (SELECT customer, mode(total) AS l FROM orders GROUP BY "
            "customer)"
        ),
        "arguments of an aggregate": (
            "SELECT dp_count(*) FROM (SELECT customer, max(total, 2) AS m FROM orders GROUP BY "
            "customer)"
        ),
        "no conditions": (
            "SELECT dp_count(*) FROM (SELECT customer, bool_or(total) AS b FROM orders GROUP BY "
            "customer)"
        ),
        "no numbers": (
            "SELECT dp_count(*) FROM (SELECT customer, sum(status) AS s FROM orders GROUP BY "
            "customer)"
        ),
        "argument of a window function": (
            "SELECT dp_count(*) FROM (SELECT lag(total, id) OVER (PARTITION BY id ORDER BY day) "
            "FROM orders JOIN customer ON customer = id)"
        ),
        "no argument of a window function": (
            "SELECT dp_count(*) FROM (SELECT lag() OVER (PARTITION BY customer ORDER BY day) "
            "FROM orders)"
        ),
        "parts of a window function": (
            "SELECT dp_count(*) FROM (SELECT lag(total IGNORE NULLS) OVER (PARTITION BY customer "
            "ORDER BY day) FROM orders)"
        ),
        "EXCLUDE in a window": (
            "SELECT dp_count(*) FROM (SELECT count(*) OVER (PARTITION BY customer ROWS BETWEEN 1 "
            "PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM orders)"
        ),
        "a window frame by RANGE or GROUPS": (
            "SELECT dp_count(*) FROM (SELECT count(*) OVER (PARTITION BY customer ORDER BY total "
            "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders)"
        ),
        "a window frame without a constant size": (
            "SELECT dp_count(*) FROM (SELECT count(*) OVER (PARTITION BY customer ORDER BY total "
            "ROWS BETWEEN total PRECEDING AND CURRENT ROW) FROM orders)"
        ),
        "equal values that differ": (
            "SELECT dp_count(*) FROM (SELECT DISTINCT customer, [total] AS own FROM orders)"
        ),
        "running sum": (
            "SELECT dp_count(*) FROM (SELECT sum(total) OVER (PARTITION BY customer ORDER BY "
            "day) AS s FROM orders)"
        ),
    },
    "Rows that are protected by themselves": {
        "several protected rows": (
            "dfp.sql('SELECT dp_count(*) FROM (FROM t UNION ALL FROM t)', t=frame, "
            "u=dfp.public(frame))"
        ),
        "join without equality": (
            "dfp.sql('SELECT dp_count(*) FROM t, u', t=frame, u=dfp.public(frame))"
        ),
        "several matches": (
            "dfp.sql('SELECT dp_count(*) FROM t JOIN u USING (x)', t=frame, u=dfp.public(frame))"
        ),
        "several released matches": (
            "dfp.sql('WITH r AS (SELECT city, vip, dp_count(*) AS n FROM visits GROUP BY ALL) "
            "SELECT dp_count(*) FROM visits JOIN r USING (city)', con=con, delta=1e-6, "
            "schema=dfp.Schema(rows='visits'))"
        ),
    },
    "Schemas, views and connections": {
        "type of a unit": (
            "dfp.sql('SELECT dp_count(*) FROM visits', con=con, "
            "schema=dfp.Schema(unit='visits.tags'))"
        ),
        "types of a link": (
            "dfp.sql('SELECT dp_count(*) FROM visits', con=con, "
            "schema=dfp.Schema(unit='customer.id', links={'visits.note': 'customer.id'}))"
        ),
        "view in a schema": (
            "dfp.sql('SELECT dp_count(*) FROM orders', con=con, "
            "schema=dfp.Schema(unit='adults.person'))"
        ),
        "table twice": (
            "dfp.sql('SELECT dp_count(*) FROM visits', con=con, "
            "schema=dfp.Schema(unit='visits.user_id', public=['nation', 'main.nation']))"
        ),
        "table without a link": (
            "dfp.sql('SELECT dp_count(*) FROM visits', con=con, "
            "schema=dfp.Schema(unit='visits.user_id', bounds={'orders.total': (0, 9)}))"
        ),
        "view without definition": "SELECT dp_count(*) FROM registered",
        "tables of one name": (
            "CREATE SCHEMA a; CREATE TABLE a.t AS FROM visits; CREATE VIEW of_t AS FROM a.t; "
            "ATTACH ':memory:' AS a; CREATE TABLE a.main.t AS FROM visits; SELECT dp_count(*) "
            "FROM of_t"
        ),
        "another system": (
            "ATTACH 'crm.db' AS crm (TYPE sqlite); SELECT dp_count(*) FROM crm.people"
        ),
        "GENERATED": (
            "CREATE TABLE t (x INTEGER, y INTEGER GENERATED ALWAYS AS (x + 1) VIRTUAL); SELECT "
            "dp_count(y) FROM t"
        ),
        "collation": (
            "con.execute(\"SET default_collation = 'nocase'\"); dfp.sql('SELECT dp_count(*) "
            "FROM orders', con=con, schema=schema, max_rows=3)"
        ),
        "calendar": "SET Calendar = 'japanese'; SELECT dp_count(*) FROM visits",
        "locked": "SET lock_configuration = true; SELECT dp_count(*) FROM visits",
        "profiling": "PRAGMA enable_profiling = 'no_output'; SELECT dp_count(*) FROM visits",
        "macro": "CREATE MACRO upper(x) AS x; SELECT dp_count(*) FROM visits",
        "Python function": (
            "con.create_function('even', lambda x: x, ['BIGINT'], 'DOUBLE'); dfp.sql('SELECT "
            "dp_count(*) FROM visits', con=con)"
        ),
    },
}
