"""Files know of what kind a ranked column is: whole numbers, dates, times or durations."""

import datetime as dt
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.partial.secret_files import rewritten
from tests.partial.test_damaged_files import change

START = dt.datetime(2013, 1, 1)  # noqa: DTZ001 the zone is that of the column
YEAR = (dt.date(2013, 1, 1), dt.date(2014, 1, 1))
KINDS = {
    "day": pa.date32(), "time": pa.timestamp("us"), "zoned": pa.timestamp("us", "Europe/Rome"),
    "clock": pa.time64("us"), "span": pa.duration("us"),
}  # fmt: skip
ASKED = {
    "day": dfp.median("day"),
    "a week": dfp.quantile("day", 0.9, YEAR, dt.timedelta(days=7)),
    "time": dfp.quantiles("time", [0.25, 0.5]),
    "last": dfp.max("time"),
    "fine": dfp.quantile("time", 0.9, (START, START + dt.timedelta(days=99, milliseconds=1))),
    "zoned": dfp.median("zoned", (START.replace(tzinfo=dt.UTC), START + dt.timedelta(366))),
    "clock": dfp.median("clock", (dt.time(8), dt.time(20)), dt.timedelta(minutes=15)),
    "span": dfp.median("span"),
    "bounded": dfp.median("span", (dt.timedelta(0), dt.timedelta(hours=50)), ends=True),
}


def rows(count=300, first=0):
    """Return times and what they are in columns of other kinds, some missing."""
    at = [START + dt.timedelta(minutes=k * 997 % 150_000) for k in range(first, first + count)]
    column_values = {
        "day": [moment.date() for moment in at], "time": at, "zoned": at,
        "clock": [moment.time() for moment in at], "span": [moment - START for moment in at],
    }  # fmt: skip
    columns = {
        name: pa.array(
            [None if k % 50 == 7 else value for k, value in enumerate(values)], KINDS[name]
        )
        for name, values in column_values.items()
    }
    return pa.table({"g": ["a", "b", "b"] * (count // 3), **columns})


ENGINES = {
    "arrow": lambda table: table,
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(types_mapper=arrow_dtype),
}


def arrow_dtype(kind):
    """Return the dtype in which pandas keeps a declared type of Arrow."""
    return pd.ArrowDtype(kind)


@pytest.mark.parametrize("by", [(), "g"])
def test_dates_in_files_are_those_of_one_pass(tmp_path, lab, replayed, by):
    """Quantiles of dates and times of files, of other engines too, are those of one frame."""
    parts = [rows(), rows(600, 300), rows(90, 900)]
    files = [
        dfp.statistics(make(part), tmp_path / f"{name}.parquet", by=by, **ASKED)
        for part, (name, make) in zip(parts, ENGINES.items(), strict=True)
    ]
    terms = {"epsilon": 40, **({"delta": 0.2} if by else {})}
    frame = dfp.frame(pa.concat_tables(parts))
    frame = frame.group_by("g") if by else frame
    expected = replayed(lambda: frame.agg(**ASKED, **terms))
    merged = replayed(lambda: dfp.merge(files, **terms))
    assert lab.shown(merged) == lab.shown(expected)


def test_whole_numbers_of_files_are_whole(tmp_path, lab, replayed):
    """A quantile of a column that is declared to hold integers is one of them, merged too."""
    table = pa.table({"x": pa.array([0, 1000] * 100)})  # what lies between has as good a rank
    questions = {"x": dfp.quantiles("x", [0.4, 0.5, 0.6])}
    path = dfp.statistics(table, tmp_path / "one.parquet", **questions)
    floats = pa.table({"x": pa.array([0.25, 1000.25] * 100)})
    mixed = [path, dfp.statistics(floats, tmp_path / "two.parquet", **questions)]
    both = dfp.frame(pa.concat_tables([table.cast(floats.schema), floats]))  # whole in one file
    asks = (lambda: both.agg(**questions, epsilon=5), lambda: dfp.merge(mixed, epsilon=5))
    expected, merged = ([float(number) for number in replayed(ask).values()] for ask in asks)
    assert merged == expected
    assert not all(number.is_integer() for number in expected)
    for epsilon in (0.05, 0.5, 5):
        ask = lambda epsilon=epsilon: dfp.frame(table).agg(**questions, epsilon=epsilon)  # noqa: E731
        merged = replayed(lambda epsilon=epsilon: dfp.merge(path, epsilon=epsilon))
        assert lab.shown(merged) == lab.shown(replayed(ask))


@pytest.mark.parametrize("other", ["time", "zoned", "clock", "span"])
def test_kinds_that_differ_do_not_go_together(tmp_path, other):
    """Files over a column of dates here and of times there are told apart, whatever they hold."""
    for count in (0, 90):
        paths = []
        for name in ("day", other):
            table = rows(count).select([name]).rename_columns(["x"])
            path = tmp_path / f"{name} {other} {count}.parquet"
            paths.append(dfp.statistics(table, path, dfp.median("x")))
        with pytest.raises(dfp.errors.StatisticsFileError, match="other kinds of columns"):
            dfp.merge(paths)


def test_bounds_of_another_kind_are_refused(tmp_path):
    """Bounds of dates over numbers are refused as on a frame, and no file is left."""
    table = pa.table({"x": [1.0, 2.0]})
    with pytest.raises(dfp.errors.InvalidBoundsError, match="holds no dates"):
        dfp.statistics(table, tmp_path / "one.parquet", dfp.median("x", YEAR))
    with pytest.raises(dfp.errors.InvalidBoundsError, match="own kind"):
        dfp.statistics(rows(), tmp_path / "one.parquet", dfp.median("day", (0, 9)))
    assert list(tmp_path.iterdir()) == []


def test_kinds_that_no_file_names_are_refused(tmp_path):
    """A header that was signed again with another kind of column does not fit together."""
    path = dfp.statistics(rows(), tmp_path / "one.parquet", dfp.median("day"))
    header = json.loads(pq.read_metadata(path).metadata[b"dfprivacy.header"])
    assert header["kinds"] == [["date", None]]
    wrong = [
        [], [None], [["whole numbers", None]], [["date", "Rome"]], [["month", None]], ["date"],
        [["time", None]], [["date", None]] * 2, [["date"]], [[]], None, 7, [{}],
    ]  # fmt: skip
    for number, kinds in enumerate(wrong):
        edited = rewritten(path, tmp_path / f"{number}.parquet", change(header, kinds=kinds))
        with pytest.raises(dfp.errors.StatisticsFileError, match="fit together"):
            dfp.merge(edited)
