"""What is released without bounds keeps the promise of epsilon: measured at the public surface.

Groups with public keys are independent releases of the same rows: each bin has its own noise, and
so has each answer. Comparisons have a false-alarm rate of 2e-9 at most (Clopper-Pearson); one half
of the draws chooses the events and the other half judges them, at most 64 * 6 for each of ten
views. Only events as unequal as epsilon allows can raise an alarm: below 1e-6 a test.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.estimators.octave_bounds import CORE, SHARE
from dfprivacy.statistics import octaves
from dfprivacy.statistics.part import COUNT_SHARE

ASKS = {
    "bounds": lambda g, **t: g.bounds("x", **t),
    "mean": lambda g, **t: g.mean("x", **t),
    "sum": lambda g, **t: g.sum("x", **t),
    "variance": lambda g, **t: g.var("x", **t),
    "several": lambda g, **t: g.agg(x=dfp.mean("x"), v=dfp.std("x"), n=dfp.count("x"), **t),
    "histogram": lambda g, **t: g.histogram("x", bins=[0, 4, 8, 16], **t),
}
BOUNDS_CORE = math.ceil(CORE / (3 * (1 - COUNT_SHARE)))  # rows of a core at epsilon = 3
MEAN_CORE = math.ceil(CORE / (3 * SHARE))
PAIRS = {
    "nobody and one": ([], [5.0]),
    "nobody and infinity": ([], [math.inf]),
    "two and three": ([5.0] * 2, [5.0] * 3),
    "one more of many": ([5.0] * 15, [5.0] * 16),
    "an outlier": ([5.0] * 16, [*[5.0] * 16, -1e300]),
    "a neighbouring octave": ([*[5.0] * 20, *[9.0] * 7], [*[5.0] * 20, *[9.0] * 8]),
    "a missing value": ([5.0] * 16, [*[5.0] * 16, math.nan]),
    "just below a core of bounds": ([5.0] * (BOUNDS_CORE - 2), [5.0] * (BOUNDS_CORE - 1)),
    "just below a core of a mean": ([8.0] * (MEAN_CORE - 2), [8.0] * (MEAN_CORE - 1)),
    "zeros": ([0.0] * 15, [0.0] * 16),
}
MISSING = -1e250


@pytest.fixture(autouse=True)
def nothing_is_borrowed(monkeypatch):
    """Leave groups without bounds unanswered, as whole frames are: groups stay independent."""
    monkeypatch.setattr(octaves, "_middle", lambda found, shown: None)


def views(table, copies):
    """Return what an observer may look at: columns, and what undoes a ratio where there is one."""
    columns = {
        name: np.nan_to_num(table[name].to_numpy().astype(float), nan=MISSING)
        for name in table.columns
        if name != "g"
    }
    if len(table) > copies:
        counts = columns["count"].reshape(copies, -1)
        return {f"bin {i}": counts[:, i] for i in range(counts.shape[1])} | {
            "total": counts.sum(axis=1),
            "contrast": counts[:, 0] - counts[:, 1],
        }
    for name in {"x", "v", "lower"} & columns.keys():
        known, count = columns[name] != MISSING, columns.get("n", columns.get("count", 1.0))
        columns[f"{name} known"] = np.where(known, count + 1e3, MISSING)
        columns[f"{name} above"] = np.where(known, (columns[name] - 4) * count, MISSING)
        columns[f"{name} below"] = np.where(known, (8 - columns[name]) * count, MISSING)
    return columns


def release(ask, rows, copies, **loss):
    groups = np.repeat(np.arange(copies), len(rows))
    frame = pl.DataFrame(
        {
            "g": pl.Series(groups, dtype=pl.Int64),
            "x": pl.Series(list(rows) * copies, dtype=pl.Float64),
        }
    )
    return views(ASKS[ask](frame.dp.group_by("g", keys=range(copies)), **loss), copies)


def worst(violation, ask, pair, copies, claimed, delta=0.0, **loss):
    """Return by how much some event certainly breaks the claim; negative where none does."""
    left, right = (release(ask, rows, copies, **loss) for rows in PAIRS[pair])
    assert left.keys() == right.keys()
    return max(violation(left[name], right[name], claimed, delta) for name in left)


QUICK = [
    ("bounds", "two and three", 3),
    ("bounds", "an outlier", 1),
    ("bounds", "a neighbouring octave", 1),
    ("mean", "just below a core of a mean", 3),
    ("bounds", "just below a core of bounds", 3),
    ("mean", "an outlier", 3),
    ("sum", "a neighbouring octave", 1),
    ("variance", "one more of many", 3),
    ("several", "nobody and one", 1),
    ("histogram", "two and three", 1),
]


@pytest.mark.parametrize(("ask", "pair", "epsilon"), QUICK)
def test_one_row_changes_no_probability_by_more_than_epsilon(ask, pair, epsilon, violation):
    """One row changes no probability by more than epsilon.

    No tail and no point of what is released is more than exp(epsilon) times as likely on a
    neighbour, on 40,000 releases a side; false-alarm rate below 1e-6.
    """
    assert worst(violation, ask, pair, 40_000, epsilon, epsilon=epsilon) <= 0


def test_one_row_changes_no_probability_by_more_than_rho_allows(violation):
    """The same at rho = 1, which is (1 + 2 sqrt(ln 100), 1/100)-DP."""
    claimed = 1 + 2 * math.sqrt(math.log(100))
    for ask in ("bounds", "mean"):
        assert worst(violation, ask, "one more of many", 40_000, claimed, 0.01, rho=1) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("ask", ASKS)
def test_one_row_changes_no_probability_at_length(ask, pair, epsilon, violation):
    """The same for all questions, pairs and three epsilons, on 150,000 releases a side."""
    assert worst(violation, ask, pair, 150_000, epsilon, epsilon=epsilon) <= 0


@pytest.mark.parametrize(
    ("ask", "pair", "claimed"),
    [
        ("bounds", "just below a core of bounds", 2),
        ("mean", "just below a core of a mean", 2.2),
        ("histogram", "two and three", 2.6),
    ],
)
def test_the_audit_sees_a_smaller_claim_fail(ask, pair, claimed, violation):
    """Releases at epsilon = 3 fail the audit of a clearly smaller claim.

    Neither the bounds of a mean (9/8) nor its sums (15/8) alone would break a claim of 2. What the
    audit finds lies nine of its standard deviations or more above zero: missed below 1e-9.
    """
    assert worst(violation, ask, pair, 150_000, claimed, epsilon=3) > 0


def test_a_whole_frame_has_the_law_of_a_group(violation):
    """Releases of a whole frame are distributed like those of a group: no event tells them apart.

    600 releases a side against a claim of epsilon = 0; false-alarm rate below 1e-6.
    """
    rows = [5.0] * 17
    frame = pl.DataFrame({"x": rows})
    whole = [frame.dp.bounds("x", epsilon=1) for _ in range(600)]
    ends = np.array([[float(end) for end in pair] for pair in whole])
    grouped = release("bounds", rows, 600, epsilon=1)
    for index, name in enumerate(("lower", "upper")):
        own = np.nan_to_num(ends[:, index], nan=MISSING)
        assert violation(own, grouped[name], 0.0, 0.0) <= 0
        assert len(np.unique(own)) > 1
