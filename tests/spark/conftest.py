"""One Spark session for all tests of the folder; they are skipped where PySpark is not installed.

With DFPRIVACY_REQUIRE_SPARK set, as in .ci/run, a skipped test is a failed one.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pytest

REQUIRED = "DFPRIVACY_REQUIRE_SPARK" in os.environ
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Turn a skipped test into a failed one where Spark is required."""
    return _require((yield), item)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    """Turn a skipped file into a failed one where Spark is required."""
    return _require((yield), collector)


def _require(report: Any, node: pytest.Item | pytest.Collector) -> Any:
    if REQUIRED and report.skipped and "spark" in node.path.parts:
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a local session of two threads that logs nothing."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 need not be installed

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the caller's Python functions
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def frame(spark: Any) -> Callable[[pa.Table], Any]:
    """Return an Arrow table as a Spark frame in two partitions; timestamps without zone stay so."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 need not be installed

    def make(table: pa.Table) -> Any:
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return spark.createDataFrame(table, schema)

    return make


@pytest.fixture(scope="session")
def relation() -> Callable[[pa.Table], duckdb.DuckDBPyRelation]:
    """Return an Arrow table as a DuckDB relation, whose statistics Spark's have to equal."""
    numbers = itertools.count()

    def make(table: pa.Table) -> duckdb.DuckDBPyRelation:
        connection, name = duckdb.connect(), f"handed_in_{next(numbers)}"
        connection.register(name, table)
        return connection.table(name)

    return make


@pytest.fixture
def setting(spark: Any) -> Callable[[str, str], AbstractContextManager[None]]:
    """Set one of the session's settings for a block."""

    @contextmanager
    def applied(name: str, value: str) -> Iterator[None]:
        before = spark.conf.get(name, None)
        spark.conf.set(name, value)
        try:
            yield
        finally:
            spark.conf.unset(name) if before is None else spark.conf.set(name, before)

    return applied
