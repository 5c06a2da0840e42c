"""Audits of thresholds and of the bounds made of them: exact laws, by quadrature.

No choice may have probabilities further apart than its share of the loss. Nothing is drawn.
"""

import math
from fractions import Fraction

import pytest

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.estimators.threshold import select_thresholds, window_threshold
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.statistics import mean_by_rank
from dfprivacy.statistics.mean_by_rank import dick_bounds, subset_bounds
from tests.statistical.audited_choices import (
    EPSILON,
    LARGE,
    LOSSES,
    SMALL,
    audit,
    columns,
    epsilons_of,
    one_group,
)


def test_the_audit_has_power(watched):
    """A mechanism of twice the rate is seen."""
    table, double = one_group, Epsilon(2 * EPSILON.value)

    def call(rows):
        select_thresholds(table(rows, 3), 2, double)

    with pytest.raises(AssertionError):
        audit(watched, call, epsilons_of(EPSILON, 1), 0)
    assert audit(watched, call, epsilons_of(double, 1), 0)[0] > float(EPSILON.value)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize("rank", [1, 4, 25])
def test_thresholds(watched, loss, side, rank):
    """Choices of bins of a value-count table keep epsilon, or the epsilon that rho buys."""

    def call(rows):
        select_thresholds(one_group(rows, 3), rank, loss, side)

    (largest,) = audit(watched, call, epsilons_of(loss, 1), 0)
    assert largest > float(epsilons_of(loss, 1)[0]) / 4


@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize(
    ("rank", "lower", "upper", "alpha"), [(1, -3, 3, 3), (2, -3, 3, 0.01), (9, -(2.0**1000), 1, 1)]
)
def test_window_thresholds(watched, rank, lower, upper, alpha, side):
    """Choices on a uniform grid keep epsilon, whatever the window."""
    terms = {"lower": lower, "upper": upper, "alpha": alpha, "side": side}

    def call(rows):
        window_threshold(*columns(rows), rank, **terms, epsilon=EPSILON.value)

    (largest,) = audit(watched, call, [EPSILON.value], 0)
    assert largest > float(EPSILON.value) / 4


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_subset_bounds(watched, loss):
    """Two thresholds of half of the loss each; ranks are public."""

    def call(rows):
        subset_bounds(one_group(rows, 4), loss)

    audit(watched, call, epsilons_of(loss, "1/2", "1/2"), 0, 0)


@pytest.mark.parametrize("count", [10**4, 10**7])
def test_dick_bounds(watched, monkeypatch, count):
    """Given the noisy count, two thresholds of 3/10 of epsilon each, whatever the data."""
    monkeypatch.setattr(mean_by_rank, "least_rows", lambda *_: count)
    step = EPSILON.value * Fraction(3, 10)

    def call(rows):
        bounds = dick_bounds(*columns(rows), epsilon=EPSILON.value, radius=8, gamma=0.1)
        assert bounds.left.value == step
        assert bounds.spent.value == EPSILON.value - step

    audit(watched, call, [step, step], -5, 11)


def test_the_count_of_dick_bounds(monkeypatch):
    """The rows reach the constants through one noisy count alone, of a tenth of epsilon."""
    for rows in (*SMALL, *LARGE):
        seen = []

        def add_to(exact, noise, entropy, seen=seen):
            seen.append((exact.tolist(), noise))
            return exact * 0

        monkeypatch.setattr(mean_by_rank, "add_to", add_to)
        bounds = dick_bounds(*columns((*rows, math.nan)), epsilon=2, radius=8, gamma=0.1)
        assert seen == [([len(rows)], DiscreteLaplace(Fraction(5)))]
        assert bounds == mean_by_rank.DickBounds(
            -8.0, 8.0, Epsilon(Fraction(1, 5)), Epsilon(Fraction(9, 5))
        )
