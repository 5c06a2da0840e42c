"""Fixtures of all tests: one table for every engine, exact sums and bins, repeated random bytes."""

import hashlib
import itertools
import os
import random
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
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
import dfprivacy.papers
from benchmarks.releases import replayed as same_bytes
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics import STATISTICS
from tests.frame_types import make_database

os.environ["DFPRIVACY_LEDGER_NOTICE"] = "off"  # most releases of tests name no ledger
dfp.errors.WARNED.update({"epsilon", "delta", "keys"})  # huge epsilons make tests exact

hypothesis.settings.register_profile(
    "default", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=10
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("default"), max_examples=30
)
hypothesis.settings.load_profile("default")  # pytest --hypothesis-profile=ci loads the other


SAMPLE = 1
"""Cases of a test in the default lane, unless `sample(n)` says otherwise."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave a sample of each test's cases in the default lane, and move all others to the battery.

    The hash of a case's name chooses, so that the sample is the same everywhere.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("slow") and not item.get_closest_marker("battery"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test in cases.values():
        marker = test[0].get_closest_marker("sample")
        size = marker.args[0] if marker else SAMPLE
        for item in sorted(test, key=lambda item: zlib.crc32(item.nodeid.encode()))[size:]:
            item.add_marker("battery")


@pytest.fixture(autouse=True)
def _own_statistics_end_with_their_test() -> Iterator[None]:
    """Forget the statistics that a test, or an example that it runs, has registered."""
    statistics_before = dict(STATISTICS)
    yield
    added = STATISTICS.keys() - statistics_before
    for kind in added:
        del STATISTICS[kind]
    if added and "dfprivacy.cli" in sys.modules:
        app = sys.modules["dfprivacy.cli"].app
        app.registered_commands = [c for c in app.registered_commands if c.name not in added]


class SeededBytes:
    """Random bytes that a name determines, for the process that makes this alone."""

    system = staticmethod(os.urandom)

    def __init__(self, name: str) -> None:
        self.name, self.numbers, self.process = name.encode(), itertools.count(), os.getpid()

    def __call__(self, size: int) -> bytes:
        if os.getpid() != self.process:  # forked: two processes must not draw the same noise
            return self.system(size)
        return hashlib.shake_128(b"%s %d" % (self.name, next(self.numbers))).digest(size)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that draws other noise in every run."""
    parser.addoption("--fresh-noise", action="store_true", help="draw noise from the system")


def _seed_noise(config: pytest.Config, name: str) -> Generator[None, Any, Any]:
    """Draw the noise of this process from bytes that a name determines."""
    with pytest.MonkeyPatch.context() as patch:
        if not config.getoption("fresh_noise"):
            patch.setattr(os, "urandom", SeededBytes(name))
            patch.setattr(random, "_urandom", SeededBytes(name))  # numpy takes its seeds there
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give each test noise of its own, which is the same in every run."""
    return (yield from _seed_noise(item.config, item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Give each fixture that several tests share noise of its own, whichever test is first."""
    if request.scope == "function":
        return (yield)
    case = getattr(request, "param_index", 0)
    name = f"{fixturedef.baseid} {fixturedef.argname} {case}"
    return (yield from _seed_noise(request.config, name))


Engines = Mapping[str, Callable[[pa.Table], Any]]


def _pandas(table: pa.Table) -> pd.DataFrame:
    nullable = {pa.int64(): pd.Int64Dtype(), pa.string(): pd.StringDtype()}
    return table.to_pandas(
        types_mapper=lambda kind: nullable.get(
            kind, pd.ArrowDtype(kind) if pa.types.is_decimal(kind) else None
        )
    )


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
        "duckdb": lambda table: make_database(stored=table).table("stored"),
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


class Exact:
    """Exact statistics of any frame, from the secret file that `dfp.statistics` makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count()

    def table(self, frame: object, questions: Mapping[str, Any], **terms: Any) -> pa.Table:
        path = self.folder / f"{next(self.numbers)}.parquet"
        dfp.statistics(frame, path, **questions, **terms)
        table = pyarrow.parquet.read_table(path)
        path.unlink()
        return table

    def sums(self, frame: object, questions: Mapping[str, Any], by: Any = (), **terms: Any) -> Any:
        """Return one row a group: its keys, and the integers that the questions add up."""
        table = self.table(frame, questions, by=tuple(by), **terms)
        return [list(row.values())[1:] for row in table.to_pylist()]

    def bins(self, frame: object, question: Any, by: Any = (), **terms: Any) -> Any:
        """Return the keys, and one row a bin: group, bin, rows, and sums of what it holds."""
        table = self.table(frame, {"own": question}, by=tuple(by), **terms)
        keys, bins = (
            [name for name in table.column_names if name.startswith("key_")],
            table.to_pylist(),
        )
        groups = [tuple(row[key] for key in keys) for row in bins if row["bin"] is None]
        entries = [[v for name, v in row.items() if name not in keys] for row in bins]
        return groups, [tuple(entry) for entry in entries if entry[1] is not None]


@pytest.fixture(scope="session")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Exact:
    """Exact sums and bins of any frame."""
    return Exact(tmp_path_factory.mktemp("exact"))


@pytest.fixture(scope="session")
def replayed() -> Callable[[Callable[[], Any]], Any]:
    """Return a function that repeats a call with the same random bytes every time."""

    def run(call: Callable[[], Any]) -> Any:
        with same_bytes("tests"):
            return call()

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


@pytest.fixture
def permitted() -> Iterator[None]:
    """Let noise be drawn outside of a release."""
    with permit("a test"):
        yield


@pytest.fixture
def entropy_calls(monkeypatch):
    """Return a list that grows by one with every call for random bytes."""
    calls, real = [], os.urandom

    def spy(size):
        calls.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", spy)
    return calls
