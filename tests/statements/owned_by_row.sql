SELECT name, dp_count(*) AS n FROM orders JOIN nation ON nation = order_id % 7 GROUP BY name
SELECT name, dp_sum(total, 0, 9) AS n FROM nation, orders WHERE nation = customer GROUP BY name
SELECT name, dp_count(*) AS n FROM orders LEFT JOIN nation ON nation = customer GROUP BY name
SELECT dp_count(*) AS n FROM orders WHERE customer IN (SELECT nation FROM nation)
SELECT dp_count(*) AS n FROM orders WHERE NOT EXISTS (SELECT 1 FROM product WHERE price > total + 8)
SELECT dp_count(*) AS n FROM orders WHERE total > (SELECT avg(price) FROM product)
SELECT dp_count(*) AS n FROM orders WHERE customer = 1 OR customer IN (SELECT nation FROM nation)
SELECT most, dp_count(*) AS n FROM orders JOIN (SELECT region, max(nation) AS most FROM nation GROUP BY region) ON region = customer GROUP BY most
SELECT dp_count(*) AS n FROM orders, (SELECT max(nation) AS most FROM nation)
SELECT dp_count(*) AS n FROM (SELECT total, (SELECT count(*) FROM nation) AS nations FROM orders)
