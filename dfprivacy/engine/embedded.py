"""The DuckDB connection that a call owns: the engine for pandas, Arrow, CSV and Parquet."""

from __future__ import annotations

from collections.abc import Collection, Hashable
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


def read_file(
    connection: duckdb.DuckDBPyConnection, path: Path, numeric: Collection[Hashable]
) -> duckdb.DuckDBPyRelation:
    """Return a CSV, TSV or Parquet file as a relation; a Parquet path may hold a glob.

    A CSV file declares no types, and guessing them from its rows would let one row change them:
    the columns in `numeric` are read as numbers (text that is none counts as NULL), all others as
    text. A malformed line is left out.

    Raises
    ------
    UnsupportedFrameError
        When the file does not exist or its name ends in something else.
    """
    suffix = path.suffix.lower()
    if suffix not in {*_SEPARATORS, ".parquet", ".pq"}:
        raise UnsupportedFrameError(
            f"the file name ends in {suffix!r}", hint="pass a .csv, .tsv or .parquet file"
        )
    if "*" not in path.name and not path.exists():
        raise UnsupportedFrameError(f"there is no file {str(path)!r}", hint="check the path")
    if suffix in _SEPARATORS:
        return _read_text(connection, path, _SEPARATORS[suffix], numeric)
    return connection.read_parquet(str(path))


def _read_text(
    connection: duckdb.DuckDBPyConnection, path: Path, separator: str, numeric: Collection[Hashable]
) -> duckdb.DuckDBPyRelation:
    text = connection.read_csv(
        str(path),
        header=True,
        sep=separator,
        quotechar='"',
        escapechar='"',
        all_varchar=True,
        null_padding=True,
        ignore_errors=True,
    )
    columns = [_text_column(name, numeric=name in numeric) for name in text.columns]
    return text.project(", ".join(columns))


def _text_column(name: str, *, numeric: bool) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    return f"TRY_CAST({quoted} AS DOUBLE) AS {quoted}" if numeric else quoted
