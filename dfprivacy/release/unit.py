"""The privacy unit: who is protected, and how much of the data one of them may be."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from dfprivacy.accounting.exact import describe, exact_number
from dfprivacy.errors import InvalidUnitError
from dfprivacy.release.labels import label_of

LARGEST_LIMIT = 2**20


@dataclass(frozen=True)
class Unit:
    """The privacy unit: all rows that share a value of `column`, and what counts of them.

    A unit's rows in one group count together as `max_rows` rows at most, and it counts in at most
    `max_groups` groups. Rows without a unit (NULL) are left out.

    >>> Unit("user_id", max_rows=3, max_groups=2)
    Unit(column='user_id', max_rows=3, max_groups=2)

    Raises
    ------
    InvalidUnitError
        When max_rows is missing, or a limit is no whole number from 1 to 2**20.
    """

    column: Hashable
    max_rows: int
    max_groups: int | None = None

    def __post_init__(self) -> None:
        """Check the limits."""
        label_of(self.column)
        object.__setattr__(self, "max_rows", _limit("max_rows", self.max_rows))
        if self.max_groups is not None:
            object.__setattr__(self, "max_groups", _limit("max_groups", self.max_groups))

    @property
    def text(self) -> str:
        """The unit as a ledger's history names it."""
        groups = "" if self.max_groups is None else f", max_groups={self.max_groups}"
        return f"unit={self.column!r}, max_rows={self.max_rows}{groups}"


@dataclass(frozen=True)
class Sought(Unit):
    """A unit whose limits a release finds itself; the numbers that it has are the smallest ones.

    `max_groups` is sought where it is None and the groups have to be limited.
    """

    max_rows: int = 1
    rows: bool = True

    @property
    def text(self) -> str:
        """The unit as a ledger's history names it."""
        named = [] if self.rows else [f"max_rows={self.max_rows}"]
        named += [] if self.max_groups is None else [f"max_groups={self.max_groups}"]
        return ", ".join([f"unit={self.column!r}", *named, "limits found"])


def no_limit() -> InvalidUnitError:
    """Return the error for a unit whose limits have to be known beforehand."""
    return InvalidUnitError(
        "a unit may have any number of rows, and nothing says how many of them count",
        hint="pass max_rows=5, a number chosen without looking at the data, or pay for "
        "limits: dfp.suggest_limits(df, unit='user_id', by='city')",
    )


def _limit(name: str, value: object) -> int:
    if value is None:
        raise no_limit()
    exact = exact_number(value)
    if exact is None or exact.denominator != 1 or not 1 <= exact <= LARGEST_LIMIT:
        raise InvalidUnitError(
            f"{name} must be a whole number from 1 to 2**20, not {describe(value)}",
            hint="choose limits without looking at the data, e.g. max_rows=5, max_groups=3",
        )
    return int(exact)


def unit_of(unit: object, max_rows: object, max_groups: object) -> Unit | None:
    """Return the privacy unit that a caller has named; None for single rows.

    Without max_rows it is one whose limits a release finds.

    Raises
    ------
    InvalidUnitError
        When limits come without a unit, or are no whole numbers in range.
    """
    if unit is None:
        if max_rows is not None or max_groups is not None:
            raise InvalidUnitError(
                "max_rows and max_groups limit what one unit contributes, and no unit was named",
                hint='name the column: unit="user_id"',
            )
        return None
    if not isinstance(unit, Unit):
        if max_rows is None:
            return Sought(label_of(unit), max_groups=max_groups)  # type: ignore[arg-type]
        return Unit(label_of(unit), max_rows, max_groups)  # type: ignore[arg-type]
    if isinstance(unit, Sought) and max_rows is None:
        groups = unit.max_groups if max_groups is None else max_groups
        return Sought(unit.column, max_groups=groups)  # type: ignore[arg-type]
    rows = unit.max_rows if max_rows is None else max_rows
    groups = unit.max_groups if max_groups is None else max_groups
    return Unit(unit.column, rows, groups)  # type: ignore[arg-type]
