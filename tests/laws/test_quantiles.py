"""Quantiles are selected by the losses of quantiles.md, never cross, and are shown by a rule.

The references go through every candidate in Python integers. Tests at a large epsilon have a
false-alarm rate below 1e-12 each: another answer has a probability of at most exp(-50). Intervals
hold the quantile of the rows, whatever the rows are and the ends miss: each data set is measured
once and stands for many groups, each released by itself; these tests fail by chance with a
probability below 1e-6.
"""

import datetime as dt
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, bin_table, regrid, steps_within
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.selection import PermuteAndFlip
from dfprivacy.statistics.estimators import quantile
from dfprivacy.statistics.estimators.quantile import (
    OUTSIDE,
    QuantileEstimator,
    RankEnds,
    RankLaw,
    find_magnitudes,
    largest_loss,
    rank_rows,
    rank_runs,
    rows_between,
    select_quantiles,
)
from dfprivacy.statistics.quantile import QuantilePart
from dfprivacy.statistics.split import split
from tests.numbered_bytes import draw_numbered

pytestmark = pytest.mark.usefixtures("permitted")
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
LEVELS = [Fraction(0), Fraction(1, 10), THIRD, HALF, Fraction(2, 3), Fraction(1)]
SURE = Epsilon(Fraction(1000))


@dataclass(frozen=True)
class Line:
    """The integers from -last to last, each its own label."""

    last: int

    def numbers(self, labels):
        return labels.astype(np.int64)


def build_table(groups, binning=Line(2)):
    """Make a table from one list of bin numbers a group."""
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    numbers = np.array([number for rows in groups for number in rows], np.int64)
    labels = numbers.astype(float) if isinstance(binning, Line) else binning.values(numbers)
    ones = np.ones(len(numbers), np.int64)
    return bin_table(pa.table({}), len(groups), binning, group, labels, rows=ones)


def expand_losses(runs):
    """Return the loss of each candidate, one dictionary a group; no candidate comes twice."""
    stops = [*runs.group_starts[1:].tolist(), len(runs.first)]
    group_losses = []
    for low, high in zip(runs.group_starts.tolist(), stops, strict=True):
        losses = {}
        for run in range(low, high):
            first = int(runs.first[run])
            for candidate in range(first, first + int(runs.length[run])):
                assert candidate not in losses
                losses[candidate] = int(runs.loss[run])
        group_losses.append(losses)
    return group_losses


def rank_loss(rows, candidate, target):
    """Return how far a target is from twice the ranks of a candidate."""
    below = sum(row < candidate for row in rows)
    upto = sum(row <= candidate for row in rows)
    return max(0, 2 * below - target, target - 2 * upto)


def rank_error(rows, candidate, q):
    """Return how far q of the rows is from the ranks of a candidate."""
    below = sum(row < candidate for row in rows)
    upto = sum(row <= candidate for row in rows)
    return max(0, below - q * len(rows), q * len(rows) - upto)


def find_law(loss, levels=1, candidates=5):
    """Return a law whose count is as noisy as a third of a level's loss makes it."""
    return RankLaw(loss, loss.share(THIRD).noise(1, 1), candidates, levels)


def multisets(last, max_size):
    for size in range(max_size + 1):
        yield from itertools.combinations_with_replacement(range(-last, last + 1), size)


NO_CAP = 2**53 - 1


def list_losses(table, target, cap=NO_CAP):
    targets = np.full(table.groups, target, np.int64)
    return expand_losses(rank_runs(rank_rows(table), targets, cap))


@pytest.mark.parametrize("target", range(-2, 11))
@pytest.mark.parametrize("cap", [NO_CAP, 3, 1])
def test_losses_are_the_formula(target, cap):
    """Every candidate of the grid has its loss, for all small data sets at once."""
    groups = list(multisets(2, 4))
    for rows, losses in zip(groups, list_losses(build_table(groups), target, cap), strict=True):
        assert losses == {c: min(cap, rank_loss(rows, c, target)) for c in range(-2, 3)}


@pytest.mark.parametrize("aim", [0, 1, 2, 5])
@pytest.mark.parametrize("public_rows", [0, 1, 3])
@pytest.mark.parametrize("cap", [NO_CAP, 2])
def test_one_row_moves_a_loss_by_at_most_one(aim, public_rows, cap):
    """With the target aim + n - m, m public, each loss moves by at most 1, and somewhere by 1."""
    groups = list(multisets(2, 4))
    targets = np.array([aim + len(rows) - public_rows for rows in groups], np.int64)
    group_losses = expand_losses(rank_runs(rank_rows(build_table(groups)), targets, cap))
    losses = dict(zip(groups, group_losses, strict=True))
    moves = {
        abs(losses[rows][c] - losses[tuple(sorted((*rows, row)))][c])
        for rows, row, c in itertools.product(multisets(2, 3), range(-2, 3), range(-2, 3))
    }
    assert max(moves) == 1


def test_each_row_is_counted_in_one_part():
    """Parts add up to the rows of a group, are those of the formula, and one row moves one by 1."""
    grid = SignificantBits(8)
    random = np.random.default_rng(3)
    values = np.round(random.normal(0, 5, 40))
    group = random.integers(0, 3, 40)
    cuts = np.sort(grid.numbers(np.array([[-9.0, 0, 2], [-1, 0, 3], [0, 1, 3], [4, 9, 99]])), 0)
    cuts[0, 0] = -grid.last - 1  # below all candidates

    def parts(is_kept):
        ones = np.ones(is_kept.sum(), np.int64)
        labels = grid.labels(values[is_kept])
        table = bin_table(pa.table({}), 3, grid, group[is_kept], labels, rows=ones)
        return rows_between(table, cuts)

    every = np.ones(40, bool)
    group_parts, numbers = parts(every), grid.numbers(grid.labels(values))
    for g in range(3):
        upto = [(numbers[group == g] <= cut).sum() for cut in cuts[:, g]]
        assert group_parts[:, g].tolist() == np.diff([0, *upto, (group == g).sum()]).tolist()
    for left in range(40):
        moved = group_parts - parts(every & (np.arange(40) != left))
        assert np.abs(moved).sum() == moved.sum() == 1


def test_large_counts_do_not_overflow():
    """2**33 rows leave losses exact, below 2**53 and without a wrap."""
    rows = np.array([2**30, 2**31, 2**32, 2**30], np.int64)
    bins = np.array([-500, -3, 8, 9], np.int64)
    group = np.zeros(4, np.int64)
    table = BinTable(pa.table({}), 1, SignificantBits(1), group, bins, rows)
    target = 2**33 + 12345
    for candidate, loss in list_losses(table, target)[0].items():
        below = int(rows[bins < candidate].sum())
        upto = int(rows[bins <= candidate].sum())
        assert loss == max(0, 2 * below - target, target - 2 * upto)


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1, 10)), Epsilon(Fraction(9)), Rho(HALF)])
def test_far_candidates_are_never_chosen(loss):
    """At the largest loss, candidates of a grid of 2**30 win with a probability below 1e-18."""
    law = loss.selection(1)
    assert law.rate * largest_loss(law) >= 64
    assert 2**30 * np.exp(-64.0) < 1e-18
    assert SignificantBits(22).last * 2 + 1 < 2**30
    assert largest_loss(PermuteAndFlip(Fraction(1, 2**60))) == NO_CAP


@pytest.mark.parametrize("q", LEVELS, ids=str)
@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(HALF)], ids=str)
def test_aims_are_the_level_moved_inwards(q, loss):
    """An aim is q m, a whole rank or the half between two, moved inwards from 0 and from m.

    Where m is less than twice as far, it is m / 2.
    """
    law = find_law(loss, candidates=100)
    inwards = law.margin if 0 < q < 1 else law.inwards
    for rows in range(5 * inwards):
        (twice,) = law.aims(q, np.array([rows])).tolist()
        end = min(Fraction(inwards), Fraction(rows, 2))
        expected = min(max(q * rows, end), rows - end)
        assert abs(Fraction(twice, 2) - expected) <= Fraction(1, 4)
        assert twice % 2 == 0 or expected.denominator > 1


def select_levels(table, qs, loss):
    """Select among exact counts, each level at the whole loss."""
    law = find_law(loss, len(set(qs)), 2 * table.binning.last + 1)
    return select_quantiles(table, qs, table.totals(), law)


@given(
    groups=st.lists(st.lists(st.integers(-9, 9), min_size=5, max_size=30), min_size=1, max_size=4),
    qs=st.lists(st.fractions(0, 1, max_denominator=20), min_size=1, max_size=9),
)
def test_at_a_large_epsilon_answers_are_the_quantiles(groups, qs):
    """Answers fit the data, ties included, but for one row that aims move in, and one of a list."""
    answers = select_levels(build_table(groups, Line(9)), qs, Epsilon(Fraction(40_000)))
    assert answers.shape == (len(qs), len(groups))
    assert answers.dtype == np.int64
    for rows, group_answers in zip(groups, answers.T.tolist(), strict=True):
        for q, answer in zip(qs, group_answers, strict=True):
            assert rank_error(rows, answer, q) <= min(len(qs), 2)
        ascending = [answer for _, answer in sorted(zip(qs, group_answers, strict=True))]
        assert ascending == sorted(ascending)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(30)])
def test_answers_never_cross(epsilon):
    """Answers rise with the level at any loss, however wrong the counts are."""
    groups = [np.random.default_rng(7).integers(-50, 50, 40).tolist(), [], [3] * 30] * 60
    qs = [Fraction(i, 12) for i in range(13)]
    grid = SignificantBits(4)
    law = find_law(Epsilon(epsilon), 13, 2 * grid.last + 1)
    for counts in ([40, 0, 30], [-9, 10**15, 2**70], [4000, 3, 0]):
        rows = np.array(counts * 60, object)
        answers = select_quantiles(build_table(groups, grid), qs, rows, law)
        assert (np.diff(answers, axis=0) >= 0).all()
        assert np.abs(answers).max() <= grid.last


def test_levels_are_answered_in_the_order_asked():
    """Order and repetition of the levels change nothing: same bytes, same answers."""
    table = build_table([[-2, 0, 1, 1], [], [2]] * 50)
    ascending = draw_numbered(select_levels, table, LEVELS, Epsilon(HALF))
    order = [3, 0, 5, 3, 1, 4, 2, 0]
    mixed = draw_numbered(select_levels, table, [LEVELS[i] for i in order], Epsilon(HALF))
    assert mixed.tolist() == ascending[order].tolist()


# How far answers are off

GRID = SignificantBits(8)
WIDTH = 2 * GRID.last + 1
BOTH = [Fraction(0), Fraction(1)]


def chance_beyond(size, q, law, noisy_size):
    """Return how probable an answer beyond all rows is, where they have one value."""
    table = bin_table(
        pa.table({}), 1, GRID, np.zeros(1, np.int64), np.ones(1), rows=np.array([size])
    )
    ranked = rank_rows(table)
    target = law.aims(q, np.array([noisy_size])) + size - noisy_size
    runs = rank_runs(ranked, target, quantile.largest_loss(law.selection))
    weights = runs.length * np.exp(-float(law.selection.rate) * (runs.loss - runs.loss.min()))
    return float(weights[runs.length > 1].sum() / weights.sum())


@pytest.mark.parametrize("q", BOTH, ids=str)
@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(2)], ids=str)
def test_extremes_are_among_the_rows(q, rho):
    """Whatever the rows are, 1 % of the minima and maxima lie beyond them all, at a third not so.

    Exact probabilities of the exponential mechanism, summed over the noise of the count.
    """
    law = find_law(Rho(rho), 1, WIDTH)
    off = law.noise.quantile(1e-6)
    noises = np.unique(np.linspace(-off, off, 25).round().astype(int))
    chances = np.exp(-(noises**2) / (2 * float(law.noise.sigma_squared)))

    def worst(min_rows):
        for size in (*range(5, 300, 25), *range(300, 1500, 150), 3000):
            shown = [
                chance_beyond(size, q, law, m) if m >= min_rows else 0.0 for m in size + noises
            ]
            yield float(chances @ shown / chances.sum())

    assert max(worst(2 * law.inwards)) <= OUTSIDE
    assert max(worst(2 * law.inwards // 3)) > OUTSIDE


ORDINARY_ROWS = ("normal", "constant", "delays", "most zeros", "half zeros")


@pytest.mark.parametrize("name", ORDINARY_ROWS)
@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1, 4))], ids=str)
@pytest.mark.parametrize("levels", [1, 5, 20])
def test_ranks_are_off_by_no_more_than_is_said(name, loss, levels):
    """In 95 % of releases of all sizes that are shown, or more; a false alarm in a million runs."""
    qs = [HALF] if levels == 1 else [Fraction(i, levels + 1) for i in range(1, levels + 1)]
    part = QuantilePart("x", dfp.quantiles("x", [float(q) for q in qs]), grouped=True)
    law = part.law(loss, 2 * SignificantBits(17).last + 1)
    for size in (law.least_rows(HALF) * 5 // 4, 40 * law.least_rows(HALF)):
        rows = np.sort(draw_rows(name, size))
        answers = part.read_measurement(copy_rows(rows, bits=17)).answer(loss, None).answers["x"]
        for q, answer in zip(qs, answers, strict=True):
            value = answer.columns(LEVEL)[0]
            labels = SignificantBits(17).labels(rows)
            below, upto = (np.searchsorted(labels, value, side) for side in ("left", "right"))
            off = np.maximum(0, np.maximum(below - float(q) * size, float(q) * size - upto))
            within = off <= law.rank_error(q, np.array([size])) + float(size) / 1024
            shown = ~np.isnan(value)
            test = stats.binomtest(int(within[shown].sum()), max(int(shown.sum()), 1), 0.95)
            assert within[shown].mean() > 0.95 or test.pvalue > 1e-9


WEEK = pl.date_range(dt.date(2024, 1, 1), dt.date(2024, 1, 7), eager=True)
FEW_VALUES = {"two": [0, 1], "five": [1, 2, 3, 4, 5], "a week": WEEK}


@pytest.mark.parametrize("name", FEW_VALUES)
@pytest.mark.parametrize("qs", [[0.05], [0.5], [0.95], [0.05, 0.25, 0.5, 0.75, 0.95]], ids=str)
@pytest.mark.parametrize("rows", [60, 210, 420])
def test_answers_are_seldom_far_from_all_rows(name, qs, rows):
    """Where sizes are not known, 5 % of answers lie beyond all rows by more than their range."""
    values = pl.Series(FEW_VALUES[name])
    frame = pl.DataFrame({"x": pl.concat([values] * rows)[:rows]})
    rows_as_numbers = frame["x"].to_physical().to_numpy()
    low, high = (
        2 * rows_as_numbers.min() - rows_as_numbers.max(),
        2 * rows_as_numbers.max() - rows_as_numbers.min(),
    )
    answers_beyond = np.zeros(len(qs))
    for _ in range(100):
        answers = list(frame.dp.quantiles("x", qs, epsilon=1))
        shown = pl.Series(answers, dtype=frame["x"].dtype if name == "a week" else None)
        numbers = shown.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy()
        answers_beyond += (numbers < low) | (numbers > high)
    assert stats.binom.sf(answers_beyond.max() - 1, 100, 0.05) > 1e-8


def test_more_levels_and_more_candidates_need_more_rows():
    """The choice to show an answer depends on public numbers: rounds of a list, and candidates."""
    loss = Epsilon(Fraction(1))
    inwards = [find_law(loss, m, WIDTH).inwards for m in (1, 2, 8)]
    assert inwards == sorted(set(inwards))
    fewer = [find_law(loss, 1, width).inwards for width in (10, 1000, WIDTH, 2**24)]
    assert fewer == sorted(set(fewer))
    tenth, full = find_law(loss.share(Fraction(1, 10)), 1, WIDTH), find_law(loss, 1, WIDTH)
    assert 8 * full.least_rows(HALF) < tenth.least_rows(HALF) < 11 * full.least_rows(HALF)
    assert tenth.rank_error(HALF, np.array([10**6]))[0] < 200


@given(rows=st.lists(st.integers(-3, 3), max_size=40), cut=st.integers(-3 * 8, 4 * 8 - 1))
def test_rows_of_a_bin_are_divided_between_blocks(rows, cut):
    """Both parts of a block have its rows once; a row more is in one of both, wherever it comes."""

    def parts(values):
        block = rank_rows(build_table([values], Line(3)), ties=8)
        return [int(part.size[0]) for part in block.cut(np.array([cut]))]

    below, above = parts(rows)
    assert below + above == len(rows)
    assert below >= sum(row < cut // 8 for row in rows)
    assert above >= sum(row > cut // 8 for row in rows)
    for row in range(-3, 4):
        moved = np.array(parts([*rows, row])) - [below, above]
        assert sorted(moved.tolist()) == [0, 1]


@pytest.mark.parametrize("aims", [(2, 6), (1, 4, 7)])
def test_a_row_moves_the_losses_of_one_block(aims):
    """Losses of every position of every block move by at most 1, in one block, over all rounds.

    Enumerated: a bin of one to three rows at each of three values, all positions of a cut.
    """
    low, high = aims[0], aims[-1]

    def losses(values, cut):
        blocks = rank_rows(build_table([values], Line(1)), ties=4).cut(np.array([cut]))
        runs = [rank_runs(block, (high - low) // 2 + block.size, NO_CAP) for block in blocks]
        return [expand_losses(run)[0] if len(run.first) else {} for run in runs]

    for counts in itertools.product((0, 1, 3), repeat=3):
        rows = [value - 1 for value, many in enumerate(counts) for _ in range(many)]
        for cut, row in itertools.product(range(-4, 7), range(-1, 2)):
            before, after = losses(rows, cut), losses([*rows, row], cut)
            moved = [
                max(abs(losses_before[c] - losses_after[c]) for c in losses_before)
                for losses_before, losses_after in zip(before, after, strict=True)
            ]
            assert min(moved) == 0
            assert max(moved) <= 1


def test_resolution_is_one_part_in_65536():
    """Air pressure near 1,013 is told to 1/64, by group as in a whole frame, and with bounds."""
    random = np.random.default_rng(3)
    frame = pl.DataFrame({"g": np.arange(3000) % 3, "x": random.normal(1013.3, 0.05, 3000)})
    for bounds in ({}, {"bounds": (0, 1e6)}, {"bounds": (950, 1060)}):
        medians = frame.dp.group_by("g", keys=[0, 1, 2]).median("x", epsilon=20, **bounds)["x"]
        alone = [float(frame.dp.median("x", epsilon=20, **bounds)) for _ in range(3)]
        assert np.abs(np.append(medians.to_numpy(), alone) - 1013.3).max() < 1013 / 2**16 + 0.01


def test_wide_bounds_are_no_worse_than_none():
    """Of 1,000 values about 100 the median within a million is as near in rank as without bounds.

    Means of 40 errors, of 1.6 ranks and a standard error of 0.3: a false alarm in 10**9 runs.
    """
    rows = np.sort(np.random.default_rng(4).normal(100, 15, 1000))
    frame = pl.DataFrame({"x": rows})
    off = []
    for arguments in ({}, {"bounds": (0, 1_000_000)}):
        medians = [float(frame.dp.median("x", **arguments)) for _ in range(40)]
        off.append(np.abs(np.searchsorted(rows, medians) - 500).mean())
    assert off[1] < off[0] + 5


# Multiples of a step between bounds


@pytest.mark.parametrize("target", [-3, 0, 3, 9])
@pytest.mark.parametrize("ends", [(-2, 2), (1, 5), (-9, -4), (0, 0)])
def test_losses_on_steps(ends, target):
    """Multiples between the bounds have their losses, nothing else has: beyond, an end counts."""
    steps = steps_within(Bounds(ends[0] - 0.25, ends[1] + 0.25), 1)
    random = np.random.default_rng(1)
    groups = [random.integers(-12, 13, size).tolist() for size in (0, 1, 6, 30)]
    grid = SignificantBits(16)
    numbers = [grid.numbers(np.array(rows, float)).tolist() for rows in groups]
    table = regrid(build_table(numbers, grid), steps)
    for rows, losses in zip(groups, list_losses(table, target), strict=True):
        clipped = np.clip(rows, *ends).tolist()
        everything = range(ends[0], ends[1] + 1)
        assert losses == {c: rank_loss(clipped, c, target) for c in everything}


@given(st.floats(-1e6, 1e6), st.floats(1, 1e6), st.integers(-40, 1040))
def test_multiples_are_the_nearest_and_within(lower, width, part):
    """A value counts as a multiple at most half a step away, or as the outermost one."""
    bounds = Bounds(lower, lower + width)
    for step in (None, Fraction(width) / 10, Fraction(1, 1024)):
        steps = steps_within(bounds, step)
        value = np.array([lower + width * part / 1000])
        (multiple,) = steps.values(steps.numbers(value))
        slack = 1e-12 * (1 + abs(lower) + width)
        assert lower - slack <= multiple <= lower + width + slack
        inside = float(steps.first * steps.step) <= value[0] <= float(steps.maximum * steps.step)
        assert not inside or abs(multiple - value[0]) <= float(steps.step) * (0.5 + 1e-6)


def test_decimals_are_as_they_are_written():
    """Multiples of a tenth and a hundredth are the floats that are written so."""
    tenths = steps_within(Bounds(0, 1), 0.1)
    assert tenths.values(np.arange(11)).tolist() == [float(f"0.{k}") for k in range(10)] + [1.0]
    cents = steps_within(Bounds(0, 10), 0.01)
    assert cents.values(np.array([7, 29, 999])).tolist() == [0.07, 0.29, 9.99]


def test_answers_are_multiples_between_the_bounds():
    """Whatever the rows are: of whole frames and by group, however they are asked."""
    rows = np.random.default_rng(2).normal(0, 1e9, 3000)
    frame = pl.DataFrame({"g": np.arange(3000) % 3, "x": rows})
    arguments = {"bounds": (-7, 21), "step": 0.5}
    answers = [
        *frame.dp.group_by("g", keys=[0, 1, 2]).median("x", **arguments)["x"],
        *frame.dp.quantiles("x", [0.3, 0.5, 0.7], **arguments),
        frame.dp(bounds={"x": (-7, 21)}).quantile("x", 0.5, step=0.5),
        dfp.frame(frame.to_pandas()).median("x", **arguments),
        dfp.frame(frame.to_arrow()).median("x", **arguments),
    ]
    assert all(-7 <= value <= 21 and 2 * value == round(2 * value) for value in answers)


def test_quantiles_of_integers_are_whole_numbers():
    """Between far values, where nearly all candidates are no whole numbers; never crossing."""
    frame = pl.DataFrame({"g": [0, 1] * 2000, "n": [3, 4, 1000, 1001] * 1000})
    releases = [frame.dp.quantiles("n", [0.1, 0.5, 0.51, 0.9], epsilon=0.5) for _ in range(9)]
    by_group = frame.dp.group_by("g", keys=[0, 1]).median("n", epsilon=0.5)["n"].to_list()
    assert all(float(answer).is_integer() for answer in [*itertools.chain(*releases), *by_group])
    assert all(list(map(float, answers)) == sorted(map(float, answers)) for answers in releases)


# Sizes that all groups together tell


def find_sizes(values, *, integers=False, bits=8):
    """Return the sizes that many copies of some values tell, without noise to speak of."""
    grid = SignificantBits(bits)
    labels = np.repeat(grid.labels(np.array(values, float)), 99)
    rows, group = np.ones(len(labels), np.int64), np.zeros(len(labels), np.int64)
    table = bin_table(pa.table({}), 1, grid, group, labels, rows=rows)
    return find_magnitudes(table, SURE.noise(1, 1), integers=integers)


@pytest.mark.parametrize("integers", [False, True])
@given(
    seen=st.lists(st.integers(1, 2**40), min_size=1, max_size=5),
    samples=st.lists(st.integers(-(2**60), 2**60), max_size=20),
)
def test_values_are_told_within_the_sizes_that_were_seen(integers, seen, samples):
    """Whole numbers 256 times as large or small at most are told to 8 bits, beyond they are NaN.

    Those as large as some that were seen are told to all bits of the grid.
    """
    grid = find_sizes(seen, integers=integers, bits=16)
    values = grid.bins.labels(np.array(samples, float))
    numbers = grid.numbers(values)
    decoded, (low, high) = grid.values(numbers), grid.find_bins(numbers)
    bins = grid.bins.numbers(values)
    assert ((low <= bins) & (bins <= high)).all()
    assert (np.sign(numbers) == np.sign(bins)).all()
    exponents = np.frexp(grid.bins.labels(np.array(seen, float)))[1]
    value_exponents = np.where(values == 0, exponents.min(), np.frexp(values)[1])
    is_near = (value_exponents > exponents.min() - 8) & (value_exponents < exponents.max() + 8)
    assert (np.abs(decoded - values) <= 2.0**-7 * np.abs(values))[is_near].all()
    within = (value_exponents >= exponents.min()) & (value_exponents <= exponents.max())
    assert (values == decoded)[within].all()
    assert np.isnan(decoded[value_exponents > exponents.max() + 8]).all()
    assert np.isnan(decoded[value_exponents < exponents.min() - 8]).all()


def test_candidates_of_integers_are_integers():
    """Sizes up to 1,000 leave 1,023 of either sign, and some hundred beyond, not 8 million.

    Integers may be declared, or be all that stands out.
    """
    for grid in (
        find_sizes([1, 1000], integers=is_integer, bits=16) for is_integer in (True, False)
    ):
        assert grid.values(np.arange(1, 1024)).tolist() == list(range(1, 1024))
        assert 1024 <= grid.last <= 1024 + 8 * 2**7 + 1
    assert find_sizes([1, 1000.5], bits=16).last > 300_000


@pytest.mark.parametrize("kind", [float, int])
def test_groups_share_what_they_know_of_sizes(kind, replayed):
    """Medians of 300 groups of 75 rows are shown, of integers and floats, in rho and epsilon.

    A group by itself would need 191 integers or 63 floats of noisy count at epsilon 1. A group of
    other sizes than all others is right or not a number, never one of their sizes. Noise is the
    same in every run: one release in some thousands takes a size for one that rows have.
    """
    random = np.random.default_rng(7)
    values = np.append(random.exponential(100, 300 * 75), np.full(75, 1e12)).astype(kind)
    frame = pl.DataFrame({"g": np.repeat(np.arange(301), 75), "x": values})
    for loss in ({"epsilon": 1}, {"rho": 0.5}):
        groups = frame.dp.group_by("g", keys=range(301))
        medians = replayed(lambda a=groups, t=loss: a.median("x", **t)["x"].to_numpy())
        assert np.isnan(medians[300]) or abs(medians[300] / 1e12 - 1) < 0.01
        assert np.isnan(medians[:300]).mean() < 0.1
        assert np.nanmax(medians[:300]) < 25_600


def test_intervals_of_sizes_that_are_not_known_are_open(replayed):
    """An answer that is NaN has no ends; of zeros below sizes that were not seen ends are near 0.

    Noise is the same in every run: one release in some thousands sees a size that is rare.
    """
    values = np.concatenate([np.repeat([3.0, 50.0], 9_000), np.full(150, 1e30), np.zeros(9_000)])
    frame = pl.DataFrame({"g": np.repeat([0, 1, 2], [18_000, 150, 9_000]), "x": values})
    private = frame.dp.group_by("g", keys=[0, 1, 2])
    medians = replayed(lambda: private.median("x", ends=True, epsilon=1))
    low, high = medians["low"].to_numpy(), medians["high"].to_numpy()
    assert math.isnan(medians["x"][1])
    assert (low[1], high[1]) == (-math.inf, math.inf)
    assert -1e-30 < low[2] <= 0 <= high[2] < 1e-30


# Intervals


GROUPS = 400
LEVEL = 0.95


def copy_rows(values, bits=8, groups=GROUPS):
    """Return a table of many groups that all hold these values."""
    grid = SignificantBits(bits)
    labels, rows = np.unique(grid.labels(np.asarray(values, float)), return_counts=True)
    group = np.repeat(np.arange(groups), len(labels))
    many = np.tile(rows, groups).astype(np.int64)
    return bin_table(pa.table({}), groups, grid, group, np.tile(labels, groups), rows=many)


def released(values, qs, loss, level=LEVEL):
    """Return values, low and high of each level, by group."""
    questions = {str(q): dfp.quantile("x", q, ends=True) for q in qs}
    (part,) = split(questions, grouped=True)
    answers = part.read_measurement(copy_rows(values)).answer(loss, None).answers
    return [answers[name][0].columns(level)[:3] for name in questions]


def find_quantile(values, q):
    """Return the smallest value that a part q of the values reach."""
    return np.sort(values)[max(math.ceil(q * len(values)), 1) - 1]


def draw_rows(name, size):
    random = np.random.default_rng(len(name))
    laws = {
        "normal": lambda: random.normal(100, 15, size),
        "half zeros": lambda: np.where(np.arange(size) < size / 2, 0.0, 1e6),
        "most zeros": lambda: np.where(random.random(size) < 0.49, 0, random.exponential(9, size)),
        "two heaps": lambda: np.append(
            random.normal(-5, 1, size // 2), random.normal(1e9, 1, size)
        ),
        "constant": lambda: np.full(size, 7.3),
        "delays": lambda: np.round(random.exponential(30, size) - 20),
    }
    return laws[name]()


LAWS = ("normal", "half zeros", "most zeros", "two heaps", "constant", "delays")


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1, 4))], ids=str)
def test_an_interval_holds_the_quantile_of_the_rows(name, loss):
    """In 95 % of releases or more: data with gaps, heaps and ties too, at one level and at two."""
    for size in (300, 2000):
        values = draw_rows(name, size)
        for qs in ([0.5], [0.25, 0.9]):
            for q, (value, low, high) in zip(qs, released(values, qs, loss), strict=True):
                truth = find_quantile(values, q)
                hits = int(((low <= truth) & (truth <= high)).sum())
                assert stats.binomtest(hits, GROUPS, LEVEL, alternative="less").pvalue > 1e-9
                assert ((low <= value) | np.isnan(value)).all()
                assert ((value <= high) | np.isnan(value)).all()


def test_with_many_rows_both_ends_are_found():
    """Of data without gaps nearly every release has both ends, some tens of ranks apart."""
    values = draw_rows("normal", 5000)
    (_, low, high), (_, below, above) = released(values, [0.5, 0.9], Epsilon(Fraction(1)))
    for ends in ((low, high), (below, above)):
        assert np.isfinite(ends).all(axis=0).mean() > 0.9
        places = [np.searchsorted(np.sort(values), end[np.isfinite(end)]) for end in ends]
        assert np.median(places[1]) - np.median(places[0]) < 400


@pytest.mark.parametrize("q", [Fraction(1, 10), HALF, Fraction(9, 10)], ids=str)
@pytest.mark.parametrize("loss", [Epsilon(Fraction(1, 2)), Rho(Fraction(1, 50))], ids=str)
def test_an_end_on_the_wrong_side_is_not_shown(q, loss):
    """However it was selected: with half of the rest, where it is wrong by no row at all."""
    groups, rows, noise = 40_000, 1300, loss.noise(1, 1)
    reached = int(q * rows)  # q of the rows lie below the lower end, and up to the upper one
    parts = np.repeat([[reached], [0], [rows - reached]], groups, axis=1)
    vector = NoisyVector(add_to(parts, noise), noise)
    ones, none, zeros = np.ones(groups, np.int64), np.zeros(groups, bool), np.zeros(groups)
    estimator = QuantileEstimator(
        q, zeros, zeros, zeros, RankEnds(ones, ones, ones, 2 * ones, (none, none))
    )
    for level in (0.8, 0.95):
        for shown in map(np.isfinite, estimator.interval(vector, level)):
            assert shown.sum() <= stats.binom.ppf(1 - 1e-9, groups, (1 - level) / 2)


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_frames_show_intervals_that_are_asked_for(make):
    """A number has ends, a frame by group columns of them; without `ends` they are NaN."""
    random = np.random.default_rng(8)
    frame = make({"g": np.arange(12_000) % 2, "x": random.normal(50, 5, 12_000)})
    answer = frame.dp.median("x", ends=True, epsilon=4)
    assert answer.low <= answer <= answer.high
    assert answer.low < 50.2
    assert answer.high > 49.8
    assert np.isnan(frame.dp.median("x", epsilon=4).low)
    by_group = frame.dp.group_by("g", keys=[0, 1]).quantile("x", 0.9, ends=True, epsilon=4)
    assert list(by_group.columns) == ["g", "x", "low", "high", "note", "count"]
    table = pd.DataFrame(
        by_group.to_dict() if make is pd.DataFrame else by_group.to_dict(as_series=False)
    )
    assert (table["low"] <= table["x"]).all()
    assert (table["x"] <= table["high"]).all()
    within = frame.dp.median("x", bounds=(0, 100), step=1, ends=True, epsilon=4)
    assert all(float(end).is_integer() for end in within.interval())


@pytest.mark.parametrize("many", [2, 60])
def test_an_open_interval_has_a_note(many):
    """Where no end of a quantile is shown, a note has the reason, in frames and in SQL."""
    frame = pl.DataFrame({"g": ["a"] * many, "x": np.arange(many) * 1.0})
    query, terms = "SELECT g, MEDIAN(x) AS m FROM t GROUP BY g", {"epsilon": 0.6, "intervals": True}
    reasons = ("too few rows for this loss", "rank within about ")
    for _ in range(20):
        number = frame.dp.median("x", ends=True, epsilon=0.6)
        (row,) = frame.dp.group_by("g", keys=["a"]).median("x", ends=True, epsilon=0.6).to_dicts()
        (sql_row,) = dfp.sql(query, t=frame, keys=["a"], **terms).to_dicts()
        for low, high, note in (
            (number.low, number.high, number.note),
            (row["low"], row["high"], row["note"]),
            (sql_row["m_low"], sql_row["m_high"], sql_row["m_note"]),
        ):
            assert (low, high) != (-math.inf, math.inf) or note.startswith(reasons)


@pytest.mark.parametrize(("q", "is_noted"), [(0.5, False), (0.99, True)])
def test_an_answer_far_off_for_its_level_has_a_note(q, is_noted):
    """Where the rank may be off by half of the rows beyond an answer, each entry point says so."""
    frame = pl.DataFrame({"g": ["a"] * 30_000, "x": np.arange(30_000) * 1.0})
    query, terms = f"SELECT quantile_cont(x, {q}) AS x FROM t", {"epsilon": 0.05, "intervals": True}
    notes = [
        frame.dp.quantile("x", q, epsilon=0.05).note,
        frame.dp.quantiles("x", [q, 0.4], epsilon=0.2)[0].note,
        frame.dp.group_by("g", keys=["a"]).quantile("x", q, epsilon=0.05)["note"][0],
        dfp.sql(query, t=frame, **terms)["x_note"][0],
    ]
    assert [(note or "").startswith("rank within about") for note in notes] == [is_noted] * 4


def test_ends_among_zeros_are_zero():
    """Values below 2**-126 count as 0, so no end is shown as such a size."""
    frame = pl.DataFrame({"x": [0.0] * 3000 + [5.0] * 1000})
    for level in (0.3, 0.5):
        answer = frame.dp.quantile("x", level, ends=True, epsilon=100)
        assert (answer, answer.low, answer.high) == (0, 0, 0)
        assert repr(answer).startswith("x 0 [0, 0] at 95%")


def test_open_ends_are_the_bounds():
    """Too few rows: nothing is known but what the caller has said."""
    frame = pl.DataFrame({"x": [3.0] * 9})
    anywhere = frame.dp.median("x", ends=True)
    assert math.isnan(anywhere)
    assert anywhere.interval() == (-math.inf, math.inf)
    assert frame.dp.median("x", bounds=(0, 60), step=1, ends=True).interval() == (0, 60)
