"""A bar on the standard error stream, drawn by rich and erased at the end."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TimeElapsedColumn


class TerminalDisplay:
    """A bar, the time, and the part of the pass that is done, where it is known."""

    def __init__(self) -> None:
        columns = (SpinnerColumn(), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("reading", total=None)
        self._bar.start()

    def show(self, part: float | None) -> None:
        """Show a part from 0 to 1; None where it is not known."""
        if part is not None:
            self._bar.update(self._task, total=1.0, completed=part)

    def erase(self) -> None:
        """Leave nothing behind."""
        self._bar.stop()
