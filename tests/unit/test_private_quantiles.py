"""Noisy search and grid selection over bins of many coordinates."""

from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.estimators.private_quantiles import (
    CHOOSERS,
    MEDIAN,
    FractionBelow,
    PublicTotal,
    RowsAbove,
    rows_for_medians,
)
from dfprivacy.estimators.relations import RELATIONS
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


def test_rows_above(chooser, relation):
    """At a huge rho at most `rank` rows exceed the bin, and as many reach it."""
    values = np.array([np.repeat(np.arange(16), 3)])
    bins = chosen(chooser, table_of(values), 48, RowsAbove(6), relation)
    assert bins.tolist() in ([13], [14])


def test_no_rows_are_no_error(chooser, relation):
    """Without rows, and with ranks beyond n, a bin comes out all the same."""
    empty = np.zeros((3, 18), np.int64)
    for target in (MEDIAN, RowsAbove(1000), PublicTotal(0)):
        bins = chosen(chooser, empty, 0, target, relation, Fraction(1))
        assert ((bins >= 0) & (bins < 16)).all()


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


def test_rows_for_medians():
    """Five standard deviations of the rank noise are half of the rows that medians need."""
    least = rows_for_medians(128, 16, Fraction(1, 8), RELATIONS["add-remove"])
    deviation = np.sqrt(128 * 16 / (2 * 0.125)) / 2
    assert least == np.ceil(10 * deviation)
    assert rows_for_medians(128, 16, Fraction(1, 8), RELATIONS["replace"]) == np.ceil(
        20 * deviation
    )
