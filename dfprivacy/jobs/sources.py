"""The rows of a release: files, tables of DuckDB files that are opened for reading only."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import embedded_connection, read_file
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidKeysError, MissingColumnError, UnsupportedFrameError
from dfprivacy.jobs.description import FileSource, QuerySource, Release, Source, TableSource
from dfprivacy.terms import PublicKeys

_READ_ONLY: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file for reading.

    Raises
    ------
    UnsupportedFrameError
        When there is none, or DuckDB can't open it.
    """
    connection = None
    if path.is_file():
        try:
            connection = duckdb.connect(str(path), read_only=True, config=_READ_ONLY)
        except duckdb.Error:
            connection = None
    if connection is None:
        raise UnsupportedFrameError(
            f"{str(path)!r} is not a DuckDB file that can be opened for reading",
            hint="check the path, and that no other process holds it open for writing",
        )
    with connection:
        yield connection


@contextmanager
def rows_of(source: FileSource | TableSource) -> Iterator[Any]:
    """Open what a release of questions asks: a path, or a relation."""
    if isinstance(source, FileSource):
        _require_file(source.path)
        yield source.path
        return
    with opened(source.database) as connection:
        yield _table(connection, source)


def _table(connection: duckdb.DuckDBPyConnection, source: TableSource) -> Any:
    try:
        return connection.table(source.table)
    except duckdb.Error:
        found = None
    if found is None:
        raise MissingColumnError(
            f"there is no table {source.table!r} in {str(source.database)!r}",
            hint="name a table or view of the file, with its schema where it is not main",
        )
    return found


def _require_file(path: Path) -> None:
    found = glob.glob(str(path)) if "*" in path.name else [path] * path.is_file()  # noqa: PTH207 a pattern that ends in a name
    if not found:
        raise UnsupportedFrameError(
            f"there is no file {str(path)!r}", hint="check the path, and the parameters in it"
        )


def columns_of(source: FileSource | TableSource) -> pa.Schema:
    """Return the declared columns of a source; no row is read."""
    with rows_of(source) as rows:
        if not isinstance(rows, Path):
            return guarded(lambda: rows.limit(0).to_arrow_table().schema)
        with embedded_connection() as connection:
            return guarded(lambda: read_file(connection, rows).limit(0).to_arrow_table().schema)


def require_columns(release: Release) -> None:
    """Refuse a release of columns that are not there, before anything is spent.

    Raises
    ------
    MissingColumnError
        For a column of a question, of `by` or of the unit that the source does not declare.
    UnsupportedFrameError
        When the source is not there.
    """
    source = release.source
    if isinstance(source, QuerySource):
        for path in source.tables.values():
            _require_file(path)
        return
    present = columns_of(source).names
    asked = [question.column for question in release.questions.values()]
    unit = [] if release.unit is None else [release.unit.column]
    for column in [*asked, *release.by, *unit]:
        if column is not None and column not in present:
            raise MissingColumnError(
                f"the source of release {release.name!r} has no column {column!r}",
                hint=f"its columns are {', '.join(map(repr, present[:20]))}",
            )


def typed_keys(release: Release, source: Source) -> PublicKeys | None:
    """Return public keys in the declared types of their columns.

    Raises
    ------
    InvalidKeysError
        When a key can't be read as its column's type.
    """
    if release.keys is None or isinstance(source, QuerySource):
        return release.keys
    schema = columns_of(source)
    columns = zip(*release.keys.rows, strict=True)
    typed = [
        _typed(name, column, schema.field(name).type)
        for name, column in zip(release.by, columns, strict=True)
    ]
    return PublicKeys(tuple(zip(*typed, strict=True)))


def _typed(name: str, keys: tuple[object, ...], declared: pa.DataType) -> list[object]:
    if pa.types.is_dictionary(declared):
        declared = declared.value_type
    texts = [str(key).lower() if isinstance(key, bool) else key for key in keys]
    try:
        plain = pa.array([None if key is None else str(key) for key in texts], pa.string())
        return list(plain.cast(declared).to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fits = False
    assert not fits  # noqa: S101 reached by a key that does not fit
    raise InvalidKeysError(
        f"a key does not fit column {name!r}, which is declared {declared}",
        hint=f"list keys that can be read as {declared}",
    )
