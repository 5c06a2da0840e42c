"""Selections choose with the probability that their algorithm states, and cost what they claim.

References are ball arithmetic (python-flint) on the same words, where a failure is a proof, and
enumeration in exact fractions. Tests that draw have a false-alarm rate of at most 1e-9 each.
"""

import copy
import itertools
import math
import os
import pickle
import struct
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy import stats

import dfprivacy as dfp
from dfprivacy.noise import race
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.race import (
    BLOCK,
    EXPONENTIAL,
    UNIFORM,
    Entrant,
    Race,
    Runs,
    certain_keys,
    certain_rivals,
    excess_losses,
    exponential_times,
    first,
    log_uniform_ratio,
    uniform_times,
)
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip, uniform_below
from dfprivacy.noise.uniform import BITS, LazyUniform, Workspace
from tests.noise.exact_references import FILL, TOP, all_digits, ball, end_words

pytestmark = pytest.mark.usefixtures("permitted")


# What keys, winners and laws are compared with


TIMES = [EXPONENTIAL, UNIFORM]
RATE = Fraction(1, 3)


class Played:
    """Random source that gives chosen words, then one word again and again."""

    def __init__(self, words):
        self.words = [word << 1 for word in words]

    def __call__(self, size):
        count = size // 8
        chosen, self.words = self.words[:count], self.words[count:]
        return struct.pack(f"={count}Q", *chosen, *[FILL] * (count - len(chosen)))


def reference_key(uniform, length, level, times):
    """Key of a run in ball arithmetic, from a uniform with all its digits."""
    x = -uniform.log() / length
    arrival = x if times in {EXPONENTIAL, exponential_times} else -(-x).expm1()
    return arrival.log() + ball(level)


def craft_words(count):
    random = (np.frombuffer(system_entropy(8 * count), np.uint64) >> np.uint64(1)).tolist()
    return [*sorted(end_words()), *random]


ALPHA = 1e-9
DRAWS = 100_000
MECHANISMS = [ExponentialMechanism, PermuteAndFlip]
both = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.__name__)


def build_runs(*groups):
    """Make runs from groups of (first, length, loss)."""
    flat = [run for group in groups for run in group]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    columns = np.array(flat, np.int64).reshape(-1, 3).T.copy()
    return Runs(np.array(starts, np.int64), *(column.copy() for column in columns))


def repeat_groups(group, count):
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


def find_law(mechanism, losses):
    """Probability of each candidate in ball arithmetic, from the stated algorithm."""
    ctx.prec = 200
    smallest = min(losses)
    weights = [(-ball(mechanism.rate * (loss - smallest))).exp() for loss in losses]
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


# Keys enclose those of ball arithmetic, in floats and in integers


EXACT_TIMES = [exponential_times, uniform_times]


@pytest.mark.parametrize("times", TIMES, ids=["exponential", "uniform"])
def test_certified_keys_hold_for_the_whole_cell(times):
    """Keys at both ends of the cell of U lie within the error; m = 0 is never decided."""
    words = np.array(craft_words(1000))
    random = np.random.default_rng()
    lengths = (2 ** random.uniform(0, 61.99, len(words))).astype(np.int64)
    lengths[::3] = random.integers(1, 4, len(lengths[::3]))
    gaps = random.integers(0, 200, len(words))
    gaps[::5] = random.integers(0, 2**53, len(gaps[::5]))
    work = Workspace.of(len(words))
    with np.errstate(all="ignore"):
        certain_keys(words, lengths, gaps * float(RATE), times, work)
    ctx.prec = 300
    shift = 56 * arb(2).log()
    decided = 0
    for word, length, gap, value, error in zip(
        *(a.tolist() for a in (words, lengths, gaps, work.value, work.error)), strict=True
    ):
        if not math.isfinite(error):
            assert word == 0 or word > TOP - 2**13
            continue
        decided += 1
        limit = 1e-6 + gap * 1e-12 if 2**20 < word < TOP - 2**30 else 1.1 + gap * 1e-12
        assert 0 < error < limit
        for end in (word, word + 1):
            if end < TOP:
                key = reference_key(arb(fmpq(end, TOP)), length, RATE * gap, times) + shift
                assert abs(key - arb(value)) <= arb(error)
            else:
                assert math.isinf(error)
    assert decided > 1000


def test_ratio_of_uniform_times():
    """ln((1 - exp(-x)) / x) is off by less than 2**-41 for x from 2**-120 to 44."""
    points = np.concatenate([2.0 ** np.linspace(-120, 5.4, 4001), np.linspace(1e-9, 43.9, 3001)])
    ctx.prec = 400
    for x, logarithm in zip(points.tolist(), log_uniform_ratio(points).tolist(), strict=True):
        assert abs((-(-arb(x)).expm1() / arb(x)).log() - arb(logarithm)) < arb(2) ** -41


@pytest.mark.parametrize("times", EXACT_TIMES)
def test_exact_keys_hold_and_shrink(times):
    """Keys of the exact path enclose both ends of the cell, closer with every extension."""
    for word, length, level in itertools.product(
        (1, 12345, TOP // 3, TOP - 2), (1, 3, 10**9, 2**62 - 1), (Fraction(0), Fraction(10**9, 7))
    ):
        entrant = Entrant(LazyUniform(word, BITS, Played([])), length, level)
        widths = []
        for _ in range(3):
            low, high = map(Fraction, entrant.key(times))
            ctx.prec = 700
            bits, mantissa = entrant.uniform.bits, entrant.uniform.mantissa
            ends = [arb(fmpq(mantissa + step, 2**bits)) for step in (0, 1)]
            keys = [reference_key(end, length, level, times) for end in ends]
            assert ball(low) < keys[1] < keys[0] < ball(high)
            widths.append(high - low)
            entrant.extend()
        assert widths == sorted(widths, reverse=True)
        assert widths[-1] < Fraction(1, 2**100)


@pytest.mark.parametrize("times", EXACT_TIMES)
def test_exact_path_appends_digits_until_it_is_sure(times):
    """Equal words are told apart by the digits that follow; those seen before stay."""
    words = iter([5, 5, 900, 8])

    def source(size):
        return struct.pack("=Q", next(words))

    entrants = [Entrant(LazyUniform(TOP // 2, BITS, source), 7, Fraction(1)) for _ in range(2)]
    assert first(entrants, times) == 0
    assert [entrant.uniform.bits for entrant in entrants] == [BITS + 128] * 2
    assert all(entrant.uniform.mantissa >> 128 == TOP // 2 for entrant in entrants)


# The winner is that of infinitely precise arithmetic


def reference_winner(words, lengths, levels, times):
    ctx.prec = 1600
    keys = [
        reference_key(arb(all_digits(word)), length, level, times)
        for word, length, level in zip(words, lengths, levels, strict=True)
    ]
    for index, key in enumerate(keys):
        if all(key < other for position, other in enumerate(keys) if position != index):
            return index
    raise AssertionError("more digits needed")


def near_tie(times, word, length, level, other_length, other_level):
    """Return the word that makes a second run arrive with the key of the first, or None."""
    ctx.prec = 700
    key = reference_key(arb(all_digits(word)), length, level, times) - ball(other_level)
    arrival = key.exp()
    if times is UNIFORM:
        if not arrival < 1:
            return None
        arrival = -(-arrival).log1p()
    uniform = (-arrival * other_length).exp() * TOP
    tied_word = int(uniform.floor().unique_fmpz())
    return tied_word if 3 <= tied_word < TOP - 3 else None


LENGTHS = [1, 3, 50, 10**6, 2**62 - 1]


def near_ties(times):
    """(words, lengths, losses) of two runs whose keys differ in the last digits of a word."""
    random = np.random.default_rng(5)
    cases = []
    for length, other_length in itertools.product(LENGTHS, LENGTHS):
        for gap in (0, 1, 20):
            word = int(random.integers(1, TOP))
            if times is EXPONENTIAL:
                balanced = max(0, round(3 * math.log(other_length / length))) + gap
            else:
                balanced = gap
            other = near_tie(times, word, length, 0, other_length, RATE * balanced)
            if other is not None:
                cases += [
                    ((word, other + step), (length, other_length), (0, balanced))
                    for step in (-2, -1, 0, 1, 2)
                    if (length, 0, word) != (other_length, balanced, other + step)
                ]
    assert len(cases) > 80
    return cases


@pytest.mark.parametrize("times", TIMES, ids=["exponential", "uniform"])
@pytest.mark.parametrize("trusted", [True, False], ids=["fast", "exact"])
def test_near_ties_are_decided_exactly(times, trusted, monkeypatch):
    """Runs whose words differ by 2**-63 from a tie: the winner is that of ball arithmetic."""
    if not trusted:
        monkeypatch.setattr(race, "is_certified", lambda: False)
    for words, lengths, losses in near_ties(times):
        runner = Race(times, RATE, 2, Played([]))
        winners = runner.decide(
            np.array(words), np.zeros(1, np.int64), np.array(lengths), np.array(losses)
        )
        levels = [RATE * (loss - min(losses)) for loss in losses]
        assert winners.tolist() == [reference_winner(words, lengths, levels, times)]


@pytest.mark.parametrize("times", TIMES, ids=["exponential", "uniform"])
def test_winners_are_those_of_ball_arithmetic(times):
    """Groups of any shape, words at the ends of the range among them: the exact winner."""
    words = craft_words(200)
    random = np.random.default_rng()
    for _ in range(400):
        size = int(random.integers(1, 6))
        chosen = [int(words[k]) for k in random.choice(len(words), size, replace=False)]
        lengths = [int(2 ** random.uniform(0, 61.9)) for _ in range(size)]
        losses = random.integers(0, 150, size)
        starts = np.zeros(1, np.int64)
        runner = Race(times, RATE, size, Played([]))
        winners = runner.decide(np.array(chosen), starts, np.array(lengths), losses)
        levels = [RATE * gap for gap in excess_losses(losses, starts).tolist()]
        assert winners.tolist() == [reference_winner(chosen, lengths, levels, times)]


@both
@pytest.mark.parametrize("rate", [Fraction(1, 2**500), RATE, Fraction(2**500)], ids=str)
def test_without_the_filter_the_choice_is_the_same(mechanism, rate, monkeypatch):
    """Refusing the certificate changes no choice: the same bytes, the same candidates."""
    random = np.random.default_rng()
    groups = [
        [
            (int(random.integers(-(2**62), 2**62)), int(2 ** random.uniform(0, 61)), int(loss))
            for loss in random.integers(0, random.choice([2, 20, 2**53]), random.integers(1, 9))
        ]
        for _ in range(70)
    ]
    words = craft_words(1000)
    random.shuffle(words)
    runs = build_runs(*groups)
    fast = mechanism(rate).select(runs, Played(words))
    monkeypatch.setattr(race, "is_certified", lambda: False)
    assert fast.tolist() == mechanism(rate).select(runs, Played(words)).tolist()


def test_few_groups_need_the_exact_path():
    """Of 100,000 random groups of 4 runs none is expected on the exact path (below 1e-5)."""
    size = 400_000
    words = (np.frombuffer(system_entropy(8 * size), np.uint64) >> np.uint64(1)).view(np.int64)
    starts = np.arange(0, size, 4)
    lengths = np.random.default_rng().integers(1, 2**40, size)
    for times in TIMES:
        work = Workspace.of(size)
        with np.errstate(all="ignore"):
            certain_keys(words, lengths, np.zeros(size), times, work)
            assert len(certain_rivals(starts, work)) <= len(starts) + 2


# Counts of choices fit the law


@both
@pytest.mark.parametrize(
    "group",
    [
        [(0, 2, 3), (2, 1, 0), (3, 2, 1)],
        [(0, 1, 3), (1, 1, 3), (2, 1, 0), (3, 1, 1), (4, 1, 1)],
        [(4, 1, 1), (0, 2, 3), (3, 1, 1), (2, 1, 0)],
    ],
    ids=["collapsed", "single", "shuffled"],
)
def test_splitting_runs_leaves_the_law(mechanism, group):
    """However equal losses are cut into runs, the law is that of the single candidates."""
    law = mechanism(Fraction(1, 2))
    chosen = law.select(repeat_groups(group, DRAWS))
    assert fits(np.bincount(chosen, minlength=5).tolist(), find_law(law, [3, 3, 0, 1, 1]))


@pytest.mark.parametrize("power", [1, 20, 61])
def test_long_runs_have_the_weight_of_their_candidates(power):
    """One candidate at loss 0 against w at loss c: both laws have a closed form.

    Exponential: 1 / (1 + w p), p = exp(-rate c); permute-and-flip: the chance that the one comes
    first is the integral of (1 - p v)**w over [0, 1], which is (1 - (1-p)**(w+1)) / (p (w+1)).
    """
    ctx.prec = 300
    length, loss = 2**power - 1, round(power * 1000 * math.log(2))
    p = (-ball(Fraction(loss, 1000))).exp()
    laws = {
        ExponentialMechanism: 1 / (1 + length * p),
        PermuteAndFlip: (1 - (1 - p) ** (length + 1)) / (p * (length + 1)),
    }
    for mechanism, probability in laws.items():
        runs = repeat_groups([(-5, 1, 0), (10, length, loss)], DRAWS)
        chosen = mechanism(Fraction(1, 1000)).select(runs)
        alone = int((chosen == -5).sum())
        assert stats.binomtest(alone, DRAWS, float(probability)).pvalue > ALPHA
        rest = chosen[chosen != -5] - 10
        assert rest.min() >= 0
        assert rest.max() < length
        assert is_uniform(rest, length)


def test_the_law_tests_have_power():
    """A rate 5% off, and one law taken for the other, are seen."""
    losses = [0, 1, 2, 3, 4]
    runs = repeat_groups(single_candidates(losses), DRAWS)
    for mechanism in MECHANISMS:
        chosen = mechanism(Fraction(105, 200)).select(runs)
        for stated in MECHANISMS:
            law = find_law(stated(Fraction(1, 2)), losses)
            assert not fits(np.bincount(chosen, minlength=5).tolist(), law)


@both
def test_groups_choose_independently(mechanism):
    """Choices of neighboring groups are independent: 16 pairs fit the product law."""
    law = mechanism(Fraction(1, 2))
    losses = [0, 1, 1, 3]
    chosen = law.select(repeat_groups(single_candidates(losses), DRAWS))
    pairs = np.bincount(chosen[::2] * 4 + chosen[1::2], minlength=16).tolist()
    single = find_law(law, losses)
    assert fits(pairs, [p * q for p in single for q in single])


def arrivals_law(acceptances):
    """P(j) = integral over [0, 1] of p_j * product of (1 - p_i v), i != j: rational numbers."""
    law = []
    for j, p in enumerate(acceptances):
        polynomial = [p]
        for i, q in enumerate(acceptances):
            if i != j:
                shifted = [Fraction(0), *(-q * coefficient for coefficient in polynomial)]
                polynomial = [a + b for a, b in zip([*polynomial, 0], shifted, strict=True)]
        law.append(sum(c / (power + 1) for power, c in enumerate(polynomial)))
    return law


@pytest.mark.parametrize("others", [(), (2,), (1, 3), (3, 3, 8), (1, 2, 2, 9), (5, 7, 10, 10)])
def test_permute_and_flip_is_the_first_of_uniform_arrivals(others):
    """Enumeration over permutations equals the race of uniform times, in exact fractions."""
    acceptances = [Fraction(1), *(Fraction(other, 10) for other in others)]
    law = permute_and_flip_law(acceptances)
    assert law == arrivals_law(acceptances)
    assert sum(law) == 1


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 100, 2**62 - 1, 2**62 - 3, 3 * 2**60])
def test_uniform_below(length):
    """Integers in [0, length) come equally often."""
    draws = uniform_below(np.full(DRAWS, length), system_entropy)
    assert draws.min() >= 0
    assert draws.max() < length
    assert is_uniform(draws, length)


CASES = [
    ([0, 0, 0, 0, 0], Fraction(1)),
    ([0, 1, 2, 3, 4], Fraction(1, 2)),
    ([5, 5, 4, 4, 4], Fraction(7, 10)),
    ([2**53 - 1, 2**53 - 2, 2**53 - 4], Fraction(1, 4)),
    ([0, 2**53 - 1, 2**52], Fraction(1, 2**52)),
    ([1, 0, 2**53 - 1], Fraction(2**500)),
]


@both
@pytest.mark.parametrize(("losses", "rate"), CASES, ids=str)
def test_law_of_single_candidates(mechanism, losses, rate):
    """Counts of 1e5 choices fit the law that enumeration gives for the stated algorithm."""
    law = mechanism(rate)
    chosen = law.select(repeat_groups(single_candidates(losses), DRAWS))
    assert fits(np.bincount(chosen, minlength=len(losses)).tolist(), find_law(law, losses))


@pytest.mark.slow
@both
@pytest.mark.parametrize(("losses", "rate"), CASES[:3], ids=str)
def test_law_of_single_candidates_at_length(mechanism, losses, rate):
    """The same with 1e7 choices, where a rate that is 2% off is seen, but for one of 10**30."""
    runs = repeat_groups(single_candidates(losses), 500_000)
    counts = sum(np.bincount(mechanism(rate).select(runs), minlength=5) for _ in range(20)).tolist()
    assert fits(counts, find_law(mechanism(rate), losses))
    wrong = find_law(mechanism(rate * Fraction(102, 100)), losses)
    assert len(set(losses)) == 1 or not fits(counts, wrong)


# No pair of neighbors costs more than is charged: all small data sets


def median_losses(values, grid=5):
    """Count the records to add or remove until a grid point is a median: sensitivity 1."""
    losses = []
    for point in range(grid):
        below = sum(value < point for value in values)
        above = sum(value > point for value in values)
        equal = len(values) - below - above
        losses.append(max(0, below - above - equal + 1, above - below - equal))
    return losses


def neighbors(grid=5, max_size=4):
    for size in range(max_size):
        for values in itertools.combinations_with_replacement(range(grid), size):
            for value in range(grid):
                yield median_losses(values, grid), median_losses((*values, value), grid)


@both
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)], ids=str)
def test_epsilon_holds_on_all_small_datasets(mechanism, epsilon):
    """No neighboring datasets give any choice probabilities further apart than exp(epsilon)."""
    law = mechanism.for_epsilon(epsilon, sensitivity=1)
    bound = ball(epsilon).exp()
    pairs = {tuple(map(tuple, pair)) for pair in neighbors()}
    largest = 0.0
    for losses, others in pairs:
        assert max(abs(a - b) for a, b in zip(losses, others, strict=True)) <= 1
        for p, q in zip(find_law(law, losses), find_law(law, others), strict=True):
            assert not p / q > bound
            assert not q / p > bound
            largest = max(largest, float(p / q), float(q / p))
    assert math.log(largest) > float(epsilon) / 2


def renyi(alpha, law, other):
    """Renyi divergence of order alpha in ball arithmetic."""
    total = sum(p**alpha * q ** (1 - alpha) for p, q in zip(law, other, strict=True))
    return total.log() / (alpha - 1)


ORDERS = [ball(Fraction(order)) for order in (Fraction(101, 100), 2, 5, 20)]


@both
def test_rho_holds_on_all_small_datasets(mechanism):
    """Renyi divergences of order alpha are at most rho * alpha: exact enumeration."""
    law = mechanism.for_rho(Fraction(1, 8), sensitivity=1)
    rho = ball(law.rho(sensitivity=1))
    for losses, others in neighbors(max_size=3):
        p, q = find_law(law, losses), find_law(law, others)
        for alpha in ORDERS:
            assert not renyi(alpha, p, q) > rho * alpha
            assert not renyi(alpha, q, p) > rho * alpha


def test_permute_and_flip_must_not_be_charged_like_the_exponential_mechanism():
    """Losses (1, 1) and (0, 2) break epsilon**2 / 8 for permute-and-flip by nearly four times."""
    epsilon = Fraction(1, 100)
    divergences = {}
    for mechanism in MECHANISMS:
        law = mechanism.for_epsilon(epsilon, sensitivity=1)
        p, q = find_law(law, [1, 1]), find_law(law, [0, 2])
        divergences[mechanism] = max(renyi(ORDERS[1], p, q), renyi(ORDERS[1], q, p)) / 2
        assert divergences[mechanism] <= ball(law.rho(sensitivity=1))
    assert divergences[PermuteAndFlip] > ball(epsilon**2 / 8) * 39 / 10
    assert divergences[ExponentialMechanism] > ball(epsilon**2 / 8) * 99 / 100


@both
@pytest.mark.parametrize("sensitivity", [1, 3, 10**20])
def test_charges_cover_the_rate(mechanism, sensitivity):
    """The epsilon charged is the one asked for; rho comes out at most, and almost, as asked."""
    law = mechanism.for_epsilon(Fraction(2, 3), sensitivity)
    assert law.rate * 2 * sensitivity == law.epsilon(sensitivity) == Fraction(2, 3)
    divisor = 8 if mechanism is ExponentialMechanism else 2
    assert law.rho(sensitivity) == Fraction(4, 9) / divisor
    for rho in (Fraction(1, 2**60), Fraction(1, 3), Fraction(7), Fraction(2**60)):
        rho_law = mechanism.for_rho(rho, sensitivity)
        epsilon = rho_law.epsilon(sensitivity)
        assert rho_law.rho(sensitivity) <= rho
        assert (epsilon + Fraction(1, 2**320)) ** 2 / divisor > rho
    assert mechanism.for_rho(Fraction(9, divisor), sensitivity).epsilon(sensitivity) == 3


# Shapes of runs, and random bytes that fail


@both
def test_all_weight_on_the_least_loss(mechanism):
    """At a huge rate each group's own least loss wins, wherever blocks are cut."""
    random = np.random.default_rng()
    sizes = [*random.integers(1, 50, 3000).tolist(), 3 * BLOCK + 5, 1, 2, BLOCK, *[1] * BLOCK, 7]
    starts = np.cumsum([0, *sizes])[:-1]
    total = sum(sizes)
    losses = np.concatenate([random.permutation(size) for size in sizes])
    runs = Runs(starts, np.arange(total), np.ones(total, np.int64), losses)
    winners = np.flatnonzero(losses == 0)
    assert mechanism(Fraction(2**500)).select(runs).tolist() == winners.tolist()


@both
def test_shapes(mechanism):
    """No group, one candidate, and the ends of int64."""
    nothing = np.empty(0, np.int64)
    assert mechanism(1).select(Runs(nothing, nothing, nothing, nothing)).shape == (0,)
    last, lowest = 2**63 - 1, -(2**63)
    runs = build_runs([(last, 1, 2**53 - 1)], [(lowest, 1, 0)], [(last - 2**61, 2**61 + 1, 3)])
    chosen = mechanism(Fraction(1)).select(runs)
    assert chosen.dtype == np.int64
    assert chosen[:2].tolist() == [last, lowest]
    assert chosen[2] >= last - 2**61


@pytest.mark.parametrize(
    "change",
    [
        {"group_starts": np.array([1])},
        {"group_starts": np.array([0, 0])},
        {"group_starts": np.array([0, 2])},
        {"group_starts": np.array([], np.int64)},
        {"group_starts": np.array([0.0])},
        {"first": np.array([2**63 - 1, 0])},
        {"first": np.array([0])},
        {"first": [0, 5]},
        {"length": np.array([0, 1])},
        {"length": np.array([1, 2**62])},
        {"length": np.array([1, 2], np.int32)},
        {"loss": np.array([-1, 0])},
        {"loss": np.array([0, 2**53])},
        {"loss": np.array([[0, 1]])},
    ],
    ids=str,
)
def test_other_arrays_are_refused(change):
    """Arrays that are not runs are refused, with one message whatever they hold."""
    columns = {
        "group_starts": np.array([0]),
        "first": np.array([0, 5]),
        "length": np.array([5, 5]),
        "loss": np.array([1, 0]),
    }
    Runs(**columns)
    with pytest.raises(dfp.errors.InvalidQuestionError) as caught:
        Runs(**{**columns, **change})
    assert caught.value.message == "these arrays are not runs of candidates"


@both
def test_other_parameters_are_refused(mechanism):
    """Rates, losses and sensitivities are exact and in range, or an InvalidLossError."""
    for rate in (0, -1, 0.5, True, None, "1", Fraction(1, 2**501), 2**501):
        with pytest.raises(dfp.errors.InvalidLossError):
            mechanism(rate)
    for value, sensitivity in ((0, 1), (-1, 1), (0.1, 1), (1, 0), (1, 1.0), (1, True), (1, -2)):
        for build in (mechanism.for_epsilon, mechanism.for_rho):
            with pytest.raises(dfp.errors.InvalidLossError):
                build(value, sensitivity)


def test_secrets_do_not_show():
    """Nothing of the runs is in their repr, and the laws are plain values."""
    runs = build_runs([(123456, 789, 4242)], [(5, 1, 0)])
    assert repr(runs) == str(runs) == f"{runs}" == "Runs(secret)"
    for mechanism in MECHANISMS:
        law = mechanism(Fraction(1, 3))
        assert repr(law) == f"{mechanism.__name__}(rate=Fraction(1, 3))"
        assert pickle.loads(pickle.dumps(law)) == copy.deepcopy(law) == law
        assert vars(law) == {"rate": Fraction(1, 3)}
    assert ExponentialMechanism(1) != PermuteAndFlip(1)


@pytest.mark.parametrize("length", [3, 7, 10**6, 2**61 + 1, 2**62 - 1])
def test_words_beyond_the_last_multiple_are_refused(length):
    """A word below the largest multiple of the length is taken modulo it; others are replaced."""
    limit = TOP // length * length
    for word in (0, length - 1, length, limit - 1):
        assert uniform_below(np.array([length]), Played([word])).tolist() == [word % length]
    for word in {limit, TOP - 1}:
        assert uniform_below(np.array([length]), Played([word, 5])).tolist() == [5 % length]


@both
def test_failing_sources_give_no_choice(mechanism, monkeypatch):
    """A source that fails, at once or late, or gives too little, is an EntropyError."""
    runs = repeat_groups([(0, 3, 1), (3, 5, 0)], 30_000)
    with pytest.raises(dfp.errors.EntropyError):
        mechanism(RATE).select(runs, lambda size: system_entropy(size)[:-1])
    for good in range(8):
        calls = iter(range(good))

        def source(size, calls=calls):
            if next(calls, None) is None:
                raise dfp.errors.EntropyError("no more")
            return system_entropy(size)

        with pytest.raises(dfp.errors.EntropyError):
            mechanism(RATE).select(runs, source)

    def failing(size):
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", failing)
    with pytest.raises(dfp.errors.EntropyError):
        mechanism(RATE).select(runs)


@both
def test_stuck_sources_are_errors(mechanism):
    """The same bytes for ever tie two equal runs for ever: an EntropyError, not an endless loop."""
    for source in (bytes, lambda size: b"\xff" * size, Played([])):
        with pytest.raises(dfp.errors.EntropyError):
            mechanism(RATE).select(build_runs([(0, 3, 1), (3, 3, 1)]), source)
    with pytest.raises(dfp.errors.EntropyError):
        uniform_below(np.array([3]), lambda size: b"\xff" * size)


@both
def test_every_call_draws_afresh(mechanism):
    """Choices among 2**61 candidates never coincide (probability below 1e-9), call after call."""
    runs = repeat_groups([(0, 2**61, 0)], 10_000)
    law = mechanism(RATE)
    chosen = np.concatenate([law.select(runs), law.select(runs), copy.copy(law).select(runs)])
    assert len(np.unique(chosen)) == len(chosen)
