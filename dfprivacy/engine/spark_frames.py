"""Spark frames, of a classic session or of Spark Connect.

Columns are taken by place, and get names of ours: Spark itself would read a dot in a name as a
field, and `X` as `x`. Proof: docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame
from pyspark.sql.types import CharType, StringType, VarcharType

from dfprivacy.engine.adopt import Adopted, Columns, adopt
from dfprivacy.engine.readable import require_columns
from dfprivacy.engine.spark_terms import frame_of_table
from dfprivacy.engine.units import UNIT, unit_column
from dfprivacy.errors import UnsupportedFrameError

if not hasattr(DataFrame, "toArrow"):
    raise UnsupportedFrameError(
        "frames of this version of PySpark can't be read", hint="pip install 'dfprivacy[spark]'"
    )
_TEXTS = (StringType, CharType, VarcharType)


@adopt.register
def _(frame: DataFrame, columns: Columns) -> Adopted:
    if frame.isStreaming:
        raise UnsupportedFrameError(
            "a streaming frame has no end, and can't be read once",
            hint="ask about each batch: frame.writeStream.foreachBatch(...)",
        )
    fields = frame.schema.fields
    names: list[Hashable] = [field.name for field in fields]
    require_columns(columns.names(), names)
    keys = [f"key_{index}" for index in range(len(columns.keys))]
    values = {label: f"value_{index}" for index, label in enumerate(columns.values)}
    grouped = dict(zip(keys, columns.keys, strict=True))
    if columns.unit is not None:
        grouped[UNIT] = columns.unit.column
    chosen = [f"{_plain(names.index(label), fields)} AS {name}" for name, label in grouped.items()]
    chosen += [f"column_{names.index(label)} AS {name}" for label, name in values.items()]
    placed = frame.toDF(*(f"column_{place}" for place in range(len(names))))
    native = placed.selectExpr(*chosen or ["true AS row"])
    return Adopted(
        nw.from_native(native),
        keys,
        values,
        columns.listed,
        partial(frame_of_table, frame.sparkSession),
        unit_column(columns.unit, UNIT),
    )


def _plain(place: int, fields: Sequence[Any]) -> str:
    """Return a column that is grouped by; text that looks different is different.

    Where a collation says that texts are equal, one row could choose how a group of others is
    shown.
    """
    text = isinstance(fields[place].dataType, _TEXTS)
    return f"collate(column_{place}, 'UTF8_BINARY')" if text else f"column_{place}"
