"""A statement that has been read: what is asked of which rows, and what is done with the answers.

Nothing here looks at data. Every text in it was written by this package, none by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.statements.calls import Call
from dfprivacy.statements.relations import Rows
from dfprivacy.statements.written import Written


@dataclass(frozen=True)
class Key:
    """A group key: its name in the result, and its SQL over the protected relation."""

    name: str
    sql: str


@dataclass(frozen=True)
class Output:
    """A column of the result: its name, and its SQL over the released table."""

    name: str
    sql: str


@dataclass(frozen=True)
class Released:
    """What is done with the released table, whose columns are key_0, ... and answer_0, ...

    `order` are SQL texts with their direction.
    """

    outputs: tuple[Output, ...]
    having: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    limit: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Target:
    """Where released rows go: a new table, or one that they are added to."""

    path: tuple[str, ...]
    creates: bool
    replaces: bool = False
    temporary: bool = False
    columns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name as the statement wrote it."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Statement:
    """One statement: rows, keys, draws, what is released of them, and where it goes.

    `calls` are the draws, by their text; the n-th of them is answer_n of the released table.
    `selection` is the epsilon of a count that does nothing but select groups, if there is one.
    `written` are the calls as they are written, None where DuckDB may draw one several times.
    """

    rows: Rows
    conditions: tuple[str, ...]
    keys: tuple[Key, ...]
    calls: tuple[tuple[str, Call], ...]
    delta: int | float | None
    selection: Epsilon | None
    written: tuple[Written, ...] | None
    released: Released
    target: Target | None = None
