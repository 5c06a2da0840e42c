"""Value columns of a pandas frame as Arrow, typed by their declared dtype, never by rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfprivacy.engine.pandas_objects import is_missing, unheard
from dfprivacy.errors import UnsupportedDtypeError


def value_column(label: Hashable, series: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    """Return a numeric or boolean column as Arrow; float and integer arrays are not copied.

    Raises
    ------
    UnsupportedDtypeError
        For any other declared dtype, `object` among them.
    """
    dtype: Any = series.dtype
    if dtype.kind not in "biuf" and not _is_arrow_decimal(dtype):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {dtype}, which holds no numbers",
            hint=f"declare it, e.g. df[{label!r}].astype(float)",
        )
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, np.dtype):
        with np.errstate(all="ignore"):  # each value by itself: a warning would tell of a row
            return pa.array(np.asarray(series, dtype=_read_dtype(dtype)), from_pandas=False)
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_float16(dtype.pyarrow_dtype):
        return pa.array(series).cast(pa.float32())
    return pa.array(series)


def _read_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which the engine reads one of numbers: its own, or 64-bit floats."""
    if dtype.kind == "f" and dtype.itemsize not in {4, 8}:
        return np.dtype(np.float64)
    return dtype.newbyteorder("=")


@unheard()
def presence_column(series: pd.Series[Any]) -> pa.Array:
    """Return true where a column of any dtype holds a value, NULL where it is missing."""
    if pd.api.types.is_object_dtype(series.dtype):
        present = np.fromiter((not is_missing(v) for v in series), dtype=bool, count=len(series))
    else:
        present = series.notna().to_numpy(dtype=bool)
        if series.dtype.kind == "f":  # some dtypes do not take NaN for a missing value
            present = ~np.isnan(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return pa.array(present, mask=~present)


def _is_arrow_decimal(dtype: object) -> bool:
    return isinstance(dtype, pd.ArrowDtype) and pa.types.is_decimal(dtype.pyarrow_dtype)
