"""Value columns of a pandas frame as Arrow, typed by their declared dtype, never by rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfprivacy.engine.pandas_objects import is_missing
from dfprivacy.errors import UnsupportedDtypeError


def value_column(label: Hashable, series: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    """Return a numeric or boolean column as Arrow; float and integer arrays are not copied.

    Raises
    ------
    UnsupportedDtypeError
        For any other declared dtype, `object` among them.
    """
    if not pd.api.types.is_numeric_dtype(series.dtype) and not _is_arrow_decimal(series.dtype):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {series.dtype}, which holds no numbers",
            hint=f"declare it, e.g. df[{label!r}].astype(float)",
        )
    if isinstance(series.dtype, np.dtype):
        return pa.array(series.to_numpy(), from_pandas=False)
    return pa.array(series)


def presence_column(series: pd.Series[Any]) -> pa.Array:
    """Return true where a column of any dtype holds a value, NULL where it is missing."""
    if pd.api.types.is_object_dtype(series.dtype):
        present = np.fromiter((not is_missing(v) for v in series), dtype=bool, count=len(series))
    else:
        present = series.notna().to_numpy(dtype=bool)
    return pa.array(present, mask=~present)


def _is_arrow_decimal(dtype: object) -> bool:
    return isinstance(dtype, pd.ArrowDtype) and pa.types.is_decimal(dtype.pyarrow_dtype)
