"""Send the server messages that no client would send, and look for rows, charges and crashes.

    python -m benchmarks.server_fuzz [--messages 1000000] [--statements 20000] [--commands 20000]

The data and a file beside them hold marks: texts and numbers that occur nowhere else. Messages of
the protocol are built at random and damaged: bits, lengths, cuts and repeats. Statements put
functions and tables of DuckDB together, also those that read files. Commands, tickets, actions and
rows of values go to the Flight SQL listener, damaged as the messages are. The server must go on, no
reply may hold a mark or a traceback, and the budget must be as before. Prints lines of counts, and
ends with an error if one of this fails.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.flight as fl
from google.protobuf.any_pb2 import Any as AnyMessage

MARK, NUMBER = "fuzzmark", 271828.1828
"""What no reply may hold: a text, and a number whose first digits are looked for."""
MARKS = (MARK.encode(), b"271828", struct.pack("!d", NUMBER))
BATCH = 200  # messages
END_STATEMENT = b"ROLLBACK; SELECT 'last answer'\0"
END = b"Q" + struct.pack("!i", len(END_STATEMENT) + 4) + END_STATEMENT
POLICY = """
ledger: budget.db
datasets:
  flights:
    source: flights.duckdb
    schema: {unit: flights.plane}
    max_rows: 1
    max_groups: 1
    budget: {epsilon: 1, delta: 1.0e-6}
    statement: {epsilon: 0.001, max_epsilon: 0.001}
analysts: {ann: {datasets: {flights: {epsilon: 0.0005}}}}
limits: {statements_per_minute: 100000000, workers: 1}
listen: {address: "127.0.0.1:0"}
"""
"""Ann may spend less than a statement costs, so that every release is refused."""

STATEMENTS = (
    "SELECT 1",
    "SELECT * FROM flights LIMIT 3",
    "SELECT AVG(delay) FROM flights",
    "SELECT plane, delay FROM flights",
    "SHOW dfprivacy.budget",
    "SET dfprivacy.epsilon = 0.0007",
    "BEGIN",
    "ROLLBACK",
    "EXPLAIN SELECT COUNT(*) FROM flights",
    "COPY (SELECT 1) TO STDOUT",
    "COPY (SELECT plane FROM flights) TO STDOUT (FORMAT binary)",
    "COPY flights FROM STDIN",
    "SELECT $1",
    "SELECT oid, relname FROM pg_catalog.pg_class WHERE relname = $1",
    "",
    ";",
)
SOURCES = (
    "flights",
    "main.flights",
    "flights.main.flights",
    "memory.main.flights",
    '"flights.duckdb"',
    "'flights.duckdb'",
    "'secret.csv'",
    "read_csv('secret.csv')",
    "read_text('*')",
    "read_blob('flights.duckdb')",
    "glob('*')",
    "sniff_csv('secret.csv')",
    "query('FROM flights')",
    "query_table('flights')",
    "duckdb_tables()",
    "duckdb_columns()",
    "duckdb_settings()",
    "duckdb_secrets()",
    "duckdb_temporary_files()",
    "pragma_storage_info('flights')",
    "pragma_database_size()",
    "information_schema.tables",
    "pg_catalog.pg_stats",
    "pg_catalog.pg_class",
    "sqlite_scan('budget.db', 'x')",
    "parquet_metadata('*')",
    "(SELECT * FROM flights WHERE 0 = 1)",
    "(SELECT * FROM flights LIMIT 2)",
    "(VALUES (1))",
    "range(3)",
)
COLUMNS = (
    "*",
    "plane",
    "delay",
    "count(*)",
    "max(plane)",
    "min(delay)",
    "any_value(flights)",
    "flights",
    "to_json(flights)",
    "list(plane)",
    "string_agg(plane)",
    "stats(delay)",
    "hash(plane)",
    "getenv('PATH')",
    "current_setting('home_directory')",
    "dp_mean(delay, 0, 1)",
    "arg_max(plane, delay)",
    "histogram(plane)",
    "approx_top_k(plane, 3)",
    "1",
    "COLUMNS('.*')",
)
SHAPES = (
    "SELECT {column} FROM {source}",
    "SELECT {column} FROM {source} LIMIT 2",
    "SELECT {column} FROM {source} WHERE 0 = 1",
    "SELECT {column} FROM {source} WHERE (0 = 1) OR true",
    "SELECT {column} FROM {source} GROUP BY ALL",
    "SELECT (SELECT {column} FROM {source} LIMIT 1)",
    "SELECT * FROM (SELECT {column} FROM {source}) t LIMIT 3",
    "WITH t AS MATERIALIZED (SELECT {column} FROM {source}) SELECT * FROM t LIMIT 2",
    "SELECT {column} FROM {source}, {other} LIMIT 2",
    "SELECT {column} FROM {source} UNION ALL SELECT {column} FROM {other} LIMIT 2",
    "SELECT DISTINCT {column} FROM {source} LIMIT 2",
    "EXPLAIN SELECT {column} FROM {source}",
    "EXPLAIN ANALYZE SELECT {column} FROM {source}",
    "COPY (SELECT {column} FROM {source}) TO STDOUT",
    "COPY (SELECT {column} FROM {source}) TO 'out.csv'",
    "CREATE TABLE t AS SELECT {column} FROM {source}",
    "SUMMARIZE SELECT {column} FROM {source}",
    "PIVOT {source} ON {column}",
    "FROM {source} SELECT {column} LIMIT 1",
    "SELECT {column} FROM {source} TABLESAMPLE 50%",
    "EXECUTE x({column})",
    "CALL {source}",
)


def make_folder(folder: Path) -> Path:
    """Write marked data, a marked file, a policy and a password, and return the policy's file."""
    with duckdb.connect(str(folder / "flights.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE flights AS SELECT '{MARK}' || i AS plane, {NUMBER} + i AS delay "
            "FROM range(1000) r(i)"
        )
    (folder / "secret.csv").write_text(f"a,b\n{MARK},{NUMBER}\n")
    policy = folder / "policy.yml"
    policy.write_text(POLICY)
    command = [sys.executable, "-m", "dfprivacy", "serve", "user", "add", str(policy), "ann"]
    subprocess.run(command, input="secret\n", text=True, check=True, capture_output=True)
    return policy


def build_message(generator: random.Random) -> bytes:
    """Build one message of a client, mostly as the protocol has it."""
    statement = generator.choice(STATEMENTS).encode() + b"\0"
    name = generator.choice([b"\0", b"a\0", b"b\0", b"nothing\0"])
    kinds = {
        b"Q": statement,
        b"P": name + statement + generator.choice([b"\0\0", b"\0\1\0\0\0\x17"]),
        b"B": name + name + generator.choice([b"\0\0\0\0\0\0", b"\0\0\0\1\0\0\0\2hi\0\1\0\1"]),
        b"D": generator.choice([b"S", b"P", b"x"]) + name,
        b"E": name + struct.pack("!i", generator.choice([0, 1, -1, 2**31 - 1])),
        b"C": generator.choice([b"S", b"P"]) + name,
        b"H": b"",
        b"S": b"",
        b"d": generator.randbytes(generator.randrange(20)),
        b"c": b"",
        b"f": b"why\0",
        b"F": generator.randbytes(generator.randrange(30)),
        b"p": b"password\0",
        bytes([generator.randrange(256)]): generator.randbytes(generator.randrange(40)),
    }
    weights = [500, 1500, 1500, 1500, 1500, 1500, 2000, 2000, 2, 2, 2, 2, 2, 2]  # the last end it
    kind = generator.choices(list(kinds), weights[: len(kinds)])
    body = kinds[kind[0]]
    return kind[0] + struct.pack("!i", len(body) + 4) + body


def damage(message: bytes, generator: random.Random) -> bytes:
    """Flip a bit, change a length, cut, repeat, or leave a message as it is."""
    data = bytearray(message)
    match generator.randrange(4000):
        case 0:
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        case 1:
            data[1:5] = struct.pack("!i", generator.choice([-1, 0, 3, 4, 5, 2**20, 2**30]))
        case 2:
            del data[generator.randrange(1, len(data) + 1) :]
        case 3:
            return message * 2
        case _:
            pass
    return bytes(data)


def build_statement(generator: random.Random) -> str:
    """Put a shape, columns and sources together."""
    return generator.choice(SHAPES).format(
        column=generator.choice(COLUMNS),
        source=generator.choice(SOURCES),
        other=generator.choice(SOURCES),
    )


COMMANDS = (
    "CommandStatementQuery",
    "CommandPreparedStatementQuery",
    "CommandGetTables",
    "CommandGetDbSchemas",
    "CommandGetCatalogs",
    "CommandGetTableTypes",
    "CommandGetSqlInfo",
    "CommandStatementUpdate",
    "ActionCreatePreparedStatementRequest",
)


def build_command(generator: random.Random) -> bytes:
    """Build a command of Flight SQL, with a bit or a byte changed in one of four."""
    texts = (generator.choice(STATEMENTS), build_statement(generator), "%", "flights' OR '1' = '1")
    body = AnyMessage(
        type_url=generator.choice(texts), value=generator.choice([b"", b"%", b"\xff"])
    )
    body_bytes = body.SerializeToString() + generator.choice(
        [b"", b"\x28\x01", b"\x0b", b"\x22\x01V"]
    )
    name = f"type.googleapis.com/arrow.flight.protocol.sql.{generator.choice(COMMANDS)}"
    data = bytearray(AnyMessage(type_url=name, value=body_bytes).SerializeToString())
    if generator.random() < 0.25:
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(data)


class FlightTarget:
    """The Flight SQL listener of a server, and what is counted of its replies."""

    def __init__(self, target: Target, folder: Path) -> None:
        assert target.process.stdout is not None
        port = target.process.stdout.readline().rpartition(":")[2].rstrip(".\n")
        certificate = (folder / "server.crt").read_text()
        self.target, self.sealed = target, [b""]
        self.client = fl.connect(f"grpc+tls://localhost:{port}", tls_root_certs=certificate)
        token = self.client.authenticate_basic_token("ann", "secret")
        self.options = fl.FlightCallOptions(headers=[token], timeout=60)

    def send(self, generator: random.Random) -> None:
        """Send a command, or something sealed, in one of the ways that a client may."""
        command, sealed = build_command(generator), generator.choice(self.sealed)
        descriptor = fl.FlightDescriptor.for_command(command)
        if generator.random() < 0.2:
            sealed += generator.randbytes(2)
        if generator.random() < 0.3:
            name = COMMANDS[1]
            body = AnyMessage(type_url=sealed.decode(errors="replace")).SerializeToString()
            packed = AnyMessage(type_url=f"/arrow.flight.protocol.sql.{name}", value=body)
            descriptor = fl.FlightDescriptor.for_command(packed.SerializeToString())
        try:
            match generator.randrange(4):
                case 0:
                    info = self.client.get_flight_info(descriptor, self.options)
                    self.sealed.append(info.endpoints[0].ticket.ticket)
                    reply: object = b""
                case 1:
                    table = self.client.do_get(fl.Ticket(sealed), self.options).read_all()
                    reply = (table.to_pylist(), table.schema.metadata)
                case 2:
                    name = generator.choice(["CreatePreparedStatement", "CloseSession", "x"])
                    results = list(self.client.do_action((name, command), self.options))
                    reply = [result.body.to_pybytes() for result in results]
                case _:
                    values = pa.table({"a": generator.choice([[1], ["x"], [None], [1, 2], []])})
                    writer, reader = self.client.do_put(descriptor, values.schema, self.options)
                    writer.write_table(values)
                    writer.done_writing()
                    reply = reader.read()
                    writer.close()
            self.target.counts["answered"] += 1
        except (pa.ArrowException, StopIteration) as error:
            reply = str(error)
            self.target.counts["errors"] += 1
            if "Traceback" in reply:
                raise AssertionError(f"an error holds a traceback: {reply}") from None
        self.target.counts["commands"] += 1
        self.target.check(repr(reply).encode(), command)


def fuzz_flight(commands: int, seed: int) -> Counter[str]:
    """Send so many commands to a server with Flight SQL, and return what was counted."""
    generator = random.Random(seed)
    openssl = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
    )
    with tempfile.TemporaryDirectory() as name:
        policy, folder = make_folder(Path(name)), Path(name)
        subprocess.run(openssl.split(), cwd=folder, check=True, capture_output=True)
        listen = ':0", flight: 0, tls: {certificate: server.crt, key: server.key}'
        policy.write_text(policy.read_text().replace(':0"', listen))
        target = Target(policy)
        try:
            flight = FlightTarget(target, folder)
            for _ in range(commands):
                flight.send(generator)
            target.check_health()
        finally:
            target.stop()
    return target.counts


class Target:
    """A server with marked data, and what is counted of its replies."""

    def __init__(self, policy: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dfprivacy", "serve", str(policy)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=policy.parent,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2].rstrip(".\n"))
        self.counts: Counter[str] = Counter()
        self.budget = self.read_budget()

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Log in."""
        address = f"host=127.0.0.1 port={self.port} user=ann password=secret dbname=flights"
        return psycopg.connect(address, autocommit=True)

    def read_budget(self) -> object:
        """Return what is left, which also shows that the server answers."""
        with self.connect() as connection:
            row = connection.execute("SHOW dfprivacy.budget").fetchone()
        return None if row is None else row[0]

    def check(self, reply: bytes, cause: object) -> None:
        """Raise an error if a reply holds a mark."""
        if any(mark in reply for mark in MARKS):
            raise AssertionError(f"a reply holds data: {cause!r}")

    def send_batch(self, messages: list[bytes]) -> None:
        """Send messages on a connection of their own, and read until the server is silent."""
        with self.connect() as connection:
            wire = socket.socket(fileno=os.dup(connection.pgconn.socket))
            wire.settimeout(30)
            data = b"".join(messages) + b"S\0\0\0\4" + END
            replies = bytearray()
            try:
                while True:
                    readable, writable, _ = select.select([wire], [wire] if data else [], [], 5)
                    if not readable and not writable:
                        self.counts["silent"] += 1
                        break
                    if writable:
                        data = data[wire.send(data[:4096]) :]
                    if readable:
                        chunk = wire.recv(2**16)
                        if not chunk:
                            self.counts["closed"] += 1
                            break
                        replies += chunk
                        if b"last answer" in replies:
                            break
            except ConnectionError:
                self.counts["closed"] += 1
            finally:
                wire.close()
        self.check(bytes(replies), messages)
        self.counts["messages"] += len(messages)
        self.counts["errors"] += replies.count(b"SERROR\0") + replies.count(b"SFATAL\0")
        self.counts["bytes of replies"] += len(replies)

    def run_statements(self, statements: list[str]) -> None:
        """Send statements on one connection, and look at their answers and errors."""
        with closing(self.connect()) as connection:
            wire = connection.pgconn
            for statement in statements:
                result = wire.exec_(statement.encode())
                cells = [
                    result.get_value(row, column) or b""
                    for row in range(result.ntuples)
                    for column in range(result.nfields)
                ]
                while result.status == psycopg.pq.ExecStatus.COPY_OUT:
                    size, data = wire.get_copy_data(0)
                    cells.append(bytes(data))
                    if size < 0:
                        result = wire.get_result() or result
                        break
                while wire.get_result():
                    pass
                self.counts["statements"] += 1
                self.counts["answered"] += bool(cells)
                self.check(b" ".join([*cells, result.error_message]), statement)

    def check_health(self) -> None:
        """Raise an error unless the server answers, with the budget that it had."""
        if self.process.poll() is not None:
            raise AssertionError("the server has ended")
        if self.read_budget() != self.budget:
            raise AssertionError("the budget has changed")

    def stop(self) -> None:
        """End the server."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def fuzz(messages: int, statements: int, seed: int) -> Counter[str]:
    """Send so many messages and statements, and return what was counted."""
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        target = Target(make_folder(Path(folder)))
        try:
            for batch in range(-(-messages // BATCH)):
                target.send_batch(
                    [damage(build_message(generator), generator) for _ in range(BATCH)]
                )
                if batch % 20 == 0:
                    target.check_health()
            for start in range(0, statements, BATCH):
                target.run_statements(
                    [build_statement(generator) for _ in range(min(BATCH, statements - start))]
                )
            target.check_health()
        finally:
            target.stop()
    return target.counts


def main() -> None:
    """Fuzz a server, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--statements", type=int, default=20_000)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for counts in (
        fuzz(options.messages, options.statements, options.seed),
        fuzz_flight(options.commands, options.seed),
    ):
        print(", ".join(f"{count:,} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
