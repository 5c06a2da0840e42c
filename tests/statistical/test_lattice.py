"""Released numbers lie on the grid of their integers, and every point of it is reached."""

import math

import numpy as np
import pytest
from scipy import stats

import dfprivacy as dfp

pytestmark = pytest.mark.slow

COPIES = 40_000
ASKS = {
    "count": (lambda g, **t: g.agg(total=dfp.count(), **t), 1.0),
    "sum of one sign": (lambda g, **t: g.agg(total=dfp.sum("x", (100, 101)), **t), 2.0**-23),
}


def trailing_zeros(integers):
    """How many times 2 divides each integer, at most 20."""
    return np.array(
        [20 if v == 0 else min((v & -v).bit_length() - 1, 20) for v in integers.tolist()]
    )


@pytest.mark.parametrize(
    ("ask", "loss"),
    [
        ("count", {"rho": 1e-4}),
        ("sum of one sign", {"epsilon": 0.002}),
        ("sum of one sign", {"rho": 1e-4}),
        ("count", {"epsilon": 0.002}),
    ],
)
def test_releases_are_integers_without_holes(ask, loss, bulk):
    """Releases are integers without holes.

    On both of two neighbors every release is a whole number of grid steps, every residue
    modulo 64 is as frequent as the others (z < 6.11), and the powers of two in them have one law
    (two-sample DKW); 128 + 2 comparisons of at most 1e-9 each. Laplace noise of scale 500 gives
    each residue its 1/64 to within 0.14 %; scale 100, within 3.4 %, would be told from even.
    """
    make, step = ASKS[ask]
    zeros = []
    for rows in ([], [3.0]):
        released = bulk(rows, COPIES, make, **loss)["total"].to_numpy().astype(float)
        integers = released / step
        assert np.array_equal(integers, np.rint(integers))
        multiples = integers.astype(np.int64)
        assert len(np.unique(multiples)) > 100
        seen = np.bincount(multiples % 64, minlength=64)
        expected = COPIES / 64
        assert np.abs(seen - expected).max() < 6.11 * math.sqrt(expected) + 1
        zeros.append(trailing_zeros(multiples))
    assert stats.ks_2samp(*zeros).statistic <= 2 * 3.33 / math.sqrt(COPIES)
