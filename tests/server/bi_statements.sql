-- Statements as dashboards, spreadsheets and query builders write them. Each is answered.
-- A comment names the style. A statement ends with a semicolon.

-- Superset
SELECT DATE_TRUNC('day', departure) AS __timestamp, AVG(delay) AS "AVG(delay)" FROM main.flights WHERE departure >= '2024-01-05 00:00:00.000000' AND departure < '2024-02-05 00:00:00.000000' GROUP BY DATE_TRUNC('day', departure) ORDER BY "AVG(delay)" DESC LIMIT 1000;
SELECT DATE_TRUNC('week', departure) AS __timestamp, carrier AS carrier, SUM(delay) AS "SUM(delay)" FROM flights GROUP BY DATE_TRUNC('week', departure), carrier LIMIT 50000;
SELECT carrier AS carrier, COUNT(DISTINCT plane) AS "COUNT_DISTINCT(plane)" FROM main.flights GROUP BY carrier ORDER BY "COUNT_DISTINCT(plane)" DESC LIMIT 100;
SELECT carrier AS carrier, COUNT(*) AS count FROM main.flights WHERE carrier IN ('AA', 'DL') GROUP BY carrier ORDER BY count DESC LIMIT 10;
SELECT carrier AS carrier, SUM(late) AS "SUM(late)" FROM (SELECT carrier, delay AS late FROM flights WHERE month < 7) AS virtual_table GROUP BY carrier LIMIT 1000;
SELECT AVG(delay) AS "AVG(delay)" FROM main.flights LIMIT 50000;
SELECT carrier AS carrier, COUNT(*) AS count, AVG(delay) AS mean FROM flights GROUP BY carrier HAVING COUNT(*) > 100 ORDER BY mean ASC LIMIT 25;
SELECT CASE WHEN delay < 0 THEN 'early' WHEN delay < 15 THEN 'on time' ELSE 'late' END AS bucket, COUNT(*) AS count FROM flights GROUP BY CASE WHEN delay < 0 THEN 'early' WHEN delay < 15 THEN 'on time' ELSE 'late' END;

-- Metabase
SELECT COUNT(*) AS "count" FROM "main"."flights";
SELECT "main"."flights"."carrier" AS "carrier", COUNT(*) AS "count" FROM "main"."flights" GROUP BY "main"."flights"."carrier" ORDER BY "main"."flights"."carrier" ASC;
SELECT DATE_TRUNC('month', "main"."flights"."departure") AS "departure", AVG("main"."flights"."delay") AS "avg" FROM "main"."flights" GROUP BY DATE_TRUNC('month', "main"."flights"."departure") ORDER BY DATE_TRUNC('month', "main"."flights"."departure") ASC;
SELECT CAST("main"."flights"."departure" AS date) AS "departure", COUNT(*) AS "count" FROM "main"."flights" GROUP BY CAST("main"."flights"."departure" AS date) ORDER BY CAST("main"."flights"."departure" AS date) ASC;
SELECT FLOOR((("main"."flights"."delay" - 0.0) / 10.0)) * 10.0 + 0.0 AS "delay", COUNT(*) AS "count" FROM "main"."flights" GROUP BY FLOOR((("main"."flights"."delay" - 0.0) / 10.0)) * 10.0 + 0.0 ORDER BY 1 ASC;
SELECT "source"."carrier" AS "carrier", COUNT(*) AS "count" FROM (SELECT "main"."flights"."carrier" AS "carrier" FROM "main"."flights" WHERE "main"."flights"."month" = 3) AS "source" GROUP BY "source"."carrier" ORDER BY "count" DESC, "source"."carrier" ASC LIMIT 5;
SELECT STDDEV_POP("main"."flights"."delay") AS "stddev" FROM "main"."flights";
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY "main"."flights"."delay") AS "percentile" FROM "main"."flights";
SELECT SUM("main"."flights"."delay") AS "sum", AVG("main"."flights"."delay") AS "avg", COUNT(*) AS "count" FROM "main"."flights" WHERE "main"."flights"."carrier" = 'AA';
SELECT EXTRACT(month FROM "main"."flights"."departure") AS "departure", COUNT(*) AS "count" FROM "main"."flights" GROUP BY EXTRACT(month FROM "main"."flights"."departure") ORDER BY 1 ASC;
SELECT COUNT(DISTINCT "main"."flights"."plane") AS "count" FROM "main"."flights" WHERE "main"."flights"."delay" > 15;
SELECT "main"."flights"."carrier" AS "carrier", "main"."flights"."month" AS "month", COUNT(*) AS "count" FROM "main"."flights" GROUP BY "main"."flights"."carrier", "main"."flights"."month" ORDER BY "main"."flights"."carrier" ASC, "main"."flights"."month" ASC;
SELECT CAST(SUM(CASE WHEN "main"."flights"."delay" > 15 THEN 1 ELSE 0.0 END) AS DOUBLE) / COUNT(*) AS "share" FROM "main"."flights";
SELECT "main"."flights"."carrier" AS "carrier", "main"."flights"."delay" AS "delay" FROM "main"."flights" LIMIT 2000;

-- Tableau
SELECT "flights"."carrier" AS "carrier", SUM("flights"."delay") AS "sum:delay:ok", SUM(1) AS "cnt" FROM "main"."flights" "flights" GROUP BY 1 HAVING (COUNT(1) > 0);
SELECT DATE_TRUNC( 'MONTH', CAST("flights"."departure" AS DATE) ) AS "tmn:departure:ok", AVG(CAST("flights"."delay" AS DOUBLE PRECISION)) AS "avg:delay:ok" FROM "main"."flights" "flights" GROUP BY 1;
SELECT COUNT(1) AS "cnt:ok" FROM "main"."flights" "flights" HAVING (COUNT(1) > 0);
SELECT "flights"."carrier" AS "carrier", COUNT(DISTINCT "flights"."plane") AS "ctd:plane:ok" FROM "main"."flights" "flights" WHERE ("flights"."month" >= 2) AND ("flights"."month" <= 6) GROUP BY 1;
SELECT CAST(EXTRACT(QUARTER FROM "flights"."departure") AS BIGINT) AS "qr:departure:ok", AVG("flights"."delay") AS "avg:delay:ok" FROM "main"."flights" "flights" GROUP BY 1;
SELECT (CASE WHEN ("flights"."delay" > 15) THEN 'Late' ELSE 'On time' END) AS "Calculation_1", COUNT(1) AS "cnt:ok" FROM "main"."flights" "flights" GROUP BY 1;

-- Power BI
select "_"."carrier", sum("_"."delay") as "a0" from (select "rows"."carrier" as "carrier", "rows"."delay" as "delay" from "main"."flights" "rows") "_" group by "_"."carrier" limit 1000001;
select count(1) as "a0" from "main"."flights" "_";
select "_"."carrier", "_"."month", avg("_"."delay") as "a0" from "main"."flights" "_" where "_"."carrier" in ('AA', 'UA') group by "_"."carrier", "_"."month" order by "_"."carrier" limit 1002;

-- Grafana
SELECT date_trunc('day', departure) AS "time", avg(delay) AS "delay" FROM flights WHERE departure BETWEEN '2024-01-01T00:00:00Z' AND '2024-02-01T00:00:00Z' GROUP BY 1 ORDER BY 1;
SELECT floor(extract(epoch from departure)/86400)*86400 AS "time", count(*) AS "n" FROM flights GROUP BY 1 ORDER BY 1;
SELECT carrier AS metric, avg(delay) AS value FROM flights GROUP BY carrier ORDER BY value DESC;

-- dbplyr
SELECT "carrier", AVG("delay") AS "d", COUNT(*) AS "n" FROM "flights" WHERE ("month" = 1.0) GROUP BY "carrier";
SELECT "carrier", AVG("z") AS "z" FROM (SELECT "flights".*, "delay" * 2.0 AS "z" FROM "flights") AS "q01" GROUP BY "carrier" ORDER BY "carrier" LIMIT 6;
SELECT "carrier", COUNT(*) AS "n" FROM "flights" GROUP BY "carrier" ORDER BY "n" DESC;
SELECT * FROM "flights" LIMIT 6;
SELECT * FROM "flights" AS "q02" WHERE (0 = 1);
SELECT AVG("delay") AS "m", STDDEV_SAMP("delay") AS "s" FROM "flights" WHERE (NOT(("delay" IS NULL)));
SELECT "late", COUNT(*) AS "n" FROM (SELECT "flights".*, CASE WHEN ("delay" > 15.0) THEN TRUE WHEN NOT ("delay" > 15.0) THEN FALSE END AS "late" FROM "flights") AS "q01" GROUP BY "late";

-- Ibis
SELECT "t1"."carrier", AVG("t1"."delay") AS "m" FROM (SELECT * FROM "main"."flights" AS "t0" WHERE "t0"."month" < CAST(7 AS TINYINT)) AS "t1" GROUP BY 1;
SELECT COUNT(*) AS "CountStar(flights)" FROM "main"."flights" AS "t0";
SELECT "t1"."carrier", "t1"."n" FROM (SELECT "t0"."carrier", COUNT(*) AS "n" FROM "main"."flights" AS "t0" GROUP BY 1) AS "t1" ORDER BY "t1"."n" DESC LIMIT 2;
SELECT QUANTILE_CONT("t0"."delay", 0.5) AS "median" FROM "main"."flights" AS "t0";

-- Looker
SELECT CASE WHEN flights.delay > 15 THEN 'late' ELSE 'ok' END AS "flights.late", COUNT(*) AS "flights.count", COALESCE(SUM(flights.delay), 0) AS "flights.total" FROM main.flights AS flights GROUP BY 1 ORDER BY 2 DESC FETCH NEXT 500 ROWS ONLY;
SELECT (DATE(flights.departure)) AS "flights.departure_date", AVG(flights.delay) AS "flights.average" FROM main.flights AS flights WHERE ((flights.departure) >= (TIMESTAMP '2024-01-10') AND (flights.departure) < (TIMESTAMP '2024-01-20')) GROUP BY 1 ORDER BY 1 DESC LIMIT 500;
SELECT flights.carrier AS "flights.carrier", COUNT(DISTINCT flights.plane) AS "flights.planes", AVG(flights.delay) AS "flights.average" FROM main.flights AS flights GROUP BY 1 HAVING AVG(flights.delay) > 0 ORDER BY 3 DESC LIMIT 500;

-- Notebooks and spreadsheets
SELECT carrier, COUNT(*) FILTER (WHERE delay > 15) AS late, COUNT(*) AS n FROM flights GROUP BY carrier;
SELECT carrier, 100.0 * SUM(CASE WHEN delay > 15 THEN 1 ELSE 0 END) / COUNT(*) AS pct FROM flights GROUP BY carrier;
SELECT carrier, MEDIAN(delay) AS median FROM flights GROUP BY carrier ORDER BY carrier;
SELECT day, COUNT(*) AS n FROM flights WHERE day BETWEEN DATE '2024-01-10' AND DATE '2024-01-20' GROUP BY day ORDER BY day;
WITH late AS (SELECT carrier, delay FROM flights WHERE delay > 15) SELECT carrier, AVG(delay) AS delay FROM late GROUP BY carrier;
WITH monthly AS (SELECT month, AVG(delay) AS delay FROM flights GROUP BY month) SELECT month, ROUND(delay, 1) AS delay FROM monthly ORDER BY month;
SELECT carrier, AVG(delay) AS delay, RANK() OVER (ORDER BY AVG(delay) DESC) AS place FROM flights GROUP BY carrier;
SELECT month, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY month) AS change FROM flights GROUP BY month ORDER BY month;
SELECT strftime(departure, '%Y-%m') AS month, COUNT(*) AS n FROM flights GROUP BY 1 ORDER BY 1;
SELECT upper(carrier) AS carrier, VAR_SAMP(delay) AS variance FROM flights GROUP BY upper(carrier);
SELECT carrier, AVG(delay) AS d FROM flights WHERE carrier LIKE 'A%' GROUP BY carrier;
SELECT carrier, month, COUNT(*) AS n FROM flights GROUP BY GROUPING SETS ((carrier), (month));
SELECT carrier, COUNT(*) AS n FROM flights GROUP BY ROLLUP (carrier);
SELECT month % 2 AS half, COUNT(*) AS n FROM flights GROUP BY 1 ORDER BY 1;
SELECT carrier, COUNT(*) AS n FROM flights WHERE departure >= date_trunc('month', DATE '2024-02-10') GROUP BY carrier;
SELECT MIN(delay) AS low, MAX(delay) AS high FROM flights;
