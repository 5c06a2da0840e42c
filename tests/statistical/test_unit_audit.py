"""Whole units are protected, not only rows: what a user costs is at most what is charged.

Draws on a table are repeated on the same table without a user. Where groups are secret, the share
of users whose groups are shown is compared with delta at 1e-9 a side (Clopper-Pearson).
"""

import math

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from benchmarks.releases import plain
from tests.products import take_turns
from tests.replayed_draws import replay

pytestmark = pytest.mark.slow

GROUPS = 4
OTHERS = [(user, user % GROUPS, 1.0) for user in range(2, 6)]


def heavy(groups, rows, x):
    return [(1, group, x) for group in range(groups) for _ in range(rows)]


USERS = {
    "one row": heavy(1, 1, 9.0),
    "one group of fifty rows": heavy(1, 50, 9.0),
    "four groups of fifty rows": heavy(4, 50, 9.0),
    "two rows in each group": heavy(4, 2, -3.0),
}
ASKS = {
    "count": lambda private: private.count(epsilon=1),
    "mean": lambda private: private.agg(value=dfp.mean("x", (0, 8)), epsilon=1),
    "median": lambda private: private.agg(value=dfp.median("x"), epsilon=1),
}


def costs(ask, user):
    """Yield what a user costs in each of twenty releases; nothing else shows the user."""

    def release(rows):
        return ask(pl.DataFrame(rows, schema=["u", "g", "x"], orient="row"))

    for _ in range(20):
        larger_release, smaller_release, tape = replay(release, USERS[user] + OTHERS, OTHERS)
        assert plain(larger_release) == plain(smaller_release)
        yield tape.loss.epsilon


def by_group(private):
    return private.group_by("g", keys=range(GROUPS))


@pytest.mark.parametrize(
    ("user", "ask", "limits"), take_turns(USERS, ASKS, [(1, 1), (3, 1), (2, 4)])
)
def test_users_are_protected_at_epsilon_1(user, ask, limits):
    """Counts, means and medians keep epsilon 1 whatever one user has, in every group together."""
    terms = {"unit": "u", "max_rows": limits[0], "max_groups": limits[1]}
    assert max(costs(lambda frame: ASKS[ask](by_group(frame.dp(**terms))), user)) <= 1


def test_an_audit_that_forgets_the_unit_fails():
    """The same audit sees a user of four groups when only rows are protected."""
    ask = lambda frame: ASKS["count"](by_group(frame.dp))  # noqa: E731
    assert min(costs(ask, "four groups of fifty rows")) > 1


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


def test_a_row_with_matches_is_hidden():
    """Counts of what a join makes keep epsilon 1 against a row that has three matches."""
    prices = pl.DataFrame({"customer": [1, 5, 5, 5, 5], "list": [0, 0, 1, 2, 3]})
    schema = dfp.Schema(rows="o", public=["p"], matches={"p.customer": 3})
    query = "SELECT dp_count(*) AS n FROM o JOIN p USING (customer)"

    def release(rows):
        frame = pl.DataFrame({"customer": rows})
        return dfp.sql(query, o=frame, p=prices, schema=schema, epsilon=1)

    larger_release, smaller_release, tape = replay(release, [1, 2, 5], [1, 2])
    assert plain(larger_release) == plain(smaller_release)
    assert tape.loss.epsilon == 1
