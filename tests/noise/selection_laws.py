"""The exact laws of selections, candidate by candidate, and whether counts fit them."""

import itertools
import math

import numpy as np
import pytest
from flint import ctx
from scipy import stats

from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip
from tests.noise.exact_references import ball

ALPHA = 1e-9
DRAWS = 200_000
MECHANISMS = [ExponentialMechanism, PermuteAndFlip]

both = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.__name__)


def runs_of(*groups):
    """Make runs from groups of (first, length, loss)."""
    flat = [run for group in groups for run in group]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    columns = np.array(flat, np.int64).reshape(-1, 3).T.copy()
    return Runs(np.array(starts, np.int64), *(column.copy() for column in columns))


def repeated(group, count):
    """`count` groups with the same runs."""
    columns = [np.tile(column, count) for column in np.array(group, np.int64).T]
    return Runs(np.arange(count) * len(group), *columns)


def single_candidates(losses):
    return [(candidate, 1, loss) for candidate, loss in enumerate(losses)]


def exponential_law(weights):
    total = sum(weights)
    return [weight / total for weight in weights]


def permute_and_flip_law(acceptances):
    """McKenna and Sheldon's Algorithm 1, over all permutations."""
    law = [acceptances[0] * 0] * len(acceptances)
    for order in itertools.permutations(range(len(acceptances))):
        reached = 1 / (acceptances[0] * 0 + math.factorial(len(acceptances)))
        for candidate in order:
            law[candidate] += reached * acceptances[candidate]
            reached *= 1 - acceptances[candidate]
    return law


def law_of(mechanism, losses):
    """Probability of each candidate in ball arithmetic, from the stated algorithm."""
    ctx.prec = 200
    least = min(losses)
    weights = [(-ball(mechanism.rate * (loss - least))).exp() for loss in losses]
    if isinstance(mechanism, ExponentialMechanism):
        return exponential_law(weights)
    return permute_and_flip_law(weights)


def fits(counts, law):
    """Chi-square at 1e-9, bins expecting fewer than 50 joined; certain events are certain."""
    draws, pairs, rest = sum(counts), [], [0, 0.0]
    for count, probability in zip(counts, law, strict=True):
        if draws * float(probability) >= 50:
            pairs.append((count, draws * float(probability)))
        else:
            rest = [rest[0] + count, rest[1] + draws * float(probability)]
    if rest[1] >= 50:
        pairs.append(tuple(rest))
    else:
        assert stats.poisson.sf(rest[0] - 1, max(rest[1], 1e-300)) > ALPHA or rest[0] == 0
    if len(pairs) < 2:
        return True
    statistic = sum((count - expected) ** 2 / expected for count, expected in pairs)
    return stats.chi2.sf(statistic, len(pairs) - 1) > ALPHA


def is_uniform(values, length):
    """Fit at most 64 equal shares of [0, length)."""
    bins = min(length, 64)
    edges = [-(-part * length // bins) for part in range(bins + 1)]
    counts = np.bincount(np.searchsorted(edges, values, side="right") - 1, minlength=bins)
    return fits(counts.tolist(), [(b - a) / length for a, b in itertools.pairwise(edges)])
