"""The engine pass in Spark's own terms, where the common expressions are slow or inexact there.

Every expression is SQL over columns that this package has named. None can raise for any row, with
`spark.sql.ansi.enabled` or without. Proof: docs/spark.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def with_place(native: Any, names: Sequence[str], place: str) -> Any:
    """Return a frame with a hash of some columns, a whole number from 0 to 2**63 - 1."""
    others = [name for name in native.columns if name != place]
    hashed = f"shiftrightunsigned(xxhash64({', '.join(names)}), 1)"
    return native.selectExpr(*others, f"{hashed} AS {place}")


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


def only_rows_of(native: Any, keys: pa.Table) -> Any:
    """Return the rows of a frame whose columns, of the same names, hold one of some keys."""
    listed = {name: f"listed_{name}" for name in keys.column_names}
    others = frame_of_table(native.sparkSession, keys.rename_columns(list(listed.values())))
    same = [native[name].eqNullSafe(others[other]) for name, other in listed.items()]
    return native.join(others.hint("broadcast"), same, "left_semi")
