"""Hold the exact tables of a release, secret; add them up; tell which no rows can have given.

Also: which group keys a file can hold, and the one type in which declared types meet: int64 (uint64
stays apart), float64, large_string, microseconds, UTC, the most digits. A cast from a type to its
form succeeds for every value of the type, and loses no bit of any (docs/how-to/partial.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyarrow import types

from dfprivacy.engine.keys import number_groups
from dfprivacy.engine.pandas import has_utf8
from dfprivacy.engine.run import guarded
from dfprivacy.errors import UnsupportedDtypeError
from dfprivacy.measurement.bin_table import BIN_ROW_LIMIT, BinTable, merge_tables
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.linear import Product, Source, Term
from dfprivacy.measurement.sums import Statistics, sum_name, sum_names
from dfprivacy.release.answers import Measured
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.part import MeasuredTable, Part
from dfprivacy.statistics.quantile import Kind, QuantilePart


def sources_of(parts: Sequence[Part]) -> tuple[Source, ...]:
    """Return what the queries of a release add up, in order."""
    vectors = [part.vectors for part in parts if isinstance(part, LinearPart)]
    return tuple(dict.fromkeys(linear.source for own in vectors for linear in own.linears))


def told(parts: Sequence[Part], kinds: Sequence[Kind | None]) -> list[Part]:
    """Return parts that know of what kind their columns are: `kinds` of those with bins."""
    binned = [place for place, part in enumerate(parts) if not isinstance(part, LinearPart)]
    known = list(parts)
    for place, kind in zip(binned, kinds, strict=True):
        part = known[place]
        if isinstance(part, QuantilePart):
            known[place] = part.told_kind(kind)
    return known


def kind_of_part(part: Part) -> Kind | None:
    """Return what the column of a part is declared to hold, where that matters."""
    return part.kind if isinstance(part, QuantilePart) else None


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
        """Return what the parts of a release have measured, with their keys in another form."""
        sums = {}
        for own in measured:
            if isinstance(own, MeasuredSums):
                table = own.statistics.table
                for name in sum_names(own.statistics.sources):
                    sums[name] = np.asarray(table.column(name).fill_null(0).to_numpy(), np.int64)
        tables = [own for own in measured if isinstance(own, MeasuredTable)]
        bins = tuple(own.table for own in tables)
        return cls(keys, sums, bins, tuple(kind_of_part(own.part) for own in tables))

    @property
    def groups(self) -> int:
        """How many groups there are; a whole frame is one."""
        return self.keys.num_rows if self.keys.num_columns else 1

    def measured(self, parts: Sequence[Part]) -> list[Measured]:
        """Return what the parts of a release would have measured."""
        measured: list[Measured] = []
        bins = iter(self.bins)
        known: list[Any] = told(parts, self.kinds)
        for part in known:
            if isinstance(part, LinearPart):
                keys = zip(self.keys.column_names, self.keys.columns, strict=True)
                table = pa.table({**dict(keys), **self.sums})
                sums = Statistics(table, self.keys.num_columns, sources_of(parts))
                measured.append(MeasuredSums(part, sums.checked()))
            else:  # all other parts have tables
                measured.append(part.measured(next(bins)))
        return measured


def added(several: Sequence[ExactTables], *, public: bool) -> ExactTables:
    """Add up tables of disjoint data, group by group: bit for bit those of one pass over all.

    Numbers that are whole in some tables alone are numbers in all.

    Groups of `public` keys, the same in all tables, stay in the order of the first one.

    Rows of one group are below 2**33 in each table, so that their sum can't wrap; sums of grid
    integers can't either unless that of the rows reaches the limit, which `measured` looks at.
    """
    first, sizes = several[0], [own.groups for own in several]
    names = first.keys.column_names
    entries = pa.concat_tables([own.keys for own in several])
    if names:
        entries = entries.append_column("place", pa.array(np.arange(sum(sizes))))
    numbered = number_groups(entries, names, first.keys if public else None)
    group = np.zeros(sum(sizes), dtype=np.int64)
    if names:
        group[numbered.entries.column("place").to_numpy()] = numbered.group
    places = np.split(group, np.cumsum(sizes)[:-1])
    sums = {name: np.zeros(numbered.groups, dtype=np.int64) for name in first.sums}
    for own, place in zip(several, places, strict=True):
        for name, values in own.sums.items():
            np.add.at(sums[name], place, values)

    def moved(table: BinTable, place: Integers) -> BinTable:
        keys, groups = numbered.keys, numbered.groups
        return replace(table, keys=keys, groups=groups, group=place[table.group])

    bins = zip(*(own.bins for own in several), strict=True)
    kinds = tuple(
        own[0] if own.count(own[0]) == len(own) else None
        for own in zip(*(each.kinds for each in several), strict=True)
    )
    together = (merge_tables(list(map(moved, own, places))) for own in bins)
    return ExactTables(numbered.keys, sums, tuple(together), kinds)


def is_possible(tables: ExactTables, sources: Sequence[Source]) -> bool:
    """Tell whether some rows could have given these tables: no pass writes any others."""
    sums = all(_sums_possible(tables.sums, index, own) for index, own in enumerate(sources))
    return sums and all(map(_bins_possible, tables.bins))


def _sums_possible(sums: dict[str, Integers], index: int, source: Source) -> bool:
    rows = sums[sum_name(index)]
    own = {term: sums[sum_name(index, at)] for at, term in enumerate(source.terms, start=1)}
    return (
        _between(rows, 0, ROW_LIMIT - 1)
        and all(_between(own[term], rows * term.least, rows * term.most) for term in own)
        and all(_product_possible(term, rows, own) for term in own if isinstance(term, Product))
    )


def _product_possible(term: Product, rows: Integers, sums: dict[Term, Integers]) -> bool:
    """Tell whether no coordinate of a partition of unity is negative."""
    if not term.tied or not {term.left, term.right} <= sums.keys():
        return True
    least, mosts = term.ends(rows, sums[term.left], sums[term.right])
    return all(_between(sums[term], least, most) for most in mosts)


def _bins_possible(table: BinTable) -> bool:
    """Tell whether entries are in order, in a group and a bin, and hold what the bin can hold."""
    group, bins, last = table.group, table.bins, table.binning.last
    after = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (bins[1:] > bins[:-1]))
    return (
        bool(after.all())
        and _between(group, 0, table.groups - 1)
        and _between(bins, -last, last)
        and _between(table.rows, 1, BIN_ROW_LIMIT - 1)
        and _moments_possible(table)
    )


def _moments_possible(table: BinTable) -> bool:
    if not table.moments:
        return True
    assert isinstance(table.binning, Octaves)  # noqa: S101 no other bins have moments
    rows, negative = table.rows.astype(np.float64), table.bins < 0
    ends = [table.binning.lower(table.bins), table.binning.upper(table.bins)]
    inner, outer = np.where(negative, ends[::-1], ends) - table.binning.bases(table.bins)
    lower = np.abs(inner) if table.binning.bits == 1 else 0.0
    upper = np.abs(outer)
    sizes = [np.where(negative, -1, 1) * table.moments[0], *table.moments[1:]]
    return all(
        _between(own, rows * lower**k, rows * upper**k) for k, own in enumerate(sizes, start=1)
    )


def _between(
    values: Integers | Floats, least: Integers | Floats | int, most: Integers | Floats | int
) -> bool:
    return bool(((values >= least) & (values <= most)).all())


def keepable(frame: object, labels: Sequence[Hashable]) -> object:
    """Return a frame whose group keys a file can keep; text without a UTF-8 form becomes NULL."""
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
