"""What the embedded engine may use: memory, threads, and a place for what exceeds memory."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dfprivacy.errors import InvalidEngineError
from dfprivacy.exact import describe, exact_number

MOST_THREADS = 1024
_MEMORY = re.compile(r"[1-9][0-9]{0,5}(\.[0-9]{1,3})? ?([KMGT]i?B)")
_HINT = "e.g. dfp.Engine(memory='1GB', threads=2, temporary='/fast/disk')"


@dataclass(frozen=True)
class Engine:
    """Limits of the embedded engine, for every call in a `with` block.

    The engine reads pandas frames, Arrow, CSV and Parquet. What exceeds `memory` (such as "500MB"
    or "1.5GiB"; 80% of the machine's without) is written to files in a new directory that only
    this user may enter, below `temporary` (the system's place for temporary files without), and is
    removed with it at the end of the call. Polars frames and the caller's own DuckDB connections
    keep the limits that they have.

    Of two nested blocks the inner one counts, and what it does not name is as without any. The
    block is a context variable: it reaches coroutines, but not a thread that is started inside.

    >>> import dfprivacy as dfp, pandas as pd
    >>> engine = dfp.Engine(memory="500MB", threads=2)
    >>> engine
    Engine(memory='500MB', threads=2, temporary=None)
    >>> with engine:
    ...     answer = pd.DataFrame({"delay": range(100)}).dp.count()

    Raises
    ------
    InvalidEngineError
        When memory is no size, threads is no whole number from 1 to 1024, or temporary is no
        directory.
    """

    memory: str | None = None
    threads: int | None = None
    temporary: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check the limits; nothing here looks at data."""
        if self.memory is not None:
            object.__setattr__(self, "memory", _memory(self.memory))
        if self.threads is not None:
            object.__setattr__(self, "threads", _threads(self.threads))
        if self.temporary is not None:
            object.__setattr__(self, "temporary", _directory(self.temporary))

    def __enter__(self) -> Self:
        """Begin a block."""
        _ENGINES.set((*_ENGINES.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        """End the block."""
        _ENGINES.set(_ENGINES.get()[:-1])


_ENGINES: ContextVar[tuple[Engine, ...]] = ContextVar("dfprivacy_engines", default=())


def engine_options() -> Engine:
    """Return the limits of the innermost block; none without one."""
    return _ENGINES.get()[-1] if _ENGINES.get() else Engine()


def _memory(value: object) -> str:
    if not isinstance(value, str) or not _MEMORY.fullmatch(value):
        raise InvalidEngineError(
            f"memory must be a size such as '500MB' or '1.5GiB', not {describe(value)}", hint=_HINT
        )
    return value


def _threads(value: object) -> int:
    exact = exact_number(value)
    if exact is None or exact.denominator != 1 or not 1 <= exact <= MOST_THREADS:
        raise InvalidEngineError(
            f"threads must be a whole number from 1 to {MOST_THREADS}, not {describe(value)}",
            hint=_HINT,
        )
    return int(exact)


def _directory(value: object) -> str:
    if not isinstance(value, str | os.PathLike) or not Path(value).is_dir():
        raise InvalidEngineError(
            "temporary must be a directory that exists", hint="create it first, or leave it out"
        )
    return str(value)
