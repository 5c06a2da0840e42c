"""Whatever an engine says of a row is withheld."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp


def failing_reader():
    def batches():
        yield pa.record_batch({"x": [1.0, 2.0]})
        message = "Alice Secret"
        raise ValueError(message)

    return pa.RecordBatchReader.from_batches(pa.schema([("x", pa.float64())]), batches())


def broken_function(frame):
    raise ValueError(str(frame))


BROKEN_FRAMES = {
    "a reader that raises midway": failing_reader,
    "a cast that fails": lambda: pl.LazyFrame({"x": ["Alice Secret"]}).select(
        pl.col("x").cast(pl.Int64)
    ),
    "a function that raises": lambda: pl.LazyFrame({"x": ["Alice Secret"]}).map_batches(
        broken_function, schema={"x": pl.Float64}
    ),
    "a column that is missing": lambda: pl.LazyFrame({"y": ["Alice Secret"]}).select("x"),
    "a relation that fails": lambda: duckdb.connect().sql(
        "SELECT ('Alice Secret' || range)::INTEGER AS x FROM range(9)"
    ),
    "a relation that raises": lambda: duckdb.connect().sql(
        "SELECT error('Alice Secret')::INTEGER AS x FROM range(9)"
    ),
    "a relation that overflows": lambda: duckdb.connect().sql(
        "SELECT 9223372036854775807 + range AS x FROM range(9)"
    ),
}
ASKS = {
    "one pass": lambda frame: dfp.frame(frame).mean("x", (0, 1)),
    "two passes": lambda frame: dfp.frame(frame).agg(dfp.count(), dfp.median("x")),
    "groups": lambda frame: (
        dfp.frame(frame).group_by("x").agg(dfp.count(), m=dfp.median("x"), delta=0.1)
    ),
    "sql": lambda frame: dfp.sql("SELECT dp_count(*), dp_median(x) FROM t", t=frame),
}


@pytest.mark.parametrize("ask", ASKS)
def test_what_an_engine_says_of_a_row_is_withheld(ask, capfd):
    """Whatever fails in an engine, the error is the same, without a cause, and nothing is printed.

    A reader that several passes need is read whole before them.
    """
    messages = set()
    for make in BROKEN_FRAMES.values():
        with pytest.raises(dfp.EngineError, match="withheld") as caught:
            ASKS[ask](make())
        assert caught.value.__cause__ is caught.value.__context__ is None
        messages.add(repr(caught.value) + str(caught.value))
    assert len(messages) == 1
    printed = capfd.readouterr()
    for text in (*messages, printed.out, printed.err):
        assert "Alice" not in text
        assert "9223372036854775807" not in text


TELLING = [("POLARS_VERBOSE", "1"), ("POLARS_VERBOSE", "true"), ("POLARS_LOG_METRICS", "1"),
           ("POLARS_OOC_LOG_METRICS", "1"), ("POLARS_QUERY_MONITORING", "1"),
           ("POLARS_PANIC_ON_ERR", "1")]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), TELLING)
def test_polars_tells_nothing_of_what_it_meets(name, value, way, monkeypatch, tmp_path):
    """Where a setting lets polars print rows and groups that it meets, nothing is read or charged.

    Frames of other libraries are none the safer: parts of their passes run in polars, too.
    """
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, delta=0.5)
    table = pa.table({"g": ["a"] * 50, "x": [1.0] * 50})
    frame = dfp.frame(way(table))(ledger=ledger, dataset="d", delta=0.1)
    calls = (
        lambda: frame.group_by("g").median("x", epsilon=0.1),
        lambda: dfp.frame(way(table)).mean_vector(["x"], rho=0.01, radius=1),
        lambda: dfp.sql("SELECT dp_count(*) FROM t", t=way(table), ledger=ledger, dataset="d"),
    )
    monkeypatch.setenv(name, value)
    for ask in calls:
        with pytest.raises(dfp.EngineError, match=f"polars tells .* {name}"):
            ask()
    assert ledger.spent("d") == dfp.Budget(epsilon=0)
    monkeypatch.setenv(name, "0")
    calls[0]()


QUESTIONS = {
    "sum": lambda private, column: private.sum(column, (0, 1)),
    "share": lambda private, column: private.share(column, 5),
    "regression": lambda private, column: private.regression("x", [column]),
    "groups": lambda private, column: private.group_by(column, keys=[0.5]).count(),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("column", ["plain", "listed", "packed"])
def test_no_message_names_members_of_an_enumeration(column, question):
    """An enumeration may have been made of the data: a refusal names none of its members."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT k AS plain, [k] AS listed, {'k': k} AS packed, 1.0 AS x "
        "FROM (SELECT 'a'::ENUM('a', 'Alice Secret') AS k)"
    )
    kind = pl.Enum(["a", "Alice Secret"])
    frame = pl.DataFrame({"plain": ["a"], "x": [1.0]}, {"plain": kind, "x": pl.Float64})
    frame = frame.with_columns(listed=pl.concat_list("plain"), packed=pl.struct("plain"))
    for source in (frame, frame.lazy(), connection.table("t")):
        with pytest.raises(dfp.DPError) as refusal:
            QUESTIONS[question](dfp.frame(source), column)
        assert "Alice" not in str(refusal.value)
