"""Random bytes: from the operating system at every call, never kept.

No buffer outlives a call, so that a fork, a pickled object or a cloned machine image can't repeat
noise; there is no seed. Tests hand their own source to the samplers.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import EntropyError

EntropySource = Callable[[int], bytes]


def system_entropy(size: int) -> bytes:
    """Return `size` fresh random bytes of the operating system."""
    try:
        data = os.urandom(size)
    except (OSError, NotImplementedError) as failure:
        raise EntropyError("the operating system gave no random bytes") from failure
    return data


def random_words(count: int, entropy: EntropySource) -> npt.NDArray[np.uint64]:
    """Return `count` uniform 64-bit words.

    Raises
    ------
    EntropyError
        When the source returns fewer bytes than asked for.
    """
    data = entropy(8 * count)
    if len(data) != 8 * count:
        raise EntropyError("the random source returned fewer bytes than asked for")
    return np.frombuffer(data, dtype=np.uint64)
