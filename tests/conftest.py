"""What the tests share: one table for every engine, and the exact pass behind a release."""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import hypothesis
import hypothesis.strategies as st
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dfprivacy as dfp
from dfprivacy.engine.bins import run_bins
from dfprivacy.measurement.sums import Statistics
from dfprivacy.noise import entropy
from dfprivacy.release.permit import permit
from dfprivacy.releasing import measure, named_columns, read
from dfprivacy.statistics import STATISTICS
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.terms import keys_of

hypothesis.settings.register_profile(
    "dfprivacy", deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.load_profile("dfprivacy")

SAMPLERS = {"noise", "laws", "statistical", "local", "shuffle"}
"""Folders whose tests draw noise outside of a release, without a source of bytes of their own."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Permit tests of samplers to draw; all others need a release for it."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    with permit("a test") if folder in SAMPLERS else nullcontext():
        return (yield)


@pytest.fixture(autouse=True)
def _own_statistics_end_with_their_test() -> Iterator[None]:
    """Forget the statistics that a test, or an example that it runs, has registered."""
    known = dict(STATISTICS)
    yield
    own = STATISTICS.keys() - known
    for kind in own:
        del STATISTICS[kind]
    if own and "dfprivacy.cli" in sys.modules:
        app = sys.modules["dfprivacy.cli"].app
        app.registered_commands = [c for c in app.registered_commands if c.name not in own]


Engines = Mapping[str, Callable[[pa.Table], Any]]


def _pandas(table: pa.Table) -> pd.DataFrame:
    nullable = {pa.int64(): pd.Int64Dtype(), pa.string(): pd.StringDtype()}
    return table.to_pandas(
        types_mapper=lambda kind: nullable.get(
            kind, pd.ArrowDtype(kind) if pa.types.is_decimal(kind) else None
        )
    )


def _duckdb(table: pa.Table) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("handed_in", table)
    connection.sql("CREATE TABLE stored AS SELECT * FROM handed_in")
    return connection.table("stored")


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    """Every frame type, as a function from an Arrow table to such a frame."""
    folder, numbers = tmp_path_factory.mktemp("parquet"), itertools.count()

    def parquet(table: pa.Table) -> Any:
        path = folder / f"{next(numbers)}.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=max(7, len(table) // 8))
        return path

    def duckdb_parquet(table: pa.Table) -> duckdb.DuckDBPyRelation:
        return duckdb.connect().read_parquet(str(parquet(table)))

    return {
        "pandas": _pandas,
        "polars": pl.DataFrame,
        "polars lazy": lambda table: pl.DataFrame(table).lazy(),
        "arrow": lambda table: table,
        "record batches": lambda table: table.to_reader(max_chunksize=5),
        "duckdb": _duckdb,
        "parquet": parquet,
        "duckdb parquet": duckdb_parquet,
        "polars parquet": lambda table: pl.scan_parquet(parquet(table)),
    }


ENGINE_NAMES = (
    "pandas",
    "polars",
    "polars lazy",
    "arrow",
    "record batches",
    "duckdb",
    "parquet",
    "duckdb parquet",
    "polars parquet",
)


@pytest.fixture(params=ENGINE_NAMES, scope="session")
def engine_name(request: pytest.FixtureRequest) -> str:
    """One frame type after the other, by name."""
    return str(request.param)


@pytest.fixture(scope="session")
def engine(engine_name: str, engines: Engines) -> Callable[[pa.Table], Any]:
    """One frame type after the other, as a function from an Arrow table."""
    assert tuple(engines) == ENGINE_NAMES
    return engines[engine_name]


@pytest.fixture(params=["pandas", "polars", "record batches", "duckdb parquet"], scope="session")
def way(request: pytest.FixtureRequest, engines: Engines) -> Callable[[pa.Table], Any]:
    """One frame type for each way of the rows: through pandas, polars, Arrow, and a file."""
    return engines[request.param]


@pytest.fixture(scope="session")
def exact() -> Callable[..., Statistics]:
    """Run the exact pass of a release and return its secret statistics."""

    def run(
        frame: object,
        questions: Mapping[str, Any],
        by: Sequence[str] = (),
        keys: Sequence[object] | None = None,
    ) -> Statistics:
        (measured,) = measure(frame, by, keys_of(keys, by), [LinearPart(questions, bool(by))])[1]
        return measured.statistics

    return run


HOSTILE_FLOATS = [
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,
    -1e300,
    5e-324,
    100.0,
]
HOSTILE_INTEGERS = [0, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]


@pytest.fixture(scope="session")
def rows() -> st.SearchStrategy[dict[str, Any]]:
    """Rows of the columns g (text), h (integer), x (float) and i (integer), NULLs included."""
    floats = st.one_of(
        st.none(), st.sampled_from(HOSTILE_FLOATS), st.floats(-120, 120), st.floats(width=64)
    )
    integers = st.one_of(
        st.none(), st.sampled_from(HOSTILE_INTEGERS), st.integers(-120, 120), st.integers(-9, 9)
    )
    return st.fixed_dictionaries(
        {
            "g": st.sampled_from([None, "", "a", "b", "A", "b ", "\u00e9", "NaN", "null"]),
            "h": st.sampled_from([None, -1, 0, 1, 2**62]),
            "x": floats,
            "i": integers,
        }
    )


@pytest.fixture(scope="session")
def table_of() -> Callable[[Sequence[Mapping[str, Any]]], pa.Table]:
    """Put rows into an Arrow table of declared types."""
    schema = pa.schema(
        [("g", pa.string()), ("h", pa.int64()), ("x", pa.float64()), ("i", pa.int64())]
    )
    return lambda rows: pa.Table.from_pylist(list(rows), schema=schema)


def _sums(frame, asked, by=(), keys=None, unit=None):
    """Return the exact sums of questions, group by group."""
    (measured,) = measure(frame, by, keys_of(keys, by), [LinearPart(asked, bool(by))], unit=unit)[1]
    return [list(row.values()) for row in measured.statistics.table.to_pylist()]


def _bins(frame, binning, moments=0, by=(), keys=None, unit=None, column="x"):
    """Return an exact table of bins: its keys, and its entries."""
    public = keys_of(keys, by) if by else None
    columns = named_columns(by, public, {column: True}, unit)
    _, table = read(
        frame, columns,
        lambda a: run_bins(a, by, column, binning, moments, public=public is not None),
    )  # fmt: skip
    entries = zip(table.group, table.bins, table.rows, *table.moments, strict=True)
    return table.keys.to_pylist(), [tuple(v.item() for v in entry) for entry in entries]


def _replayed(frame, ask):
    """Return what `ask` releases with the same random bytes every time."""
    state = itertools.count()

    def some(size):
        return hashlib.shake_128(next(state).to_bytes(8, "big")).digest(size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "os", SimpleNamespace(urandom=some))
        return ask(dfp.frame(frame))


@pytest.fixture(scope="session")
def ask() -> SimpleNamespace:
    """Exact sums and bins of any frame, and releases with the same random bytes every time."""
    return SimpleNamespace(sums=_sums, bins=_bins, replayed=_replayed)
