"""Decide which group keys a file can hold, and the one type in which keys of several files meet.

Columns must declare the type of their keys: what stands for Python objects within one pass means
another key in the next file. Integers meet as int64 (uint64 stays apart), floats as float64, text
as large_string, times of day as microseconds (nanoseconds stay apart), times with a time zone as
UTC, decimals with the most digits of their scale. Datetimes and durations of different units stay
apart: a unit holds times that a finer one can't. A cast from a type to its form succeeds for every
value of the type, and loses no bit of any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyarrow import types

from dfprivacy.engine.pandas import has_utf8
from dfprivacy.engine.run import guarded
from dfprivacy.errors import UnsupportedDtypeError


def keepable(frame: object, labels: Sequence[Hashable]) -> object:
    """Return a frame whose group keys a file can keep.

    Text of pandas without a UTF-8 form becomes NULL, each by itself; nothing else changes. Only
    declared dtypes decide what is refused, never a row.
    """
    if not isinstance(frame, pd.DataFrame):
        return frame
    known: list[Hashable] = list(frame.columns)
    columns = [label for label in labels if known.count(label) == 1]
    for label in columns:
        if not _declares_a_type(frame[label].dtype):
            raise UnsupportedDtypeError(
                f"group column {label!r} holds Python objects, whose type is not declared",
                hint=f'convert it first, e.g. frame.astype({{{label!r}: "string"}})',
            )
    own = frame.copy(deep=False)
    for label in columns:
        if _may_lack_utf8(own[label].dtype):
            own[label] = own[label].where(_is_kept(own[label]))
    return own


def _declares_a_type(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        words = pd.api.types.infer_dtype(dtype.categories, skipna=False) == "string"
        return words or _declares_a_type(dtype.categories.dtype)
    return not pd.api.types.is_object_dtype(dtype)


def _may_lack_utf8(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        return not all(has_utf8(own) for own in dtype.categories if isinstance(own, str))
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "python"


def _is_kept(keys: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    if isinstance(keys.dtype, pd.CategoricalDtype):
        kept = [has_utf8(own) for own in keys.dtype.categories]
        return np.array([*kept, True])[keys.cat.codes.to_numpy()]
    return np.array([has_utf8(own) for own in keys.fillna("")], dtype=bool)


def _is_instant(kind: pa.DataType) -> bool:
    """Tell datetimes from others; Parquet has none of seconds, which may not fit into others."""
    return bool(types.is_timestamp(kind)) and kind.unit != "s"


_Rule = tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]]
_RULES: tuple[_Rule, ...] = (
    (types.is_boolean, lambda _: pa.bool_()),
    (types.is_uint64, lambda _: pa.uint64()),
    (types.is_integer, lambda _: pa.int64()),
    (types.is_floating, lambda _: pa.float64()),
    (types.is_string, lambda _: pa.large_string()),
    (types.is_large_string, lambda _: pa.large_string()),
    (types.is_binary, lambda _: pa.large_binary()),
    (types.is_large_binary, lambda _: pa.large_binary()),
    (types.is_fixed_size_binary, lambda _: pa.large_binary()),
    (types.is_date32, lambda _: pa.date32()),
    (types.is_time, lambda kind: pa.time64("ns" if kind.unit == "ns" else "us")),
    (_is_instant, lambda kind: pa.timestamp(kind.unit, None if kind.tz is None else "UTC")),
    (types.is_duration, lambda kind: kind),
    (types.is_decimal128, lambda kind: pa.decimal128(38, kind.scale)),
)
_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def common_form(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which keys of a declared type meet others; None where they can't be kept.

    >>> common_form(pa.uint8()), common_form(pa.timestamp("ms", "Europe/Rome"))
    (DataType(int64), TimestampType(timestamp[ms, tz=UTC]))
    """
    return next((form(kind) for rule, form in _RULES if rule(kind)), None)


def declared_keys(keys: pa.Table, labels: Sequence[Hashable]) -> pa.Table:
    """Return group keys in types that a file keeps: those declared, text for categories."""
    plain = [own.value_type if types.is_dictionary(own) else own for own in keys.schema.types]
    kinds = [_kept(kind, label) for kind, label in zip(plain, labels, strict=True)]
    return in_types(in_types(keys, plain), kinds)


def _kept(kind: pa.DataType, label: Hashable) -> pa.DataType:
    if kind in _VIEWS:
        return _VIEWS[kind]
    form = common_form(kind)
    if form is None:
        hint = "group by text, whole numbers, booleans, dates or times"
        if types.is_timestamp(kind):
            hint = f'convert it first, e.g. frame[{label!r}] = frame[{label!r}].dt.as_unit("us")'
        raise UnsupportedDtypeError(
            f"group column {label!r} is declared {kind}, which a file of statistics can't keep",
            hint=hint,
        )
    return form if kind == pa.time32("s") else kind  # Parquet has no seconds


def meet(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of keys of several files: that of all, else their common form, else None."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    forms = {common_form(kind) for kind in kinds}
    return forms.pop() if len(forms) == 1 else None


def in_types(keys: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    """Return keys in other types; no key stands in the way of that."""
    schema = pa.schema(list(zip(keys.column_names, kinds, strict=True)))
    return guarded(lambda: keys.cast(schema))
