"""The least and the largest value: how many rows lie beyond what is selected."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp

OUTER = 38
"""About so many rows lie beyond an answer at epsilon 1, as the forecast says."""


@pytest.mark.battery
@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
@pytest.mark.parametrize("end", ["min", "max"])
def test_at_least_one_row_and_at_most_twice_as_many_lie_beyond(make, end):
    """In 90 % of releases or more the extreme row lies beyond, and never many more rows."""
    values = np.random.default_rng(5).normal(size=5000)
    private = make({"x": values}).dp
    assert f"about {OUTER} rows" in str(getattr(private.explain, end)("x", epsilon=1))
    hits = 0
    for _ in range(60):
        answer = float(getattr(private, end)("x", epsilon=1))
        outer_rows = (values <= answer).sum() if end == "min" else (values >= answer).sum()
        hits += 1 <= outer_rows <= 2 * OUTER
    assert stats.binomtest(hits, 60, 0.9, alternative="less").pvalue > 1e-6


def test_whole_numbers_stay_whole_numbers():
    """The answer about a column of integers is one, whole or by group, and lies near its end."""
    frame = pl.DataFrame({"n": list(range(1000)) * 50, "k": ["a", "b"] * 25_000})
    for _ in range(5):
        release = frame.dp.group_by("k", keys=["a", "b"]).agg(
            low=dfp.min("n"), high=dfp.max("n"), epsilon=4
        )
        answers = [frame.dp.min("n"), frame.dp.max("n"), *release["low"], *release["high"]]
        assert all(float(answer).is_integer() for answer in answers)
        assert answers[0] < 20
        assert answers[1] > 980


def test_too_few_rows_have_no_answer():
    """Where the noisy count is too small for a rank, the answer is not a number."""
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
    assert np.isnan(frame.dp.min("x", epsilon=1))
    assert np.isnan(frame.dp.max("x", epsilon=1))


def test_bounds_of_positive_values_begin_at_zero_or_above():
    """Noise lifts octaves far below the values' own; these move an end beyond zero rarely."""
    values = np.random.default_rng(4).gamma(2.6, 50, (300, 300)) + 20
    frame = pl.DataFrame({"g": np.repeat(np.arange(300), 300), "x": values.reshape(-1)})
    bounds = frame.dp.group_by("g", keys=range(300)).bounds("x", epsilon=1)
    lower, upper = bounds["lower"].to_numpy(), bounds["upper"].to_numpy()
    negative_count = int((lower < 0).sum())
    assert stats.binomtest(negative_count, 300, 0.1, alternative="greater").pvalue > 1e-6
    assert sorted(lower)[150] in {0, 16, 32}
    assert sorted(upper)[150] in {256, 512, 1024}
