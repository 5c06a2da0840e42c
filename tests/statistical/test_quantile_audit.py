"""Quantiles cost what they say: exact laws on neighbouring data, and samples against these laws.

Losses are those of the code; laws follow from them by enumeration (docs/selection.md). Tests that
draw compare at 1e-9 and less than 100 times, a false-alarm rate below 1e-6.
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
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.selection import ExponentialMechanism
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators.quantile import (
    EndsLaw,
    RankLaw,
    largest_loss,
    rank_runs,
    ranked_rows,
    select_ends,
    select_quantiles,
)


@pytest.fixture(autouse=True)
def _permitted():
    """Let choices be drawn outside of a release."""
    with permit("a test"):
        yield


ALPHA = 1e-9
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


# Exact laws


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
    return RankLaw(loss, loss.noise(1, 1), 2 * last + 1, levels, 15.0)


# One quantile


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


def test_the_audit_has_power():
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
@pytest.mark.parametrize("q", [Fraction(0), Fraction(1, 3), Fraction(1, 2)], ids=str)
@pytest.mark.parametrize("known", [2, 5])
def test_one_quantile_has_its_law(loss, q, known):
    """2e5 choices fit the exact law of the selection, and not that of half the loss."""
    rows, draws = (-2, -1, 0, 0, 2), 200_000
    ranks = rank_law(loss, 2)
    answers = select_quantiles(table_of(rows, 2, draws), [q], np.full(draws, known), ranks)
    for part in (Fraction(1), Fraction(1, 2)):
        other = RankLaw(loss.share(part), ranks.noise, 5, 1, 15.0)
        law = {
            (place - 2,): float(p) for place, p in enumerate(single_law(rows, q, other, 2, known))
        }
        assert fits(answers, law) == (part == 1)


# Many quantiles


@pytest.mark.parametrize("loss", [Epsilon(Fraction(4)), Rho(Fraction(2))], ids=["epsilon", "rho"])
def test_three_quantiles_have_their_law(loss):
    """1e5 triples of answers are three independent choices in order, and of no other loss."""
    rows, draws = (-2, -1, -1, 0, 0, 0, 2), 100_000
    ranks = rank_law(loss, 2, 3)
    answers = select_quantiles(table_of(rows, 2, draws), QUARTILES, np.full(draws, 6), ranks)
    for part in (Fraction(1), Fraction(3, 4)):
        other = RankLaw(loss.share(part), ranks.noise, 5, 3, 15.0)
        each = [single_law(rows, q, other, 2, 6) for q in QUARTILES]
        law = {}
        for places in itertools.product(range(5), repeat=3):
            chosen = tuple(sorted(place - 2 for place in places))
            p = math.prod(own[place] for own, place in zip(each, places, strict=True))
            law[chosen] = law.get(chosen, 0.0) + float(p)
        assert fits(answers, law) == (part == 1)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("part", [4, 2])
def test_ends_and_their_count_pass_an_audit(violation, part):
    """Samples of a count, two ends and the rows between them show no loss above epsilon.

    Where each costs twice its quarter samples show more. At most 1,000 limits at 1e-9 each.
    """
    epsilon, draws = Fraction(2), 200_000
    each = Epsilon(epsilon / part)
    noise = each.noise(1, 1)
    law = OneApart(each, noise, noise, 7, 1)
    pair = []
    for held in ((-3, -3, -1, 0), (-3, -3, -1, 0, 3)):
        counts = add_to(np.full(draws, len(held)), noise)
        ((ends,), between) = select_ends(table_of(held, 3, draws), [Fraction(1, 2)], counts, law)
        above = np.clip(between.coordinates[2], -1, 3)
        pair.append((7 * (ends.low + 3) + ends.high + 3) * 10 + 2 * above + (counts > 4))
    assert (violation(*pair, float(epsilon), 0.0) <= 0) == (part == 4)
