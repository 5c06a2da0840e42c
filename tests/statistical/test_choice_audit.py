"""Choices cost what they say: draws replayed on neighbouring data, and samples against exact laws.

Laws of quantiles are enumerated over all candidates and permutations
(docs/explanation/selection.md). Neighbours differ by one row.
Tests that draw compare at 1e-9 and less than 100 times, or say how often: a false-alarm rate below
1e-6.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dfprivacy as dfp
from benchmarks.releases import plain
from dfprivacy import papers
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip, Selection
from dfprivacy.papers.monotone import QuantileLength, find_trimmed_rank, monotone_estimate
from dfprivacy.statistics.estimators import quantile
from dfprivacy.statistics.estimators.monotone import CentreLength, select_monotone
from dfprivacy.statistics.estimators.quantile import (
    EndsLaw,
    RankLaw,
    find_magnitudes,
    largest_loss,
    select_ends,
    select_quantiles,
)
from tests.laws.test_quantiles import Line, build_table, rank_loss
from tests.noise.test_selection import fits, permute_and_flip_law
from tests.replayed_draws import replay

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("permitted")]


SPOTS = [-1e300, -2.0, 1.0, 1e300]
ROWS = [*SPOTS, math.inf, math.nan, 0.0]
SMALL = [d for n in range(3) for d in itertools.combinations_with_replacement(SPOTS, n)]
LARGE = [(1.0,) * 60, (-1e300,) * 40 + (1e300,) * 30, (*np.linspace(-2, 2, 5_000),), (0.0,) * 3]
MEDIAN = QuantileLength(0.5)
CHOICES = {
    "subset_mean": (papers.SubsetMean("x"), [1 / 4, 1 / 4]),
    "dick_mean": (papers.DickMean("x"), [3 / 10, 3 / 10]),
    "dick_center": (papers.DickCenter("x", 2), [5 / 24, 5 / 24, 5 / 12]),
    "center": (dfp.center("x", 1.5), [25 / 48]),
    "center within bounds": (dfp.center("x", 2, (-1e300, 1e300)), [5 / 6]),
    "third power within bounds": (dfp.center("x", 3, (-4, 4)), [5 / 6]),
    "inverse_quantile": (papers.InverseQuantile("x", 0.5), [5 / 6]),
    "median": (dfp.median("x"), [19 / 24]),
    "quantiles": (dfp.quantiles("x", [0.0, 1 / 3, 0.5, 1.0], (-4, 4)), [19 / 72] * 3),
    "min": (dfp.min("x"), [19 / 24]),
}
"""Questions with the parts of the loss that their choices cost, in the order of these."""
AT_RHO = {"dick_mean": [9 / 100, 9 / 100]}  # all of it is pure, at epsilon = sqrt(2 rho)


def pay(question, loss):
    """Yield what any further row costs, and the parts of the loss that choices are made for."""
    ((measure, charged),) = loss.items()

    def ask(rows):
        return pl.DataFrame({"x": np.array(rows, float)}).dp.agg(question, **loss)

    for rows, row in itertools.product([*SMALL, *LARGE], ROWS):
        larger_release, smaller_release, tape = replay(ask, (*rows, row), rows)
        assert plain(larger_release) == plain(smaller_release)
        laws = [draw.inputs["self"] for draw in tape.draws if draw.mechanism == "select"]
        parts = [getattr(law, measure)(sensitivity=1) / Fraction(charged) for law in laws]
        yield getattr(tape.loss, measure), parts


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("loss", [{"epsilon": 1.5}, {"rho": 0.125}], ids=str)
def test_a_row_costs_no_more_than_is_charged(name, loss):
    """All draws of a release together, each choice at its part, for all small and large data."""
    question, parts = CHOICES[name]
    parts = AT_RHO.get(name, parts) if "rho" in loss else parts
    (charged,) = loss.values()
    paid, chosen = zip(*pay(question, loss), strict=True)
    assert charged / 8 < max(paid) <= charged
    assert max(map(len, chosen)) == len(parts)
    for choice_parts in filter(None, chosen):  # without values there is no choice for some
        assert [float(part) for part in choice_parts] == pytest.approx(parts, rel=1e-12)


def test_the_audit_has_power(monkeypatch):
    """Choices of six times the rate are seen. Laws are kept, so that the loss is of this test."""

    def select(loss, sensitivity):
        return PermuteAndFlip.for_epsilon(6 * loss.value, sensitivity)

    monkeypatch.setattr(Epsilon, "selection", select)
    for name in ("subset_mean", "median"):
        question, _ = CHOICES[name]
        assert max(paid for paid, _ in pay(question, {"epsilon": 1.4375})) > 1.4375


def columns(rows):
    return np.array(rows, np.float64), np.ones(len(rows), np.int64)


# Monotone properties


def test_rows_beyond_the_bounds_are_dropped(monkeypatch):
    """The view that the property has of a row depends on the bounds and on that row alone.

    A row is there if it rounds to a bin from the lower to the upper bound, whatever rows are with
    it: each is counted alone and among others.
    """
    grid, seen = SignificantBits(16), []
    low, high = grid.numbers(np.array([1.0, 2.0])).tolist()
    inner, outer = [1.0, 1.5, 2.0, 2.0 + 2**-16], [0.99, 2.0 + 2**-14, -1.5, 1e300, -math.inf]

    class Spy(QuantileLength):
        def lengths(self, values, rows, candidates):
            seen.append(int(rows.sum()))
            return super().lengths(values, rows, candidates)

    for rows in ([], *([x] for x in inner + outer), inner, outer, inner + outer, outer * 9):
        choices = iter([high, low, 0])
        monkeypatch.setattr(Selection, "select", lambda *_, left=choices: np.array([next(left)]))
        monotone_estimate(Spy(0.5), *columns(rows), Rho(Fraction(1, 8)))
        assert seen.pop() == sum(x in inner for x in rows)


def find_epsilon(loss):
    """Return the epsilon that a choice is run with."""
    if isinstance(loss, Epsilon):
        return loss.value
    return ExponentialMechanism.for_rho(loss.value, 1).epsilon(1)


def test_the_rank_of_monotone_estimates():
    """Seven quarters of r = (8/epsilon) log(m/1e-6), epsilon that of a threshold: for both losses.

    The error of such a threshold, (2/epsilon) log(m/1e-6), is r/4, so that its rank is in the
    band [3r/2, 2r] of the paper's proof.
    """
    for quarter in (Epsilon(Fraction(1, 4)), Rho(Fraction(1, 32))):
        logarithm = math.log(2_001 * 10**6)
        epsilon = float(find_epsilon(quarter))
        r, error = 8 / epsilon * logarithm, 2 / epsilon * logarithm
        rank = find_trimmed_rank(quarter, 2_001)
        assert rank == math.ceil(7 * r / 4)
        assert 3 * r / 2 <= rank - error <= rank + error <= 2 * r + 1


def test_monotone_estimates_are_near():
    """With 40,001 rows evenly around 1e6, half width 100, every centre comes within 5 of it.

    False alarms: a bound would have to err by 15,000 rows, or a length by 1,000, where one in
    1e9 errs by 50.
    """
    values, rows = 1e6 + 100 * np.linspace(-1, 1, 40_001), np.ones(40_001, np.int64)
    for functional in (MEDIAN, CentreLength(2), CentreLength(3)):
        for loss in (Epsilon(Fraction(4)), Rho(Fraction(2))):
            assert abs(monotone_estimate(functional, values, rows, loss) - 1e6) < 5


def test_empty_data_gives_any_point():
    """Without rows, points of the domain are equally likely: a chi-square test at 1e-9."""
    none, loss = columns(()), Epsilon(Fraction(3, 2))
    points = [select_monotone(MEDIAN, *none, (0, 4), loss, intervals=4) for _ in range(600)]
    counts = np.bincount(np.array(points, np.int64), minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-9
    assert -(2.0**126) <= monotone_estimate(CentreLength(2), *none, loss) <= 2.0**126


# Quantiles


QUARTILES = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]


def copy_rows(rows, last, copies):
    """Make a table of groups with the same rows, of integers up to `last`."""
    return build_table([rows] * copies, Line(last))


def rank_law(loss, last, levels=1):
    """Return the law of levels that pay for `loss` each, beside a count that pays as much."""
    return RankLaw(loss, loss.noise(1, 1), 2 * last + 1, levels)


def fit_together(answers, law):
    """Return whether answers to several questions at once fit their law."""
    seen, counts = np.unique(answers, axis=1, return_counts=True)
    observed = dict(zip(map(tuple, seen.T.tolist()), counts.tolist(), strict=True))
    assert set(observed) <= set(law)
    return fits([observed.get(chosen, 0) for chosen in law], law.values())


def block_law(rows, candidates, target, mechanism):
    """Return the law of a choice among candidates by the ranks of some rows."""
    losses = [rank_loss(rows, candidate, target) for candidate in candidates]
    losses = np.minimum(losses, largest_loss(mechanism))
    weights = np.exp(-float(mechanism.rate) * (losses - losses.min()))
    if isinstance(mechanism, ExponentialMechanism):
        return weights / weights.sum()
    return permute_and_flip_law(weights.tolist())


@pytest.mark.parametrize("loss", [Epsilon(Fraction(2)), Rho(Fraction(1, 2))], ids=str)
@pytest.mark.parametrize(("q", "count"), [(Fraction(1, 3), 2), (Fraction(1, 2), 5)], ids=str)
def test_one_quantile_has_its_law(loss, q, count):
    """2e5 choices fit the exact law of the selection, and not that of half the loss.

    Of five rows the middle one is aimed at, whichever quantile is asked for.
    """
    rows, draws = (-2, -1, 0, 0, 2), 200_000
    ranks = rank_law(loss, 2)
    answers = select_quantiles(copy_rows(rows, 2, draws), [q], np.full(draws, count), ranks)
    target = int(ranks.aims(q, np.array([count]))[0]) + len(rows) - count
    for part in (Fraction(1), Fraction(1, 2)):
        chances = block_law(rows, range(-2, 3), target, loss.share(part).selection(1))
        law = {(index - 2,): float(p) for index, p in enumerate(chances)}
        assert fit_together(answers, law) == (part == 1)


def law_of_three(rows, aims, count, mechanism):
    """Return the law of three answers: the middle one, then one up to it and one from it on."""
    low, middle, high = aims
    edge, law = middle + 1, {}
    candidates = range(-2, 3)
    for choice, p in zip(
        candidates, block_law(rows, candidates, middle - count + len(rows), mechanism), strict=True
    ):
        below, above = [r for r in rows if r <= choice], [r for r in rows if r > choice]
        lower, upper = range(-2, choice + 1), range(choice, 3)
        targets = (
            low - edge // 2 + len(below),
            high - edge - (2 * count - edge) // 2 + len(above),
        )
        first = block_law(below, lower, targets[0], mechanism)
        last = block_law(above, upper, targets[1], mechanism)
        for (a, pa_), (b, pb) in itertools.product(
            zip(lower, first, strict=True), zip(upper, last, strict=True)
        ):
            law[a, choice, b] = law.get((a, choice, b), 0.0) + float(p * pa_ * pb)
    return law


@pytest.mark.parametrize("loss", [Epsilon(Fraction(4)), Rho(Fraction(2))], ids=["epsilon", "rho"])
def test_three_quantiles_have_their_law(loss, monkeypatch):
    """1e5 triples of answers fit the exact law of both rounds, and that of no other loss.

    A bin has one position here, so that all rows of a value stay with the answer below.
    """
    monkeypatch.setattr(quantile, "TIES", 1)
    rows, draws = (-2, -1, -1, 0, 0, 0, 2), 100_000
    ranks = rank_law(loss, 2, 3)
    answers = select_quantiles(copy_rows(rows, 2, draws), QUARTILES, np.full(draws, 6), ranks)
    aims = [int(ranks.aims(q, np.array([6]))[0]) for q in QUARTILES]
    for part in (Fraction(1), Fraction(3, 4)):
        law = law_of_three(rows, aims, 6, loss.share(part).selection(1))
        assert fit_together(answers, law) == (part == 1)


def test_many_quantiles_pass_an_audit(violation):
    """Samples of a count and seven quantiles with one row more show no loss above epsilon.

    It sets at most 768 limits at 1e-9 each: a false-alarm rate below 1e-6.
    """
    qs, epsilon, draws = [Fraction(i, 8) for i in range(1, 8)], Fraction(1), 100_000
    share = Epsilon(epsilon / 8)
    pair = []
    for rows in ((-3, -3, -1, 0, 2), (-3, -3, -1, 0, 2, 3)):
        counts = add_to(np.full(draws, len(rows)), share.noise(1, 1))
        answers = select_quantiles(copy_rows(rows, 3, draws), qs, counts, rank_law(share, 3, 7))
        pair.append(7 ** np.arange(7) @ (answers + 3) * 3 + np.sign(counts - 5))
    assert violation(*pair, float(epsilon), 0.0) <= 0


class OneApart(EndsLaw):
    """Ends one rank from the level, so that few rows are enough for them to differ."""

    def aim_distance(self, q, position, side):
        """Return one rank."""
        return 1


@pytest.mark.parametrize("part", [4, 2])
def test_ends_and_their_count_pass_an_audit(violation, part):
    """Samples of a count, two ends and the rows between them show no loss above epsilon.

    Where each costs twice its quarter samples show more. At most 1,000 limits at 1e-9 each.
    """
    epsilon, draws = Fraction(2), 200_000
    share = Epsilon(epsilon / part)
    noise = share.noise(1, 1)
    law = OneApart(share, noise, noise, 1)
    pair = []
    for rows in ((-3, -3, -1, 0), (-3, -3, -1, 0, 3)):
        counts = add_to(np.full(draws, len(rows)), noise)
        ((ends,), between) = select_ends(copy_rows(rows, 3, draws), [Fraction(1, 2)], counts, law)
        above = np.clip(between.coordinates[2], -1, 3)
        pair.append((7 * (ends.low + 3) + ends.high + 3) * 10 + 2 * above + (counts > 4))
    assert (violation(*pair, float(epsilon), 0.0) <= 0) == (part == 4)


def test_sizes_pass_an_audit(violation):
    """The octave of all groups that stands out shows no more than epsilon, and hardly less.

    Counts are one below the least that stands out and at it: 4,000 draws, limits at 1e-9.
    """
    grid, loss = SignificantBits(8), Epsilon(Fraction(3))
    noise, pair = loss.noise(1, 1), []
    for rows in (3, 4):
        zeros, ones = np.zeros(rows, np.int64), np.ones(rows, np.int64)
        table = bin_table(pa.table({}), 1, grid, zeros, grid.labels(np.full(rows, 8.0)), rows=ones)
        magnitudes = [find_magnitudes(table, noise) for _ in range(4_000)]
        pair.append(
            np.array([0 if magnitude is None else magnitude.last for magnitude in magnitudes])
        )
    assert violation(*pair, 3.0, 0.0) <= 0
    assert violation(*pair, 1.5, 0.0) > 0
