SELECT dp_count(*) FROM visits, visits v2
SELECT dp_count(*) FROM visits v ASOF JOIN adults a ON v.age >= a.half
SELECT dp_count(*) FROM visits, generate_series(1, 50)
SELECT dp_count(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits)
SELECT dp_count(*) FROM visits PIVOT (sum(age) FOR vip IN (true, false))
SELECT dp_count(*) FROM other.main.visits
SELECT dp_count(*) FROM joined
SELECT dp_count(*) FROM counted
SELECT dp_count(*) FROM from_file
SELECT dp_count(*) FROM private
WITH c AS (SELECT * FROM visits), c AS (SELECT * FROM adults) SELECT dp_count(*) FROM c
WITH c AS (SELECT age FROM visits LIMIT 5) SELECT dp_count(*) FROM c
WITH c AS (SELECT city, avg(age) AS a FROM visits GROUP BY city) SELECT dp_count(*) FROM c
WITH c AS (SELECT unnest(tags) AS tag FROM visits) SELECT dp_count(*) FROM c
SELECT dp_count(*) FROM (SELECT COLUMNS(*) FROM visits)
SELECT dp_count(*) FROM (SELECT * EXCLUDE (nothing) FROM visits)
SELECT dp_mean(lag(age) OVER (ORDER BY day), 0, 100) FROM visits
SELECT DISTINCT ON (city) city, dp_count(*) FROM visits GROUP BY city
SELECT dp_mean(age IGNORE NULLS, 0, 100) FROM visits
SELECT dp_mean(max(age), 0, 100) FROM visits
SELECT dp_mean(list_sum(list_transform(tags, t -> t + 1)), 0, 100) FROM visits
SELECT city, dp_median(income) FROM visits GROUP BY ROLLUP (city)
SELECT city, dp_count(*), dp_mean(age) FROM visits GROUP BY CUBE (city, vip)
SELECT dp_count(*) FROM visits GROUP BY dp_count(*)
SELECT dp_count(*) AS n FROM visits GROUP BY n
SELECT city, dp_count(*) FROM visits GROUP BY (SELECT 1)
SELECT city, dp_count(*) FROM visits GROUP BY random()
SELECT city, age, dp_count(*) FROM visits GROUP BY city
SELECT * FROM visits
SELECT visits.*, dp_count(*) FROM visits
SELECT dp_count(*) AS n, list(age) AS l FROM visits
SELECT dp_mean(age, 0, 100, age) FROM visits
SELECT dp_mean(age, 0, ?) FROM visits
SELECT dp_mean(age, 0, getvariable('top')) FROM visits
SELECT dp_mean(age, 100, 0) FROM visits
SELECT dp_mean(age, 0, 100, 0) FROM visits
SELECT dp_mean(age, 0, 100, -1) FROM visits
SELECT dp_mean(age, 0, 100, 1, 2) FROM visits
SELECT dp_quantile(age) FROM visits
SELECT dp_quantile(age, 1.5) FROM visits
SELECT dp_quantile(age, age) FROM visits
SELECT dp_quantiles(age, [0.5, age]) FROM visits
SELECT dp_quantiles(age, []) FROM visits
SELECT dp_count(*, 1) FROM visits
SELECT dp_mean(note, 0, 100) FROM visits
SELECT dp_mean(nothing, 0, 100) FROM visits
SELECT dp_mean(adults.half, 0, 100) FROM visits
SELECT city, dp_count(*) FROM visits GROUP BY city HAVING NOT dp_keep(1e-6)
SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(1e-6) AND dp_keep(1e-5)
SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(age)
SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(2)
SELECT city, dp_count(*) FROM visits GROUP BY city ORDER BY 3
SELECT dp_count(*) FROM visits WHERE age(day) > INTERVAL '1' DAY
SELECT dp_count(*) FROM visits WHERE getenv('HOME') = city
SELECT dp_count(*) FROM visits WHERE date_part(note, day) = 1
SELECT dp_count(date_diff('era', day, day)) FROM visits
SELECT dp_count(week(day::TIMESTAMP - day::TIMESTAMP)) FROM visits
SELECT dp_count(time_bucket(INTERVAL '0' DAY, day)) FROM visits
SELECT dp_count(time_bucket(INTERVAL '7' DAY, day::TIMESTAMPTZ, 'Nowhere/X')) FROM visits
SELECT dp_count(strptime(note, '%Y %Z')) FROM visits
SELECT dp_count(strptime(note, ['%Y', '%Z'])) FROM visits
SELECT dp_count(*) FROM visits WHERE note LIKE 'a%' ESCAPE 'ab'
SELECT dp_count(epoch_ms(age) || '') FROM visits
SELECT dp_count(replace(replace(c, 'a', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'), 'b', 'cccccccccccccccccccccccccccccccccccccccc')) FROM adults
SELECT dp_count(regexp_replace(note, '', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'g')) FROM visits
SELECT dp_count(repeat(note, age)) FROM visits
SELECT dp_count(lpad(note, age, 'x')) FROM visits
SELECT dp_count(main.upper(city)) FROM visits
SELECT dp_count(CAST(age AS mood)) FROM visits
SELECT dp_count(CAST(age AS STRUCT(x INTEGER))) FROM visits
SELECT dp_count(tags[age]) FROM visits
SELECT dp_count(day AT TIME ZONE 'Nowhere/Land') FROM visits
SELECT dp_count(rowid) FROM visits
SELECT dp_count(note + 1) FROM visits
SELECT city, dp_count(*) FROM visits GROUP BY city HAVING city > 5
SELECT dp_count(*) FROM visits; SELECT dp_count(*) FROM visits
EXPLAIN ANALYZE SELECT dp_count(*) FROM visits
SET threads = 1
COPY (SELECT dp_count(*) FROM visits) TO 'out.csv'
INSERT INTO kept (nothing) SELECT dp_count(*) FROM visits
SELECT dp_count(*) INTO x FROM visits
SELECT r.* FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) r JOIN visits USING (city) -- 'visits' beside released
WITH v AS (SELECT * FROM visits), r AS (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) SELECT * FROM r, v -- 'v' beside
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) WHERE n > (SELECT mode(age) FROM visits) -- mode(
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city), LATERAL (SELECT * FROM main.visits) -- 'main.visits' beside
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city), 'file.csv' -- 'file.csv' beside
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city), read_csv('file.csv') -- a table function:
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city), query('FROM visits') -- a table function:
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city), query_table('visits') -- a table function:
SELECT * FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city), (SUMMARIZE visits) -- DESCRIBE, SHOW
SELECT x FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) -- DuckDB can't plan what is done with released answers
SELECT my_macro(n) FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) -- DuckDB can't plan what is done with released
SELECT city, (SELECT dp_count(*) FROM visits v WHERE v.city = r.city) FROM (SELECT city, dp_count(*) AS n FROM visits GROUP BY city) r -- no table in FROM has a column 'r.city'
