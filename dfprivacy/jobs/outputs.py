"""Where releases go: files that are there wholly or not at all, tables made in one transaction.

An output that is there without a note of where it came from was not made by a run, and is never
replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa

from dfprivacy.engine.files import quoted
from dfprivacy.errors import OutputError, UnsupportedFrameError
from dfprivacy.jobs.description import Output, TableOutput
from dfprivacy.jobs.sources import opened
from dfprivacy.whole_files import put_whole, write_csv, write_parquet

NOTE = ".provenance.json"

_ESCAPED = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%./\\"})


def note_of(output: Output) -> Path:
    """Return the file beside an output that says where it came from: each output has its own.

    >>> from dfprivacy.jobs.description import TableOutput
    >>> note_of(TableOutput(Path("a.duckdb"), "b.c", "a.duckdb:b.c")).name
    'a.duckdb.b%2Ec.table.provenance.json'
    """
    own = f".{output.table.translate(_ESCAPED)}.table" if isinstance(output, TableOutput) else ""
    return output.path.with_name(f"{output.path.name}{own}{NOTE}")


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
    if not there or not isinstance(output, TableOutput):
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


def write(table: pa.Table, output: Output) -> None:
    """Write a release.

    Raises
    ------
    OutputError
        When the operating system or DuckDB does not let us.
    """
    if isinstance(output, TableOutput):
        _write_table(table, output)
    else:
        form = _FORMATS[output.path.suffix.lower()]
        replace_file(output.path, lambda path: form(table, path))


def replace_file(path: Path, fill: Callable[[Path], object]) -> None:
    """Make a file wholly or not at all.

    Raises
    ------
    OutputError
        When the operating system does not let us.
    """
    try:
        put_whole(path, fill)
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise OutputError(
            f"{str(path)!r} could not be written: {reason}",
            hint="make room, or choose a directory in which you may write; then run again: what "
            "is paid for is repeated",
        ) from None


_FORMATS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
}


def _write_table(table: pa.Table, output: TableOutput) -> None:
    """Make or replace a table of a DuckDB file, in one transaction."""
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
