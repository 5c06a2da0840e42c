"""Answers and the ends of intervals are possible values, and doubt is stated."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp

GROUPS = 400
KEYS = list(range(GROUPS))
FEW = pl.DataFrame({"g": np.repeat(KEYS, 2), "x": [1.0, 3.0] * GROUPS, "k": ["a", "b"] * GROUPS})


@pytest.mark.parametrize("loss", [{"epsilon": 0.1}, {"rho": 0.005}], ids=str)
def test_ends_of_counts_and_sums_are_possible(loss):
    """No end is below 0 unless the answer is, and every interval holds its answer.

    Of 400 groups of two rows a fifth at least has a negative count: a false alarm in 10**13 runs.
    """
    by = FEW.dp.group_by("g", keys=KEYS)
    for question in (dfp.count(), dfp.sum("x", (0, 50)), dfp.sum("x", (-50, 0))):
        answers = by.agg(x=question, **loss)
        value, low, high = (answers[name].to_numpy() for name in ("x", "low", "high"))
        sign = -1 if question == dfp.sum("x", (-50, 0)) else 1
        inner = low if sign > 0 else -high
        assert (inner >= np.minimum(sign * value, 0)).all()
        assert ((low <= value) & (value <= high)).all()
        assert (value < 0).mean() > 0.2


def test_numbers_of_different_values_are_not_negative():
    """Of two values at epsilon 0.1 half of the noisy numbers would be below 0; intervals hold 2."""
    counts = FEW.dp.group_by("g", keys=KEYS).nunique("k", epsilon=0.1)
    assert counts["k"].min() == 0
    hits = int(((counts["low"] <= 2) & (counts["high"] >= 2)).sum())
    assert stats.binomtest(hits, GROUPS, 0.95, alternative="less").pvalue > 1e-9


@pytest.mark.parametrize("share", [0.01, 0.5, 0.97])
def test_intervals_of_rare_shares_hold_the_population(share):
    """A share of 150 rows near 0 or 1 too, in 93 % or more; false alarms below 1e-9.

    The share without sampling has ends one row of 150 apart, so that coverage comes in steps.
    """
    groups = 3000
    rows = np.random.default_rng(5).random((groups, 150)) < share
    frame = pl.DataFrame({"g": np.repeat(np.arange(groups), 150), "b": rows.ravel()})
    shares = frame.dp.group_by("g", keys=range(groups)).share("b", epsilon=10, population=True)
    hits = int(((shares["low"] <= share) & (share <= shares["high"])).sum())
    assert stats.binomtest(hits, groups, 0.93, alternative="less").pvalue > 1e-9


@pytest.mark.parametrize(
    ("radius", "rho", "words"),
    [(10, 0.5, None), (1e9, 0.5, "grid coarser than the noise"), (10, 1e-4, "fewer rows than")],
)
def test_means_of_vectors_state_doubt(radius, rho, words):
    """Too few rows, or too coarse a grid: a note, and an infinite error."""
    rows = np.random.default_rng(6).normal(3, 1, (2000, 2))
    frame = pl.DataFrame(rows, schema=["x", "y"])
    mean = frame.dp.mean_vector(["x", "y"], rho=rho, radius=radius)
    if words is None:
        assert mean.note is None
        assert np.isfinite(mean.std_error).all()
    else:
        assert words in mean.note
        assert words in repr(mean)
        assert np.isinf(mean.std_error).all()
