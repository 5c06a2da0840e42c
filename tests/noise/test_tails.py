"""Tail bounds lie above the true probabilities, and hardly above.

The references are sums and convolutions of the probabilities themselves in ball arithmetic.
"""

import decimal
import itertools
from fractions import Fraction

import pytest
from flint import arb, arb_poly, ctx, fmpq

from dfprivacy.errors import DPError, InvalidLossError, InvalidQuestionError
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.tails import _direct_sum, _euler_maclaurin, _plain_sum, arithmetic

SMALL_SCALES = [Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(7, 2)]
LARGE_SCALES = [Fraction(10**9 + 7, 3), Fraction(2**30), Fraction(2**60), Fraction(2**200 + 1)]
SMALL_VARIANCES = [
    Fraction(1, 100),
    Fraction(1, 4),
    Fraction(1),
    Fraction(399, 100),
    Fraction(4),
    Fraction(25),
    Fraction(300),
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


@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize("scale", SMALL_SCALES, ids=str)
def test_laplace_tails_are_those_of_the_convolution(scale, terms):
    """The closed forms for one, two and three terms equal the summed-up probabilities."""
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


@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize("scale", SMALL_SCALES + LARGE_SCALES, ids=str)
def test_laplace_tails_keep_their_digits_at_any_scale(scale, terms):
    """Cancellation in 1 - a costs nothing: the bound is above, by less than a relative 1e-38."""
    ctx.prec = 4000
    noise = DiscreteLaplace(scale)
    for share in (Fraction(1, 10), 1, 5, 20, 40, 700):
        m = max(1, int(scale * share))
        true = laplace_tail_by_residues(scale, m, terms)
        bound = ball(noise.tail(m, terms))
        assert bound >= true
        assert bound <= true * (1 + ball(Fraction(1, 10**38)))


@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize("variance", SMALL_VARIANCES, ids=str)
def test_gaussian_tails_are_those_of_the_convolution(variance, terms):
    """Bounds are above the summed-up probabilities, and within 1e-8 of them."""
    ctx.prec = 600
    reach = 12 + int(16 * float(variance) ** 0.5)
    exact = exceedances(gaussian_probabilities(variance, reach), reach, terms)
    noise = DiscreteGaussian(variance)
    for m in range(-8, reach // 2):
        bound, true = ball(noise.tail(m, terms)), exact(m)
        assert bound >= true * (1 - ball(ERROR)) or m <= 0
        assert bound >= true - ball(ERROR)
        assert bound <= true * (1 + ball(Fraction(1, 10**8)))


@pytest.mark.parametrize("terms", [1, 2, 3])
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
@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize("outside", [0.5, 0.05, 1e-9])
def test_quantiles_are_the_smallest(noise, terms, outside):
    """P(|S| > c) <= p, which fails for c - 1."""
    c = noise.quantile(outside, terms)
    assert c >= 0
    assert 2 * noise.tail(c + 1, terms) <= Fraction(outside)
    assert c == 0 or 2 * noise.tail(c, terms) > Fraction(outside)


def test_quantiles_hold_in_draws():
    """5% of draws lie outside, within 6.2 standard errors of 2e5 draws."""
    for noise in (DiscreteLaplace(Fraction(2**20)), DiscreteGaussian(Fraction(2**40))):
        c = noise.quantile(0.05)
        outside = (abs(noise.sample(200_000)) > c).mean()
        assert abs(outside - 0.05) < 6.2 * (0.05 * 0.95 / 200_000) ** 0.5


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
    found = Fraction(DiscreteGaussian(variance).variance)
    assert true * (1 - ball(ERROR)) <= ball(found) <= true * (1 + ball(Fraction(1, 10**14)))
    assert found <= Fraction(float(variance)) + Fraction(1, 10**12)


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
    """A scale is a positive exact number: anything else is an InvalidLossError with a hint."""
    with pytest.raises(InvalidLossError, match="Hint: "):
        make(value)


def test_unusable_questions_are_refused():
    """Only one to three terms, and probabilities strictly between 0 and 1."""
    for noise in (DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(1))):
        for terms in (0, 4, -1):
            with pytest.raises(InvalidQuestionError):
                noise.tail(1, terms)
        for outside in (0, 1, -0.1, 1.5, float("nan"), float("inf")):
            with pytest.raises(DPError):
                noise.quantile(outside)


def test_noise_is_a_frozen_value():
    """Equal scales make equal values, a repr can be pasted back, nothing can be changed."""
    for noise in (DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(7))):
        assert eval(repr(noise)) == noise
        assert hash(eval(repr(noise))) == hash(noise)
        with pytest.raises(AttributeError):
            noise.scale = noise.sigma_squared = 3
    assert DiscreteLaplace(2) == DiscreteLaplace(Fraction(2))
