SELECT dp_count(*) AS n FROM customer WHERE balance > (SELECT dp_mean(balance, 0, 100) FROM customer)
SELECT count(*) AS n, sum(balance) AS s FROM customer WHERE balance > (SELECT avg(balance) FROM customer WHERE balance > 0) AND NOT EXISTS (SELECT 1 FROM orders WHERE customer = id AND total > 4)
WITH r AS (SELECT nation, dp_mean(balance, 0, 100) AS m FROM customer GROUP BY nation) SELECT region, dp_count(*) AS n FROM customer JOIN r USING (nation) JOIN nation USING (nation) WHERE balance > m GROUP BY region
SELECT nation, dp_count(*) AS n, n / (SELECT dp_count(*) FROM orders) AS share FROM customer GROUP BY nation HAVING n > (SELECT dp_count(*) / 100 FROM customer) ORDER BY nation
SELECT dp_count(*) FILTER (WHERE balance > (SELECT dp_mean(balance, 0, 100) FROM customer)) AS above, dp_count(*) AS n FROM customer
SELECT coalesce(balance, 0) > (SELECT avg(balance) FROM customer) AS high, count(*) AS n FROM customer GROUP BY high
WITH r AS (SELECT dp_mean(balance, 0, 100) AS a FROM customer) SELECT dp_count(*) AS n, (SELECT round(a, 1) FROM r) AS a FROM customer WHERE balance > (SELECT a * 0.9 FROM r)
WITH r AS (SELECT dp_mean(balance, 0, 100) AS a FROM customer), v AS (SELECT * FROM customer, r WHERE balance > a) SELECT (SELECT dp_count(*) FROM v) AS n, (SELECT round(a, 1) FROM r) AS a
SELECT dp_count(*) AS n FROM orders WHERE status IN (SELECT status FROM orders GROUP BY status HAVING count(*) > 53)
SELECT dp_count(*) AS n FROM orders o WHERE total > (SELECT max(m) FROM (SELECT status, dp_mean(total, 0, 9) AS m FROM orders GROUP BY status) AS r WHERE r.status = o.status)
SELECT dp_sum(s, 0, 99) AS s FROM (SELECT customer, sum(total) AS s FROM orders WHERE total > (SELECT dp_mean(total, 0, 9) FROM orders) GROUP BY customer)
SELECT name, s FROM nation, (SELECT nation AS place, sum(balance) AS s FROM customer GROUP BY nation) WHERE nation = place AND s >= (SELECT min(s) FROM (SELECT nation AS place, sum(balance) AS s FROM customer GROUP BY nation))
SELECT sum(balance) AS s FROM customer c WHERE balance > (SELECT avg(x.balance) FROM customer x WHERE x.nation = c.nation)
