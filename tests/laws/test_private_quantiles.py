"""Noisy search and grid selection over bins of many coordinates."""

from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.private_quantiles import (
    CHOOSERS,
    MEDIAN,
    RELATIONS,
    FractionBelow,
    PublicTotal,
    RowsAbove,
)
from dfprivacy.noise.entropy import system_entropy

NEARLY_EXACT = Fraction(2**50)


def table_of(values, bins=16):
    """Count each row of values into bins 0, ..., bins - 1, with outer slots."""
    counts = np.zeros((len(values), bins + 2), np.int64)
    for own, row in zip(counts, values, strict=True):
        np.add.at(own, np.clip(row, -1, bins) + 1, 1)
    return counts


@pytest.fixture(params=CHOOSERS)
def chooser(request):
    return CHOOSERS[request.param]


@pytest.fixture(params=RELATIONS)
def relation(request):
    return RELATIONS[request.param]


def chosen(chooser, counts, rows, target, relation, rho=NEARLY_EXACT):
    return chooser.bins(
        counts, rows, target=target, relation=relation, rho=rho, entropy=system_entropy
    )


def test_medians_without_noise(chooser, relation):
    """At a huge rho each coordinate gets a bin that at least half of its rows reach and exceed."""
    values = np.random.default_rng(0).integers(0, 16, (7, 31))
    bins = chosen(chooser, table_of(values), 31, MEDIAN, relation)
    assert bins.tolist() == np.median(values, axis=1).tolist()


@pytest.mark.parametrize("q", [(1, 10), (1, 4), (9, 10)])
def test_other_quantiles_without_noise(chooser, relation, q):
    """The chosen bin has rank q, wherever the rows lie."""
    values = np.random.default_rng(1).integers(-3, 20, (5, 101))
    bins = chosen(chooser, table_of(values), 101, FractionBelow(*q), relation)
    for row, own in zip(values, bins.tolist(), strict=True):
        least = own == 0 or (row < own).sum() <= 101 * q[0] / q[1]
        most = own == 15 or (row <= own).sum() >= 101 * q[0] / q[1]
        assert least
        assert most


@pytest.mark.parametrize(
    ("target", "add_remove", "replace"),
    [(MEDIAN, 1, 2), (FractionBelow(1, 10), 9, 10), (RowsAbove(9), 1, 1), (PublicTotal(9), 1, 1)],
)
def test_scores_move_by_their_sensitivity(target, add_remove, replace):
    """A row more, or another one, moves a score by at most what is claimed, and by that much."""
    upto, rows = np.arange(20), 19
    added = [
        target.score(upto + own, rows + (0 if isinstance(target, PublicTotal) else 1))
        - target.score(upto, rows)
        for own in (0, 1)
    ]
    replaced = [target.score(upto + own, rows) - target.score(upto, rows) for own in (-1, 0, 1)]
    assert np.abs(added).max() == add_remove == target.sensitivity(RELATIONS["add-remove"])
    assert np.abs(replaced).max() == replace == target.sensitivity(RELATIONS["replace"])
