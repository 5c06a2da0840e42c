"""Group columns must declare the type of their keys: Python objects have none that can be kept.

A file holds keys, which other files are compared with. What stands for objects within one pass, a
rank among those that this frame has, means another key in the next file.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfprivacy.engine.pandas_keys import has_utf8
from dfprivacy.errors import UnsupportedDtypeError


def check_declared(frame: object, labels: Sequence[Hashable]) -> None:
    """Refuse columns of pandas frames as group keys where they declare no type.

    Only declared dtypes are looked at, never a row.

    Raises
    ------
    UnsupportedDtypeError
        When a group column holds Python objects, or categories that are objects other than text.
    """
    if isinstance(frame, pd.DataFrame):
        _check_pandas(frame, labels)


def with_kept_text(frame: object, labels: Sequence[Hashable]) -> object:
    """Return a frame of pandas whose group keys are NULL where a file can't keep their text.

    That is text without a UTF-8 form, each by itself; another frame is what it is.
    """
    if not isinstance(frame, pd.DataFrame):
        return frame
    own = frame.copy(deep=False)
    known: list[Hashable] = list(own.columns)
    for label in labels:
        if known.count(label) == 1 and _may_lack_utf8(own[label].dtype):
            own[label] = own[label].where(_is_kept(own[label]))
    return own


def _may_lack_utf8(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        return not all(has_utf8(own) for own in dtype.categories if isinstance(own, str))
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "python"


def _is_kept(keys: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    if isinstance(keys.dtype, pd.CategoricalDtype):
        kept = [has_utf8(own) for own in keys.dtype.categories]
        return np.array([*kept, True])[keys.cat.codes.to_numpy()]
    return np.array([has_utf8(own) for own in keys.fillna("")], dtype=bool)


def _check_pandas(frame: pd.DataFrame, labels: Sequence[Hashable]) -> None:
    known: list[Hashable] = list(frame.columns)
    for label in labels:
        if known.count(label) == 1 and not _declares_a_type(frame[label].dtype):
            raise UnsupportedDtypeError(
                f"group column {label!r} holds Python objects, whose type is not declared",
                hint=_as_text(label),
            )


def _declares_a_type(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        words = pd.api.types.infer_dtype(dtype.categories, skipna=False) == "string"
        return words or _declares_a_type(dtype.categories.dtype)
    return not pd.api.types.is_object_dtype(dtype)


def _as_text(label: Hashable) -> str:
    return f'convert it first, e.g. frame.astype({{{label!r}: "string"}})'
