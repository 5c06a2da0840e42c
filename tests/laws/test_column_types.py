"""Every declared type in every kind of frame: missing values add nothing, and no value raises."""

import datetime as dt
import math
import uuid
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import dfprivacy as dfp

EXACT = 1e7
SECRET = {"epsilon": EXACT, "delta": 1e-6}
_INTEGERS = ("int8", "int64", "uint64")
_UNITS = ("s", "ms", "us", "ns")
_FAR_TICKS = [-(2**63) + 1, -(2**62), -1, 0, 1, 2**62, 2**63 - 1]
_DAY_TICKS = {"s": 86_399, "ms": 86_399_999, "us": 86_399_999_999, "ns": 86_399_999_999_999}


def _ticks(kind, ticks):
    """Return whole numbers as values of a type of dates or times."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(ticks, width).cast(kind)


def _extremes():
    """Return two ordinary values and the extreme values of each Arrow type, by its text."""
    found = {"bool": (pa.array([False, True]), pa.array([False, True]))}
    for name in _INTEGERS:
        kind, ends = pa.type_for_alias(name), np.iinfo(name)
        found[name] = pa.array([1, 2], kind), pa.array([ends.min, 0, ends.max], kind)
    for name, kind in (("halffloat", "float16"), ("float", "float32"), ("double", "float64")):
        info = np.finfo(kind)
        far = [0.0, -0.0, math.nan, math.inf, -math.inf, info.max, info.min, info.tiny]
        near = np.array([1.0, 2.0], kind)
        found[name] = pa.array(near), pa.array(np.array(far, kind))
    for kind in (pa.decimal128(5, 2), pa.decimal128(38, 2), pa.decimal256(50, 2)):
        end = f"{'9' * (kind.precision - 2)}.99"
        near = pa.array([Decimal("1.00"), Decimal("2.00")], kind)
        found[str(kind)] = near, pa.array([Decimal(f"-{end}"), Decimal(end)], kind)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        found[str(kind)] = pa.array(["a", "b"], kind), pa.array(["", "\0", "\U0010ffff"], kind)
    for kind in (pa.binary(), pa.binary(2)):
        found[str(kind)] = pa.array([b"aa", b"bb"], kind), pa.array([b"\0\0", b"\xff\xff"], kind)
    days = [-(2**31) + 2, 0, 2**31 - 2]
    found["date32"] = _ticks(pa.date32(), [10, 20]), _ticks(pa.date32(), days)
    for unit in _UNITS:
        for kind in (pa.timestamp(unit), pa.timestamp(unit, "Europe/Berlin"), pa.duration(unit)):
            found[str(kind)] = _ticks(kind, [10**6, 2 * 10**6]), _ticks(kind, _FAR_TICKS)
        kind = (pa.time32 if unit in {"s", "ms"} else pa.time64)(unit)
        last = _DAY_TICKS[unit]
        found[str(kind)] = _ticks(kind, [last // 4, last // 2]), _ticks(kind, [0, 1, last])
    texts = pa.array(["a", "b"]).dictionary_encode()
    found[str(texts.type)] = texts, pa.array(["", "\U0010ffff"]).dictionary_encode()
    ids = [uuid.UUID(int=number).bytes for number in (1, 2, 0, 2**128 - 1)]
    stored = pa.array(ids, pa.binary(16))
    found["uuid"] = tuple(
        pa.ExtensionArray.from_storage(pa.uuid(), part) for part in (stored[:2], stored[2:])
    )
    return found


EXTREMES = _extremes()


def repeated(values, places):
    """Return some values again and again."""
    kind = values.type
    if pa.types.is_string_view(kind):  # which no kernel of Arrow takes
        values = values.cast(pa.string())
    return values.take(pa.array(places, pa.int64())).cast(kind)


def _parquet(table, folder):
    folder.mkdir(exist_ok=True)
    path = folder / "rows.parquet"
    parquet.write_table(table, path)
    return dfp.frame(path)


def _stored(table, _):
    connection = duckdb.connect()
    connection.register("handed_in", table)
    connection.execute("CREATE TABLE stored AS FROM handed_in")
    return dfp.frame(connection.table("stored"))


SOURCES = {
    "polars": lambda table, _: pl.from_arrow(table).dp,
    "pandas": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype).dp,
    "numpy": lambda table, _: table.to_pandas().dp,
    "parquet": _parquet,
    "duckdb": _stored,
    "arrow": lambda table, _: dfp.frame(table),
}

QUESTIONS = {
    "count": lambda frame: frame.count("x", epsilon=EXACT),
    "nunique": lambda frame: frame.nunique("x", epsilon=EXACT),
    "mean": lambda frame: frame.mean("x", (-9, 9), epsilon=EXACT),
    "sum": lambda frame: frame.sum("x", (-9, 9), epsilon=EXACT),
    "mean without bounds": lambda frame: frame.mean("x", epsilon=EXACT),
    "median": lambda frame: frame.quantile("x", 0.5, epsilon=EXACT),
    "quantile": lambda frame: frame.quantile("x", 0.9, epsilon=EXACT),
    "max": lambda frame: frame.max("x", epsilon=EXACT),
    "groups": lambda frame: frame.group_by("x").count(**SECRET),
    "unit": lambda frame: frame(unit="x", max_rows=10**6).count("g", epsilon=EXACT),
    "describe": lambda frame: frame.describe(**SECRET),
}


def ask(question, frame):
    """Return an answer, or the refusal that the declared type has."""
    try:
        return question(frame)
    except (dfp.UnsupportedDtypeError, dfp.errors.InvalidQuestionError) as error:
        return type(error), str(error)


def opened(source, table, folder):
    """Return a frame of some source; skip types that its library does not have."""
    try:
        frame = SOURCES[source](table, folder)
    except BaseException as error:  # polars panics
        if type(error).__module__.startswith("dfprivacy"):
            raise
        pytest.skip(f"{source} has no such type")
    return frame


CASES = [
    (kind, source)
    for number, kind in enumerate(EXTREMES)
    for source in [*SOURCES][number % 2 :] + [*SOURCES][: number % 2]
]
"""All types in all sources. Every second one is in one law, the others are in the other one."""


def table_of(values):
    """Return a table with a column of values beside one of groups."""
    return pa.table({"x": values, "g": pa.array(["a"] * len(values))})


def _number(answer):
    """Return an answer as a number; dates and times as seconds."""
    if isinstance(answer, dt.timedelta):
        return answer.total_seconds()
    if isinstance(answer, dt.datetime):
        zoned = answer if answer.tzinfo else answer.replace(tzinfo=dt.UTC)
        return (zoned - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds()
    if isinstance(answer, dt.date):
        return 86_400 * (answer - dt.date(1970, 1, 1)).days
    if isinstance(answer, dt.time):
        return 3_600 * answer.hour + 60 * answer.minute + answer.second
    return float(answer)


def _counts(answer):
    if isinstance(answer, duckdb.DuckDBPyRelation):
        answer = answer.to_arrow_table()
    column = answer["count"]
    return sorted(column.to_pylist() if isinstance(column, pa.ChunkedArray) else column)


def _is_refused(question, frame):
    """Tell whether a declared type refuses a question; any other failure is raised."""
    try:
        question(frame)
    except (dfp.UnsupportedDtypeError, dfp.errors.InvalidQuestionError):
        return True
    return False


@pytest.mark.battery
@pytest.mark.parametrize(("kind", "source"), CASES[::2])
def test_missing_values_add_nothing(kind, source, tmp_path):
    """Rows without a value change no count, rank, mean, sum or number of different values."""
    near, _ = EXTREMES[kind]
    rows = [0] * 200 + [1] * 400
    names = ("count", "nunique", "mean", "sum", "median", "quantile", "max")
    first = [None] if source == "numpy" else []  # a missing value changes the dtypes of numpy
    full = opened(source, table_of(repeated(near, [*rows, *first])), tmp_path)
    expected = {name: ask(QUESTIONS[name], full) for name in names}
    sparse = opened(source, table_of(repeated(near, [*rows, *[None] * 300])), tmp_path)
    for name in names:
        before, after = expected[name], ask(QUESTIONS[name], sparse)
        if isinstance(before, tuple):
            assert after == before
        else:
            apart = 1 if name in {"median", "quantile", "max"} else 0.01
            assert _number(after) == pytest.approx(_number(before), abs=apart, rel=0.01)
    if not _is_refused(QUESTIONS["groups"], sparse):
        assert _counts(sparse.group_by("x").count(**SECRET)) == [200, 300, 400]


@pytest.mark.battery
@pytest.mark.parametrize(("kind", "source"), CASES[1::2])
def test_no_value_decides_whether_there_is_an_answer(kind, source, tmp_path):
    """The declared type alone decides whether a question is answered; no value raises."""
    near, far = EXTREMES[kind]
    frames = [
        opened(source, table_of(repeated(values, [*range(len(values)), None] * 40)), tmp_path / end)
        for end, values in (("near", near), ("far", far))
    ]
    for question in QUESTIONS.values():
        usual, extreme = (_is_refused(question, frame) for frame in frames)
        assert usual == extreme
