"""The rows of a release: files, tables of DuckDB files that are opened for reading only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.files import read_file
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidKeysError, MissingColumnError, UnsupportedFrameError
from dfprivacy.jobs.description import FileSource, Release, TableSource
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
        with suppress(duckdb.Error):
            connection = duckdb.connect(str(path), read_only=True, config=_READ_ONLY)
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
        yield source.path
        return
    with opened(source.database) as connection:
        yield _table(connection, source)


def _table(connection: duckdb.DuckDBPyConnection, source: TableSource) -> Any:
    with suppress(duckdb.Error):
        return connection.table(source.table)
    raise MissingColumnError(
        f"there is no table {source.table!r} in {str(source.database)!r}",
        hint="name a table or view of the file, with its schema where it is not main",
    )


def columns_of(source: FileSource | TableSource) -> pa.Schema:
    """Return the declared columns of a source; no row is read."""
    if isinstance(source, FileSource):
        return file_columns(source.path)
    with rows_of(source) as rows:
        return guarded(lambda: _declared(rows))


def file_columns(path: Path) -> pa.Schema:
    """Return the declared columns of a file; no row is read.

    Raises
    ------
    UnsupportedFrameError
        When there is none.
    """

    def declared() -> pa.Schema:
        with embedded() as connection:
            return _declared(read_file(connection, path))

    return guarded(declared)


def _declared(rows: duckdb.DuckDBPyRelation) -> pa.Schema:
    return rows.limit(0).to_arrow_table().schema


def require_columns(release: Release, source: FileSource | TableSource) -> None:
    """Refuse a release of columns that are not there, before anything is spent.

    Raises
    ------
    MissingColumnError
        For a column of a question, of `by` or of the unit that the source does not declare.
    UnsupportedFrameError
        When the source is not there.
    """
    present = columns_of(source).names
    asked = [question.column for question in release.questions.values()]
    unit = [] if release.unit is None else [release.unit.column]
    for column in [*asked, *release.by, *unit]:
        if column is not None and column not in present:
            raise MissingColumnError(
                f"the source of release {release.name!r} has no column {column!r}",
                hint=f"its columns are {', '.join(map(repr, present[:20]))}",
            )


def typed_keys(release: Release, source: FileSource | TableSource) -> PublicKeys | None:
    """Return public keys in the declared types of their columns.

    Raises
    ------
    InvalidKeysError
        When a key can't be read as its column's type.
    """
    if release.keys is None:
        return None
    schema = columns_of(source)
    columns = zip(*release.keys.rows, strict=True)
    typed = [
        typed_column(name, column, schema.field(name).type)
        for name, column in zip(release.by, columns, strict=True)
    ]
    return PublicKeys(tuple(zip(*typed, strict=True)))


def typed_column(name: str, keys: Sequence[object], declared: pa.DataType) -> list[object]:
    """Return the keys of one column in the type that it declares.

    Raises
    ------
    InvalidKeysError
        When a key can't be read as that type.
    """
    if pa.types.is_dictionary(declared):
        declared = declared.value_type
    texts = [str(key).lower() if isinstance(key, bool) else key for key in keys]
    plain = pa.array([None if key is None else str(key) for key in texts], pa.string())
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return list(plain.cast(declared).to_pylist())
    raise InvalidKeysError(
        f"a key does not fit column {name!r}, which is declared {declared}",
        hint=f"list keys that can be read as {declared}",
    )
