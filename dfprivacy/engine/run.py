"""Run a pass once and hand over its table; what an engine says when it fails is withheld."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import narwhals as nw
import pyarrow as pa

from dfprivacy.engine.spark_log import quiet
from dfprivacy.errors import DPError, EngineError
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import Statistics, key_name

T = TypeVar("T")


def run_pass(lazy: nw.LazyFrame[Any], keys: int, sources: Sequence[Source]) -> Statistics:
    """Execute the pass and return its exact, checked statistics.

    Raises
    ------
    EngineError
        When the engine fails; the message says nothing of the data.
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    table = guarded(lambda: collect(lazy))
    if keys and lazy.implementation.is_spark_like():  # a sort of its own would be a second job
        table = table.sort_by([(key_name(index), "ascending") for index in range(keys)])
    return Statistics(table, keys, tuple(sources)).checked()


def guarded(work: Callable[[], T]) -> T:
    """Return what `work` returns; replace an engine's error, which could quote a row."""
    result, done = None, False
    try:
        result, done = work(), True
    except (DPError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # noqa: BLE001, S110 polars panics are no Exceptions; raised anew below
        pass
    if not done:
        raise EngineError(
            "the engine could not run the query; its message could quote a row and is withheld",
            hint="try the same columns in a plain query of your engine to see what is wrong",
        )
    return result  # type: ignore[return-value]


def collect(lazy: nw.LazyFrame[Any]) -> pa.Table:
    """Execute a lazy query by its own engine's fastest way to Arrow."""
    native: Any = lazy.to_native()
    if lazy.implementation.is_polars():
        return native.collect(engine="streaming").to_arrow()
    if lazy.implementation.is_duckdb():
        return native.to_arrow_table()
    if lazy.implementation.is_spark_like():
        with quiet():
            return native.toArrow()
    return lazy.collect("pyarrow").to_native()
