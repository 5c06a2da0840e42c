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
SELECT status, mode(total > 2), mode(total > 2) AS m FROM orders GROUP BY status ORDER BY status;
SELECT mode(status) AS m FROM orders WHERE total > 3 AND status <> 'lost' HAVING mode(status) > 'a';
SELECT histogram(status), approx_top_k(status, 1) AS k FROM orders WHERE
    status = 'open' AND day < '2024-02-01';
SELECT any_value(status) FROM orders WHERE status = 'done';
SELECT mode(total) AS m, histogram(total) AS h FROM orders WHERE total < 0;
SELECT mode(name) AS m FROM nation WHERE nation = 3;
SELECT count(*) + 1 AS n FROM (SELECT DISTINCT status, CASE WHEN total > 2 THEN total > 4 END FROM
    orders WHERE order_id > 5) AS d;
SELECT count(*) FROM (SELECT DISTINCT called FROM customer WHERE id > 100);
SELECT count(*) AS n FROM orders o WHERE o.total > (SELECT avg(x.total) FROM orders x WHERE
    x.status = o.status AND x.total < 5);
SELECT o.status, count(*) FROM orders o WHERE (SELECT 1.5 * avg(x.total) FROM orders x WHERE o.status =
    x.status) < o.total GROUP BY 1 ORDER BY 1;
SELECT corr(total, customer), regr_slope(total, customer % 9) AS s, covar_pop(total, total) AS c,
    regr_r2(total, 3 - total) AS r, count(*) AS n FROM orders;
SELECT sum(n) FROM (SELECT status, count(*) AS n FROM orders GROUP BY ALL);
SELECT o.s, count(*) AS n, count(m.d) AS d FROM (SELECT customer, upper(status) AS s, day + 1 AS d
    FROM orders) o LEFT JOIN (SELECT customer, max(day) AS d FROM orders GROUP BY customer) m ON
    o.customer = m.customer AND o.s IN ('OPEN', 'DONE') AND m.d > '2024-02-20' GROUP BY o.s
    ORDER BY o.s;
SELECT count(*) AS n FROM (SELECT customer, upper(status) AS s FROM orders) o, (SELECT customer,
    max(day) AS d FROM orders GROUP BY customer) m WHERE o.customer = m.customer AND (o.s = 'OPEN'
    OR m.d BETWEEN '2024-02-20' AND '2024-02-25');
SELECT s, count(*) AS n FROM (SELECT customer, status AS s FROM orders UNION BY NAME SELECT called
    AS s, id AS customer FROM customer WHERE id < 20) WHERE s > 'a' GROUP BY s ORDER BY s;
SELECT n.nation, count(id) AS n FROM (SELECT DISTINCT nation FROM nation WHERE region = 1) n LEFT
    JOIN customer USING (nation) GROUP BY n.nation ORDER BY 1;
SELECT status AS s, count(*) AS n, n + 1 AS more, more * 2 AS twice FROM orders GROUP BY ALL ORDER
    BY 1, 2;
SELECT status AS s, s || 'x' AS t, sum(total) AS x, round(x) AS y FROM orders GROUP BY ALL ORDER BY
    1, 2;
SELECT status AS s, total > 3 AS count, count(*) AS n, n / 2 AS h FROM orders GROUP BY ALL ORDER BY
    1, 2;
SELECT x, 2 FROM (SELECT customer, count(*) AS c, c + 1 AS x FROM orders GROUP BY ALL) GROUP BY ALL
    ORDER BY 1, 2;
