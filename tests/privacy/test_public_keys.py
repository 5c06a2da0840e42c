"""Public keys come out exactly; groups come in an order that rows do not choose."""

import datetime as dt
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.frame_types import to_polars


def read_rows(result):
    """Key and count of each released group, as plain Python values."""
    if isinstance(result, pd.DataFrame):  # keys may be of several types
        keys = [None if pd.isna(k) else k for k in result.iloc[:, 0].tolist()]
        return list(zip(keys, result["count"].tolist(), strict=True))
    frame = to_polars(result)
    return list(zip(frame.to_series(0), frame["count"], strict=True))


TABLE = pa.table({"g": ["b", "a", None, "b", "zz", ""], "h": [2, 1, 1, None, 2, -5]})


@pytest.mark.parametrize(
    ("column", "keys", "expected"),
    [
        ("g", ["b", "a"], [("b", 2), ("a", 1)]),
        ("g", ["b", "absent", "b"], [("b", 2), ("absent", 0)]),
        ("g", [None, "a"], [(None, 1), ("a", 1)]),
        ("g", [None, math.nan], [(None, 1)]),
        ("g", [""], [("", 1)]),
        ("g", {"a", "b"}, [("a", 1), ("b", 2)]),
        ("g", ("zz", "ZZ", "zz "), [("zz", 1), ("ZZ", 0), ("zz ", 0)]),
        ("g", np.array(["a"]), [("a", 1)]),
        ("g", pd.Series(["a"]), [("a", 1)]),
        ("g", pl.Series(["a"]), [("a", 1)]),
        ("g", {"g": ["a"]}, [("a", 1)]),
        ("g", pd.Index(["a"]), [("a", 1)]),
        ("g", pd.Categorical(["a"]), [("a", 1)]),
        ("h", range(3), [(0, 0), (1, 2), (2, 2)]),
        ("h", [2, 2.0, np.int64(2), None], [(2, 2), (None, 1)]),
        ("h", [2**62], [(2**62, 0)]),
    ],
)
def test_public_keys_come_out_exactly_once(column, keys, expected, way):
    """Public keys come out exactly once.

    Exactly the listed keys are released, in the order listed, once each; absent ones count zero
    rows; rows with other keys are in no group. Keys of a set are sorted.
    """
    grouped = dfp.frame(way(TABLE)).group_by(column, keys=keys)
    assert read_rows(grouped.count(epsilon=1e12)) == expected


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("h", [True]),
        ("h", ["1"]),
        ("h", [1, "1"]),
        ("h", [2**63]),
        ("h", [b"1"]),
        ("h", [object()]),
        ("h", [[1]]),
        ("h", [math.inf]),
        ("h", [np.array([1, 2])]),
        ("g", [1]),
        ("g", [1.0]),
        ("g", [True]),
        ("g", ["a", 1]),
        ("g", [{}]),
        ("g", []),
        ("g", "a"),
        ("g", b"a"),
        ("g", 1),
        ("g", TABLE),
        ("g", np.array([["a"]])),
        ("g", iter(["a"])),
        ("g", (k for k in "a")),
        ("g", {"a": 1}),
    ],
)
def test_keys_that_do_not_fit_are_refused(column, keys, way):
    """A key of another type than the column's, or what is no list, is InvalidKeysError."""
    with pytest.raises(dfp.errors.InvalidKeysError) as caught:
        dfp.frame(way(TABLE)).group_by(column, keys=keys).count()
    assert "zz" not in str(caught.value)


TIMES = pa.table(
    {
        "day": pa.array([19753], pa.date32()),
        "time": pa.array([0], pa.timestamp("us")),
        "wait": pa.array([1], pa.duration("us")),
        "clock": pa.array([1], pa.time64("us")),
    }
)
EPOCH = dt.datetime.fromisoformat("1970-01-01")
NOON = dt.datetime.fromisoformat("2024-01-31 12:00")  # the first column has its midnight
WRONG_TIMES = [
    *itertools.product(TIMES.column_names, [0, 1, 19753, 1.0, Fraction(1), "2024-01-31"]),
    ("day", NOON),
    ("day", pd.Timestamp(NOON)),
    ("wait", NOON),
    ("clock", NOON),
]


@pytest.mark.parametrize(("column", "key"), WRONG_TIMES)
def test_numbers_are_no_dates(column, key):
    """A number is no key of dates, times and durations, and a time of day is no key of dates.

    It is refused alike by groups, cells, counts by value, shares and statements.
    """
    frame = pl.DataFrame(TIMES)
    private = dfp.frame(frame)
    calls = [
        lambda: private.group_by(column, keys=[key]).count(),
        lambda: private.crosstab(column, "time", keys=[(key, EPOCH)]),
        lambda: private.value_counts(column, keys=[key]),
        lambda: private.value_counts(column, keys=[key], other=True),
        lambda: private.share(column, key),
        lambda: dfp.sql(f"SELECT {column}, dp_count(*) FROM t GROUP BY 1", t=frame, keys=[key]),
    ]
    refusals = (
        dfp.errors.InvalidKeysError,
        dfp.errors.InvalidQuestionError,
        dfp.UnsupportedDtypeError,
    )
    for ask in calls:
        with pytest.raises(refusals):
            ask()


def test_a_fraction_is_no_key_of_an_integer_column(way):
    """1.5 is not the key 1: it is refused, or a group without rows."""
    try:
        released = read_rows(dfp.frame(way(TABLE)).group_by("h", keys=[1.5]).count(epsilon=1e12))
    except dfp.errors.InvalidKeysError:
        return
    assert released == [(1.5, 0)]


def test_an_unsigned_public_key_beside_null():
    """The largest unsigned key is released beside the NULL key, and as itself."""
    frame = pd.DataFrame({"g": np.array([2**64 - 1], dtype=np.uint64)})
    released = read_rows(frame.dp.group_by("g", keys=[2**64 - 1, None]).count(epsilon=1e12))
    assert released == [(2**64 - 1, 1), (None, 0)]


def test_one_and_true_and_text_are_different_objects():
    """In an object column 1, 1.0, True and "1" are four keys, matched by type and value."""
    frame = pd.DataFrame({"g": pd.Series([1, 1.0, 1.0, True, True, True, "1"], dtype=object)})
    released = read_rows(frame.dp.group_by("g", keys=[1, 1.0, True, "1", 2]).count(epsilon=1e12))
    counts = {(type(key), key): count for key, count in released}
    assert counts == {(int, 1): 1, (float, 1.0): 2, (bool, True): 3, (str, "1"): 1, (int, 2): 0}


def test_public_keys_of_several_columns_are_tuples(engine):
    """Tuples name the groups of several columns, NULLs included; a short tuple is refused."""
    private = dfp.frame(engine(TABLE))
    keys = [("b", 2), ("b", None), ("a", 7), (None, 1)]
    released = private.group_by("g", "h", keys=keys).count(epsilon=1e12)
    counts = [count for _, count in read_rows(released)]
    assert counts == [1, 1, 0, 1]
    with pytest.raises(dfp.errors.InvalidKeysError):
        private.group_by("g", "h", keys=[("b",)])
    with pytest.raises(dfp.errors.InvalidKeysError):
        private.group_by("g", "h", keys=["b2"])


def test_keys_set_once_for_each_column_are_combined():
    """Keys given with the terms are combined over the columns; half of them are refused.

    Keys for each column name the columns to group by.
    """
    keys = {"g": ["a", "b"], "h": [1, 2]}
    private = dfp.frame(TABLE)(epsilon=1e12)
    for grouped in (private(keys=keys).group_by("g", "h"), private.group_by(keys=keys)):
        assert [c for _, c in read_rows(grouped.count())] == [1, 0, 0, 1]
    with pytest.raises(dfp.errors.InvalidKeysError):
        dfp.frame(TABLE)(keys={"g": ["a"]}).group_by("g", "h")


FAR_TIME = pd.Timestamp(np.datetime64("36812-02-20", "s"))
FAR_STEP = pd.Timedelta(np.timedelta64(2**50, "s"))
TIMED = {
    "datetime64[s]": FAR_TIME,
    "datetime64[us]": FAR_TIME,
    "datetime64[ms, UTC]": FAR_TIME.tz_localize("UTC"),
    "timestamp[s][pyarrow]": FAR_TIME,
    "duration[us][pyarrow]": FAR_STEP,
    "timedelta64[s]": FAR_STEP,
}


@pytest.mark.parametrize("dtype", TIMED)
def test_a_far_public_time_never_comes_out_as_another(dtype):
    """A time or difference beyond those of `datetime` is shown as it is, or refused."""
    far_time = TIMED[dtype]
    start = "1 day" if isinstance(far_time, pd.Timedelta) else "2020-01-01"
    column = pd.Series([start, start], dtype="timedelta64[s]" if start == "1 day" else None)
    if start != "1 day":
        column = pd.to_datetime(column)
    column = column.dt.tz_localize("UTC") if "UTC" in dtype else column
    frame = pd.DataFrame({"k": column.astype(dtype)})
    for source in (frame, pa.Table.from_pandas(frame)):
        grouped = dfp.frame(source).group_by("k", keys=[far_time])
        try:
            released = grouped.count(epsilon=1e9)
        except (dfp.errors.InvalidKeysError, dfp.UnsupportedDtypeError):
            continue
        assert released["k"].tolist() == [far_time]


@pytest.mark.parametrize(
    "keys", [[Decimal(1), 1], [1, True], [pd.Timestamp(0), pd.Timestamp(0).to_pydatetime()]]
)
def test_equal_keys_of_different_types_are_no_categories(keys, tmp_path):
    """They are refused at no charge: a column of objects has both, and categories have one."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    objects = pd.DataFrame({"g": pd.Series([*keys[:1], "a"] * 50, dtype=object)})
    private = dfp.frame(objects.astype("category"))(ledger=ledger, dataset="d")
    with pytest.raises(dfp.errors.InvalidKeysError, match="equal"):
        private.group_by("g", keys=[*keys, "a"]).count(epsilon=1)
    assert float(ledger.remaining("d").epsilon) == 1
    released = dfp.frame(objects).group_by("g", keys=keys).count(epsilon=1e9)
    assert released["count"].tolist() == [50, 0]
