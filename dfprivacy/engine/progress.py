"""How far a long pass is, on the terminal or in the notebook of who runs it, and nowhere else.

What is shown (a part of the scan, and the time) depends on the number of rows, as the time itself
does. It goes to a terminal or to the cell that is running, is erased at the end, and is part of
nothing that is released.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import Literal, Protocol, get_args

import duckdb

from dfprivacy.errors import InvalidEngineError
from dfprivacy.exact import describe

Mode = Literal["auto", "on", "off"]
VARIABLE = "DFPRIVACY_PROGRESS"

DELAY = 1.0
"""Seconds before anything is shown: quick calls stay silent."""

_STEP = 0.1
_CHOSEN: list[Mode] = []


class Display(Protocol):
    """Where progress is shown."""

    def show(self, part: float | None) -> None:
        """Show a part from 0 to 1; None where it is not known."""

    def erase(self) -> None:
        """Leave nothing behind."""


def progress(mode: Mode) -> None:
    """Show the progress of long passes: "auto", "on" or "off", for this process from now on.

    With "auto", which is what holds without a call, it is shown on a terminal and in a notebook,
    and nowhere else. The environment variable DFPRIVACY_PROGRESS says the same for programs that
    don't call this. Progress goes to the standard error stream, after a second, and is erased at
    the end. It tells how large the data are: leave it to who may know that.

    >>> import dfprivacy as dfp
    >>> dfp.progress("off")

    Raises
    ------
    InvalidEngineError
        For any other word.
    """
    if mode not in get_args(Mode):
        raise InvalidEngineError(
            f"progress is 'auto', 'on' or 'off', not {describe(mode)}", hint='dfp.progress("off")'
        )
    _CHOSEN[:] = [mode]


def mode_now() -> Mode:
    """Return what was chosen, else what the environment says, else "auto"."""
    if _CHOSEN:
        return _CHOSEN[0]
    said = os.environ.get(VARIABLE, "auto")
    return next((mode for mode in get_args(Mode) if mode == said.lower()), "off")


def watched(connection: duckdb.DuckDBPyConnection | None = None) -> AbstractContextManager[None]:
    """Return a block whose progress is shown if it is long.

    An embedded `connection` is asked how far it is. Of others only the time is shown: a caller's
    connection is not touched from another thread.
    """
    open_display = _display()
    if open_display is None:
        return nullcontext()
    return _shown(open_display, (lambda: None) if connection is None else _part_of(connection))


def _display() -> Callable[[], Display] | None:
    """Return what makes a display; None where nobody is looking."""
    mode = mode_now()
    if mode == "off" or (mode == "auto" and "PYTEST_CURRENT_TEST" in os.environ):
        return None
    if _in_notebook():
        from dfprivacy.engine.progress_notebook import NotebookDisplay  # noqa: PLC0415 needs IPython

        return NotebookDisplay
    if mode == "on" or (sys.stderr is not None and sys.stderr.isatty()):
        from dfprivacy.engine.progress_terminal import TerminalDisplay  # noqa: PLC0415 loads rich

        return TerminalDisplay
    return None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _part_of(connection: duckdb.DuckDBPyConnection) -> Callable[[], float | None]:
    def part() -> float | None:
        percent = connection.query_progress()
        return percent / 100 if percent >= 0 else None

    return part


@contextmanager
def _shown(open_display: Callable[[], Display], part: Callable[[], float | None]) -> Iterator[None]:
    done = Event()
    watcher = Thread(
        target=_watch, args=(open_display, part, done), name="dfprivacy progress", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(
    open_display: Callable[[], Display], part: Callable[[], float | None], done: Event
) -> None:
    if done.wait(DELAY):
        return
    display = open_display()
    try:
        while not done.wait(_STEP):
            display.show(part())
    finally:
        display.erase()
