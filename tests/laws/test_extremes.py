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
    held = 0
    for _ in range(60):
        answer = float(getattr(private, end)("x", epsilon=1))
        beyond = (values <= answer).sum() if end == "min" else (values >= answer).sum()
        held += 1 <= beyond <= 2 * OUTER
    assert stats.binomtest(held, 60, 0.9, alternative="less").pvalue > 1e-6


def test_whole_numbers_stay_whole_numbers():
    """The answer about a column of integers is one, whole or by group, and lies near its end."""
    frame = pl.DataFrame({"n": list(range(1000)) * 50, "k": ["a", "b"] * 25_000})
    for _ in range(5):
        made = frame.dp.group_by("k", keys=["a", "b"]).agg(
            low=dfp.min("n"), high=dfp.max("n"), epsilon=4
        )
        found = [frame.dp.min("n"), frame.dp.max("n"), *made["low"], *made["high"]]
        assert all(float(own).is_integer() for own in found)
        assert found[0] < 20
        assert found[1] > 980


def test_too_few_rows_have_no_answer():
    """Where the noisy count is too small for a rank, the answer is not a number."""
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
    assert np.isnan(frame.dp.min("x", epsilon=1))
    assert np.isnan(frame.dp.max("x", epsilon=1))


def test_bounds_of_positive_values_begin_at_zero_or_above():
    """Noise lifts octaves far below the values' own; these move an end beyond zero rarely."""
    values = np.random.default_rng(4).gamma(2.6, 50, (300, 300)) + 20
    frame = pl.DataFrame({"g": np.repeat(np.arange(300), 300), "x": values.reshape(-1)})
    found = frame.dp.group_by("g", keys=range(300)).bounds("x", epsilon=1)
    lower, upper = found["lower"].to_numpy(), found["upper"].to_numpy()
    beyond = int((lower < 0).sum())
    assert stats.binomtest(beyond, 300, 0.1, alternative="greater").pvalue > 1e-6
    assert sorted(lower)[150] in {0, 16, 32}
    assert sorted(upper)[150] in {256, 512, 1024}
