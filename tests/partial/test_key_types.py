"""Keys of several files meet in one declared type where none loses a bit, and nowhere else."""

import datetime as dt
import itertools
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

WHEN = dt.datetime(2026, 3, 1, 7, 30)  # noqa: DTZ001 local times
LONG_AGO = dt.datetime(1900, 1, 1)  # noqa: DTZ001
TOGETHER = [
    (pa.int8(), pa.int64(), [1, 2]),
    (pa.uint32(), pa.int16(), [1, 2]),
    (pa.float32(), pa.float64(), [0.5, -2.0]),
    (pa.string(), pa.large_string(), ["a", "\u00e9"]),
    (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", "\u00e9"]),
    (pa.binary(), pa.large_binary(), [b"a", b"\xff"]),
    (pa.timestamp("ms"), pa.timestamp("ms"), [WHEN, LONG_AGO]),
    (pa.time32("s"), pa.time64("us"), [WHEN.time()]),
    (pa.decimal128(5, 2), pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25")]),
    (pa.bool_(), pa.bool_(), [True, False]),
    (pa.date32(), pa.date64(), [WHEN.date()]),
]
UNITS = list(itertools.combinations(("ms", "us", "ns"), 2))
APART = [
    (pa.int64(), pa.string()),
    (pa.int64(), pa.float64()),
    (pa.int64(), pa.uint64()),
    (pa.bool_(), pa.int64()),
    (pa.date32(), pa.timestamp("us")),
    *((pa.timestamp(first), pa.timestamp(other)) for first, other in UNITS),
    *((pa.duration(first), pa.duration(other)) for first, other in UNITS),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.decimal128(5, 2), pa.decimal128(5, 1)),
    (pa.string(), pa.binary()),
]


def write_statistics(folder, number, values, kind):
    frame = pa.table({"k": pa.array([*values, None] * 50).cast(kind)})
    return dfp.statistics(frame, folder / f"{number}.parquet", dfp.count(), by="k")


@pytest.mark.parametrize(("first", "other", "values"), TOGETHER)
def test_types_that_hold_the_same_meet(tmp_path, first, other, values):
    """Equal keys of both types are one group, NULL too, and keep their value."""
    paths = [write_statistics(tmp_path, k, values, kind) for k, kind in enumerate((first, other))]
    table = dfp.merge(paths, epsilon=100, delta=0.01)
    assert table.column("k").to_pylist() == [*sorted(values), None]
    assert all(abs(count - 100) < 9 for count in table.column("count").to_pylist())


def build_frame(values):
    """Return a frame with keys of a type; pandas alone declares durations and zoned times of it."""
    table = pa.table({"k": values})
    zoned = pa.types.is_timestamp(values.type) and values.type.tz
    return table.to_pandas() if pa.types.is_duration(values.type) or zoned else table


@pytest.mark.parametrize(("first", "other"), APART)
def test_types_that_do_not_meet_are_refused(tmp_path, first, other):
    """Types whose values could differ, or look alike and differ, have no common form."""
    paths = [
        dfp.statistics(
            build_frame(pa.nulls(1, kind)), tmp_path / f"{k}.parquet", dfp.count(), by="k"
        )
        for k, kind in enumerate((first, other, first))
    ]
    for chosen in (paths[:2], paths[1:], paths):
        with pytest.raises(dfp.errors.StatisticsFileError, match=r"'k' is declared .* in .* and"):
            dfp.merge(chosen, epsilon=1, delta=0.01)
    assert dfp.merge(paths[::2], epsilon=1, delta=0.01).column_names[0] == "k"


def test_lists_are_no_keys(tmp_path):
    """Lists and structs have no form that files could share."""
    for kind in (pa.list_(pa.int64()), pa.struct({"a": pa.int64()})):
        frame = pa.table({"k": pa.nulls(1, kind)})
        with pytest.raises(dfp.DPError):
            dfp.statistics(frame, tmp_path / "x.parquet", dfp.count(), by="k")
    assert list(tmp_path.iterdir()) == []


SIZES = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
FIXED = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.date32(), pa.time32("s")),
    *(pa.time32("ms"), pa.time64("us")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, "Europe/Rome") for unit in ("s", "ms", "us", "ns")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]
REFUSED = {"timestamp[s]", "timestamp[s, tz=Europe/Rome]"}


@pytest.mark.sample(21)
@pytest.mark.parametrize("kind", FIXED, ids=str)
def test_every_value_of_a_type_is_a_key_of_its_own(tmp_path, kind):
    """Files take any bits of a type and give them back, or refuse the type whatever the rows."""
    size = kind.bit_width
    bits = pa.array([0, 1, -1, 2 ** (size - 1) - 1, 1 - 2 ** (size - 1)], SIZES[size])
    values, messages = bits.view(kind), []
    for number, keys in enumerate((pa.nulls(1, kind), pa.concat_arrays([values] * 60))):
        path = tmp_path / f"{number}.parquet"
        try:
            dfp.statistics(build_frame(keys), path, dfp.count(), by="k")
        except dfp.UnsupportedDtypeError as error:
            messages.append(str(error))
    if messages:
        assert messages == [messages[0]] * 2
        assert str(kind) in REFUSED
        assert "frame['k'].dt.as_unit(\"us\")" in messages[0]
        return
    merged_keys = dfp.merge(path, epsilon=100, delta=0.01).column("k").combine_chunks()
    back = merged_keys.cast(kind, safe=False).view(SIZES[size])
    assert sorted(back.to_pylist()) == sorted(bits.to_pylist())


FAR = {"ms": 9 * 10**18, "s": 4 * 10**15}


def read_message(call):
    """Return the message of the error that a call raises."""
    with pytest.raises(dfp.DPError) as caught:
        call()
    assert not any(str(far_number) in str(caught.value) for far_number in FAR.values())
    return type(caught.value), str(caught.value)


def test_no_row_decides_whether_files_go_together(tmp_path):
    """Milliseconds and microseconds are refused as declared, a time beyond the others or not."""
    fine = pa.table({"k": pa.array([0] * 9, pa.timestamp("us"))})
    other = dfp.statistics(fine, tmp_path / "us.parquet", dfp.count(), by="k")
    outcomes = []
    for number, moments in enumerate(([0], [0, FAR["ms"]])):
        rows = pa.table({"k": pa.array(moments, pa.timestamp("ms"))})
        (folder := tmp_path / str(number)).mkdir()
        path = dfp.statistics(rows, folder / "ms.parquet", dfp.count(), by="k")
        refused = read_message(lambda: dfp.merge([path, other], delta=0.01))  # noqa: B023 called here
        outcomes.append((refused[0], refused[1].replace(str(folder), "")))
        assert dfp.merge(path, epsilon=1, delta=0.01).schema.field("k").type == pa.timestamp("ms")
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] is dfp.errors.StatisticsFileError
    assert "timestamp[ms] in" in outcomes[0][1]


PANDAS = {
    "text": ["a", "b"],
    "category": pd.Categorical(["a", "b"], categories=["b", "a", "unseen"]),
    "numbers": pd.Categorical([2, 1]),
    "nullable": pd.array([1, None], dtype="Int64"),
    "moment": pd.to_datetime(["2026-01-01", "2026-01-02"]).as_unit("us"),
    "zoned": pd.to_datetime(["2026-01-01", "2026-01-02"]).as_unit("us").tz_localize("Europe/Rome"),
    "span": pd.to_timedelta(["1 day", "2 days"]).as_unit("us"),
}


@pytest.mark.parametrize("column", PANDAS)
def test_pandas_keys_are_the_values_themselves(tmp_path, column):
    """Codes that stand for categories and durations in a pass never reach the file."""
    frame = pd.DataFrame({column: PANDAS[column]}).loc[[0, 1] * 60].reset_index(drop=True)
    if column == "text":
        frame[column] = frame[column].astype("string")
    paths = [
        dfp.statistics(frame, tmp_path / f"{part}.parquet", dfp.count(), by=column)
        for part in range(2)
    ]
    released = dfp.merge(paths, epsilon=50, delta=0.01)
    expected = frame.dp.group_by(column).count(epsilon=50, delta=0.01)
    merged_keys = released.column(column).to_pandas().astype(expected[column].dtype)
    pd.testing.assert_series_equal(merged_keys, expected[column], check_names=False)


def test_objects_declare_no_type(tmp_path):
    """A pandas column of objects is no group column of a file, whatever is in it."""
    for objects in (["a"], [1], [None], [(1, 2)]):
        frame = pd.DataFrame({"k": pd.Series(objects, dtype=object)})
        with pytest.raises(dfp.UnsupportedDtypeError, match="holds Python objects"):
            dfp.statistics(frame, tmp_path / "x.parquet", dfp.count(), by="k")
        text = frame.astype({"k": "string"})
        dfp.statistics(text, tmp_path / f"{type(objects[0]).__name__}.parquet", dfp.count(), by="k")


def test_categories_of_polars_are_text(tmp_path):
    """Categorical and Enum columns of polars meet text."""
    for number, kind in enumerate((pl.Categorical, pl.Enum(["a", "b"]), pl.String)):
        frame = pl.DataFrame({"k": pl.Series(["a", "b"] * 50, dtype=kind)})
        dfp.statistics(frame, tmp_path / f"{number}.parquet", dfp.count(), by="k")
    table = dfp.merge(f"{tmp_path}/*.parquet", epsilon=100, delta=0.01)
    assert table.column("k").to_pylist() == ["a", "b"]


def test_public_keys_have_the_type_that_secret_ones_have(tmp_path):
    """Listed or not, keys of several files come back in the type in which the files meet."""
    frame, types = pl.DataFrame({"k": ["a", "b"] * 50}), set()
    for keys in (None, ["b", "c"]):
        path = tmp_path / f"{keys}.parquet"
        dfp.statistics(frame, path, dfp.count(), by="k", keys=keys)
        types.add(dfp.merge([path], epsilon=1, delta=None if keys else 0.01).schema.types[0])
    assert len(types) == 1
