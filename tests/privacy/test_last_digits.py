"""The last digits of a group's answer depend on this group alone."""

from __future__ import annotations

import numpy as np

from dfprivacy.statistics.estimators.octave_bounds import Tail


def test_a_tail_is_the_same_beside_any_other_groups():
    """A hidden group does not change how the tails of other groups are rounded."""
    generator = np.random.default_rng(3)
    heights = generator.exponential(4.0, (9, 12))
    distances = 2.0 ** np.arange(40) / 3
    for size in range(1, 9):
        some, more = (
            Tail(
                heights[:groups],
                0,
                np.ones(12),
                distances,
                3.0,
                nearer=(heights[:groups], distances[:12]),
            )
            for groups in (size, size + 1)
        )
        for few, many in zip(some.moved(0.95), more.moved(0.95), strict=True):
            assert np.array_equal(few, many[:size])
