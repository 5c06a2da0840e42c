"""Dask frames: every partition is measured where it lies, and exact tables are added up.

A partition is a pandas frame and goes the way of pandas frames, in columns of the types that the
whole frame declares. What leaves a worker is an exact table with one row a group, or a bin of one;
tables are added up in a tree, so that the client holds one of them. With a privacy unit, rows are
first brought together by unit, so that its limits hold over all partitions. Proof:
docs/dask-ibis.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import dask
import dask.dataframe as dd
import narwhals as nw
import pandas as pd
import pyarrow as pa
from dask.dataframe.utils import has_known_categories, make_meta

from dfprivacy.engine.adopt import Adopted, Columns, adopt
from dfprivacy.engine.dask_layout import (
    BUCKET,
    KeyLayout,
    Layout,
    ValueLayout,
    adopted_rows,
    declared_mark,
    declared_object,
    rows_of_frame,
    rows_with_buckets,
    typed_rows,
)
from dfprivacy.engine.pandas_columns import value_column
from dfprivacy.engine.pandas_keys import KeyColumn, key_column, own_keys
from dfprivacy.engine.pandas_objects import Mark, distinct_objects
from dfprivacy.engine.partitions import added_up
from dfprivacy.engine.readable import require_columns
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import UnsupportedDtypeError

T = TypeVar("T")

_FAN_IN = 8  # tables added up at a time

Build = Callable[[Adopted], nw.LazyFrame[Any]]
Objects = Mapping[Mark, object]


@adopt.register(dd.DataFrame)
def _(frame: Any, columns: Columns) -> Adopted:
    declared: pd.DataFrame = make_meta(frame)
    require_columns(columns.names(), list(declared.columns))
    _require_declared(declared, columns)
    chosen = frame[list(dict.fromkeys(columns.names()))]
    keys = _key_columns(chosen, declared, columns)
    layout = _layout(declared, columns, keys)
    adopted = adopted_rows(typed_rows(declared.iloc[:0], layout), layout)
    wrap = partial(_dask_frame, keys=[column for _, column in keys])
    return replace(adopted, wrap=wrap, partitions=DaskPartitions(chosen, layout))


def _require_declared(declared: pd.DataFrame, columns: Columns) -> None:
    """Refuse keys and units of no declared type: a row could decide about the dtype of others.

    Pandas makes integers floats, and times its own, by what else is in a partition.
    """
    units = [] if columns.unit is None else [columns.unit.column]
    for label in [*columns.keys, *units]:
        if not _has_type(declared[label]):
            raise UnsupportedDtypeError(
                f"column {label!r} is declared {declared[label].dtype}, by which values of "
                "different partitions can't be told apart",
                hint=f"declare what it holds, frame.astype({{{label!r}: 'string'}}), 'Int64' or "
                f"'float64'; or its categories, frame[{label!r}].cat.as_known()",
            )


def _has_type(declared: pd.Series[Any]) -> bool:
    """Tell whether a dtype fixes what its values are, or their categories."""
    if isinstance(declared.dtype, pd.CategoricalDtype):
        return bool(has_known_categories(declared))
    return key_column(declared, []).objects is None or _is_learned(declared)


def _is_learned(declared: pd.Series[Any]) -> bool:
    """Tell dtypes whose values go as objects, and are all of one kind: differences and periods."""
    return isinstance(declared.dtype, pd.PeriodDtype) or pd.api.types.is_timedelta64_dtype(
        declared.dtype
    )


@dataclass(frozen=True)
class DaskPartitions:
    """The columns of a Dask frame that a release reads, and how they are laid out."""

    frame: Any
    layout: Layout

    def added(self, build: Build, by: Sequence[str]) -> pa.Table:
        """Run a query on every partition and add up the tables by the columns `by`."""
        measured = _delayed(partial(_measured, layout=self.layout, build=build))
        if self.layout.unit is None:
            parts = self.frame.to_delayed()
        else:
            parts = _by_unit(self.frame, self.layout).to_delayed()
        return _computed([measured(part) for part in parts], partial(added_up, by=list(by)))


def _delayed(work: Callable[..., Any]) -> Any:
    """Return what makes a task of some work, whose errors are withheld on the worker."""
    return dask.delayed(partial(_on_worker, work=work), pure=False)


def _on_worker(given: Any, work: Callable[[Any], T]) -> T:
    return guarded(lambda: work(given))


def _measured(part: pd.DataFrame, layout: Layout, build: Build) -> pa.Table:
    """Return the exact table of one partition."""
    rows = typed_rows(part, layout) if layout.unit is None else rows_of_frame(part)
    adopted = adopted_rows(rows, layout)
    try:
        return collect(build(adopted))
    finally:
        adopted.close()


def _computed(parts: Sequence[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Combine the results of partitions in a tree and return what is left."""
    combined = _delayed(combine)
    level = [combined(list(parts[i : i + _FAN_IN])) for i in range(0, len(parts), _FAN_IN)]
    while len(level) > 1:
        level = [combined(level[i : i + _FAN_IN]) for i in range(0, len(level), _FAN_IN)]
    return dask.compute(level[0])[0]


def _by_unit(frame: Any, layout: Layout) -> Any:
    """Return the rows of the release with all rows of a unit in one partition.

    The partition of a row follows from its unit as the pass sees it, not as Dask does: 0.0 and
    -0.0 are one unit there.
    """
    laid = partial(rows_with_buckets, layout=layout)
    declared = laid(make_meta(frame))
    rows = frame.map_partitions(_on_worker, work=laid, meta=declared, enforce_metadata=False)
    return rows if rows.npartitions == 1 else rows.shuffle(on=BUCKET)


def _layout(
    declared: pd.DataFrame, columns: Columns, keys: Sequence[tuple[KeyLayout, KeyColumn]]
) -> Layout:
    values = [
        ValueLayout(label, value_column(label, declared[label]).type if numbers else None)
        for label, numbers in columns.values.items()
    ]
    listed = [column.listed for _, column in keys]
    layout = Layout([key for key, _ in keys], values, listed)
    if columns.unit is None:
        return layout
    own = declared[columns.unit.column]
    units = key_column(own, [])
    kind = units.column.type if units.objects is None else None
    return replace(layout, unit=columns.unit, unit_type=kind, unit_dtype=own.dtype)


def _key_columns(
    frame: Any, declared: pd.DataFrame, columns: Columns
) -> list[tuple[KeyLayout, KeyColumn]]:
    """Return how each group column is laid out, and the way back to the caller's dtype.

    Differences and periods are read off the partitions in a pass of their own, to rank them.
    """
    pairs = list(zip(columns.keys, columns.listed, strict=True))
    found = [key_column(declared[label], listed) for label, listed in pairs]
    unknown = {label: declared[label].dtype for label, _ in pairs if _is_learned(declared[label])}
    learned = _learned(frame, unknown) if unknown else {}
    laid = []
    for (label, listed), column in zip(pairs, found, strict=True):
        if column.objects is None:
            laid.append((KeyLayout(label, column.column.type), column))
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
    listed = own_keys(listed, declared.dtype)
    if learned is None:
        known = _own_objects([*listed, *declared.cat.categories.astype(object)], declared.dtype)
    else:
        known = {**_own_objects(listed, declared.dtype), **learned}
    marks = sorted(known)
    ranks = {mark: rank for rank, mark in enumerate(marks)}
    own = [declared_mark(value, declared.dtype) for value in listed]
    wanted = [None if mark is None else ranks[mark] for mark in own]
    layout = KeyLayout(declared.name, pa.int64(), ranks, learned is not None, declared.dtype)
    objects = [known[mark] for mark in marks]
    return layout, replace(column, listed=wanted, objects=objects)


def _own_objects(values: Iterable[object], dtype: Any) -> dict[Mark, object]:
    """Return the objects that have a place in a dtype, by their marks; the last one is shown."""
    marked = ((declared_mark(value, dtype), value) for value in values)
    return {mark: value for mark, value in marked if mark is not None}


def _learned(frame: Any, dtypes: Mapping[Hashable, Any]) -> dict[Hashable, Objects]:
    """Return the distinct objects of some columns, from all partitions."""
    found = _delayed(partial(_objects_of, dtypes=dtypes))
    parts = [found(part) for part in frame[list(dtypes)].to_delayed()]
    together: list[Objects] = _computed(parts, _united)
    return dict(zip(dtypes, together, strict=True))


def _objects_of(part: pd.DataFrame, dtypes: Mapping[Hashable, Any]) -> list[Objects]:
    return [_distinct(part[label], dtype) for label, dtype in dtypes.items()]


def _distinct(series: pd.Series[Any], dtype: Any) -> Objects:
    _, objects = distinct_objects(series.astype(object))
    own = [declared_object(value, dtype) for value in objects]
    return _own_objects([value for value in own if value is not None], dtype)


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
