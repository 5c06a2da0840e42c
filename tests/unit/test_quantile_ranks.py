"""Quantiles are selected by the losses of docs/quantiles.md, among all candidates of the grid.

The references go through every candidate in Python integers. Tests at a large epsilon have a
false-alarm rate below 1e-12 each: another answer has a probability of at most exp(-50).
"""

import hashlib
import itertools
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators import quantile, quantile_ranks
from dfprivacy.estimators.quantile import (
    quantile_fraction,
    select_quantile,
    select_quantiles,
    tree_layers,
)
from dfprivacy.estimators.quantile_ranks import Cells, cells_of, largest_loss, rank_runs
from dfprivacy.mechanisms.selection import PermuteAndFlip
from dfprivacy.statistics.bin_table import BinTable, bin_table
from dfprivacy.statistics.binning import SignificantBits

NO_CAP = 2**53 - 1
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
LEVELS = [Fraction(0), Fraction(1, 10), THIRD, HALF, Fraction(2, 3), Fraction(1)]
SURE = Epsilon(Fraction(1000))


@dataclass(frozen=True)
class Line:
    """The integers from -last to last, each its own label."""

    last: int

    def numbers(self, labels):
        return labels.astype(np.int64)


def table_of(groups, binning=Line(2)):
    """Make a table from one list of bin numbers a group."""
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    numbers = np.array([number for rows in groups for number in rows], np.int64)
    labels = numbers.astype(float) if isinstance(binning, Line) else binning.values(numbers)
    ones = np.ones(len(numbers), np.int64)
    return bin_table(pa.table({}), len(groups), binning, group, labels, rows=ones)


def expanded(runs):
    """Return the loss of each candidate, one dictionary a group; no candidate comes twice."""
    stops = [*runs.group_starts[1:].tolist(), len(runs.first)]
    found = []
    for low, high in zip(runs.group_starts.tolist(), stops, strict=True):
        losses = {}
        for run in range(low, high):
            first = int(runs.first[run])
            for candidate in range(first, first + int(runs.length[run])):
                assert candidate not in losses
                losses[candidate] = int(runs.loss[run])
        found.append(losses)
    return found


def relative_loss(rows, candidate, q):
    a, b = q.numerator, q.denominator
    below = sum(row < candidate for row in rows)
    upto = sum(row <= candidate for row in rows)
    return max(0, b * below - a * len(rows), a * len(rows) - b * upto)


def relative_runs(table, q, cap=NO_CAP):
    cells = cells_of(table)
    return rank_runs(cells, q.denominator, q.numerator * cells.totals(), cap)


def multisets(last, most):
    for size in range(most + 1):
        yield from itertools.combinations_with_replacement(range(-last, last + 1), size)


class Stream:
    """The same random bytes for every call number, whatever is asked."""

    def __init__(self):
        self.count = 0

    def __call__(self, size):
        self.count += 1
        return hashlib.shake_128(b"%d" % self.count).digest(size)


# Losses of one quantile


@pytest.mark.parametrize("q", LEVELS, ids=str)
@pytest.mark.parametrize("cap", [NO_CAP, 3, 1])
def test_losses_are_the_formula(q, cap):
    """Every candidate of the grid has its loss, for all small data sets at once."""
    groups = list(multisets(2, 4))
    for rows, losses in zip(groups, expanded(relative_runs(table_of(groups), q, cap)), strict=True):
        assert losses == {c: min(cap, relative_loss(rows, c, q)) for c in range(-2, 3)}


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_losses_on_significant_bits(q):
    """The same on a real grid with its gaps, whose ends hold rows too."""
    grid = SignificantBits(2)
    random = np.random.default_rng(5)
    groups = [random.integers(-grid.last, grid.last + 1, size).tolist() for size in (0, 1, 7, 40)]
    groups += [[-grid.last, -grid.last, grid.last], [0] * 9]
    found = expanded(relative_runs(table_of(groups, grid), q))
    for rows, losses in zip(groups, found, strict=True):
        everything = range(-grid.last, grid.last + 1)
        assert losses == {c: relative_loss(rows, c, q) for c in everything}


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_sensitivity_of_the_relative_loss(q):
    """One row moves each loss by at most max(a, b - a), and by as much somewhere."""
    groups = list(multisets(2, 4))
    for cap in (NO_CAP, 2):
        found = expanded(relative_runs(table_of(groups), q, cap))
        losses = dict(zip(groups, found, strict=True))
        moves = {
            abs(losses[rows][c] - losses[tuple(sorted((*rows, row)))][c])
            for rows in multisets(2, 3)
            for row in range(-2, 3)
            for c in range(-2, 3)
        }
        assert max(moves) == min(cap, max(q.numerator, q.denominator - q.numerator))


def test_groups_without_rows_have_one_loss():
    """All candidates of an empty group have loss 0."""
    runs = relative_runs(table_of([[], [1], []], SignificantBits(8)), HALF)
    last = SignificantBits(8).last
    for group in (0, 2):
        at = runs.group_starts[group]
        assert (runs.first[at], runs.length[at], runs.loss[at]) == (-last, 2 * last + 1, 0)
    assert runs.group_starts.tolist() == [0, 1, 4]


def test_groups_together_are_each_alone():
    """The runs of a group do not depend on the others."""
    groups = list(multisets(2, 3))
    together = expanded(relative_runs(table_of(groups), THIRD))
    alone = [expanded(relative_runs(table_of([rows]), THIRD))[0] for rows in groups]
    assert together == alone


def test_large_counts_do_not_overflow():
    """2**33 rows and a denominator of 10**6 leave losses exact, below 2**53 and without a wrap."""
    q = Fraction(499_999, 10**6)
    rows = np.array([2**30, 2**31, 2**32, 2**30], np.int64)
    bins = np.array([-500, -3, 8, 9], np.int64)
    group = np.zeros(4, np.int64)
    table = BinTable(pa.table({}), 1, SignificantBits(1), group, bins, rows)
    found = expanded(relative_runs(table, q))[0]
    total = int(rows.sum())
    for candidate, loss in found.items():
        below = int(rows[bins < candidate].sum())
        upto = int(rows[bins <= candidate].sum())
        a, b = q.numerator, q.denominator
        assert loss == min(NO_CAP, max(0, b * below - a * total, a * total - b * upto))


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1, 10)), Epsilon(Fraction(9)), Rho(HALF)])
def test_far_candidates_are_never_chosen(loss):
    """At the largest loss, candidates of a grid of 2**30 win with a probability below 1e-18."""
    law = loss.selection(2)
    assert law.rate * largest_loss(law) >= 64
    assert 2**30 * np.exp(-64.0) < 1e-18
    assert SignificantBits(22).last * 2 + 1 < 2**30
    assert largest_loss(PermuteAndFlip(Fraction(1, 2**60))) == NO_CAP


# Cells between answers


def cell_loss(rows, candidate, target, low, high, edge):
    """Twice the distance of target / 2 from the ranks, with infinitely many rows at the answers."""
    if low == high:
        return None
    below = 2 * sum(row < candidate for row in rows)
    upto = 2 * sum(row <= candidate for row in rows)
    if candidate == low != -edge:
        return max(0, target - upto)
    if candidate == high != edge:
        return max(0, below - target)
    return max(0, below - target, target - upto)


def cells_at(table, low, high):
    """Return the cells strictly between ends, one pair for all groups."""
    whole = cells_of(table)
    last, size = table.binning.last, table.groups
    columns = [np.full(size, end, np.int64) for end in (low, high)]
    cells = whole
    if low > -last - 1:
        cells = cells.split(columns[0], np.array([[-1], [0]]))
    return cells.split(columns[1], np.array([[0], [-1]])) if high <= last else cells


ENDS = list(itertools.combinations_with_replacement(range(-3, 4), 2))[1:-1]


@pytest.mark.parametrize(("low", "high"), ENDS)
@pytest.mark.parametrize("cap", [NO_CAP, 3])
def test_losses_between_answers(low, high, cap):
    """Candidates are the closed interval between the answers; one row moves a loss by at most 2."""
    groups = list(multisets(2, 4))
    everything = range(max(low, -2), min(high, 2) + 1)
    cells = cells_at(table_of(groups), low, high)
    for target in range(-3, 10):
        runs = rank_runs(cells, 2, np.full(len(groups), target), cap)
        found = dict(zip(groups, expanded(runs), strict=True))
        for rows, losses in found.items():
            inner = [row for row in rows if low < row < high]
            assert set(losses) == set(everything)
            for candidate, loss in losses.items():
                wanted = cell_loss(inner, candidate, target, low, high, 3)
                assert wanted is None or loss == min(cap, wanted)
        moves = [
            abs(found[rows][c] - found[tuple(sorted((*rows, row)))][c])
            for rows in multisets(2, 3)
            for row in range(-2, 3)
            for c in everything
        ]
        assert max(moves, default=0) <= 2


def test_targets_beyond_a_cell_fall_on_its_ends():
    """A target in the atom at the answer below, or above, makes that answer the only one at 0."""
    cells = cells_at(table_of([[-2, -2, -2, 0, 0, 2, 2]]), -2, 2)
    for target, best in ((-3, {-2}), (-1, {-2}), (1, {0}), (3, {0}), (5, {2}), (9, {2})):
        losses = expanded(rank_runs(cells, 2, np.array([target]), NO_CAP))[0]
        assert {candidate for candidate, loss in losses.items() if loss == 0} == best


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(st.lists(st.integers(-9, 9), max_size=12), min_size=1, max_size=5),
    data=st.data(),
)
def test_splits_keep_all_rows_but_those_at_the_answers(groups, data):
    """Splitting twice gives the rows strictly between neighbouring answers, in their order."""
    cells = cells_of(table_of(groups, Line(9)))
    ends = st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9)).map(sorted)
    chosen = [data.draw(ends) for _ in groups]
    left, middle, right = np.array(chosen, np.int64).T
    halves = cells.split(middle, np.array([[0], [1]]))
    quarters = halves.split(np.stack([left, right], 1).reshape(-1), np.array([[0, 2], [1, -1]]))
    for group, (rows, (a, b, c)) in enumerate(zip(groups, chosen, strict=True)):
        for place, (low, high) in enumerate([(-10, a), (a, b), (b, c)]):
            cell = 3 * group + place
            held = slice(int(quarters.first[cell]), int(quarters.stop[cell]))
            inner = [row for row in rows if low < row < high]
            assert quarters.held.bins[held].tolist() == sorted(set(inner))
            assert quarters.totals()[cell] == len(inner)
            assert (quarters.low[cell], quarters.high[cell]) == (low, high)
            assert quarters.group[cell] == group


def test_one_row_moves_one_count_by_one():
    """Counts beside the answer are one-hot in a row of the cell, and sum to its rows."""
    groups = list(multisets(2, 4))
    for low, high in [(-3, 3), (-2, 3), (-2, 2), (-1, 1)]:
        cells = cells_at(table_of(groups), low, high)
        for answer in range(max(low, -2), min(high, 2) + 1):
            counts = cells.counts(np.full(len(groups), answer)).T.tolist()
            found = dict(zip(groups, counts, strict=True))
            for rows in multisets(2, 3):
                inner = [row for row in rows if low < row < high]
                assert found[rows][0] == sum(row <= answer for row in inner)
                assert sum(found[rows]) == len(inner)
                for row in range(-2, 3):
                    other = found[tuple(sorted((*rows, row)))]
                    moves = [abs(x - y) for x, y in zip(found[rows], other, strict=True)]
                    assert sum(moves) == (low < row < high)


# Many quantiles


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
    answers = select_quantiles(table_of(groups, Line(9)), qs, Epsilon(Fraction(4000)))
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
    """A single level, however often asked, is `select_quantile`: same bytes, same answers."""
    table = table_of([[-2, 0, 1, 1], [], [2]] * 50)
    for loss in (Epsilon(HALF), Rho(HALF)):
        one = select_quantile(table, THIRD, loss, Stream())
        many = select_quantiles(table, [THIRD, THIRD], loss, Stream())
        assert many.tolist() == [one.tolist()] * 2


def test_levels_are_answered_in_the_order_asked():
    """Order and repetition of the levels change nothing: same bytes, same answers."""
    table = table_of([[-2, 0, 1, 1], [], [2]] * 50)
    ascending = select_quantiles(table, LEVELS, Epsilon(HALF), Stream())
    asked = [3, 0, 5, 3, 1, 4, 2, 0]
    mixed = select_quantiles(table, [LEVELS[i] for i in asked], Epsilon(HALF), Stream())
    assert mixed.tolist() == ascending[asked].tolist()


def test_no_levels_and_no_groups():
    """Nothing asked, or nothing there, is an empty answer."""
    assert select_quantiles(table_of([[1], [2]]), [], SURE).shape == (0, 2)
    assert select_quantiles(table_of([]), LEVELS, SURE).shape == (6, 0)
    assert select_quantile(table_of([]), HALF, SURE).shape == (0,)


def test_chunks_change_no_law(monkeypatch):
    """Selections cut into chunks of groups answer for all of them, in their order."""
    groups = [[group % 5 - 2] * (1 + group % 3) for group in range(200)]
    for chunk in (1, 5, 64):
        monkeypatch.setattr(quantile_ranks, "CHUNK", chunk)
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


def test_quantile_fraction():
    """Levels are the decimals that the caller wrote, with denominators of at most 10**6."""
    for given_, wanted in [
        (0.5, HALF),
        (0, Fraction(0)),
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (1 / 3, THIRD),
        (np.float32(0.25), Fraction(1, 4)),
        (Decimal("0.999999"), Fraction(999_999, 10**6)),
        (Fraction(1, 10**7), Fraction(0)),
    ]:
        assert quantile_fraction(given_) == wanted


@pytest.mark.parametrize(
    "level", [-0.1, 1.1, Fraction(10**7 + 1, 10**7), float("nan"), float("inf"), True, "0.5", None]
)
def test_other_levels_are_refused(level):
    """Anything but a real number from 0 to 1 is an InvalidQuestionError with a hint."""
    with pytest.raises(InvalidQuestionError) as caught:
        quantile_fraction(level)
    assert caught.value.hint
    with pytest.raises(InvalidQuestionError):
        select_quantiles(table_of([[1]]), [HALF, level], SURE)


def test_secrets_do_not_show():
    """Nothing that was counted is in a repr."""
    cells = cells_of(table_of([[1, 1, 2]]))
    assert (repr(cells), repr(cells.held)) == ("Cells(secret)", "RankedRows(secret)")
    assert isinstance(cells, Cells)
