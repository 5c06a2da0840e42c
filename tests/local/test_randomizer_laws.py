"""Every randomizer has exactly the law it states, and that law is private; nothing is sampled."""

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

import dfprivacy as dfp
from dfprivacy.local import BallGaussian, GridLaplace, RandomizedResponse

MISSING, WORDS = -1, 2**64
EPSILONS = [
    Fraction(1, 1024), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(19, 7),
    Fraction(10), Fraction(45), Fraction(64),
]  # fmt: skip
LAWS = [RandomizedResponse(m, epsilon) for m in (2, 4) for epsilon in EPSILONS]


def exact_exponential(exponent):
    """Return a ball around e**exponent, of 400 bits."""
    ctx.prec = 400
    return arb(fmpq(exponent.numerator, exponent.denominator)).exp()


def at_most(ratio, epsilon):
    """Check that ratio <= e**epsilon for certain."""
    return arb(fmpq(ratio.numerator, ratio.denominator)) <= exact_exponential(epsilon)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_no_report_tells_two_inputs_apart_by_more_than_epsilon(law):
    """For every report and all pairs of inputs, no value included, the ratio is at most e**eps."""
    inputs = [MISSING, *range(law.categories)]
    for report in range(law.categories):
        for category, other in itertools.permutations(inputs, 2):
            some = law.probability(report=report, category=category)
            rest = law.probability(report=report, category=other)
            assert at_most(some / rest, law.epsilon)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_probabilities_of_an_input_add_up_to_one(law):
    """The table is a law: every row sums to 1, and truth is never less likely than another."""
    for category in [MISSING, *range(law.categories)]:
        assert sum(law.probability(report=r, category=category) for r in range(law.categories)) == 1
    assert law.truth >= law.lie > 0


@pytest.mark.parametrize("law", LAWS[:4] + LAWS[9:13], ids=repr)
def test_hardly_anything_of_epsilon_is_given_away(law):
    """Rounding to the safe side costs less than a millionth of epsilon."""
    spent = math.log(law.truth / law.lie)
    assert float(law.epsilon) * (1 - 1e-6) <= spent + 1e-12


def words(*numbers):
    """Return a source of these 64-bit words."""
    data = np.array(numbers, dtype=np.uint64).tobytes()
    return lambda size: data[:size]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("category", [MISSING, 0, 1])
def test_the_sampler_has_the_law_word_for_word(law, category):
    """The 2**64 words fall into intervals, one report each, of exactly the stated sizes.

    The report is constant between the edges that the law names; each edge is checked on both
    sides, so that the number of words for a report is its probability times 2**64.
    """
    if category == MISSING:
        edges = [k * WORDS // law.categories for k in range(law.categories)]
        reports = list(range(law.categories))
    else:
        edges = [k * law.words_for_another for k in range(law.categories)]
        reports = [(category - 1 - k) % law.categories for k in range(law.categories - 1)] + [
            category
        ]
    lasts = [*(edge - 1 for edge in edges[1:]), WORDS - 1]
    shares = {}
    for edge, last, report in zip(edges, lasts, reports, strict=True):
        inputs = np.full(3, category, np.int64)
        outputs = law.privatise(inputs, words(edge, last, (edge + last) // 2)).tolist()
        assert outputs == [report] * 3
        shares[report] = Fraction(last + 1 - edge, WORDS)
    for report, share in shares.items():
        assert share == law.probability(report=report, category=category)


@pytest.mark.parametrize("steps", [1, 2, 7, 2**20])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_a_grid_report_tells_two_inputs_apart_by_at_most_epsilon(steps, epsilon):
    """A shift by d changes discrete Laplace probabilities by at most e**(d / scale) <= e**eps.

    P(z) is proportional to a**|z| with a = e**(-1 / scale), so that the largest ratio over all
    reports and the two inputs farthest apart is e**(steps / scale), an identity of rationals in
    the exponent.
    """
    law = GridLaplace(steps, epsilon)
    assert law.noise.scale == Fraction(steps) / epsilon
    exponents = [
        abs(abs(report - first) - abs(report - second)) / law.noise.scale
        for report in range(-2, min(steps, 7) + 3)
        for first, second in itertools.product({0, steps // 2, steps}, repeat=2)
    ]
    assert max(exponents) <= epsilon
    assert Fraction(steps) / law.noise.scale == epsilon


def test_inputs_beyond_the_grid_are_clipped_before_noise():
    """Whatever integer comes in, what is made private lies on the grid."""
    law = GridLaplace(10, Fraction(1000) / 16)
    outputs = law.privatise(np.array([-(10**9), 10**9] * 50), os.urandom)
    assert outputs[::2].max() <= 5
    assert outputs[1::2].min() >= 5


@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(1, 2), Fraction(3)])
def test_two_vectors_of_the_ball_are_as_far_apart_as_the_noise_assumes(rho):
    """Noise has variance (2 r)**2 / (2 rho): rho-zCDP for vectors at most 2 r apart."""
    law = BallGaussian(12, rho)
    assert law.noise.sigma_squared == Fraction(24**2) / (2 * rho)
    farthest = Fraction(24**2) / (2 * law.noise.sigma_squared)
    assert farthest == rho


def test_a_vector_outside_the_ball_is_dropped():
    """A vector that could be farther away than the proof allows is replaced by the center."""
    law = BallGaussian(3, Fraction(10**6))
    inputs = np.array([[3, 0], [2, 2], [0, -3], [3, 1]])
    assert law.privatise(inputs, os.urandom).tolist() == [[3, 0], [2, 2], [0, -3], [0, 0]]


def test_no_vector_gets_into_the_ball_by_wrapping():
    """Whatever integers a row has, no report is farther from the origin than ball and noise."""
    law = BallGaussian(2**20, Fraction(10**20))
    outside = [2**21, 2**31, 2**32, -(2**32), 2**63 - 1, -(2**63)]
    rows = np.array([[number, 0] for number in outside] + [[0, number] for number in outside])
    assert not law.privatise(rows, os.urandom).any()
    wide = np.zeros((1, 2**15), np.int64)
    wide[0] = 2**20
    assert not law.privatise(wide, os.urandom).any()


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32])
def test_no_vector_of_narrow_integers_gets_into_the_ball(kind):
    """A vector is outside of the ball whatever type its numbers have."""
    largest = min(np.iinfo(kind).max // 2, 2**20 - 1)
    law = BallGaussian(largest, Fraction(10**20))
    rows = np.full((3, 5), largest, kind)
    assert not law.privatise(rows, os.urandom).any()


@pytest.mark.parametrize(
    "law", [LAWS[0], GridLaplace(10, Fraction(1)), BallGaussian(5, Fraction(1))]
)
def test_only_whole_numbers_are_made_private(law):
    """Anything but integers in the right shape is refused by its type, whatever it holds.

    A fraction would come out of whole noise as it went in, and show the owner's value.
    """
    shape = (2, 3) if isinstance(law, BallGaussian) else (6,)
    numbers = np.arange(6).reshape(shape)
    others = [np.float64, np.float32, np.uint64, np.complex128, object, str, "datetime64[s]"]
    for inputs in (*(numbers.astype(dtype) for dtype in others), numbers.tolist(), None, 1):
        with pytest.raises(dfp.UnsupportedDtypeError):
            law.privatise(inputs, os.urandom)
    for inputs in (numbers[np.newaxis], np.array(1)):
        with pytest.raises(dfp.errors.InvalidProtocolError, match="dimensions"):
            law.privatise(inputs, os.urandom)
    reports = law.privatise(numbers.astype(np.int8), os.urandom)
    assert (reports.dtype, reports.shape) == (np.int64, shape)


UNSAFE = [
    (BallGaussian, "radius", [0, -1, 2**20 + 1, 2**40, 1.0, True]),
    (RandomizedResponse, "categories", [0, 1, 3, 5, 8, 2**40, -2, 2.0, True]),
    (GridLaplace, "steps", [0, -1, 2.5, 2**40 + 1, 2**70, True]),
    (lambda epsilon, _: RandomizedResponse(2, epsilon), "1/1024", [Fraction(1, 2000), 65]),
    (lambda epsilon, _: GridLaplace(16, epsilon), "1/1024", [Fraction(1, 2000), 65]),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("make", "message", "values"), UNSAFE)
def test_what_breaks_a_stated_law_is_refused(make, message, values):
    """Squares or noise that may wrap, categories that masked bits lack, useless losses.

    A ball has a radius to 2**20, so that 2**15 squares stay in 64 bits, and a grid 2**40 steps.
    """
    for value in values:
        with pytest.raises(dfp.DPError, match=message):
            make(value if message != "1/1024" else Fraction(value), Fraction(1))


@pytest.mark.parametrize("loss", [Fraction(0), Fraction(-1), 1.0, math.nan, None, "1"])
def test_losses_are_fractions(loss):
    """A loss that is no positive fraction is refused where the law is named."""
    for law in (lambda: RandomizedResponse(2, loss), lambda: GridLaplace(2, loss)):
        with pytest.raises(dfp.errors.InvalidLossError):
            law()
    with pytest.raises(dfp.errors.InvalidLossError):
        BallGaussian(2, loss)


def test_unbiased_counts_are_right_in_expectation():
    """The expected value of the estimate is the true table, in exact arithmetic."""
    law = RandomizedResponse(4, Fraction(1))
    truth = np.array([700, 100, 0, 200])
    expected = [
        sum(int(n) * law.probability(report=r, category=g) for g, n in enumerate(truth))
        for r in range(4)
    ]
    scale = law.truth - law.lie
    assert [(count - 1000 * law.lie) / scale for count in expected] == truth.tolist()
    assert np.allclose(law.unbias(np.array([float(c) for c in expected])), truth)
