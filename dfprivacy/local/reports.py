"""Make reports at their owner, and collect them at the analyst's.

A report is a row of protocol, user, group and value. Many of them are an Arrow table. Nothing that
makes one looks at more than one value. The analyst checks each report, counts each user once and
adds up. The result does not depend on the order of reports, files or merges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from numbers import Real
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.run import collect, run_guarded
from dfprivacy.errors import InvalidProtocolError, UnsupportedDtypeError
from dfprivacy.local.randomizers import Counts, Floats, Integers, Mask
from dfprivacy.local.rounds import NOBODY, Assignment, Part
from dfprivacy.measurement.exact import describe, exact_number
from dfprivacy.measurement.runs import list_distinct
from dfprivacy.noise.entropy import EntropySource

COLUMNS = ("protocol", "user", "group", "value")

ROWS, BLOCK = 2**20, 2**16
"""Reports read at a time, and those made, checked or added up: they stay in the cache."""

REASONS = ("malformed", "protocol", "user", "group", "value")


def report_one(
    assignment: Assignment, value: Any, user: int | str, entropy: EntropySource
) -> dict[str, Any] | None:
    """Return one owner's report, or None where the user is not asked."""
    numbers = np.array([_user_number(assignment, user)])
    matrix = value_matrix(np.array([_floats(value, assignment.width)]), assignment.width)
    rows: list[dict[str, Any]] = report_table(assignment, matrix, numbers, entropy).to_pylist()
    return rows[0] if rows else None


def owners(assignment: Assignment, values: Any, users: Any) -> tuple[Floats, Integers]:
    """Return the values of many owners as floats, and their numbers, which are all different."""
    matrix = value_matrix(values, assignment.width)
    rows = len(matrix)
    numbers: Any
    if users is None and not assignment.named:
        numbers = np.arange(rows)
    elif assignment.named:
        names = [] if users is None else _arrow_column(users).to_pylist()
        fit = all(isinstance(name, str | bytes) for name in names)
        numbers = np.array([assignment.find_number(name) for name in names if fit], dtype=np.int64)
    else:
        plain = type(users) is np.ndarray  # under a mask is no user
        numbers = users if plain else _arrow_column(users).to_numpy(zero_copy_only=False)
    fits = len(numbers) == rows and numbers.dtype.kind in "iu"
    if not (fits and assignment.is_user(numbers).all()):
        expected = (
            "names" if assignment.named else f"different indexes from 0 to {assignment.users - 1}"
        )
        raise InvalidProtocolError(
            f"the users of this protocol are {expected}, one for each value",
            hint="pass them beside the values, or plan with as many users as there are",
        )
    numbers = numbers.astype(np.int64, copy=False)
    if users is not None and len(list_distinct(numbers)) < len(numbers):
        raise InvalidProtocolError(
            "a user is there twice, and each sends one message: a second one costs as much again",
            hint="make one value of each user's first",
        )
    return matrix, numbers


def report_table(
    assignment: Assignment, matrix: Floats, users: Integers, entropy: EntropySource
) -> pa.Table:
    """Return the reports of many owners, one row for each that is asked in this round."""
    size, width = len(matrix), assignment.reported_width
    arrays = {"user": np.empty(size, np.int64), "group": np.empty(size, np.int64)}
    arrays["value"] = np.empty((size, width) if width else size, np.int64)
    size_kept = 0
    for start in range(0, size, BLOCK):
        block = slice(start, start + BLOCK)
        rows = _block(assignment, matrix[block], users[block], entropy)
        last = size_kept + len(rows["user"])
        for name, column in rows.items():
            arrays[name][size_kept:last] = column
        size_kept = last
    fingerprints = np.full(size_kept, assignment.fingerprint)
    columns = {"user": arrays["user"][:size_kept], "group": arrays["group"][:size_kept]}
    return pa.table(
        {"protocol": fingerprints, **columns, "value": value_column(arrays["value"][:size_kept])}
    )


def _block(
    assignment: Assignment, values: Floats, users: Integers, entropy: EntropySource
) -> dict[str, Integers]:
    """Return the reports of one block of owners."""
    groups = assignment.groups(users)
    if not assignment.everyone:
        mine = np.flatnonzero(groups != NOBODY)
        values, users, groups = values[mine], users[mine], groups[mine]
    clipped = np.clip(values, -assignment.limit, assignment.limit)
    if len(assignment.parts) == 1:
        reports = _private(assignment.parts[0], clipped, groups, entropy)
        return {"user": users, "group": groups, "value": reports}
    reports = np.empty(len(users), np.int64)
    for part in assignment.parts:
        mine = np.flatnonzero(part.holds(groups))
        reports[mine] = _private(part, clipped[mine], groups[mine], entropy)
    return {"user": users, "group": groups, "value": reports}


def _private(part: Part, values: Floats, groups: Integers, entropy: EntropySource) -> Integers:
    with np.errstate(all="ignore"):  # a warning would speak of one value
        inputs = part.query.encode(values, groups - part.first)
    return part.law.privatise(inputs, entropy)


def value_column(values: Integers) -> pa.Array:
    """Return reported values as Arrow: numbers, or lists of one length."""
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _floats(value: Any, width: int) -> Any:
    """Return a number, or the numbers of a vector, as floats. What is missing is NaN.

    No value of a type of numbers is refused: an owner who sends no report says something of it.
    """
    if width and isinstance(value, list | tuple | np.ndarray) and getattr(value, "ndim", 1):
        return [*map(_number, value)]
    number = _number(value)
    return [number] * width if width and math.isnan(number) else number


def _number(value: Any) -> float:
    """Return a number as a float. A missing one is NaN."""
    if isinstance(value, np.ndarray) and not value.ndim and value is not np.ma.masked:
        return _number(value.item())
    if value is None or value is np.ma.masked or value is pd.NA or value is pd.NaT:
        return math.nan
    if isinstance(value, np.timedelta64) or not isinstance(value, Real | Decimal | np.bool_):
        raise _no_numbers(f"a value of type {type(value).__name__}", 0)
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return math.inf if (exact_number(value) or 0) > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _float(value: Any) -> float:
    """Return a cell of a column of several types: a cell without a number is missing."""
    with suppress(UnsupportedDtypeError):
        return _number(value)
    return math.nan


def value_matrix(values: Any, width: int) -> Floats:
    """Return values as floats, one or `width` a row. Other cells are NaN."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        if values.ndim == (2 if width else 1) and (not width or values.shape[1] == width):
            return _plain(values)
        raise _no_numbers(f"an array of {values.ndim} dimensions", width)
    if not width:
        return _numbers(_arrow_column(values, _float))
    column = _arrow_column(
        values,  # a cell without a list is missing
        lambda cell: [*map(_float, cell)] if isinstance(cell, list | tuple | np.ndarray) else None,
    )
    if pa.types.is_null(column.type):
        return np.full((len(column), width), np.nan)
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not (lists or pa.types.is_fixed_size_list(column.type)):
        raise _no_numbers(f"a column of type {column.type}", width)
    matrix = np.full((len(column), width), np.nan)
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), -1).to_numpy()
    is_complete = np.flatnonzero(lengths == width)
    numbers = _numbers(column.take(pa.array(is_complete)).flatten())
    matrix[is_complete] = numbers.reshape(len(is_complete), width)
    matrix[np.isnan(matrix).any(axis=1)] = np.nan
    return matrix


def _plain(values: npt.NDArray[Any]) -> Floats:
    """Return an array as floats of numpy's own type, which every operation reaches. Masked is NaN.

    Noise would not be added to values under a mask.
    """
    mask, floats = np.ma.getmask(values), np.asarray(values, dtype=np.float64)
    return floats if mask is np.ma.nomask else np.where(mask, math.nan, floats)


def _arrow_column(values: Any, cell: Callable[[Any], Any] | None = None) -> pa.Array:
    """Return a column of any kind as one Arrow array. `cell` makes one of cells of other types."""
    if hasattr(values, "columns") or hasattr(values, "column_names"):
        raise _no_numbers(f"a whole {type(values).__name__}", 0)
    column = values.to_arrow() if hasattr(values, "to_arrow") else values
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        try:
            column = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            kind, dimensions = getattr(column, "dtype", "O"), getattr(column, "ndim", 1)
            is_mixed = isinstance(column, Iterable) and dimensions == 1 and kind == np.dtype("O")
            column = pa.array(list(map(cell, column))) if cell and is_mixed else None
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
    expected = f"vectors of {width} numbers" if width else "numbers"
    hint = f"pass {expected}, e.g. a numpy array of floats"
    return UnsupportedDtypeError(f"{what} holds no {expected}", hint=hint)


def _user_number(assignment: Assignment, user: object) -> int:
    """Return the number under which one user reports."""
    if assignment.named and isinstance(user, str | bytes):
        return assignment.find_number(user)
    exact = None if assignment.named else exact_number(user)
    if exact is None or exact.denominator != 1 or not 0 <= exact < assignment.users:
        expected = "a name" if assignment.named else f"an index from 0 to {assignment.users - 1}"
        raise InvalidProtocolError(
            f"a user of this protocol is {expected}, not {describe(user)}",
            hint='plan with named=True and report(value, user="ann"), or number the users',
        )
    return int(exact)


@dataclass(frozen=True)
class Distinct:
    """Reports of different users, and the users who are barred for two different reports."""

    users: Integers
    groups: npt.NDArray[np.int32]
    values: Integers
    barred: Integers

    def counts(self, parts: Sequence[Part]) -> tuple[Counts, ...]:
        """Add up reports by group, for each part of a round."""
        return tuple(reduce(add, self._blocks(part, everything=len(parts) == 1)) for part in parts)

    def _blocks(self, part: Part, *, everything: bool) -> Iterator[Counts]:
        for start in range(0, max(len(self.groups), 1), BLOCK):
            block = slice(start, start + BLOCK)
            groups, values = self.groups[block], self.values[block]
            if not everything:
                mine = part.holds(groups)
                groups, values = groups[mine], values[mine]
            yield part.law.add_reports(values, groups - np.int32(part.first), part.query.groups)


def collect_reports(
    assignment: Assignment, sources: Sequence[Any]
) -> tuple[Distinct, dict[str, int]]:
    """Return the reports that count, and how many do not, by the first reason against each."""
    rejected = dict.fromkeys(REASONS, 0)
    batches = (batch for source in sources for batch in _batches(source))
    pieces = [_screen(assignment, batch, rejected) for batch in batches]
    return join_pieces(pieces, assignment), rejected


def _batches(source: Any) -> Iterator[pa.RecordBatch]:
    """Yield the four columns of a frame, relation or file, `ROWS` at a time. Arrow as it is."""
    if isinstance(source, pd.DataFrame) and set(COLUMNS) <= set(source.columns):
        frame = source[list(COLUMNS)]
        source = run_guarded(lambda: pa.Table.from_pandas(frame, preserve_index=False))
    if isinstance(source, pa.Table) and set(COLUMNS) <= set(source.column_names):
        yield from source.select(COLUMNS).to_batches(max_chunksize=ROWS)
        return
    adopted = run_guarded(lambda: adopt(source, Columns(values=dict.fromkeys(COLUMNS, False))))
    try:
        lazy = adopted.rows().select(*(adopted.values[name] for name in COLUMNS))
        if lazy.implementation.is_duckdb():
            reader = run_guarded(lambda: pa.RecordBatchReader.from_stream(lazy.to_native()))
            batches: Iterator[pa.RecordBatch] = iter(reader)
        else:
            batches = iter(run_guarded(lambda: collect(lazy)).to_batches(max_chunksize=ROWS))
        for batch in iter(lambda: run_guarded(lambda: next(batches, None)), None):
            yield batch.rename_columns(list(COLUMNS))
    finally:
        adopted.close()


def _columns(batch: pa.RecordBatch, width: int, rejected: dict[str, int]) -> dict[str, Integers]:
    """Return the columns of a batch as arrays, without rows that hold a NULL or other lengths."""
    for name in COLUMNS:
        _check(name, batch.schema.field(name).type, width if name == "value" else 0)
    complete = batch
    if any(column.null_count for column in batch.columns):
        valid = [np.asarray(column.is_valid()) for column in batch.columns]
        complete = batch.filter(pa.array(np.logical_and.reduce(valid)))
    if width:
        lengths = pa.compute.list_value_length(complete.column("value"))
        fits = lengths.to_numpy(zero_copy_only=False) == width
        complete = complete if fits.all() else complete.filter(pa.array(fits))
        numbers = complete.column("value").flatten()
        if numbers.null_count:
            present = np.asarray(numbers.is_valid()).reshape(complete.num_rows, width).all(axis=1)
            complete = complete.filter(pa.array(present))
    rejected["malformed"] += batch.num_rows - complete.num_rows
    arrays = {}
    for name in COLUMNS:
        column, is_list = complete.column(name), width and name == "value"
        numbers = (column.flatten() if is_list else column).to_numpy(zero_copy_only=False)
        arrays[name] = np.asarray(numbers).astype(np.int64, copy=False)
    if width:
        arrays["value"] = arrays["value"].reshape(complete.num_rows, width)
    return arrays


def _check(name: str, kind: pa.DataType, width: int) -> None:
    """Refuse a column that is declared to hold something else than integers, or lists of them."""
    value_kind = kind.value_type if width and hasattr(kind, "value_type") else kind
    if not pa.types.is_integer(value_kind) or (width and value_kind is kind):
        expected = "lists of integers" if width else "integers"
        raise UnsupportedDtypeError(
            f"column {name!r} of the reports is declared {kind}, not {expected}",
            hint="keep reports as Parquet or Arrow: text formats lose their types",
        )


def _screen(assignment: Assignment, batch: pa.RecordBatch, rejected: dict[str, int]) -> Distinct:
    """Return the reports of a batch that are reports of this round. Count the others."""
    columns = _columns(batch, assignment.reported_width, rejected)
    good = np.empty(len(columns["user"]), bool)
    groups = np.empty(len(good), np.int32)
    for start in range(0, len(good), BLOCK):
        block = slice(start, start + BLOCK)
        rows = {name: column[block] for name, column in columns.items()}
        groups_of_block = assignment.groups(rows["user"])
        good[block] = _passing(assignment, rows, groups_of_block, rejected)
        groups[block] = groups_of_block
    users, values, nobody = columns["user"], columns["value"], np.empty(0, np.int64)
    if good.all():
        return Distinct(users, groups, values, nobody)
    return Distinct(users[good], groups[good], values[good], nobody)


def _passing(
    assignment: Assignment, rows: dict[str, Integers], groups: Integers, rejected: dict[str, int]
) -> Mask:
    possible = np.zeros(len(groups), bool)
    for part in assignment.parts:
        possible |= part.law.possible(rows["value"]) & part.holds(groups)
    checks = {
        "protocol": rows["protocol"] == assignment.fingerprint,
        "user": assignment.is_user(rows["user"]),
        "group": (groups == rows["group"]) & (groups >= 0),
        "value": possible,
    }
    good, left = np.ones(len(groups), bool), len(groups)
    for reason, passed in checks.items():
        good &= passed
        before, left = left, int(np.count_nonzero(good))
        rejected[reason] += before - left
    return good


def join_pieces(pieces: Sequence[Distinct], assignment: Assignment) -> Distinct:
    """Return several pieces as one, without the users who have two different reports."""
    width = (assignment.reported_width,) if assignment.reported_width else ()
    users = np.concatenate([np.empty(0, np.int64), *(piece.users for piece in pieces)])
    groups = np.concatenate([np.empty(0, np.int32), *(piece.groups for piece in pieces)])
    values = np.concatenate([np.empty((0, *width), np.int64), *(p.values for p in pieces)])
    barred = list_distinct(np.concatenate([np.empty(0, np.int64), *(p.barred for p in pieces)]))
    if not _all_different(users, assignment):
        order = np.argsort(users, kind="stable")
        again = np.flatnonzero(users[order[1:]] == users[order[:-1]])
        differ = np.asarray(values[order[again]] != values[order[again + 1]])
        clashing = differ if differ.ndim == 1 else differ.any(axis=1)
        barred = list_distinct(np.append(barred, users[order[again[clashing]]]))
        order = np.delete(order, again + 1)
        users, groups, values = users[order], groups[order], values[order]
    if len(barred):
        is_kept = ~np.isin(users, barred)
        users, groups, values = users[is_kept], groups[is_kept], values[is_kept]
    return Distinct(users, groups, values, barred)


def _all_different(users: Integers, assignment: Assignment) -> bool:
    if assignment.named:
        return bool(np.all(users[1:] > users[:-1]))
    if len(users) > assignment.users:
        return False
    seen = np.zeros(assignment.users, bool)
    seen[users] = True
    return int(np.count_nonzero(seen)) == len(users)
