"""Bounds from noisy octaves: the rule in words, and what does not change it."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dfprivacy.estimators.octave_bounds import (
    CORE,
    GROWTH,
    LEAST,
    find_bounds,
    octave_bounds,
)
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import Octaves
from dfprivacy.noise.exceedances import Exceedances, exceedances

LAST = Octaves().last
LEAST_VALUE = 2.0**-126


def noisy(*groups):
    """Return the noisy bins of groups, each a mapping from bin to height."""
    rows = [(g, b, h) for g, bins in enumerate(groups) for b, h in sorted(bins.items())]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return Exceedances(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(columns[2], dtype=np.float64),
    )


def bounds(*groups):
    found = octave_bounds(noisy(*groups), len(groups))
    return list(zip(found.lower.tolist(), found.upper.tolist(), strict=True))


def ends(bin_):
    """Return the ends of a bin, by its definition."""
    size = abs(bin_)
    inner, outer = (0 if size <= 1 else Fraction(2) ** (size - 128)), Fraction(2) ** (size - 127)
    if size == 0:
        return Fraction(0), Fraction(0)
    return (inner, outer) if bin_ > 0 else (-outer, -inner)


def by_the_words(bins):
    """Return the bounds of one group as the rule's own words have them."""
    tall = {b: h for b, h in bins.items() if h >= CORE and b != 0}
    if not tall:
        zero = bins.get(0, 0) >= CORE
        return (-LEAST_VALUE, LEAST_VALUE) if zero else (math.nan, math.nan)
    core = max(tall, key=lambda b: (tall[b], b))
    low, high = ends(core)
    reach = [core, core]
    for _ in range(2):
        for side in (1, 0):
            beyond = [b for b in bins if (b > reach[1] if side else b < reach[0])]
            for b in sorted(beyond, reverse=not side):
                far = max(high, ends(b)[1]) if side else min(low, ends(b)[0])
                width = far - low if side else high - far
                needed = LEAST + GROWTH * math.log2(max(width / (high - low), 1))
                if bins[b] >= needed:
                    reach[side] = b
                    low, high = (low, far) if side else (far, high)
    narrow = Fraction(2) ** (math.frexp(float(high - low))[1] - 20)
    if abs(low) < narrow:
        low = -narrow if low < 0 else Fraction(0)
    if abs(high) < narrow:
        high = narrow if high > 0 else Fraction(0)
    return float(low), float(high)


heights = st.sampled_from([6.0, 6.5, 7.0, 8.25, 9.0, 11.75, CORE, CORE + 1, 20.0, 60.0, 300.0, 1e6])
near = st.dictionaries(st.integers(-30, 30), heights, max_size=9)
anywhere = st.dictionaries(st.integers(-LAST, LAST), heights, max_size=9)
groups = st.lists(st.one_of(near, anywhere), max_size=5)


@settings(max_examples=300)
@given(groups)
def test_bounds_are_those_of_the_rule_in_words(drawn):
    """From the core outwards a bin joins by its height; every group is judged by itself."""
    expected = [by_the_words(bins) for bins in drawn]
    assert np.array_equal(np.array(bounds(*drawn)), np.array(expected), equal_nan=True)


@given(groups)
def test_bounds_are_ordered_octave_edges(drawn):
    """Bounds ascend, are zero or powers of two, and none is much nearer to zero than wide."""
    for lower, upper in bounds(*drawn):
        if math.isnan(lower):
            assert math.isnan(upper)
            continue
        assert lower < upper
        for end in (lower, upper):
            assert end == 0 or math.frexp(abs(end))[0] == 0.5
            assert end == 0 or abs(end) >= 2.0**-20 * (upper - lower)


def shifted(bins, by):
    return {b + math.copysign(by, b) * (b != 0): h for b, h in bins.items()}


@given(st.dictionaries(st.integers(-90, 90), heights, max_size=9), st.sampled_from([1, 20, 100]))
def test_multiplied_data_have_multiplied_bounds(bins, octaves):
    """Values 2**k times as large, in bins k further out, have bounds 2**k times as large."""
    bins = {b + (40 if b > 0 else -40) * (b != 0): h for b, h in bins.items()}
    ((lower, upper),) = bounds(bins)
    ((more, most),) = bounds({int(b): h for b, h in shifted(bins, octaves).items()})
    if not (math.isnan(lower) or upper == LEAST_VALUE):
        assert (more, most) == (lower * 2**octaves, upper * 2**octaves)


@pytest.mark.parametrize("octave", [-LAST, -127, -1, 1, 127, LAST])
def test_a_core_has_the_height_of_a_core(octave):
    """A group has bounds from the height of a core on, and none just below."""
    assert np.isnan(bounds({octave: math.nextafter(CORE, 0)})).all()
    low, high = ends(octave)
    assert bounds({octave: CORE}) == [(float(low), float(high))]


@pytest.mark.parametrize(
    ("core", "other", "ratio"), [(130, 131, 3), (130, 140, 2047), (130, 129, 1.5), (130, -130, 4)]
)
def test_a_bin_joins_from_its_price_on(core, other, ratio):
    """A bin joins at its price, the growth of the width in doublings, and not below."""
    price = LEAST + GROWTH * math.log2(ratio)
    alone, joined = bounds({core: 99.0}), bounds({core: 99.0, other: price})
    assert joined != alone
    (low, high), (further, furthest) = ends(core), ends(other)
    assert joined == [(float(min(low, further)), float(max(high, furthest)))]
    assert bounds({core: 99.0, other: math.nextafter(price, 0)}) == alone


def test_no_bin_no_bounds():
    """Without a noisy bin there are no bounds; zeros alone are bounded by the least octave."""
    assert np.isnan(octave_bounds(noisy({}, {}), 2).lower).all()
    assert octave_bounds(noisy(), 0).lower.shape == (0,)
    assert bounds({0: 50.0}) == [(-LEAST_VALUE, LEAST_VALUE)]
    assert bounds({0: 50.0, 131: 20.0}) == [(0.0, 16.0)]


def test_bounds_are_read_off_a_noisy_table():
    """`find_bounds` reads the bounds off counts with noise of this epsilon: same bytes, same ends.

    Its noisy counts are those of `exceedances` at LEAST scales, and nothing else is drawn.
    """
    values = np.repeat([3.0, -700.0, 2.0**40], [40, 25, 3])
    group = np.arange(len(values)) % 2
    labels = Octaves().labels(values)
    rows = np.ones(len(values), np.int64)
    table = bin_table(pa.table({"g": [0, 1, 2]}), 3, Octaves(), group, labels, rows=rows)
    for seed in range(20):
        drawn = [np.random.default_rng(seed) for _ in range(2)]
        found = find_bounds(table, Fraction(2, 3), drawn[0].bytes)
        noisy_ = exceedances(table, Fraction(2, 3), LEAST, drawn[1].bytes)
        expected = octave_bounds(noisy_, 3)
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
        assert drawn[0].bytes(8) == drawn[1].bytes(8)
