"""`dfp.merge`: files of exact statistics are added up and released, once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.errors import StatisticsFileError
from dfprivacy.exact import describe
from dfprivacy.partial.opened import open_file
from dfprivacy.partial.pooled import Pooled, pooled
from dfprivacy.partial.pooled import parts_per_unit as parts_of
from dfprivacy.releasing import release_frame, release_numbers
from dfprivacy.terms import EPSILON, INTERVAL, Files, Terms

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
    ['city', 'spent', 'low', 'high', 'count']
    >>> folder.cleanup()
    """
    files = files_of(paths)
    header = files.header
    parts = parts_of(header, len(files.files), parts_per_unit)
    terms = Terms(unit=header.of_unit(), files=Files(files.ids(), parts)).updated(
        epsilon=epsilon, rho=rho, delta=delta, interval=interval,
        ledger=ledger, dataset=dataset, version=version, note=note,
    )  # fmt: skip
    questions = header.asked()
    if not header.by:
        return release_numbers(files, questions, terms)
    return release_frame(files, header.by, files.public_keys(), questions, terms)


def files_of(paths: Paths) -> Pooled:
    """Return the files that are named, once they are known to go together.

    Raises
    ------
    StatisticsFileError
        When they can't be read or added up.
    """
    return pooled([open_file(path) for path in _listed(paths)])


def _listed(paths: Paths) -> list[Path]:
    """Return the files that are named, a glob's in the order of their names.

    Raises
    ------
    StatisticsFileError
        When something else is named, or no file has such a name.
    """
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
