"""A server over flights, started by the command, that real clients ask."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest

from tests.command_line import command

if find_spec("pygwire") is None or find_spec("psycopg") is None:
    collect_ignore_glob = ["test_*.py"]  # these run where the extras server and clients are

POLICY = """
ledger: budget.db
datasets:
  flights:
    source: flights.duckdb
    schema: {{unit: flights.plane, bounds: {{flights.delay: [-20, 70]}}}}
    max_rows: 4
    max_groups: 3
    budget: {{epsilon: 1000000000, delta: 0.01}}
    statement: {{epsilon: 1000000, delta: 1e-6, max_epsilon: 2000000}}
analysts:
  ann: {{datasets: {{flights: {{epsilon: 900000000}}}}}}
  bob: {{datasets: {{flights: {{epsilon: 1500000}}}}}}
  probe: {{}}
listen: {{address: "127.0.0.1:0"}}
limits: {{statements_per_minute: 10000, workers: 1}}
{more}
"""
"""A policy under which answers are all but exact, so that tests can compare them."""

PASSWORD = "correct horse"


def write_flights(file: Path, rows: int = 30_000) -> None:
    """Write flights of three carriers, in equal parts, into a DuckDB file."""
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE TABLE flights AS SELECT 'N' || i // 3 AS plane, "
            "['AA', 'DL', 'UA'][1 + i % 3] AS carrier, i % 12 + 1 AS month, "
            "(i * 7 % 90 - 20)::DOUBLE AS delay, DATE '2024-01-01' + (i % 90)::INTEGER AS day, "
            "TIMESTAMP '2024-01-01' + to_hours((i % 2000)::INTEGER) AS departure "
            f"FROM range({rows}) r(i)"
        )


def make_folder(folder: Path, more: str = "", users: tuple[str, ...] = ("ann",)) -> Path:
    """Write data, policy and passwords into a folder, and return the file of the policy."""
    write_flights(folder / "flights.duckdb")
    file = folder / "policy.yml"
    file.write_text(POLICY.format(more=more))
    for user in users:
        command("serve", "user", "add", file, user, text=PASSWORD)
    return file


@contextmanager
def serve(file: Path):
    """Serve a policy, and yield the port and the process, which prints no traceback."""
    words = [sys.executable, "-m", "dfprivacy", "serve", str(file)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            line = process.stdout.readline()
            yield int(line.rpartition(":")[2].rstrip(".\n")), process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
            process.stdout.close()
        errors.seek(0)
        assert "Traceback" not in (printed := errors.read()), printed


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory):
    """Return the policy of a server that many tests share."""
    return make_folder(tmp_path_factory.mktemp("server"), users=("ann", "bob", "probe"))


@pytest.fixture(scope="session")
def served(policy_file):
    """Start that server, and return its port and its process."""
    with serve(policy_file) as port_and_process:
        yield port_and_process


@pytest.fixture(scope="session")
def port(served):
    """Return the port of that server."""
    return served[0]


@pytest.fixture(scope="session")
def process(served):
    """Return the process of that server."""
    return served[1]


def connect_to(port, **terms):
    """Connect with psycopg, as ann unless another user is named."""
    psycopg = pytest.importorskip("psycopg")  # tests of other folders load this file, too
    usual = {"user": "ann", "password": PASSWORD, "dbname": "flights", "autocommit": True}
    return psycopg.connect(host="127.0.0.1", port=port, **{**usual, **terms})


@pytest.fixture
def connect(port):
    """Return a function that connects to that server."""
    return partial(connect_to, port)


os.environ.setdefault("DFPRIVACY_LEDGER_NOTICE", "off")
