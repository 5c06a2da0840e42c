"""What a unit contributes to statistics of several files, and the loss that remains for a row."""

import itertools
from fractions import Fraction

import pytest

from dfprivacy.accounting.loss import Contribution, Epsilon, Rho
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

LIMITS = list(itertools.product((1, 2, 3), (1, 2), (1, 2, 3)))


def placements(rows, groups, parts):
    """Yield what a unit can add to each group of all files: its limits hold in each file alone."""
    universe = groups * parts
    chosen = list(itertools.combinations(range(universe), groups))
    for files in itertools.product(chosen, repeat=parts):
        held = [0] * universe
        for file in files:
            for group in file:
                held[group] += rows
        yield tuple(held)


@pytest.mark.parametrize(("rows", "groups", "parts"), LIMITS)
def test_no_placement_costs_more_than_the_loss(rows, groups, parts):
    """Wherever a unit has its rows, they cost at most what was asked, and some place costs it.

    One row costs e in each group; r rows of a group cost r e where losses are pure, and r^2 of it
    where they are zero-concentrated.
    """
    contribution = Contribution(rows, groups, parts)
    pure = contribution.row_loss(Epsilon(Fraction(1))).value
    concentrated = contribution.row_loss(Rho(Fraction(1))).value
    found = set(placements(rows, groups, parts))
    assert max(sum(held) * pure for held in found) == 1
    assert max(sum(own * own for own in held) * concentrated for held in found) == 1


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(7)), DiscreteGaussian(Fraction(40))])
@pytest.mark.parametrize(("rows", "groups", "parts"), LIMITS)
def test_no_placement_shows_groups_more_often_than_delta(rows, groups, parts, noise):
    """Wherever a unit is alone, its groups are shown with probability at most delta in all."""
    delta = Fraction(1, 1000)
    least = Contribution(rows, groups, parts).key_rule(delta).least(noise, 1, 1)
    for held in set(placements(rows, groups, parts)):
        shown = sum(noise.tail(least - own) for own in held if own)
        assert shown <= delta


def test_one_file_is_no_file():
    """With parts=1 nothing changes; groups counted together are rows of one group."""
    assert Contribution(3, 2, 1) == Contribution(3, 2)
    loss = Epsilon(Fraction(1))
    pooled = Contribution(3, 2, 5).pooled()
    assert pooled.row_loss(loss) == Contribution(3, 2, 5).row_loss(loss)
    assert pooled.row_loss(Rho(Fraction(1))).value == Fraction(1, 30**2)
