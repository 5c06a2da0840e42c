SELECT dp_count(*) AS n FROM orders a JOIN orders b ON a.total = b.total -- a join of rows of one unit
SELECT dp_count(*) AS n FROM orders a, orders b -- a join of rows of one unit
SELECT dp_count(*) AS n FROM customer LEFT JOIN orders ON balance > total -- a join of rows of one unit
SELECT dp_count(*) AS n FROM item JOIN customer ON product = id -- a join of rows of one unit
SELECT dp_count(*) AS n FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE total > 7) -- a join of rows of one unit
SELECT dp_count(*) AS n FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE total > balance) -- a join of rows of one unit
SELECT dp_count(*) AS n FROM customer WHERE nation IN (SELECT quantity FROM item) -- a join of rows of one unit
SELECT dp_count(*) AS n FROM customer WHERE nation = 1 OR nation IN (SELECT quantity FROM item) -- a join of rows of one unit
SELECT dp_count(*) AS n FROM item i WHERE quantity > (SELECT avg(quantity) FROM item x WHERE x.product = i.product) -- a join of rows of one unit
SELECT dp_count(*) AS n FROM (SELECT status, any_value(total) AS n FROM orders GROUP BY status) -- any_value(...): it is as exact as the rows
SELECT dp_count(s) AS n FROM (SELECT any_value(total > 2) AS s FROM orders) -- any_value(...): it is as exact as the rows
SELECT dp_count(*) AS n FROM (SELECT DISTINCT status FROM orders) -- DISTINCT without the unit
SELECT dp_sum(r, 0, 9) AS r FROM (SELECT row_number() OVER (ORDER BY total) AS r FROM orders) -- a window without the unit
SELECT dp_sum(r, 0, 9) AS r FROM (SELECT count(*) OVER (PARTITION BY status) AS r FROM orders) -- a window without the unit
SELECT dp_count(*) AS n FROM (SELECT DISTINCT ON (status) status, total FROM orders) -- a window without the unit
SELECT dp_count(*) AS n FROM (SELECT status, any_value(total) AS n FROM orders GROUP BY ALL) -- any_value(...): it is as exact as the rows
SELECT dp_count(*) AS n FROM customer c, LATERAL (SELECT o.total FROM orders o WHERE o.order_id = c.id) m -- a join of rows of one unit with those of others
SELECT dp_count(*) AS n FROM customer c, LATERAL (SELECT max(o.total) AS most FROM orders o WHERE o.order_id = c.id) m WHERE most > 1 -- a join of rows of one unit with those of others
SELECT dp_count(*) AS n FROM (SELECT total FROM orders INTERSECT SELECT balance FROM customer) -- DISTINCT without the unit's column
SELECT dp_count(*) AS n FROM orders o, LATERAL (SELECT paid FROM item WHERE quantity = o.order_id LIMIT 1) -- a join of rows of one unit
SELECT dp_count(*) AS n FROM orders FULL JOIN customer ON total = balance -- a join of rows of one unit
SELECT dp_count(*) AS n FROM item i WHERE (product, product + 1) IN (SELECT product, product + 1 FROM item WHERE paid > i.paid + 10) -- a join of rows of one unit
