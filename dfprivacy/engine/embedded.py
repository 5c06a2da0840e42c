"""The DuckDB connection that a call owns: the engine for pandas, Arrow, CSV and Parquet."""

from __future__ import annotations

import csv
from contextlib import suppress
from pathlib import Path

import duckdb

from dfprivacy.errors import UnsupportedFrameError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def embedded_connection() -> duckdb.DuckDBPyConnection:
    """Return a fresh in-memory connection that installs, loads and prints nothing by itself."""
    connection = duckdb.connect(config=_OFFLINE)
    with suppress(duckdb.InvalidInputException):  # Jupyter without ipywidgets has none to turn off
        connection.execute("SET enable_progress_bar = false")  # a long pass would print on stdout
    return connection


def is_text(path: Path) -> bool:
    """Tell a CSV or TSV file by its name; its columns are all text."""
    return path.suffix.lower() in _SEPARATORS


def read_file(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation:
    """Return a CSV, TSV or Parquet file as a relation; a Parquet path may hold a glob.

    A CSV file declares no types, and guessing them from its rows would let one row change them:
    every column is text, and nothing about the file is guessed. A record is what RFC 4180 calls
    one; short records are filled with NULL.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file, its name ends in something else, or a text file has no line of
        distinct column names.
    """
    suffix = path.suffix.lower()
    if suffix not in {*_SEPARATORS, ".parquet", ".pq"}:
        raise UnsupportedFrameError(
            f"the file name ends in {suffix!r}", hint="pass a .csv, .tsv or .parquet file"
        )
    if "*" not in path.name and not path.is_file():
        raise UnsupportedFrameError(
            f"there is no file {str(path)!r}",
            hint="check the path; several Parquet files are named by a glob, folder/*.parquet",
        )
    if suffix in _SEPARATORS:
        return _read_text(connection, path, _SEPARATORS[suffix])
    return connection.read_parquet(str(path))


def _read_text(
    connection: duckdb.DuckDBPyConnection, path: Path, separator: str
) -> duckdb.DuckDBPyRelation:
    return connection.read_csv(
        str(path),
        columns=dict.fromkeys(_header(path, separator), "VARCHAR"),
        auto_detect=False,
        header=True,
        sep=separator,
        quotechar='"',
        escapechar='"',
        null_padding=True,
        ignore_errors=True,
        strict_mode=False,
        parallel=False,  # the parallel reader stops at a quoted line break
        max_line_size=2**26,
    )


def _header(path: Path, separator: str) -> list[str]:
    """Return the column names in the first record of a text file."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names = next(csv.reader(file, delimiter=separator), [])
    if not names or len(set(names)) < len(names):
        raise UnsupportedFrameError(
            f"the first line of {str(path)!r} does not hold distinct column names",
            hint="write one name a column in the first line",
        )
    return names
