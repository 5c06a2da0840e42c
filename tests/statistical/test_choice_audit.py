"""Choices cost what they say: exact laws on neighbouring data, and samples against these laws.

A watched call hands over the mechanisms that it runs, with their rates, and what they choose from:
these give the exact law of its choices, by quadrature or enumeration. Losses of quantiles are those
of the code; laws follow from them by enumeration (docs/explanation/selection.md). Neighbours differ
by one row.
Tests that draw compare at 1e-9 and less than 100 times, or say how often: a false-alarm rate below
1e-6.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.noise.selection import ExponentialMechanism, Selection
from dfprivacy.papers import subset_optimal
from dfprivacy.papers.monotone import QuantileLength, monotone_estimate, trimmed_rank
from dfprivacy.papers.subset_optimal import dick_bounds, subset_bounds, window_threshold
from dfprivacy.statistics.estimators import quantile
from dfprivacy.statistics.estimators.monotone import CentreLength, select_monotone
from dfprivacy.statistics.estimators.quantile import (
    EndsLaw,
    RankLaw,
    find_magnitudes,
    largest_loss,
    rank_runs,
    ranked_rows,
    select_ends,
    select_quantiles,
)
from dfprivacy.statistics.estimators.threshold import select_thresholds, threshold_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("permitted")]


@pytest.fixture
def watched(monkeypatch):
    """Return the laws of the choices that a call makes; the choices themselves are forced."""

    def watch(call, *forced):
        seen = []

        def select(mechanism, runs, entropy=None):
            seen.append((mechanism, runs))
            return np.full(len(runs.group_starts), forced[len(seen) - 1], np.int64)

        monkeypatch.setattr(Selection, "select", select)
        call()
        assert len(seen) == len(forced)
        return [law(*choice) for choice in seen], [m.epsilon(sensitivity=1) for m, _ in seen]

    return watch


EPSILON = Epsilon(Fraction(3, 2))


RHO = Rho(Fraction(1, 8))


LOSSES = [EPSILON, RHO]


SLACK = 1e-9


SPOTS = [-1e300, -2.0, 1.0, 1e300]


ROWS = [*SPOTS, math.inf, math.nan, 0.0]


SMALL = [d for n in range(3) for d in itertools.combinations_with_replacement(SPOTS, n)]


LARGE = [(1.0,) * 60, (-1e300,) * 40 + (1e300,) * 30, (*np.linspace(-2, 2, 50),), (0.0,) * 3]


def columns(rows):
    return np.array(rows, np.float64), np.ones(len(rows), np.int64)


def one_group(rows, bits):
    values, counts = columns(rows)
    grid, group = SignificantBits(bits), np.zeros(len(rows), np.int64)
    return bin_table(pa.table({}), 1, grid, group, grid.labels(values), rows=counts)


MEDIAN = QuantileLength(0.5)
ALPHA = 1e-9


def panels():
    """Nodes and weights of Gauss's rule on [2**-(k+1), 2**-k], k < 120."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    widths = 2.0 ** -np.arange(1, 121)[:, None]
    return (widths * (1 + (nodes + 1) / 2)).ravel(), (widths * weights / 2).ravel()


NODES, WEIGHTS = panels()


def law(mechanism, runs):
    """First candidate of each run, and the probability of each of its candidates.

    Permute-and-flip: the integral over [0, 1] of p * product of (1 - p_j v) over the others
    (tests/noise/test_selection.py proves it equal to McKenna and Sheldon's Algorithm 1).
    """
    p = np.exp(-float(mechanism.rate) * (runs.loss - runs.loss.min()))
    if isinstance(mechanism, ExponentialMechanism):
        each = p / (runs.length * p).sum()
    else:
        missed = np.log1p(-np.outer(NODES, p))
        alone = np.exp((missed @ runs.length)[:, None] - missed)
        each = p * (WEIGHTS @ alone)
    assert (runs.length * each).sum() == pytest.approx(1, abs=1e-9)
    assert (runs.first[1:] == runs.first[:-1] + runs.length[:-1]).all()
    return runs.first, each


def log_ratio(one, other):
    """Return the largest |ln P(c) / P'(c)| over all candidates."""
    edges = np.union1d(one[0], other[0])
    probabilities = [
        each[np.searchsorted(first, edges, side="right") - 1] for first, each in (one, other)
    ]
    return float(np.abs(np.log(probabilities[0]) - np.log(probabilities[1])).max())


def audit(watched, call, losses, *forced, datasets=(*SMALL, *LARGE)):
    """Every dataset with and without each further row: each choice stays within its epsilon."""
    largest = [0.0] * len(forced)
    for rows in datasets:
        own, epsilons = watched(lambda rows=rows: call(rows), *forced)
        for row in ROWS:
            more, same = watched(lambda row=row, rows=rows: call((*rows, row)), *forced)
            assert epsilons == same == losses
            for step, (one, other) in enumerate(zip(own, more, strict=True)):
                ratio = log_ratio(one, other)
                assert ratio <= float(losses[step]) * (1 + SLACK) + SLACK
                largest[step] = max(largest[step], ratio)
    return largest


def epsilons_of(loss, *parts):
    """Return the epsilon that each choice is to be run with."""
    if isinstance(loss, Epsilon):
        return [loss.value * Fraction(part) for part in parts]
    return [ExponentialMechanism.for_rho(loss.value * Fraction(p), 1).epsilon(1) for p in parts]


# Thresholds, and the bounds made of them


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
@pytest.mark.parametrize("rank", [1, 25])
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
    terms = {"bounds": Bounds(lower, upper), "alpha": alpha, "side": side, "loss": EPSILON}

    def call(rows):
        window_threshold(*columns(rows), rank, **terms)

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
    monkeypatch.setattr(subset_optimal, "least_rows", lambda *_: count)
    step = EPSILON.value * Fraction(3, 10)

    def call(rows):
        _, left = dick_bounds(*columns(rows), EPSILON, radius=8, gamma=0.1)
        assert left.value == step

    audit(watched, call, [step, step], -5, 11)


def test_the_count_of_dick_bounds(monkeypatch):
    """The rows reach the constants through one noisy count alone, of a tenth of epsilon."""
    for rows in (*SMALL, *LARGE):
        seen = []

        def add_to(exact, noise, seen=seen):
            seen.append((exact.tolist(), noise))
            return exact * 0

        monkeypatch.setattr(subset_optimal, "add_to", add_to)
        loss = Epsilon(Fraction(2))
        bounds = dick_bounds(*columns((*rows, math.nan)), loss, radius=8, gamma=0.1)
        assert seen == [([len(rows)], DiscreteLaplace(Fraction(5)))]
        assert bounds == (Bounds(-8, 8), Epsilon(Fraction(9, 5)))


# Monotone properties


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    ("functional", "domain"),
    [(MEDIAN, (-2, 2)), (CentreLength(2), (-1e300, 1e300)), (CentreLength(1.5), (-2, 2))],
    ids=str,
)
def test_monotone_selection(watched, functional, domain, loss):
    """Choices by lengths keep epsilon, or the epsilon that rho buys."""

    def call(rows):
        select_monotone(functional, *columns(rows), domain, loss, intervals=16)

    expected = epsilons_of(loss, 1)
    if isinstance(loss, Rho):
        assert expected[0] ** 2 / 8 <= loss.value
    (largest,) = audit(watched, call, expected, 0, datasets=[*SMALL[::4], *LARGE])
    assert largest > float(expected[0]) / 2


@pytest.mark.parametrize("functional", [MEDIAN, CentreLength(3)], ids=str)
def test_monotone_selection_on_the_fine_grid(watched, functional):
    """The same with 4,097 candidates."""

    def call(rows):
        select_monotone(functional, *columns(rows), (-4, 4), EPSILON)

    audit(watched, call, [EPSILON.value], 0, datasets=[(), (1.0,), *LARGE[2:]])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("ends", [(-1, 1), (9, -70_000), (-8_000_000, 8_000_000)], ids=str)
def test_monotone_estimate(watched, loss, ends):
    """Two thresholds, then a choice between them, whatever they came out as: the shares add up."""

    def call(rows):
        monotone_estimate(CentreLength(2), *columns(rows), loss, intervals=16)

    shares = ["1/4", "1/4", "1/2"]
    audit(watched, call, epsilons_of(loss, *shares), *ends, 0, datasets=[*SMALL[::4], *LARGE])
    assert sum(map(Fraction, shares)) == 1


def test_rows_beyond_the_bounds_are_dropped(watched):
    """What the property sees of a row depends on the bounds and on that row alone.

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
        watched(lambda rows=rows: monotone_estimate(Spy(0.5), *columns(rows), RHO), high, low, 0)
        assert seen.pop() == sum(x in inner for x in rows)


def test_the_rank_of_monotone_estimates():
    """Seven quarters of r = (8/epsilon) log(m/1e-6), epsilon that of a threshold: for both losses.

    The error of such a threshold, (2/epsilon) log(m/1e-6), is r/4, so that its rank is in the
    band [3r/2, 2r] of the paper's proof.
    """
    for quarter in (Epsilon(Fraction(1, 4)), Rho(Fraction(1, 32))):
        logarithm = math.log(2_001 * 10**6)
        epsilon = float(epsilons_of(quarter, 1)[0])
        r, error = 8 / epsilon * logarithm, 2 / epsilon * logarithm
        rank = trimmed_rank(quarter, 2_001)
        assert rank == math.ceil(7 * r / 4)
        assert 3 * r / 2 <= rank - error <= rank + error <= 2 * r + 1


def test_other_groups_do_not_matter():
    """The candidates and losses of a group are the same whatever rows other groups have."""
    grid = SignificantBits(5)
    laws = []
    for others in ([], [3.0] * 50):
        values = np.array([1.0, 2.0, 2.0, *others])
        group = np.array([1, 1, 1, *([0, 2] * 25 if others else [])], np.int64)
        table = bin_table(
            pa.table({"g": [0, 1, 2]}),
            3,
            grid,
            group,
            grid.labels(values),
            rows=np.ones_like(group),
        )
        laws.append(captured(table))
    assert laws[0] == laws[1]


def captured(table):
    runs = threshold_runs(table, 2, "lower")
    ends = np.append(runs.group_starts, len(runs.first))
    part = slice(ends[1], ends[2])
    return runs.first[part].tolist(), runs.length[part].tolist(), runs.loss[part].tolist()


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
    none = columns(())
    points = [select_monotone(MEDIAN, *none, (0, 4), EPSILON, intervals=4) for _ in range(600)]
    counts = np.bincount(np.array(points, np.int64), minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-9
    assert -(2.0**126) <= monotone_estimate(CentreLength(2), *none, EPSILON) <= 2.0**126


# Quantiles


ROUNDING = 1e-9
QUARTILES = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
LEVELS = [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)]


@dataclass(frozen=True)
class Line:
    """The integers from -last to last, each its own label."""

    last: int

    def numbers(self, labels):
        return labels.astype(np.int64)


def table_of(rows, last, copies=1):
    """Make a table of groups with the same rows."""
    group = np.repeat(np.arange(copies), len(rows))
    labels = np.tile(np.array(rows, float), copies)
    ones = np.ones(len(labels), np.int64)
    return bin_table(pa.table({}), copies, Line(last), group, labels, rows=ones)


def neighbours(last, most):
    """Yield every small data set with each of its neighbours of one row more."""
    values = range(-last, last + 1)
    for size in range(most):
        for rows in itertools.combinations_with_replacement(values, size):
            for row in values:
                yield rows, tuple(sorted((*rows, row)))


@functools.cache
def permute_and_flip_law(acceptances):
    """McKenna and Sheldon's Algorithm 1, over all permutations."""
    law = np.zeros(len(acceptances))
    for order in itertools.permutations(range(len(acceptances))):
        reached = 1 / math.factorial(len(acceptances))
        for candidate in order:
            law[candidate] += reached * acceptances[candidate]
            reached *= 1 - acceptances[candidate]
    return law


def single_law(rows, q, law, last, known):
    """Return the law of a choice among all candidates, when `known` rows were counted."""
    held, mechanism = ranked_rows(table_of(rows, last)), law.selection
    target = law.aims(q, np.array([known])) + len(rows) - known
    runs = rank_runs(held, target, largest_loss(mechanism))
    losses = np.repeat(runs.loss, runs.length)
    weights = np.exp(-float(mechanism.rate) * (losses - losses.min()))
    if isinstance(mechanism, ExponentialMechanism):
        return weights / weights.sum()
    return permute_and_flip_law(tuple(weights.tolist()))


def rank_law(loss, last, levels=1):
    """Return the law of levels that pay for `loss` each, beside a count that pays as much."""
    return RankLaw(loss, loss.noise(1, 1), 2 * last + 1, levels)


@pytest.mark.parametrize("q", LEVELS, ids=str)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(4)], ids=str)
def test_epsilon_of_one_quantile(q, epsilon):
    """No neighbour changes a probability by more than exp(epsilon), whatever was counted."""
    ranks = rank_law(Epsilon(epsilon), 1)
    law = functools.cache(lambda rows, known: single_law(rows, q, ranks, 1, known))
    for (rows, other), known in itertools.product(neighbours(1, 5), (0, 1, 3, 6)):
        worst = np.abs(np.log(law(rows, known) / law(other, known))).max()
        assert worst <= float(epsilon) + ROUNDING


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_rho_of_one_quantile(q):
    """No neighbour has a Renyi divergence above order * rho, whatever was counted."""
    rho = Fraction(1, 2)
    ranks = rank_law(Rho(rho), 2)
    law = functools.cache(lambda rows, known: single_law(rows, q, ranks, 2, known))
    for pair, known in itertools.product(neighbours(2, 4), (0, 2, 5)):
        for rows, other in (pair, pair[::-1]):
            one, two = law(rows, known), law(other, known)
            for order in (1.01, 2, 8, 64):
                total = (one**order * two ** (1 - order)).sum()
                assert math.log(total) / (order - 1) <= order * float(rho) + ROUNDING


def test_the_audit_of_quantiles_has_power():
    """A selection that pays for half of its loss only is found out."""
    epsilon = Fraction(4)
    ranks = rank_law(Epsilon(2 * epsilon), 1)
    law = functools.cache(lambda rows: single_law(rows, Fraction(1, 2), ranks, 1, 3))
    worst = max(np.abs(np.log(law(a) / law(b))).max() for a, b in neighbours(1, 5))
    assert worst > float(epsilon) + Fraction(1, 4)


def fits(answers, law):
    """Chi-square at 1e-9, answers expected fewer than 50 times joined."""
    seen, counts = np.unique(answers, axis=1, return_counts=True)
    found = dict(zip(map(tuple, seen.T.tolist()), counts.tolist(), strict=True))
    assert set(found) <= set(law)
    draws = answers.shape[1]
    pairs = [(found.get(chosen, 0), draws * p) for chosen, p in law.items()]
    rare = [pair for pair in pairs if pair[1] < 50]
    pairs = [pair for pair in pairs if pair[1] >= 50]
    if sum(expected for _, expected in rare) >= 50:
        pairs.append(tuple(map(sum, zip(*rare, strict=True))))
    statistic = sum((count - expected) ** 2 / expected for count, expected in pairs)
    return len(pairs) > 1 and stats.chi2.sf(statistic, len(pairs) - 1) > ALPHA


@pytest.mark.parametrize("loss", [Epsilon(Fraction(2)), Rho(Fraction(1, 2))], ids=str)
@pytest.mark.parametrize(("q", "known"), [(Fraction(1, 3), 2), (Fraction(1, 2), 5)], ids=str)
def test_one_quantile_has_its_law(loss, q, known):
    """2e5 choices fit the exact law of the selection, and not that of half the loss.

    Of five rows the middle one is aimed at, whichever quantile is asked for.
    """
    rows, draws = (-2, -1, 0, 0, 2), 200_000
    ranks = rank_law(loss, 2)
    answers = select_quantiles(table_of(rows, 2, draws), [q], np.full(draws, known), ranks)
    for part in (Fraction(1), Fraction(1, 2)):
        other = RankLaw(loss.share(part), ranks.noise, 5, 1)
        law = {
            (place - 2,): float(p) for place, p in enumerate(single_law(rows, q, other, 2, known))
        }
        assert fits(answers, law) == (part == 1)


def block_law(rows, candidates, target, mechanism):
    """Return the law of a choice among candidates by the ranks of some rows."""
    losses = [
        max(0, 2 * sum(r < c for r in rows) - target, target - 2 * sum(r <= c for r in rows))
        for c in candidates
    ]
    losses = np.minimum(losses, largest_loss(mechanism))
    weights = np.exp(-float(mechanism.rate) * (losses - losses.min()))
    if isinstance(mechanism, ExponentialMechanism):
        return weights / weights.sum()
    return permute_and_flip_law(tuple(weights.tolist()))


def law_of_three(rows, aims, known, mechanism):
    """Return the law of three answers: the middle one, then one up to it and one from it on."""
    low, middle, high = aims
    edge, law = middle + 1, {}
    candidates = range(-2, 3)
    for choice, p in zip(
        candidates, block_law(rows, candidates, middle - known + len(rows), mechanism), strict=True
    ):
        below, above = [r for r in rows if r <= choice], [r for r in rows if r > choice]
        lower, upper = range(-2, choice + 1), range(choice, 3)
        targets = (
            low - edge // 2 + len(below),
            high - edge - (2 * known - edge) // 2 + len(above),
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
    answers = select_quantiles(table_of(rows, 2, draws), QUARTILES, np.full(draws, 6), ranks)
    aims = [int(ranks.aims(q, np.array([6]))[0]) for q in QUARTILES]
    for part in (Fraction(1), Fraction(3, 4)):
        law = law_of_three(rows, aims, 6, loss.share(part).selection(1))
        assert fits(answers, law) == (part == 1)


def test_many_quantiles_pass_an_audit(violation):
    """Samples of a count and seven quantiles with one row more show no loss above epsilon.

    It sets at most 768 limits at 1e-9 each: a false-alarm rate below 1e-6.
    """
    qs, epsilon, draws = [Fraction(i, 8) for i in range(1, 8)], Fraction(1), 100_000
    each = Epsilon(epsilon / 8)
    pair = []
    for held in ((-3, -3, -1, 0, 2), (-3, -3, -1, 0, 2, 3)):
        counts = add_to(np.full(draws, len(held)), each.noise(1, 1))
        answers = select_quantiles(table_of(held, 3, draws), qs, counts, rank_law(each, 3, 7))
        pair.append(7 ** np.arange(7) @ (answers + 3) * 3 + np.sign(counts - 5))
    assert violation(*pair, float(epsilon), 0.0) <= 0


class OneApart(EndsLaw):
    """Ends one rank from the level, so that few rows are enough for them to differ."""

    def apart(self, q, place, side):
        """Return one rank."""
        return 1


@pytest.mark.parametrize("part", [4, 2])
def test_ends_and_their_count_pass_an_audit(violation, part):
    """Samples of a count, two ends and the rows between them show no loss above epsilon.

    Where each costs twice its quarter samples show more. At most 1,000 limits at 1e-9 each.
    """
    epsilon, draws = Fraction(2), 200_000
    each = Epsilon(epsilon / part)
    noise = each.noise(1, 1)
    law = OneApart(each, noise, noise, 1)
    pair = []
    for held in ((-3, -3, -1, 0), (-3, -3, -1, 0, 3)):
        counts = add_to(np.full(draws, len(held)), noise)
        ((ends,), between) = select_ends(table_of(held, 3, draws), [Fraction(1, 2)], counts, law)
        above = np.clip(between.coordinates[2], -1, 3)
        pair.append((7 * (ends.low + 3) + ends.high + 3) * 10 + 2 * above + (counts > 4))
    assert (violation(*pair, float(epsilon), 0.0) <= 0) == (part == 4)


def test_sizes_pass_an_audit(violation):
    """Whether an octave of all groups stands out shows no more than epsilon, and hardly less.

    Counts are one below the least that stands out and at it: 4,000 draws, limits at 1e-9.
    """
    grid, loss = SignificantBits(8), Epsilon(Fraction(3))
    noise, pair = loss.noise(1, 1), []
    for rows in (3, 4):
        zeros, ones = np.zeros(rows, np.int64), np.ones(rows, np.int64)
        table = bin_table(pa.table({}), 1, grid, zeros, grid.labels(np.full(rows, 8.0)), rows=ones)
        found = [find_magnitudes(table, noise) for _ in range(4_000)]
        pair.append(np.array([0 if own is None else own.last for own in found]))
    assert violation(*pair, 3.0, 0.0) <= 0
    assert violation(*pair, 1.5, 0.0) > 0
