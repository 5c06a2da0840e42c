"""The claim of `half_width_factor`, by the closed form of the tail of weighted Laplace sums."""

from __future__ import annotations

import itertools
from fractions import Fraction

import flint
import pytest
from scipy import stats

from dfprivacy.estimators.estimator import half_width_factor
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

LEVELS = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.905, 0.91, 0.92, 0.95, 0.98, 0.99, 0.999]
LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(1000)), DiscreteGaussian(Fraction(1000))
GRAIN = 2**-60  # equal weights are told apart by this, at 400 bits


@pytest.fixture(autouse=True)
def _precision():
    before, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = before


def tail(parts, factor):
    """P(|sum of Laplace variables| > factor) when their variances, in all 1, are as these parts.

    For scales b_i that differ: the sum of exp(-factor / b_i) prod_j b_i**2 / (b_i**2 - b_j**2).
    """
    whole, total = 2 * sum(parts), flint.arb(0)
    held = [part for part in parts if part]
    squares = [flint.arb(part) / whole * (1 + i * flint.arb(GRAIN)) for i, part in enumerate(held)]
    for i, own in enumerate(squares):
        term = (-flint.arb(factor) / own.sqrt()).exp()
        for other in squares[:i] + squares[i + 1 :]:
            term *= own / (own - other)
        total += term
    return total


def two_weights(grain):
    return [(i, grain - i) for i in range(grain // 2 + 1)]


def three_weights(grain):
    pairs = itertools.product(range(grain + 1), repeat=2)
    return [(i, j, grain - i - j) for i, j in pairs if i <= j <= grain - i - j]


def check(weights, level):
    outside = 1 - level
    factor = half_width_factor(LAPLACE, outside)
    worst = max(float(tail(parts, factor)) for parts in weights)
    assert worst <= outside * (1 + 1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_two_laplace_variables_stay_inside(level):
    """Two laplace variables stay inside.

    Any weighted sum of two Laplace variables exceeds its half width with probability at most
    1 - level: the closed form, on 1,000 weights; no chance involved.
    """
    check(two_weights(1000), level)


@pytest.mark.parametrize("level", LEVELS)
def test_three_laplace_variables_stay_inside(level):
    """Three laplace variables stay inside.

    Any weighted sum of three Laplace variables exceeds its half width with probability at most
    1 - level: the closed form, on 320 weights; no chance involved.
    """
    check(three_weights(60), level)


@pytest.mark.slow
@pytest.mark.parametrize("level", [step / 1000 for step in range(500, 1000, 9)])
def test_three_laplace_variables_stay_inside_on_fine_weights(level):
    """The same for 3,500 weights at 56 levels; no chance involved."""
    check(three_weights(200), level)


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_the_half_width_is_no_wider_than_one_variable_needs(level):
    """Above nine tenths a single Laplace variable fills the interval exactly."""
    alone = tail([1], half_width_factor(LAPLACE, 1 - level))
    assert abs(float(alone) / (1 - level) - 1) < 1e-9


@pytest.mark.parametrize("level", LEVELS)
def test_gaussian_sums_have_the_normal_quantile(level):
    """A weighted sum of normal variables is normal: the factor is its two-sided quantile."""
    assert half_width_factor(GAUSSIAN, 1 - level) == pytest.approx(stats.norm.isf((1 - level) / 2))
