"""Laws of the search for bounds: what one row moves, what noise alone does, what is found."""

import math
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import dfprivacy as dfp
from benchmarks.honesty import copy_groups
from benchmarks.releases import plain
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import FINE, bin_table
from dfprivacy.measurement.binning import Octaves
from dfprivacy.noise.laws import DiscreteLaplace, exact_height
from dfprivacy.noise.recording import record_draws
from dfprivacy.release.answers import OuterCounts
from dfprivacy.statistics.estimators.bounds_search import (
    POLICY,
    Look,
    find_bounds,
    find_core,
    find_dyadic_bounds,
    read_ends,
    ruler_about,
    ruler_about_zero,
)
from dfprivacy.statistics.estimators.group_bounds import find_group_bounds
from tests.no_noise import NoNoise
from tests.replayed_draws import replay

pytestmark = pytest.mark.usefixtures("permitted")

DYADIC = ruler_about_zero(Octaves(), 0, Octaves().last)
BINS = len(DYADIC.starts) - 1


def build_table(*groups, binning=FINE):
    """Return the table of groups with these values."""
    values = np.concatenate([np.asarray(group, float) for group in groups] or [np.zeros(0)])
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    labels, ones = binning.labels(values), np.ones(len(values), np.int64)
    keys = pa.table({"key_0": np.arange(len(groups))})
    return bin_table(keys, len(groups), binning, group, labels, rows=ones)


def look_at_one(ruler, heights):
    """Return the noisy counts of one group."""
    return Look(ruler, heights[None], np.ones(1))


ABOUT = Octaves(3, 703.0)

steps = st.sampled_from([1, 2, 4])
about_zero = st.builds(
    lambda first, size, steps: ruler_about_zero(FINE, first, min(first + size, 253), steps),
    st.integers(0, 252),
    st.integers(1, 24),
    steps,
)
rulers = about_zero | st.builds(
    ruler_about, st.just(FINE), st.integers(-FINE.last, FINE.last), steps
)
rulers |= st.builds(
    lambda first, size, steps: ruler_about_zero(ABOUT, first, min(first + size, 253), steps),
    st.integers(0, 252),
    st.integers(1, 24),
    steps,
)


@given(rulers, st.integers(-FINE.last, FINE.last))
def test_every_row_is_in_one_bin_of_a_ruler(ruler, number):
    """A row adds 1 to one count of a ruler, wherever it lies; edges ascend with the bins."""
    value = FINE.upper(np.array([number]))
    (counts,) = ruler.count(build_table(value, binning=ruler.binning), np.zeros(1, int))
    assert counts.sum() == 1
    index = int(counts.argmax())
    assert ruler.edges[index] <= value[0] <= ruler.edges[index + 1]
    assert (np.diff(ruler.starts) >= 0).all()
    assert (np.diff(ruler.edges) >= 0).all()


SOME = [0.0, -3.0, 5.0, 5.5, 700.0, 703.0, 1e9, -1e-9, math.inf]
values = st.lists(st.sampled_from(SOME), max_size=12)
DATA = {
    "nobody": [],
    "few": [5.0] * 20,
    "near": [-3.0] * 300 + [9.0] * 300,
    "far": [700.0] * 300 + [703.0] * 300,
    "many": [float(k % 90 - 20) for k in range(20_000)],
    "scattered": [float(k % 90) for k in range(20_000)] + [5000.0 * k for k in range(1, 40)],
    "heavy": [2.0 ** (k % 20) for k in range(3_000)],
    "zeros": [0.0] * 500,
    "a core": [5.0] * 100,
    "two heaps": [700.0] * 60 + [703.0] * 70,
    "a far octave": [700.0] * 92 + [9.0] * 7,
    "two octaves": [700.0] * 60 + [999.0] * 60,
    "near or not": [-3.0] * 280 + [9.0] * 275,
}
SEARCHES = {
    "whole": lambda frame, **loss: frame.dp.mean("x", **loss),
    "groups": lambda frame, **loss: frame.dp.group_by("g", keys=[0, 1, 2]).mean("x", **loss),
    "squares of groups": lambda frame, **loss: frame.dp.group_by("g", keys=[0]).var("x", **loss),
    "columns": lambda frame, **loss: frame.dp.agg(dfp.mean("x"), dfp.mean("y"), **loss),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("data", DATA)
def test_a_search_and_its_answer_cost_what_is_charged(data, search, measure):
    """One row more costs at most the whole loss, and nothing but draws shows the row."""

    def ask(rows):
        group = [0] * len(rows) + [1] * 30
        frame = pl.DataFrame({"g": group, "x": [*rows, *[5.0] * 30]}, strict=False)
        return SEARCHES[search](frame.with_columns(y=-pl.col("x")), **{measure: 1})

    for added in (5.0, -1e30, 700.0, 0.0, 9.0, 999.0):
        larger, smaller, tape = replay(ask, [*DATA[data], added], DATA[data])
        assert plain(larger) == plain(smaller)
        assert getattr(tape.loss, measure) <= 1


@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize("squares", [True, False])
def test_columns_searched_at_once_are_found_as_apart(by_group, squares):
    """Without noise each of ten columns has the answer that it has alone, whichever others."""
    random = np.random.default_rng(2)
    distant_data = {"years": [1990.0 + k % 36 for k in range(900)], "below": [-5e6, -5e6 - 90]}
    rows = {
        name: random.permutation(np.resize(data or [np.nan], 9_000))
        for name, data in (DATA | distant_data).items()
    }
    frame = pl.DataFrame({"g": np.arange(9_000) % 3, **rows})
    make = dfp.var if squares else dfp.mean
    private = dfp.frame(frame).group_by("g", keys=[0, 1, 2]) if by_group else dfp.frame(frame)
    questions = {name: make(name) for name in rows}
    with record_draws(NoNoise()):
        joint = private.agg(**questions, epsilon=len(rows))
        for name, question in questions.items():
            alone = private.agg(**{name: question}, epsilon=1)
            if by_group:
                columns = [name, f"{name}_low", f"{name}_high", f"{name}_note"]
                assert repr(joint[columns].rows()) == repr(
                    alone[[name, "low", "high", "note"]].rows()
                )
            else:
                shown = [
                    repr((float(e), e.low, e.high, e.note)) for e in (joint[name], alone[name])
                ]
                assert shown[0] == shown[1]


@pytest.mark.parametrize("laplace", [True, False])
def test_noise_alone_makes_no_core(laplace):
    """Noise makes a core with probability `absurd` at most: 300 of 30,000 expected, 400 allowed.

    False-alarm rate below 1e-7.
    """
    random, policy, cores = np.random.default_rng(5), replace(POLICY, absurd=0.01), 0
    draw = random.laplace if laplace else random.normal
    for _ in range(30):
        look = Look(DYADIC, draw(size=(1_000, BINS)), np.ones(1_000), laplace)
        cores += (find_core(look, policy)[0] >= 0).sum()
    assert cores <= 400


heights = st.dictionaries(st.integers(-40, 40), st.floats(1, 60), max_size=8)


@given(heights, st.integers(-60, 60))
def test_multiplied_data_have_multiplied_bounds(tall, octaves):
    """Bounds of noisy bins of one sign move with them by whole octaves."""
    ranges = []
    for shift in (0, octaves):
        counts = np.zeros(BINS)
        for number, height in tall.items():
            counts[DYADIC.middle + number + 120 + shift] = height
        (first,), (last,) = read_ends(look_at_one(DYADIC, counts), POLICY)
        ranges.append(None if first < 0 else (first - shift, last - shift))
    assert ranges[0] == ranges[1]


@given(heights)
def test_a_core_is_within_the_bounds(tall):
    """Bounds hold the tallest bin beside zero, if it is taller than noise makes any."""
    counts = np.zeros(BINS)
    for number, height in tall.items():
        counts[DYADIC.middle + number] = height
    ((first,), (last,)), tallest = read_ends(look_at_one(DYADIC, counts), POLICY), counts.argmax()
    if tallest != DYADIC.middle and counts[tallest] > 25:
        assert 0 <= first <= tallest <= last


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("groups", [0, 1, 5])
def test_no_rows_have_no_bounds(groups, rows):
    """Groups of no row or one have no bounds, by any search, in one of two attempts.

    Noise makes bounds in both with a probability below 1e-9: 25 looks at most make a core with a
    probability of 1e-6 each, which one row multiplies by e at most.
    """
    table, loss = build_table(*[[5.0] * rows] * groups), Epsilon(Fraction(1))
    attempts = [
        (
            find_bounds(table, loss),
            find_dyadic_bounds(table, loss),
            find_group_bounds([table], loss, loss)[0],
        )
        for _ in range(2)
    ]
    assert all(len(bounds.lower) == groups for attempt in attempts for bounds in attempt)
    assert any(not any(bounds.is_found.any() for bounds in attempt) for attempt in attempts)


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1, 2))], ids=str)
@pytest.mark.parametrize(
    "rows", [[1990.0 + k % 36 for k in range(1000)], [1.7e12 + 1e6 * k for k in range(1000)]]
)
def test_data_far_from_zero_have_bounds_of_their_spread(rows, loss):
    """Years and timestamps have bounds at most six times as wide as they are, in nine of ten."""
    bounds = find_bounds(build_table(*[rows] * 40), loss)
    width = bounds.upper - bounds.lower
    assert (width <= 6 * (max(rows) - min(rows))).sum() >= 30


def test_groups_of_one_level_each_are_within_their_bounds():
    """Of 200 groups at ten levels nine in ten lie within their bounds, those at zero too."""
    random = np.random.default_rng(3)
    groups = [1000.0 * (k % 10) + random.normal(0, 10, 300) for k in range(200)]
    loss = Epsilon(Fraction(1))
    (bounds,) = find_group_bounds([build_table(*groups)], loss, loss)
    middle = np.array([np.median(rows) for rows in groups])
    inside = (bounds.lower <= middle) & (middle <= bounds.upper)
    assert inside.sum() >= 190


@pytest.mark.parametrize("index", [1.5, 3.0])
def test_rows_that_may_lie_outside_are_not_taken_to_be_anywhere(index):
    """The allowance for rows outside stays within 1e6 times the largest value, at any noise."""
    rows = np.random.default_rng(8).pareto(index, 20_000) + 1
    bounds = find_bounds(build_table(*[rows] * 60), Epsilon(Fraction(1, 10)))
    assert (bounds.bias[[0, 2]] <= 1e6 * rows.max() * len(rows)).all()


def test_a_few_rows_scattered_far_beyond_the_bounds_are_noted():
    """No bin shows 200 rows in 60,000 at a thousand times the others: their doublings do."""
    rng = np.random.default_rng(1)
    values = rng.gamma(2, 20, 60_000)
    values[:200] *= 1000
    frame = dfp.frame(pl.DataFrame({"x": values}))
    means = [frame.mean("x", epsilon=1) for _ in range(6)]
    assert all("rows beyond" in (m.note or "") or m.low <= values.mean() <= m.high for m in means)


def test_a_few_rows_of_groups_scattered_far_beyond_their_bounds_are_noted():
    """No group shows 60 rows in 12,000 at a thousand times the others: all together do."""
    rng = np.random.default_rng(1)
    values = rng.gamma(2, 20, 60_000)
    values[:300] *= 1000
    frame = dfp.frame(pl.DataFrame({"g": np.arange(60_000) % 5, "x": values}))
    for keys in (list(range(5)), None):
        means = frame(epsilon=1, delta=1e-6).group_by("g", keys=keys).mean("x")
        assert all(means["note"].to_list())


@pytest.mark.parametrize("kind", [Epsilon, Rho])
def test_noise_alone_rarely_makes_rows_beyond_the_bounds(kind):
    """Of 600 searches over values that end sharply about 3 % see rows beyond, by chance.

    Each end has a note in one search of 66. More than 48 have a probability below 1e-8.
    """
    values = np.tile(np.arange(1, 91), 400).astype(float)
    bounds = find_bounds(copy_groups(build_table(values), 600), kind(Fraction(1)))
    notes = [note for note in bounds.notes.tolist() if note is not None]
    assert all("rows beyond" in note for note in notes)
    assert len(notes) <= 48


def test_noise_alone_rarely_makes_far_rows_of_groups():
    """Sums over groups pass their height in 1 of 100 draws: below 1e-9 in 45 of 1,000."""
    draws = np.random.default_rng(1).laplace(size=(1000, 30, 6)).astype(np.float32)
    counts = [OuterCounts(heights, laplace=True) for heights in draws]
    assert sum(outer.are_rows(np.arange(30)) for outer in counts) <= 45
    assert not any(outer.are_rows(np.arange(0)) for outer in counts)
    assert not OuterCounts(draws[0][:, :0], laplace=True).are_rows(np.arange(30))
    tall = np.where(np.arange(30)[:, None] == 7, np.float32(99), draws[0])
    assert OuterCounts(tall, laplace=True).are_rows(np.arange(30))
    assert not OuterCounts(tall, laplace=True).are_rows(np.arange(7)), "group 7 is not shown"


@pytest.mark.sample(12)
@pytest.mark.parametrize("terms", [1, 2, 8, 64])
@pytest.mark.parametrize("probability", [1e-2, 1e-6, 1e-10])
def test_sums_of_empty_counts_exceed_their_height_as_often_as_said(terms, probability):
    """The height of a sum of Laplace variables is its exact quantile, by the law of the noise."""
    height, scale = exact_height(terms, probability, laplace=True), 2**12
    chance = DiscreteLaplace(Fraction(scale)).tail(round(height * scale), terms)
    assert float(chance) == pytest.approx(probability, rel=1e-3)


def test_sums_of_many_empty_counts_are_nearly_normal():
    """Beyond 64 terms the height is that of a normal sum: misses in 1 of 10^9 runs."""
    sums = np.random.default_rng(80).laplace(size=(200_000, 80)).sum(axis=1)
    height = exact_height(80, 0.01, laplace=True)
    assert abs((sums > height).sum() - 2000) < 6.1 * math.sqrt(2000)
