"""Turn any frame into one lazy narwhals frame, with a way back to the caller's own frame type."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.columns import (
    Declared,
    build_no_value_error,
    duckdb_type,
    find_declared_columns,
    moment_type,
    polars_number,
    require_columns,
    write_duckdb_number,
)
from dfprivacy.engine.connections import require_plain_connection
from dfprivacy.engine.embedded import (
    close_connection,
    engine_options,
    opening,
    restrict_optimizer,
)
from dfprivacy.engine.files import (
    DataFiles,
    RowCondition,
    list_data_files,
    open_source,
    quote,
    read_file,
    read_footer,
    require_same_durations,
)
from dfprivacy.engine.key_types import (
    declare_keys,
    key_form,
    key_type,
    key_values,
    value_form,
)
from dfprivacy.engine.pandas import (
    answer_column,
    find_moment_type,
    key_column,
    mark_values,
    presence_column,
    require_known,
    value_column,
)
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.engine.text_files import TextFile, number_in_text
from dfprivacy.errors import InvalidKeysError, UnsupportedDtypeError, UnsupportedFrameError
from dfprivacy.measurement.grid import Clock, find_clock_kind
from dfprivacy.measurement.linear import Category
from dfprivacy.measurement.sums import key_names
from dfprivacy.release.terms import PublicKeys, Unit

Wrap = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class Columns:
    """The columns a release needs.

    `keys` are the columns that it groups by, and `public` their keys if these are listed. `unit`
    is the privacy unit, None for single rows. `values` maps each aggregated column to whether its
    numbers are needed, or only its presence. `categories` are read as keys are.
    """

    keys: Sequence[Hashable] = ()
    public: PublicKeys | None = None
    unit: Unit | None = None
    values: Mapping[Hashable, bool] = field(default_factory=dict)
    categories: Sequence[Category] = ()

    @property
    def listed_keys(self) -> list[list[object]] | None:
        """One list of public keys a group column; None where keys are secret."""
        if self.public is None:
            return None
        return [[row[index] for row in self.public.rows] for index in range(len(self.keys))]

    def names(self) -> list[Hashable]:
        """Return every column named."""
        units = [] if self.unit is None else [self.unit.column]
        return [*self.keys, *self.values, *units, *(column.column for column in self.categories)]


UNIT = "unit"
"""The column of units in a pass."""


@dataclass(frozen=True)
class UnitColumn:
    """The column of the units, and the limits of what each contributes: `groups` None for all.

    `keys` are the names of the group keys in a pass, and `coded` the places of those that go as
    codes, which depend on what else is in their columns. A unit's groups are chosen by the marks of
    these keys, `mark_name`, instead.
    """

    name: str
    label: Hashable
    rows: int
    groups: int | None
    keys: Sequence[str]
    coded: Sequence[int] = ()

    @property
    def marks(self) -> list[str]:
        """The names of the columns of marks."""
        return [mark_name(index) for index in self.coded]

    @property
    def entries(self) -> list[str]:
        """The columns that identify an entry: the unit, the group keys, and their marks."""
        return [UNIT, *self.keys, *self.marks]

    @property
    def placed(self) -> list[str]:
        """The columns to hash: the unit, and each key or its mark."""
        keys = enumerate(self.keys)
        return [UNIT, *(mark_name(i) if i in self.coded else name for i, name in keys)]


def mark_name(index: int) -> str:
    """Return the name of the column with the marks of a group key that goes as a code."""
    return f"mark_{index}"


def unit_column(columns: Columns, name: str, coded: Sequence[int] = ()) -> UnitColumn | None:
    """Return the column of the units of a frame, under its name there."""
    unit, keys = columns.unit, key_names(len(columns.keys))
    if unit is None:
        return None
    return UnitColumn(name, unit.column, unit.max_rows, unit.max_groups, keys, coded)


class CategoryColumn(NamedTuple):
    """The name of a column whose values are told apart, and the constant as the engine sees it."""

    name: str
    constant: object


@dataclass(frozen=True)
class Adopted:
    """A frame as the engine pass sees it.

    `lazy` has the group keys under `keys`, each value column under `values`, categories under
    `categories`, and the privacy units under the name in `unit`. `listed_keys` are as the engine
    sees them, None where keys are secret. `wrap` turns a released Arrow table, whose first
    columns are the keys, into the caller's own frame type. `connection` is the embedded one, if
    any: it lives as long as the pass. A frame that `reads_once` may run dry in its first pass; one
    `from_files` may be larger than memory; the columns of one `in_memory` are arrays already.
    `types` are those of dates and times that are declared otherwise than the engine has them.
    `path` is that of files. `counted` has the rows of units that were counted in memory, by their
    column, to be counted in other bins.
    """

    lazy: nw.LazyFrame[Any]
    keys: Mapping[Hashable, str]
    values: Mapping[Hashable, str]
    listed_keys: Sequence[Sequence[object]] | None
    wrap: Wrap
    unit: UnitColumn | None = None
    connection: duckdb.DuckDBPyConnection | None = None
    reads_once: bool = False
    from_files: bool = False
    in_memory: bool = False
    categories: Mapping[Category, CategoryColumn] = field(default_factory=dict)
    types: Mapping[Hashable, pa.DataType] = field(default_factory=dict)
    path: Path | None = None
    counted: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the group keys in a pass."""
        return key_names(len(self.keys))

    def holds_integers(self, column: Hashable) -> bool:
        """Return True if a column is declared to hold integers or booleans."""
        dtype = self.lazy.collect_schema()[self.values[column]]
        return dtype.is_integer() or dtype == nw.Boolean

    def moments(self, column: Hashable) -> pa.DataType | None:
        """Return the declared type of dates, times or durations in a column; None for others."""
        name = self.values[column]
        dtype, native = self.lazy.collect_schema()[name], self.lazy.to_native()
        return self.types.get(column) or moment_type(dtype, native, name)

    def number_times(self, column: Hashable, clock: Clock) -> Adopted:
        """Return the frame with a column of dates or times as numbers of a clock.

        Raises
        ------
        UnsupportedDtypeError
            When the frame lies on a cluster or in another database.
        """
        name, native = self.values[column], self.lazy.to_native()
        schema = self.lazy.collect_schema()
        title = f"{name} as number"
        while title.lower() in map(str.lower, schema.names()):
            title += "_"
        if isinstance(native, pl.LazyFrame):
            wider: Any = native.with_columns(polars_number(name, schema[name], clock).alias(title))
        elif isinstance(native, duckdb.DuckDBPyRelation):
            number = write_duckdb_number(quote(name), duckdb_type(native, name), clock)
            wider = native.project(f"*, {number} AS {quote(title)}")
        else:
            raise UnsupportedDtypeError(
                f"column {column!r} is declared {schema[name]}, which can't be ranked here",
                hint="write the columns to a Parquet file and ask dfp.frame(path), which ranks "
                "dates and times, or turn them into numbers first, such as days since a date",
            )
        values = {**self.values, column: title}
        return replace(self, lazy=nw.from_native(wider), values=values, counted={})

    @property
    def can_fetch_rows(self) -> bool:
        """True where the engine may hand over all rows, by what is declared alone.

        Rows of files, and of any frame under a limit of `dfp.Engine`, stay in the engine.
        """
        if self.in_memory:
            return True
        limited = self.connection is not None and engine_options().memory is not None
        return self.lazy.implementation.is_duckdb() and not limited and not self.from_files

    def rows(self) -> nw.LazyFrame[Any]:
        """Return the frame as one that hands over its rows, not sums of them.

        Raises
        ------
        UnsupportedFrameError
            When the frame lies on a cluster, whose rows stay where they are.
        """
        if self.lazy.implementation.is_spark_like():
            raise UnsupportedFrameError(
                "this needs the rows themselves, and those of a Spark frame stay on its cluster",
                hint="ask about a file of the columns: frame.select(...).write.parquet(path)",
            )
        return self.lazy

    def close(self) -> None:
        """Give up the embedded connection; what the caller brought stays open."""
        if self.connection is not None:
            close_connection(self.connection)


@singledispatch
def adopt(frame: object, columns: Columns) -> Adopted:
    """Return `frame` as a lazy narwhals frame of the columns named.

    Raises
    ------
    UnsupportedFrameError
        When the object is not a frame, relation or file that can be read.
    MissingColumnError
        When a column does not exist.
    """
    libraries = {kind.__module__.partition(".")[0] for kind in type(frame).__mro__}
    for library, engine in (("ibis", "ibis"), ("pyspark", "spark")):
        if library in libraries:  # it need not be installed
            module = importlib.import_module(f"dfprivacy.engine.{engine}")
            adopted: Adopted | None = module.adopt_frame(frame, columns)
            if adopted is not None:
                return adopted
    hint = "pass a pandas or polars frame, an Arrow table, a DuckDB relation, or the path of a "
    hint += "CSV or Parquet file"
    if "dask" in libraries:
        hint = "make it a pandas frame, frame[columns].compute(), or write it to Parquet"
    raise UnsupportedFrameError(
        f"an object of type {type(frame).__name__} is not a frame that can be read", hint=hint
    )


def rereadable(frame: object) -> object:
    """Return a frame that several passes can read: a reader, which runs dry, becomes a table."""
    return frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame


def adopt_by_place(columns: Columns, wrap: Wrap) -> tuple[Adopted, dict[str, Hashable]]:
    """Return a frame whose columns are named by their place, and the label of each grouped one.

    Its rows are still to be put in.
    """
    keys = dict(zip(columns.keys, key_names(len(columns.keys)), strict=True))
    values = {label: f"value_{index}" for index, label in enumerate(columns.values)}
    categories = {
        category: CategoryColumn(f"category_{index}", category.constant)
        for index, category in enumerate(columns.categories)
    }
    grouped = {name: label for label, name in keys.items()}
    if columns.unit is not None:
        grouped[UNIT] = columns.unit.column
    grouped |= {column.name: category.column for category, column in categories.items()}
    unread: Any = None
    unit = unit_column(columns, UNIT)
    return Adopted(
        unread, keys, values, columns.listed_keys, wrap, unit, categories=categories
    ), grouped


def _adopt_relation(
    relation: duckdb.DuckDBPyRelation,
    columns: Columns,
    types: Mapping[Hashable, pa.DataType],
    wrap: Wrap,
    connection: duckdb.DuckDBPyConnection | None = None,
    *,
    present: Sequence[str] | None = None,
) -> Adopted:
    """Adopt a relation, whose columns are called `present` in their order, unless as they are.

    `types` are the Arrow types that columns are declared to have. Columns that can't be read as
    they are get a column in another form.
    """
    present = present or relation.columns
    require_columns(columns.names(), present)
    names = dict(zip(present, relation.columns, strict=True))
    forms: dict[str, str] = {}

    def name_title(label: Hashable, form: str | None, role: str) -> str:
        name = names[str(label)]
        if form is None:
            return name
        title = f"{name} as {role}"
        while title.lower() in map(str.lower, relation.columns):
            title += "_"
        forms[title] = form
        return title

    def key_title(label: Hashable) -> str:
        return name_title(label, key_form(relation, names[str(label)], label), "key")

    def key_kind(label: Hashable) -> pa.DataType | str:
        kind, declared_type = duckdb_type(relation, names[str(label)]), types.get(label)
        is_duration = declared_type is not None and pa.types.is_duration(declared_type)
        return declared_type if is_duration and kind == "BIGINT" else kind

    values = {
        label: name_title(label, value_form(relation, names[str(label)], types.get(label)), "value")
        for label in columns.values
    }
    keys = {label: key_title(label) for label in columns.keys}
    pairs = zip(columns.keys, columns.listed_keys or (), strict=False)
    listed_keys = [key_values(values_of_key, key_kind(label)) for label, values_of_key in pairs]
    unit_title = "" if columns.unit is None else key_title(columns.unit.column)
    categories = {}
    for category in columns.categories:
        constant = _read_constant(category, key_kind(category.column))
        categories[category] = CategoryColumn(key_title(category.column), constant)
    key_types = [types.get(label, key_type(key_kind(label))) for label in columns.keys]
    if forms:
        added = (f"{sql} AS {quote(title)}" for title, sql in forms.items())
        relation = relation.project(", ".join(["*", *added]))
    return Adopted(
        nw.from_native(relation),
        keys,
        values,
        None if columns.public is None else listed_keys,
        lambda released: wrap(declare_keys(released, key_types)),
        unit_column(columns, unit_title),
        connection,
        categories=categories,
        types={label: types[label] for label in columns.values if label in types},
    )


def _read_constant(category: Category, kind: object) -> object:
    """Return the constant that a column is compared with, in the form of its keys."""
    with suppress(InvalidKeysError):
        return key_values([category.constant], kind)[0]
    raise build_no_value_error(category.column, kind, category.constant)


@adopt.register
def _(frame: pl.DataFrame, columns: Columns) -> Adopted:
    return replace(_adopt_polars(frame.lazy(), columns), in_memory=True)


@adopt.register
def _(frame: pl.LazyFrame, columns: Columns) -> Adopted:
    adopted = _adopt_polars(frame, columns)
    return replace(adopted, wrap=lambda table: adopted.wrap(table).lazy())


def _adopt_polars(frame: pl.LazyFrame, columns: Columns) -> Adopted:
    """Adopt a frame that wraps released tables as polars frames.

    Enum keys get a new Enum: it has the released keys alone, in the declared order, and so have the
    rows of secret keys. Refuse names that polars takes for a pattern: ^...$ for all columns that
    match, * for all.
    """
    for name in map(str, columns.names()):
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise UnsupportedFrameError(
                f"polars takes the column name {name!r} for a pattern",
                hint=f"frame.rename({{{name!r}: 'plain'}})",
            )
    schema = frame.collect_schema()
    require_columns(columns.names(), schema.names())
    declared = [schema[str(key)] for key in columns.keys]

    def wrap(released: pa.Table) -> pl.DataFrame:
        frame = pl.from_arrow(released)
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
        named = list(zip(frame.columns, declared, strict=False))
        halves = [name for name, kind in named if kind == pl.Float16]
        frame = frame.with_columns(pl.col(name).cast(pl.Float16) for name in halves)
        enums = {name: kind for name, kind in named if isinstance(kind, pl.Enum)}
        if not enums:
            return frame
        for name, kind in enums.items():
            keys = frame[name].cast(pl.String)
            shown, categories = keys.drop_nulls().to_list(), kind.categories.to_list()
            values = dict.fromkeys(
                [*(category for category in categories if category in set(shown)), *shown]
            )
            frame = frame.with_columns(keys.cast(pl.Enum(list(values))))
        if columns.public is not None:
            return frame
        return frame.sort([name for name, _ in named], nulls_last=True, maintain_order=True)

    return Adopted(
        nw.from_native(frame),
        {label: str(label) for label in columns.keys},
        {label: str(label) for label in columns.values},
        columns.listed_keys,
        wrap,
        unit_column(columns, str(columns.unit and columns.unit.column)),
        categories={
            category: CategoryColumn(str(category.column), category.constant)
            for category in columns.categories
        },
    )


@dataclass(frozen=True)
class Stored:
    """A relation over a table or an Arrow table: several passes can read it."""

    relation: duckdb.DuckDBPyRelation


@adopt.register
def _(frame: Stored, columns: Columns) -> Adopted:
    return replace(_relation(frame.relation, columns), reads_once=False)


@adopt.register
def _(frame: duckdb.DuckDBPyRelation, columns: Columns) -> Adopted:
    require_plain_connection(frame)
    return _relation(frame, columns)


def _relation(frame: duckdb.DuckDBPyRelation, columns: Columns) -> Adopted:
    """Adopt the named columns alone: others may be computed as they are read, and fail."""
    require_columns(columns.names(), frame.columns)
    kinds = dict(zip(frame.columns, frame.types, strict=True))
    unit = [] if columns.unit is None else [columns.unit.column]
    categories = [category.column for category in columns.categories]
    texts = {str(column) for column in (*columns.keys, *unit, *categories)}
    read = [
        f"{quote(column)}::VARCHAR COLLATE C AS {quote(column)}"  # texts differ if their bytes do
        if column in texts and kinds[column].id in {"varchar", "enum"}
        else quote(column)
        for column in dict.fromkeys(map(str, columns.names()))
    ]
    same_columns = read == [*map(quote, frame.columns)]
    plain = frame if same_columns else frame.project(", ".join(read) or 'true AS "row"')
    uuids = [index for index, key in enumerate(map(str, columns.keys)) if kinds[key].id == "uuid"]
    adopted = _adopt_relation(plain, columns, {}, partial(_duckdb_relation, frame, uuids))
    return replace(adopted, reads_once=frame.type != "TABLE_RELATION")  # views can hold readers


def _duckdb_relation(
    caller: duckdb.DuckDBPyRelation, uuids: Sequence[int], released: pa.Table
) -> Any:
    """Return a released table as a relation on the caller's connection, some keys as UUID.

    The connection is reached through the relation only, which reads Python variables: the table
    stands under a name that nobody else can have while the relation is made. Where the caller has
    switched that off, the relation belongs to an embedded connection.
    """
    name = f"released_{uuid.uuid4().hex}"
    globals()[name] = released
    titles = [*map(quote, released.column_names)]
    casts = (f"CAST({title} AS UUID) AS {title}" for title in titles)
    pairs = enumerate(zip(titles, casts, strict=True))
    chosen = ", ".join(cast if index in uuids else title for index, (title, cast) in pairs)
    try:
        return caller.query("dfprivacy_caller", f"SELECT {chosen} FROM {name}")  # noqa: S608 ours
    except duckdb.CatalogException:
        with opening() as connection:
            return connection.from_arrow(released).project(chosen)
    finally:
        del globals()[name]


@adopt.register(pa.Table)
@adopt.register(pa.RecordBatchReader)
def _(frame: Any, columns: Columns) -> Adopted:
    # DuckDB converts times to microseconds in 64 bits, which the farthest times overflow.
    named, names = columns.names(), frame.schema.names
    for column in frame.schema:
        kind = column.type
        scaled = pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz)
        if column.name in named and scaled and kind.unit in {"s", "ms"}:
            raise UnsupportedDtypeError(
                f"column {column.name!r} is declared {kind}; the engine counts microseconds, of "
                "which a far time has too many",
                hint="cast it to microseconds first, e.g. pyarrow.timestamp('us', 'UTC')",
            )
    with opening() as connection:
        _require_read_types(frame.schema, connection)
        rows, types = connection.from_arrow(frame), _find_moment_types(frame.schema, named)
        adopted = _adopt_relation(rows, columns, types, _identity, connection, present=names)
        return replace(adopted, reads_once=isinstance(frame, pa.RecordBatchReader))


def _find_moment_types(schema: pa.Schema, named: Iterable[Hashable]) -> dict[Hashable, pa.DataType]:
    """Return the declared types of those columns that hold dates, times or durations."""
    kinds = dict(zip(schema.names, schema.types, strict=True))
    return {
        column: kinds[column]
        for column in named
        if column in kinds and find_clock_kind(kinds[column])
    }


def _require_read_types(schema: pa.Schema, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a declared type that the engine does not read, wherever in a table it is."""

    def is_read(part: pa.Schema) -> bool:
        with suppress(duckdb.Error, pa.ArrowException):
            connection.from_arrow(part.empty_table())
            return True
        return False

    for column in () if is_read(schema) else schema:
        if not is_read(pa.schema([column])):
            raise UnsupportedDtypeError(
                f"column {column.name!r} is declared {column.type}, which the engine does not read",
                hint="cast it first, e.g. to pyarrow.float32(), or leave it out of the table",
            )


@adopt.register(str)
@adopt.register(Path)
@adopt.register(TextFile)
def _(frame: str | Path | TextFile, columns: Columns) -> Adopted:
    source = list_data_files(open_source(frame))
    if isinstance(source, Snapshot):
        return adopt(source, columns)
    with opening() as connection:
        rows = read_file(connection, source, [str(name) for name in columns.names()])
        return _of_file(source, columns, connection, rows)


@adopt.register
def _(frame: Snapshot, columns: Columns) -> Adopted:
    return replace(_adopt_polars(frame.rows, columns), wrap=_identity)


def _of_file(
    source: DataFiles | Snapshot,
    columns: Columns,
    connection: duckdb.DuckDBPyConnection,
    rows: duckdb.DuckDBPyRelation,
) -> Adopted:
    path = source.path if isinstance(source, DataFiles) else None
    footer = read_footer(source)
    types = {} if footer is None else _find_moment_types(footer.schema, columns.names())
    durations = {str(name): kind for name, kind in types.items() if pa.types.is_duration(kind)}
    require_same_durations(source, durations)
    adopted = _adopt_relation(rows, columns, types, _identity, connection)
    is_small = footer is not None and footer.is_small
    adopted = replace(adopted, from_files=not is_small, path=path)
    if not (isinstance(source, DataFiles) and source.is_text):
        return adopted
    # Numbers are needed where text columns are values.
    relation: Any = adopted.lazy.to_native()
    names, chosen = dict(adopted.values), ["*"]
    for index, (label, numbers) in enumerate(columns.values.items()):
        if numbers:
            names[label] = f"{label} as number {index}"
            number = number_in_text(quote(str(label)))
            chosen.append(f"{number} AS {quote(names[label])}")
    numbered = nw.from_native(relation.project(", ".join(chosen)))
    return replace(adopted, lazy=numbered, values=names)


@dataclass(frozen=True)
class Filtered:
    """The rows of a file, table or relation that `kept` leaves, which reads the columns `used`.

    What fails in a row is caught by `kept`, as long as no optimizer moves anything out of it. Where
    a file is read those that could are off. Who brings a relation switches the optimizer of its
    connection off. Each of the `conditions` is true for the rows that are left.
    """

    rows: DataFiles | Snapshot | duckdb.DuckDBPyRelation
    select: Callable[[duckdb.DuckDBPyRelation], duckdb.DuckDBPyRelation]
    used: Sequence[str] = ()
    conditions: Sequence[RowCondition] = ()


@adopt.register
def _(frame: Filtered, columns: Columns) -> Adopted:
    source = frame.rows
    if isinstance(source, duckdb.DuckDBPyRelation):
        return adopt(Stored(frame.select(source)), columns)
    needed = [*frame.used, *map(str, columns.names())]
    if isinstance(source, Snapshot):
        source = source.select(set(needed))
    with opening() as connection:
        restrict_optimizer(connection)
        rows = frame.select(read_file(connection, source, needed, frame.conditions))
        return _of_file(source, columns, connection, rows)


@find_declared_columns.register
def _(frame: Filtered) -> Declared | None:
    return find_declared_columns(frame.rows)


def _identity(table: pa.Table) -> pa.Table:
    return table


@adopt.register
def _(frame: pd.DataFrame, columns: Columns) -> Adopted:
    require_columns(columns.names(), list(frame.columns), frame.index.names)
    for label in columns.names():
        require_known(label, frame[label].dtype)
    pairs = zip(columns.keys, columns.listed_keys or [[] for _ in columns.keys], strict=True)
    keys = {label: key_column(frame[label], public) for label, public in pairs}

    def wrap(released: pa.Table) -> pd.DataFrame:
        names = released.column_names
        restored = [key.restore(released.column(index)) for index, key in enumerate(keys.values())]
        plain = [answer_column(released.column(index)) for index in range(len(keys), len(names))]
        return pd.DataFrame(dict(zip(names, [*restored, *plain], strict=True)))

    adopted, _ = adopt_by_place(columns, wrap)
    arrow: dict[str, Any] = {adopted.keys[label]: key.column for label, key in keys.items()}
    types = {}
    for label, numbers in columns.values.items():
        series, name = frame[label], adopted.values[label]
        arrow[name] = (
            value_column(label, series) if numbers else presence_column(series, keys.get(label))
        )
        if numbers and (kind := find_moment_type(series)) is not None:
            types[label] = kind
    coded = [index for index, key in enumerate(keys.values()) if key.objects is not None]
    if columns.unit is not None:
        arrow[UNIT] = key_column(frame[columns.unit.column], []).marks(units=True)
        arrow |= {mark_name(index): keys[columns.keys[index]].marks() for index in coded}
    categories = {}
    for category, (name, _) in adopted.categories.items():
        categories[category], arrow[name] = _category_column(
            frame[category.column], category, name, units=columns.unit is not None
        )
    if not arrow:
        arrow["row"] = pa.nulls(len(frame), pa.bool_())
    listed_keys = [key.public_keys for key in keys.values()]
    with opening() as connection:
        return replace(
            adopted,
            lazy=nw.from_native(connection.from_arrow(pa.table(arrow))),
            listed_keys=None if columns.public is None else listed_keys,
            unit=unit_column(columns, UNIT, coded),
            connection=connection,
            categories=categories,
            types=types,
        )


def _category_column(
    series: pd.Series[Any], category: Category, name: str, *, units: bool
) -> tuple[CategoryColumn, Any]:
    """Return a column whose values are told apart, and the constant as it is in there."""
    if category.constant is None:
        return CategoryColumn(name, None), mark_values(series, units=units)
    with suppress(InvalidKeysError):
        key = key_column(series, [category.constant])
        return CategoryColumn(name, key.public_keys[0]), key.column
    raise build_no_value_error(category.column, series.dtype, category.constant)
