"""Python objects as group keys: each becomes its canonical form by itself.

Equal objects can look different (1, 1.0 and True; Decimal("1.0") and Decimal("1.00")). If the first
one met stood for all, one row could choose how the group of the others is shown. So an object is
grouped by its kind and its own appearance, never by comparison with others.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

Codes = npt.NDArray[np.int64]
Mark = tuple[str, Any]

_LEVELS = 4  # of objects within objects that are looked at beyond their `repr`
_SILENCE = threading.RLock()


@contextmanager
def unheard() -> Iterator[None]:
    """Let no warning be heard, nor made an error, while objects are looked at: it tells of a row.

    Filters of warnings are those of the whole process; one thread at a time changes them here.
    """
    with _SILENCE, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def is_missing(value: object) -> bool:
    """Tell None, NaN, NaT, NA and signalling NaN."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 only NaN differs from itself
    except Exception:  # noqa: BLE001 an object may raise what it likes; a signalling NaN does
        return isinstance(value, numbers.Number) or "NaN" in type(value).__name__ or _is_snan(value)


def _is_snan(value: object) -> bool:
    check = getattr(value, "is_snan", None)
    return bool(check()) if callable(check) else False


@unheard()
def coded_objects(
    series: pd.Series[Any], listed: Sequence[object]
) -> tuple[Codes, list[object], list[int | None]]:
    """Return each row's code (-1 for missing), the objects coded, the listed keys' codes.

    The objects are those of the column and the public keys together, sorted by kind and value, so
    that the order of groups does not depend on the order of rows.
    """
    codes, objects = distinct_objects(series)
    marks = [mark_of(value) for value in objects]
    wanted = [None if is_missing(value) else mark_of(value) for value in listed]
    known = {mark: _shown(mark, value) for mark, value in zip(marks, objects, strict=True)}
    for mark, value in zip(wanted, listed, strict=True):
        if mark is not None:
            known.setdefault(mark, _shown(mark, value))
    rank = {mark: code for code, mark in enumerate(sorted(known))}
    ranks = np.array([*(rank[mark] for mark in marks), -1], dtype=np.int64)
    listed_codes = [None if mark is None else rank[mark] for mark in wanted]
    return ranks[codes], [known[mark] for mark in sorted(known)], listed_codes


@unheard()
def distinct_objects(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    """Return codes and objects of a column of objects; several objects may have the same mark."""
    if pd.api.types.infer_dtype(series, skipna=True) == "string":
        try:
            return _distinct_texts(series)
        except UnicodeError:  # text without a UTF-8 form
            return _distinct_marks(series)
    return _distinct_marks(series)


def _distinct_marks(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    first: dict[Mark, int] = {}
    found: list[object] = []
    own = np.full(len(series), -1, dtype=np.int64)
    for row, value in enumerate(series):
        if not is_missing(value):
            own[row] = first.setdefault(mark_of(value), len(first))
            if own[row] == len(found):
                found.append(value)
    return own, found


def _distinct_texts(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    """Return codes and texts as Arrow tells them apart; pandas takes a surrogate for its `repr`."""
    texts = np.empty(len(series), dtype=object)
    texts[:] = [_plain_text(value) for value in series]
    encoded = cast("Any", pa.array(texts, pa.large_string())).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.asarray(codes, dtype=np.int64), encoded.dictionary.to_pylist()


def _plain_text(value: object) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def mark_of(value: object) -> Mark:
    """Return a sortable, hashable form of one object: its kind, then its value or appearance.

    The appearance is the `repr` and what a `repr` leaves out: see `_not_in_repr`.
    """
    if isinstance(value, str):
        return ("str", str.__str__(value))
    if isinstance(value, bool | np.bool_):
        return ("bool", bool(value))
    if isinstance(value, int | np.integer):
        return ("int", int(value))
    if isinstance(value, float | np.floating):
        return ("float", float(value) + 0.0)
    return _look(_plain(value), _LEVELS)


def _look(value: object, levels: int) -> Mark:
    """Return the kind and the appearance of an object, without calling equal ones the same."""
    shown = (_tried(lambda: value), _tried(lambda: _not_in_repr(value, levels)))
    return (_class_name(value), shown)


def _class_name(value: object) -> str:
    return f"{type(value).__qualname__} of {type(value).__module__}"


def _tried(look: Callable[[], object]) -> str:
    try:
        return repr(look())
    except Exception:  # noqa: BLE001 an object may raise what it likes
        return ""


def _plain(value: object) -> object:
    """Return a UUID without its origin, a time or difference of pandas in microseconds.

    Or in nanoseconds if it has some; a fold is that of its instant.
    """
    if type(value) is UUID:
        return UUID(int=value.int)
    try:
        if isinstance(value, pd.Timestamp):
            own = _own_fold(value) if value.fold else value
            return own.as_unit("ns" if value.nanosecond else "us")
        if isinstance(value, pd.Timedelta):
            return value.as_unit("ns" if value.nanoseconds else "us")
    except (OverflowError, ValueError):  # too large for them: in the unit it has
        return value
    return value


def _own_fold(value: pd.Timestamp) -> pd.Timestamp:
    """Return a time with the fold that follows from its instant."""
    plain = pd.Timestamp(value.to_datetime64())
    zone = value.tzinfo
    return plain if zone is None else plain.tz_localize("UTC").tz_convert(zone)


def _not_in_repr(value: Any, levels: int) -> list[object]:
    """Return units, time zones, dtypes, and the elements, which a `repr` may leave out."""
    if isinstance(value, dt.datetime | dt.time | dt.timedelta):
        zone, fold = getattr(value, "tzinfo", None), getattr(value, "fold", 0)
        return [getattr(value, "unit", None), fold, _class_name(zone), repr(zone)]
    dtype = str(getattr(value, "dtype", ""))
    return [dtype, *(_look(own, levels - 1) for own in _elements(value) if levels)]


def _elements(value: Any) -> list[Any]:
    if isinstance(value, tuple | list | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, pd.Interval):
        return [value.left, value.right]
    if isinstance(value, pd.Series | pd.DataFrame):
        return [value.attrs, *value.axes, value.to_numpy()]
    if isinstance(value, np.ma.MaskedArray):
        return [np.ma.getdata(value), np.ma.getmaskarray(value)]
    return _fields(value) or _listed(value)


def _fields(value: Any) -> list[Any]:
    """Return what else there is of patterns, UUIDs and offsets."""
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    if isinstance(value, UUID):
        return [value.is_safe]
    if isinstance(value, pd.offsets.BaseOffset):
        return [getattr(value, own, None) for own in ("normalize", "holidays", "weekmask")]
    return []


def _listed(value: Any) -> list[Any]:
    if not callable(getattr(value, "tolist", None)):
        return []
    held = value.tolist()
    return [getattr(value, "shape", None), *(held if isinstance(held, list | tuple) else [])]


def mark_bytes(mark: Mark) -> bytes:
    """Return a mark as bytes, different ones for different marks; those of text are its UTF-8.

    What is no text starts with a byte that no text has.
    """
    kind, form = mark
    if kind == "str":
        return str(form).encode("utf-8", "surrogatepass")
    return b"\xff" + repr(mark).encode("utf-8", "surrogatepass")


def _shown(mark: Mark, value: object) -> object:
    """Return what stands for a mark in a result: plain text, numbers and times, else the object.

    An array is a copy, for a view shows the layout and the other elements of what it is a view of.
    """
    kind, form = mark
    if kind in {"str", "bool", "int", "float"}:
        return form
    return value.copy(order="C") if type(value) is np.ndarray else _plain(value)
