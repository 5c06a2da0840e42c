"""Histograms count each value where it is, in edges that are given or found."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

import dfprivacy as dfp
from tests.privacy.unbounded_questions import KINDS, frame


@pytest.mark.parametrize("kind", KINDS)
def test_a_histogram_counts_each_value_where_it_is(kind):
    """A histogram counts each value where it is.

    A bin has its lower edge, the last has both; what is beyond the edges, NULL and NaN are in
    none, and infinities neither.
    """
    values = [0.0, -0.0, 4.0, 7.99, 8.0, 16.0, 16.1, -1e-300, math.inf, -math.inf, math.nan, None]
    private = dfp.frame(KINDS[kind](frame(values)))
    histogram = pl.DataFrame(private.histogram("x", bins=[0, 4, 8, 16], epsilon=1e12))
    assert histogram.columns == ["lower", "upper", "count", "low", "high"]
    assert histogram.select("lower", "upper", "count").rows() == [(0, 4, 2), (4, 8, 2), (8, 16, 2)]
    assert (histogram["low"] == histogram["count"]).all()


def test_a_histogram_finds_its_edges():
    """Found edges are equal bins between octave edges, and hold what lies between them."""
    values = np.random.default_rng(5).uniform(33, 120, 5000)
    histogram = frame(values.tolist()).dp.histogram("x", bins=12, epsilon=1e9)
    assert histogram["lower"].to_list() == np.linspace(32, 128, 13)[:-1].tolist()
    assert histogram["upper"].to_list() == np.linspace(32, 128, 13)[1:].tolist()
    assert histogram["count"].sum() == 5000


def test_a_histogram_of_nobody_has_edges_too():
    """Without rows the edges are public ones, and the schema is that of any other histogram."""
    empty, many = (frame(rows).dp.histogram("x", bins=4, epsilon=0.1) for rows in ([], [5.0] * 999))
    assert empty.schema == many.schema
    assert len(empty) == len(many) == 4


@pytest.mark.parametrize("bins", [1, 8])
def test_a_histogram_shows_a_group_by_one_of_its_bins(bins):
    """A group of one row is shown with at most delta, by any of its bins, and not far too rarely.

    The number of shown groups of 20,000 is within Clopper and Pearson's limits (alarm: 1e-7).
    """
    delta, groups = 0.02, 20_000
    named = [*range(groups), *([groups] * 60)]
    rows = pl.DataFrame({"g": named, "x": [0.5] * len(named)})
    edges = [float(k) for k in range(bins + 1)]
    histogram = rows.dp.group_by("g").histogram("x", bins=edges, epsilon=1, delta=delta)
    shown = set(histogram["g"])
    assert groups in shown
    assert len(histogram) == bins * len(shown)
    limits = binomtest(len(shown) - 1, groups).proportion_ci(1 - 1e-7, "exact")
    assert limits.low <= delta
    assert limits.high >= delta / bins / 4


def test_a_histogram_by_group_has_the_same_bins_for_all():
    """By group every group has all bins, public groups as listed; absent ones are counted too."""
    private = frame([[1.0] * 9, [], [3.0] * 4], list("abc")).dp
    histogram = private.group_by("g", keys=["c", "b", "a"]).histogram(
        "x", bins=[0, 2, 4], epsilon=1e12
    )
    assert histogram["g"].to_list() == ["c", "c", "b", "b", "a", "a"]
    assert histogram["count"].to_list() == [0, 4, 0, 0, 9, 0]
