"""Numbers computed from released ones: values, intervals, what they cost, and how often they hold.

A check of coverage fails when its upper limit (Clopper-Pearson, 1e-9) lies below the level.
"""

import itertools
import math
import operator
import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp

FIRST = pl.DataFrame({"x": [float(i % 90) for i in range(500)]})
SECOND = pl.DataFrame({"x": [float(i % 60) for i in range(300)]})
OPERATIONS = {
    "sum": operator.add, "difference": operator.sub,
    "product": operator.mul, "ratio": operator.truediv,
}  # fmt: skip


def mean(frame: pl.DataFrame, epsilon: float = 1) -> dfp.Estimate:
    return frame.dp.mean("x", (0, 100), epsilon=epsilon)


@pytest.mark.slow
def test_intervals_of_two_releases_cover():
    """Of two releases: at 95 %, the answer without noise is held 95 times in 100 at least."""
    copies = 500
    pairs = [(mean(FIRST), mean(SECOND)) for _ in range(copies)]
    for name, act in OPERATIONS.items():
        true = act(FIRST["x"].mean(), SECOND["x"].mean())
        estimates = (act(*pair) for pair in pairs)
        hits = sum(estimate.low <= true <= estimate.high for estimate in estimates)
        limit = 1 if hits == copies else stats.beta.ppf(1 - 1e-9, hits + 1, copies - hits)
        assert limit >= 0.95, (name, hits / copies)


def test_differences_of_two_releases_are_hardly_wider_than_need_be():
    """The squares of half-widths add up: narrower than both half-widths together by far."""
    a, b = mean(FIRST), mean(SECOND)
    half = ((estimate.high - estimate.low) / 2 for estimate in (a, b, a - b))
    first, second, both = half
    assert math.isclose(both, math.hypot(first, second), rel_tol=0.02)
    assert math.isclose((a - b).std_error, math.hypot(a.std_error, b.std_error))


def test_numbers_of_one_release_may_share_noise():
    """Of one release, or from the same noisy sums, half-widths themselves add up."""
    private = FIRST.dp(bounds={"x": (0, 100)})
    answers = private.agg(m=dfp.mean("x"), s=dfp.std("x"), epsilon=1)
    a, b = answers["m"], answers["s"]
    for other in (b, pickle.loads(pickle.dumps(b))):
        difference = a - other
        assert math.isclose(difference.high - difference.low, a.high - a.low + b.high - b.low)


@pytest.mark.parametrize("constant", [3, -2.5, np.float64(0.5), np.int32(2), Fraction(1, 3)])
def test_constants_move_and_scale_intervals(constant):
    """A constant moves, scales and turns an interval exactly."""
    a, value = mean(FIRST), float(constant)
    for estimate, ends in (
        (a + constant, (a.low + value, a.high + value)),
        (a - constant, (a.low - value, a.high - value)),
        (a * constant, (a.low * value, a.high * value)),
        (a / constant, (a.low / value, a.high / value)),
        (constant - a, (value - a.high, value - a.low)),
        (constant / a, (value / a.high, value / a.low)),
        (-a, (-a.high, -a.low)),
    ):
        assert np.allclose((estimate.low, estimate.high), sorted(ends), rtol=1e-9)
        assert estimate.low <= estimate <= estimate.high


def test_computed_numbers_cost_nothing():
    """A computed number says that it costs nothing more, widens with its level, and is a float."""
    change = (mean(FIRST) - mean(SECOND)) / mean(SECOND)
    assert isinstance(change, float)
    exact = FIRST.dp.mean("x", (0, 100), rho=0.1)
    for estimate in (change, exact - 1):
        assert (estimate.epsilon, estimate.rho, estimate.delta) == (0, 0, 0)
    assert "no further cost" in repr(change)
    low, high = change.interval(0.5)
    assert change.low < low < change < high < change.high
    copied = pickle.loads(pickle.dumps(change))
    assert (float(copied), copied.interval()) == (float(change), change.interval())
    assert sum([mean(FIRST), mean(SECOND)]).std_error > 0


def test_sums_of_many_numbers_have_an_interval():
    """The days of a year add up, equal counts too: the squares of half-widths do."""
    days = [FIRST.dp.count() for _ in range(400)]
    year = sum(days)
    half = math.hypot(*((day.high - day.low) / 2 for day in days))
    assert math.isclose((year.high - year.low) / 2, half)
    assert pickle.loads(pickle.dumps(year)).interval() == year.interval()


def spread(index: int, **terms) -> dfp.Estimate:
    """Return one of twelve means, of either sign, with much noise or little."""
    rows = [(-1) ** index * 6.0 * index] * (8 + 20 * (index % 3))
    frame = pl.DataFrame({"x": rows}).dp(**terms)
    return frame.mean("x", (-100, 99), epsilon=(0.05, 0.5, 5)[index // 4])


def test_a_ratio_to_what_may_be_zero_is_open():
    """Where the divisor's interval holds 0, that of the ratio is everything."""
    a = mean(FIRST)
    for nothing in (a - a, a - a.low, a - a.high, 0.0 * a):
        for dividend in (a, -a, mean(SECOND) - 30):
            ratio = dividend / nothing
            assert (ratio.low, ratio.high) == (-math.inf, math.inf)


def test_values_lie_within_their_intervals(tmp_path):
    """Whatever the ends: a result lies in its interval, which is no wider for independence.

    Numbers that a ledger has remembered have the same ends, and may share their noise.
    """
    ledger = dfp.Ledger(tmp_path / "l.db", epsilon=10, remember=True)
    ask = [{"ledger": ledger, "dataset": f"d{index}", "version": "1"} for index in range(12)]
    released, remembered = ([spread(i, **terms) for i, terms in enumerate(ask)] for _ in range(2))
    for (a, again), (b, other) in itertools.permutations(zip(released, remembered, strict=True), 2):
        for act in OPERATIONS.values():
            independent, shared = act(a, b), act(again, other)
            for estimate in (independent, shared):
                assert float(estimate) == act(float(a), float(b))
                assert estimate.low <= float(estimate) + 1e-9
                assert float(estimate) <= estimate.high + 1e-9
            assert shared.low - 1e-9 <= independent.low
            assert independent.high <= shared.high + 1e-9


def test_chosen_numbers_have_no_interval_to_keep():
    """With a median, which has no interval, the result is a plain number; NaN of a zero below."""
    chosen = FIRST.dp.median("x", epsilon=5)
    assert type(mean(FIRST) - chosen) is float
    assert type(chosen / mean(FIRST)) is float
    nothing = pl.DataFrame({"x": [0.0] * 1000}).dp.median("x", epsilon=5)
    assert nothing == 0
    assert math.isnan(mean(FIRST) / nothing)
