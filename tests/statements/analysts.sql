SELECT DISTINCT status FROM orders ORDER BY 1;
SELECT DISTINCT status, region FROM orders JOIN customer ON customer = id JOIN nation USING
    (nation) ORDER BY ALL;
SELECT status FROM orders GROUP BY status ORDER BY status DESC LIMIT 2;
SELECT * FROM (SELECT status FROM orders GROUP BY status) ORDER BY 1;
SELECT n.nation, count(c.id) AS n, count(DISTINCT c.id) AS d FROM nation n LEFT JOIN (SELECT *
    FROM customer WHERE id > 5 AND nation < 2) c USING (nation) GROUP BY n.nation ORDER BY 1;
SELECT region, count(called) AS n FROM customer RIGHT JOIN nation USING (nation) WHERE region <
    1 GROUP BY region;
SELECT count(DISTINCT (customer, status)) AS n FROM orders;
SELECT bool_or(total > 6) AS a, bool_or(total > 600) AS b, bool_and(total > 6) AS c,
    bool_and(total < 600) FILTER (WHERE total > 3) AS d FROM orders;
SELECT geomean(total + 1) AS g FROM orders;
SELECT percentile_disc(0.75) WITHIN GROUP (ORDER BY total DESC) AS q FROM orders;
SELECT count(*) AS n FROM orders WHERE day < current_date - INTERVAL 30 DAY AND day < now() AND
    day + INTERVAL 1000000 DAY > today();
SELECT date_trunc('month', to_timestamp(epoch(day))) AS t, count(*) AS n FROM orders GROUP BY 1
    ORDER BY 1;
SELECT string_split(called, 'C')[2] < '2' AS c, count(*) AS n, sum(len(string_split(called,
    '1'))) AS l FROM customer GROUP BY c ORDER BY c;
SELECT '{"a": {"b": "x' || nation || '"}}' ->> '$.a.b' AS x, count(*) AS n FROM customer GROUP
    BY 1 ORDER BY 1;
SELECT s, sum(t) AS t FROM orders AS o(i, c, t, s) GROUP BY s ORDER BY s;
WITH o(c, s) AS (SELECT customer, status FROM orders) SELECT s, count(*) FROM o GROUP BY s ORDER
    BY s;
SELECT 1 AS x, 'a' AS y;
SELECT count(*) AS n FROM (SELECT customer FROM orders EXCEPT SELECT id FROM customer WHERE
    nation > 2);
