"""A description as it was read: plain values, each with the line that it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Plain = str | int | float | bool | None


@dataclass(frozen=True)
class Marked:
    """A value of a description, and the line of its name or, in a list, of itself."""

    value: Plain | Sequence[Marked] | Mapping[str, Marked]
    line: int

    @property
    def kind(self) -> str:
        """What the value is, in words."""
        if self.value is None:
            return "nothing"
        if isinstance(self.value, Mapping):
            return "a group of fields"
        if isinstance(self.value, str):
            return "a text"
        if isinstance(self.value, bool):
            return "true or false"
        return "a number" if isinstance(self.value, int | float) else "a list"

    @property
    def fields(self) -> Mapping[str, Marked]:
        """The fields of a mapping; none of anything else."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def items(self) -> Sequence[Marked]:
        """The items of a list; a plain value is a list of one."""
        if isinstance(self.value, Mapping) or self.value is None:
            return ()
        return (self,) if isinstance(self.value, Plain) else self.value
