"""Lengths of centres near the least one: the same as all lengths, but for those far away."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.monotone import CentreLength, far
from dfprivacy.noise.selection import ExponentialMechanism

POWERS = [1 + 2**-52, 1.01, 1.5, 2, 3, 17.3, 64]


def near(p, counts, reach):
    values = np.flatnonzero(counts)
    return CentreLength(p).lengths_near(values, counts[values], len(counts) - 1, reach)


def expected(p, counts, reach):
    values = np.flatnonzero(counts)
    own = CentreLength(p).lengths(values, counts[values], np.arange(len(counts)))
    return np.minimum(own, own.min() + reach)


def data_sets(random, points):
    """Sparse and full, light and heavy, at the ends, in the middle, and none."""
    empty = np.zeros(points, np.int64)
    yield empty
    for places in ([0], [points - 1], [points // 2], [0, points - 1], [1, 2, points - 2]):
        for most in (2, 1000, 2**31):
            counts = empty.copy()
            counts[places] = random.integers(1, most, len(places))
            yield counts
    for share, most in itertools.product((0.01, 0.3, 1), (2, 50, 10**6)):
        counts = random.integers(1, most, points) * (random.random(points) < share)
        yield counts
        yield np.sort(counts)


@pytest.mark.parametrize("reach", [1, 7, 200, 10**9, 2**60])
@pytest.mark.parametrize("p", POWERS)
def test_near_lengths_are_all_lengths_up_to_the_reach(p, reach):
    """On grids of few and of many points, whatever the data."""
    random = np.random.default_rng(reach)
    for points in (3, 65, 257):
        for counts in data_sets(random, points):
            assert np.array_equal(near(p, counts, reach), expected(p, counts, reach))


@pytest.mark.parametrize("reach", [1, 2, 3])
@pytest.mark.parametrize("p", POWERS)
def test_one_row_moves_near_lengths_by_one(p, reach):
    """Neighbours: all data sets of up to five rows on five points, each row removed."""
    moved = 0
    for counts in itertools.product(range(6), repeat=5):
        if not 0 < sum(counts) <= 5:
            continue
        own = near(p, np.array(counts), reach)
        for point in np.flatnonzero(counts):
            other = np.array(counts) - (np.arange(5) == point)
            moved = max(moved, np.abs(own - near(p, other, reach)).max())
    assert moved == 1


def test_what_is_far_is_hardly_ever_chosen():
    """All candidates at the reach weigh e**-45 of the nearest, whatever epsilon is."""
    for epsilon in (Fraction(1, 1000), Fraction(1), Fraction(50)):
        mechanism = ExponentialMechanism.for_epsilon(epsilon, 1)
        weight = 4097 * np.exp(-float(mechanism.rate) * far(mechanism, 4097))
        assert weight <= np.exp(-45) * 1.000001
        assert far(mechanism, 4097) <= 54 / mechanism.rate + 1
