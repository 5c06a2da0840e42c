"""Open what releases read, and write what they release.

Files and tables are read with their declared types, DuckDB files are opened for reading only. A
file that is written is there wholly or not at all, a table is made in one transaction; an output
that is there without a note of where it came from was not made by a run, and is never replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import embedded, read_file
from dfprivacy.engine.quoting import quoted
from dfprivacy.engine.run import guarded
from dfprivacy.errors import (
    InvalidKeysError,
    MissingColumnError,
    OutputError,
    UnsupportedFrameError,
)
from dfprivacy.release.numbers import Choice, Number
from dfprivacy.terms import PublicKeys
from dfprivacy.whole_files import put_whole, write_csv, write_parquet

if TYPE_CHECKING:  # pydantic is loaded by who reads a description
    from dfprivacy.jobs.description import Output, Release, Source

_NOTE = ".provenance.json"
_ESCAPED = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%./\\"})
_READ_ONLY: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_FORMATS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
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
def rows_of(source: Source) -> Iterator[Any]:
    """Open what a release of questions asks: a path, or a relation.

    Raises
    ------
    MissingColumnError
        When a DuckDB file has no such table.
    """
    if source.table is None or source.database is None:
        (path,) = source.paths
        yield path
        return
    with opened(source.database.path) as connection:
        table = None
        with suppress(duckdb.Error):
            table = connection.table(source.table)
        if table is None:
            raise MissingColumnError(
                f"there is no table {source.table!r} in {str(source.database.path)!r}",
                hint="name a table or view of the file, with its schema where it is not main",
            )
        yield table


def _columns_of(source: Source) -> pa.Schema:
    with rows_of(source) as rows:
        return file_columns(rows) if isinstance(rows, Path) else guarded(lambda: _declared(rows))


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


def typed_keys(release: Release) -> PublicKeys | None:
    """Return public keys in the declared types of their columns, once all columns are there.

    Raises
    ------
    MissingColumnError
        For a column of a question, of `by` or of the unit that the source does not declare.
    InvalidKeysError
        When a key can't be read as its column's type.
    UnsupportedFrameError
        When the source is not there.
    """
    schema = _columns_of(release.source)
    asked = [question.column for question in release.questions.values()]
    unit = [] if release.unit is None else [release.unit.column]
    for column in [*asked, *release.by, *unit]:
        if column is not None and column not in schema.names:
            raise MissingColumnError(
                f"the source of release {release.name!r} has no column {column!r}",
                hint=f"its columns are {', '.join(map(repr, schema.names[:20]))}",
            )
    if release.keys is None:
        return None
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


def answers_table(numbers: Mapping[str, Number]) -> pa.Table:
    """Return numbers about all rows: one row each; the ends of no interval are missing."""
    ends = [
        (None, None) if isinstance(number, Choice) else (number.low, number.high)
        for number in numbers.values()
    ]
    return pa.table(
        {
            "name": pa.array(list(numbers), pa.string()),
            "value": pa.array([float(number) for number in numbers.values()], pa.float64()),
            "low": pa.array([low for low, _ in ends], pa.float64()),
            "high": pa.array([high for _, high in ends], pa.float64()),
        }
    )


def note_of(output: Output) -> Path:
    """Return the file beside an output that says where it came from: each output has its own."""
    own = "" if output.table is None else f".{output.table.translate(_ESCAPED)}.table"
    return output.path.with_name(f"{output.path.name}{own}{_NOTE}")


def require_writable(output: Output) -> None:
    """Refuse an output that could not be written, or that a run has not made.

    Raises
    ------
    OutputError
        When its folder is missing, or something else stands there.
    """
    if not output.path.parent.is_dir():
        raise OutputError(
            f"there is no directory {str(output.path.parent)!r} to write to",
            hint="create it first",
        )
    if output.path.is_dir() or (_is_there(output) and not note_of(output).is_file()):
        raise OutputError(
            f"{output.text!r} is there already, and no run has made it",
            hint="name another output, or move what is there away",
        )


def _is_there(output: Output) -> bool:
    there = output.path.exists()
    if not there or output.table is None:
        return there
    query = (
        "SELECT count(*) FROM (SELECT table_name AS name FROM duckdb_tables() "
        "UNION ALL SELECT view_name FROM duckdb_views()) WHERE lower(name) = lower(?)"
    )
    try:
        with opened(output.path) as connection:
            return connection.execute(query, [output.table]).fetchone() != (0,)
    except UnsupportedFrameError:
        return True


def write_note(note: str, output: Output) -> None:
    """Write the note of an output.

    Raises
    ------
    OutputError
        When the operating system does not let us.
    """
    _put(note_of(output), lambda path: path.write_text(note, encoding="utf-8"))


def write(table: pa.Table, output: Output) -> None:
    """Write a release.

    Raises
    ------
    OutputError
        When the operating system or DuckDB does not let us.
    """
    if output.table is None:
        form = _FORMATS[output.path.suffix.lower()]
        _put(output.path, lambda path: form(table, path))
        return
    with suppress(duckdb.Error), duckdb.connect(str(output.path)) as connection:
        connection.register("dfprivacy_released", table)
        connection.begin()
        connection.execute(
            f"CREATE OR REPLACE TABLE {quoted(output.table)} AS SELECT * FROM dfprivacy_released"  # noqa: S608 the name is quoted
        )
        connection.commit()
        return
    raise OutputError(
        f"the table {output.text!r} could not be written",
        hint="close what holds the file open; then run again: what is paid for is repeated",
    )


def _put(path: Path, fill: Callable[[Path], object]) -> None:
    """Make a file wholly or not at all."""
    try:
        put_whole(path, fill)
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise OutputError(
            f"{str(path)!r} could not be written: {reason}",
            hint="make room, or choose a directory in which you may write; then run again: what "
            "is paid for is repeated",
        ) from None
