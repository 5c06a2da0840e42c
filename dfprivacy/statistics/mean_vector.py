"""Ask for the mean of vectors, and read any frame as vectors block by block, once for each pass.

Each row becomes what it becomes by itself. A row that is no whole vector (missing, of another
length, or with a missing number) becomes NaN; what that means is the neighbor relation's matter.
"""

from __future__ import annotations

import math
import numbers
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial, singledispatch
from typing import Any, ClassVar

import duckdb
import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine import postgres
from dfprivacy.engine.adopt import Adopted, Columns, Wrap, adopt
from dfprivacy.engine.columns import no_numbers
from dfprivacy.engine.keys import key_expressions
from dfprivacy.engine.pandas import value_column
from dfprivacy.engine.run import collect, run_guarded
from dfprivacy.errors import (
    InvalidBoundsError,
    InvalidQuestionError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.exact import number_within, whole_number
from dfprivacy.measurement.runs import list_distinct, run_slices
from dfprivacy.measurement.vectors import (
    Buffers,
    Floats,
    ItemRows,
    VectorGrid,
    incomplete,
    pad_size,
)
from dfprivacy.release.terms import find_label
from dfprivacy.statistics.base import Question, argument

VECTOR_METHODS = ("auto", "recentered", "clipped", "shifted", "plan")
DEVIATIONS = ("gaussian", "generic", "binary")
NEIGHBORS = ("add-remove", "replace")

LARGEST_DIMENSION = 2**20
_LARGEST_RADIUS = 2**900
_LARGEST_P = 1000


@dataclass(frozen=True)
class MeanVector(Question):
    """Average vectors: several numeric columns, or one column of arrays, lists or item sets.

    Privacy: rho-zCDP, whatever the dimension, when one row is added or removed; the number of rows
    is secret. `neighbors="replace"` makes it public, protects against one row taking another
    one's place, and runs the papers' own form. Secret group keys add `delta`.

    Methods: norms cut at a private threshold around noisy means, three times ("recentered"),
    once around 0 ("clipped"), or around private medians ("shifted"; both Huang, Liang and Yi 2021);
    noise by private standard deviations ("plan", Aumueller et al. 2023). "auto" decides by public
    facts: "plan" for item sets, p != 2 or `skewed`, else "recentered".

    A row that is no whole vector counts for nothing (zeros under "replace").

    >>> MeanVector(["x", "y"], radius=10).chosen_method
    'recentered'
    >>> MeanVector("basket", universe=500).chosen_method
    'plan'

    >>> import dfprivacy as dfp, numpy as np, pandas as pd
    >>> frame = pd.DataFrame(np.arange(20_000).reshape(5_000, 4) % 7.0, columns=list("abcd"))
    >>> mean = frame.dp.mean_vector(["a", "b", "c", "d"], rho=0.5, radius=100)
    >>> bool(abs(mean.values - 3).max() < 0.3), mean.method
    (True, 'recentered')
    """

    kind: ClassVar[str] = "mean_vector"
    asked_of: ClassVar[tuple[str, ...]] = ("frame", "group")
    terms: ClassVar[tuple[str, ...]] = ("rho", "delta", "interval")
    returns: ClassVar[str] = (
        "A sequence of floats that knows its noise (`VectorEstimate`). By group, the caller's own "
        "frame type: the keys, a column a coordinate (or a list column with low and high), count."
    )

    columns: Hashable = argument(
        "The coordinates, or a column of vectors: Array, FixedSizeList or List.",
        form="Sequence[Hashable] | Hashable",
    )
    radius: float | None = argument(
        "A public bound on Euclidean norms, in units of the columns. Larger vectors are cut; a "
        "radius a thousand times too large costs little.",
        None,
        form="float | None",
    )
    method: str = argument("How vectors are averaged.", choices=VECTOR_METHODS)
    neighbors: str = argument("The neighbor relation.", choices=NEIGHBORS)
    p: float = argument('Which l_p error "plan" keeps small.', 2, form="float")
    dimension: int | None = argument("The length of lists, which no List column declares.", None)
    universe: int | None = argument("The column holds sets of items 0, ..., universe - 1.", None)
    deviations: str = argument(
        'How "plan" finds standard deviations: for data that is about normal, for any with four '
        "moments, or for coordinates 0 and 1.",
        choices=DEVIATIONS,
    )
    skewed: bool = argument(
        "Declare that standard deviations differ much between coordinates.",
        False,  # noqa: FBT003
    )

    def __post_init__(self) -> None:
        is_list = isinstance(self.columns, list | tuple)
        columns = tuple(self.columns) if is_list else find_label(self.columns)  # type: ignore[arg-type]
        object.__setattr__(self, "columns", columns)
        super().__post_init__()
        _check_labels(self)
        number_within(
            self.p,
            1,
            _LARGEST_P,
            InvalidQuestionError,
            f"the error's p must be a number from 1 to {_LARGEST_P}",
            hint="pass p=2 for Euclidean error, p=1 for total variation",
        )
        sizes = {"dimension": self.dimension, "universe": self.universe}
        for name, size in sizes.items():
            if size is not None:
                what = f"{name} must be a whole number from 1 to 2**20"
                hint = f"pass what everybody may know, e.g. {name}=384"
                whole_number(size, 1, LARGEST_DIMENSION, InvalidQuestionError, what, hint=hint)
        if not self.binary:
            number_within(
                self.radius,
                Fraction(1, _LARGEST_RADIUS),
                _LARGEST_RADIUS,
                InvalidBoundsError,
                "radius must be a positive number",
                hint="pass a bound on Euclidean norms that you know without looking at the data; "
                "too large costs little, too small cuts: e.g. radius=1000",
            )
        _check_combination(self)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The columns read, in their order."""
        return self.columns if isinstance(self.columns, tuple) else (self.columns,)

    @property
    def is_wide(self) -> bool:
        """True if each coordinate is a column."""
        return isinstance(self.columns, tuple)

    @property
    def binary(self) -> bool:
        """True if vectors are sets: their coordinates are 0 or 1."""
        return self.universe is not None or self.deviations == "binary"

    @property
    def chosen_method(self) -> str:
        """The method; "auto" follows from public facts alone, never from data.

        "plan" for item sets, for an error other than p = 2, and where the caller declares that
        standard deviations differ much between coordinates; else "recentered".
        """
        if self.method != "auto":
            return self.method
        return "plan" if self.binary or self.p != 2 or self.skewed else "recentered"

    @property
    def name(self) -> str:
        """The name of the answer."""
        return "mean_vector" if self.is_wide else str(self.columns)

    @property
    def text(self) -> str:
        """The question as it was asked, with at most three columns."""
        shown = ", ".join(map(repr, self.labels[:3])) + (", ..." if len(self.labels) > 3 else "")
        return f"mean_vector([{shown}])" if self.is_wide else f"mean_vector({shown})"


def _check_labels(question: MeanVector) -> None:
    if not question.labels:
        raise InvalidQuestionError(
            "no column was named", hint='list the coordinates, e.g. mean_vector(["x", "y"])'
        )
    labels = [find_label(label) for label in question.labels]
    if len(set(labels)) < len(labels):
        raise InvalidQuestionError(
            "a column is named twice", hint="list each coordinate of the vector once"
        )
    if len(labels) > LARGEST_DIMENSION:
        raise InvalidQuestionError(
            "vectors have at most 2**20 coordinates", hint="ask about fewer columns"
        )


def _check_combination(question: MeanVector) -> None:
    if question.is_wide and (question.dimension or question.universe):
        raise InvalidQuestionError(
            "several columns have their number as dimension",
            hint="leave dimension and universe out, or name one column of vectors",
        )
    if question.dimension is not None and question.universe is not None:
        raise InvalidQuestionError(
            "a column holds vectors of a dimension, or items of a universe, not both",
            hint="pass dimension=384 for vectors, universe=500 for sets of items",
        )
    if question.binary and question.chosen_method in {"recentered", "shifted"}:
        raise InvalidQuestionError(
            f"{question.chosen_method} moves vectors, which would make sets of items dense",
            hint='use method="plan", or "clipped"',
        )


_FETCHED = 2**13  # rows that DuckDB hands over at a time
_BLOCK = 2**19  # numbers a block: 4 MiB, so that the buffers of a pass stay in the cache
_CONVERTED = 2**22
_MOST_ROWS = 2**15
_TILE = 256


@dataclass(frozen=True, repr=False)
class Block:
    """Some rows of a pass: a matrix or sets, with the keys of each row. Secret.

    Of sets, `missing` marks the rows that hold none.
    """

    rows: Floats | ItemRows
    keys: pa.Table
    missing: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class VectorSource:
    """A frame as passes over blocks of vectors, with keys' schema and `listed_keys`."""

    dimension: int
    keys: pa.Schema
    read: Callable[[], Iterator[Block]]
    listed_keys: Sequence[Sequence[object]] | None
    wrap: Wrap
    close: Callable[[], None]


def open_source(frame: object, question: MeanVector, columns: Columns) -> VectorSource:
    """Return a frame as a source of vectors; `columns` has the group columns and their keys."""
    source = run_guarded(lambda: _open(frame, question, columns))

    def read() -> Iterator[Block]:
        """Yield blocks that fit the cache, with what an engine says on failure withheld."""
        blocks = source.read()
        while (block := run_guarded(lambda: next(blocks, None))) is not None:
            yield from _split(block, source.dimension)

    return replace(source, read=read)


def _block_rows(dimension: int) -> int:
    """Return how many rows a block of a matrix has: a function of the dimension."""
    return max(min(_BLOCK // pad_size(dimension), _MOST_ROWS), 1)


def _count_matrix_rows(dimension: int) -> int:
    """Return how many rows become a matrix at a time, before it is split into blocks."""
    return max(min(_CONVERTED // dimension, _MOST_ROWS), _block_rows(dimension))


def _split(block: Block, dimension: int) -> Iterator[Block]:
    """Yield a block of a matrix in parts that fit the cache; one of sets as it is."""
    if isinstance(block.rows, ItemRows):
        yield block
        return
    step = _block_rows(dimension)
    for first in range(0, len(block.rows), step):
        yield Block(block.rows[first : first + step], block.keys.slice(first, step))


@singledispatch
def _open(frame: object, question: MeanVector, columns: Columns) -> VectorSource:
    adopted = adopt(frame, columns)
    try:
        if isinstance(frame, pa.Table) and not columns.keys:
            chosen = frame.select([str(label) for label in question.labels])
            return _arrow_source(chosen.schema, chosen.to_batches, question, adopted)
        if isinstance(frame, pl.DataFrame) and not columns.keys:
            values = frame.select(list(question.labels))
            _require_arrow_integers(values.dtypes, question.labels)
            table = values.to_arrow()
            return _arrow_source(table.schema, table.to_batches, question, adopted)
        return _adopt_source(adopted, question)
    except BaseException:
        adopted.close()
        raise


@_open.register
def _(frame: pa.RecordBatchReader, question: MeanVector, columns: Columns) -> VectorSource:  # noqa: ARG001 one signature
    raise UnsupportedFrameError(
        "a record batch reader can be read once, and a mean of vectors reads several times",
        hint="pass reader.read_all(), or the file or relation behind it",
    )


@_open.register
def _(frame: pd.DataFrame, question: MeanVector, columns: Columns) -> VectorSource:
    none = Columns(values=dict.fromkeys(question.labels, False))
    adopt(frame.iloc[:0], none).close()  # its checks of the columns
    keyed = adopt(frame, replace(columns, values={}))
    try:
        chosen = key_expressions(keyed)
        keys = collect(keyed.lazy.select(*chosen)) if chosen else pa.table({})
    finally:
        keyed.close()
    labels = list(question.labels)
    series = [frame[label] for label in labels]
    if question.is_wide and all(column.dtype.kind in "biuf" for column in series):
        step = _count_matrix_rows(len(labels))

        def read() -> Iterator[Block]:  # numpy's columns lie beside each other already
            for first in range(0, len(frame), step):
                part = frame.iloc[first : first + step][labels]
                matrix = np.ascontiguousarray(part.to_numpy(np.float64, na_value=np.nan))
                yield _block_of_matrix(matrix, question, keys.slice(first, step))

        return VectorSource(
            len(labels), keys.schema, read, keyed.listed_keys, keyed.wrap, keyed.close
        )
    if question.is_wide:
        vectors = [value_column(*pair) for pair in zip(labels, series, strict=True)]
    elif series[0].dtype == object:
        vectors = [_lists_of_objects(series[0], has_items=question.universe is not None)]
    else:
        vectors = [pa.array(series[0])]
    names = [*keys.column_names, *(f"vector_{index}" for index in range(len(vectors)))]
    table = pa.table([*keys.columns, *vectors], names)
    return _arrow_source(table.schema, table.to_batches, question, keyed)


def _adopt_source(adopted: Adopted, question: MeanVector) -> VectorSource:
    rows, keys = adopted.rows(), key_expressions(adopted)
    names = [adopted.values[label] for label in question.labels]
    values = [nw.col(name).alias(f"vector_{index}") for index, name in enumerate(names)]
    native: Any = rows.select(*keys, *values).to_native()
    if isinstance(native, pl.LazyFrame):
        declared = native.collect_schema()
        _require_arrow_integers(declared.dtypes()[len(keys) :], question.labels)
        schema = pl.DataFrame(schema=declared).to_arrow().schema
    elif isinstance(native, duckdb.DuckDBPyRelation):
        schema = native.limit(0).to_arrow_table().schema
    elif postgres.is_postgres(native):
        schema = postgres.find_schema(native)
    else:  # another Ibis table
        schema = native.schema().to_pyarrow()
    return _arrow_source(schema, partial(_batches, native), question, adopted)


def _batches(native: Any) -> Iterator[pa.RecordBatch]:
    """Run a lazy frame once more, and yield its batches as they come."""
    if isinstance(native, pl.LazyFrame):
        for frame in native.collect_batches(engine="streaming"):
            yield from frame.to_arrow().to_batches()
    elif isinstance(native, duckdb.DuckDBPyRelation):
        yield from native.project("*").to_arrow_reader(_FETCHED)
    elif postgres.is_postgres(native):
        yield from postgres.read_batches(native, cursor=f"dfprivacy_{uuid.uuid4().hex}")
    else:  # another Ibis table
        yield from native.to_pyarrow_batches(chunk_size=_FETCHED)


def _arrow_source(
    schema: pa.Schema,
    batches: Callable[[], Iterable[pa.RecordBatch]],
    question: MeanVector,
    adopted: Adopted,
) -> VectorSource:
    """Return a source of Arrow batches: first the keys, then the columns of the vectors."""
    first_value = len(schema) - len(question.labels)
    dimension = _find_dimension([field.type for field in schema][first_value:], question)
    step = _count_matrix_rows(dimension)

    def read() -> Iterator[Block]:
        buffers = Buffers()
        for whole_batch in batches():
            names = whole_batch.schema.names[:first_value]
            for first in range(0, whole_batch.num_rows, step):
                batch = whole_batch.slice(first, step)
                keys = pa.table({name: batch.column(i) for i, name in enumerate(names)})
                columns = batch.columns[first_value:]
                if question.universe is not None:
                    yield _block_of_items(columns[0], dimension, keys)
                elif question.is_wide:
                    yield _block_of_matrix(_matrix_of_columns(columns, buffers), question, keys)
                else:
                    yield _block_of_matrix(_matrix_of_lists(columns[0], dimension), question, keys)

    keys = pa.schema(list(schema)[:first_value])
    return VectorSource(dimension, keys, read, adopted.listed_keys, adopted.wrap, adopted.close)


def _block_of_matrix(matrix: Floats, question: MeanVector, keys: pa.Table) -> Block:
    """Return a matrix as a block; where vectors are sets, as the entries above one half."""
    if not question.binary:
        return Block(matrix, keys)
    missing = np.asarray(np.isnan(matrix).any(axis=1))
    row, item = np.nonzero((matrix > 0.5) & ~missing[:, np.newaxis])
    return Block(ItemRows(len(matrix), row, item), keys, missing)


def _find_dimension(kinds: Sequence[pa.DataType], question: MeanVector) -> int:
    """Return the public dimension of the vectors that columns of these declared types hold."""
    if question.is_wide:
        for label, kind in zip(question.labels, kinds, strict=True):
            _require_numbers(label, kind)
        return len(kinds)
    kind, label = kinds[0], question.columns
    fixed = pa.types.is_fixed_size_list(kind)
    if not (fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which holds no vectors",
            hint='list several columns, mean_vector(["x", "y"]), or name a column of lists',
        )
    _require_numbers(label, kind.value_type)
    if question.universe is not None:
        if not pa.types.is_integer(kind.value_type):
            raise UnsupportedDtypeError(
                f"column {label!r} holds no lists of whole numbers",
                hint="number the items 0, 1, ..., universe - 1 first",
            )
        return question.universe
    declared, named = kind.list_size if fixed else None, question.dimension
    if declared is None and named is None:
        raise InvalidQuestionError(
            f"the lists of column {label!r} declare no length, and it is not read off the rows",
            hint="say it: dimension=384",
        )
    if declared is not None and named not in {None, declared}:
        raise InvalidQuestionError(
            f"column {label!r} declares vectors of length {declared}, not {named}",
            hint="leave dimension out",
        )
    chosen = named if declared is None else declared
    if chosen is None or not 1 <= chosen <= LARGEST_DIMENSION:
        raise InvalidQuestionError(
            "vectors have from 1 to 2**20 coordinates", hint="ask about fewer coordinates"
        )
    return int(chosen)


def _require_numbers(label: object, kind: pa.DataType) -> None:
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or pa.types.is_boolean(kind)):
        raise no_numbers(label, kind)


def _require_arrow_integers(dtypes: Sequence[pl.DataType], labels: Sequence[Hashable]) -> None:
    """Refuse polars columns and lists of 128-bit integers, which have no type in Arrow."""
    for label, dtype in zip(labels, dtypes, strict=True):
        if "Int128" in str(dtype):
            raise UnsupportedDtypeError(
                f"column {label!r} is declared {dtype}, which Arrow does not have",
                hint=f"make it narrower: pl.col({label!r}).cast(pl.Float64), lists item by item",
            )


def _matrix_of_columns(columns: Sequence[pa.Array], buffers: Buffers) -> Floats:
    """Return numeric columns beside each other, one row a vector: turned tile by tile."""
    rows, size = len(columns[0]), len(columns)
    lying = buffers.floats("columns", (size, rows))
    for index, column in enumerate(columns):
        lying[index] = _read_numbers(column)
    out = buffers.floats("matrix", (rows, size))
    for first in range(0, rows, _TILE):
        out[first : first + _TILE] = lying[:, first : first + _TILE].T
    return out


def _read_numbers(column: pa.Array) -> Floats:
    """Return a numeric or boolean column as float64, NaN where it is NULL."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def _matrix_of_lists(column: pa.Array, dimension: int) -> Floats:
    """Return a column of lists as a matrix; rows of another length are NaN."""
    valid = np.asarray(column.is_valid())
    items, starts = _laid_out(column)
    flat = _read_numbers(items)
    fits = valid & (np.diff(starts) == dimension)
    if fits.all():
        return flat.reshape(len(column), dimension)
    matrix = np.full((len(column), dimension), np.nan)
    matrix[fits] = flat[starts[:-1][fits][:, np.newaxis] + np.arange(dimension)]
    return matrix


def _laid_out(column: pa.Array) -> tuple[pa.Array, npt.NDArray[Any]]:
    """Return the values of all lists, and the offsets of the lists."""
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        starts = np.arange(len(column) + 1) * size
        return column.values.slice(column.offset * size, len(column) * size), starts
    offsets = np.asarray(column.offsets)
    return column.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def _block_of_items(column: pa.Array, universe: int, keys: pa.Table) -> Block:
    """Return a column of lists of items as a block; what is not in the universe is left out."""
    missing = ~np.asarray(column.is_valid())
    items, starts = _laid_out(column)
    row = np.repeat(np.arange(len(column)), np.diff(starts))
    is_valid = np.asarray(items.is_valid())
    row, item = row[is_valid], items.drop_null().to_numpy(zero_copy_only=False)
    in_universe = (item >= 0) & (item < universe) & ~missing[row]
    row, item = row[in_universe], item[in_universe].astype(np.int64)
    codes = row * universe + item
    if len(codes) and (codes[1:] <= codes[:-1]).any():  # a set may name an item twice
        row, item = np.divmod(list_distinct(codes), universe)
    return Block(ItemRows(len(column), row, item), keys, missing)


def _lists_of_objects(series: pd.Series[Any], *, has_items: bool) -> pa.Array:
    """Return Python objects as lists of numbers, or of items; whatever is none is NULL.

    A fraction is an item of no universe.
    """
    vectors = [_vector(value) for value in series.to_numpy()]
    filled = [np.empty(0) if vector is None else vector for vector in vectors]
    numbers = np.concatenate([np.empty(0), *filled])
    if has_items:
        is_item = (np.floor(numbers) == numbers) & (np.abs(numbers) < LARGEST_DIMENSION)
        numbers = np.where(is_item, numbers, -1).astype(np.int64)
    starts = np.cumsum([0, *map(len, filled)])
    missing = pa.array([vector is None for vector in vectors], pa.bool_())
    return pa.LargeListArray.from_arrays(starts, numbers, mask=missing)


def _vector(value: Any) -> Floats | None:
    """Return an object as a vector; None for whatever is none, without a word about it."""
    if not isinstance(value, np.ndarray | list | tuple):
        return None
    try:
        vector = np.asarray(value)
        if vector.dtype == object:
            vector = np.array([_number(number) for number in vector.tolist()])
    except Exception:  # noqa: BLE001 a row's own object may raise anything
        return None
    if vector.ndim != 1 or vector.dtype.kind not in "biuf":
        return None
    with np.errstate(all="ignore"):
        return vector.astype(np.float64)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, numbers.Real | Decimal):
        raise TypeError(type(value))
    return float(value)


def prepare_block(
    block: Block, grid: VectorGrid | None, buffers: Buffers, *, keeps_incomplete: bool
) -> tuple[Any, npt.NDArray[np.bool_] | None]:
    """Return a block's rows on the grid, and which of its rows they are (None: all of them).

    Incomplete ones are zero, or left out.
    """
    rows, missing = block.rows, block.missing
    if isinstance(rows, ItemRows):
        if keeps_incomplete or missing is None or not missing.any():
            return rows, None
        index = np.cumsum(~missing) - 1
        return ItemRows(int(rows.rows - missing.sum()), index[rows.row], rows.item), ~missing
    assert grid is not None  # noqa: S101 matrices come with a grid
    integers = grid.integers(rows, buffers.floats("integers", rows.shape))
    bad = incomplete(integers)
    if not bad.any():
        return integers, None
    if keeps_incomplete:
        integers[bad] = 0.0
        return integers, None
    return integers[~bad], ~bad


def by_group(rows: Any, labels: Integers) -> Iterator[tuple[int, Any]]:
    """Yield each label of a block with its rows; -1 labels nothing."""
    order = np.argsort(labels, kind="stable")
    for run in run_slices(labels[order]):
        places = order[run]
        if (label := int(labels[places[0]])) >= 0:
            yield label, _take_rows(rows, places)


def _take_rows(rows: Any, chosen: Integers) -> Any:
    if not isinstance(rows, ItemRows):
        return rows[chosen]
    index = np.full(rows.rows, -1, np.int64)
    index[chosen] = np.arange(len(chosen))
    entries = index[rows.row]
    return ItemRows(len(chosen), entries[entries >= 0], rows.item[entries >= 0])
