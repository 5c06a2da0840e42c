"""Quantiles of dates, times and durations: the column's own type, on its own whole numbers."""

# ruff: noqa: DTZ001  the zone is that of the column

import copy
import datetime as dt
import pickle
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.frame_types import make_database, to_arrow

EXACT = {"epsilon": 1e7}
ROWS = 3000
START = dt.datetime(1969, 3, 1)
MOMENTS = [START + dt.timedelta(seconds=k * 10_007 % 50_000_000) for k in range(ROWS)]
TABLE = pa.table(
    {
        "time": pa.array(MOMENTS, pa.timestamp("us")),
        "nano": pa.array(MOMENTS, pa.timestamp("ns")),
        "zoned": pa.array(MOMENTS, pa.timestamp("us", "Europe/Rome")),
        "day": pa.array([moment.date() for moment in MOMENTS], pa.date32()),
        "clock": pa.array([moment.time() for moment in MOMENTS], pa.time64("us")),
        "span": pa.array([moment - MOMENTS[500] for moment in MOMENTS], pa.duration("us")),
        "group": pa.array([k % 2 for k in range(ROWS)]),
    }
)
PLAIN = {
    "date": dt.date, "time": dt.datetime, "time of day": dt.time, "duration": dt.timedelta,
}  # fmt: skip
SECONDS = dt.timedelta(seconds=50)
COLUMNS = [name for name in TABLE.column_names if name != "group"]


def frames(path) -> dict[str, object]:
    """Return the same rows in every type of frame."""
    pq.write_table(TABLE, path / "rows.parquet")
    return {
        "polars": pl.from_arrow(TABLE),
        "lazy": pl.from_arrow(TABLE).lazy(),
        "pandas": TABLE.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas of numpy": TABLE.select(["time", "nano", "zoned", "span", "group"]).to_pandas(),
        "duckdb": make_database(rows=TABLE).table("rows"),
        "arrow": TABLE,
        "reader": TABLE.to_reader(),
        "file": str(path / "rows.parquet"),
    }


def find_kind(kind: pa.DataType) -> str | None:
    """Return the kind of a declared type, by the words of `PLAIN`."""
    tests = {
        "date": pa.types.is_date, "time": pa.types.is_timestamp, "time of day": pa.types.is_time,
        "duration": pa.types.is_duration,
    }  # fmt: skip
    return next((word for word, holds in tests.items() if holds(kind)), None)


def count_ticks(values: pa.Array | pa.ChunkedArray) -> list[int | None]:
    """Return dates in days, all else in microseconds."""
    if pa.types.is_date(values.type):
        return values.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if pa.types.is_interval(values.type):
        return [
            interval.nanoseconds // 1000 + interval.days * 86_400_000_000
            for interval in values.to_pylist()
        ]
    kinds = {"date": pa.date32(), "time of day": pa.time64("us"), "duration": pa.duration("us")}
    zone = getattr(values.type, "tz", None)
    target = kinds.get(find_kind(values.type), pa.timestamp("us", zone))
    return values.cast(target, safe=False).cast(pa.int64()).to_pylist()


def is_near(column: str, answer: int, rows: list[int], rank: int) -> bool:
    """Check whether an answer lies between the rows of a rank, to the precision of its column."""
    step = {"day": 1, "span": 2**31}.get(column, 10**6)  # a bin of 16 bits, half a year
    return rows[rank - 1] - step <= answer <= rows[rank] + step


@pytest.mark.parametrize("column", COLUMNS)
def test_quantiles_are_those_of_the_rows_in_the_columns_own_type(column, tmp_path):
    """At every door, whole and by group, with ends; a false alarm below 1e-6 for each."""
    ticks = sorted(count_ticks(TABLE[column]))
    kind = TABLE[column].type
    for name, frame in frames(tmp_path).items():
        if name == "pandas of numpy" and column in {"day", "clock"}:
            continue  # no dtype of numpy holds those
        private = dfp.frame(frame)
        if name != "reader":
            answer = private.median(column, ends=True, **EXACT)
            assert isinstance(answer, PLAIN[find_kind(kind)]), name
            utc_answer = (
                pa.array([answer]).cast(pa.timestamp("us", "UTC")) if column == "zoned" else None
            )
            plain = pa.array([answer], kind if column != "nano" else pa.timestamp("us"))
            (tick,) = count_ticks(plain if utc_answer is None else utc_answer)
            assert is_near(column, tick, ticks, ROWS // 2), name
            assert answer.low <= answer <= answer.high
        by = private.group_by("group", keys=[0, 1]).quantile(column, 0.9, ends=True, **EXACT)
        table = to_arrow(by)
        for group, low, answer, high in zip(
            table["group"].to_pylist(),
            *(count_ticks(table[end]) for end in ("low", column, "high")),
            strict=True,
        ):
            rows = sorted(
                count_ticks(TABLE[column].filter(pa.compute.equal(TABLE["group"], group)))
            )
            assert is_near(column, answer, rows, ROWS * 9 // 20), name
            assert low <= answer <= high
        released = table[column].type
        assert find_kind(released) == find_kind(kind) or pa.types.is_interval(released), name
        assert bool(getattr(released, "tz", None)) == (column == "zoned")
        if name in {"polars", "lazy", "arrow", "pandas", "file"} and column == "zoned":
            assert released.tz == "Europe/Rome"


@pytest.mark.parametrize("column", COLUMNS)
def test_all_engines_count_the_same_whole_numbers(column, tmp_path):
    """A value is the multiple at or before it, up to the next row; NULL is left out."""
    lower, upper, step = {
        "date": (dt.date(1969, 6, 1), dt.date(1970, 3, 3), dt.timedelta(days=7)),
        "time": (dt.datetime(1969, 6, 1, 0, 0, 7), dt.datetime(1970, 3, 3), SECONDS),
        "time of day": (dt.time(5), dt.time(22), SECONDS),
        "duration": (-dt.timedelta(days=30), dt.timedelta(days=40), SECONDS),
    }[find_kind(TABLE[column].type)]
    if column == "zoned":  # DuckDB has the zone of the session
        lower, upper = lower.replace(tzinfo=dt.UTC), upper.replace(tzinfo=dt.UTC)
    ends = pa.array([lower, upper], TABLE[column].type)
    (first, last), unit = count_ticks(ends), step.days or step.seconds * 10**6
    expected = sorted(
        first + (min(max(tick, first), last) - first) // unit * unit
        for tick in count_ticks(TABLE[column])
        if tick is not None
    )
    ranks = range(3, len(expected), len(expected) // 20)
    levels = [(rank + 0.5) / len(expected) for rank in ranks]
    for name, frame in frames(tmp_path).items():
        if name == "reader" or (name == "pandas of numpy" and column in {"day", "clock"}):
            continue
        private = dfp.frame(frame)
        arguments = {"bounds": (lower, upper), "step": step, "epsilon": 1e9}
        answers = list(private.quantiles(column, levels, **arguments))
        zoned = pa.timestamp("us", "UTC") if column == "zoned" else None
        answers = count_ticks(pa.array(answers, zoned or ends.type))
        pairs = zip(answers, ranks, strict=True)  # all between two rows have the same rank
        assert all(expected[rank] <= value <= expected[rank + 1] for value, rank in pairs), name


def test_too_few_rows_are_missing_in_every_frame():
    """A column of dates holds no NaN: what is unknown is missing; a single answer is None."""
    rows = pl.DataFrame({"day": [dt.date(2013, 1, 1)] * 5, "group": [0] * 5})
    for frame in (rows, rows.to_pandas(), rows.to_arrow()):
        assert frame is rows or not isinstance(frame, pl.DataFrame)
        private = dfp.frame(frame)
        answers = [private.median("day", ends=True, epsilon=1)]
        answers += private.quantiles("day", [0.2, 0.5], epsilon=1)
        assert answers == [None] * 3
        for nothing in (answers[0], answers[1:]):
            with pytest.raises(dfp.errors.InvalidQuestionError, match="no answer to show"):
                dfp.show(nothing)
        table = to_arrow(private.group_by("group", keys=[0]).median("day", ends=True, epsilon=1))
        assert [table[name].to_pylist() for name in ("day", "low", "high")] == [[None]] * 3


def test_an_answer_is_a_date_that_knows_its_cost(tmp_path):
    """It is copied with its cost, and plain once something is computed from it."""
    frame = pl.DataFrame(
        {"day": [dt.date(2013, 1, 1) + dt.timedelta(k // 10) for k in range(3650)]}
    )
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, remember=True)
    private = frame.dp(ledger=ledger, dataset="d", version="1")
    answer = private.median("day", ends=True, epsilon=1)
    assert isinstance(answer, dt.date)
    assert answer.epsilon == 1
    assert answer.low <= dt.date(2013, 7, 2) <= answer.high
    assert repr(answer).startswith(f"day {answer} [{answer.low}, {answer.high}] at 95%, epsilon=1")
    for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert (other, other.low, other.epsilon) == (answer, answer.low, 1)
    assert type(answer + dt.timedelta(days=1)) is dt.date
    again = private.median("day", ends=True, epsilon=1)
    assert (again, again.low, again.high) == (answer, answer.low, answer.high)
    assert ledger.remaining("d").epsilon == 9
    assert str(answer) in dfp.show(answer).to_html()
    assert str(answer) in repr(dfp.show([None, answer]))


def test_infinite_and_far_times_are_the_ends():
    """They fail no engine; what no microseconds hold is left out, or the first or last moment."""
    connection = duckdb.connect()
    kinds = ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"]
    for kind in kinds:
        extreme = "'290000-01-01'" if kind in {"TIMESTAMP", "DATE"} else "'infinity'"
        values = (
            f"['infinity'::{kind}, '-infinity'::{kind}, '2020-01-02'::{kind}, {extreme}::{kind}]"
        )
        rows = connection.sql(f"SELECT unnest({values}) AS x FROM range(900)")
        median = dfp.frame(rows).quantile("x", 0.4, **EXACT)
        assert (median.year, median.month, median.day) == (2020, 1, 2), kind
        assert dfp.frame(rows).quantile("x", 0.9, **EXACT).year in {9999, 2262}
        assert dfp.frame(rows).quantile("x", 0.1, **EXACT).year in {1, 1677}
    for kind in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")):
        times = pa.array([2**63 - 1, 1 - 2**63, 0] * 900, kind)
        assert dfp.frame(pa.table({"x": times})).quantile("x", 0.5, **EXACT).year == 1970


@pytest.mark.parametrize("rows", [0, 3000])
@pytest.mark.parametrize(
    ("column", "arguments", "error"),
    [
        ("day", {"bounds": (0, 1)}, "InvalidBoundsError"),
        ("group", {"bounds": (dt.date(2013, 1, 1), dt.date(2014, 1, 1))}, "InvalidBoundsError"),
        ("day", {"step": dt.timedelta(hours=5)}, "InvalidQuestionError"),
        ("clock", {"bounds": (dt.date(2013, 1, 1), dt.date(2014, 1, 1))}, "InvalidBoundsError"),
        ("time", {"bounds": (dt.date(2014, 1, 1), dt.date(2013, 1, 1))}, "InvalidBoundsError"),
        ("span", {"step": dt.timedelta(hours=1)}, "InvalidQuestionError"),
        ("time", {"step": dt.timedelta(microseconds=1)}, "InvalidQuestionError"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_declared_type(
    rows, column, arguments, error, tmp_path
):
    """On any rows alike, before anything is charged, and by explain where it knows the type."""
    frame = pl.from_arrow(TABLE.slice(0, rows))
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10)
    with pytest.raises(getattr(dfp.errors, error)):
        frame.dp(ledger=ledger, dataset="d").median(column, epsilon=1, **arguments)
    with pytest.raises(dfp.UnsupportedDtypeError):
        frame.dp(ledger=ledger, dataset="d").inverse_quantile("day", 0.5, epsilon=1)
    assert ledger.remaining("d").epsilon == 10
    with pytest.raises(getattr(dfp.errors, error)):
        frame.dp.explain.median(column, epsilon=1, **arguments)


def test_bounds_and_steps_are_answers_and_need_fewer_rows():
    """Answers are multiples of the step from the lower bound on; explain names the rows needed."""
    year = (dt.date(2013, 1, 1), dt.date(2014, 1, 1))
    frame = pl.DataFrame(
        {"t": [dt.datetime(2013, 1, 1) + dt.timedelta(hours=k) for k in range(8760)]}
    )
    median = frame.dp.median("t", bounds=year, step=dt.timedelta(hours=6), epsilon=1)
    assert (median - dt.datetime(2013, 1, 1)) % dt.timedelta(hours=6) == dt.timedelta(0)
    assert abs(median - dt.datetime(2013, 7, 2)) < dt.timedelta(days=3)
    (anywhere,) = frame.dp.explain.median("t", epsilon=1).answers
    (within,) = frame.dp.explain.median("t", bounds=year, epsilon=1).answers
    assert within.answered.half < 30 < 50 < anywhere.answered.half < 80
    assert frame.dp(bounds={"t": year}).explain.median("t", epsilon=1).answers == (within,)


MIXED = [(k % 3, k % 40 - 9) for k in range(400)]
"""Months and days of intervals; the days of a month are 30."""

FAR_APART = ["to_days(2147483647) + to_months(-71582788)", "to_days(2147483647)", "NULL"]
FAR_APART += ["to_months(-2147483648) + to_microseconds(-9223372036854775808)"]


@pytest.mark.parametrize("row", FAR_APART)
def test_intervals_of_months_and_days_rank_as_they_last(row):
    """DuckDB's intervals are ranked as the time that they last, and none fails."""
    connection = duckdb.connect()
    rows = ", ".join(f"(to_months({months}) + to_days({days}))" for months, days in MIXED)
    connection.execute(f"CREATE TABLE spans AS SELECT v FROM (VALUES {rows}, ({row})) r(v)")
    lasting = sorted(30 * months + days for months, days in MIXED)
    query = (
        "SELECT dp_median(v), dp_quantile(v, 0.9, INTERVAL (-9) DAY, INTERVAL 90 DAY) FROM spans"
    )
    answers = [
        *dfp.sql(query, con=connection, **EXACT).fetchall(),
        tuple(
            dfp.frame(connection.table("spans")).quantile("v", q, bounds=bounds, **EXACT)
            for q, bounds in [(0.5, None), (0.9, (dt.timedelta(-9), dt.timedelta(90)))]
        ),
    ]
    for median, ninth in answers:
        assert abs(median - dt.timedelta(lasting[200])) <= dt.timedelta(days=1)
        assert abs(ninth - dt.timedelta(lasting[360])) <= dt.timedelta(days=1)


def test_statements_compute_with_answers_that_are_dates():
    """dfp.sql has the type before a row is read: conditions, orders and fields are of dates."""
    text = """SELECT "group", dp_median(day) AS middle, dp_median_interval(day).low AS low
        FROM rows GROUP BY "group" HAVING dp_median(day) > DATE '1969-06-01' ORDER BY middle DESC"""
    table = dfp.sql(text, rows=TABLE, epsilon=1e7, delta=1e-6)
    assert table.schema.types[1:] == [pa.date32(), pa.date32()]
    assert table.num_rows == 2
    bounds = "DATE '1969-06-01', DATE '1970-06-01'"
    within = dfp.sql(f"SELECT dp_median(time, {bounds}) AS x FROM rows", rows=TABLE, epsilon=1e7)
    assert within.schema.types == [pa.timestamp("us")]


def rank_errors(values: np.ndarray, released: pl.DataFrame, size: int) -> np.ndarray:
    """Return how far each group's median is off in ranks."""
    rows = np.sort(values.reshape(-1, size), axis=1)
    medians = released["x"].to_numpy()
    below = np.array([np.searchsorted(*pair, "left") for pair in zip(rows, medians, strict=True)])
    upto = np.array([np.searchsorted(*pair, "right") for pair in zip(rows, medians, strict=True)])
    return np.maximum(0, np.maximum(below - size / 2, size / 2 - upto))


@pytest.mark.parametrize("unit", ["D", "us"])
def test_medians_of_2013_are_off_by_as_many_ranks_as_those_of_floats(unit):
    """Of evenly spread dates and times, groups of 1,000, epsilon 1; floats spread as much.

    The mean of 400 errors of mean 1.5 ranks is off by 30 % with probability below 1e-6.
    """
    groups, size = 400, 1000
    numbers = np.random.default_rng(5).uniform(0, 365, groups * size)
    start = np.datetime64("2013-01-01", "us")
    moments = (start + (numbers * 86_400_000_000).astype("timedelta64[us]")).astype(f"M8[{unit}]")
    keys = np.repeat(np.arange(groups), size)
    off = []
    for values in (moments, numbers):
        frame = pl.DataFrame({"x": values, "g": keys})
        released = frame.dp.group_by("g", keys=range(groups)).median("x", epsilon=1)
        assert released["x"].null_count() == 0
        off.append(rank_errors(values, released, size).mean())
    assert off[0] <= 1.6 * off[1] + 0.3


def _midnights(zone, unit, kind):
    """Return a thousand rows of one midnight in a zone, as a kind of frame."""
    times = pd.Series([pd.Timestamp("2024-01-01", tz=zone)] * 1000).dt.as_unit(unit)
    table = pa.Table.from_pandas(pd.DataFrame({"at": times}))
    if kind == "arrow":
        return duckdb.connect().from_arrow(table)
    return pl.from_arrow(table) if kind == "polars" else table.to_pandas()


@pytest.mark.parametrize("unit", ["us", "ns", "ms"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_times_with_and_without_a_zone_are_not_mixed_up(kind, unit):
    """A key or bound has a zone as the column has; a bound without one is in the column's zone."""
    plain = dt.datetime(2024, 1, 1)
    zoned = plain.replace(tzinfo=ZoneInfo("America/New_York"))
    for zone, right, wrong in ((None, plain, zoned), ("America/New_York", zoned, plain)):
        private = dfp.frame(_midnights(zone, unit, kind))
        for key in (wrong, pd.Timestamp(wrong)):
            with pytest.raises(dfp.errors.InvalidKeysError, match="does not fit the group column"):
                private.group_by("at", keys=[key]).count(**EXACT)
        counts = private.group_by("at", keys=[right]).count(**EXACT)
        assert (counts if kind != "arrow" else counts.pl())["count"][0] == 1000
        day = dt.timedelta(days=1)
        for bounds in ((right, right + day), (plain.date(), (plain + day).date())):
            assert private.median("at", bounds=bounds, **EXACT).timestamp() == right.timestamp()
    with pytest.raises(dfp.errors.InvalidBoundsError, match="'at' has no time zone"):
        dfp.frame(_midnights(None, unit, kind)).median("at", bounds=(zoned, zoned + day), **EXACT)


@pytest.mark.parametrize("convert", [pl.DataFrame.to_pandas, pl.DataFrame.clone])
def test_times_of_units_keep_their_seconds(convert):
    """Where all rows of units hold one time, the median is that time, which 24 bits don't hold."""
    when = dt.datetime(2013, 5, 17, 9, 30, 1)
    frame = convert(pl.DataFrame({"u": range(3000), "t": [when] * 3000}))
    answer = dfp.frame(frame)(unit="u", max_rows=2).median("t", epsilon=50)
    assert answer == when
