"""Open Delta and Iceberg tables at one snapshot, and find out which folders are such tables.

A table's folder keeps files whose rows were deleted or rewritten, for days or forever. Only the
table's own log says which files count, so that none of them is ever read as plain Parquet.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dfprivacy.errors import UnsupportedFrameError

DELTA, ICEBERG, HUDI = "Delta", "Iceberg", "Hudi"
METADATA = ".metadata.json"
"""The end of the name of a file that describes an Iceberg table."""

_LOGS = {"_delta_log": DELTA, ".hoodie": HUDI}
_OF_ICEBERG = re.compile(r"version-hint\.text|snap-.*\.avro|.*\.metadata\.json")
_NUMBER = re.compile(r"v?(\d+)\D")
_PARTITION_TYPES = frozenset(
    ("string", "byte", "short", "integer", "long", "boolean", "date", "timestamp", "timestamp_ntz")
)
"""Delta types whose values can be read from the name of a directory."""


@dataclass(frozen=True)
class Snapshot:
    """The rows of a Delta or Iceberg table at one version, which every pass reads alike.

    `version` has the table's UUID beside the number of the version: a table that is dropped and
    created again starts to count anew.
    """

    rows: pl.LazyFrame
    version: str

    def select(self, names: Collection[str]) -> Snapshot:
        """Return the snapshot with those of some columns that the table has, in its order."""
        columns = self.rows.collect_schema().names()
        chosen = [name for name in columns if name in names] or columns[:1]
        return Snapshot(self.rows.select(chosen), self.version)


def table_format(folder: Path) -> str | None:
    """Return the format of the table whose root a folder is; None for any other folder."""
    for name, kind in _LOGS.items():
        if (folder / name).is_dir():
            return kind
    metadata = folder / "metadata"
    if metadata.is_dir() and any(_OF_ICEBERG.fullmatch(file.name) for file in metadata.iterdir()):
        return ICEBERG
    return None


def require_no_table(files: Iterable[Path]) -> None:
    """Refuse files that lie in the folder of a table, or links to such files.

    Raises
    ------
    UnsupportedFrameError
        When there is such a file.
    """
    folders = {os.path.dirname(os.path.abspath(file)) for file in files}  # noqa: PTH100, PTH120 fast
    linked = {os.path.realpath(file) for file in files if os.path.islink(file)}  # noqa: PTH114
    folders |= {os.path.dirname(file) for file in linked}  # noqa: PTH120
    parents = {os.path.dirname(folder) for folder in folders}  # noqa: PTH120
    real = {parent: os.path.realpath(parent) for parent in parents}
    folders |= {
        os.path.realpath(folder)
        if os.path.islink(folder)  # noqa: PTH114
        else os.path.join(real[os.path.dirname(folder)], os.path.basename(folder))  # noqa: PTH118, PTH119, PTH120
        for folder in folders
    }
    around = {root for folder in map(Path, folders) for root in (folder, *folder.parents)}
    for root in sorted(around):
        kind = table_format(root)
        if kind is not None:
            raise UnsupportedFrameError(
                f"{str(root)!r} is the folder of a {kind} table, in which files of deleted rows "
                "lie beside those that count",
                hint=_HINTS.get(
                    kind, f"dfp.frame({str(root)!r}) reads the table at its newest version"
                ),
            )


_HINTS = {
    HUDI: "Hudi tables are not read: write the rows that count to Parquet files in another folder",
}


def open_table(path: Path) -> Snapshot | None:
    """Return the newest snapshot of a Delta or Iceberg table; None where a path names no table.

    Raises
    ------
    UnsupportedFrameError
        When the package that reads the table is missing, or the table can't be read.
    """
    kind = None
    with suppress(OSError, ValueError):  # whoever reads the files looks again
        kind = ICEBERG if path.name.endswith(METADATA) else table_format(path)
    if kind == DELTA:
        return _open_delta(path)
    return _open_iceberg(path) if kind == ICEBERG else None


def _unreadable(path: Path, why: str) -> UnsupportedFrameError:
    return UnsupportedFrameError(
        f"the table {str(path)!a} {why}",
        hint="check that you may read all of its folder; a polars frame is read too, such as "
        "dfp.frame(pl.scan_delta(...))",
    )


def _package(name: str, kind: str) -> Any:
    """Return the package that reads the tables of a format."""
    with suppress(ImportError):
        return importlib.import_module(name)
    raise UnsupportedFrameError(
        f"a {kind} table is read with the package {name.partition('.')[0]}, which is not installed",
        hint="pip install 'dfprivacy[lake]'",
    )


def _open_delta(folder: Path) -> Snapshot:
    """Return the newest version of a Delta table."""
    package = _package("deltalake", DELTA)
    kinds: dict[str, str] = {}
    with suppress(Exception):  # an error of the reader quotes files
        table = package.DeltaTable(folder.absolute())
        about, fields = table.metadata(), table.schema().fields
        kinds = {field.name: getattr(field.type, "type", "nested") for field in fields}
    if not kinds:
        raise _unreadable(folder, "can't be opened")
    if "%" in table.table_uri:  # polars finds no file of such a table
        raise _unreadable(folder, "lies at a path with a space, or with a mark other than a-z")
    for name in about.partition_columns:
        if kinds[name] not in _PARTITION_TYPES:
            what = f"is partitioned by {name!r}, which is declared {kinds[name]}"
            raise _unreadable(folder, what)
    with suppress(Exception):
        rows = pl.scan_delta(table)
        rows.collect_schema()
        return Snapshot(rows, f"delta {about.id} {table.version()}")
    features = ", ".join(sorted(table.protocol().reader_features or ["columnMapping"]))
    raise _unreadable(folder, f"needs a reader of {features}, and polars does not read all of that")


def _open_iceberg(path: Path) -> Snapshot:
    """Return the newest snapshot of an Iceberg table, or the one that a metadata file names."""
    package = _package("pyiceberg.table", ICEBERG)
    files = [path] if path.name.endswith(METADATA) else _newest_metadata(path)
    if len(files) != 1:
        raise UnsupportedFrameError(
            f"the Iceberg table {str(path)!a} has {len(files)} newest metadata files",
            hint="name the metadata file that its catalog names, ending in .metadata.json",
        )
    if importlib.util.find_spec("polars_iceberg") is None:  # else polars advises to install it
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")
    columns: Collection[str] = ()
    with suppress(Exception):  # an error of the reader quotes files
        table = package.StaticTable.from_metadata(str(files[0].absolute()))
        rows = pl.scan_iceberg(table, use_metadata_statistics=False)
        columns = rows.collect_schema()
    if not columns:
        raise _unreadable(path, "can't be opened")
    current = table.current_snapshot()
    summary = {} if current is None or current.summary is None else current.summary
    if (summary.get("total-equality-deletes") or "0") != "0":
        raise _unreadable(path, "has equality deletes, which a compaction has to apply first")
    number = None if current is None else current.snapshot_id
    version = f"iceberg {table.metadata.table_uuid} {number} {table.metadata.current_schema_id}"
    return Snapshot(rows, version)


def _newest_metadata(folder: Path) -> list[Path]:
    """Return the metadata files of the number in a table's hint, or else of the highest number."""
    metadata = folder / "metadata"
    with suppress(OSError, ValueError):
        files = [file for file in metadata.iterdir() if file.name.endswith(METADATA)]
        numbers = {file: int(number[1]) for file in files if (number := _NUMBER.match(file.name))}
        newest = max(numbers.values(), default=-1)
        hint = metadata / "version-hint.text"
        if hint.is_file():
            newest = int(hint.read_text("utf-8"))
        return [file for file, number in numbers.items() if number == newest]
    return []
