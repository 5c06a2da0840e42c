"""One Parquet file of exact tables, written whole or not at all.

The groups are the first table: their keys, and the sums of linear queries. Each part that counts
by bin is a further one, with one row a bin. Every table has row groups of its own in one schema;
columns that it lacks are NULL there and take no room. So any Parquet reader can show the file, each
table is compressed by column, and none meets the 2 GiB that a single Parquet value may have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from dfprivacy.errors import StatisticsFileError
from dfprivacy.noise.entropy import fresh_id
from dfprivacy.partial.exact_tables import ExactTables
from dfprivacy.partial.header import Header
from dfprivacy.partial.layout import moment_names, schema_of

ROWS = 2**22  # of one row group


def check_target(path: Path) -> None:
    """Refuse a path that can't become a file, before anything is read.

    Raises
    ------
    StatisticsFileError
        When something is there already, or there is no such directory.
    """
    if os.path.lexists(path):
        raise _taken(path)
    if not path.absolute().parent.is_dir():
        raise StatisticsFileError(
            f"there is no directory {str(path.parent)!r} to write to", hint="create it first"
        )


def _taken(path: Path) -> StatisticsFileError:
    return StatisticsFileError(
        f"there is a file {str(path)!r} already", hint="name a new file, e.g. with the date"
    )


def write_file(path: Path, header: Header, tables: ExactTables) -> None:
    """Write a file that only its owner can read: wholly, or not at all.

    Raises
    ------
    StatisticsFileError
        When something is there already, or the operating system does not let us write there.
    """
    try:
        _write(path, header, tables)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise StatisticsFileError(
            f"{str(path)!r} could not be written: {error.strerror}",
            hint="choose a directory on a local disk in which you may write",
        ) from None


def _write(path: Path, header: Header, tables: ExactTables) -> None:
    """Write a draft beside the path and link it to the path, which fails if something is there."""
    draft = path.with_name(f".{path.name}.{fresh_id(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _fill(file, header, tables)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        draft.unlink()
    with suppress(PermissionError):  # Windows opens no directories, and needs no such call
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _fill(file: IO[bytes], header: Header, tables: ExactTables) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    schema = schema_of(header.parts(), list(tables.keys.schema)).with_metadata(header.metadata())
    with pq.ParquetWriter(
        file, schema, compression="zstd", write_statistics=False, write_page_checksum=True
    ) as writer:
        for columns, rows in _columns(tables):
            if rows:
                whole = [columns.get(own.name, pa.nulls(rows, own.type)) for own in schema]
                writer.write_table(pa.table(whole, schema=schema), row_group_size=ROWS)


def _columns(tables: ExactTables) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the columns of each table, with the number of its rows."""
    groups = {"group": pa.array(np.arange(tables.groups)), **_by_name(tables.keys)}
    yield {**groups, **{name: pa.array(own) for name, own in tables.sums.items()}}, tables.groups
    for table in tables.bins:
        moments = zip(moment_names(len(table.moments)), table.moments, strict=True)
        own = {"group": table.group, "bin": table.bins, "rows": table.rows, **dict(moments)}
        yield {name: pa.array(values) for name, values in own.items()}, len(table.rows)


def _by_name(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))
