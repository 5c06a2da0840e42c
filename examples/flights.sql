-- Private statistics of flights, on a DuckDB connection after sql_udfs.register(con).
-- The table flights has the columns carrier, month, delay (minutes, NULL if cancelled) and seats.
-- Each dp_ function spends the connection's epsilon unless it is given one of its own.

-- How many flights were there, and how late were they on average? (epsilon 0.1 each)
SELECT dp_count(delay, 0.1) AS flown, dp_mean(delay, -60, 240, 0.1) AS delay FROM flights;

-- Nobody knows how late a flight can be? Without bounds dp_mean finds some itself; quantiles and
-- dp_bounds need none. Each call spends the connection's epsilon.
SELECT
    dp_mean(delay) AS mean,
    dp_median(delay) AS median,
    dp_quantile(delay, 0.9) AS late,
    dp_bounds(delay) AS bounds
FROM flights;

SELECT carrier, dp_mean(delay) AS mean, dp_median(delay, 0.1) AS median
FROM flights
GROUP BY carrier
HAVING dp_keep(1e-6)
ORDER BY median;

-- By carrier, with bounds: more accurate, and nothing is kept in memory. Which carriers exist is secret: dp_keep shows a group if its noisy number of rows
-- is so large that a group of one row would get there with a probability of at most 1e-6.
SELECT carrier, dp_mean(delay, -60, 240) AS delay, dp_stddev(delay, -60, 240) AS spread
FROM flights
GROUP BY carrier
HAVING dp_keep(1e-6)
ORDER BY delay DESC;

-- With intervals. The fields are taken apart outside, so that they come from one draw.
WITH released AS (
    SELECT carrier, dp_mean_interval(delay, -60, 240) AS delay
    FROM flights
    GROUP BY carrier
    HAVING dp_keep(1e-6)
)
SELECT carrier, delay.value AS delay, delay.low AS low, delay.high AS high
FROM released
ORDER BY carrier;

-- The share of late flights is the mean of a condition. DuckDB's FILTER works on its own
-- aggregates only; CASE does the same for ours.
SELECT
    dp_mean(delay > 15, 0, 1, 0.1) AS late,
    dp_sum(CASE WHEN month = 7 THEN seats END, 0, 500, 0.1) AS july_seats
FROM flights;

-- Draw once, keep, and work with what was kept: it costs nothing more.
CREATE OR REPLACE TABLE released AS
SELECT month, dp_count() AS flights, dp_mean(delay, -60, 240) AS delay
FROM flights
GROUP BY month
HAVING dp_keep(1e-6);

SELECT month, flights, delay FROM released WHERE delay > 10 ORDER BY month;
