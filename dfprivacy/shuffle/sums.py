"""Add up numbers of many users whose messages are shuffled: noise in shares, numbers in words.

A number is split into m words that are uniform but for their sum (Ishai, Kushilevitz, Ostrovsky and
Sahai 2006). After the shuffler has mixed the words of all users, nothing but the total of all
numbers is left to see, up to a statistical distance of 2**-security once there are enough words:
m = ceil((2 security + bits) / (log2 n - log2 e) + 2) for n >= 19 users (Balle, Bell, Gascon and
Nissim 2020, the worst case over inputs, one word more than on average).

Each user adds a share of discrete Laplace noise, so that all together make the whole. A Polya
number of index r = 1/n and ratio a has P(k) = (1 - a)**r * a**k * r (r + 1) ... (r + k - 1) / k!.
The sum of n of them is geometric, P(K >= k) = a**k, and the difference of two such sums is the
discrete Laplace law of scale t where a = e**(-1 / t) (Goryczka and Xiong 2015). The ratio is
e**(-1 / t), the chance to go on: a library whose negative binomial takes the chance of success
wants 1 - a instead.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidLossError, InvalidProtocolError
from dfprivacy.local.randomizers import Floats, Integers, Words, exponential_above
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.noise.tails import isolate_context
from dfprivacy.release.pipeline import permit

LEAST_USERS = 19
"""The bound on the number of messages holds from here on."""

MOST_MESSAGES = 1000
"""More messages than that for one number are no protocol."""

WRAPS = Fraction(1, 2**60)
"""A noisy total leaves the range of the modulus with at most this probability."""

DISTANCE = Fraction(1, 2**160)
"""Bound of the total variation distance between a sampled Polya law and the law."""

_BITS, _DRAWN = 320, 256
"""The number of bits of a sum of probabilities, and of a uniform number."""

_SAFETY = Fraction(10**9 - 1, 10**9)
"""Covers the rounding of floats in the conversion from zCDP."""


@dataclass(frozen=True)
class Polya:
    """The law of one user's share: of `users`, for discrete Laplace noise of a scale.

    Drawn by inversion of one uniform number of 256 bits against sums of probabilities in 320-bit
    integers: the law is kept up to `DISTANCE`, which delta pays for.
    """

    users: int
    scale: Fraction

    @cached_property
    def _chances(self) -> tuple[int, int]:
        """Return a = e**(-1 / scale) and P(0) = (1 - a)**(1 / users), in units of 2**-320."""
        context = isolate_context(130, reach=10**9)
        numerator, denominator = map(decimal.Decimal, (-1 / self.scale).as_integer_ratio())
        a = context.exp(context.divide(numerator, denominator))
        log = context.ln(context.subtract(decimal.Decimal(1), a))
        zero = context.exp(context.divide(log, decimal.Decimal(self.users)))
        ratio, nothing = (int(Fraction(chance) * 2**_BITS) for chance in (a, zero))
        return ratio, nothing

    @property
    def nothing(self) -> int:
        """P(0), in units of 2**-320."""
        return self._chances[1]

    def sample(self, size: int, entropy: EntropySource = system_entropy) -> Integers:
        """Return `size` independent draws."""
        words = random_words(size, entropy)
        draws = np.zeros(size, np.int64)
        surely = np.uint64(max(0, (self.nothing >> (_BITS - 64)) - 1))
        for index in np.flatnonzero(words >= surely).tolist():
            draws[index] = self.invert(int(words[index]), entropy)
        return draws

    def invert(self, word: int, entropy: EntropySource) -> int:
        """Return the draw of a uniform number that begins with 64 given digits."""
        digits = word
        for more in random_words((_DRAWN - 64) // 64, entropy).tolist():
            digits = (digits << 64) | more
        uniform = digits << (_BITS - _DRAWN)
        draw, (ratio, chance) = 0, self._chances
        below = chance
        while uniform >= below and chance:
            numerator = (draw * self.users + 1) * ratio
            chance = (chance * numerator // ((draw + 1) * self.users)) >> _BITS
            below += chance
            draw += 1
        return draw


def laplace_shares(
    users: int, scale: Fraction, size: int, entropy: EntropySource = system_entropy
) -> Integers:
    """Return `size` users' shares of discrete Laplace noise of a scale."""
    law = Polya(users, scale)
    return law.sample(size, entropy) - law.sample(size, entropy)


def count_messages(users: int, bits: int, security: int) -> int:
    """Return into how many words each number is split.

    >>> count_messages(10_000, bits=32, security=40)
    12
    """
    if users < LEAST_USERS:
        raise InvalidProtocolError(
            f"{users} users can't hide in a crowd: the bound needs {LEAST_USERS}",
            hint="ask more users, or use the local model: dfp.local",
        )
    bits_hidden = math.log2(users) - math.log2(math.e)
    return max(4, math.ceil((2 * security + bits) / bits_hidden + 2 + 1e-9))


def split(
    numbers: Integers, messages: int, bits: int, entropy: EntropySource = system_entropy
) -> Words:
    """Return `messages` words for each number, one row a number."""
    mask = np.uint64(2**bits - 1)
    words = np.empty((len(numbers), messages), np.uint64)
    random = random_words(len(numbers) * (messages - 1), entropy)
    words[:, 1:] = random.reshape(len(numbers), messages - 1)
    words[:, 1:] &= mask
    words[:, 0] = (numbers.view(np.uint64) - words[:, 1:].sum(axis=1, dtype=np.uint64)) & mask
    return words


def total(words: Words, bits: int) -> int:
    """Return the sum of all words modulo 2**bits, as a number around zero."""
    wrapped = int(words.sum(dtype=np.uint64)) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if wrapped >= 1 << (bits - 1) else wrapped


@dataclass(frozen=True)
class Share:
    """The budget of one sum: pure epsilon for its noise, 2**-security for its shuffling."""

    epsilon: Fraction
    security: int


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the rho with rho + 2 sqrt(rho log(1 / delta)) <= epsilon (Bun and Steinke 2016)."""
    log = math.log(1 / delta)
    root = math.sqrt(log + float(epsilon)) - math.sqrt(log)
    return Fraction(root * root) * _SAFETY


def share_sums(
    epsilon: Fraction, delta: Fraction, users: int, weights: Sequence[tuple[Fraction, int]]
) -> list[Share]:
    """Return the share of each sum, by round: a weight, and how many sums have it.

    Each sum is pure discrete Laplace noise, so that `epsilon` can be shared out as it is, or by way
    of zCDP for half of delta: a pure loss of e is e**2 / 2-zCDP, and these add up. The way that
    gives the sums of the largest weight the least noise is taken. The rest of delta pays for
    shuffling: if each transcript is within 2**-security of one that shows its noisy sum alone, the
    whole is within t, their sum, and a view that is (epsilon, delta') becomes (epsilon, delta' + (1
    + e**epsilon) t). The sampler's distance from its law counts the same way, twice a user and sum.
    """
    parts = sum((weight * queries for weight, queries in weights), Fraction(0))
    sums = sum(queries for _, queries in weights)
    rho = rho_within(epsilon, delta / 2)
    pure, heaviest = epsilon / parts, max(weight for weight, _ in weights)
    by_zcdp = _root(2 * rho * heaviest / parts) > pure * heaviest
    left = delta / 2 if by_zcdp else delta
    sampling = 2 * users * sums * DISTANCE
    per_sum = (left / (1 + exponential_above(epsilon)) - sampling) / sums
    if per_sum <= 0:
        raise InvalidLossError(
            "delta is too small beside epsilon: it does not pay for the draws of so many users",
            hint="pass a larger delta or a smaller epsilon, e.g. epsilon=1, delta=1e-6",
        )
    security = max(1, math.ceil(-math.log2(per_sum) + 1e-9))
    return [
        Share(_root(2 * rho * weight / parts) if by_zcdp else pure * weight, security)
        for weight, _ in weights
    ]


def _root(value: Fraction) -> Fraction:
    return Fraction(math.sqrt(value)) * _SAFETY


@dataclass(frozen=True)
class Sums:
    """`queries` sums over all users of integers from 0 to `precision`, under one share each.

    Privacy: each sum is epsilon-differentially private for replacing one user's integer, but for
    2**-security in the distance between the shuffler's output and the noisy total alone.
    """

    users: int
    queries: int
    precision: int
    share: Share

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise on each total, in steps: scale precision / epsilon."""
        return DiscreteLaplace(Fraction(self.precision) / self.share.epsilon)

    @property
    def bits(self) -> int:
        """The modulus is 2**bits: totals and their noise fit, but for `WRAPS`."""
        reach = self.users * self.precision + self.noise.quantile(float(WRAPS))
        return (2 * reach + 1).bit_length()

    @property
    def messages(self) -> int:
        """Into how many words every integer is split."""
        return count_messages(self.users, self.bits, self.share.security)

    def half_width(self, outside: float) -> float:
        """Return how far a noisy total may lie off, noise and rounding together (Hoeffding)."""
        chance = math.sqrt(self.users * math.log(4 / outside) / 2)
        return self.noise.quantile(outside / 2) + chance

    def check_limits(self) -> Sums:
        """Refuse sums that don't fit into words, or too few users to hide among."""
        if self.bits > 62 or self.messages > MOST_MESSAGES:
            raise InvalidProtocolError(
                "so many users, or so little epsilon, need more or longer messages than there are",
                hint="ask fewer users, spend more, or find less",
            )
        return self

    def randomize(self, integers: Integers, entropy: EntropySource = system_entropy) -> pa.Table:
        """Return some users' messages, integers clipped to the grid: a column a query."""
        clipped = np.clip(integers.reshape(-1), 0, self.precision)
        noisy = clipped + laplace_shares(self.users, self.noise.scale, integers.size, entropy)
        words = split(noisy, self.messages, self.bits, entropy)
        numbers = np.tile(np.arange(self.queries, dtype=np.int32), len(integers))
        return pa.table({"query": np.repeat(numbers, self.messages), "word": words.reshape(-1)})

    def analyze(self, messages: pa.Table) -> list[int]:
        """Return the noisy total of each query, in steps, from the messages of all users."""
        expected = self.users * self.messages
        sums = list[Words]()
        if sorted(messages.column_names) == ["query", "word"] and _are_whole(messages):
            queries, words = (messages.column(name).to_numpy() for name in ("query", "word"))
            sums = [words[queries == query] for query in range(self.queries)]
        if messages.num_rows != expected * self.queries or {*map(len, sums)} != {expected}:
            raise InvalidProtocolError(
                f"the analyzer needs the {expected * self.queries} messages of all {self.users} "
                f"users: {expected} whole numbers of each query",
                hint="join the messages of all users, then shuffle them",
            )
        return [total(part, self.bits) for part in sums]


def _are_whole(messages: pa.Table) -> bool:
    """Return True if all columns are declared to hold integers, and hold one in each row."""
    return all(
        pa.types.is_integer(column.type) and not column.null_count for column in messages.columns
    )


def round_by_chance(
    parts: Floats, precision: int, entropy: EntropySource = system_entropy
) -> Integers:
    """Return numbers from 0 to 1 as integers up to `precision`, by chance, right on average."""
    scaled = np.clip(parts, 0.0, 1.0) * precision
    floors = np.floor(scaled)
    chance = np.rint((scaled - floors) * 2.0**32).astype(np.uint64)
    up = (random_words(parts.size, entropy).reshape(parts.shape) >> np.uint64(32)) < chance
    return np.minimum(floors.astype(np.int64) + up, precision)


@permit("the shuffler, who sees messages that are private together")
def shuffle(messages: pa.Table, *, entropy: EntropySource = system_entropy) -> pa.Table:
    """Return the messages in a uniformly random order, as the shuffler does.

    Every message gets a random word, and messages are sorted by it. Where two words are equal, all
    are drawn again, so that all orders are equally likely. The order of columns and the number of
    rows is all that is kept.

    >>> import pyarrow as pa
    >>> sorted(shuffle(pa.table({"word": [3, 1, 2]})).column("word").to_pylist())
    [1, 2, 3]
    """
    while True:
        keys = random_words(messages.num_rows, entropy)
        order = np.argsort(keys)
        ordered = keys[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return messages.take(pa.array(order)).combine_chunks()


def join_messages(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the messages of several users or files together."""
    parts = list(tables)
    if parts and all(isinstance(table, pa.Table) for table in parts):
        with suppress(pa.ArrowException):
            return pa.concat_tables(parts)
    raise InvalidProtocolError(
        "messages are joined from a list of Arrow tables of the same columns",
        hint="pass what protocol.messages(values) has returned: join_messages([mine, yours])",
    )
