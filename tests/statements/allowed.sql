SELECT dp_count(*) FROM visits
SELECT dp_count() AS n FROM visits
SELECT dp_count(age) AS n, dp_count(*) AS rows FROM visits
select DP_COUNT(*) as "Rows" from VISITS
SELECT dp_mean(age, 0, 100) FROM visits
SELECT dp_avg(age, 0, 100) AS a, dp_mean(age, 0, 100) AS b FROM visits
SELECT dp_sum(income, 0, 100000) AS total FROM visits
SELECT dp_var(age, 0, 100) AS v, dp_stddev(age, 0, 100) AS s FROM visits
SELECT dp_median(age) AS m, dp_quantile(age, 0.5) AS same, dp_quantile(age, 0.25) AS q FROM visits
SELECT dp_quantiles(age, [0.25, 0.75]) AS q FROM visits
SELECT dp_quantiles(age, [0.25, 0.75])[2] AS upper_quartile FROM visits
SELECT dp_sum(income) AS total FROM visits
SELECT dp_mean(income, 0.25) AS m, dp_count(*) AS n FROM visits
SELECT dp_mean_interval(age, 0, 100) AS age FROM visits
SELECT (dp_mean_interval(age, 0, 100)).low AS low, dp_mean(age, 0, 100) AS age, (dp_mean_interval(age, 0, 100)).high AS high FROM visits
SELECT dp_count_interval(*).value AS n FROM visits
FROM visits SELECT dp_count(*) AS n
SELECT dp_count(age > 30) AS n, dp_mean((age > 30)::INTEGER, 0, 1) AS share FROM visits
SELECT dp_mean(age, 0, 100, epsilon => 1) AS m FROM visits
SELECT city, dp_count(*) AS n FROM visits GROUP BY city
SELECT city, dp_mean(age, 0, 100) AS m FROM visits GROUP BY 1
SELECT city, vip, dp_count(*) AS n FROM visits GROUP BY ALL
SELECT city, dp_mean(age, 0, 100) FROM visits GROUP BY city ORDER BY 2 DESC
SELECT dp_count(*) AS n, city FROM visits GROUP BY city ORDER BY n DESC, city LIMIT 2
SELECT city, dp_count(*) AS n FROM visits GROUP BY city ORDER BY city DESC LIMIT 1 OFFSET 1
SELECT city, vip, dp_count(*) AS n FROM visits GROUP BY city, vip ORDER BY ALL
SELECT upper(city) AS town, dp_count(*) AS n FROM visits GROUP BY town
SELECT upper(city), dp_count(*) AS n FROM visits GROUP BY upper(city) ORDER BY upper(city) DESC
SELECT upper(city) || '!' AS loud, dp_count(*) AS n FROM visits GROUP BY city
SELECT city AS town, dp_count(*) AS n FROM visits GROUP BY city HAVING dp_count(*) > 100 AND town <> 'Oslo'
SELECT city, dp_count(*) AS n FROM visits GROUP BY city HAVING dp_keep(0.001) AND n > 10
SELECT city, dp_mean(age, 0, 100) AS m, m * 2 AS twice, twice + 1 AS more FROM visits GROUP BY city
SELECT city, round(dp_sum(income, 0, 100000) / dp_count(*), 2) AS mean FROM visits GROUP BY city
SELECT city, CASE WHEN dp_count(*) > 150 THEN 'many' ELSE 'few' END AS size FROM visits GROUP BY city
SELECT year(day) AS y, month(day) AS m, dp_count(*) AS n FROM visits GROUP BY y, m ORDER BY y, m
SELECT date_trunc('month', day) AS month, dp_count(*) AS n FROM visits GROUP BY month ORDER BY month
SELECT EXTRACT(quarter FROM day) AS q, dp_count(*) AS n FROM visits GROUP BY q
SELECT age // 10 * 10 AS decade, dp_count(*) AS n FROM visits GROUP BY decade ORDER BY decade NULLS FIRST
SELECT age IS NULL AS unknown, dp_count(*) AS n FROM visits GROUP BY unknown
SELECT CASE WHEN age < 30 THEN 'young' WHEN age >= 50 THEN 'old' ELSE 'other' END AS band, dp_mean(income, 0, 100000) AS m FROM visits GROUP BY band
SELECT v.city, dp_count(*) AS n FROM visits AS v WHERE v.vip GROUP BY v.city
SELECT visits.city, dp_count(*) AS n FROM main.visits WHERE visits.age > 30 GROUP BY visits.city
SELECT "Home town", dp_count(*) AS n FROM visits GROUP BY "Home town"
SELECT place.zip AS zip, dp_count(*) AS n FROM visits GROUP BY zip
SELECT vip + 1 AS class, dp_count(*) AS n FROM (SELECT vip::INTEGER AS vip FROM visits) GROUP BY class
SELECT city, dp_count(*) AS n FROM (SELECT * FROM visits WHERE age > 30) AS older WHERE older.vip GROUP BY city
SELECT town, dp_mean(k, 0, 100) AS m FROM (SELECT city AS town, income / 1000 AS k FROM visits) s GROUP BY town
WITH a AS (SELECT city, age FROM visits WHERE vip), b AS (SELECT city AS c, age FROM a WHERE age > 25) SELECT c, dp_count(*) AS n FROM b GROUP BY c
SELECT c, dp_mean(half, 0, 100) AS m FROM adults GROUP BY c ORDER BY c
SELECT strftime(day, '%Y-%m') AS month, dp_sum(age, 0, 100) AS s FROM visits WHERE day IS NOT NULL GROUP BY ALL ORDER BY month
SELECT city, dp_count(*) AS n FROM visits GROUP BY city HAVING n BETWEEN 1 AND 100000 AND (city = 'Rome' OR n > 5) ORDER BY n % 7, lower(city)
SELECT dp_mean(age, -1 * 10, 10 * 10 + 20, 1 / 2) AS m FROM visits
SELECT dp_mean(CASE WHEN vip THEN income END, 0, 100000) AS vip_income FROM visits
SELECT dp_mean(TRY_CAST(note AS DOUBLE), 0, 10) AS note, dp_count(TRY_CAST(note AS INTEGER)) AS notes FROM visits
SELECT dp_mean(age::DOUBLE / 2, 0, 50) AS half, dp_mean(CAST(income AS DECIMAL(9, 2)), 0, 100000) AS m FROM visits
SELECT dp_mean(income / 1000, 0, 100) AS k, dp_sum(greatest(age, 30), 0, 100) AS s, dp_mean(if(vip, 1, 0), 0, 1) AS share FROM visits
SELECT dp_sum(v.place.flat, 0, 100) AS s, dp_sum(list_sum(tags), 0, 100) AS t FROM visits v
WITH older AS (SELECT *, age / 10 AS decades FROM visits WHERE age > 30) SELECT dp_mean(decades, 0, 10) AS m FROM older
SELECT dp_mean(x, 0, 100) AS m FROM (SELECT * EXCLUDE (age, note) REPLACE (income / 1000 AS income), income AS y, age AS x FROM visits)
SELECT city, dp_count(*) FROM visits GROUP BY city FETCH FIRST 3 ROWS ONLY
SELECT dp_count("upper"(city)) FROM visits
SELECT dp_count(INTERVAL (age) DAY) FROM visits
SELECT dp_count(E'\x41') FROM visits
SELECT dp_count(*) FROM visits GROUP BY (city, vip)
SELECT dp_count(day AT TIME ZONE 'Europe/Berlin') AS n FROM visits
SELECT dp_count(*) AS n FROM visits WHERE age BETWEEN 30 AND 40 AND NOT vip
SELECT dp_count(*) AS n FROM visits WHERE city IN ('Rome', 'Oslo') OR city IS NULL
SELECT dp_count(*) AS n FROM visits WHERE city LIKE 'R%' AND city NOT ILIKE '%x%' AND "Home town" NOT LIKE 'a!_%' ESCAPE '!'
SELECT dp_count(*) AS n FROM visits WHERE day >= DATE '2024-03-01' AND day < DATE '2024-03-01' + INTERVAL '2' MONTH
SELECT dp_count(*) AS n FROM visits WHERE NOT ((age = 30) IS TRUE) AND age IS NOT NULL AND vip IS NOT FALSE
SELECT dp_count(*) AS n FROM visits WHERE (age + 1) * 2 - -3 > 70 OR age % 7 = 0 AND vip OR -age ** 2 < -2000
SELECT dp_count(*) AS n FROM visits WHERE age IS DISTINCT FROM 30 AND coalesce(age, 0) <> 31 AND nullif(age, 32) IS NOT NULL
SELECT dp_count(*) AS n FROM visits WHERE regexp_matches(city, '^[RO]') AND length(trim(city)) = 4 AND city ~ 'R?o.*' AND city SIMILAR TO '[A-Z][a-z]+'
SELECT dp_count(*) AS n FROM visits WHERE substring(city FROM 2 FOR 1) = 'o' AND position('s' IN city) > 1 AND trim(BOTH 'R' FROM city) != 'ome' AND city[1] = 'O'
WITH visits AS (SELECT * FROM visits WHERE vip) SELECT dp_count(*) AS n FROM visits
SELECT dp_count(*) AS n FROM (WITH c AS (SELECT age FROM visits) SELECT age + 1 AS older FROM c WHERE older > 40)
SELECT dp_count(*) AS n FROM ((SELECT * FROM visits))
SELECT dp_count(*) AS n FROM romans WHERE age > 30
SELECT dp_count(*) AS n FROM visits WHERE md5(city) LIKE '%' AND hash(user_id) % 2 = 0
SELECT "dp_count"(*) FROM visits
WITH RECURSIVE c AS (SELECT age FROM visits) SELECT dp_count(*) FROM c
SELECT dp_count(*) FROM visits WHERE NOT age = 30 IS TRUE
SELECT dp_count(*) FROM visits WINDOW w AS (ORDER BY age)
(SELECT dp_count(*) FROM visits)
