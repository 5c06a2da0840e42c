"""Estimators against the same formulas in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from dfprivacy.plan import plan_release
from hypothesis import given

import dfprivacy as dfp
from dfprivacy.estimators.count import CountEstimator
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.laws import DiscreteLaplace

LOW, HIGH = -5, 3
NOISE = DiscreteLaplace(Fraction(2**31))
COORDINATES = st.one_of(
    st.integers(-(2**62), 2**62), st.integers(-(2**33), 2**33), st.integers(-9, 9)
)


def released(question, coordinates):
    plan = plan_release({"x": question}, grouped=False)
    array = np.array([[c] for c in coordinates], dtype=np.int64)
    return plan.answers[0].estimator, NoisyVector(array, NOISE), plan.queries[0]


def clip(value, low, high):
    return min(max(value, low), high)


@given(COORDINATES, COORDINATES)
def test_the_transformed_mean_is_its_formula(above, below):
    """Low + (high - low) s1/(s1 + s2), clipped; the middle where s1 + s2 is not positive."""
    estimator, vector, _ = released(dfp.mean("x", (LOW, HIGH)), (above, below))
    total = above + below
    share = clip(Fraction(above, total), 0, 1) if total > 0 else Fraction(1, 2)
    assert float(estimator.value(vector)[0]) == pytest.approx(float(LOW + (HIGH - LOW) * share))


@given(COORDINATES, COORDINATES)
def test_the_shifted_mean_is_its_formula(above, below):
    """The middle plus half the width times s/n, clipped; the middle where n is not positive."""
    estimator, vector, _ = released(dfp.mean("x", (LOW, HIGH), method="shifted"), (above, below))
    share = clip(Fraction(above, below), -1, 1) if below > 0 else 0
    middle, half = Fraction(LOW + HIGH, 2), Fraction(HIGH - LOW, 2)
    assert float(estimator.value(vector)[0]) == pytest.approx(float(middle + half * share))


@given(COORDINATES, COORDINATES)
def test_the_independent_mean_is_its_formula(above, below):
    """The largest bound times s/n, clipped to the bounds; their middle where n is not positive."""
    question = dfp.mean("x", (LOW, HIGH), method="independent")
    estimator, vector, _ = released(question, (above, below))
    ratio = 5 * Fraction(above, below) if below > 0 else Fraction(LOW + HIGH, 2)
    assert float(estimator.value(vector)[0]) == pytest.approx(float(clip(ratio, LOW, HIGH)))


@given(COORDINATES, COORDINATES, COORDINATES)
def test_the_variance_is_its_formula(zero, one, two):
    """The variance is its formula.

    B2/N - ((B1/2 + B2)/N)**2, clipped to [0, 1/4], times the squared width; 1/12 of it where N
    is not positive.
    """
    estimator, vector, query = released(dfp.var("x", (LOW, HIGH)), (zero, one, two))
    total = zero + one + two
    expected = Fraction(1, 12)
    if total > 0:
        mean = Fraction(one + 2 * two, 2 * total)
        expected = clip(Fraction(two, total) - mean**2, 0, Fraction(1, 4))
    k = query.source.grid.last
    large = max(abs(zero), abs(one), abs(two), 1) / max(abs(total), 1)
    found = float(estimator.value(vector)[0]) / 64
    assert found == pytest.approx(float(expected), abs=1e-14 * large**2 + 1e-12)
    deviation, _, _ = released(dfp.std("x", (LOW, HIGH)), (zero, one, two))
    root = float(deviation.value(vector)[0])
    assert root**2 == pytest.approx(float(estimator.value(vector)[0]), rel=1e-9, abs=1e-9)
    assert k == 2**30


@given(COORDINATES)
def test_the_sum_is_its_formula(coordinate):
    """The coordinate times the step of the grid."""
    estimator, vector, query = released(dfp.sum("x", (LOW, HIGH)), (coordinate,))
    expected = coordinate * Fraction(query.source.grid.step)
    assert Fraction(float(estimator.value(vector)[0])) == Fraction(float(expected))


@given(
    st.lists(st.integers(-(2**60), 2**60), min_size=3, max_size=3),
    st.integers(1, 2**31),
    st.integers(1, 3),
)
def test_the_count_is_rounded_half_up(coordinates, divisor, terms):
    """The sum of its coordinates over the divisor, to the nearest integer."""
    weights = CountWeights(tuple(range(terms)), divisor)
    vector = NoisyVector(np.array([[c] for c in coordinates]), NOISE)
    exact = Fraction(sum(coordinates[:terms]), divisor)
    assert int(CountEstimator(weights).value(vector)[0]) == math.floor(exact + Fraction(1, 2))


@given(st.lists(st.integers(-(2**100), 2**100), min_size=1, max_size=1))
def test_a_count_of_any_size_fits(coordinates):
    """Counts beyond 64 bits are held at the largest integer, without an error."""
    vector = NoisyVector(np.array([[c] for c in coordinates], dtype=object), NOISE)
    found = int(CountEstimator(CountWeights((0,), 1)).value(vector)[0])
    assert found == clip(coordinates[0], -(2**63 - 1), 2**63 - 1)


@given(st.lists(COORDINATES, min_size=3, max_size=3), st.sampled_from([0.3, 0.5, 0.95, 0.999]))
def test_an_interval_holds_its_estimate_and_stays_in_bounds(coordinates, level):
    """Low <= value <= high, within the bounds, and finite, for any noisy coordinates."""
    for question, low, high in (
        (dfp.mean("x", (LOW, HIGH)), LOW, HIGH),
        (dfp.mean("x", (LOW, HIGH), method="shifted"), LOW, HIGH),
        (dfp.mean("x", (LOW, HIGH), method="independent"), LOW, HIGH),
        (dfp.var("x", (LOW, HIGH)), 0, 16),
        (dfp.std("x", (LOW, HIGH)), 0, 4),
    ):
        rows = 3 if question.kind in {"var", "std"} else 2
        estimator, vector, _ = released(question, coordinates[:rows])
        bottom, top = (float(end[0]) for end in estimator.interval(vector, level))
        value, error = float(estimator.value(vector)[0]), float(estimator.standard_error(vector)[0])
        assert low <= bottom <= value + 1e-9
        assert value - 1e-9 <= top <= high
        assert 0 <= error < math.inf


def test_numbers_of_any_size_are_added_to_noise():
    """Sums near 2**63 and scales above 2**51 are added in unbounded integers."""
    for start in (2**63 - 1, -(2**63), 2**61, 0):
        for scale in (Fraction(1), Fraction(2**51), Fraction(2**70)):
            noisy = add_to(np.full(50, start, dtype=np.int64), DiscreteLaplace(scale))
            gaps = [int(v) - start for v in noisy]
            assert max(map(abs, gaps)) < 60 * scale
            assert len(set(gaps)) > 1
