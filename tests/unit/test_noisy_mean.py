"""The mean of vectors after a release: what its numbers say, without drawing any."""

from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.noisy_mean import NoisyMean
from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.noise.laws import DiscreteGaussian

NOISE = DiscreteGaussian(Fraction(100**2))
CENTRE, SCALE = np.array([30.0, -20.0]), np.array([1.0, 2.0])


def mean_of(sums, rows):
    """Return a release of sums over rows, whose count has noise of its own."""
    counted = NoisyRows(rows, DiscreteGaussian(Fraction(20**2)))
    given = {"noise": NOISE, "rows": counted, "needed": 100, "lowest": -90.0, "highest": 90.0}
    return NoisyMean(CENTRE, SCALE, 0.5, threshold=5.0, sums=np.array(sums), **given)


@pytest.mark.parametrize("sums", [[3600, 3400], [-7200, 6800], [9000, 0], [500, -900]])
@pytest.mark.parametrize("rows", [0, 90, 600, 950, 990, 1000, 1100, 2000])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95])
def test_ends_hold_the_estimate(sums, rows, level):
    """Also where too few rows were counted, and the estimate is shortened by its norm."""
    mean = mean_of(sums, rows)
    low, high = mean.interval(level)
    assert (low <= mean.value()).all()
    assert (mean.value() <= high).all()


def test_a_mean_beyond_the_threshold_is_shortened_towards_the_centre():
    """What is divided by too few rows keeps its direction, and gets the threshold's norm."""
    value = mean_of([36_000, -48_000], 1000).value()
    assert value == pytest.approx((CENTRE + np.array([3.0, -4.0]) / SCALE) * 0.5)


def test_ends_are_within_the_threshold_and_the_universe():
    """Ends beyond the threshold say nothing; below the rows needed nothing is known at all."""
    low, high = mean_of([60_000, 60_000], 1000).interval(0.95)
    assert high == pytest.approx((CENTRE + 5.0 / SCALE) * 0.5)
    assert (low < high).all()
    low, high = mean_of([60_000, 60_000], 120).interval(0.95)
    assert (low.tolist(), high.tolist()) == ([-90.0, -90.0], [90.0, 90.0])
