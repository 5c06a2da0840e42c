SELECT dp_sum(s, 0, 1), dp_sum(a, 0, 1), dp_sum(d, 0, 1), dp_sum(m, 0, 1), dp_sum(z, 0, 1) FROM (SELECT customer, sum(total) AS s, avg(total) AS a, stddev(total) AS d, median(total) AS m, 1 / min(zero) AS z FROM orders GROUP BY customer)
SELECT dp_sum(z, 0, 1) FROM (SELECT DISTINCT customer, zero AS z FROM orders)
SELECT dp_sum(total, 0, 1) FROM (SELECT customer, total, row_number() OVER (PARTITION BY customer ORDER BY day) AS r FROM orders) WHERE r < 50
SELECT dp_sum(gap, 0, 1) FROM (SELECT customer, day, total - lag(total) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders) WHERE day = 0 AND gap > 1e14
SELECT dp_sum(t, 0, 1) FROM (SELECT DISTINCT ON (customer) customer, total AS t FROM orders)
