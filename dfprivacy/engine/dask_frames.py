"""Dask frames: every partition is measured where it lies, and exact tables are added up.

A partition is a pandas frame and goes the way of pandas frames, in columns of the types that the
whole frame declares. What leaves a worker is an exact table with one row a group, or a bin of one;
tables are added up in a tree, so that the client holds one of them. With a privacy unit, rows are
first brought together by unit, so that its limits hold over all partitions. Proof:
docs/dask-ibis.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dask
import dask.dataframe as dd
import narwhals as nw
import pandas as pd
import pyarrow as pa
from dask.dataframe.utils import has_known_categories, make_meta

from dfprivacy.engine.adopt import Adopted, Columns, adopt, require_columns
from dfprivacy.engine.dask_layout import (
    BUCKET,
    KeyLayout,
    Layout,
    ValueLayout,
    adopted_rows,
    rows_of_frame,
    rows_with_buckets,
    typed_rows,
)
from dfprivacy.engine.pandas_columns import value_column
from dfprivacy.engine.pandas_keys import KeyColumn, key_column
from dfprivacy.engine.pandas_objects import Mark, is_missing, known_objects, mark_of
from dfprivacy.engine.partitions import added_up
from dfprivacy.engine.run import collect, guarded

_FAN_IN = 8  # tables added up at a time

Build = Callable[[Adopted], nw.LazyFrame[Any]]
Objects = Mapping[Mark, object]


@adopt.register(dd.DataFrame)
def _(frame: Any, columns: Columns) -> Adopted:
    declared: pd.DataFrame = make_meta(frame)
    require_columns(columns, list(declared.columns))
    chosen = frame[list(dict.fromkeys(columns.names()))]
    keys = _key_columns(chosen, declared, columns)
    layout = _layout(declared, columns, keys)
    adopted = adopted_rows(typed_rows(declared.iloc[:0], layout), layout)
    wrap = partial(_dask_frame, keys=[column for _, column in keys])
    return replace(adopted, wrap=wrap, partitions=DaskPartitions(chosen, layout))


@dataclass(frozen=True)
class DaskPartitions:
    """The columns of a Dask frame that a release reads, and how they are laid out."""

    frame: Any
    layout: Layout

    def added(self, build: Build, by: Sequence[str]) -> pa.Table:
        """Run a query on every partition and add up the tables by the columns `by`."""
        measured = dask.delayed(partial(_measured, layout=self.layout, build=build), pure=False)
        if self.layout.unit is None:
            parts = self.frame.to_delayed()
        else:
            parts = _by_unit(self.frame, self.layout).to_delayed()
        return _computed([measured(part) for part in parts], partial(added_up, by=list(by)))


def _measured(part: pd.DataFrame, layout: Layout, build: Build) -> pa.Table:
    """Return the exact table of one partition; it runs on a worker."""
    return guarded(lambda: _collected(part, layout, build))


def _collected(part: pd.DataFrame, layout: Layout, build: Build) -> pa.Table:
    rows = typed_rows(part, layout) if layout.unit is None else rows_of_frame(part)
    adopted = adopted_rows(rows, layout)
    try:
        return collect(build(adopted))
    finally:
        adopted.close()


def _computed(parts: Sequence[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Combine the results of partitions in a tree and return what is left."""
    combined = dask.delayed(partial(_guarded_combine, combine=combine), pure=False)
    level = [combined(list(parts[i : i + _FAN_IN])) for i in range(0, len(parts), _FAN_IN)]
    while len(level) > 1:
        level = [combined(level[i : i + _FAN_IN]) for i in range(0, len(level), _FAN_IN)]
    return dask.compute(level[0])[0]


def _guarded_combine(parts: Sequence[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    return guarded(lambda: combine(parts))


def _by_unit(frame: Any, layout: Layout) -> Any:
    """Return the rows of the release with all rows of a unit in one partition.

    The partition of a row follows from its unit as the pass sees it, not as Dask does: 0.0 and
    -0.0 are one unit there.
    """
    declared = rows_with_buckets(make_meta(frame), layout)
    rows = frame.map_partitions(
        partial(_guarded_rows, layout=layout), meta=declared, enforce_metadata=False
    )
    return rows if rows.npartitions == 1 else rows.shuffle(on=BUCKET)


def _guarded_rows(part: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    return guarded(lambda: rows_with_buckets(part, layout))


def _layout(
    declared: pd.DataFrame, columns: Columns, keys: Sequence[tuple[KeyLayout, KeyColumn]]
) -> Layout:
    values = [
        ValueLayout(label, value_column(label, declared[label]).type if numbers else None)
        for label, numbers in columns.values.items()
    ]
    unit_type = None
    if columns.unit is not None:
        units = key_column(declared[columns.unit.column], [])
        unit_type = units.column.type if units.objects is None else None
    listed = [column.listed for _, column in keys]
    return Layout([key for key, _ in keys], values, listed, columns.unit, unit_type)


def _key_columns(
    frame: Any, declared: pd.DataFrame, columns: Columns
) -> list[tuple[KeyLayout, KeyColumn]]:
    """Return how each group column is laid out, and the way back to the caller's dtype.

    Objects that no dtype declares are read off the partitions in a pass of their own.
    """
    pairs = list(zip(columns.keys, columns.listed, strict=True))
    found = {label: key_column(declared[label], []) for label, _ in pairs}
    unknown = [
        label for label, column in found.items()
        if column.objects is not None and not _declares_objects(declared[label])
    ]  # fmt: skip
    learned = _learned(frame, unknown) if unknown else {}
    laid = []
    for label, listed in pairs:
        column = found[label]
        if column.objects is None:
            laid.append((KeyLayout(label, column.column.type), replace(column, listed=listed)))
        else:
            laid.append(_coded(declared[label], column, listed, learned.get(label)))
    return laid


def _coded(
    declared: pd.Series[Any],
    column: KeyColumn,
    listed: Sequence[object],
    learned: Objects | None,
) -> tuple[KeyLayout, KeyColumn]:
    """Return the layout of a column of objects, which go as their ranks by kind and value."""
    categories = declared.cat.categories.to_series() if learned is None else declared
    known = {**(learned or {}), **known_objects(categories.astype(object), listed)}
    marks = sorted(known)
    ranks = {mark: rank for rank, mark in enumerate(marks)}
    wanted = [None if is_missing(value) else ranks[mark_of(value)] for value in listed]
    dtype = object if learned is not None and _is_categorical(declared) else column.dtype
    layout = KeyLayout(declared.name, pa.int64(), ranks, learned=learned is not None)
    objects = [known[mark] for mark in marks]
    return layout, replace(column, listed=wanted, objects=objects, dtype=dtype)


def _is_categorical(declared: pd.Series[Any]) -> bool:
    return isinstance(declared.dtype, pd.CategoricalDtype)


def _declares_objects(declared: pd.Series[Any]) -> bool:
    return _is_categorical(declared) and bool(has_known_categories(declared))


def _learned(frame: Any, labels: Sequence[Hashable]) -> dict[Hashable, Objects]:
    """Return the distinct objects of some columns, from all partitions."""
    found = dask.delayed(partial(_objects_of, labels=list(labels)), pure=False)
    parts = [found(part) for part in frame[list(labels)].to_delayed()]
    together: list[Objects] = _computed(parts, _united)
    return dict(zip(labels, together, strict=True))


def _objects_of(part: pd.DataFrame, labels: Sequence[Hashable]) -> list[Objects]:
    return guarded(lambda: [known_objects(part[label].astype(object), []) for label in labels])


def _united(parts: Sequence[Sequence[Objects]]) -> list[Objects]:
    columns = zip(*parts, strict=True)
    return [{mark: value for part in own for mark, value in part.items()} for own in columns]


def _dask_frame(released: pa.Table, keys: Sequence[KeyColumn]) -> Any:
    """Return a released table as a Dask frame of one partition, which holds the numbers."""
    names = released.column_names
    restored = [key.restore(released.column(index)) for index, key in enumerate(keys)]
    plain = [released.column(index).to_pandas() for index in range(len(keys), len(names))]
    frame = pd.DataFrame(dict(zip(names, [*restored, *plain], strict=True)))
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(frame, npartitions=1, sort=False)
