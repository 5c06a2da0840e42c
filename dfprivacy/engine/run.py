"""Run a pass once and hand over its table; what an engine says when it fails is withheld."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import duckdb
import narwhals as nw
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.interrupt import interruptible, is_interrupt
from dfprivacy.engine.progress import watched
from dfprivacy.engine.spark_log import quiet
from dfprivacy.errors import DPError, EngineError
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics

T = TypeVar("T")


def run_pass(
    adopted: Adopted,
    build: Callable[[Adopted], nw.LazyFrame[Any]],
    names: Sequence[str],
    sources: Sequence[Source],
) -> Statistics:
    """Execute the pass and return its exact, checked statistics.

    Raises
    ------
    EngineError
        When the engine fails; the message says nothing of the data.
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    table = exact_table(adopted, build, names)
    return Statistics(table, len(names), tuple(sources)).checked()


def exact_table(
    adopted: Adopted, build: Callable[[Adopted], nw.LazyFrame[Any]], by: Sequence[str]
) -> pa.Table:
    """Return the table of a query that adds up rows by the columns `by`.

    What is declared is checked before a row is read.
    """
    lazy = guarded(lambda: build(adopted))
    table = guarded(lambda: collect(lazy, adopted.connection))
    engine = lazy.implementation
    if by and (engine.is_ibis() or engine.is_spark_like()):  # the others have sorted it
        return table.sort_by([(name, "ascending") for name in by])
    return table


def guarded(work: Callable[[], T]) -> T:
    """Return what `work` returns; replace an engine's error, which could quote a row.

    An interrupt by the user goes on as one, without the error that the engine has made of it.
    """
    result, done, interrupted = None, False, False
    try:
        result, done = work(), True
    except (DPError, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 polars panics are no Exceptions; raised anew below
        interrupted = is_interrupt(error)
    if interrupted:
        raise KeyboardInterrupt
    if not done:
        raise EngineError(
            "the engine could not run the query; its message could quote a row and is withheld",
            hint="try the same columns in a plain query of your engine to see what is wrong",
        )
    return result  # type: ignore[return-value]


def collect(
    lazy: nw.LazyFrame[Any], connection: duckdb.DuckDBPyConnection | None = None
) -> pa.Table:
    """Execute a lazy query by its own engine's fastest way to Arrow.

    `connection` is the embedded one that the query belongs to, if any: it can be watched and
    interrupted from outside.
    """
    native: Any = lazy.to_native()
    if connection is not None:
        return interruptible(native.to_arrow_table, connection)
    with watched():
        if lazy.implementation.is_polars():
            return native.collect(engine="streaming").to_arrow()
        if lazy.implementation.is_duckdb():
            return native.to_arrow_table()
        if lazy.implementation.is_spark_like():
            with quiet():
                return native.toArrow()
        return lazy.collect("pyarrow").to_native()
