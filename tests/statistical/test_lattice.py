"""Released numbers lie on the grid of their integers, and every point of it is reached."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dfp
from dfprivacy.accounting.loss import loss_of
from dfprivacy.statistics.linear import vectors_of

COPIES = 200_000
BOUNDS = (-5, 3)
ASKS = {
    "count": (lambda g, **t: g.agg(total=dfp.count(), **t), 1.0),
    "sum": (lambda g, **t: g.agg(total=dfp.sum("x", BOUNDS), **t), 2.0**-27),
    "sum of one sign": (lambda g, **t: g.agg(total=dfp.sum("x", (100, 101)), **t), 2.0**-23),
}


def trailing_zeros(integers):
    """How many times 2 divides each integer, at most 20."""
    return np.array(
        [20 if v == 0 else min((v & -v).bit_length() - 1, 20) for v in integers.tolist()]
    )


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("loss", [{"epsilon": 0.002}, {"rho": 1e-4}], ids=["laplace", "gaussian"])
def test_releases_are_integers_without_holes(ask, loss, bulk):
    """Releases are integers without holes.

    On both of two neighbours every release is a whole number of grid steps, every residue
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
        whole = integers.astype(np.int64)
        assert len(np.unique(whole)) > 100
        seen = np.bincount(whole % 64, minlength=64)
        expected = COPIES / 64
        assert np.abs(seen - expected).max() < 6.11 * math.sqrt(expected) + 1
        zeros.append(trailing_zeros(whole))
    assert stats.ks_2samp(*zeros).statistic <= 2 * 3.33 / math.sqrt(COPIES)


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_counts_follow_the_discrete_laplace_law(epsilon, bulk):
    """Counts follow the discrete laplace law.

    Counts of a hundred rows have the law (1 - a)/(1 + a) a**|x - 100| with a = exp(-epsilon):
    DKW at 3.28/sqrt(n), mean absolute noise within 6.2/sqrt(n), P(0) within z = 6.11; 1e-9 each.
    """
    counts = bulk([1.0] * 5, COPIES, ASKS["count"][0], epsilon=epsilon)["total"].to_numpy() - 5
    a = math.exp(-epsilon)
    points = np.arange(-60, 61)
    law = np.where(
        points < 0,
        a ** (-points.clip(max=0)) / (1 + a),
        1 - a ** (points.clip(min=0) + 1) / (1 + a),
    )
    empirical = np.searchsorted(np.sort(counts), points, side="right") / COPIES
    assert np.abs(empirical - law).max() <= 3.28 / math.sqrt(COPIES)
    spread = 2 * a / (1 - a * a)
    variance = 2 * a / (1 - a) ** 2 - spread**2
    assert abs(np.abs(counts).mean() - spread) < 6.11 * math.sqrt(variance / COPIES)
    zero = (1 - a) / (1 + a)
    assert abs((counts == 0).mean() - zero) < 6.11 * math.sqrt(zero * (1 - zero) / COPIES)


QUESTIONS = {
    "mean": (dfp.mean("x", BOUNDS), 2**30),
    "shifted mean": (dfp.mean("x", BOUNDS, method="shifted"), 2 * 2**30),
    "independent mean": (dfp.mean("x", BOUNDS, method="independent"), 2 * 5 * 2**27),
    "variance": (dfp.var("x", BOUNDS), 2**30),
    "sum": (dfp.sum("x", BOUNDS), 5 * 2**27),
}


@pytest.mark.parametrize("ask", QUESTIONS)
def test_vectors_have_the_scale_of_their_sensitivity(ask, vectors):
    """Vectors have the scale of their sensitivity.

    Every coordinate has discrete Laplace noise of scale L1/epsilon (mean absolute value within
    6.2/sqrt(n)), or the Gaussian of variance L2**2/(2 rho) (within 6.2 sqrt(2/n)), where a row
    moves the vector by L1; coordinates are uncorrelated; 1e-9 a comparison.
    """
    question, l1 = QUESTIONS[ask]
    _, vector, exact = vectors([3.0, math.nan, -9.0], COPIES, question, epsilon=0.5)
    noise = (vector.coordinates - exact).astype(float)
    assert np.abs(noise).mean(axis=1) == pytest.approx(l1 / 0.5, rel=6.2 / math.sqrt(COPIES))
    correlations = np.corrcoef(noise)
    if len(noise) > 1:
        others = correlations[~np.eye(len(noise), dtype=bool)]
        assert np.abs(others).max() < 7 / math.sqrt(COPIES)
    _, vector, exact = vectors([3.0], COPIES, question, rho=0.125)
    noise = (vector.coordinates - exact).astype(float)
    l2_squared = l1**2 / (2 if ask.endswith(("shifted mean", "independent mean")) else 1)
    expected = l2_squared / (2 * 0.125)
    assert noise.var(axis=1) == pytest.approx(expected, rel=6.2 * math.sqrt(2 / COPIES))


def test_bulk_and_single_releases_have_one_law(bulk):
    """Bulk and single releases have one law.

    A grouped call over many groups and many calls without groups draw from one law: two-sample
    DKW with 5,000 single calls; false alarms below 1e-8.
    """
    grouped = bulk([1.0] * 3, COPIES, ASKS["count"][0], epsilon=0.2)["total"].to_numpy()
    private = pl.DataFrame({"x": [1.0] * 3}).dp(epsilon=0.2)
    single = [float(private.count()) for _ in range(5000)]
    gap = stats.ks_2samp(grouped, single).statistic
    assert gap <= 3.33 / math.sqrt(COPIES) + 3.33 / math.sqrt(5000)


def test_the_scale_is_the_exact_fraction():
    """Scales are exact fractions of sensitivity and epsilon as it was written."""
    plan = vectors_of({"m": dfp.mean("x", (0, 1)), "n": dfp.count()}, grouped=False)
    scales = [noise.scale for noise in plan.noises(loss_of(epsilon=0.1))]
    assert scales == [Fraction(2**30 * 20), Fraction(20)]
