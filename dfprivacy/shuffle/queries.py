"""One round in the shuffle model: several sums at once.

The randomiser at each user and the analyser at the end share this description and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.shuffle.budget import Share
from dfprivacy.shuffle.messages import messages_needed, split, total
from dfprivacy.shuffle.polya import Polya

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_MESSAGES = 1000
"""More messages than that for one number are no protocol."""

WRAPS = Fraction(1, 2**60)
"""A noisy total leaves the range of the modulus with at most this probability."""


@dataclass(frozen=True)
class Sums:
    """`queries` sums over all users of integers from 0 to `precision`, under one share each.

    Privacy: each sum is epsilon-differentially private for replacing one user's integer, but for
    2**-security in the distance between what the shuffler lets out and the noisy total alone.
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
        return messages_needed(self.users, self.bits, self.share.security)

    def checked(self) -> Sums:
        """Refuse sums that don't fit into words, or too few users to hide among."""
        if self.bits > 62 or self.messages > MOST_MESSAGES:
            raise InvalidProtocolError(
                "so many users, or so little epsilon, need more or longer messages than there are",
                hint="ask fewer users, spend more, or find less",
            )
        return self

    def randomise(self, integers: Integers, entropy: EntropySource = system_entropy) -> pa.Table:
        """Return the messages of some users: one row of integers each, one column a query.

        Integers are clipped to the grid first: the noise covers no others.
        """
        law = Polya(self.users, self.noise.scale)
        size = integers.size
        kept = np.clip(integers.reshape(-1), 0, self.precision)
        noisy = kept + law.sample(size, entropy) - law.sample(size, entropy)
        words = split(noisy, self.messages, self.bits, entropy)
        numbers = np.tile(np.arange(self.queries, dtype=np.int32), len(integers))
        return pa.table({"query": np.repeat(numbers, self.messages), "word": words.reshape(-1)})

    def analyse(self, messages: pa.Table) -> list[int]:
        """Return the noisy total of each query, in steps.

        Raises
        ------
        InvalidProtocolError
            When the messages are not those of all users.
        """
        expected = self.users * self.queries * self.messages
        if set(messages.column_names) != {"query", "word"} or messages.num_rows != expected:
            raise InvalidProtocolError(
                f"the analyser needs the {expected} messages of all {self.users} users",
                hint="join the messages of all users, then shuffle them",
            )
        queries = messages.column("query").to_numpy()
        words = messages.column("word").to_numpy()
        return [total(words[queries == query], self.bits) for query in range(self.queries)]


def rounded(parts: Floats, precision: int, entropy: EntropySource = system_entropy) -> Integers:
    """Return numbers from 0 to 1 as integers from 0 to `precision`, right on average.

    Rounded up with the probability of the fraction, in steps of 2**-32.
    """
    scaled = np.clip(parts, 0.0, 1.0) * precision
    whole = np.floor(scaled)
    chance = np.rint((scaled - whole) * 2.0**32).astype(np.uint64)
    up = (random_words(parts.size, entropy).reshape(parts.shape) >> np.uint64(32)) < chance
    return np.minimum(whole.astype(np.int64) + up, precision)


def half_width(sums: Sums, outside: float, *, rounding: bool) -> float:
    """Return how far, in steps, a noisy total lies from that of the exact numbers at most.

    Half of `outside` goes to noise and half to rounding, by Hoeffding's inequality.
    """
    if not rounding:
        return float(sums.noise.quantile(outside))
    chance = math.sqrt(sums.users * math.log(4 / outside) / 2)
    return sums.noise.quantile(outside / 2) + chance


def joined(tables: Any) -> pa.Table:
    """Return the messages of several users or files together."""
    return pa.concat_tables(list(tables))
