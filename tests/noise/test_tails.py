"""Tails bound probabilities from above, and hardly above; thresholds and half-widths rest on them.

The references are sums, convolutions and closed forms in ball arithmetic (python-flint).
"""

import decimal
import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_poly, ctx, fmpq
from scipy import stats

import dfprivacy as dfp
from dfprivacy.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Summed,
    half_width_factor,
    threshold,
)
from dfprivacy.noise.tails import (
    _direct_sum,
    _euler_maclaurin,
    _plain_sum,
    arithmetic,
    smallest_exceedance,
)

pytestmark = pytest.mark.usefixtures("permitted")
SMALL_SCALES = [Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(7, 2)]
LARGE_SCALES = [Fraction(10**9 + 7, 3), Fraction(2**30), Fraction(2**60), Fraction(2**200 + 1)]
SMALL_VARIANCES = [
    Fraction(1, 100),
    Fraction(1, 4),
    Fraction(1),
    Fraction(399, 100),
    Fraction(25),
]
ERROR = Fraction(1, 10**30)


def ball(number):
    number = Fraction(number)
    return arb(fmpq(number.numerator, number.denominator))


def laplace_probabilities(scale, reach):
    ratio = (-1 / ball(scale)).exp()
    first = (1 - ratio) / (1 + ratio)
    return [first * ratio ** abs(k) for k in range(-reach, reach + 1)]


def gaussian_probabilities(variance, reach):
    weights = [(-ball(k * k) / (2 * ball(variance))).exp() for k in range(-reach, reach + 1)]
    total = sum(weights, arb(0))
    return [weight / total for weight in weights]


def exceedances(probabilities, reach, terms):
    """Return a function m -> P(sum >= m), by convolution of truncated laws."""
    law = arb_poly(probabilities)
    total = law
    for _ in range(terms - 1):
        total = total * law
    masses = [total[index] for index in range(2 * reach * terms + 1)]
    uppers = list(itertools.accumulate(reversed(masses)))[::-1]
    return lambda m: uppers[m + reach * terms]


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("scale", SMALL_SCALES, ids=str)
def test_laplace_tails_are_those_of_the_convolution(scale, terms):
    """The closed form equals the summed-up probabilities, whatever the number of terms."""
    ctx.prec = 600
    reach = max(20, int(120 * scale))
    exact = exceedances(laplace_probabilities(scale, reach), reach, terms)
    noise = DiscreteLaplace(scale)
    for m in (*range(-12, 13), int(20 * scale) + 1):
        bound, true = ball(noise.tail(m, terms)), exact(m)
        assert bound >= true - ball(Fraction(1, 10**48))
        assert bound <= true * (1 + ball(ERROR)) + ball(Fraction(1, 10**48))


def laplace_tail_by_residues(scale, m, terms):
    """P(sum >= m) as (1 - a)**(2 n) times the sum over j of the two negative binomials."""
    a = (-1 / ball(scale)).exp()
    b = a * a
    x = 1 / (1 - a)
    if terms == 1:
        return a**m / (1 + a)
    if terms == 2:
        p = (1 - a) / (1 + a)
        return p * p * a**m * x * (m + a * x + (1 + b) / (1 - b))
    ends = [m * m * x + 2 * m * a * x * x + a * (1 + a) * x**3, m * x + a * x * x, x]
    sums = [
        1 / (2 * (1 - b) ** 3),
        (3 / (1 - b) ** 3 + 6 * b / (1 - b) ** 4) / 2,
        (1 + 4 * b + b * b) / (1 - b) ** 5,
    ]
    return (1 - a) ** 6 * a**m * sum((s * e for s, e in zip(sums, ends, strict=True)), arb(0))


@pytest.mark.parametrize("scale", SMALL_SCALES + LARGE_SCALES, ids=str)
def test_laplace_tails_keep_their_digits_at_any_scale(scale):
    """Cancellation in 1 - a costs nothing: the bound is above, by less than a relative 1e-38."""
    ctx.prec = 4000
    noise = DiscreteLaplace(scale)
    for share, terms in itertools.product((Fraction(1, 10), 1, 5, 20, 40, 700), (1, 2, 3)):
        m = max(1, int(scale * share))
        true = laplace_tail_by_residues(scale, m, terms)
        bound = ball(noise.tail(m, terms))
        assert bound >= true
        assert bound <= true * (1 + ball(Fraction(1, 10**38)))


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("variance", SMALL_VARIANCES, ids=str)
def test_gaussian_tails_are_those_of_the_convolution(variance, terms):
    """Bounds are above the summed-up probabilities, and within 1e-8 of them but for Chernoff's."""
    ctx.prec = 600
    reach = 12 + int(16 * float(variance) ** 0.5)
    exact = exceedances(gaussian_probabilities(variance, reach), reach, terms)
    noise = DiscreteGaussian(variance)
    for m in range(-8, reach // 2):
        bound, true = ball(noise.tail(m, terms)), exact(m)
        assert bound >= true * (1 - ball(ERROR)) or m <= 0
        assert bound >= true - ball(ERROR)
        if terms > 3 and variance < 4:
            assert m <= 0 or variance < 1 or bound <= ball(10 * terms * (m + 1)) * true
            continue
        assert bound <= true * (1 + ball(Fraction(1, 10**8)))


@pytest.mark.parametrize("terms", [1, 3, 4, 9])
@pytest.mark.parametrize("variance", [Fraction(10**4), Fraction(2**40), Fraction(2**121, 3)])
def test_wide_gaussian_tails_near_the_normal_law(variance, terms):
    """The tail is the normal integral from m - 1/2 on, up to (m / variance)**2, never below."""
    ctx.prec = 400
    noise = DiscreteGaussian(variance)
    spread = (terms * ball(variance)).sqrt()
    sigmas = float(terms * variance) ** 0.5
    for share in (0.01, 0.5, 1, 3, 5.9, 6.1, 9, 30):
        m = int(sigmas * share) + 1
        normal = ((ball(m) - ball(Fraction(1, 2))) / spread / arb(2).sqrt()).erfc() / 2
        bound = ball(noise.tail(m, terms))
        relative = abs(bound / normal - 1)
        assert relative <= ball(Fraction(share**2 + 1) / Fraction(terms * variance))


@pytest.mark.parametrize("variance", [Fraction(1025), Fraction(5000, 3), Fraction(20_000)])
def test_euler_maclaurin_encloses_the_sum(variance):
    """The formula's bounds contain the sum itself and are within 2e-9 of each other."""
    ctx.prec = 300
    for start in (1, 2, 17, int(variance) // 32, int(variance) // 16):
        reach = start + int(30 * float(variance) ** 0.5)
        terms = ((-ball(k * k) / (2 * ball(variance))).exp() for k in range(start, reach))
        exact = sum(terms, arb(0))
        with decimal.localcontext(arithmetic()):
            low, high = _euler_maclaurin(variance, start)
            direct = _direct_sum(variance, start, (decimal.Decimal(1),))
        assert ball(Fraction(low)) < exact < ball(Fraction(high))
        assert high / low - 1 < 2e-9
        assert ball(Fraction(direct[0])) <= exact * (1 + ball(ERROR))
        assert ball(Fraction(direct[1])) >= exact * (1 - ball(ERROR))


@pytest.mark.slow
@pytest.mark.parametrize("power", range(10, 24))
def test_gaussian_sums_at_every_size(power):
    """Direct sums and the formula agree with each other where they meet and beyond."""
    variance = Fraction(2**power + 1, 1)
    for sigmas in (0.1, 1, 2.9, 5.99, 6.01, 8, 12):
        start = max(1, int(sigmas * float(variance) ** 0.5))
        with decimal.localcontext(arithmetic()):
            low, high = _plain_sum(variance, start)
            direct = _direct_sum(variance, start, (decimal.Decimal(1),))
            assert low <= direct[1] * (1 + decimal.Decimal("1e-40"))
            assert direct[0] <= high * (1 + decimal.Decimal("1e-40"))


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(5)), DiscreteGaussian(Fraction(30))])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_tails_fall_and_mirror(noise, terms):
    """P(S >= m) falls with m, and P(S >= m) + P(S >= 1 - m) = 1."""
    tails = [noise.tail(m, terms) for m in range(-40, 41)]
    assert tails == sorted(tails, reverse=True)
    for m in range(1, 30):
        total = noise.tail(m, terms) + noise.tail(1 - m, terms)
        assert 1 <= total <= 1 + Fraction(1, 10**8)


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(1))])
def test_no_tail_is_zero(noise):
    """The support is unbounded: even absurd distances keep a positive bound."""
    assert 0 < noise.tail(10**30, 2) <= Fraction(1, 10**4000)


@pytest.mark.parametrize(
    "noise",
    [
        DiscreteLaplace(Fraction(1, 1000)),
        DiscreteLaplace(Fraction(3)),
        DiscreteLaplace(Fraction(2**30)),
        DiscreteGaussian(Fraction(1, 4)),
        DiscreteGaussian(Fraction(7)),
        DiscreteGaussian(Fraction(2**40)),
    ],
    ids=repr,
)
def test_quantiles_are_the_smallest(noise):
    """P(|S| > c) <= p, which fails for c - 1: for one to three terms."""
    for terms, outside in itertools.product((1, 2, 3), (0.5, 0.05, 1e-9)):
        c = noise.quantile(outside, terms)
        assert c >= 0
        assert 2 * noise.tail(c + 1, terms) <= Fraction(outside)
        assert c == 0 or 2 * noise.tail(c, terms) > Fraction(outside)


@pytest.mark.parametrize("scale", [*SMALL_SCALES, *LARGE_SCALES], ids=str)
def test_laplace_variance_is_rounded_up(scale):
    """2 a / (1 - a)**2 <= variance, within one float."""
    ctx.prec = 2000
    a = (-1 / ball(scale)).exp()
    true = 2 * a / (1 - a) ** 2
    bound = ball(Fraction(DiscreteLaplace(scale).variance))
    assert true <= bound <= true * (1 + ball(Fraction(1, 2**51)))


@pytest.mark.parametrize("variance", SMALL_VARIANCES, ids=str)
def test_gaussian_variance_is_an_upper_bound(variance):
    """The exact variance <= variance <= sigma_squared, and near the exact one."""
    ctx.prec = 400
    reach = 20 + int(16 * float(variance) ** 0.5)
    weights = gaussian_probabilities(variance, reach)
    moments = (k * k * p for k, p in zip(range(-reach, reach + 1), weights, strict=True))
    true = sum(moments, arb(0))
    bound = Fraction(DiscreteGaussian(variance).variance)
    assert true * (1 - ball(ERROR)) <= ball(bound) <= true * (1 + ball(Fraction(1, 10**14)))
    assert bound <= Fraction(float(variance)) + Fraction(1, 10**12)


def test_extreme_variances_are_finite():
    """The largest and smallest noise have finite, positive variances."""
    for power in (-500, 500):
        assert 0 < DiscreteLaplace(Fraction(2) ** power).variance < float("inf")
    for power in (-1000, 1000):
        assert 0 < DiscreteGaussian(Fraction(2) ** power).variance < float("inf")


@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize(
    "value",
    [0, -1, Fraction(-1, 2), 0.5, True, None, "1", Fraction(2) ** 1001, Fraction(1, 2**1001)],
)
def test_unusable_scales_are_refused(make, value):
    """A scale is a positive exact number: anything else is InvalidLossError with a hint."""
    with pytest.raises(dfp.errors.InvalidLossError, match="Hint: "):
        make(value)


def test_unusable_questions_are_refused():
    """Only 1 to 64 terms, and probabilities strictly between 0 and 1."""
    for noise in (DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(1))):
        for terms in (0, 65, -1):
            with pytest.raises(dfp.errors.InvalidQuestionError):
                noise.tail(1, terms)
        for outside in (0, 1, -0.1, 1.5, float("nan"), float("inf")):
            with pytest.raises(dfp.DPError):
                noise.quantile(outside)


def test_noise_is_a_frozen_value():
    """Equal scales make equal values, a repr can be pasted back, nothing can be changed."""
    for noise in (DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(7))):
        assert eval(repr(noise)) == noise
        assert hash(eval(repr(noise))) == hash(noise)
        with pytest.raises(AttributeError):
            noise.scale = noise.sigma_squared = 3
    assert DiscreteLaplace(2) == DiscreteLaplace(Fraction(2))


# The smallest integer at which a tail is small enough


def test_smallest_exceedance_on_both_sides_of_zero():
    """The search finds the step of any falling function, at negative integers as well."""
    for step in (-1000, -2, -1, 0, 1, 2, 3, 12_345):
        smallest = smallest_exceedance(lambda m, s=step: Fraction(int(m < s)), Fraction(1, 2))
        assert smallest == step


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("power", [-6, 0, 33, 45])
@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
def test_the_search_asks_for_few_tails(make, power, terms):
    """The step is found from a few tails, though halving would ask for twice the bits of scale."""
    noise, positions = make(Fraction(2) ** power), []

    def tail(at):
        positions.append(at)
        return noise.tail(at, terms)

    for probability in (Fraction(1, 10**12), Fraction(1, 3), Fraction(999, 1000)):
        positions.clear()
        step = smallest_exceedance(tail, probability)
        assert len(positions) <= 80
        assert noise.tail(step, terms) <= probability < noise.tail(step - 1, terms)


# The threshold of secret groups is the smallest that keeps delta


DELTAS = [Fraction(1, 3), Fraction(1, 10**6), Fraction(1, 10**12)]


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
        limit = threshold(noise, 7, terms, delta)
        assert noise.tail(limit - 7, terms) <= delta < noise.tail(limit - 8, terms)


def test_threshold_moves_with_the_contribution():
    """T - contribution depends on the noise alone."""
    noise = DiscreteLaplace(Fraction(9))
    differences = {threshold(noise, c, 2, Fraction(1, 10**6)) - c for c in (0, 1, 17, 2**40)}
    assert len(differences) == 1


@pytest.mark.parametrize("delta", [0, 1, -1, 2, Fraction(0), Fraction(1, 2**2000)])
def test_unusable_deltas_are_refused(delta):
    """Delta lies strictly between 0 and 1."""
    with pytest.raises(dfp.errors.InvalidLossError):
        threshold(DiscreteLaplace(Fraction(1)), 1, 1, Fraction(delta))


def test_unknown_numbers_of_terms_are_refused():
    """Only sums of 1 to 64 terms have certified tails."""
    with pytest.raises(dfp.errors.InvalidQuestionError):
        threshold(DiscreteLaplace(Fraction(1)), 1, 65, Fraction(1, 100))


# Half-widths of weighted sums of noise


LEVELS = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.905, 0.91, 0.92, 0.95, 0.98, 0.99, 0.999]
LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(1000)), DiscreteGaussian(Fraction(1000))
GRAIN = 2**-60  # equal weights are told apart by this, at 400 bits


def tail_of_a_sum(parts, factor):
    """P(|sum of Laplace variables| > factor) when their variances, in all 1, are as these parts.

    For scales b_i that differ: the sum of exp(-factor / b_i) prod_j b_i**2 / (b_i**2 - b_j**2).
    """
    ctx.prec = 400
    denominator, total = 2 * sum(parts), arb(0)
    positive_parts = [part for part in parts if part]
    squares = [
        arb(part) / denominator * (1 + i * arb(GRAIN)) for i, part in enumerate(positive_parts)
    ]
    for i, square in enumerate(squares):
        term = (-arb(factor) / square.sqrt()).exp()
        for other in squares[:i] + squares[i + 1 :]:
            term *= square / (square - other)
        total += term
    return total


def two_weights(grain):
    return [(i, grain - i) for i in range(grain // 2 + 1)]


def three_weights(grain):
    pairs = itertools.product(range(grain + 1), repeat=2)
    return [(i, j, grain - i - j) for i, j in pairs if i <= j <= grain - i - j]


FINE = [step / 1000 for step in range(500, 1000, 9)]
WEIGHTS = [
    *((two_weights(1000), level) for level in LEVELS),
    *((three_weights(60), level) for level in LEVELS),
    *(pytest.param(three_weights(200), level, marks=pytest.mark.slow) for level in FINE),
]


@pytest.mark.sample(2 * len(LEVELS))
@pytest.mark.parametrize(("weights", "level"), WEIGHTS, ids=lambda value: str(value)[:20])
def test_two_and_three_laplace_variables_stay_inside(weights, level):
    """A weighted sum exceeds its half width with probability at most 1 - level: no chance involved.

    By the closed form, on 500 weights of two, and on 331 and 3,434 of three variables.
    """
    factor = half_width_factor(LAPLACE, 1 - level)
    worst = max(float(tail_of_a_sum(parts, factor)) for parts in weights)
    assert worst <= (1 - level) * (1 + 1e-12)


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_the_half_width_is_no_wider_than_one_variable_needs(level):
    """Above nine tenths a single Laplace variable fills the interval exactly."""
    alone = tail_of_a_sum([1], half_width_factor(LAPLACE, 1 - level))
    assert abs(float(alone) / (1 - level) - 1) < 1e-9


@pytest.mark.parametrize("level", LEVELS)
def test_gaussian_sums_have_the_normal_quantile(level):
    """A weighted sum of normal variables is normal: the factor is its two-sided quantile."""
    assert half_width_factor(GAUSSIAN, 1 - level) == pytest.approx(stats.norm.isf((1 - level) / 2))


@pytest.mark.parametrize("many", [2, 4, 7, 20])
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(8)])
@pytest.mark.parametrize("law", [DiscreteLaplace, lambda scale: DiscreteGaussian(scale**2)])
@pytest.mark.parametrize("outside", [0.5, 0.05, 1e-4])
def test_sums_of_many_draws_stay_within_their_quantile(many, scale, law, outside):
    """A total of several cells lies within its interval with the stated probability, exactly."""
    reach, noise = int(60 * scale), law(scale)
    sizes = np.abs(np.arange(-reach, reach + 1)) / float(scale)
    masses = np.exp(-sizes if isinstance(noise, DiscreteLaplace) else -(sizes**2) / 2)
    masses /= masses.sum()
    total = np.ones(1)
    for _ in range(many):
        total = np.convolve(total, masses)
    middle = len(total) // 2
    within = Summed(noise, many * noise.variance, many).quantile(outside)
    tail_mass = 1 - total[middle - within : middle + within + 1].sum()
    assert tail_mass <= outside + 1e-9
