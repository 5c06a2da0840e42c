"""What is wrong with a description: every fault with its line, all of them in one error."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dfprivacy.errors import DPError, InvalidDescriptionError, meant

T = TypeVar("T")

HINT = "docs/etl.md describes every field; --check looks at a file without spending anything"


@dataclass(frozen=True)
class Faults:
    """The faults of one description, gathered while it is read."""

    file: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, what: str) -> None:
        """Note a fault."""
        if (line, what) not in self.found:
            self.found.append((line, what))

    def attempt(self, line: int, where: str, make: Callable[[], T]) -> T | None:
        """Return what `make` returns; what it refuses is a fault of this line."""
        try:
            return make()
        except DPError as error:
            self.add(line, f"{where}: {error.message}")
            return None

    def require_none(self) -> None:
        """Raise all faults at once, by line, if there are any.

        Raises
        ------
        InvalidDescriptionError
            With one line a fault.
        """
        if self.found:
            lines = [f"{self.file}:{line}: {what}" for line, what in sorted(self.found)]
            raise InvalidDescriptionError("\n".join(lines), hint=HINT)


def nearest(name: str, known: Collection[str]) -> str:
    """Return the name that was probably meant, as the end of a message; else all of them."""
    other = meant(name, known)
    return f"there are {', '.join(known)}" if other is None else f"did you mean {other!r}?"
