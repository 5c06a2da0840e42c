"""Take random bytes from the operating system at every call: none is kept, none without a permit.

No buffer outlives a call, so that a fork, a pickled object or a cloned machine image can't repeat
noise. There is no seed. The system's bytes flow within a `Permit` only, which `dfprivacy.release`
makes once a release is paid for. Tests hand their own source to the samplers, which needs none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import EntropyError
from dfprivacy.noise.recording import is_recording

EntropySource = Callable[[int], bytes]


@dataclass(slots=True)
class Permit:
    """Permission to draw noise. It ends when it is closed, wherever it has been copied to.

    `paid_by` names the payment for the draws. A permit is of the process that has paid: a child
    that is forked inside holds a copy, under which it draws nothing. Only
    `dfprivacy.release.pipeline` makes one.
    """

    paid_by: str
    closed: bool = False
    process: int = field(default_factory=os.getpid)

    @property
    def is_open(self) -> bool:
        """Return whether this process may draw."""
        return not self.closed and self.process == os.getpid()


PERMIT: ContextVar[Permit | None] = ContextVar("dfprivacy_permit", default=None)
"""The permit of this thread or coroutine. A new thread has none."""


def system_entropy(size: int) -> bytes:
    """Return `size` fresh random bytes of the operating system, within an open permit."""
    permit = PERMIT.get()
    if permit is None or not permit.is_open:
        raise EntropyError(
            "noise was asked for outside of a release",
            hint="hand in a source of bytes of your own, or ask for a release",
        )
    if is_recording():
        raise EntropyError("noise was asked for outside of a recordable function")
    return _system_bytes(size)


def fresh_id(size: int) -> str:
    """Return `size` random bytes as hexadecimal text: a name of its own, and no noise."""
    return _system_bytes(size).hex()


def _system_bytes(size: int) -> bytes:
    try:
        return os.urandom(size)
    except (OSError, NotImplementedError) as failure:
        raise EntropyError("the operating system gave no random bytes") from failure


def random_words(count: int, entropy: EntropySource) -> npt.NDArray[np.uint64]:
    """Return `count` uniform 64-bit words."""
    data = entropy(8 * count)
    if len(data) != 8 * count:
        raise EntropyError("the random source returned fewer bytes than asked for")
    return np.frombuffer(data, dtype=np.uint64)
