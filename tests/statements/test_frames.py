"""Frames by name: what SQL sees of them depends on their declared types, and they come back."""

import datetime as dt
import enum
from collections import Counter
from decimal import Decimal
from pathlib import Path
from unittest.mock import Mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dfprivacy as dfp
from tests.frame_types import to_polars

TABLE = pa.table(
    {
        "city": ["Rome", "Oslo", None, "Rome"] * 50,
        "age": pa.array([30, 40, 50, None] * 50, pa.int64()),
        "day": [dt.date(2024, 1, 1), dt.date(2024, 2, 1), None, dt.date(2024, 1, 1)] * 50,
    }
)
QUERY = "SELECT city, dp_count(*) AS n, dp_mean(age, 0, 100) AS m FROM t GROUP BY city"
TERMS = {"epsilon": 1e13, "delta": 0.01}
WANTED = [("Oslo", 50, 40.0), ("Rome", 100, 30.0), (None, 50, 50.0)]


def rows(released):
    return [(r["city"], r["n"], round(r["m"], 4)) for r in to_polars(released).to_dicts()]


def csv(table, folder):
    path = folder / "t.csv"
    table.to_pandas().to_csv(path, index=False)
    return path


def parquet(table, folder):
    path = folder / "t.parquet"
    pyarrow.parquet.write_table(table, path)
    return str(path)


FRAMES = {
    "pandas": (lambda table, _: table.to_pandas(), pd.DataFrame),
    "polars": (lambda table, _: pl.DataFrame(table), pl.DataFrame),
    "polars lazy": (lambda table, _: pl.DataFrame(table).lazy(), pl.LazyFrame),
    "arrow": (lambda table, _: table, pa.Table),
    "batches": (lambda table, _: table.to_reader(), pa.Table),
    "duckdb": (lambda table, _: duckdb.connect().from_arrow(table), duckdb.DuckDBPyRelation),
    "csv": (csv, pa.Table),
    "parquet": (parquet, pa.Table),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame(kind, tmp_path):
    """Every frame is read by its name, and the result has its type."""
    make, frame_type = FRAMES[kind]
    frame = make(TABLE, tmp_path)
    released = dfp.sql(QUERY, T=frame, **TERMS)
    assert isinstance(released, frame_type)
    assert rows(released) == WANTED


def test_one_of_several():
    """Several frames may be passed; a statement reads one, and one alone."""
    other = pa.table({"x": [1]})
    assert rows(dfp.sql(QUERY, t=TABLE, u=other, **TERMS)) == WANTED
    with pytest.raises(dfp.RefusedStatementError, match="takes no argument 't'"):
        dfp.sql("SELECT dp_count(*) FROM t", con=duckdb.connect(), t=TABLE)
    with pytest.raises(dfp.RefusedStatementError, match="either a connection or frames"):
        dfp.sql("SELECT dp_count(*) FROM t")
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        dfp.sql("SELECT dp_count(*) FROM t", t=[1, 2])
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        dfp.sql("SELECT dp_count(*) FROM t", con="file.db")


@pytest.mark.parametrize("source", [{"t": TABLE}, {"con": duckdb.connect()}])
@pytest.mark.parametrize(
    ("term", "says"),
    [
        ({"epsilom": 0.1}, "did you mean 'epsilon'"),
        ({"max_row": 3}, "did you mean 'max_rows'"),
        ({"rho": 0.01}, "share an epsilon"),
        ({"bounds": {"x": (0, 1)}}, "bounds stand in the statement"),
        ({"tz": "Europe/Berlin"}, "its terms are"),
        ({"data_set": None}, "did you mean 'dataset'"),
    ],
)
def test_a_term_that_is_misspelt_is_no_frame(source, term, says):
    """A value that can't be a frame is refused, and never spends what the right name would not."""
    for ask in (dfp.sql, dfp.explain):
        with pytest.raises(dfp.RefusedStatementError, match=says):
            ask("SELECT dp_count(*) FROM t", **source, **term)
    with pytest.raises(dfp.RefusedStatementError, match="has no term"):
        dfp.connect({"t": TABLE}, **term).sql("SELECT dp_count(*) FROM t")


class Odd:
    def __str__(self):
        raise RuntimeError


class OddNumber(int):
    def __eq__(self, other):
        raise SystemExit

    def __hash__(self):
        raise SystemExit

    __str__ = __ne__ = __eq__


class City(enum.Enum):
    ROME = 1

    def __str__(self):
        raise SystemExit


def objects(*values):
    return pd.Series([*values], dtype=object)


COLUMNS = {
    "objects": (objects("a", 1, 2.5, None, float("nan"), b"x", Odd(), "\ud800"),
                ["a", "1", "2.5", None, None, "b'x'", None, "?"]),
    "hostile objects": (objects(Mock(spec=str), np.timedelta64(3, "D"), 10**5000, OddNumber(7),
                                City.ROME, [1], {1: 2}, (1, 2), Decimal("sNaN"), np.float64(2)),
                        [None, "3 days 00:00:00", None, "7", "ROME", *[None] * 4, "2.0"]),
    "floats": (pd.Series([1.0, np.nan, np.inf]), [1.0, None, np.inf]),
    "nullable": (pd.Series([1, None], dtype="Int64"), [1, None]),
    "category": (pd.Series(["x", None, "x"], dtype="category"), ["x", None, "x"]),
    "numbers as categories": (pd.Series([3, 4, 3]).astype("category"), [3, 4, 3]),
    "booleans": (pd.Series([True, False]), [True, False]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_pandas_columns(name):
    """A column has one type whatever is in it, and each value is converted by itself."""
    series, expected = COLUMNS[name]
    kinds = set()
    for length in range(1, len(series) + 1):
        frame = pd.concat([series.iloc[:length]] * 30).to_frame("x")
        released = dfp.sql("SELECT x, dp_count(*) AS n FROM t GROUP BY x", t=frame, **TERMS)
        released_counts = {
            None if pd.isna(x) else x: n for x, n in released.itertuples(index=False)
        }
        counts = Counter(expected[:length])
        assert released_counts == {key: 30 * times for key, times in counts.items()}
        kinds.add(str(released["x"].dtype))
    assert len(kinds) == 1


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1 + 2j]),
        pd.Series(pd.arrays.SparseArray([0, 1])),
        pd.period_range("2024", periods=1, freq="D").to_series(),
    ],
)
def test_dtypes_without_a_type(series):
    """A dtype that SQL has no type for is refused where the column is used, and only there."""
    frame = pd.DataFrame(
        {"x": series.to_numpy() if series.dtype.kind == "c" else series.array, "y": 1}
    )
    with pytest.raises(dfp.UnsupportedDtypeError, match="which SQL has no type for"):
        dfp.sql("SELECT dp_count(x) FROM t", t=frame)
    assert dfp.sql("SELECT dp_count(y) AS n FROM t", t=frame).shape == (1, 1)


def test_names_that_are_one():
    """Columns that SQL does not tell apart, and columns that are there twice, are refused."""
    with pytest.raises(dfp.MissingColumnError, match="names that are one to SQL"):
        dfp.sql("SELECT dp_count(*) FROM t", t=pd.DataFrame({"x": [1], "X": [2]}))
    with pytest.raises(dfp.MissingColumnError):
        dfp.sql("SELECT dp_count(x) FROM t", t=pd.DataFrame([[1, 2]], columns=["x", "x"]))


def test_answers_of_one_name_are_numbered():
    """Columns of one name in the result are numbered as DuckDB numbers them, in every frame."""
    query = "WITH r AS (SELECT dp_count(*) AS n FROM t) SELECT r.n, s.n FROM r JOIN r AS s ON true"
    for frame in (pd.DataFrame, pl.DataFrame):
        result = dfp.sql(query, t=frame({"x": [1]}))
        assert list(result.columns) == ["n", "n_1"]
    with duckdb.connect() as con:
        con.sql("CREATE TABLE t AS SELECT 1 AS x")
        result = dfp.sql(query, con=con)
    assert [*result.columns] == [*result.df().columns] == [*result.pl().columns] == ["n", "n_1"]


def test_polars_objects_and_categories():
    """Categories are text, whose levels are no part of a type; Python objects are refused."""
    levels = pl.Series(["a", "b"] * 20, dtype=pl.Categorical)
    frame = pl.DataFrame({"c": levels, "o": pl.Series([Odd()] * 40, dtype=pl.Object)})
    released = dfp.sql("SELECT c, dp_count(*) AS n FROM t GROUP BY c", t=frame, **TERMS)
    assert released.rows() == [("a", 20), ("b", 20)]
    assert released.schema["c"] == pl.String
    with pytest.raises(dfp.UnsupportedDtypeError):
        dfp.sql("SELECT dp_count(o) FROM t", t=frame)


def test_texts_of_a_file_are_numbers_where_asked(tmp_path):
    """A CSV file declares no types: its columns are text, and numbers where a call needs them."""
    path = tmp_path / "t.csv"
    path.write_text("city,age\n" + "Rome,30\nRome,n/a\nOslo,40\n" * 30)
    query = (
        "SELECT city, dp_mean(age, 0, 100) AS m, dp_count(age) AS n, dp_count(*) AS rows, "
        "dp_mean(CAST(age AS DOUBLE) / 10, 0, 10) AS tens FROM t GROUP BY city"
    )
    released = dfp.sql(query, t=path, **TERMS)
    answers = [tuple(row.values()) for row in released.to_pylist()]
    assert answers == [
        ("Oslo", pytest.approx(40), 30, 30, pytest.approx(4)),
        ("Rome", pytest.approx(30), 60, 60, pytest.approx(3)),
    ]
    with pytest.raises(dfp.errors.InvalidQuestionError, match="can't plan"):
        dfp.sql("SELECT dp_mean(age / 10, 0, 10) FROM t", t=path)


ORDER, QUOTIENT = "an order of texts of a file", "// or % of numbers with fractions"


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ("a > b", ORDER), ("a <= b", ORDER), ("greatest(a, b) = '9'", ORDER),
        ("CASE WHEN b < a THEN true END", ORDER), ("a BETWEEN b AND c", ORDER),
        ("CAST(a AS DOUBLE) > CAST(b AS DOUBLE)", 50), ("a > 9", 50), ("a = b", 0),
        ("day > '2024-01-01'", 50), ("b BETWEEN 3 AND a", 50),
        ("a // 2 = 5", QUOTIENT), ("(a + 1) // 2 = 5", QUOTIENT),
        ("CAST(a AS BIGINT) // 2 = 5", 50), ("a / 2 = 2.5", 50), ("a % 2 = 1", 50),
    ],
)  # fmt: skip
def test_texts_of_a_file_are_no_numbers_unless_it_is_said(tmp_path, condition, outcome):
    """Texts have another order than their numbers, and // of what may have a fraction would be /.

    What two undeclared columns are must be said to order them, and to divide one by //.
    """
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,day\n" + "10,9,8,2024-01-01\n5,6,7,2024-02-01\n" * 50)
    query = f"SELECT dp_count(*) AS n FROM t WHERE {condition}"
    if isinstance(outcome, str):
        with pytest.raises(dfp.RefusedStatementError, match=outcome):
            dfp.sql(query, t=path)
    else:
        assert dfp.sql(query, t=path, **TERMS)["n"].to_pylist() == [outcome]


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        ("t WHERE a = '1'", "t.a: write CAST(t.a AS DOUBLE) if '1' may"),
        ("t WHERE day IN ('2024-01-01', 'never')", "CAST(t.day AS TIMESTAMP) if '2024-01-01' may"),
        ("t WHERE NOT flag = 'TRUE'", "CAST(t.flag AS BOOLEAN) if 'TRUE' may"),
        ("t WHERE CASE a WHEN '07' THEN true END", "CAST(t.a AS DOUBLE) if '07' may"),
        ("t WHERE a = b", "t.a and t.b: write CAST(t.a AS DOUBLE) if a number may"),
        ("t JOIN u ON t.a = u.c", "t.a and u.c"), ("t JOIN u USING (a)", "t.a and u.a"),
        ("t WHERE a IN (SELECT c FROM u)", "t.a and u.c"),
        ("t WHERE a = 1", ""), ("t WHERE day = DATE '2024-01-01'", ""),
        ("t WHERE day = 'May 7'", ""), ("t WHERE flag", ""),
        ("t WHERE CAST(a AS DOUBLE) = CAST(b AS DOUBLE)", ""),
    ],
)  # fmt: skip
def test_it_is_said_that_texts_of_a_file_are_compared(tmp_path, caplog, rows, note):
    """'1' and '1.0' are equal to a reader that looks for types, and texts of a file here."""
    table, public = tmp_path / "t.csv", tmp_path / "u.csv"
    table.write_text("a,b,day,flag\n" + "1,1.0,2024-01-01,true\n" * 50)
    public.write_text("a,c\n1.0,1.0\n")
    dfp.sql(f"SELECT dp_count(*) AS n FROM {rows}", t=table, u=dfp.public(public))
    messages = [line for line in caplog.messages if "letter by letter" in line]
    assert bool(note) == len(messages) == len([line for line in messages if note in line])


def test_answers_about_decimal_commas_name_the_remedy(tmp_path, caplog, monkeypatch):
    """No text is a number then, which noisy counts say, and the SQL that is named reads them."""
    path = tmp_path / "t.csv"
    path.write_text("city;price\n" + "Rome;3,5\nOslo;4,5\n" * 2000)
    questions = [
        lambda: dfp.frame(path).mean("price", (0, 10), epsilon=1),
        lambda: dfp.sql("SELECT AVG(price) AS m FROM t", t=path, **TERMS),
    ]
    remedy = "CAST(replace(price, ',', '.') AS DOUBLE)"
    monkeypatch.setattr(dfp.errors, "WARNED", {"epsilon"})  # frames say so once in a process
    for ask in questions:
        caplog.clear()
        ask()
        (line,) = [text for text in caplog.messages if "texts of a file" in text]
        assert remedy.replace("price", "x") in line
    caplog.clear()
    released = dfp.sql(f"SELECT dp_mean({remedy}, 0, 10) AS m FROM t", t=path, **TERMS)
    assert released["m"].to_pylist() == pytest.approx([4])
    assert not any("texts of a file" in text for text in caplog.messages)


LEVELS = ["low", "mid", "high"]
ORDERED = {
    "polars": pl.DataFrame({"k": pl.Series(LEVELS * 9, dtype=pl.Enum(LEVELS))}),
    "pandas": pd.DataFrame({"k": pd.Categorical(LEVELS * 9, LEVELS, ordered=True)}),
    "duckdb": duckdb.sql(f"SELECT unnest({LEVELS * 9})::ENUM('low', 'mid', 'high') AS k"),
}


@pytest.mark.parametrize("kind", ORDERED)
@pytest.mark.parametrize(
    ("query", "is_noted"),
    [
        ("SELECT k, dp_count(*) AS n FROM t GROUP BY k", False),
        ("SELECT k, count(*) AS n FROM t GROUP BY k", False),
        ("SELECT k, dp_count(*) AS n FROM t GROUP BY k ORDER BY k DESC LIMIT 1", True),
        ("SELECT max(k) AS k FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", True),
        ("SELECT k, rank() OVER (ORDER BY k) AS r, count(*) FROM t GROUP BY k", True),
    ],
)
def test_categories_that_are_ordered_as_texts_have_a_note(caplog, kind, query, is_noted):
    """Released keys are texts: where a statement orders categories, it says so."""
    dfp.sql(query, t=ORDERED[kind], **TERMS)
    assert ("categories of 'k' are ordered and compared as texts" in caplog.text) == is_noted


@pytest.mark.parametrize("kind", [*ORDERED, "file"])
@pytest.mark.parametrize(
    "inner",
    [
        "SELECT u, max({k}) AS m FROM t GROUP BY u", "SELECT u, arg_min(u, {k}) FROM t GROUP BY u",
        "SELECT u, first(u ORDER BY {k}) FROM t GROUP BY u",
        "SELECT DISTINCT ON (u) * FROM t ORDER BY u, {k}",
        "SELECT row_number() OVER (PARTITION BY u ORDER BY {k}) AS n FROM t",
        "SELECT min({k}) OVER (PARTITION BY u) AS m FROM t",
        "SELECT 1 FROM t JOIN (SELECT u, {k} AS m FROM t) AS s ON s.u = t.u AND m < {k}",
    ],
)  # fmt: skip
def test_a_units_rows_have_no_order_by_texts(tmp_path, kind, inner):
    """Categories of a frame, and texts of a file, would be ordered as no reader of types does."""
    frame = tmp_path / "t.csv"
    frame.write_text("u,k\n" + "1,low\n2,mid\n" * 9)
    if kind != "file":
        add = {
            "polars": "with_columns(u=1)",
            "pandas": "assign(u=1)",
            "duckdb": "project('1 u, k')",
        }
        frame = eval(f"rows.{add[kind]}", {"rows": ORDERED[kind]})
    terms = {**TERMS, "unit": "u", "max_rows": 9, "max_groups": 1}
    query = f"SELECT dp_count(*) AS n FROM ({inner})"
    with pytest.raises(dfp.RefusedStatementError, match=r"an order of (texts|categories) of a"):
        dfp.sql(query.format(k="k"), t=frame, **terms)
    dfp.sql(query.format(k="CAST(k AS VARCHAR)"), t=frame, **terms)


def test_categories_of_a_table_have_their_order_in_a_units_rows(caplog):
    """The engine knows it there; only released keys are texts, which a note says."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT i % 500 AS u, "
        "['low', 'mid', 'high'][1 + i % 3]::ENUM('low', 'mid', 'high') AS k FROM range(1000) r(i)"
    )
    query = "SELECT k, count(*) AS n FROM (SELECT u, max(k) AS k FROM t GROUP BY u) GROUP BY k"
    released = dfp.sql(f"{query} ORDER BY k", con=con, unit="u", max_rows=2, max_groups=1, **TERMS)
    assert sorted(released.fetchall()) == sorted(con.sql(query).fetchall())
    assert "categories of 'k' are ordered and compared as texts" in caplog.text


@pytest.mark.parametrize(
    ("key", "query", "is_noted"),
    [
        ("month", "SELECT month, dp_count(*) FROM t GROUP BY month ORDER BY month LIMIT 3", True),
        ("city", "SELECT city, dp_count(*) FROM t GROUP BY city ORDER BY city LIMIT 3", False),
        ("month", "SELECT month, dp_count(*) FROM t GROUP BY month", False),
        ("m", "SELECT month::INTEGER AS m, dp_count(*) FROM t GROUP BY m ORDER BY m", False),
    ],
)
def test_numbers_of_a_file_that_are_ordered_as_texts_have_a_note(
    tmp_path, caplog, key, query, is_noted
):
    """Keys of a CSV file are texts, and the tenth month comes before the second."""
    path = tmp_path / "t.csv"
    path.write_text("month,city\n" + "".join(f"{i % 12 + 1},{i % 3}\n" for i in range(240)))
    dfp.sql(query, t=path, **TERMS)
    assert (f"numbers of {key!r} are texts of a file" in caplog.text) == is_noted


def test_only_what_is_named_is_read():
    """Columns that a statement does not name are not converted, let alone read."""
    wide = pl.LazyFrame({"x": [1.0] * 9}).with_columns(
        pl.col("x").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64).alias("broken")
    )
    assert dfp.sql("SELECT dp_count(x) AS n FROM t", t=wide).collect().shape == (1, 1)
    with pytest.raises(dfp.EngineError):
        dfp.sql("SELECT dp_count(broken) AS n FROM t", t=wide)
    assert dfp.explain("SELECT dp_count(broken) AS n FROM t", t=wide).epsilon == 1


def test_durations_come_back_as_durations(tmp_path):
    """Intervals that a statement makes are durations in frames of every kind, nested ones too."""
    days = pa.array([3 * 86_400] * 1000, pa.duration("s"))
    table = pa.table({"city": ["Rome", "Oslo"] * 500, "stay": days})
    query = """
        SELECT city, dp_median(stay, INTERVAL 0 DAY, INTERVAL '8' DAY) AS stay,
            dp_max(stay) + INTERVAL 1 DAY AS most, dp_quantiles(stay, [0.1, 0.9]) AS several,
            dp_median_interval(stay) AS own, INTERVAL 1 MONTH AS month
        FROM t GROUP BY city
    """
    for make, kind in FRAMES.values():
        if make in (csv, parquet):
            continue
        release = dfp.sql(query, t=make(table, tmp_path), **TERMS)
        assert isinstance(release, kind)
        if isinstance(release, duckdb.DuckDBPyRelation):
            assert list(map(str, release.types))[1:3] == ["INTERVAL", "INTERVAL"]
            continue
        for _, stay, longest, quantiles, interval, month in to_polars(release).rows():
            durations = [stay, longest - dt.timedelta(1), *quantiles, interval["value"], month / 10]
            assert all(
                abs(duration - dt.timedelta(3)) < dt.timedelta(minutes=5) for duration in durations
            )


def test_a_column_called_version_is_no_version(tmp_path):
    """A frame with such a column is asked anew each time, as no state of its data is named."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=10, remember=True)
    frame = pd.DataFrame({"version": [1.0]})
    with dfp.spending(ledger, dataset="d"):
        for _ in range(2):
            dfp.sql("SELECT dp_sum(version, 0, 2) AS s FROM t", t=frame, epsilon=1)
    assert ledger.remaining("d").epsilon == 8


@pytest.mark.parametrize("write", [csv, parquet])
@pytest.mark.parametrize(
    "ask",
    [
        lambda path, **terms: dfp.sql("SELECT dp_count(*) AS n FROM t", t=path, **terms),
        lambda path, **terms: dfp.frame(path)(**terms).mean("age", (0, 100)),
    ],
)
def test_a_file_that_goes_before_it_is_read_is_named(tmp_path, write, ask):
    """A file of any kind that is gone when its rows are read is named, and costs nothing."""
    path = Path(write(TABLE, tmp_path))

    class RemovingLedger(dfp.Ledger):
        def check(self, *args, **kwargs):
            path.unlink()
            super().check(*args, **kwargs)

    ledger = RemovingLedger(tmp_path / "b.db", epsilon=9)
    with pytest.raises(dfp.errors.UnsupportedFrameError, match=path.name):
        ask(path, ledger=ledger, dataset="d")
    assert ledger.datasets() == []


@pytest.mark.parametrize("kind", [pa.string_view(), pa.list_(pa.int64())])
@pytest.mark.parametrize("rows", [0, 5])
def test_a_dictionary_that_arrow_can_not_take_out_is_refused_by_its_type(kind, rows):
    """It is no failure of the engine; other columns of the table are answered."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.nulls(1, kind))
    table = pa.table({"g": values, "x": [1.0] * rows})
    with pytest.raises(dfp.UnsupportedDtypeError, match="'g'"):
        dfp.sql("SELECT count(g) FROM t", t=table, epsilon=1)
    answer = dfp.sql("SELECT count(x) FROM t", t=table, epsilon=1e12)
    assert answer.to_pylist() == [{"count(x)": rows}]
