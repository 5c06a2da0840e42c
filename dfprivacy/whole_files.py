"""Files that are there wholly or not at all, and released tables in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa


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
            os.fsync(file.fileno())
        whole.replace(path)


def write_csv(table: pa.Table, path: Path) -> None:
    """Write one line a group under a line of names."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
    frame.write_csv(path)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write one row a group, keys in the type of their column."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    pq.write_table(table, path)
