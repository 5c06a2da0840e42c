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
        made = (act(*pair) for pair in pairs)
        hits = sum(own.low <= true <= own.high for own in made)
        limit = 1 if hits == copies else stats.beta.ppf(1 - 1e-9, hits + 1, copies - hits)
        assert limit >= 0.95, (name, hits / copies)


def test_differences_of_two_releases_are_hardly_wider_than_need_be():
    """The squares of half-widths add up: narrower than both half-widths together by far."""
    a, b = mean(FIRST), mean(SECOND)
    half = ((own.high - own.low) / 2 for own in (a, b, a - b))
    first, second, both = half
    assert math.isclose(both, math.hypot(first, second), rel_tol=0.02)
    assert math.isclose((a - b).std_error, math.hypot(a.std_error, b.std_error))


def test_numbers_of_one_release_may_share_noise():
    """Of one release, or from the same noisy sums, half-widths themselves add up."""
    private = FIRST.dp(bounds={"x": (0, 100)})
    found = private.agg(m=dfp.mean("x"), s=dfp.std("x"), epsilon=1)
    a, b = found["m"], found["s"]
    for other in (b, pickle.loads(pickle.dumps(b))):
        made = a - other
        assert math.isclose(made.high - made.low, a.high - a.low + b.high - b.low)


@pytest.mark.parametrize("constant", [3, -2.5, np.float64(0.5), np.int32(2), Fraction(1, 3)])
def test_constants_move_and_scale_intervals(constant):
    """A constant moves, scales and turns an interval exactly."""
    a, value = mean(FIRST), float(constant)
    for made, ends in (
        (a + constant, (a.low + value, a.high + value)),
        (a - constant, (a.low - value, a.high - value)),
        (a * constant, (a.low * value, a.high * value)),
        (a / constant, (a.low / value, a.high / value)),
        (constant - a, (value - a.high, value - a.low)),
        (constant / a, (value / a.high, value / a.low)),
        (-a, (-a.high, -a.low)),
    ):
        assert np.allclose((made.low, made.high), sorted(ends), rtol=1e-9)
        assert made.low <= made <= made.high


def test_computed_numbers_cost_nothing():
    """A computed number says that it costs nothing more, widens with its level, and is a float."""
    made = (mean(FIRST) - mean(SECOND)) / mean(SECOND)
    assert isinstance(made, float)
    exact = FIRST.dp.mean("x", (0, 100), rho=0.1)
    for own in (made, exact - 1):
        assert (own.epsilon, own.rho, own.delta) == (0, 0, 0)
    assert "no further cost" in repr(made)
    low, high = made.interval(0.5)
    assert made.low < low < made < high < made.high
    copied = pickle.loads(pickle.dumps(made))
    assert (float(copied), copied.interval()) == (float(made), made.interval())
    assert sum([mean(FIRST), mean(SECOND)]).std_error > 0


def test_sums_of_many_numbers_have_an_interval():
    """The days of a year add up, equal counts too: the squares of half-widths do."""
    days = [FIRST.dp.count() for _ in range(400)]
    year = sum(days)
    half = math.hypot(*((day.high - day.low) / 2 for day in days))
    assert math.isclose((year.high - year.low) / 2, half)
    assert pickle.loads(pickle.dumps(year)).interval() == year.interval()


def spread(place: int, **terms) -> dfp.Estimate:
    """Return one of twelve means, of either sign, with much noise or little."""
    rows = [(-1) ** place * 6.0 * place] * (8 + 20 * (place % 3))
    frame = pl.DataFrame({"x": rows}).dp(**terms)
    return frame.mean("x", (-100, 99), epsilon=(0.05, 0.5, 5)[place // 4])


def test_a_ratio_to_what_may_be_zero_is_open():
    """Where the divisor's interval holds 0, that of the ratio is everything."""
    a = mean(FIRST)
    for nothing in (a - a, a - a.low, a - a.high, 0.0 * a):
        for one in (a, -a, mean(SECOND) - 30):
            found = one / nothing
            assert (found.low, found.high) == (-math.inf, math.inf)


def test_values_lie_within_their_intervals(tmp_path):
    """Whatever the ends: a result lies in its interval, which is no wider for independence.

    Numbers that a ledger has remembered have the same ends, and may share their noise.
    """
    ledger = dfp.Ledger(tmp_path / "l.db", epsilon=10, remember=True)
    ask = [{"ledger": ledger, "dataset": f"d{place}", "version": "1"} for place in range(12)]
    released, remembered = ([spread(i, **own) for i, own in enumerate(ask)] for _ in range(2))
    for (a, again), (b, other) in itertools.permutations(zip(released, remembered, strict=True), 2):
        for act in OPERATIONS.values():
            apart, shared = act(a, b), act(again, other)
            for found in (apart, shared):
                assert float(found) == act(float(a), float(b))
                assert found.low <= float(found) + 1e-9
                assert float(found) <= found.high + 1e-9
            assert shared.low - 1e-9 <= apart.low
            assert apart.high <= shared.high + 1e-9


def test_chosen_numbers_have_no_interval_to_keep():
    """With a median, which has no interval, the result is a plain number; NaN of a zero below."""
    chosen = FIRST.dp.median("x", epsilon=5)
    assert type(mean(FIRST) - chosen) is float
    assert type(chosen / mean(FIRST)) is float
    nothing = pl.DataFrame({"x": [0.0] * 1000}).dp.median("x", epsilon=5)
    assert nothing == 0
    assert math.isnan(mean(FIRST) / nothing)
