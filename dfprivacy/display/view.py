"""A released frame as it is shown: keys, answers with their intervals, counts, and the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dfprivacy.display.words import left_out

Cell = tuple[float, tuple[float, float] | None]


@dataclass(frozen=True)
class Series:
    """One answer for every group that is shown: values, with intervals where there are any."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def has_ends(self) -> bool:
        """Tell whether there are intervals."""
        return any(ends is not None for _, ends in self.cells)


@dataclass(frozen=True)
class View:
    """The groups of a released frame that are shown, out of `groups` that there are.

    `keys` has the texts of each group's keys under `key_names`; `counts` the noisy count of each
    group, or None where the frame has none. `answers` are the first of `all_answers`.
    """

    title: str
    key_names: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    answers: tuple[Series, ...]
    counts: tuple[int | None, ...]
    groups: int
    all_answers: int
    cost: str
    level: float | None

    @property
    def keys_title(self) -> str:
        """The names of the keys, as one title."""
        return ", ".join(self.key_names)

    @property
    def labels(self) -> list[str]:
        """One label a group, no two alike."""
        return unique_texts([", ".join(own) for own in self.keys])

    @property
    def left_out(self) -> list[str]:
        """The lines that say which answers are not shown."""
        return left_out(len(self.answers), self.all_answers, "answers")

    @property
    def shows_counts(self) -> bool:
        """Tell whether counts stand beside the answers."""
        return any(count is not None for count in self.counts)


def unique_texts(texts: Sequence[str]) -> list[str]:
    """Return texts of which no two are alike: a repeated one gets a number.

    >>> unique_texts(["a", "NULL", "NULL"])
    ['a', 'NULL', 'NULL (2)']
    """
    made: list[str] = []
    taken: set[str] = set()
    for text in texts:
        name, number = text, 1
        while name in taken:
            number += 1
            name = f"{text} ({number})"
        taken.add(name)
        made.append(name)
    return made
