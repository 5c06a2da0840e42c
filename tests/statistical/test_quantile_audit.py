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
from dfprivacy.estimators.quantile import (
    COUNT_SHARE,
    _children,
    _targets,
    cells_of,
    inherit,
    largest_loss,
    outer_rows,
    rank_runs,
    relative_score,
    select_quantiles,
    tree_layers,
)
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.noise.selection import ExponentialMechanism

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


def law_of(mechanism, cells, scale, target):
    """Return the law of a cell's choice: all of its candidates, and their probabilities."""
    runs = rank_runs(cells, scale, np.array([target]), largest_loss(mechanism))
    losses = np.repeat(runs.loss, runs.length)
    firsts = zip(runs.first.tolist(), runs.length.tolist(), strict=True)
    candidates = [first + i for first, length in firsts for i in range(length)]
    weights = np.exp(-float(mechanism.rate) * (losses - losses.min()))
    if isinstance(mechanism, ExponentialMechanism):
        return candidates, weights / weights.sum()
    return candidates, permute_and_flip_law(tuple(weights.tolist()))


def single_law(rows, q, loss, last):
    cells = cells_of(table_of(rows, last))
    law, targets = relative_score(q, cells.totals(), loss, 2 * last + 1)
    return law_of(law, cells, q.denominator, int(targets[0]))[1]


def log_noise(loss, drawn):
    """Return the log-probability of integer noise of sensitivity 1."""
    noise = loss.noise(1, 1)
    if isinstance(loss, Epsilon):
        a = math.exp(-1 / noise.scale)
        return math.log((1 - a) / (1 + a)) - abs(drawn) / float(noise.scale)
    span = np.arange(-400, 401)
    logs = -(span**2) / (2 * float(noise.sigma_squared))
    return -(drawn**2) / (2 * float(noise.sigma_squared)) - math.log(np.exp(logs).sum())


# One quantile


@pytest.mark.parametrize("q", LEVELS, ids=str)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(4)], ids=str)
def test_epsilon_of_one_quantile(q, epsilon):
    """No neighbour changes a probability by more than exp(epsilon), on all small data sets."""
    law = functools.cache(lambda rows: single_law(rows, q, Epsilon(epsilon), 1))
    for rows, other in neighbours(1, 5):
        assert np.abs(np.log(law(rows) / law(other))).max() <= float(epsilon) + ROUNDING


@pytest.mark.parametrize("q", LEVELS, ids=str)
def test_rho_of_one_quantile(q):
    """No neighbour has a Renyi divergence above order * rho, on all small data sets."""
    rho = Fraction(1, 2)
    law = functools.cache(lambda rows: single_law(rows, q, Rho(rho), 2))
    for pair in neighbours(2, 4):
        for rows, other in (pair, pair[::-1]):
            for order in (1.01, 2, 8, 64):
                total = (law(rows) ** order * law(other) ** (1 - order)).sum()
                assert math.log(total) / (order - 1) <= order * float(rho) + ROUNDING


def test_the_audit_has_power():
    """A selection that pays for half of its loss only is found out."""
    q, epsilon = Fraction(1, 2), Fraction(4)
    law = functools.cache(lambda rows: single_law(rows, q, Epsilon(2 * epsilon), 1))
    worst = max(np.abs(np.log(law(a) / law(b))).max() for a, b in neighbours(1, 5))
    assert worst > float(epsilon) + Fraction(1, 4)


# Many quantiles


class Transcripts:
    """The law of all that three quantiles of one data set release, in the two layers of their tree.

    The root's answer, two noisy counts, then an answer in each half.
    """

    def __init__(self, rows, loss, last):
        nodes = tree_layers(3)[0]
        share = loss.share(Fraction(1, 2))
        self.children = _children(nodes)
        self.count, self.final = share.share(COUNT_SHARE), share.selection(2)
        self.cells = cells_of(table_of(rows, last))
        self.root = single_law(rows, QUARTILES[1], share.share(1 - COUNT_SHARE), last)
        self.answers = range(-last, last + 1)
        self.law = functools.cache(self._law)

    def halves(self, answer):
        return self.cells.split(np.array([answer]), self.children)

    def counts(self, answer):
        return self.cells.counts(np.array([answer]))[:, 0].tolist()

    def _law(self, answer, side, target):
        return law_of(self.final, self.halves(answer).part(slice(side, side + 1)), 2, target)

    def inner(self, answer, upto, above):
        """Return the laws of both inner answers, given the public transcript so far."""
        total, before = np.array([upto + above]), np.zeros(1, np.int64)
        starts = inherit(before, before + upto, self.children)
        outer = 2 * outer_rows(self.final, 2, len(self.answers))
        targets = (_targets(total, QUARTILES[::2], outer) - 2 * starts).tolist()
        return [self.law(answer, side, target) for side, target in enumerate(targets)]


def worst_losses(left, right, window):
    """Yield the largest privacy loss, either way, for each answer and counts of the root."""
    for place, answer in enumerate(left.answers):
        root = math.log(left.root[place] / right.root[place])
        for public in itertools.product(window, repeat=2):
            loss = root
            for seen, one, other in zip(
                public, left.counts(answer), right.counts(answer), strict=True
            ):
                loss += log_noise(left.count, seen - one) - log_noise(left.count, seen - other)
            laws = zip(left.inner(answer, *public), right.inner(answer, *public), strict=True)
            ratios = [np.log(one[1] / other[1]) for one, other in laws]
            yield loss + sum(ratio.max() for ratio in ratios)
            yield -(loss + sum(ratio.min() for ratio in ratios))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(8)], ids=str)
def test_epsilon_of_three_quantiles(epsilon):
    """No neighbour changes the probability of a transcript by more than exp(epsilon)."""
    released = functools.cache(lambda rows: Transcripts(rows, Epsilon(epsilon), 1))
    worst = max(
        max(worst_losses(released(rows), released(other), range(-1, 5)))
        for rows, other in neighbours(1, 4)
    )
    assert float(epsilon) / 2 < worst <= float(epsilon) + ROUNDING


def joint_law(rows, loss, last, reach):
    """Return the law of three answers, summed over noise of size up to `reach`."""
    transcripts, law = Transcripts(rows, loss, last), {}
    noise = [(drawn, math.exp(log_noise(transcripts.count, drawn))) for drawn in reach]
    for answer, root in zip(transcripts.answers, transcripts.root, strict=True):
        upto, above = transcripts.counts(answer)
        for (first, p), (second, r) in itertools.product(noise, repeat=2):
            below, beyond = transcripts.inner(answer, upto + first, above + second)
            for low, s in zip(*below, strict=True):
                for high, t in zip(*beyond, strict=True):
                    chosen = (low, answer, high)
                    law[chosen] = law.get(chosen, 0.0) + root * p * r * s * t
    return law


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
def test_one_quantile_has_its_law(loss, q):
    """2e5 choices fit the exact law of the selection, and not that of half the loss."""
    rows, draws = (-2, -1, 0, 0, 2), 200_000
    answers = select_quantiles(table_of(rows, 2, draws), [q], loss)
    for part in (Fraction(1), Fraction(1, 2)):
        law = single_law(rows, q, loss.share(part), 2)
        named = {(place - 2,): float(p) for place, p in enumerate(law)}
        assert fits(answers, named) == (part == 1)


@pytest.mark.parametrize(
    ("loss", "reach"),
    [(Epsilon(Fraction(9)), range(-18, 19)), (Rho(Fraction(4)), range(-9, 10))],
    ids=["epsilon", "rho"],
)
def test_three_quantiles_have_their_law(loss, reach):
    """1e5 triples of answers fit the exact joint law, summed over all noise, and no other loss."""
    rows, draws = (-2, -1, -1, 0, 0, 0, 2), 100_000
    answers = select_quantiles(table_of(rows, 2, draws), QUARTILES, loss)
    law = joint_law(rows, loss, 2, reach)
    assert abs(sum(law.values()) - 1) < 1e-7
    assert fits(answers, law)
    assert not fits(answers, joint_law(rows, loss.share(Fraction(3, 4)), 2, reach))


@pytest.mark.slow
def test_many_quantiles_pass_an_audit(violation):
    """Samples of seven quantiles with one row more or less show no loss above epsilon.

    It sets at most 768 limits at 1e-9 each: a false-alarm rate below 1e-6.
    """
    qs, epsilon, draws = [Fraction(i, 8) for i in range(1, 8)], Fraction(1), 100_000
    rows = (-3, -3, -1, 0, 2)
    pair = [
        select_quantiles(table_of(held, 3, draws), qs, Epsilon(epsilon))
        for held in (rows, (*rows, 3))
    ]
    weights = 7 ** np.arange(7)
    left, right = (weights @ (answers + 3) for answers in pair)
    assert violation(left, right, float(epsilon), 0.0) <= 0
