"""Statements that are refused: functions, types and operators that are not known.

Each with the error and how its message begins.
"""

REFUSED = [
    ("SELECT dp_mean(random(), 0, 1) FROM visits", "RefusedStatementError", "random(...):"),
    (
        "SELECT dp_count(*) FROM visits WHERE random() < 0.5",
        "RefusedStatementError",
        "random(...):",
    ),
    ("SELECT dp_count(uuid()) FROM visits", "RefusedStatementError", "uuid(...):"),
    (
        "SELECT dp_count(*) FROM visits WHERE note < current_time",
        "RefusedStatementError",
        "the current time of day:",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE age(day) > INTERVAL '1' DAY",
        "RefusedStatementError",
        "age(...):",
    ),
    ("SELECT dp_count(error(note)) FROM visits", "RefusedStatementError", "error(...):"),
    (
        "SELECT dp_count(*) FROM visits WHERE CASE WHEN age > 90 THEN error('!') ELSE true END",
        "RefusedStatementError",
        "error(...):",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE getenv('HOME') = city",
        "RefusedStatementError",
        "getenv(...):",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE current_setting('threads') = 1",
        "RefusedStatementError",
        "current_setting(...):",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE current_user = city",
        "RefusedStatementError",
        "a name of the session:",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE nextval('s') = 1",
        "RefusedStatementError",
        "nextval(...):",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE current_query() = note",
        "RefusedStatementError",
        "current_query(...):",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE read_text('secret') = note",
        "RefusedStatementError",
        "read_text(...):",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE date_part(note, day) = 1",
        "RefusedStatementError",
        "a part of a date that is not on the list:",
    ),
    (
        "SELECT dp_count(date_diff('era', day, day)) FROM visits",
        "RefusedStatementError",
        "a part of a date that is not on the list:",
    ),
    (
        "SELECT dp_count(EXTRACT(timezone FROM day)) FROM visits",
        "RefusedStatementError",
        "a part of a date that is not on the list:",
    ),
    (
        "SELECT dp_count(week(day::TIMESTAMP - day::TIMESTAMP)) FROM visits",
        "InvalidQuestionError",
        "DuckDB can't plan the statement:",
    ),
    (
        "SELECT dp_count(time_bucket(INTERVAL '0' DAY, day)) FROM visits",
        "RefusedStatementError",
        "a bucket whose width is not so many of one unit:",
    ),
    (
        "SELECT dp_count(time_bucket(to_days(age), day)) FROM visits",
        "RefusedStatementError",
        "a bucket whose width is not so many of one unit:",
    ),
    (
        "SELECT dp_count(time_bucket(INTERVAL '7' DAY, day::TIMESTAMPTZ, 'Nowhere/X')) FROM visits",
        "RefusedStatementError",
        "a bucket whose origin is no constant date:",
    ),
    (
        "SELECT dp_count(time_bucket(INTERVAL '7' DAY, day, day)) FROM visits",
        "RefusedStatementError",
        "a bucket whose origin is no constant date:",
    ),
    (
        "SELECT dp_count(strptime(note, '%Y %Z')) FROM visits",
        "RefusedStatementError",
        "strptime with a format that is no constant, or holds %Z:",
    ),
    (
        "SELECT dp_count(strptime(note, ['%Y', '%Z'])) FROM visits",
        "RefusedStatementError",
        "strptime with a format that is no constant, or holds %Z:",
    ),
    (
        "SELECT dp_count(strptime(note, city)) FROM visits",
        "RefusedStatementError",
        "strptime with a format that is no constant, or holds %Z:",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE note LIKE city ESCAPE '!'",
        "RefusedStatementError",
        "LIKE with such an ESCAPE:",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE note LIKE 'a%' ESCAPE 'ab'",
        "RefusedStatementError",
        "LIKE with such an ESCAPE:",
    ),
    (
        "SELECT dp_count(*) FROM visits WHERE note NOT ILIKE 'a!!!' ESCAPE '!'",
        "RefusedStatementError",
        "LIKE with such an ESCAPE:",
    ),
    (
        "SELECT dp_count(make_timestamp(age) || '') FROM visits",
        "RefusedStatementError",
        "make_timestamp of one number:",
    ),
    (
        "SELECT dp_count(epoch_ms(age) || '') FROM visits",
        "InvalidQuestionError",
        "DuckDB can't plan the statement:",
    ),
    (
        "SELECT dp_count(replace(note, 'a', city)) FROM visits",
        "RefusedStatementError",
        "an expression whose value grows too long:",
    ),
    (
        f"SELECT dp_count(replace(replace(c, 'a', '{40 * 'b'}'), 'b', '{40 * 'c'}')) FROM adults",
        "RefusedStatementError",
        "an expression whose value grows too long:",
    ),
    (
        f"SELECT dp_count(regexp_replace(note, '', '{'b' * 1000}', 'g')) FROM visits",
        "RefusedStatementError",
        "an expression whose value grows too long:",
    ),
    (
        f"SELECT dp_count({'CAST([' * 10}note{'] AS VARCHAR)' * 10}) FROM visits",
        "RefusedStatementError",
        "an expression whose value grows too long:",
    ),
    (
        (
            "WITH a AS (SELECT concat(note, note, note, note, note, note) AS b FROM visits), "
            "c AS (SELECT concat(b, b, b, b, b, b) AS d FROM a), "
            "e AS (SELECT concat(d, d, d, d, d, d) AS f FROM c) "
            "SELECT dp_count(concat(f, f, f, f, f, f)) FROM e"
        ),
        "RefusedStatementError",
        "an expression whose value grows too long:",
    ),
    ("SELECT dp_count(repeat(note, age)) FROM visits", "RefusedStatementError", "repeat(...):"),
    ("SELECT dp_count(lpad(note, age, 'x')) FROM visits", "RefusedStatementError", "lpad(...):"),
    ("SELECT dp_count(my_macro(age)) FROM visits", "RefusedStatementError", "my_macro(...):"),
    (
        "SELECT dp_count(main.upper(city)) FROM visits",
        "RefusedStatementError",
        ("a name with dots before a call or after one:"),
    ),
    (
        "SELECT dp_count(city.upper()) FROM visits",
        "RefusedStatementError",
        ("a name with dots before a call or after one:"),
    ),
    (
        "SELECT dp_count(CAST(age AS mood)) FROM visits",
        "RefusedStatementError",
        "CAST to this type:",
    ),
    (
        "SELECT dp_count(CAST(age AS STRUCT(x INTEGER))) FROM visits",
        "RefusedStatementError",
        "CAST to this type:",
    ),
    ("SELECT dp_count(age::INTEGER[]) FROM visits", "RefusedStatementError", "CAST to this type:"),
    ("SELECT dp_count(note COLLATE NOCASE) FROM visits", "RefusedStatementError", "COLLATE:"),
    ("SELECT dp_count(note->'$.a') FROM visits", "RefusedStatementError", "a lambda, or ->:"),
    (
        "SELECT dp_count(tags[1:2]) FROM visits",
        "RefusedStatementError",
        "x[...] with anything but a number:",
    ),
    (
        "SELECT dp_count(tags[age]) FROM visits",
        "RefusedStatementError",
        "x[...] with anything but a number:",
    ),
    (
        "SELECT dp_count(tags[1e3]) FROM visits",
        "RefusedStatementError",
        "x[...] with anything but a number:",
    ),
    (
        "SELECT dp_count(CAST(day AS TIMESTAMP_S)) FROM visits",
        "RefusedStatementError",
        "CAST to this type:",
    ),
    (
        "SELECT dp_count(CAST(day AS TIMESTAMP_MS)) FROM visits",
        "RefusedStatementError",
        "CAST to this type:",
    ),
    ("SELECT dp_count({'a': age}) FROM visits", "RefusedStatementError", "{...}:"),
    ("SELECT dp_count((age, note)) FROM visits", "RefusedStatementError", "(..., ...):"),
    (
        "SELECT dp_count(day AT TIME ZONE city) FROM visits",
        "RefusedStatementError",
        "a time zone that is no constant, or not on DuckDB's list:",
    ),
    (
        "SELECT dp_count(day AT TIME ZONE 'Nowhere/Land') FROM visits",
        "RefusedStatementError",
        "a time zone that is no constant, or not on DuckDB's list:",
    ),
    (
        "SELECT dp_count(timezone(day)) FROM visits",
        "RefusedStatementError",
        "a time zone that is no constant, or not on DuckDB's list:",
    ),
    (
        "SELECT dp_count(rowid) FROM visits",
        "MissingColumnError",
        ("no table in FROM has a column 'rowid'"),
    ),
    (
        "SELECT dp_count(*) FROM visits |> WHERE age > 3",
        "RefusedStatementError",
        "the statement can't be read at line 1, column 32",
    ),
    (
        "SELECT dp_count(note + 1) FROM visits",
        "InvalidQuestionError",
        "DuckDB can't plan the statement:",
    ),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY city HAVING city > 5",
        "InvalidQuestionError",
        "DuckDB can't plan the statement:",
    ),
]
