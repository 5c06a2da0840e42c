"""Statements that are refused: functions, types and operators that are not known.

Each with its error, if it is no `RefusedStatementError`, and how its message begins.
"""

REFUSED = [
    ("SELECT dp_count(uuid()) FROM visits", "uuid(...):"),
    ("SELECT dp_count(*) FROM visits WHERE age(day) > INTERVAL '1' DAY", "age(...):"),
    ("SELECT dp_count(error(note)) FROM visits", "error(...):"),
    ("SELECT dp_count(*) FROM visits WHERE getenv('HOME') = city", "getenv(...):"),
    (
        "SELECT dp_count(*) FROM visits WHERE date_part(note, day) = 1",
        "a part of a date that is not on the list:",
    ),
    (
        "SELECT dp_count(date_diff('era', day, day)) FROM visits",
        "a part of a date that is not on the list:",
    ),
    (
        "SELECT dp_count(week(day::TIMESTAMP - day::TIMESTAMP)) FROM visits",
        "InvalidQuestionError",
        "DuckDB can't plan the statement:",
    ),
    (
        "SELECT dp_count(time_bucket(INTERVAL '0' DAY, day)) FROM visits",
        "a bucket whose width is not so many of one unit:",
    ),
    (
        "SELECT dp_count(time_bucket(to_days(age), day)) FROM visits",
        "a bucket whose width is not so many of one unit:",
    ),
    (
        "SELECT dp_count(time_bucket(INTERVAL '7' DAY, day::TIMESTAMPTZ, 'Nowhere/X')) FROM visits",
        "a bucket whose origin is no constant date:",
    ),
    (
        "SELECT dp_count(time_bucket(INTERVAL '7' DAY, day, day)) FROM visits",
        "a bucket whose origin is no constant date:",
    ),
    (
        "SELECT dp_count(strptime(note, '%Y %Z')) FROM visits",
        "strptime with a format that is no constant, or holds %Z:",
    ),
    (
        "SELECT dp_count(strptime(note, ['%Y', '%Z'])) FROM visits",
        "strptime with a format that is no constant, or holds %Z:",
    ),
    ("SELECT dp_count(*) FROM visits WHERE note LIKE city ESCAPE '!'", "LIKE with such an ESCAPE:"),
    (
        "SELECT dp_count(*) FROM visits WHERE note LIKE 'a%' ESCAPE 'ab'",
        "LIKE with such an ESCAPE:",
    ),
    (
        "SELECT dp_count(epoch_ms(age) || '') FROM visits",
        "InvalidQuestionError",
        "DuckDB can't plan the statement:",
    ),
    (
        "SELECT dp_count(replace(note, 'a', city)) FROM visits",
        "an expression whose value grows too long:",
    ),
    (
        f"SELECT dp_count(replace(replace(c, 'a', '{40 * 'b'}'), 'b', '{40 * 'c'}')) FROM adults",
        "an expression whose value grows too long:",
    ),
    (
        f"SELECT dp_count(regexp_replace(note, '', '{'b' * 1000}', 'g')) FROM visits",
        "an expression whose value grows too long:",
    ),
    ("SELECT dp_count(repeat(note, age)) FROM visits", "repeat(...):"),
    ("SELECT dp_count(lpad(note, age, 'x')) FROM visits", "lpad(...):"),
    (
        "SELECT dp_count(main.upper(city)) FROM visits",
        "a name with dots before a call or after one:",
    ),
    ("SELECT dp_count(CAST(age AS mood)) FROM visits", "CAST to this type:"),
    ("SELECT dp_count(CAST(age AS STRUCT(x INTEGER))) FROM visits", "CAST to this type:"),
    ("SELECT dp_count(age::INTEGER[]) FROM visits", "CAST to this type:"),
    ("SELECT dp_count(tags[1:2]) FROM visits", "x[...] with anything but a number:"),
    ("SELECT dp_count(tags[age]) FROM visits", "x[...] with anything but a number:"),
    (
        "SELECT dp_count(day AT TIME ZONE city) FROM visits",
        "a time zone that is no constant, or not on DuckDB's list:",
    ),
    (
        "SELECT dp_count(day AT TIME ZONE 'Nowhere/Land') FROM visits",
        "a time zone that is no constant, or not on DuckDB's list:",
    ),
    (
        "SELECT dp_count(rowid) FROM visits",
        "MissingColumnError",
        "no table in FROM has a column 'rowid'",
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
