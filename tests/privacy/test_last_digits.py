"""The last digits of a group's answer depend on this group alone."""

import numpy as np
import pytest

from dfprivacy.measurement.bin_table import FINE
from dfprivacy.statistics.estimators.bounds_search import (
    POLICY,
    Found,
    Look,
    clipping_bias,
    read_ends,
    ruler_about,
    ruler_about_zero,
)
from dfprivacy.statistics.estimators.group_bounds import ReachReader, measure_distances


@pytest.mark.parametrize("clumped", [False, True])
def test_a_reach_is_the_same_beside_any_other_groups(clumped):
    """A hidden group does not change the reach of other groups, nor how their bias is rounded."""
    generator = np.random.default_rng(3)
    ruler = ruler_about_zero(FINE, 120, 130)
    heights = np.where(np.arange(len(ruler.starts) - 1) > ruler.middle, 40.0 / 3, 0.0)
    look, (first, last) = Look(ruler, heights[None], np.array([7.0])), np.array([[11], [20]])
    reach, zero = np.array([[0.0], [8.0]]), np.zeros(1, int)
    pooled = Found(look, first, last, np.array([200]), reach, zero)
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


@pytest.mark.parametrize("about", [None, 700_000, -90])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_bounds_are_the_same_beside_any_other_groups(about, steps):
    """Groups that are searched together have the bounds, the bias and the notes of each alone."""
    random, groups = np.random.default_rng(steps), 60
    ruler = ruler_about_zero(FINE, 118, 142, steps)
    if about is not None:
        ruler = ruler_about(FINE, about + np.arange(groups), steps)
    bins = ruler.starts.shape[-1] - 1
    tails = np.exp(-np.abs(np.arange(bins) - random.integers(0, bins, (groups, 1))) / steps)
    sizes = 10.0 ** random.uniform(0, 5, (groups, 1))
    look = Look(ruler, random.laplace(size=(groups, bins)) + sizes * tails, sizes[:, 0] ** 0.3)
    ends = read_ends(look, POLICY)
    some = np.flatnonzero(ends[0] >= 0)
    reach = np.stack([np.zeros(groups), np.full(groups, 8.0)])
    joint_bounds = Found(look, *ends, np.full(groups, 200), reach, np.arange(groups)).of(some)
    biases = [clipping_bias(joint_bounds, side) for side in (-1, 1)]
    assert len(some) > 30
    for index, row in enumerate(some):
        alone = joint_bounds.of(np.array([index]))
        assert np.array_equal(read_ends(alone.look, POLICY)[:, 0], ends[:, row])
        for side, bias in zip((-1, 1), biases, strict=True):
            for of_one, of_all in zip(clipping_bias(alone, side), bias, strict=True):
                assert of_one[0] == of_all[index]
