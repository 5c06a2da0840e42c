"""Hold the exact tables of a release, secret, and add them up.

Also: which group keys a file can hold, and the one type in which declared types meet: int64 (uint64
stays apart), float64, large_string, microseconds, UTC, the most digits. A cast from a type to its
form succeeds for every value of the type, and loses no bit of any (docs/how-to/partial.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import types

from dfprivacy.engine.keys import order_groups
from dfprivacy.engine.pandas import has_utf8
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import UnsupportedDtypeError
from dfprivacy.measurement.bin_table import BinTable, merge_tables
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, sum_names
from dfprivacy.release.answers import Measured
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.part import MeasuredTable, Part
from dfprivacy.statistics.quantile import Kind


def list_sources(parts: Sequence[Part]) -> tuple[Source, ...]:
    """Return the sources of the queries of a release, in order."""
    return tuple(dict.fromkeys(source for part in parts for source in part.sources))


def with_kinds(parts: Sequence[Part], kinds: Sequence[Kind | None]) -> list[Part]:
    """Return parts for the types of their columns: `kinds` of those with bins."""
    pairs = zip((part for part in parts if not part.sources), kinds, strict=True)
    binned = iter([part.with_kind(kind) for part, kind in pairs])
    return [part if part.sources else next(binned) for part in parts]


@dataclass(frozen=True)
class ExactTables:
    """The groups of a release, the sums of its queries and the bins of its other parts. Secret.

    `keys` has one row a group, sorted, NULL last, or as they were listed, and no columns without
    groups; `sums` are int64, one entry a group, under `sum_names`; `bins` has one table a part that
    counts by bin, and `kinds` what the columns of these parts are declared to hold.
    """

    keys: pa.Table = field(repr=False)
    sums: dict[str, Integers] = field(repr=False)
    bins: tuple[BinTable, ...] = field(repr=False)
    kinds: tuple[Kind | None, ...]

    @classmethod
    def of(cls, measured: Sequence[Measured], keys: pa.Table) -> ExactTables:
        """Return the exact tables of measured parts, with their keys in another form."""
        sums = {}
        for measurement in measured:
            if isinstance(measurement, MeasuredSums):
                table = measurement.statistics.table
                for name in sum_names(measurement.statistics.sources):
                    sums[name] = np.asarray(table.column(name).fill_null(0).to_numpy(), np.int64)
        tables = [measurement for measurement in measured if isinstance(measurement, MeasuredTable)]
        bins = tuple(measured_table.table for measured_table in tables)
        return cls(keys, sums, bins, tuple(measured_table.part.kind for measured_table in tables))

    @property
    def groups(self) -> int:
        """How many groups there are; a whole frame is one."""
        return self.keys.num_rows if self.keys.num_columns else 1

    def read_measurements(self, parts: Sequence[Part]) -> list[Measured]:
        """Return the measurements of the parts of a release, from these tables."""
        measured: list[Measured] = []
        bins = iter(self.bins)
        parts_of_kinds: list[Any] = with_kinds(parts, self.kinds)
        for part in parts_of_kinds:
            if isinstance(part, LinearPart):
                keys = zip(self.keys.column_names, self.keys.columns, strict=True)
                table = pa.table({**dict(keys), **self.sums})
                sums = Statistics(table, self.keys.num_columns, list_sources(parts))
                measured.append(MeasuredSums(part, sums.check_rows()))
            else:  # all other parts have tables
                measured.append(part.read_measurement(next(bins)))
        return measured


def add_tables(tables: Sequence[ExactTables], *, public: bool) -> ExactTables:
    """Add up tables of disjoint data, group by group: bit for bit those of one pass over all.

    Numbers that are whole in some tables alone are numbers in all.

    Groups of `public` keys, the same in all tables, stay in the order of the first one.

    Rows of one group are below 2**33 in each table, so that their sum can't wrap; sums of grid
    integers can't either unless that of the rows reaches the limit: see `read_measurements`.
    """
    first, sizes = tables[0], [exact.groups for exact in tables]
    keys = pa.concat_tables([exact.keys for exact in tables])
    keys, groups, group = order_groups(keys, first.keys if public else None)
    if not keys.column_names:
        group = np.zeros(sum(sizes), dtype=np.int64)
    places = np.split(group, np.cumsum(sizes)[:-1])
    sums = {name: np.zeros(groups, dtype=np.int64) for name in first.sums}
    for exact, groups_of_table in zip(tables, places, strict=True):
        for name, values in exact.sums.items():
            np.add.at(sums[name], groups_of_table, values)

    def renumber_groups(table: BinTable, groups_of_table: Integers) -> BinTable:
        return replace(table, keys=keys, groups=groups, group=groups_of_table[table.group])

    bins = zip(*(exact.bins for exact in tables), strict=True)
    kinds = tuple(
        kinds_of_part[0] if kinds_of_part.count(kinds_of_part[0]) == len(kinds_of_part) else None
        for kinds_of_part in zip(*(exact.kinds for exact in tables), strict=True)
    )
    merged = (
        merge_tables(list(map(renumber_groups, tables_of_part, places))) for tables_of_part in bins
    )
    return ExactTables(keys, sums, tuple(merged), kinds)


def keepable(frame: object, labels: Sequence[Hashable]) -> object:
    """Return a frame whose group keys a file can keep; text without a UTF-8 form becomes NULL."""
    if not isinstance(frame, pd.DataFrame):
        return frame
    labels_of_frame: list[Hashable] = list(frame.columns)
    columns = [label for label in labels if labels_of_frame.count(label) == 1]
    for label in columns:
        if not _declares_a_type(frame[label].dtype):
            raise UnsupportedDtypeError(
                f"group column {label!r} holds Python objects, whose type is not declared",
                hint=f'convert it first, e.g. frame.astype({{{label!r}: "string"}})',
            )
    copy = frame.copy(deep=False)
    for label in columns:
        keys = copy[label]
        if isinstance(keys.dtype, pd.CategoricalDtype):
            words = keys.dtype.categories
            is_kept = [not isinstance(word, str) or has_utf8(word) for word in words]
            if not all(is_kept):
                copy[label] = keys.where(np.array([*is_kept, True])[keys.cat.codes.to_numpy()])
        elif isinstance(keys.dtype, pd.StringDtype) and keys.dtype.storage == "python":
            copy[label] = keys.where(np.array([has_utf8(key) for key in keys.fillna("")], bool))
    return copy


def _declares_a_type(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        words = pd.api.types.infer_dtype(dtype.categories, skipna=False) == "string"
        return words or _declares_a_type(dtype.categories.dtype)
    return not pd.api.types.is_object_dtype(dtype)


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
    (
        lambda kind: types.is_timestamp(kind) and kind.unit != "s",  # Parquet has no seconds
        lambda kind: pa.timestamp(kind.unit, None if kind.tz is None else "UTC"),
    ),
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


def declare_keys(keys: pa.Table, labels: Sequence[Hashable]) -> pa.Table:
    """Return group keys in types that a file keeps: those declared, text for categories."""
    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in keys.schema.types]
    kinds = [_kind_of_key(kind, label) for kind, label in zip(plain, labels, strict=True)]
    return in_types(in_types(keys, plain), kinds)


def _kind_of_key(kind: pa.DataType, label: Hashable) -> pa.DataType:
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
    return run_guarded(lambda: keys.cast(schema))
