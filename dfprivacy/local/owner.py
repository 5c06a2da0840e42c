"""The owner's side: from a value and a protocol to a report that is private already.

Nothing in here looks at more than one value at a time; many owners are simply served in blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.exact import describe, exact_number
from dfprivacy.local.asks import Floats
from dfprivacy.local.columns import user_numbers, value_matrix
from dfprivacy.local.report_table import Rows
from dfprivacy.local.sheet import NOBODY, Part, Sheet
from dfprivacy.local.users import Integers, Words, number_of_name
from dfprivacy.noise.entropy import EntropySource

BLOCK = 2**16
"""Owners served at a time: their numbers stay in the processor's cache."""


def report_one(
    sheet: Sheet, value: Any, user: int | str, entropy: EntropySource
) -> dict[str, Any] | None:
    """Return one owner's report, or None where the user is not asked."""
    numbers = np.array([user_number(sheet, user)])
    matrix = value_matrix(np.array([_floats(value)]), sheet.width)
    rows: list[dict[str, Any]] = _table(sheet, matrix, numbers, entropy).to_pylist()
    return rows[0] if rows else None


def user_number(sheet: Sheet, user: object) -> int:
    """Return the number under which a user reports.

    Raises
    ------
    InvalidProtocolError
        When the user is no index of the protocol, or no name where names are asked for.
    """
    if sheet.named and isinstance(user, str | bytes):
        return number_of_name(user, sheet.campaign)
    exact = None if sheet.named else exact_number(user)
    if exact is None or exact.denominator != 1 or not 0 <= exact < sheet.users:
        wanted = "a name" if sheet.named else f"an index from 0 to {sheet.users - 1}"
        raise InvalidProtocolError(
            f"a user of this protocol is {wanted}, not {describe(user)}",
            hint='plan with named=True and report(value, user="ann"), or number the users',
        )
    return int(exact)


def report_table(sheet: Sheet, values: Any, users: Any, entropy: EntropySource) -> pa.Table:
    """Return the reports of many owners, one row for each that is asked in this round."""
    matrix = value_matrix(values, sheet.width)
    return _table(sheet, matrix, user_numbers(sheet, users, len(matrix)), entropy)


def _table(sheet: Sheet, matrix: Floats, numbers: Integers, entropy: EntropySource) -> pa.Table:
    out = Rows.of(len(matrix), sheet.reported_width)
    kept = 0
    for start in range(0, len(matrix), BLOCK):
        block = slice(start, start + BLOCK)
        kept += _reported(sheet, matrix[block], numbers[block], out.after(kept), entropy)
    return out.table(kept, sheet)


def _reported(
    sheet: Sheet, values: Floats, users: Integers, out: Rows, entropy: EntropySource
) -> int:
    """Write the reports of one block and return how many there are."""
    words = sheet.words(users)
    groups = sheet.groups(words)
    if not sheet.everyone:
        asked = np.flatnonzero(groups != NOBODY)
        values, users, words, groups = values[asked], users[asked], words[asked], groups[asked]
    clipped = np.clip(values, -sheet.limit, sheet.limit)
    size = len(users)
    out.users[:size], out.groups[:size] = users, groups
    if len(sheet.parts) == 1:
        out.values[:size] = _private(sheet.parts[0], clipped, groups, words, entropy)
        return size
    for part in sheet.parts:
        mine = np.flatnonzero((groups >= part.first) & (groups < part.last))
        out.values[mine] = _private(part, clipped[mine], groups[mine], words[mine], entropy)
    return size


def _private(
    part: Part, values: Floats, groups: Integers, words: Words, entropy: EntropySource
) -> Integers:
    with np.errstate(all="ignore"):  # a warning would speak of one value
        inputs = part.ask.encode(values, groups - part.first, words)
    return part.law.privatise(inputs, entropy)


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
