"""Texts of Spark about a row are withheld, and a frame that can't be read is refused by name."""

import logging
import uuid

import pytest

import dfprivacy as dfp

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(  # PySpark 4.3 warns of pandas 3 where functions are made
        "ignore:PySpark does not yet fully support pandas:FutureWarning"
    ),
]


def broken(spark, kind):
    """Return a frame that fails when it is read, with a row in the engine's message."""
    if kind == "cast":
        return spark.range(9).selectExpr("CAST(concat('Alice ', id) AS DOUBLE) AS x", "id AS g")
    if kind == "overflow":
        return spark.range(9).selectExpr("9223372036854775807 + id AS x", "id AS g")
    if kind == "raise_error":
        return spark.range(9).selectExpr("raise_error('Alice Secret') AS y", "1 AS x", "id AS g")
    from pyspark.sql import functions  # noqa: PLC0415 need not be installed

    def failing(number):
        raise ValueError(f"Alice has {number}")

    column = functions.udf(failing, "double")(functions.col("id"))
    return spark.range(9).select(column.alias("x"), functions.col("id").alias("g"))


@pytest.mark.parametrize("kind", ["cast", "overflow", "udf"])
def test_what_spark_says_of_a_row_is_withheld(kind, spark, capfd, caplog):
    """The message, which quotes rows, is in no error, no cause, no context and not in Python's log.

    What executors log is Spark's own and reaches the driver's console: docs/how-to/spark.md says
    so.
    """
    with pytest.raises(Exception, match=r"Alice|9223372036854775807"):
        broken(spark, kind).collect()
    calls = (
        lambda p: p.mean("x", (0, 1)),
        lambda p: p.group_by("g").median("x", delta=0.1),
        lambda p: p(unit="g", max_rows=1).histogram("x", [0, 1]),
        lambda p: p.group_by("x").count(delta=0.1),
    )
    frames = [broken(spark, kind) for _ in calls]
    capfd.readouterr()
    caplog.clear()
    caplog.set_level(logging.DEBUG)  # Py4J logs what it carries
    messages = set()
    for ask, frame in zip(calls, frames, strict=True):
        with pytest.raises(dfp.EngineError) as caught:
            ask(dfp.frame(frame))
        error = caught.value
        assert error.__cause__ is None
        assert error.__context__ is None
        messages.add(str(error))
    assert len(messages) == 1
    printed = capfd.readouterr()
    for text in (*messages, printed.out, printed.err, caplog.text):
        assert "Alice" not in text
        assert "9223372036854775807" not in text


def test_the_callers_own_errors_are_logged_as_before(spark):
    """The loggers of PySpark are as they were, after a release that failed and after any other."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 need not be installed

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    with pytest.raises(dfp.EngineError):
        dfp.frame(broken(spark, "cast")).mean("x", (0, 1))
    assert logger.disabled == before
    dfp.frame(spark.range(9)).count()
    assert logger.disabled == before


def test_columns_that_are_not_asked_for_are_not_read(spark):
    """A column that would fail does no harm where nothing is asked of it."""
    frame = broken(spark, "raise_error")
    assert dfp.frame(frame).mean("x", (0, 2), epsilon=1e9) == pytest.approx(1, abs=1e-6)


def test_nothing_is_charged_when_spark_fails(spark, tmp_path):
    """A release that fails before its noise is drawn costs nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    with pytest.raises(dfp.EngineError):
        dfp.frame(broken(spark, "udf"))(ledger=ledger, dataset="x").mean("x", (0, 1))
    assert len(ledger.history()) == 0


def test_groups_that_change_between_passes_end_no_release(spark):
    """Keys that are drawn anew in every pass are those of the pass that counts them."""
    from pyspark.sql import functions  # noqa: PLC0415 need not be installed

    random_key = functions.udf(lambda: uuid.uuid4().hex).asNondeterministic()
    keys = spark.range(50).select(random_key().alias("g"), functions.col("id").alias("x"))
    questions = {"m": dfp.median("x"), "n": dfp.count()}
    release = dfp.frame(keys).group_by("g").agg(**questions, delta=1e-9)
    assert release.columns[0] == "g"


def test_a_streaming_frame_is_refused(spark):
    """A stream has no end."""
    stream = spark.readStream.format("rate").load()
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="streaming"):
        dfp.frame(stream).count()


def test_other_objects_of_pyspark_are_refused(spark):
    """A session, a column or a grouping is no frame."""
    rows = spark.range(3)
    for value in (spark, rows.id, rows.groupBy("id"), rows.rdd):
        with pytest.raises(dfp.errors.UnsupportedFrameError):
            dfp.frame(value).count()
