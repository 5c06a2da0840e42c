"""A line of text in the cell that is running, emptied at the end: it is not saved with the cell."""

from __future__ import annotations

from typing import Any

from IPython.display import display


class NotebookDisplay:
    """The part of the pass that is done, in plain text: no widgets are needed."""

    def __init__(self) -> None:
        self._line: Any = display(_text("reading"), raw=True, display_id=True)

    def show(self, part: float | None) -> None:
        """Show a part from 0 to 1; None where it is not known."""
        if part is not None:
            self._line.update(_text(f"reading: {part:.0%}"), raw=True)

    def erase(self) -> None:
        """Leave nothing behind."""
        self._line.update(_text(""), raw=True)


def _text(line: str) -> dict[str, str]:
    return {"text/plain": line}
