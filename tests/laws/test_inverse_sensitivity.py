"""Lengths are distances to data with the property, and a row moves them by at most 1.

The reference is enumeration: all multisets of rows on a tiny grid, with the distance that counts
rows added and removed.
"""

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.monotone import (
    CentreLength,
    QuantileLength,
)

POINTS = 5
MOST = 4
SHARES = [Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)]
CENTRES = {f"p={p}": (CentreLength(p), p) for p in (1.5, 2, 3, 7.25)}
OTHERS = [CentreLength(1.01), CentreLength(40), CentreLength(64), QuantileLength(0.123)]
EVERY = [*map(QuantileLength, SHARES), *(c for c, _ in CENTRES.values()), *OTHERS]


@functools.cache
def multisets(most, points=POINTS):
    """Rows at each of the points, for every data set of up to so many rows."""
    counts = itertools.product(range(most + 1), repeat=points)
    return np.array([c for c in counts if sum(c) <= most], np.int64)


def lengths(functional, counts, lowest=0):
    values = np.flatnonzero(counts)
    candidates = np.arange(lowest, lowest + len(counts))
    return functional.lengths(values + lowest, np.asarray(counts)[values], candidates)


def distances(counts, allowed):
    """Rows between one data set and the nearest allowed one; candidates are columns."""
    others = multisets(2 * int(sum(counts)) + 1)
    rows = np.abs(others - counts).sum(axis=1)
    return np.where(allowed(others), rows[:, None], 10**6).min(axis=0)


def quantile_is(q):
    """Allow data sets, not empty, whose smallest v with F(v) >= q N is each point: in integers."""

    def allowed(others):
        upto = np.cumsum(others, axis=1) * q.denominator
        goal = others.sum(axis=1, keepdims=True) * q.numerator
        first = (upto >= goal).argmax(axis=1)
        return (first[:, None] == np.arange(POINTS)) & (goal > 0)

    return allowed


def pulls(others, p):
    gaps = np.arange(POINTS)[:, None] - np.arange(POINTS)
    exact = np.sign(gaps) * np.abs(gaps).astype(float) ** (p - 1)
    total = others @ exact
    return np.where(np.abs(total) < 1e-9, 0, total)


def centre_is(p, sign):
    """Allow data sets, not empty, whose centre is not above each point (or not below, sign -1)."""
    return lambda others: (sign * pulls(others, p) <= 0) & (others.sum(axis=1, keepdims=True) > 0)


@pytest.mark.parametrize("q", SHARES, ids=str)
def test_quantile_lengths_are_distances(q):
    """For every data set of up to three rows, a length is the distance to that quantile."""
    for counts in multisets(3):
        assert (lengths(QuantileLength(q), counts) == distances(counts, quantile_is(q))).all()


@pytest.mark.parametrize("name", CENTRES)
def test_centre_lengths_are_distances(name):
    """A length is the larger distance to data with a centre not above, and not below."""
    functional, p = CENTRES[name]
    for counts in multisets(3):
        sides = [distances(counts, centre_is(p, sign)) for sign in (1, -1)]
        assert (lengths(functional, counts) == np.maximum(*sides)).all()


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_one_row_moves_lengths_by_one(functional):
    """Neighbours: all data sets of up to five rows with each of them removed."""
    known = {tuple(c): lengths(functional, c) for c in multisets(MOST + 1)}
    moved = 0
    for counts, own in known.items():
        for point in np.flatnonzero(counts):
            other = list(counts)
            other[point] -= 1
            change = np.abs(own - known[tuple(other)]).max()
            assert change <= 1
            moved = max(moved, change)
    assert moved == 1


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_one_row_moves_lengths_by_one_in_large_data(functional):
    """The same for 30 random data sets on 33 points, with up to millions of rows a value."""
    random = np.random.default_rng(5)
    for _ in range(30):
        counts = random.integers(0, 10 ** random.integers(1, 7), 33) * (random.random(33) < 0.3)
        counts += random.random(33) < random.random() / 4
        other = counts + (np.arange(33) == random.integers(33))
        assert np.abs(lengths(functional, counts) - lengths(functional, other)).max() <= 1


@pytest.mark.parametrize("p", [1 + 2**-52, 1.001, 1.5, 2, 3, 17.3, 64])
def test_pulls_are_a_public_table(p):
    """0 at 0 alone, ascending, at most 2**29: whatever the power function of the platform does."""
    table = CentreLength(p).pulls(2**12)
    assert table[0] == 0
    assert table[1] >= 1
    assert (np.diff(table) >= 0).all()
    assert table[-1] == 2**29


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_empty_and_single_rows(functional):
    """Without rows every candidate is one row away; a single row has its own value, length 0."""
    assert lengths(functional, np.zeros(9, np.int64)).tolist() == [1] * 9
    for point in range(9):
        single = lengths(functional, np.eye(9, dtype=np.int64)[point])
        assert single[point] == 0
        assert (np.delete(single, point) > 0).all()


@pytest.mark.parametrize("name", CENTRES)
def test_lengths_grow_away_from_the_centre(name):
    """Lengths fall up to a least one and grow beyond it."""
    functional, _ = CENTRES[name]
    for counts in multisets(MOST):
        own = lengths(functional, counts)
        least = own.argmin()
        assert (np.diff(own[: least + 1]) <= 0).all()
        assert (np.diff(own[least:]) >= 0).all()


@pytest.mark.parametrize("functional", EVERY, ids=str)
def test_nothing_wraps_at_the_limit_of_rows(functional):
    """With 2**33 - 1 rows at both ends of 4,097 points, lengths are in [0, rows + 1]."""
    counts = np.zeros(4097, np.int64)
    counts[0], counts[-1] = 2**32, 2**32 - 1
    own = lengths(functional, counts)
    assert own.min() >= 0
    assert own.max() <= 2**33
