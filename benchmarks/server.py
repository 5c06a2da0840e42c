"""Load the server of `dfprivacy serve`, and compare with the same releases in one process.

    python -m benchmarks.server [--releases 40]

Prints a Markdown table and writes it to benchmarks/results/server.md. Each release asks another
statement, so that none is remembered.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import psycopg

import dfprivacy as dfp

POLICY = """
ledger: budget.db
datasets:
  flights:
    source: flights.duckdb
    schema: {rows: flights}
    budget: {epsilon: 1000000, delta: 0.5}
    statement: {epsilon: 1, delta: 1e-6}
analysts: {ann: {datasets: {flights: {epsilon: 1000000}}}}
limits: {statements_per_minute: 1000000}
listen: {address: "127.0.0.1:0"}
"""
ROWS = 100_000
CLIENTS = (1, 2, 8, 64)


def make_folder(folder: Path) -> Path:
    """Write data, policy and a password, and return the file of the policy."""
    with duckdb.connect(str(folder / "flights.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE flights AS SELECT i % 20 AS carrier, "
            f"(hash(i) % 300)::DOUBLE - 60 AS delay FROM range({ROWS}) r(i)"
        )
    policy = folder / "policy.yml"
    policy.write_text(POLICY)
    command = [sys.executable, "-m", "dfprivacy", "serve", "user", "add", str(policy), "ann"]
    subprocess.run(command, input="secret\n", text=True, check=True, capture_output=True)
    return policy


def write_statement(number: int) -> str:
    """Write a statement that differs from that of any other number."""
    return (
        "SELECT carrier, dp_mean(delay, -60, 240) AS delay FROM flights "
        f"WHERE delay > {number / 1e6 - 60} GROUP BY carrier"
    )


def connect(port: int) -> psycopg.Connection[Any]:
    """Log in."""
    address = f"host=127.0.0.1 port={port} user=ann password=secret dbname=flights"
    return psycopg.connect(address, autocommit=True)


def measure_select(port: int, change: int, runs: int = 200) -> float:
    """Return the median seconds of SELECT 1, or of a number that grows by `change` each time."""
    with connect(port) as connection:
        times = []
        for run in range(runs):
            start = time.perf_counter()
            connection.execute(f"SELECT {1 + run * change}").fetchall()
            times.append(time.perf_counter() - start)
    return sorted(times)[runs // 2]


def measure_releases(port: int, clients: int, releases: int, first: int) -> float:
    """Return the releases a second of some clients."""

    def ask(client: int) -> None:
        with connect(port) as connection:
            for number in range(client, releases, clients):
                connection.execute(write_statement(first + number)).fetchall()

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(clients)))
    return releases / (time.perf_counter() - start)


def measure_in_process(folder: Path, releases: int) -> float:
    """Return the releases a second of `dfp.connect` in this process."""
    ledger = dfp.Ledger(folder / "own.db", epsilon=1e6, delta=0.5, remember=True)
    terms = {"epsilon": 1, "delta": 1e-6, "ledger": ledger, "dataset": "flights", "version": "1"}
    with dfp.connect(str(folder / "flights.duckdb"), schema={"rows": "flights"}, **terms) as con:
        con.sql(write_statement(0))
        start = time.perf_counter()
        for number in range(1, releases + 1):
            con.explain(write_statement(number))  # the server prices a statement, too
            con.sql(write_statement(number)).fetchall()
        return releases / (time.perf_counter() - start)


def read_memory(process: int) -> float:
    """Return the resident memory of a process, in MiB."""
    fields = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (field for field in fields if field.startswith("VmRSS"))
    return int(line.split()[1]) / 2**10


def measure_idle(port: int, process: int, connections: int = 100) -> float:
    """Return the memory of one idle connection, in KiB."""
    before = read_memory(process)
    idle = [connect(port) for _ in range(connections)]
    after = read_memory(process)
    for connection in idle:
        connection.close()
    return (after - before) * 2**10 / connections


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        policy = make_folder(Path(name))
        command = [sys.executable, "-m", "dfprivacy", "serve", str(policy)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            line = server.stdout.readline() if server.stdout else ""
            port = int(line.rpartition(":")[2].rstrip(".\n"))
            measure_releases(port, 2, 4, 10**6)  # workers have imported all that they need
            lines = [f"| SELECT 1 again, median | {measure_select(port, 0) * 1e3:.2f} ms |"]
            seconds = measure_select(port, 1)
            lines.append(f"| SELECT of another number, median | {seconds * 1e3:.2f} ms |")
            for index, clients in enumerate(CLIENTS):
                rate = measure_releases(port, clients, options.releases, (index + 2) * 10**5)
                lines.append(f"| {clients} client(s) | {rate:.1f} releases/s |")
            memory = measure_idle(port, server.pid)
            lines.append(f"| idle connection | {memory:.0f} KiB |")
            server.send_signal(signal.SIGTERM)
        rate = measure_in_process(Path(name), options.releases)
        lines.append(f"| the same in one process | {rate:.1f} releases/s |")
    heading = f"{ROWS:,} rows, 2 workers, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}."
    text = "\n".join([heading, "", "| measurement | figure |", "|:--|--:|", *lines]) + "\n"
    sys.stdout.write(text)
    (options.output / "server.md").write_text(text)


if __name__ == "__main__":
    main()
