"""Order statistics on a whole grid: their lengths by enumeration, and how many rows they need."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.monotone import QuantileLength, select_order_statistic
from dfprivacy.estimators.quantile import rankable_rows, select_quantiles
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.noise.selection import ExponentialMechanism, Selection

LAST = 2
POINTS = range(-LAST, LAST + 1)
HALF = Fraction(1, 2)
LEVELS = [Fraction(1, 100), Fraction(1, 4), HALF, Fraction(2, 3), Fraction(9, 10)]
LOSSES = [Epsilon(Fraction(3, 7)), Rho(Fraction(3, 7))]
SURE = Epsilon(Fraction(2**40))
"""A worse candidate is chosen with probability below 2**62 * exp(-2**39): never."""

GRID = SignificantBits(16)
WIDTH = 2 * GRID.last + 1


@pytest.fixture
def watched(monkeypatch):
    """Return mechanism and runs of the one choice that a call makes; nothing is drawn."""

    def watch(call):
        seen = []

        def select(mechanism, runs, entropy=None):
            seen.append((mechanism, runs))
            return np.zeros(len(runs.group_starts), np.int64)

        with monkeypatch.context() as patch:
            patch.setattr(Selection, "select", select)
            call()
        (choice,) = seen
        return choice

    return watch


@functools.cache
def multisets(most):
    """Rows at each of the points, for every data set of up to so many rows."""
    counts = itertools.product(range(most + 1), repeat=len(POINTS))
    return np.array([c for c in counts if sum(c) <= most], np.int64)


def distances(counts, q):
    """Rows to add and remove until the smallest v with F(v) >= q N is each point."""
    others = multisets(2 * int(counts.sum()) + 1)
    others = others[others.any(axis=1)]
    upto = np.cumsum(others, axis=1) * q.denominator
    first = (upto >= others.sum(axis=1, keepdims=True) * q.numerator).argmax(axis=1)
    rows = np.abs(others - counts).sum(axis=1)
    return [int(rows[first == point].min()) for point in range(len(POINTS))]


def chosen_from(functional, counts, loss):
    held = np.flatnonzero(counts)
    numbers, rows = held - LAST, np.asarray(counts)[held]
    return lambda: select_order_statistic(functional, numbers, rows, LAST, loss)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_every_candidate_has_the_length_of_its_distance(watched, q, loss):
    """Every candidate of the grid is there once, with the distance to data of that quantile.

    For all data sets of up to three rows on five points; the mechanism pays for sensitivity 1.
    """
    for counts in multisets(3):
        mechanism, runs = watched(chosen_from(QuantileLength(q), counts, loss))
        ends = zip(runs.first.tolist(), runs.length.tolist(), strict=True)
        assert [c for first, length in ends for c in range(first, first + length)] == [*POINTS]
        assert np.repeat(runs.loss, runs.length).tolist() == distances(counts, q)
        assert isinstance(mechanism, ExponentialMechanism)
        if isinstance(loss, Epsilon):
            assert mechanism.epsilon(sensitivity=1) == loss.value
        else:
            assert mechanism.rho(sensitivity=1) <= loss.value


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_sure_choices_are_the_order_statistic(q):
    """At a huge epsilon the choice is the sorted list's own, rows at both ends of the grid too."""
    random = np.random.default_rng(11)
    for size, last in ((1, 1), (7, 3), (40, 5), (500, 2**40)):
        values = random.integers(-last, last + 1, size)
        values[: size // 3] = random.choice([-last, last])
        numbers, rows = np.unique(values, return_counts=True)
        chosen = select_order_statistic(QuantileLength(q), numbers, rows, last, SURE)
        assert chosen == np.sort(values)[math.ceil(q * size) - 1]


def test_no_rows_choose_uniformly(watched):
    """Without rows every candidate has length 1: one row makes any of them the quantile."""
    none = np.zeros(0, np.int64)
    _, runs = watched(lambda: select_order_statistic(QuantileLength(HALF), none, none, 9, SURE))
    assert runs.length.sum() == 19
    assert set(runs.loss.tolist()) == {1}


def beyond(mechanism, runs, atom):
    """Return how probable it is that the exponential mechanism chooses anything but `atom`."""
    weights = runs.length * np.exp(-float(mechanism.rate) * runs.loss)
    return 1 - float(weights[runs.first == atom].sum() / weights.sum())


def one_atom(rows):
    """Make a table of rows that all hold 5."""
    labels = GRID.labels(np.array([5.0]))
    group = np.zeros(1, np.int64)
    return bin_table(pa.table({}), 1, GRID, group, labels, rows=np.array([rows], np.int64))


@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(2)])
@pytest.mark.parametrize("q", [Fraction(0), *LEVELS, Fraction(99, 100), Fraction(1)], ids=str)
def test_fewer_rows_can_not_be_ranked(watched, q, rho):
    """With a tenth less than `rankable_rows`, one atom is missed with probability above 1/10.

    With so many rows they are missed with at most 1/5: 1/10, but for the rounding to whole rows.
    """
    loss, atom = Rho(rho), int(GRID.numbers(np.array([5.0]))[0])
    least = rankable_rows([q], loss, WIDTH)
    few, many = (
        beyond(*watched(lambda rows=rows: select_quantiles(one_atom(rows), [q], loss)), atom)
        for rows in (least * 9 // 10, least + 2)
    )
    assert few > 1 / 10
    assert many <= 1 / 5


def test_more_levels_need_more_rows():
    """Each layer of the tree of levels has its share of the loss; a share ranks fewer rows."""
    loss = Epsilon(Fraction(1))
    several = [[Fraction(i, m + 1) for i in range(1, m + 1)] for m in (1, 2, 3, 4, 7, 8)]
    least = [rankable_rows(qs, loss, WIDTH) for qs in several]
    assert least[0] < least[1] == least[2] < least[3] == least[4] < least[5]
    assert rankable_rows(several[1], Epsilon(Fraction(1, 10)), WIDTH) > 9 * least[1]


@pytest.mark.parametrize("q", [Fraction(1, 100), Fraction(1, 4), HALF, Fraction(9, 10)], ids=str)
def test_order_statistics_need_rows_for_their_level(watched, q):
    """A level needs max(q, 1 - q) / min(q, 1 - q) times (2 / epsilon) log(10 candidates) rows.

    One atom is missed with probability at most 1/10 then, and above 1/10 with a fifth less.
    """
    loss, atom = Epsilon(Fraction(1)), int(GRID.numbers(np.array([5.0]))[0])
    least = max(q, 1 - q) / min(q, 1 - q) * Fraction(2 * math.log(10 * WIDTH))

    def missed(rows):
        numbers, counts = np.array([atom]), np.array([rows])
        law = QuantileLength(q)
        call = lambda: select_order_statistic(law, numbers, counts, GRID.last, loss)  # noqa: E731
        return beyond(*watched(call), atom)

    assert missed(math.ceil(least)) <= 1 / 10
    assert missed(int(least * Fraction(4, 5))) > 1 / 10
