"""Show how far a long pass is, on the terminal or in the notebook of who runs it, nowhere else.

What is shown (a part of the scan, and the time) depends on the number of rows, as the time itself
does. It goes to a terminal or to the cell that is running, is erased at the end, and is part of
nothing that is released.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any, Literal, get_args

import duckdb

from dfprivacy.errors import InvalidEngineError
from dfprivacy.measurement.exact import describe

Mode = Literal["auto", "on", "off"]
VARIABLE = "DFPRIVACY_PROGRESS"

DELAY = 1.0
"""Seconds before anything is shown: quick calls stay silent."""

_STEP = 0.1
_CHOSEN: list[Mode] = []
_INSIDE: ContextVar[bool] = ContextVar("dfprivacy_watched", default=False)


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
    if not isinstance(mode, str) or mode not in get_args(Mode):
        raise InvalidEngineError(
            f"progress is 'auto', 'on' or 'off', not {describe(mode)}", hint='dfp.progress("off")'
        )
    _CHOSEN[:] = [mode]


@contextmanager
def watch_progress(connection: duckdb.DuckDBPyConnection | None = None) -> Iterator[None]:
    """Show the progress of a block if it is long.

    An embedded `connection` is asked how far it is. Of others only the time is shown: a caller's
    connection is not touched from another thread. A block inside of one shows nothing of its own.
    """
    open_display = None if _INSIDE.get() else _display()
    if open_display is None:
        yield
        return
    done = Event()

    def watch() -> None:
        if done.wait(DELAY):
            return
        display = open_display()
        try:
            while not done.wait(_STEP):
                percent = -1.0 if connection is None else connection.query_progress()
                display.show(percent / 100 if percent >= 0 else None)
        finally:
            display.erase()

    watcher = Thread(target=watch, name="dfprivacy progress", daemon=True)
    watcher.start()
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)
        done.set()
        watcher.join()


@contextmanager
def hide_progress() -> Iterator[None]:
    """Show no progress in a block, whose standard error stream is read by programs."""
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def _display() -> type[NotebookDisplay | TerminalDisplay] | None:
    """Return the class of the display; None without a terminal or notebook."""
    setting = os.environ.get(VARIABLE, "auto").lower()
    mode = _CHOSEN[0] if _CHOSEN else setting if setting in get_args(Mode) else "off"
    if mode == "off" or (mode == "auto" and "PYTEST_CURRENT_TEST" in os.environ):
        return None
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        return NotebookDisplay
    seen = mode == "on" or (sys.stderr is not None and sys.stderr.isatty())
    return TerminalDisplay if seen else None


class NotebookDisplay:
    """A line of text in the cell that is running, emptied at the end: it is not saved with it."""

    def __init__(self) -> None:
        from IPython.display import display  # noqa: PLC0415 need not be installed

        show: Any = display
        self._line = show({"text/plain": "reading"}, raw=True, display_id=True)

    def show(self, part: float | None) -> None:
        """Show a part from 0 to 1; None where it is not known."""
        if part is not None:
            self._line.update({"text/plain": f"reading: {part:.0%}"}, raw=True)

    def erase(self) -> None:
        """Leave nothing behind."""
        self._line.update({"text/plain": ""}, raw=True)


class TerminalDisplay:
    """A bar on the standard error stream, drawn by rich and erased at the end."""

    def __init__(self) -> None:
        from rich import progress as bars  # noqa: PLC0415 it takes long to load
        from rich.console import Console  # noqa: PLC0415 the same

        columns = (
            bars.SpinnerColumn(),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
        )
        self._bar = bars.Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("reading", total=None)
        self._bar.start()

    def show(self, part: float | None) -> None:
        """Show a part from 0 to 1; None where it is not known."""
        if part is not None:
            self._bar.update(self._task, total=1.0, completed=part)

    def erase(self) -> None:
        """Leave nothing behind."""
        self._bar.stop()
