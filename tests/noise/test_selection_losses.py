"""Selections cost what they claim: exact enumeration over all small data sets."""

import itertools
import math
from fractions import Fraction

import pytest

from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip
from tests.noise.exact_references import ball
from tests.noise.selection_laws import MECHANISMS, both, law_of


def median_losses(values, grid=5):
    """Count the records to add or remove until a grid point is a median: sensitivity 1."""
    losses = []
    for point in range(grid):
        below = sum(value < point for value in values)
        above = sum(value > point for value in values)
        equal = len(values) - below - above
        losses.append(max(0, below - above - equal + 1, above - below - equal))
    return losses


def neighbours(grid=5, most=4):
    for size in range(most):
        for values in itertools.combinations_with_replacement(range(grid), size):
            for value in range(grid):
                yield median_losses(values, grid), median_losses((*values, value), grid)


@both
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)], ids=str)
def test_epsilon_holds_on_all_small_datasets(mechanism, epsilon):
    """No neighbouring datasets give any choice probabilities further apart than exp(epsilon)."""
    law = mechanism.for_epsilon(epsilon, sensitivity=1)
    bound = ball(epsilon).exp()
    pairs = {tuple(map(tuple, pair)) for pair in neighbours()}
    largest = 0.0
    for losses, others in pairs:
        assert max(abs(a - b) for a, b in zip(losses, others, strict=True)) <= 1
        for p, q in zip(law_of(law, losses), law_of(law, others), strict=True):
            assert not p / q > bound
            assert not q / p > bound
            largest = max(largest, float(p / q), float(q / p))
    assert math.log(largest) > float(epsilon) / 2


def renyi(alpha, law, other):
    """Renyi divergence of order alpha in ball arithmetic."""
    total = sum(p**alpha * q ** (1 - alpha) for p, q in zip(law, other, strict=True))
    return total.log() / (alpha - 1)


ORDERS = [ball(Fraction(order)) for order in (Fraction(101, 100), 2, 5, 20)]


@both
def test_rho_holds_on_all_small_datasets(mechanism):
    """Renyi divergences of order alpha are at most rho * alpha: exact enumeration."""
    law = mechanism.for_rho(Fraction(1, 8), sensitivity=1)
    rho = ball(law.rho(sensitivity=1))
    for losses, others in neighbours(most=3):
        p, q = law_of(law, losses), law_of(law, others)
        for alpha in ORDERS:
            assert not renyi(alpha, p, q) > rho * alpha
            assert not renyi(alpha, q, p) > rho * alpha


def test_permute_and_flip_must_not_be_charged_like_the_exponential_mechanism():
    """Losses (1, 1) and (0, 2) break epsilon**2 / 8 for permute-and-flip by nearly four times."""
    epsilon = Fraction(1, 100)
    divergences = {}
    for mechanism in MECHANISMS:
        law = mechanism.for_epsilon(epsilon, sensitivity=1)
        p, q = law_of(law, [1, 1]), law_of(law, [0, 2])
        divergences[mechanism] = max(renyi(ORDERS[1], p, q), renyi(ORDERS[1], q, p)) / 2
        assert divergences[mechanism] <= ball(law.rho(sensitivity=1))
    assert divergences[PermuteAndFlip] > ball(epsilon**2 / 8) * 39 / 10
    assert divergences[ExponentialMechanism] > ball(epsilon**2 / 8) * 99 / 100


@both
@pytest.mark.parametrize("sensitivity", [1, 3, 10**20])
def test_charges_cover_the_rate(mechanism, sensitivity):
    """The epsilon charged is the one asked for; rho comes out at most, and almost, as asked."""
    law = mechanism.for_epsilon(Fraction(2, 3), sensitivity)
    assert law.rate * 2 * sensitivity == law.epsilon(sensitivity) == Fraction(2, 3)
    divisor = 8 if mechanism is ExponentialMechanism else 2
    assert law.rho(sensitivity) == Fraction(4, 9) / divisor
    for rho in (Fraction(1, 2**60), Fraction(1, 3), Fraction(7), Fraction(2**60)):
        found = mechanism.for_rho(rho, sensitivity)
        epsilon = found.epsilon(sensitivity)
        assert found.rho(sensitivity) <= rho
        assert (epsilon + Fraction(1, 2**320)) ** 2 / divisor > rho
    assert mechanism.for_rho(Fraction(9, divisor), sensitivity).epsilon(sensitivity) == 3
