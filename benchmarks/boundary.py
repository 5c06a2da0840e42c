"""Compare the outcome of public calls over neighboring data, and under faults: none may differ.

A cell is a way to hand rows in, a declared type, a question, and a setting of the engine. In each
cell a usual column is compared with ones that have one more row: an extreme of the type, a missing
value, an object that refuses everything; first or last. What is compared is the outcome: the type
and text of an error, or the type of the release, its dtypes, the groups that many rows made, in
their order, and the charge. Tables of a caller's own connection are read under each of its
settings, where no count of theirs may be printed either. Then allocations fail, Ctrl-C comes
between any two lines, a thread forks, and memory is limited: what comes out must be a release, or
an error of a fixed text without a cause, charged wholly or not at all.

    python -m benchmarks.boundary             # all cells and faults: an hour of one core
    python -m benchmarks.boundary --sample 20 # every 20th
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import decimal
import itertools
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dfprivacy as dfp
from benchmarks import ledger_faults
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.text_files import LEFT_OUT
from dfprivacy.errors import _INSIDE
from dfprivacy.frames.explanation import Explanation
from dfprivacy.frames.tables import find_origin
from dfprivacy.frames.viz.numbers import Readable
from dfprivacy.statements.interface import Result

Column = Callable[[Sequence[Any]], Any]
SECRET = "the income of Alice"
TIMES = 30


@dataclass(frozen=True)
class Kind:
    """A declared type: two usual values, and others that one row may have."""

    usual: tuple[Any, Any]
    odd: tuple[Any, ...]
    column: Column


class Refuses:
    """An object that says a secret whatever is done with it."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise ValueError(SECRET)

    __repr__ = __str__ = __eq__ = __ne__ = __lt__ = __hash__ = __bool__ = __len__ = _refuse  # type: ignore[assignment]
    __float__ = __int__ = __index__ = __iter__ = __getitem__ = __array__ = __reduce__ = _refuse  # type: ignore[assignment]


class Warns:
    """An object that warns of a secret whatever is done with it."""

    def _warn(self, *_: object) -> str:
        warnings.warn(SECRET, stacklevel=1)
        return SECRET

    __repr__ = __str__ = _warn  # type: ignore[assignment]

    def __ne__(self, _: object) -> bool:
        return bool(self._warn())

    __hash__ = None  # type: ignore[assignment]


class Whole(int):
    """An integer that can't be used as one."""

    __repr__ = __int__ = __index__ = __add__ = __hash__ = Refuses._refuse  # type: ignore[assignment]  # noqa: SLF001


def nest_values(depth: int, make: Callable[[Any], Any]) -> Any:
    """Return containers in containers."""
    container: Any = make(())
    for _ in range(depth):
        container = make((container,))
    return container


HOSTILE: tuple[Any, ...] = (
    Refuses(),
    Warns(),
    Whole(7),
    mock.Mock(spec=str),
    mock.MagicMock(spec=decimal.Decimal),
    np.timedelta64(1, "s"),
    np.timedelta64(1, "M"),
    np.datetime64("36812-02-20"),
    10**5000,
    decimal.Decimal("sNaN"),
    decimal.Decimal("1e999999"),
    complex("nan"),
    float("nan"),
    pd.NA,
    pd.NaT,
    nest_values(2000, list),
    nest_values(2000, tuple),
    {},
    {1},
    np.arange(3),
    np.ma.masked,
    np.ma.array([1, 2], mask=[True, False]),
    pd.Series([1]),
    b"\xff",
    "\ud800",
    "",
    "a\x00",
    (1, Refuses()),
    re.compile("x"),
    dt.time(1, tzinfo=dt.UTC),
    type,
    np.longdouble("1e4000"),
    pd.Period("2020"),
    pd.Interval(0, 1),
    dt.timedelta.max,
    dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    dt.date.min,
)
"""Values of a cell of objects."""


def objects(values: Sequence[Any]) -> pd.Series[Any]:
    """Return a column of objects as they are."""
    column = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        column[position] = value
    return pd.Series(column, dtype=object)


def of_dtype(dtype: Any) -> Column:
    """Return how a pandas column of a declared dtype is made."""
    return lambda values: pd.Series(list(values), dtype=dtype)


def of_numbers(dtype: str, zone: str | None = None) -> Column:
    """Return how times are made of integers, the least of which is no time."""

    def column(values: Sequence[Any]) -> pd.Series[Any]:
        integers = np.array([-(2**63) if v is None else v for v in values], dtype=np.int64)
        times = pd.Series(integers.view(dtype))
        return times if zone is None else times.dt.tz_localize("UTC").dt.tz_convert(zone)

    return column


def arrow(kind: pa.DataType) -> Column:
    """Return how an Arrow array is made; integers stand for times and what is stored as them."""

    def column(values: Sequence[Any]) -> pa.Array:
        if pa.types.is_run_end_encoded(kind):
            ends = pa.array(range(1, len(values) + 1), pa.int32())
            return pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, kind.value_type))
        if pa.types.is_dictionary(kind):
            return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
        if pa.types.is_temporal(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return pa.array(values, width).view(kind)
        return pa.array(values, kind)

    return column


INTEGERS = {
    f"{sign}int{size}": (np.iinfo(f"{sign}int{size}").min, np.iinfo(f"{sign}int{size}").max)
    for sign in ("", "u")
    for size in (8, 16, 32, 64)
}
FLOATS = (float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7e308)
UNITS = ("s", "ms", "us", "ns")
FAR = (2**62, -(2**62), 2**63 - 1, None)


def _uuids(values: Sequence[Any]) -> pa.Array:
    ids = [None if v is None else uuid.UUID(int=v).bytes for v in values]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))


ARROW: dict[str, Kind] = {
    **{
        name: Kind((1, 2), (*ends, None), arrow(getattr(pa, name)()))
        for name, ends in INTEGERS.items()
    },
    "float": Kind((1.0, 2.0), (float("nan"), float("inf"), -0.0, None), arrow(pa.float32())),
    "double": Kind((1.0, 2.0), (*FLOATS, None), arrow(pa.float64())),
    "halffloat": Kind((1.0, 2.0), (float("nan"), -0.0, None), arrow(pa.float16())),
    "bool": Kind((True, False), (None,), arrow(pa.bool_())),
    "string": Kind(("a", "b"), ("", "a\x00", "\U0010ffff", "x" * 10**5, None), arrow(pa.string())),
    "large_string": Kind(("a", "b"), ("", None), arrow(pa.large_string())),
    "binary": Kind((b"a", b"b"), (b"\xff", b"", None), arrow(pa.binary())),
    "decimal": Kind(
        (decimal.Decimal("1.50"), decimal.Decimal("2.00")),
        (decimal.Decimal("9" * 36 + ".99"), decimal.Decimal("-" + "9" * 36 + ".99"), None),
        arrow(pa.decimal128(38, 2)),
    ),
    "string_view": Kind(("a", "b"), ("", "\U0010ffff", None), arrow(pa.string_view())),
    "fixed binary": Kind((b"aa", b"bb"), (b"\xff\xff", b"\0\0", None), arrow(pa.binary(2))),
    "uuid": Kind((1, 2), (0, 2**128 - 1, None), _uuids),
    "date32": Kind((1, 2), (2**31 - 1, -(2**31), None), arrow(pa.date32())),
    "date64": Kind((86400000, 172800000), (2**52 * 86400000 // 2**52, None), arrow(pa.date64())),
    "time32[s]": Kind((1, 2), (86399, None), arrow(pa.time32("s"))),
    "time32[ms]": Kind((1, 2), (86399 * 10**3, None), arrow(pa.time32("ms"))),
    "time64[us]": Kind((1, 2), (86399 * 10**6, None), arrow(pa.time64("us"))),
    "time64[ns]": Kind((1, 2), (86399 * 10**9, None), arrow(pa.time64("ns"))),
    **{f"timestamp[{u}]": Kind((0, 86400), FAR, arrow(pa.timestamp(u))) for u in UNITS},
    **{f"timestamp[{u}, UTC]": Kind((0, 86400), FAR, arrow(pa.timestamp(u, "UTC"))) for u in UNITS},
    **{f"duration[{u}]": Kind((1, 2), FAR, arrow(pa.duration(u))) for u in UNITS},
    "dictionary": Kind(("a", "b"), ("", None), arrow(pa.dictionary(pa.int32(), pa.string()))),
    "run_end_encoded": Kind(
        ("a", "b"), ("", None), arrow(pa.run_end_encoded(pa.int32(), pa.string()))
    ),
    "list": Kind(
        ([1.0], [2.0]), ([], [None], [float("nan"), 1.0], None), arrow(pa.list_(pa.float64()))
    ),
    "struct": Kind(({"a": 1}, {"a": 2}), ({"a": None}, None), arrow(pa.struct({"a": pa.int64()}))),
    "null": Kind((None, None), (None,), arrow(pa.null())),
}

PANDAS: dict[str, Kind] = {
    **{name: Kind((1, 2), ends, of_dtype(name)) for name, ends in INTEGERS.items()},
    **{f"float{size}": Kind((1.0, 2.0), FLOATS, of_dtype(f"float{size}")) for size in (16, 32, 64)},
    "longdouble": Kind((1.0, 2.0), (np.longdouble("1e4000"), *FLOATS), of_dtype(np.longdouble)),
    ">i4": Kind((1, 2), (2**31 - 1,), of_dtype(">i4")),
    "complex128": Kind((1j, 2j), (complex("nan"), complex("inf")), of_dtype("complex128")),
    "bool": Kind((True, False), (), of_dtype("bool")),
    "Int64": Kind((1, 2), (2**63 - 1, None), of_dtype("Int64")),
    "Float64": Kind((1.0, 2.0), (float("inf"), None), of_dtype("Float64")),
    "boolean": Kind((True, False), (None,), of_dtype("boolean")),
    "Sparse": Kind((1, 2), (2**62,), of_dtype("Sparse[int64]")),
    "str": Kind(("a", "b"), ("", "a\x00", None), of_dtype("str")),
    "string[python]": Kind(("a", "b"), ("\ud800", "", None), of_dtype("string[python]")),
    "category": Kind(
        ("a", "b"), ("", "c", None), of_dtype(pd.CategoricalDtype(["a", "b", "", "c"]))
    ),
    "category of numbers": Kind((1, 2), (3, None), of_dtype(pd.CategoricalDtype([1, 2, 3]))),
    "category of booleans": Kind(
        (True, False), (None,), of_dtype(pd.CategoricalDtype([True, False]))
    ),
    "category of times": Kind(
        (pd.Timestamp(0), pd.Timestamp(9)),
        (None,),
        of_dtype(pd.CategoricalDtype([pd.Timestamp(0), pd.Timestamp(9)])),
    ),
    "cut": Kind(
        (0.5, 1.5), (99.0, None), lambda v: pd.cut(pd.Series(v, dtype=float), [0, 1, 2, 3])
    ),
    "period": Kind(
        (1, 2),
        (2**40, None),
        lambda v: pd.Series(
            pd.arrays.PeriodArray(
                np.array([-(2**63) if x is None else x for x in v], "i8"), dtype="period[D]"
            )
        ),
    ),
    "interval": Kind(
        (0.0, 1.0),
        (float("inf"),),
        lambda v: pd.Series(
            pd.arrays.IntervalArray.from_arrays(np.full(len(v), -np.inf), np.array(v, dtype=float))
        ),
    ),
    **{f"datetime64[{u}]": Kind((0, 86400), FAR, of_numbers(f"M8[{u}]")) for u in UNITS},
    **{
        f"datetime64[{u}, UTC]": Kind((0, 86400), FAR, of_numbers(f"M8[{u}]", "UTC")) for u in UNITS
    },
    **{f"timedelta64[{u}]": Kind((1, 2), FAR, of_numbers(f"m8[{u}]")) for u in UNITS},
    **{
        f"{name}[pyarrow]": Kind(
            kind.usual,
            kind.odd,
            lambda v, kind=kind: pd.Series(
                pd.arrays.ArrowExtensionArray(pa.chunked_array([kind.column(v)]))
            ),
        )
        for name, kind in ARROW.items()
    },
    "object": Kind(("a", "b"), (*HOSTILE, None), objects),
    "object of numbers": Kind((1, 2.5), (*HOSTILE, None), objects),
    "object of lists": Kind(([1.0], [2.0]), (*HOSTILE, None), objects),
}


def of_polars(dtype: Any) -> Column:
    """Return how a polars column of a declared type is made."""
    return lambda values: pl.Series("k", list(values), dtype=dtype)


POLARS: dict[str, Kind] = {
    "Int128": Kind((1, 2), (2**126, None), of_polars(pl.Int128)),
    "Categorical": Kind(("a", "b"), ("c", None), of_polars(pl.Categorical)),
    "Enum": Kind(("a", "b"), ("c", None), of_polars(pl.Enum(["b", "a", "c"]))),
    "Object": Kind((SECRET, 1), (Refuses(), None), of_polars(pl.Object)),
}
"""Types that Arrow does not have."""


@dataclass(frozen=True)
class Cells:
    """A column of a DuckDB table, by the texts of its values."""

    kind: str
    values: tuple[Any, ...]


def of_duckdb(kind: str, usual: tuple[str, str], *odd: str) -> Kind:
    """Return a type of DuckDB."""
    return Kind(usual, (*odd, None), lambda values: Cells(kind, tuple(values)))


DUCKDB: dict[str, Kind] = {
    "HUGEINT": of_duckdb("HUGEINT", ("1", "2"), str(2**127 - 1)),
    "UHUGEINT": of_duckdb("UHUGEINT", ("1", "2"), str(2**128 - 1)),
    "infinite DATE": of_duckdb("DATE", ("2020-01-01", "2020-01-02"), "infinity"),
    "infinite TIMESTAMP": of_duckdb("TIMESTAMP", ("2020-01-01", "2020-01-02"), "-infinity"),
    "TIMESTAMP_NS": of_duckdb("TIMESTAMP_NS", ("2020-01-01", "2020-01-02")),
    "INTERVAL": of_duckdb("INTERVAL", ("1 day", "2 days"), "1 month"),
    "BIT": of_duckdb("BIT", ("101", "1"), "0"),
    "ENUM": of_duckdb("ENUM('b', 'a', 'c')", ("a", "b"), "c"),
}
"""Types that Arrow does not have, or values that it does not have."""

_TO_MICROSECONDS = {"timestamp[s, UTC]", "timestamp[ms, UTC]", "duration[s]", "duration[ms]"}
"""Types that DuckDB scales when it reads a caller's relation: docs/explanation/promises.md."""
_NO_PARQUET = {
    "run_end_encoded",
    "halffloat",
    "null",
    "timestamp[s]",
    "timestamp[ms]",
    "uuid",
} | _TO_MICROSECONDS
_NO_POLARS = {
    "run_end_encoded",
    "timestamp[s]",
    "timestamp[s, UTC]",
    "duration[s]",
    "date64",
    "null",
    "time32[s]",
    "halffloat",
}


def _relation(column: pa.Array | Cells) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    if isinstance(column, Cells):
        connection.execute(f"CREATE TABLE rows (k {column.kind}, x DOUBLE)")
        connection.execute(
            f"INSERT INTO rows SELECT v::{column.kind}, (i - 1) % 9 FROM (SELECT unnest($1) AS v, "
            "generate_subscripts($1, 1) AS i)",
            [list(column.values)],
        )
        return connection.table("rows")
    table = _table(column)
    connection.register("rows", table)
    return connection.table("rows")


def _stored(table: pa.Table) -> Path:
    path = Path(_FOLDER.name) / f"{next(_NUMBERS)}.parquet"
    pq.write_table(table, path)
    return path


_FOLDER = tempfile.TemporaryDirectory()
_NUMBERS = itertools.count()


def _table(column: pa.Array) -> pa.Table:
    return pa.table({"k": column, "x": np.arange(len(column)) % 9 * 1.0})


def _polars(column: pa.Array | pl.Series) -> pl.DataFrame:
    if isinstance(column, pl.Series):
        return pl.DataFrame({"k": column, "x": np.arange(len(column)) % 9 * 1.0})
    return pl.DataFrame(_table(column))


def _frame(column: Any) -> pd.DataFrame:
    return pd.DataFrame({"k": column, "x": np.arange(len(column)) % 9 * 1.0})


FRONTS: dict[str, tuple[Mapping[str, Kind], Callable[[Any], Any]]] = {
    "pandas": (PANDAS, _frame),
    "arrow": (ARROW, _table),
    "parquet": (
        {n: k for n, k in ARROW.items() if n not in _NO_PARQUET},
        lambda column: _stored(_table(column)),
    ),
    "polars": (
        {n: k for n, k in ARROW.items() if n not in _NO_POLARS} | POLARS,
        _polars,
    ),
    "polars lazy": (
        {n: k for n, k in ARROW.items() if n not in _NO_POLARS} | POLARS,
        lambda column: _polars(column).lazy(),
    ),
    "duckdb": (
        {
            n: k
            for n, k in ARROW.items()
            if n not in {"run_end_encoded", "halffloat"} | _TO_MICROSECONDS
        }
        | DUCKDB,
        _relation,
    ),
}
"""How rows are handed in, and the types that can be."""

LARGE = {"epsilon": 1e9}
KEPT = {"epsilon": 1e9, "delta": 1e-200}
"""So large an epsilon, and so small a delta, that exactly groups of several rows are shown."""


def _sql(private_frame: Any, query: str, **terms: Any) -> Any:
    return dfp.sql(query, t=private_frame._frame, **{**KEPT, **terms})  # noqa: SLF001 what the question is to


ASKS: dict[str, Callable[[Any, Kind], Any]] = {
    "count by key": lambda private, _: private.group_by("k").count(**KEPT),
    "median by key": lambda private, _: private.group_by("k").median("x", **KEPT),
    "mean by public key": lambda private, kind: private.group_by("k", keys=[kind.usual[0]]).mean(
        "x", (0, 9), **LARGE
    ),
    "histogram by key": lambda private, _: private.group_by("k").histogram("x", [0, 5, 9], **KEPT),
    "presence": lambda private, _: private.count("k", **LARGE),
    "mean": lambda private, _: private.mean("k", (0, 9), **LARGE),
    "median": lambda private, _: private.median("k", **LARGE),
    "histogram": lambda private, _: private.histogram("k", [0, 1, 9], **LARGE),
    "vector": lambda private, _: private.mean_vector(["k"], rho=1e9, radius=9),
    "list": lambda private, _: private.mean_vector("k", rho=1e9, radius=9, dimension=1),
    "unit": lambda private, _: private(unit="k", max_rows=2).sum("x", (0, 9), **LARGE),
    "keys of units": lambda private, _: (
        private(unit="x", max_rows=9, max_groups=9).group_by("k").count(**KEPT)
    ),
    "units by key": lambda private, _: (
        private(unit="k", max_rows=2, max_groups=1).group_by("x", keys=[0.0, 1.0]).count(**LARGE)
    ),
    "without bounds by key": lambda private, _: private.group_by("x", keys=[0.0, 1.0]).agg(
        mean=dfp.mean("k"), sum=dfp.sum("k"), **LARGE
    ),
    "others": lambda private, kind: private(unit="x", max_rows=9).value_counts(
        "k", keys=[kind.usual[0]], other=True, **LARGE
    ),
    "regression": lambda private, _: private.regression(
        "x", ["k"], {"x": (0, 9), "k": (0, 9)}, **LARGE
    ),
    "sql": lambda private, _: _sql(private, "SELECT k, dp_count(*) AS n FROM t GROUP BY k"),
    "describe": lambda private, _: private.describe(**KEPT),
    "crosstab": lambda private, _: private.crosstab("k", "x", margins=True, **KEPT),
    "table of public keys": lambda private, kind: private.crosstab(
        "k", "x", keys={"k": [kind.usual[0]], "x": [0.0, 1.0]}, rounded="integer", **LARGE
    ),
    "value counts": lambda private, _: private.value_counts("k", **KEPT),
    "top": lambda private, _: private.top("k", 2, **KEPT),
    "different values": lambda private, _: private.nunique("k", **LARGE),
    "share": lambda private, kind: private.share("k", kind.usual[0], **LARGE),
    "ends": lambda private, _: private.agg(dfp.min("k"), rows=dfp.max("k"), **LARGE),
    "correlation": lambda private, _: private.corr("k", "x", (0, 9), (0, 9), **LARGE),
    "line": lambda private, _: private.agg(
        dfp.slope("x", "k", (0, 9), (0, 9)), cov=dfp.cov("k", "x", (0, 9), (0, 9)), **LARGE
    ),
    "clipped": lambda private, _: private.mean("k", (1, 2), epsilon=1, population=True),
    "clipped by key": lambda private, _: private.group_by("k").mean("x", (2, 5), **KEPT),
    "population by key": lambda private, _: private.group_by("k").sum(
        "x", (0, 9), population=True, **KEPT
    ),
    "change": lambda private, _: dfp.released(private.group_by("k").count(**KEPT)).change(),
    "parts": lambda private, _: dfp.released(private.crosstab("k", "x", **KEPT)).ratio_to("total"),
    "explained": lambda private, _: private.explain(dfp.mean("k", (0, 9)), within=0.1, size=100),
    "owned": lambda private, _: _sql(
        private,
        "SELECT k, COUNT(*) AS n, n / (SELECT COUNT(*) FROM t) AS part FROM t GROUP BY ROLLUP (k)",
        schema=dfp.Schema(unit="t.x"), max_rows=9, max_groups=9,
    ),
    "owners": lambda private, _: _sql(
        private,
        "SELECT x, COUNT(DISTINCT k) AS n FROM (SELECT k, x, row_number() OVER "
        "(PARTITION BY k ORDER BY x) AS place FROM t) WHERE place < 4 GROUP BY x",
        schema=dfp.Schema(unit="t.k"), max_rows=2, max_groups=1, keys=[0.0, 1.0], delta=None,
    ),
    "cursor": lambda private, _: dfp.connect(t=private._frame, **KEPT).execute(  # noqa: SLF001 as in _sql
        "SELECT k, dp_mean(x, 0, 9) AS x FROM t GROUP BY k ORDER BY k"
    ),
}  # fmt: skip
"""Queries of a connection: the targets."""
KEYS_AS_COLUMNS = {"crosstab"}
"""Questions whose answers have a column for each secret key."""

SETTINGS: dict[str, Callable[[], Any]] = {
    "as it is": nullcontext,
    "one thread": lambda: dfp.Engine(threads=1, memory="200MB"),
}
EMBEDDED = {"pandas", "arrow", "parquet"}


@dataclass(frozen=True)
class Cell:
    """A way to hand rows in, a declared type, a question, and a setting."""

    front: str
    kind: str
    ask: str
    setting: str

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outcome for these rows."""
        kinds, frame = FRONTS[self.front]
        kind = kinds[self.kind]
        with np.errstate(all="ignore"):
            handed = dfp.frame(frame(kind.column(values)))
        with SETTINGS[self.setting]():
            return run_call(lambda: ASKS[self.ask](handed, kind))


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    for front, (kinds, _) in FRONTS.items():
        settings = SETTINGS if front in EMBEDDED else ["as it is"]
        for arguments in itertools.product(kinds, ASKS, settings):
            yield Cell(front, *arguments)


def sample_cases(tried: Iterable[Any], sample: int) -> list[Any]:
    """Return one of `sample` things to be tried, spread over all that they differ in."""
    return sorted(tried, key=lambda item: zlib.crc32(repr(item).encode()))[::sample]


dfp.errors.WARNED.update({"epsilon", "delta", "keys", LEFT_OUT})  # which warn once in a process
PAID: list[Any] = []


def run_call(work: Callable[[], Any]) -> tuple[Any, ...]:
    """Return the parts of a call's outcome that are compared, the charge among them."""
    PAID.clear()
    with warnings.catch_warnings(record=True) as heard, mock.patch.object(NoAccount, "pay", _pay):
        warnings.simplefilter("always")
        try:
            shape = _shape(work())
        except (Exception, KeyboardInterrupt) as error:
            shape = _describe_error(error)
    return (*shape, tuple(PAID), tuple(str(warning.message) for warning in heard))


def _pay(_: NoAccount, charge: Any) -> None:
    PAID.append(str(charge.loss))


def _describe_error(error: BaseException) -> tuple[Any, ...]:
    caused = error.__cause__ is not None or error.__context__ is not None
    return (type(error).__name__, str(error), "with a cause" if caused else "")


def _shape(released: Any) -> tuple[Any, ...]:
    """Return the type of a release, what is told beside its numbers, and its keys in order."""
    origin = find_origin(released)
    description = "" if origin is None else f"{origin.question} {origin.cost} {origin.keys} "
    if isinstance(released, pd.DataFrame):
        attributes = {name: v for name, v in released.attrs.items() if name != "dfprivacy"}
        description += (
            f"{type(released.index)} {attributes} "  # the origin is above, its hashes are noisy
        )
        released = released.reset_index() if released.index.names != [None] else released
        keys = released.iloc[:, 0].tolist()
        types = {  # categories are the released keys, which the last entry has
            name: ("category", str(kind.categories.dtype), kind.ordered)
            if isinstance(kind, pd.CategoricalDtype)
            else kind
            for name, kind in released.dtypes.items()
        }
        return ("pandas", f"{description}{types}", tuple(map(_look, keys)))
    if isinstance(released, pl.LazyFrame):
        released = released.collect()
    if type(released).__module__.startswith("ibis."):
        released = released.to_pyarrow()
    if isinstance(released, duckdb.DuckDBPyRelation | Result):
        description += str(list(zip(released.columns, released.types, strict=True)))
        return ("relation", description, tuple(_look(row[0]) for row in released.fetchall()))
    if isinstance(released, dfp.dbapi.Cursor):
        return ("cursor", str(released.description), tuple(_look(row[0]) for row in released))
    if isinstance(released, pl.DataFrame | pa.Table):
        first: Any = released[:, 0] if isinstance(released, pl.DataFrame) else released.column(0)
        numbered = first.to_list() if isinstance(first, pl.Series) else map(str, first)
        description += re.sub(r"Enum\(.*?\)", "Enum", str(released.schema))  # of the released keys
        return (type(released).__name__, description, tuple(map(_look, numbered)))
    if isinstance(released, dict):
        return ("dict", str([(name, _shape(value)) for name, value in released.items()]), ())
    if released is None or isinstance(released, dt.date | dt.time | dt.timedelta):
        return ("moment", "", ())  # an unknown one is None, as an unknown number is NaN
    if isinstance(released, Readable):
        names = ("epsilon", "rho", "delta", "mechanism", "limits")
        description = str([getattr(released, name, None) for name in names])
    if isinstance(released, Explanation):
        description = str(released)
    return (type(released).__name__, description, ())


def _look(key: object) -> str:
    return f"{type(key).__name__} {key!r}"[:200]


def neighbors(kind: Kind) -> Iterator[list[Any]]:
    """Yield usual rows, then the same with one row more, first or last."""
    usual = [value for value in kind.usual for _ in range(TIMES)]
    yield usual
    for index, odd in enumerate(kind.odd):
        yield [*usual, odd] if index % 2 else [odd, *usual]


@dataclass
class Found:
    """The number of calls that were tried, and descriptions of outcomes that differed."""

    runs: int = 0
    different: list[str] = field(default_factory=list)


def compare(cell: Cell, tally: Found) -> None:
    """Compare the outcome over neighbors, and the kind of outcome over few rows."""
    kind = FRONTS[cell.front][0][cell.kind]
    usual, *others = neighbors(kind)
    first = cell.run(usual)
    for rows in others:
        tally.runs += 1
        if (other := cell.run(rows)) != first:
            odd = rows[0] if rows[0] is not usual[0] else rows[-1]
            tally.different.append(f"{cell}: {type(odd).__name__}: {first} or {other}"[:600])
    for rows in ([], usual[:1]):
        tally.runs += 1
        other = cell.run(rows)
        same = 1 if cell.ask in KEYS_AS_COLUMNS else 2
        if (other[:same], other[3:]) != (first[:same], first[3:]):
            tally.different.append(f"{cell}: {len(rows)} rows: {first} or {other}"[:600])


CONNECTION = (
    "SELECT 1",
    "PRAGMA enable_profiling",
    "SET enable_profiling = 'json'",
    "SET enable_profiling = 'no_output'",
    "CALL enable_logging(level = 'trace', storage = 'stdout')",
    "PRAGMA disable_optimizer",
    "SET disabled_optimizers = 'filter_pushdown'",
    "SET threads = 1",
    "SET memory_limit = '50MB'",
    "SET preserve_insertion_order = false",
    "SET default_null_order = 'nulls_first'",
    "SET default_order = 'desc'",
    "SET integer_division = true",
    "SET ieee_floating_point_ops = false",
    "SET old_implicit_casting = true",
    "SET errors_as_json = true",
    "SET TimeZone = 'Pacific/Auckland'",
    "SET Calendar = 'japanese'",
    "SET default_collation = 'nocase'",
    "SET lock_configuration = true",
    "SET search_path = 'other'",
    "SET python_enable_replacements = false",
    "SET arrow_large_buffer_size = true",
    "CREATE MACRO abs(x) AS error(x::VARCHAR)",
    "CREATE TEMP VIEW t AS SELECT id, k, x FROM memory.main.t",
    "BEGIN",
)
"""Settings of a connection that a caller may have changed."""

_TABLES = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, k VARCHAR, x DOUBLE,
        whole INTEGER AS (CAST(k AS INTEGER)), chance DOUBLE AS (random()));
    INSERT INTO t(id, k, x) SELECT i, i::VARCHAR, i % 9 FROM range(4099) AS r(i);
    CREATE TABLE referring(id INTEGER REFERENCES t(id));
    CREATE TABLE keyed(n BIGINT PRIMARY KEY CHECK (n < 4100));
    CREATE SCHEMA other;
    CREATE VIEW v AS SELECT * FROM t;
    CREATE VIEW computed AS SELECT x, whole FROM v;
"""
_COUNTED = "SELECT 0 AS k, dp_count(*) AS n FROM t"
STATEMENTS = (
    _COUNTED,
    "SELECT x, dp_count(*) AS n FROM t GROUP BY x",
    "SELECT 0 AS k, dp_mean(x, 0, 9) AS n FROM t WHERE CAST(k AS INTEGER) % 2 = 0",
    "SELECT 0 AS k, dp_mean(whole, 0, 9) AS n FROM t",
    "SELECT 0 AS k, dp_mean(chance, 0, 9) AS n FROM v",
    "SELECT 0 AS k, dp_mean(x, 0, 9) AS n FROM computed",
    "SELECT 0 AS k, dp_count(*) AS n FROM computed WHERE whole > 0",
    *(f"INSERT INTO {table} {_COUNTED}" for table in ("keyed", "referring", "t", "v")),
    *(f"CREATE TABLE {name} AS {_COUNTED}" for name in ("made", "t", "other.t", "temp.made", "v")),
    *(f"CREATE OR REPLACE TABLE {name} AS {_COUNTED}" for name in ("keyed", "t", "referring")),
    f"CREATE OR REPLACE TEMP TABLE made AS {_COUNTED}",
)
TABLE_ASKS: dict[str, Callable[[Any], Any]] = {
    **{text: lambda con, text=text: dfp.sql(text, con=con, **KEPT) for text in STATEMENTS},
    **{
        f"explain {text}": lambda con, text=text: dfp.explain(text, con=con, **KEPT)
        for text in STATEMENTS[:4]
    },
    "cursor": lambda con: dfp.connect(con, **KEPT).execute(STATEMENTS[1]),
    "relation": lambda con: dfp.frame(con.table("memory.main.t")).count(**LARGE),
    "by key": lambda con: dfp.frame(con.table("memory.main.t")).group_by("x").count(**KEPT),
    "unit": lambda con: dfp.frame(con.table("memory.main.t"))(unit="k", max_rows=2).sum(
        "x", (0, 9), **LARGE
    ),
    "statement over it": lambda con: dfp.sql(STATEMENTS[1], t=con.table("memory.main.t"), **KEPT),
}  # fmt: skip
"""Queries of the tables of a connection."""
ODD_ROWS = (None, "'no number', 3", "NULL, NULL", "'', -'inf'::DOUBLE", "'7e99', 5e-324")
"""Values of the additional row; None where there is none."""
_COUNTS = re.compile(r"\b4,?(?:099|100)\b")


def _capture_prints(work: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result of a call, and the text that the process printed meanwhile."""
    with tempfile.TemporaryFile() as file:
        duplicates = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
        sys.stdout.flush()
        for descriptor, _ in duplicates:
            os.dup2(file.fileno(), descriptor)
        try:
            result = work()
        finally:
            sys.stdout.flush()
            ctypes.CDLL(None).fflush(None)
            for descriptor, before in duplicates:
                os.dup2(before, descriptor)
                os.close(before)
        file.seek(0)
        return result, file.read().decode(errors="replace")


def _ask_table(setting: str, ask: str, row: str | None) -> tuple[Any, ...]:
    """Return the outcome of a question after a setting, what is left, and counts that are told."""
    with duckdb.connect() as con:
        con.execute(_TABLES)
        if row is not None:  # what computed columns make of it is checked by INSERT alone
            con.execute("INSERT INTO t(id, k, x) VALUES (-1, '-1', 0)")
            con.execute(f"UPDATE t SET (k, x) = ({row}) WHERE id = -1")
        _capture_prints(lambda: con.execute(setting))
        parts, printed = _capture_prints(lambda: run_call(lambda: TABLE_ASKS[ask](con)))
        left, _ = _capture_prints(lambda: _views(con))
    return (*parts, left, _COUNTS.findall(printed))


def _views(con: duckdb.DuckDBPyConnection) -> int | str:
    """Return how many views are left, or why a transaction that the caller began can't say so."""
    try:
        return len(con.execute("FROM duckdb_views() WHERE NOT internal").fetchall())
    except duckdb.Error as error:
        return str(error)


def compare_tables(setting: str, ask: str, tally: Found) -> None:
    """Compare the outcome over tables of a connection that differ by one row."""
    usual, *others = (_ask_table(setting, ask, row) for row in ODD_ROWS)
    for row, other in zip(ODD_ROWS[1:], others, strict=True):
        tally.runs += 1
        if other != usual or other[-1]:
            tally.different.append(f"{setting}, {ask}, {row}: {usual} or {other}"[:600])


def tables(sample: int, tally: Found) -> None:
    """Compare the outcome over tables of a caller's connection, under each of its settings."""
    for setting, ask in sample_cases(itertools.product(CONNECTION, TABLE_ASKS), sample):
        compare_tables(setting, ask, tally)


FIXED = ("dfprivacy ran out of memory", "")


def fault(
    name: str, ask: str, work: Callable[[], Any], expected: tuple[Any, ...], tally: Found
) -> None:
    """Run a call that something happens to, and note what comes out if it may not."""
    tally.runs += 1
    actual = run_call(work)
    released = actual == expected
    fixed = actual[0] in {"MemoryError", "KeyboardInterrupt"} and actual[1] in FIXED
    fixed = (fixed or (actual[0] == "EngineError" and "withheld" in actual[1])) and not actual[2]
    paid = actual[-2] in {(), expected[-2]}
    if not ((released or fixed) and paid and not actual[-1]):
        tally.different.append(f"{name}, {ask}: {actual}"[:400])


ALLOCATORS = (
    "empty",
    "zeros",
    "ones",
    "full",
    "arange",
    "concatenate",
    "stack",
    "repeat",
    "where",
    "sort",
    "unique",
    "cumsum",
    "array",
    "asarray",
    "searchsorted",
)


def failing(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Return a function that runs out of memory when we call it for the `at`-th time."""
    calls = itertools.count()

    def allocate(*args: Any, **kwargs: Any) -> Any:
        if _INSIDE.get() and next(calls) == at:
            raise MemoryError(f"Unable to allocate an array for {SECRET}")
        return function(*args, **kwargs)

    return allocate


def interrupting(work: Callable[[], Any], at: int) -> Callable[[], Any]:
    """Return a call that Ctrl-C ends at the `at`-th line of ours."""

    def interrupt() -> Any:
        lines = itertools.count()

        def trace(frame: Any, event: str, _: object) -> Any:
            name = frame.f_code.co_filename
            if "dfprivacy" not in name or name.endswith("errors.py"):
                return None
            if event == "line" and next(lines) == at:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            return work()
        finally:
            sys.settrace(None)

    return interrupt


FAULTED = (
    "count by key",
    "median by key",
    "mean by public key",
    "histogram by key",
    "mean",
    "unit",
    "vector",
    "sql",
    "describe",
    "crosstab",
    "owned",
    "cursor",
)


def faults(sample: int, tally: Found) -> None:
    """Let allocations fail and Ctrl-C come at every place, or at every so many."""
    kind = PANDAS["object"]
    rows = [value for value in (*kind.usual, None) for _ in range(TIMES)]
    for ask in FAULTED:
        column_kind = PANDAS["float64"] if ask in {"mean", "vector"} else kind
        handed = dfp.frame(
            _frame(column_kind.column([1.0, 2.0] * TIMES if column_kind is not kind else rows))
        )

        def work(ask: str = ask, column_kind: Kind = column_kind, handed: Any = handed) -> Any:
            return ASKS[ask](handed, column_kind)

        expected = run_call(work)
        for name, at in sample_cases(itertools.product(ALLOCATORS, range(12)), sample):
            with mock.patch.object(np, name, failing(getattr(np, name), at)):
                fault(f"no memory for {name}, call {at}", ask, work, expected, tally)
        for at in range(0, 3000, 7 * sample):
            fault(f"Ctrl-C at line {at}", ask, interrupting(work, at), expected, tally)
        fault("nothing, afterwards", ask, work, expected, tally)


def forks(tally: Found) -> None:
    """Fork while another thread is inside of a call: the child must release, and soon."""
    looking, done = threading.Event(), threading.Event()

    class Waits(pd.DataFrame):
        def __getitem__(self, label: Any) -> Any:
            looking.set()
            done.wait(20)
            return super().__getitem__(label)

    thread = threading.Thread(target=lambda: dfp.frame(Waits(_frame([1.0]))).mean("x", (0, 9)))
    thread.start()
    begun = looking.wait(10)
    tally.runs += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        parts = run_call(lambda: dfp.frame(objects([1, "a", None]).to_frame("x")).count("x"))
        os._exit(0 if parts[0] == "Estimate" else 1)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    done.set()
    thread.join()
    if not begun or ended != (child, 0):
        tally.different.append(f"a child of a fork ended with {ended}")


_LIMITED = """
import resource, sys, numpy as np, polars as pl, dfprivacy as dfp
rows = pl.DataFrame({"k": np.arange(400_000), "x": np.arange(400_000) % 1000 * 1.0})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 2**20,) * 2)
try:
    rows.dp.group_by("k").median("x", epsilon=1, delta=1e-9)
    print("released")
except BaseException as error:
    print(type(error).__name__, error, error.__context__)
"""


_SAID = {
    "released",
    "MemoryError dfprivacy ran out of memory None",
    f"EngineError {dfp.errors.engine_failed()} None",
}
"""Messages of a process that has too little memory."""


def limit_memory(megabytes: Sequence[int], tally: Found) -> None:
    """Limit the memory of a process: its output is fixed, or the system ends it."""
    for size in megabytes:
        tally.runs += 1
        command = [sys.executable, "-c", _LIMITED, str(size)]
        completed = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300
        )
        if completed.returncode >= 0 and completed.stdout.strip() not in _SAID:
            tally.different.append(f"{size} MiB: {completed.stdout[:200]}")


def battery(sample: int = 1) -> Found:
    """Run every `sample`-th cell and fault."""
    tally = Found()
    for cell in sample_cases(cells(), sample):
        compare(cell, tally)
    tables(sample, tally)
    faults(sample, tally)
    forks(tally)
    return tally


def main() -> None:
    """Run the battery and print what was tried."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--sample", type=int, default=1)
    sample = parser.parse_args().sample
    tally = battery(sample)
    if sample == 1:
        limit_memory((50, 100, 200, 400, 800, 1600), tally)
    kinds = sum(len(front_kinds) for front_kinds, _ in FRONTS.values())
    print(f"ways to hand rows in     {len(FRONTS):8,}")
    print(f"declared types           {kinds:8,}")
    print(f"questions                {len(ASKS):8,}")
    print(f"settings of a connection {len(CONNECTION):8,}, by {len(TABLE_ASKS)} questions")
    print(f"cells                    {len(sample_cases(cells(), sample)):8,}")
    print(f"calls compared           {tally.runs:8,}")
    print(f"outcomes that differed   {len(tally.different):8,}   (target 0)")
    for line in tally.different[:40]:
        print(" ", line)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(f"processor time           {usage.ru_utime + usage.ru_stime:8,.0f} s")
    ledgers = ledger_faults.battery(sample)
    print(*ledgers.lines(), sep="\n")
    sys.exit(bool(tally.different or ledgers.broken))


if __name__ == "__main__":
    main()
