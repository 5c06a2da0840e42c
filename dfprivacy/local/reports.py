"""Make reports at their owner: from a value and a protocol to a number that is private already.

Nothing in here looks at more than one value at a time; many owners are simply served in blocks.
A report is a row of protocol, user, group and value; many of them are an Arrow table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dfprivacy.errors import InvalidProtocolError, UnsupportedDtypeError
from dfprivacy.exact import describe, exact_number
from dfprivacy.local.randomisers import Floats, Integers
from dfprivacy.local.rounds import NOBODY, Assignment, Part
from dfprivacy.noise.entropy import EntropySource

COLUMNS = ("protocol", "user", "group", "value")

BLOCK = 2**16
"""Owners served at a time: their numbers stay in the processor's cache."""


def report_one(
    asked: Assignment, value: Any, user: int | str, entropy: EntropySource
) -> dict[str, Any] | None:
    """Return one owner's report, or None where the user is not asked."""
    numbers = np.array([_user_number(asked, user)])
    matrix = value_matrix(np.array([_floats(value)]), asked.width)
    rows: list[dict[str, Any]] = _table(asked, matrix, numbers, entropy).to_pylist()
    return rows[0] if rows else None


def report_table(asked: Assignment, values: Any, users: Any, entropy: EntropySource) -> pa.Table:
    """Return the reports of many owners, one row for each that is asked in this round."""
    matrix = value_matrix(values, asked.width)
    return _table(asked, matrix, user_numbers(asked, users, len(matrix)), entropy)


def _table(asked: Assignment, matrix: Floats, users: Integers, entropy: EntropySource) -> pa.Table:
    size, width = len(matrix), asked.reported_width
    made = {"user": np.empty(size, np.int64), "group": np.empty(size, np.int64)}
    made["value"] = np.empty((size, width) if width else size, np.int64)
    kept = 0
    for start in range(0, size, BLOCK):
        block = slice(start, start + BLOCK)
        rows = _block(asked, matrix[block], users[block], entropy)
        last = kept + len(rows["user"])
        for name, each in rows.items():
            made[name][kept:last] = each
        kept = last
    own = np.full(kept, asked.fingerprint)
    columns = {"user": made["user"][:kept], "group": made["group"][:kept]}
    return pa.table({"protocol": own, **columns, "value": value_column(made["value"][:kept])})


def _block(
    asked: Assignment, values: Floats, users: Integers, entropy: EntropySource
) -> dict[str, Integers]:
    """Return the reports of one block of owners."""
    groups = asked.groups(users)
    if not asked.everyone:
        mine = np.flatnonzero(groups != NOBODY)
        values, users, groups = values[mine], users[mine], groups[mine]
    clipped = np.clip(values, -asked.limit, asked.limit)
    if len(asked.parts) == 1:
        made = _private(asked.parts[0], clipped, groups, entropy)
        return {"user": users, "group": groups, "value": made}
    made = np.empty(len(users), np.int64)
    for part in asked.parts:
        mine = np.flatnonzero(part.holds(groups))
        made[mine] = _private(part, clipped[mine], groups[mine], entropy)
    return {"user": users, "group": groups, "value": made}


def _private(part: Part, values: Floats, groups: Integers, entropy: EntropySource) -> Integers:
    with np.errstate(all="ignore"):  # a warning would speak of one value
        inputs = part.query.encode(values, groups - part.first)
    return part.law.privatise(inputs, entropy)


def value_column(values: Integers) -> pa.Array:
    """Return reported values as Arrow: numbers, or lists of one length."""
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _floats(value: Any) -> Any:
    """Return a number, or the numbers of a vector, as floats; what is missing as NaN."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_floats(each) for each in value]
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return math.inf if value > 0 else -math.inf


def value_matrix(values: Any, width: int) -> Floats:
    """Return values as floats: one a row, or `width` a row where that is not 0.

    NULL, NaN, and vectors of another length or with a missing coordinate are NaN. Declared types
    that hold no numbers, or no vectors where they are needed, are refused.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        if values.ndim == (2 if width else 1) and (not width or values.shape[1] == width):
            return values.astype(np.float64, copy=False)
        raise _no_numbers(f"an array of {values.ndim} dimensions", width)
    column = _arrow_column(values)
    if not width:
        return _numbers(column)
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not (lists or pa.types.is_fixed_size_list(column.type)):
        raise _no_numbers(f"a column of type {column.type}", width)
    matrix = np.full((len(column), width), np.nan)
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), -1).to_numpy()
    whole = np.flatnonzero(lengths == width)
    matrix[whole] = _numbers(column.take(pa.array(whole)).flatten()).reshape(-1, width)
    matrix[np.isnan(matrix).any(axis=1)] = np.nan
    return matrix


def _arrow_column(values: Any) -> pa.Array:
    """Return a column of any kind as one Arrow array."""
    column = values.to_arrow() if hasattr(values, "to_arrow") else values
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        try:
            column = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            column = None
    if column is None:
        raise _no_numbers("a column of mixed types", 0)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: pa.Array) -> Floats:
    types, kind = pa.types, column.type
    if types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not any(
        test(kind)
        for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    ):
        raise _no_numbers(f"a column of type {kind}", 0)
    floats = column.cast(pa.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # NULL is NaN


def _no_numbers(what: str, width: int) -> UnsupportedDtypeError:
    wanted = f"vectors of {width} numbers" if width else "numbers"
    hint = f"pass {wanted}, e.g. a numpy array of floats"
    return UnsupportedDtypeError(f"{what} holds no {wanted}", hint=hint)


def _user_number(asked: Assignment, user: object) -> int:
    """Return the number under which one user reports."""
    if asked.named and isinstance(user, str | bytes):
        return asked.number_of(user)
    exact = None if asked.named else exact_number(user)
    if exact is None or exact.denominator != 1 or not 0 <= exact < asked.users:
        wanted = "a name" if asked.named else f"an index from 0 to {asked.users - 1}"
        raise InvalidProtocolError(
            f"a user of this protocol is {wanted}, not {describe(user)}",
            hint='plan with named=True and report(value, user="ann"), or number the users',
        )
    return int(exact)


def user_numbers(asked: Assignment, users: Any, rows: int) -> Integers:
    """Return the number under which each of many users reports, one for each value."""
    numbers: Any
    if users is None and not asked.named:
        numbers = np.arange(rows)
    elif asked.named:
        names = [] if users is None else _arrow_column(users).to_pylist()
        fit = all(isinstance(name, str | bytes) for name in names)
        numbers = np.array([asked.number_of(name) for name in names if fit], dtype=np.int64)
    else:
        plain = isinstance(users, np.ndarray)
        numbers = users if plain else _arrow_column(users).to_numpy(zero_copy_only=False)
    fits = len(numbers) == rows and numbers.dtype.kind in "iu"
    if not (fits and asked.known(numbers).all()):
        wanted = "names" if asked.named else f"different indexes from 0 to {asked.users - 1}"
        raise InvalidProtocolError(
            f"the users of this protocol are {wanted}, one for each value",
            hint="pass them beside the values, or plan with as many users as there are",
        )
    return numbers.astype(np.int64, copy=False)  # type: ignore[no-any-return]
