"""Write exact statistics to a file (`dfp.statistics`), and add up such files (`dfp.merge`).

Adding them up releases the answers, once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.engine.adopt import Adopted, Columns, adopt
from dfprivacy.engine.files import open_source
from dfprivacy.engine.keys import number_groups
from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import InvalidQuestionError, InvalidUnitError, StatisticsFileError
from dfprivacy.frames.exact_files import (
    ExactTables,
    Header,
    StatisticsFile,
    add_tables,
    check_target,
    declare_keys,
    in_types,
    keepable,
    meet,
    open_file,
    write_file,
)
from dfprivacy.frames.measuring import measure, measure_plan
from dfprivacy.frames.private import PrivateGroupBy
from dfprivacy.frames.releasing import plan_answers, questions_by_name, release_plan
from dfprivacy.measurement.exact import describe, whole_number
from dfprivacy.noise.entropy import fresh_id
from dfprivacy.release.answers import Measured
from dfprivacy.release.plan import Plan, limit_unit, name_columns
from dfprivacy.release.terms import EPSILON, INTERVAL, Files, PublicKeys, Terms, Unit, read_unit
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.mean_vector import MeanVector
from dfprivacy.statistics.split import split


def statistics(
    frame: object,
    path: str | os.PathLike[str],
    *questions: Statistic,
    by: Hashable | Sequence[Hashable] = (),
    keys: Any = None,
    unit: Hashable | Unit = None,
    max_rows: int | None = None,
    max_groups: int | None = None,
    bounds: Mapping[Hashable, tuple[float, float]] | None = None,
    **named_questions: Statistic,
) -> Path:
    """Write the exact statistics that questions need to a file, to be released by `dfp.merge`.

    **The file is secret.** It holds exact sums and counts, without any noise: guard it like the
    rows. This call releases nothing, charges nothing and promises nothing; `dfp.merge` adds up one
    or several such files, charges once, adds noise once, and its answers may be published.

    Only its owner can read the file. It is written whole or not at all, and never over another one.

    Parameters
    ----------
    frame : frame, relation or path
        Whatever `dfp.frame` takes.
    path : path
        The Parquet file to be made.
    *questions, **named_questions
        What `agg` takes: `dfp.count()`, `dfp.mean("x", (0, 100))`, `dfp.median("x")`, ... Files
        that are to be added up need the same questions, groups, limits and public keys.
    by : label, or list of labels
        The columns to group by.
    keys : list, optional
        Group keys that are public: exactly these are released. Otherwise keys are secret.
    unit, max_rows, max_groups
        Who is protected, as in `df.dp(unit=...)`. The limits hold within this file; `dfp.merge`
        accounts for units with rows in several.
    bounds : mapping, optional
        Bounds of columns whose questions name none.

    Returns
    -------
    pathlib.Path
        The path of the file.

    Raises
    ------
    InvalidQuestionError, InvalidBoundsError, InvalidKeysError, InvalidUnitError
        When the question can't be, or has no statistics that add up (`mean_vector`, `histogram`).
    StatisticsFileError
        When there is a file already, or it can't be written.
    UnsupportedDtypeError
        When a column's declared type does not allow what is asked.
    EngineError
        When the engine fails; its message is withheld.

    Examples
    --------
    >>> import dfprivacy as dfp, pandas as pd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> day = pd.DataFrame({"x": range(1000)})
    >>> path = dfp.statistics(day, folder.name + "/monday.parquet", dfp.mean("x", (0, 1000)))
    >>> dfp.merge([path], epsilon=1)["x"].epsilon
    1.0
    >>> folder.cleanup()
    """
    target = Path(path)
    check_target(target)
    _check([*questions, *named_questions.values()], named_questions, bounds)
    terms = Terms(unit=read_unit(unit, max_rows, max_groups)).update(bounds=bounds)
    labels = tuple(by) if isinstance(by, list | tuple) else (by,)
    public = PrivateGroupBy(None, terms, labels, keys)._keys if labels else None  # noqa: SLF001 checked
    asked_questions = questions_by_name(questions, named_questions, terms)
    parts = split(asked_questions, grouped=bool(labels), unit=terms.unit)
    if labels:
        name_columns(parts, asked_questions, [str(label) for label in labels])
    limited = limit_unit(terms.unit, labels, public)[0]
    kind = "none" if not labels else "secret" if public is None else "public"
    header = Header((fresh_id(16),), asked_questions, labels, kind, limited)
    header.json()  # refuses labels that have no name there

    storable = keepable(open_source(frame), labels)
    grouped = Columns(labels, public, limited)
    adopted, measured = measure(storable, [part.in_one_pass() for part in parts], grouped)
    group_keys = measured[0].keys
    if labels and isinstance(storable, pd.DataFrame):  # keys may stand for categories or durations
        group_keys = run_guarded(
            lambda: frame_table(adopted.wrap(group_keys))
        ).replace_schema_metadata(None)
    declared = declare_keys(group_keys, labels) if labels else pa.table({})
    write_file(target, header, ExactTables.of(measured, declared))
    return target


def _check(questions: Sequence[object], named: Mapping[str, object], bounds: object) -> None:
    """Refuse what has no statistics that add up, terms of a release, and bounds that are no map."""
    if any(isinstance(question, MeanVector) for question in questions):
        raise InvalidQuestionError(
            "a mean of vectors takes several passes, and later ones depend on the noise of earlier "
            "ones: no file can hold what they need",
            hint="ask it of the whole frame: dfp.frame(path).mean_vector(...)",
        )
    if any(isinstance(question, Histogram) for question in questions):
        raise InvalidQuestionError(
            "a file holds one answer a group to each question, and a histogram has one a bin",
            hint="make the bin a column of the frame, and count by it: by=bin, dfp.count()",
        )
    refused = [name for name in ("epsilon", "rho", "delta", "interval") if name in named]
    if refused:
        raise InvalidQuestionError(
            f"{refused[0]} was given, and nothing is released or spent here",
            hint="name it when the files are released: dfp.merge(paths, epsilon=1)",
        )
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidQuestionError(
            "bounds of several columns come as a mapping from column to bounds",
            hint='pass bounds={"column": (0, 100)}',
        )


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

    Privacy: neighbors differ by one row of one file or, where the files name a unit, by all rows
    of one unit in all files. The call spends `epsilon` (or `rho`) and, where group keys are secret,
    `delta`. The files and their number are public, their content is not. Rows must be in one file
    each: nothing can tell whether two files were made from the same rows.

    A unit may have rows in several files, and each file bounds only what it has there. The noise is
    therefore multiplied by the number of files. `parts_per_unit` is a promise that no unit has rows
    in more files than that; **nothing can check it, and the guarantee rests on it**. The proof is
    in docs/how-to/partial.md.

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
    dict of Estimate, or pyarrow.Table
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
    files = check_files(paths)
    header = files.header
    parts = _parts_per_unit(header, len(files.ids()), parts_per_unit)
    terms = Terms(unit=header.unit, files=Files(files.ids(), parts)).update(
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        interval=interval,
        ledger=ledger,
        dataset=dataset,
        version=version,
        note=note,
    )
    keys = files.public_keys() if header.by else None
    return release_plan(plan_answers(header.questions, terms, header.by, keys), files)


def merge_files(paths: Paths, path: str | os.PathLike[str]) -> Path:
    """Add up files of exact statistics into one **secret** file, such as a month of its days.

    Nothing is released or charged. `merge` answers from it as from the files that it was made of,
    and counts each of them for units with rows in several.

    >>> import dfprivacy as dfp, polars as pl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> days = [f"{folder.name}/{day}.parquet" for day in ("monday", "tuesday")]
    >>> made = [dfp.statistics(pl.DataFrame({"x": [1]}), day, dfp.count()) for day in days]
    >>> dfp.merge_files(days, folder.name + "/week.parquet").name
    'week.parquet'
    >>> folder.cleanup()

    Raises
    ------
    StatisticsFileError
        When a file can't be read, is there twice, or differs from the others; or when there is a
        file at `path` already, or it can't be written.
    """
    target, files = Path(path), check_files(paths)
    check_target(target)
    write_file(target, replace(files.header, ids=files.ids()), files.tables())
    return target


def _matching(named: str | os.PathLike[str]) -> list[Path]:
    """Return the file that is named, or those of a glob in the order of their names."""
    if not isinstance(named, str | os.PathLike):
        raise StatisticsFileError(
            f"files are named by their paths, not by {describe(named)}",
            hint='pass e.g. ["monday.parquet", "tuesday.parquet"] or "days/*.parquet"',
        )
    path = Path(named)
    if "*" not in path.name or path.exists():
        return [path]
    paths = sorted(path.parent.glob(path.name))
    if not paths:
        raise StatisticsFileError(
            f"no file is called {str(path)!r}", hint="check the folder and the names"
        )
    return paths


TOGETHER = 8  # files that are added up at a time: more memory, less sorting

_TERMS = {
    "questions": "questions, or their bounds",
    "by": "group columns",
    "keys": "kind of keys, public or secret",
    "unit": "unit, or its limits",
    "sums": "grids of sums",
    "moments": "kinds of columns, such as dates and numbers",
    "bins": "grids of values",
}
"""Fields of the header that must be the same in all files, and their names in messages."""


@dataclass(frozen=True)
class Pooled:
    """Files that go together, as a frame whose passes have been run; `kinds` are types of keys."""

    files: tuple[StatisticsFile, ...]
    kinds: tuple[pa.DataType, ...]

    @property
    def header(self) -> Header:
        """The header of all files."""
        return self.files[0].header

    def ids(self) -> tuple[str, ...]:
        """Return the identities of these files, in any order."""
        return tuple(sorted(number for file in self.files for number in file.header.ids))

    def public_keys(self) -> PublicKeys | None:
        """Return the public keys, the same in every file; None where they are secret."""
        if self.header.keys != "public":
            return None
        first, *others = (in_types(file.keys(), self.kinds) for file in self.files)
        for file, keys in zip(self.files[1:], others, strict=True):
            numbered = number_groups(pa.concat_tables([first, keys]), first.column_names)
            if not first.num_rows == keys.num_rows == numbered.groups:
                raise _differs(file, self.files[0], "public keys")
        return PublicKeys(tuple(tuple(row.values()) for row in first.to_pylist()))

    def tables(self) -> ExactTables:
        """Return the exact tables of all files, added up."""
        total: list[ExactTables] = []
        for start in range(0, len(self.files), TOGETHER):
            batch = [file.tables() for file in self.files[start : start + TOGETHER]]
            typed = [replace(exact, keys=in_types(exact.keys, self.kinds)) for exact in batch]
            total = [add_tables([*total, *typed], public=self.header.keys == "public")]
        return total[0]


def check_files(paths: Paths) -> Pooled:
    """Return the files that are named, once they are known to go together."""
    single = isinstance(paths, str | os.PathLike) or hasattr(paths, "columns")
    named: list[Any] = [paths] if single else list(paths)  # type: ignore[arg-type]
    files = [open_file(path) for path_named in named for path in _matching(path_named)]
    if not files:
        raise StatisticsFileError(
            "no file of statistics was named", hint='name some: dfp.merge("folder/*.parquet")'
        )
    first = files[0]
    count = Counter(number for file in files for number in file.header.ids)
    headers = {file.path: {**file.header.json(), "moments": file.header.moments} for file in files}
    for file in files:
        if any(count[number] > 1 for number in file.header.ids):
            raise StatisticsFileError(
                f"{str(file.path)!r} is named twice, or another of the files holds its rows",
                hint="name each file once, and no file beside one that was made of it: its rows "
                "would count twice",
            )
        for name, term in _TERMS.items():
            if headers[file.path][name] != headers[first.path][name]:
                raise _differs(file, first, term)
    key_types = []
    for index, label in enumerate(files[0].header.by):
        kinds = [file.header.key_types[index] for file in files]
        kind = meet(kinds)
        if kind is None:
            other = next(
                f
                for f, other_kind in zip(files, kinds, strict=True)
                if meet([kinds[0], other_kind]) is None
            )
            raise StatisticsFileError(
                f"group column {label!r} is declared {kinds[0]} in {str(files[0].path)!r} and "
                f"{other.header.key_types[index]} in {str(other.path)!r}",
                hint="declare it alike before the statistics are made",
            )
        key_types.append(kind)
    return Pooled(tuple(files), tuple(key_types))


def _differs(file: StatisticsFile, first: StatisticsFile, term: str) -> StatisticsFileError:
    return StatisticsFileError(
        f"{str(file.path)!r} can't be added to {str(first.path)!r}; it has other {term}",
        hint="make both with the same arguments of dfp.statistics, over columns of the same types",
    )


def _parts_per_unit(header: Header, files: int, parts_per_unit: object) -> int:
    """Return in how many files a unit can have rows: all, unless the caller promises less."""
    if parts_per_unit is None:
        return 1 if header.unit is None else files
    if header.unit is None:
        raise InvalidUnitError(
            "parts_per_unit says in how many files a unit has rows, and these files name no unit",
            hint="leave it out: a row is in one file",
        )
    count = whole_number(
        parts_per_unit,
        1,
        2**1023,
        InvalidUnitError,
        "parts_per_unit must be a whole number from 1 on",
        hint="leave it out, or promise e.g. parts_per_unit=1 where no unit is in two files",
    )
    return min(count, files)


@adopt.register
def _(frame: Pooled, columns: Columns) -> Adopted:  # noqa: ARG001 its passes have been run
    """Let a release come back as an Arrow table."""
    return adopt(pa.table({"row": pa.nulls(0, pa.bool_())}), Columns())


@measure_plan.register
def _(frame: Pooled, plan: Plan, _: None = None) -> tuple[Adopted, list[Measured]]:
    """Add the files up; no pass is run."""
    adopted = adopt(frame, Columns())
    adopted.close()
    return adopted, frame.tables().read_measurements(plan.parts)
