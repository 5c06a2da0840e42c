"""dfp.connect: PEP 249, the price of every other door, and nothing but released answers."""

import datetime as dt
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dfprivacy as dfp
from benchmarks.releases import replayed
from dfprivacy import dbapi
from tests.command_line import command
from tests.frame_types import make_database

BY = "SELECT carrier, dp_mean(delay, 0, 60) AS d, dp_count(*) AS n FROM flights GROUP BY carrier"
TABLE = pa.table(
    {
        "carrier": [["AA", "DL", "UA"][i % 3] for i in range(3000)],
        "delay": [float(i % 50) for i in range(3000)],
        "plane": [i % 100 for i in range(3000)],
        "day": [dt.date(2024, 1, 1 + i % 20) for i in range(3000)],
    }
)
TERMS = {"epsilon": 1, "delta": 1e-6}


@pytest.fixture
def places(tmp_path):
    """One table at every place that a connection can be made to."""
    pyarrow.parquet.write_table(TABLE, tmp_path / "flights.parquet")
    connection = duckdb.connect(str(tmp_path / "flights.duckdb"))
    connection.register("handed", TABLE)
    connection.execute("CREATE TABLE flights AS FROM handed")
    connection.close()
    return {
        "file": tmp_path / "flights.duckdb",
        "connection": make_database(flights=TABLE),
        "frames": {"flights": pl.DataFrame(TABLE)},
        "paths": {"flights": tmp_path / "flights.parquet"},
        "parquet": str(tmp_path / "flights.parquet"),
    }


@pytest.mark.parametrize("kind", ["file", "connection", "frames", "paths", "parquet"])
def test_every_place_answers_the_same(places, kind):
    """Whatever the place, a statement has the answers of dfp.sql for the same random bytes."""
    with replayed("connect"):
        expected = dfp.sql(BY, flights=TABLE, **TERMS).to_pylist()
    with replayed("connect"), dfp.connect(places[kind], **TERMS) as con:
        result = con.sql(BY)
    assert result.arrow().to_pylist() == expected
    assert result.df().to_dict("records") == expected
    assert result.pl().to_dicts() == expected
    with replayed("connect"), dfp.connect(places[kind], **TERMS) as con:
        assert con.cursor().execute(BY).df().to_dict("records") == expected
    assert pl.DataFrame(result).to_dicts() == expected
    assert [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()] == expected
    assert [result.fetchone(), *[result.fetchone() for _ in expected]] == [*result, None]
    assert len(result) == len(expected)
    assert "\nepsilon=1, delta=1e-06\nGroups with a noisy count below" in repr(result)


def test_doors_have_one_price(places, tmp_path):
    """dfp.sql, a connection and the command charge a ledger the same for one text."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=10, delta=1e-3)
    paid = {"ledger": ledger, **TERMS}
    dfp.sql(BY, flights=TABLE, dataset="sql", **paid)
    con = dfp.connect(places["frames"], dataset="connect", **paid)
    con.cursor().execute(BY)
    words = ("--table", f"flights={places['parquet']}", "--delta", 1e-6)
    book = ("--ledger", tmp_path / "b.db", "--dataset", "command")
    ran = command("sql", BY, *words, *book, columns=120)
    assert ran.exit_code == 0, ran.stderr
    assert "carrier" in ran.stdout
    spent = [ledger.spent(name) for name in ("sql", "connect", "command")]
    assert spent == [dfp.Budget(epsilon=1.0, delta=1e-6)] * 3
    assert con.explain(BY).epsilon == dfp.explain(BY, flights=TABLE, **TERMS).epsilon == 1


def test_cursor_is_that_of_pep_249(places):
    """Rows come once and in order; description names and types; closing ends it."""
    con = dbapi.connect(places["frames"], **TERMS)
    cursor = con.cursor()
    assert (cursor.description, cursor.rowcount, cursor.arraysize) == (None, -1, 1)
    with pytest.raises(dbapi.Error):
        cursor.fetchone()
    assert cursor.execute(BY) is cursor
    names, kinds, *nothing = zip(*cursor.description, strict=True)
    assert names == ("carrier", "d", "n")
    assert kinds == (pa.string(), pa.float64(), pa.int64())
    assert nothing == [(None, None, None)] * 5
    assert cursor.rowcount == 3
    first, (second,), rest = cursor.fetchone(), cursor.fetchmany(), cursor.fetchmany(5)
    assert [row[0] for row in (first, second, *rest)] == ["AA", "DL", "UA"]
    assert (cursor.fetchone(), cursor.fetchall(), cursor.fetchmany(2)) == (None, [], [])
    assert [row[0] for row in cursor.execute(BY)] == ["AA", "DL", "UA"]
    con.commit()
    con.rollback()
    cursor.setinputsizes([])
    cursor.setoutputsize(9)
    with pytest.raises(dbapi.NotSupportedError):
        cursor.executemany(BY, [])
    cursor.close()
    con.close()
    for ended in (cursor.fetchall, lambda: cursor.execute(BY), con.cursor, lambda: con.sql(BY)):
        with pytest.raises(dbapi.Error):
            ended()


def test_errors_are_those_of_pep_249(places):
    """A wrong question is a ProgrammingError, a fault of machines or budgets is operational."""
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    kinds = [dbapi.DataError, dbapi.OperationalError, dbapi.IntegrityError, dbapi.InternalError,
             dbapi.ProgrammingError, dbapi.NotSupportedError]  # fmt: skip
    assert all(issubclass(kind, dbapi.DatabaseError) for kind in kinds)
    assert all(issubclass(k, dbapi.Error) for k in (dbapi.DatabaseError, dbapi.InterfaceError))
    pep_249 = (dfp.DPError, dbapi.DatabaseError, dbapi.InterfaceError)
    for name, kind in vars(dfp.errors).items():
        if isinstance(kind, type) and issubclass(kind, dfp.DPError) and kind not in pep_249:
            assert issubclass(kind, dbapi.DatabaseError), name
    cursor = dbapi.connect(places["frames"], **TERMS).cursor()
    for query in ("SELECT * FROM flights", "nonsense", "SELECT dp_count(nope) FROM flights"):
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute(query)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("condition", "parameters", "constant_condition"),
    [
        ("delay >= ?", [25], "delay >= 25"),
        ("carrier = ? OR carrier = ?", ("AA", "it's"), "carrier IN ('AA', 'it''s')"),
        ("day < $2 AND delay < $1", [9.5, dt.date(2024, 1, 5)],
         "day < DATE '2024-01-05' AND delay < 9.5"),
        ("carrier = ANY(?)", [["AA", "UA"]], "carrier IN ('AA', 'UA')"),
        ("(delay > 3) = ? OR ? IS NULL", [True, 1], "delay > 3"),
        ("delay > ? AND delay < ?", [np.float64(1.5), np.int64(9)], "delay > 1.5 AND delay < 9"),
    ],
)  # fmt: skip
def test_parameters_are_constants(places, condition, parameters, constant_condition):
    """A statement with parameters is the statement with its constants: question, rows, price."""
    con = dfp.connect(places["frames"], epsilon=1e13)
    cursor = con.cursor().execute(f"SELECT dp_count(*) FROM flights WHERE {condition}", parameters)
    exact = duckdb.from_arrow(TABLE).filter(constant_condition).count("*").fetchall()[0]
    assert cursor.fetchone() == exact


@pytest.mark.parametrize("parameters", [[], [1, 2], "1", {"a": 1}, [[1]], [float("nan")], [b"x"],
                                   [10**5000], [Decimal("sNaN")], np.array([1, 2]), 7])  # fmt: skip
def test_wrong_parameters_are_refused(places, parameters):
    """Parameters that have no place, or are no plain constants, cost nothing."""
    con = dfp.connect(places["frames"], epsilon=1)
    with pytest.raises(dbapi.ProgrammingError):
        con.execute("SELECT dp_count(*) FROM flights WHERE delay > ?", parameters)


@pytest.mark.filterwarnings("ignore:pandas only supports")
def test_pandas_reads_it(places):
    """pandas.read_sql takes a connection, and raises what the statement raises in words of ours."""
    con = dfp.connect(places["file"], **TERMS)
    frame = pd.read_sql("SELECT dp_count(*) AS n FROM flights WHERE delay > ?", con, params=[10])
    assert list(frame.columns) == ["n"]
    assert abs(frame["n"][0] - 2340) < 60
    with pytest.raises((dbapi.ProgrammingError, pd.errors.DatabaseError), match="as they are"):
        pd.read_sql("SELECT * FROM flights", con)


TEXTS = [
    "FROM flights",
    "SELECT * FROM flights",
    "COPY flights TO 'stolen.csv'",
    "ATTACH 'other.db'",
    "CREATE TABLE more AS FROM flights",
    "INSERT INTO flights FROM flights",
    "SELECT dp_count(*) FROM flights; SELECT 1",
    "SELECT dp_count(*) FROM read_csv('x.csv')",
    "SELECT * FROM (SELECT dp_count(*) AS n FROM flights), flights",
    "PRAGMA database_list",
    "SET threads = 1",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["file", "connection", "frames"])
def test_nothing_runs_but_statements_of_ours(places, kind, text, tmp_path):
    """Whatever is no private statement is refused, costs nothing and leaves nothing behind."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1)
    before = sorted(tmp_path.iterdir())
    with dfp.connect(places[kind], epsilon=1, ledger=ledger, dataset="d") as con:
        with pytest.raises(dbapi.Error):
            con.execute(text)
        assert ledger.spent("d") == dfp.Budget(epsilon=0.0)
        assert sorted(tmp_path.iterdir()) == before
        assert con.execute("SELECT dp_count(*) AS n FROM flights").rowcount == 1


def test_connection_makes_tables_of_released_rows(places):
    """CREATE TABLE goes to a connection that can be written to; it has no rows to fetch."""
    con = dfp.connect(places["connection"], **TERMS)
    cursor = con.execute(f"CREATE TABLE made AS {BY}")
    assert cursor.description is None
    assert cursor.rowcount == -1
    with pytest.raises(dbapi.ProgrammingError):
        cursor.fetchall()
    assert places["connection"].sql("FROM made").columns == ["carrier", "d", "n"]
    with dfp.connect(places["file"], **TERMS) as reading, pytest.raises(dfp.RefusedStatementError):
        reading.execute(f"CREATE TABLE made AS {BY}")


@pytest.mark.parametrize("wrong", [None, 7, {}, [1], pd.DataFrame({"x": [1]}), "nowhere.db"])
def test_what_is_no_place_is_refused(wrong, tmp_path, monkeypatch):
    """A connection is made to files, connections or frames by name, and makes no file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dbapi.Error):
        dfp.connect(wrong, epsilon=1).execute("SELECT dp_count(*) FROM x")
    assert list(tmp_path.iterdir()) == []


def test_terms_of_a_call_go_before_those_of_the_connection(places):
    """A term can be named with a statement; one that there is not is refused."""
    con = dfp.connect(flights=TABLE, epsilon=1)
    assert con.explain("SELECT dp_count(*) FROM flights", epsilon=0.25).epsilon == 0.25
    with pytest.raises(dfp.RefusedStatementError, match="no term 'epsilom'"):
        con.sql("SELECT dp_count(*) FROM flights", epsilom=0.25)


@pytest.mark.parametrize("name", [1, None, ("flights",), "keys", "epsilon", "con", "ledger"])
def test_names_that_no_frame_can_have(name):
    """A frame whose name is no text, or that of a term, is refused with what is wrong."""
    frame = pl.DataFrame({"x": [1.0] * 9})
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="a frame is given by the name"):
        dfp.connect({name: frame})
    if name in {"keys", "epsilon", "ledger"}:
        with pytest.raises(dfp.RefusedStatementError, match=f"go by the name '{name}'"):
            dfp.sql(f"SELECT dp_count(*) FROM {name}", **{name: frame})


def test_results_are_shown_and_drawn(places):
    """A result shows and draws itself as its frames are shown, with its cost and intervals."""
    with dfp.connect(places["frames"], **TERMS) as con:
        result = con.sql(BY, intervals=True)
    for outcome in (result, dfp.sql(BY, con=places["connection"], intervals=True, **TERMS)):
        for frame in (outcome.df(), outcome.pl(), outcome.arrow()):
            assert repr(outcome.show()) == repr(dfp.show(frame))
            assert (
                outcome.plot(answer="d").to_dict()["title"]
                == (dfp.plot(frame, answer="d").to_dict()["title"])
            )
        assert "epsilon=1" in repr(outcome.show())


def test_command_explains_and_writes(places, tmp_path):
    """The command shows costs without spending, and writes files."""
    words = ("sql", "SELECT dp_count(*) AS n FROM flights", "--database", places["file"])
    ran = command(*words, "--explain", columns=120)
    assert ran.exit_code == 0
    assert "epsilon 1" in ran.stdout
    assert command(*words, "--output", tmp_path / "n.csv", "--intervals").exit_code == 0
    assert (tmp_path / "n.csv").read_text().startswith("n,n_low,n_high\n")


KINDS = """
    SELECT carrier, dp_quantiles(delay, [0.1, 0.9]) AS q, dp_count(*) AS n, n > 5 AS much,
        n - lag(n) OVER (ORDER BY carrier) AS more, DATE '2024-01-01' AS day, dp_count_interval(),
        'x' AS word, 1.5::DECIMAL(4, 2) AS fixed, NULL AS nothing
    FROM flights GROUP BY carrier
"""


@pytest.mark.parametrize("ending", [None, "csv", "json", "parquet"])
def test_command_shows_and_writes_whatever_was_paid_for(places, tmp_path, ending):
    """Lists, structs, NULL, dates and booleans come out, on the terminal and in every file."""
    words = ("sql", KINDS, "--table", f"flights={places['parquet']}", "--delta", 1e-6)
    output = tmp_path / f"made.{ending}"
    ran = command(*words, *(() if ending is None else ("--output", output)), columns=200)
    assert ran.exit_code == 0, ran.stderr
    readers = {"csv": pl.read_csv, "json": pl.read_json, "parquet": pl.read_parquet}
    if ending is None:
        assert all(word in ran.stdout for word in ("2024-01-01", "NULL", "1.50", "True"))
    else:
        assert readers[ending](output).shape == (3, 10)
