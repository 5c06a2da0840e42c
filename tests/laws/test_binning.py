"""Bins against their definition in exact fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from dfprivacy.measurement.binning import (
    SQUARE_BITS,
    VALUE_BITS,
    Edges,
    Octaves,
    SignificantBits,
    rounded,
)

HOSTILE = [
    0.0, -0.0, math.inf, -math.inf, 1e300, -1e300, 5e-324, -5e-324, 2.0**-1022, 2.0**-126,
    2.0**-127, 2.0**-128, -(2.0**-127), 2.0**126, 2.0**127, 1.0, 2.0, 1.5, 2.0**53 + 2, 0.1,
    math.nextafter(1.0, 2), math.nextafter(1.0, 0), math.nextafter(2.0**126, 0), 1.7976e308,
    math.nextafter(2.0**-126, 0), math.nextafter(2.0**-127, 1), 1 + 2.0**-22, 1 + 3 * 2.0**-22,
]  # fmt: skip
values = st.one_of(
    st.sampled_from(HOSTILE), st.floats(allow_nan=False), st.floats(-100, 100),
    st.builds(math.ldexp, st.sampled_from([-1.0, 0.75, 1.0, 1.5]), st.integers(-130, 130)),
)  # fmt: skip
many = st.lists(values, min_size=1, max_size=40).map(np.array)


def numbers(binning, given_values):
    return binning.numbers(binning.labels(np.asarray(given_values, dtype=float)))


def clip(value):
    return min(max(value, -(2.0**126)), 2.0**126)


def neighbours(value, bits):
    """Return the numbers of so many significant bits on either side of a float."""
    if value == 0:
        return {Fraction(0)}
    exact = Fraction(value)
    unit = Fraction(2) ** (math.frexp(value)[1] - bits)
    return {unit * math.floor(exact / unit), unit * math.ceil(exact / unit)}


@given(values, st.sampled_from([1, 8, 16, SQUARE_BITS, VALUE_BITS]))
def test_rounding_gives_a_nearest_number_of_so_many_bits(value, bits):
    """A rounded value has so many significant bits, and none is nearer; no bit is one too many."""
    value = clip(value)
    found = Fraction(float(rounded(np.array([value]), bits)[0]))
    if abs(value) >= 2.0**-1000:  # below, a float has fewer bits than that itself
        candidates = neighbours(value, bits)
        assert found in candidates
        assert abs(found - Fraction(value)) == min(abs(c - Fraction(value)) for c in candidates)


@settings(max_examples=300)
@given(values)
def test_an_octave_holds_its_own_values(value):
    """An octave holds its own values.

    The rounded value lies in (lower, upper] of its bin, mirrored below zero; sizes up to 2**-127
    are zero; values of one octave are one power of two wide.
    """
    octaves = Octaves()
    kept = Fraction(float(rounded(np.array([clip(value)]), VALUE_BITS)[0]))
    (bin_,) = number = numbers(octaves, [value])
    lower, upper = (Fraction(float(end(number)[0])) for end in (octaves.lower, octaves.upper))
    if abs(kept) <= Fraction(1, 2**127):
        assert bin_ == 0
        assert lower == upper == 0
    elif kept > 0:
        assert lower < kept <= upper
    else:
        assert lower <= kept < upper
    if abs(bin_) > 1:
        outer, inner = max(abs(lower), abs(upper)), min(abs(lower), abs(upper))
        assert outer == 2 * inner
    assert -octaves.last <= bin_ <= octaves.last


@pytest.mark.parametrize("exponent", [-126, -125, -1, 0, 1, 52, 53, 125, 126])
def test_a_power_of_two_closes_its_octave(exponent):
    """2**e is the largest value of its octave; what rounds to more is in the next, 22 bits on."""
    power, octaves = 2.0**exponent, Octaves()
    at, below, above, next_ = numbers(
        octaves, [power, power * (1 - 2.0**-53), power * (1 + 2.0**-24), power * (1 + 2.0**-21)]
    )
    assert at == below == above == exponent + 127
    assert next_ == min(at + 1, octaves.last)
    assert numbers(octaves, [-power])[0] == -at


@pytest.mark.parametrize("binning", [Octaves(), SignificantBits(8), SignificantBits(16)], ids=str)
@given(given_values=many)
def test_bins_are_in_the_order_of_their_values(binning, given_values):
    """A larger value is never in a lower bin, and minus a value is in minus its bin."""
    found = numbers(binning, np.sort(given_values))
    assert (np.diff(found) >= 0).all()
    assert np.array_equal(numbers(binning, -np.sort(given_values)), -found)
    assert np.abs(found).max() <= binning.last


@pytest.mark.parametrize("bits", [8, 16, VALUE_BITS])
@given(value=values)
def test_significant_bits_number_the_rounded_values_upwards(bits, value):
    """The value of a bin is what rounds to it, and neighbours in number are neighbours in value."""
    grid = SignificantBits(bits)
    number = numbers(grid, [value])
    kept = float(rounded(np.array([clip(value)]), bits)[0])
    shown = float(grid.values(number)[0])
    assert shown == (kept if abs(kept) >= 2.0**-126 else 0.0)
    if abs(number[0]) < grid.last:
        further = float(grid.values(number + 1)[0])
        unit = max(abs(Fraction(shown)), abs(Fraction(further)))
        gap = Fraction(further) - Fraction(shown)
        if shown * further == 0:
            assert gap == Fraction(1, 2**126)
        else:
            assert unit / 2**bits <= gap <= unit / 2 ** (bits - 1)


def test_the_number_of_bins():
    """There are 507 octaves, and as many values as the documentation says."""
    assert 2 * Octaves().last + 1 == 507
    for bits in (8, 16):
        grid = SignificantBits(bits)
        ends = grid.values(np.array([-grid.last, -1, 0, 1, grid.last]))
        assert ends.tolist() == [-(2.0**126), -(2.0**-126), 0.0, 2.0**-126, 2.0**126]


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12, unique=True).map(sorted),
    st.lists(values, max_size=30),
)
@example([0.0, 1.0, 2.0], [0.0, -0.0, 1.0, 2.0, math.nextafter(2, 3), -5e-324])
def test_edges_keep_their_lower_end_and_the_last_one_both(edges, rows):
    """A value's bin is the number of edges that it reaches; the uppermost edge closes its bin."""
    edges = [edge + 0.0 for edge in edges]
    found = numbers(Edges(tuple(edges)), [*rows, *edges])
    for value, bin_ in zip([*rows, *edges], found, strict=True):
        inside = [
            index + 1
            for index, (low, high) in enumerate(itertools.pairwise(edges))
            if low <= value < high or (value == high == edges[-1])
        ]
        expected = inside or [0 if value < edges[0] else len(edges)]
        assert [bin_] == expected


def test_nan_has_no_label():
    """NaN stays NaN in every binning, so that a bin table can leave it out."""
    for binning in (Octaves(), SignificantBits(8), Edges((0.0, 1.0))):
        assert np.isnan(binning.labels(np.array([math.nan]))).all()
