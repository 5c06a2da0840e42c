"""Numbers in many messages: split at their owner, shuffled, added up again modulo 2**bits.

A number is split into m words that are uniform but for their sum (Ishai, Kushilevitz, Ostrovsky and
Sahai 2006). After the shuffler has mixed the words of all users, nothing but the total of all
numbers is left to see, up to a statistical distance of 2**-security once there are enough words:
m = ceil((2 security + bits) / (log2 n - log2 e) + 2) for n >= 19 users (Balle, Bell, Gascon and
Nissim 2020; the worst case over inputs, one word more than on average).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

LEAST_USERS = 19
"""The bound on the number of messages holds from here on."""


def messages_needed(users: int, bits: int, security: int) -> int:
    """Return into how many words each number is split.

    >>> messages_needed(10_000, bits=32, security=40)
    12
    """
    if users < LEAST_USERS:
        raise InvalidProtocolError(
            f"{users} users can't hide in a crowd: the bound needs {LEAST_USERS}",
            hint="ask more users, or use the local model: dfp.local",
        )
    each = math.log2(users) - math.log2(math.e)
    return max(4, math.ceil((2 * security + bits) / each + 2 + 1e-9))


def split(
    numbers: Integers, messages: int, bits: int, entropy: EntropySource = system_entropy
) -> Words:
    """Return `messages` words for each number, one row a number."""
    mask = np.uint64(2**bits - 1)
    words = np.empty((len(numbers), messages), np.uint64)
    words[:, 1:] = random_words(len(numbers) * (messages - 1), entropy).reshape(len(numbers), -1)
    words[:, 1:] &= mask
    words[:, 0] = (numbers.view(np.uint64) - words[:, 1:].sum(axis=1, dtype=np.uint64)) & mask
    return words


def total(words: Words, bits: int) -> int:
    """Return the sum of all words modulo 2**bits, as a number around zero."""
    wrapped = int(words.sum(dtype=np.uint64)) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if wrapped >= 1 << (bits - 1) else wrapped


def shuffle(messages: pa.Table, *, entropy: EntropySource = system_entropy) -> pa.Table:
    """Return the messages in a uniformly random order: what the shuffler does.

    Every message gets a random word, and messages are sorted by it; where two words are equal, all
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
