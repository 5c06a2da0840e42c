"""Files of statistics that are added up: they must go together, and no two may be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dfprivacy.engine.adopt import Adopted, Columns, adopt
from dfprivacy.errors import InvalidUnitError, StatisticsFileError
from dfprivacy.exact import describe, exact_number
from dfprivacy.partial.exact_tables import ExactTables, added, measured_of
from dfprivacy.partial.header import Header
from dfprivacy.partial.key_types import in_types, meet
from dfprivacy.partial.opened import StatisticsFile
from dfprivacy.release.request import Request
from dfprivacy.releasing import measured_for
from dfprivacy.statistics.part import Measured
from dfprivacy.terms import PublicKeys

TOGETHER = 8
"""Files that are added up at a time: more memory, less sorting."""


@dataclass(frozen=True)
class Pooled:
    """Files that go together, as a release sees them: a frame whose passes have been run.

    `kinds` are the types of their keys.
    """

    files: tuple[StatisticsFile, ...]
    kinds: tuple[pa.DataType, ...]

    @property
    def header(self) -> Header:
        """What all files say."""
        return self.files[0].header

    def ids(self) -> tuple[str, ...]:
        """Return what tells these files from any others, in any order."""
        return tuple(sorted(file.header.id for file in self.files))

    def public_keys(self) -> PublicKeys | None:
        """Return the public keys, the same in every file; None where they are secret.

        Raises
        ------
        StatisticsFileError
            When they are not the same.
        """
        if self.header.keys != "public":
            return None
        first, *others = (in_types(file.keys(), self.kinds) for file in self.files)
        for file, keys in zip(self.files[1:], others, strict=True):
            if not keys.equals(first):
                raise _differs(file, self.files[0], "public keys")
        return PublicKeys(tuple(tuple(row.values()) for row in first.to_pylist()))

    def tables(self) -> ExactTables:
        """Return the exact tables of all files, added up."""
        total: list[ExactTables] = []
        for start in range(0, len(self.files), TOGETHER):
            batch = [self._typed(file.tables()) for file in self.files[start : start + TOGETHER]]
            total = [added([*total, *batch])]
        return total[0]

    def _typed(self, tables: ExactTables) -> ExactTables:
        return replace(tables, keys=in_types(tables.keys, self.kinds))


def pooled(files: Sequence[StatisticsFile]) -> Pooled:
    """Return files that go together.

    Raises
    ------
    StatisticsFileError
        When two are the same, or one differs from the first.
    """
    if not files:
        raise StatisticsFileError(
            "no file of statistics was named", hint='name some: dfp.merge("folder/*.parquet")'
        )
    first = files[0]
    count = Counter(file.header.id for file in files)
    for file in files:
        if count[file.header.id] > 1:
            raise StatisticsFileError(
                f"{str(file.path)!r} is named twice, or is a copy of another of the files",
                hint="name each file once: its rows would count twice",
            )
        for term, value in file.header.terms().items():
            if value != first.header.terms()[term]:
                raise _differs(file, first, term)
    return Pooled(tuple(files), _meeting(files))


def _differs(file: StatisticsFile, first: StatisticsFile, term: str) -> StatisticsFileError:
    return StatisticsFileError(
        f"{str(file.path)!r} can't be added to {str(first.path)!r}; it has other {term}",
        hint="make both with the same arguments of dfp.statistics, over columns of the same types",
    )


def _meeting(files: Sequence[StatisticsFile]) -> tuple[pa.DataType, ...]:
    """Return the types in which the keys of all files meet."""
    found = []
    for index, label in enumerate(files[0].header.by):
        kinds = [file.key_types[index] for file in files]
        kind = meet(kinds)
        if kind is None:
            other = next(
                f for f, own in zip(files, kinds, strict=True) if meet([kinds[0], own]) is None
            )
            raise StatisticsFileError(
                f"group column {label!r} is declared {kinds[0]} in {str(files[0].path)!r} and "
                f"{other.key_types[index]} in {str(other.path)!r}",
                hint="declare it alike before the statistics are made",
            )
        found.append(kind)
    return tuple(found)


def parts_per_unit(header: Header, files: int, given: object) -> int:
    """Return in how many files a unit can have rows: all of them, unless the caller promises less.

    A row is in one file; so is a unit that is a row.

    Raises
    ------
    InvalidUnitError
        When the promise is no whole number from 1 on, or the files know no unit.
    """
    if given is None:
        return 1 if header.unit is None else files
    if header.unit is None:
        raise InvalidUnitError(
            "parts_per_unit says in how many files a unit has rows, and these files name no unit",
            hint="leave it out: a row is in one file",
        )
    exact = exact_number(given)
    if exact is None or exact.denominator != 1 or exact < 1:
        raise InvalidUnitError(
            f"parts_per_unit must be a whole number from 1 on, not {describe(given)}",
            hint="leave it out, or promise e.g. parts_per_unit=1 where no unit is in two files",
        )
    return min(int(exact), files)


@adopt.register
def _(frame: Pooled, columns: Columns) -> Adopted:  # noqa: ARG001 its passes have been run
    """Let a release come back as an Arrow table."""
    return adopt(pa.table({"row": pa.nulls(0, pa.bool_())}), Columns((), {}, ()))


@measured_for.register
def _(frame: Pooled, request: Request) -> tuple[Adopted, list[Measured]]:
    """Add the files up; no pass is run."""
    adopted = adopt(frame, Columns((), {}, ()))
    adopted.close()
    return adopted, measured_of(frame.tables(), request.parts)
