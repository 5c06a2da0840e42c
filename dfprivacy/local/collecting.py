"""Collect reports at the analyst's: read them once, check each, count each user once, add up.

The result does not depend on the order of reports, on how they are split into files, or on the
order in which collections are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import UnsupportedDtypeError
from dfprivacy.local.randomisers import Counts, Integers, Mask
from dfprivacy.local.reports import COLUMNS
from dfprivacy.local.rounds import Assignment, Part

REASONS = ("malformed", "protocol", "user", "group", "value")
ROWS, BLOCK = 2**20, 2**16
"""Reports read at a time, and those checked or added up at a time."""


@dataclass(frozen=True)
class Distinct:
    """Reports of different users, and the users who are barred for two different reports."""

    users: Integers
    groups: npt.NDArray[np.int32]
    values: Integers
    barred: Integers

    def counts(self, parts: Sequence[Part]) -> tuple[Counts, ...]:
        """Add up reports by group, for each part of a round."""
        return tuple(reduce(add, self._blocks(part, whole=len(parts) == 1)) for part in parts)

    def _blocks(self, part: Part, *, whole: bool) -> Iterator[Counts]:
        for start in range(0, max(len(self.groups), 1), BLOCK):
            block = slice(start, start + BLOCK)
            own, values = self.groups[block], self.values[block]
            if not whole:
                mine = part.holds(own)
                own, values = own[mine], values[mine]
            yield part.law.added(values, own - np.int32(part.first), part.query.groups)


def collected(asked: Assignment, sources: Sequence[Any]) -> tuple[Distinct, dict[str, int]]:
    """Return the reports that count, and how many do not, by the first reason against each."""
    rejected = dict.fromkeys(REASONS, 0)
    batches = (batch for source in sources for batch in _batches(source))
    kept = [_screened(asked, batch, rejected) for batch in batches]
    return settled(kept, asked), rejected


def _batches(source: Any) -> Iterator[pa.RecordBatch]:
    """Yield the four columns of a frame, relation or file, `ROWS` at a time; Arrow as it is."""
    if isinstance(source, pd.DataFrame) and set(COLUMNS) <= set(source.columns):
        frame = source[list(COLUMNS)]
        source = guarded(lambda: pa.Table.from_pandas(frame, preserve_index=False))
    if isinstance(source, pa.Table) and set(COLUMNS) <= set(source.column_names):
        yield from source.select(COLUMNS).to_batches(max_chunksize=ROWS)
        return
    adopted = guarded(lambda: adopt(source, Columns((), dict.fromkeys(COLUMNS, False), ())))
    try:
        lazy = adopted.rows().select(*(adopted.values[name] for name in COLUMNS))
        if lazy.implementation.is_duckdb():
            reader = guarded(lambda: pa.RecordBatchReader.from_stream(lazy.to_native()))
            batches: Iterator[pa.RecordBatch] = iter(reader)
        else:
            batches = iter(guarded(lambda: collect(lazy)).to_batches(max_chunksize=ROWS))
        for batch in iter(lambda: guarded(lambda: next(batches, None)), None):
            yield batch.rename_columns(list(COLUMNS))
    finally:
        adopted.close()


def _columns(batch: pa.RecordBatch, width: int, rejected: dict[str, int]) -> dict[str, Integers]:
    """Return the columns of a batch as arrays, without rows that hold a NULL or other lengths."""
    for name in COLUMNS:
        _check(name, batch.schema.field(name).type, width if name == "value" else 0)
    whole = batch
    if any(column.null_count for column in batch.columns):
        valid = [np.asarray(column.is_valid()) for column in batch.columns]
        whole = batch.filter(pa.array(np.logical_and.reduce(valid)))
    if width:
        lengths = pa.compute.list_value_length(whole.column("value"))
        fits = lengths.to_numpy(zero_copy_only=False) == width
        whole = whole if fits.all() else whole.filter(pa.array(fits))
    rejected["malformed"] += batch.num_rows - whole.num_rows
    made = {}
    for name in COLUMNS:
        column = whole.column(name).flatten() if width and name == "value" else whole.column(name)
        made[name] = np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
    if width:
        made["value"] = made["value"].reshape(-1, width)
    return made


def _check(name: str, kind: pa.DataType, width: int) -> None:
    """Refuse a column that is declared to hold something else than integers, or lists of them."""
    held = kind.value_type if width and hasattr(kind, "value_type") else kind
    if not pa.types.is_integer(held) or (width and held is kind):
        wanted = "lists of integers" if width else "integers"
        raise UnsupportedDtypeError(
            f"column {name!r} of the reports is declared {kind}, not {wanted}",
            hint="keep reports as Parquet or Arrow: text formats lose their types",
        )


def _screened(asked: Assignment, batch: pa.RecordBatch, rejected: dict[str, int]) -> Distinct:
    """Return the reports of a batch that are reports of this round; count the others."""
    columns = _columns(batch, asked.reported_width, rejected)
    good = np.empty(len(columns["user"]), bool)
    groups = np.empty(len(good), np.int32)
    for start in range(0, len(good), BLOCK):
        block = slice(start, start + BLOCK)
        rows = {name: each[block] for name, each in columns.items()}
        own = asked.groups(rows["user"])
        good[block], groups[block] = _passing(asked, rows, own, rejected), own
    users, values, nobody = columns["user"], columns["value"], np.empty(0, np.int64)
    if good.all():
        return Distinct(users, groups, values, nobody)
    return Distinct(users[good], groups[good], values[good], nobody)


def _passing(
    asked: Assignment, rows: dict[str, Integers], groups: Integers, rejected: dict[str, int]
) -> Mask:
    checks = {
        "protocol": rows["protocol"] == asked.fingerprint,
        "user": asked.known(rows["user"]),
        "group": (groups == rows["group"]) & (groups >= 0),
        "value": _possible(asked, groups, rows["value"]),
    }
    good, left = np.ones(len(groups), bool), len(groups)
    for reason, passed in checks.items():
        good &= passed
        before, left = left, int(np.count_nonzero(good))
        rejected[reason] += before - left
    return good


def _possible(asked: Assignment, groups: Integers, values: Integers) -> Mask:
    if len(asked.parts) == 1:
        return asked.parts[0].law.possible(values)
    possible = np.zeros(len(groups), bool)
    for part in asked.parts:
        possible |= part.holds(groups) & part.law.possible(values)
    return possible


def settled(pieces: Sequence[Distinct], asked: Assignment) -> Distinct:
    """Return several pieces as one.

    Equal reports of a user count once; a user with two different ones is barred, with all of
    theirs, from here on.
    """
    width = (asked.reported_width,) if asked.reported_width else ()
    users = np.concatenate([np.empty(0, np.int64), *(piece.users for piece in pieces)])
    groups = np.concatenate([np.empty(0, np.int32), *(piece.groups for piece in pieces)])
    values = np.concatenate([np.empty((0, *width), np.int64), *(p.values for p in pieces)])
    barred = np.unique(np.concatenate([np.empty(0, np.int64), *(p.barred for p in pieces)]))
    if not _all_different(users, asked):
        order = np.argsort(users, kind="stable")
        again = np.flatnonzero(users[order[1:]] == users[order[:-1]])
        differ = np.asarray(values[order[again]] != values[order[again + 1]])
        clashing = differ if differ.ndim == 1 else differ.any(axis=1)
        barred = np.union1d(barred, users[order[again[clashing]]])
        order = np.delete(order, again + 1)
        users, groups, values = users[order], groups[order], values[order]
    if len(barred):
        kept = ~np.isin(users, barred)
        users, groups, values = users[kept], groups[kept], values[kept]
    return Distinct(users, groups, values, barred)


def _all_different(users: Integers, asked: Assignment) -> bool:
    if asked.named:
        return bool(np.all(users[1:] > users[:-1]))
    if len(users) > asked.users:
        return False
    seen = np.zeros(asked.users, bool)
    seen[users] = True
    return int(np.count_nonzero(seen)) == len(users)
