"""Bounds about a centre: which data are far from zero, and how far noisy distances reach."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import FINE, BinTable
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.race import Runs
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators import zoom
from dfprivacy.statistics.estimators.octave_bounds import FoundBounds
from dfprivacy.statistics.estimators.quantile import RankedRows, rank_runs, ranked_rows
from dfprivacy.statistics.estimators.zoom import (
    AGAIN,
    APART,
    CORES,
    FIRST,
    JOINS,
    NEAR,
    PARTS,
    SECOND,
    WIDER,
    heights_of,
    reaching,
    sizes_of,
    zoomed_bounds,
)


def table_of(*groups):
    """Return the table of groups of values."""
    group = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    numbers = FINE.numbers(FINE.labels(np.concatenate([*groups, []]).astype(float)))
    cells, rows = np.unique(np.stack([group, numbers]), axis=1, return_counts=True)
    return BinTable(pa.table({}), len(groups), FINE, cells[0], cells[1], rows)


FAR = {
    "normal(100, 15)": np.random.default_rng(1).normal(100, 15, 4000),
    "years": np.random.default_rng(2).integers(1990, 2026, 4000),
    "negative": np.random.default_rng(3).normal(-288, 12, 4000),
    "a constant": np.full(4000, 7.3),
    "timestamps": 1.7e9 + np.random.default_rng(4).uniform(0, 86400 * 30, 4000),
}


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1, 2))], ids=str)
@pytest.mark.parametrize("data", FAR)
def test_data_far_from_zero_have_bounds_of_their_spread(data, loss):
    """Of 200 releases at least 190 have bounds at most three times as wide as the data.

    They hold all but a fortieth of the rows at either end, and a constant has one bin.
    """
    values = np.sort(FAR[data].astype(float))
    with permit("a test"):
        found = zoomed_bounds(table_of(*[values] * 200), loss).found
    spread = max(values[-1] - values[0], 2.0**-8)
    inner, outer = values[100], values[-101]
    good = (found.upper - found.lower <= 3 * spread) & (found.lower <= inner)
    assert (good & (found.upper >= outer)).sum() >= 190


@pytest.mark.parametrize("epsilon", [1, 1000])
@pytest.mark.parametrize("rows", [0, 1, 30, 5000])
def test_shares_are_part_of_the_loss(epsilon, rows):
    """What is left is positive, and less than the loss; groups come out in their order."""
    groups = [np.full(rows, 700.0), np.linspace(-1, 1, rows), np.zeros(rows)]
    with permit("a test"):
        zoomed = zoomed_bounds(table_of(*groups), Epsilon(Fraction(epsilon)))
    assert all(0 < zoomed.left(np.array([group])) < PARTS for group in range(3))
    found = zoomed.found.found
    assert (zoomed.found.lower[found] < zoomed.found.upper[found]).all()
    if rows == 5000:
        assert found.tolist() == [True, True, False]


def test_no_group_pays_for_two_second_looks(monkeypatch):
    """Two groups, of which the first has bounds at first and loses them: each is looked at twice.

    What is left of the loss, also for groups of several histograms, is what all looks leave.
    """
    ends = iter([[1.0, np.nan], [np.nan], [np.nan], [np.nan]])

    def bounds(*_):
        upper = np.array(next(ends))
        return FoundBounds(-upper, upper, *np.zeros((2, len(upper)), dtype=bool))

    monkeypatch.setattr(zoom, "octave_bounds", bounds)
    with permit("a test"):
        zoomed = zoomed_bounds(table_of([], []), Epsilon(Fraction(1)))
    looks = [own.groups.tolist() for own in zoomed.histograms]
    assert looks == [[0, 1], [0], [1]]
    left = [zoomed.left(np.array(own)) for own in looks[1:]]
    assert left == [PARTS - FIRST - SECOND, PARTS - FIRST - AGAIN]
    assert zoomed.left(np.arange(2)) == min(left)


def losses(runs: Runs, last: int) -> list[int]:
    """Return the loss of every candidate of one group."""
    held = {}
    for first, length, loss in zip(runs.first, runs.length, runs.loss, strict=True):
        held |= dict.fromkeys(range(int(first), int(first + length)), int(loss))
    return [held[place] for place in range(-last, last + 1)]


@given(st.lists(st.integers(-5, 5), max_size=30), st.integers(-5, 5))
def test_a_row_moves_the_loss_of_every_centre_by_one_at_most(bins, added):
    """The aim is the number of rows itself: it moves along, and no loss moves by more than 1."""

    def held(numbers):
        known, rows = np.unique(np.array(numbers, np.int64), return_counts=True)
        before = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        ends = np.zeros(1, np.int64), np.array([len(known)])
        return RankedRows((-6, 6), np.append(known, 6), before, *ends)

    both = [held(numbers) for numbers in (bins, [*bins, added])]
    one, other = (losses(rank_runs(own, own.totals(), 10**6), 5) for own in both)
    assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1
    assert ranked_rows(table_of([1.0, 2.0])).totals().tolist() == [2]


def by_the_words(counts, sizes):
    """Return the reach of one group's noisy counts as the rule's own words have it."""
    middle = len(sizes) - 1
    edges = {i: int(sizes[i]) for i in range(len(sizes))}

    def end(place):  # the distance of a bin's outer end, with its sign
        return math.copysign(edges[abs(place)], place)

    def start(place):
        return math.copysign(edges[abs(place) - 1] + 1, place) if place else 0

    height = {i - middle: c for i, c in enumerate(counts)}
    reach, seen = {1: 0, -1: 0}, height[0] >= CORES[1]
    inside = sum(1 for s in sizes[1:] if s < NEAR) + 1
    for side in (1, -1):
        for size, least in CORES.items():
            windows = {
                f: sum(height[side * k] for k in range(f, f + size))
                for f in range(1, min(inside, middle) - size + 2)
            }
            best = max(windows, key=lambda f: (windows[f], -f))
            if windows[best] >= least - 1e-9:
                reach[side], seen = best + size - 1, True
                break
    for _ in range(2):
        for side in (1, -1):
            for place in range(reach[side] + 1, middle + 1):
                low, high = -reach[-1], reach[1]
                now = end(high) - end(low) + 1
                wide = end(place) - end(low) + 1 if side > 0 else end(high) - end(-place) + 1
                least = JOINS + WIDER * math.log(wide / now)
                if height[side * place] >= least + APART * math.log(place - reach[side]):
                    reach[side] = place
    assert start(reach[1]) <= end(reach[1])
    return int(end(-reach[-1])), int(end(reach[1])), seen


@settings(max_examples=60)
@given(st.data())
def test_reaches_are_those_of_the_rule_in_words(data):
    """The core of each side, then bins by height, width and gap; each group by itself."""
    sizes = sizes_of(2**15, data.draw(st.sampled_from([2, 4])))
    width = 2 * len(sizes) - 1
    tall = st.sampled_from([-3.0, -1.0, 0.0, 1.0, 3.0, 4.0, 6.0, 9.0, 14.0, 40.0, 300.0])
    few = st.dictionaries(st.integers(0, width - 1), tall, max_size=25)
    groups = data.draw(st.lists(few, min_size=1, max_size=3))
    noisy = np.zeros((len(groups), width))
    for row, own in zip(noisy, groups, strict=True):
        row[list(own)] = list(own.values())
    low, high, seen = reaching(noisy, DiscreteLaplace(Fraction(1)), sizes)
    found = list(zip(low.tolist(), high.tolist(), seen.tolist(), strict=True))
    assert found == [by_the_words(row, sizes) for row in noisy]


def test_heights_of_both_laws_are_as_improbable():
    """A height h is reached by noise with a probability of about exp(-h) / 2."""
    for sigma in (Fraction(1), Fraction(400)):
        noise = DiscreteGaussian(sigma**2)
        for place in (2, 4, 6):
            height = float(heights_of(np.array([place * float(sigma)]), noise)[0])
            exact = -math.log(math.erfc(place / math.sqrt(2)))
            assert height == pytest.approx(exact, abs=0.05)
    laplace = heights_of(np.array([30.0, -5.0]), DiscreteLaplace(Fraction(10)))
    assert laplace.tolist() == [3.0, -0.5]


@pytest.mark.parametrize("fineness", [2, 4, 8])
def test_bins_of_distances_are_parts_of_octaves(fineness):
    """Every power of two up to the largest distance ends a bin, and so do even parts between."""
    sizes = sizes_of(2 * FINE.last, fineness)
    assert sizes[:2].tolist() == [0, 1]
    assert sizes[-1] >= 2 * FINE.last
    powers = 2 ** np.arange(20)
    assert set(powers) <= set(sizes)
    large = sizes[sizes >= fineness]
    assert (np.diff(large)[:-1] == 2 ** np.floor(np.log2(large[:-2])) / fineness).all()
