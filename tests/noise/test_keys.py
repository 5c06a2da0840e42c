"""The threshold of secret groups is the smallest that keeps the promise, exactly."""

from fractions import Fraction

import pytest
from flint import arb, ctx, fmpq
from scipy import stats

from dfprivacy.errors import InvalidLossError, InvalidQuestionError
from dfprivacy.noise.keys import threshold
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

SCALES = [Fraction(1, 20), Fraction(1), Fraction(10, 3), Fraction(2**20 + 1), Fraction(2**33)]
DELTAS = [Fraction(1, 3), Fraction(1, 1000), Fraction(1, 10**6), Fraction(1, 10**12)]


def ball(number):
    number = Fraction(number)
    return arb(fmpq(number.numerator, number.denominator))


def laplace_exceedance(scale, m, terms):
    """P(Z_1 + ... + Z_terms >= m) in ball arithmetic, for m >= 1."""
    ctx.prec = 1000
    a = (-1 / ball(scale)).exp()
    if terms == 1:
        return a**m / (1 + a)
    spread = (1 + a * a) / (1 - a * a)
    return ((1 - a) / (1 + a)) ** 2 * a**m / (1 - a) * (m + a / (1 - a) + spread)


@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("delta", DELTAS, ids=str)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_threshold_is_the_smallest(scale, delta, terms):
    """P(contribution + noise >= T) <= delta < P(contribution + noise >= T - 1): >=, not >."""
    contribution = 2**30
    excess = threshold(DiscreteLaplace(scale), contribution, terms, delta) - contribution
    assert laplace_exceedance(scale, excess, terms) <= ball(delta)
    if excess > 1:
        assert laplace_exceedance(scale, excess - 1, terms) > ball(delta)


@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize(
    "noise",
    [
        DiscreteLaplace(Fraction(5)),
        DiscreteGaussian(Fraction(1, 4)),
        DiscreteGaussian(Fraction(90)),
    ],
    ids=repr,
)
def test_threshold_is_the_smallest_by_the_certified_tail(noise, terms):
    """For every law and number of terms, the tail is within delta at T and beyond at T - 1."""
    for delta in DELTAS:
        least = threshold(noise, 7, terms, delta)
        assert noise.tail(least - 7, terms) <= delta < noise.tail(least - 8, terms)


@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(3)), DiscreteGaussian(Fraction(20))], ids=repr
)
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 2000)], ids=str)
def test_lone_units_appear_with_probability_delta(noise, terms, delta):
    """Of 300,000 groups of one unit, the share at T and above is not over delta (1e-9)."""
    size, contribution = 300_000, 4
    totals = contribution + sum(noise.sample(size) for _ in range(terms))
    released = int((totals >= threshold(noise, contribution, terms, delta)).sum())
    assert stats.binom.sf(released - 1, size, float(delta)) > 1e-9
    below = int((totals >= threshold(noise, contribution, terms, delta) - 1).sum())
    assert below > released
    true = float(noise.tail(threshold(noise, contribution, terms, delta) - contribution, terms))
    assert stats.binomtest(released, size, true).pvalue > 1e-9


def test_threshold_moves_with_the_contribution():
    """T - contribution depends on the noise alone."""
    noise = DiscreteLaplace(Fraction(9))
    apart = {threshold(noise, c, 2, Fraction(1, 10**6)) - c for c in (0, 1, 17, 2**40)}
    assert len(apart) == 1


@pytest.mark.parametrize("delta", [0, 1, -1, 2, Fraction(0), Fraction(1, 2**2000)])
def test_unusable_deltas_are_refused(delta):
    """Delta lies strictly between 0 and 1."""
    with pytest.raises(InvalidLossError):
        threshold(DiscreteLaplace(Fraction(1)), 1, 1, Fraction(delta))


def test_unknown_numbers_of_terms_are_refused():
    """Only sums of one to three terms have certified tails."""
    with pytest.raises(InvalidQuestionError):
        threshold(DiscreteLaplace(Fraction(1)), 1, 4, Fraction(1, 100))
