"""Many quantiles share one loss, never cross, and are those of the data at a large epsilon.

Tests at a large epsilon have a false-alarm rate below 1e-12 each: another answer has a
probability of at most exp(-50).
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators import quantile
from dfprivacy.estimators.quantile import (
    select_quantiles,
    tree_layers,
)
from dfprivacy.measurement.binning import SignificantBits
from tests.laws.rank_tables import HALF, LEVELS, SURE, THIRD, Line, relative_loss, table_of
from tests.numbered_bytes import NumberedBytes


def fitting(rows, q):
    """Return the candidates with loss 0: their ranks hold the target."""
    return {c for c in range(-9, 10) if relative_loss(rows, c, q) == 0}


@pytest.mark.parametrize("levels", range(1, 70))
def test_trees_hold_every_level_once(levels):
    """The tree has floor(log2 m) + 1 layers, whose middles are all levels."""
    layers = tree_layers(levels)
    middles = [sum(node) // 2 for layer in layers for node in layer]
    assert sorted(middles) == list(range(levels))
    assert all(layers)
    assert len(layers) == int(np.log2(levels)) + 1


@settings(max_examples=150, deadline=None)
@given(
    groups=st.lists(st.lists(st.integers(-9, 9), max_size=30), min_size=1, max_size=4),
    qs=st.lists(st.fractions(0, 1, max_denominator=20), min_size=1, max_size=9),
)
def test_at_a_large_epsilon_answers_are_the_quantiles(groups, qs):
    """Answers fit the data exactly, ties and empty groups included, and never fall."""
    answers = select_quantiles(table_of(groups, Line(9)), qs, Epsilon(Fraction(40_000)))
    assert answers.shape == (len(qs), len(groups))
    assert answers.dtype == np.int64
    for rows, found in zip(groups, answers.T.tolist(), strict=True):
        for q, answer in zip(qs, found, strict=True):
            assert answer in fitting(rows, q)
        ascending = [answer for _, answer in sorted(zip(qs, found, strict=True))]
        assert ascending == sorted(ascending)


@pytest.mark.parametrize("loss", [SURE, Rho(Fraction(10**4))])
def test_heavy_atoms(loss):
    """Where most rows are one value, the quantiles inside it are that value."""
    grid = SignificantBits(10)
    rows = [-700] * 5 + [0] * 900 + list(range(1000, 1095))
    qs = [Fraction(i, 20) for i in range(1, 20)]
    answers = select_quantiles(table_of([rows, rows], grid), qs, loss)
    for q, pair in zip(qs, answers.tolist(), strict=True):
        assert q > Fraction(905, 1000) or pair == [0, 0]
        assert q <= Fraction(905, 1000) or all(
            abs(value - (999 + 1000 * q - 905)) <= 2 for value in pair
        )


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(30)])
def test_answers_never_cross(epsilon):
    """Answers rise with the level at any loss, however wrong the counts are."""
    groups = [np.random.default_rng(7).integers(-50, 50, 40).tolist(), [], [3] * 30] * 60
    qs = [Fraction(i, 12) for i in range(13)]
    answers = select_quantiles(table_of(groups, SignificantBits(4)), qs, Epsilon(epsilon))
    assert (np.diff(answers, axis=0) >= 0).all()
    assert np.abs(answers).max() <= SignificantBits(4).last


def test_losses_of_any_size():
    """The least and the largest losses give answers: counts too large for int64 are clipped."""
    table = table_of([[1, 2], []])
    for loss in (Epsilon(Fraction(1, 2**60)), Epsilon(Fraction(2**60)), Rho(Fraction(1, 2**60))):
        assert select_quantiles(table, LEVELS, loss).shape == (6, 2)


def test_one_level_is_one_selection():
    """A single level, however often asked, is one selection: same bytes, same answers."""
    table = table_of([[-2, 0, 1, 1], [], [2]] * 50)
    for loss in (Epsilon(HALF), Rho(HALF)):
        (one,) = select_quantiles(table, [THIRD], loss, NumberedBytes())
        many = select_quantiles(table, [THIRD, THIRD], loss, NumberedBytes())
        assert many.tolist() == [one.tolist()] * 2


def test_levels_are_answered_in_the_order_asked():
    """Order and repetition of the levels change nothing: same bytes, same answers."""
    table = table_of([[-2, 0, 1, 1], [], [2]] * 50)
    ascending = select_quantiles(table, LEVELS, Epsilon(HALF), NumberedBytes())
    asked = [3, 0, 5, 3, 1, 4, 2, 0]
    mixed = select_quantiles(table, [LEVELS[i] for i in asked], Epsilon(HALF), NumberedBytes())
    assert mixed.tolist() == ascending[asked].tolist()


def test_chunks_change_no_law(monkeypatch):
    """Selections cut into chunks of groups answer for all of them, in their order."""
    groups = [[group % 5 - 2] * (1 + group % 3) for group in range(200)]
    for chunk in (1, 5, 64):
        monkeypatch.setattr(quantile, "CHUNK", chunk)
        answers = select_quantiles(table_of(groups), [THIRD, HALF], SURE)
        assert answers.tolist() == [[rows[0] for rows in groups]] * 2


@pytest.mark.parametrize("levels", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("loss", [Epsilon(Fraction(3, 7)), Rho(Fraction(3, 7))], ids=str)
def test_layers_pay_the_loss_in_full(levels, loss, monkeypatch):
    """One selection and one set of counts a layer, none in the last: they add up to the loss."""
    kind = type(loss)
    paid, select, count = [], kind.selection, quantile._noisy_counts
    seen = lambda loss, sensitivity: (paid.append(loss.value), select(loss, sensitivity))[1]  # noqa: E731
    counted = lambda *given: (paid.append(given[2].value), count(*given))[1]  # noqa: E731
    monkeypatch.setattr(kind, "selection", seen)
    monkeypatch.setattr(quantile, "_noisy_counts", counted)
    qs = [Fraction(i, levels + 1) for i in range(1, levels + 1)]
    select_quantiles(table_of([[1], []]), qs, loss)
    assert sum(paid) == loss.value
    assert len(paid) == 2 * levels.bit_length() - 1


# Arguments
