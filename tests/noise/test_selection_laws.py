"""Selections have the laws that they claim.

The references are enumeration in rational arithmetic and ball arithmetic (python-flint). Tests
that draw have a false-alarm rate of at most 1e-9 each.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx
from scipy import stats

from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip, uniform_below
from tests.noise.exact_references import ball
from tests.noise.selection_laws import (
    DRAWS,
    MECHANISMS,
    both,
    fits,
    is_uniform,
    law_of,
    permute_and_flip_law,
    repeated,
    single_candidates,
)

ALPHA = 1e-9


LOSSES = [
    ([0, 0, 0, 0, 0], Fraction(1)),
    ([0, 1, 2, 3, 4], Fraction(1, 2)),
    ([3, 1, 1, 0, 6], Fraction(1, 3)),
    ([5, 5, 4, 4, 4], Fraction(7, 10)),
    ([2**53 - 1, 2**53 - 2, 2**53 - 4], Fraction(1, 4)),
    ([0, 2**53 - 1, 2**52], Fraction(1, 2**52)),
    ([0, 2**53 - 1, 7], Fraction(1, 2**500)),
    ([1, 0, 2**53 - 1], Fraction(2**500)),
    ([7], Fraction(1)),
]


@both
@pytest.mark.parametrize(("losses", "rate"), LOSSES, ids=str)
def test_law_of_single_candidates(mechanism, losses, rate):
    """Counts of 2e5 choices fit the law that enumeration gives for the stated algorithm."""
    law = mechanism(rate)
    chosen = law.select(repeated(single_candidates(losses), DRAWS))
    assert fits(np.bincount(chosen, minlength=len(losses)).tolist(), law_of(law, losses))


@pytest.mark.slow
@both
@pytest.mark.parametrize(("losses", "rate"), LOSSES[:4], ids=str)
def test_law_of_single_candidates_at_length(mechanism, losses, rate):
    """The same with 1e7 choices, where a rate that is 2% off is seen, but for one of 10**30."""
    runs = repeated(single_candidates(losses), 500_000)
    counts = sum(np.bincount(mechanism(rate).select(runs), minlength=5) for _ in range(20)).tolist()
    assert fits(counts, law_of(mechanism(rate), losses))
    wrong = law_of(mechanism(rate * Fraction(102, 100)), losses)
    assert len(set(losses)) == 1 or not fits(counts, wrong)


@both
@pytest.mark.parametrize(
    "group",
    [
        [(0, 2, 3), (2, 1, 0), (3, 2, 1)],
        [(0, 1, 3), (1, 1, 3), (2, 1, 0), (3, 1, 1), (4, 1, 1)],
        [(4, 1, 1), (0, 2, 3), (3, 1, 1), (2, 1, 0)],
    ],
    ids=["collapsed", "single", "shuffled"],
)
def test_splitting_runs_leaves_the_law(mechanism, group):
    """However equal losses are cut into runs, the law is that of the single candidates."""
    law = mechanism(Fraction(1, 2))
    chosen = law.select(repeated(group, DRAWS))
    assert fits(np.bincount(chosen, minlength=5).tolist(), law_of(law, [3, 3, 0, 1, 1]))


@pytest.mark.parametrize("power", [1, 5, 20, 45, 61])
def test_long_runs_have_the_weight_of_their_candidates(power):
    """One candidate at loss 0 against w at loss c: both laws have a closed form.

    Exponential: 1 / (1 + w p), p = exp(-rate c); permute-and-flip: the chance that the one comes
    first is the integral of (1 - p v)**w over [0, 1], which is (1 - (1-p)**(w+1)) / (p (w+1)).
    """
    ctx.prec = 300
    length, loss = 2**power - 1, round(power * 1000 * math.log(2))
    p = (-ball(Fraction(loss, 1000))).exp()
    laws = {
        ExponentialMechanism: 1 / (1 + length * p),
        PermuteAndFlip: (1 - (1 - p) ** (length + 1)) / (p * (length + 1)),
    }
    for mechanism, probability in laws.items():
        runs = repeated([(-5, 1, 0), (10, length, loss)], DRAWS)
        chosen = mechanism(Fraction(1, 1000)).select(runs)
        alone = int((chosen == -5).sum())
        assert stats.binomtest(alone, DRAWS, float(probability)).pvalue > ALPHA
        rest = chosen[chosen != -5] - 10
        assert rest.min() >= 0
        assert rest.max() < length
        assert is_uniform(rest, length)


def test_the_law_tests_have_power():
    """A rate 5% off, and one law taken for the other, are seen."""
    losses = [0, 1, 2, 3, 4]
    runs = repeated(single_candidates(losses), DRAWS)
    for mechanism in MECHANISMS:
        chosen = mechanism(Fraction(105, 200)).select(runs)
        for stated in MECHANISMS:
            law = law_of(stated(Fraction(1, 2)), losses)
            assert not fits(np.bincount(chosen, minlength=5).tolist(), law)


@both
def test_groups_choose_independently(mechanism):
    """Choices of neighbouring groups are independent: 16 pairs fit the product law."""
    law = mechanism(Fraction(1, 2))
    losses = [0, 1, 1, 3]
    chosen = law.select(repeated(single_candidates(losses), DRAWS))
    pairs = np.bincount(chosen[::2] * 4 + chosen[1::2], minlength=16).tolist()
    single = law_of(law, losses)
    assert fits(pairs, [p * q for p in single for q in single])


# Permute-and-flip is the first of uniform arrivals


def arrivals_law(acceptances):
    """P(j) = integral over [0, 1] of p_j * product of (1 - p_i v), i != j: rational numbers."""
    law = []
    for j, p in enumerate(acceptances):
        polynomial = [p]
        for i, q in enumerate(acceptances):
            if i != j:
                shifted = [Fraction(0), *(-q * coefficient for coefficient in polynomial)]
                polynomial = [a + b for a, b in zip([*polynomial, 0], shifted, strict=True)]
        law.append(sum(c / (power + 1) for power, c in enumerate(polynomial)))
    return law


@pytest.mark.parametrize("others", [(), (2,), (1, 3), (3, 3, 8), (1, 2, 2, 9), (5, 7, 10, 10)])
def test_permute_and_flip_is_the_first_of_uniform_arrivals(others):
    """Enumeration over permutations equals the race of uniform times, in exact fractions."""
    acceptances = [Fraction(1), *(Fraction(other, 10) for other in others)]
    law = permute_and_flip_law(acceptances)
    assert law == arrivals_law(acceptances)
    assert sum(law) == 1


# The candidate inside the run


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 100, 2**62 - 1, 2**62 - 3, 3 * 2**60])
def test_uniform_below(length):
    """Integers in [0, length) come equally often."""
    found = uniform_below(np.full(DRAWS, length), system_entropy)
    assert found.min() >= 0
    assert found.max() < length
    assert is_uniform(found, length)
