"""Releases of the front end keep the promise of epsilon: measured, not proved.

Every comparison has a false-alarm rate of 2e-9 at most (Clopper-Pearson, 1e-9 a side); a check
makes at most 64 * 6 * 4 = 1,536 of them on dependent events, of which one half of the data chooses
and the other half judges. Its false-alarm rate is below 1e-5 if they were independent and all
tight, and below 1e-6 in fact, since only events with P(E) = exp(epsilon) Q(E) can raise one.
"""

import math

import numpy as np
import pytest

import dfprivacy as dfp
from dfprivacy import papers
from tests.products import take_turns

pytestmark = pytest.mark.slow

ASKS = {
    "count": lambda g, **t: g.count(**t),
    "values": lambda g, **t: g.agg(value=dfp.count("x"), **t),
    "sum": lambda g, **t: g.agg(value=dfp.sum("x", BOUNDS[0]), **t),
    "sum of one sign": lambda g, **t: g.agg(value=dfp.sum("x", (100, 101)), **t),
    "mean": lambda g, **t: g.agg(value=dfp.mean("x", BOUNDS[0]), **t),
    "shifted mean": lambda g, **t: g.agg(value=papers.ShiftedMean("x", BOUNDS[0]), **t),
    "independent mean": lambda g, **t: g.agg(value=papers.IndependentMean("x", BOUNDS[0]), **t),
    "variance": lambda g, **t: g.agg(value=dfp.var("x", BOUNDS[0]), **t),
    "several": lambda g, **t: g.agg(
        value=dfp.var("x", BOUNDS[0]), other=dfp.sum("x", (-1, 2)), count=dfp.count(), **t
    ),
}
BOUNDS = [(-5, 3)]
PAIRS = {
    "nobody and one at the top": ([], [3.0]),
    "nobody and one at the bottom": ([], [-5.0]),
    "nobody and an outlier": ([], [1e300]),
    "nobody and infinity": ([], [-math.inf]),
    "one and two": ([-5.0], [-5.0, 3.0]),
    "two and three": ([-5.0, -5.0], [-5.0, -5.0, 1e300]),
    "nan beside one": ([3.0], [3.0, math.nan]),
    "all of one kind": ([100.0] * 3, [100.0] * 3 + [101.0]),
}


def views(table):
    """Return the columns that an observer may look at, and products that undo a ratio.

    A note is about all groups together, which are the releases here: it is audited by itself.
    """
    names = [name for name in table.columns if name != "g" and not name.endswith("note")]
    columns = {name: table[name].to_numpy().astype(float) for name in names}
    count = columns.get("count")
    if count is not None and "value" in columns:
        columns["product"] = columns["value"] * count
        columns["complement"] = (columns["value"] + 5) * count
        columns["deficit"] = (3 - columns["value"]) * count
    return columns


def audit(bulk, violation, ask, pair, loss, copies):
    left, right = (views(bulk(rows, copies, ASKS[ask], **loss)) for rows in PAIRS[pair])
    epsilon, delta = loss.get("epsilon"), 0.0
    if epsilon is None:  # rho-zCDP is (rho + 2 sqrt(rho ln(1/delta)), delta) for every delta
        delta = 1e-2
        epsilon = loss["rho"] + 2 * math.sqrt(loss["rho"] * math.log(1 / delta))
    for name, values in left.items():
        assert len(values) == copies
        assert violation(values, right[name], epsilon, delta) <= 0, name


def test_one_row_changes_no_probability_by_more_than_rho_allows(bulk, violation):
    """One row changes no probability of the discrete Gaussian by more than rho = 1/2 allows."""
    for ask in ("count", "variance"):
        audit(bulk, violation, ask, "nobody and one at the top", {"rho": 0.5}, 30_000)


@pytest.mark.parametrize(("ask", "pair", "epsilon"), take_turns(ASKS, PAIRS, [0.1, 1, 3]))
def test_one_row_changes_no_probability_by_more_than_epsilon(ask, pair, epsilon, bulk, violation):
    """One row changes no probability by more than epsilon, for each question of each pair.

    No tail and no point of any released column is more than exp(epsilon) times as likely on a
    neighbor, on 60,000 releases a side; false-alarm rate below 1e-6.
    """
    audit(bulk, violation, ask, pair, {"epsilon": epsilon}, 60_000)


def test_a_million_counts_keep_epsilon(bulk, violation):
    """A million counts a side: a loss of 1.05 epsilon would show; false-alarm rate below 1e-6."""
    audit(bulk, violation, "count", "nobody and one at the top", {"epsilon": 1}, 1_000_000)


def test_the_audit_sees_a_broken_release(bulk, violation):
    """Releases at 1.5 epsilon fail the audit, a released row fails it, equal ones pass."""
    left, right = (
        bulk(rows, 60_000, ASKS["count"], epsilon=1.5)["count"].to_numpy() for rows in ([], [1.0])
    )
    assert violation(left, right, 1.0, 0.0) > 0
    assert violation(left, right, 1.5, 0.0) <= 0
    assert violation(left, left[::-1].copy(), 0.01, 0.0) <= 0
    assert violation(np.zeros(1000), np.ones(1000), 3.0, 0.1) > 0
