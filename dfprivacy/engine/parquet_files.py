"""Which Parquet files a path names, and that all of them declare the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape, has_magic
from pathlib import Path

import duckdb

from dfprivacy.engine.readable import require_names_apart
from dfprivacy.errors import UnsupportedFrameError

ENDINGS = (".parquet", ".pq")


def read_parquet(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation:
    """Return a Parquet file, the files that a glob names, or those below a folder as a relation.

    Directories named `key=value` below a folder, or on the way to a file, are columns of text. A
    type guessed from their names would depend on all of them, and a name may be there because of
    one row.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file, or files declare different columns, or the same but for case.
    """
    files = _files(connection, path)
    keys = {_keys(file.relative_to(path)) for file in files} if path.is_dir() else None
    if keys is not None and len(keys) > 1:
        raise UnsupportedFrameError(
            f"the files below {str(path)!r} lie in directories of different keys",
            hint="name one part of the folder, in which all of them are alike",
        )
    hive = {} if keys is None else {"hive_partitioning": any(keys)}
    _require_alike(connection, path, files)
    found = _read(connection, files, hive)
    require_names_apart(found.columns, files[0])
    return found


def _read(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], options: dict[str, bool]
) -> duckdb.DuckDBPyRelation:
    given = "".join(f", {name} = {value}" for name, value in options.items())
    query = f"FROM read_parquet($1, hive_types_autocast = false{given})"
    return connection.sql(query, params=[[escape(str(file)) for file in files]])


def _files(connection: duckdb.DuckDBPyConnection, path: Path) -> list[Path]:
    """Return the files that a path names, sorted; at least one."""
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if _counts(file, path))
        what = f"there is no .parquet file below {str(path)!r}"
    elif has_magic(str(path)):
        rows = connection.execute("SELECT file FROM glob($1) ORDER BY file", [str(path)]).fetchall()
        found = [Path(file) for (file,) in rows]
        what = f"no file is named by {str(path)!r}"
    else:
        found, what = [], f"there is no file {str(path)!r}"
    if not found:
        raise UnsupportedFrameError(
            what, hint="check the path; several Parquet files are named by their folder or a glob"
        )
    return found


def _counts(file: Path, folder: Path) -> bool:
    """Tell whether a file is one of a folder's: not hidden, nor left by a writer at work."""
    parts = file.relative_to(folder).parts
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in parts)
    return file.suffix.lower() in ENDINGS and not hidden and file.is_file()


def _keys(file: Path) -> tuple[str, ...]:
    return tuple(part.partition("=")[0] for part in file.parent.parts if "=" in part)


def _require_alike(
    connection: duckdb.DuckDBPyConnection, path: Path, files: Sequence[Path]
) -> None:
    """Refuse files that declare other columns than the first: the engine would cast their rows."""
    if len(files) == 1:
        return
    plain = {"hive_partitioning": False}
    declared = (_read(connection, [file], plain) for file in files)
    schemas = (sorted(zip(own.columns, map(str, own.types), strict=True)) for own in declared)
    first = next(schemas)
    if any(other != first for other in schemas):
        raise UnsupportedFrameError(
            f"the Parquet files of {str(path)!r} declare different columns or types",
            hint="write them anew with one schema, or name those that are alike by a glob",
        )
