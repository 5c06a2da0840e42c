"""`dfp.merge`: add files of exact statistics up and release the answers, once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dfprivacy.accounting.exact import describe, exact_number
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.engine.adopt import Adopted, Columns, adopt
from dfprivacy.engine.keys import number_groups
from dfprivacy.errors import InvalidUnitError, StatisticsFileError
from dfprivacy.frames.partial.files import Header, StatisticsFile, open_file
from dfprivacy.frames.partial.tables import ExactTables, added, in_types, meet
from dfprivacy.frames.releasing import measured_for, release_frame, release_numbers
from dfprivacy.release.request import Request
from dfprivacy.release.terms import EPSILON, INTERVAL, Files, PublicKeys, Terms
from dfprivacy.statistics.part import Measured

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def merge(
    paths: Paths,
    *,
    epsilon: float = EPSILON,
    rho: float | None = None,
    delta: float | None = None,
    interval: float = INTERVAL,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    version: str | None = None,
    note: str | None = None,
    parts_per_unit: int | None = None,
) -> Any:
    """Add up files of exact statistics, and release the answers to their questions.

    The answers are those of one release over all rows of all files, with the same noise.

    Privacy: neighbours differ by one row of one file or, where the files name a unit, by all rows
    of one unit in all files. The call spends `epsilon` (or `rho`) and, where group keys are secret,
    `delta`. The files and their number are public, their content is not. Rows must be in one file
    each: nothing can tell whether two files were made from the same rows.

    A unit may have rows in several files, and each file bounds only what it has there. The noise is
    therefore multiplied by the number of files. `parts_per_unit` is a promise that no unit has rows
    in more files than that; **nothing can check it, and the guarantee rests on it**. The proof is
    in docs/partial.md.

    Parameters
    ----------
    paths : path, glob, or list of them
        Files that `dfp.statistics` has made with the same arguments.
    epsilon, rho, delta, interval
        The terms of the release, as everywhere.
    ledger, dataset, version, note
        What is charged, as everywhere. A ledger that remembers gives the same answer again for the
        same files, in any order.
    parts_per_unit : int, optional
        In how many of the files a unit has rows, at most; all of them if left out.

    Returns
    -------
    dict of Estimate and Choice, or pyarrow.Table
        What `agg` returns for a whole frame, or by group: keys, answers, intervals and counts.

    Raises
    ------
    StatisticsFileError
        When a file can't be read, is there twice, or differs from the others; it names the file
        and what differs, and nothing that it holds.
    MissingDeltaError, InvalidLossError, InvalidUnitError
        When the terms don't go with the questions.
    TooManyRowsError
        When a group has 2**33 rows or more in all files together.
    LedgerError, BudgetExceededError
        When the release can't be charged; nothing is released then.

    Examples
    --------
    >>> import dfprivacy as dfp, polars as pl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for day in ("monday", "tuesday"):
    ...     rows = pl.DataFrame({"city": ["Rome", "Oslo"] * 500, "spent": [1.0, 9.0] * 500})
    ...     path = f"{folder.name}/{day}.parquet"
    ...     _ = dfp.statistics(rows, path, dfp.mean("spent", (0, 10)), by="city")
    >>> dfp.merge(folder.name + "/*.parquet", epsilon=1, delta=1e-6).column_names
    ['city', 'spent', 'low', 'high', 'note', 'count']
    >>> folder.cleanup()
    """
    files = files_of(paths)
    header = files.header
    parts = _parts_per_unit(header, len(files.files), parts_per_unit)
    terms = Terms(unit=header.unit, files=Files(files.ids(), parts)).updated(
        epsilon=epsilon, rho=rho, delta=delta, interval=interval,
        ledger=ledger, dataset=dataset, version=version, note=note,
    )  # fmt: skip
    if not header.by:
        return release_numbers(files, header.questions, terms)
    return release_frame(files, header.by, files.public_keys(), header.questions, terms)


def _listed(paths: Paths) -> list[Path]:
    """Return the files that are named, a glob's in the order of their names."""
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return [path for own in named for path in _matching(own)]


def _matching(named: str | os.PathLike[str]) -> list[Path]:
    if not isinstance(named, str | os.PathLike):
        raise StatisticsFileError(
            f"files are named by their paths, not by {describe(named)}",
            hint='pass e.g. ["monday.parquet", "tuesday.parquet"] or "days/*.parquet"',
        )
    path = Path(named)
    if "*" not in path.name or path.exists():
        return [path]
    found = sorted(path.parent.glob(path.name))
    if not found:
        raise StatisticsFileError(
            f"no file is called {str(path)!r}", hint="check the folder and the names"
        )
    return found


TOGETHER = 8
"""Files that are added up at a time: more memory, less sorting."""

_TERMS = {
    "questions": "questions, or their bounds",
    "by": "group columns",
    "keys": "kind of keys, public or secret",
    "unit": "unit, or its limits",
    "sums": "grids of sums",
    "bins": "grids of values: a column is declared to hold integers here and floats there",
}
"""What must be the same in all files, and in words."""


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
        """Return the public keys, the same in every file; None where they are secret."""
        if self.header.keys != "public":
            return None
        first, *others = (in_types(file.keys(), self.kinds) for file in self.files)
        for file, keys in zip(self.files[1:], others, strict=True):
            together = number_groups(pa.concat_tables([first, keys]), first.column_names, None)
            if not first.num_rows == keys.num_rows == together.groups:
                raise _differs(file, self.files[0], "public keys")
        return PublicKeys(tuple(tuple(row.values()) for row in first.to_pylist()))

    def tables(self) -> ExactTables:
        """Return the exact tables of all files, added up."""
        total: list[ExactTables] = []
        for start in range(0, len(self.files), TOGETHER):
            batch = [file.tables() for file in self.files[start : start + TOGETHER]]
            typed = [replace(own, keys=in_types(own.keys, self.kinds)) for own in batch]
            total = [added([*total, *typed], public=self.header.keys == "public")]
        return total[0]


def files_of(paths: Paths) -> Pooled:
    """Return the files that are named, once they are known to go together."""
    files = [open_file(path) for path in _listed(paths)]
    if not files:
        raise StatisticsFileError(
            "no file of statistics was named", hint='name some: dfp.merge("folder/*.parquet")'
        )
    first = files[0]
    count = Counter(file.header.id for file in files)
    said = {file.path: file.header.json() for file in files}
    for file in files:
        if count[file.header.id] > 1:
            raise StatisticsFileError(
                f"{str(file.path)!r} is named twice, or is a copy of another of the files",
                hint="name each file once: its rows would count twice",
            )
        for name, term in _TERMS.items():
            if said[file.path][name] != said[first.path][name]:
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
        kinds = [file.header.key_types[index] for file in files]
        kind = meet(kinds)
        if kind is None:
            other = next(
                f for f, own in zip(files, kinds, strict=True) if meet([kinds[0], own]) is None
            )
            raise StatisticsFileError(
                f"group column {label!r} is declared {kinds[0]} in {str(files[0].path)!r} and "
                f"{other.header.key_types[index]} in {str(other.path)!r}",
                hint="declare it alike before the statistics are made",
            )
        found.append(kind)
    return tuple(found)


def _parts_per_unit(header: Header, files: int, given: object) -> int:
    """Return in how many files a unit can have rows: all of them, unless the caller promises less.

    A row is in one file; so is a unit that is a row.
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
    return adopted, frame.tables().measured(request.parts)
