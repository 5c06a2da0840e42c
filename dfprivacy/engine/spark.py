"""Adopt Spark frames, of a classic session or of Spark Connect, and write passes in Spark's terms.

Columns are taken by place, and get names of ours: Spark itself would read a dot in a name as a
field, and `X` as `x`. Where common expressions are slow or inexact there, they are SQL over these
columns; none can raise for any row, with `spark.sql.ansi.enabled` or without. PySpark is imported
by the first Spark frame. Proof: docs/how-to/spark.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import narwhals as nw
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted, Columns, adopt_by_place
from dfprivacy.engine.columns import require_columns
from dfprivacy.errors import UnsupportedFrameError

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_CARRIERS = frozenset(("pyspark", "py4j", "grpc"))


def adopt_frame(frame: Any, columns: Columns) -> Adopted | None:
    """Adopt a Spark frame; return None for any other object of the library."""
    from pyspark.sql import DataFrame, types  # noqa: PLC0415 need not be installed

    if not hasattr(DataFrame, "toArrow"):
        raise UnsupportedFrameError(
            "frames of this version of PySpark can't be read", hint="pip install 'dfprivacy[spark]'"
        )
    if not isinstance(frame, DataFrame):
        return None
    if frame.isStreaming:
        raise UnsupportedFrameError(
            "a streaming frame has no end, and can't be read once",
            hint="ask about each batch: frame.writeStream.foreachBatch(...)",
        )
    fields = frame.schema.fields
    names: list[Hashable] = [field.name for field in fields]
    require_columns(columns.names(), names)

    def build_group_column(label: Hashable) -> str:
        """Return a column as it is grouped by: text that looks different is different.

        Where a collation says that texts are equal, one row could choose how a group of others is
        shown.
        """
        index = names.index(label)
        text = isinstance(
            fields[index].dataType, (types.StringType, types.CharType, types.VarcharType)
        )
        return f"collate(column_{index}, 'UTF8_BINARY')" if text else f"column_{index}"

    adopted, grouped = adopt_by_place(columns, partial(frame_of_table, frame.sparkSession))
    chosen = [f"{build_group_column(label)} AS {name}" for name, label in grouped.items()]
    chosen += [f"column_{names.index(label)} AS {name}" for label, name in adopted.values.items()]
    placed = frame.toDF(*(f"column_{index}" for index in range(len(names))))
    return replace(adopted, lazy=nw.from_native(placed.selectExpr(*chosen or ["true AS row"])))


def with_row_hash(native: Any, names: Sequence[str], title: str) -> Any:
    """Return a frame with a hash of some columns, a whole number from 0 to 2**63 - 1.

    Equal numbers have the same hash whatever numeric type their column has.
    """
    others = [name for name in native.columns if name != title]
    kinds = dict(native.dtypes)
    numbers = [_build_hash_number(name, kinds[name]) for name in names]
    hashed = f"shiftrightunsigned(xxhash64({', '.join(numbers)}), 1)"
    return native.selectExpr(*others, f"{hashed} AS {title}")


def _build_hash_number(name: str, kind: str) -> str:
    """Return the expression to hash: floats are integers where they are equal."""
    if kind in {"tinyint", "smallint", "int"}:
        return f"CAST({name} AS BIGINT)"
    if kind not in {"float", "double"}:
        return name
    number = f"CAST({name} AS DOUBLE)"
    other = f"shiftrightunsigned(xxhash64({number}), 1)"
    integer = f"floor(greatest(least({number}, 9e18D), -9e18D))"  # which never overflows
    equal = f"CAST({integer} AS DOUBLE) = {number}"
    return f"CASE WHEN {name} IS NOT NULL THEN IF({equal}, {integer}, {other}) END"


def with_edges_reached(native: Any, value: str, edges: Sequence[float]) -> Any:
    """Return a frame with the number of ascending edges that each value reaches, NULL for NULL.

    The last edge has to be exceeded. Each step halves what is left, so that thousands of edges are
    a dozen short expressions and one array of constants.
    """
    ascending = [*edges[:-1], math.nextafter(edges[-1], math.inf)]
    others = [name for name in native.columns if name != value]
    constants = ", ".join(f"{edge!r}D" for edge in ascending)
    frame = native.selectExpr("*", f"array({constants}) AS edges", "0 AS reached")
    for step in (2**power for power in reversed(range(len(ascending).bit_length()))):
        more = f"{value} >= get(edges, reached + {step - 1})"
        reached = f"reached + IF({more}, {step}, 0) AS reached"
        frame = frame.selectExpr(*others, value, "edges", reached)
    label = f"CASE WHEN {value} IS NOT NULL THEN CAST(reached AS DOUBLE) END AS {value}"
    return frame.selectExpr(*others, label)


def frame_of_table(session: Any, table: pa.Table) -> Any:
    """Return an Arrow table as a frame of a session; a timestamp without time zone stays one."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 need not be installed

    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    return session.createDataFrame(table, schema)


def filter_keys(native: Any, keys: pa.Table) -> Any:
    """Return the rows of a frame whose columns, of the same names, hold one of some keys."""
    titles = {name: f"listed_{name}" for name in keys.column_names}
    others = frame_of_table(native.sparkSession, keys.rename_columns(list(titles.values())))
    same = [native[name].eqNullSafe(others[other]) for name, other in titles.items()]
    return native.join(others.hint("broadcast"), same, "left_semi")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the loggers in Python quiet that quote rows or count them; the JVM's are out of reach.

    They are those of PySpark's errors, of PySpark itself, and of what carries Spark's answers.
    """
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 need not be installed

    loggers: list[Any] = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    registered = list(loggers[0].manager.loggerDict.items())  # placeholders are among them
    carriers = [logger for name, logger in registered if name.partition(".")[0] in _CARRIERS]
    loggers += [logger for logger in carriers if hasattr(logger, "disabled")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
