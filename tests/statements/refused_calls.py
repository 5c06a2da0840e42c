"""Statements that are refused: raw aggregates, and dp_ calls with arguments that are none.

Each with its error, if it is no `RefusedStatementError`, and how its message begins.
"""

REFUSED = [
    ("SELECT dp_count(*) AS n, list(age) AS l FROM visits", "list(...):"),
    ("SELECT dp_count(*) AS n, string_agg(note, ',') AS l FROM visits", "string_agg(...):"),
    ("SELECT dp_mean(age, 0, user_id) FROM visits", "a bound that is no constant number:"),
    ("SELECT dp_mean(age, 0, 100, age) FROM visits", "an epsilon that is no constant number:"),
    ("SELECT dp_mean(age, 0, ?) FROM visits", "a prepared parameter:"),
    ("SELECT dp_mean(age, 0, $1) FROM visits", "a prepared parameter:"),
    ("SELECT dp_mean(age, 0, $top) FROM visits", "a prepared parameter:"),
    ("SELECT dp_mean(age, 0, getvariable('top')) FROM visits", "getvariable(...):"),
    ("SELECT dp_mean(age, 100, 0) FROM visits", "InvalidBoundsError", "bounds must be ordered:"),
    (
        "SELECT dp_mean(age, 0, 100, 0) FROM visits",
        "InvalidLossError",
        "epsilon must be a positive, finite number, not 0",
    ),
    (
        "SELECT dp_mean(age, 0, 100, -1) FROM visits",
        "InvalidLossError",
        "epsilon must be a positive, finite number, not -1",
    ),
    ("SELECT dp_mean(age, 0, 100, 1, 2) FROM visits", "dp_mean with these arguments:"),
    ("SELECT dp_quantile(age) FROM visits", "dp_quantile with these arguments:"),
    (
        "SELECT dp_quantile(age, 1.5) FROM visits",
        "InvalidQuestionError",
        "a quantile must be a number from 0 to 1, not 1.5",
    ),
    ("SELECT dp_quantile(age, age) FROM visits", "the q of quantile that is no constant number:"),
    (
        "SELECT dp_quantiles(age, [0.5, age]) FROM visits",
        "a list of numbers that is no constant number:",
    ),
    (
        "SELECT dp_quantiles(age, []) FROM visits",
        "InvalidQuestionError",
        "quantiles come as a list of at least one number from 0 to 1",
    ),
    ("SELECT dp_count(*, 1) FROM visits", "dp_count with these arguments:"),
    ("SELECT main.dp_count(*) FROM visits", "a name with dots before a call or after one:"),
    (
        "SELECT dp_mean(note, 0, 100) FROM visits",
        "UnsupportedDtypeError",
        "column 'note' is declared String, which holds no numbers",
    ),
    (
        "SELECT dp_mean(nothing, 0, 100) FROM visits",
        "MissingColumnError",
        "no table in FROM has a column 'nothing'",
    ),
    (
        "SELECT dp_mean(adults.half, 0, 100) FROM visits",
        "MissingColumnError",
        "no table in FROM has a column 'adults.half'",
    ),
    ("SELECT dp_keep(1e-6) FROM visits", "dp_keep outside HAVING, or inside an expression:"),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY city HAVING NOT dp_keep(1e-6)",
        "dp_keep outside HAVING, or inside an expression:",
    ),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(1e-6) AND dp_keep(1e-5)",
        "dp_keep twice, or without GROUP BY:",
    ),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(age)",
        "a delta that is no constant number:",
    ),
    ("SELECT dp_count(*) FROM visits HAVING dp_keep(1e-6)", "dp_keep twice, or without GROUP BY:"),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY city HAVING dp_keep(2)",
        "InvalidLossError",
        "delta must be a number between 0 and 1, not 2",
    ),
    (
        "SELECT city, dp_count(*) FROM visits GROUP BY city ORDER BY 3",
        "place 3 in GROUP BY or ORDER BY:",
    ),
]
