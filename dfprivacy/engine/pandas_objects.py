"""Python objects as group keys: each becomes its canonical form by itself.

Equal objects can look different (1, 1.0 and True; Decimal("1.0") and Decimal("1.00")). If the first
one met stood for all, one row could choose how the group of the others is shown. So an object is
grouped by its kind and its own appearance, never by comparison with others.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Codes = npt.NDArray[np.int64]
Mark = tuple[str, Any]


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


def distinct_objects(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    """Return codes and objects; several objects may have the same mark."""
    if not pd.api.types.is_object_dtype(series.dtype):
        codes, objects = pd.factorize(series, use_na_sentinel=True)
        return np.asarray(codes, dtype=np.int64), list(objects)
    if pd.api.types.infer_dtype(series, skipna=True) == "string":
        texts = np.empty(len(series), dtype=object)
        texts[:] = [_plain_text(value) for value in series]
        places, plain = pd.factorize(texts, use_na_sentinel=True)
        return np.asarray(places, dtype=np.int64), list(plain)
    first: dict[Mark, int] = {}
    found: list[object] = []
    own = np.full(len(series), -1, dtype=np.int64)
    for row, value in enumerate(series):
        if not is_missing(value):
            own[row] = first.setdefault(mark_of(value), len(first))
            if own[row] == len(found):
                found.append(value)
    return own, found


def _plain_text(value: object) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def mark_of(value: object) -> Mark:
    """Return a sortable, hashable form of one object: its kind, then its value or appearance."""
    if isinstance(value, str):
        return ("str", str.__str__(value))
    if isinstance(value, bool | np.bool_):
        return ("bool", bool(value))
    if isinstance(value, int | np.integer):
        return ("int", int(value))
    if isinstance(value, float | np.floating):
        return ("float", float(value) + 0.0)
    try:
        return (type(value).__name__, repr(value))
    except Exception:  # noqa: BLE001 an object may raise what it likes
        return (type(value).__name__, "")


def mark_bytes(mark: Mark) -> bytes:
    """Return a mark as bytes, different ones for different marks; those of text are its UTF-8.

    What is no text starts with a byte that no text has.
    """
    kind, form = mark
    if kind == "str":
        return str(form).encode("utf-8", "surrogatepass")
    return b"\xff" + repr(mark).encode("utf-8", "surrogatepass")


def _shown(mark: Mark, value: object) -> object:
    """Return what stands for a mark in a result: plain text and numbers, else the object."""
    kind, form = mark
    return form if kind in {"str", "bool", "int", "float"} else value
