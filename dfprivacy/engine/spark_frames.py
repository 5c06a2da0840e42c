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

from dfprivacy.engine.adopt import Adopted, Columns, adopt, require_columns
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
    require_columns(columns, frame.columns)
    keys = [f"key_{index}" for index in range(len(columns.keys))]
    values = {label: f"value_{index}" for index, label in enumerate(columns.values)}
    chosen = [_plain(frame, label, name) for label, name in zip(columns.keys, keys, strict=True)]
    chosen += [f"{_numbered(frame, label)} AS {name}" for label, name in values.items()]
    if columns.unit is not None:
        chosen.append(_plain(frame, columns.unit.column, UNIT))
    native = frame.toDF(*_places(frame.columns)).selectExpr(*chosen or ["true AS row"])
    return Adopted(
        nw.from_native(native),
        keys,
        values,
        columns.listed,
        partial(frame_of_table, frame.sparkSession),
        unit_column(columns.unit, UNIT),
    )


def _places(names: Sequence[str]) -> list[str]:
    return [f"column_{index}" for index in range(len(names))]


def _numbered(frame: Any, label: Hashable) -> str:
    place: int = frame.columns.index(label)
    return _places(frame.columns)[place]


def _plain(frame: Any, label: Hashable, name: str) -> str:
    """Return a column that is grouped by; text that looks different is different.

    Where a collation says that texts are equal, one row could choose how a group of others is
    shown.
    """
    column = _numbered(frame, label)
    declared = frame.schema.fields[frame.columns.index(label)].dataType
    binary = f"collate({column}, 'UTF8_BINARY')" if isinstance(declared, _TEXTS) else column
    return f"{binary} AS {name}"
