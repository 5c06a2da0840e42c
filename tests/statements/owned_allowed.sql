SELECT nation, dp_count(*) AS n FROM customer GROUP BY nation
SELECT status, dp_sum(total, 0, 9) AS s FROM orders GROUP BY status
SELECT product, dp_sum(paid, 0, 9) AS s, dp_count(*) AS n FROM item GROUP BY product
SELECT c.called, dp_sum(o.total, 0, 9) AS s FROM orders AS o JOIN customer AS c ON o.customer = c.id GROUP BY c.called
SELECT status, dp_sum(quantity, 0, 9) AS s FROM item JOIN orders USING (order_id) WHERE quantity > 1 AND total < 5 GROUP BY status
SELECT called, dp_count(*) AS n FROM customer, orders, item WHERE id = customer AND item.order_id = orders.order_id AND paid > total GROUP BY called
SELECT dp_count(*) AS n FROM orders a JOIN orders b ON a.customer = b.customer AND a.total < b.total
SELECT name, dp_count(*) AS n FROM customer JOIN nation USING (nation) GROUP BY name
SELECT name, dp_count(*) AS n FROM nation JOIN customer USING (nation) GROUP BY name
SELECT label, name, dp_sum(price * quantity, 0, 9) AS s FROM product p, nation n, item i, orders o, customer c WHERE i.order_id = o.order_id AND o.customer = c.id AND n.nation = c.nation AND i.product = p.product GROUP BY ALL
SELECT dp_count(*) AS n FROM customer CROSS JOIN nation WHERE customer.nation < nation.nation
SELECT label, dp_count(*) AS n FROM item LEFT JOIN product ON item.product = product.product AND price > 3 GROUP BY label
SELECT name, dp_count(*) AS n FROM orders LEFT JOIN (customer JOIN nation USING (nation)) ON customer = id GROUP BY name
SELECT status, dp_count(*) AS n FROM customer LEFT JOIN orders ON customer = id AND total > 4 GROUP BY status
SELECT dp_count(*) AS n FROM customer SEMI JOIN orders ON customer = id AND total > balance
SELECT dp_count(*) AS n FROM customer ANTI JOIN orders ON customer = id AND total > 4
SELECT dp_count(*) AS n FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.total * 9 > c.balance)
SELECT dp_count(*) AS n FROM customer WHERE NOT EXISTS (SELECT * FROM orders WHERE customer = id AND total > 4)
SELECT dp_count(*) AS n FROM customer WHERE id IN (SELECT customer FROM orders WHERE total > 4)
SELECT dp_count(*) AS n FROM customer WHERE id NOT IN (SELECT customer FROM orders WHERE total > 4)
SELECT dp_count(*) AS n FROM orders WHERE order_id IN (SELECT order_id FROM item GROUP BY order_id HAVING sum(quantity) > 4)
SELECT dp_count(*) AS n FROM customer WHERE nation IN (SELECT nation FROM nation WHERE region = 1)
SELECT dp_count(*) AS n FROM customer WHERE nation NOT IN (SELECT nation FROM nation)
SELECT dp_count(*) AS n FROM customer WHERE nation = 2 OR NOT EXISTS (SELECT 1 FROM orders WHERE customer = id) OR id IN (SELECT customer FROM large)
SELECT dp_count(*) AS n FROM customer WHERE (id NOT IN (SELECT customer FROM large)) IS NULL OR balance > 50
SELECT dp_count(*) AS n FROM customer WHERE balance > (SELECT sum(total) FROM orders WHERE customer = id)
SELECT dp_count(*) AS n FROM customer c WHERE 4 > (SELECT count(*) FROM orders o WHERE o.customer = c.id AND o.total > 2)
SELECT dp_count(*) AS n FROM orders o WHERE total = (SELECT max(x.total) FROM orders x WHERE x.customer = o.customer)
SELECT dp_count(*) AS n FROM item WHERE product > (SELECT avg(product) FROM product)
SELECT n, dp_count(*) AS k FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) GROUP BY n
SELECT dp_mean(m, 0, 9) AS m, dp_sum(s, 0, 50) AS s FROM (SELECT customer, avg(total) AS m, sum(total) AS s, stddev(total) AS d, median(total) AS e, min(total) AS f, max(status) AS g FROM orders GROUP BY customer HAVING count(*) > 2) WHERE d > 1 AND e > 2 AND g > 'a' AND f < 9
SELECT nation, dp_sum(paid, 0, 99) AS p FROM (SELECT id, nation, sum(paid) AS paid, count(DISTINCT product) AS kinds FROM customer JOIN orders ON customer = id JOIN item USING (order_id) GROUP BY id, nation) WHERE kinds > 1 GROUP BY nation
SELECT status, dp_count(*) AS n FROM (SELECT customer, status, count(*) FILTER (WHERE total > 3) AS large FROM orders GROUP BY customer, status) WHERE large > 0 GROUP BY status
SELECT status, dp_count(*) AS n FROM (SELECT DISTINCT customer, status FROM orders) GROUP BY status
SELECT dp_sum(total, 0, 9) AS s FROM (SELECT DISTINCT ON (customer) customer, total FROM orders ORDER BY customer, total DESC)
SELECT r, dp_sum(total, 0, 9) AS s FROM (SELECT customer, total, row_number() OVER (PARTITION BY customer ORDER BY day, total) AS r FROM orders) WHERE r <= 3 GROUP BY r
SELECT dp_sum(gap, 0, 60) AS g FROM (SELECT customer, date_diff('day', lag(day) OVER (PARTITION BY customer ORDER BY day), day) AS gap FROM orders)
SELECT dp_count(*) AS n FROM (SELECT * FROM orders QUALIFY rank() OVER (PARTITION BY customer ORDER BY total DESC) = 1 AND count(*) OVER (PARTITION BY customer) > 2)
SELECT dp_sum(s, 0, 99) AS s FROM (SELECT order_id, sum(quantity) OVER (PARTITION BY order_id ORDER BY product, paid ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM item)
SELECT dp_max AS m, dp_count(*) AS n FROM (SELECT customer, status, max(sum(quantity)) OVER (PARTITION BY customer) AS dp_max FROM orders JOIN item USING (order_id) GROUP BY customer, status) GROUP BY m
SELECT status, dp_count(*) AS n FROM (SELECT customer, status FROM orders UNION ALL SELECT customer, status FROM large) GROUP BY status
WITH a AS (SELECT customer, total FROM orders WHERE total > 2), b AS (SELECT * FROM a WHERE total < 5) SELECT dp_count(*) AS n FROM a JOIN b USING (customer) WHERE a.total > b.total
SELECT n, dp_sum(most, 0, 9) AS m FROM per_customer GROUP BY n
SELECT dp_count(*) AS n FROM large JOIN per_customer USING (customer) WHERE total = most
WITH regions AS (SELECT region, count(*) AS n FROM nation GROUP BY region) SELECT regions.n, dp_count(*) AS k FROM customer JOIN nation USING (nation) JOIN regions USING (region) GROUP BY 1
SELECT key, dp_count(*) AS n FROM orders JOIN nation ON nation = order_id % 7, (SELECT product AS key FROM product) AS p WHERE key = region AND key < 4 GROUP BY key
SELECT dp_sum(o.total, 0, 9) AS s FROM orders o, nation AS n, (SELECT product AS key, label FROM product) AS p WHERE n.nation = o.order_id % 7 AND p.key = n.region AND key + total > 2
SELECT status, dp_sum(paid, 0, 9) AS s FROM item JOIN orders USING (order_id) WHERE quantity > 0 AND quantity < 4 AND total < 9 AND status <> 'x' GROUP BY status
SELECT dp_sum(paid, 0, 9) AS s FROM item WHERE quantity > 0 AND product < 6 AND paid < 9
SELECT dp_count(*) AS n FROM item a JOIN item b ON a.order_id = b.order_id AND a.product < b.product AND a.quantity > 0 AND a.quantity < 4
SELECT dp_count(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.order_id AND i.quantity > 2 AND i.product < 5) AND NOT EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.order_id AND i.paid > 15)
SELECT product, dp_count(*) AS n FROM orders o LEFT JOIN item i ON i.order_id = o.order_id AND quantity > 2 WHERE total < 5 GROUP BY product
SELECT dp_sum(paid, 0, 9) AS s FROM (SELECT order_id, customer, max(total) AS most FROM orders GROUP BY order_id, customer) AS q JOIN item USING (order_id) WHERE most > paid
SELECT status, n, dp_count(*) AS k FROM (SELECT customer, lower(status) AS status, 1 AS one, count(*) AS n FROM orders GROUP BY ALL HAVING max(total) > 2) GROUP BY ALL
SELECT dp_count(*) AS n FROM customer WHERE nullif(nation, 2) NOT IN (SELECT nation FROM nation WHERE nation > 3)
SELECT dp_count(*) AS n FROM customer WHERE nation NOT IN (SELECT nullif(nation, 1) FROM nation)
SELECT dp_count(*) AS n FROM customer WHERE nullif(nation, 2) NOT IN (SELECT nation FROM nation WHERE nation > 99)
SELECT dp_count(*) AS n FROM item i WHERE nullif(i.product, 2) NOT IN (SELECT nullif(p.product, 3) FROM product p WHERE p.product > i.quantity)
SELECT dp_count(*) AS n FROM orders o WHERE nullif(total, 3) NOT IN (SELECT nullif(x.total, 2) FROM orders x WHERE x.customer = o.customer AND x.total > o.total)
SELECT name, dp_count(*) AS n FROM nation n, customer c JOIN orders o ON o.customer = c.id AND n.nation = c.nation GROUP BY name
SELECT dp_count(*) AS n, dp_sum(total, 0, 9) AS s FROM customer c, nation n LEFT JOIN orders o ON o.customer = c.id AND total > n.nation + c.nation
SELECT dp_count(*) AS n FROM nation n, (customer c JOIN product p ON c.nation = n.nation AND p.product = c.nation) ANTI JOIN orders o ON o.customer = c.id AND o.total > n.region
SELECT n, dp_sum(twice, 0, 9) AS s FROM customer c JOIN orders o ON o.customer = c.id, LATERAL (SELECT o.total * 2 AS twice, c.nation + 1 AS n WHERE o.total > c.nation) m WHERE twice < 9 GROUP BY n
SELECT dp_sum(more, 0, 9) AS s FROM orders o LEFT JOIN LATERAL (SELECT o.total * 2 AS twice) m ON true, (SELECT twice + 1 AS more) l
SELECT dp_sum(total, 0, 9) AS s FROM customer c, LATERAL (SELECT o.total, total * 2 AS twice FROM orders o WHERE o.customer = c.id AND o.total > c.nation) m WHERE twice < 9
SELECT dp_count(*) AS n, dp_sum(total, 0, 9) AS s FROM customer c LEFT JOIN LATERAL (SELECT o.total FROM orders o WHERE o.customer = c.id AND o.total * 9 > c.balance) m ON total > 2
SELECT n, dp_sum(most, 0, 9) AS m FROM customer c JOIN LATERAL (SELECT max(total) AS most, count(*) AS n FROM orders o WHERE o.customer = c.id AND status <> 'lost') m ON true WHERE n < 3 GROUP BY n
SELECT name, dp_count(*) AS n FROM customer c, (SELECT name FROM nation n WHERE n.nation = c.nation AND region NOT IN (SELECT nation FROM nation WHERE nation > 0)) GROUP BY name
SELECT dp_count(*) AS n FROM customer c LEFT JOIN LATERAL (SELECT min(total) AS least FROM orders o WHERE o.customer = c.id) ON true WHERE balance > least
SELECT dp_count(*) AS n FROM orders o JOIN customer c ON o.customer = c.id AND (total > 4 OR c.nation NOT IN (SELECT region FROM nation)) LEFT JOIN item i ON i.order_id = o.order_id
SELECT dp_count(*) AS n FROM orders o WHERE total > 5 OR o.order_id NOT IN (SELECT order_id FROM item WHERE quantity > 2)
SELECT label, dp_sum(paid, 0, 9) AS s FROM item i, product p WHERE i.product = p.product AND (p.label = 'P1' AND i.quantity < 3 OR p.label IN ('P2', 'P5') AND i.quantity > 1 AND i.paid > 2) GROUP BY label
SELECT dp_count(*) AS n FROM product p JOIN item i ON i.product = p.product AND price > 2 JOIN orders o ON o.order_id = i.order_id WHERE (o.status = 'open' AND label < 'P5') OR (o.status = 'done' AND quantity = 2)
SELECT dp_count(*) AS n FROM item i WHERE EXISTS (SELECT 1 FROM product p WHERE p.product = i.product AND p.price > i.quantity) AND i.product NOT IN (SELECT product FROM product WHERE price > 9)
SELECT price, dp_count(*) AS n FROM item LEFT JOIN product USING (product) ANTI JOIN nation ON nation = quantity WHERE paid < 9 AND quantity < 4 GROUP BY price
SELECT called, dp_sum(total, 0, 9) AS n FROM customer RIGHT JOIN orders ON customer = id AND balance > 9 GROUP BY called
SELECT status, dp_sum(balance, 0, 9) AS n FROM (SELECT * FROM orders WHERE total > 3) AS o FULL JOIN (SELECT id, balance FROM customer WHERE balance > 30) AS c ON o.customer = c.id GROUP BY status
SELECT dp_sum(n, 0, 9) AS s FROM (SELECT customer AS id, count(*) AS n FROM orders WHERE total > 2 GROUP BY customer) FULL JOIN (SELECT id FROM customer WHERE balance > 30) USING (id) WHERE id % 3 > 0
SELECT status, dp_sum(quantity, 0, 9) AS s FROM item NATURAL JOIN orders GROUP BY status
SELECT dp_count(*) AS n FROM (SELECT id FROM customer WHERE balance > 20 INTERSECT SELECT customer FROM orders WHERE total > 3)
SELECT dp_count(*) AS n FROM (SELECT customer, status FROM orders WHERE total > 2 EXCEPT SELECT customer, status FROM orders WHERE total > 5)
SELECT dp_count(*) AS n FROM (SELECT customer, total FROM orders UNION SELECT id, balance FROM customer)
SELECT dp_count(*) AS n FROM orders WHERE total < 5 AND (customer, status) IN (SELECT customer, status FROM orders WHERE total > 3)
SELECT dp_sum(t, 0, 9) AS s FROM customer c, LATERAL (SELECT total AS t, day FROM orders WHERE customer = c.id ORDER BY total DESC, order_id LIMIT 2)
SELECT nation, dp_count(*) AS n FROM customer c JOIN LATERAL (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.total > 4 LIMIT 1) AS x ON true GROUP BY nation
SELECT s, dp_count(*) AS n FROM (SELECT customer, arg_max(status, day) FILTER (WHERE total > 1) AS s FROM (SELECT customer, status, total, order_id AS day FROM orders) GROUP BY customer) GROUP BY s
SELECT s, dp_sum(t, 0, 9) AS n FROM (SELECT customer, first(status ORDER BY total DESC, order_id) AS s, last(total ORDER BY day, order_id) AS t FROM orders GROUP BY customer) GROUP BY s
SELECT dp_sum(len(p), 0, 9) AS n FROM (SELECT customer, list(DISTINCT product) AS p FROM orders JOIN item USING (order_id) GROUP BY customer)
SELECT dp_sum(part, 0, 9) AS s FROM (SELECT customer, round(total / nullif(sum(total) OVER (PARTITION BY customer, status), 0), 9) AS part FROM orders)
SELECT s, dp_sum(t, 0, 9) AS n FROM orders AS o(a, b, t, s) GROUP BY s
SELECT dp_sum(date_diff('day', p.day, o.day), 0, 60) AS s, dp_count(*) AS n FROM orders o ASOF JOIN orders p ON o.customer = p.customer AND p.day < o.day
SELECT p.total > 3 AS large, dp_sum(p.total, 0, 9) AS s FROM customer c ASOF LEFT JOIN (SELECT DISTINCT customer, total FROM orders) p ON p.customer = c.id AND p.total >= c.balance / 20 GROUP BY large
SELECT label, dp_sum(paid, 0, 9) AS s FROM item ASOF JOIN product ON paid >= price GROUP BY label
SELECT dp_sum(s - coalesce(l, 0), -99, 99) AS n FROM (SELECT customer, sum(total) OVER (PARTITION BY customer) AS s, lag(total) OVER (PARTITION BY customer ORDER BY day) AS l FROM orders)
