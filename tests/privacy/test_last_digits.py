"""The last digits of a group's answer depend on this group alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.statistics.estimators.bounds_search import POLICY, Found, Look, ruler_about_zero
from dfprivacy.statistics.estimators.group_bounds import ReachReader, measure_distances
from tests.laws.test_bounds_search import table_of


@pytest.mark.parametrize("clumped", [False, True])
def test_a_reach_is_the_same_beside_any_other_groups(clumped):
    """A hidden group does not change the reach of other groups, nor how their bias is rounded."""
    generator = np.random.default_rng(3)
    table = table_of([])
    ruler = ruler_about_zero(table.binning, 120, 130)
    heights = np.where(np.arange(len(ruler.starts) - 1) > ruler.middle, 40.0 / 3, 0.0)
    pooled = Found(Look(ruler, heights, 7.0), 11, 20, Fraction(1, 2), (0.0, 8.0), table)
    distances = measure_distances(pooled, POLICY)
    size = distances.pooled + 1
    reader = ReachReader(
        distances=distances,
        policy=POLICY,
        scale=10 / 3,
        laplace=True,
        answer_scale=5 / 3,
        clumps=np.full(size, 1 / 30),
        is_clumped=np.full(size, clumped),
        mean_size=100 / 3,
        pooled_bias=np.full(4, 1 / 3),
    )
    noisy = generator.exponential(4.0, (9, len(distances.lower)))
    for groups in range(1, 9):
        some, more = reader.read(noisy[:groups]), reader.read(noisy[: groups + 1])
        assert np.array_equal(some[0], more[0][:groups])
        assert np.array_equal(some[1], more[1][:, :groups])
        assert np.array_equal(some[2], more[2][:groups])
