"""Frames of Spark Connect, in a process of its own: a client and a server can't share one."""

import json
import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

SCRIPT = """
import io, json, logging, math
import duckdb, numpy as np, pyarrow as pa
from pyspark.sql import SparkSession
import dfprivacy as dfp
from dfprivacy.engine.adopt import Columns
from dfprivacy.frames.measuring import measure
from dfprivacy.statistics.linear import LinearPart

spark = (
    SparkSession.builder.remote("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
generator = np.random.default_rng(3)
x = generator.normal(0, 60, 300)
x[::9], x[::11], x[::13] = math.nan, math.inf, -0.0
g = generator.choice(["a", "b", "A", None], 300).tolist()
table = pa.table({"g": pa.array(g, pa.string()), "x": x, "u": np.arange(300) % 70})
ours = spark.createDataFrame(table)
con = duckdb.connect()
theirs = con.from_arrow(table)

part = LinearPart({"v": dfp.var("x", (0, 100)), "n": dfp.count()}, grouped=True)

def sums(frame):
    (measured,) = measure(frame, [part], Columns(("g",)))[1]
    return measured.statistics.table.to_pylist()

results = {"module": type(ours).__module__, "same": sums(ours) == sums(theirs)}
private = dfp.frame(ours)
huge = {"epsilon": 1e9}
results["count"] = float(private.count(**huge))
results["median"] = [float(dfp.frame(f).median("x", **huge)) for f in (ours, theirs)]
results["bounded"] = [float(dfp.frame(f).mean("x", (0, 9), **huge)) for f in (ours, theirs)]
by = private.group_by("g").mean("x", delta=0.1, **huge)
results["columns"], results["groups"] = by.columns, [row.g for row in by.collect()]
listed = private(unit="u", max_rows=2).group_by("g", keys=["a", "zz"])
results["units"] = [row["count"] for row in listed.count(**huge).collect()]
bins = private.histogram("x", [-100, 0, 100], **huge)
results["histogram"] = [row["count"] for row in bins.collect()]
failing = spark.range(9).selectExpr("CAST(concat('Alice ', id) AS DOUBLE) AS x")
failing.schema
client, logged = logging.getLogger("pyspark.sql.connect.logging"), io.StringIO()
client.disabled, client.level = False, logging.DEBUG  # as SPARK_CONNECT_LOG_LEVEL has it
client.addHandler(logging.StreamHandler(logged))
try:
    dfp.frame(failing).mean("x", (0, 1))
except dfp.EngineError as error:
    results["error"] = [repr(error), repr(error.__cause__), repr(error.__context__)]
dfp.frame(ours).group_by("g").count(delta=0.1)
results["logged"] = logged.getvalue()
results["logs as before"] = not client.disabled
print(json.dumps(results))
spark.stop()
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Ask a handful of questions through Spark Connect; return their results."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        check=False, capture_output=True, text=True, timeout=500, env=environment,
        cwd=tmp_path_factory.mktemp("connect"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_sums_are_those_of_duckdb(results):
    """A frame of Spark Connect gives the same exact sums by group as DuckDB."""
    assert results["module"].startswith("pyspark.sql.connect")
    assert results["same"] is True


def test_questions_are_answered(results):
    """Whole answers, groups in order, units with public keys and histograms come out right."""
    assert results["count"] == 300
    assert results["bounded"][0] == pytest.approx(results["bounded"][1], abs=1e-6)
    assert results["median"][0] == pytest.approx(results["median"][1], abs=5)
    assert results["columns"] == ["g", "x", "low", "high", "note", "count"]
    assert results["groups"] == ["A", "a", "b", None]
    assert results["units"][0] > 0
    assert results["units"][1] == 0
    assert len(results["histogram"]) == 2


def test_what_the_server_says_of_a_row_is_withheld(results):
    """No error, cause or context quotes a row."""
    assert "withheld" in results["error"][0]
    assert results["error"][1:] == ["None", "None"]
    assert "Alice" not in json.dumps(results["error"])


def test_the_clients_logger_tells_nothing_of_a_row(results):
    """The client's log of a release has its plan, no value of a row and no size of an answer."""
    assert "plan" in results["logged"]
    assert not re.search(r"Alice \d|CAST_INVALID_INPUT|arrow batch rows", results["logged"])
    assert results["logs as before"]
