"""Every question about a Spark frame is answered as about a relation of DuckDB."""

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.conformance.frame_releases import RELEASES, of_units, shown

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

GENERATOR = np.random.default_rng(8)
TABLE = pa.table(
    {
        "g": pa.array(GENERATOR.choice(["a", "b", "c", None], 900).tolist(), pa.string()),
        "x": GENERATOR.normal(40, 60, 900),
        "i": GENERATOR.integers(-20, 20, 900),
        "u": np.arange(900) % 300,
    }
)


@pytest.fixture(scope="module")
def rows(frame):
    return frame(TABLE).cache()


ASKED = RELEASES | {
    "two keys": lambda p: p.group_by("g", "i").sum("x", (0, 99), epsilon=9, delta=0.5),
    "unit of the frame": lambda p: p(unit="u", max_rows=5).mean("x", (0, 100)),
    "unit of secret keys": of_units(3),
    "unit of public keys": lambda p: (
        p(unit="u", max_rows=3)
        .group_by("g", keys=["a", "b", None])
        .agg(dfp.mean("x", (0, 99)), b=dfp.var("i", (-20, 20)), epsilon=9)
    ),
    "limits": lambda p: dfp.suggest_limits(p._frame, unit="u", by="g", epsilon=9),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_that_of_duckdb(name, rows, relation, replayed):
    """With the same random bytes an answer is the same to the last bit, whole and by group.

    Rows come in the same order, as a frame of the caller's session.
    """
    ours, theirs = (
        replayed(lambda source=source: ASKED[name](dfp.frame(source)))
        for source in (rows, relation(TABLE))
    )
    assert repr(shown(ours)) == repr(shown(theirs))
    assert getattr(ours, "sparkSession", rows.sparkSession) is rows.sparkSession


def test_a_ledger_is_charged_and_remembers(rows, tmp_path):
    """A release is charged, a second one beyond the budget refused, a remembered one repeated."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=1e-3, remember=True)
    private = dfp.frame(rows)(ledger=ledger, dataset="rows", version="1")
    first = private.group_by("g").count(epsilon=1, delta=1e-3)
    again = private.group_by("g").count(epsilon=1, delta=1e-3)
    assert again.collect() == first.collect()
    assert again.schema.simpleString() == first.schema.simpleString()
    assert len(ledger.history()) == 1
    with pytest.raises(dfp.BudgetExceededError):
        private.count(epsilon=0.1)


def count_jobs(spark, work):
    """Return how many Spark jobs a call starts, once its tracker, which lags behind, knows all."""
    context = spark.sparkContext
    context.setJobGroup("counted", "counted")

    def count_jobs():
        context._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        return len(context.statusTracker().getJobIdsForGroup("counted"))

    before = count_jobs()
    work()
    return count_jobs() - before


def test_one_job_a_part(spark, rows, setting):
    """A release is one Spark job for each of its parts: no sample, no sort, no look at the schema.

    Adaptive execution, which runs each stage of a query as a job, is off here.
    """
    rows.count()
    private = dfp.frame(rows)
    with setting("spark.sql.adaptive.enabled", "false"):
        assert count_jobs(spark, lambda: private.mean("x", (0, 99))) == 1
        assert count_jobs(spark, lambda: private.group_by("g").var("x", (0, 99), delta=0.1)) == 1
        assert count_jobs(spark, lambda: private.group_by("g", keys=["a"]).median("x")) == 1
        both = {"m": dfp.median("x"), "n": dfp.count()}
        assert count_jobs(spark, lambda: private.group_by("g").agg(**both, delta=0.1)) == 2
        limited = private(unit="u", max_rows=2, max_groups=2).group_by("g")
        assert count_jobs(spark, lambda: limited.mean("x", (0, 99), delta=0.1)) == 1


def test_only_sums_come_to_the_driver(spark, rows, monkeypatch):
    """Tables that leave Spark have one row a group, or one a group and bin, never one a row."""
    sizes, collected = [], type(rows).toArrow

    def watch_size(frame):
        table = collected(frame)
        sizes.append(table.num_rows)
        return table

    monkeypatch.setattr(type(rows), "toArrow", watch_size)
    private = dfp.frame(rows)
    private.mean("x", (0, 99))
    private.group_by("g").mean("x", (0, 99), delta=0.1)
    private.group_by("g").histogram("x", [0, 50, 100], delta=0.1)
    private(unit="u", max_rows=1, max_groups=1).group_by("g").mean("x", (0, 99), delta=0.1)
    assert sizes[0] == 1
    assert max(sizes) <= 4 * 4


ROW_BY_ROW = {
    "vectors": lambda p: p.mean_vector(["x", "i"], rho=1, radius=1),
    "local": lambda p: p.local.gaussian_mean("x", sigma=10, limit=1000),
    "reports": lambda p: dfp.frame(p._frame).local.gaussian_mean("i", limit=1000),
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_questions_that_need_the_rows_are_refused(name, rows):
    """A question that would bring rows to the driver is refused by name, with a way out."""
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="Spark frame"):
        ROW_BY_ROW[name](dfp.frame(rows))
