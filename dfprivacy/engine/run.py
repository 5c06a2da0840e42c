"""Run a query once and hand over its table; what an engine says when it fails is withheld."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import narwhals as nw
import pyarrow as pa

from dfprivacy.engine import postgres, spark
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.embedded import find_space_error, interruptible
from dfprivacy.engine.progress import watch_progress
from dfprivacy.errors import EngineError, UnsupportedFrameError, publish_error

T = TypeVar("T")


_BATCH_ROWS = 2**17
_FETCHED_BYTES = 2**30


def fetch_rows(lazy: nw.LazyFrame[Any], adopted: Adopted) -> pa.Table | None:
    """Return the rows of a query over a frame; None where they would take too much memory."""
    if not adopted.can_fetch_rows or adopted.reads_once:
        return None
    if not lazy.implementation.is_duckdb():
        return collect(lazy)
    native: Any = lazy.to_native()

    def read_batches() -> pa.Table | None:
        reader = native.to_arrow_reader(_BATCH_ROWS)
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > _FETCHED_BYTES:
                return None
        return pa.Table.from_batches(batches, reader.schema)

    return interruptible(read_batches, adopted.connection)


_FILES: ContextVar[Sequence[Path]] = ContextVar("_FILES", default=())
"""The Parquet files and folders that are being read, by the paths that were named."""


@contextmanager
def reading_files(paths: Sequence[Path]) -> Iterator[None]:
    """Read files in a block: what we ask of them fails for no row, so that a failure is damage."""
    token = _FILES.set(paths)
    try:
        yield
    finally:
        _FILES.reset(token)


def run_guarded(work: Callable[[], T]) -> T:
    """Run `work`, and replace an engine's error, which could quote a row.

    An interrupt by the user goes on as one, without the error that the engine has made of it.

    Raises
    ------
    EngineSpaceError
        When memory or the directory of temporary files is full.
    UnsupportedFrameError
        When files that are being read can't be read to their end.
    EngineError
        Also where polars is set to print what it meets, or to send it somewhere.
    """
    for name in os.environ:
        if name.startswith("POLARS_") and name.endswith(_TELL) and os.environ[name] not in _OFF:
            raise EngineError(
                f"polars tells how many rows and groups it meets, as {name} has it",
                hint=f"start Python without {name}; pl.Config.set_verbose(False)",
            )
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 polars panics are no Exceptions; raised below
        kind = type(error)
        is_streamed = issubclass(kind, OSError)  # Arrow gives no other kind for what DuckDB raises
        is_damage = issubclass(kind, duckdb.Error) and not issubclass(kind, _NO_DAMAGE)
        failure = find_space_error(error) or publish_error(error)
        is_unknown = type(failure) is EngineError
        if (paths := _FILES.get()) and (is_damage or is_streamed) and is_unknown:
            names = " or ".join(ascii(str(path)) for path in paths)
            failure = UnsupportedFrameError(
                f"{names} can't be read to its end: a file is damaged, or changed meanwhile"
                f"{', or memory is short' * is_streamed}",
                hint="copy or write the files again",
            )
    raise failure


_NO_DAMAGE = (duckdb.InterruptException, duckdb.InternalException, duckdb.FatalException)


_TELL = ("VERBOSE", "METRICS", "MONITORING", "PANIC_ON_ERR")
"""How the names of those settings of polars end that let out what a query meets."""
_OFF = frozenset(("", "0", "false"))


def collect(
    lazy: nw.LazyFrame[Any], connection: duckdb.DuckDBPyConnection | None = None
) -> pa.Table:
    """Execute a lazy query by its own engine's fastest way to Arrow.

    `connection` is the embedded one that the query belongs to, if any: it can be watched and
    interrupted from outside.
    """
    native: Any = lazy.to_native()
    if lazy.implementation.is_duckdb():
        return interruptible(native.to_arrow_table, connection)
    with watch_progress():
        if lazy.implementation.is_polars():
            return native.collect(engine="streaming").to_arrow()
        if lazy.implementation.is_spark_like():
            with spark.quiet():
                table = native.toArrow()
            names = table.column_names  # without what is declared of NULL
            return pa.table(table.columns, names=names)
        if lazy.implementation.is_ibis() and postgres.is_postgres(native):
            return pa.Table.from_batches(
                postgres.read_batches(native), postgres.find_schema(native)
            )
        return lazy.collect("pyarrow").to_native()
