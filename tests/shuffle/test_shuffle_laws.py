"""Noise in shares, numbers in messages, orders at random: the laws behind the shuffle model."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from flint import arb, ctx, fmpq

import dfprivacy as dfp
from dfprivacy.local.randomizers import exponential_above, exponential_below
from dfprivacy.shuffle.sums import (
    _BITS,
    DISTANCE,
    Polya,
    Sums,
    count_messages,
    rho_within,
    round_by_chance,
    share_sums,
    shuffle,
    split,
    total,
)

pytestmark = pytest.mark.usefixtures("permitted")
LAWS = [Polya(19, Fraction(1)), Polya(100, Fraction(10)), Polya(5000, Fraction(141, 2))]


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 1024), Fraction(1, 3), Fraction(19, 7), Fraction(64)]
)
def test_exponentials_are_enclosed(epsilon):
    """The rational bounds lie on either side of e**epsilon, and within 3e-60 of each other."""
    low, high = exponential_below(epsilon), exponential_above(epsilon)
    ctx.prec = 400
    exact = arb(fmpq(epsilon.numerator, epsilon.denominator)).exp()
    assert arb(fmpq(low.numerator, low.denominator)) < exact
    assert exact < arb(fmpq(high.numerator, high.denominator))
    assert high / low - 1 < Fraction(3, 10**60)


def exact(law, draws):
    """Return P(0), ..., P(draws - 1) of a Polya law as balls of 400 bits."""
    ctx.prec = 400
    a = (-1 / arb(fmpq(law.scale.numerator, law.scale.denominator))).exp()
    r = arb(1) / law.users
    chance, chances = (r * (1 - a).log()).exp(), []
    for k in range(draws):
        chances.append(chance)
        chance = chance * a * (k + r) / (k + 1)
    return chances


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_share_has_the_polya_law(law):
    """Where the uniform number passes from one draw to the next is the exact sum of chances.

    Both sides of every edge are drawn: the law holds to 2**-190 at each of 40 edges, so that the
    total variation distance, tail included, is far below 2**-160.
    """
    below = arb(0)
    for draw, chance in enumerate(exact(law, 40)):
        below += chance
        edge = below * arb(2) ** 256
        for side, expected in ((-(2**66), draw), (2**66, draw + 1)):
            number = int((edge + side).floor().unique_fmpz())
            parts = [(number >> shift) & (2**64 - 1) for shift in (192, 128, 64, 0)]
            rest = np.array(parts[1:], dtype=np.uint64).tobytes()
            assert law.invert(parts[0], lambda _, rest=rest: rest) == expected
    assert Fraction(1, 2**160) == DISTANCE
    assert _BITS - 256 >= 64


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_words_below_the_first_edge_are_surely_nothing(law):
    """Only words that can't be anything else take the fast way to 0."""
    edge = law.nothing >> (_BITS - 64)
    calls = []

    def entropy(size):
        calls.append(size)
        if len(calls) == 1:
            return np.array([0, edge - 2, edge, 2**64 - 1], dtype=np.uint64).tobytes()
        return b"\xff" * size

    draws = law.sample(4, entropy)
    assert draws[:2].tolist() == [0, 0]
    assert len(calls) == 3
    assert draws[3] > 0


def test_all_shares_together_are_discrete_laplace():
    """The convolution of the n users' laws is the geometric law, in balls of 400 bits.

    As a power series the chances have (1 - a)**r (1 - a x)**-r as their generating function; its
    n-th power is (1 - a) / (1 - a x), whose coefficients are (1 - a) a**k.
    """
    law = Polya(19, Fraction(2))
    chances, size = exact(law, 12), 12
    product = [arb(1), *[arb(0)] * (size - 1)]
    for _ in range(law.users):
        product = [
            sum((product[i] * chances[k - i] for i in range(k + 1)), arb(0)) for k in range(size)
        ]
    a = (arb(-1) / 2).exp()
    for k in range(size):
        assert product[k].overlaps((1 - a) * a**k)
        assert float(product[k].rad()) < 1e-100


@pytest.mark.parametrize("bits", [4, 31, 62])
def test_words_add_up_to_the_number(bits):
    """Split numbers add up modulo 2**bits, whoever's words they are, negative ones too."""
    numbers = np.random.default_rng(1).integers(-(2 ** (bits - 3)), 2 ** (bits - 3), 7)
    words = split(numbers, 5, bits)
    assert total(words.reshape(-1), bits) == numbers.sum()
    assert int(words.max()) < 2**bits


def test_all_but_one_word_is_uniform_and_the_last_one_too():
    """Any m - 1 of the m words are independent and uniform: exhaustively, for 2 bits, 3 words.

    Every combination of random digits is run; for each number all words but one take all
    combinations of values equally often, whichever one is left out.
    """
    for number in range(4):
        seen = []
        for digits in range(16):
            random = np.array([digits & 3, digits >> 2], dtype=np.uint64).tobytes()
            seen.append(tuple(split(np.array([number]), 3, 2, lambda _, r=random: r)[0].tolist()))
        for left_out in range(3):
            rest = Counter(tuple(w for i, w in enumerate(s) if i != left_out) for s in seen)
            assert rest == Counter({(x, y): 1 for x in range(4) for y in range(4)})


def test_messages_needed_are_those_of_the_authors():
    """32-bit numbers of 10,000 users need 12 messages for a distance of 2**-40, as published."""
    assert count_messages(10_000, 32, 40) == 12
    assert count_messages(10**6, 1, 1) == 4
    with pytest.raises(dfp.errors.InvalidProtocolError, match="crowd"):
        count_messages(18, 32, 40)


def test_every_order_is_equally_likely():
    """Shuffling four messages gives all 24 orders alike (chi-square, false alarms below 1e-9)."""
    table = pa.table({"word": [0, 1, 2, 3]})
    orders = Counter(tuple(shuffle(table).column("word").to_pylist()) for _ in range(4800))
    assert len(orders) == 24
    assert sum((count - 200) ** 2 / 200 for count in orders.values()) < 98


def test_equal_keys_are_drawn_again():
    """When two keys are equal, all are drawn anew: no order is favoured."""
    feeds = iter([[5, 5, 1], [3, 2, 1]])

    def entropy(_):
        return np.array(next(feeds), dtype=np.uint64).tobytes()

    done = shuffle(pa.table({"word": [10, 20, 30]}), entropy=entropy)
    assert done.column("word").to_pylist() == [30, 20, 10]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("weights", [((1, 1),), ((1, 1),) * 12, ((1, 64),) * 5, ((3, 1), (1, 40))])
def test_shares_add_up_to_epsilon_and_delta(epsilon, weights):
    """The whole costs epsilon and delta at most: either as pure losses, or by way of zCDP."""
    delta, users = Fraction(1, 10**6), 5000
    weights = tuple((Fraction(w), q) for w, q in weights)
    shares = share_sums(epsilon, delta, users, weights)
    pairs = [(share, q) for share, (_, q) in zip(shares, weights, strict=True)]
    sums = sum(q for _, q in pairs)
    pure = sum(share.epsilon * q for share, q in pairs)
    rho = sum(share.epsilon**2 * q for share, q in pairs) / 2
    by_zcdp = pure > epsilon
    if by_zcdp:
        log = math.log(2 / delta)
        assert float(rho) + 2 * math.sqrt(float(rho) * log) <= float(epsilon)
    distance = sum(q * Fraction(1, 2**share.security) for share, q in pairs)
    distance += 2 * users * sums * DISTANCE
    spent = distance * (1 + Fraction(math.exp(epsilon))) + (delta / 2 if by_zcdp else 0)
    assert spent <= delta * (1 + Fraction(1, 10**9))


def test_rho_within_is_tight():
    """The rho found gives back nearly all of epsilon."""
    for epsilon in (0.1, 1, 5):
        rho = float(rho_within(Fraction(epsilon), Fraction(1, 10**6)))
        assert rho + 2 * math.sqrt(rho * math.log(1e6)) == pytest.approx(epsilon, rel=1e-6)


def test_totals_and_their_noise_fit_the_modulus():
    """No total of all users wraps around, but for a probability of 2**-60."""
    share = share_sums(Fraction(1), Fraction(1, 10**6), 1000, ((Fraction(1), 1),))[0]
    sums = Sums(1000, 1, 32, share)
    reach = 1000 * 32 + sums.noise.quantile(2.0**-60)
    assert reach < 2 ** (sums.bits - 1)
    full = np.full((1000, 1), 32)
    assert abs(sums.analyze(shuffle(sums.randomize(full)))[0] - 32_000) < 32 * 40


def test_rounding_is_right_on_average_and_stays_on_the_grid():
    """A number between two steps goes up with the probability of its fraction."""
    integers = round_by_chance(np.full(40_000, 0.3), 4)
    assert set(integers.tolist()) == {1, 2}
    assert abs(integers.mean() - 1.2) < 6.5 * 0.4 / 200
    assert round_by_chance(np.array([0.0, 1.0, 2.0, -1.0]), 7).tolist() == [0, 7, 7, 0]


def test_integers_beyond_the_grid_are_clipped_before_noise():
    """Whatever integer a user adds, messages are those of the nearest one that noise covers."""
    share = share_sums(Fraction(1), Fraction(1, 10**6), 1000, ((Fraction(1), 2),))[0]
    sums = Sums(1000, 2, 32, share)
    wild = np.array([[-(2**63), 2**63 - 1], [-1, 33], [0, 32], [-(10**9), 10**9]])
    nearest = np.array([[0, 32]] * 4)
    messages = [sums.randomize(rows, np.random.default_rng(8).bytes) for rows in (wild, nearest)]
    assert messages[0].equals(messages[1])


def test_half_widths_hold():
    """The interval holds the total of 300 runs as often as it says, and more.

    At 90% fewer than 240 of 300 has a probability below 1e-7, by the binomial law.
    """
    values = np.random.default_rng(2).uniform(0, 10, 500)
    hits = 0
    for _ in range(300):
        plan = dfp.shuffle.total(users=500, bounds=(0, 10), epsilon=1, delta=1e-6)
        estimate = dfp.shuffle.simulate(plan, values, interval=0.9)
        hits += estimate.low <= values.sum() <= estimate.high
    assert hits >= 240
    sums = plan.list_sums(1)
    assert sums.noise.quantile(0.1) < sums.half_width(0.1)
