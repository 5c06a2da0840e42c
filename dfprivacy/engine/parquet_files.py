"""Which Parquet files a path names, and that all of them declare the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape, has_magic
from itertools import groupby
from pathlib import Path

import duckdb

from dfprivacy.engine.directory_keys import (
    Keys,
    columns_with_keys,
    is_plain,
    key_names,
    keys_of,
)
from dfprivacy.engine.quoting import quoted
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
    below = [file.relative_to(path) for file in files] if path.is_dir() else []
    keys = {key_names(file) for file in below} if below else None
    if keys is not None and len(keys) > 1:
        raise UnsupportedFrameError(
            f"the files below {str(path)!r} lie in directories of different keys",
            hint="name one part of the folder, in which all of them are alike",
        )
    hive = {} if keys is None else {"hive_partitioning": any(keys)}
    _require_alike(connection, path, files)
    if all(map(is_plain, below)):
        found = _read(connection, files, hive)
    else:
        found = _read_with_keys(connection, path, files)
    require_names_apart(found.columns, files[0])
    return found


def _read(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], options: dict[str, bool]
) -> duckdb.DuckDBPyRelation:
    given = "".join(f", {name} = {value}" for name, value in options.items())
    query = f"FROM read_parquet($1, hive_types_autocast = false{given})"
    return connection.sql(query, params=[[escape(str(file)) for file in files]])


def _read_with_keys(
    connection: duckdb.DuckDBPyConnection, folder: Path, files: Sequence[Path]
) -> duckdb.DuckDBPyRelation:
    """Return a folder's files, with keys that Python reads where DuckDB takes names for none."""
    own = {file: keys_of(folder, file) for file in files}
    columns = _read(connection, files[:1], {"hive_partitioning": False}).columns
    columns = columns_with_keys(columns, dict(own[files[0]]))
    plain = [file for file in files if is_plain(file.relative_to(folder))]
    odd = sorted({*files} - {*plain}, key=lambda file: repr(own[file]))
    parts = [
        _read_alike(connection, columns, keys, [escape(str(file)) for file in same])
        for keys, same in groupby(odd, key=lambda file: own[file])
    ]
    if plain:
        named = ", ".join(map(quoted, columns))
        parts.append(_read(connection, plain, {"hive_partitioning": True}).project(named))
    return _united(parts)


def _united(parts: Sequence[duckdb.DuckDBPyRelation]) -> duckdb.DuckDBPyRelation:
    """Return the rows of all parts, by halves: each step plans anew what is below it."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _united(parts[:half]).union(_united(parts[half:]))


def _read_alike(
    connection: duckdb.DuckDBPyConnection, columns: list[str], keys: Keys, files: list[str]
) -> duckdb.DuckDBPyRelation:
    """Return files of the same keys as rows of the same columns in the same order."""
    places = {name.lower(): f"${index}::VARCHAR" for index, (name, _) in enumerate(keys, 2)}
    own = ((name, quoted(name)) for name in columns)
    chosen = ", ".join(f"{places.get(name.lower(), as_)} AS {as_}" for name, as_ in own)
    query = f"SELECT {chosen} FROM read_parquet($1, hive_partitioning = false)"  # noqa: S608 names are quoted
    return connection.sql(query, params=[files, *(value for _, value in keys)])


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
