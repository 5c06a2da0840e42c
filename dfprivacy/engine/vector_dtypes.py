"""What declared dtypes say of vectors: whether a column holds them, and how long they are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import polars as pl
import pyarrow as pa

from dfprivacy.errors import InvalidQuestionError, UnsupportedDtypeError
from dfprivacy.measurement.rotation import padded_size
from dfprivacy.vector_question import LARGEST_DIMENSION, MeanVector

_BLOCK = 2**19  # numbers a block: 4 MiB, so that the buffers of a pass stay in the cache
_CONVERTED = 2**22
_MOST_ROWS = 2**15


def block_rows(dimension: int) -> int:
    """Return how many rows a block of a matrix has: a function of the dimension."""
    return max(min(_BLOCK // padded_size(dimension), _MOST_ROWS), 1)


def converted_rows(dimension: int) -> int:
    """Return how many rows become a matrix at a time, before it is split into blocks."""
    return max(min(_CONVERTED // dimension, _MOST_ROWS), block_rows(dimension))


def dimension_of(kinds: Sequence[pa.DataType], question: MeanVector) -> int:
    """Return the public dimension of the vectors that columns of these declared types hold."""
    if question.wide:
        for label, kind in zip(question.labels, kinds, strict=True):
            _require_numbers(label, kind)
        return len(kinds)
    kind, label = kinds[0], question.columns
    if not _is_list(kind):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which holds no vectors",
            hint='list several columns, mean_vector(["x", "y"]), or name a column of lists',
        )
    _require_numbers(label, kind.value_type)
    if question.universe is not None:
        if not pa.types.is_integer(kind.value_type):
            raise UnsupportedDtypeError(
                f"column {label!r} holds no lists of whole numbers",
                hint="number the items 0, 1, ..., universe - 1 first",
            )
        return question.universe
    declared = kind.list_size if pa.types.is_fixed_size_list(kind) else None
    return _agreed(declared, question)


def require_arrow_integers(dtypes: Sequence[pl.DataType], labels: Sequence[Hashable]) -> None:
    """Refuse polars columns and lists of 128-bit integers, which have no type in Arrow."""
    for label, dtype in zip(labels, dtypes, strict=True):
        if "Int128" in str(dtype):
            raise UnsupportedDtypeError(
                f"column {label!r} is declared {dtype}, which Arrow does not have",
                hint=f"make it narrower: pl.col({label!r}).cast(pl.Float64), lists item by item",
            )


def _agreed(declared: int | None, question: MeanVector) -> int:
    if declared is None and question.dimension is None:
        raise InvalidQuestionError(
            f"the lists of column {question.columns!r} declare no length, and it is not read off "
            "the rows",
            hint="say it: dimension=384",
        )
    if declared is not None and question.dimension not in {None, declared}:
        raise InvalidQuestionError(
            f"column {question.columns!r} declares vectors of length {declared}, not "
            f"{question.dimension}",
            hint="leave dimension out",
        )
    chosen = question.dimension if declared is None else declared
    if chosen is None or not 1 <= chosen <= LARGEST_DIMENSION:
        raise InvalidQuestionError(
            "vectors have from 1 to 2**20 coordinates", hint="ask about fewer coordinates"
        )
    return chosen


def _require_numbers(label: object, kind: pa.DataType) -> None:
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or pa.types.is_boolean(kind)):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which holds no numbers",
            hint="convert it to an integer, float, decimal or boolean column first",
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
