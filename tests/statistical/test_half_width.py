"""The factor behind every ratio's interval: it covers all weighted sums of Laplace variables."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.estimator import half_width_factor
from dfprivacy.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
LAPLACE = DiscreteLaplace(Fraction(2**30))


def outside(weights, size):
    """Return P(|w . L| > size), Laplace L, distinct weights: by partial fractions."""
    squares = np.asarray(weights, dtype=np.longdouble) ** 2
    total = np.longdouble(0)
    for i, own in enumerate(squares):
        others = np.delete(squares, i)
        total += np.prod(own / (own - others)) * np.exp(-size / np.sqrt(own))
    return float(total)


def weights_of(count, steps):
    """Return weight vectors over the simplex, kept apart so that the closed form is stable."""
    grid = np.linspace(0.02, 1.0, steps)
    for rest in itertools.combinations(grid[:-1], count - 1):
        vector = np.array([1.0, *rest])
        squares = np.sort(vector**2)
        if np.diff(squares).min() > 2e-3:
            yield vector


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("count", "steps"), [(2, 400), (3, 60)])
def test_factor_covers_every_weighted_sum(level, count, steps):
    """P(|w . Z| > factor * sd(w . Z)) <= 1 - level, whatever the weights (deterministic)."""
    factor = half_width_factor(LAPLACE, 1 - level)
    worst = max(
        outside(weights, factor * math.sqrt(2) * float(np.linalg.norm(weights)))
        for weights in weights_of(count, steps)
    )
    assert worst <= (1 - level) * (1 + 1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_factor_is_not_wasteful(level):
    """For one Laplace variable or a normal one the factor is reached: no hidden safety margin."""
    factor = half_width_factor(LAPLACE, 1 - level)
    alone = math.exp(-factor * math.sqrt(2))
    normal = math.erfc(half_width_factor(DiscreteGaussian(Fraction(1)), 1 - level) / math.sqrt(2))
    assert normal == pytest.approx(1 - level, rel=1e-6)
    assert max(alone, math.erfc(factor / math.sqrt(2))) == pytest.approx(1 - level, rel=1e-6)
