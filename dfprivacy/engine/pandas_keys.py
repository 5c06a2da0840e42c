"""Group columns of a pandas frame on their way to the engine and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfprivacy.engine.pandas_objects import coded_objects, mark_bytes, mark_of


@dataclass(frozen=True)
class KeyColumn:
    """A group column as the engine sees it.

    `listed` has the public keys as the engine sees them. `objects` holds the values behind the
    codes of a coded column; None where the engine groups by the values themselves. `dtype` is what
    a released column gets, whatever is in it.
    """

    column: pa.Array | pa.ChunkedArray
    listed: Sequence[object]
    dtype: Any
    objects: Sequence[object] | None

    def marks(self) -> pa.Array | pa.ChunkedArray:
        """Return what stands for each row's key whatever else is in the column: no codes, no text.

        Text is its UTF-8, for one text that has none turns a column of them into codes.
        """
        if self.objects is not None:
            marks = [mark_bytes(mark_of(value)) for value in self.objects]
            return pa.array(marks, pa.binary()).take(self.column)
        if pa.types.is_string(self.column.type) or pa.types.is_large_string(self.column.type):
            return self.column.cast(pa.large_binary())
        return self.column

    def restore(self, column: pa.ChunkedArray) -> pd.Series[Any]:
        """Return released keys with the caller's own dtype."""
        if self.objects is not None:
            codes = column.fill_null(-1).to_numpy()
            values = np.empty(len(self.objects) + 1, dtype=object)
            values[:-1], values[-1] = self.objects, None
            return pd.Series(values[codes], dtype=object).astype(self.dtype)
        if isinstance(self.dtype, np.dtype):
            return _numpy_keys(column, self.dtype)
        return pd.Series(column.to_pandas(types_mapper=_nullable)).astype(self.dtype)


def key_column(series: pd.Series[Any], listed: Sequence[object]) -> KeyColumn:
    """Return a group column for the engine; `listed` are the public keys it must know.

    Numbers, dates and text go as they are. Objects, categories, durations, periods and the like go
    as ranks among their sorted values.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categories: pd.Series[Any] = dtype.categories.to_series()
        return _coded(series.astype(object), listed, _nullable_dtype(categories.dtype))
    if _goes_as_it_is(dtype):
        try:
            return KeyColumn(pa.array(series, from_pandas=True), listed, dtype, None)
        except UnicodeError:  # text without a UTF-8 form
            return _coded(series.astype(object), listed, dtype)
    return _coded(series.astype(object), listed, dtype)


def _goes_as_it_is(dtype: Any) -> bool:
    if isinstance(dtype, pd.ArrowDtype):
        return not pa.types.is_duration(dtype.pyarrow_dtype)
    kinds = "biuf" if isinstance(dtype, np.dtype) else "biufMO"
    plain = isinstance(dtype, np.dtype | pd.DatetimeTZDtype | pd.StringDtype) or hasattr(
        dtype, "numpy_dtype"
    )
    return plain and (dtype.kind in kinds or dtype.kind == "M")


def _coded(series: pd.Series[Any], listed: Sequence[object], dtype: Any) -> KeyColumn:
    codes, objects, wanted = coded_objects(series, listed)
    return KeyColumn(pa.array(codes, mask=codes < 0), wanted, dtype, objects)


def _numpy_keys(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> pd.Series[Any]:
    """Return keys of a numpy dtype; a public NULL among integers needs their nullable dtype."""
    if column.null_count and dtype.kind in "iub":
        return pd.Series(column.to_pandas(types_mapper=_nullable)).astype(_nullable_dtype(dtype))
    return pd.Series(column.to_pandas()).astype(dtype)


_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def _nullable(kind: pa.DataType) -> Any:
    """Return the pandas dtype that holds an Arrow type and NULL without loss."""
    return _NULLABLE.get(kind, pd.ArrowDtype(kind) if pa.types.is_decimal(kind) else None)


def _nullable_dtype(dtype: Any) -> Any:
    """Return the nullable twin of a numpy integer or boolean dtype; any other dtype itself."""
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return _NULLABLE[pa.from_numpy_dtype(dtype)]
    return dtype
