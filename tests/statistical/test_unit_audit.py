"""Whole units are protected, not only rows: measured, not proved.

Each table holds many copies of one situation, with users of their own and public groups of their
own, so that one release answers for all copies at once. What is compared is what an observer would
look at: a sum over all groups that one user is in. Every comparison has a false-alarm rate of 2e-9
at most (Clopper-Pearson); a check makes at most 64 * 6 of them, and half of the data chooses.
"""

import math

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.products import take_turns

pytestmark = pytest.mark.slow

GROUPS = 4


def copies_of(users, copies):
    """Return a frame of copies; `users` maps a user to the (group, value) of its rows."""
    rows = [(user, group, x) for user, own in users.items() for group, x in own]
    user, group, x = (np.array(column) for column in zip(*rows, strict=True))
    copy = np.repeat(np.arange(copies), len(rows))
    return pl.DataFrame(
        {
            "u": copy * 100 + np.tile(user, copies),
            "g": copy * GROUPS + np.tile(group, copies),
            "x": np.tile(x.astype(float), copies),
        }
    )


def heavy(groups, rows, x):
    return [(group, x) for group in range(groups) for _ in range(rows)]


OTHERS = {user: [(user % GROUPS, 1.0)] for user in range(2, 6)}
USERS = {
    "one row": heavy(1, 1, 9.0),
    "one group of fifty rows": heavy(1, 50, 9.0),
    "four groups of fifty rows": heavy(4, 50, 9.0),
    "two rows in each group": heavy(4, 2, -3.0),
}
ASKS = {
    "count": lambda g: g.count(epsilon=1),
    "mean": lambda g: g.agg(value=dfp.mean("x", (0, 8)), epsilon=1),
    "median": lambda g: g.agg(value=dfp.median("x"), epsilon=1),
}


def observed(users, copies, ask, limits):
    """Return, for each copy, sums over its groups of what comes out."""
    frame = copies_of(users, copies)
    grouped = frame.dp(unit="u", **limits).group_by("g", keys=range(copies * GROUPS))
    answers = ask(grouped).sort("g")
    count = answers["count"].to_numpy().reshape(copies, GROUPS).astype(float)
    found = {"count": count.sum(axis=1), "first": count[:, 0]}
    if "value" in answers.columns:
        value = answers["value"].to_numpy().reshape(copies, GROUPS)
        value = np.nan_to_num(value, nan=-1e9)
        found |= {"values": value.sum(axis=1), "first value": value[:, 0]}
        found["product"] = (value * count).sum(axis=1)
    return found


def audit(violation, name, ask, limits, copies):
    with_user = observed({1: USERS[name], **OTHERS}, copies, ASKS[ask], limits)
    without = observed(OTHERS, copies, ASKS[ask], limits)
    for view, values in with_user.items():
        assert violation(values, without[view], 1.0, 0.0) <= 0, view


@pytest.mark.parametrize(
    ("name", "ask", "limits"), take_turns(USERS, ASKS, [(1, 1), (3, 1), (2, 4)])
)
def test_users_are_protected_at_epsilon_1(violation, name, ask, limits):
    """Counts, means and medians keep epsilon 1 whatever one user has, in every group together."""
    rows, groups = limits
    audit(violation, name, ask, {"max_rows": rows, "max_groups": groups}, 20_000)


def test_an_audit_that_forgets_the_unit_fails(violation):
    """The same audit sees a user of four groups when only rows are protected."""
    frames = [
        copies_of(users, 20_000).drop("u") for users in ({1: USERS["four groups of fifty rows"],
                                                          **OTHERS}, OTHERS)
    ]  # fmt: skip
    keys = range(20_000 * GROUPS)
    counts = [
        frame.dp.group_by("g", keys=keys).count(epsilon=1)["count"].to_numpy().reshape(-1, GROUPS)
        for frame in frames
    ]
    left, right = (count.sum(axis=1).astype(float) for count in counts)
    assert violation(left, right, 1.0, 0.0) > 0


def alone(users, groups, rows):
    """Return users who make groups of their own, each with so many rows in so many groups."""
    user = np.repeat(np.arange(users), groups * rows)
    group = np.repeat(np.arange(users * groups), rows)
    return pl.DataFrame({"u": user, "g": group, "x": np.ones(len(user))})


@pytest.mark.parametrize(
    ("groups", "rows", "limits"), [(1, 1, (1, 1)), (1, 9, (3, 1)), (4, 3, (2, 2)), (3, 1, (1, 3))]
)
@pytest.mark.parametrize("ask", ["count", "mean", "median", "octaves"])
def test_groups_of_one_user_alone_are_rare(upper_limit, lower_limit, groups, rows, limits, ask):
    """The share of users of whom any own group is shown is at most delta."""
    delta, users = 1e-2, 20_000
    question = {
        "count": dfp.count(), "mean": dfp.mean("x", (0, 1)), "median": dfp.median("x"),
        "octaves": dfp.mean("x"),
    }[ask]  # fmt: skip
    frame = alone(users, groups, rows)
    private = frame.dp(unit="u", max_rows=limits[0], max_groups=limits[1], epsilon=1, delta=delta)
    shown = private.group_by("g").agg(value=question)["g"].to_numpy()
    seen = len(np.unique(shown // groups))
    assert float(lower_limit(seen, users)) <= delta
    if ask == "count" and groups == 1:  # the threshold is not needlessly high
        assert float(upper_limit(seen, users)) >= delta * math.exp(-1 / limits[0] / limits[1])


@pytest.mark.parametrize(
    ("user", "question"),
    [("one row", dfp.count()), ("four groups of fifty rows", dfp.mean("x", (0, 8)))],
)
def test_limits_found_for_a_question_keep_a_user_hidden(violation, user, question):
    """The limits themselves, which are public, come out as often without any one user."""
    limits = []
    for users in ({1: USERS[user], **OTHERS}, OTHERS):
        frame = copies_of(users, 1)
        found = [
            dfp.suggest_limits(frame, unit="u", by="g", question=question, spending=9)
            for _ in range(500)
        ]
        limits.append(np.array([own.max_rows * 2**10 + own.max_groups for own in found], float))
    assert violation(*limits, 1.0, 0.0) <= 0


@pytest.mark.parametrize("user", [[(g, 9.0) for g in range(4)] * 50])
@pytest.mark.parametrize("by", [False, True])
def test_a_user_is_hidden_by_a_release_that_finds_limits(violation, user, by):
    """Answers and limits together keep epsilon 1 against a user who comes and goes."""
    others = [(i, i % 4, 1.0) for i in range(6)]
    seen = []
    for rows in ([(99, *own) for own in user] + others, others):
        u, g, x = (list(column) for column in zip(*rows, strict=True))
        private = pl.DataFrame({"u": u, "g": g, "x": x}).dp(unit="u")
        found = []
        for _ in range(500):
            if by:
                answer = private.group_by("g", keys=range(4)).sum("x", (0, 9))
                found.append(answer["x"].sum())
            else:
                answer = private.sum("x", (0, 9))
                found.append(answer + 1e6 * answer.limits.max_rows)
        seen.append(np.array(found, float))
    assert violation(*seen, 1.0, 0.0) <= 0


def test_a_row_with_matches_is_hidden(violation):
    """Counts of what a join makes keep epsilon 1 against a row that has three matches."""
    found = []
    for rows in ([1, 2, 5], [1, 2]):
        frame = pl.DataFrame({"customer": rows})
        prices = pl.DataFrame({"customer": [1, 5, 5, 5, 5], "list": [0, 0, 1, 2, 3]})
        schema = dfp.Schema(rows="o", public=["p"], matches={"p.customer": 3})
        query = "SELECT dp_count(*) AS n FROM o JOIN p USING (customer)"
        terms = {"o": frame, "p": prices, "schema": schema, "epsilon": 1}
        found.append(np.array([dfp.sql(query, **terms)["n"][0] for _ in range(500)], float))
    assert violation(*found, 1.0, 0.0) <= 0
