"""Losses, keys, units and ledgers of a statement: what it costs, whom it protects."""

import dataclasses
import pickle
import re

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

BY_CITY = "SELECT city, dp_count(*) AS n FROM visits GROUP BY city"


def test_calls_share_epsilon_and_name_their_own(shared):
    """Calls without an epsilon share that of the statement, evenly; named ones come on top."""
    query = "SELECT dp_mean(age, 0, 100), dp_count(*), dp_median(age, 0.25), dp_sum(age, 0, 9, 1/8) FROM visits"  # fmt: skip # noqa: E501 one line
    plan = dfp.explain(query, con=shared, epsilon=0.5)
    assert (plan.epsilon, plan.delta) == (0.875, 0)
    assert [draw.epsilon for draw in plan.draws] == [0.25, 0.25, 0.25, 0.125]
    alone = dfp.explain("SELECT dp_count(age, 0.25) FROM visits", con=shared, epsilon=100)
    assert alone.epsilon == 0.25


def test_delta_is_named_once(shared):
    """Secret keys need a delta: by name or by dp_keep, not by both; public keys need none."""
    query = f"{BY_CITY} HAVING dp_keep(1e-5)"
    assert dfp.explain(query, con=shared).delta == 1e-5
    assert dfp.explain(BY_CITY, con=shared, delta=1e-5).delta == 1e-5
    assert dfp.explain(BY_CITY, con=shared, keys=["Rome"]).delta == 0
    with pytest.raises(dfp.MissingDeltaError, match="need"):
        dfp.explain(BY_CITY, con=shared)
    for terms in ({"delta": 1e-5}, {"keys": ["Rome"]}):
        with pytest.raises(dfp.RefusedStatementError, match=r"dp_keep and .* together"):
            dfp.explain(query, con=shared, **terms)


def test_public_keys(shared):
    """Exactly the public keys come out, as listed, the absent ones with noise."""
    released = dfp.sql(BY_CITY, con=shared, keys=["Rome", "Paris"], epsilon=1e13)
    assert released.fetchall() == [("Rome", 200), ("Paris", 0)]
    query = "SELECT vip, upper(city) AS c, dp_count(*) AS n FROM visits GROUP BY ALL"
    for keys in ([(True, "ROME"), (True, "BONN")], {"C": ["ROME", "BONN"], "vip": [True]}):
        released = dfp.sql(query, con=shared, keys=keys, epsilon=1e13)
        assert released.fetchall() == [(True, "ROME", 50), (True, "BONN", 50)]
    for keys in ([], [("Rome",)], {"C": ["ROME"]}, {"c": ["ROME"], "x": [1]}, "Rome", [1]):
        with pytest.raises(dfp.errors.InvalidKeysError):
            dfp.sql(query, con=shared, keys=keys)
    with pytest.raises(dfp.errors.InvalidKeysError, match="without GROUP BY"):
        dfp.sql("SELECT dp_count(*) FROM visits", con=shared, keys=["Rome"])


def test_units(shared):
    """With a unit, noise grows with its limits, and the charge stays what was asked."""
    terms = {"unit": "user_id", "max_rows": 2, "max_groups": 3, "delta": 1e-6}
    plan = dfp.explain(BY_CITY, con=shared, **terms)
    assert (plan.epsilon, plan.delta) == (1, 1e-6)
    assert "'user_id'" in plan.protects
    (row,) = dfp.sql(
        "SELECT dp_count(*) AS n FROM visits", con=shared, unit="user_id", max_rows=2, epsilon=1e13
    ).fetchall()
    assert row == (100,)  # 50 people of 12 rows each, counting as two
    with pytest.raises(dfp.errors.InvalidUnitError):
        dfp.explain(BY_CITY, con=shared, max_rows=2)


def test_limits_that_are_left_out_are_found_in_the_release(shared):
    """A part of the loss finds them, the charge stays what was asked, and explain says so."""
    terms = {"unit": "user_id", "delta": 1e-6, "epsilon": 1e6}
    plan = dfp.explain(BY_CITY, con=shared, **terms)
    assert (plan.epsilon, plan.protects) == (
        1e6, "all rows of one 'user_id', within limits that the release finds",
    )  # fmt: skip
    assert sum(draw.epsilon for draw in plan.draws) == pytest.approx(1e6)
    assert plan.draws[0].questions == ("how many rows units have in a group",)
    query = "SELECT dp_count(*) AS n FROM visits"
    ((n,),) = dfp.sql(query, con=shared, unit="user_id", epsilon=1e6).fetchall()
    assert n == 600  # 50 people of 12 rows each
    both = f"WITH a AS ({query}), b AS ({query} WHERE age > 0) SELECT a.n, b.n FROM a, b"
    assert dfp.sql(both, con=shared, unit="user_id", epsilon=1e6).fetchall()[0][0] == 600


COUNT_USERS = "SELECT city, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY city"


def test_the_unit_is_counted_once_however_many_rows_it_has(shared):
    """Distinct values of the unit's column are units: noise is that of one row of each."""
    by_rows, by_units = (
        dfp.explain(
            COUNT_USERS, con=shared, unit="user_id", max_rows=rows, max_groups=1, delta=1e-6
        )
        for rows in (20, 1)
    )
    assert by_rows.answers[0].typical == by_units.answers[0].typical
    terms = {"unit": "user_id", "max_rows": 20, "max_groups": 3, "keys": ["Rome"], "epsilon": 1e9}
    counted = "SELECT count(DISTINCT {}) AS n FROM visits GROUP BY city"
    texts = [counted.format(column) for column in ("user_id", "user_id + 0")]
    units, values = (dfp.sql(text, con=shared, **terms).fetchall() for text in texts)
    assert units == values


CHOSEN_USERS = [
    "COUNT(DISTINCT user_id) FILTER (WHERE age > 50)",
    "COUNT(DISTINCT CASE WHEN age > 50 THEN user_id END)",
    "COUNT(DISTINCT CASE WHEN age > 70 THEN user_id WHEN age > 50 THEN (user_id) ELSE NULL END)",
    "COUNT(DISTINCT IF(age > 50, user_id, NULL))",
    "COUNT(DISTINCT CASE WHEN age > 50 THEN user_id END) FILTER (WHERE age > 9)",
    "dp_nunique(user_id) FILTER (WHERE age > 50)",
    "dp_nunique(CASE WHEN age > 50 THEN user_id END)",
    "APPROX_COUNT_DISTINCT(user_id) FILTER (WHERE age > 50)",
]
ONE_USER = pl.DataFrame(
    {"user_id": [7] * 50, "city": ["Rome", "Oslo"] * 25, "age": list(range(40, 90))}
)


@pytest.mark.parametrize("call", CHOSEN_USERS)
def test_a_unit_of_many_rows_moves_a_count_of_chosen_units_by_one(call):
    """Values that are the unit or NULL have the noise of units behind WHERE, and no limit."""
    others = pl.DataFrame(
        {"user_id": [u // 4 for u in range(4000)], "city": "Rome", "age": [20, 30, 60, 60] * 1000}
    ).filter(pl.col("user_id") != 7)
    terms = {"unit": "user_id", "epsilon": 1}
    query = f"SELECT {call} AS n FROM visits"
    behind = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE age > 50"
    plans = [dfp.explain(text, visits=others, **terms) for text in (query, behind)]
    assert [plan.answers[0].scale for plan in plans] == [1, 1]
    assert plans[0].answers[0].typical == plans[1].answers[0].typical
    assert [len(plan.draws) for plan in plans] == [1, 1]
    exact = {**terms, "epsilon": 1e9}
    by_city = f"SELECT city, {call} AS n FROM visits GROUP BY city"
    keys = {"keys": ["Oslo", "Rome"], "max_groups": 2}
    for rows, count in ((others, 999), (pl.concat([others, ONE_USER]), 1000)):
        assert dfp.sql(query, visits=rows, **exact)["n"].to_list() == [count]
        released = dfp.sql(by_city, visits=rows, **exact, **keys)["n"].to_list()
        assert released == [count - 999, count]


def test_other_values_than_the_unit_keep_their_noise(shared):
    """A branch that is anything but the unit or NULL has different values of a unit to count."""
    terms = {"unit": "user_id", "max_rows": 20}
    for choice in ("user_id + 0", "CASE WHEN vip THEN user_id ELSE age END", "city"):
        call = f"COUNT(DISTINCT {choice}) FILTER (WHERE age > 50)"
        plan = dfp.explain(f"SELECT {call} FROM visits", con=shared, **terms)
        assert plan.answers[0].scale == 20


def test_chosen_units_of_linked_tables_are_counted_once():
    """The unit's column may be that of any table linked to it; a LEFT JOIN makes it NULL."""
    con = duckdb.connect()
    con.execute("CREATE TABLE who AS SELECT i AS id, i % 3 AS region FROM range(300) r(i)")
    con.execute("CREATE TABLE buy AS SELECT i // 50 AS who, i % 7 AS paid FROM range(10000) r(i)")
    schema = dfp.Schema(unit="who.id", links={"buy.who": "who.id"})
    by_who = "SELECT who, max(paid) AS most FROM buy GROUP BY who"
    of_region = "SELECT COUNT(DISTINCT IF(region = 1, buy.who, NULL)) FROM"
    for query, count in (
        ("SELECT COUNT(DISTINCT who) FILTER (WHERE paid > 3) FROM buy", 200),
        (f"{of_region} buy JOIN who ON id = buy.who", 67),
        ("SELECT COUNT(DISTINCT IF(paid > 3, w.id, NULL)) FROM buy b JOIN who w ON id = who", 200),
        ("SELECT COUNT(DISTINCT b.who) FROM who w LEFT JOIN buy b ON id = who", 200),
        (f"{of_region} who LEFT JOIN buy ON id = buy.who", 67),
        ("SELECT COUNT(DISTINCT w.id) FROM who w LEFT JOIN buy b ON id = who", 300),
        (f"SELECT COUNT(DISTINCT who) FILTER (WHERE most > 3) FROM ({by_who})", 200),
    ):
        assert dfp.explain(query, con=con, schema=schema, epsilon=1).answers[0].scale == 1
        released = dfp.sql(query, con=con, schema=schema, epsilon=1e9).fetchall()
        assert released == [(count,)], query


def test_the_limits_that_were_found_are_in_notes_and_remarks():
    """A release in SQL says what that of a frame does: the share that counts, the least count."""
    rng = np.random.default_rng(1)
    sizes = np.minimum(rng.pareto(1.1, 3000) + 1, 5000).astype(int)
    visits = pl.DataFrame({"u": np.repeat(np.arange(3000), sizes), "g": "a", "x": 1.0})
    terms = {"unit": "u", "epsilon": 1, "delta": 1e-6}
    query = "SELECT g, SUM(x) AS s, COUNT(*) AS n FROM visits GROUP BY g"
    release = dfp.sql(query, visits=visits, intervals=True, **terms)
    shown = repr(dfp.show(release))
    assert re.search("limits (may )?leave out", release["s_note"][0])
    assert re.search("limits (may )?leave out", release["n_note"][0])
    (threshold,) = map(int, re.findall(r"noisy count below ([\d]+)", shown.replace(",", "")))
    (limit,) = map(int, re.findall(r"count\(\): max_rows=(\d+)", shown))
    assert threshold > 25 * limit  # the noise is that of so many rows


def test_a_release_without_groups_says_why(shared, caplog):
    """An empty table of secret keys comes with a note in the log, in SQL and of frames."""
    rows = pl.DataFrame({"g": ["a"]})
    for release in (
        lambda: dfp.sql(BY_CITY, con=shared, epsilon=0.001, delta=1e-9).fetchall(),
        lambda: rows.dp.group_by("g").count(epsilon=0.001, delta=1e-9),
    ):
        caplog.clear()
        assert len(release()) == 0
        assert caplog.messages == [
            "no group is shown: noisy counts are too low, explain says how many rows groups need"
        ]


def test_no_group_within_limits_that_were_found(shared, caplog):
    """The note says that limits decide, not explain, which knows none of them."""
    rows = pl.DataFrame({"g": ["a"] * 9, "u": [1] * 9})
    terms = {"epsilon": 0.001, "delta": 1e-9}
    for release in (
        lambda: dfp.sql(BY_CITY, con=shared, unit="user_id", **terms).fetchall(),
        lambda: rows.dp(unit="u").group_by("g").count(**terms),
    ):
        caplog.clear()
        assert len(release()) == 0
        (message,) = caplog.messages
        assert "smaller max_rows and max_groups need fewer rows" in message
        assert "explain" not in message


def test_a_key_that_is_the_unit(shared):
    """The unit may be a group key and a value too."""
    query = "SELECT user_id, dp_count(user_id) AS n FROM visits GROUP BY user_id ORDER BY 1 LIMIT 2"
    terms = {"unit": "user_id", "max_rows": 20, "max_groups": 1}
    released = dfp.sql(query, con=shared, keys=[3, 4], epsilon=1e13, **terms)
    assert released.fetchall() == [(3, 12), (4, 12)]


@pytest.mark.parametrize(
    "name", ["a.b", 'a "b"', "a'b", "\u00e9 \u00b7", "SELECT", "a b.c.d", "x" * 200]
)
def test_names_of_any_kind(name):
    """Columns, keys, units and results may have any name."""
    table = pa.table({name: [1, 2] * 30, name.upper() + "2": [0.5] * 60})
    column, other = ('"' + text.replace('"', '""') + '"' for text in table.column_names)
    query = (
        f"SELECT {column} AS {other}, dp_mean({other} * 0.5, 0, 1) AS {column}, "
        f"dp_count({column}) AS n FROM t GROUP BY {column}"
    )
    terms = {"unit": name, "max_rows": 30, "max_groups": 1, "epsilon": 1e13, "keys": [1, 2]}
    released = dfp.sql(query, t=table, **terms)
    assert released.column_names == [*reversed(table.column_names), "n"]
    assert released.to_pylist()[0][name] == pytest.approx(0.25)


def test_the_ledger_tells_what_was_asked(shared, tmp_path):
    """A ledger's history shows questions, groups and note as they were written."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=3, delta=1e-3)
    terms = {"con": shared, "ledger": ledger, "dataset": "visits", "note": "weekly", "delta": 1e-6}
    dfp.sql("SELECT city AS c, dp_mean(age / 2, 0, 50) FROM visits GROUP BY c", **terms)
    (line,) = ledger.history().to_dict("records")
    assert line["question"] == "mean('(age / 2)', bounds=(0.0, 50.0)) by 'c'"
    assert (line["epsilon"], line["delta"], line["note"]) == (1.0, 1e-6, "weekly")
    with dfp.spending(ledger, dataset="visits"):
        dfp.sql("SELECT dp_count(*) FROM visits", con=shared)
        with pytest.raises(dfp.BudgetExceededError):
            dfp.sql("SELECT dp_count(*) FROM visits", con=shared, epsilon=1.5)
    assert ledger.remaining("visits").epsilon == 1
    with pytest.raises(dfp.errors.InvalidLedgerError):
        dfp.explain("SELECT dp_count(*) FROM visits", con=shared, ledger=ledger)


def test_an_explanation_is_a_frozen_value(shared):
    """An explanation can be pickled, not changed, and prints every step."""
    query = f"{BY_CITY} HAVING dp_keep(1e-6) AND n > 5 ORDER BY n LIMIT 3"
    plan = dfp.explain(query, con=shared, epsilon=0.5)
    assert pickle.loads(pickle.dumps(plan)) == plan
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.epsilon = 0
    plan_lines = repr(plan).split("\n\n")[0].splitlines()
    assert plan_lines == [
        "protects  one row, added or removed",
        "relation  memory.main.visits",
        (
            'rows      SELECT "city" FROM (SELECT "city", true AS "owner" FROM '
            '"memory"."main"."visits")'
        ),
        "groups    city: secret, shown if the noisy count is large enough, delta 1e-6",
        "asks      dp_count() -> count()",
        "spends    epsilon 0.5 on count()",
        (
            'then      SELECT released.key_0 AS "city", released.answer_0 AS "n" FROM released '
            "WHERE TRY((released.answer_0 > 5)) "
            "ORDER BY released.answer_0 ASC NULLS LAST, released.place LIMIT 3"
        ),
        "columns   city VARCHAR, n BIGINT",
        "costs     epsilon 0.5, delta 1e-6",
        "groups    are shown with probability 5% from 23 rows on, 50% from 28, 95% from 33",
    ]
    assert plan["dp_count()"].typical[:2] == (6, 6)


def test_errors_in_released_expressions_cost_no_answer(shared):
    """An expression over answers that fails is NULL: what was paid for comes out."""
    query = (
        "SELECT city, dp_count(*) AS n, CAST(city AS INTEGER) + n AS odd FROM visits GROUP BY city"
    )
    released = dfp.sql(query, con=shared, epsilon=1e13, delta=0.1)
    assert released.fetchall()[0] == ("Bonn", 200, None)


def test_a_count_of_rows_decides_which_groups_are_shown():
    """A group that has rows but no values is shown by its rows, whatever is counted first."""
    frame = pa.table({"g": ["a", "b"] * 500, "x": pa.array([1.0, None] * 500)})
    query = "SELECT g, dp_count(x) AS n, dp_count(*) AS rows FROM t GROUP BY g"
    released = dfp.sql(query, t=frame, epsilon=1e6, delta=1e-6).to_pylist()
    assert [tuple(row.values()) for row in released] == [("a", 500, 500), ("b", 0, 500)]
