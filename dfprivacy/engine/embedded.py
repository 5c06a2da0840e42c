"""The DuckDB connection that a call owns: the engine for pandas, Arrow, CSV and Parquet."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dfprivacy.errors import UnsupportedFrameError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def embedded_connection() -> duckdb.DuckDBPyConnection:
    """Return a fresh in-memory connection that installs and loads nothing by itself."""
    return duckdb.connect(config=_OFFLINE)


def is_text(path: Path) -> bool:
    """Tell a CSV or TSV file by its name; its columns are all text."""
    return path.suffix.lower() in _SEPARATORS


def read_file(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation:
    """Return a CSV, TSV or Parquet file as a relation; a Parquet path may hold a glob.

    A CSV file declares no types, and guessing them from its rows would let one row change them:
    every column is text. A malformed line is left out.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file or its name ends in something else.
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
    if suffix not in _SEPARATORS:
        return connection.read_parquet(str(path))
    return connection.read_csv(
        str(path),
        header=True,
        sep=_SEPARATORS[suffix],
        quotechar='"',
        escapechar='"',
        all_varchar=True,
        null_padding=True,
        ignore_errors=True,
    )
