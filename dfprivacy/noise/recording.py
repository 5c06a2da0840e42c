"""Let a test record the draws of a release and replay them on a neighboring table.

A release is private if two neighboring tables lead to the same draws, whose exact inputs differ by
no more than the noise pays for, and to the same outcome once the draws have the same results. The
law in tests/privacy/test_replay.py checks this through one seam: every function that draws from
exact values is `recordable`. Those functions add noise, build sparse noisy histograms, or select
candidates. A threshold of group keys needs no seam, because it reads noisy counts only.

The seam does not weaken privacy.

* It gives no access. Code that can call `record_draws` runs in the process that holds the rows, and
  could replace any function (docs/explanation/limits.md). No argument, statement, file or
  environment variable reaches the seam, and no module of this package calls `record_draws` (a
  static rule).
* It ends with its block. A new thread has no recorder, and no exact value stays here: without a
  recorder the seam holds None. Only a context that was copied inside of the block keeps it.
* It cannot hide a draw. The system's random bytes are refused outside of a recordable function
  while a recorder is active, so a new mechanism without the decorator fails the law.
* Without a recorder a draw of an array costs one look-up of a context variable.

There is no switch that forbids recorders in production. Whoever could set a recorder could also set
the switch, and a second state would be one more thing to get wrong.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Recorder(Protocol):
    """Observer of draws: it sees exact inputs, and decides about the results."""

    def draw(self, mechanism: str, inputs: Mapping[str, Any], sample: Callable[[], Any]) -> Any:
        """Return the result of a draw: that of `sample`, or a recorded one."""


_RECORDER: ContextVar[Recorder | None] = ContextVar("dfprivacy_recorder", default=None)


@contextmanager
def record_draws(recorder: Recorder) -> Iterator[None]:
    """Show every draw of this thread to a recorder. For tests only."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def is_recording() -> bool:
    """Return whether a recorder waits for the next draw of this thread."""
    return _RECORDER.get() is not None


def recordable(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Show the calls of a mechanism to the active recorder, without its inner draws."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def draw(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        recorder = _RECORDER.get()
        if recorder is None:
            return function(*args, **kwargs)

        def sample() -> Result:
            token = _RECORDER.set(None)
            try:
                return function(*args, **kwargs)
            finally:
                _RECORDER.reset(token)

        inputs = signature.bind(*args, **kwargs).arguments
        result: Result = recorder.draw(function.__name__, inputs, sample)
        return result

    return draw
