"""The DuckDB connection that a call owns: the engine for pandas, Arrow, CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, finalize

import duckdb

from dfprivacy.engine.options import Engine, engine_options
from dfprivacy.engine.parquet_files import ENDINGS, read_parquet
from dfprivacy.engine.private_folders import private_folder, remove_folders, remove_with
from dfprivacy.errors import UnsupportedFrameError

Config = dict[str, str | bool | int | float | list[str]]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_OFFLINE: Config = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def embedded_connection() -> duckdb.DuckDBPyConnection:
    """Return a fresh in-memory connection that installs, loads and prints nothing by itself.

    It keeps to the limits of `Engine`. What exceeds memory goes to a directory of its own, which
    only this user may enter. `close_connection` removes it; so does the end of the connection, or
    of the process.
    """
    spill = private_folder()
    try:
        connection = duckdb.connect(config=_OFFLINE | _limits(engine_options(), spill))
        _SPILLS[connection] = remove_with(connection, spill)
        with suppress(duckdb.InvalidInputException):  # Jupyter without ipywidgets has no progress
            connection.execute("SET enable_progress_bar_print = false")  # it would print on stdout
            connection.execute("SET enable_progress_bar = true")  # so that it can be asked for
    except BaseException:
        remove_folders(spill)
        raise
    return connection


def close_connection(connection: duckdb.DuckDBPyConnection) -> None:
    """Close an embedded connection and remove what it has written; a second time does nothing."""
    try:
        connection.close()
    finally:
        remove = _SPILLS.pop(connection, None)
        if remove is not None:
            remove()


@contextmanager
def embedded() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an embedded connection for a block."""
    connection = embedded_connection()
    try:
        yield connection
    finally:
        close_connection(connection)


@contextmanager
def opening() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an embedded connection that outlives the block, unless the block fails."""
    connection = embedded_connection()
    try:
        yield connection
    except BaseException:
        close_connection(connection)
        raise


_SPILLS: WeakKeyDictionary[duckdb.DuckDBPyConnection, finalize[Any, Any]] = WeakKeyDictionary()


def _limits(options: Engine, spill: Path) -> Config:
    limits: Config = {"temp_directory": str(spill)}
    if options.memory is not None:
        limits["memory_limit"] = options.memory
    if options.threads is not None:
        limits["threads"] = options.threads
    return limits


def is_text(path: Path) -> bool:
    """Tell a CSV or TSV file by its name; its columns are all text."""
    return path.suffix.lower() in _SEPARATORS and not path.is_dir()


def read_file(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation:
    """Return a CSV, TSV or Parquet file as a relation, or the Parquet files of a glob or folder.

    A CSV file declares no types, and guessing them from its rows would let one row change them:
    every column is text, and nothing about the file is guessed, nor where its lines end. A record
    is what RFC 4180 calls one; short records are filled with NULL, and an empty line is none.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file, its name ends in something else, a text file has no line of
        distinct column names, or Parquet files declare different columns.
    """
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in ENDINGS:
        return read_parquet(connection, path)
    if suffix not in _SEPARATORS:
        raise UnsupportedFrameError(
            f"the file name ends in {suffix!r}",
            hint="pass a .csv, .tsv or .parquet file, or a folder of .parquet files",
        )
    if not path.is_file():
        raise UnsupportedFrameError(f"there is no file {str(path)!r}", hint="check the path")
    return _read_text(connection, path, _SEPARATORS[suffix])


def _read_text(
    connection: duckdb.DuckDBPyConnection, path: Path, separator: str
) -> duckdb.DuckDBPyRelation:
    names = _header(path, separator)
    found = connection.read_csv(
        escape(str(path)),
        columns=dict.fromkeys([*names, *_spare(names)], "VARCHAR"),
        auto_detect=False,
        header=True,
        sep=separator,
        quotechar='"',
        escapechar='"',
        lineterminator="\\n",  # type: ignore[arg-type]  # CR, LF or both; else CR CR LF breaks a row
        null_padding=True,
        ignore_errors=True,
        strict_mode=False,
        parallel=False,  # the parallel reader stops at a quoted line break
        max_line_size=2**26,
    )
    return found.project("#1") if _spare(names) else found


def _spare(names: list[str]) -> list[str]:
    """Return a column beside a single one, without which the LF of CR LF would be a record."""
    return [f"{names[0]}_"] if len(names) == 1 else []


def _header(path: Path, separator: str) -> list[str]:
    """Return the column names in the first record of a text file."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names = next(csv.reader(file, delimiter=separator), [])
    if not names or len({name.lower() for name in names}) < len(names):
        raise UnsupportedFrameError(
            f"the first line of {str(path)!r} does not hold distinct column names",
            hint="write one name a column in the first line, different in more than case",
        )
    return names
