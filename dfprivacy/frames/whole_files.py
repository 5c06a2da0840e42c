"""Files that are there wholly or not at all, and released tables in them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import polars as pl
import pyarrow as pa

from dfprivacy.accounting.ledger_file import flush, sync_directory


def put_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Make a file beside its place, and move it there once it is on the disk.

    Raises
    ------
    OSError
        When the operating system does not let us write there; what was there stays.
    """
    folder = path.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".dfprivacy-", dir=folder) as directory:
        whole = Path(directory) / path.name
        fill(whole)
        with whole.open("rb+") as file:
            flush(file.fileno())
        whole.replace(path)


def put_new(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Make a file that only its owner can read, durable before it is seen, and never over another.

    Raises
    ------
    FileExistsError
        When something is there already; it stays.
    OSError
        When the operating system does not let us write there.
    """
    folder = path.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".dfprivacy-", dir=folder) as directory:
        whole = Path(directory) / path.name
        descriptor = os.open(whole, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            fill(file)
            file.flush()
            flush(file.fileno())
        os.link(whole, path)
    sync_directory(folder)


def write_csv(table: pa.Table, path: Path) -> None:
    """Write one line a group under a line of names; lists and structs are JSON."""
    for place, own in enumerate(table.schema):
        if pa.types.is_nested(own.type):
            texts = [json.dumps(value, default=str) for value in table[place].to_pylist()]
            table = table.set_column(place, own.name, pa.array(texts, pa.string()))
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
    frame.write_csv(path)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write one row a group, keys in the type of their column."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    pq.write_table(table, path)
