"""Private standard deviations of coordinates, and what follows from them."""

from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.deviations import (
    MOST_BUCKETS,
    Spread,
    gaussian_deviations,
    generic_deviations,
)
from dfprivacy.estimators.plan_mean import clipping_universe
from dfprivacy.estimators.private_quantiles import CHOOSERS, Mechanics
from dfprivacy.estimators.relations import RELATIONS, NoisyRows
from dfprivacy.estimators.shifted_mean import gaussian_radius
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.vector_grid import vector_grid
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.laws import DiscreteGaussian

N = 20_000
SIGMA = np.array([0.05, 1.0, 7.0])
GRID = vector_grid(3, 100.0)


def deviations(estimate, relation, x, rho=Fraction(10**6)):
    """Run an estimator over a matrix, in units of its columns."""
    noise = DiscreteGaussian(Fraction(1)) if relation == "add-remove" else None
    centre = np.full(3, 5.0 / GRID.step)
    passes = estimate(
        Spread(GRID, centre, NoisyRows(len(x), noise)),
        rho,
        Mechanics(RELATIONS[relation], CHOOSERS["search"], system_entropy),
    )
    table, whole = next(passes), GRID.integers(x, np.empty(x.shape))
    for first in range(0, len(x), 999):
        table.add(whole[first : first + 999], Buffers())
    with pytest.raises(StopIteration) as done:
        next(passes)
    return done.value.value * GRID.step


@pytest.mark.parametrize("relation", RELATIONS)
def test_gaussian_deviations(relation):
    """With next to no noise, normal data gives its deviations: 12 sigma of sampling, and a bin."""
    x = 5 + SIGMA * np.random.default_rng().normal(size=(N, 3))
    found = deviations(gaussian_deviations, relation, x)
    np.testing.assert_allclose(found, SIGMA, rtol=0.2)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", ["normal", "laplace", "uniform"])
def test_generic_deviations(relation, law):
    """Any law with four moments gives its deviations up to a factor between 1/2 and 1.2."""
    draws = np.random.default_rng()
    unit = {
        "normal": draws.normal(size=(N, 3)),
        "laplace": draws.laplace(size=(N, 3)) / 2**0.5,
        "uniform": draws.uniform(-(3**0.5), 3**0.5, size=(N, 3)),
    }[law]
    ratio = deviations(generic_deviations, relation, 5 + SIGMA * unit) / SIGMA
    assert ((ratio > 0.5) & (ratio < 1.2)).all()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("estimate", [gaussian_deviations, generic_deviations])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_few_rows_give_some_number(relation, estimate, rows):
    """Whatever the rows, deviations are finite and not negative."""
    found = deviations(estimate, relation, np.full((rows, 3), 7.0), Fraction(1, 100))
    assert np.isfinite(found).all()
    assert (found >= 0).all()


def test_buckets_are_bounded():
    """The number of buckets has a public limit, however many rows there are."""
    how = Mechanics(RELATIONS["add-remove"], CHOOSERS["search"], system_entropy)
    rows = NoisyRows(10**9, DiscreteGaussian(Fraction(1)))
    table = next(generic_deviations(Spread(GRID, np.zeros(3), rows), Fraction(1), how))
    assert table.sums.shape == (MOST_BUCKETS, 3)
    wide = vector_grid(10**5, 1.0)
    table = next(generic_deviations(Spread(wide, np.zeros(10**5), rows), Fraction(1), how))
    assert table.sums.size <= 2**24


def test_the_universe_holds_nearly_all_norms():
    """Scaled norms of normal data lie within the clipping universe, for every p."""
    sigma = np.linspace(1, 9, 50)
    x = sigma * np.random.default_rng().normal(size=(2000, 50))
    for p in (1.0, 2.0, 7.0):
        norms = np.linalg.norm(x * sigma ** (-2 / (p + 2)), axis=1)
        assert norms.max() < clipping_universe(sigma, p)


def test_gaussian_radius_holds_the_rows():
    """All rows lie within the radius, which is little more than they need."""
    x = 3 + np.random.default_rng().normal(size=(5000, 64))
    norms = np.linalg.norm(x, axis=1)
    radius = gaussian_radius(3 * 64**0.5, 1.0, 64, 5000)
    assert norms.max() < radius < 2 * norms.max()
