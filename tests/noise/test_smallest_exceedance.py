"""The smallest integer at which a tail is small enough, and how many tails that takes."""

from fractions import Fraction

import pytest

from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.tails import smallest_exceedance


def test_smallest_exceedance_on_both_sides_of_zero():
    """The search finds the step of any falling function, at negative integers as well."""
    for step in (-1000, -2, -1, 0, 1, 2, 3, 12_345):
        found = smallest_exceedance(lambda m, s=step: Fraction(int(m < s)), Fraction(1, 2))
        assert found == step


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("power", [-6, 0, 33, 45])
@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
def test_the_search_asks_for_few_tails(make, power, terms):
    """The step is found from a few tails, though halving would ask for twice the bits of scale."""
    noise, asked = make(Fraction(2) ** power), []

    def tail(at):
        asked.append(at)
        return noise.tail(at, terms)

    for probability in (Fraction(1, 10**12), Fraction(1, 3), Fraction(999, 1000)):
        asked.clear()
        found = smallest_exceedance(tail, probability)
        assert len(asked) <= 60
        assert noise.tail(found, terms) <= probability < noise.tail(found - 1, terms)
