"""Allowed statements are planned as written, cost what they say, and answer as DuckDB does."""

import os
import sys

import pytest

import dfprivacy as dfp
from tests.statements.readers import read_statements
from tests.statements.same_rows import require_same_rows

QUERIES = read_statements("allowed.sql")


def delta_for(query):
    return None if "dp_keep" in query else 0.001


AGE = "mean('age', bounds=(0.0, 100.0))"
PLANS = [
    ("dp_mean(age, -1 * 10, 10 * 10 + 20, 1 / 2)", ["mean('age', bounds=(-10.0, 120.0))"], "", 0.5),
    ("dp_avg(age, 0, 100), dp_mean(age, 0, 100)", [AGE], "", 1),
    ("avg(age), mean(age), dp_mean(age), dp_avg(age)", ["mean('age')"], "", 1),
    ("dp_mean_interval(age, 0, 100).low, dp_mean(age, 0, 100)", [AGE], "", 1),
    ("dp_mean(income, 0.25), dp_count(*)", ["mean('income')", "count()"], "", 1.25),
    ("dp_count(day AT TIME ZONE 'UTC')", ["count('timezone(\\'UTC\\', \"day\")')"], "", 1),
    ("city AS town, vip, dp_count(*) AS n", ["count()"], "town, vip", 1),
    ("upper(city), dp_count(*), dp_mean(age, 0, 100)", ["count()", AGE], "upper(city)", 1),
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("select_list", "questions", "keys", "epsilon"), PLANS)
def test_a_plan_has_questions_keys_and_cost(shared, select_list, questions, keys, epsilon):
    """Each different call is a question, each key a group, and delta is spent on secret keys."""
    group_by = f" GROUP BY {keys}" if keys else ""
    plan = dfp.explain(f"SELECT {select_list} FROM visits{group_by}", con=shared, delta=0.001)
    assert [text for _, text in plan.calls] == questions
    assert ", ".join(plan.keys) == keys
    assert (plan.epsilon, plan.delta) == (epsilon, 0.001 if keys else 0)


NOISY = ("0.25) AS m", "1 / 2) AS m", "=> 1) AS m")
NOISELESS = [query for query in QUERIES if not any(loss in query for loss in NOISY)]


@pytest.mark.parametrize("query", NOISELESS[::2])
def test_answers(shared, exact, query):
    """Without noise, a statement gives the rows, order and names that DuckDB gives.

    At epsilon 10^13 all noise is 0 but with a probability below 10^-6.
    """
    ours = dfp.sql(query, con=shared, epsilon=1e13, delta=delta_for(query))
    off = 1 if "quantile" in query else 1e-3
    require_same_rows(ours, exact.sql(query), ordered="ORDER BY" in query, rel=0, off=off)


@pytest.fixture
def ledger(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=1000, delta=0.5)


@pytest.mark.parametrize("query", QUERIES[::6])
def test_every_draw_is_charged(shared, ledger, monkeypatch, query):
    """A statement pays before its first random byte: all that it is explained to cost, once."""
    left, true = [], os.urandom

    def spy(size):
        if sys._getframe(1).f_globals["__name__"].startswith("dfprivacy."):
            left.append(ledger.remaining("visits"))
        return true(size)

    terms = {"con": shared, "epsilon": 0.5, "delta": delta_for(query)}
    plan = dfp.explain(query, **terms)
    monkeypatch.setattr(os, "urandom", spy)
    dfp.sql(query, **terms, ledger=ledger, dataset="visits")
    assert left
    assert set(left) == {ledger.remaining("visits")}
    assert left[0].epsilon == pytest.approx(1000 - plan.epsilon, abs=1e-8)
    assert sum(draw.epsilon for draw in plan.draws) == pytest.approx(plan.epsilon)


def test_a_call_is_one_value(shared):
    """The same call is the same noisy value wherever it stands, whatever it is called."""
    (row,) = dfp.sql(
        "SELECT dp_mean(age, 0, 100) AS a, dp_avg(age, 0, 100) AS b, a + 0 AS c, "
        "dp_mean_interval(age, 0, 100).value AS d, dp_mean((age), 0.0, 50 * 2) AS e FROM visits "
        "HAVING dp_mean(age, 0, 100) = a ORDER BY dp_mean(age, 0, 100) LIMIT 1",
        con=shared,
        epsilon=0.01,
    ).fetchall()
    assert len(set(row)) == 1
