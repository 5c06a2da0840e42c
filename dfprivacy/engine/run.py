"""Run a pass once and hand over its table; what an engine says when it fails is withheld."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
import pyarrow as pa

from dfprivacy.engine.embedded import embedded_connection
from dfprivacy.errors import DPError, EngineError, InvalidKeysError
from dfprivacy.exact import exact_number
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
    return lazy.collect("pyarrow").to_native()


def align(statistics: Statistics, listed: Sequence[Sequence[object]]) -> Statistics:
    """Return exactly the groups of the public keys, sorted; an absent group is all zeros.

    `listed` has one list a group column, all of one length.

    Raises
    ------
    InvalidKeysError
        When a key does not fit the declared dtype of its column.
    """
    names = [key_name(index) for index in range(statistics.keys)]
    schema = statistics.table.schema
    columns = {
        name: typed_keys(values, schema.field(name).type)
        for name, values in zip(names, listed, strict=True)
    }
    sums = [name for name in statistics.table.column_names if name not in names]
    chosen = [f"keys.{name}" for name in names]
    chosen += [f"coalesce({name}, 0) AS {name}" for name in sums]
    same = " AND ".join(f"keys.{name} IS NOT DISTINCT FROM sums.{name}" for name in names)
    order = ", ".join(f"keys.{name} NULLS LAST" for name in names)
    query = (
        f"SELECT {', '.join(chosen)} FROM (SELECT DISTINCT * FROM listed_keys) AS keys "  # noqa: S608 names are ours
        f"LEFT JOIN sums ON {same} ORDER BY {order}"
    )
    with embedded_connection() as connection:
        connection.register("listed_keys", pa.table(columns))
        connection.register("sums", statistics.table)
        table = guarded(lambda: connection.sql(query).to_arrow_table())
    return Statistics(table, statistics.keys, statistics.sources)


def typed_keys(values: Sequence[object], declared: pa.DataType) -> pa.Array:
    """Return public keys in the declared type of their column.

    Raises
    ------
    InvalidKeysError
        When a key does not keep its value in that type.
    """
    try:
        fits = all(_fits(value, declared) for value in values)
        column = pa.array(values, type=declared, from_pandas=True) if fits else None
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        column = None
    if column is None:
        raise InvalidKeysError(
            f"a public key does not fit the group column, which is declared {declared}",
            hint="list keys of the column's own type",
        )
    return column


def _fits(value: object, declared: pa.DataType) -> bool:
    """Tell whether a key keeps its value in the declared type: no true for 1, no 1 for 1.5."""
    if isinstance(value, bool | np.bool_):
        return bool(pa.types.is_boolean(declared))
    number = exact_number(value)
    return number is None or not pa.types.is_integer(declared) or number.denominator == 1
